//! Clock-SI, Figure 12: the part of the transactions that aborts, with older and older snapshots of
//! 50,000 items (§V-E): «The transaction abort rate increases as the age of the snapshot
//! increases.»
//!
//! `clock_si_verified.rs` describes the measurement.

use crate::clock_si_verified::{Along, Quantity, figure, older};
use crate::{Effort, Figure};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure12";
/// The title.
pub const TITLE: &str = "aborts with older snapshots (Clock-SI, Figure 12)";

const QUANTITY: Quantity = Quantity {
    label: "aborted transactions, %",
    measured: |one| 100.0 * one.aborted,
    modelled: |one| 100.0 * one.model.aborts(),
};

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    figure((NAME, TITLE), &older(effort, progress), Along::Age, &QUANTITY)
}
