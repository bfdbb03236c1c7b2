//! TAPIR: optimistic transactions (`txn/tapir`) on replicas without leader or order
//! (`replication/inconsistent`).
//!
//! ```text
//!   a session's question ── invoke ──▶ Propose ─▶ all replicas of the shard ─▶ enough alike, or decide and Finalize ──▶ its answer
//!   how it ended         ── tell ────▶ Tell ────▶ all replicas, which install
//!   a snapshot       ── look ────▶ Look ────▶ replicas, which refuse writes below it from then on ─▶ as many as it takes ──▶ the newest of each key
//! ```
//!
//! Transactions that would refuse one another again take turns, which are queues at one replica
//! (`turns`): advice, on which nothing rests.
//!
//! What a shard is asked is a consensus operation, whose result is its answer; how a transaction
//! ended is a fact, for which nobody waits.
//!
//! | file | question |
//! |---|---|
//! | `client` | how does a session ask a shard? |
//! | `shards` | how do coordinators reach the shards, over any wire? |
//! | `messages` | what is said? |
//! | `replica`, `shard`, `waits` | what does a replica do with it, what does it mean, and what waits? |
//! | `turns` | which transaction over a contested key comes next? |
//! | `rows` | which nodes have replicas, as the database's row says? |
//! | `changing` | how is a change of that carried out? |
//! | `lifecycle` | when does a node begin, keep and end a replica? |
//! | `copying`, `progress` | how does a new one get what is settled, and how far have versions come on its node? |

mod changing;
mod client;
mod copying;
pub mod lifecycle;
mod messages;
mod progress;
mod replica;
pub mod rows;
pub mod rules;
mod shard;
mod shards;
mod turns;
mod waits;

use crate::Protocol;
use crate::envelope::Kind;
use crate::setting::Setting;
use meridian_txn::IsolationLevel;
use meridian_txn::tapir::Guarantee;
use std::time::Duration;

/// What the frames and records of both rows begin with.
pub const KIND: Kind = Kind(5);

/// How long a replica holds what is to be prepared back, for what has an earlier timestamp (§6.6).
pub static PREPARE_WAIT: Setting = Setting {
    name: "prepare_wait",
    possible: Duration::ZERO..=Duration::from_secs(1),
    default: Some(Duration::ZERO),
    hint: "What is to be prepared waits for 0 to 1s: ALTER DATABASE lab SET prepare_wait = '5ms'.",
};

/// TAPIR whose transactions are strictly serializable.
pub static STRICTLY_SERIALIZABLE: Protocol =
    Protocol { name: "tapir", real_time_order: true, ..AS_PUBLISHED };

/// TAPIR as its paper has it: transactions are serializable, in the order of their timestamps,
/// which need not be that of real time.
pub static SERIALIZABLE: Protocol = AS_PUBLISHED;

const AS_PUBLISHED: Protocol = Protocol {
    name: "tapir-serializable",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    real_time_order: false,
    has_leaders: false,
    own_settings: &[&PREPARE_WAIT],
};

/// What replicas of a database of this protocol guarantee.
pub fn guarantee(protocol: &Protocol) -> Guarantee {
    if protocol.real_time_order { Guarantee::StrictlySerializable } else { Guarantee::Serializable }
}

pub use changing::have_taken_over;
pub use client::{common, invoke, keep_turn, leave, look, looked, read, take_turn, tell};
pub use messages::{Kept, Message, Page};
pub use progress::Progress;
pub use replica::{Effect, Forgetting, Replica, Serve, Timer, View};
pub use shard::Shard;
pub use shards::{Local, Shards};
