//! The explained plans of INSERT, UPDATE, DELETE and MERGE, and of the statements whose WITH has
//! them.

use super::cost::Cost;
use super::tree;
use super::{Explained, NodeId, Style};
use crate::catalog::Table;
use crate::dml::{Insert, Part, Step, With, Write};
use std::collections::BTreeMap;
use std::time::Duration;

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

/// Explains a change.
pub(super) fn of_write(
    write: &Write,
    style: Style<'_>,
    steps: &BTreeMap<usize, String>,
) -> Explained {
    let (operation, source) = match write {
        Write::Insert(insert) => ("Insert", of_rows(insert, style, steps)),
        Write::Change(change) => {
            let operation = if change.is_update() { "Update" } else { "Delete" };
            (operation, tree::of(&change.query, style, steps))
        }
        Write::Merge(merge) => ("Merge", tree::of(&merge.query, style, steps)),
    };
    let mut shown = of(operation, write.table());
    if let Write::Insert(insert) = write
        && let Some(resolution) = insert.conflict_resolution()
    {
        shown = shown.detail("Conflict Resolution", resolution.into());
    }
    shown.cost = source.cost;
    shown.inputs([source])
}

/// Explains the rows of an INSERT.
fn of_rows(insert: &Insert, style: Style<'_>, steps: &BTreeMap<usize, String>) -> Explained {
    match insert.query() {
        Ok(query) => tree::of(query, style, steps),
        Err(1) => Explained::new("Result", Cost::of_values(1)),
        Err(rows) => tree::values(Cost::of_values(rows)),
    }
}

/// Explains a statement whose WITH changes data: its steps are shown as queries of WITH.
pub(super) fn of_with(with: &With, style: Style<'_>) -> Explained {
    let numbered = with.steps.iter().filter_map(|step| Some((step.number?, step.name.clone())));
    let names: BTreeMap<usize, String> = numbered.collect();
    let explain = |step: &Step| match &step.part {
        Part::Query(query) => tree::of(query, style, &names),
        Part::Write(write) => of_write(write, style, &names),
    };
    let (mut shown, mut steps) = (None, Vec::with_capacity(with.steps.len()));
    for (at, step) in with.steps.iter().enumerate() {
        let mut explained = explain(step);
        if step.number.is_none() {
            shown = Some(explained);
            continue;
        }
        if let Part::Write(_) = &step.part {
            explained.node = Some(node_of(at));
        }
        explained.subplan = Some(format!("CTE {}", step.name));
        steps.push(explained);
    }
    let mut shown = shown.unwrap_or_default();
    shown.inputs.splice(0..0, steps);
    shown
}

/// Returns the node of a step's change, which is no other's.
fn node_of(step: usize) -> NodeId {
    CHANGE + 1 + step
}

/// Counts the rows of a change.
pub(crate) fn counted(rows: u64, took: Duration) -> super::Actuals {
    super::Actuals::from([(CHANGE, super::Actual { rows, loops: 1, first: took, total: took })])
}

/// Counts the rows of a step's change.
pub(crate) fn counted_step(step: usize, rows: u64, took: Duration) -> super::Actuals {
    let counts = super::Actual { rows, loops: 1, first: took, total: took };
    super::Actuals::from([(node_of(step), counts)])
}
