//! Snapshot isolation over shards with leaders (Clock-SI §III).
//!
//! A transaction reads one snapshot, without locks, and buffers its writes. Its commit is certified
//! against the snapshot: of two transactions that overlap in time and write the same row, the first
//! committer wins.
//!
//! ```text
//!   begin     snapshot ◀─ the node's clock, less its age, and not below the session's token
//!   read      Snapshot at that timestamp: a shard waits if its clock is behind, or if a prepared
//!             transaction may have written the row below it
//!   commit    Commit, Prepare with the snapshot ─▶ lock, certify, draw a timestamp above it
//! ```
//!
//! Such a transaction is composed of two that exist for databases with locks: the first reads
//! a snapshot, the second only writes. The leader's part is a value, [`RecentWrites`], beside the
//! lock table: locks hold off concurrent committers from certification to the end, also across
//! leaders, because prepare records carry them (Trap A.3-3).

mod age;
mod recent_writes;
pub mod rules;
mod transaction;

pub(crate) use age::AgeMeter;
pub use age::{AgeParts, SnapshotAge};
pub use recent_writes::RecentWrites;
pub use transaction::TxnClient;
