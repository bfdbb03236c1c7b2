//! The resources that all replicas of a node share.

use crate::clock::Clock;
use crate::journal::Journal;
use crate::panics::PanicGuard;
use crate::readers::Readers;
use crate::timers::Timers;
use meridian_mvcc::Store;
use std::sync::Arc;

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
}
