//! HybridTime's experiments (§5): the parts that its figures share.
//!
//! **The paper** had ten machines in each data centre of a cloud provider, and three YCSB clients
//! of eight threads (60 % inserts, 20 % updates, 20 % reads of one row), each of which writes in
//! one consistency mode. It prints the largest clock error that NTP reported, and the latencies of
//! `fsync()` (§5.2). Its figures are drawings, of which the text gives proportions.
//!
//! **These measurements** have ten servers in each data centre and a group for each. A thread is a
//! session on a node of its own, because a node of the simulator has one core. All clocks claim the
//! same error, drawn from the paper's range once a second (the paper's machines polled one time
//! server every eight seconds); their middle is the true time. A write names its row: an insert
//! does not look for an earlier row, nor an update for the old value.
//!
//! **Differences.** The paper's Figures 2 and 4 show latencies at the server; here all are those of
//! sessions, one round trip away. Its servers wait for the clock; here the session's node waits, so
//! that the way back counts. The mode of a session is that of its reads, too.

use crate::measure::{MS, Runs, S, mean_ms, measure_at, model_of, scenario};
use crate::{Axis, Effort, Panel, Series, Style, Table};
use meridian_sim::profile::{Commit, Costs, DiskWait};
use meridian_sim::scenario::{ErrorBound, Scenario, Work};
use meridian_sim::{Regions, protocols};
use meridian_txn::Consistency;

/// The modes of the clients.
pub const MODES: [Consistency; 3] =
    [Consistency::None, Consistency::Hybrid, Consistency::CommitWait];
/// The percentages of inserts and updates; the rest are reads (§5.1).
pub const MIX: (u32, u32) = (60, 20);
/// The number of threads of a client (§5.1).
pub const THREADS: usize = 8;
/// The number of machines in a data centre (§5.2).
const MACHINES: usize = 10;
/// The latency of `fsync()` (§5.2).
const FSYNC: DiskWait = DiskWait::LogNormal {
    least_ns: MS,
    most_ns: 39 * MS,
    mean_ns: 1_930_000,
    deviation_ns: 2_080_000,
};

/// One experiment of the paper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Experiment {
    data_centres: usize,
    replicas: usize,
    disk: DiskWait,
    /// The least and the greatest clock error.
    error_ns: (u64, u64),
    /// The clock error in the paper's words.
    papers_error: &'static str,
}

/// One data centre, a single replica, and no `fsync()` (§5.3).
pub(crate) const FIRST: Experiment = Experiment {
    data_centres: 1,
    replicas: 1,
    disk: DiskWait::NONE,
    error_ns: (11_500_000, 16_700_000),
    papers_error: "11.5 to 16.7 ms, mean 14.73",
};
/// One data centre (§5.4).
pub(crate) const SECOND: Experiment = Experiment { replicas: 3, disk: FSYNC, ..FIRST };
/// Two data centres (§5.5).
pub(crate) const THIRD: Experiment = Experiment {
    data_centres: 2,
    error_ns: (12_300_000, 20_100_000),
    papers_error: "12.3 to 20.1 ms, mean 16.36",
    ..SECOND
};

/// The measurements of one run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The committed transactions that wrote.
    pub writes: Vec<Commit>,
    /// The time for which the writes of each mode of [`MODES`] waited for clocks, in nanoseconds.
    pub waited_ns: [u64; 3],
    /// The clock error that holds from each time since the start on, in nanoseconds.
    pub errors_ns: Vec<(u64, u64)>,
    /// The duration, in nanoseconds.
    pub window_ns: u64,
    /// The number of transactions that failed.
    pub failed: u64,
}

impl Run {
    /// Returns the writes of a mode.
    pub(crate) fn of(&self, mode: Consistency) -> impl Iterator<Item = &Commit> {
        self.writes.iter().filter(move |write| write.consistency == mode)
    }

    fn mean_ms(&self, mode: Consistency) -> f64 {
        mean_ms(&self.of(mode).map(|write| write.took_ns).collect::<Vec<_>>())
    }

