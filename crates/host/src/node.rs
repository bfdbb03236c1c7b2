//! A node: one process's part of a cluster.
//!
//! ```text
//!   folder/identity   who it belongs to, how many lives it had, and whom it has met
//!   folder/lock       held while a process uses it
//!   folder/clock      on cluster time: how far its clock may have been seen
//!   folder/certificates/   by what members know each other
//!   folder/oracle     how far its oracle may have answered, if anybody asked it
//!   folder/log/       the one log of all machines
//!   folder/store/     the engine
//!   folder/panic-7.txt     why the node's seventh life ended, if its own code panicked
//! ```
//!
//! Opening reads the log, brings the machines of every database back from it, and starts the
//! threads: timers, log, settler, links. A node that is alone is a cluster of one: the same
//! machines, which hear from nobody.

use crate::clock::{Clock, ClockBound};
use crate::context::{NodeContext, Records, RecoveredRecords};
use crate::database::DatabaseHandle;
use crate::directory::Directory;
use crate::identity::{Identity, OpenError};
use crate::journal::{Journal, JournalCounters};
use crate::oracle::{self, Service};
use crate::panics::{OnPanic, PanicGuard};
use crate::peers::{Peers, PeersOptions, Receive};
use crate::plumbing::{CommitWait, Plumbing};
use crate::protocols::{self, HostedProtocol};
use crate::readers::Readers;
use crate::rounds::{NodeTime, Rounds, Utc};
use crate::settle::{SettleOptions, Settler, Shards};
use crate::spanner::Patience;
use crate::timers::{Timers, Wake};
use crate::transfer::{Find, Transfers};
use crate::trust::{Certificates, Trust, certificates};
use meridian_clock::{Drift, Health, Reading, Standing, duration};
use meridian_log::{Log, LogError, MachineKey, OsDisk};
use meridian_machine::{Incarnation, NodeId};
use meridian_mvcc::{Key, Store, StoreError};
use meridian_placement::{DatabaseRow, Member, Members};
use meridian_store::{MemoryStore, RedbStore};
use meridian_systems::Protocol;
use meridian_systems::envelope::{self, Frame, Kind};
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_systems::tapir::Forgetting;
use meridian_txn::locking::{Members as GroupMembers, Waits};
use meridian_txn::{Database, Failure};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

pub use crate::database::{DatabaseError, ShardStatus};

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
    /// By how much clocks may drift.
    pub drift: Drift,
    /// On UTC: from whom.
    pub utc: Utc,
    /// How the node knows the others.
    pub trust: Trust,
    /// The size of a log segment.
    pub log_segment_bytes: u64,
    /// Memory for the engine's pages.
    pub cache_bytes: usize,
    /// When versions move to the store.
    pub settle: SettleOptions,
    /// The protocols that databases may have.
    pub protocols: Vec<HostedProtocol>,
    /// How patient the members of a group are.
    pub patience: Patience,
    /// When replicas without a leader forget what is over.
    pub forgetting: Forgetting,
    /// What ends when the node's own code panics.
    pub on_panic: OnPanic,
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
            drift: Drift::WORST,
            utc: Utc::default(),
            trust: Trust::Loopback,
            log_segment_bytes: 32 << 20,
            cache_bytes: 64 << 20,
            settle: SettleOptions::default(),
            protocols: protocols::ALL.into(),
            patience: Patience::default(),
            forgetting: Forgetting::default(),
            on_panic: OnPanic::default(),
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
    pub clock: Reading,
    /// How well it knows the time.
    pub standing: Standing,
    /// What is known of the others' clocks.
    pub others: Vec<NodeTime>,
    /// Its shards.
    pub shards: Vec<ShardStatus>,
    /// How many transactions of its sessions were committed, and how long all of them waited for
    /// their timestamps to pass.
    pub commit_wait: (u64, Duration),
    /// What its log did.
    pub log: JournalCounters,
    /// True while the disk has no room for writes.
    pub disk_full: bool,
    /// Whom the node has still to meet before it takes part: a new cluster begins when all members
    /// have met once.
    pub to_meet: Vec<NodeId>,
    /// Shards that this node was sent whole, because the log did not reach back.
    pub copies_received: u64,
}

/// Takes in what other nodes say.
struct Inbox {
    directory: Weak<Directory>,
    transfers: Arc<OnceLock<Arc<Transfers>>>,
    rounds: Option<Arc<Rounds>>,
    oracle: Arc<Service>,
    me: NodeId,
    incarnation: Incarnation,
}

