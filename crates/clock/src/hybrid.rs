//! The hybrid clock: physical where possible, logical where necessary (HybridTime §3, Algorithms 1
//! and 2, repaired).
//!
//! A shard's [`Issuer`](crate::Issuer) is the clock of Algorithm 2: `issue` is `Now`, `observe` is
//! `Update`. As printed, `Now` issues the same timestamp twice within a tick, and a smaller one
//! after a message (Traps A.4-1, A.4-2); an issuer's next timestamp is above everything that it
//! issued or observed. It stalls at its ceiling, and goes on in the next nanosecond where the
//! logical part is used up (Traps A.4-4, A.4-5).
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

use crate::{Interval, Reading, Timestamp, TimestampPolicy, rules};
use meridian_machine::planted::broken;

/// HybridTime's policy: a commit is visible once it is agreed, and timestamps in messages move the
/// receiver's time forward. So the order of transactions is that of the messages between them, and
/// of real time where they are further apart than twice a clock's error.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hybrid;

impl TimestampPolicy for Hybrid {
    fn next_ns(&self, now: Reading) -> u64 {
        let Interval { earliest, latest } = now.interval;
        let middle = || earliest + (latest - earliest) / 2;
        if broken(rules::DRAWN_AT_THE_MIDDLE) { middle() } else { latest }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Issuer;
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

    /// The printed Algorithm 2 issues one timestamp three times in a tick, and a smaller one after
    /// an older message.
    #[test]
    fn a_tick_has_many_timestamps_and_no_message_sets_the_clock_back() {
        let (mut one, tick) = (clock(1), reading(99_990, 100_000));
        let now = |one: &mut Issuer| one.issue(Hybrid.next_ns(tick)).expect("no ceiling");
        let three = [(); 3].map(|()| now(&mut one));
        assert!(three[0] < three[1] && three[1] < three[2], "Trap A.4-1: {three:?}");
        for _ in 0..9 {
            now(&mut one);
        }
        let last = now(&mut one);
        one.observe(Timestamp { nanos: 100_000, logical: 2, issuer: 2 });
        assert!(now(&mut one) > last, "Trap A.4-2");
        let newer = Timestamp { nanos: 100_000, logical: 50, issuer: 2 };
        one.observe(newer);
        assert!(now(&mut one) > newer);
    }

    #[test]
    fn it_does_not_wrap_and_stalls_at_its_ceiling() {
        let spent = Timestamp { nanos: 100_000, logical: u32::MAX, issuer: 1 };
        let mut one = Issuer::above(1, spent);
        let issue = |one: &mut Issuer, latest| one.issue(Hybrid.next_ns(reading(0, latest)));
        issue(&mut one, 100_001).expect_err("a former incarnation may have issued it");
        one.raise_ceiling(100_001);
        let next = issue(&mut one, 99_000).expect("the next nanosecond");
        assert_eq!((next.nanos, next.logical), (100_001, 0), "Trap A.4-5");
        issue(&mut one, 100_002).expect_err("Trap A.4-4");
    }

    /// The seven events of Figure 1 with its timestamps. The figure does not show the clocks'
    /// readings and the messages, which are ours: to send is an event of its own (§3.2).
    #[test]
    fn the_events_of_figure_1() {
        let mut clocks = [clock(1), clock(2), clock(3)];
        let mut event = |at: usize, physical: u64, heard: &[Timestamp]| {
            heard.iter().for_each(|heard| clocks[at].observe(*heard));
            let reading = reading(physical - 3, physical);
            clocks[at].issue(Hybrid.next_ns(reading)).expect("below its ceiling")
        };
        let e1 = event(0, 100, &[]);
        let e2 = event(1, 102, &[e1]);
        let e3 = event(2, 103, &[e2]);
        // The second process is ahead and sends. The others follow it while their clocks are
        // behind.
        let ahead = event(1, 108, &[e3]);
        let e4 = event(0, 104, &[ahead]);
        let e6 = event(2, 105, &[ahead]);
        let e5 = event(1, 106, &[e4, e6]);
        // Its clock has caught up, and its timestamp is physical again. The first process passes
        // that on.
        let sent = event(1, 110, &[e5]);
        let passed_on = event(0, 107, &[sent]);
        let e7 = event(2, 109, &[passed_on, e6]);
        let parts = |at: Timestamp| (at.nanos, at.logical);
        assert_eq!([e1, e2, e3].map(parts), [(100, 0), (102, 0), (103, 0)]);
        assert_eq!([e4, e5, e6].map(parts), [(108, 1), (108, 2), (108, 1)]);
        assert_eq!([ahead, sent, e7].map(parts), [(108, 0), (110, 0), (110, 2)]);
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
