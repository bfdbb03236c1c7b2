//! The engine behind mvcc's store trait.
//!
//! [`RedbStore`] keeps versions in one B-tree file over log's `Disk`, so that the host's files and
//! the simulator's faulty disk carry the same engine. It is written without sync, behind the log:
//! after a crash it is as it was at its last checkpoint, and the log has the rest. Every block of
//! the file has a checksum. [`MemoryStore`] is its twin for tests and for databases that keep
//! nothing. [`Space`] is what one shard keeps on a node: mvcc's Recent in front, a store behind.
//! [`courier`] carries a copy of it to another node.

mod blocks;
pub mod courier;
mod memory;
mod redb_store;
pub mod rules;
mod space;
mod version_key;
mod view;

pub use memory::MemoryStore;
pub use redb_store::RedbStore;
pub use space::{Extent, Left, Space, Split, Whole};