impl Receive for Inbox {
    fn receive(&self, sender: NodeId, life: Incarnation, frames: &[&[u8]]) {
        let mut questions = oracle::Batch::default();
        let mut of_databases = Vec::with_capacity(frames.len());
        for frame in frames {
            if envelope::is(Kind::ORACLE, frame) {
                self.oracle.receive(sender, frame, &mut questions);
            } else if envelope::is(Kind::TRANSFER, frame) {
                if let Some(transfers) = self.transfers.get() {
                    transfers.receive(sender, frame);
                }
            } else if envelope::is(Kind::TIME, frame) {
                if let Some(rounds) = &self.rounds {
                    rounds.receive(sender, frame);
                }
            } else {
                of_databases.extend(self.open(sender, life, frame));
            }
        }
        self.oracle.end(sender, &questions);
        let Some(directory) = self.directory.upgrade() else { return };
        for frames in of_databases.chunk_by(|one, next| one.to.database == next.to.database) {
            // Without a handle they are of a database that is not known here yet, or no more.
            if let Some(handle) = directory.handle(frames[0].to.database) {
                handle.receive(frames);
            }
        }
    }
}

impl Inbox {
    /// Reads the addresses of a frame that is for this node.
    fn open<'b>(&self, sender: NodeId, life: Incarnation, frame: &'b [u8]) -> Option<Frame<'b>> {
        let frame =
            Frame::open(frame).inspect_err(|why| tracing::warn!(%sender, %why, "dropped a frame"));
        frame.ok().filter(|frame| self.is_for_here(sender, life, frame))
    }

    /// Whether a frame is from the node that sent it, in this life of it, and for this life of this
    /// node.
    fn is_for_here(&self, sender: NodeId, life: Incarnation, frame: &Frame<'_>) -> bool {
        let (from, to, any) = (frame.from, frame.to, Incarnation(0));
        if from.node != sender
            || (from.incarnation != any && from.incarnation != life)
            || to.node != self.me
        {
            tracing::warn!(%sender, %from, %to, "dropped a frame that is not from or for whom it says");
            return false;
        }
        to.incarnation == any || to.incarnation == self.incarnation
    }
}

/// Lets go, every so often, of sessions that wait in vain.
struct Sweeper {
    directory: Weak<Directory>,
    plumbing: Weak<Plumbing>,
    this: Weak<Sweeper>,
}

impl Sweeper {
    const EVERY_NS: u64 = 20_000_000;
}

impl Wake for Sweeper {
    fn wake(self: Arc<Self>) {
        let (Some(directory), Some(plumbing)) = (self.directory.upgrade(), self.plumbing.upgrade())
        else {
            return;
        };
        directory.handles().iter().for_each(|handle| handle.sweep());
        let this: Weak<dyn Wake> = self.this.clone();
        plumbing.timers.wake_at(crate::clock::boot_ns() + Self::EVERY_NS, this);
    }
}

/// A node that runs.
pub struct Node {
    options: Options,
    identity: Arc<Identity>,
    plumbing: Arc<Plumbing>,
    directory: Arc<Directory>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    transfers: Arc<OnceLock<Arc<Transfers>>>,
    certificates: Option<Arc<Certificates>>,
    settler: Settler,
    /// Where nodes or sources are asked for the time.
    rounds: Option<Arc<Rounds>>,
    oracle: Arc<Service>,
    asking: Mutex<Option<std::thread::JoinHandle<()>>>,
    closed: AtomicBool,
    _sweeper: Arc<Sweeper>,
}

/// How long a node that is alone may take to go on from its log before opening it fails.
const BEGIN_PATIENCE: Duration = Duration::from_secs(60);
/// How long a node that ends waits for others to take over what it leads.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(2);

