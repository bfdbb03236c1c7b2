//! The hybrid clock: physical where possible, logical where necessary (HybridTime §3, Algorithms 1
//! and 2, repaired).
//!
//! Algorithm 2 as printed issues the same timestamp twice within a tick, and a smaller one after a
//! message (Traps A.4-1, A.4-2). Here a timestamp is always above the last one that was issued or
//! received.
//!
//! 1. An event that happened before another has the smaller timestamp, along every chain of
//!    messages.
//! 2. `error_ns` comes from the node that read the physical part off a clock. The timestamp is
//!    ahead of its event by at most that, and behind by at most the error of the node where the
//!    event happened (Theorem 2).
//! 3. A timestamp that cannot be true yet is refused, with the name of the node that sent it:
//!    adopted, it would spread to every node for ever (Trap A.4-3).
//! 4. When the logical part is used up the clock stalls until the physical one has moved (Trap
//!    A.4-5); above the ceiling it stalls until that is raised durably (Trap A.4-4).

use crate::{Issuer, Timestamp};
use meridian_machine::{NodeId, Reading};
use minicbor::{Decode, Encode};

/// A timestamp, and the maximum by which it may be ahead of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Hybrid {
    /// The timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// The error of the clock that its physical part was read off.
    #[n(1)]
    pub error_ns: u64,
}

/// The reason why no timestamp can be issued now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stalled {
    /// The logical part is used up: the caller must wait until the physical clock has moved.
    #[error(
        "more than {} timestamps in one nanosecond: wait until the physical clock has moved",
        u32::MAX
    )]
    Logical,
    /// A higher ceiling must be made durable first.
    #[error("the reserved timestamps are used up: a higher ceiling must be made durable first")]
    Ceiling,
}

/// The reason why a received timestamp is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The event cannot have happened yet: the sender's clock or this node's is wrong.
    #[error("node {} sent a timestamp that is {ahead_ns} ns ahead of the latest possible time: check its clock and this node's", .from.0)]
    Future {
        /// The sender.
        from: NodeId,
        /// The distance by which it is ahead of the latest possible time, in nanoseconds.
        ahead_ns: u64,
    },
    /// The claimed error is too large: any timestamp would be possible with it.
    #[error("node {} sent a timestamp with an error of {error_ns} ns, above the limit of {limit_ns} ns: check its clock", .from.0)]
    Wide {
        /// The sender.
        from: NodeId,
        /// The claimed error.
        error_ns: u64,
        /// The largest accepted error.
        limit_ns: u64,
    },
}

/// The hybrid clock of a node.
#[derive(Clone, Copy, Debug)]
pub struct HybridClock {
    issuer: Issuer,
    /// The error of the clock that the newest physical part was read off.
    error_ns: u64,
    /// The largest accepted error.
    widest_ns: u64,
}

impl HybridClock {
    /// Creates a clock above `floor`: the greatest timestamp of its log, and the ceiling of its
    /// former incarnation. No timestamp is issued until a ceiling is raised.
    pub fn above(issuer: u32, floor: Hybrid, widest_ns: u64) -> HybridClock {
        HybridClock { issuer: Issuer::above(issuer, floor.at), error_ns: floor.error_ns, widest_ns }
    }

    /// Allows timestamps up to `nanos`: the ceiling is durable.
    pub fn raise_ceiling(&mut self, nanos: u64) {
        self.issuer.raise_ceiling(nanos);
    }

    /// Returns the timestamp of an event that happens here and now.
    pub fn now(&mut self, now: Reading) -> Result<Hybrid, Stalled> {
        let error_ns = now.interval.half_width_ns();
        let physical = now.interval.earliest + error_ns;
        let last = self.issuer.last();
        if physical <= last.nanos && last.logical == u32::MAX {
            return Err(Stalled::Logical);
        }
        let at = self.issuer.issue(physical).map_err(|_| Stalled::Ceiling)?;
        if at.nanos > last.nanos {
            self.error_ns = error_ns;
        }
        Ok(Hybrid { at, error_ns: self.error_ns })
    }

