//! K2: transactions are ordered by timestamps that they draw when they begin.
//!
//! | question | answer |
//! |---|---|
//! | what is time | an interval that contains true time, on the session's node |
//! | what orders conflicts | the transactions' timestamps (multi-version timestamp ordering) |
//! | what carries agreement | a leader-based group under a timed lease |
//! | when does a commit show | once its timestamp has surely passed, and its recorder has decided |
//!
//! ```text
//!   begin                ts ◀─ now.latest
//!   read at a leader     noted; waits for older undecided writers of the same keys
//!   a statement writes   intents ─▶ every log, while the transaction goes on
//!   commit               after all of them, and after(ts) ─▶ the recorder decides ─▶ answer
//!   alone, in one shard  after(ts) ─▶ one entry of the log ─▶ answer
//! ```
//!
//! The concurrency control is [`mvto`](crate::mvto), the policy [`AtStart`].
//!
//! **Not here yet.** The simulator gives some of its databases time oracles (§4). On real nodes
//! timestamps come from the session's own node (`TT.now().latest`): a database cannot name oracles.
//! Replicas in other regions do not answer reads (§6).

use crate::Protocol;
use crate::mvto::KIND;
use meridian_clock::AtStart;
use meridian_txn::{Consistency, IsolationLevel};

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "k2",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    consistency: &[Consistency::CommitWait],
    policy: Some(&AtStart),
    own_settings: &[],
};