    /// Returns the part of the time of the writes in a mode of [`MODES`] that is waiting for
    /// clocks.
    fn waiting(&self, mode: usize) -> f64 {
        let took_ns: u64 = self.of(MODES[mode]).map(|write| write.took_ns).sum();
        self.waited_ns[mode] as f64 / took_ns.max(1) as f64
    }

    /// Returns the clock error at a time.
    pub(crate) fn error_ns(&self, at_ns: u64) -> u64 {
        let before = self.errors_ns.partition_point(|(since, _)| *since <= at_ns);
        self.errors_ns.get(before.max(1) - 1).map_or(0, |(_, error_ns)| *error_ns)
    }
}

/// Returns the durations of a mode's writes in all runs, sorted.
pub(crate) fn took_ns(runs: &[Run], mode: Consistency) -> Vec<u64> {
    let mut all: Vec<u64> =
        runs.iter().flat_map(|run| run.of(mode)).map(|write| write.took_ns).collect();
    all.sort_unstable();
    all
}

impl Experiment {
    /// Measures some runs.
    pub(crate) fn measure(self, effort: Effort, progress: &mut dyn FnMut(&str)) -> Vec<Run> {
        let Experiment { data_centres, replicas, error_ns: (least_ns, most_ns), .. } = self;
        let (seconds, runs, threads) = effort.pick((20, 3, THREADS), (1, 1, 2));
        let servers = MACHINES * data_centres;
        // Groups have at most one member in a zone. Zones are in the data centres in turn, so that
        // of two data centres the leader's has another member, which makes a quorum with it.
        let (zones, regions) = match data_centres {
            1 => (servers, Regions::Lan),
            _ => (4, Regions::HybridTime),
        };
        let sessions = MODES.len() * data_centres * threads;
        let (inserts, updates) = MIX;
        let scenario = Scenario {
            gateways: sessions,
            modes: &MODES,
            clocks: ErrorBound { least_ns, most_ns, every_ns: effort.pick(S, S / 10) },
            window_ns: seconds * S,
            ..scenario(
                zones,
                servers / zones,
                servers as u32,
                replicas,
                Work::Rows { inserts, updates },
            )
        };
        let costs = self.costs();
        let run = |seed: u64| {
            progress(&format!("run {} of {runs}", seed + 1));
            let profile =
                measure_at(costs, &protocols::HYBRID_TIME, scenario, seed, sessions, regions);
            let mut run = Run {
                writes: profile.commits.into_iter().filter(|commit| commit.writes).collect(),
                waited_ns: [0; 3],
                errors_ns: profile.bounds_ns,
                window_ns: profile.window_ns,
                failed: profile.failed,
            };
            run.waited_ns = MODES.map(|mode| run.of(mode).map(|write| write.waited_ns).sum());
            run
        };
        (0..runs).map(run).collect()
    }

    fn costs(self) -> Costs {
        Costs { disk: self.disk, ..Costs::measured() }
    }

    /// Returns the note about the cost model.
    pub(crate) fn model(self) -> String {
        model_of(self.costs(), "the paper's rows 1 KB")
    }

    /// Returns the note about the setting.
    pub(crate) fn setting(self, effort: Effort, runs: &[Run]) -> String {
        let Experiment { data_centres, replicas, .. } = self;
        let errors = runs.iter().flat_map(|run| &run.errors_ns).map(|(_, error_ns)| *error_ns);
        let errors: Vec<u64> = errors.collect();
        let ms = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e6);
        let agree = match replicas {
            1 => "One replica of each group; a write waits for no disk.",
            _ => {
                "Three replicas of each group; a sync of the log waits for the disk as the paper's: at least 1 ms and at most 39, 1.93 in the mean, with a deviation of 2.08 (a shifted \
                 lognormal distribution)."
            }
        };
        let far = match data_centres {
            1 => "Round trips of 0.14 to 0.15 ms between any two nodes; the paper gives none.",
            _ => {
                "The paper gives no round trips: here 0.14 ms in a data centre and 111 ms between the two, as TAPIR's Table 1 has it for the same provider. A group has two replicas in its \
                 leader's data centre and one in the other; half of the groups are led in each."
            }
        };
        format!(
            "Here: {} servers with a group each, {} sessions in each mode on nodes of their own, {} runs of {} s. {agree} {far} The clocks' error: {:.1} to {:.1} ms, mean {:.2} (the paper's: {}); all \
             clocks claim the same, and it changes {}. Transactions that failed: {}.",
            MACHINES * data_centres,
            effort.pick(THREADS, 2) * data_centres,
            runs.len(),
            runs.first().map_or(0, |run| run.window_ns) / S,
            ms(errors.iter().min()),
            ms(errors.iter().max()),
            mean_ms(&errors),
            self.papers_error,
            effort.pick("every second", "ten times a second"),
            runs.iter().map(|run| run.failed).sum::<u64>(),
        )
    }
}

