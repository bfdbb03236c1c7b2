//! The replicas of an epoch, and their replacement.
//!
//! ```text
//!   owner of members (a catalog)   decides once for each epoch: reconfigure ─▶ all of them
//!   former and new replicas        leave for the first view of the epoch: Change ─▶ its leader
//!   leader, a new replica          merges the records of f + 1 former replicas, and begins the
//!                                  view with f + 1 of the new ones
//! ```
//!
//! A replica that has left for a view of an epoch answers in no earlier epoch. So once f + 1 of the
//! former replicas have left, nothing succeeds any more in the epoch before, and every successful
//! operation is at one of them. The former replicas are not asked any more once the first view has
//! begun.

use super::View;
use crate::quorum::Unordered;
use meridian_machine::NodeId;
use std::collections::BTreeSet;

/// The replicas of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSet {
    /// The epoch. Its replicas never change.
    pub epoch: u32,
    /// The replicas.
    pub replicas: BTreeSet<NodeId>,
    /// The replicas of the epoch before; empty in the first epoch.
    pub former: BTreeSet<NodeId>,
}

impl ReplicaSet {
    /// Returns the members of a shard's first epoch.
    pub fn first(replicas: BTreeSet<NodeId>) -> ReplicaSet {
        ReplicaSet { epoch: 0, replicas, former: BTreeSet::new() }
    }

    /// Returns the members of the next epoch, in which these replicas take over.
    pub fn then(&self, replicas: BTreeSet<NodeId>) -> ReplicaSet {
        ReplicaSet { epoch: self.epoch + 1, replicas, former: self.replicas.clone() }
    }

    /// Returns the quorums; `None` if the number of replicas is even.
    pub fn enough(&self) -> Option<Unordered> {
        Unordered::of(self.replicas.len())
    }

    /// Returns the leader of a view, which merges.
    pub fn leader_of(&self, view: View) -> NodeId {
        let at = usize::try_from(view.number % self.replicas.len() as u64)
            .expect("the index is below the number of replicas");
        *self.replicas.iter().nth(at).expect("the index is below the number of replicas")
    }

    /// True if a node has, or had, a replica.
    pub fn has(&self, node: NodeId) -> bool {
        self.replicas.contains(&node) || self.former.contains(&node)
    }

    /// True if `these` include a quorum of `of`.
    pub(super) fn are_enough(of: &BTreeSet<NodeId>, these: impl Iterator<Item = NodeId>) -> bool {
        // More than half, also if their number is even.
        these.filter(|node| of.contains(node)).count() > of.len() / 2
    }
}
