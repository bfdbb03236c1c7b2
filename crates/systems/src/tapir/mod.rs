//! TAPIR: optimistic transactions (`txn/tapir`) on replicas without leader or order
//! (`replication/inconsistent`).
//!
//! ```text
//!   question        ── invoke ──▶ Propose ─▶ all replicas of the shard
//!                                 ─▶ enough equal results, or decide and Finalize ──▶ result
//!   outcome         ── tell ────▶ Tell ────▶ all replicas, which install
//!   snapshot read   ── look ────▶ Look ────▶ replicas, which refuse later writes below it
//!                                 ─▶ enough answers ──▶ the newest version of each key
//! ```
//!
//! Transactions that would refuse one another again take turns, in queues at one replica (`turns`).
//! Turns are advice; correctness does not depend on them.
//!
//! A question to a shard is a consensus operation, whose result is the shard's answer. The outcome
//! of a transaction is an inconsistent operation; sessions do not wait for it.
//!
//! | file | question |
//! |---|---|
//! | `client` | how does a session send operations to a shard? |
//! | `shards` | how do coordinators reach the shards, over any wire? |
//! | `messages` | which messages are there? |
//! | `replica`, `shard`, `waits` | how does a replica handle, execute and delay operations? |
//! | `turns` | which transaction over a contested key comes next? |
//! | `changing` | how is a change of replicas carried out? |
//! | `lifecycle` | when does a node start, keep and end a replica? |
//! | `copying` | how does a new replica get the settled state? |
//! | `progress` | how far have versions come on a node? |

mod changing;
mod client;
mod copying;
pub mod lifecycle;
mod messages;
mod progress;
mod replica;
pub mod rules;
mod shard;
mod shards;
mod turns;
mod waits;

use crate::Protocol;
use crate::envelope::Kind;
use crate::setting::{Setting, Values};
use meridian_txn::tapir::Guarantee;
use meridian_txn::{Consistency, IsolationLevel};
use std::time::Duration;

/// The first byte of the frames and records of both protocols.
pub const KIND: Kind = Kind(5);

/// How long a replica delays a prepare so that earlier timestamps can arrive (§6.6).
pub static PREPARE_WAIT: Setting = Setting {
    name: "prepare_wait",
    values: Values::Durations {
        possible: Duration::ZERO..=Duration::from_secs(1),
        default: Some(Duration::ZERO),
    },
    hint: "A replica delays a prepare for 0 to 1s: ALTER DATABASE lab SET prepare_wait = '5ms'.",
};

/// TAPIR with strictly serializable transactions.
pub static STRICTLY_SERIALIZABLE: Protocol =
    Protocol { name: "tapir", consistency: &[Consistency::CommitWait], ..AS_PUBLISHED };

/// TAPIR as published: transactions are serializable in the order of their timestamps, which need
/// not be that of real time.
pub static SERIALIZABLE: Protocol = AS_PUBLISHED;

const AS_PUBLISHED: Protocol = Protocol {
    name: "tapir-serializable",
    kind: KIND,
    isolation: Some(IsolationLevel::Serializable),
    consistency: &[Consistency::None],
    policy: None,
    own_settings: &[&PREPARE_WAIT],
};

/// Returns the guarantee that replicas of a database with this protocol give.
pub fn guarantee(protocol: &Protocol) -> Guarantee {
    if protocol.has_real_time_order() {
        Guarantee::StrictlySerializable
    } else {
        Guarantee::Serializable
    }
}

pub use changing::have_taken_over;
pub use client::{common, invoke, keep_turn, leave, look, looked, read, send_end, take_turn};
pub use messages::{LogRecord, Message, Page};
pub use progress::Progress;
pub use replica::{Effect, ReadView, Replica, Serve, Timer, TruncationPolicy};
pub use shard::Shard;
pub use shards::{Local, Shards};
