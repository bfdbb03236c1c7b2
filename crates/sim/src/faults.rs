//! The faults of a world, and their times.
//!
//! Whatever strikes, no copy is corrupted beyond what the protocol promises to survive, and it goes
//! up to there: any number of nodes may stop, be cut off, or lose what they had not synced; a
//! minority may lose what they had.

use crate::{Options, Timebase};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// The number of kinds of faults above which faults are applied more slowly.
const MANY: usize = 3;
/// The largest number of kinds of faults in a run.
const MOST: usize = 8;
/// The largest offset of a lying clock from true time: several leases.
const LIE: u64 = 2 * S;

/// The offset of a far clock.
pub const FAR: u64 = 3_600 * S;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Loss, repetition, late messages, congestion, cuts in one direction or both, broken
    /// connections.
    pub network: bool,
    /// Offsets that step, drift and flicker within the bound; bounds that widen.
    pub clock: bool,
    /// Slow and failing syncs, full disks; torn and lost unsynced writes at each crash; and, on a
    /// minority of the nodes, flipped bits, misdirected writes, lost files.
    pub disk: bool,
    /// Crashes, power failures of all nodes, restarts in a row, orderly shutdowns, pauses, sleeping
    /// leaders, slow processors, nodes that are lost with their disks or come back with empty ones.
    pub process: bool,
    /// Clocks beyond their bound. The protocol then promises serializability without real-time
    /// order. With time masters only a minority lies, and the full promise holds.
    pub lies: bool,
}

impl Faults {
    /// All faults that a strict protocol promises to survive.
    pub const ALL: Faults =
        Faults { network: true, clock: true, disk: true, process: true, lies: false };
    /// No faults.
    pub const NONE: Faults =
        Faults { network: false, clock: false, disk: false, process: false, lies: false };
}

/// The kinds of corruption of a disk.
#[derive(Clone, Copy, Debug)]
pub enum Decay {
    /// A bit flips.
    Rot,
    /// An earlier write has gone to a wrong place.
    Misplaced,
    /// The next write goes to a wrong place.
    Astray,
    /// A file is gone when the node comes back.
    FileLost,
}

/// The part of a sleeping node that stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// The processor; messages to the node wait.
    Processor,
    /// The processor and the connections; messages to the node are lost.
    ProcessorAndConnections,
    /// The links in both directions; messages from and to the node arrive late.
    Links,
}

/// A leader that sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    /// The number that picks one of the nodes that lead.
    pub turn: usize,
    /// The part of the node that stops.
    pub stops: Stops,
    /// The longest sleep, in nanoseconds.
    pub most_ns: u64,
    /// The time within which waiting events arrive after the node wakes, in nanoseconds.
    pub backlog_ns: u64,
    /// The times before and after the node wakes for which its successors are cut off, in
    /// nanoseconds.
    pub successors_cut_ns: Option<(u64, u64)>,
}

