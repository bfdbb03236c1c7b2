//! The systems on a virtual world: one thread, one seed, and the faults that we promise to survive.
//!
//! The replicas, coordinators, log and store engine are those of the host, unchanged; only what carries them is made up: time is a number,
//! the network a queue, the disk [`MemoryDisk`](meridian_log::MemoryDisk). Same seed, same run, to the byte of every message: [`Report::trace_hash`].
//!
//! ```text
//!   client ──▶ coordinator (txn) ──▶ site ──▶ network ──▶ replica (systems) ──▶ log, store (on disks that fail)
//!     │              the world: events in the order of their time; faults between any two of them          │
//!     ▼                                                                                                    ▼
//!   history ──▶ judges                                                  what was installed, at which timestamp
//! ```
//!
//! A run has three parts: faults, quiet (everybody must get on), and the end (no lock is left, all copies are equal). Then the history is judged
//! by timestamps, by cycles and by what the workload promises, and against what the replicas installed.
//!
//! Which recipe a world runs ([`Options::protocol`]) it knows by one trait (`carried`): faults, disks, clocks, network, clients and judges are the same for all.
//!
//! | folder | what a life, a desk and the world's own happenings are |
//! |---|---|
//! | `spanner`, `world/spanner` | members of groups that are led, on any number of shards, which split and move |
//! | `tapir`, `world/tapir` | replicas without a leader, of two shards, which move to other nodes |
//! | `qwstore`, `world/qwstore` | replicas that agree on nothing; what is promised is judged by registers, and not as transactions |
//!
//! **Planted defects** ([`Defect`]) break the world at its seams, or the code at a rule; a judge that does not notice them is worth nothing.
//!
//! **Not here yet.** Which of the known kinds of faults are here, and which are not, `docs/lab.md` says.

mod carried;
mod client;
mod clock;
mod defects;
mod faults;
mod journal;
mod leaderless;
mod life;
mod network;
pub mod profile;
mod qwstore;
mod regions;
pub mod scene;
mod shrink;
mod spanner;
mod sql;
mod tapir;
mod verdict;
mod workload;
mod world;
mod zipf;

pub use defects::Defect;
pub use faults::Faults;
pub use regions::Regions;
pub use shrink::{is_wrong, shrink};
pub use workload::Workload;

use crate::qwstore::QwStore;
use crate::spanner::Spanner;
use crate::tapir::Tapir;
use crate::world::World;
use meridian_history::Transaction;
use meridian_machine::{planted, sometimes, steps};
use meridian_systems::Recipe;
use meridian_txn::tapir::Guarantee;
use std::collections::BTreeMap;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What the nodes run.
    pub protocol: Recipe,
    /// Where everything is drawn from.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// So many of them, the last, have no replicas where nobody leads.
    pub gateways: usize,
    /// How many clients.
    pub clients: usize,
    /// How many transactions that may write are begun before the faults end.
    pub transactions: usize,
    /// What may go wrong.
    pub faults: Faults,
    /// What the clients do.
    pub workload: Workload,
    /// Whether they speak SQL, or read and write keys.
    pub sql: bool,
    /// How nodes know the time.
    pub timebase: Timebase,
    /// How far apart the nodes are.
    pub regions: Regions,
    /// The node that all clients go to; without one, that is drawn too.
    pub favourite: Option<usize>,
    /// Only these faults strike, by their places in the order in which they are drawn, from the first to before the second; without it, all.
    pub strikes: Option<(u64, u64)>,
    /// Everything has a price, and is measured for so many seconds of the world's own; without it nothing but what is said takes time.
    pub profile: Option<(profile::Costs, u64)>,
    /// What is measured is this, and not what the workload says.
    pub scene: Option<scene::Scene>,
    /// How often a shard is split; without it, that is drawn too.
    pub splits: Option<u32>,
    /// How often a shard gets other members, or other nodes get the replicas; without it, that is drawn too.
    pub moves: Option<u32>,
    /// Nodes end where they take this step of the protocol ([`STEPS`]), a few times, before or after what it says to others.
    pub kill_at: Option<&'static str>,
    /// What is broken on purpose.
    pub defect: Option<Defect>,
    /// Hears of what happens, a line each.
    pub tell: Option<fn(&str)>,
}

/// How nodes know the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timebase {
    /// By a system clock that keeps a bound.
    #[default]
    Bound,
    /// From each other: nobody knows the time of day.
    Cluster,
    /// From each other, as time masters of which a minority may lie.
    Masters,
}

