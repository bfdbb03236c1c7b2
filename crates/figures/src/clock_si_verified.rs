//! Clock-SI's analytical model against measurements (§V-E): the parts that Figures 9 to 12 share.
//!
//! Each transaction reads ten items and writes ten others of one partition, drawn evenly, on the
//! partition's own server: no message, and so no round trip, is part of it. A second partition is
//! idle (`clock_si_figure7.rs` says why it is there). Sessions begin transactions at a fixed rate.
//! The model is given what the run measured: the rate of commits and their mean duration, which is
//! nearly all of the committing window, because the reads take little.

use crate::clock_si::{measure, model, partitions};
use crate::clock_si_model::Model;
use crate::measure::{MS, S};
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::scenario::{ITEMS, Scenario, Work};
use meridian_sim::{Regions, protocols};
use meridian_txn::SnapshotAge;
use std::time::Duration;

/// The number of sessions, and the interval at which each begins a transaction.
const SESSIONS: usize = 40;
const EVERY_NS: u64 = 20 * MS;
/// The number of items of the small data set (§V-E).
pub(crate) const SMALL: u32 = 50_000;

/// The measured transactions of one data set and age of snapshots, and the model of them.
pub(crate) struct Verified {
    pub items: u32,
    pub age_ms: u64,
    /// The part of the transactions that waited at a read.
    pub delayed: f64,
    /// The mean duration of a delay, in milliseconds.
    pub delay_ms: f64,
    /// The part of the transactions that aborted.
    pub aborted: f64,
    pub model: Model,
}

/// Measures a data set with an age of snapshots.
pub(crate) fn verify(items: u32, age_ms: u64, effort: Effort) -> Verified {
    let window_ns = effort.pick(30, 3) * S;
    let scenario = Scenario {
        age: SnapshotAge::Fixed(Duration::from_millis(age_ms)),
        every_ns: Some(EVERY_NS),
        window_ns,
        clients_in: Some(0),
        ..partitions(2, 2, 0, Work::Items(items))
    };
    let profile = measure(&protocols::CLOCK_SI, scenario, SESSIONS, Regions::Lan);
    let waits_ns: Vec<u64> =
        profile.commits.iter().map(|commit| commit.waited_ns).filter(|ns| *ns > 0).collect();
    let (committed, window_s) = (profile.commits.len() as f64, window_ns as f64 / S as f64);
    let working_ns: u64 =
        profile.commits.iter().map(|commit| commit.took_ns - commit.waited_ns).sum();
    let update_s = working_ns as f64 / committed / S as f64;
    Verified {
        items,
        age_ms,
        delayed: waits_ns.len() as f64 / committed,
        delay_ms: crate::measure::mean_ms(&waits_ns),
        aborted: profile.failed as f64 / (profile.failed as f64 + committed),
        model: Model {
            items: f64::from(items),
            updates_per_s: committed / window_s,
            reads: f64::from(ITEMS),
            writes: f64::from(ITEMS),
            read_s: 0.0,
            update_s,
            sync_s: update_s,
            round_trip_s: 0.0,
            skew_mean_s: 0.0,
            skew_deviation_s: 0.0,
            age_s: age_ms as f64 / 1e3,
        },
    }
}

/// Measures the small data set with older and older snapshots.
pub(crate) fn older(effort: Effort, progress: &mut dyn FnMut(&str)) -> Vec<Verified> {
    let ages_ms: &[u64] = effort.pick(&[0, 2, 4, 6, 8, 10, 12, 14, 16], &[0, 8, 16]);
    let measured = |age_ms: &u64| {
        progress(&format!("{SMALL} items, snapshots {age_ms} ms old"));
        verify(SMALL, *age_ms, effort)
    };
    ages_ms.iter().map(measured).collect()
}

/// One quantity of a figure: its label, the measured value, and the model's.
pub(crate) struct Quantity {
    pub label: &'static str,
    pub measured: fn(&Verified) -> f64,
    pub modelled: fn(&Verified) -> f64,
}

/// The horizontal axis of a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Along {
    /// The number of items, in thousands.
    Items,
    /// The age of snapshots, in milliseconds.
    Age,
}

/// Builds the figure of one quantity.
pub(crate) fn figure(
    (name, title): (&'static str, &str),
    all: &[Verified],
    along: Along,
    quantity: &Quantity,
) -> Figure {
    let x = |one: &Verified| match along {
        Along::Items => f64::from(one.items) / 1e3,
        Along::Age => one.age_ms as f64,
    };
    let head =
        ["items", "snapshot age", "delayed", "model", "delay ms", "model", "aborted", "model"];
    let percent = |part: f64| format!("{:.2} %", 100.0 * part);
    let row = |one: &Verified| {
        let delay = one.model.by_commits();
        vec![
            one.items.to_string(),
            format!("{} ms", one.age_ms),
            percent(one.delayed),
            percent(delay.probability),
            format!("{:.2}", one.delay_ms),
            format!("{:.2}", 1e3 * delay.duration_s),
            percent(one.aborted),
            percent(one.model.aborts()),
        ]
    };
    let kinds = [("measured, here", quantity.measured), ("the model", quantity.modelled)];
    let series: Vec<Series> = kinds
        .into_iter()
        .enumerate()
        .map(|(color, (name, value))| Series {
            name: name.to_owned(),
            style: Style::OursMarked,
            color,
            points: all.iter().map(|one| (x(one), value(one))).collect(),
        })
        .collect();
    let most = |value: &dyn Fn(&(f64, f64)) -> f64| {
        series.iter().flat_map(|series| &series.points).map(value).fold(1e-3, f64::max)
    };
    let label = match along {
        Along::Items => "items, thousands",
        Along::Age => "snapshot age, ms",
    };
    let panel = Panel {
        x: Axis { label, from: 0.0, to: 1.05 * most(&|(x, _)| *x) },
        y: Axis { label: quantity.label, from: 0.0, to: 1.3 * most(&|(_, y)| *y) },
        logarithmic: (false, false),
        series,
    };
    let mean = |value: &dyn Fn(&Verified) -> f64| {
        all.iter().map(value).sum::<f64>() / all.len().max(1) as f64
    };
    let notes = vec![
        format!(
            "Here: one partition; {SESSIONS} sessions on its server begin a transaction every {} ms, which reads ten items and writes ten others; {:.0} commits a second, which take {:.1} ms. \
             The model is given these, with all of the duration as its committing window.",
            EVERY_NS / MS,
            mean(&|one| one.model.updates_per_s),
            mean(&|one| 1e3 * one.model.update_s),
        ),
        "The paper's figure is a drawing, whose text says that measurement and model follow the same \
         pattern. The model is an upper bound of aborts: it counts a transaction's whole duration, \
         whereas here a commit's timestamp is drawn as it is proposed, and a later snapshot has it."
            .to_owned(),
        model(),
    ];
    Figure {
        name,
        title: title.to_owned(),
        table: Table {
            head: head.map(str::to_owned).to_vec(),
            rows: all.iter().map(row).collect(),
        },
        notes,
        panels: vec![panel],
    }
}
