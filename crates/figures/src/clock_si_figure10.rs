//! Clock-SI, Figure 10: the part of the transactions that is delayed, with older and older
//! snapshots of 50,000 items (§V-E): «The older a snapshot, the lower the delay probability.»
//!
//! `clock_si_verified.rs` describes the measurement.

use crate::clock_si_verified::{Along, Quantity, figure, older};
use crate::{Effort, Figure};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure10";
/// The title.
pub const TITLE: &str = "delays with older snapshots (Clock-SI, Figure 10)";

const QUANTITY: Quantity = Quantity {
    label: "delayed transactions, %",
    measured: |one| 100.0 * one.delayed,
    modelled: |one| 100.0 * one.model.by_commits().probability,
};

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    figure((NAME, TITLE), &older(effort, progress), Along::Age, &QUANTITY)
}
