//! Spanner, Figure 6: the uncertainty of clocks over time (§5.3).
//!
//! **The paper** shows the 90th, 99th and 99.9th percentile of ε at several thousand servers, in
//! data centres up to 2200 km apart, sampled when a daemon had just polled the time masters: «this
//! sampling elides the sawtooth», so that the rest is the masters' own uncertainty, «generally 0»,
//! and the delay to them. The figure is a drawing, and its text has no number of ε. It gives the
//! causes of changes: on March 30 tail latencies fell because the network was improved; on April 13
//! ε rose for about an hour because 2 time masters of a data centre were shut down. §3 says that ε
//! varies «from about 1 to 7 ms over each poll interval» of 30 s, and that the delay to the masters
//! is 1 ms of it.
//!
//! **This measurement** uses the daemons of `clock` (Marzullo's algorithm over all masters'
//! answers), with five time masters whose references have a bound of 10 µs, in two settings: all
//! nodes in data centres less than a millisecond apart; and in five cities (K2's: round trips of 27
//! to 78 ms; 0.2 ms within one), with a master in each. In the first part one message in three
//! takes up to two seconds longer, then none: the improved network. Later two masters are down for
//! a while.
//!
//! **Differences.** Weeks are seconds here. These daemons poll every 0.2 s instead of every 30, and
//! keep the narrowest answer of two seconds: a late answer alone hardly affects ε. And they accept
//! the intersection of most masters' answers, so that ε depends on the distance to the nearest
//! majority: a near master alone does not help.

use crate::measure::{S, measure, quantile, scenario};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::Regions;
use meridian_sim::scenario::{ErrorBound, Incident, Scenario, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "spanner_figure6";
/// The title.
pub const TITLE: &str = "how unsure clocks are, over time (Spanner, Figure 6)";

/// The number of zones, each with a master.
const ZONES: usize = 5;
/// One message in this many is late in the first part.
const LATE: u32 = 3;
const SETTINGS: [(&str, Regions); 2] = [("near", Regions::Spanner), ("five cities", Regions::K2)];
const PARTS: [(&str, f64); 3] = [("90th", 0.9), ("99th", 0.99), ("99.9th", 0.999)];

/// A part of the run in which one thing happens.
#[derive(Clone, Debug)]
pub struct Part {
    /// The range of time, since the start of the run.
    pub from_ns: u64,
    /// See [`from_ns`](Self::from_ns).
    pub to_ns: u64,
    /// The name of the part.
    pub what: String,
}

/// The measurements of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of the setting.
    pub setting: &'static str,
    /// The times of the samples since the start of the run, and ε then, in nanoseconds.
    pub unsure_ns: Vec<(u64, u64)>,
}

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let (servers, seconds) = effort.pick((20, 60), (4, 15));
    // A third of the time each: a bad network, a good one, and one in which two masters are down
    // for half of it.
    let (late_until, away_at, away_for) = (seconds * S / 3, seconds * S * 2 / 3, seconds * S / 6);
    let back = away_at + away_for;
    let slow = format!("1 of {LATE} messages late");
    let parts = [
        (0, late_until, slow.as_str()),
        (late_until, away_at, "nothing"),
        (away_at, back, "2 masters away"),
        (back, seconds * S, "they are back"),
    ]
    .map(|(from_ns, to_ns, what)| Part { from_ns, to_ns, what: what.to_owned() });
    let run = |(setting, regions)| {
        progress(setting);
        let incident = Incident::Masters {
            late: LATE,
            late_until_ns: late_until,
            away_at_ns: away_at,
            away_for_ns: away_for,
        };
        let scenario = Scenario {
            gateways: 0,
            masters: ZONES,
            clocks: ErrorBound::of(10_000),
            window_ns: seconds * S,
            incident: Some(incident),
            ..scenario(ZONES, servers, 0, 0, Work::Read)
        };
        Measured { setting, unsure_ns: measure(scenario, 1, 0, regions).unsure_ns }
    };
    let all = SETTINGS.map(run);
    let notes = vec![
        format!(
            "Here: {} daemons and five time masters, whose references have a bound of 10 µs; clocks drift by up to 150 ppm, with a bound of 200. Near: round trips of 0.9 to 1 ms \
             between any two nodes. Five cities: a master in each, 27 to 78 ms apart. ε is half the width of a reading's interval, sampled after the last answer of each poll. \
             The paper: several thousand servers, over weeks.",
            ZONES * servers - ZONES
        ),
        "The paper's figure is a drawing, and its text has no number of ε; §3 says that the delay to the masters is 1 ms of it. The comparison is of the causes of changes. Here a daemon accepts the intersection of most \
         masters' answers, so that ε depends on the distance to the nearest majority."
            .to_owned(),
        "No session runs, and only message delays take time: the cost model is not used.".to_owned(),
    ];
    figure(&parts, &all, "ε when masters have answered, ms", notes)
}

/// Builds the figure of the measurements, which were sampled at the times that `label` names,
/// beside the paper's text.
pub fn figure(
    parts: &[Part],
    measured: &[Measured],
    label: &'static str,
    notes: Vec<String>,
) -> Figure {
    let columns =
        ["masters", "from", "to", "what happens", "polls", "90th, ms", "99th, ms", "99.9th, ms"];
    let mut table = Table { head: columns.map(str::to_owned).to_vec(), rows: Vec::new() };
    let mut panels = Vec::new();
    let seconds = parts.last().map_or(0, |part| part.to_ns) / S;
    for Measured { setting, unsure_ns } in measured {
        let ms = |ns: u64| ns as f64 / 1e6;
        let sorted = |from: u64, to: u64| {
            let within = unsure_ns.iter().filter(|(at, _)| (from..to).contains(at));
            let mut all: Vec<u64> = within.map(|(_, ns)| *ns).collect();
            all.sort_unstable();
            all
        };
        for Part { from_ns, to_ns, what } in parts {
            let all = sorted(*from_ns, *to_ns);
            let second = |at: u64| format!("{:.0} s", at as f64 / S as f64);
            let mut row = vec![
                (*setting).to_owned(),
                second(*from_ns),
                second(*to_ns),
                what.clone(),
                all.len().to_string(),
            ];
            row.extend(PARTS.map(|(_, part)| format!("{:.3}", ms(quantile(&all, part)))));
            table.rows.push(row);
        }
        let series = PARTS.into_iter().enumerate().map(|(color, (name, part))| {
            let at = |second: u64| {
                let all = sorted(second * S, (second + 1) * S);
                (!all.is_empty()).then(|| (second as f64 + 0.5, ms(quantile(&all, part))))
            };
            let points = (0..seconds).filter_map(at).collect();
            Series {
                name: format!("{name} percentile, {setting}"),
                style: Style::Ours,
                color,
                points,
            }
        });
        let mut series: Vec<Series> = series.collect();
        let most =
            series.iter().flat_map(|series| &series.points).map(|(_, ms)| *ms).fold(1.0, f64::max);
        let name = "the delay to the masters, by the paper's §3".to_owned();
        let delay = vec![(0.5, 1.0), (seconds as f64 - 0.5, 1.0)];
        series.push(Series { name, style: Style::Papers, color: 3, points: delay });
        panels.push(Panel {
            x: Axis { label: "seconds", from: 0.0, to: seconds as f64 },
            y: Axis { label, from: 0.0, to: 1.6 * most },
            logarithmic: (false, false),
            series,
        });
    }
    Figure { name: NAME, title: TITLE.to_owned(), table, notes, panels }
}
