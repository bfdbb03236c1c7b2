//! Start, change and end of a node's replica of a shard, as the database's row says.
//!
//! ```text
//!   row ──▶ turn ──┬─▶ Nothing
//!                  ├─▶ Reconfigure    the running replica gets the new members
//!                  └─▶ Anew           the running replica stops ──▶ begins
//!                                       ├─▶ Waits    the row is older than the node's state
//!                                       ├─▶ Without  the node's state is removed
//!                                       └─▶ With     a replica starts with the state that counts
//! ```
//!
//! A *membership epoch* (`since_epoch`) of a node is a sequence of epochs through which it has a
//! replica without interruption, named by the first of them. A node's state of an earlier
//! membership epoch is not part of a later one: the shard went on without the node, and its votes
//! counted for that membership epoch alone.
//!
//! Invariants:
//! 1. The store records durably the membership epoch of its versions before the log has a record of
//!    that epoch.
//! 2. A row counts as carried out only when the replica has started or ended as it says: a failure,
//!    for want of disk space, is retried.
//! 3. A node never returns to an epoch before one of which it has a record.

use super::LogRecord;
use crate::replica_rows as rows;
use crate::tapir::rules;
use meridian_machine::NodeId;
use meridian_machine::planted::broken;
use meridian_placement::DatabaseRow;
use meridian_replication::inconsistent::{ReplicaSet, View};

/// The rows that a node has carried out for its replica of a shard, since the node started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    applied: Option<ReplicaSet>,
    /// The membership epoch of the running replica.
    since_epoch: Option<u32>,
}

/// The change that a row requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowAction {
    /// None: the row is carried out already, or older than one that is.
    Nothing,
    /// Give these members to the running replica.
    Reconfigure(ReplicaSet),
    /// Stop the running replica, if there is one: another membership epoch begins, or none.
    Restart,
}

/// The way in which a replica starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// It does not start: the node was in a later epoch than the row's, and waits for that epoch's
    /// row.
    Waits,
    /// The node has no replica.
    Without {
        /// The epoch as of which the store first releases its state, if it has any.
        discard: Option<u32>,
    },
    /// The node has a replica.
    With {
        /// The first epoch of its membership.
        since_epoch: u32,
        /// The epoch as of which the store first releases its state, which is of an earlier
        /// membership epoch.
        discard: Option<u32>,
    },
}

impl Lifecycle {
    /// True if a row was carried out.
    pub fn has_applied(&self) -> bool {
        self.applied.is_some()
    }

    /// Returns the change that a row requires of a node, in a cluster of these nodes.
    pub fn action_for(&mut self, row: &DatabaseRow, all: &[NodeId], me: NodeId) -> RowAction {
        let members = rows::members(row, all);
        if self
            .applied
            .as_ref()
            .is_some_and(|applied| *applied == members || applied.epoch > members.epoch)
        {
            return RowAction::Nothing;
        }
        if broken(rules::NOTED_BEFORE_BEGUN) {
            self.applied = Some(members.clone());
        }
        let since = rows::since(row, all, me);
        // A former replica stays until the new ones have taken over.
        let stays = |since_epoch| members.has(me) && since.is_none_or(|since| since == since_epoch);
        if self.since_epoch.is_some_and(stays) {
            RowAction::Reconfigure(members)
        } else {
            RowAction::Restart
        }
    }

    /// Notes that the running replica has stopped. The row that required it is not carried out yet.
    pub fn stopped(&mut self) {
        self.since_epoch = None;
    }

    /// Notes that the running replica has these members.
    pub fn reconfigured(&mut self, members: ReplicaSet) {
        self.applied = Some(members);
    }

    /// Notes that a replica has started, or that the node continues without one, as these members
    /// require.
    pub fn begun(&mut self, members: ReplicaSet, begins: Begins) {
        self.applied = Some(members);
        self.since_epoch =
            if let Begins::With { since_epoch, .. } = begins { Some(since_epoch) } else { None };
    }
}

