//! Two-phase locking at a leader, with wound-wait over key ranges (Spanner §4.2.1).
//!
//! Reads take locks at the leader. Writes are buffered at the coordinator and arrive with the
//! commit, which locks them exclusively before the leader assigns a timestamp. Deadlocks cannot
//! last, because only an older transaction wounds a younger one.

mod committing;
mod coordinator;
mod held_locks;
mod lock_table;
mod messages;
mod pending_requests;
pub mod rules;
mod shard_map;
mod shards;

pub use crate::TransactionId;
pub(crate) use coordinator::Coordinator;
pub use coordinator::{MOST_TOKEN_AHEAD_NS, ONE_TRY_NS, TIMEOUT_NS, TxnClient};
pub use held_locks::HeldLocks;
pub use lock_table::{LockTable, Ticket, Verdict, Waits};
pub use messages::{
    LockEpoch, MemberRoles, ReadSnapshot, ReplicaId, Request, RequestBody, Response, Spent,
};
pub use pending_requests::{PendingRequests, RequestKey, Woken};
pub use shard_map::ShardMap;
pub use shards::{ReadLease, RequestOutcome, Shards};
