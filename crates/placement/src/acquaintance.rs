//! Whom a member has met: its name belongs to the disk that has promised under it.
//!
//! What a member has voted, acknowledged and promised is on its disk. Who comes back under the name
//! with another disk has forgotten it, and a majority with him could decide anew what is decided.
//! So a disk gets a number when it is born; members remember each other's for good, and keep away
//! from another one under the same name.
//!
//! ```text
//!   born ──▶ greets each other member, who remembers it durably, then answers ──▶ all have answered: admitted, for good
//! ```
//!
//! 1. Who is not admitted says nothing but greetings, and hears nothing else.
//! 2. So every other member remembers each disk that has ever taken part. Of 2f + 1 members f may
//!    lose their disks: f + 1 know each lost one.
//! 3. A life that is set back to an earlier one (a folder restored from a copy) is kept away too,
//!    as far as somebody has met a later one.
//!
//! The price: a new cluster begins when all of its members have met once. From then on a majority
//! is enough.
//!
//! (Viewstamped Replication Revisited §4.3 lets such a member recover by itself; Michael et al.,
//! "Recovering Shared Objects Without Stable Storage", DISC 2017, show what that overlooks. Etcd's
//! members ask each other at the start, and those who are away are not asked.)

use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Incarnation, NodeId};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};

/// The number that a disk gets when it is born; drawn, so that no two are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct DiskId(#[n(0)] pub u64);

/// What one member says when it meets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Its disk.
    pub disk: DiskId,
    /// Its life.
    pub life: Incarnation,
    /// The other's disk, as it remembers; it is on record durably.
    pub yours: Option<DiskId>,
}

/// Another member, as it was met last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct Met {
    #[n(0)]
    disk: DiskId,
    #[n(1)]
    life: Incarnation,
}

/// What a member's disk says of itself and of others. It is the node's to make durable.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Acquaintances {
    #[n(0)]
    disk: DiskId,
    #[n(1)]
    met: BTreeMap<NodeId, Met>,
    #[n(2)]
    admitted: bool,
    /// Who has this disk on record; asked anew in each life.
    #[cbor(skip)]
    known_by: BTreeSet<NodeId>,
}

/// Why one keeps away from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// Another disk stands behind a name.
    #[error("node {} has another disk than the one that was met here: it has forgotten what it promised", .0.0)]
    Other(NodeId),
    /// An earlier state of the same disk.
    #[error("node {} is in life {}, and was in life {} already: it has forgotten what it promised since", .node.0, .life.0, .later.0)]
    Earlier {
        /// Who.
        node: NodeId,
        /// What it says.
        life: Incarnation,
        /// What was heard before.
        later: Incarnation,
    },
    /// It is this node that is a stranger to the other.
    #[error(
        "node {} remembers this node with another disk. This one is empty, or another's: it cannot keep what this node has promised. Is the right disk \
         mounted? If the data is lost, leave this node off; the others go on without it (a member cannot be replaced in this version)",
        .0.0
    )]
    Myself(NodeId),
}

impl Acquaintances {
    /// Those of a new disk.
    pub fn of_newborn(disk: DiskId) -> Acquaintances {
        Acquaintances { disk, met: BTreeMap::new(), admitted: false, known_by: BTreeSet::new() }
    }

    /// Those of a disk that took part before disks had numbers.
    pub fn of_veteran(disk: DiskId) -> Acquaintances {
        Acquaintances { admitted: true, ..Acquaintances::of_newborn(disk) }
    }

    /// The number of this member's disk.
    pub fn disk(&self) -> DiskId {
        self.disk
    }

    /// Whether this member takes part.
    pub fn admitted(&self) -> bool {
        self.admitted
    }

    /// What is said to another member.
    pub fn greeting(&self, life: Incarnation, to: NodeId) -> Greeting {
        Greeting { disk: self.disk, life, yours: self.met.get(&to).map(|met| met.disk) }
    }

    /// Another member's greeting. True if there is something to remember: it has to be durable
    /// before it is greeted in turn.
    pub fn hear(&mut self, from: NodeId, greeting: Greeting) -> Result<bool, Stranger> {
        let Greeting { disk, life, yours } = greeting;
        if yours.is_some_and(|yours| yours != self.disk) && !broken(rules::DISKS_NOT_REMEMBERED) {
            return Err(Stranger::Myself(from));
        }
        let before = self.met.get(&from).filter(|_| !broken(rules::DISKS_NOT_REMEMBERED));
        match before {
            Some(met) if met.disk != disk => return Err(Stranger::Other(from)),
            Some(met) if life < met.life => {
                return Err(Stranger::Earlier { node: from, life, later: met.life });
            }
            _ => {}
        }
        if yours.is_some() {
            self.known_by.insert(from);
        }
        let met = Some(Met { disk, life });
        Ok(self.met.insert(from, Met { disk, life }) != met)
    }

