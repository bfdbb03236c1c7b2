//! The resources that all replicas of a node share.

use crate::clock::Clock;
use crate::journal::Journal;
use crate::panics::PanicGuard;
use crate::readers::Readers;
use crate::timers::Timers;
use meridian_mvcc::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of keys and values in one response to a session, at most.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// The clock, the timers, the log and the store engine of a node.
pub struct NodeResources {
    /// The clock.
    pub clock: Arc<Clock>,
    /// The timer thread.
    pub timers: Timers,
    /// The log thread.
    pub journal: Journal,
    /// Threads that read for other nodes.
    pub readers: Readers,
    /// The store engine.
    pub store: Arc<dyn Store>,
    /// Ends the node when its own code panics.
    pub guard: Arc<PanicGuard>,
    /// The commit waits of this node's transactions.
    pub commit_wait: CommitWaitStats,
}

/// Number of commits, with the sum of their commit waits.
#[derive(Debug, Default)]
pub struct CommitWaitStats {
    commits: AtomicU64,
    waited_ns: AtomicU64,
}

impl CommitWaitStats {
    /// Counts one commit.
    pub fn count(&self, waited_ns: u64) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
    }

    /// Returns the number of commits and the sum of their commit waits.
    pub fn read(&self) -> (u64, Duration) {
        (
            self.commits.load(Ordering::Relaxed),
            Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed)),
        )
    }
}
