//! What a leader does with a clock: which timestamps it draws, and when they may be shown.

use crate::rules;
use crate::{Reading, Timestamp};
use meridian_machine::planted::broken;

/// How a protocol turns readings of a clock into an order of transactions.
///
/// A shard's timestamps grow in the order of its log, whichever policy it has; a policy says how
/// they relate to time.
pub trait TimestampPolicy: Copy + Default + Send + Sync + 'static {
    /// The time, in nanoseconds since the epoch, at or above which the next timestamp is drawn.
    fn next_ns(now: Reading) -> u64;
    /// The timestamp of a snapshot that has everything that was acknowledged before now: nothing
    /// above it is promised.
    fn present(now: Reading) -> Timestamp;
    /// Whether what has this timestamp may be shown.
    fn is_visible(now: Reading, at: Timestamp) -> bool;
    /// How long it is until it may be shown, in nanoseconds, if clocks run as they should.
    fn wait_ns(now: Reading, at: Timestamp) -> u64;
}

/// Spanner's: a timestamp is not below the time at which it is drawn, and is shown once it has
/// surely passed (commit wait, §4.1.2). So transactions have the order of real time.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrueTime;

impl TimestampPolicy for TrueTime {
    fn next_ns(now: Reading) -> u64 {
        now.interval.latest
    }

    fn present(now: Reading) -> Timestamp {
        Timestamp { nanos: now.interval.latest, ..Timestamp::ZERO }
    }

    fn is_visible(now: Reading, at: Timestamp) -> bool {
        broken(rules::COMMIT_WAIT) || now.interval.after(at.nanos)
    }

    fn wait_ns(now: Reading, at: Timestamp) -> u64 {
        at.nanos.saturating_sub(now.interval.earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::Interval;

    #[test]
    fn a_timestamp_is_shown_once_every_clock_has_passed_it() {
        let now = Reading::at(0, Interval { earliest: 90, latest: 110 });
        let at = Timestamp { nanos: TrueTime::next_ns(now), ..Timestamp::ZERO };
        assert_eq!((at, TrueTime::present(now)), (TrueTime::present(now), at));
        assert!(!TrueTime::is_visible(now, at));
        let waited = TrueTime::wait_ns(now, at) + 1;
        let then = Reading::at(waited, Interval { earliest: 90 + waited, latest: 110 + waited });
        assert!(TrueTime::is_visible(then, at));
        assert_eq!(TrueTime::wait_ns(then, at), 0);
    }
}
