//! The explained plans of INSERT, UPDATE and DELETE.

use super::cost::Cost;
use super::expr::Names;
use super::tree::{self, by_access, with_conditions};
use super::{Explained, NodeId};
use crate::by_query::ByQuery;
use crate::catalog::Table;
use crate::dml::{Change, Insert};

/// The nodes of a change, and of the scan of one that finds its rows itself. A node of a plan lies
/// in memory, and has a larger identity.
const CHANGE: NodeId = 1;
const SCAN: NodeId = 2;

fn of(operation: &'static str, table: &Table) -> Explained {
    let mut shown = Explained::new("ModifyTable", Cost::default())
        .quiet("Operation", operation)
        .quiet("Relation Name", &*table.name);
    shown.title = format!("{operation} on {}", table.name);
    shown.node = Some(CHANGE);
    shown
}

/// Explains an INSERT.
pub(super) fn of_insert(insert: &Insert, verbose: bool) -> Explained {
    let source = match insert.query() {
        Ok(query) => tree::of(query, verbose),
        Err(1) => Explained::new("Result", Cost::of_values(1)),
        Err(rows) => tree::values(Cost::of_values(rows)),
    };
    let mut shown = of("Insert", &insert.table);
    if let Some(resolution) = insert.conflict_resolution() {
        shown = shown.detail("Conflict Resolution", resolution.into());
    }
    shown.cost = source.cost;
    shown.inputs([source])
}

/// Explains an UPDATE or DELETE over one table.
pub(super) fn of_change(change: &Change) -> Explained {
    let table = &*change.table;
    let operation = if change.is_update() { "Update" } else { "Delete" };
    let name = |at: usize| table.columns.get(at).map_or_else(String::new, |c| c.name.clone());
    let names = Names { column: &name, param: &|at| format!("${}", at + 1) };
    let scan = by_access(table, &table.name, &change.access, false);
    let mut scan = with_conditions(scan, table, &change.access, change.filter.as_ref(), &names);
    scan.node = Some(SCAN);
    let mut shown = of(operation, table);
    shown.cost = Cost::of_finding(table, &change.access, change.filter.as_ref());
    scan.cost = shown.cost;
    shown.inputs([scan])
}

/// Explains an UPDATE or DELETE that finds its rows by a query.
pub(super) fn of_query(change: &ByQuery, verbose: bool) -> Explained {
    let source = tree::of(&change.plan, verbose);
    let mut shown = of(if change.is_update() { "Update" } else { "Delete" }, &change.table);
    shown.cost = source.cost;
    shown.inputs([source])
}

/// Counts the rows of a change, and of its own scan.
pub(crate) fn counted(rows: u64, took: std::time::Duration) -> super::Actuals {
    let actual = super::Actual { rows, loops: 1, first: took, total: took };
    super::Actuals::from([(CHANGE, actual), (SCAN, actual)])
}