impl Options {
    /// Whether clocks may lie so much that real time is lost.
    pub fn deceives(&self) -> bool {
        self.faults.lies && self.timebase != Timebase::Masters
    }

    /// Whether clients may count on the order of real time.
    pub fn is_strict(&self) -> bool {
        let promised = [Recipe::Spanner, Recipe::Tapir(Guarantee::StrictlySerializable)].contains(&self.protocol);
        promised && !self.deceives()
    }

    /// A short run with everything that may go wrong.
    pub fn new(seed: u64) -> Self {
        Options {
            protocol: Recipe::Spanner,
            seed,
            nodes: 3,
            gateways: 0,
            clients: 6,
            transactions: 300,
            faults: Faults::ALL,
            workload: Workload::Mixed,
            sql: false,
            timebase: Timebase::Bound,
            regions: Regions::Drawn,
            favourite: None,
            strikes: None,
            profile: None,
            kill_at: None,
            scene: None,
            splits: None,
            moves: None,
            defect: None,
            tell: None,
        }
    }
}

/// A world as campaigns have it, where nothing else is asked for: every fourth has five nodes, every second does something else than the mixture.
pub fn campaign(seed: u64) -> Options {
    let others = &Workload::ALL[1..];
    let nodes = if seed % 4 == 3 { 5 } else { 3 };
    let workload = if seed.is_multiple_of(2) { Workload::Mixed } else { others[(seed / 2) as usize % others.len()] };
    Options { nodes, clients: 2 * nodes, workload, ..Options::new(seed) }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What the clients saw.
    pub history: Vec<Transaction>,
    /// What is wrong with it, if anything is.
    pub verdict: Result<(), String>,
    /// How often each fault struck.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often shards were split, got other members, and were copied to who was behind: no faults, and not without effect.
    pub changes: BTreeMap<&'static str, u64>,
    /// How often each state was met that a campaign should meet.
    pub reached: BTreeMap<&'static str, u64>,
    /// Of transactions begun while faults struck, how many, and how many of those were committed; and the same of the quiet after them. Who gave
    /// way to an older one is not counted.
    pub faulty: (u64, u64),
    /// See [`faulty`](Self::faulty).
    pub quiet: (u64, u64),
    /// Why transactions failed, and how many.
    pub failures: BTreeMap<String, u64>,
    /// What it cost, if that was asked for.
    pub profile: Option<profile::Profile>,
    /// The node that led at the end.
    pub leader: Option<usize>,
    /// Stands for everything that happened, in order.
    pub trace_hash: u64,
    /// Events.
    pub events: u64,
    /// How long it took by the world's own time, in nanoseconds.
    pub virtual_ns: u64,
}

impl Report {
    /// Faults left too little to see: under 20 % of the transactions begun among them were committed, or under 90 % of those after them.
    pub fn is_starved(&self) -> bool {
        self.faulty.1 * 5 < self.faulty.0 || self.quiet.1 * 10 < self.quiet.0 * 9
    }
}

/// What every campaign of some hundred seeds under all faults should meet, where groups are led.
pub const SHOULD_MEET: &[&str] = &[
    "a commit is asked for again after it was agreed",
    "a commit waits for a lock",
    "a first question comes after its transaction has ended",
    "a leader gives up because its lease has lapsed",
    "a member is too far behind for the log",
    "a member's log does not follow the leader's",
    "a coordinator aborts while votes are outstanding",
    "a coordinator that knows nothing of a transaction says that it is aborted",
    "a participant asks what became of a transaction",
    "a prepared transaction is wounded",
    "a shard is asked for keys that it has no more",
    "a shard that was only read votes",
    "a snapshot waits for a prepared transaction",
    "a transaction commits in two phases",
    "a vote comes before the commit",
    "an attempt is aborted for a split",
    "an attempt waits for a split",
    "the bound of a shard that was only read passes",
    "a new leader has entries of which it does not know whether they are agreed",
    "a question is asked again while it waits",
    "a snapshot above every commit is promised",
    "timestamps without commits are closed",
    "shards negotiate at which timestamp they are read",
    "what is prepared writes into other keys than are read",
    "a snapshot waits for a commit before it",
    "a snapshot waits for its time",
    "a transaction that waits is wounded",
    "an old question comes late",
    "an outcome is forgotten for the sake of newer ones",
    "entries that were never agreed are replaced",
    "leadership is handed to whoever asks most",
    "leadership is lost while a commit is being agreed on",
];

/// What every such campaign should meet.
pub const fn should_meet(protocol: Recipe) -> &'static [&'static str] {
    match protocol {
        Recipe::Spanner => SHOULD_MEET,
        Recipe::Tapir(_) => SHOULD_MEET_OF_TAPIR,
        Recipe::QwStore => &[],
    }
}

