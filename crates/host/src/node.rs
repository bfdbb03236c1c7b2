//! A node: one process's part of a cluster.
//!
//! ```text
//!   folder/identity   who it belongs to, and how many lives it had
//!   folder/lock       held while a process uses it
//!   folder/log/       the one log of all machines
//!   folder/store/     the engine
//! ```
//!
//! Opening reads the log, brings the machines of every database back from it, and starts the threads: timers, log, settler, links.
//! A node that is alone runs [`crate::solo`]; one of several runs the spanner recipe's replica ([`crate::member`]).
//!
//! Not here yet: CREATE and DROP DATABASE in a cluster of several nodes, whose members would have to watch each other's rows.

use crate::clock::{Clock, ClockBound};
use crate::envelope;
use crate::gateway::Gateway;
use crate::identity::{Identity, OpenError};
use crate::journal::{Journal, JournalCounters};
use crate::member::{self, MemberShard};
use crate::member_gateway::MemberGateway;
use crate::peers::{Peers, PeersOptions, Receive};
use crate::resident::Input;
use crate::settle::{SettleOptions, Settler, Settles, Shards};
use crate::shard::{self, Plumbing};
use crate::timers::{Timers, Wake};
use bytes::Bytes;
use meridian_clock::{Interval, Timestamp};
use meridian_log::{Log, LogError, MachineKey, OsDisk};
use meridian_machine::{DatabaseId, Incarnation, NodeId, Role};
use meridian_mvcc::{Key, KeyRange, Store, StoreError, Value};
use meridian_placement::{DatabaseRow, Databases, FIRST_FREE, Member, Members, SYSTEM, row_prefix};
use meridian_store::{MemoryStore, RedbStore};
use meridian_systems::spanner::Message;
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::{OnceLock, Weak};

/// How to open a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder; none keeps everything in memory.
    pub data: Option<PathBuf>,
    /// This node.
    pub node: NodeId,
    /// All members of the cluster, this one among them; empty for a node that is alone.
    pub members: Vec<Member>,
    /// Where to listen for other nodes, if that is not this member's own address.
    pub listen: Option<String>,
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
            listen: None,
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

/// The way to a database's shard.
#[derive(Clone)]
enum Door {
    Alone(Arc<Gateway>),
    Member(Arc<MemberGateway>),
}

type Doors = Arc<RwLock<BTreeMap<DatabaseId, Door>>>;

/// Takes in what other nodes say.
struct Inbox {
    doors: Doors,
    me: NodeId,
    incarnation: Incarnation,
}

impl Inbox {
    fn member(&self, id: DatabaseId) -> Option<Arc<MemberShard>> {
        match self.doors.read().get(&id)? {
            Door::Member(gateway) => Some(Arc::clone(gateway.member())),
            Door::Alone(_) => None,
        }
    }
}

impl Receive for Inbox {
    fn receive(&self, sender: NodeId, life: Incarnation, frame: &[u8]) {
        let (from, to, message) = match envelope::read_frame::<Message>(frame) {
            Ok(read) => read,
            Err(why) => return tracing::warn!(%sender, %why, "dropped a frame"),
        };
        let whoever = Incarnation(0);
        if from.node != sender || (from.incarnation != whoever && from.incarnation != life) || to.node != self.me {
            return tracing::warn!(%sender, %from, %to, "dropped a frame that is not from or for whom it says");
        }
        if to.incarnation != whoever && to.incarnation != self.incarnation {
            return; // for an earlier life of this node
        }
        let Some(member) = self.member(to.database) else { return };
        match (to.role, message) {
            (Role::Replica, message) => member.post(Input::Message(from, message)),
            (Role::Coordinator(number), Message::Answer(reply)) => member.world().hear(number, reply),
            (Role::Coordinator(_), _) => {}
        }
    }
}

/// Lets go, every so often, of sessions that wait in vain.
struct Sweeper {
    doors: Doors,
    plumbing: Weak<Plumbing>,
    this: Weak<Sweeper>,
}

impl Sweeper {
    const EVERY_NS: u64 = 20_000_000;
}

