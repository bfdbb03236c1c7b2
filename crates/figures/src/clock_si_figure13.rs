//! Clock-SI, Figure 13: the skew between two clocks plus the latency of a message (§V, «NTP
//! Precision»).
//!
//! **The paper** measured it every 30 seconds in six weeks, at two servers with NTP. The figure is
//! a drawing; its text says that «the delay probability due to clock skew is very low and the delay
//! duration is very short».
//!
//! **Here the skew is drawn**, and nothing is measured: as often as in the paper, from normal
//! distributions with three deviations, plus half of the paper's round trip. A sum below zero is a
//! delay, of which the model (§IV-C) gives the probability.

use crate::clock_si_model::Model;
use crate::{Axis, Effort, Figure, Panel, Series, Style, Table};
use meridian_sim::profile::normal;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure13";
/// The title.
pub const TITLE: &str = "clock skew, drawn, plus latency (Clock-SI, Figure 13)";

/// The deviations of the skew, in microseconds.
const DEVIATIONS_US: [f64; 3] = [20.0, 50.0, 100.0];
/// «The average round-trip network latency is 0.14 milliseconds» (§V-A).
const ROUND_TRIP_S: f64 = 0.14e-3;
/// Six weeks, every 30 seconds.
const SAMPLES: usize = 6 * 7 * 24 * 60 * 2;
/// The width of a bar, in microseconds, and the number of bars on either side of zero.
const BAR_US: f64 = 20.0;
const BARS: i64 = 20;

pub(crate) fn draw(effort: Effort, _: &mut dyn FnMut(&str)) -> Figure {
    let samples = effort.pick(SAMPLES, SAMPLES / 10);
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (color, deviation_us) in DEVIATIONS_US.into_iter().enumerate() {
        let mut rng = ChaCha8Rng::seed_from_u64(color as u64);
        let sums_us: Vec<f64> =
            (0..samples).map(|_| deviation_us * normal(&mut rng) + 0.5e6 * ROUND_TRIP_S).collect();
        let late: Vec<f64> = sums_us.iter().copied().filter(|us| *us < 0.0).collect();
        let skew = Model {
            round_trip_s: ROUND_TRIP_S,
            skew_deviation_s: deviation_us / 1e6,
            ..Model::EXAMPLE
        };
        let modelled = skew.by_skew();
        rows.push(vec![
            format!("{deviation_us:.0} µs"),
            format!("{:.3} %", 100.0 * late.len() as f64 / samples as f64),
            format!("{:.3} %", 100.0 * modelled.probability),
            format!("{:.1}", -late.iter().sum::<f64>() / late.len().max(1) as f64),
            format!("{:.1}", 1e6 * modelled.duration_s),
        ]);
        let bar = |at: i64| {
            let from = at as f64 * BAR_US;
            let inside = sums_us.iter().filter(|us| (from..from + BAR_US).contains(*us)).count();
            (from + BAR_US / 2.0, 100.0 * inside as f64 / samples as f64)
        };
        series.push(Series {
            name: format!("skew with a deviation of {deviation_us:.0} µs"),
            style: Style::Ours,
            color,
            points: (-BARS..BARS).map(bar).collect(),
        });
    }
    let head = ["deviation of the skew", "below zero", "model", "delay µs", "model"];
    let edge = BARS as f64 * BAR_US;
    let panel = Panel {
        x: Axis { label: "skew plus latency, µs", from: -edge, to: edge },
        y: Axis { label: "part in 20 µs, %", from: 0.0, to: 50.0 },
        logarithmic: (false, false),
        series,
    };
    let notes = vec![
        format!(
            "Drawn, not measured: {samples} normally distributed skews for each row, plus half of a round trip of 0.14 ms. The paper measured its clocks for six weeks and prints no number: «the delay \
             probability due to clock skew is very low and the delay duration is very short»."
        ),
        "Below zero, a read at the other partition is delayed by as much. Round trips of a cluster and the error of its clocks are measured by `SHOW meridian.snapshot_age_auto`.".to_owned(),
    ];
    Figure {
        name: NAME,
        title: TITLE.to_owned(),
        table: Table { head: head.map(str::to_owned).to_vec(), rows },
        notes,
        panels: vec![panel],
    }
}
