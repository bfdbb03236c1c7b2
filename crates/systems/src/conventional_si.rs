//! Conventional snapshot isolation: Clock-SI's store with one timestamp authority, the baseline of
//! the paper's comparison (Clock-SI §II, §V).
//!
//! | question | answer |
//! |---|---|
//! | what is time | the answers of the authority, which is the leader of the first shard |
//! | what orders conflicts | certification against the snapshot; two-phase commit between groups |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | once agreed, to snapshots above it |
//!
//! ```text
//!   before it reads      snapshot ◀─ the authority                    (a round trip)
//!   read at a leader     waits: a prepared transaction wrote the row below
//!   commit               certify ─▶ timestamp ◀─ the authority        (a round trip)
//!                                ─▶ agree at it ─▶ answer
//!   in several shards    certify, prepare ─▶ timestamp ◀─ the authority ─▶ commit at it
//! ```
//!
//! It is Clock-SI but for where timestamps come from: the policy is [`FromAuthority`], and
//! `shard/authority.rs` says how leaders and sessions get them. No clock is waited for, and every
//! node begins and commits at the speed of one other node. A snapshot contains every commit that
//! was acknowledged before the transaction began: strong snapshot isolation, in the one mode that
//! it has.

use crate::Protocol;
use crate::locking::KIND;
use meridian_clock::FromAuthority;
use meridian_txn::{Consistency, IsolationLevel};

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "conventional_si",
    kind: KIND,
    isolation: Some(IsolationLevel::RepeatableRead),
    consistency: &[Consistency::Hybrid],
    policy: Some(&FromAuthority),
    own_settings: &[],
};