/// Returns how a replica starts at a node whose store has state `as_of` an epoch. Removes records
/// of earlier membership epochs from `logged`.
pub fn begins(
    row: &DatabaseRow,
    all: &[NodeId],
    me: NodeId,
    as_of: u32,
    logged: &mut Vec<LogRecord>,
) -> Begins {
    if row.epoch < as_of.max(newest_epoch(logged)) {
        return Begins::Waits;
    }
    let since_epoch = match rows::since(row, all, me) {
        Some(since) => since,
        // The row names the first epochs of current replicas only.
        None if row.former.contains(&me) => as_of,
        // Older rows of this epoch name the node as a former replica. It must not become one again
        // before the next epoch.
        None => {
            return Begins::Without {
                discard: (row.epoch > 0 && as_of <= row.epoch).then_some(row.epoch + 1),
            };
        }
    };
    if !broken(rules::EARLIER_STAY_KEPT) {
        retain_since(logged, since_epoch);
    }
    // The log has no record of a membership epoch before the store is set to it.
    let anew = as_of < since_epoch && logged.is_empty() && !broken(rules::LET_GO_FORGOTTEN);
    Begins::With { since_epoch, discard: anew.then_some(since_epoch) }
}

/// Removes records of earlier membership epochs. The first record of a new replica is that it left
/// the earlier view for its epoch.
fn retain_since(logged: &mut Vec<LogRecord>, since_epoch: u32) {
    if since_epoch > 0 {
        let begins = |logged: &LogRecord| matches!(logged, LogRecord::Left { view } if view.epoch >= since_epoch);
        let before = logged.iter().position(begins).unwrap_or(logged.len());
        // After a checkpoint the records begin with a view.
        let whole = |logged: &LogRecord| matches!(logged, LogRecord::Began { view, upon: None, .. } if view.epoch >= since_epoch);
        let before = logged.iter().position(whole).map_or(before, |place| place.min(before));
        logged.drain(..before);
    }
}

