//! Timestamps that coordinators draw for themselves, where no leader assigns them.

use meridian_clock::Timestamp;
use meridian_machine::{Incarnation, NodeId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The timestamps that one node draws for one database. A timestamp names node and incarnation, and
/// its nanoseconds grow in each incarnation: so it is unique for ever without anything on disk.
#[derive(Clone, Debug, Default)]
pub struct Stamps {
    /// The nanoseconds of the newest one.
    drawn: Arc<AtomicU64>,
}

impl Stamps {
    /// Draws a unique timestamp at or above `least_ns`, nanoseconds since the epoch.
    pub fn draw(&self, (node, incarnation): (NodeId, Incarnation), least_ns: u64) -> Timestamp {
        let next = |last: u64| least_ns.max(last.saturating_add(1));
        let last =
            self.drawn.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        Timestamp { nanos: next(last.unwrap_or_default()), logical: incarnation.0, issuer: node.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_timestamp_is_drawn_twice_and_each_is_above_what_it_has_to_be() {
        let (stamps, here) = (Stamps::default(), (NodeId(3), Incarnation(7)));
        let drawn: Vec<u64> = [50, 50, 20, 60, 55]
            .iter()
            .map(|least| stamps.clone().draw(here, *least).nanos)
            .collect();
        assert_eq!(drawn, [50, 51, 52, 60, 61]);
        assert_eq!(stamps.draw(here, 0), Timestamp { nanos: 62, logical: 7, issuer: 3 });
    }
}
