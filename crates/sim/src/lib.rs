//! The systems on a virtual world: one thread, one seed, every fault that we promise to survive.
//!
//! The replicas, coordinators, log and store engine are those of the host, unchanged; only what carries them is made up: time is a number,
//! the network a queue, the disk [`MemoryDisk`](meridian_log::MemoryDisk). Same seed, same run, to the byte of every message: [`Report::trace_hash`].
//!
//! ```text
//!   client ──▶ coordinator (txn) ──▶ site ──▶ network ──▶ replica (systems) ──▶ log, store (on disks that fail)
//!     │              the world: events in the order of their time; faults between any two of them          │
//!     ▼                                                                                                    ▼
//!   history ──▶ two judges                                              what was installed, at which timestamp
//! ```
//!
//! A run has three parts: faults, quiet (everybody must get on), and the end (no lock is left, all copies are equal). Then the history is judged
//! twice, by timestamps and by cycles, and against what the replicas installed.
//!
//! **Planted defects** ([`Defect`]) break the world on purpose, at its seams; a judge that does not notice them is worth nothing.
//!
//! **Not here yet.** One recipe and one group; three nodes or five. Of the faults: bit rot, misdirected writes, wiped nodes and lying clocks (the
//! last as a planted defect only). A copy of a whole shard travels as one piece and not in the host's parcels.

mod client;
mod clock;
mod faults;
mod member;
mod network;
mod site;
mod verdict;
mod workload;
mod world;

pub use faults::Faults;
pub use workload::Workload;

use meridian_history::Transaction;
use std::collections::BTreeMap;

/// What the world does wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Versions become readable only after the locks that protected them were released.
    InstalledLate,
    /// A sync says that it is done, and has done nothing.
    SyncLost,
    /// Clocks claim to be exact, and jump by seconds.
    ClockLies,
    /// Reads miss the newest version that they should see.
    ReadOneBefore,
    /// A leader that was cut off lets sessions of its node read on when its lease has ended.
    LeaseNotChecked,
}

impl Defect {
    /// Every one.
    pub const ALL: [Defect; 5] =
        [Defect::InstalledLate, Defect::SyncLost, Defect::ClockLies, Defect::ReadOneBefore, Defect::LeaseNotChecked];
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where everything is drawn from.
    pub seed: u64,
    /// How many nodes.
    pub nodes: usize,
    /// How many clients.
    pub clients: usize,
    /// How many transactions that may write are begun before the faults end.
    pub transactions: usize,
    /// What may go wrong.
    pub faults: Faults,
    /// What the clients do.
    pub workload: Workload,
    /// The node that all clients go to; without one, that is drawn too.
    pub favourite: Option<usize>,
    /// What is broken on purpose.
    pub defect: Option<Defect>,
    /// Hears of what happens, a line each.
    pub tell: Option<fn(&str)>,
}

impl Options {
    /// A short run with everything that may go wrong.
    pub fn new(seed: u64) -> Self {
        Options {
            seed,
            nodes: 3,
            clients: 6,
            transactions: 300,
            faults: Faults::ALL,
            workload: Workload::Mixed,
            favourite: None,
            defect: None,
            tell: None,
        }
    }
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
    /// Why transactions failed, and how many.
    pub failures: BTreeMap<String, u64>,
    /// The node that led at the end.
    pub leader: Option<usize>,
    /// Stands for everything that happened, in order.
    pub trace_hash: u64,
    /// Events.
    pub events: u64,
    /// How long it took by the world's own time, in nanoseconds.
    pub virtual_ns: u64,
}

/// Runs a world to its end.
pub fn run(options: Options) -> Report {
    world::World::new(options).run()
}
