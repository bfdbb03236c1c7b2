//! A node: one process's part of a cluster.
//!
//! ```text
//!   folder/identity   the cluster, the node, its incarnation, and the peers it has met
//!   folder/lock       held while a process uses the folder
//!   folder/clock      on cluster time: upper bound of the clock readings that peers may have seen
//!   folder/certificates/   by which members authenticate each other
//!   folder/log/       the one log of all state machines
//!   folder/store/     the store engine
//!   folder/panic-7.txt     why incarnation 7 ended, if the node's own code panicked
//! ```
//!
//! Opening a node reads the log, restores the replicas of every database from it, and starts the
//! threads: timers, log, settler, links. A single-node cluster runs the same state machines,
//! without links.

use crate::clock::{Clock, ClockBound};
use crate::clock_sync::{ClockSync, NodeTime};
use crate::context::{NodeContext, RecoveredRecords};
use crate::database::DatabaseHandle;
use crate::directory::Directory;
use crate::flusher::{Flusher, Shards};
use crate::identity::{Identity, OpenError};
use crate::node_resources::NodeResources;
use crate::peers::{Peers, PeersOptions};
use crate::readers::Readers;
use crate::timers::{Timers, Wake};
use crate::transfer::{Find, Transfers};
use crate::trust::{Certificates, certificates};
use meridian_clock::{ClockStatus, Health, Reading, duration};
use meridian_log::MachineKey;
use meridian_machine::NodeId;
use meridian_mvcc::Key;
use meridian_placement::{ClusterMembers, DatabaseRow, Member};
use meridian_systems::Protocol;
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_txn::locking::Waits;
use meridian_txn::shards::MemberRoles;
use meridian_txn::{Database, Failure};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

mod inbox;
mod options;
mod recovery;

pub use crate::database::{DatabaseError, ShardStatus};
pub use options::{DatabaseTransactions, Options, Status};

use inbox::{Inbox, Sweeper};
use recovery::{listen, restore};

/// A running node.
pub struct Node {
    options: Options,
    identity: Arc<Identity>,
    resources: Arc<NodeResources>,
    directory: Arc<Directory>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    transfers: Arc<OnceLock<Arc<Transfers>>>,
    certificates: Option<Arc<Certificates>>,
    flusher: Flusher,
    /// Clock synchronisation; `None` on a single-node cluster.
    clock_sync: Option<Arc<ClockSync>>,
    asking: Mutex<Option<std::thread::JoinHandle<()>>>,
    closed: AtomicBool,
    _sweeper: Arc<Sweeper>,
}

/// Time that a single-node cluster may take to recover from its log before opening it fails.
const BEGIN_PATIENCE: Duration = Duration::from_secs(60);
/// Time that a node that shuts down waits for other nodes to take over its leaderships.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(2);

