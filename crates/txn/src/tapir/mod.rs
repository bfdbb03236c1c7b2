//! TAPIR: transactions whose coordinators propose their place in the order, and which every replica
//! validates for itself (SOSP'15; TOCS'18).
//!
//! ```text
//!   coordinator                              each replica of each shard
//!   timestamp of its own ── Proposal ──────▶ validates: is every read current, no write too late?
//!        Ok from all shards ◀── Vote ─────── Ok: prepared · Abstain · Retry above · Abort
//!                           ── End ────────▶ installs, in any order
//! ```
//!
//! The serial order is that of the timestamps. No replica knows all of them. Two conflicting
//! transactions meet because the quorums that validate them intersect.
//!
//! | file | contents |
//! |---|---|
//! | `proposal` | operations, their results, and decisions from results |
//! | `participant` | a replica's votes and state |
//! | `prepared` | the index of prepared proposals, for conflict checks |
//! | `shards` | the coordinator's way to the shards' replicas |
//! | `coordinator` | a transaction at its coordinator, from the first read to the outcome |
//! | `contested` | keys over which transactions were refused, and their turns |
//! | `sharing` | the queue of a node's sessions for a turn |
//! | `schemas` | validation of the schema versions that a transaction was planned for |
//! | `snapshot` | reads of snapshots that a quorum agrees on |
//! | `recovery` | recovery of a transaction whose coordinator is gone |
//! | `highest` | the highest timestamp at which each key was read |
//!
//! Invariants:
//! 1. A transaction's timestamp is above every version that it has read, and above the settled
//!    timestamp (Traps A.2-17, A.2-20).
//! 2. No transaction writes at or below the timestamp of a transaction that has read the key,
//!    whether that one is prepared here or committed (A.2-20).
//! 3. Ranges are validated, not only keys: no transaction writes into a range that was read as
//!    empty (A.2-18).
//! 4. Votes on different attempts of a transaction never count together, and a replica votes on the
//!    newest only (A.2-2).
//! 5. An ended transaction is not prepared again (A.2-15).
//! 6. A transaction has committed exactly if every participant has voted `Ok` on the same attempt.
//!    A recovery asks all participants and receives what the coordinator would; so no backup
//!    coordinator has to be elected (A.2-12).
//! 7. A served snapshot refuses every write below it, across restarts and views (§6.1; A.2-3).
//! 8. Settled versions are the same at every replica, and complete: a read at a settled timestamp
//!    has seen all of them, whichever replica validates (A.2-17). Replicas forget the outcomes of
//!    settled transactions; so a proposal at a settled timestamp gets no outcome.
//!
//! Left out: the fast path of §6.1, which reads at one replica. It is unsafe after a replica was
//! partitioned: a quorum read raises the read timestamp of a key at that replica although it lacks
//! the newest version, so that its stale version passes for valid (A.2-4).
//!
//! Not implemented yet: removal of the names of commits of several shards.

mod contested;
mod coordinator;
mod highest;
mod participant;
mod prepared;
mod proposal;
mod recovery;
pub mod rules;
mod schemas;
mod shards;
mod sharing;
mod slots;
mod snapshot;

pub use contested::{MOST_BYTES as TURN_BYTES, MOST_OF_ONE as TURN_RANGES};
pub use coordinator::TxnClient;
pub use participant::{Installed, Participant};
pub use proposal::{
    ConsensusOp, ConsensusResult, End, Footprint, Guarantee, InconsistentOp, Past, Proposal,
    RangeRead, TxnStatus, Vote, decide, stands,
};
pub use recovery::recover;
pub use shards::{Common, ReadResult, Shards, SnapshotRead, Turn};
pub use sharing::MOST as TURN_HANDED_ON;
