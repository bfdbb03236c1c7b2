//! The oracle that knows the time, and batches of timestamps made of what it says (K2 §2.2, §4),
//! with the arithmetic repaired (Traps A.1-A).
//!
//! ```text
//!   batch asked for          answer: up ≥ the oracle's time                  ts ∈ [up + TTL, up + 2 TTL)
//!        │─────────────────────────────────────────────────────────────────▶ TTL since it was ASKED for: it is void
//!        start of a transaction < asked + TTL < up + TTL ≤ ts                 ts < end, after the commit wait
//! ```
//!
//! 1. (Property 4.1) A transaction that draws `ts` after it started, and ends no sooner than
//!    [`Terms::commit_wait_ns`] after the draw, has start < ts < end in true time.
//! 2. A coordinator's timestamps grow, across batches and oracles; a timestamp names its
//!    coordinator, so that no two are alike (Traps A.1-A4, A5).
//! 3. An oracle's `up` grows, across lives; it does not answer when its clock is less sure than the
//!    terms say (Trap A.1-A6).

use crate::rules;
use crate::{Drift, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Health, Interval, Reading};

/// What oracles and coordinators of a cluster agree on.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How long a batch is good for, since before it was asked for.
    pub ttl_ns: u64,
    /// No oracle answers when half the width of its interval is larger: the paper's ε.
    pub half_width_ns: u64,
    /// From one timestamp of a batch to the next.
    pub step_ns: u64,
    /// By how much a coordinator's timer may be wrong.
    pub drift: Drift,
}

impl Terms {
    /// Those of the paper: 100 µs, 100 µs, 10 ns.
    pub const K2: Terms =
        Terms { ttl_ns: 100_000, half_width_ns: 100_000, step_ns: 10, drift: Drift::WORST };

    /// How long a coordinator waits between drawing a timestamp and telling the outcome, by its own
    /// timer: 2 (TTL + ε), and what that timer may be fast.
    pub const fn commit_wait_ns(&self) -> u64 {
        let least = 2 * (self.ttl_ns + self.half_width_ns);
        least + self.drift.of(least)
    }

    /// The same where each timestamp is asked for by itself (the paper's strawman, §4).
    pub const fn strawman_wait_ns(&self) -> u64 {
        let least = 2 * self.half_width_ns;
        least + self.drift.of(least)
    }
}

/// Why an oracle does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Its clock may not be relied on.
    #[error("this oracle does not know the time")]
    Fenced,
    /// Its clock is less sure than was agreed on, or has stepped back behind what it has answered.
    #[error("this oracle knows the time within {half_width_ns} ns, and {limit_ns} were agreed on")]
    Wide {
        /// Half of what it would have to answer.
        half_width_ns: u64,
        /// What was agreed on.
        limit_ns: u64,
    },
    /// A ceiling has to be made durable first.
    #[error("the reserved times are used up")]
    Ceiling,
}

/// An oracle.
#[derive(Clone, Copy, Debug)]
pub struct Oracle {
    half_width_ns: u64,
    newest: u64,
    ceiling: u64,
}

impl Oracle {
    /// An oracle that answers above what its former lives may have answered.
    pub fn above(terms: &Terms, floor: u64) -> Oracle {
        Oracle { half_width_ns: terms.half_width_ns, newest: floor, ceiling: floor }
    }

    /// Everything up to there may be answered: it is durable that it may.
    pub fn raise_ceiling(&mut self, nanos: u64) {
        self.ceiling = self.ceiling.max(nanos);
    }

    /// The time: `now` is to be read after the question came, one reading for all that came with
    /// it.
    pub fn answer(&mut self, now: Reading) -> Result<Interval, Refused> {
        if now.health != Health::Good {
            return Err(Refused::Fenced);
        }
        let Interval { earliest, latest } = now.interval;
        let latest = latest.max(self.newest + 1);
        let half_width_ns = (latest - earliest).div_ceil(2);
        if half_width_ns > self.half_width_ns {
            return Err(Refused::Wide { half_width_ns, limit_ns: self.half_width_ns });
        }
        if latest > self.ceiling {
            return Err(Refused::Ceiling);
        }
        self.newest = latest;
        Ok(Interval { earliest, latest })
    }
}

/// A coordinator that asks for each timestamp by itself: the paper's strawman (§4). A transaction
/// has started when it asks, so that what the oracle answers is not before that; it waits for
/// [`Terms::strawman_wait_ns`].
#[derive(Clone, Copy, Debug)]
pub struct Strawman {
    issuer: u32,
    last: u64,
}

impl Strawman {
    /// A coordinator that issues above what its former lives may have issued. `issuer` is never
    /// reused.
    pub fn above(issuer: u32, floor: u64) -> Strawman {
        Strawman { issuer, last: floor }
    }

    /// The timestamp that the answer to a transaction's question means; none, if this coordinator
    /// has issued a later one meanwhile: it asks again.
    pub fn stamp(&mut self, answer: Interval) -> Option<Timestamp> {
        // Moving it up instead would cost the commit wait its bound.
        let nanos = Some(answer.latest).filter(|latest| *latest > self.last)?;
        self.last = nanos;
        Some(Timestamp { nanos, logical: 0, issuer: self.issuer })
    }
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    /// The boot clock before the question left.
    asked: u64,
    next: u64,
    /// No timestamp is at or above this.
    end: u64,
}

/// A coordinator's timestamps.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    terms: Terms,
    issuer: u32,
    last: u64,
    asked: Option<u64>,
    batch: Option<Batch>,
}

impl Batches {
    /// A coordinator that issues above what its former lives may have issued. `issuer` is never
    /// reused.
    pub fn above(terms: Terms, issuer: u32, floor: u64) -> Batches {
        Batches { terms, issuer, last: floor, asked: None, batch: None }
    }

    /// The next timestamp for a transaction that has started; none if a batch has to be asked for
    /// first.
    pub fn next(&mut self, boot_ns: u64) -> Option<Timestamp> {
        let batch = self.batch.as_mut()?;
        let elapsed = boot_ns.saturating_sub(batch.asked);
        // The timer may be slow: it has been longer than it says.
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
        Some(Timestamp { nanos, logical: 0, issuer: self.issuer })
    }

    /// A batch is about to be asked for: to be called before the question leaves (Trap A.1-A1). By
    /// the boot clock, which counts while the machine is suspended (Trap A.1-A2).
    pub fn ask(&mut self, boot_ns: u64) {
        self.asked = Some(boot_ns);
    }

    /// What the oracle answered to the last question.
    pub fn hear(&mut self, boot_ns: u64, answer: Interval) {
        let Some(asked) = self.asked.take() else { return };
        let asked = if broken(rules::TTL_FROM_THE_ANSWER) { boot_ns } else { asked };
        let low = answer.latest.saturating_add(self.terms.ttl_ns);
        // Another oracle may be behind the last one (Trap A.1-A5).
        let next = if broken(rules::BATCH_GOES_BACK) {
            low
        } else {
            low.max(self.last + self.terms.step_ns)
        };
        self.batch = Some(Batch { asked, next, end: low + self.terms.ttl_ns });
    }
}
