//! The judge of drawn timestamps: how far a timestamp may be from the true time of its event
//! (HybridTime, Theorem 2; Spanner §4.1.2, start).
//!
//! A leader draws a timestamp at the end of its clock's interval, or above a timestamp that it has
//! heard of. That one was drawn the same way, earlier. So:
//!
//! 1. No timestamp is above the greatest time that any clock had shown by then, whatever the clocks
//!    say. Errors do not add up along a chain of messages.
//! 2. If clocks keep their bounds, a timestamp is not below the true time of its draw, and above it
//!    by at most the widest interval that any clock had shown: twice the largest error.
//!
//! Where a logical part is used up, a timestamp goes on in the next nanosecond.

use meridian_clock::Timestamp;

/// A timestamp that a leader drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The timestamp.
    pub at: Timestamp,
    /// The true time of the draw, in nanoseconds.
    pub true_ns: u64,
    /// The greatest time that any clock had shown, in nanoseconds.
    pub shown_ns: u64,
    /// The widest interval that any clock had shown, in nanoseconds.
    pub widest_ns: u64,
}

/// How far a timestamp may go on where its logical part is used up, in nanoseconds.
const NEXT_NS: u64 = 1;

/// Judges the draws of a run. With `true_time`, clocks have kept their bounds of true time.
pub fn judge(draws: &[Draw], true_time: bool) -> Result<(), String> {
    for Draw { at, true_ns, shown_ns, widest_ns } in draws {
        let ahead_ns = at.nanos.saturating_sub(*true_ns);
        if at.nanos > shown_ns + NEXT_NS {
            return Err(format!(
                "{at} was drawn at {true_ns}, when no clock had shown a time above {shown_ns}"
            ));
        }
        if true_time && at.nanos < *true_ns {
            return Err(format!("{at} was drawn at {true_ns}, and is below that"));
        }
        if true_time && ahead_ns > widest_ns + NEXT_NS {
            return Err(format!(
                "{at} was drawn at {true_ns}, and is {ahead_ns} ns ahead; twice the largest error is {widest_ns} ns"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(nanos: u64) -> Draw {
        let at = Timestamp { nanos, ..Timestamp::ZERO };
        Draw { at, true_ns: 1_000, shown_ns: 1_008, widest_ns: 10 }
    }

    #[test]
    fn a_timestamp_is_between_its_event_and_what_clocks_have_shown() {
        assert_eq!(judge(&[draw(1_000), draw(1_009)], true), Ok(()));
        let why = judge(&[draw(1_000), draw(999)], true).expect_err("late");
        assert!(why.contains("below"), "{why}");
        assert_eq!(judge(&[draw(999)], false), Ok(()), "clocks that lie may be late");
        let why = judge(&[draw(1_010)], false).expect_err("no clock has shown it");
        assert!(why.contains("no clock"), "{why}");
        let wide = Draw { shown_ns: 2_000, ..draw(1_012) };
        assert_eq!(judge(&[wide], false), Ok(()));
        let why = judge(&[wide], true).expect_err("further ahead than clocks err");
        assert!(why.contains("12 ns ahead"), "{why}");
    }
}
