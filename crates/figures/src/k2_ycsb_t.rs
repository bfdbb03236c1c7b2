//! YCSB-T over skew, with every protocol (K2 §7.3.2).
//!
//! **The paper** compares K2 with systems that lock (its Figure 17): «read-write conflicts are the
//! only type of conflict that causes aborts in K2-MVTO». Its drawings have no numbers in the text.
//!
//! `k2.rs` describes the measurement. Here each of two groups has a replica on each of three
//! servers, because a protocol without leaders needs several, and timestamps are those of the
//! sessions' nodes. An attempt that fails is counted and not repeated: its session begins another
//! transaction.

use crate::k2::{measure, model, replicated, window_ns};
use crate::measure::S;
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::profile::{Profile, quantile_ms};
use meridian_sim::scenario::{Scenario, Skew, Work};
use meridian_sim::{SimulatedProtocol, protocols};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "k2_ycsb_t";
/// The title.
pub const TITLE: &str = "YCSB-T over skew, with every protocol (K2 §7.3.2)";

/// A protocol, and how it is called here.
const COMPARED: [(&str, &SimulatedProtocol); 6] = [
    ("k2", &protocols::K2),
    ("spanner", &protocols::SPANNER),
    ("hybrid_time", &protocols::HYBRID_TIME),
    ("clock_si", &protocols::CLOCK_SI),
    ("tapir", &protocols::TAPIR),
    (BUFFERED, &protocols::K2),
];
/// K2 with its writes kept until the commit.
const BUFFERED: &str = "k2, buffered";
/// As many as the servers have time for, and more.
const SESSIONS: [usize; 2] = [16, 64];

struct Point {
    sessions: usize,
    protocol: usize,
    hundredths: u32,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    failed: f64,
    cpu_us: f64,
}

fn measured(sessions: usize, protocol: usize, hundredths: u32, window_ns: u64) -> Point {
    let work = Work::YcsbT(Skew { hundredths });
    let (name, simulated) = COMPARED[protocol];
    let buffered = name == BUFFERED;
    let profile =
        measure(simulated, Scenario { window_ns, buffered, ..replicated(work) }, sessions);
    let Profile { writes_ns, reads_ns, failed, busy_ns, .. } = &profile;
    let mut all = [&writes_ns[..], &reads_ns[..]].concat();
    all.sort_unstable();
    let (failed, committed) = (*failed as f64, all.len().max(1) as f64);
    Point {
        sessions,
        protocol,
        hundredths,
        per_second: profile.per_second(),
        p50_ms: quantile_ms(&all, 0.5).unwrap_or_default(),
        p99_ms: quantile_ms(&all, 0.99).unwrap_or_default(),
        failed: failed / (failed + committed),
        cpu_us: busy_ns.iter().sum::<u64>() as f64 / committed / 1e3,
    }
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let skews: &[u32] = effort.pick(&[0, 50, 80, 90, 99, 110], &[50, 99]);
    let counts: &[usize] = effort.pick(&SESSIONS, &SESSIONS[..1]);
    let mut all = Vec::new();
    for sessions in counts {
        for hundredths in skews {
            for (number, (name, _)) in COMPARED.iter().enumerate() {
                progress(&format!("{sessions} sessions, Zipf {hundredths}/100, {name}"));
                let window_ns = window_ns(effort).min(2 * S);
                all.push(measured(*sessions, number, *hundredths, window_ns));
            }
        }
    }
    let zipf = |point: &Point| f64::from(point.hundredths) / 100.0;
    let row = |point: &Point| {
        vec![
            point.sessions.to_string(),
            format!("{:.2}", zipf(point)),
            COMPARED[point.protocol].0.to_owned(),
            format!("{:.1}", point.per_second / 1e3),
            format!("{:.2}", point.p50_ms),
            format!("{:.2}", point.p99_ms),
            format!("{:.2} %", 100.0 * point.failed),
            format!("{:.0}", point.cpu_us),
        ]
    };
    let head =
        ["sessions", "Zipf", "protocol", "thousands/s", "p50 ms", "p99 ms", "failed", "CPU µs"];
    let table =
        Table { head: head.map(str::to_owned).to_vec(), rows: all.iter().map(row).collect() };
    let panel = |sessions: usize, label, to, value: fn(&Point) -> f64| Panel {
        x: Axis { label: "exponent of Zipf's law", from: 0.0, to: 1.2 },
        y: Axis { label, from: 0.0, to },
        logarithmic: (false, false),
        series: COMPARED
            .iter()
            .enumerate()
            .map(|(color, (name, _))| Series {
                name: format!("{name}, here"),
                style: Style::OursMarked,
                color,
                points: all
                    .iter()
                    .filter(|point| point.sessions == sessions && point.protocol == color)
                    .map(|point| (zipf(point), value(point)))
                    .collect(),
            })
            .collect(),
    };
    let most = all.iter().map(|point| point.per_second).fold(0.0, f64::max) / 1e3;
    let notes = vec![
        format!(
            "Here: {} or {} sessions on four nodes, two groups of three replicas on three servers. Clocks claim 100 µs: spanner and k2 wait for that. hybrid_time and clock_si \
             commit in their default mode, hybrid, without a wait. clock_si is snapshot isolation, which permits what the others refuse.",
            SESSIONS[0], SESSIONS[1]
        ),
        format!(
            "K2 orders writers of a row by their timestamps, without a wait; what makes it try again is a later reader that came first. With {} sessions the servers are saturated, and most of a \
             transaction is waiting in queues: then later transactions do come first. Under skew those that have lost draw ahead of the present, which is the likely cause of the waits.",
            SESSIONS[1]
        ),
        model(),
    ];
    let panels = counts.iter().flat_map(|sessions| {
        let (commits, failed) = match sessions {
            16 => (
                "thousands of commits in a second, 16 sessions",
                "attempts that fail, %, 16 sessions",
            ),
            _ => (
                "thousands of commits in a second, 64 sessions",
                "attempts that fail, %, 64 sessions",
            ),
        };
        [
            panel(*sessions, commits, 1.2 * most, |point| point.per_second / 1e3),
            panel(*sessions, failed, 60.0, |point| 100.0 * point.failed),
        ]
    });
    let panels: Vec<Panel> = panels.collect();
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels }
}
