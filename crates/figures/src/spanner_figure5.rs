//! Spanner, Figure 5: the throughput when a zone is killed (§5.2).
//!
//! **The paper** had 5 zones of 25 servers, 1250 groups that were all led in the first zone, and
//! 100 clients that read (not snapshots) 50 thousand times a second in all. Five seconds into each
//! of three runs all servers of a zone were killed: a zone without leaders (*non-leader*), the
//! leaders' zone (*leader-hard*), and the leaders' zone after a notice to hand over
//! (*leader-soft*). The figure is a drawing. Its text says: a non-leader's end «has no effect»;
//! after a warning the drop «is around 3-4%»; without one «the rate of completion drops almost to
//! 0», then rises «to approximately 100K reads/second», and «approximately 10 seconds after the
//! kill time, all of the groups have leaders and throughput has recovered», because leases last for
//! 10 s, and their ends «should be evenly distributed over the next 10 seconds».
//!
//! **This measurement** is a fifth of that: 5 zones of 5 servers, 250 groups (50 are led by each
//! server of the first zone, as in the paper), 100 sessions on two nodes of their own and 10
//! thousand reads a second in all: a session that is late continues without a pause until it is
//! not. Leases last for 10 s.
//!
//! **Differences.** Here a leader extends its lease with every message, several times a second: the
//! ends of leases are not distributed over the next 10 seconds, but come almost together, 10
//! seconds after the kill. A node with sessions does not know the members of a group: if the
//! group's leader is gone, it tries one node after the other until one names the new leader, for
//! each group. That is the delay after *leader-soft*; the more such nodes, the longer it is.

use crate::measure::{S, measure, model, scenario};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::Regions;
use meridian_sim::scenario::{Incident, Scenario, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "spanner_figure5";
/// The title.
pub const TITLE: &str = "reads a second when a zone is killed (Spanner, Figure 5)";

const ZONES: usize = 5;
const SESSIONS: usize = 100;
/// The number of nodes with sessions.
const GATEWAYS: usize = 2;
/// The time between two points of the drawing.
const STEP: u64 = S / 4;

/// The killed zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// A zone that leads nothing.
    NonLeader,
    /// The zone that leads all groups, after a notice to transfer its leaderships.
    LeaderSoft,
    /// The zone that leads all groups, without notice.
    LeaderHard,
}

impl Kill {
    /// All kinds, in the order of the table.
    pub const ALL: [Kill; 3] = [Kill::NonLeader, Kill::LeaderSoft, Kill::LeaderHard];

    /// Returns the name, as in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Kill::NonLeader => "non-leader",
            Kill::LeaderSoft => "leader-soft",
            Kill::LeaderHard => "leader-hard",
        }
    }

    /// Returns the paper's words about the lowest and the highest rate, and the recovery.
    fn printed(self) -> [&'static str; 3] {
        match self {
            Kill::NonLeader => ["no effect", "no effect", "no effect"],
            Kill::LeaderSoft => ["96 to 97 %", "not said", "not said"],
            Kill::LeaderHard => ["almost 0", "about 200 %", "about 10 s"],
        }
    }
}

/// The parameters that all runs share.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// The duration of each run, in seconds.
    pub seconds: u64,
    /// The time of the kill, in seconds.
    pub killed_s: u64,
    /// The fraction of the rate before the kill that counts as a recovery.
    pub recovered: f64,
}

