//! Aggregates WITHIN GROUP: percentiles, the mode, and the place of a hypothetical row.

use super::input::compare_keys;
use super::{Function, OrderKey};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::function::of::*;
use crate::function::{Out, Param};
use std::cmp::Ordering;

/// The values of WITHIN GROUP, in order, and the order.
pub(crate) struct Sorted<'a> {
    pub(crate) rows: &'a [Vec<Datum>],
    pub(crate) by: &'a [OrderKey],
}

/// Computes a value from the direct arguments and the sorted values.
pub(crate) type Kernel = fn(&[Datum], Sorted<'_>) -> Result<Datum, SqlError>;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::ordered("percentile_cont", &[FLOAT8, FLOAT8], A_FLOAT8, 1, continuous),
    Function::ordered("percentile_disc", &[FLOAT8, Param::Common], Out::Common, 1, discrete),
    Function::ordered("mode", &[Param::Common], Out::Common, 0, mode),
    Function::hypothetical("rank", AN_INT8, |args, sorted| {
        Ok(Datum::Int8(sorted.before(args, false) as i64 + 1))
    }),
    Function::hypothetical("dense_rank", AN_INT8, |args, sorted| {
        Ok(Datum::Int8(sorted.different_before(args) + 1))
    }),
    Function::hypothetical("percent_rank", A_FLOAT8, |args, sorted| {
        let count = sorted.rows.len() as f64;
        let before = sorted.before(args, false) as f64;
        Ok(Datum::Float8(if count == 0.0 { 0.0 } else { before / count }))
    }),
    Function::hypothetical("cume_dist", A_FLOAT8, |args, sorted| {
        let count = sorted.rows.len() as f64 + 1.0;
        Ok(Datum::Float8((sorted.before(args, true) as f64 + 1.0) / count))
    }),
];

impl Sorted<'_> {
    /// Returns the number of rows before a row, or before and equal to it.
    fn before(&self, row: &[Datum], with_equal: bool) -> usize {
        self.rows.partition_point(|other| match compare_keys(self.by, other, row) {
            Ordering::Less => true,
            Ordering::Equal => with_equal,
            Ordering::Greater => false,
        })
    }

    /// Returns the number of different rows before a row.
    fn different_before(&self, row: &[Datum]) -> i64 {
        let before = &self.rows[..self.before(row, false)];
        let differs = |pair: &&[Vec<Datum>]| compare_keys(self.by, &pair[0], &pair[1]).is_ne();
        before.windows(2).filter(differs).count() as i64 + i64::from(!before.is_empty())
    }

    fn value(&self, at: usize) -> Datum {
        self.rows.get(at).and_then(|row| row.first()).cloned().unwrap_or(Datum::Null)
    }
}

/// Returns a percentile's fraction; `None` for NULL.
fn fraction(args: &[Datum]) -> Result<Option<f64>, SqlError> {
    match args {
        [Datum::Float8(fraction)] if !(0.0..=1.0).contains(fraction) => Err(SqlError::new(
            state::OUT_OF_RANGE,
            format!("percentile value {} is not between 0 and 1", general(*fraction)),
        )),
        [Datum::Float8(fraction)] => Ok(Some(*fraction)),
        _ => Ok(None),
    }
}

/// Renders a number as C's `%g` does for usual ones.
fn general(x: f64) -> String {
    if x.is_nan() { "nan".to_owned() } else { x.to_string() }
}

fn continuous(args: &[Datum], sorted: Sorted<'_>) -> Result<Datum, SqlError> {
    let Some(fraction) = fraction(args)? else { return Ok(Datum::Null) };
    if sorted.rows.is_empty() {
        return Ok(Datum::Null);
    }
    let at = fraction * (sorted.rows.len() - 1) as f64;
    let (first, second) = (at.floor(), at.ceil());
    let (low, high) = (sorted.value(first as usize), sorted.value(second as usize));
    Ok(match (low, high) {
        (Datum::Float8(low), Datum::Float8(high)) if first < second => {
            Datum::Float8(low + (at - first) * (high - low))
        }
        (low, _) => low,
    })
}

fn discrete(args: &[Datum], sorted: Sorted<'_>) -> Result<Datum, SqlError> {
    let Some(fraction) = fraction(args)? else { return Ok(Datum::Null) };
    let number = (fraction * sorted.rows.len() as f64).ceil() as usize;
    Ok(sorted.value(number.saturating_sub(1)))
}

/// The most frequent value, the first of several.
fn mode(_: &[Datum], sorted: Sorted<'_>) -> Result<Datum, SqlError> {
    let (mut best, mut most, mut from) = (0, 0, 0);
    for (at, row) in sorted.rows.iter().enumerate() {
        if compare_keys(sorted.by, &sorted.rows[from], row).is_ne() {
            from = at;
        }
        if at - from + 1 > most {
            (best, most) = (from, at - from + 1);
        }
    }
    Ok(sorted.value(best))
}
