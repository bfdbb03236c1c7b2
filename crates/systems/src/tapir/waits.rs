//! Delayed prepares, which are executed in the order of their timestamps (§6.6).
//!
//! ```text
//!   Prepare at 20 ──▶ held ────────── due ──▶ 10, then 20
//!        Prepare at 10 ──▶ held ────────┘
//! ```
//!
//! Where clocks are far apart, proposals arrive out of the order of their timestamps, and a late
//! one is refused. A delay as long as the clock error avoids most refusals, and every transaction
//! takes that much longer.
//!
//! Delayed proposals are in memory only. A crash loses them like a lost message, and the session
//! repeats them.

use meridian_clock::Timestamp;
use meridian_machine::{Address, sometimes};
use meridian_replication::inconsistent::{Message as Said, OpId};
use meridian_txn::tapir::{ConsensusOp, ConsensusResult, InconsistentOp};
use std::collections::{BTreeMap, BTreeSet};

/// The most proposals to hold. Further ones are executed at once.
const MOST: usize = 4096;

/// A proposal, with its sender.
pub(super) type Proposed = (Address, Said<InconsistentOp, ConsensusOp, ConsensusResult>);

/// The proposals that are held, by timestamp.
#[derive(Default)]
pub(super) struct Waits {
    held: BTreeMap<(Timestamp, OpId), (u64, Proposed)>,
    /// The proposals by the boot clock time at which they are due.
    due: BTreeSet<(u64, Timestamp, OpId)>,
}

impl Waits {
    /// Holds a proposal until a boot clock time. A repeated proposal does not wait longer, and is
    /// answered to its newest sender. Returns the proposal if there is no room.
    pub(super) fn hold(
        &mut self,
        (at, id): (Timestamp, OpId),
        until: u64,
        proposed: Proposed,
    ) -> Option<Proposed> {
        if let Some((_, known)) = self.held.get_mut(&(at, id)) {
            *known = proposed;
            return None;
        }
        if self.held.len() >= MOST {
            return Some(proposed);
        }
        self.held.insert((at, id), (until, proposed));
        self.due.insert((until, at, id));
        None
    }

    /// Returns when the first proposal is due, by the boot clock.
    pub(super) fn next(&self) -> Option<u64> {
        self.due.first().map(|(until, ..)| *until)
    }

    /// Removes and returns the proposals that are due and all with lower timestamps, in the order
    /// of timestamps.
    pub(super) fn take(&mut self, now: u64) -> Vec<Proposed> {
        let due = self.due.iter().take_while(|(until, ..)| *until <= now);
        let Some(last) = due.map(|(_, at, id)| (*at, *id)).max() else { return Vec::new() };
        let mut taken = Vec::new();
        while let Some(first) = self.held.first_entry().filter(|first| *first.key() <= last) {
            let ((at, id), (until, proposed)) = first.remove_entry();
            self.due.remove(&(until, at, id));
            if until > now {
                sometimes!("a proposal that waits is looked at before one that came earlier");
            }
            taken.push(proposed);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::{DatabaseId, NodeId, ShardId};
    use meridian_replication::inconsistent::View;

    fn proposed(node: u32, view: u64) -> Proposed {
        let from = Address::replica(NodeId(node), DatabaseId(1), ShardId(0));
        (from, Said::Renew { view: View { number: view, ..View::default() } })
    }

    fn key(number: u64) -> (Timestamp, OpId) {
        (Timestamp::end_of(number), OpId { node: 9, incarnation: 1, number })
    }

    #[test]
    fn what_is_due_brings_what_is_below_it_and_nothing_above() {
        let mut waits = Waits::default();
        assert_eq!((waits.next(), waits.take(u64::MAX)), (None, Vec::new()));
        for (number, until) in [(20, 5), (30, 6), (10, 7)] {
            assert_eq!(waits.hold(key(number), until, proposed(1, number)), None);
        }
        assert_eq!((waits.next(), waits.take(4)), (Some(5), Vec::new()));
        assert_eq!(waits.take(5), [proposed(1, 10), proposed(1, 20)]);
        assert_eq!(waits.next(), Some(6));
        assert_eq!(waits.take(9), [proposed(1, 30)]);
        assert_eq!(waits.next(), None);
    }

    #[test]
    fn what_is_said_again_is_held_once_and_waits_no_longer() {
        let mut waits = Waits::default();
        assert_eq!(waits.hold(key(10), 5, proposed(1, 1)), None);
        assert_eq!(waits.hold(key(10), 8, proposed(2, 3)), None);
        assert_eq!(waits.take(5), [proposed(2, 3)]);
        assert_eq!((waits.next(), waits.take(8)), (None, Vec::new()));
    }

    #[test]
    fn no_more_are_held_than_there_is_room_for() {
        let mut waits = Waits::default();
        (0..MOST as u64)
            .for_each(|number| assert_eq!(waits.hold(key(number), 5, proposed(1, 1)), None));
        assert_eq!(waits.hold(key(MOST as u64), 5, proposed(1, 1)), Some(proposed(1, 1)));
        assert_eq!(waits.hold(key(7), 5, proposed(2, 1)), None, "a repetition needs no room");
        assert_eq!(waits.take(5).len(), MOST);
    }
}
