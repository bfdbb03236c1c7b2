//! Clock-SI, Figure 6: the throughput of a social network (§V-C).
//!
//! **The paper** has 800,000 users, each of which follows 20 others. A transaction reads the 20
//! latest tweets of the followees, at one partition, or (one of ten) pushes a tweet to the
//! followers at three partitions. «With eight partitions Clock-SI supports more than 38k
//! transactions/second, while conventional SI supports 33k.»
//!
//! `clock_si.rs` describes the measurement.

use crate::clock_si::{Load, Throughput, model, thousands, throughput, throughput_panel};
use crate::measure::MS;
use crate::{Effort, Figure, Table};
use meridian_sim::scenario::Work;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure6";
/// The title.
pub const TITLE: &str = "throughput of a social network (Clock-SI, Figure 6)";

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let window_ns = effort.pick(400, 100) * MS;
    let load = Load { gateways: 6, sessions: 100, window_ns };
    let measured = throughput(effort, Work::Feed, load, progress);
    let head = ["partitions", "clock_si", "conventional_si", "ratio", "paper's"];
    let row = |point: &Throughput| {
        let [ours, other] = point.per_second;
        let papers = if point.partitions == 8 { "above 38 k, 33 k: 1.15" } else { "" };
        vec![
            point.partitions.to_string(),
            thousands(ours),
            thousands(other),
            format!("{:.2}", ours / other),
            papers.to_owned(),
        ]
    };
    let notes = vec![
        format!(
            "Here: transactions per second with {} nodes and {} sessions for each partition, {} ms each. Nine of ten read 20 adjacent keys of one partition; the others read two keys of a user and \
             write 21, at three partitions (or as many as there are), in two phases.",
            load.gateways,
            load.sessions,
            window_ns / MS
        ),
        model(),
    ];
    Figure {
        name: NAME,
        title: TITLE.to_owned(),
        table: Table {
            head: head.map(str::to_owned).to_vec(),
            rows: measured.iter().map(row).collect(),
        },
        notes,
        panels: vec![throughput_panel("thousands in a second", &measured, 200.0)],
    }
}
