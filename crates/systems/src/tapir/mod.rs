//! TAPIR: optimistic transactions (`txn/tapir`) on replicas without leader or order (`replication/inconsistent`).
//!
//! ```text
//!   a session's question ── invoke ──▶ Propose ─▶ all replicas of the shard ─▶ enough alike, or decide and Finalize ──▶ its answer
//!   how it ended         ── tell ────▶ Tell ────▶ all replicas, which install
//!   a snapshot       ── look ────▶ Look ────▶ replicas, which refuse writes below it from then on ─▶ as many as it takes ──▶ the newest of each key
//! ```
//!
//! Transactions that would refuse one another again take turns, which are queues at one replica (`turns`): advice, on which nothing rests.
//!
//! What a shard is asked is a consensus operation, whose result is its answer; how a transaction ended is a fact, for which nobody waits.
//!
//! | file | question |
//! |---|---|
//! | `client` | how does a session ask a shard? |
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
mod shard;
mod turns;
mod waits;

pub use changing::have_taken_over;
pub use client::{common, invoke, keep_turn, leave, look, looked, read, take_turn, tell};
pub use messages::{Kept, Message, Page};
pub use progress::Progress;
pub use replica::{Effect, Forgetting, Replica, Serve, Timer, View};
pub use shard::Shard;
