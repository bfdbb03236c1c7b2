//! How other nodes' replicas take over: what the database's row says of that, and when it is done.
//!
//! ```text
//!   ALTER DATABASE … MEMBERS   row { epoch + 1, replicas, former } in `system` ──▶ every node: reconfigure, or a new replica, which copies
//!   whoever changes them       asks the new ones until enough answer in their epoch, and each new one reads
//!                              row { former: none } ──▶ whoever has no replica any more removes what it had
//! ```
//!
//! The row decides: of each epoch there is one. If whoever changes them is gone in the middle, saying the same again goes on; nothing waits for that but the former replicas.

use super::Desk;
use meridian_machine::NodeId;
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::inconsistent::{Members, View};
use meridian_systems::Wire;
use meridian_systems::tapir::{self, Kept};
use meridian_txn::tapir::Site;

/// Between two looks whether they have.
const PAUSE_NS: u64 = 50_000_000;
/// One that does not answer is asked again after so long.
const TRY_NS: u64 = 500_000_000;

/// Who the replicas are, as a row has it; a cluster has these nodes.
pub fn of(row: &DatabaseRow, all: &[NodeId]) -> Members {
    let replicas = if row.replicas.is_empty() { all } else { &row.replicas };
    Members {
        epoch: row.epoch,
        replicas: replicas.iter().copied().collect(),
        former: row.former.iter().copied().collect(),
    }
}

/// Since which epoch a node has a replica, without a break. None, if it has none.
pub fn since(row: &DatabaseRow, all: &[NodeId], node: NodeId) -> Option<u32> {
    let members = of(row, all);
    members.replicas.contains(&node).then(|| {
        let known = row.since.iter().find(|(known, _)| *known == node);
        known.map_or(0, |(_, epoch)| *epoch)
    })
}

/// Only what was kept since a node has a replica without a break. Whoever takes over leaves for an epoch first of all, so that what stands before that is of an earlier stay.
pub fn keep_since(kept: &mut Vec<Kept>, since: u32) {
    if since > 0 {
        let begins = |kept: &Kept| matches!(kept, Kept::Left { view } if view.epoch >= since);
        let before = kept.iter().position(begins).unwrap_or(kept.len());
        // After a checkpoint it begins with a view.
        let whole = |kept: &Kept| matches!(kept, Kept::Began { view, upon: None, .. } if view.epoch >= since);
        let before = kept.iter().position(whole).map_or(before, |place| place.min(before));
        kept.drain(..before);
    }
}

/// In which epoch something was kept last.
pub fn kept_in(kept: &[Kept]) -> u32 {
    let view = |kept: &Kept| match kept {
        Kept::Left { view } | Kept::Began { view, .. } | Kept::Stored { view, .. } => *view,
        _ => View::default(),
    };
    kept.iter().map(view).max().unwrap_or_default().epoch
}

/// The row with which these take over; the same one, if they have been told to already. Why not, if others are about to.
pub fn next(row: &DatabaseRow, all: &[NodeId], replicas: &[NodeId]) -> Result<DatabaseRow, String> {
    let now = of(row, all);
    if now.replicas.iter().eq(replicas) {
        return Ok(row.clone());
    }
    if !now.former.is_empty() {
        let named: Vec<String> = now.replicas.iter().map(|node| node.0.to_string()).collect();
        let named = named.join(", ");
        return Err(format!(
            "replicas on nodes ({named}) are about to take over: say ALTER DATABASE … MEMBERS ({named}) again, and change them then"
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

impl Desk {
    /// Waits until enough of the replicas have begun their epoch, and each that is new serves reads: then the former ones are not needed any more. Who is waited for in vain, when the boot clock
    /// reaches `until`.
    pub(crate) async fn have_taken_over(&self, epoch: u32, until: u64) -> Result<(), String> {
        let key = KeyRange::point(Key::default());
        loop {
            if self.boot_ns() >= until || Wire::is_closed(self) {
                return Err("too few replicas answer".to_owned());
            }
            let members = Wire::members(self, FIRST_SHARD);
            let at = self.now().interval.latest;
            let at = meridian_clock::Timestamp { nanos: at, ..Default::default() };
            let try_ends = until.min(self.boot_ns() + TRY_NS);
            if members.epoch >= epoch && tapir::look(self, FIRST_SHARD, &key, at, (false, 1), try_ends).await.is_some()
            {
                break;
            }
            Wire::pause(self, until.min(self.boot_ns() + PAUSE_NS)).await;
        }
        let members = Wire::members(self, FIRST_SHARD);
        for node in members.replicas.difference(&members.former) {
            loop {
                if self.boot_ns() >= until || Wire::is_closed(self) {
                    return Err(format!("the replica on node {} does not answer", node.0));
                }
                let serves = match self.replica().filter(|_| *node == Wire::here(self).0) {
                    Some(replica) => replica.world().find(&key, false, 1).is_some(),
                    None => {
                        let try_ends = until.min(self.boot_ns() + TRY_NS);
                        tapir::read(self, (FIRST_SHARD, *node), &key, (false, 1), try_ends).await.is_some()
                    }
                };
                if serves {
                    break;
                }
                Wire::pause(self, until.min(self.boot_ns() + PAUSE_NS)).await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn epochs_follow_each_other_and_who_stays_has_been_one_all_the_time() {
        let (all, row) = ([1, 2, 3, 4].map(NodeId), DatabaseRow::new(meridian_machine::DatabaseId(9), "lab"));
        let row = DatabaseRow { replicas: [1, 2, 3].map(NodeId).into(), ..row };
        let first = next(&row, &all, &[1, 2, 4].map(NodeId)).expect("nobody is taking over");
        assert_eq!(next(&first, &all, &[1, 2, 4].map(NodeId)).as_ref(), Ok(&first), "said again");
        assert!(next(&first, &all, &[1, 2, 3].map(NodeId)).is_err(), "others are about to");
        let done = DatabaseRow { former: Vec::new(), ..first };
        let second = next(&done, &all, &[2, 3, 4].map(NodeId)).expect("they have");
        let since = |node| since(&second, &all, NodeId(node));
        assert_eq!((second.epoch, [1, 2, 3, 4].map(since)), (2, [None, Some(0), Some(2), Some(1)]));
    }
}
