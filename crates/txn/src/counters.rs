//! Counters of a database's transactions on one node, for `/metrics`.
//!
//! Coordinators count. An attempt that the server retries counts again.

use crate::Conflict;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The causes for which an attempt of a transaction ends without effect, by name.
const CAUSES: [&str; 12] = [
    "wounded",
    "leader_changed",
    "rolled_back",
    "expired",
    "moved",
    "late",
    "schema_changed",
    "overwritten",
    "contended",
    "written_since",
    "read_later",
    "lock_timeout",
];

/// The place of a conflict in [`CAUSES`].
fn place(why: &Conflict) -> usize {
    match why {
        Conflict::Wounded { .. } => 0,
        Conflict::LeaderChanged => 1,
        Conflict::RolledBack => 2,
        Conflict::Expired => 3,
        Conflict::Moved => 4,
        Conflict::Late => 5,
        Conflict::SchemaChanged { .. } => 6,
        Conflict::Overwritten => 7,
        Conflict::Contended => 8,
        Conflict::WrittenSince { .. } => 9,
        Conflict::ReadLater { .. } => 10,
    }
}

/// The place of a lock timeout in [`CAUSES`].
const LOCK_TIMEOUT: usize = 11;

#[derive(Debug, Default)]
struct WaitCounter {
    count: AtomicU64,
    sum_ns: AtomicU64,
}

impl WaitCounter {
    fn add(&self, waited_ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(waited_ns, Relaxed);
    }

    fn read(&self) -> (u64, Duration) {
        (self.count.load(Relaxed), Duration::from_nanos(self.sum_ns.load(Relaxed)))
    }
}

/// The counters.
#[derive(Debug, Default)]
pub struct TxnCounters {
    commit_wait: WaitCounter,
    read_wait: WaitCounter,
    timestamp_wait: WaitCounter,
    moves: AtomicU64,
    pushes: AtomicU64,
    aborts: [AtomicU64; CAUSES.len()],
    unknown: AtomicU64,
}

/// The values of the counters. Each is read on its own, so that they need not be of one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnStats {
    /// The number of commits, and the sum of the times that they waited until their timestamps had
    /// surely passed.
    pub commit_wait: (u64, Duration),
    /// The number of reads that waited until what they had read had surely passed, and the sum of
    /// these times.
    pub read_wait: (u64, Duration),
    /// The number of timestamps from oracles, and the sum of the times that transactions waited for
    /// them (K2 §4).
    pub timestamp_wait: (u64, Duration),
    /// The number of times that a transaction drew another timestamp and went on.
    pub moves: u64,
    /// The number of questions about outcomes that shards led here asked recorders (K2 §5.3).
    pub pushes: u64,
    /// The number of attempts that ended without effect, by cause.
    pub aborts: Vec<(&'static str, u64)>,
    /// The number of commits of unknown outcome.
    pub unknown: u64,
}

impl TxnCounters {
    /// Counts a commit, which waited for its timestamp for so long.
    pub fn committed(&self, waited_ns: u64) {
        self.commit_wait.add(waited_ns);
    }

    /// Counts a read that waited until what it had read had surely passed. A read that did not have
    /// to wait is not counted.
    pub fn read_waited(&self, waited_ns: u64) {
        if waited_ns > 0 {
            self.read_wait.add(waited_ns);
        }
    }

    /// Counts a timestamp from an oracle, for which a transaction waited for so long.
    pub fn timestamp_drawn(&self, waited_ns: u64) {
        self.timestamp_wait.add(waited_ns);
    }

    /// Counts a transaction that draws another timestamp and goes on.
    pub fn moved(&self) {
        self.moves.fetch_add(1, Relaxed);
    }

    /// Counts a question about an outcome that a shard asks a recorder.
    pub fn pushed(&self) {
        self.pushes.fetch_add(1, Relaxed);
    }

    /// Counts an attempt that ended without effect.
    pub fn aborted(&self, why: &Conflict) {
        self.aborts[place(why)].fetch_add(1, Relaxed);
    }

    /// Counts a statement that waited for a lock for too long.
    pub fn lock_timed_out(&self) {
        self.aborts[LOCK_TIMEOUT].fetch_add(1, Relaxed);
    }

    /// Counts a commit of unknown outcome.
    pub fn outcome_unknown(&self) {
        self.unknown.fetch_add(1, Relaxed);
    }

    /// Returns the values.
    pub fn read(&self) -> TxnStats {
        let aborts = CAUSES.into_iter().zip(&self.aborts);
        TxnStats {
            commit_wait: self.commit_wait.read(),
            read_wait: self.read_wait.read(),
            timestamp_wait: self.timestamp_wait.read(),
            moves: self.moves.load(Relaxed),
            pushes: self.pushes.load(Relaxed),
            aborts: aborts.map(|(cause, count)| (cause, count.load(Relaxed))).collect(),
            unknown: self.unknown.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_a_number_and_a_sum_and_aborts_a_cause() {
        let counters = TxnCounters::default();
        counters.committed(0);
        counters.committed(3_000_000);
        counters.read_waited(0);
        counters.read_waited(5_000_000);
        counters.timestamp_drawn(0);
        counters.timestamp_drawn(1_000_000);
        counters.moved();
        counters.pushed();
        counters.aborted(&Conflict::SchemaChanged { table: 7 });
        counters.aborted(&Conflict::Contended);
        counters.aborted(&Conflict::Contended);
        counters.lock_timed_out();
        counters.outcome_unknown();
        let stats = counters.read();
        assert_eq!(stats.commit_wait, (2, Duration::from_millis(3)));
        assert_eq!(stats.read_wait, (1, Duration::from_millis(5)), "one did not have to wait");
        assert_eq!(stats.timestamp_wait, (2, Duration::from_millis(1)));
        assert_eq!((stats.moves, stats.pushes), (1, 1));
        let counted = stats.aborts.into_iter().filter(|(_, count)| *count > 0);
        let expected = [("schema_changed", 1), ("contended", 2), ("lock_timeout", 1)];
        assert_eq!(counted.collect::<Vec<_>>(), expected);
        assert_eq!(stats.unknown, 1);
    }
}
