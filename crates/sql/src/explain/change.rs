//! The explained plans of INSERT, UPDATE and DELETE.

use super::cost::Cost;
use super::tree;
use super::{Explained, NodeId};
use crate::catalog::Table;
use crate::dml::{Change, Insert};

/// The node of a change. A node of its query lies in memory, and has a larger identity.
const CHANGE: NodeId = 1;

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

/// Explains an UPDATE or DELETE.
pub(super) fn of_change(change: &Change, verbose: bool) -> Explained {
    let source = tree::of(&change.query, verbose);
    let mut shown = of(if change.is_update() { "Update" } else { "Delete" }, &change.table);
    shown.cost = source.cost;
    shown.inputs([source])
}

/// Counts the rows of a change.
pub(crate) fn counted(rows: u64, took: std::time::Duration) -> super::Actuals {
    super::Actuals::from([(CHANGE, super::Actual { rows, loops: 1, first: took, total: took })])
}