impl Node {
    /// Opens a node: creates its folder, or recovers from it.
    pub fn open(mut options: Options) -> Result<Arc<Self>, OpenError> {
        let alone = Member { node: options.node, zone: String::new(), address: String::new() };
        let members =
            if options.members.is_empty() { vec![alone] } else { options.members.clone() };
        let members = ClusterMembers::new(members).map_err(OpenError::Members)?;
        if members.get(options.node).is_none() {
            return Err(OpenError::Options(format!(
                "node {} is not among the members",
                options.node.0
            )));
        }
        if members.len() > 1 && options.clock == ClockBound::Alone {
            return Err(OpenError::Options(
                "several nodes need a bound on the difference of their clocks: choose a clock"
                    .into(),
            ));
        }
        let listener = listen(&mut options, &members)?;
        let thread = |error| OpenError::File { path: "a thread".into(), error };
        let (identity, guard, store, journal, records) = restore(&options, &members)?;
        let addresses: BTreeMap<NodeId, String> =
            (members.iter().filter(|member| member.node != options.node))
                .map(|member| (member.node, member.address.clone()))
                .collect();
        let certificates =
            certificates::open(&options.trust, options.data.as_deref(), options.node, &addresses)?;
        let resources = Arc::new(NodeResources {
            clock: Arc::new(Clock::new(options.clock).drifting(options.drift)),
            timers: Timers::start(&guard).map_err(thread)?,
            journal,
            readers: Readers::start(&guard).map_err(thread)?,
            store,
            guard: Arc::clone(&guard),
        });
        let (peers, transfers) = (Arc::default(), Arc::default());
        let others: Vec<NodeId> = addresses.keys().copied().collect();
        let clock = Arc::clone(&resources.clock);
        let clock_sync = match options.clock {
            ClockBound::Cluster => {
                let folder = options.data.clone();
                let path = options
                    .data
                    .as_ref()
                    .map_or_else(|| "the clock".into(), |folder| folder.join("clock"));
                let begun = ClockSync::on_cluster_time(others, folder, clock, Arc::clone(&peers));
                Some(begun.map_err(|error| OpenError::File { path, error })?)
            }
            ClockBound::Utc => Some(ClockSync::on_utc(
                options.node,
                others,
                &options.utc,
                clock,
                Arc::clone(&peers),
            )),
            ClockBound::HalfWidth { .. } => {
                Some(ClockSync::on_one_machine(others, clock, Arc::clone(&peers)))
            }
            ClockBound::Alone => None,
        };
        let context = |background, catalog| NodeContext {
            me: options.node,
            incarnation: identity.incarnation,
            members: members.nodes(),
            protocols: options.protocols.clone(),
            timeouts: options.timeouts,
            truncation: options.truncation,
            folder: options.data.clone(),
            resources: Arc::clone(&resources),
            peers: Arc::clone(&peers),
            transfers: Arc::clone(&transfers),
            records: RecoveredRecords::new(records),
            background,
            catalog,
        };
        let directory = Directory::open(context)?;
        let of_settler = Arc::downgrade(&directory);
        let shards: Shards = Arc::new(move || {
            of_settler.upgrade().map(|directory| directory.shards()).unwrap_or_default()
        });
        let flusher =
            Flusher::start(options.flush, Arc::clone(&resources), shards).map_err(thread)?;
        let sweeper = Arc::new_cyclic(|this: &Weak<Sweeper>| Sweeper {
            directory: Arc::downgrade(&directory),
            resources: Arc::downgrade(&resources),
            this: this.clone(),
        });
        Arc::clone(&sweeper).wake();
        let node = Arc::new(Node {
            options,
            identity,
            resources,
            directory,
            peers,
            transfers,
            certificates,
            flusher,
            clock_sync,
            asking: Mutex::default(),
            closed: AtomicBool::new(false),
            _sweeper: sweeper,
        });
        let of_guard = Arc::downgrade(&node);
        guard.close_by(move || of_guard.upgrade().iter().for_each(|node| node.kill()));
        match listener {
            Some(listener) => node.meet(addresses, listener).map_err(thread)?,
            None => node.serve()?,
        }
        Ok(node)
    }

    /// Starts the links to the other members.
    fn meet(&self, others: BTreeMap<NodeId, String>, listener: TcpListener) -> std::io::Result<()> {
        let options = PeersOptions {
            identity: Arc::clone(&self.identity),
            certificates: self.certificates.clone(),
            others,
            guard: Arc::clone(&self.resources.guard),
            queue_bytes: 64 << 20,
            frame_bytes: 64 << 20,
        };
        let directory = Arc::downgrade(&self.directory);
        let of_transfers = directory.clone();
        let find: Find = Arc::new(move |key: MachineKey| of_transfers.upgrade()?.copied(key));
        let _ = self.transfers.set(Transfers::start(
            find,
            Arc::clone(&self.peers),
            &self.resources.guard,
        )?);
        let transfers = Arc::clone(&self.transfers);
        let clock_sync = self.clock_sync.clone();
        let (me, incarnation) = (self.options.node, self.identity.incarnation);
        let inbox = Inbox { directory, transfers, clock_sync, me, incarnation };
        let clock = Arc::clone(&self.resources.clock);
        let _ = self.peers.set(Peers::start(options, Some(listener), clock, Arc::new(inbox))?);
        if let Some(clock_sync) = &self.clock_sync {
            *self.asking.lock() = Some(clock_sync.start(&self.resources.guard)?);
        }
        Ok(())
    }

