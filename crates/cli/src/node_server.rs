//! A node in this process, and the engines of its databases.

use meridian_clock::{ClockStatus, Health, Interval, Reading};
use meridian_host::clock_sync::NodeTime;
use meridian_host::identity::OpenError;
use meridian_host::node::{DatabaseError, Node, Options, ShardStatus, Status};
use meridian_machine::NodeId;
use meridian_mvcc::Key;
use meridian_sql::system::{ClockFact, ServerInfo, Sessions, ShardFact, Waiting};
use meridian_sql::{ChosenProtocol, Engine, GroupMembers, QueryMemory, SqlError};
use meridian_systems::Protocol;
use meridian_txn::locking::Waits;
use meridian_txn::shards::MemberRoles;
use meridian_txn::{Begin, Future, Lock, Mode, ReadAt};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The place of a node's data.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In memory; they end with the process.
    Memory,
    /// In a folder.
    Folder(PathBuf),
}

/// The state of the node's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockLine {
    /// Half the width of the interval that contains the time, in nanoseconds, if it is known.
    pub half_width_ns: Option<u64>,
    /// The status of the clock.
    pub clock_status: ClockStatus,
    /// The source of the time.
    pub source: String,
}

impl std::fmt::Display for ClockLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.half_width_ns {
            Some(half_width_ns) => {
                write!(f, "clock: ±{} ms, source={}", half_width_ns as f64 / 1e6, self.source)
            }
            None => write!(f, "clock: not known yet, source={}", self.source),
        }
    }
}

/// The longest wait of a health check.
const SERVES_WITHIN: Duration = Duration::from_secs(2);
/// Pause before the next attempt to open a folder that is in use.
const PAUSE: Duration = Duration::from_millis(20);
/// The database that users connect to by default.
const FIRST: &str = "meridian";
/// The cluster's own database, to which no session can connect.
const SYSTEM: &str = "system";

fn databases(node: &Node) -> Vec<String> {
    node.databases().into_iter().filter(|name| name != SYSTEM).collect()
}

/// The server information behind the system tables of a database.
struct NodeServerInfo(Arc<Node>);

impl ServerInfo for NodeServerInfo {
    fn databases(&self) -> Vec<String> {
        databases(&self.0)
    }

    fn create_database<'a>(
        &'a self,
        name: &'a str,
        protocol: Option<&'a ChosenProtocol>,
    ) -> Future<'a, Result<(), SqlError>> {
        Box::pin(async move {
            let named = |chosen: &ChosenProtocol| protocol_of_tables(&self.0, &chosen.name);
            let runs = protocol.map_or(Ok(Protocol::DEFAULT), named)?;
            let members = protocol.map_or_else(Vec::new, |chosen| chosen.members.clone());
            let members = members.into_iter().map(NodeId).collect();
            self.0.create_database(name, runs, members).await.map_err(of_database)
        })
    }

    fn drop_database<'a>(&'a self, name: &'a str) -> Future<'a, Result<(), SqlError>> {
        Box::pin(async move { self.0.drop_database(name).await.map_err(of_database) })
    }

    fn split<'a>(
        &'a self,
        database: &'a str,
        keys: Vec<Vec<u8>>,
    ) -> Future<'a, Result<(), SqlError>> {
        let keys = keys.into_iter().map(Key::from).collect();
        Box::pin(async move { self.0.split(database, keys).await.map_err(of_database) })
    }

    fn change_members<'a>(
        &'a self,
        database: &'a str,
        members: GroupMembers,
    ) -> Future<'a, Result<(), SqlError>> {
        let nodes = |numbers: Vec<u32>| numbers.into_iter().map(NodeId).collect();
        let GroupMembers { voters, learners, witnesses } = members;
        let members = MemberRoles {
            voters: nodes(voters),
            learners: nodes(learners),
            witnesses: nodes(witnesses),
        };
        Box::pin(async move { self.0.change_members(database, members).await.map_err(of_database) })
    }

    fn set<'a>(
        &'a self,
        database: &'a str,
        name: &'a str,
        value: Option<&'a str>,
    ) -> Future<'a, Result<(), SqlError>> {
        Box::pin(async move { self.0.set(database, name, value).await.map_err(of_database) })
    }

    fn setting(&self, database: &str, name: &str) -> Option<Option<String>> {
        self.0.setting(database, name)
    }

    fn settings(&self, database: &str) -> BTreeMap<String, String> {
        self.0.settings(database)
    }

    fn shards(&self, database: &str) -> Vec<ShardFact> {
        let numbers = |nodes: BTreeSet<NodeId>| nodes.into_iter().map(|node| node.0).collect();
        let mut shards: Vec<_> = self.0.status().shards;
        shards.retain(|shard| shard.database == database);
        shards.sort_by(|a, b| a.bounds.start.cmp(&b.bounds.start));
        let fact = |shard: ShardStatus| ShardFact {
            shard: shard.shard.0,
            start: shard.bounds.start.to_vec(),
            end: shard.bounds.end.map(|end| end.to_vec()),
            leader: shard.leader.map(|leader| leader.0),
            members: GroupMembers {
                voters: numbers(shard.members.voters),
                learners: numbers(shard.members.learners),
                witnesses: numbers(shard.members.witnesses),
            },
        };
        shards.into_iter().map(fact).collect()
    }

    fn waits(&self) -> Vec<Waiting> {
        let waiting = |(database, wait): (String, Waits)| Waiting {
            database,
            waiter: (wait.waiter.node, wait.waiter.number),
            key: wait.range.start.0.to_vec(),
            exclusive: wait.lock == Lock::Exclusive,
            blockers: wait.blockers.iter().map(|blocker| (blocker.node, blocker.number)).collect(),
        };
        self.0.waits().into_iter().map(waiting).collect()
    }

    fn interval(&self) -> Option<(u64, u64)> {
        let Reading { interval, health, .. } = self.0.now();
        (health == Health::Good).then_some((interval.earliest, interval.latest))
    }

    fn clocks(&self) -> Vec<ClockFact> {
        let (clock_status, source) = self.0.clock_status();
        let ends = |interval: Interval| (interval.earliest, interval.latest);
        let mine = ClockFact {
            node: self.0.number().0,
            state: Some(clock_status.name()),
            source: Some(source),
            interval: (clock_status != ClockStatus::Starting).then(|| ends(self.0.now().interval)),
            ahead_ns: None,
            round_trip_ns: None,
        };
        let other = |NodeTime { node, ahead_ns, round_trip_ns, view, demoted }: NodeTime| {
            let (clock_status, interval, source) = view
                .map_or((None, None, None), |(clock_status, interval, source)| {
                    (Some(clock_status), interval, Some(source))
                });
            let state = clock_status.map(ClockStatus::name);
            let state = if demoted { Some("not believed") } else { state };
            ClockFact {
                node: node.0,
                state,
                source,
                interval: interval.map(ends),
                ahead_ns,
                round_trip_ns,
            }
        };
        std::iter::once(mine).chain(self.0.other_times().into_iter().map(other)).collect()
    }
}

