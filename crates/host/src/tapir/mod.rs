//! Databases of the tapir recipe on this node: a replica of the shard, and the sessions that ask replicas.
//!
//! ```text
//!   session ── gateway (txn) ── desk ──┬──▶ this node's replica: stepped on the session's thread, read without a step
//!                                      └──▶ frames ──▶ other nodes' replicas ──▶ frames ──▶ wake the session
//! ```
//!
//! Nobody leads, so no session looks for a leader, and a node that ends hands nothing over.
//!
//! | file | question |
//! |---|---|
//! | `home` | what does a replica's node do for it? |
//! | `desk` | whom do sessions ask, and what do they wait for? |
//! | `tending` | who finishes what nobody finishes, and who catches up? |
//!
//! Not yet here: more shards than one, and other members than those of a database's birth.

mod desk;
mod home;
mod tending;

pub use desk::Desk;
pub use home::{Place, ReplicaHome, ReplicaShard, begin};

/// A database, from this node.
pub type Gateway = meridian_txn::tapir::Gateway<Desk>;
