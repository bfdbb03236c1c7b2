//! The hybrid clock: physical where possible, logical where necessary (HybridTime §3, Algorithms 1
//! and 2, repaired).
//!
//! A shard's [`Issuer`](crate::Issuer) is the clock of Algorithm 2: `issue` is `Now`, `observe` is
//! `Update`. As printed, `Now` issues the same timestamp twice within a tick, and a smaller one
//! after a message (Traps A.4-1, A.4-2); an issuer's next timestamp is above everything that it
//! issued or observed. It stalls at its ceiling, and does not wrap (Traps A.4-4, A.4-5).
//!
//! The physical part is the end of the clock's interval. It may be any clock with a known error,
//! and this one is late by none (Theorem 2):
//!
//! 1. A timestamp is not below the true time of its event.
//! 2. It is above that by at most twice the error of the node whose clock was read.
//!
//! So an event that happens after `now.earliest` has passed a timestamp, at any node, has a greater
//! one. With the middle of the interval that would also depend on the error of the later event's
//! clock, which the waiting node does not know (docs/decisions/2026-11-26-hybrid-time.md).

use crate::{Reading, Timestamp, TimestampPolicy};

/// HybridTime's policy: a commit is visible once it is agreed, and timestamps in messages move the
/// receiver's time forward. So the order of transactions is that of the messages between them, and
/// of real time where they are further apart than twice a clock's error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hybrid;

impl TimestampPolicy for Hybrid {
    fn is_visible(&self, _: Reading, _: Timestamp) -> bool {
        true
    }

    fn wait_ns(&self, _: Reading, _: Timestamp) -> u64 {
        0
    }

    fn adopts(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Issuer;
    use meridian_machine::Interval;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn clock(issuer: u32) -> Issuer {
        let mut clock = Issuer::above(issuer, Timestamp::ZERO);
        clock.raise_ceiling(u64::MAX);
        clock
    }

    fn reading(earliest: u64, latest: u64) -> Reading {
        Reading::at(latest, Interval { earliest, latest })
    }

    /// The seven events of Figure 1, with the clocks' readings and the messages between the
    /// processes. The paper numbers logical parts from 0 for a fresh physical part, as here.
    #[test]
    fn the_events_of_figure_1() {
        let mut clocks = [clock(1), clock(2), clock(3)];
        let event = |clocks: &mut [Issuer; 3], at: usize, physical: u64, heard: &[Timestamp]| {
            heard.iter().for_each(|heard| clocks[at].observe(*heard));
            let reading = reading(physical - 3, physical);
            clocks[at].issue(Hybrid.next_ns(reading)).expect("below its ceiling")
        };
        let e1 = event(&mut clocks, 0, 100, &[]);
        let e2 = event(&mut clocks, 1, 102, &[e1]);
        let e3 = event(&mut clocks, 2, 103, &[e2]);
        // The second process was fast at e4, and the others follow it.
        let sent = event(&mut clocks, 1, 108, &[]);
        let e4 = event(&mut clocks, 1, 108, &[]);
        let e5 = event(&mut clocks, 0, 104, &[e4]);
        let e6 = event(&mut clocks, 2, 105, &[sent]);
        let e7 = event(&mut clocks, 2, 110, &[e5]);
        let parts = |at: Timestamp| (at.nanos, at.logical);
        assert_eq!([e1, e2, e3].map(parts), [(100, 0), (102, 0), (103, 0)]);
        assert_eq!([e4, e6].map(|at| at.nanos), [108, 108]);
        assert!(e4 < e5 && e5.nanos == 108, "{e5} follows {e4}, and its clock is behind");
        assert_eq!(e7.nanos, 110, "a clock that has caught up is physical again");
    }

    /// Checks happened-before and Theorem 2 for nodes whose clocks are wrong within their errors.
    #[test]
    fn chains_are_ordered_and_errors_do_not_add_up() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let nodes = rng.random_range(2..6);
            let mut clocks: Vec<Issuer> = (0..nodes).map(clock).collect();
            let offsets: Vec<i64> = (0..nodes).map(|_| rng.random_range(-400..=400)).collect();
            let mut true_ns: u64 = 1_000_000;
            let (mut said, mut widest) = (Vec::<Timestamp>::new(), 0);
            for _ in 0..400 {
                true_ns += rng.random_range(0..50);
                let node = rng.random_range(0..nodes) as usize;
                // The claimed error is never below the true one.
                let error_ns = offsets[node].unsigned_abs() + rng.random_range(0..100);
                widest = error_ns.max(widest);
                let middle = true_ns.saturating_add_signed(offsets[node]);
                let now = reading(middle - error_ns, middle + error_ns);
                let mut after = None;
                if !said.is_empty() && rng.random_bool(0.6) {
                    let heard = said[rng.random_range(0..said.len())];
                    clocks[node].observe(heard);
                    after = Some(heard);
                }
                let event = clocks[node].issue(Hybrid.next_ns(now)).expect("below its ceiling");
                assert!(after.is_none_or(|after| after < event), "seed {seed}: happened before");
                assert!(event.nanos >= true_ns, "seed {seed}: behind its event");
                assert!(event.nanos <= true_ns + 2 * widest, "seed {seed}: too far ahead");
                assert!(said.iter().all(|other| *other != event), "seed {seed}: twice");
                // Whatever has surely passed anywhere is below every later event.
                let passed = said.iter().filter(|at| now.interval.after(at.nanos));
                assert!(passed.clone().all(|at| *at < event), "seed {seed}: external order");
                said.push(event);
            }
        }
    }
}