    /// Waits until a single-node cluster can serve.
    fn serve(&self) -> Result<(), OpenError> {
        let late = || {
            OpenError::Options(format!("the databases did not recover within {BEGIN_PATIENCE:?}"))
        };
        let end = Instant::now() + BEGIN_PATIENCE;
        let wait = || {
            while !self.directory.handles().iter().all(|handle| handle.is_ready()) {
                if let Some(why) = self.halted() {
                    return Err(OpenError::Options(why));
                }
                if Instant::now() >= end {
                    return Err(late());
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            Ok(())
        };
        wait()?;
        futures::executor::block_on(self.directory.look())
            .map_err(|failure| OpenError::Options(failure.to_string()))?;
        if !self.directory.catch_up(BEGIN_PATIENCE) {
            return Err(late());
        }
        wait()
    }

    /// Returns a database by name, if this node has seen it.
    pub fn database(&self, name: &str) -> Option<Arc<dyn Database>> {
        self.directory.known(name).map(|handle| handle.database())
    }

    /// Returns a database by name. Looks up `system` for one that this node has not seen yet.
    pub async fn find_database(&self, name: &str) -> Result<Option<Arc<dyn Database>>, Failure> {
        Ok(self.directory.find(name).await?.map(|handle| handle.database()))
    }

    /// Returns the protocol of a database, if this node has seen the database and runs the
    /// protocol.
    pub fn protocol(&self, name: &str) -> Option<&'static Protocol> {
        self.directory.known(name).map(|handle| handle.protocol())
    }

    /// Returns the protocols that databases of this node may have.
    pub fn protocols(&self) -> impl Iterator<Item = &'static Protocol> {
        self.options.protocols.iter().map(|hosted| hosted.protocol)
    }

    /// Returns the names of the databases, ordered by id.
    pub fn databases(&self) -> Vec<String> {
        self.directory.list().into_iter().map(|(row, _)| row.name).collect()
    }

    /// Creates a database with replicas on these nodes, or on all if none are named. Its row in
    /// `system` is what makes it exist.
    pub async fn create_database(
        &self,
        name: &str,
        protocol: &Protocol,
        members: Vec<NodeId>,
    ) -> Result<(), DatabaseError> {
        self.directory.create_database(name, protocol, members).await
    }

    /// Drops a database with all its data.
    pub async fn drop_database(&self, name: &str) -> Result<(), DatabaseError> {
        self.directory.drop_database(name).await
    }

    /// Gives all groups of a database these members, and returns when they have them. A shard that
    /// is split off later starts with its parent's.
    pub async fn change_members(
        &self,
        database: &str,
        members: MemberRoles,
    ) -> Result<(), DatabaseError> {
        self.directory.change_members(database, members).await
    }

    /// Sets a setting of a database; `None` restores the default. Fails if databases of its
    /// protocol have no such setting, or if the value is not valid for it.
    pub async fn set(
        &self,
        database: &str,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), DatabaseError> {
        self.directory.set(database, name, value).await
    }

    /// Returns the value of a database's setting. The outer `None` means that no protocol has a
    /// setting of this name. The inner `None` means that the database's protocol does not have it,
    /// or that the database is not known here.
    pub fn setting(&self, database: &str, name: &str) -> Option<Option<String>> {
        self.protocols().find_map(|protocol| protocol.setting(name))?;
        Some(self.directory.setting(database, name).map(|(setting, value)| {
            let node_says = || {
                (setting.name == VERSION_RETENTION_PERIOD.name)
                    .then(|| duration::show(self.options.flush.history))
            };
            value.or_else(node_says).unwrap_or_default()
        }))
    }

    /// Returns the settings that a database was given, by name, as far as this node knows.
    pub fn settings(&self, database: &str) -> BTreeMap<String, String> {
        self.directory.settings(database)
    }

    /// Splits a database at each of these keys. Returns when the splits are committed and their
    /// commit wait is over. After an error, the splits already made stay.
    pub async fn split(&self, database: &str, keys: Vec<Key>) -> Result<(), DatabaseError> {
        self.directory.split(database, keys).await
    }

    /// Returns the waits-for edges between transactions, of the databases that this node leads.
    pub fn waits(&self) -> Vec<(String, Waits)> {
        let of_database = |(row, handle): (DatabaseRow, Arc<dyn DatabaseHandle>)| {
            handle
                .waits()
                .into_iter()
                .map(move |waits| (row.name.clone(), waits))
                .collect::<Vec<_>>()
        };
        self.directory.list().into_iter().flat_map(of_database).collect()
    }

