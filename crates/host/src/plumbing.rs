//! What all machines of a node share.

use crate::clock::Clock;
use crate::journal::Journal;
use crate::readers::Readers;
use crate::timers::Timers;
use meridian_mvcc::Store;
use std::sync::Arc;

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
}