/// One fault.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Messages to these nodes, from them, or both are lost.
    Cut { nodes: Vec<usize>, inward: bool, outward: bool, for_ns: u64 },
    /// Messages from one node to another are lost, or between the two; other links work.
    CutPair { from: usize, to: usize, both: bool, for_ns: u64 },
    /// Changes the rates at which all messages are lost, repeated and delayed.
    Weather { loss: f64, repeat: f64, straggle: f64 },
    /// Delays all messages from one node to another by `by_ns`.
    Clog { from: usize, to: usize, by_ns: u64, for_ns: u64 },
    /// Drops the messages in flight between two nodes.
    Break { a: usize, b: usize },
    /// Moves a clock to this offset, as a part of its bound: at once, or gradually.
    Drift { node: usize, part: f64, over_ns: u64 },
    /// A clock steps to and fro within its bound.
    Strobe { node: usize, for_ns: u64 },
    /// A clock's bound is this many times wider.
    Widen { node: usize, times: u64, for_ns: u64 },
    /// Moves a clock to an offset beyond its bound: at once, or gradually.
    Lie { node: usize, by_ns: i64, over_ns: u64 },
    /// A clock steps to and fro beyond its bound.
    StrobeBeyond { node: usize, for_ns: u64 },
    /// A clock stands still.
    Freeze { node: usize, for_ns: u64 },
    /// A clock is an hour ahead. When it is corrected its node restarts, since time does not go
    /// back within a process.
    FarClock { node: usize, for_ns: u64 },
    /// Each sync takes up to this long.
    SlowDisk { node: usize, sync_ns: u64 },
    /// Nothing can be added to the disks.
    FullDisk { node: usize, for_ns: u64 },
    /// The next sync of a node's log, or of its store, fails. The process ends, and the page cache
    /// stays. The power may fail this long after the fault was drawn.
    SyncFails { node: usize, store: bool, power_after_ns: Option<u64> },
    /// Corrupts a disk, on a minority of the nodes.
    Injury { node: usize, decay: Decay },
    /// Nodes lose power.
    Crash { nodes: Vec<usize>, for_ns: u64 },
    /// A node loses power again and again.
    Restarts { node: usize, times: u32 },
    /// A node is cut off, and all other nodes lose power for a moment.
    Alone { node: usize, for_ns: u64 },
    /// A node shuts down in order.
    End { node: usize, for_ns: u64 },
    /// A node does nothing for a while, without knowing it.
    Pause { node: usize, for_ns: u64 },
    /// A leader stops, or its links do, for longer than leases last, and wakes when another node
    /// leads.
    Sleep(Sleep),
    /// Each step of a node takes this long.
    SlowProcessor { node: usize, step_ns: u64, for_ns: u64 },
    /// A node never comes back.
    Lost { node: usize },
    /// A node comes back with empty disks; with `forgets`, without the knowledge that it was a
    /// member.
    Wiped { node: usize, forgets: bool, for_ns: u64 },
}

impl Fault {
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Cut { inward: true, outward: true, .. } => "cut off",
            Fault::Cut { .. } => "cut off one way",
            Fault::CutPair { both: true, .. } => "cut pair",
            Fault::CutPair { .. } => "cut pair one way",
            Fault::Weather { .. } => "loss, repetition, delay",
            Fault::Clog { .. } => "clogged link",
            Fault::Break { .. } => "broken connection",
            Fault::Drift { over_ns: 0, .. } => "clock step",
            Fault::Drift { .. } => "clock drift",
            Fault::Strobe { .. } => "clock strobe",
            Fault::Widen { .. } => "clock unsure",
            Fault::Lie { over_ns: 0, .. } => "clock lies by a step",
            Fault::Lie { .. } => "clock lies by drift",
            Fault::StrobeBeyond { .. } => "clock lies by strobe",
            Fault::Freeze { .. } => "clock frozen",
            Fault::FarClock { .. } => "clock lies by an hour",
            Fault::SlowDisk { .. } => "slow disk",
            Fault::FullDisk { .. } => "full disk",
            Fault::SyncFails { .. } => "failed sync",
            Fault::Injury { decay: Decay::Rot, .. } => "flipped bit",
            Fault::Injury { decay: Decay::Misplaced, .. } => "misplaced write",
            Fault::Injury { decay: Decay::Astray, .. } => "misdirected write",
            Fault::Injury { decay: Decay::FileLost, .. } => "lost file",
            Fault::Crash { nodes, .. } if nodes.len() > 1 => "power failure",
            Fault::Crash { .. } => "crash",
            Fault::Restarts { .. } => "restarts in a row",
            Fault::Alone { .. } => "others restart",
            Fault::End { .. } => "end in order",
            Fault::Pause { .. } => "pause",
            Fault::Sleep(Sleep { stops: Stops::Links, .. }) => "silent leader",
            Fault::Sleep(_) => "sleeping leader",
            Fault::SlowProcessor { .. } => "slow processor",
            Fault::Lost { .. } => "lost node",
            Fault::Wiped { forgets: true, .. } => "wiped node",
            Fault::Wiped { .. } => "emptied node",
        }
    }
}

