//! Clock-SI, Figure 11: the duration of a delay, with older and older snapshots of 50,000 items
//! (§V-E): «The older a snapshot, [...] the shorter the delay duration.»
//!
//! `clock_si_verified.rs` describes the measurement.

use crate::clock_si_verified::{Along, Quantity, figure, older};
use crate::{Effort, Figure};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure11";
/// The title.
pub const TITLE: &str = "duration of delays with older snapshots (Clock-SI, Figure 11)";

const QUANTITY: Quantity = Quantity {
    label: "mean delay, ms",
    measured: |one| one.delay_ms,
    modelled: |one| 1e3 * one.model.by_commits().duration_s,
};

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    figure((NAME, TITLE), &older(effort, progress), Along::Age, &QUANTITY)
}
