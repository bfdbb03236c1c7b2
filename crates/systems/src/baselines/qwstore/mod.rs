//! QWStore, the store without transactions that TAPIR is compared with (SOSP'15 §7; TOCS'18):
//! written everywhere, read anywhere, and the last writer wins.
//!
//! | question | answer |
//! |---|---|
//! | what is time | each node's clock; a write's timestamp is its writer's |
//! | what orders conflicts | nothing: the version of a key with the highest timestamp wins |
//! | what carries agreement | the writer repeats a write until every replica has it on disk |
//! | when does a commit show | at each replica when it arrives there |
//!
//! ```text
//!   put     session ── Put ──▶ every replica ── installs, then Stored once it is on disk
//!                              ──▶ acknowledged when all replicas have answered
//!   get     session ── Read ─▶ one replica, its own node's if it has one ── Found ──▶
//! ```
//!
//! | file | question |
//! |---|---|
//! | `messages` | which messages and log records are there? |
//! | `replica` | which writes does a replica accept, and when does it answer? |
//! | `coordinator` | what does a session do, from its first read to the outcome? |
//!
//! Invariants:
//! 1. An acknowledged write is on the disk of every replica.
//! 2. Of two versions of a key that a replica has received, it shows the one with the higher
//!    timestamp, in whichever order they arrived. Timestamps are unique, so replicas that have
//!    received the same versions show the same.
//! 3. A replica accepts nothing at or below its closed timestamp: a tombstone may be collected
//!    there, and no older version comes back.
//!
//! It omits on purpose:
//! - *Isolation*: a session reads whatever one replica has at that moment, including half of
//!   another session's concurrent writes. Reads are never validated.
//! - *Atomicity*: an unacknowledged write may stay at some replicas for ever, and never reach
//!   others. A session's puts leave with its commit, in one message for each replica; that saves
//!   messages and promises nothing.
//! - *Repair*: replicas are not compared, and there are no views. A replica that misses a write
//!   gets it from its writer or not at all.
//! - *Writes while a replica is away*: while one cannot be reached a write waits, and in the end
//!   its outcome is unknown ([`Outcome::Unknown`](meridian_txn::Outcome)).
//! - *Real time*: a write by a node whose clock is behind may lose against one that was
//!   acknowledged before.
//!
//! **Departure.** In the paper each put is an operation of its own and waited for. Here a session's
//! puts are sent together when it commits, which makes it a faster opponent.

mod coordinator;
mod messages;
mod replica;
pub mod rules;

use crate::Protocol;
use crate::envelope::Kind;
use meridian_txn::Consistency;

/// The first byte of its frames and records.
pub const KIND: Kind = Kind(6);

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "qwstore",
    kind: KIND,
    isolation: None,
    consistency: &[Consistency::None],
    policy: None,
    own_settings: &[],
};

pub use coordinator::{Local, Replicas, TxnClient};
pub use messages::{LogRecord, Message, Put};
pub use replica::{Effect, Replica, Serve, Timer};
