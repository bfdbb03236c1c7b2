//! The clock of a node.
//!
//! A [`Reading`] has two parts. The boot clock, which counts through suspend and never steps, alone
//! measures timers and timeouts. The interval of true time comes from one of these: on a
//! single-node cluster, the node itself; on nodes whose system clocks keep a bound, the system
//! clock, widened by it; on all others, clock synchronisation between the nodes and sources of UTC
//! ([`crate::clock_sync`]).
//!
//! Invariants:
//! 1. Within a process the middle of the interval never goes back when the system clock steps: a
//!    step costs freshness, never order.
//! 2. A single-node cluster has an interval of width zero, because no other clock can disagree. It
//!    follows the boot clock from its first reading on, so that a step of the system clock cannot
//!    stop it. If the system clock went back between two incarnations, the second starts after the
//!    newest timestamp of the first.
//! 3. A reading that may not be relied on, because synchronisation has stopped for too long, is
//!    marked [`Health::Fenced`].

use meridian_clock::{Bound, Drift, Health, Interval, Reading};
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The source of a node's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockBound {
    /// The node itself, on a single-node cluster.
    Alone,
    /// The clock of one machine with several nodes, within a bound. It is read for each reading, so
    /// that all nodes see its steps alike.
    HalfWidth {
        /// Half the width of every interval, in nanoseconds.
        half_width_ns: u64,
    },
    /// Sources of UTC of this node or of time masters ([`crate::clock_sync`]).
    Utc,
    /// Synchronisation of several nodes with each other only.
    Cluster,
}

impl ClockBound {
    /// One machine's clock; the bound covers the time that a reading takes.
    pub const LOOPBACK: ClockBound = ClockBound::HalfWidth { half_width_ns: 100_000 };

    /// Returns the source in words.
    pub fn name(self) -> &'static str {
        match self {
            ClockBound::Alone => "this node alone",
            ClockBound::LOOPBACK => "one machine's clock",
            ClockBound::HalfWidth { .. } => "one machine's clock, within a bound",
            ClockBound::Utc => "UTC",
            ClockBound::Cluster => "cluster time",
        }
    }
}

impl fmt::Display for ClockBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Makes clock readings.
#[derive(Debug)]
pub struct Clock {
    bound: ClockBound,
    drift: Drift,
    /// Lead of the real-time clock over the boot clock when the node started, in nanoseconds.
    ahead_ns: AtomicU64,
    /// The newest real time in a reading (invariant 1).
    newest: AtomicU64,
    found: FoundBound,
}

/// The last bound, in a seqlock: one writer, and readers that do not wait.
#[derive(Debug, Default)]
struct FoundBound {
    /// Odd during a write.
    version: AtomicU64,
    /// The bound's boot time, its earliest and latest, and the boot time until which it is valid.
    words: [AtomicU64; 4],
}

impl FoundBound {
    fn write(&self, words: [u64; 4]) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.words.iter().zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
        self.version.store(version + 2, Ordering::Release);
    }

    fn read(&self) -> [u64; 4] {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version {
                return words;
            }
            std::hint::spin_loop();
        }
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec.unsigned_abs())
}

/// Returns nanoseconds since this machine booted, counting suspend.
pub fn boot_ns() -> u64 {
    nanoseconds(ClockId::Boottime)
}

/// Returns the system clock, in nanoseconds since 1970.
pub fn system_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

impl Clock {
    /// Returns a clock with this source.
    pub fn new(bound: ClockBound) -> Self {
        let ahead_ns = system_ns().saturating_sub(boot_ns());
        let (ahead_ns, newest) = (AtomicU64::new(ahead_ns), AtomicU64::new(0));
        Clock { bound, drift: Drift::WORST, ahead_ns, newest, found: FoundBound::default() }
    }

    /// Sets the bound on drift, where clocks may drift by more than 200 ppm.
    pub fn drifting(self, drift: Drift) -> Self {
        Clock { drift, ..self }
    }

    /// Returns the bound on drift.
    pub fn drift(&self) -> Drift {
        self.drift
    }

    /// Moves a single-node cluster's clock past `nanos`, which an earlier incarnation used. Has no
    /// effect with other sources, whose time this node does not set.
    pub fn not_before(&self, nanos: u64) {
        if self.bound == ClockBound::Alone {
            self.ahead_ns
                .fetch_max(nanos.saturating_add(1).saturating_sub(boot_ns()), Ordering::Relaxed);
        }
    }

    /// Sets the bound, and the boot time until which it is valid. Called by one thread at a time.
    pub fn set_bound(&self, bound: Bound, until: u64) {
        self.found.write([bound.at, bound.interval.earliest, bound.interval.latest, until]);
    }

    /// Returns a reading.
    pub fn now(&self) -> Reading {
        let boot_ns = boot_ns();
        let (real_ns, half_width_ns) = match self.bound {
            ClockBound::Alone => (self.ahead_ns.load(Ordering::Relaxed) + boot_ns, 0),
            ClockBound::HalfWidth { half_width_ns } => (system_ns(), half_width_ns),
            ClockBound::Utc | ClockBound::Cluster => return self.told_at(boot_ns),
        };
        let real_ns = self.newest.fetch_max(real_ns, Ordering::Relaxed).max(real_ns);
        Reading::at(boot_ns, Interval::around(real_ns, half_width_ns))
    }

    fn told_at(&self, boot_ns: u64) -> Reading {
        let [at, earliest, latest, until] = self.found.read();
        if latest == 0 {
            return Reading { boot_ns, interval: Interval::ANY, health: Health::Fenced };
        }
        let interval =
            Bound { at, interval: Interval { earliest, latest } }.on(boot_ns, self.drift);
        let health = if boot_ns <= until { Health::Good } else { Health::Fenced };
        Reading { boot_ns, interval, health }
    }

    /// Returns the source.
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

    #[test]
    fn readings_are_never_torn() {
        let clock = std::sync::Arc::new(Clock::new(ClockBound::Cluster));
        assert_eq!(clock.now().health, Health::Fenced, "nothing is known yet");
        let writer = std::sync::Arc::clone(&clock);
        let thread = std::thread::spawn(move || {
            for round in 1..200_000 {
                let interval = Interval { earliest: round, latest: round };
                writer.set_bound(Bound { at: u64::MAX, interval }, u64::MAX);
            }
        });
        while !thread.is_finished() {
            let Reading { interval, health, .. } = clock.now();
            assert!(
                interval == Interval::ANY
                    || (interval.earliest == interval.latest && health == Health::Good),
                "{interval}"
            );
        }
        thread.join().unwrap();
    }
}
