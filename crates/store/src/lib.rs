//! The engine behind mvcc's store trait.
//!
//! [`RedbStore`] keeps versions in one B-tree file over log's `Disk`, so that the host's files and
//! the simulator's faulty disk carry the same engine. It is written without syncs, behind the log:
//! after a crash it is as at its last checkpoint, and the log has the rest. Every block of the file
//! has a checksum. [`MemoryStore`] is its counterpart for tests and in-memory databases.
//! [`ShardStore`] holds one shard's versions on a node: mvcc's Recent in front of a store.
//! [`courier`] copies them to another node.

mod blocks;
pub mod courier;
mod memory;
mod redb_store;
pub mod rules;
mod shard_store;
mod version_key;
mod view;

pub use memory::MemoryStore;
pub use redb_store::RedbStore;
pub use shard_store::{Extent, OrphanedChild, ShardSnapshot, ShardStore, Split};
