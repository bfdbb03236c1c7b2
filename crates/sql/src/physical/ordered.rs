//! Relations that give their rows in an order without a sort: a scan in the order of its key,
//! forwards or backwards, and joins whose left side is one.

use super::SortBy;
use crate::access::{Access, Wish};
use crate::expr::Expr;
use crate::logical::{ColumnId, JoinKind, Rel, SortKey};

/// An order that is wanted.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) by: &'a [SortKey],
    /// The number of rows that are needed, if there is a limit.
    pub(super) rows: Option<f64>,
    /// True if the rows are locked, and so found by a key.
    pub(super) by_key: bool,
}

/// True if a relation can be lowered so that it gives an order.
///
/// A join gives the order of its left side, which is then the side that is streamed. Without a
/// limit that may be the wrong side to stream, so a join gives an order only for a limit.
pub(super) fn gives(rel: &Rel, wanted: &Wanted<'_>) -> bool {
    match rel {
        Rel::Scan { .. } => scan_gives(rel, None, wanted),
        Rel::Filter { input, condition } if matches!(**input, Rel::Scan { .. }) => {
            scan_gives(input, Some(condition), wanted)
        }
        Rel::Filter { input, .. } => gives(input, wanted),
        Rel::Project { input, outputs } => {
            below(wanted.by, outputs).is_some_and(|by| gives(input, &Wanted { by: &by, ..*wanted }))
        }
        Rel::Join(join) => {
            wanted.rows.is_some() && join.kind != JoinKind::Full && gives(&join.left, wanted)
        }
        _ => false,
    }
}

fn scan_gives(scan: &Rel, condition: Option<&Expr>, wanted: &Wanted<'_>) -> bool {
    let Rel::Scan { table, columns } = scan else { return false };
    if table.is_made() {
        return false;
    }
    let at = |id: ColumnId| columns.iter().position(|column| *column == id);
    let by = wanted.by.iter().map(|key| {
        let (descending, nulls_first) = (key.descending, key.nulls_first);
        Some(SortBy { column: at(key.column)?, descending, nulls_first })
    });
    let Some(by) = by.collect::<Option<Vec<_>>>() else { return false };
    let condition = condition.map(|condition| {
        let mut condition = condition.clone();
        condition.replace_columns(&|id| Some(at(id).map_or(Expr::Param(0), Expr::Column)));
        condition
    });
    let (filter, rows, by_key) = (condition.as_ref(), wanted.rows, wanted.by_key);
    let wish = Wish { filter, order: &by, rows, by_key, ..Wish::default() };
    Access::choose_for(table, &wish).order(table, &by).is_some()
}

/// Returns the order below a projection that gives one above it; `None` if a column of the order is
/// computed there.
pub(super) fn below(by: &[SortKey], outputs: &[(ColumnId, Expr)]) -> Option<Vec<SortKey>> {
    let passed = |key: &SortKey| {
        let (_, expr) = outputs.iter().find(|(id, _)| *id == key.column)?;
        match expr {
            Expr::Column(column) => Some(SortKey { column: *column, ..*key }),
            _ => None,
        }
    };
    by.iter().map(passed).collect()
}
