//! The locks and atomics of what several threads step and read: [`crate::mailbox`],
//! [`crate::resident`] and [`crate::spanner::slot`].
//!
//! Those three name no others, so that `tests/interleavings.rs` can compile the same files with
//! locks that try one order of threads after the other.

pub use parking_lot::{Mutex, RwLock};
pub use std::sync::atomic::{AtomicBool, Ordering, fence};
pub use std::thread::yield_now;
