//! Protocols: each module combines a concurrency control with a way of replication.
//!
//! A protocol takes its concurrency control from `txn` and its replication from `replication`, and
//! decides nothing that either of them could decide. A database chooses its protocol when it is
//! created ([`Protocol`]). SQL uses the same [`Transaction`](meridian_txn::Transaction) trait with
//! every protocol. [`shard`], [`locking`] and [`mvto`] are parts of protocols: the shard, and its
//! concurrency control.

pub mod baselines;
pub mod clock_si;
pub mod conventional_si;
mod distances;
pub mod envelope;
pub mod hybrid_time;
pub mod k2;
pub mod locking;
pub mod mvto;
mod protocol;
pub mod replica_rows;
pub mod setting;
pub mod shard;
pub mod spanner;
pub mod tapir;
mod wire;

pub use distances::Distances;
pub use protocol::Protocol;
pub use wire::{Next, Round, Wire};
