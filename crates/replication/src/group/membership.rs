//! Who is in a group, and how it becomes others (Ongaro 2014, §4.3).
//!
//! ```text
//!   settled ── wanted ──▶ preparing: newcomers learn ── all have caught up ──▶ joint: both sets vote ──▶ settled
//! ```

use super::{Index, Stay};
use crate::quorum::Quorum;
use meridian_machine::NodeId;
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Who is to be in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Roster {
    /// Whose votes count.
    #[n(0)]
    pub voters: BTreeSet<NodeId>,
    /// Who is sent everything and has no vote.
    #[n(1)]
    pub learners: BTreeSet<NodeId>,
    /// Voters that keep the log and no versions.
    #[n(2)]
    pub witnesses: BTreeSet<NodeId>,
}

impl Roster {
    /// These voters and nobody else.
    pub fn voters(nodes: impl IntoIterator<Item = NodeId>) -> Roster {
        Roster { voters: nodes.into_iter().collect(), ..Roster::default() }
    }

    /// Everybody in it.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        self.voters.union(&self.learners).copied().collect()
    }
}

/// Why members are not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// Ask the leader.
    NotLeader,
    /// One set of voters is taking over from another.
    UnderWay,
    /// Nobody would vote.
    NoVoter,
    /// A node would both vote and learn.
    Twice(NodeId),
    /// A witness has to vote.
    IdleWitness(NodeId),
    /// Half of the voters or more would keep no versions.
    WitnessesOutweigh,
    /// A member that stores versions becomes one that does not, or the other way round: it has to
    /// be removed first.
    OtherKind(NodeId),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::NotLeader => f.write_str("only the leader changes members"),
            ChangeError::UnderWay => {
                f.write_str("another change of members is under way: try again when it has ended")
            }
            ChangeError::NoVoter => f.write_str("a group needs a voter"),
            ChangeError::Twice(node) => {
                write!(f, "node {} cannot be a voter and a learner", node.0)
            }
            ChangeError::IdleWitness(node) => {
                write!(f, "node {} is to be a witness: witnesses are voters", node.0)
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

/// Who is in a group. Nobody in it is nobody that a member knows of: one that is to be told
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Membership {
    /// The entry that says so; 0 at the group's birth.
    #[n(0)]
    index: Index,
    #[n(1)]
    voters: BTreeSet<NodeId>,
    /// Joint: from whom the voters take over.
    #[n(2)]
    outgoing: BTreeSet<NodeId>,
    #[n(3)]
    learners: BTreeSet<NodeId>,
    #[n(4)]
    witnesses: BTreeSet<NodeId>,
    /// What it is to become.
    #[n(5)]
    wanted: Option<Roster>,
    /// The stays that began after the group's birth: the entry that made the node a member.
    #[n(6)]
    since: BTreeMap<NodeId, Index>,
}

impl Membership {
    /// That of a new group.
    pub fn at_birth(roster: Roster) -> Membership {
        let Roster { voters, learners, witnesses } = roster;
        Membership { voters, learners, witnesses, ..Membership::default() }
    }

    /// The entry that says so; 0 at the group's birth.
    pub fn index(&self) -> Index {
        self.index
    }

    /// Whose votes count, as soon as nobody takes over from anybody.
    pub fn voters(&self) -> &BTreeSet<NodeId> {
        &self.voters
    }

    /// Who is sent everything and has no vote.
    pub fn learners(&self) -> &BTreeSet<NodeId> {
        &self.learners
    }

    /// Everybody in it.
    pub fn nodes(&self) -> BTreeSet<NodeId> {
        let voters = self.voters.union(&self.outgoing).copied();
        voters.chain(self.learners.iter().copied()).collect()
    }

    /// Whether a node is in it.
    pub fn contains(&self, node: NodeId) -> bool {
        self.is_voter(node) || self.learners.contains(&node)
    }

    /// Whether a node's vote counts.
    pub fn is_voter(&self, node: NodeId) -> bool {
        self.voters.contains(&node) || self.outgoing.contains(&node)
    }

    /// Whether a node keeps the log and no versions.
    pub fn is_witness(&self, node: NodeId) -> bool {
        self.witnesses.contains(&node)
    }

    /// Whether one set of voters takes over from another.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether it stays as it is until somebody wants something else.
    pub fn is_settled(&self) -> bool {
        !self.is_joint() && self.wanted.is_none()
    }

    /// What it is to become, or is.
    pub fn roster(&self) -> Roster {
        let Membership { voters, learners, witnesses, .. } = self.clone();
        self.wanted.clone().unwrap_or(Roster { voters, learners, witnesses })
    }

    /// Which entry made a node a member; 0 for those at birth. Two stays of one node differ in it.
    pub fn since(&self, node: NodeId) -> Index {
        self.since.get(&node).copied().unwrap_or_default()
    }

    /// How a node is a member, if it is one.
    pub fn stay(&self, node: NodeId) -> Stay {
        Stay { since: self.since(node), witness: self.is_witness(node) }
    }

    /// Who is enough.
    pub(super) fn quorum(&self) -> Quorum<'_> {
        Quorum::of(&self.voters, &self.outgoing)
    }

    /// The same members in another group, which begins with them.
    pub fn of_child(&self) -> Membership {
        Membership::at_birth(self.roster())
    }

    /// Whether members may become these.
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

    /// Newcomers begin to learn.
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

    /// What comes after everybody has caught up, and after what comes then is agreed.
    pub(super) fn next(&self, index: Index) -> Option<Membership> {
        let wanted = self.wanted.clone()?;
        if self.is_joint() || wanted.voters == self.voters {
            let mut settled =
                Membership { index, since: self.since.clone(), ..Membership::at_birth(wanted) };
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

    /// The newcomers that are to vote.
    pub(super) fn newcomers(&self) -> impl Iterator<Item = NodeId> {
        let wanted = self.wanted.iter().flat_map(|wanted| wanted.voters.iter().copied());
        wanted.filter(|node| !self.voters.contains(node))
    }
}

/// The memberships in a log: the newest that is agreed, and those after it.
///
/// Invariant: there is one at least, and indexes grow.
#[derive(Clone, Debug)]
pub(super) struct Memberships(Vec<Membership>);

impl Memberships {
    pub fn new(agreed: Membership) -> Memberships {
        Memberships(vec![agreed])
    }

    /// The one that counts.
    pub fn newest(&self) -> &Membership {
        self.0.last().expect("invariant: there is one")
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Membership> {
        self.0.iter()
    }

    /// The newest that is agreed.
    pub fn agreed(&self) -> &Membership {
        &self.0[0]
    }

    /// The log has another one.
    pub fn push(&mut self, membership: Membership) {
        if membership.index > self.newest().index {
            self.0.push(membership);
        }
    }

    /// The log is cut before an entry.
    pub fn truncate(&mut self, from: Index) {
        let kept = self.0.iter().take_while(|known| known.index < from).count().max(1);
        self.0.truncate(kept);
    }

    /// Everything up to an entry is agreed; says which memberships ended with that.
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
        let born = Membership::at_birth(roster(&[1, 2, 3], &[], &[]));
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
        assert_eq!(back.since(NodeId(3)), Index(20), "another stay");
        assert_eq!(settled.of_child().since(NodeId(4)), Index(0));
    }

    #[test]
    fn learners_come_and_go_without_a_vote() {
        let born = Membership::at_birth(roster(&[1, 2, 3], &[4], &[]));
        let settled = born.prepare(roster(&[1, 2, 3], &[5], &[]), Index(7)).next(Index(8)).unwrap();
        assert!(
            settled.is_settled() && settled.contains(NodeId(5)) && !settled.contains(NodeId(4))
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let born = Membership::at_birth(roster(&[1, 2, 3], &[4], &[]));
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
        let born = Membership::at_birth(roster(&[1, 2, 3], &[], &[]));
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
        assert_eq!(known.newest(), &preparing, "what is agreed stays");
    }
}
