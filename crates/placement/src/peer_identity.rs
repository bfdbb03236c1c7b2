//! Identities of members: a node id belongs to the disk that holds the node's promises.
//!
//! A member's votes, acknowledgements and promises are on its disk. A node that returns with
//! another disk has lost them, and a majority that includes it could contradict earlier decisions.
//! So a disk gets a number when it is initialized. Members remember each other's numbers for good,
//! and reject another disk under the same node id.
//!
//! ```text
//!   new disk ──▶ greets each other member, which remembers it durably and answers
//!            ──▶ all have answered: admitted, for good
//! ```
//!
//! 1. A member that is not admitted sends only greetings, and processes nothing else.
//! 2. So every other member remembers each disk that has ever taken part. Of 2f + 1 members f may
//!    lose their disks: f + 1 know each lost disk.
//! 3. A disk that is set back to an earlier state (a folder restored from a copy) is rejected too,
//!    if a member has met a later incarnation.
//!
//! The price: a new cluster starts only when all of its members have met once. From then on a
//! majority is enough.
//!
//! (Viewstamped Replication Revisited §4.3 lets such a member recover by itself; Michael et al.,
//! "Recovering Shared Objects Without Stable Storage", DISC 2017, show what that overlooks. Members
//! of etcd check each other at the start, but do not wait for unreachable ones.)

use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Incarnation, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};

/// The random number that a disk gets when it is initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct DiskId(#[n(0)] pub u64);

/// A greeting from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The sender's disk.
    pub disk: DiskId,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// The receiver's disk, as the sender durably remembers it.
    pub yours: Option<DiskId>,
}

/// The last known identity of another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct Met {
    #[n(0)]
    disk: DiskId,
    #[n(1)]
    incarnation: Incarnation,
}

/// A member's own disk number and what it remembers of others. The node makes it durable.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct PeerIdentities {
    #[n(0)]
    disk: DiskId,
    #[n(1)]
    met: BTreeMap<NodeId, Met>,
    #[n(2)]
    admitted: bool,
    /// The members that remember this disk, as far as they have said since this node started.
    #[cbor(skip)]
    known_by: BTreeSet<NodeId>,
}

/// The reason why a member is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityMismatch {
    /// Another disk uses a known node id.
    #[error("node {} has another disk than before, so its votes and promises are lost: its messages are ignored", .0.0)]
    Other(NodeId),
    /// The disk was set back to an earlier state.
    #[error("node {} is in incarnation {}, and was in incarnation {} before, so its later votes and promises are lost: its messages are ignored", .node.0, .incarnation.0, .later.0)]
    Earlier {
        /// The node.
        node: NodeId,
        /// The incarnation of its greeting.
        incarnation: Incarnation,
        /// A later incarnation that was met before.
        later: Incarnation,
    },
    /// The other member rejects this node.
    #[error(
        "node {} remembers this node with another disk: the present one is empty or belongs to another node, and lacks this node's votes and promises. Mount the right disk. \
         If its data is lost, leave this node off: the other nodes continue without it (a member cannot be replaced in this version)",
        .0.0
    )]
    Myself(NodeId),
}

impl PeerIdentities {
    /// Makes the identities of a new disk.
    pub fn of_new_disk(disk: DiskId) -> PeerIdentities {
        PeerIdentities { disk, met: BTreeMap::new(), admitted: false, known_by: BTreeSet::new() }
    }

    /// Makes the identities of a disk that took part before disks had numbers.
    pub fn of_unnumbered_disk(disk: DiskId) -> PeerIdentities {
        PeerIdentities { admitted: true, ..PeerIdentities::of_new_disk(disk) }
    }

    /// Returns the number of this member's disk.
    pub fn disk(&self) -> DiskId {
        self.disk
    }

    /// True if this member is admitted.
    pub fn admitted(&self) -> bool {
        self.admitted
    }

    /// Returns the greeting for another member.
    pub fn greeting(&self, incarnation: Incarnation, to: NodeId) -> Greeting {
        Greeting { disk: self.disk, incarnation, yours: self.met.get(&to).map(|met| met.disk) }
    }

    /// Handles another member's greeting. True if there is something new to remember, which must be
    /// durable before the greeting is answered.
    pub fn receive(&mut self, from: NodeId, greeting: Greeting) -> Result<bool, IdentityMismatch> {
        let Greeting { disk, incarnation, yours } = greeting;
        if yours.is_some_and(|yours| yours != self.disk) && !broken(rules::DISKS_NOT_REMEMBERED) {
            return Err(IdentityMismatch::Myself(from));
        }
        let before = self.met.get(&from).filter(|_| !broken(rules::DISKS_NOT_REMEMBERED));
        match before {
            Some(met) if met.disk != disk => return Err(IdentityMismatch::Other(from)),
            Some(met) if incarnation < met.incarnation => {
                return Err(IdentityMismatch::Earlier {
                    node: from,
                    incarnation,
                    later: met.incarnation,
                });
            }
            _ => {}
        }
        if yours.is_some() {
            self.known_by.insert(from);
        }
        let met = Some(Met { disk, incarnation });
        Ok(self.met.insert(from, Met { disk, incarnation }) != met)
    }

