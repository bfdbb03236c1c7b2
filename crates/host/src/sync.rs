//! The locks and atomics of [`crate::mailbox`], [`crate::actor`] and [`crate::shard::slot`].
//!
//! Those three modules name no other ones, so that `tests/interleavings.rs` can compile the same
//! files with instrumented locks that try one thread schedule after the other.

pub use parking_lot::{Mutex, RwLock};
pub use std::sync::atomic::{AtomicBool, Ordering, fence};
pub use std::thread::yield_now;
