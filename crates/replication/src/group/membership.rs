//! The membership of a group, and its change by joint consensus (Ongaro 2014, §4.3).
//!
//! ```text
//!   settled ── wanted ──▶ preparing: newcomers learn
//!                               │ all have caught up
//!                               ▼
//!                         joint: both sets of voters vote ──▶ settled
//! ```

use super::{Index, MembershipEpoch};
use crate::quorum::Quorum;
use meridian_machine::NodeId;
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter::successors;
use std::ops::Bound;

/// The members that a group is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Roster {
    /// The voters.
    #[n(0)]
    pub voters: BTreeSet<NodeId>,
    /// Members that receive the log and have no vote.
    #[n(1)]
    pub learners: BTreeSet<NodeId>,
    /// Voters that keep the log and no versions.
    #[n(2)]
    pub witnesses: BTreeSet<NodeId>,
}

impl Roster {
    /// Returns a roster of these voters only.
    pub fn voters(nodes: impl IntoIterator<Item = NodeId>) -> Roster {
        Roster { voters: nodes.into_iter().collect(), ..Roster::default() }
    }

    /// Returns all members.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.voters.union(&self.learners).copied().collect()
    }
}

/// The reasons why a membership change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// This member does not lead.
    NotLeader,
    /// Joint consensus is under way.
    UnderWay,
    /// The roster has no voter.
    NoVoter,
    /// A node would both vote and learn.
    Twice(NodeId),
    /// A witness would not vote.
    IdleWitness(NodeId),
    /// Half of the voters or more would keep no versions.
    WitnessesOutweigh,
    /// A witness would become a full member, or the other way round. The node must be removed
    /// first.
    OtherKind(NodeId),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::NotLeader => {
                f.write_str("only the leader changes members: send the request to the leader")
            }
            ChangeError::UnderWay => {
                f.write_str("another change of members is under way: retry when it has ended")
            }
            ChangeError::NoVoter => f.write_str("a group needs at least one voter"),
            ChangeError::Twice(node) => {
                write!(f, "node {} cannot be a voter and a learner", node.0)
            }
            ChangeError::IdleWitness(node) => {
                write!(f, "node {} cannot be a witness without a vote: make it a voter too", node.0)
            }
            ChangeError::WitnessesOutweigh => {
                f.write_str("fewer than half of the voters may be witnesses")
            }
            ChangeError::OtherKind(node) => {
                write!(
                    f,
                    "node {} would change between witness and full member: remove it first, then add it",
                    node.0
                )
            }
        }
    }
}

impl std::error::Error for ChangeError {}

/// The members of a group. An empty membership is that of a member that does not know the group's
/// members yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Membership {
    /// The log entry of this membership; 0 at the group's creation.
    #[n(0)]
    index: Index,
    #[n(1)]
    voters: BTreeSet<NodeId>,
    /// In joint consensus: the former voters.
    #[n(2)]
    outgoing: BTreeSet<NodeId>,
    #[n(3)]
    learners: BTreeSet<NodeId>,
    #[n(4)]
    witnesses: BTreeSet<NodeId>,
    /// The roster that a change is to reach.
    #[n(5)]
    wanted: Option<Roster>,
    /// The membership epochs that began after the group's creation: for each node the entry that
    /// added it.
    #[n(6)]
    since: BTreeMap<NodeId, Index>,
}

impl Membership {
    /// Returns the membership of a new group.
    pub fn initial(roster: Roster) -> Membership {
        let Roster { voters, learners, witnesses } = roster;
        Membership { voters, learners, witnesses, ..Membership::default() }
    }

    /// Returns the log entry of this membership; 0 at the group's creation.
    pub fn index(&self) -> Index {
        self.index
    }

    /// Returns the voters, without the outgoing ones of joint consensus.
    pub fn voters(&self) -> &BTreeSet<NodeId> {
        &self.voters
    }

    /// Returns the members that receive the log and have no vote.
    pub fn learners(&self) -> &BTreeSet<NodeId> {
        &self.learners
    }