    /// Takes a received timestamp: every event here is after it from now on.
    pub fn receive(&mut self, now: Reading, from: NodeId, heard: Hybrid) -> Result<(), Refused> {
        let Hybrid { at, error_ns } = heard;
        let limit_ns = self.widest_ns;
        if error_ns > limit_ns {
            return Err(Refused::Wide { from, error_ns, limit_ns });
        }
        let possible = now.interval.latest.saturating_add(error_ns);
        if at.nanos > possible {
            return Err(Refused::Future { from, ahead_ns: at.nanos - possible });
        }
        if at > self.issuer.last() {
            if at.nanos > self.issuer.last().nanos {
                self.error_ns = error_ns;
            }
            self.issuer.observe(at);
        }
        // Of two timestamps with the same physical part both errors are true, so the smaller one is
        // kept.
        if at.nanos == self.issuer.last().nanos {
            self.error_ns = self.error_ns.min(error_ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::Interval;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const NOTHING: Hybrid = Hybrid { at: Timestamp::ZERO, error_ns: 0 };

    fn reading(nanos: u64, error_ns: u64) -> Reading {
        Reading::at(nanos, Interval::around(nanos, error_ns))
    }

    fn clock(issuer: u32) -> HybridClock {
        let mut clock = HybridClock::above(issuer, NOTHING, 1_000);
        clock.raise_ceiling(u64::MAX);
        clock
    }

    #[test]
    fn what_is_printed_in_the_paper_is_not_what_happens() {
        let mut one = clock(1);
        let tick = reading(100_000, 10);
        let three = [(); 3].map(|()| one.now(tick).unwrap().at);
        assert!(
            three[0] < three[1] && three[1] < three[2],
            "three timestamps of one tick differ (Trap A.4-1)"
        );
        for _ in 0..9 {
            one.now(tick).unwrap();
        }
        let last = one.now(tick).unwrap();
        let older =
            Hybrid { at: Timestamp { nanos: 100_000, logical: 2, issuer: 2 }, error_ns: 10 };
        one.receive(tick, NodeId(2), older).unwrap();
        assert!(
            one.now(tick).unwrap().at > last.at,
            "an older timestamp does not set the clock back (Trap A.4-2)"
        );
        let newer =
            Hybrid { at: Timestamp { nanos: 100_000, logical: 50, issuer: 2 }, error_ns: 10 };
        one.receive(tick, NodeId(2), newer).unwrap();
        assert!(one.now(tick).unwrap().at > newer.at);
    }

    #[test]
    fn the_far_future_is_refused_by_name_and_leaves_nothing_behind() {
        let mut one = clock(1);
        let before = one.now(reading(100_000, 10)).unwrap();
        let poison =
            Hybrid { at: Timestamp { nanos: 100_500, logical: 0, issuer: 2 }, error_ns: 10 };
        let refused = one.receive(reading(100_001, 10), NodeId(2), poison);
        assert_eq!(refused, Err(Refused::Future { from: NodeId(2), ahead_ns: 479 }));
        let vague = Hybrid { error_ns: 1_001, ..poison };
        assert!(matches!(
            one.receive(reading(100_001, 10), NodeId(2), vague),
            Err(Refused::Wide { .. })
        ));
        assert_eq!(one.now(reading(100_002, 10)).unwrap().at.nanos, 100_002);
        assert!(before.at.nanos == 100_000);
    }

    #[test]
    fn it_stalls_rather_than_to_wrap_or_to_pass_its_ceiling() {
        let spent =
            Hybrid { at: Timestamp { nanos: 100_000, logical: u32::MAX, issuer: 1 }, error_ns: 0 };
        let mut one = HybridClock::above(1, spent, 1_000);
        assert_eq!(
            one.now(reading(100_001, 5)),
            Err(Stalled::Ceiling),
            "a former incarnation may have issued it"
        );
        one.raise_ceiling(100_001);
        assert_eq!(one.now(reading(99_000, 5)), Err(Stalled::Logical));
        assert_eq!(one.now(reading(100_001, 5)).unwrap().at.nanos, 100_001);
        assert_eq!(one.now(reading(100_002, 5)), Err(Stalled::Ceiling));
    }

    /// Checks Theorem 2 and happened-before for nodes whose clocks are wrong within their errors.
    #[test]
    fn chains_are_ordered_and_errors_do_not_add_up() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let nodes = rng.random_range(2..6);
            let mut clocks: Vec<HybridClock> = (0..nodes).map(clock).collect();
            let offsets: Vec<i64> = (0..nodes).map(|_| rng.random_range(-400..=400)).collect();
            let mut true_ns: u64 = 1_000_000;
            let mut said: Vec<Hybrid> = Vec::new();
            for _ in 0..400 {
                true_ns += rng.random_range(0..50);
                let node = rng.random_range(0..nodes) as usize;
                // The claimed error is never below the true one.
                let error_ns = offsets[node].unsigned_abs() + rng.random_range(0..100);
                let now = reading(true_ns.saturating_add_signed(offsets[node]), error_ns);
                let mut after = None;
                if !said.is_empty() && rng.random_bool(0.6) {
                    let heard = said[rng.random_range(0..said.len())];
                    clocks[node].receive(now, NodeId(9), heard).unwrap();
                    after = Some(heard.at);
                }
                let event = clocks[node].now(now).unwrap();
                assert!(after.is_none_or(|after| after < event.at), "seed {seed}: happened before");
                assert!(
                    event.at.nanos <= true_ns + event.error_ns,
                    "seed {seed}: ahead by more than its error"
                );
                assert!(
                    event.at.nanos + error_ns >= true_ns,
                    "seed {seed}: behind by more than the local error"
                );
                assert!(said.iter().all(|other| other.at != event.at), "seed {seed}: twice");
                said.push(event);
            }
        }
    }
}
