//! HybridTime: Spanner's store without its wait; each transaction says how much order it needs.
//!
//! | question | answer |
//! |---|---|
//! | what is time | an interval, and the timestamps that messages carry |
//! | what orders conflicts | lock tables (wound-wait), two-phase commit between groups |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | once agreed; in mode `commit_wait` its answer waits |
//!
//! ```text
//!   a session's token ─▶ every request ─▶ the leader issues above it (Update)
//!   agreed ─▶ visible, locks released ─▶ answer at `at`
//!                                          hybrid       ─▶ the session: its token is `at` now
//!                                          commit_wait  ─▶ TT.after(at) ─▶ the session
//! ```
//!
//! Three parts make the protocol: [`shard`](crate::shard) and [`locking`](crate::locking), as for
//! Spanner, and the policy [`Hybrid`]. Leaders know no modes: tokens and waits are the
//! coordinator's (`txn/locking/coordinator/order.rs`).
//!
//! Invariants, besides those of the two:
//! 1. A transaction that was given a token has a timestamp above it, and reads nothing older
//!    (Traps A.4-9, A.4-11). A token too far ahead to be true is refused and not adopted (Trap
//!    A.4-3).
//! 2. In mode `commit_wait` an answer leaves after everything that the transaction has written and
//!    read has surely passed (I3), whatever the modes of the transactions that wrote it.
//! 3. In every mode transactions are serializable in the order of their timestamps, but for reads
//!    of several shards in mode `none`.

use crate::Protocol;
use crate::locking::KIND;
use meridian_clock::Hybrid;
use meridian_txn::{Consistency, IsolationLevel};

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "hybrid_time",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    consistency: &[Consistency::Hybrid, Consistency::CommitWait, Consistency::None],
    policy: Some(&Hybrid),
    own_settings: &[],
};