/// The faults of one run: some of the kinds, at a pace drawn from the seed. All kinds at once, all
/// the time, would let no transaction commit.
#[derive(Debug)]
pub struct Nemesis {
    kinds: Vec<Kind>,
    pace_ns: u64,
    /// Only the clocks of this many nodes, the first, lie: with time masters, a minority.
    liars: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    CutOff,
    CutOneWay,
    Weather,
    Clog,
    Break,
    Step,
    Drift,
    Strobe,
    Widen,
    LieByStep,
    LieByDrift,
    StrobeBeyond,
    Freeze,
    FarClock,
    SlowDisk,
    FullDisk,
    SyncFails,
    Injury,
    Crash,
    Blink,
    PowerFailure,
    Restarts,
    Alone,
    End,
    Pause,
    Sleep,
    SlowProcessor,
    Lost,
    Wiped,
}

impl Nemesis {
    pub fn new(rng: &mut ChaCha8Rng, options: &Options) -> Nemesis {
        use Kind::*;
        let faults = options.faults;
        let groups: [(bool, &[Kind]); 5] = [
            (faults.network, &[CutOff, CutOneWay, Weather, Clog, Break]),
            (faults.clock, &[Step, Drift, Strobe, Widen]),
            (faults.disk, &[SlowDisk, FullDisk, SyncFails, Injury]),
            (
                faults.process,
                &[
                    Crash,
                    Blink,
                    PowerFailure,
                    Restarts,
                    Alone,
                    End,
                    Pause,
                    Sleep,
                    SlowProcessor,
                    Lost,
                    Wiped,
                ],
            ),
            (faults.lies, &[LieByStep, LieByDrift, StrobeBeyond, Freeze, FarClock]),
        ];
        let mut allowed: Vec<Kind> = groups
            .iter()
            .filter(|(allowed, _)| *allowed)
            .flat_map(|(_, kinds)| kinds.iter().copied())
            .collect();
        // Other protocols have no leader that could sleep.
        allowed.retain(|kind| *kind != Sleep || options.protocol.row.has_leaders());
        let some =
            if allowed.is_empty() { 0 } else { rng.random_range(1..=allowed.len().min(MOST)) };
        let kinds: Vec<Kind> =
            (0..some).map(|_| allowed.swap_remove(rng.random_range(0..allowed.len()))).collect();
        let pace_ns = [100, 300, 1_000, 3_000][rng.random_range(0..4)] * MS;
        // Many kinds at that pace, or some particular ones, would let no transaction commit, and
        // would test nothing.
        let has = |some: &[Kind]| kinds.iter().any(|kind| some.contains(kind));
        let least_ns = match () {
            // Clocks on cluster time need two seconds after a start.
            _ if options.timebase == Timebase::Cluster
                && has(&[CutOneWay, Crash, Blink, SyncFails, PowerFailure, Restarts, Alone]) =>
            {
                3_000 * MS
            }
            _ if has(&[PowerFailure, Restarts, Alone, End, Sleep, Lost, Wiped]) => 1_000 * MS,
            _ if kinds.len() > MANY || has(&[Crash, SyncFails, Pause]) => 500 * MS,
            _ => 0,
        };
        let pace_ns = pace_ns.max(least_ns);
        let liars = if options.timebase == Timebase::Masters {
            (options.nodes - 1) / 2
        } else {
            options.nodes
        };
        Nemesis { kinds, pace_ns, liars: liars.max(1) }
    }

