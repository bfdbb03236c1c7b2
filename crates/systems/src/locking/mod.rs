//! Two-phase locking (wound-wait) in a shard with leaders: the participant of every protocol that
//! orders conflicts by locks. Such a protocol chooses a
//! [`TimestampPolicy`](meridian_clock::TimestampPolicy).
//!
//! ```text
//!   Commit ─▶ exclusive locks ─▶ votes of participants, if any
//!          ─▶ commit_at ≥ now.latest, above all before, below the lease's end ─▶ propose
//!             (timestamp and place in the log in one step: Trap A.5-4)
//!   agreed ─▶ install on every member
//!   TT.after(commit_at) ─▶ visible: locks released, session answered, participants told
//! ```
//!
//! The drawing and the invariants show the policy [`TrueTime`](meridian_clock::TrueTime); another
//! policy has another commit wait.
//!
//! The shard itself (its group, keys, timestamps and leadership) is in [`shard`]. The lock table
//! ([`LockTable`](meridian_txn::locking::LockTable)) and the state of two-phase commit
//! ([`TwoPhase`](meridian_txn::two_phase::TwoPhase)) are values. These files decide with them, and
//! send what they say:
//!
//! | file | question |
//! |---|---|
//! | `participant` | what state does two-phase locking keep for a shard? |
//! | `requests` | which request gets a lock, and which one waits or gives way? |
//! | `commits` | what happens between a drawn timestamp and an answer? |
//! | `by_transaction` | which pending work belongs to which transaction? |
//! | `two_phase` | which messages do groups exchange about one transaction? |
//! | `snapshots` | what may be read without locks, and when? |
//! | `schemas` | which version of a table's schema holds, and since when? |
//! | `records` | what is agreed about transactions, and what is kept of it? |
//!
//! Invariants, besides those of a shard:
//! 1. Nothing is answered or visible before the policy allows it; under `TrueTime` that is
//!    `TT.after(commit_at)` (I3). The wait overlaps agreement.
//! 2. A snapshot "now" of a single shard is the newest visible commit, or the closed timestamp if
//!    that is later, while nothing is prepared that writes into what is read (Trap A.5-6). A
//!    snapshot of several shards is at `now.latest`, or at the latest of the shards' own
//!    timestamps.
//! 3. Locks belong to one leader term: a request that carries another term is refused (Trap A.5-7).
//!    The locks of prepared transactions are in the log.
//! 4. The log names the transaction of each commit, so that a repeated request is answered with the
//!    same timestamp (Trap A.5-11), after a restart too while the entry is still in the log. A
//!    request whose outcome may have been forgotten is answered `Unknown`, never `Aborted` (Trap
//!    A.5-15).
//! 5. The future is not promised: a snapshot well beyond `now.latest` is answered `Unknown`,
//!    because every commit would have to wait for it.
//!
//! **Not here yet.** A node does not know where another group's members are, so it sends such
//! messages to every node. A commit of a transaction that read nothing names no leader term. A
//! repetition of it is recognised only as long as its outcome is remembered.

mod by_transaction;
mod certification;
mod commits;
mod participant;
mod records;
mod requests;
pub mod rules;
mod schemas;
mod snapshots;
mod two_phase;

use crate::envelope::Kind;
use crate::shard::{self, Shard};
use meridian_txn::two_phase::ParticipantMessage;

/// The first byte of the frames and records of protocols that use it.
pub const KIND: Kind = Kind(1);

/// A member of the group of a shard with two-phase locking.
type Member = Shard<Locking>;
/// A member of a shard's group.
pub type Replica = Shard<Locking>;
/// The messages between members and coordinators.
pub type Message = shard::Message<ParticipantMessage>;
/// The effects that a member asks of its runtime.
pub type Effect = shard::Effect;
/// The state that a member recovers from the store.
pub type Recovered = shard::Recovered<TransactionRows>;
/// The rows that a shard keeps about itself.
pub type Rows = shard::Rows<TransactionRows>;

pub use crate::shard::Serve;
pub use participant::Locking;
pub use records::{Prepared, TransactionCommand, TransactionRows};

/// Returns the newest timestamp in a member's records, agreed or not.
pub fn newest(records: &[meridian_replication::group::Record]) -> meridian_clock::Timestamp {
    shard::newest::<TransactionCommand>(records)
}
