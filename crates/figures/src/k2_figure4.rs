//! K2, Figure 4: the parts of a transaction's latency where each timestamp is asked for by itself
//! (§4.3).
//!
//! **The paper**: «Timestamp latency contributes 20.1 % ∼ 25.4 % to the total latency» of YCSB-T
//! with the strawman, in one region.
//!
//! `k2.rs` describes the measurement. K2-TB is measured beside it, which the paper's figure does
//! not have.

use crate::k2::{BATCHES, STRAWMAN, figure, groups, measure, model, papers, window_ns};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::profile::Commit;
use meridian_sim::protocols;
use meridian_sim::scenario::{Scenario, Skew, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "k2_figure4";
/// The title.
pub const TITLE: &str = "a timestamp's part of the latency (K2, Figure 4)";

/// The exponents of Zipf's law, in hundredths.
const SKEWS: [u32; 3] = [50, 80, 99];
const SESSIONS: usize = 16;

struct Parts {
    hundredths: u32,
    batches: bool,
    /// The means, in nanoseconds.
    all: f64,
    timestamp: f64,
    commit: f64,
    waited: f64,
}

impl Parts {
    fn of(hundredths: u32, batches: bool, commits: &[Commit]) -> Parts {
        let writes: Vec<&Commit> = commits.iter().filter(|commit| commit.writes).collect();
        let mean = |part: fn(&Commit) -> u64| {
            let sum: u64 = writes.iter().map(|commit| part(commit)).sum();
            sum as f64 / writes.len().max(1) as f64
        };
        Parts {
            hundredths,
            batches,
            all: mean(|commit| commit.took_ns),
            timestamp: mean(|commit| commit.timestamp_ns),
            commit: mean(|commit| commit.commit_ns),
            waited: mean(|commit| commit.waited_ns.min(commit.commit_ns)),
        }
    }

    fn row(&self) -> Vec<String> {
        let us = |ns: f64| format!("{:.0}", ns / 1e3);
        let (drawn, papers) = match self.batches {
            true => ("in batches", ""),
            false => ("one by one", "20.1 % to 25.4 %"),
        };
        vec![
            format!("{:.2}", f64::from(self.hundredths) / 100.0),
            drawn.to_owned(),
            us(self.all),
            us(self.timestamp),
            us(self.all - self.timestamp - self.commit),
            us(self.commit - self.waited),
            us(self.waited),
            format!("{:.1} %", 100.0 * self.timestamp / self.all),
            papers.to_owned(),
        ]
    }
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let mut all = Vec::new();
    for oracle in [STRAWMAN, BATCHES] {
        for hundredths in SKEWS {
            progress(&format!("Zipf {hundredths}/100, batches: {}", oracle.batches));
            let work = Work::YcsbT(Skew { hundredths });
            let scenario =
                Scenario { window_ns: window_ns(effort), ..groups(4, 4, Some(oracle), work) };
            let profile = measure(&protocols::K2, scenario, SESSIONS);
            all.push(Parts::of(hundredths, oracle.batches, &profile.commits));
        }
    }
    let head = [
        "Zipf",
        "timestamps",
        "all µs",
        "timestamp",
        "operations",
        "commit",
        "wait",
        "part",
        "paper's",
    ];
    let table = Table {
        head: head.map(str::to_owned).to_vec(),
        rows: all.iter().map(Parts::row).collect(),
    };
    let series = [false, true].into_iter().map(|batches| Series {
        name: if batches { "in batches, here" } else { "one by one, here" }.to_owned(),
        style: Style::OursMarked,
        color: usize::from(batches),
        points: all
            .iter()
            .filter(|parts| parts.batches == batches)
            .map(|parts| (f64::from(parts.hundredths) / 100.0, 100.0 * parts.timestamp / parts.all))
            .collect(),
    });
    let panel = Panel {
        x: Axis { label: "exponent of Zipf's law", from: 0.4, to: 1.1 },
        y: Axis { label: "timestamp's part of the latency, %", from: 0.0, to: 40.0 },
        logarithmic: (false, false),
        series: series.collect(),
    };
    let notes = vec![
        format!(
            "Here: the means of transactions that write, of {SESSIONS} sessions on four nodes, four groups of one replica, and an oracle. The wait is what is left of the commit wait when all \
             intents are in the logs. Batches make it longer: their timestamps lie up to twice as far ahead as they last, which is 1 ms here and 100 µs in the paper. Four sessions at a node begin two or three transactions while a batch lasts."
        ),
        "The part depends on what the rest takes: here a frame costs 41 µs of processor time, and a round trip 0.14 ms.".to_owned(),
        papers(
            "the part is 20.1 % to 25.4 % with the strawman; for what is varied, it has no words.",
        ),
        model(),
    ];
    figure((NAME, TITLE), table, panel, notes)
}
