//! Multi-version storage: versions by (key, timestamp).
//!
//! A database keeps every value for a while: a write at a timestamp never overwrites, it adds a
//! version, and a read at a timestamp sees the newest version at or below it.
//!
//! ```text
//! time
//!  30 |          b3
//!  20 |    a2            x        x  tombstone
//!  10 |    a1    b1      c1
//!     +---------------------
//!          a     b       c         a read at 25 sees a2, b1 and no c
//! ```
//!
//! New versions are installed in [`MemTable`], in memory. The host flushes them into a [`Store`]
//! behind it, unsynced, and a checkpoint of the store frees the log. Readers look into Recent, then
//! into a snapshot of the store. A [`Collector`] removes superseded versions below a horizon; a
//! read below the horizon is an error.

mod collect;
mod key;
pub mod local;
mod memtable;
mod read;
pub mod rules;
mod store;

pub use collect::{Collector, HORIZON, Retained, horizon};
pub use key::{Key, KeyRange, Value, Write};
pub use memtable::{FlushBatch, MemTable};
pub use read::{Chunk, read, scan};
pub use store::{
    Batch, Cursor, Page, Snapshot, SpaceId, Store, StoreError, StoredVersion, Version,
};
