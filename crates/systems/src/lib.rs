//! One page per protocol: which parts meet.
//!
//! A protocol combines a concurrency control (`txn`) with a way of replication (`replication`), and
//! decides nothing that either of them could decide. A database chooses its protocol when it is
//! created ([`Protocol`]); SQL sees the same [`Transaction`](meridian_txn::Transaction) whichever
//! runs.

pub mod baselines;
mod distances;
pub mod envelope;
mod protocol;
pub mod setting;
pub mod shard;
pub mod spanner;
pub mod tapir;
mod wire;

pub use distances::Distances;
pub use protocol::Protocol;
pub use wire::{Next, Round, Wire};
