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
//! A *membership epoch* (`stay`) of a node is a sequence of epochs through which it has a replica
//! without interruption, named by the first of them. A node's state of an earlier membership epoch
//! is not part of a later one: the shard went on without the node, and its votes counted for that
//! membership epoch alone.
//!
//! Invariants:
//! 1. The store records durably the membership epoch of its versions before the log has a record of
//!    that epoch.
//! 2. A row counts as carried out only when the replica has started or ended as it says: a failure,
//!    for want of disk space, is retried.
//! 3. A node never returns to an epoch before one of which it has a record.

use super::Kept;
use super::rows;
use crate::tapir::rules;
use meridian_machine::NodeId;
use meridian_machine::planted::broken;
use meridian_placement::DatabaseRow;
use meridian_replication::inconsistent::{Members, View};

/// The rows that a node has carried out for its replica of a shard, since the node started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifecycle {
    heeded: Option<Members>,
    /// The membership epoch of the running replica.
    stay: Option<u32>,
}

/// The change that a row requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// None: the row is carried out already, or older than one that is.
    Nothing,
    /// Give these members to the running replica.
    Reconfigure(Members),
    /// Stop the running replica, if there is one: another membership epoch begins, or none.
    Anew,
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
        let_go: Option<u32>,
    },
    /// The node has a replica.
    With {
        /// The first epoch of its membership.
        stay: u32,
        /// The epoch as of which the store first releases its state, which is of an earlier
        /// membership epoch.
        let_go: Option<u32>,
    },
}

impl Lifecycle {
    /// True if a row was carried out.
    pub fn has_heeded(&self) -> bool {
        self.heeded.is_some()
    }

    /// Returns the change that a row requires of a node, in a cluster of these nodes.
    pub fn turn(&mut self, row: &DatabaseRow, all: &[NodeId], me: NodeId) -> Turn {
        let members = rows::members(row, all);
        if self
            .heeded
            .as_ref()
            .is_some_and(|heeded| *heeded == members || heeded.epoch > members.epoch)
        {
            return Turn::Nothing;
        }
        if broken(rules::NOTED_BEFORE_BEGUN) {
            self.heeded = Some(members.clone());
        }
        let since = rows::since(row, all, me);
        // A former replica stays until the new ones have taken over.
        let stays = |stay| members.has(me) && since.is_none_or(|since| since == stay);
        if self.stay.is_some_and(stays) { Turn::Reconfigure(members) } else { Turn::Anew }
    }

    /// Notes that the running replica has stopped. The row that required it is not carried out yet.
    pub fn stopped(&mut self) {
        self.stay = None;
    }

    /// Notes that the running replica has these members.
    pub fn reconfigured(&mut self, members: Members) {
        self.heeded = Some(members);
    }

    /// Notes that a replica has started, or that the node continues without one, as these members
    /// require.
    pub fn begun(&mut self, members: Members, begins: Begins) {
        self.heeded = Some(members);
        self.stay = if let Begins::With { stay, .. } = begins { Some(stay) } else { None };
    }
}

/// Returns how a replica starts at a node whose store has state `as_of` an epoch. Removes records
/// of earlier membership epochs from `kept`.
pub fn begins(
    row: &DatabaseRow,
    all: &[NodeId],
    me: NodeId,
    as_of: u32,
    kept: &mut Vec<Kept>,
) -> Begins {
    if row.epoch < as_of.max(kept_in(kept)) {
        return Begins::Waits;
    }
    let stay = match rows::since(row, all, me) {
        Some(since) => since,
        // The row names the first epochs of current replicas only.
        None if row.former.contains(&me) => as_of,
        // Older rows of this epoch name the node as a former replica. It must not become one again
        // before the next epoch.
        None => {
            return Begins::Without {
                let_go: (row.epoch > 0 && as_of <= row.epoch).then_some(row.epoch + 1),
            };
        }
    };
    if !broken(rules::EARLIER_STAY_KEPT) {
        keep_since(kept, stay);
    }
    // The log has no record of a membership epoch before the store is set to it.
    let anew = as_of < stay && kept.is_empty() && !broken(rules::LET_GO_FORGOTTEN);
    Begins::With { stay, let_go: anew.then_some(stay) }
}

/// Removes records of earlier membership epochs. The first record of a new replica is that it left
/// the earlier view for its epoch.
fn keep_since(kept: &mut Vec<Kept>, stay: u32) {
    if stay > 0 {
        let begins = |kept: &Kept| matches!(kept, Kept::Left { view } if view.epoch >= stay);
        let before = kept.iter().position(begins).unwrap_or(kept.len());
        // After a checkpoint the records begin with a view.
        let whole = |kept: &Kept| matches!(kept, Kept::Began { view, upon: None, .. } if view.epoch >= stay);
        let before = kept.iter().position(whole).map_or(before, |place| place.min(before));
        kept.drain(..before);
    }
}