/// Returns the latest epoch of these records.
fn newest_epoch(logged: &[LogRecord]) -> u32 {
    let view = |logged: &LogRecord| match logged {
        LogRecord::Left { view }
        | LogRecord::Began { view, .. }
        | LogRecord::Stored { view, .. } => *view,
        _ => View::default(),
    };
    logged.iter().map(view).max().unwrap_or_default().epoch
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::DatabaseId;
    use meridian_machine::planted::plant;

    fn left(epoch: u32) -> LogRecord {
        LogRecord::Left { view: View { epoch, number: 0 } }
    }

    fn began(epoch: u32) -> LogRecord {
        let (changes, decided) = (std::collections::BTreeMap::new(), Vec::new());
        LogRecord::Began { view: View { epoch, number: 3 }, upon: None, changes, decided }
    }

    #[test]
    fn records_of_an_earlier_membership_epoch_are_ignored() {
        let stored = || LogRecord::Stored { view: View::default(), position: 900 };
        for (mut logged, since, stays) in [
            (vec![began(0), stored(), left(1), left(2), began(2)], 2, 2),
            (vec![began(0), stored(), left(1)], 2, 0),
            (vec![began(2), stored(), left(3)], 2, 3), // After a checkpoint.
            (vec![began(0), stored()], 0, 2),
        ] {
            retain_since(&mut logged, since);
            assert_eq!(logged.len(), stays);
        }
    }

    const ALL: [NodeId; 4] = [NodeId(1), NodeId(2), NodeId(3), NodeId(4)];

    fn first_row() -> DatabaseRow {
        DatabaseRow { replicas: ALL[..3].to_vec(), ..DatabaseRow::new(DatabaseId(9), "lab") }
    }

    fn then(row: &DatabaseRow, replicas: [u32; 3]) -> DatabaseRow {
        rows::next(row, &ALL, &replicas.map(NodeId)).expect("no change is under way")
    }

    #[test]
    fn a_node_that_leaves_and_returns_begins_with_nothing() {
        let (me, mut of) = (NodeId(3), Lifecycle::default());
        let first = first_row();
        assert_eq!(of.action_for(&first, &ALL, me), RowAction::Restart);
        let begins_with = begins(&first, &ALL, me, 0, &mut Vec::new());
        assert_eq!(begins_with, Begins::With { since_epoch: 0, discard: None });
        of.begun(rows::members(&first, &ALL), begins_with);
        let second = then(&first, [1, 2, 4]);
        let members = rows::members(&second, &ALL);
        assert_eq!(
            of.action_for(&second, &ALL, me),
            RowAction::Reconfigure(members.clone()),
            "as a former one"
        );
        of.reconfigured(members);
        assert_eq!(of.action_for(&first, &ALL, me), RowAction::Nothing, "an older row");
        let done = rows::ended(&second, 1);
        assert_eq!(of.action_for(&done, &ALL, me), RowAction::Restart);
        of.stopped();
        assert_eq!(of.action_for(&done, &ALL, me), RowAction::Restart, "until it is done");
        let without = begins(&done, &ALL, me, 0, &mut vec![began(0), left(1)]);
        assert_eq!(without, Begins::Without { discard: Some(2) });
        assert_eq!(
            begins(&second, &ALL, me, 2, &mut vec![began(0), left(1)]),
            Begins::Waits,
            "an older row of that epoch"
        );
        of.begun(rows::members(&done, &ALL), without);
        let third = then(&done, [1, 2, 3]);
        assert_eq!(of.action_for(&third, &ALL, me), RowAction::Restart);
        let mut logged = vec![began(0), left(1)];
        assert_eq!(
            begins(&third, &ALL, me, 2, &mut logged.clone()),
            Begins::With { since_epoch: 2, discard: None }
        );
        assert_eq!(
            begins(&third, &ALL, me, 0, &mut logged),
            Begins::With { since_epoch: 2, discard: Some(2) }
        );
        assert!(logged.is_empty());
    }

    #[test]
    fn that_what_was_let_go_of_is_there_again_is_noticed() {
        let planted = std::thread::spawn(|| {
            plant(Some(rules::LET_GO_FORGOTTEN), true);
            a_node_that_leaves_and_returns_begins_with_nothing();
        });
        assert!(planted.join().is_err());
    }

    #[test]
    fn a_removed_node_stops_its_replica_without_being_notified() {
        let (me, mut of) = (NodeId(3), Lifecycle::default());
        let first = first_row();
        of.begun(rows::members(&first, &ALL), begins(&first, &ALL, me, 0, &mut Vec::new()));
        let third = then(&rows::ended(&then(&first, [1, 2, 4]), 1), [1, 2, 3]);
        assert_eq!(of.action_for(&third, &ALL, me), RowAction::Restart);
    }

    #[test]
    fn a_former_replica_begins_with_its_own_stay_and_no_earlier_one() {
        let third = then(&rows::ended(&then(&first_row(), [1, 2, 4]), 1), [1, 2, 3]);
        let fourth = then(&rows::ended(&third, 2), [1, 2, 4]);
        let mut logged = vec![
            began(0),
            LogRecord::Stored { view: View::default(), position: 900 },
            left(2),
            began(2),
        ];
        assert_eq!(
            begins(&fourth, &ALL, NodeId(3), 2, &mut logged),
            Begins::With { since_epoch: 2, discard: None }
        );
        assert_eq!(logged, [left(2), began(2)]);
    }

    #[test]
    fn a_row_that_is_older_than_what_the_node_has_is_not_begun_with() {
        let (row, me) = (first_row(), NodeId(3));
        assert_eq!(begins(&row, &ALL, me, 0, &mut vec![left(1)]), Begins::Waits);
        assert_eq!(
            begins(&row, &ALL, me, 1, &mut Vec::new()),
            Begins::Waits,
            "what it released it had"
        );
    }
}
