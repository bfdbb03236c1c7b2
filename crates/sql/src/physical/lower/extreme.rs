//! `min` and `max` by a key: the first row in the order of the key, forwards or backwards, instead
//! of all rows.
//!
//! Precondition: the aggregates are not grouped, and each is the `min` or `max` of a column of one
//! table, over all its rows for which a condition is true.

use crate::aggregate::Aggregate;
use crate::datum::Datum;
use crate::expr::Expr;
use crate::logical::{ColumnId, JoinKind, Rel, SortKey};
use crate::physical::ordered::{self, Wanted};

/// Returns a relation with the row of aggregates over a relation, if each of them can be found by a
/// key.
pub(super) fn by_key(input: &Rel, aggregates: &[(ColumnId, Aggregate)]) -> Option<Rel> {
    let firsts = aggregates.iter().map(|(id, aggregate)| first(input, *id, aggregate));
    let firsts = firsts.collect::<Option<Vec<Rel>>>()?;
    firsts.into_iter().reduce(|left, right| left.join(JoinKind::Inner, right, Expr::truth()))
}

/// Returns an aggregate over the one row that decides about it.
fn first(input: &Rel, id: ColumnId, aggregate: &Aggregate) -> Option<Rel> {
    let descending = match aggregate.function.name {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    let [Expr::Column(column)] = *aggregate.args.as_slice() else { return None };
    if aggregate.filter.is_some() {
        return None;
    }
    let (scan, mut conditions) = super::scan_of(input)?;
    let Rel::Scan { table, columns } = scan else { return None };
    let at = columns.iter().position(|known| *known == column)?;
    if !table.columns.get(at)?.not_null {
        // Backwards, the NULLs come first.
        conditions.push(Expr::IsNull(Box::new(Expr::Column(column)), true));
    }
    let mut rows = scan.clone();
    if let Some(condition) = Expr::all_of(conditions) {
        rows = Rel::Filter { input: Box::new(rows), condition };
    }
    let by = vec![SortKey { column, descending, nulls_first: descending }];
    if !ordered::gives(&rows, &Wanted { by: &by, rows: Some(1.0), by_key: false }) {
        return None;
    }
    let rows = Rel::Limit {
        input: Box::new(Rel::Sort { input: Box::new(rows), by }),
        limit: Some(Expr::Const(Datum::Int8(1))),
        offset: None,
    };
    let aggregates = vec![(id, aggregate.clone())];
    Some(Rel::Aggregate { input: Box::new(rows), keys: Vec::new(), sets: None, aggregates })
}
