//! The part of the rows that a condition selects.
//!
//! Conditions count as independent, and the values of a column that is compared with another one as
//! contained in the other's. What is not known is guessed.

use super::ColumnStatistics;
use crate::datum::Datum;
use crate::expr::{Compare, Expr, Quantifier};
use crate::function;
use std::collections::BTreeMap;

/// The part of the rows that an equality selects.
const EQUAL: f64 = 0.01;
/// The part of the rows that another condition selects.
const OTHER: f64 = 0.3;
/// The part of the rows that two bounds of a column select, of which one is not known.
const RANGE: f64 = 0.005;
/// The part of the rows with NULL.
const NULLS: f64 = 0.01;
/// The elements of an array.
pub(crate) const ARRAY_ELEMENTS: f64 = 10.0;

/// Returns the statistics of a column, by its id or its position.
pub(crate) type Known<'a> = dyn Fn(usize) -> Option<&'a ColumnStatistics> + 'a;

/// Returns the part of the rows that a condition selects.
pub(crate) fn selectivity(condition: &Expr, known: &Known<'_>) -> f64 {
    let of = |condition: &Expr| selectivity(condition, known);
    let part = match condition {
        Expr::And(all) => of_all(all, known),
        Expr::Or(any) => 1.0 - any.iter().map(|one| 1.0 - of(one)).product::<f64>(),
        Expr::Not(inner) => 1.0 - of(inner),
        Expr::Compare(op, sides) => compared(*op, &sides.0, &sides.1, known),
        Expr::In(needle, list, negated) => {
            let any: f64 = list.iter().map(|one| compared(Compare::Eq, needle, one, known)).sum();
            if *negated { 1.0 - any.min(1.0) } else { any }
        }
        Expr::Each(op, Quantifier::Any, sides) => {
            compared(*op, &sides.0, &Expr::Param(0), known) * ARRAY_ELEMENTS
        }
        Expr::IsNull(inner, negated) => {
            let nulls = match &**inner {
                Expr::Column(column) => known(*column).map(|column| column.nulls),
                _ => None,
            };
            let nulls = nulls.unwrap_or(NULLS);
            if *negated { 1.0 - nulls } else { nulls }
        }
        Expr::Like { text, negated, .. } => {
            let like = matched(condition, text, known);
            if *negated { 1.0 - like } else { like }
        }
        Expr::IsBool(inner, true, false) => of(inner),
        Expr::Column(column) => {
            known(*column).map_or(OTHER, |column| column.equal(Some(&Datum::Bool(true))))
        }
        Expr::Const(Datum::Bool(true)) => 1.0,
        Expr::Const(_) => 0.0,
        _ => OTHER,
    };
    part.clamp(0.0, 1.0)
}

/// The selectivity of LIKE: that of the pattern's beginning, if the values are known.
fn matched(condition: &Expr, text: &Expr, known: &Known<'_>) -> f64 {
    let Expr::Column(column) = text else { return OTHER };
    let Some((column, (low, high))) = known(*column).zip(function::like_range(condition)) else {
        return OTHER;
    };
    match high {
        Some((_, true)) => column.equal(Some(&low)),
        Some((high, false)) => column.below(&high, false) - column.below(&low, false),
        None => 1.0 - column.below(&low, false),
    }
}

/// A bound of a column: the part of the rows below it.
#[derive(Clone, Copy, Default)]
enum Bound {
    #[default]
    Absent,
    Unknown,
    Known(f64),
}

impl Bound {
    /// Adds another bound; of two that are known the tighter one counts.
    fn tighten(&mut self, other: Option<f64>, tighter: fn(f64, f64) -> f64) {
        *self = match (*self, other) {
            (Bound::Known(a), Some(b)) => Bound::Known(tighter(a, b)),
            (Bound::Known(a), None) => Bound::Known(a),
            (_, Some(b)) => Bound::Known(b),
            (_, None) => Bound::Unknown,
        };
    }
}

/// The lower and the upper bound of a column.
#[derive(Default)]
struct Range {
    low: Bound,
    high: Bound,
}

impl Range {
    /// Returns the part of the rows within, of which `values` are not NULL.
    fn part(&self, values: f64) -> f64 {
        match (self.low, self.high) {
            (Bound::Unknown, Bound::Absent) | (Bound::Absent, Bound::Unknown) => OTHER,
            (Bound::Unknown, _) | (_, Bound::Unknown) => RANGE,
            (low, high) => {
                let low = if let Bound::Known(low) = low { low } else { 0.0 };
                let high = if let Bound::Known(high) = high { high } else { 1.0 };
                (high.min(values) - low).max(0.0)
            }
        }
    }
}

/// The selectivity of a conjunction. Two bounds of one column are one condition.
fn of_all(all: &[Expr], known: &Known<'_>) -> f64 {
    let mut part = 1.0;
    let mut ranges: BTreeMap<usize, Range> = BTreeMap::new();
    for condition in all {
        let Some((column, is_low, below)) = bound(condition, known) else {
            part *= selectivity(condition, known);
            continue;
        };
        let range = ranges.entry(column).or_default();
        if is_low {
            range.low.tighten(below, f64::max);
        } else {
            range.high.tighten(below, f64::min);
        }
    }
    for (column, range) in ranges {
        part *= range.part(known(column).map_or(1.0, |column| 1.0 - column.nulls));
    }
    part
}

/// Returns the column of a bound, true if it is the lower one, and the part of the rows below it.
fn bound(condition: &Expr, known: &Known<'_>) -> Option<(usize, bool, Option<f64>)> {
    let Expr::Compare(op, sides) = condition else { return None };
    let (op, column, value) = match (&sides.0, &sides.1) {
        (Expr::Column(_), Expr::Column(_)) => return None,
        (Expr::Column(column), value) => (*op, *column, value),
        (value, Expr::Column(column)) => (op.flipped(), *column, value),
        _ => return None,
    };
    let below = |inclusive| match value {
        Expr::Const(value) if !value.is_null() => Some(known(column)?.below(value, inclusive)),
        _ => None,
    };
    match op {
        Compare::Gt => Some((column, true, below(true))),
        Compare::Ge => Some((column, true, below(false))),
        Compare::Lt => Some((column, false, below(false))),
        Compare::Le => Some((column, false, below(true))),
        Compare::Eq | Compare::Ne => None,
    }
}

fn compared(op: Compare, left: &Expr, right: &Expr, known: &Known<'_>) -> f64 {
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => known(*column),
        _ => None,
    };
    let equal = match (left, column(left), right, column(right)) {
        (_, Some(a), _, Some(b)) if a.distinct >= b.distinct => a.equal(None),
        (_, Some(_), _, Some(b)) => b.equal(None),
        (_, Some(known), Expr::Const(value), None) | (Expr::Const(value), None, _, Some(known)) => {
            known.equal(Some(value))
        }
        (_, Some(known), _, None) | (_, None, _, Some(known)) => known.equal(None),
        _ => EQUAL,
    };
    match op {
        Compare::Eq => equal,
        Compare::Ne => 1.0 - equal,
        _ => {
            let condition = Expr::Compare(op, Box::new((left.clone(), right.clone())));
            match bound(&condition, known) {
                Some(_) => of_all(&[condition], known),
                None => OTHER,
            }
        }
    }
}