/// The message for a protocol that cannot carry tables.
const WITHOUT_TRANSACTIONS: &str = "has no transactions, and SQL cannot do without";

/// Finds the protocol of a database with tables by its name; an underscore stands for a hyphen, so
/// that the name needs no quotes.
fn protocol_of_tables(node: &Node, name: &str) -> Result<&'static Protocol, SqlError> {
    let with_transactions = node.protocols().filter(|protocol| protocol.has_transactions());
    let names = with_transactions.map(|protocol| protocol.name).collect::<Vec<_>>().join(", ");
    let refused = |why: &str, hint: &str| {
        Err(SqlError::new("22023", format!("protocol \"{name}\" {why}"))
            .hint(format!("{hint}: {names}.")))
    };
    let written = name.replace('_', "-");
    match node.protocols().find(|protocol| protocol.name == name || protocol.name == written) {
        Some(protocol) if protocol.has_transactions() => Ok(protocol),
        Some(_) => refused(
            WITHOUT_TRANSACTIONS,
            "It exists only for comparison (meridian workload micro). Choose one of these",
        ),
        None => refused("does not run in this version", "There are"),
    }
}

fn of_database(error: DatabaseError) -> SqlError {
    let message = error.to_string();
    match error {
        DatabaseError::Exists(_) => SqlError::new("42P04", message),
        DatabaseError::Missing(_) => SqlError::new("3D000", message),
        DatabaseError::Permanent(_) => SqlError::new("42501", message),
        DatabaseError::Replicas(_) => SqlError::new("22023", message),
        DatabaseError::NoSetting { hint, .. } => SqlError::new("42704", message).hint(hint),
        DatabaseError::Setting { hint, .. } => SqlError::new("22023", message).hint(hint),
        DatabaseError::Protocol(_) => SqlError::new("42809", message)
            .hint("A database's protocol is chosen when it is created: CREATE DATABASE lab PROTOCOL = tapir."),
        DatabaseError::Failed(failure) => failure.into(),
    }
}

/// A node and its databases.
pub struct NodeServer {
    node: Arc<Node>,
    first: Arc<Engine>,
    engines: Mutex<BTreeMap<String, Arc<Engine>>>,
}

fn engine(
    node: &Arc<Node>,
    sessions: &Arc<Sessions>,
    name: &str,
    database: Arc<dyn meridian_txn::Database>,
    memory: &Arc<QueryMemory>,
) -> Arc<Engine> {
    let server_info = Arc::new(NodeServerInfo(node.clone()));
    let engine =
        Engine::new(name, database).with_server_info(server_info).with_sessions(sessions.clone());
    Arc::new(engine.with_memory(memory.clone()))
}

impl NodeServer {
    /// Opens a node without peers.
    pub fn alone(place: Storage) -> Result<NodeServer, String> {
        let options = match place {
            Storage::Memory => Options::alone(),
            Storage::Folder(folder) => Options::alone().at(folder),
        };
        NodeServer::open(options)
    }

    /// Opens any node.
    pub fn open(options: Options) -> Result<NodeServer, String> {
        NodeServer::open_with(options, None)
    }

