//! K2, Figure 16: what a timestamp costs, in batches and one by one (§7.2).
//!
//! **The paper**: «K2-TB significantly improves latency (15×) and throughput (1462×) for getting a
//! timestamp since most timestamp requests (> 99.9 %) can be served locally.»
//!
//! `k2.rs` describes the measurement. A transaction begins, which draws its timestamp, and ends.

use crate::k2::{BATCHES, STRAWMAN, figure, groups, measure, model, papers};
use crate::measure::{MS, mean_ms};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::protocols;
use meridian_sim::scenario::{Scenario, TimeOracle, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "k2_figure16";
/// The title.
pub const TITLE: &str = "timestamps in batches and one by one (K2, Figure 16)";

const GATEWAYS: usize = 8;

struct Point {
    sessions: usize,
    batches: bool,
    per_second: f64,
    mean_us: f64,
}

fn measured(oracle: TimeOracle, sessions: usize, window_ns: u64) -> Point {
    let scenario = Scenario { window_ns, ..groups(1, GATEWAYS, Some(oracle), Work::Begin) };
    let profile = measure(&protocols::K2, scenario, sessions);
    let mean_us = 1e3 * mean_ms(&profile.reads_ns);
    Point { sessions, batches: oracle.batches, per_second: profile.per_second(), mean_us }
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let counts: &[usize] = effort.pick(&[1, 2, 4, 8, 16, 32, 64, 128], &[1, 32]);
    let window_ns = effort.pick(200, 50) * MS;
    let mut all = Vec::new();
    for oracle in [STRAWMAN, BATCHES] {
        for sessions in counts {
            progress(&format!("{sessions} sessions, batches: {}", oracle.batches));
            all.push(measured(oracle, *sessions, window_ns));
        }
    }
    let of = |batches: bool| all.iter().filter(move |point| point.batches == batches);
    let most = |batches| of(batches).map(|point| point.per_second).fold(0.0, f64::max);
    let least = |batches| of(batches).map(|point| point.mean_us).fold(f64::INFINITY, f64::min);
    let row = |point: &Point| {
        vec![
            if point.batches { "in batches" } else { "one by one" }.to_owned(),
            point.sessions.to_string(),
            format!("{:.1}", point.per_second / 1e3),
            format!("{:.2}", point.mean_us),
        ]
    };
    let head = ["timestamps", "sessions", "thousands/s", "mean µs"].map(str::to_owned).to_vec();
    let table = Table { head, rows: all.iter().map(row).collect() };
    let series = [false, true].into_iter().map(|batches| Series {
        name: if batches { "in batches, here" } else { "one by one, here" }.to_owned(),
        style: Style::OursMarked,
        color: usize::from(batches),
        points: of(batches).map(|point| (point.per_second / 1e3, point.mean_us)).collect(),
    });
    let panel = Panel {
        x: Axis { label: "thousands of timestamps in a second", from: 1.0, to: 10_000.0 },
        y: Axis { label: "µs for a timestamp", from: 0.1, to: 10_000.0 },
        logarithmic: (true, true),
        series: series.collect(),
    };
    let notes = vec![
        format!(
            "Here: up to {} sessions on {GATEWAYS} nodes, which begin and end transactions, one after the other. Batches: {:.1} × less latency, and {:.0} × more timestamps. What limits them is the \
             work of a session's node for a transaction; what limits the others, the oracle.",
            counts.last().copied().unwrap_or_default(),
            least(false) / least(true),
            most(true) / most(false)
        ),
        papers(
            "15 × in latency, 1462 × in throughput; its clients do nothing but ask for timestamps.",
        ),
        model(),
    ];
    figure((NAME, TITLE), table, panel, notes)
}
