//! Clock-SI: snapshot isolation from loosely synchronized clocks, without a timestamp authority.
//!
//! | question | answer |
//! |---|---|
//! | what is time | the clock of the node that begins, or of the leader that commits |
//! | what orders conflicts | certification against the snapshot; two-phase commit between groups |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | once agreed, to snapshots above it; in mode `commit_wait` its answer waits |
//!
//! ```text
//!   begin at a node      snapshot ◀─ its clock
//!   read at a leader     waits: its clock < snapshot, or a prepared transaction wrote the row below
//!   commit               certify ─▶ agree at a timestamp above the snapshot ─▶ answer
//!   in several shards    certify, prepare ─▶ commit at or above every prepare timestamp
//! ```
//!
//! Three parts make the protocol: [`shard`](crate::shard) and [`locking`](crate::locking), as for
//! Spanner, with the policy [`LocalClock`] and certification
//! (`locking/certification.rs`); and the coordinator [`meridian_txn::snapshot`].
//!
//! Invariants, besides those of the three:
//! 1. A transaction reads exactly the commits at or below its snapshot, at whatever shard, and its
//!    own writes (§III-A).
//! 2. No two committed transactions write one row if one's commit timestamp lies between the
//!    other's snapshot and commit timestamp (§III-B).
//! 3. Both hold whatever the clocks say (§III-D): a leader's timestamps lie above every snapshot
//!    that was served and every timestamp that was issued, by any leader before (Trap A.3-8).

use crate::Protocol;
use crate::locking::KIND;
use crate::setting::SNAPSHOT_AGE;
use meridian_clock::LocalClock;
use meridian_txn::{Consistency, IsolationLevel};

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "clock_si",
    kind: KIND,
    isolation: Some(IsolationLevel::RepeatableRead),
    consistency: &[Consistency::Hybrid, Consistency::CommitWait],
    policy: Some(&LocalClock),
    own_settings: &[&SNAPSHOT_AGE],
};
