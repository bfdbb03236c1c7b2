//! One page per named system: which bricks meet.
//!
//! A system is a recipe: it introduces a concurrency control (`txn`) to a way of agreeing (`replication`), and decides nothing that either of
//! them could decide. A database chooses its recipe when it is created; what stands above sees the same
//! [`Transaction`](meridian_txn::Transaction) whichever runs. So far there is one that a database can choose: [`spanner`]. Of [`tapir`] there are the replicas.

pub mod envelope;
pub mod spanner;
pub mod tapir;
