//! The timestamp authority: one place that hands out all timestamps, as conventional snapshot
//! isolation has it (Clock-SI §2, the baseline it is compared with).
//!
//! Order is the order of the answers, so that it needs no clock to be right; it follows one, so
//! that a timestamp says when it was. Invariants: no timestamp is handed out twice or after a
//! greater one, in all lives together; everything handed out is at or below a ceiling that was
//! durable before.

use crate::{Issuer, Timestamp};
use minicbor::{Decode, Encode};

/// So many timestamps are handed out at once, at most.
pub const LARGEST_BATCH: u32 = 1 << 16;

/// Timestamps that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Stamps {
    /// The first one.
    #[n(0)]
    pub first: Timestamp,
    /// How many.
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

/// The authority.
#[derive(Clone, Copy, Debug)]
pub struct Authority {
    issuer: Issuer,
}

impl Authority {
    /// One that hands out above everything that its former lives may have handed out.
    pub fn above(issuer: u32, floor: u64) -> Authority {
        Authority { issuer: Issuer::above(issuer, Timestamp::end_of(floor)) }
    }

    /// Everything up to there may be handed out: it is durable that it may.
    pub fn raise_ceiling(&mut self, nanos: u64) {
        self.issuer.raise_ceiling(nanos);
    }

    /// So many timestamps, above everything before, and not before `at_least`; nothing, if a
    /// ceiling has to be made durable first.
    pub fn hand_out(&mut self, at_least: u64, count: u32) -> Option<Stamps> {
        let count = count.clamp(1, LARGEST_BATCH);
        let mut issuer = self.issuer;
        let first = issuer.issue(at_least).ok()?;
        // The logical part counts them, and flows over into the next nanosecond.
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
                // The clock goes where it likes.
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
