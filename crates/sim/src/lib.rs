//! The deterministic simulator: it runs the protocols on one thread, from one seed, under the
//! faults that Meridian promises to survive.
//!
//! Replicas, coordinators, log and store engine are the server's own code, unchanged. Only their
//! environment is simulated: time is a number, the network is a queue, and the disk is
//! [`MemoryDisk`](meridian_log::MemoryDisk). The same seed gives the same run, to the byte of every
//! message: [`Report::trace_hash`].
//!
//! ```text
//!   client ──▶ coordinator (txn) ──▶ node ──▶ network ──▶ replica (systems) ──▶ log, store (on disks that fail)
//!     │              the world: events in the order of their time; faults between any two of them          │
//!     ▼                                                                                                    ▼
//!   history ──▶ judges                                                  what was installed, at which timestamp
//! ```
//!
//! A run has three phases: faults; quiet, in which every client must make progress; and the end, at
//! which no lock is held and all copies are equal. The history is then judged by timestamps, by
//! cycles, by the invariants of the workload, and against the versions that the replicas installed.
//!
//! The world reaches a protocol ([`Options::protocol`]) through one trait (`sim_protocol`). Faults,
//! disks, clocks, network, clients and judges are the same for all protocols.
//!
//! | folder | replicas and events of its protocol |
//! |---|---|
//! | `shard`, `world/shard` | replication groups with leaders, on any number of shards, which split and move |
//! | `tapir`, `world/tapir` | leaderless replicas of two shards, which move to other nodes |
//! | `qwstore`, `world/qwstore` | replicas without agreement; a history is judged as registers, not as transactions |
//!
//! **Planted defects** ([`Defect`]) break the simulated environment, or a rule in the protocols'
//! code. A judge that does not detect them is worth nothing.
//!
//! `docs/lab.md` lists the known kinds of faults that the simulator has and those that it lacks.

mod anomalies;
mod bounds;
mod client;
mod clock;
mod defects;
mod faults;
mod journal;
pub mod leaderless;
mod network;
pub mod node;
mod node_process;
pub mod profile;
pub mod protocols;
mod qwstore;
mod regions;
mod retention;
pub mod scenario;
mod shard;
mod shrink;
pub mod sim_protocol;
mod sql;
mod tapir;
mod verdict;
mod workload;
mod world;
mod zipf;

pub use anomalies::ALL as ANOMALIES;
pub use defects::Defect;
pub use faults::Faults;
pub use node_process::{Member, NodeFailure, NodeProcess};
pub use protocols::SimulatedProtocol;
pub use regions::Regions;
pub use shard::{
    STEPS, age_after_a_wait, finds_nothing_at_a_newcomer, reads_after_a_pause,
    reads_in_the_next_life,
};
pub use shrink::{is_wrong, shrink};
pub use workload::Workload;
pub use world::World;

use meridian_history::Transaction;
use meridian_history::cycles::Model;
use meridian_machine::{planted, sometimes, steps};
use std::collections::BTreeMap;

/// The options of one run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The protocol that the nodes run.
    pub protocol: &'static SimulatedProtocol,
    /// The seed of every random choice.
    pub seed: u64,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of nodes, the last ones, that hold no replicas; used by leaderless protocols
    /// only.
    pub gateways: usize,
    /// The number of clients.
    pub clients: usize,
    /// The number of transactions of writing clients after whose begin the faults end.
    pub transactions: usize,
    /// The kinds of faults that may occur.
    pub faults: Faults,
    /// The clients' workload.
    pub workload: Workload,
    /// True if clients speak SQL; otherwise they read and write keys.
    pub sql: bool,
    /// The nodes' source of time.
    pub timebase: Timebase,
    /// The network distances between the nodes.
    pub regions: Regions,
    /// The node that all clients connect to; if `None`, some seeds draw one.
    pub favourite: Option<usize>,
    /// Applies only the faults whose numbers, in the order in which faults are drawn, are in this
    /// half-open range; applies all if `None`.
    pub strikes: Option<(u64, u64)>,
    /// Charges these costs for CPU and disk, and measures for this many seconds of virtual time. If
    /// `None`, only explicitly simulated delays take time.
    pub profile: Option<(profile::Costs, u64)>,
    /// The scenario to measure, in place of the workload.
    pub scenario: Option<scenario::Scenario>,
    /// The number of shard splits; drawn from the seed if `None`.
    pub splits: Option<u32>,
    /// The number of changes of a shard's members, or of the nodes that hold the replicas; drawn
    /// from the seed if `None`.
    pub moves: Option<u32>,
    /// The step of the protocol ([`STEPS`]) at which nodes crash, a few times per run, before or
    /// after the messages of that step are sent.
    pub kill_at: Option<&'static str>,
    /// The defect planted in this run.
    pub defect: Option<Defect>,
    /// Receives one line of trace per event.
    pub log: Option<fn(&str)>,
}

