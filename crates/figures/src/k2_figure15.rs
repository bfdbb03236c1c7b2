//! K2, Figure 15: the uncertainty of the oracles' clocks over time (§7.2).
//!
//! **The paper** plots the 90th, 99th and 99.9th percentile of ε of the oracles of five regions,
//! «sampled at TTC Oracle servers immediately after sending delay requests to time masters using
//! PTP»: the uncertainty of the time master, «typically in tens of nanoseconds», and the delay to
//! it.
//!
//! **This measurement is without PTP**: network cards do not stamp the messages, so that ε is half
//! of a round trip through the operating system. An oracle polls its region's time master, whose
//! reference has a bound of 100 ns, five times a second, and not sixteen times. Each region is a
//! world of its own.

use crate::k2::{figure, papers};
use crate::measure::{S, measure, quantile, scenario};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::Regions;
use meridian_sim::scenario::{ErrorBound, Scenario, Work};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "k2_figure15";
/// The title.
pub const TITLE: &str = "how unsure oracles are, over time, without PTP (K2, Figure 15)";

const REGIONS: u64 = 5;
const ORACLES: usize = 3;
const PARTS: [(&str, f64); 3] = [("90th", 0.9), ("99th", 0.99), ("99.9th", 0.999)];
/// The paper's bound of ε, in microseconds.
const EPSILON_US: f64 = 100.0;

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let seconds = effort.pick(60, 6);
    let mut unsure_ns = Vec::new();
    for region in 1..=REGIONS {
        progress(&format!("region {region}"));
        let scenario = Scenario {
            gateways: 0,
            masters: 1,
            clocks: ErrorBound::of(100),
            window_ns: seconds * S,
            ..scenario(1, 1 + ORACLES, 0, 0, Work::Read)
        };
        unsure_ns.extend(measure(scenario, region, 0, Regions::Lan).unsure_ns);
    }
    let us = |ns: u64| ns as f64 / 1e3;
    let within = |from: u64, to: u64| {
        let found = unsure_ns.iter().filter(|(at, _)| (from..to).contains(at));
        let mut found: Vec<u64> = found.map(|(_, ns)| *ns).collect();
        found.sort_unstable();
        found
    };
    let all = within(0, seconds * S);
    let row = |(name, part): (&str, f64)| {
        let found = us(quantile(&all, part));
        vec![name.to_owned(), all.len().to_string(), format!("{found:.1}"), "below 100".to_owned()]
    };
    let head = ["percentile", "polls", "ε µs", "paper's"].map(str::to_owned).to_vec();
    let table = Table { head, rows: PARTS.map(row).to_vec() };
    let series = PARTS.into_iter().enumerate().map(|(color, (name, part))| Series {
        name: format!("{name} percentile, here"),
        style: Style::Ours,
        color,
        points: (0..seconds)
            .map(|second| {
                let found = within(second * S, (second + 1) * S);
                (second as f64 + 0.5, us(quantile(&found, part)))
            })
            .collect(),
    });
    let bound = Series {
        name: "the bound that the paper assumes".to_owned(),
        style: Style::Papers,
        color: 3,
        points: vec![(0.5, EPSILON_US), (seconds as f64 - 0.5, EPSILON_US)],
    };
    let panel = Panel {
        x: Axis { label: "seconds", from: 0.0, to: seconds as f64 },
        y: Axis { label: "ε after an answer, µs", from: 0.0, to: 160.0 },
        logarithmic: (false, false),
        series: series.chain([bound]).collect(),
    };
    let notes = vec![
        format!(
            "Here, without PTP: {ORACLES} oracles and a time master in each of {REGIONS} regions, with round trips of 0.14 ms and some more, of which half is in ε. Clocks drift by up to 150 ppm, \
             with a bound of 200."
        ),
        papers(
            "ε after a poll is the time master's, in tens of nanoseconds, and the delay to it; the bound of 100 µs is enough.",
        ),
        "No session runs, and only message delays take time: the cost model is not used."
            .to_owned(),
    ];
    figure((NAME, TITLE), table, panel, notes)
}
