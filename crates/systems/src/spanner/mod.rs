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
//! | file | question |
//! |---|---|
//! | `requests` | who gets a lock, who has to wait or to give way |
//! | `commits` | from a drawn timestamp to an answer |
//! | `by_transaction` | what is under way, and whose it is |
//! | `two_phase` | what groups say to each other about one transaction |
//! | `snapshots` | what may be read without locks, and when |
//! | `schemas` | which version of a table's schema holds, and since when |
//! | `splits` | how a shard becomes two |
//! | `membership` | how a group comes to have other members |
//! | `leadership` | who should lead |
//! | `idleness` | what a leader does that nobody asks |
//! | `records` | what is agreed on, and what a shard keeps for itself of it |
//!
//! 1. Timestamps grow in the order of the log, but those of outcomes that were decided elsewhere; a new leader starts above everything in it, whatever its clock
//!    says (Trap A.5-2).
//! 2. Nothing is answered or shown before `TT.after(commit_at)` (I3). The wait overlaps agreement.
//! 3. A snapshot "now" of one shard alone is the newest visible commit, or what is closed since, while nothing is prepared that writes into what is read
//!    (Trap A.5-6); of several it is `now.latest`, or the latest of what each says of itself.
//! 4. A snapshot above every commit lies below a ceiling that the log holds: no later leader assigns at or below it (I4).
//! 5. Locks belong to one leadership: a request that bears another's number is refused (Trap A.5-7). Those of prepared transactions are in the log.
//! 6. The log names the transaction of each commit, so that a repeated request hears the same timestamp (Trap A.5-11), after a restart
//!    too while the entry is still in the log. What may have been forgotten is answered `Unknown`, never `Aborted` (Trap A.5-15).
//! 7. The future is not promised: a snapshot well beyond `now.latest` is answered `Unknown`, for every commit would have to wait for it.
//! 8. A snapshot is *closed* at a member that has installed an entry at or above it, if a leader has shown that much and nothing below it is prepared: it is
//!    served there without asking anybody, for ever, whatever any clock says. Leaders tell the members how far they have shown ([`Message::Shown`]).
//!
//! **Not here yet.** Nobody knows where another group's members are: who asks it asks every node.
//! A commit that names no leadership because its transaction read nothing is recognised when it is repeated only as long as its outcome is remembered.

mod blind;
mod by_transaction;
mod commits;
mod idleness;
mod leadership;
mod membership;
mod records;
mod replica;
mod requests;
mod schemas;
mod snapshots;
mod splits;
mod two_phase;

use crate::Protocol;
use crate::envelope::Kind;
use meridian_txn::IsolationLevel;

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

pub use idleness::Config;
pub use membership::{Invitations, Origin};
pub use records::{Agreed, Birth, Damaged, Decision, Prepared, Rows};
pub use replica::{Effect, Kept, MOST_SHARDS, Message, Replica, Serve, Timer, newest};
