//! Spanner, in its first form: one group for each database.
//!
//! | question | answer |
//! |---|---|
//! | what is time | an interval |
//! | who orders conflicts | the lock table at the leader (wound-wait) |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | when it is agreed and its timestamp has surely passed (commit wait) |
//!
//! ```text
//!   Commit ─▶ exclusive locks ─▶ commit_at ≥ now.latest, above all before, below the lease's end ─▶ propose     one step (Trap A.5-4)
//!                                                    agreed ─▶ install everywhere
//!                                       TT.after(commit_at) ─▶ visible: locks released, answered
//! ```
//!
//! 1. Timestamps grow in the order of the log; a new leader starts above everything in it, whatever its clock says (Trap A.5-2).
//! 2. Nothing is answered or shown before `TT.after(commit_at)` (I3). The wait overlaps agreement.
//! 3. A snapshot "now" is the newest visible commit: everything acknowledged is in it, nothing in commit wait is, and
//!    nothing at or below it can appear any more (I1; Trap A.5-6).
//! 4. A snapshot at a given timestamp first has a floor agreed on, so that no later leader assigns at or below it (I4).
//! 5. Locks belong to one leadership: a request that bears another's number is refused (Trap A.5-7).
//! 6. The log names the transaction of each commit, so that a repeated request hears the same timestamp (Trap A.5-11), after a restart
//!    too while the entry is still in the log. What may have been forgotten is answered `Unknown`, never `Aborted` (Trap A.5-15).
//! 7. The future is not promised: a snapshot beyond `now.latest` is answered `Unknown`, for every commit would have to wait for it.
//! 8. A snapshot is *closed* at a member that has installed an entry at or above it, if a leader has shown that much: it is served there without asking
//!    anybody, for ever, whatever any clock says. Leaders tell the members how far they have shown ([`Message::Shown`]).
//!
//! **Not here yet.** Several groups and two-phase commit; promises for groups where nothing happens (MinNextTS, §4.2.4).
//! A commit that names no leadership because its transaction read nothing is recognised when it is repeated only as long as its outcome is remembered.

mod commits;
mod leadership;
mod records;
mod replica;
mod requests;
mod snapshots;
mod splits;
mod two_phase;

pub use records::{Agreed, Damaged, Decision, Prepared, Rows};
pub use replica::{Effect, Kept, MOST, Message, Replica, Serve, Timer, newest};
