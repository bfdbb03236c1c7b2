//! The protocols that a node runs. Shared code looks a protocol up in this table and names none.

use crate::context::NodeContext;
use crate::database::{DatabaseError, DatabaseHandle};
use crate::identity::OpenError;
use crate::{qwstore, shard, tapir};
use meridian_machine::NodeId;
use meridian_placement::DatabaseRow;
use meridian_systems::Protocol;
use std::sync::Arc;

/// Opens a database of this row on a node.
pub type Open =
    fn(row: &DatabaseRow, context: &Arc<NodeContext>) -> Result<Arc<dyn DatabaseHandle>, OpenError>;

/// Chooses the nodes that get replicas of a new database, given the requested nodes (none: the
/// protocol chooses) and all nodes.
pub type ChooseReplicas =
    fn(asked: Vec<NodeId>, all: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError>;

/// A protocol as a node runs it.
#[derive(Clone, Copy, Debug)]
pub struct HostedProtocol {
    /// The protocol's description.
    pub protocol: &'static Protocol,
    /// Opens a database.
    pub open: Open,
    /// Chooses the nodes of a new database.
    pub choose_replicas: ChooseReplicas,
}

/// The protocols of this version.
pub const ALL: [HostedProtocol; 8] = [
    shard::HOSTED,
    shard::HOSTED_HYBRID_TIME,
    shard::HOSTED_CLOCK_SI,
    shard::HOSTED_CONVENTIONAL_SI,
    shard::HOSTED_K2,
    tapir::HOSTED_STRICTLY_SERIALIZABLE,
    tapir::HOSTED_SERIALIZABLE,
    qwstore::HOSTED,
];

/// Returns the requested nodes, or all if none are: each once, in order. Fails for a node that does
/// not exist.
pub fn those_or_all(mut asked: Vec<NodeId>, all: &[NodeId]) -> Result<Vec<NodeId>, DatabaseError> {
    if let Some(unknown) = asked.iter().find(|node| !all.contains(node)) {
        return Err(DatabaseError::Replicas(format!(
            "there is no node {}, only 1 to {}",
            unknown.0,
            all.len()
        )));
    }
    if asked.is_empty() {
        asked.extend(all);
    }
    asked.sort_unstable();
    asked.dedup();
    Ok(asked)
}