    /// Returns all members in order, outgoing voters included. Each step of a leader asks for them,
    /// so nothing is allocated.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let from = move |bound: Bound<NodeId>| {
            let sets = [&self.voters, &self.outgoing, &self.learners].into_iter();
            sets.filter_map(|set| set.range((bound, Bound::Unbounded)).next()).min().copied()
        };
        successors(from(Bound::Unbounded), move |node| from(Bound::Excluded(*node)))
    }

    /// True if a node is a member.
    pub fn contains(&self, node: NodeId) -> bool {
        self.is_voter(node) || self.learners.contains(&node)
    }

    /// True if a node votes.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.outgoing.contains(&node)
    }

    /// True if a node keeps the log and no versions.
    pub fn is_witness(&self, node: NodeId) -> bool {
        self.witnesses.contains(&node)
    }

    /// True in joint consensus.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// True if no change is under way.
    pub fn is_settled(&self) -> bool {
        !self.is_joint() && self.wanted.is_none()
    }

    /// Returns the roster that a change is to reach, or the present one.
    pub fn roster(&self) -> Roster {
        let Membership { voters, learners, witnesses, .. } = self.clone();
        self.wanted.clone().unwrap_or(Roster { voters, learners, witnesses })
    }

    /// Returns the entry that added a node, which identifies its membership epoch; 0 for a member
    /// since the group's creation.
    pub fn since(&self, node: NodeId) -> Index {
        self.since.get(&node).copied().unwrap_or_default()
    }

    /// Returns a node's membership epoch.
    pub fn membership_epoch(&self, node: NodeId) -> MembershipEpoch {
        MembershipEpoch { since: self.since(node), witness: self.is_witness(node) }
    }

    /// Returns the quorum of this membership.
    pub(super) fn quorum(&self) -> Quorum<'_> {
        Quorum::of(&self.voters, &self.outgoing)
    }

    /// Returns the membership of a child group, which is created with the same members.
    pub fn of_child(&self) -> Membership {
        Membership::initial(self.roster())
    }

    /// Checks whether the membership may change to this roster.
    pub(super) fn check(&self, wanted: &Roster) -> Result<(), ChangeError> {
        if self.is_joint() {
            return Err(ChangeError::UnderWay);
        }
        if wanted.voters.is_empty() {
            return Err(ChangeError::NoVoter);
        }
        if let Some(node) = wanted.voters.intersection(&wanted.learners).next() {
            return Err(ChangeError::Twice(*node));
        }
        if let Some(node) = wanted.witnesses.difference(&wanted.voters).next() {
            return Err(ChangeError::IdleWitness(*node));
        }
        if wanted.witnesses.len() * 2 >= wanted.voters.len() && !wanted.witnesses.is_empty() {
            return Err(ChangeError::WitnessesOutweigh);
        }
        let other = |node: &&NodeId| {
            self.contains(**node) && self.is_witness(**node) != wanted.witnesses.contains(*node)
        };
        match wanted.nodes().iter().find(other) {
            Some(node) => Err(ChangeError::OtherKind(*node)),
            None => Ok(()),
        }
    }

    /// Returns the membership in which newcomers learn before they vote.
    pub(super) fn prepare(&self, wanted: Roster, index: Index) -> Membership {
        let mut next = Membership { index, ..self.clone() };
        for node in wanted.nodes().into_iter().filter(|node| !self.contains(*node)) {
            next.learners.insert(node);
            next.since.insert(node, index);
        }
        next.witnesses.extend(&wanted.witnesses);
        next.wanted = Some(wanted);
        next
    }

    /// Returns the next step of a change: joint consensus once all newcomers have caught up, then
    /// the settled membership. `None` if no change is under way.
    pub(super) fn next(&self, index: Index) -> Option<Membership> {
        let wanted = self.wanted.clone()?;
        if self.is_joint() || wanted.voters == self.voters {
            let mut settled =
                Membership { index, since: self.since.clone(), ..Membership::initial(wanted) };
            settled
                .since
                .retain(|node, _| settled.voters.contains(node) || settled.learners.contains(node));
            return Some(settled);
        }
        let mut joint = Membership { index, ..self.clone() };
        joint.outgoing = std::mem::replace(&mut joint.voters, wanted.voters);
        joint.learners.retain(|node| !joint.voters.contains(node));
        Some(joint)
    }

    /// Returns the nodes that are to become voters.
    pub(super) fn newcomers(&self) -> impl Iterator<Item = NodeId> {
        let wanted = self.wanted.iter().flat_map(|wanted| wanted.voters.iter().copied());
        wanted.filter(|node| !self.voters.contains(node))
    }
}

/// The memberships in a log: the newest agreed one, and those after it.
///
/// Invariant: there is at least one, and their indexes grow.
#[derive(Clone, Debug)]
pub(super) struct Memberships(Vec<Membership>);

impl Memberships {
    pub fn new(agreed: Membership) -> Memberships {
        Memberships(vec![agreed])
    }

    /// Returns the membership that is in effect, agreed or not.
    pub fn newest(&self) -> &Membership {
        self.0.last().expect("invariant: there is one")
    }

