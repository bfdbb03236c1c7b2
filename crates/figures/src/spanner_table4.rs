//! Spanner, Table 4: two-phase commit with 1 to 200 participants (§5.1).
//!
//! **The paper** ran across 3 zones of 25 servers each, and prints the mean and the 99th percentile
//! of a commit's latency, with standard deviations over 10 runs. «Scaling up to 50 participants is
//! reasonable in both mean and 99th-percentile, and latencies start to rise noticeably at 100
//! participants.» It does not give the number of clients, their writes, or the placement of groups
//! and leaders.
//!
//! **This measurement** has 3 zones of 25 servers and 200 groups of three, with leaders spread over
//! all zones, so that a server leads two or three. Four sessions on four nodes that are no servers
//! begin a transaction when the previous one has ended; each writes one key in each of the
//! participant groups, none of which it has read.
//!
//! **Differences.** None are known: as in the paper, the coordinator sends to all participants at
//! once, without any earlier request (`txn/src/locking/committing.rs`).

use crate::measure::{MS, Runs, S, mean_ms, measure, model, quantile, scenario, told};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::Regions;
use meridian_sim::scenario::{Scenario, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "spanner_table4";
/// The title.
pub const TITLE: &str = "two-phase commit with 1 to 200 participants (Spanner, Table 4)";

/// The paper's values: participants; mean and its deviation, 99th percentile and its deviation, in
/// milliseconds.
const PAPER: [(u32, (f64, f64), (f64, f64)); 8] = [
    (1, (17.0, 1.4), (75.0, 34.9)),
    (2, (24.5, 2.5), (87.6, 35.9)),
    (5, (31.5, 6.2), (104.5, 52.2)),
    (10, (30.0, 3.7), (95.6, 25.4)),
    (25, (35.5, 5.6), (100.4, 42.7)),
    (50, (42.7, 4.1), (93.7, 22.9)),
    (100, (71.4, 7.6), (131.2, 17.6)),
    (200, (150.5, 11.0), (320.3, 35.1)),
];
const SESSIONS: usize = 4;

/// Returns the numbers of participants of the paper's transactions.
pub fn participants() -> impl Iterator<Item = u32> {
    PAPER.iter().map(|(participants, ..)| *participants)
}

/// The results of several runs with this many participants.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The number of participants.
    pub participants: u32,
    /// The results of each run.
    means_ms: Runs,
    p99s_ms: Runs,
    transactions: usize,
}

impl Measured {
    /// Creates the results without a run.
    pub fn with(participants: u32) -> Measured {
        Measured { participants, ..Measured::default() }
    }

    /// Adds a run, given the sorted latencies of its commits.
    pub fn add(&mut self, took_ns: &[u64]) {
        self.means_ms.0.push(mean_ms(took_ns));
        self.p99s_ms.0.push(quantile(took_ns, 0.99) as f64 / MS as f64);
        self.transactions += took_ns.len();
    }
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let (servers, groups, runs) = effort.pick((25, 200, 3), (2, 10, 1));
    let mut all = Vec::new();
    for participants in participants().filter(|many| *many <= groups) {
        progress(&format!("{participants} participants"));
        let window_ns = effort.pick(2 + u64::from(participants) / 10, 1) * S;
        let scenario = Scenario {
            gateways: SESSIONS,
            window_ns,
            ..scenario(3, servers, groups, 3, Work::Write(participants))
        };
        let mut measured = Measured::with(participants);
        (0..runs).for_each(|seed| {
            measured.add(&measure(scenario, seed, SESSIONS, Regions::Spanner).writes_ns)
        });
        all.push(measured);
    }
    let notes = vec![
        format!(
            "Here: 3 zones of {servers} servers, {groups} groups of three, {SESSIONS} sessions on nodes of their own, round trips of 0.9 to 1 ms between any two \
             nodes, clocks with a bound of 2.5 ms; {runs} runs. The paper: 3 zones of 25 servers, 10 runs."
        ),
        "As in the paper, prepare and commit are sent to all participants at once.".to_owned(),
        model(),
    ];
    figure(&all, notes)
}

/// Builds the figure of the measurements, beside the paper's numbers.
pub fn figure(measured: &[Measured], notes: Vec<String>) -> Figure {
    let columns = ["participants", "mean ms", "paper's", "p99 ms", "paper's", "transactions"];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    let (mut means, mut worst) = (Vec::new(), Vec::new());
    for Measured { participants, means_ms, p99s_ms, transactions } in measured {
        let printed = PAPER.iter().find(|(many, ..)| many == participants);
        let [mean, p99] = printed
            .map_or_else(Default::default, |(_, mean, p99)| [mean, p99].map(|it| told(it.0, it.1)));
        let row = [
            participants.to_string(),
            means_ms.told(),
            mean,
            p99s_ms.told(),
            p99,
            transactions.to_string(),
        ];
        table.rows.push(row.to_vec());
        means.push((f64::from(*participants), means_ms.mean()));
        worst.push((f64::from(*participants), p99s_ms.mean()));
    }
    let papers = |of: fn(&(u32, (f64, f64), (f64, f64))) -> f64| {
        PAPER.iter().map(|row| (f64::from(row.0), of(row))).collect()
    };
    let series =
        |name: &str, style, color, points| Series { name: name.to_owned(), style, color, points };
    let panel = Panel {
        x: Axis { label: "participants", from: 0.9, to: 250.0 },
        y: Axis { label: "latency of a commit, ms", from: 1.0, to: 1000.0 },
        logarithmic: (true, true),
        series: vec![
            series("mean, here", Style::OursMarked, 0, means),
            series("mean, the paper's", Style::Papers, 0, papers(|row| row.1.0)),
            series("99th percentile, here", Style::OursMarked, 1, worst),
            series("99th percentile, the paper's", Style::Papers, 1, papers(|row| row.2.0)),
        ],
    };
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels: vec![panel] }
}