impl Node {
    /// Opens a node: creates its folder, or goes on from it.
    pub fn open(options: Options) -> Result<Arc<Self>, OpenError> {
        let alone = Member { node: options.node, zone: String::new(), address: String::new() };
        let members =
            if options.members.is_empty() { vec![alone] } else { options.members.clone() };
        let members = Members::new(members).map_err(OpenError::Members)?;
        if members.get(options.node).is_none() {
            return Err(OpenError::Options(format!(
                "node {} is not among the members",
                options.node.0
            )));
        }
        if members.len() > 1 && options.clock == ClockBound::Alone {
            return Err(OpenError::Options(
                "several nodes need a bound on how far their clocks may differ".into(),
            ));
        }
        let listener = listen(&options, &members)?;
        let thread = |error| OpenError::File { path: "a thread".into(), error };
        let (identity, guard, store, journal, records) = restore(&options, &members)?;
        let addresses: BTreeMap<NodeId, String> =
            (members.iter().filter(|member| member.node != options.node))
                .map(|member| (member.node, member.address.clone()))
                .collect();
        let certificates =
            certificates::open(&options.trust, options.data.as_deref(), options.node, &addresses)?;
        let plumbing = Arc::new(Plumbing {
            clock: Arc::new(Clock::new(options.clock).drifting(options.drift)),
            timers: Timers::start(&guard).map_err(thread)?,
            journal,
            readers: Readers::start(&guard).map_err(thread)?,
            store,
            guard: Arc::clone(&guard),
            commit_wait: CommitWait::default(),
        });
        let (peers, transfers) = (Arc::default(), Arc::default());
        let others: Vec<NodeId> = addresses.keys().copied().collect();
        let clock = Arc::clone(&plumbing.clock);
        let rounds = match options.clock {
            ClockBound::Cluster => {
                let folder = options.data.clone();
                let path = options
                    .data
                    .as_ref()
                    .map_or_else(|| "the clock".into(), |folder| folder.join("clock"));
                let begun = Rounds::on_cluster_time(others, folder, clock, Arc::clone(&peers));
                Some(begun.map_err(|error| OpenError::File { path, error })?)
            }
            ClockBound::Utc => {
                Some(Rounds::on_utc(options.node, others, &options.utc, clock, Arc::clone(&peers)))
            }
            ClockBound::HalfWidth { .. } => {
                Some(Rounds::on_one_machine(others, clock, Arc::clone(&peers)))
            }
            ClockBound::Alone => None,
        };
        let of_oracle = |error| OpenError::File { path: "the oracle's ceiling".into(), error };
        let (folder, clock) = (options.data.clone(), Arc::clone(&plumbing.clock));
        let oracle =
            Service::begin(options.node, folder, clock, Arc::clone(&peers), Arc::clone(&guard))
                .map_err(of_oracle)?;
        let context = |background, catalog| NodeContext {
            me: options.node,
            incarnation: identity.incarnation,
            members: members.nodes(),
            protocols: options.protocols.clone(),
            patience: options.patience,
            forgetting: options.forgetting,
            folder: options.data.clone(),
            plumbing: Arc::clone(&plumbing),
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
        let settler =
            Settler::start(options.settle, Arc::clone(&plumbing), shards).map_err(thread)?;
        let sweeper = Arc::new_cyclic(|this: &Weak<Sweeper>| Sweeper {
            directory: Arc::downgrade(&directory),
            plumbing: Arc::downgrade(&plumbing),
            this: this.clone(),
        });
        Arc::clone(&sweeper).wake();
        let node = Arc::new(Node {
            options,
            identity,
            plumbing,
            directory,
            peers,
            transfers,
            certificates,
            settler,
            rounds,
            oracle,
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
            guard: Arc::clone(&self.plumbing.guard),
            queue_bytes: 64 << 20,
            frame_bytes: 64 << 20,
        };
        let directory = Arc::downgrade(&self.directory);
        let of_transfers = directory.clone();
        let find: Find = Arc::new(move |key: MachineKey| of_transfers.upgrade()?.copied(key));
        let _ = self.transfers.set(Transfers::start(
            find,
            Arc::clone(&self.peers),
            &self.plumbing.guard,
        )?);
        let transfers = Arc::clone(&self.transfers);
        let rounds = self.rounds.clone();
        let (me, incarnation, oracle) =
            (self.options.node, self.identity.incarnation, Arc::clone(&self.oracle));
        let inbox = Inbox { directory, transfers, rounds, oracle, me, incarnation };
        let clock = Arc::clone(&self.plumbing.clock);
        let _ = self.peers.set(Peers::start(options, Some(listener), clock, Arc::new(inbox))?);
        if let Some(rounds) = &self.rounds {
            *self.asking.lock() = Some(rounds.start(&self.plumbing.guard)?);
        }
        Ok(())
    }

    /// A node that is alone serves when it is open.
    fn serve(&self) -> Result<(), OpenError> {
        let late =
            || OpenError::Options(format!("the databases did not go on within {BEGIN_PATIENCE:?}"));
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

    /// A database by name, as far as this node has seen.
    pub fn database(&self, name: &str) -> Option<Arc<dyn Database>> {
        self.directory.known(name).map(|handle| handle.database())
    }

    /// A database by name; one that this node has not seen yet is looked up.
    pub async fn find_database(&self, name: &str) -> Result<Option<Arc<dyn Database>>, Failure> {
        Ok(self.directory.find(name).await?.map(|handle| handle.database()))
    }

    /// The protocol of a database, as far as this node has seen the database and runs the protocol.
    pub fn protocol(&self, name: &str) -> Option<&'static Protocol> {
        self.directory.known(name).map(|handle| handle.protocol())
    }

    /// The protocols that databases of this node may have.
    pub fn protocols(&self) -> impl Iterator<Item = &'static Protocol> {
        self.options.protocols.iter().map(|hosted| hosted.protocol)
    }

    /// The names of the databases, by number.
    pub fn databases(&self) -> Vec<String> {
        self.directory.list().into_iter().map(|(row, _)| row.name).collect()
    }

    /// Creates a database: its row in `system` is what makes it exist.
    /// It has replicas on these nodes, or on all.
    pub async fn create_database(
        &self,
        name: &str,
        protocol: &Protocol,
        members: Vec<NodeId>,
    ) -> Result<(), DatabaseError> {
        self.directory.create_database(name, protocol, members).await
    }

    /// Drops a database and everything in it.
    pub async fn drop_database(&self, name: &str) -> Result<(), DatabaseError> {
        self.directory.drop_database(name).await
    }

    /// Gives all groups of a database these members; comes back when they have them. What is split
    /// off later begins with its parent's.
    pub async fn change_members(
        &self,
        database: &str,
        members: GroupMembers,
    ) -> Result<(), DatabaseError> {
        self.directory.change_members(database, members).await
    }

    /// Gives a setting of a database a value, or the default. Fails if databases of its protocol
    /// have no such setting, or the value is not one of the setting's.
    pub async fn set(
        &self,
        database: &str,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), DatabaseError> {
        self.directory.set(database, name, value).await
    }

    /// The value of a database's setting. None if no protocol has a setting of this name; within,
    /// none if that of the database has not, or the database is not known here.
    pub fn setting(&self, database: &str, name: &str) -> Option<Option<String>> {
        self.protocols().find_map(|protocol| protocol.setting(name))?;
        Some(self.directory.setting(database, name).map(|(setting, value)| {
            let node_says = || {
                (setting.name == VERSION_RETENTION_PERIOD.name)
                    .then_some(self.options.settle.history)
            };
            value.or_else(node_says).map(duration::show).unwrap_or_default()
        }))
    }

    /// From each of these on, a database's keys are another shard's. Comes back when that is agreed
    /// on and surely past; what was done before an error stays.
    pub async fn split(&self, database: &str, keys: Vec<Key>) -> Result<(), DatabaseError> {
        self.directory.split(database, keys).await
    }

    /// Who waits for whom in the databases that this node leads.
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

    /// The node's number.
    pub fn number(&self) -> NodeId {
        self.options.node
    }

    /// The time.
    pub fn now(&self) -> Reading {
        self.plumbing.clock.now()
    }

    /// How well the node knows the time, and from whom.
    pub fn standing(&self) -> (Standing, String) {
        let by_itself = match self.now().health {
            Health::Good => Standing::Good,
            Health::Fenced => Standing::Fenced,
        };
        let alone = || (by_itself, self.options.clock.name().to_owned());
        self.rounds.as_ref().map_or_else(alone, |rounds| rounds.standing())
    }

    /// What is known of the others' clocks.
    pub fn other_times(&self) -> Vec<NodeTime> {
        self.rounds.as_ref().map(|rounds| rounds.others()).unwrap_or_default()
    }

    /// At the first member of a cluster with certificates: the file that the others are given once.
    pub fn token_file(&self) -> Option<PathBuf> {
        self.certificates.as_ref().and_then(|certificates| certificates.token_file())
    }

    /// The node's oracle and timestamp authority, and those of others.
    pub fn oracle(&self) -> &Arc<Service> {
        &self.oracle
    }

    /// How the node knows the time.
    pub fn clock_bound(&self) -> ClockBound {
        self.options.clock
    }

    /// What the node says of itself.
    pub fn status(&self) -> Status {
        let shards =
            self.directory.list().into_iter().flat_map(|(row, handle)| handle.status(&row));
        Status {
            node: self.options.node,
            incarnation: self.identity.incarnation.0,
            cluster: self.identity.cluster,
            clock: self.plumbing.clock.now(),
            standing: self.standing().0,
            others: self.other_times(),
            shards: shards.collect(),
            commit_wait: self.plumbing.commit_wait.read(),
            log: self.plumbing.journal.counters(),
            disk_full: self.plumbing.journal.is_full(),
            to_meet: self.identity.to_meet(),
            copies_received: self.transfers.get().map_or(0, |transfers| transfers.received()),
        }
    }

    /// Comes back, with the reason, once it turns out that others remember this node with another
    /// disk: it cannot take part, and should end.
    pub async fn is_a_stranger(&self) -> String {
        let Some(peers) = self.peers.get() else { return std::future::pending().await };
        let mut told = peers.stranger();
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
    pub(crate) fn plumbing(&self) -> &Plumbing {
        &self.plumbing
    }

    /// Why the node does nothing any more, if its own code has panicked: see [`OnPanic::Halt`].
    pub fn halted(&self) -> Option<String> {
        self.plumbing.guard.why()
    }

    /// Ends the node: leadership is handed over, commits in flight finish, nothing begins any more.
    pub fn shutdown(&self) {
        if self.peers.get().is_some_and(|peers| !peers.connected().is_empty())
            && !self.closed.load(Ordering::Acquire)
        {
            self.hand_over();
        }
        self.kill();
    }

    /// Ends the node without a word to the others, who have to find out.
    pub fn kill(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.settler.stop();
        self.plumbing.journal.stop();
        self.directory.close();
        self.plumbing.readers.stop();
        self.plumbing.timers.stop();
        if let Some(transfers) = self.transfers.get() {
            transfers.stop();
        }
        if let Some(rounds) = &self.rounds {
            rounds.stop();
        }
        self.oracle.stop();
        if let Some(asking) = self.asking.lock().take() {
            let _ = asking.join();
        }
        if let Some(peers) = self.peers.get() {
            peers.stop();
        }
    }

    /// Gives up what this node leads, so that nobody has to wait for its leases to end.
    fn hand_over(&self) {
        let end = Instant::now() + HAND_OVER_PATIENCE;
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

/// What a folder holds: who the node is, what ends this life of it, its engine, its log, and the
/// records in it.
type Restored = (Arc<Identity>, Arc<PanicGuard>, Arc<dyn Store>, Journal, Records);

fn restore(options: &Options, members: &Members) -> Result<Restored, OpenError> {
    let guard = |identity: &Identity| {
        PanicGuard::new(options.node, identity.incarnation, options.data.clone(), options.on_panic)
    };
    let Some(folder) = &options.data else {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let identity = Identity::in_memory(options.node, members)
            .map_err(|error| OpenError::Options(error.to_string()))?;
        let guard = guard(&identity);
        return Ok((Arc::new(identity), guard, store, Journal::in_memory(), BTreeMap::new()));
    };
    let identity = Identity::open(folder, options.node, members)?;
    let guard = guard(&identity);
    let path = folder.join("store");
    let store = RedbStore::open(&disk(&path)?, options.cache_bytes)
        .map_err(|error| of_store(&path, error))?;
    let path = folder.join("log");
    let log_options = meridian_log::Options {
        segment_bytes: options.log_segment_bytes,
        existed: identity.admitted(),
    };
    let (log, recovered) =
        Log::open(Arc::new(disk(&path)?), log_options).map_err(|error| of_log(&path, error))?;
    identity.begin().map_err(|why| OpenError::Options(why.to_string()))?;
    let mut records: Records = BTreeMap::new();
    for (key, _, bytes) in recovered.records {
        records.entry(key).or_default().push(bytes);
    }
    let journal = Journal::start(log, &guard)
        .map_err(|error| OpenError::File { path: "a thread".into(), error })?;
    Ok((Arc::new(identity), guard, Arc::new(store), journal, records))
}

/// One of several nodes listens for the others; a node that is alone does not.
fn listen(options: &Options, members: &Members) -> Result<Option<TcpListener>, OpenError> {
    if members.len() == 1 {
        return Ok(None);
    }
    let own = || members.get(options.node).map(|member| member.address.clone()).unwrap_or_default();
    let address = options.listen.clone().unwrap_or_else(own);
    TcpListener::bind(&address).map(Some).map_err(|error| OpenError::Listen { address, error })
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
