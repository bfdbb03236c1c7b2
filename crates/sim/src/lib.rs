//! The systems on a virtual world: one thread, one seed, and the faults that we promise to survive.
//!
//! The replicas, coordinators, log and store engine are those of the host, unchanged; only what
//! carries them is made up: time is a number, the network a queue, the disk
//! [`MemoryDisk`](meridian_log::MemoryDisk). Same seed, same run, to the byte of every message:
//! [`Report::trace_hash`].
//!
//! ```text
//!   client ──▶ coordinator (txn) ──▶ site ──▶ network ──▶ replica (systems) ──▶ log, store (on disks that fail)
//!     │              the world: events in the order of their time; faults between any two of them          │
//!     ▼                                                                                                    ▼
//!   history ──▶ judges                                                  what was installed, at which timestamp
//! ```
//!
//! A run has three parts: faults, quiet (everybody must get on), and the end (no lock is left, all
//! copies are equal). Then the history is judged by timestamps, by cycles and by what the workload
//! promises, and against what the replicas installed.
//!
//! Which protocol a world runs ([`Options::protocol`]) it knows by one trait (`carried`): faults,
//! disks, clocks, network, clients and judges are the same for all.
//!
//! | folder | what a life, a desk and the world's own happenings are |
//! |---|---|
//! | `spanner`, `world/spanner` | members of groups that are led, on any number of shards, which split and move |
//! | `tapir`, `world/tapir` | replicas without a leader, of two shards, which move to other nodes |
//! | `qwstore`, `world/qwstore` | replicas that agree on nothing; what is promised is judged by registers, and not as transactions |
//!
//! **Planted defects** ([`Defect`]) break the world at its seams, or the code at a rule; a judge
//! that does not notice them is worth nothing.
//!
//! **Not here yet.** Which of the known kinds of faults are here, and which are not, `docs/lab.md`
//! says.

pub mod carried;
mod client;
mod clock;
mod defects;
mod faults;
mod journal;
pub mod leaderless;
mod life;
mod network;
pub mod profile;
pub mod protocols;
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
pub use life::{Life, Member, Unfit};
pub use protocols::SimulatedProtocol;
pub use regions::Regions;
pub use shrink::{is_wrong, shrink};
pub use spanner::{
    STEPS, finds_nothing_at_a_newcomer, reads_after_a_pause, reads_in_the_next_life,
};
pub use workload::Workload;
pub use world::World;

use meridian_history::Transaction;
use meridian_machine::{planted, sometimes, steps};
use std::collections::BTreeMap;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What the nodes run.
    pub protocol: &'static SimulatedProtocol,
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
    /// Only these faults strike, by their places in the order in which they are drawn, from the
    /// first to before the second; without it, all.
    pub strikes: Option<(u64, u64)>,
    /// Everything has a price, and is measured for so many seconds of the world's own; without it
    /// nothing but what is said takes time.
    pub profile: Option<(profile::Costs, u64)>,
    /// What is measured is this, and not what the workload says.
    pub scene: Option<scene::Scene>,
    /// How often a shard is split; without it, that is drawn too.
    pub splits: Option<u32>,
    /// How often a shard gets other members, or other nodes get the replicas; without it, that is
    /// drawn too.
    pub moves: Option<u32>,
    /// Nodes end where they take this step of the protocol ([`STEPS`]), a few times, before or
    /// after what it says to others.
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
        self.protocol.row.real_time_order && !self.deceives()
    }

    /// A short run with everything that may go wrong.
    pub fn new(seed: u64) -> Self {
        Options {
            protocol: protocols::DEFAULT,
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

/// A world as campaigns have it, where nothing else is asked for: every fourth has five nodes,
/// every second does something else than the mixture.
pub fn campaign(seed: u64) -> Options {
    let others = &Workload::ALL[1..];
    let nodes = if seed % 4 == 3 { 5 } else { 3 };
    let workload = if seed.is_multiple_of(2) {
        Workload::Mixed
    } else {
        others[(seed / 2) as usize % others.len()]
    };
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
    /// How often shards were split, got other members, and were copied to who was behind: no
    /// faults, and not without effect.
    pub changes: BTreeMap<&'static str, u64>,
    /// How often each state was met that a campaign should meet.
    pub reached: BTreeMap<&'static str, u64>,
    /// Of transactions begun while faults struck, how many, and how many of those were committed;
    /// and the same of the quiet after them. Who gave way to an older one is not counted.
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
    /// Faults left too little to see: under 20 % of the transactions begun among them were
    /// committed, or under 90 % of those after them.
    pub fn is_starved(&self) -> bool {
        self.faulty.1 * 5 < self.faulty.0 || self.quiet.1 * 10 < self.quiet.0 * 9
    }
}

/// Runs a world to its end.
pub fn run(options: Options) -> Report {
    let rule = if let Some(Defect::Rule(rule)) = options.defect { Some(rule) } else { None };
    assert!(
        rule.is_none() || planted::POSSIBLE,
        "rules can be broken only where the feature `planted` is on"
    );
    planted::plant(rule, options.defect.is_some());
    sometimes::count();
    steps::watch(options.kill_at);
    let scene = options.profile.zip(options.scene);
    let mut report = match scene {
        None => (options.protocol.run)(options),
        Some(((costs, _), scene)) => (options.protocol.stage)(options, scene, costs),
    };
    steps::watch(None);
    planted::plant(None, false);
    report.reached = sometimes::reached();
    report
}
