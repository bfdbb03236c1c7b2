//! Clock-SI, Figure 7: the throughput of reads of hot spots, with older snapshots (§V-D).
//!
//! **The paper**: some clients update ten items each; others read ten items, with some probability
//! those of an updating client. «As Δ becomes larger, the throughput increases and the latency
//! decreases. With Δ greater than the duration of a commit, reads are not delayed by updates at all
//! (for curves with Δ = 14ms and Δ = 21ms).»
//!
//! `clock_si.rs` describes the measurement. A second partition, which is idle, is there because a
//! database with one shard has no need of clocks: it reads the newest commit, and never waits. A
//! commit here waits for a sync under way and for its own, 6.7 to 13.4 ms.

use crate::clock_si::{measure, model, partitions};
use crate::measure::{MS, S, mean_ms};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::scenario::{Scenario, Work};
use meridian_sim::{Regions, protocols};
use meridian_txn::SnapshotAge;
use std::time::Duration;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure7";
/// The title.
pub const TITLE: &str = "throughput of reads of hot spots (Clock-SI, Figure 7)";

/// The ages of snapshots, in milliseconds. The paper names the last two.
pub(crate) const AGES_MS: [u64; 4] = [0, 7, 14, 21];
/// The number of sessions: half of them update.
const SESSIONS: usize = 16;

/// The reads with one age of snapshots and one probability, in percent, of a hot spot.
pub(crate) struct Reads {
    pub age_ms: u64,
    pub hot: u32,
    pub per_second: f64,
    /// The updates that committed in a second.
    pub updates: f64,
    pub mean_ms: f64,
    /// The part of the reads that waited at the partition, in percent.
    pub delayed: f64,
}

/// Measures the reads with each age of snapshots and probability of a hot spot.
pub(crate) fn reads(effort: Effort, progress: &mut dyn FnMut(&str)) -> Vec<Reads> {
    let window_ns = effort.pick(4 * S, S / 2);
    let parts: &[u32] = effort.pick(&[0, 20, 40, 60, 80, 100], &[0, 100]);
    let mut all = Vec::new();
    for age_ms in AGES_MS {
        for hot in parts {
            progress(&format!("snapshots {age_ms} ms old, {hot} % of the reads of hot spots"));
            let scenario = Scenario {
                age: SnapshotAge::Fixed(Duration::from_millis(age_ms)),
                window_ns,
                ..partitions(1, 2, SESSIONS, Work::HotSpots(*hot))
            };
            let profile = measure(&protocols::CLOCK_SI, scenario, SESSIONS, Regions::Lan);
            let reads = profile.commits.iter().filter(|commit| !commit.writes);
            let delayed = reads.filter(|read| read.waited_ns > 0).count();
            let read = profile.reads_ns.len().max(1) as f64;
            all.push(Reads {
                age_ms,
                hot: *hot,
                per_second: profile.reads_ns.len() as f64 / (window_ns as f64 / S as f64),
                updates: profile.writes_ns.len() as f64 / (window_ns as f64 / S as f64),
                mean_ms: mean_ms(&profile.reads_ns),
                delayed: 100.0 * delayed as f64 / read,
            });
        }
    }
    all
}

/// Builds the figure of one quantity.
pub(crate) fn figure(
    (name, title): (&'static str, &str),
    reads: &[Reads],
    (label, to): (&'static str, f64),
    value: fn(&Reads) -> f64,
) -> Figure {
    let head = [
        "snapshot age",
        "reads of hot spots",
        "reads in a second",
        "mean ms",
        "delayed",
        "updates in a second",
    ];
    let row = |read: &Reads| {
        vec![
            format!("{} ms", read.age_ms),
            format!("{} %", read.hot),
            format!("{:.0}", read.per_second),
            format!("{:.2}", read.mean_ms),
            format!("{:.1} %", read.delayed),
            format!("{:.0}", read.updates),
        ]
    };
    let series = AGES_MS.iter().enumerate().map(|(color, age_ms)| Series {
        name: format!("{age_ms} ms, here"),
        style: Style::OursMarked,
        color,
        points: reads
            .iter()
            .filter(|read| read.age_ms == *age_ms)
            .map(|read| (f64::from(read.hot), value(read)))
            .collect(),
    });
    let panel = Panel {
        x: Axis { label: "reads of hot spots, %", from: 0.0, to: 100.0 },
        y: Axis { label, from: 0.0, to },
        logarithmic: (false, false),
        series: series.collect(),
    };
    let notes = vec![
        format!(
            "Here: one partition; {} sessions update ten keys each, all at a time, as fast as they can, and {} read ten adjacent keys. A commit waits for the sync under way, if any, and for its own, {} ms \
             each.",
            SESSIONS / 2, SESSIONS / 2, DISK_MS
        ),
        "The paper's figure is a drawing, whose curves for 14 and 21 ms it calls not delayed at all; it does not print the other ages.".to_owned(),
        model(),
    ];
    Figure {
        name,
        title: title.to_owned(),
        table: Table {
            head: head.map(str::to_owned).to_vec(),
            rows: reads.iter().map(row).collect(),
        },
        notes,
        panels: vec![panel],
    }
}

const DISK_MS: f64 = crate::clock_si::DISK_MEAN_NS as f64 / MS as f64;

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let reads = reads(effort, progress);
    let most = reads.iter().map(|read| read.per_second).fold(1.0, f64::max);
    let label = "reads in a second";
    figure((NAME, TITLE), &reads, (label, 1.2 * most), |read| read.per_second)
}
