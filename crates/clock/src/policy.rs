//! Timestamp policies: the timestamps that a leader draws, and when they become visible.

use crate::rules;
use crate::{Reading, Timestamp};
use meridian_machine::planted::broken;
use std::fmt::Debug;

/// The way in which a protocol derives an order of transactions from clock readings.
///
/// A shard's timestamps grow in the order of its log under every policy; a policy determines how
/// they relate to time.
pub trait TimestampPolicy: Debug + Send + Sync + 'static {
    /// Returns the time, in nanoseconds since the epoch, at or above which the next timestamp is
    /// drawn.
    fn next_ns(&self, now: Reading) -> u64 {
        now.interval.latest
    }
    /// Returns the timestamp of a snapshot that has everything that was acknowledged before now.
    /// The snapshot guarantees nothing above it.
    fn present(&self, now: Reading) -> Timestamp {
        Timestamp { nanos: now.interval.latest, ..Timestamp::ZERO }
    }
    /// True if a version with this timestamp may become visible.
    fn is_visible(&self, now: Reading, at: Timestamp) -> bool;
    /// Returns the time until it may become visible, in nanoseconds, if clocks run at their nominal
    /// rate.
    fn wait_ns(&self, now: Reading, at: Timestamp) -> u64;
    /// True if versions may become visible before their timestamps have surely passed.
    fn shows_early(&self) -> bool;
    /// True if a timestamp in a message moves the receiver's time forward, so that later events
    /// there have greater timestamps (HybridTime's `Update`).
    fn adopts(&self) -> bool;
    /// True if commits are at timestamps of the database's authority. All other timestamps are then
    /// just above those that the leader has drawn or adopted.
    fn asks_authority(&self) -> bool {
        false
    }
    /// True if coordinators choose the timestamps of transactions, when these begin. A leader's own
    /// timestamps are then only those of commands about its shard.
    fn is_of_start(&self) -> bool {
        false
    }
}

/// Spanner's policy: a timestamp is not below the time at which it is drawn, and becomes visible
/// once it has surely passed (commit wait, §4.1.2). So the order of transactions is that of real
/// time.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrueTime;

impl TimestampPolicy for TrueTime {
    fn is_visible(&self, now: Reading, at: Timestamp) -> bool {
        broken(rules::COMMIT_WAIT) || now.interval.after(at.nanos)
    }

    fn wait_ns(&self, now: Reading, at: Timestamp) -> u64 {
        at.nanos.saturating_sub(now.interval.earliest)
    }

    fn shows_early(&self) -> bool {
        false
    }

    fn adopts(&self) -> bool {
        false
    }
}

/// K2's policy: coordinators draw the timestamps of transactions, and wait until they have surely
/// passed before a commit is decided (K2 §4). A leader draws those of its shard's commands as under
/// [`TrueTime`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AtStart;

impl TimestampPolicy for AtStart {
    fn is_visible(&self, now: Reading, at: Timestamp) -> bool {
        TrueTime.is_visible(now, at)
    }

    fn wait_ns(&self, now: Reading, at: Timestamp) -> u64 {
        TrueTime.wait_ns(now, at)
    }

    fn shows_early(&self) -> bool {
        false
    }

    fn adopts(&self) -> bool {
        false
    }

    fn is_of_start(&self) -> bool {
        true
    }
}

/// Clock-SI's policy: a commit is visible once it is agreed, and no message moves a clock: a
/// shard that is asked for a snapshot above its clock waits (Algorithm 1, line 22).
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalClock;

impl TimestampPolicy for LocalClock {
    fn is_visible(&self, _: Reading, _: Timestamp) -> bool {
        true
    }

    fn wait_ns(&self, _: Reading, _: Timestamp) -> u64 {
        0
    }

    fn shows_early(&self) -> bool {
        true
    }

    fn adopts(&self) -> bool {
        false
    }
}

/// The policy of conventional snapshot isolation: the timestamps of snapshots and of commits are
/// those of one authority, and no leader's clock counts. A leader adopts the timestamps of
/// messages, so that no read waits. Nearly all of these are the authority's; a client's token and a
/// schema change may be another's, and then the leader names them in its next request to the
/// authority, which hands out timestamps above them.
#[derive(Clone, Copy, Debug, Default)]
pub struct FromAuthority;

impl TimestampPolicy for FromAuthority {
    /// Above every timestamp that means none.
    fn next_ns(&self, _: Reading) -> u64 {
        1
    }

    /// Only what was adopted is known to be present.
    fn present(&self, _: Reading) -> Timestamp {
        Timestamp::ZERO
    }

    fn is_visible(&self, _: Reading, _: Timestamp) -> bool {
        true
    }

    fn wait_ns(&self, _: Reading, _: Timestamp) -> u64 {
        0
    }

    fn shows_early(&self) -> bool {
        true
    }

    fn adopts(&self) -> bool {
        true
    }

    fn asks_authority(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::Interval;

    #[test]
    fn a_timestamp_is_shown_once_every_clock_has_passed_it() {
        let now = Reading::at(0, Interval { earliest: 90, latest: 110 });
        let at = Timestamp { nanos: TrueTime.next_ns(now), ..Timestamp::ZERO };
        assert_eq!((at, TrueTime.present(now)), (TrueTime.present(now), at));
        assert!(!TrueTime.is_visible(now, at));
        let waited = TrueTime.wait_ns(now, at) + 1;
        let then = Reading::at(waited, Interval { earliest: 90 + waited, latest: 110 + waited });
        assert!(TrueTime.is_visible(then, at));
        assert_eq!(TrueTime.wait_ns(then, at), 0);
    }
}