    /// Returns the node's id.
    pub fn number(&self) -> NodeId {
        self.options.node
    }

    /// Returns a clock reading.
    pub fn now(&self) -> Reading {
        self.resources.clock.now()
    }

    /// Returns the state of the node's clock, and the name of its source.
    pub fn clock_status(&self) -> (ClockStatus, String) {
        let by_itself = match self.now().health {
            Health::Good => ClockStatus::Good,
            Health::Fenced => ClockStatus::Fenced,
        };
        let alone = || (by_itself, self.options.clock.name().to_owned());
        self.clock_sync.as_ref().map_or_else(alone, |clock_sync| clock_sync.clock_status())
    }

    /// Returns the state of the other nodes' clocks, as far as this node knows.
    pub fn other_times(&self) -> Vec<NodeTime> {
        self.clock_sync.as_ref().map(|clock_sync| clock_sync.others()).unwrap_or_default()
    }

    /// Returns the token file, at the first member of a cluster with certificates. Each other
    /// member is started once with the token.
    pub fn token_file(&self) -> Option<PathBuf> {
        self.certificates.as_ref().and_then(|certificates| certificates.token_file())
    }

    /// Returns the source of the node's time.
    pub fn clock_bound(&self) -> ClockBound {
        self.options.clock
    }

    /// Returns the status of the node.
    pub fn status(&self) -> Status {
        let databases = self.directory.list();
        let shards = databases.iter().flat_map(|(row, handle)| handle.status(row));
        let transactions = databases.iter().map(|(row, handle)| DatabaseTransactions {
            database: row.name.clone(),
            protocol: handle.protocol().name,
            stats: handle.transactions(),
        });
        Status {
            node: self.options.node,
            incarnation: self.identity.incarnation.0,
            cluster: self.identity.cluster,
            clock: self.resources.clock.now(),
            clock_status: self.clock_status().0,
            others: self.other_times(),
            shards: shards.collect(),
            transactions: transactions.collect(),
            log: self.resources.journal.counters(),
            disk_full: self.resources.journal.is_full(),
            to_meet: self.identity.to_meet(),
            copies_received: self.transfers.get().map_or(0, |transfers| transfers.received()),
        }
    }

    /// Returns, with the reason, once other nodes remember this node with another disk. The node
    /// cannot take part and should end; otherwise the future stays pending.
    pub async fn identity_refused(&self) -> String {
        let Some(peers) = self.peers.get() else { return std::future::pending().await };
        let mut told = peers.identity_refusal();
        match told.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    #[cfg(test)]
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    #[cfg(test)]
    pub(crate) fn resources(&self) -> &NodeResources {
        &self.resources
    }

    /// Returns the reason if the node is halted because its own code panicked: see
    /// [`OnPanic::Halt`](crate::panics::OnPanic::Halt).
    pub fn halted(&self) -> Option<String> {
        self.resources.guard.why()
    }

    /// Shuts the node down: hands over its leaderships first, so that transactions in flight can
    /// finish.
    pub fn shutdown(&self) {
        if self.peers.get().is_some_and(|peers| !peers.connected().is_empty())
            && !self.closed.load(Ordering::Acquire)
        {
            self.hand_over();
        }
        self.kill();
    }

    /// Stops the node at once. Other nodes find out by their timeouts.
    pub fn kill(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.flusher.stop();
        self.resources.journal.stop();
        self.directory.close();
        self.resources.readers.stop();
        self.resources.timers.stop();
        if let Some(transfers) = self.transfers.get() {
            transfers.stop();
        }
        if let Some(clock_sync) = &self.clock_sync {
            clock_sync.stop();
        }
        if let Some(asking) = self.asking.lock().take() {
            let _ = asking.join();
        }
        if let Some(peers) = self.peers.get() {
            peers.stop();
        }
    }

    /// Hands over this node's leaderships, so that no other node waits for its leases to expire.
    fn hand_over(&self) {
        let end = Instant::now() + HAND_OVER_TIMEOUT;
        let handles = self.directory.handles();
        handles.iter().for_each(|handle| handle.hand_over());
        while Instant::now() < end && handles.iter().any(|handle| handle.leads()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shutdown();
    }
}
