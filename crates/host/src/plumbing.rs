//! What all machines of a node share.

use crate::clock::Clock;
use crate::journal::Journal;
use crate::panics::PanicGuard;
use crate::readers::Readers;
use crate::timers::Timers;
use meridian_mvcc::Store;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What one answer to a session has at most, in bytes of keys and values.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// The time, the timers, the log and the engine of a node.
pub struct Plumbing {
    /// The time.
    pub clock: Arc<Clock>,
    /// The timer thread.
    pub timers: Timers,
    /// The log thread.
    pub journal: Journal,
    /// Threads that read for other nodes.
    pub readers: Readers,
    /// The engine.
    pub store: Arc<dyn Store>,
    /// Ends the node when its own code panics.
    pub guard: Arc<PanicGuard>,
    /// What clocks cost the transactions of this node.
    pub commit_wait: CommitWait,
}

/// Commits, and how long they waited for their timestamps to have surely passed.
#[derive(Debug, Default)]
pub struct CommitWait {
    commits: AtomicU64,
    waited_ns: AtomicU64,
}

impl CommitWait {
    /// One more.
    pub fn count(&self, waited_ns: u64) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
    }

    /// How many, and how long all of them together.
    pub fn read(&self) -> (u64, Duration) {
        (
            self.commits.load(Ordering::Relaxed),
            Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed)),
        )
    }
}
