//! Estimates of numbers of rows.
//!
//! There are no statistics yet: a table counts as large, an equality as selective, a whole unique
//! key as one row.

use crate::datum::Datum;
use crate::expr::{Compare, Expr};
use crate::logical::{JoinKind, Rel};
use crate::plan::Access;
use crate::system;

/// The rows of a table of unknown size.
const TABLE_ROWS: f64 = 10_000.0;
/// The rows of a table of the system catalog.
const SYSTEM_ROWS: f64 = 200.0;
/// The rows of a query of WITH.
const NAMED_ROWS: f64 = 100.0;
/// The rounds of a recursive query.
const ROUNDS: f64 = 10.0;
/// The rows of a set-returning function.
const FUNCTION_ROWS: f64 = 100.0;
/// The rows that have one value of an index, or of the first columns of a key.
const KEY_ROWS: f64 = 10.0;
/// The elements of an array.
const ARRAY_ELEMENTS: f64 = 10.0;
/// The part of the rows that an equality selects.
const EQUAL: f64 = 0.01;
/// The part of the rows that another comparison selects.
const RANGE: f64 = 0.3;

/// Returns the part of the rows that a condition selects.
pub(super) fn selectivity(condition: &Expr) -> f64 {
    match condition {
        Expr::And(all) => all.iter().map(selectivity).product(),
        Expr::Or(any) => any.iter().map(selectivity).sum::<f64>().min(1.0),
        Expr::Compare(Compare::Eq, _) => EQUAL,
        Expr::Compare(Compare::Ne, _) => 1.0 - EQUAL,
        Expr::In(_, list, false) => (EQUAL * list.len() as f64).min(1.0),
        Expr::Const(Datum::Bool(true)) => 1.0,
        Expr::Const(_) => 0.0,
        Expr::IsBool(inner, true, false) => selectivity(inner),
        _ => RANGE,
    }
}

/// Returns the estimated number of rows of a relation.
pub(super) fn rows(rel: &Rel) -> f64 {
    match rel {
        Rel::Values { rows, .. } => rows.len() as f64,
        Rel::Scan { table, .. } if system::is_system(table.id) => SYSTEM_ROWS,
        Rel::Scan { .. } => TABLE_ROWS,
        Rel::Filter { input, condition } => match &**input {
            Rel::Scan { .. } => scanned(input, std::slice::from_ref(condition)),
            input => rows(input) * selectivity(condition),
        },
        Rel::Project { input, .. } | Rel::Sort { input, .. } => rows(input),
        Rel::Join(join) => {
            let (left, right) = (rows(&join.left), rows(&join.right));
            let pairs = left * right * selectivity(&join.on);
            match join.kind {
                JoinKind::Inner => pairs,
                JoinKind::Left => pairs.max(left),
                JoinKind::Full => pairs.max(left).max(right),
                JoinKind::Semi | JoinKind::Anti => left * 0.5,
                JoinKind::Single | JoinKind::Mark(_) => left,
            }
        }
        Rel::Window(window) => rows(&window.input),
        Rel::Aggregate { keys, sets: None, .. } if keys.is_empty() => 1.0,
        Rel::Aggregate { input, .. } | Rel::Distinct { input, .. } => rows(input) * RANGE,
        Rel::Limit { input, limit, .. } => match limit {
            Some(Expr::Const(count)) => {
                rows(input).min(count.as_i64().map_or(f64::MAX, |count| count as f64))
            }
            _ => rows(input),
        },
        Rel::Set(set) => set.sides.iter().map(|(side, _)| rows(side)).sum(),
        Rel::With { body, .. } => rows(body),
        Rel::Named { .. } => NAMED_ROWS,
        Rel::Recursive(query) => rows(&query.first.0) * ROUNDS,
        Rel::Functions(_) => FUNCTION_ROWS,
    }
}

/// Returns the estimated number of rows of a table for which conditions are true.
pub(super) fn scanned(scan: &Rel, conditions: &[Expr]) -> f64 {
    let all = rows(scan);
    let Rel::Scan { table, columns } = scan else { return all };
    let mut positioned = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let mut condition = condition.clone();
        condition.replace_columns(&|id| {
            Some(match columns.iter().position(|column| *column == id) {
                Some(at) => Expr::Column(at),
                None => Expr::Param(0),
            })
        });
        positioned.push(condition);
    }
    let filter = Expr::all_of(positioned);
    let access = Access::choose(table, filter.as_ref());
    if access.is_unique(table) {
        return 1.0;
    }
    let found = all * filter.as_ref().map_or(1.0, selectivity);
    let most = match access.has_key() {
        true if access.spans.len() == 1 && access.is_many() => KEY_ROWS * ARRAY_ELEMENTS,
        true => KEY_ROWS * access.spans.len() as f64,
        false => all,
    };
    found.min(most).max(1.0)
}