    /// Returns all memberships, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Membership> {
        self.0.iter()
    }

    /// Returns the newest agreed membership.
    pub fn agreed(&self) -> &Membership {
        &self.0[0]
    }

    /// Adds the membership of an appended entry.
    pub fn push(&mut self, membership: Membership) {
        if membership.index > self.newest().index {
            self.0.push(membership);
        }
    }

    /// Removes the memberships of entries that the log is cut by, from `from` on.
    pub fn truncate(&mut self, from: Index) {
        let kept = self.0.iter().take_while(|known| known.index < from).count().max(1);
        self.0.truncate(kept);
    }

    /// Records that everything up to an entry is agreed. Returns the memberships that this ended.
    pub fn agree(&mut self, through: Index) -> Vec<Membership> {
        let ended = self.0.iter().skip(1).take_while(|known| known.index <= through).count();
        self.0.drain(..ended).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(nodes: &[u32]) -> BTreeSet<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    fn roster(voters: &[u32], learners: &[u32], witnesses: &[u32]) -> Roster {
        Roster { voters: nodes(voters), learners: nodes(learners), witnesses: nodes(witnesses) }
    }

    #[test]
    fn one_set_takes_over_from_another() {
        let born = Membership::initial(roster(&[1, 2, 3], &[], &[]));
        let wanted = roster(&[1, 2, 4], &[5], &[]);
        let preparing = born.prepare(wanted.clone(), Index(10));
        assert_eq!(
            (preparing.voters(), preparing.learners()),
            (&nodes(&[1, 2, 3]), &nodes(&[4, 5]))
        );
        assert_eq!(preparing.newcomers().collect::<Vec<_>>(), [NodeId(4)]);
        let joint = preparing.next(Index(11)).unwrap();
        assert!(joint.is_joint() && joint.is_voter(NodeId(3)) && joint.is_voter(NodeId(4)));
        assert_eq!(joint.check(&wanted), Err(ChangeError::UnderWay));
        let settled = joint.next(Index(12)).unwrap();
        assert!(settled.is_settled() && settled.roster() == wanted && !settled.contains(NodeId(3)));
        assert_eq!((settled.since(NodeId(4)), settled.since(NodeId(1))), (Index(10), Index(0)));
        assert_eq!(settled.next(Index(13)), None);
        let back = settled.prepare(roster(&[1, 2, 3], &[], &[]), Index(20));
        assert_eq!(back.since(NodeId(3)), Index(20), "another membership epoch");
        assert_eq!(settled.of_child().since(NodeId(4)), Index(0));
    }

    #[test]
    fn learners_come_and_go_without_a_vote() {
        let born = Membership::initial(roster(&[1, 2, 3], &[4], &[]));
        let settled = born.prepare(roster(&[1, 2, 3], &[5], &[]), Index(7)).next(Index(8)).unwrap();
        assert!(
            settled.is_settled() && settled.contains(NodeId(5)) && !settled.contains(NodeId(4))
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let born = Membership::initial(roster(&[1, 2, 3], &[4], &[]));
        let refused = |wanted: Roster| born.check(&wanted).unwrap_err();
        assert_eq!(refused(Roster::default()), ChangeError::NoVoter);
        assert_eq!(refused(roster(&[1], &[1], &[])), ChangeError::Twice(NodeId(1)));
        assert_eq!(refused(roster(&[1, 2, 5], &[6], &[6])), ChangeError::IdleWitness(NodeId(6)));
        assert_eq!(refused(roster(&[1, 5], &[], &[5])), ChangeError::WitnessesOutweigh);
        assert_eq!(refused(roster(&[1, 2, 3], &[], &[3])), ChangeError::OtherKind(NodeId(3)));
        assert_eq!(born.check(&roster(&[1, 2, 5], &[], &[5])), Ok(()));
    }

    #[test]
    fn a_membership_goes_with_the_entry_that_says_it() {
        let born = Membership::initial(roster(&[1, 2, 3], &[], &[]));
        let preparing = born.prepare(roster(&[1, 2, 4], &[], &[]), Index(5));
        let joint = preparing.next(Index(9)).unwrap();
        let mut known = Memberships::new(born.clone());
        known.push(preparing.clone());
        known.push(joint.clone());
        known.truncate(Index(9));
        assert_eq!(known.newest(), &preparing);
        known.push(joint.clone());
        assert_eq!(known.agree(Index(8)), [born]);
        assert_eq!((known.agreed(), known.newest()), (&preparing, &joint));
        known.truncate(Index(1));
        assert_eq!(known.newest(), &preparing, "an agreed membership stays");
    }
}