    /// Who has this disk not on record, as far as was heard in this life.
    pub fn strange_to(&self, others: &[NodeId]) -> Vec<NodeId> {
        others.iter().copied().filter(|other| !self.known_by.contains(other)).collect()
    }

    /// Takes part from now on, if all others remember this disk. True if that is new, and has to be
    /// made durable.
    pub fn admit(&mut self, others: &[NodeId]) -> bool {
        let now = !self.admitted && self.strange_to(others).is_empty();
        self.admitted |= now;
        now
    }

    /// Whether this member listens to one that speaks with this disk.
    pub fn heeds(&self, from: NodeId, disk: DiskId) -> bool {
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

    /// One greets another, who answers.
    fn meet(all: &mut [Acquaintances], one: usize, other: usize) -> Result<(), Stranger> {
        let greeting = all[one].greeting(LIFE, node(other));
        let heard = all[other].hear(node(one), greeting);
        let answer = all[other].greeting(LIFE, node(one));
        all[one].hear(node(other), answer)?;
        all[one].admit(&others(one));
        heard.map(drop)
    }

    fn born() -> Vec<Acquaintances> {
        (0..3).map(|number| Acquaintances::of_newborn(DiskId(number))).collect()
    }

    fn acquainted() -> Vec<Acquaintances> {
        let mut all = born();
        for (one, other) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            meet(&mut all, one, other).unwrap();
        }
        all
    }

    #[test]
    fn a_member_takes_part_when_all_others_remember_it() {
        let mut all = born();
        meet(&mut all, 0, 1).unwrap();
        assert!(!all[0].admitted() && all[0].strange_to(&others(0)) == [node(2)]);
        meet(&mut all, 0, 2).unwrap();
        assert!(all[0].admitted() && !all[1].admitted());
        assert!(!all[1].heeds(node(0), DiskId(0)), "it is not admitted itself");
        assert!(Acquaintances::of_newborn(DiskId(7)).admit(&[]), "who is alone need not wait");
    }

    #[test]
    fn a_lost_disk_is_missed_by_all_whoever_is_asked_first() {
        for first in [1, 2] {
            let mut all = acquainted();
            all[0] = Acquaintances::of_newborn(DiskId(9));
            let before = all.clone();
            assert_eq!(meet(&mut all, 0, first), Err(Stranger::Myself(node(first))));
            assert_eq!(all[first], before[first], "it is not forgotten who was met");
            assert!(!all[0].admitted() && !all[first].heeds(node(0), DiskId(9)));
        }
    }

    #[test]
    fn two_who_lost_their_disks_do_not_become_a_cluster_of_their_own() {
        let mut all = acquainted();
        all[0] = Acquaintances::of_newborn(DiskId(8));
        all[1] = Acquaintances::of_newborn(DiskId(9));
        meet(&mut all, 0, 1).unwrap();
        meet(&mut all, 1, 0).unwrap();
        assert!(!all[0].admitted() && !all[1].admitted());
        assert_eq!(meet(&mut all, 0, 2), Err(Stranger::Myself(node(2))));
    }

    #[test]
    fn an_earlier_life_is_not_heard_after_a_later_one() {
        let mut all = acquainted();
        let later = all[0].greeting(Incarnation(7), node(1));
        assert_eq!(all[1].hear(node(0), later), Ok(true));
        assert_eq!(all[1].hear(node(0), later), Ok(false), "nothing new");
        let earlier = all[0].greeting(Incarnation(6), node(1));
        let (life, later) = (Incarnation(6), Incarnation(7));
        assert_eq!(
            all[1].hear(node(0), earlier),
            Err(Stranger::Earlier { node: node(0), life, later })
        );
    }

    #[test]
    fn what_is_remembered_reads_back() {
        let all = acquainted();
        let read: Acquaintances = minicbor::decode(&minicbor::to_vec(&all[0]).unwrap()).unwrap();
        assert!(
            read.admitted() && read.heeds(node(1), DiskId(1)) && !read.heeds(node(1), DiskId(2))
        );
    }
}