    /// Draws the next fault, and its delay after the previous one.
    pub fn draw(&self, rng: &mut ChaCha8Rng, nodes: usize) -> Option<(u64, Fault)> {
        if self.kinds.is_empty() {
            return None;
        }
        let after = rng.random_range(1..2 * self.pace_ns);
        let node = rng.random_range(0..nodes);
        let other = (node + rng.random_range(1..nodes.max(2))) % nodes;
        let short = rng.random_range(1..3_000 * MS);
        let part = rng.random_range(-1.0..=1.0);
        let (liar, lie) = (node % self.liars, (part * LIE as f64) as i64);
        let fault = match self.kinds[rng.random_range(0..self.kinds.len())] {
            Kind::CutOff => {
                let some: Vec<usize> = (0..nodes).filter(|_| rng.random_bool(0.4)).collect();
                let cut = if some.is_empty() { vec![node] } else { some };
                match part > 0.4 && nodes > 1 {
                    true => Fault::CutPair { from: node, to: other, both: true, for_ns: short },
                    false => Fault::Cut { nodes: cut, inward: true, outward: true, for_ns: short },
                }
            }
            Kind::CutOneWay => {
                let inward = rng.random_bool(0.5);
                match part > 0.0 && nodes > 1 {
                    true => Fault::CutPair { from: node, to: other, both: false, for_ns: short },
                    false => {
                        Fault::Cut { nodes: vec![node], inward, outward: !inward, for_ns: short }
                    }
                }
            }
            Kind::Weather => Fault::Weather {
                loss: rng.random_range(0.0..0.15),
                repeat: rng.random_range(0.0..0.15),
                straggle: rng.random_range(0.0..0.05),
            },
            Kind::Clog => Fault::Clog {
                from: node,
                to: other,
                by_ns: rng.random_range(10 * MS..2_000 * MS),
                for_ns: short,
            },
            Kind::Break => Fault::Break { a: node, b: other },
            Kind::Step => Fault::Drift { node, part, over_ns: 0 },
            Kind::Drift => Fault::Drift { node, part, over_ns: 1 + short },
            Kind::Strobe => Fault::Strobe { node, for_ns: short },
            Kind::Widen => Fault::Widen { node, times: rng.random_range(2..60), for_ns: short },
            Kind::LieByStep => Fault::Lie { node: liar, by_ns: lie, over_ns: 0 },
            Kind::LieByDrift => Fault::Lie { node: liar, by_ns: lie, over_ns: 1 + short },
            Kind::StrobeBeyond => Fault::StrobeBeyond { node: liar, for_ns: short },
            Kind::Freeze => Fault::Freeze { node: liar, for_ns: short },
            // One node only: no majority may be that wrong.
            Kind::FarClock => Fault::FarClock { node: 0, for_ns: short },
            Kind::SlowDisk => Fault::SlowDisk { node, sync_ns: rng.random_range(MS..400 * MS) },
            Kind::FullDisk => Fault::FullDisk { node, for_ns: short },
            Kind::SyncFails => {
                let power_after_ns =
                    rng.random_bool(0.5).then(|| rng.random_range(100 * MS..2_000 * MS));
                Fault::SyncFails { node, store: rng.random_bool(0.3), power_after_ns }
            }
            Kind::Injury => {
                let decays =
                    [Decay::Rot, Decay::Rot, Decay::Misplaced, Decay::Astray, Decay::FileLost];
                Fault::Injury { node, decay: decays[rng.random_range(0..decays.len())] }
            }
            Kind::Crash => Fault::Crash { nodes: vec![node], for_ns: short },
            Kind::Blink => Fault::Crash { nodes: vec![node], for_ns: rng.random_range(1..50 * MS) },
            Kind::PowerFailure => Fault::Crash { nodes: (0..nodes).collect(), for_ns: short },
            Kind::Restarts => Fault::Restarts { node, times: rng.random_range(2..6) },
            Kind::Alone => Fault::Alone { node, for_ns: short },
            Kind::End => Fault::End { node, for_ns: short },
            Kind::Pause => Fault::Pause { node, for_ns: short },
            Kind::Sleep => {
                let stops = [Stops::Processor, Stops::ProcessorAndConnections, Stops::Links];
                let backlog_ns = if rng.random_bool(0.5) {
                    5 * MS
                } else {
                    rng.random_range(5 * MS..1_000 * MS)
                };
                Fault::Sleep(Sleep {
                    turn: node,
                    stops: stops[rng.random_range(0..stops.len())],
                    most_ns: rng.random_range(5 * S..30 * S),
                    backlog_ns,
                    successors_cut_ns: rng
                        .random_bool(0.5)
                        .then_some((rng.random_range(0..5 * S), short)),
                })
            }
            Kind::SlowProcessor => Fault::SlowProcessor {
                node,
                step_ns: rng.random_range(MS / 100..10 * MS),
                for_ns: short,
            },
            Kind::Lost => Fault::Lost { node },
            Kind::Wiped => Fault::Wiped { node, forgets: rng.random_bool(0.7), for_ns: short / 4 },
        };
        Some((after, fault))
    }
}
