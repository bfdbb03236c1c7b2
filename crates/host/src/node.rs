//! A node: one process's part of a cluster.
//!
//! ```text
//!   folder/identity   who it belongs to, and how many lives it had
//!   folder/lock       held while a process uses it
//!   folder/log/       the one log of all machines
//!   folder/store/     the engine
//! ```
//!
//! Opening reads the log, brings the machines of `system` and then those of every database back from it, and starts the threads:
//! timers, log, settler. Not here yet: clusters of several nodes. Their pieces stand ([`crate::peers`], members in the identity), but
//! the shards of a node that is alone ([`crate::solo`]) do not agree with anybody, so several members are refused with that reason.

use crate::clock::{Clock, ClockBound};
use crate::envelope;
use crate::gateway::Gateway;
use crate::identity::{Identity, OpenError};
use crate::journal::{Journal, JournalCounters};
use crate::resident::Input;
use crate::settle::{SettleOptions, Settler, Shards};
use crate::shard::{self, Plumbing};
use crate::solo::Record;
use crate::timers::Timers;
use meridian_clock::{Interval, Timestamp};
use meridian_log::{Log, LogError, MachineKey, OsDisk};
use meridian_machine::{DatabaseId, NodeId};
use meridian_mvcc::{Key, KeyRange, Store, StoreError, Value};
use meridian_placement::{DatabaseRow, Databases, FIRST_FREE, Member, Members, SYSTEM, row_prefix};
use meridian_store::{MemoryStore, RedbStore};
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to open a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder; none keeps everything in memory.
    pub data: Option<PathBuf>,
    /// This node.
    pub node: NodeId,
    /// All members of the cluster, this one among them; empty for a node that is alone.
    pub members: Vec<Member>,
    /// How the node knows the time.
    pub clock: ClockBound,
    /// The size of a log segment.
    pub log_segment_bytes: u64,
    /// Memory for the engine's pages.
    pub cache_bytes: usize,
    /// When versions move to the store.
    pub settle: SettleOptions,
}

impl Options {
    /// A node that is alone, in memory.
    pub fn alone() -> Self {
        Options {
            data: None,
            node: NodeId(1),
            members: Vec::new(),
            clock: ClockBound::Alone,
            log_segment_bytes: 32 << 20,
            cache_bytes: 64 << 20,
            settle: SettleOptions::default(),
        }
    }

    /// One of several nodes on one machine: they share a clock.
    pub fn loopback() -> Self {
        Options { clock: ClockBound::LOOPBACK, ..Options::alone() }
    }

    /// The same, kept in a folder.
    pub fn at(self, data: impl Into<PathBuf>) -> Self {
        Options { data: Some(data.into()), ..self }
    }
}

/// Why a database was not created or dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// There is one of this name: SQLSTATE 42P04.
    Exists(String),
    /// There is none of this name: SQLSTATE 3D000.
    Missing(String),
    /// It exists from birth and stays: SQLSTATE 42501.
    Permanent(String),
    /// The transaction in `system` failed.
    Failed(Failure),
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseError::Exists(name) => write!(f, "database \"{name}\" already exists"),
            DatabaseError::Missing(name) => write!(f, "database \"{name}\" does not exist"),
            DatabaseError::Permanent(name) => write!(f, "database \"{name}\" cannot be dropped"),
            DatabaseError::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for DatabaseError {}

/// What a node says of one of its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardStatus {
    /// The database.
    pub database: String,
    /// Its number.
    pub id: DatabaseId,
    /// Who leads it.
    pub leader: Option<NodeId>,
    /// The newest installed commit.
    pub through: Timestamp,
    /// The newest commit that the store holds.
    pub applied: u64,
    /// Memory that versions take before they are settled.
    pub recent_bytes: usize,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The node.
    pub node: NodeId,
    /// Its life.
    pub incarnation: u32,
    /// The cluster.
    pub cluster: u128,
    /// What its clock says.
    pub clock: Interval,
    /// Its shards.
    pub shards: Vec<ShardStatus>,
    /// What its log did.
    pub log: JournalCounters,
    /// True while the disk has no room for writes.
    pub disk_full: bool,
}

/// A node that runs.
pub struct Node {
    options: Options,
    identity: Identity,
    plumbing: Arc<Plumbing>,
    databases: RwLock<Databases>,
    gateways: Arc<RwLock<BTreeMap<DatabaseId, Arc<Gateway>>>>,
    settler: Settler,
}

