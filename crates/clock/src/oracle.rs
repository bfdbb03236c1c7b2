//! The time oracle, and batches of timestamps made of its answers (K2 §2.2, §4), with the
//! arithmetic repaired (Traps A.1-A).
//!
//! ```text
//!   batch requested       answer: up ≥ the oracle's time              ts ∈ [up + TTL, up + 2 TTL)
//!        │──────────────────────────────────────────▶ void after TTL, counted from the REQUEST
//!        start < asked + TTL < up + TTL ≤ ts              ts < end, after the commit wait
//! ```
//!
//! The transaction that has requested the batch began before the oracle's reading, and takes `up`.
//!
//! 1. (Property 4.1) A transaction that draws `ts` after it started, and ends no sooner than
//!    [`Drawn::passed_ns`], has start < ts < end in true time.
//! 2. A coordinator's timestamps grow, across batches and oracles. A timestamp names its
//!    coordinator, so that no two are equal (Traps A.1-A4, A5).
//! 3. An oracle does not answer while its clock is less certain than the terms require, which is
//!    the case after some lost synchronizations (§2.2). Its `up` grows; a clock that has stepped
//!    back makes the interval wider (Trap A.1-A6).

use crate::rules;
use crate::{Drift, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Health, Interval, Reading};

/// The parameters that the oracles and coordinators of a cluster share.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The lifetime of a batch, counted from its request.
    pub ttl_ns: u64,
    /// The largest half width of an interval with which an oracle answers: the paper's ε.
    pub half_width_ns: u64,
    /// The distance of consecutive timestamps in a batch.
    pub step_ns: u64,
    /// The maximum error of a coordinator's timer.
    pub drift: Drift,
}

impl Terms {
    /// The terms of the paper: 100 µs, 100 µs, 10 ns.
    pub const K2: Terms =
        Terms { ttl_ns: 100_000, half_width_ns: 100_000, step_ns: 10, drift: Drift::WORST };

    /// Returns how long a coordinator waits at most between drawing a timestamp and returning the
    /// outcome, by its own timer: 2 (TTL + ε), and the amount by which that timer may be fast.
    pub const fn commit_wait_ns(&self) -> u64 {
        let least = 2 * (self.ttl_ns + self.half_width_ns);
        least + self.drift.of(least)
    }

    /// Returns the longest commit wait where each timestamp is requested by itself (the paper's
    /// strawman, §4), and no other one of the coordinator at the same time.
    pub const fn strawman_wait_ns(&self) -> u64 {
        let least = 2 * self.half_width_ns;
        least + self.drift.of(least)
    }
}

/// The reason why an oracle does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The oracle's clock is not reliable.
    #[error("this oracle does not know the time")]
    Fenced,
    /// The oracle's clock is less certain than the terms require, or has stepped back behind a
    /// former answer.
    #[error(
        "this oracle knows the time within {half_width_ns} ns, above the limit of {limit_ns} ns"
    )]
    Wide {
        /// Half the width of the interval that it would have to answer.
        half_width_ns: u64,
        /// The largest half width of the terms.
        limit_ns: u64,
    },
}

/// A time oracle.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle {
    newest: u64,
}

impl Oracle {
    /// Returns the time, if it is known within `half_width_ns`. `now` must be read after the
    /// request came; one reading serves all that came together.
    pub fn answer(&mut self, now: Reading, half_width_ns: u64) -> Result<Interval, Refused> {
        if now.health != Health::Good {
            return Err(Refused::Fenced);
        }
        let Interval { earliest, latest } = now.interval;
        let latest = latest.max(self.newest + 1);
        let known_within_ns = (latest - earliest).div_ceil(2);
        if known_within_ns > half_width_ns {
            return Err(Refused::Wide { half_width_ns: known_within_ns, limit_ns: half_width_ns });
        }
        self.newest = latest;
        Ok(Interval { earliest, latest })
    }
}

/// A timestamp that a coordinator has drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The timestamp.
    pub at: Timestamp,
    /// The boot clock of the coordinator from which on it has surely passed.
    pub passed_ns: u64,
}

/// The boot clock when an oracle's answer arrived, and the earliest time that it can have been.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    boot_ns: u64,
    earliest: u64,
}

impl Arrival {
    /// Returns a timestamp. It has surely passed when the answer's earliest time is as far behind,
    /// which is sooner than [`Terms::commit_wait_ns`] from the draw on: that holds for any answer
    /// that the terms allow.
    fn drawn(self, drift: Drift, issuer: u32, nanos: u64) -> Drawn {
        let after_ns = nanos.saturating_sub(self.earliest) + 1;
        // The timer may be fast, and shows whole nanoseconds.
        let passed_ns = self.boot_ns.saturating_add(after_ns).saturating_add(drift.of(after_ns));
        Drawn { at: Timestamp { nanos, logical: 0, issuer }, passed_ns }
    }
}

