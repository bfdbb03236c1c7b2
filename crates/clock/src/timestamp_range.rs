//! Ranges of timestamps that an authority hands out: one issuer of all timestamps, as in
//! conventional snapshot isolation (Clock-SI §II, the baseline of the comparison).
//!
//! The order of transactions is that of the answers, so that it does not depend on a correct clock.
//! The authority follows a clock so that a timestamp tells the time. Invariants: no timestamp is
//! issued twice or after a greater one, in all incarnations together; every timestamp that is
//! handed out is at or below a ceiling that was durable before.

use crate::{CeilingReached, Issuer, Timestamp};
use minicbor::{Decode, Encode};

/// The maximum number of timestamps that are handed out at once.
pub const LONGEST_RANGE: u32 = 1 << 16;

/// Consecutive timestamps of one issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TimestampRange {
    /// The first one.
    #[n(0)]
    pub first: Timestamp,
    /// The number of timestamps.
    #[n(1)]
    pub count: u32,
}

impl Iterator for TimestampRange {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        self.count = self.count.checked_sub(1)?;
        let next = self.first;
        self.first = next.successor();
        Some(next)
    }
}

impl Issuer {
    /// Issues `count` timestamps, above all former ones and not below `at_least` nanoseconds. The
    /// last one is at or below `durable`, too; otherwise none is issued, and a higher ceiling must
    /// be made durable first.
    pub fn hand_out(
        &mut self,
        at_least: u64,
        count: u32,
        durable: Timestamp,
    ) -> Result<TimestampRange, CeilingReached> {
        let count = count.clamp(1, LONGEST_RANGE);
        let mut issuer = *self;
        let first = issuer.issue(at_least)?;
        // The logical part counts them, and overflows into the next nanosecond.
        let last = match first.logical.checked_add(count - 1) {
            Some(logical) => Timestamp { logical, ..first },
            None => Timestamp { nanos: first.nanos + 1, logical: count, ..first },
        };
        if last.nanos > issuer.ceiling() || last > durable {
            return Err(CeilingReached);
        }
        issuer.observe(last);
        *self = issuer;
        Ok(TimestampRange { first, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    #[test]
    fn nothing_is_handed_out_twice_or_backwards_in_any_life() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let (mut ceiling, mut clock) = (0u64, 1_000u64);
        let mut last = Timestamp::ZERO;
        for _ in 0..50 {
            let mut authority = Issuer::above(9, Timestamp::end_of(ceiling));
            authority.raise_ceiling(u64::MAX);
            for _ in 0..200 {
                // The clock moves in either direction.
                clock = clock.saturating_add_signed(rng.random_range(-50..100));
                let count = [1, 1, 5, u32::MAX][rng.random_range(0..4)];
                let durable = Timestamp::end_of(ceiling);
                let Ok(range) = authority.hand_out(clock, count, durable) else {
                    ceiling = ceiling.max(clock) + rng.random_range(0..500);
                    continue;
                };
                assert!(range.count <= LONGEST_RANGE);
                let first = range.first;
                assert!(first > last, "{first} after {last}");
                last = range.last().expect("at least one");
                assert!(last >= first && last.nanos <= ceiling);
            }
        }
    }

    #[test]
    fn a_range_flows_over_into_the_next_nanosecond() {
        let (mut authority, durable) = (Issuer::above(1, Timestamp::ZERO), Timestamp::end_of(10));
        authority.raise_ceiling(10);
        let mut hand_out = |count| authority.hand_out(5, count, durable).expect("below it");
        for _ in 0..(u32::MAX / LONGEST_RANGE) {
            hand_out(LONGEST_RANGE);
        }
        let before = hand_out(LONGEST_RANGE - 10);
        let over = hand_out(100);
        assert!(before.last().expect("some") < over.first);
        let all: Vec<Timestamp> = over.collect();
        assert_eq!((all[0].nanos, all[99].nanos), (5, 6));
        let next = hand_out(1);
        assert!(next.first > all[99], "{} after {}", next.first, all[99]);
    }
}
