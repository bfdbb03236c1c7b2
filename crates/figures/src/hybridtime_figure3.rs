//! HybridTime, Figure 3: percentiles of the latency of writes in each consistency mode, without
//! `fsync()` and replication (§5.3).
//!
//! **The paper** shows the 50th, 75th, 90th, 99th and 99.9th percentile as measured by the clients
//! of Figure 2. Its text says of both figures what Figure 2 quotes.
//!
//! `hybridtime.rs` describes the measurement.

use crate::hybridtime::{FIRST, MODES, took_ns};
use crate::measure::quantile;
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_txn::Consistency;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "hybridtime_figure3";
/// The title.
pub const TITLE: &str = "percentiles without fsync and replication (HybridTime, Figure 3)";

/// The percentiles of the paper.
const PARTS: [(&str, f64); 5] =
    [("50th", 0.5), ("75th", 0.75), ("90th", 0.9), ("99th", 0.99), ("99.9th", 0.999)];

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let runs = FIRST.measure(effort, progress);
    let mut head = vec!["percentile".to_owned()];
    head.extend(MODES.map(|mode| format!("{mode} ms")));
    head.extend(["commit_wait × hybrid".to_owned(), "paper's".to_owned()]);
    let mut table = Table { head, rows: Vec::new() };
    let took = MODES.map(|mode| took_ns(&runs, mode));
    let ms = |at: usize, part: f64| quantile(&took[at], part) as f64 / 1e6;
    let [hybrid, commit_wait] = [Consistency::Hybrid, Consistency::CommitWait]
        .map(|mode| MODES.iter().position(|known| *known == mode).expect("it is measured"));
    for (name, part) in PARTS {
        let mut row = vec![name.to_owned()];
        row.extend((0..MODES.len()).map(|at| format!("{:.2}", ms(at, part))));
        row.push(format!("{:.0}", ms(commit_wait, part) / ms(hybrid, part)));
        row.push("about 100".to_owned());
        table.rows.push(row);
    }
    let series = |(color, mode): (usize, Consistency)| {
        let point = |(at, (_, part)): (usize, (&str, f64))| (at as f64 + 1.0, ms(color, part));
        let points = PARTS.into_iter().enumerate().map(point).collect();
        Series { name: format!("{mode}, here"), style: Style::OursMarked, color, points }
    };
    let panel = Panel {
        x: Axis {
            label: "percentile: 1 the 50th, 2 the 75th, 3 the 90th, 4 the 99th, 5 the 99.9th",
            from: 0.5,
            to: 5.5,
        },
        y: Axis { label: "latency of a write, ms", from: 0.05, to: 500.0 },
        logarithmic: (false, true),
        series: MODES.into_iter().enumerate().map(series).collect(),
    };
    let notes = vec![
        FIRST.setting(effort, &runs),
        "The paper's figure is a drawing; «about 2 orders of magnitude» is its text about Figures 2 and 3 together. As there, latencies are those of the clients."
            .to_owned(),
        FIRST.model(),
    ];
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels: vec![panel] }
}