/// The same where nobody leads.
const SHOULD_MEET_OF_TAPIR: &[&str] = &[
    "a client knows of a later view than a replica",
    "a commit comes to a replica that has not heard of it",
    "a proposal that waits is looked at before one that came earlier",
    "a replica between two views is silent",
    "a replica has not heard of what is decided",
    "a snapshot waits for what is prepared below it",
    "a transaction is proposed that has ended",
    "a transaction is proposed that is being recovered",
    "a transaction is recovered that has committed",
    "a transaction is recovered that has not committed",
    "a view begins without what a replica was told",
    "a view change decides what nobody had decided",
    "a view does not begin in time",
    "a view is merged from records of different views",
    "a view's leader says again that it has begun",
    "an attempt comes that is not the newest",
    "an operation takes the slow path",
    "another timestamp is proposed",
    "nobody can say in time whether a transaction has committed",
    "somebody has not heard that a view has begun",
    "something is proposed again",
    "the nearest replica does not answer",
];

/// The steps of the protocol, in each role, at which a node may end.
pub const STEPS: &[&str] = &[
    "candidate: asks for votes",
    "candidate: is elected",
    "coordinator: forgets",
    "coordinator: has all votes",
    "coordinator: its decision is agreed",
    "coordinator: proposes its decision",
    "coordinator: tells its decision",
    "coordinator: waits for votes",
    "leader: answers",
    "leader: begins to serve",
    "leader: falls silent",
    "leader: its commit is agreed",
    "leader: proposes a ceiling",
    "leader: proposes a commit",
    "leader: proposes a split",
    "leader: proposes other members",
    "leader: registers a change of the schema",
    "member: a change of the schema is agreed",
    "member: a split is agreed",
    "member: another's commit is agreed",
    "member: another's prepare record is agreed",
    "member: is removed",
    "participant: asks for the outcome",
    "participant: hears the outcome",
    "participant: proposes to prepare",
    "participant: the outcome is agreed",
    "participant: votes",
    "reader: lets go",
    "reader: votes",
    "session: asks one group to commit",
    "session: asks several groups to commit",
    "voter: gives its vote",
];

/// How many message delays each kind of transaction waits for, without faults.
pub fn delays() -> Vec<(&'static str, u64)> {
    World::<Spanner>::delays()
}

/// The same where nobody leads.
pub fn delays_of_tapir() -> Vec<(&'static str, u64)> {
    World::<Tapir>::delays()
}

/// What a session reads, of a key that was 1 when its node, the leader, fell asleep, and 2 when it woke after its lease had ended.
pub fn reads_after_a_pause(defect: Option<Defect>) -> Option<i64> {
    World::<Spanner>::reads_after_a_pause(defect)
}

/// What a session reads of a key that is 2, when an answer comes that an earlier life of its node has asked for, of a key that is 1.
pub fn reads_in_the_next_life(defect: Option<Defect>) -> Option<i64> {
    World::<Spanner>::reads_in_the_next_life(defect)
}

/// Whether a session that goes on where its node's member was replaced finds nothing where a key has been since before its snapshot.
pub fn finds_nothing_at_a_newcomer(rule: Option<planted::Rule>) -> bool {
    World::<Spanner>::finds_nothing_at_a_newcomer(rule)
}

/// Runs a world to its end.
pub fn run(options: Options) -> Report {
    let rule = if let Some(Defect::Rule(rule)) = options.defect { Some(rule) } else { None };
    assert!(rule.is_none() || planted::POSSIBLE, "rules can be broken only where the feature `planted` is on");
    planted::plant(rule, options.defect.is_some());
    sometimes::count();
    steps::watch(options.kill_at);
    let scene = options.profile.zip(options.scene);
    let mut report = match (options.protocol, scene) {
        (Recipe::Spanner, None) => World::<Spanner>::new(options).run(),
        (Recipe::Spanner, Some(((costs, _), scene))) => World::<Spanner>::new(options).stage(scene, costs),
        (Recipe::Tapir(_), None) => World::<Tapir>::new(options).run(),
        (Recipe::Tapir(_), Some(((costs, _), scene))) => World::<Tapir>::new(options).stage(scene, costs),
        (Recipe::QwStore, None) => World::<QwStore>::new(options).run(),
        (Recipe::QwStore, Some(((costs, _), scene))) => World::<QwStore>::new(options).stage(scene, costs),
    };
    steps::watch(None);
    planted::plant(None, false);
    report.reached = sometimes::reached();
    report
}
