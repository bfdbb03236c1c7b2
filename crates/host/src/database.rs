//! A database on this node, as the directory and the node use it. [`DatabaseHandle`] hides the
//! protocol.

use crate::flusher::Flushable;
use crate::identity::OpenError;
use crate::transfer::Copied;
use meridian_clock::Timestamp;
use meridian_machine::{DatabaseId, NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, Write};
use meridian_placement::DatabaseRow;
use meridian_replication::group::Roster;
use meridian_systems::Protocol;
use meridian_systems::envelope::Frame;
use meridian_txn::locking::Waits;
use meridian_txn::shards::MemberRoles;
use meridian_txn::{Database, Failure, Future, TxnStats};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Error on creating, changing or dropping a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// A database of this name exists: SQLSTATE 42P04.
    Exists(String),
    /// No database of this name exists: SQLSTATE 3D000.
    Missing(String),
    /// The database is built in and cannot be dropped: SQLSTATE 42501.
    Permanent(String),
    /// The placement of replicas is not valid: SQLSTATE 22023.
    Replicas(String),
    /// The database's protocol does not support this: SQLSTATE 42809.
    Protocol(String),
    /// The setting does not exist: SQLSTATE 42704.
    NoSetting {
        /// The error.
        why: String,
        /// The valid settings.
        hint: String,
    },
    /// The value of the setting is not valid: SQLSTATE 22023.
    Setting {
        /// The error.
        why: String,
        /// The valid values.
        hint: String,
    },
    /// The transaction in `system` failed.
    Failed(Failure),
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseError::Exists(name) => write!(f, "database \"{name}\" already exists"),
            DatabaseError::Missing(name) => write!(f, "database \"{name}\" does not exist"),
            DatabaseError::Permanent(name) => write!(f, "database \"{name}\" cannot be dropped"),
            DatabaseError::Replicas(why)
            | DatabaseError::Protocol(why)
            | DatabaseError::NoSetting { why, .. }
            | DatabaseError::Setting { why, .. } => f.write_str(why),
            DatabaseError::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for DatabaseError {}

impl DatabaseError {
    /// Returns the error for something that a protocol does not support in this version.
    fn refused(protocol: &str, what: &str) -> DatabaseError {
        let why =
            format!("{what} of a database whose protocol is {protocol} is not in this version");
        DatabaseError::Failed(Failure::Refused(why))
    }
}

/// The state of a shard on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatus {
    /// The database.
    pub database: String,
    /// The database's id.
    pub id: DatabaseId,
    /// The shard.
    pub shard: ShardId,
    /// The shard's range of keys.
    pub bounds: KeyRange,
    /// The leader of its group, as far as this node knows; `None` in databases without leaders.
    pub leader: Option<NodeId>,
    /// True if this node leads the shard and serves.
    pub leads: bool,
    /// The timestamp of the newest installed commit.
    pub through: Timestamp,
    /// The closed timestamp: snapshots at or below it are served here, whichever node leads.
    pub closed: Timestamp,
    /// The position of the newest commit in the store.
    pub applied: u64,
    /// Memory taken by versions that are not flushed yet, in bytes.
    pub memtable_bytes: usize,
    /// The members of its group, present and planned.
    pub members: Roster,
}

impl ShardStatus {
    /// Returns the status of a replica in a database without leaders.
    pub(crate) fn leaderless(
        row: &DatabaseRow,
        replicas: &[NodeId],
        replica: &dyn Flushable,
    ) -> ShardStatus {
        let shard_store = replica.shard_store();
        ShardStatus {
            database: row.name.clone(),
            id: row.id,
            shard: ShardId(shard_store.id().shard),
            bounds: shard_store.bounds(),
            leader: None,
            leads: false,
            through: shard_store.newest(),
            closed: replica.closed(),
            applied: shard_store.extent().map_or(0, |extent| extent.position),
            memtable_bytes: shard_store.memtable_bytes(),
            members: Roster::voters(replicas.iter().copied()),
        }
    }
}

