//! A database on this node, as the directory and the node see it: the protocol that runs it is
//! behind [`DatabaseHandle`].

use crate::identity::OpenError;
use crate::settle::Settles;
use crate::transfer::Copied;
use meridian_clock::Timestamp;
use meridian_machine::{DatabaseId, NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, Write};
use meridian_placement::DatabaseRow;
use meridian_replication::group::Roster;
use meridian_systems::Protocol;
use meridian_systems::envelope::Frame;
use meridian_txn::locking::{Members, Waits};
use meridian_txn::{Database, Failure, Future};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Why a database was not created, changed or dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// There is one of this name: SQLSTATE 42P04.
    Exists(String),
    /// There is none of this name: SQLSTATE 3D000.
    Missing(String),
    /// It exists from birth and stays: SQLSTATE 42501.
    Permanent(String),
    /// No such replicas can be: SQLSTATE 22023.
    Replicas(String),
    /// Databases of its protocol do not have that: SQLSTATE 42809.
    Protocol(String),
    /// No such setting: SQLSTATE 42704.
    NoSetting {
        /// What is wrong.
        why: String,
        /// What would be right.
        hint: String,
    },
    /// No such value of a setting: SQLSTATE 22023.
    Setting {
        /// What is wrong.
        why: String,
        /// What would be right.
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
    /// A protocol does not have something in this version.
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
    /// Its number.
    pub id: DatabaseId,
    /// The shard.
    pub shard: ShardId,
    /// The keys that the shard has.
    pub bounds: KeyRange,
    /// The leader of its group, as far as this node has heard; none where there is none.
    pub leader: Option<NodeId>,
    /// Whether this node leads it, and serves.
    pub leads: bool,
    /// The newest installed commit.
    pub through: Timestamp,
    /// Snapshots at or below this are served here, whichever node leads.
    pub closed: Timestamp,
    /// The newest commit that the store holds.
    pub applied: u64,
    /// Memory that versions take before they are settled, in bytes.
    pub recent_bytes: usize,
    /// The members of its group, and those that are to be.
    pub members: Roster,
}

impl ShardStatus {
    /// Of a replica where no replica leads.
    pub(crate) fn leaderless(
        row: &DatabaseRow,
        replicas: &[NodeId],
        replica: &dyn Settles,
    ) -> ShardStatus {
        let space = replica.space();
        ShardStatus {
            database: row.name.clone(),
            id: row.id,
            shard: ShardId(space.id().shard),
            bounds: space.bounds(),
            leader: None,
            leads: false,
            through: space.newest(),
            closed: replica.closed(),
            applied: space.extent().map_or(0, |extent| extent.position),
            recent_bytes: space.recent_bytes(),
            members: Roster::voters(replicas.iter().copied()),
        }
    }
}

/// Told of all writes that are installed, in order, on the stepping thread.
pub type Watch = Box<dyn Fn(&[Write]) + Send + Sync>;

/// A database on this node.
pub trait DatabaseHandle: Send + Sync {
    /// Its protocol.
    fn protocol(&self) -> &'static Protocol;
    /// Brings back what this node has of the database's shards, as far as opening it has not:
    /// called once, when frames and sessions reach the handle, and not again in this life of the
    /// node, even after an error: members that have begun go on. For `system`, `watch` is called
    /// with every write to it.
    fn begin(&self, watch: Option<Watch>) -> Result<(), OpenError> {
        let _ = watch;
        Ok(())
    }
    /// Where transactions begin.
    fn database(&self) -> Arc<dyn Database>;
    /// Applies the database's row: its settings, and which nodes have replicas. A row that is as
    /// the last one changes nothing. After an error, for want of room, the same row is applied
    /// again.
    fn apply(&self, row: &DatabaseRow) -> Result<(), OpenError>;
    /// Takes in frames of another node, which came with one read of its connection.
    fn receive(&self, frames: &[Frame<'_>]);
    /// For how long superseded versions are kept, if the database says.
    fn retention(&self) -> Option<Duration>;
    /// Lets go of sessions that wait in vain. Called every 20 ms or so.
    fn sweep(&self);
    /// What this node has of the database's shards, to be moved to the store.
    fn shards(&self) -> Vec<Arc<dyn Settles>>;
    /// What this node says of its shards; the row names the database.
    fn status(&self, row: &DatabaseRow) -> Vec<ShardStatus>;
    /// Lets go of all sessions, and ends what this node has of the shards. Returns what it ended.
    fn close(&self) -> Vec<Arc<dyn Settles>>;

    /// Whether sessions can be served, on a node that is alone.
    fn is_ready(&self) -> bool {
        true
    }
    /// Whether this node leads something of the database.
    fn leads(&self) -> bool {
        false
    }
    /// Gives up what this node leads, so that no other one waits for a lease to end.
    fn hand_over(&self) {}
    /// This node's member of a shard's group, where whole shards are copied from leaders to
    /// members.
    fn copied(&self, shard: ShardId) -> Option<Arc<dyn Copied>> {
        let _ = shard;
        None
    }
    /// The transactions that wait for locks here, and for which others.
    fn waits(&self) -> Vec<Waits> {
        Vec::new()
    }
    /// From each of these keys on, the database's keys are another shard's. Returns when that is
    /// agreed on and surely past; what was done before an error stays.
    fn split(&self, keys: Vec<Key>) -> Future<'_, Result<(), DatabaseError>> {
        let _ = keys;
        Box::pin(std::future::ready(Err(DatabaseError::refused(
            self.protocol().name,
            "splitting tables",
        ))))
    }
    /// Gives all shards of the database these members. Returns when they have them.
    fn change_members(&self, members: Members) -> Future<'_, Result<(), DatabaseError>> {
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
    /// Numbers for new shards of a database, never given out again; whatever becomes of the shards,
    /// no other one gets them.
    fn new_shards(&self, id: DatabaseId, many: usize) -> Future<'_, Result<Range<u32>, Failure>>;
    /// Writes what is to become of the row of a database, and applies it here.
    fn change_row(&self, id: DatabaseId, change: Change) -> Future<'_, Result<(), DatabaseError>>;
}
