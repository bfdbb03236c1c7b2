//! Where a node's readings come from.
//!
//! A [`Reading`] is two clocks of the kernel: the boot clock (counts through suspend, never steps) measures timers and time to
//! live; the real-time clock, widened by a bound, is the interval. The bound is a promise of whoever configured it; the
//! daemon that measures it (Spanner §3) is not here yet.
//!
//! Invariants:
//! 1. Within a process neither end of the interval ever goes back (a step of the system clock costs freshness, never order).
//! 2. A node without peers has no uncertainty by construction: nobody else can disagree with it. It follows the boot clock from
//!    its first reading on, so that a step of the system clock cannot stop it either; and a system clock that went back
//!    between two lives costs nothing: the second goes on after the newest timestamp of the first.

use meridian_clock::{Interval, Reading};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// How a node knows the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockBound {
    /// A node without peers: it is the time.
    Alone,
    /// Several nodes: the system clocks differ from true time by at most this.
    HalfWidth {
        /// Half the width of every interval.
        half_width_ns: u64,
    },
}

impl ClockBound {
    /// Several nodes on one machine share one clock; this covers what a reading itself takes.
    pub const LOOPBACK: ClockBound = ClockBound::HalfWidth { half_width_ns: 100_000 };
}

/// Builds readings.
#[derive(Debug)]
pub struct Clock {
    bound: ClockBound,
    /// What the real-time clock was ahead of the boot clock at birth.
    ahead_ns: AtomicU64,
    /// The newest real time handed out (invariant 1).
    newest: AtomicU64,
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.unsigned_abs())
}

/// Nanoseconds since this machine booted, counting suspend.
pub fn boot_ns() -> u64 {
    nanoseconds(ClockId::Boottime)
}

impl Clock {
    /// A clock with this bound.
    pub fn new(bound: ClockBound) -> Self {
        let ahead_ns = nanoseconds(ClockId::Realtime).saturating_sub(boot_ns());
        Clock { bound, ahead_ns: AtomicU64::new(ahead_ns), newest: AtomicU64::new(0) }
    }

    /// For a node that is alone: this moment was used, now is later. Other nodes' clocks are nobody's to move.
    pub fn not_before(&self, nanos: u64) {
        if self.bound == ClockBound::Alone {
            self.ahead_ns.fetch_max(nanos.saturating_add(1).saturating_sub(boot_ns()), Ordering::Relaxed);
        }
    }

    /// The time now.
    pub fn now(&self) -> Reading {
        let boot_ns = boot_ns();
        let (real_ns, half_width_ns) = match self.bound {
            ClockBound::Alone => (self.ahead_ns.load(Ordering::Relaxed) + boot_ns, 0),
            ClockBound::HalfWidth { half_width_ns } => (nanoseconds(ClockId::Realtime), half_width_ns),
        };
        let real_ns = self.newest.fetch_max(real_ns, Ordering::Relaxed).max(real_ns);
        Reading::at(boot_ns, Interval::around(real_ns, half_width_ns))
    }

    /// The bound.
    pub fn bound(&self) -> ClockBound {
        self.bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_alone_goes_on_after_what_it_used() {
        let clock = Clock::new(ClockBound::Alone);
        let used = clock.now().interval.latest + 3_600_000_000_000;
        clock.not_before(used);
        assert!(clock.now().interval.after(used));
        let clock = Clock::new(ClockBound::LOOPBACK);
        clock.not_before(used);
        assert!(!clock.now().interval.after(used));
    }

    #[test]
    fn readings_grow_and_have_the_configured_width() {
        for (bound, half_width_ns) in [(ClockBound::Alone, 0), (ClockBound::LOOPBACK, 100_000)] {
            let clock = Clock::new(bound);
            let mut last = clock.now();
            for _ in 0..10_000 {
                let next = clock.now();
                assert!(next.boot_ns >= last.boot_ns);
                assert!(next.interval.earliest >= last.interval.earliest);
                assert_eq!(next.interval.half_width_ns(), half_width_ns);
                last = next;
            }
        }
    }
}