/// A coordinator that requests each timestamp by itself: the paper's strawman (§4). A transaction
/// has started when it sends the request, so that the oracle's answer is not before its start.
#[derive(Clone, Copy, Debug)]
pub struct Strawman {
    terms: Terms,
    issuer: u32,
    last: u64,
}

/// How far above an oracle's answer a timestamp may be, because others have been issued, in
/// nanoseconds. Its transaction waits for as much longer.
const MOST_ABOVE_NS: u64 = 10_000_000;

impl Strawman {
    /// Creates a coordinator that issues above everything that its former incarnations may have
    /// issued. `issuer` is never reused.
    pub fn above(terms: Terms, issuer: u32, floor: u64) -> Strawman {
        Strawman { terms, issuer, last: floor }
    }

    /// Returns a timestamp from the answer to a transaction's request, which has arrived just now.
    /// Others may have asked later and been answered before: then it is above theirs. `None` if
    /// timestamps have been issued that lie too far ahead.
    pub fn stamp(&mut self, boot_ns: u64, answer: Interval) -> Option<Drawn> {
        let nanos = answer.latest.max(self.last + 1);
        if nanos > answer.latest + MOST_ABOVE_NS {
            return None;
        }
        self.last = nanos;
        let arrival = Arrival { boot_ns, earliest: answer.earliest };
        Some(arrival.drawn(self.terms.drift, self.issuer, nanos))
    }
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    /// The boot clock before the request left.
    asked: u64,
    arrival: Arrival,
    next: u64,
    /// No timestamp is at or above this.
    end: u64,
}

/// The timestamp batches of a coordinator.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    terms: Terms,
    issuer: u32,
    last: u64,
    asked: Option<u64>,
    batch: Option<Batch>,
}

impl Batches {
    /// Creates a coordinator that issues above everything that its former incarnations may have
    /// issued. `issuer` is never reused.
    pub fn above(terms: Terms, issuer: u32, floor: u64) -> Batches {
        Batches { terms, issuer, last: floor, asked: None, batch: None }
    }

    /// Returns the next timestamp for a transaction that has started; `None` if a batch must be
    /// requested first.
    pub fn next(&mut self, boot_ns: u64) -> Option<Drawn> {
        let batch = self.batch.as_mut()?;
        let elapsed = boot_ns.saturating_sub(batch.asked);
        // The timer may be slow: more time may have passed than it shows.
        let slack =
            if broken(rules::TTL_BY_A_SLOW_TIMER) { 0 } else { self.terms.drift.of(elapsed) };
        if elapsed + slack >= self.terms.ttl_ns
            || (batch.next >= batch.end && !broken(rules::BATCH_NOT_CAPPED))
        {
            self.batch = None;
            return None;
        }
        let nanos = batch.next;
        batch.next += self.terms.step_ns;
        self.last = nanos;
        Some(batch.arrival.drawn(self.terms.drift, self.issuer, nanos))
    }

    /// Records that a batch is about to be requested; called before the request leaves (Trap
    /// A.1-A1). `boot_ns` is the boot clock, which counts while the machine is suspended (Trap
    /// A.1-A2).
    pub fn ask(&mut self, boot_ns: u64) {
        self.asked = Some(boot_ns);
    }

    /// Takes the oracle's answer to the last request, and returns a timestamp for the transaction
    /// that has asked, however late the answer is. `None` if nothing was asked, or if timestamps
    /// have been issued beyond the batch.
    pub fn receive(&mut self, boot_ns: u64, answer: Interval) -> Option<Drawn> {
        let asked = self.asked.take()?;
        let asked = if broken(rules::TTL_FROM_THE_ANSWER) { boot_ns } else { asked };
        let low = answer.latest.saturating_add(self.terms.ttl_ns);
        let end = low.saturating_add(self.terms.ttl_ns);
        let own = answer.latest.max(self.last + self.terms.step_ns);
        let own = Some(own).filter(|own| *own < end);
        self.last = own.unwrap_or(self.last);
        // This oracle may be behind the last one (Trap A.1-A5).
        let next = if broken(rules::BATCH_GOES_BACK) {
            low
        } else {
            low.max(self.last + self.terms.step_ns)
        };
        let arrival = Arrival { boot_ns, earliest: answer.earliest };
        self.batch = Some(Batch { asked, arrival, next, end });
        own.map(|own| arrival.drawn(self.terms.drift, self.issuer, own))
    }
}
