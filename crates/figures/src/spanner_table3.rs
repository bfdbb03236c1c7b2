//! Spanner, Table 3: what a write, a read-only transaction and a snapshot read cost with 1, 3 and 5 replicas (§5.1).
//!
//! **The paper** had one server in each zone, zones and clients less than a millisecond apart, 50 groups, and standalone operations of 4 KB from memory; it prints means and
//! standard deviations over 10 runs. Latency with so few operations that nothing queues; throughput with as many as keep the servers' CPUs busy. «1D means one replica with
//! commit wait disabled.» «From the 1-replica experiments, commit wait is about 5ms, and Paxos latency is about 9ms.» Snapshot reads grow almost linearly with replicas; read-only
//! transactions too, because leaders are spread over more servers; what a write costs grows with the replicas, so that its throughput first falls.
//!
//! **Ours** has as many servers as replicas, 50 groups led by all alike, and sessions on nodes of their own (for snapshot reads on the servers: here a snapshot is read at a
//! replica by the sessions of its own node). The clocks are sure to 2.5 ms, so that commit wait is 5 ms; in 1D to nothing.
//!
//! **In what they differ.** A write here takes two round trips and not one: a blind write first locks its key, to learn which leadership it stands on. Commit wait and agreement
//! overlap, and our disks sync in under a tenth of a millisecond: what is left of a write's latency is the wait and the trips. Servers of the paper had four cores, ours one.

use crate::measure::{Runs, S, mean_ms, measure, model, scene, told};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::Regions;
use meridian_sim::scene::{Scene, Work};

pub const NAME: &str = "spanner_table3";
pub const TITLE: &str = "operations with 1, 3 and 5 replicas (Spanner, Table 3)";

type Printed = Option<(f64, f64)>;

const KINDS: [(Work, &str); 3] =
    [(Work::Write(1), "write"), (Work::Read, "read-only transaction"), (Work::Snapshot, "snapshot read")];
/// Replicas, whether there is a commit wait, latencies in milliseconds and throughputs in thousands a second, each with its deviation.
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

/// As many servers as replicas.
fn on(replicas: usize, waits: bool, groups: u32, work: Work) -> Scene {
    let scene = scene(replicas, 1, groups, replicas, work);
    let gateways = if work == Work::Snapshot { 0 } else { 4 * replicas };
    Scene { gateways, half_width_ns: if waits { scene.half_width_ns } else { 0 }, ..scene }
}

/// What an operation takes when nobody else wants anything: four sessions, each of which begins one every 20 ms.
fn latency(scene: Scene, seed: u64) -> f64 {
    let profile = measure(Scene { every_ns: Some(S / 50), ..scene }, seed, 4, Regions::Spanner);
    mean_ms(if scene.work == Work::Write(1) { &profile.writes_ns } else { &profile.reads_ns })
}

/// How many thousand a second there are when as many are asked for as can be done.
pub(crate) fn throughput(scene: Scene, seed: u64, sessions: usize) -> f64 {
    let profile = measure(scene, seed, sessions, Regions::Spanner);
    profile.ended_ns.len() as f64 / (profile.window_ns as f64 / S as f64) / 1e3
}

pub fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let (groups, runs, many, window_ns) = effort.pick((50, 3, 100, S), (5, 1, 6, S / 10));
    let columns = ["replicas", "operation", "latency ms", "paper's", "Kops/s", "paper's"];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    let mut ours = [const { (Vec::new(), Vec::new()) }; 3];
    let mut papers = [const { (Vec::new(), Vec::new()) }; 3];
    for (replicas, waits, latencies, throughputs) in PAPER {
        let name = if waits { replicas.to_string() } else { format!("{replicas}D") };
        for (kind, (work, operation)) in KINDS.into_iter().enumerate() {
            let (Some(printed), Some(printed_rate)) = (latencies[kind], throughputs[kind]) else { continue };
            progress(&format!("{name} replicas: {operation}"));
            let scene = Scene { window_ns, ..on(replicas, waits, groups, work) };
            let sessions = if work == Work::Snapshot { 4 * replicas } else { many * replicas };
            let over = |measure: &dyn Fn(u64) -> f64| Runs((0..runs).map(measure).collect());
            let took = over(&|seed| latency(scene, seed));
            let rate = over(&|seed| throughput(scene, seed, sessions));
            let row = [
                name.clone(),
                operation.to_owned(),
                took.told(),
                told(printed.0, printed.1),
                rate.told(),
                told(printed_rate.0, printed_rate.1),
            ];
            table.rows.push(row.to_vec());
            if waits {
                let at = replicas as f64;
                ours[kind].0.push((at, took.mean()));
                ours[kind].1.push((at, rate.mean()));
                papers[kind].0.push((at, printed.0));
                papers[kind].1.push((at, printed_rate.0));
            }
        }
    }
    let series = |(kind, points): (usize, (Vec<(f64, f64)>, Vec<(f64, f64)>)), whose: &str, style| {
        let of = |points| Series { name: format!("{}, {whose}", KINDS[kind].1), style, color: kind, points };
        [of(points.0), of(points.1)]
    };
    let mut panels =
        [("latency, ms", 0.001, 1000.0), ("operations a second, thousands", 0.1, 10_000.0)].map(|(label, from, to)| {
            Panel {
                x: Axis { label: "replicas", from: 0.0, to: 6.0 },
                y: Axis { label, from, to },
                logarithmic: (false, true),
                series: Vec::new(),
            }
        });
    let all = ours.into_iter().enumerate().map(|entry| series(entry, "here", Style::OursMarked));
    let theirs = papers.into_iter().enumerate().map(|entry| series(entry, "the paper's", Style::Papers));
    for both in all.chain(theirs).collect::<Vec<_>>() {
        panels.iter_mut().zip(both).for_each(|(panel, series)| panel.series.push(series));
    }
    let notes = vec![
        format!(
            "Here: as many servers as replicas, {groups} groups led by all alike, 0.9 to 1 ms there and back between any two nodes, clocks that are sure to 2.5 ms (1D: \
             exact clocks, so that nobody waits); {runs} runs of a second. Latency: four sessions, each of which begins an operation every 20 ms. Throughput: {many} sessions \
             for each server, on nodes of their own; for snapshot reads 4, on the server itself."
        ),
        "A snapshot is read here by sessions of a node that has a replica, without any message; the paper's clients were on machines of their own. A write that has read nothing first locks \
         its key: two round trips where the paper has one. The paper's servers had four cores, ours have one."
            .to_owned(),
        model(),
    ];
    Figure { name: NAME, title: TITLE, table, notes, panels: panels.to_vec() }
}
