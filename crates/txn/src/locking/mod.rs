//! Two-phase locking at a leader, with wound-wait over key ranges (Spanner §4.2.1).
//!
//! Reads take locks at the leader. Writes are buffered at the coordinator and arrive with the
//! commit, which locks them exclusively before the leader assigns a timestamp. Deadlocks cannot
//! last, because only an older transaction wounds a younger one.

mod committing;
mod coordinator;
mod lock_table;
pub mod rules;

pub use crate::TransactionId;
use crate::shards::{
    LockEpoch, ReadSnapshot, ReplicaId, Request, RequestBody, RequestOutcome, Response, Shards,
    Spent,
};
pub(crate) use coordinator::Coordinator;
pub use coordinator::{MOST_TOKEN_AHEAD_NS, TxnClient};
pub use lock_table::{LockTable, Ticket, Verdict, Waits};