/// The nodes' source of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timebase {
    /// A system clock whose error bound holds, unless `Faults::lies` is on.
    #[default]
    Bound,
    /// The nodes' clocks agree on a time among themselves; no node knows UTC.
    Cluster,
    /// The nodes ask each other, as time masters of which a minority may be wrong.
    Masters,
}

impl Options {
    /// True if clocks may exceed their bounds, so that real-time order is lost.
    pub fn deceives(&self) -> bool {
        self.faults.lies && self.timebase != Timebase::Masters
    }

    /// True if the histories must respect real-time order.
    pub fn is_strict(&self) -> bool {
        self.protocol.row.has_real_time_order() && !self.deceives()
    }

    /// Returns the model that histories must satisfy.
    pub fn model(&self) -> Model {
        match self.protocol.row.consistency {
            _ if self.protocol.row.certifies() => Model::SnapshotIsolation,
            _ if self.is_strict() => Model::StrictSerializable,
            // Lying clocks cost the order in real time, not that of tokens.
            modes if modes.len() > 1 => Model::Causal,
            _ => Model::Serializable,
        }
    }

    /// Returns a short run with all kinds of faults.
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
            scenario: None,
            splits: None,
            moves: None,
            defect: None,
            log: None,
        }
    }
}

/// Returns the default options of a campaign's world: every fourth seed has five nodes, and every
/// second runs another workload than the mixture.
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

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The history of the clients' transactions.
    pub history: Vec<Transaction>,
    /// The first violation found, if any.
    pub verdict: Result<(), String>,
    /// The number of times each fault was applied.
    pub faults: BTreeMap<&'static str, u64>,
    /// The number of shard splits, membership changes, copies sent to lagging members and similar
    /// events, by name. They are no faults, but they do change the run.
    pub changes: BTreeMap<&'static str, u64>,
    /// The number of anomalies that the clients' consistency modes allow, by kind.
    pub anomalies: BTreeMap<&'static str, u64>,
    /// The number of times each state of `sometimes!` was reached.
    pub reached: BTreeMap<&'static str, u64>,
    /// Transactions begun while faults were on: all but those that failed because of a conflict,
    /// and those committed.
    pub faulty: (u64, u64),
    /// The counts of [`faulty`](Self::faulty), for the quiet phase.
    pub quiet: (u64, u64),
    /// The number of failed transactions, by reason.
    pub failures: BTreeMap<String, u64>,
    /// The measurements, if [`Options::profile`] is set.
    pub profile: Option<profile::Profile>,
    /// A node that led a shard at the end.
    pub leader: Option<usize>,
    /// A hash of all events, in order.
    pub trace_hash: u64,
    /// The number of events.
    pub events: u64,
    /// The duration of the run in virtual time, in nanoseconds.
    pub virtual_ns: u64,
}

impl Report {
    /// True if faults left too few commits to judge: under 20 % of the transactions begun during
    /// faults committed, or under 90 % of those begun after them.
    pub fn is_starved(&self) -> bool {
        self.faulty.1 * 5 < self.faulty.0 || self.quiet.1 * 10 < self.quiet.0 * 9
    }
}

/// Runs a simulation to its end.
pub fn run(options: Options) -> Report {
    let rule = if let Some(Defect::Rule(rule)) = options.defect { Some(rule) } else { None };
    assert!(
        rule.is_none() || planted::POSSIBLE,
        "rules can be broken only where the feature `planted` is on"
    );
    planted::plant(rule, options.defect.is_some());
    sometimes::count();
    steps::watch(options.kill_at);
    let scenario = options.profile.zip(options.scenario);
    let mut report = match scenario {
        None => (options.protocol.run)(options),
        Some(((costs, _), scenario)) => (options.protocol.stage)(options, scenario, costs),
    };
    steps::watch(None);
    planted::plant(None, false);
    report.reached = sometimes::reached();
    report
}