    /// Opens a node with a limit of the memory that all queries may hold together, in bytes.
    pub fn open_with(
        options: Options,
        query_memory_bytes: Option<usize>,
    ) -> Result<NodeServer, String> {
        let node = Node::open(options).map_err(|error| error.to_string())?;
        NodeServer::of(node, query_memory_bytes)
    }

    /// Opens the node of a killed one, whose threads may hold its folder for up to this long.
    pub fn open_again(options: Options, at_most: Duration) -> Result<NodeServer, String> {
        let end = Instant::now() + at_most;
        loop {
            match Node::open(options.clone()) {
                Err(OpenError::InUse { .. }) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(error) => return Err(error.to_string()),
                Ok(node) => return NodeServer::of(node, None),
            }
        }
    }

    fn of(node: Arc<Node>, query_memory_bytes: Option<usize>) -> Result<NodeServer, String> {
        let database =
            node.database(FIRST).ok_or_else(|| format!("the database \"{FIRST}\" is missing"))?;
        let memory =
            Arc::new(query_memory_bytes.map_or_else(QueryMemory::default, QueryMemory::of));
        let sessions = Arc::default();
        let first = engine(&node, &sessions, FIRST, database, &memory);
        let engines = Mutex::new(BTreeMap::from([(FIRST.to_owned(), first.clone())]));
        Ok(NodeServer { node, first, engines })
    }

    /// Returns the default database.
    pub fn first(&self) -> Arc<Engine> {
        self.first.clone()
    }

    /// Finds a database by its name, with one engine for all its sessions. Looks up a database that
    /// another node has just created.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<Engine>>, String> {
        if name == SYSTEM {
            return Ok(None);
        }
        let Some(database) =
            self.node.find_database(name).await.map_err(|failure| failure.to_string())?
        else {
            return Ok(None);
        };
        if let Some(protocol) =
            self.node.protocol(name).filter(|protocol| !protocol.has_transactions())
        {
            return Err(format!(
                "database \"{name}\": its protocol, {}, {WITHOUT_TRANSACTIONS}",
                protocol.name
            ));
        }
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        // A database that was dropped and created again is another one.
        if let Some(known) =
            engines.get(name).filter(|engine| Arc::ptr_eq(engine.database(), &database))
        {
            return Ok(Some(known.clone()));
        }
        let engine = engine(&self.node, self.first.sessions(), name, database, self.first.memory());
        engines.insert(name.to_owned(), engine.clone());
        Ok(Some(engine))
    }

    /// Returns the names of all databases.
    pub fn list(&self) -> Vec<String> {
        databases(&self.node)
    }

    /// Returns the status of the node.
    pub fn status(&self) -> Status {
        self.node.status()
    }

    /// Waits until this node turns out to have lost its persisted promises, and returns the error
    /// for the operator: the node should end.
    pub async fn identity_refused(&self) -> String {
        self.node.identity_refused().await
    }

    /// Returns the token file that admits other members, on the first member of a cluster with
    /// certificates.
    pub fn token_file(&self) -> Option<std::path::PathBuf> {
        self.node.token_file()
    }

    /// Returns the state of the node's clock.
    pub fn clock(&self) -> ClockLine {
        let reading = self.node.now();
        let half_width_ns =
            (reading.health == Health::Good).then(|| reading.interval.half_width_ns());
        let (clock_status, source) = self.node.clock_status();
        ClockLine { half_width_ns, clock_status, source }
    }

    /// Shuts the node down: committed data are on disk, and the folder is free.
    pub fn close(&self) {
        self.node.shutdown();
    }

    /// Kills the node, as a crash would; its peers have to detect that.
    pub fn kill(&self) {
        self.node.kill();
    }

    /// True if a statement would be served now: a read at the leader succeeds.
    pub async fn serves(&self) -> bool {
        let read = async {
            let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
            let mut transaction = self.first.database().begin(begin).await?;
            transaction.get(&Key::from(""), Lock::Shared).await.map(drop)
        };
        matches!(tokio::time::timeout(SERVES_WITHIN, read).await, Ok(Ok(())))
    }
}

impl meridian_pg::Databases for NodeServer {
    fn engine<'a>(&'a self, name: &'a str) -> Future<'a, Result<Option<Arc<Engine>>, String>> {
        Box::pin(self.find(name))
    }

    fn names(&self) -> Vec<String> {
        self.list()
    }

    fn open_engines(&self) -> Vec<Arc<Engine>> {
        self.engines
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    fn ended(&self) -> Option<String> {
        self.node.halted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_database_without_transactions_has_no_engine() {
        let node_server = NodeServer::alone(Storage::Memory).expect("it opens");
        for protocol in Protocol::ALL {
            node_server
                .node
                .create_database(protocol.name, protocol, Vec::new())
                .await
                .expect("it is created");
            match node_server.find(protocol.name).await {
                Ok(found) => {
                    assert!(found.is_some() && protocol.has_transactions(), "{}", protocol.name)
                }
                Err(refused) => {
                    assert!(!protocol.has_transactions(), "{refused}");
                    assert!(refused.contains("has no transactions"), "{refused}");
                }
            }
        }
    }
}
