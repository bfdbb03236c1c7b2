//! Spanner, Table 3: the cost of a write, a read-only transaction and a snapshot read with 1, 3 and
//! 5 replicas (§5.1).
//!
//! **The paper** had one server in each zone, zones and clients less than a millisecond apart, 50
//! groups, and standalone operations of 4 KB from memory; it prints means and standard deviations
//! over 10 runs. Latency was measured with so few operations that nothing queues; throughput with
//! as many as keep the servers' CPUs busy. «1D means one replica with commit wait disabled.» «From
//! the 1-replica experiments, commit wait is about 5ms, and Paxos latency is about 9ms.» The
//! throughput of snapshot reads grows almost linearly with replicas; that of read-only transactions
//! too, because leaders are spread over more servers; the cost of a write grows with the replicas,
//! so that its throughput first falls.
//!
//! **This measurement** has as many servers as replicas, 50 groups whose leaders are spread over
//! them, and sessions on nodes of their own (for snapshot reads on the servers: a snapshot is read
//! at a replica by the sessions of its own node). The clocks' uncertainty is 2.5 ms, so that commit
//! wait is 5 ms; in 1D it is zero.
//!
//! **Differences.** Commit wait and agreement overlap, and the disks sync in under a tenth of a
//! millisecond: the rest of a write's latency is the wait and the round trips. The paper's servers
//! had four cores, these have one.

use crate::measure::{Runs, S, mean_ms, measure, model, scenario, told};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::Regions;
use meridian_sim::scenario::{ErrorBound, Scenario, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "spanner_table3";
/// The title.
pub const TITLE: &str = "operations with 1, 3 and 5 replicas (Spanner, Table 3)";

type Printed = Option<(f64, f64)>;

/// The measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A write of one value.
    Write,
    /// A read-only transaction at the present time.
    ReadOnly,
    /// A snapshot read at a local replica.
    Snapshot,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::Write, Operation::ReadOnly, Operation::Snapshot];

    /// Returns the name, as in the table.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Write => "write",
            Operation::ReadOnly => "read-only transaction",
            Operation::Snapshot => "snapshot read",
        }
    }

    fn work(self) -> Work {
        match self {
            Operation::Write => Work::Write(1),
            Operation::ReadOnly => Work::Read,
            Operation::Snapshot => Work::Snapshot,
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The number of replicas of each group.
    pub replicas: usize,
    /// True if there is a commit wait.
    pub waits: bool,
    /// The operation.
    pub operation: Operation,
}

impl Setting {
    /// Returns the name, as in the table.
    pub fn name(self) -> String {
        format!("{}{}", self.replicas, if self.waits { "" } else { "D" })
    }
}

/// The results of several runs of a setting.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The setting.
    pub setting: Setting,
    /// The latency in milliseconds, with so few operations that none waits for another.
    pub latency: Runs,
    /// The throughput in thousands per second, under full load.
    pub throughput: Runs,
}

/// The paper's values: replicas, true if there is a commit wait, latencies in milliseconds and
/// throughputs in thousands per second, each with its deviation.
const PAPER: [(usize, bool, [Printed; 3], [Printed; 3]); 4] = [
    (1, false, [Some((9.4, 0.6)), None, None], [Some((4.0, 0.3)), None, None]),
    (
        1,
        true,
        [Some((14.4, 1.0)), Some((1.4, 0.1)), Some((1.3, 0.1))],
        [Some((4.1, 0.05)), Some((10.9, 0.4)), Some((13.5, 0.1))],
    ),
    (
        3,
        true,
        [Some((13.9, 0.6)), Some((1.3, 0.1)), Some((1.2, 0.1))],
        [Some((2.2, 0.5)), Some((13.8, 3.2)), Some((38.5, 0.3))],
    ),
    (
        5,
        true,
        [Some((14.4, 0.4)), Some((1.4, 0.05)), Some((1.3, 0.04))],
        [Some((2.8, 0.3)), Some((25.3, 5.2)), Some((50.0, 1.1))],
    ),
];

/// Returns the paper's rows, with latency and throughput.
fn printed() -> impl Iterator<Item = (Setting, (f64, f64), (f64, f64))> {
    PAPER.into_iter().flat_map(|(replicas, waits, latencies, throughputs)| {
        let row = move |(kind, operation)| {
            Some((Setting { replicas, waits, operation }, latencies[kind]?, throughputs[kind]?))
        };
        Operation::ALL.into_iter().enumerate().filter_map(row)
    })
}

/// Returns the settings of the paper's rows, ordered by replicas.
pub fn settings() -> impl Iterator<Item = Setting> {
    printed().map(|(setting, ..)| setting)
}