/// The proportions that the paper's text gives for each mode of [`MODES`].
pub(crate) struct Papers {
    /// The latency as a multiple of mode hybrid's.
    pub latency: [&'static str; 3],
    /// The part of it that is waiting.
    pub waiting: [&'static str; 3],
}

/// Returns the table of mean latencies.
pub(crate) fn table(runs: &[Run], papers: &Papers) -> Table {
    let columns = ["consistency", "writes", "mean ms", "× hybrid", "paper's", "waiting", "paper's"];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    for (at, mode) in MODES.into_iter().enumerate() {
        let over = |value: &dyn Fn(&Run) -> f64| Runs(runs.iter().map(value).collect());
        let means = over(&|run| run.mean_ms(mode));
        let ratio = over(&|run| run.mean_ms(mode) / run.mean_ms(Consistency::Hybrid));
        let waiting = over(&|run| 100.0 * run.waiting(at));
        table.rows.push(vec![
            mode.name().to_owned(),
            runs.iter().map(|run| run.of(mode).count()).sum::<usize>().to_string(),
            means.told(),
            ratio.told(),
            papers.latency[at].to_owned(),
            format!("{:.0} %", waiting.mean()),
            papers.waiting[at].to_owned(),
        ]);
    }
    table
}

/// Returns the panel of mean latencies over the time of a run, with the clock error, as in the
/// paper's Figures 2 and 4.
pub(crate) fn over_time(run: &Run, papers_error_ms: Option<f64>) -> Panel {
    const PARTS: u64 = 40;
    let part_ns = (run.window_ns / PARTS).max(1);
    let seconds = |ns: u64| ns as f64 / S as f64;
    let mut series: Vec<Series> = Vec::new();
    for (color, mode) in MODES.into_iter().enumerate() {
        let mut parts = vec![Vec::new(); PARTS as usize];
        for write in run.of(mode) {
            if let Some(part) = parts.get_mut((write.ended_ns / part_ns) as usize) {
                part.push(write.took_ns);
            }
        }
        let points = parts.iter().zip(0_u64..).filter(|(part, _)| !part.is_empty());
        let points =
            points.map(|(part, at)| (seconds(at * part_ns + part_ns / 2), mean_ms(part))).collect();
        series.push(Series { name: format!("{mode}, here"), style: Style::Ours, color, points });
    }
    let end_ns = run.window_ns;
    let ends = run.errors_ns.iter().skip(1).map(|(at, _)| *at).chain([end_ns]);
    let steps = run.errors_ns.iter().zip(ends).flat_map(|((from, error_ns), to)| {
        let ms = *error_ns as f64 / 1e6;
        [(seconds(*from), ms), (seconds(to), ms)]
    });
    let color = MODES.len();
    series.push(Series {
        name: "clock error, here".to_owned(),
        style: Style::Ours,
        color,
        points: steps.collect(),
    });
    if let Some(ms) = papers_error_ms {
        series.push(Series {
            name: "mean clock error, the paper's".to_owned(),
            style: Style::Papers,
            color,
            points: vec![(0.0, ms), (seconds(end_ns), ms)],
        });
    }
    Panel {
        x: Axis { label: "seconds", from: 0.0, to: seconds(end_ns).max(0.001) },
        y: Axis { label: "latency of a write, and clock error, ms", from: 0.05, to: 500.0 },
        logarithmic: (false, true),
        series,
    }
}