/// Returns the latest epoch of these records.
fn kept_in(kept: &[Kept]) -> u32 {
    let view = |kept: &Kept| match kept {
        Kept::Left { view } | Kept::Began { view, .. } | Kept::Stored { view, .. } => *view,
        _ => View::default(),
    };
    kept.iter().map(view).max().unwrap_or_default().epoch
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::DatabaseId;
    use meridian_machine::planted::plant;

    fn left(epoch: u32) -> Kept {
        Kept::Left { view: View { epoch, number: 0 } }
    }

    fn began(epoch: u32) -> Kept {
        let (changes, decided) = (std::collections::BTreeMap::new(), Vec::new());
        Kept::Began { view: View { epoch, number: 3 }, upon: None, changes, decided }
    }

    #[test]
    fn what_was_kept_in_an_earlier_stay_is_not_taken_for_this_one() {
        let stored = || Kept::Stored { view: View::default(), position: 900 };
        for (mut kept, since, stays) in [
            (vec![began(0), stored(), left(1), left(2), began(2)], 2, 2),
            (vec![began(0), stored(), left(1)], 2, 0),
            (vec![began(2), stored(), left(3)], 2, 3), // After a checkpoint.
            (vec![began(0), stored()], 0, 2),
        ] {
            keep_since(&mut kept, since);
            assert_eq!(kept.len(), stays);
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
    fn a_node_that_leaves_and_comes_back_begins_anew() {
        let (me, mut of) = (NodeId(3), Lifecycle::default());
        let first = first_row();
        assert_eq!(of.turn(&first, &ALL, me), Turn::Anew);
        let begins_with = begins(&first, &ALL, me, 0, &mut Vec::new());
        assert_eq!(begins_with, Begins::With { stay: 0, let_go: None });
        of.begun(rows::members(&first, &ALL), begins_with);
        let second = then(&first, [1, 2, 4]);
        let members = rows::members(&second, &ALL);
        assert_eq!(
            of.turn(&second, &ALL, me),
            Turn::Reconfigure(members.clone()),
            "as a former one"
        );
        of.reconfigured(members);
        assert_eq!(of.turn(&first, &ALL, me), Turn::Nothing, "an older row");
        let done = rows::ended(&second, 1);
        assert_eq!(of.turn(&done, &ALL, me), Turn::Anew);
        of.stopped();
        assert_eq!(of.turn(&done, &ALL, me), Turn::Anew, "until it is done");
        let without = begins(&done, &ALL, me, 0, &mut vec![began(0), left(1)]);
        assert_eq!(without, Begins::Without { let_go: Some(2) });
        assert_eq!(
            begins(&second, &ALL, me, 2, &mut vec![began(0), left(1)]),
            Begins::Waits,
            "an older row of that epoch"
        );
        of.begun(rows::members(&done, &ALL), without);
        let third = then(&done, [1, 2, 3]);
        assert_eq!(of.turn(&third, &ALL, me), Turn::Anew);
        let mut kept = vec![began(0), left(1)];
        assert_eq!(
            begins(&third, &ALL, me, 2, &mut kept.clone()),
            Begins::With { stay: 2, let_go: None }
        );
        assert_eq!(
            begins(&third, &ALL, me, 0, &mut kept),
            Begins::With { stay: 2, let_go: Some(2) }
        );
        assert!(kept.is_empty());
    }

    #[test]
    fn that_what_was_let_go_of_is_there_again_is_noticed() {
        let planted = std::thread::spawn(|| {
            plant(Some(rules::LET_GO_FORGOTTEN), true);
            a_node_that_leaves_and_comes_back_begins_anew();
        });
        assert!(planted.join().is_err());
    }

    #[test]
    fn a_node_that_has_not_heard_that_it_left_stops_its_replica_all_the_same() {
        let (me, mut of) = (NodeId(3), Lifecycle::default());
        let first = first_row();
        of.begun(rows::members(&first, &ALL), begins(&first, &ALL, me, 0, &mut Vec::new()));
        let third = then(&rows::ended(&then(&first, [1, 2, 4]), 1), [1, 2, 3]);
        assert_eq!(of.turn(&third, &ALL, me), Turn::Anew);
    }

    #[test]
    fn a_former_replica_begins_with_its_own_stay_and_no_earlier_one() {
        let third = then(&rows::ended(&then(&first_row(), [1, 2, 4]), 1), [1, 2, 3]);
        let fourth = then(&rows::ended(&third, 2), [1, 2, 4]);
        let mut kept = vec![
            began(0),
            Kept::Stored { view: View::default(), position: 900 },
            left(2),
            began(2),
        ];
        assert_eq!(
            begins(&fourth, &ALL, NodeId(3), 2, &mut kept),
            Begins::With { stay: 2, let_go: None }
        );
        assert_eq!(kept, [left(2), began(2)]);
    }

    #[test]
    fn a_row_that_is_older_than_what_the_node_has_is_not_begun_with() {
        let (row, me) = (first_row(), NodeId(3));
        assert_eq!(begins(&row, &ALL, me, 0, &mut vec![left(1)]), Begins::Waits);
        assert_eq!(
            begins(&row, &ALL, me, 1, &mut Vec::new()),
            Begins::Waits,
            "what it let go of it had"
        );
    }
}
