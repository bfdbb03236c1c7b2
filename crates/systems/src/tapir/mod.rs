//! TAPIR: optimistic transactions (`txn/tapir`) on replicas without leader or order (`replication/inconsistent`).
//!
//! ```text
//!   a session's question ── invoke ──▶ Propose ─▶ all replicas of the shard ─▶ enough alike, or decide and Finalize ──▶ its answer
//!   how it ended         ── tell ────▶ Tell ────▶ all replicas, which install
//!   a snapshot       ── look ────▶ Look ────▶ replicas, which refuse writes below it from then on ─▶ as many as it takes ──▶ the newest of each key
//! ```
//!
//! What a shard is asked is a consensus operation, whose result is its answer; how a transaction ended is a fact, for which nobody waits.

mod client;
mod copying;
mod messages;
mod replica;
mod shard;
mod waits;

pub use client::{common, invoke, look, looked, read, tell};
pub use messages::{Kept, Message, Page};
pub use replica::{Effect, Forgetting, Replica, Serve, Timer, View};
pub use shard::Shard;
