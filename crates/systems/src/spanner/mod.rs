//! Spanner: leader-based groups under timed leases, and transactions across them.
//!
//! | question | answer |
//! |---|---|
//! | what is time | an interval |
//! | who orders conflicts | the lock table at the leader (wound-wait), two-phase commit between groups |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | when it is agreed and its timestamp has surely passed (commit wait) |
//!
//! ```text
//!   Commit ─▶ exclusive locks ─▶ votes, if others take part ─▶ commit_at ≥ now.latest, above all before, below the lease's end ─▶ propose
//!                                                    agreed ─▶ install everywhere                      one step (Trap A.5-4)
//!                                       TT.after(commit_at) ─▶ visible: locks released, answered, others told
//! ```
//!
//! The shard itself (its group, keys, timestamps and leadership) is in [`shard`]. Here is what
//! orders transactions:
//!
//! | file | question |
//! |---|---|
//! | `participant` | what does two-phase locking do for a shard, and what does it keep? |
//! | `requests` | which request gets a lock, and which one waits or gives way? |
//! | `commits` | what happens between a drawn timestamp and an answer? |
//! | `by_transaction` | what is under way, and of which transaction? |
//! | `two_phase` | what do groups say to each other about one transaction? |
//! | `blind` | when does an attempt begin that has locked nothing? |
//! | `snapshots` | what may be read without locks, and when? |
//! | `schemas` | which version of a table's schema holds, and since when? |
//! | `records` | what is agreed about transactions, and what is kept of it? |
//!
//! Invariants, besides those of a shard:
//! 1. Nothing is answered or shown before `TT.after(commit_at)` (I3). The wait overlaps agreement.
//! 2. A snapshot "now" of one shard alone is the newest visible commit, or what is closed since,
//!    while nothing is prepared that writes into what is read (Trap A.5-6); of several it is
//!    `now.latest`, or the latest of what each says of itself.
//! 3. Locks belong to one leadership: a request that bears another's number is refused (Trap
//!    A.5-7). Those of prepared transactions are in the log.
//! 4. The log names the transaction of each commit, so that a repeated request is answered with the
//!    same timestamp (Trap A.5-11), after a restart too while the entry is still in the log. What
//!    may have been forgotten is answered `Unknown`, never `Aborted` (Trap A.5-15).
//! 5. The future is not promised: a snapshot well beyond `now.latest` is answered `Unknown`, for
//!    every commit would have to wait for it.
//!
//! **Not here yet.** A node does not know where another group's members are: a question goes to
//! every node. A commit that names no leadership because its transaction read nothing is recognised
//! when it is repeated only as long as its outcome is remembered.

mod blind;
mod by_transaction;
mod commits;
mod participant;
mod records;
mod requests;
pub mod rules;
mod schemas;
mod snapshots;
mod two_phase;

use crate::Protocol;
use crate::envelope::Kind;
use crate::shard::{self, Shard};
use meridian_clock::TrueTime;
use meridian_txn::IsolationLevel;
use meridian_txn::locking::{Between, Reply, Request};

/// What its frames and records begin with.
pub const KIND: Kind = Kind(1);

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "spanner",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    real_time_order: true,
    has_leaders: true,
    own_settings: &[],
};

/// A member of the group of a shard with two-phase locking.
type Member<T> = Shard<Locking<T>>;
/// A member of a shard's group.
pub type Replica = Shard<Locking<TrueTime>>;
/// What members and coordinators say.
pub type Message = shard::Message<Request, Reply, Between>;
/// What a member asks of its runtime.
pub type Effect = shard::Effect<Serve>;
/// What a member finds of itself in the store.
pub type Kept = shard::Kept<TransactionRows>;
/// A shard's rows about itself.
pub type Rows = shard::Rows<TransactionRows>;

pub use crate::shard::{
    Birth, Config, Damaged, Invitations, MOST_SHARDS, Origin, Timer, lifecycle, members_at_birth,
};
pub use participant::{Locking, Serve};
pub use records::{Agreed, Decision, Prepared, TransactionRows};

/// The newest timestamp in a member's records, agreed or not.
pub fn newest(records: &[meridian_replication::group::Record]) -> meridian_clock::Timestamp {
    shard::newest::<Agreed>(records)
}
