//! The protocols that this version runs: the one place in which the node names them.

use crate::context::NodeContext;
use crate::database::{DatabaseError, DatabaseHandle};
use crate::identity::OpenError;
use crate::{qwstore, spanner, tapir};
use meridian_machine::NodeId;
use meridian_placement::DatabaseRow;
use meridian_systems::Recipe;
use std::sync::Arc;

/// Opens a database of this row on a node.
pub type Open = fn(row: &DatabaseRow, context: &Arc<NodeContext>) -> Result<Arc<dyn DatabaseHandle>, OpenError>;

/// The nodes that a new database has replicas on, of those that were asked for (none: whichever the protocol takes) and
/// those that there are.
pub type Place = fn(asked: Vec<NodeId>, all: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError>;

/// A protocol on a node.
pub struct Row {
    /// Opens a database.
    pub open: Open,
    /// Places a new one.
    pub place: Place,
}

/// The row of a protocol.
pub fn of(recipe: Recipe) -> Row {
    match recipe {
        Recipe::Spanner => Row { open: spanner::open, place: spanner::place },
        Recipe::Tapir(_) => Row { open: tapir::open, place: tapir::place },
        Recipe::QwStore => Row { open: qwstore::open, place: qwstore::place },
    }
}

/// The nodes that were asked for, or all: nodes that there are, each once, in order.
pub fn those_or_all(mut asked: Vec<NodeId>, all: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError> {
    if let Some(unknown) = asked.iter().find(|node| !all.contains(node)) {
        return Err(DatabaseError::Replicas(format!("there is no node {}, only 1 to {}", unknown.0, all.len())));
    }
    if asked.is_empty() {
        asked.extend(all);
    }
    asked.sort_unstable();
    asked.dedup();
    Ok(asked)
}
