//! The timestamp authority: one process that issues all timestamps, as in conventional snapshot
//! isolation (Clock-SI §2, the baseline of the comparison).
//!
//! The order of transactions is that of the answers, so that it does not depend on a correct clock.
//! The authority follows a clock so that a timestamp tells the time. Invariants: no timestamp is
//! issued twice or after a greater one, in all incarnations together; every issued timestamp is at
//! or below a ceiling that was durable before.

use crate::{Issuer, Timestamp};
use minicbor::{Decode, Encode};

/// The maximum number of timestamps that are issued at once.
pub const LARGEST_BATCH: u32 = 1 << 16;

/// A batch of consecutive timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Stamps {
    /// The first one.
    #[n(0)]
    pub first: Timestamp,
    /// The number of timestamps.
    #[n(1)]
    pub count: u32,
}

impl Iterator for Stamps {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        self.count = self.count.checked_sub(1)?;
        let next = self.first;
        self.first = next.successor();
        Some(next)
    }
}

/// The timestamp authority.
#[derive(Clone, Copy, Debug)]
pub struct Authority {
    issuer: Issuer,
}

impl Authority {
    /// Creates an authority that issues above everything that its former incarnations may have
    /// issued.
    pub fn above(issuer: u32, floor: u64) -> Authority {
        Authority { issuer: Issuer::above(issuer, Timestamp::end_of(floor)) }
    }

    /// Allows timestamps up to `nanos`: the ceiling is durable.
    pub fn raise_ceiling(&mut self, nanos: u64) {
        self.issuer.raise_ceiling(nanos);
    }

    /// Issues `count` timestamps, above all former ones and not below `at_least`; `None` if a
    /// higher ceiling must be made durable first.
    pub fn hand_out(&mut self, at_least: u64, count: u32) -> Option<Stamps> {
        let count = count.clamp(1, LARGEST_BATCH);
        let mut issuer = self.issuer;
        let first = issuer.issue(at_least).ok()?;
        // The logical part counts them, and overflows into the next nanosecond.
        let last = match first.logical.checked_add(count - 1) {
            Some(logical) => Timestamp { logical, ..first },
            None => Timestamp { nanos: first.nanos + 1, logical: count, ..first },
        };
        if last.nanos > issuer.ceiling() {
            return None;
        }
        issuer.observe(last);
        self.issuer = issuer;
        Some(Stamps { first, count })
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
            let mut authority = Authority::above(9, ceiling);
            for _ in 0..200 {
                // The clock moves in either direction.
                clock = clock.saturating_add_signed(rng.random_range(-50..100));
                let Some(stamps) =
                    authority.hand_out(clock, [1, 1, 5, u32::MAX][rng.random_range(0..4)])
                else {
                    ceiling = ceiling.max(clock) + rng.random_range(0..500);
                    authority.raise_ceiling(ceiling);
                    continue;
                };
                assert!(stamps.count <= LARGEST_BATCH);
                let first = stamps.first;
                assert!(first > last, "{first} after {last}");
                last = stamps.last().expect("at least one");
                assert!(last >= first && last.nanos <= ceiling);
            }
        }
    }

    #[test]
    fn a_batch_flows_over_into_the_next_nanosecond() {
        let mut authority = Authority::above(1, 0);
        authority.raise_ceiling(10);
        for _ in 0..(u32::MAX / LARGEST_BATCH) {
            authority.hand_out(5, LARGEST_BATCH).expect("below the ceiling");
        }
        let before = authority.hand_out(5, LARGEST_BATCH - 10).expect("below the ceiling");
        let over = authority.hand_out(5, 100).expect("below the ceiling");
        assert!(before.last().expect("some") < over.first);
        let all: Vec<Timestamp> = over.collect();
        assert_eq!((all[0].nanos, all[99].nanos), (5, 6));
        let next = authority.hand_out(5, 1).expect("below the ceiling");
        assert!(next.first > all[99], "{} after {}", next.first, all[99]);
    }
}
