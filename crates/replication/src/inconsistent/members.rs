//! Who the replicas are, and how others take over.
//!
//! ```text
//!   whoever decides on members (a catalog), once for each epoch      reconfigure ─▶ former and new replicas
//!   each leaves for the first view of the epoch                      Change ─▶ its leader, one of the new ones
//!   … who merges what f + 1 of the former ones have, and begins the view with f + 1 of the new ones
//! ```
//!
//! Who has left for a view of an epoch answers in no earlier one. So once f + 1 of the former
//! replicas have, nothing succeeds any more in the epoch before, and all that succeeded is with one
//! of them. From the first view that has begun on, the former ones are not asked any more.

use super::View;
use crate::quorum::Unordered;
use meridian_machine::NodeId;
use std::collections::BTreeSet;

/// The replicas of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// Which; each has its own replicas, for ever.
    pub epoch: u32,
    /// They.
    pub replicas: BTreeSet<NodeId>,
    /// Those of the epoch before; none, in the first.
    pub former: BTreeSet<NodeId>,
}

impl Members {
    /// The first ones of a shard.
    pub fn first(replicas: BTreeSet<NodeId>) -> Members {
        Members { epoch: 0, replicas, former: BTreeSet::new() }
    }

    /// Those who take over from these.
    pub fn then(&self, replicas: BTreeSet<NodeId>) -> Members {
        Members { epoch: self.epoch + 1, replicas, former: self.replicas.clone() }
    }

    /// How many of them are enough; none, if their number is even.
    pub fn enough(&self) -> Option<Unordered> {
        Unordered::of(self.replicas.len())
    }

    /// Who merges.
    pub fn leader_of(&self, view: View) -> NodeId {
        let at =
            usize::try_from(view.number % self.replicas.len() as u64).expect("below their number");
        *self.replicas.iter().nth(at).expect("below their number")
    }

    /// Whether a node has, or had, a replica.
    pub fn has(&self, node: NodeId) -> bool {
        self.replicas.contains(&node) || self.former.contains(&node)
    }

    /// Whether these are enough of those.
    pub(super) fn are_enough(of: &BTreeSet<NodeId>, these: impl Iterator<Item = NodeId>) -> bool {
        // More than half, also where their number is even.
        these.filter(|node| of.contains(node)).count() > of.len() / 2
    }
}