    /// Returns the members that have not said since this node started that they remember this disk.
    pub fn not_known_to(&self, others: &[NodeId]) -> Vec<NodeId> {
        others.iter().copied().filter(|other| !self.known_by.contains(other)).collect()
    }

    /// Admits this member if all others remember this disk. True if that is new, and must be made
    /// durable.
    pub fn admit(&mut self, others: &[NodeId]) -> bool {
        let now = !self.admitted && self.not_known_to(others).is_empty();
        self.admitted |= now;
        now
    }

    /// True if this member processes messages of a node with this disk.
    pub fn accepts(&self, from: NodeId, disk: DiskId) -> bool {
        self.admitted && self.met.get(&from).is_some_and(|met| met.disk == disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Incarnation = Incarnation(1);

    fn node(number: usize) -> NodeId {
        NodeId(number as u32 + 1)
    }

    fn others(me: usize) -> Vec<NodeId> {
        (0..3).filter(|other| *other != me).map(node).collect()
    }

    /// Exchanges a greeting and its answer.
    fn meet(all: &mut [PeerIdentities], one: usize, other: usize) -> Result<(), IdentityMismatch> {
        let greeting = all[one].greeting(LIFE, node(other));
        let heard = all[other].receive(node(one), greeting);
        let answer = all[other].greeting(LIFE, node(one));
        all[one].receive(node(other), answer)?;
        all[one].admit(&others(one));
        heard.map(drop)
    }

    fn new_cluster() -> Vec<PeerIdentities> {
        (0..3).map(|number| PeerIdentities::of_new_disk(DiskId(number))).collect()
    }

    fn met_cluster() -> Vec<PeerIdentities> {
        let mut all = new_cluster();
        for (one, other) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            meet(&mut all, one, other).unwrap();
        }
        all
    }

    #[test]
    fn a_member_takes_part_when_all_others_remember_it() {
        let mut all = new_cluster();
        meet(&mut all, 0, 1).unwrap();
        assert!(!all[0].admitted() && all[0].not_known_to(&others(0)) == [node(2)]);
        meet(&mut all, 0, 2).unwrap();
        assert!(all[0].admitted() && !all[1].admitted());
        assert!(!all[1].accepts(node(0), DiskId(0)), "the receiver is not admitted itself");
        assert!(PeerIdentities::of_new_disk(DiskId(7)).admit(&[]), "a single node need not wait");
    }

    #[test]
    fn a_lost_disk_is_noticed_by_all_members_in_any_order() {
        for first in [1, 2] {
            let mut all = met_cluster();
            all[0] = PeerIdentities::of_new_disk(DiskId(9));
            let before = all.clone();
            assert_eq!(meet(&mut all, 0, first), Err(IdentityMismatch::Myself(node(first))));
            assert_eq!(all[first], before[first], "the remembered disks do not change");
            assert!(!all[0].admitted() && !all[first].accepts(node(0), DiskId(9)));
        }
    }

    #[test]
    fn two_members_that_lost_their_disks_do_not_form_a_cluster() {
        let mut all = met_cluster();
        all[0] = PeerIdentities::of_new_disk(DiskId(8));
        all[1] = PeerIdentities::of_new_disk(DiskId(9));
        meet(&mut all, 0, 1).unwrap();
        meet(&mut all, 1, 0).unwrap();
        assert!(!all[0].admitted() && !all[1].admitted());
        assert_eq!(meet(&mut all, 0, 2), Err(IdentityMismatch::Myself(node(2))));
    }

    #[test]
    fn an_earlier_incarnation_is_refused_after_a_later_one() {
        let mut all = met_cluster();
        let later = all[0].greeting(Incarnation(7), node(1));
        assert_eq!(all[1].receive(node(0), later), Ok(true));
        assert_eq!(all[1].receive(node(0), later), Ok(false), "nothing new");
        let earlier = all[0].greeting(Incarnation(6), node(1));
        let (incarnation, later) = (Incarnation(6), Incarnation(7));
        assert_eq!(
            all[1].receive(node(0), earlier),
            Err(IdentityMismatch::Earlier { node: node(0), incarnation, later })
        );
    }

    #[test]
    fn what_is_remembered_reads_back() {
        let all = met_cluster();
        let read: PeerIdentities = minicbor::decode(&minicbor::to_vec(&all[0]).unwrap()).unwrap();
        assert!(
            read.admitted()
                && read.accepts(node(1), DiskId(1))
                && !read.accepts(node(1), DiskId(2))
        );
    }
}