/// The measurements of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The killed zone.
    pub kill: Kill,
    /// The times at which reads completed, since the start of the run.
    pub ended_ns: Vec<u64>,
    /// The number of failed reads.
    pub failed: u64,
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let (servers, groups, rate, at_s, seconds, lease_s) =
        effort.pick((5, 250, 10_000, 5, 30, 10), (1, 5, 400, 2, 10, 3));
    let course = Course { seconds, killed_s: at_s, recovered: 0.95 };
    let run = |kill: Kill| {
        progress(kill.name());
        let incident = Incident::Kill {
            zone: usize::from(kill == Kill::NonLeader),
            told: kill == Kill::LeaderSoft,
            at_ns: at_s * S,
        };
        let scenario = Scenario {
            gateways: GATEWAYS,
            led_in_first: true,
            lease_ns: lease_s * S,
            window_ns: seconds * S,
            every_ns: Some(SESSIONS as u64 * S / rate),
            incident: Some(incident),
            ..scenario(ZONES, servers, groups, ZONES, Work::Read)
        };
        let profile = measure(scenario, 1, SESSIONS, Regions::Spanner);
        let ended_ns = profile.commits.iter().map(|commit| commit.ended_ns).collect();
        Measured { kill, ended_ns, failed: profile.failed }
    };
    let all: Vec<Measured> = Kill::ALL.into_iter().map(run).collect();
    let notes = vec![
        format!(
            "Here: {ZONES} zones of {servers} servers, {groups} groups of five, all led in the first zone, {SESSIONS} sessions on {GATEWAYS} other nodes that read {rate} times a second in all; \
             the zone is killed after {at_s} s. {} The paper: 5 zones of 25 servers, 1250 groups, 50 \
             thousand reads a second, after 5 s. Its figure is a drawing; what stands here is what its text says, and when in the drawing the highest point was it does not say.",
            course.reading()
        ),
        format!(
            "A lease here ends {lease_s} s after the last word of its leader, which speaks several times a second: the ends are not spread over 10 s as the paper's are. A session waits for \
         a leader for 10 s; who waits longer fails, and is counted as failed. Who leads a group a node with sessions finds out by asking one node after the other, for it does not \
         know who has members: the recovery after leader-soft is that."
        ),
        model(),
    ];
    figure(course, &all, notes)
}

impl Course {
    /// Returns the note about how to read the table.
    pub fn reading(self) -> String {
        format!(
            "Lowest and highest are of {} ms each after that; recovered: from then on never below {:.0} %.",
            STEP / 1_000_000,
            100.0 * self.recovered
        )
    }
}

/// Builds the figure of the measurements, beside the paper's text.
pub fn figure(course: Course, measured: &[Measured], notes: Vec<String>) -> Figure {
    let columns = [
        "killed",
        "before",
        "lowest",
        "paper's",
        "highest",
        "paper's",
        "recovered after",
        "paper's",
        "failed",
    ];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    let mut all = Vec::new();
    for (color, Measured { kill, ended_ns, failed }) in measured.iter().enumerate() {
        let mut steps = vec![0_u64; (course.seconds * S / STEP) as usize];
        for at in ended_ns {
            if let Some(step) = steps.get_mut((at / STEP) as usize) {
                *step += 1;
            }
        }
        let per_second: Vec<f64> =
            steps.iter().map(|many| *many as f64 * S as f64 / STEP as f64).collect();
        let killed = (course.killed_s * S / STEP) as usize;
        // The first step is left out, since sessions begin one after the other.
        let before = per_second[1..killed].iter().sum::<f64>() / (killed - 1) as f64;
        let after = &per_second[killed..];
        let part = |value: f64| format!("{:.0} %", 100.0 * value / before);
        let lowest = after.iter().copied().fold(f64::MAX, f64::min);
        let highest = after.iter().copied().fold(0.0, f64::max);
        let last_low = after.iter().rposition(|value| *value < course.recovered * before);
        let recovered = match last_low {
            None => "no drop".to_owned(),
            Some(step) if step + 1 == after.len() => "not in time".to_owned(),
            Some(step) => format!("{:.2} s", (step + 1) as f64 * STEP as f64 / S as f64),
        };
        let [low, high, when] = kill.printed().map(str::to_owned);
        let (name, rate) = (kill.name().to_owned(), format!("{before:.0}/s"));
        let row = [
            name,
            rate,
            part(lowest),
            low,
            part(highest),
            high,
            recovered,
            when,
            failed.to_string(),
        ];
        table.rows.push(row.to_vec());
        let points = |(step, value): (usize, &f64)| {
            ((step as f64 + 0.5) * STEP as f64 / S as f64, 100.0 * value / before)
        };
        let points = per_second.iter().enumerate().map(points).collect();
        all.push(Series {
            name: format!("{}, here", kill.name()),
            style: Style::Ours,
            color,
            points,
        });
    }
    let at = course.killed_s as f64;
    let hard = vec![(at + 0.5, 0.0), (at + 10.0, 200.0)];
    all.push(Series {
        name: "leader-hard, what the paper's text says".to_owned(),
        style: Style::Papers,
        color: 2,
        points: hard,
    });
    all.push(Series {
        name: "leader-soft, the same".to_owned(),
        style: Style::Papers,
        color: 1,
        points: vec![(at, 96.5)],
    });
    let panel = Panel {
        x: Axis { label: "seconds", from: 0.0, to: course.seconds as f64 },
        y: Axis { label: "reads a second, % of those before", from: 0.0, to: 600.0 },
        logarithmic: (false, false),
        series: all,
    };
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels: vec![panel] }
}
