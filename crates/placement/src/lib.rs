//! Placement: databases, shards, members, and their identities.
//!
//! This is the first form of placement. The members of a cluster are fixed at its creation. A
//! database begins with one shard, which is split by hand, and every shard is replicated by one
//! group on all members. The metadata are rows of the database `system` under a reserved prefix, so
//! they are agreed on, versioned and recovered like any other row. [`Databases`] is what a node has
//! read of them.
//!
//! ```text
//!   system's rows:   \0placement\0database\0<id>  ──▶  DatabaseRow { id, name, protocol, shards }
//!                    \0placement\0shards\0<id>    ──▶  the newest shard number of a database
//!   a node's cache:  key ──▶ shard  (Routes), from what its members applied and from refusals
//! ```
//!
//! Invariants:
//! 1. The number of a database is never reused: a dropped database leaves a tombstone row with its
//!    number.
//! 2. The number of a shard is never reused. The shard's log determines its keys, and [`Routes`] is
//!    a node's cache of them.
//! 3. A node id belongs to one disk, for good ([`PeerIdentities`]).
//! 4. Databases 0 to 2 (`system`, `postgres`, `meridian`) exist in every cluster and have no row.
//!
//! Not yet here: directories and their movement, groups on a part of the members, zones as a
//! constraint (Spanner §2.2).

mod databases;
mod members;
mod peer_identity;
mod routes;
pub mod rules;

pub use databases::{
    DatabaseRow, Databases, FIRST_FREE, MERIDIAN, POSTGRES, SYSTEM, row_prefix, shards_key,
};
pub use members::{ClusterMembers, Member, MembersError};
pub use peer_identity::{DiskId, Greeting, IdentityMismatch, PeerIdentities};
pub use routes::{FIRST_SHARD, Routes, keys_without_route};
