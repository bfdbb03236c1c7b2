//! QWStore, the store without transactions that TAPIR is compared with (SOSP'15 §7; TOCS'18):
//! written everywhere, read anywhere, and the last writer wins.
//!
//! | question | answer |
//! |---|---|
//! | what is time | each node's clock; a write's timestamp is its writer's |
//! | who orders conflicts | nobody: of a key the version with the highest timestamp stands, whichever came first |
//! | what carries agreement | the writer, who says a write to all replicas until each of them has it on disk |
//! | when does a commit show | at each replica when it comes there |
//!
//! ```text
//!   put     session ── Put ──▶ every replica ── installs, and Stored once it is on disk ──▶ acknowledged when all have said so
//!   get     session ── Read ─▶ one replica, its own node's if it has one ── Found ──▶
//! ```
//!
//! | file | question |
//! |---|---|
//! | `messages` | what is said, and kept? |
//! | `replica` | what does a replica take, and when does it say so? |
//! | `session` | what does a session do, from its first read to the outcome? |
//!
//! Invariants:
//! 1. What is acknowledged is on the disk of every replica.
//! 2. Of two versions of a key that a replica has had, it shows the one with the higher timestamp,
//!    in whichever order they came. Timestamps are unique, so replicas that have had the same show
//!    the same.
//! 3. Nothing at or below what a replica has closed is taken: a tombstone may be collected there,
//!    and nothing older comes to life again.
//!
//! What it does not do, on purpose:
//! - *No isolation*: a session reads whatever one replica has at that moment, also half of what
//!   another session writes at once. Nothing that was read is ever checked.
//! - *No atomicity*: a write that was not acknowledged may stand at some replicas for ever, and at
//!   others never. What a session puts leaves with its commit, in one message for each replica;
//!   that is for fewer messages and promises nothing.
//! - *No repair*: nobody compares replicas, and there are no views. Who misses a write gets it from
//!   its writer or not at all.
//! - *No write while a replica is away*: with one that cannot be reached a write waits, and in the
//!   end it is unknown what became of it ([`Outcome::Unknown`](meridian_txn::Outcome)).
//! - *No real time*: whoever writes with a clock that is behind may lose against what was written,
//!   and acknowledged, before.
//!
//! Departs from the paper's: there each put is an operation of its own and waited for; here a
//! session's puts are sent together when it commits. So it is a faster opponent.

mod messages;
mod replica;
pub mod rules;
mod session;

use crate::Protocol;
use crate::envelope::Kind;

/// What its frames and records begin with.
pub const KIND: Kind = Kind(6);

/// The protocol's row.
pub static PROTOCOL: Protocol = Protocol {
    name: "qwstore",
    kind: KIND,
    isolation: None,
    real_time_order: false,
    has_leaders: false,
    own_settings: &[],
};

pub use messages::{Kept, Message, Put};
pub use replica::{Effect, Replica, Serve, Timer};
pub use session::{Gateway, Local, Replicas};
