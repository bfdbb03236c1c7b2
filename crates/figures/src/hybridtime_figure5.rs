//! HybridTime, Figure 5: histograms of the latency of writes in two data centres (§5.5).
//!
//! **The paper** had clients in each data centre that write to all partitions. «Not only does
//! HybridTime show lower latency values but these are also more stable, for instance 25% of all
//! requests fell under the same bin in YSCB.» The section ends with a sentence about all
//! experiments: «A single YCSB client using HybridTime consistency achieves roughly 20 times the
//! throughput of a client using commit-wait consistency.»
//!
//! `hybridtime.rs` describes the measurement.

use crate::hybridtime::{MODES, THIRD, took_ns};
use crate::measure::{MS, mean_ms, quantile};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_txn::Consistency;
use std::collections::BTreeMap;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "hybridtime_figure5";
/// The title.
pub const TITLE: &str = "histograms of latency in two data centres (HybridTime, Figure 5)";

/// The width of a bin of YCSB, in nanoseconds.
const BIN: u64 = MS;
/// The end of the histogram, in bins.
const END: u64 = 200;

/// Returns the number of durations in each bin.
fn bins(took_ns: &[u64]) -> BTreeMap<u64, usize> {
    let mut bins = BTreeMap::new();
    took_ns.iter().for_each(|ns| *bins.entry(ns / BIN).or_default() += 1);
    bins
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let runs = THIRD.measure(effort, progress);
    let columns = [
        "consistency",
        "mean ms",
        "p25",
        "p50",
        "p75",
        "p99",
        "fullest bin",
        "paper's",
        "throughput",
        "paper's",
    ];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    let mut series = Vec::new();
    let slowest = took_ns(&runs, Consistency::CommitWait).len();
    for (color, mode) in MODES.into_iter().enumerate() {
        let took = took_ns(&runs, mode);
        let ms = |part| format!("{:.1}", quantile(&took, part) as f64 / 1e6);
        let bins = bins(&took);
        let share = |many: usize| 100.0 * many as f64 / took.len().max(1) as f64;
        let (papers_bin, papers_rate) = match mode {
            Consistency::None => ("", ""),
            Consistency::Hybrid => ("25 %", "about 20"),
            Consistency::CommitWait => ("less", "1"),
        };
        table.rows.push(vec![
            mode.name().to_owned(),
            format!("{:.1}", mean_ms(&took)),
            ms(0.25),
            ms(0.5),
            ms(0.75),
            ms(0.99),
            format!("{:.0} %", share(bins.values().copied().max().unwrap_or(0))),
            papers_bin.to_owned(),
            format!("{:.2}", took.len() as f64 / slowest.max(1) as f64),
            papers_rate.to_owned(),
        ]);
        let point = |bin: u64| (bin as f64 + 0.5, share(bins.get(&bin).copied().unwrap_or(0)));
        let points = (0..END).map(point).collect();
        series.push(Series { name: format!("{mode}, here"), style: Style::Ours, color, points });
    }
    let highest =
        series.iter().flat_map(|one| &one.points).map(|(_, part)| *part).fold(1.0, f64::max);
    let panel = Panel {
        x: Axis { label: "latency of a write, ms", from: 0.0, to: END as f64 },
        y: Axis {
            label: "part of the mode's writes in each millisecond, %",
            from: 0.0,
            to: 1.2 * highest,
        },
        logarithmic: (false, false),
        series,
    };
    let notes = vec![
        THIRD.setting(effort, &runs),
        "Half of the writes are to a group that is led in the other data centre. Their round trip is longer than a commit wait, which is over before the answer arrives: the session's \
         node waits, and not the leader. So commit_wait costs these writes nothing, and its throughput is not a twentieth of hybrid's."
            .to_owned(),
        "The paper's figure is a drawing. Its factor of 20 in throughput is not from two data centres: no client reaches it that writes half of its rows over an ocean. In one data centre \
         it lies between the ratios of hybridtime_figure2 and hybridtime_figure4."
            .to_owned(),
        "A bin is one millisecond wide, as YCSB's. Throughput: completed writes, divided by those of mode commit_wait."
            .to_owned(),
        THIRD.model(),
    ];
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels: vec![panel] }
}