impl Node {
    /// Opens a node: creates its folder, or goes on from it.
    pub fn open(options: Options) -> Result<Arc<Self>, OpenError> {
        let alone = Member { node: options.node, zone: String::new(), address: String::new() };
        let members = if options.members.is_empty() { vec![alone] } else { options.members.clone() };
        let members = Members::new(members).map_err(OpenError::Members)?;
        if members.get(options.node).is_none() {
            return Err(OpenError::Options(format!("node {} is not among the members", options.node.0)));
        }
        if members.len() > 1 {
            return Err(OpenError::Options(
                "several members were named, but this version runs a node alone: leave the others out".into(),
            ));
        }
        let thread = |error| OpenError::File { path: "a thread".into(), error };
        let (identity, store, journal, mut records) = match &options.data {
            None => {
                let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
                (Identity::in_memory(&members), store, Journal::in_memory(), BTreeMap::new())
            }
            Some(folder) => {
                let identity = Identity::open(folder, options.node, &members)?;
                let store: Arc<dyn Store> = Arc::new(
                    RedbStore::open(&disk(&folder.join("store"))?, options.cache_bytes)
                        .map_err(|error| of_store(&folder.join("store"), error))?,
                );
                let path = folder.join("log");
                let log_options = meridian_log::Options { segment_bytes: options.log_segment_bytes };
                let (log, recovered) =
                    Log::open(Arc::new(disk(&path)?), log_options).map_err(|error| of_log(&path, error))?;
                let mut records: BTreeMap<MachineKey, Vec<Record>> = BTreeMap::new();
                for (key, _, bytes) in recovered.records {
                    let record = envelope::read_record(&bytes)
                        .map_err(|what| OpenError::Damaged { path: path.clone(), what })?;
                    records.entry(key).or_default().push(record);
                }
                (identity, store, Journal::start(log).map_err(thread)?, records)
            }
        };
        let timers = Timers::start().map_err(thread)?;
        let clock = Clock::new(options.clock);
        let plumbing = Arc::new(Plumbing { clock, timers, journal, store, node: options.node.0 });
        let gateways: Arc<RwLock<BTreeMap<DatabaseId, Arc<Gateway>>>> = Arc::default();
        let of_settler = Arc::clone(&gateways);
        let shards: Shards =
            Arc::new(move || of_settler.read().values().map(|gateway| Arc::clone(gateway.shard())).collect());
        let settler = Settler::start(options.settle, Arc::clone(&plumbing.store), shards).map_err(thread)?;
        let node = Node { options, identity, plumbing, databases: RwLock::default(), gateways, settler };
        node.begin(SYSTEM, &mut records)?;
        node.learn_databases()?;
        let ids: Vec<DatabaseId> = node.databases.read().iter().map(|row| row.id).collect();
        for id in ids.into_iter().filter(|id| *id != SYSTEM) {
            node.begin(id, &mut records)?;
        }
        for key in records.into_keys() {
            node.plumbing.journal.forget(key); // a dropped database
        }
        Ok(Arc::new(node))
    }

    fn begin(&self, id: DatabaseId, records: &mut BTreeMap<MachineKey, Vec<Record>>) -> Result<(), OpenError> {
        let key = key_of(id);
        let shard = shard::begin(key, &self.plumbing, records.remove(&key).unwrap_or_default())
            .map_err(|error| of_store(&self.options.data.clone().unwrap_or_default(), error))?;
        self.gateways.write().insert(id, Arc::new(Gateway::new(shard, self.options.node.0)));
        Ok(())
    }

    fn system(&self) -> Arc<Gateway> {
        Arc::clone(self.gateways.read().get(&SYSTEM).expect("invariant: system exists from birth"))
    }

    /// Reads which databases there are from the rows of `system`.
    fn learn_databases(&self) -> Result<(), OpenError> {
        let system = self.system();
        let home = system.shard().world();
        let mut range = Some(KeyRange::prefix(row_prefix()));
        while let Some(part) = range {
            let chunk = home
                .space()
                .scan(&part, home.through(), false, 1000, 1 << 20)
                .map_err(|error| of_store(&self.options.data.clone().unwrap_or_default(), error))?;
            for (_, value) in chunk.rows {
                if let Some(row) = DatabaseRow::read(&value) {
                    self.databases.write().learn(row);
                }
            }
            range = chunk.rest;
        }
        Ok(())
    }

    /// A database by name.
    pub fn database(&self, name: &str) -> Option<Arc<dyn Database>> {
        let id = self.databases.read().named(name)?.id;
        let gateway = self.gateways.read().get(&id).cloned()?;
        Some(gateway)
    }

    /// The names of the databases, by number.
    pub fn databases(&self) -> Vec<String> {
        self.databases.read().iter().map(|row| row.name.clone()).collect()
    }

