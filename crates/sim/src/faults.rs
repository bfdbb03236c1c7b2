//! What may go wrong, and when.
//!
//! Whatever strikes, no copy is injured beyond what the protocol promises to survive: any number of nodes may stop, be cut off, or lose what they
//! had not synced; none forgets what it synced.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

const MS: u64 = 1_000_000;
/// More kinds of faults than that strike more slowly.
const MANY: usize = 3;

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Loss, repetition, stragglers, cuts in one direction or both.
    pub network: bool,
    /// Offsets that wander within the bound.
    pub clock: bool,
    /// Slow syncs, full disks; torn and lost unsynced writes at each crash.
    pub disk: bool,
    /// Crashes, power failures of everybody, pauses.
    pub process: bool,
}

impl Faults {
    /// Everything.
    pub const ALL: Faults = Faults { network: true, clock: true, disk: true, process: true };
    /// Nothing.
    pub const NONE: Faults = Faults { network: false, clock: false, disk: false, process: false };
}

/// One fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// These cannot be spoken to by others, or cannot speak, or both.
    Cut { nodes: Vec<usize>, inward: bool, outward: bool, for_ns: u64 },
    /// Everybody's messages: lost, twice, late.
    Weather { loss: f64, repeat: f64, straggle: f64 },
    /// A clock is wrong by so much, in parts of the bound.
    Drift { node: usize, part: f64 },
    /// Each sync takes so long.
    SlowDisk { node: usize, sync_ns: u64 },
    /// Nothing can be added.
    FullDisk { node: usize, for_ns: u64 },
    /// Nodes lose power.
    Crash { nodes: Vec<usize>, for_ns: u64 },
    /// A node does nothing for a while and does not know.
    Pause { node: usize, for_ns: u64 },
}

impl Fault {
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Cut { inward: true, outward: true, .. } => "cut off",
            Fault::Cut { .. } => "cut off one way",
            Fault::Weather { .. } => "loss, repetition, delay",
            Fault::Drift { .. } => "clock drift",
            Fault::SlowDisk { .. } => "slow disk",
            Fault::FullDisk { .. } => "full disk",
            Fault::Crash { nodes, .. } if nodes.len() > 1 => "power failure",
            Fault::Crash { .. } => "crash",
            Fault::Pause { .. } => "pause",
        }
    }
}

/// What one run suffers from: some of the kinds, at a pace of its own. Everything at once, all the time, lets nothing happen.
#[derive(Debug)]
pub struct Nemesis {
    kinds: Vec<Kind>,
    pace_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CutOff,
    CutOneWay,
    Weather,
    Drift,
    SlowDisk,
    FullDisk,
    Crash,
    Blink,
    PowerFailure,
    Pause,
}

impl Nemesis {
    pub fn new(rng: &mut ChaCha8Rng, faults: Faults) -> Nemesis {
        use Kind::*;
        let groups: [(bool, &[Kind]); 4] = [
            (faults.network, &[CutOff, CutOneWay, Weather]),
            (faults.clock, &[Drift]),
            (faults.disk, &[SlowDisk, FullDisk]),
            (faults.process, &[Crash, Blink, PowerFailure, Pause]),
        ];
        let allowed: Vec<Kind> =
            groups.iter().filter(|(allowed, _)| *allowed).flat_map(|(_, kinds)| kinds.iter().copied()).collect();
        let some: Vec<Kind> = allowed.iter().copied().filter(|_| rng.random_bool(0.6)).collect();
        let kinds = if some.is_empty() { allowed } else { some };
        let pace_ns = [100, 300, 1_000, 3_000][rng.random_range(0..4)] * MS;
        // Many kinds that fast leave nobody time to commit anything: nothing is tested then.
        let pace_ns = if kinds.len() > MANY { pace_ns.max(500 * MS) } else { pace_ns };
        Nemesis { kinds, pace_ns }
    }

    /// Draws the next fault, and how long after the last it comes.
    pub fn draw(&self, rng: &mut ChaCha8Rng, nodes: usize) -> Option<(u64, Fault)> {
        if self.kinds.is_empty() {
            return None;
        }
        let after = rng.random_range(1..2 * self.pace_ns);
        let node = rng.random_range(0..nodes);
        let short = rng.random_range(1..3_000 * MS);
        let fault = match self.kinds[rng.random_range(0..self.kinds.len())] {
            Kind::CutOff => {
                let some: Vec<usize> = (0..nodes).filter(|_| rng.random_bool(0.4)).collect();
                let nodes = if some.is_empty() { vec![node] } else { some };
                Fault::Cut { nodes, inward: true, outward: true, for_ns: short }
            }
            Kind::CutOneWay => {
                let inward = rng.random_bool(0.5);
                Fault::Cut { nodes: vec![node], inward, outward: !inward, for_ns: short }
            }
            Kind::Weather => Fault::Weather {
                loss: rng.random_range(0.0..0.15),
                repeat: rng.random_range(0.0..0.15),
                straggle: rng.random_range(0.0..0.05),
            },
            Kind::Drift => Fault::Drift { node, part: rng.random_range(-1.0..=1.0) },
            Kind::SlowDisk => Fault::SlowDisk { node, sync_ns: rng.random_range(MS..400 * MS) },
            Kind::FullDisk => Fault::FullDisk { node, for_ns: short },
            Kind::Crash => Fault::Crash { nodes: vec![node], for_ns: short },
            Kind::Blink => Fault::Crash { nodes: vec![node], for_ns: rng.random_range(1..50 * MS) },
            Kind::PowerFailure => Fault::Crash { nodes: (0..nodes).collect(), for_ns: short },
            Kind::Pause => Fault::Pause { node, for_ns: short },
        };
        Some((after, fault))
    }
}
