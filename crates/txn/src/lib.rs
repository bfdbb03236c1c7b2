//! Concurrency controls, one folder each, and the trait through which a session uses any of them.
//!
//! Protocols share two interfaces only: [`meridian_machine::Machine`] below and [`Transaction`]
//! above. Between the two each has its own coordinator, participant and messages; protocols share
//! types and values, never control flow. [`two_phase`] is such a value: what a leader knows of
//! transactions over several shards.

mod buffer;
mod consistency;
mod counters;
mod isolation;
pub mod locking;
pub mod mvto;
mod node;
mod schema;
pub mod shards;
pub mod snapshot;
mod stamps;
pub mod tapir;
mod timings;
mod transaction;
pub mod two_phase;

pub use buffer::{Buffer, LIMIT_BYTES};
pub use consistency::Consistency;
pub use counters::{TxnCounters, TxnStats};
pub use isolation::IsolationLevel;
pub use node::{Node, knows_time, passes, sleep};
pub use schema::{PlannedVersions, SchemaChange, SchemaHistory, SchemaVersion};
pub use snapshot::{AgeParts, SnapshotAge};
pub use stamps::Stamps;
pub use timings::{Times, Timings};
pub use transaction::{
    Age, Begin, Conflict, Database, Failure, Future, Lock, Locking, Mode, Outcome, ReadAt, Rows,
    Savepoint, Transaction, TransactionId,
};