/// Called with all writes that are installed and their commit timestamp, in order, on the thread
/// that steps the replica.
pub type Watch = Box<dyn Fn(&[Write], Timestamp) + Send + Sync>;

/// A database on this node.
pub trait DatabaseHandle: Send + Sync {
    /// Returns the database's protocol.
    fn protocol(&self) -> &'static Protocol;
    /// Starts the replicas that opening the database has not started. Called once, when frames and
    /// sessions reach the handle. It is not called again in this process, even after an error:
    /// replicas that have started go on. For `system`, `watch` is called with every write to it.
    fn begin(&self, watch: Option<Watch>) -> Result<(), OpenError> {
        let _ = watch;
        Ok(())
    }
    /// Returns the interface for transactions.
    fn database(&self) -> Arc<dyn Database>;
    /// Applies the database's row: its settings, and the nodes that have replicas. An unchanged row
    /// has no effect. After an error, for lack of disk space, the same row is applied again.
    fn apply(&self, row: &DatabaseRow) -> Result<(), OpenError>;
    /// Handles frames of another node, which came with one read of its connection.
    fn receive(&self, frames: &[Frame<'_>]);
    /// Returns how long superseded versions are kept, if the database's row says.
    fn retention(&self) -> Option<Duration>;
    /// Ends the waits of requests that can get no response any more. Called every 20 ms or so.
    fn sweep(&self);
    /// Returns this node's replicas, for the settler.
    fn shards(&self) -> Vec<Arc<dyn Flushable>>;
    /// Returns the status of this node's replicas; the row names the database.
    fn status(&self, row: &DatabaseRow) -> Vec<ShardStatus>;
    /// Returns the counters of this node's transactions.
    fn transactions(&self) -> TxnStats {
        TxnStats::default()
    }
    /// Ends all waits and stops this node's replicas. Returns the replicas.
    fn close(&self) -> Vec<Arc<dyn Flushable>>;

    /// True if a single-node cluster can serve the database.
    fn is_ready(&self) -> bool {
        true
    }
    /// True if this node leads a shard of the database.
    fn leads(&self) -> bool {
        false
    }
    /// Hands over this node's leaderships, so that no other node waits for a lease to expire.
    fn hand_over(&self) {}
    /// Returns this node's replica of a shard, for copies of whole shards. `None` if the protocol
    /// has no such copies.
    fn copied(&self, shard: ShardId) -> Option<Arc<dyn Copied>> {
        let _ = shard;
        None
    }
    /// Returns the waits-for edges between transactions, at this node's leaders.
    fn waits(&self) -> Vec<Waits> {
        Vec::new()
    }
    /// Splits the database at each of these keys. Returns when the splits are committed and their
    /// commit wait is over. After an error, the splits already made stay.
    fn split(&self, keys: Vec<Key>) -> Future<'_, Result<(), DatabaseError>> {
        let _ = keys;
        Box::pin(std::future::ready(Err(DatabaseError::refused(
            self.protocol().name,
            "splitting tables",
        ))))
    }
    /// Gives all shards of the database these members. Returns when they have them.
    fn change_members(&self, members: MemberRoles) -> Future<'_, Result<(), DatabaseError>> {
        let _ = members;
        Box::pin(std::future::ready(Err(DatabaseError::refused(
            self.protocol().name,
            "changing the members",
        ))))
    }
}

/// Returns the new row of a database, given its present one.
pub type Change = Box<dyn Fn(&DatabaseRow) -> Result<DatabaseRow, DatabaseError> + Send + Sync>;

/// The catalog of databases, as a database uses it.
pub trait DatabaseCatalog: Send + Sync {
    /// Returns ids for new shards of a database. No id is given out twice, even if its shard is
    /// never created.
    fn new_shards(&self, id: DatabaseId, many: usize) -> Future<'_, Result<Range<u32>, Failure>>;
    /// Writes a changed row of a database, and applies it on this node.
    fn change_row(&self, id: DatabaseId, change: Change) -> Future<'_, Result<(), DatabaseError>>;
}
