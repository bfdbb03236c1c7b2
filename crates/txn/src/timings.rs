//! Where the time of a transaction goes, for EXPLAIN ANALYZE.

use std::fmt;
use std::sync::Mutex;

/// Parts of a transaction's time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Questions to a leader, here or elsewhere: locks and reads.
    pub reads: u64,
    /// What those took.
    pub reading_ns: u64,
    /// From COMMIT to its answer.
    pub commit_ns: u64,
    /// Of that: until a quorum had it on disk, as the leader saw it.
    pub replication_ns: u64,
    /// Of that: from then on until the commit timestamp had surely passed (Spanner §4.1.2).
    pub commit_wait_ns: u64,
}

/// A transaction's watch. It outlives the transaction, so that its commit can be read, too.
pub struct Timings {
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    began_ns: u64,
    times: Mutex<Times>,
}

impl Timings {
    /// Begins to count; the clock counts nanoseconds.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let began_ns = clock();
        Timings { clock: Box::new(clock), began_ns, times: Mutex::default() }
    }

    /// How long it has been counting.
    pub fn elapsed_ns(&self) -> u64 {
        (self.clock)().saturating_sub(self.began_ns)
    }

    /// What has been counted.
    pub fn times(&self) -> Times {
        *self.times.lock().expect("invariant: nobody panics with a plain value in hand")
    }

    /// Counts.
    pub fn note(&self, note: impl FnOnce(&mut Times)) {
        note(&mut self.times.lock().expect("invariant: nobody panics with a plain value in hand"));
    }
}

impl fmt::Debug for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times().fmt(f)
    }
}
