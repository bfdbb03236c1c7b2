//! The row of a database without leaders, as far as it is about replicas: which nodes have one,
//! since which epoch, and how the row changes.
//!
//! The rows are agreed on in the database `system`, one after the other, so that each epoch has one
//! row.

use meridian_machine::NodeId;
use meridian_placement::DatabaseRow;
use meridian_replication::inconsistent::ReplicaSet;

/// Returns the replicas that a row names, in a cluster of these nodes.
pub fn members(row: &DatabaseRow, all: &[NodeId]) -> ReplicaSet {
    let replicas = if row.replicas.is_empty() { all } else { &row.replicas };
    ReplicaSet {
        epoch: row.epoch,
        replicas: replicas.iter().copied().collect(),
        former: row.former.iter().copied().collect(),
    }
}

/// Returns the first epoch of a node's uninterrupted membership. `None` if it has no replica.
pub fn since(row: &DatabaseRow, all: &[NodeId], node: NodeId) -> Option<u32> {
    let members = members(row, all);
    members.replicas.contains(&node).then(|| {
        let known = row.since.iter().find(|(known, _)| *known == node);
        known.map_or(0, |(_, epoch)| *epoch)
    })
}

/// Returns the row with which these replicas take over; the same row if it names them already.
/// Fails while another change is under way.
pub fn next(row: &DatabaseRow, all: &[NodeId], replicas: &[NodeId]) -> Result<DatabaseRow, String> {
    let now = members(row, all);
    if now.replicas.iter().eq(replicas) {
        return Ok(row.clone());
    }
    if !now.former.is_empty() {
        let named: Vec<String> = now.replicas.iter().map(|node| node.0.to_string()).collect();
        let named = named.join(", ");
        return Err(format!(
            "a change to replicas on nodes ({named}) is not complete: repeat ALTER DATABASE … MEMBERS ({named}) first, then change the replicas"
        ));
    }
    let epoch = now.epoch + 1;
    let since = |node: &NodeId| (*node, since(row, all, *node).unwrap_or(epoch));
    Ok(DatabaseRow {
        epoch,
        since: replicas.iter().map(since).collect(),
        replicas: replicas.to_vec(),
        former: now.replicas.into_iter().collect(),
        ..row.clone()
    })
}

/// Returns the row once the replicas of an epoch have taken over; the same row if it is of another
/// epoch.
pub fn ended(row: &DatabaseRow, epoch: u32) -> DatabaseRow {
    let former = if row.epoch == epoch { Vec::new() } else { row.former.clone() };
    DatabaseRow { former, ..row.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::DatabaseId;

    #[test]
    fn epochs_follow_each_other_and_a_node_that_stays_keeps_its_first_one() {
        let (all, row) = ([1, 2, 3, 4].map(NodeId), DatabaseRow::new(DatabaseId(9), "lab"));
        let row = DatabaseRow { replicas: [1, 2, 3].map(NodeId).into(), ..row };
        let first = next(&row, &all, &[1, 2, 4].map(NodeId)).expect("no change is under way");
        assert_eq!(next(&first, &all, &[1, 2, 4].map(NodeId)).as_ref(), Ok(&first), "a repetition");
        assert!(next(&first, &all, &[1, 2, 3].map(NodeId)).is_err(), "a change is under way");
        assert_eq!(ended(&first, 0), first, "of another epoch");
        let second =
            next(&ended(&first, 1), &all, &[2, 3, 4].map(NodeId)).expect("the change has ended");
        let since = |node| since(&second, &all, NodeId(node));
        assert_eq!((second.epoch, [1, 2, 3, 4].map(since)), (2, [None, Some(0), Some(2), Some(1)]));
    }
}
