//! Measurement of the time that a transaction takes, for EXPLAIN ANALYZE.

use std::fmt;
use std::sync::Mutex;

/// The parts of a transaction's time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The time that it waited for an oracle's timestamp when it began (K2 §4).
    pub timestamp_ns: u64,
    /// The number of locking or reading requests, to replicas here or elsewhere.
    pub reads: u64,
    /// The time that these took.
    pub reading_ns: u64,
    /// The time that reads waited: until what they had read had surely passed (mode `commit_wait`
    /// of HybridTime, and snapshots of TAPIR), and at leaders for the snapshot's clock and for
    /// commits before it (Clock-SI §III-B).
    pub read_wait_ns: u64,
    /// The time from COMMIT to its response.
    pub commit_ns: u64,
    /// The part of it until the replicas had agreed on the commit: as measured by the leader, or at
    /// the coordinator if there is no leader.
    pub replication_ns: u64,
    /// The part of it from then until the commit timestamp had surely passed (Spanner §4.1.2).
    pub commit_wait_ns: u64,
}

/// A transaction's stopwatch. It outlives the transaction, so that the time of its commit can be
/// read too.
pub struct Timings {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    began_ns: u64,
    times: Mutex<Times>,
}

impl Timings {
    /// Starts the stopwatch; `clock` counts nanoseconds.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let began_ns = clock();
        Timings { clock: Box::new(clock), began_ns, times: Mutex::default() }
    }

    /// Returns the time since the start, in nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        (self.clock)().saturating_sub(self.began_ns)
    }

    /// Returns the measured times.
    pub fn times(&self) -> Times {
        *self.times.lock().expect("invariant: no thread panics while it holds this lock")
    }

    /// Updates the measured times.
    pub fn note(&self, note: impl FnOnce(&mut Times)) {
        note(&mut self.times.lock().expect("invariant: no thread panics while it holds this lock"));
    }
}

impl fmt::Debug for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times().fmt(f)
    }
}
