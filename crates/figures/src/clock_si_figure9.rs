//! Clock-SI, Figure 9: the part of the transactions that is delayed, with fresh snapshots and more
//! and more items (§V-E): «The delay probability decreases with the size of the data set.»
//!
//! `clock_si_verified.rs` describes the measurement.

use crate::clock_si_verified::{Along, Quantity, SMALL, figure, verify};
use crate::{Effort, Figure};

/// The name, as in `meridian figure NAME`.
pub const NAME: &str = "clock_si_figure9";
/// The title.
pub const TITLE: &str = "delays with larger data sets (Clock-SI, Figure 9)";

const QUANTITY: Quantity = Quantity {
    label: "delayed transactions, %",
    measured: |one| 100.0 * one.delayed,
    modelled: |one| 100.0 * one.model.by_commits().probability,
};

pub(crate) fn draw(effort: Effort, progress: &mut dyn FnMut(&str)) -> Figure {
    let times: &[u32] = effort.pick(&[1, 2, 4, 6, 8, 10], &[1, 4]);
    let measured = |times: &u32| {
        progress(&format!("{} items", times * SMALL));
        verify(times * SMALL, 0, effort)
    };
    let all: Vec<_> = times.iter().map(measured).collect();
    figure((NAME, TITLE), &all, Along::Items, &QUANTITY)
}