impl Wake for Sweeper {
    fn wake(self: Arc<Self>) {
        let doors: Vec<Door> = self.doors.read().values().cloned().collect();
        for door in doors {
            if let Door::Member(gateway) = door {
                gateway.member().world().sweep();
            }
        }
        if let Some(plumbing) = self.plumbing.upgrade() {
            let this: Weak<dyn Wake> = self.this.clone();
            plumbing.timers.wake_at(crate::clock::boot_ns() + Self::EVERY_NS, this);
        }
    }
}

/// A node that runs.
pub struct Node {
    options: Options,
    identity: Identity,
    plumbing: Arc<Plumbing>,
    databases: RwLock<Databases>,
    doors: Doors,
    members: Members,
    peers: Arc<OnceLock<Arc<Peers>>>,
    settler: Settler,
    _sweeper: Option<Arc<Sweeper>>,
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
        if members.len() > 1 && options.clock == ClockBound::Alone {
            return Err(OpenError::Options("several nodes need a bound on how far their clocks may differ".into()));
        }
        let listener = listen(&options, &members)?;
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
                let mut records: Records = BTreeMap::new();
                for (key, _, bytes) in recovered.records {
                    records.entry(key).or_default().push(bytes);
                }
                (identity, store, Journal::start(log).map_err(thread)?, records)
            }
        };
        let timers = Timers::start().map_err(thread)?;
        let clock = Clock::new(options.clock);
        let plumbing = Arc::new(Plumbing { clock, timers, journal, store, node: options.node.0 });
        let doors: Doors = Arc::default();
        let of_settler = Arc::clone(&doors);
        let shards: Shards = Arc::new(move || {
            let of = |door: &Door| -> Arc<dyn Settles> {
                match door {
                    Door::Alone(gateway) => Arc::clone(gateway.shard()) as Arc<dyn Settles>,
                    Door::Member(gateway) => Arc::clone(gateway.member()) as Arc<dyn Settles>,
                }
            };
            of_settler.read().values().map(of).collect()
        });
        let settler = Settler::start(options.settle, Arc::clone(&plumbing.store), shards).map_err(thread)?;
        let mut node = Node {
            options,
            identity,
            plumbing,
            databases: RwLock::default(),
            doors,
            members,
            peers: Arc::default(),
            settler,
            _sweeper: None,
        };
        node.begin(SYSTEM, &mut records)?;
        if node.members.len() == 1 {
            node.learn_databases()?;
        }
        let ids: Vec<DatabaseId> = node.databases.read().iter().map(|row| row.id).collect();
        for id in ids.into_iter().filter(|id| *id != SYSTEM) {
            node.begin(id, &mut records)?;
        }
        for key in records.into_keys() {
            node.plumbing.journal.forget(key); // a dropped database
        }
        if let Some(listener) = listener {
            node.meet(listener).map_err(thread)?;
        }
        Ok(Arc::new(node))
    }

    /// Starts the links to the other members.
    fn meet(&mut self, listener: TcpListener) -> std::io::Result<()> {
        let others = self.members.iter().filter(|member| member.node != self.options.node);
        let options = PeersOptions {
            cluster: self.identity.cluster,
            me: self.options.node,
            incarnation: self.identity.incarnation,
            others: others.map(|member| (member.node, member.address.clone())).collect(),
            queue_bytes: 64 << 20,
            frame_bytes: 64 << 20,
        };
        let doors = Arc::clone(&self.doors);
        let inbox = Inbox { doors, me: self.options.node, incarnation: self.identity.incarnation };
        let clock = Arc::new(Clock::new(self.options.clock));
        let peers = Peers::start(options, Some(listener), clock, Arc::new(inbox))?;
        let _ = self.peers.set(peers);
        let sweeper = Arc::new_cyclic(|this: &Weak<Sweeper>| Sweeper {
            doors: Arc::clone(&self.doors),
            plumbing: Arc::downgrade(&self.plumbing),
            this: this.clone(),
        });
        Arc::clone(&sweeper).wake();
        self._sweeper = Some(sweeper);
        Ok(())
    }

    fn begin(&self, id: DatabaseId, records: &mut Records) -> Result<(), OpenError> {
        let key = key_of(id);
        let folder = || self.options.data.clone().unwrap_or_default();
        let damaged = |what| OpenError::Damaged { path: folder().join("log"), what };
        let records = records.remove(&key).unwrap_or_default();
        let door = if self.members.len() == 1 {
            let records: Result<Vec<_>, String> = records.iter().map(|bytes| envelope::read_record(bytes)).collect();
            let shard = shard::begin(key, &self.plumbing, records.map_err(damaged)?)
                .map_err(|error| of_store(&folder(), error))?;
            Door::Alone(Arc::new(Gateway::new(shard, self.options.node.0)))
        } else {
            let records: Result<Vec<Vec<_>>, String> =
                records.iter().map(|bytes| envelope::read_record(bytes)).collect();
            let place = member::Place {
                key,
                me: self.options.node,
                incarnation: self.identity.incarnation,
                members: self.members.nodes(),
                peers: Arc::clone(&self.peers),
            };
            let records = records.map_err(damaged)?.into_iter().flatten().collect();
            let member = member::begin(place, &self.plumbing, records).map_err(|error| of_store(&folder(), error))?;
            Door::Member(Arc::new(MemberGateway::new(member, &self.members.nodes())))
        };
        self.doors.write().insert(id, door);
        Ok(())
    }

    /// The gateway of `system`, on a node that is alone.
    fn system(&self) -> Option<Arc<Gateway>> {
        match self.doors.read().get(&SYSTEM) {
            Some(Door::Alone(gateway)) => Some(Arc::clone(gateway)),
            _ => None,
        }
    }

    /// Reads which databases there are from the rows of `system`.
    fn learn_databases(&self) -> Result<(), OpenError> {
        let Some(system) = self.system() else { return Ok(()) };
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
        Some(match self.doors.read().get(&id)? {
            Door::Alone(gateway) => Arc::clone(gateway) as Arc<dyn Database>,
            Door::Member(gateway) => Arc::clone(gateway) as Arc<dyn Database>,
        })
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
        if let Err(error) = self.begin(row.id, &mut Records::new()) {
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
        let door = self.doors.write().remove(&id);
        if let Some(Door::Alone(gateway)) = door {
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
        let Some(system) = self.system() else {
            let what = "a cluster of several nodes keeps the databases of its birth in this version";
            return Err(failed(Failure::Unavailable(what.into())));
        };
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
        let doors = self.doors.read();
        let databases = self.databases.read();
        let shards = databases.iter().filter_map(|row| {
            let (leader, through, space) = match doors.get(&row.id)? {
                Door::Alone(gateway) => {
                    let home = gateway.shard().world();
                    (self.options.node, home.through(), home.space())
                }
                Door::Member(gateway) => {
                    let home = gateway.member().world();
                    (home.leader(), home.readable().through, home.space())
                }
            };
            Some(ShardStatus {
                database: row.name.clone(),
                id: row.id,
                leader: Some(leader),
                through,
                applied: space.applied().unwrap_or(0),
                recent_bytes: space.recent_bytes(),
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
        if let Some(peers) = self.peers.get() {
            peers.stop();
        }
        for door in self.doors.read().values() {
            match door {
                Door::Alone(gateway) => {
                    gateway.shard().post(Input::Call(Box::new(|solo: &mut crate::solo::Solo, _, _| solo.close())));
                    gateway.shard().stop();
                }
                Door::Member(gateway) => {
                    gateway.member().stop();
                    gateway.member().world().close();
                }
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// What the log has of each machine, not read yet.
type Records = BTreeMap<MachineKey, Vec<Bytes>>;

/// One of several nodes listens for the others; a node that is alone does not.
fn listen(options: &Options, members: &Members) -> Result<Option<TcpListener>, OpenError> {
    if members.len() == 1 {
        return Ok(None);
    }
    let own = || members.get(options.node).map(|member| member.address.clone()).unwrap_or_default();
    let address = options.listen.clone().unwrap_or_else(own);
    TcpListener::bind(&address).map(Some).map_err(|error| OpenError::Listen { address, error })
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