    /// Creates a database: its row in `system` is what makes it exist.
    pub async fn create_database(&self, name: &str) -> Result<(), DatabaseError> {
        let row = {
            let databases = self.databases.read();
            if databases.named(name).is_some() {
                return Err(DatabaseError::Exists(name.into()));
            }
            DatabaseRow::new(databases.next_id(), name)
        };
        let row = self.write_row(row, name, true).await?;
        if let Err(error) = self.begin(row.id, &mut BTreeMap::new()) {
            return Err(DatabaseError::Failed(Failure::Storage(error.to_string())));
        }
        self.databases.write().learn(row);
        Ok(())
    }

    /// Drops a database and everything in it.
    pub async fn drop_database(&self, name: &str) -> Result<(), DatabaseError> {
        let row = self.databases.read().named(name).cloned();
        let Some(row) = row else { return Err(DatabaseError::Missing(name.into())) };
        if row.id < FIRST_FREE {
            return Err(DatabaseError::Permanent(name.into()));
        }
        let row = self.write_row(DatabaseRow { dropped: true, ..row }, name, false).await?;
        let id = row.id;
        self.databases.write().learn(row);
        let gateway = self.gateways.write().remove(&id);
        if let Some(gateway) = gateway {
            gateway.shard().stop();
            self.plumbing.journal.forget(key_of(id));
            let forgotten = gateway.shard().world().space().forget();
            forgotten.map_err(|error| DatabaseError::Failed(Failure::Storage(error.to_string())))?;
        }
        Ok(())
    }

    /// Writes a database's row in `system`, unless somebody else was first.
    async fn write_row(&self, mut row: DatabaseRow, name: &str, create: bool) -> Result<DatabaseRow, DatabaseError> {
        let failed = DatabaseError::Failed;
        let system = self.system();
        let begin = Begin { mode: Mode::ReadWrite, age: None };
        let mut transaction = system.begin(begin).await.map_err(failed)?;
        let mut range = Some(KeyRange::prefix(row_prefix()));
        while let Some(part) = range {
            let chunk = transaction.scan(&part, Lock::Exclusive, false, 1000).await.map_err(failed)?;
            for found in chunk.rows.iter().filter_map(|(_, value)| DatabaseRow::read(value)) {
                if create && !found.dropped && found.name == name {
                    return Err(DatabaseError::Exists(name.into()));
                }
                if create && found.id >= row.id {
                    row.id = DatabaseId(found.id.0 + 1);
                }
                if !create && found.id == row.id && found.dropped {
                    return Err(DatabaseError::Missing(name.into()));
                }
            }
            range = chunk.rest;
        }
        transaction.put(Key::from(row.key()), Some(Value::from(row.value()))).map_err(failed)?;
        match transaction.commit().await {
            Outcome::Committed { .. } => Ok(row),
            Outcome::Aborted { why } => Err(failed(Failure::Aborted(why))),
            Outcome::Unknown => Err(failed(Failure::Unavailable("the outcome is not known".into()))),
        }
    }

    /// What the node says of itself.
    pub fn status(&self) -> Status {
        let gateways = self.gateways.read();
        let databases = self.databases.read();
        let shards = databases.iter().filter_map(|row| {
            let home = gateways.get(&row.id)?.shard().world();
            Some(ShardStatus {
                database: row.name.clone(),
                id: row.id,
                leader: Some(self.options.node),
                through: home.through(),
                applied: home.space().applied().unwrap_or(0),
                recent_bytes: home.space().recent_bytes(),
            })
        });
        Status {
            node: self.options.node,
            incarnation: self.identity.incarnation.0,
            cluster: self.identity.cluster,
            clock: self.plumbing.clock.now().interval,
            shards: shards.collect(),
            log: self.plumbing.journal.counters(),
            disk_full: self.plumbing.journal.is_full(),
        }
    }

    /// Ends the node: what was persisted is written, commits in flight finish, nothing begins any more.
    pub fn shutdown(&self) {
        self.settler.stop();
        self.plumbing.journal.stop();
        self.plumbing.timers.stop();
        for gateway in self.gateways.read().values() {
            gateway.shard().post(Input::Call(Box::new(|solo, _, _| solo.close())));
            gateway.shard().stop();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn key_of(id: DatabaseId) -> MachineKey {
    MachineKey { database: id.0, shard: 0 }
}

fn disk(path: &Path) -> Result<OsDisk, OpenError> {
    OsDisk::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::ResourceBusy => OpenError::InUse { path: path.into() },
        _ => OpenError::File { path: path.into(), error },
    })
}

fn of_store(path: &Path, error: StoreError) -> OpenError {
    OpenError::Storage { path: path.into(), what: error.to_string() }
}

fn of_log(path: &Path, error: LogError) -> OpenError {
    OpenError::Storage { path: path.into(), what: error.to_string() }
}