/// Returns the scenario with as many servers as replicas.
fn on(replicas: usize, waits: bool, groups: u32, work: Work) -> Scenario {
    let scenario = scenario(replicas, 1, groups, replicas, work);
    let gateways = if work == Work::Snapshot { 0 } else { 4 * replicas };
    let clocks = if waits { scenario.clocks } else { ErrorBound::of(0) };
    Scenario { gateways, clocks, ..scenario }
}

/// Returns the latency of an operation without contention: four sessions, each of which begins one
/// every 20 ms.
fn latency(scenario: Scenario, seed: u64) -> f64 {
    let profile =
        measure(Scenario { every_ns: Some(S / 50), ..scenario }, seed, 4, Regions::Spanner);
    mean_ms(if scenario.work == Work::Write(1) { &profile.writes_ns } else { &profile.reads_ns })
}

/// Returns the throughput under full load, in thousands per second.
pub(crate) fn throughput(scenario: Scenario, seed: u64, sessions: usize) -> f64 {
    let profile = measure(scenario, seed, sessions, Regions::Spanner);
    profile.commits.len() as f64 / (profile.window_ns as f64 / S as f64) / 1e3
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let (groups, runs, many, window_ns) = effort.pick((50, 3, 100, S), (5, 1, 6, S / 10));
    let mut all = Vec::new();
    for setting in settings() {
        let Setting { replicas, waits, operation } = setting;
        progress(&format!("{} replicas: {}", setting.name(), operation.name()));
        let scenario = Scenario { window_ns, ..on(replicas, waits, groups, operation.work()) };
        let sessions =
            if operation == Operation::Snapshot { 4 * replicas } else { many * replicas };
        let over = |measure: &dyn Fn(u64) -> f64| Runs((0..runs).map(measure).collect());
        let took = over(&|seed| latency(scenario, seed));
        all.push(Measured {
            setting,
            latency: took,
            throughput: over(&|seed| throughput(scenario, seed, sessions)),
        });
    }
    let notes = vec![
        format!(
            "Here: as many servers as replicas, {groups} groups with leaders spread over them, round trips of 0.9 to 1 ms between any two nodes, clocks with a bound of 2.5 ms (1D: \
             exact clocks, without commit wait); {runs} runs of a second. Latency: four sessions, each of which begins an operation every 20 ms. Throughput: {many} sessions \
             for each server, on nodes of their own; for snapshot reads 4, on the server itself."
        ),
        "A snapshot is read here by sessions of a node that has a replica, without any message; the paper's clients were on machines of their own. The paper's servers had four \
         cores, these have one."
            .to_owned(),
        model(),
    ];
    figure(&all, notes)
}

/// Builds the figure of the measurements, beside the paper's numbers.
pub fn figure(measured: &[Measured], notes: Vec<String>) -> Figure {
    let columns = ["replicas", "operation", "latency ms", "paper's", "Kops/s", "paper's"];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    let empty = || vec![Vec::new(); Operation::ALL.len()];
    let mut panels =
        [("latency, ms", 0.001, 1000.0), ("operations a second, thousands", 0.1, 10_000.0)]
            .map(|(label, from, to)| (Axis { label, from, to }, empty(), empty()));
    for Measured { setting, latency, throughput } in measured {
        let known = printed().find(|(known, ..)| known == setting);
        let papers = known.map(|(_, latency, throughput)| [latency, throughput]);
        let mut row = vec![setting.name(), setting.operation.name().to_owned()];
        for (at, (_, ours, theirs)) in panels.iter_mut().enumerate() {
            let runs = [latency, throughput][at];
            row.push(runs.told());
            row.push(papers.map_or_else(String::new, |printed| told(printed[at].0, printed[at].1)));
            if setting.waits {
                let (kind, replicas) = (setting.operation as usize, setting.replicas as f64);
                ours[kind].push((replicas, runs.mean()));
                theirs[kind].extend(papers.map(|printed| (replicas, printed[at].0)));
            }
        }
        table.rows.push(row);
    }
    let panel = |(y, ours, theirs): (Axis, Vec<Vec<(f64, f64)>>, Vec<Vec<(f64, f64)>>)| {
        let series = |points: Vec<Vec<(f64, f64)>>, whose: &str, style| {
            let of = |(kind, points): (usize, Vec<(f64, f64)>)| {
                let name = format!("{}, {whose}", Operation::ALL[kind].name());
                Series { name, style, color: kind, points }
            };
            points.into_iter().enumerate().map(of).collect::<Vec<_>>()
        };
        Panel {
            x: Axis { label: "replicas", from: 0.0, to: 6.0 },
            y,
            logarithmic: (false, true),
            series: [
                series(ours, "here", Style::OursMarked),
                series(theirs, "the paper's", Style::Papers),
            ]
            .concat(),
        }
    };
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels: panels.map(panel).to_vec() }
}
