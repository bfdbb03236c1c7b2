//! Membership changes, and the notice to nodes that are no members.
//!
//! The leader determines when the next step may be taken ([`Group::next_members`]), and its owner
//! takes it ([`Group::propose_members`]), because an entry may have to carry more than the group
//! knows of.

use super::{
    ChangeError, Entry, Event, Group, Index, Membership, Message, NotLeader, Payload, Progress,
    Role, Roster, Term,
};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, Outbox, Reading, sometimes, step};
use std::collections::{BTreeSet, VecDeque};

/// The number of entries that a newcomer may lack when it becomes a voter.
const BEHIND: u64 = 100;
/// A leading witness gives up after this many election timeouts if no other member has caught up.
const WITNESS_LEADS: u64 = 4;

impl Group {
    /// Returns the membership that is in effect, agreed or not.
    pub fn membership(&self) -> &Membership {
        self.memberships.newest()
    }

    /// Returns the newest agreed membership.
    pub fn agreed_members(&self) -> &Membership {
        self.memberships.agreed()
    }

    /// True if `since` is a node's present membership epoch. Votes and log of a former epoch of the
    /// node do not count, because it has forgotten them.
    pub(super) fn knows(&self, node: NodeId, since: Index) -> bool {
        self.membership().since(node) == since || broken(rules::STAYS_NOT_TOLD)
    }

    /// True for a witness: it keeps the log and no versions. That does not change during a
    /// membership epoch, so it is known before anything of the epoch is on disk.
    pub fn is_witness(&self) -> bool {
        self.witness
    }

    /// True if this member may stand for election: it votes in this membership epoch (not in a
    /// former one that its log names), or did before a membership that is not known to be agreed.
    /// It may be the only member that has that entry (Ongaro §4.2.2).
    pub(super) fn votes(&self) -> bool {
        let (me, same) =
            (self.config.me, |since| self.since == since || broken(rules::STAYS_NOT_TOLD));
        self.memberships.iter().any(|members| members.is_voter(me) && same(members.since(me)))
    }

    /// True if the membership epoch is on disk: only then a snapshot may be resumed.
    pub fn has_joined(&self) -> bool {
        self.joined && !self.gone
    }

    /// True if the membership is agreed and no change is under way.
    pub fn is_settled(&self) -> bool {
        self.membership().is_settled() && self.membership().index() <= self.commit
    }

    /// True if everything that all of these nodes have is agreed: they are a quorum of the present
    /// membership, or of one in the log when it was counted.
    pub fn are_enough(&self, nodes: &BTreeSet<NodeId>) -> bool {
        self.memberships.iter().any(|members| members.quorum().has(nodes))
    }

    /// Adds an entry to the log in memory. Its membership is in effect from now on.
    pub(super) fn add(&mut self, entry: Entry) {
        if let Some(members) = &entry.members {
            self.memberships.push((**members).clone());
        }
        self.log.push(entry);
    }

    /// Returns the first step of a change to these members; `None` if they are the members already,
    /// or a change to them is under way.
    pub fn change_members(&self, wanted: Roster) -> Result<Option<Membership>, ChangeError> {
        if !self.is_leader() {
            return Err(ChangeError::NotLeader);
        }
        let now = self.membership();
        if now.roster() == wanted {
            return Ok(None);
        }
        now.check(&wanted)?;
        if now.index() > self.commit {
            return Err(ChangeError::UnderWay);
        }
        Ok(Some(now.prepare(wanted, Index(self.log.last().0.0 + 1))))
    }

    /// Returns the next step of a change, if it may be taken now.
    pub fn next_members(&self) -> Option<Membership> {
        let Role::Leader { followers, leased_to, announced: true, transferring: None, .. } =
            &self.role
        else {
            return None;
        };
        let now = self.membership();
        let next =
            now.next(Index(self.log.last().0.0 + 1)).filter(|_| now.index() <= self.commit)?;
        if now.is_joint() {
            // The former voters may have granted a lease that still runs. The next voters must have
            // granted one that reaches as far.
            let promised = self.lease().is_some_and(|lease| lease.granted_until >= *leased_to);
            let stays = now.voters().contains(&self.config.me);
            return (stays && (promised || broken(rules::LEASE_LEFT_BEHIND))).then_some(next);
        }
        let has = |node: NodeId, entry: u64| {
            let told = |progress: &Progress| {
                progress.matched.0 >= entry && progress.snapshot.is_none() && progress.granted > 0
            };
            node == self.config.me || followers.get(&node).is_some_and(told)
        };
        // A former voter may be away. A quorum of the next voters must have received the entry, or
        // no member could lead: a node that was a voter at the group's creation may have no replica
        // yet.
        let able: BTreeSet<NodeId> =
            next.nodes().filter(|node| has(*node, now.index().0)).collect();
        let near = self.log.last().0.0.saturating_sub(BEHIND).max(now.index().0);
        (next.quorum().has(&able) && now.newcomers().all(|node| has(node, near))).then_some(next)
    }

    /// Adds a step to the log. [`Group::flush`] persists and sends it.
    pub fn propose_members(
        &mut self,
        now: Reading,
        members: Membership,
        payload: Payload,
        out: &mut Outbox<Group>,
    ) -> Result<(Term, Index), NotLeader> {
        let (alone, reaches) =
            (self.is_alone(), self.lease().map_or(0, |lease| lease.granted_until));
        let used = self.s_max.max(now.interval.latest);
        let Role::Leader { leased_to, .. } = &mut self.role else {
            return Err(NotLeader { leader: self.leader });
        };
        let index = Index(self.log.last().0.0 + 1);
        assert_eq!(members.index(), index, "a step is taken where it was planned");
        step!("leader: proposes other members");
        if members.is_joint() {
            // A sole voter's lease has no end: the largest used timestamp counts.
            *leased_to = if reaches == u64::MAX { used } else { reaches };
        }
        self.add(Entry { index, term: self.term, payload, members: Some(Box::new(members)) });
        self.follow_members();
        if alone {
            self.heartbeat(now, out); // A sole member sends no heartbeats before.
        }
        Ok((self.term, index))
    }

    /// Adjusts a leader's follower states to the members.
    pub(super) fn follow_members(&mut self) {
        let (last, me) = (self.log.last().0, self.config.me);
        let members = self.memberships.newest();
        let Role::Leader { followers, .. } = &mut self.role else { return };
        followers.retain(|node, progress| {
            members.contains(*node) && members.since(*node) == progress.since
        });
        for node in members.nodes().filter(|node| *node != me) {
            followers.entry(node).or_insert(Progress {
                next: Index(last.0 + 1),
                matched: Index(0),
                matched_before: Index(0),
                inflight: VecDeque::new(),
                answers_in_ns: None,
                probing: true,
                snapshot: None,
                pin: None,
                pin_bytes: 0,
                granted: 0,
                since: members.since(node),
            });
        }
    }

    /// True if a node may lead: it votes, will go on to, and keeps versions.
    pub(super) fn may_lead(&self, node: NodeId) -> bool {
        self.membership().voters().contains(&node) && !self.membership().is_witness(node)
    }

    /// Hands over leadership if this leader is leaving the group, or if it is a witness and a full
    /// member has all its entries.
    pub(super) fn pass_on(&mut self, now: Reading, out: &mut Outbox<Group>) {
        let Role::Leader { followers, transferring: None, began_ns, .. } = &self.role else {
            return;
        };
        let (me, last) = (self.config.me, self.log.last().0);
        if self.witness {
            let helped = followers
                .iter()
                .any(|(node, progress)| self.may_lead(*node) && progress.matched >= last);
            if helped {
                sometimes!("a witness hands over to a member with its entries");
                self.transfer_leadership(now, None, out);
            } else if now.boot_ns > began_ns + WITNESS_LEADS * self.config.election_timeout_ns {
                self.follow(now, None, out);
            }
        } else if !self.membership().voters().contains(&me)
            && self.membership().index() <= self.commit
        {
            sometimes!("a leader that leaves its group hands over");
            self.transfer_leadership(now, None, out);
        }
    }

    /// Applies agreed memberships: notifies removed nodes, and ends this member if it was removed.
    pub(super) fn on_members_agreed(&mut self, out: &mut Outbox<Group>) {
        let before = self.memberships.agree(self.commit);
        let (agreed, index) = (self.memberships.agreed(), self.commit);
        if !before.is_empty() && matches!(self.role, Role::Leader { .. }) {
            let gone =
                before.iter().flat_map(Membership::nodes).filter(|node| !agreed.contains(*node));
            gone.for_each(|node| out.send(self.address(node), self.removal()));
        }
        // A leader hands over before it ends.
        let leads = matches!(self.role, Role::Leader { .. });
        if !leads && index > self.since && !self.membership().contains(self.config.me) {
            self.end(index, out);
        }
    }

    /// Notifies a node that it is not a member, if that is agreed.
    pub(super) fn notify_removed(&self, node: NodeId, out: &mut Outbox<Group>) {
        let agreed = self.memberships.agreed();
        if agreed.voters().is_empty() {
            return; // The members are not known here.
        }
        if !agreed.contains(node) && !self.membership().contains(node) && self.commit > Index(0) {
            out.send(self.address(node), self.removal());
        }
    }

    fn removal(&self) -> Message {
        Message::Removed {
            index: self.commit,
            pinned_entries: self.pinned_entries.iter().copied().collect(),
            term: self.log.term(self.commit),
        }
    }

    /// Ends this member if its membership epoch is over as of an agreed entry, or never began.
    pub(super) fn on_removed(
        &mut self,
        (index, term): (Index, Option<Term>),
        pinned_entries: &[(Index, Term)],
        out: &mut Outbox<Group>,
    ) {
        if index >= self.since || self.was_not_added(term) {
            self.learn_agreed(pinned_entries, out);
            self.end(index, out);
        }
    }

    /// True if the entry that added this node is not agreed so far, and lies behind an agreed entry
    /// of this term, as of which the node is not a member:
    /// 1. If its term is earlier, it is never agreed: terms do not fall along the log. A deposed
    ///    leader appended it.
    /// 2. A member that does not have it has promised nothing that counts, and may end. If it was
    ///    added after all, its leader starts it again.
    ///
    /// A member that began from a copy waits until more is agreed: if its node crashed while it
    /// ends, its records would lack what the store had.
    fn was_not_added(&self, term: Option<Term>) -> bool {
        let is_older = |added| term.is_some_and(|agreed| added < agreed);
        self.commit < self.since
            && self.log.base().0 == Index(0)
            && self.log.term(self.since).is_none_or(is_older)
    }

    fn end(&mut self, index: Index, out: &mut Outbox<Group>) {
        if !self.gone {
            sometimes!("a member is removed from its group");
            step!("member: is removed");
            self.gone = true;
            out.act(Event::Removed { index });
        }
    }

    /// True if an append is meant for this node's present membership epoch. If it is for a later
    /// one, the node was removed and added again, and its state is not the one that the leader
    /// assumes: the member ends.
    pub(super) fn stays(&mut self, since: Index, out: &mut Outbox<Group>) -> bool {
        if self.since < since && !broken(rules::STAYS_NOT_TOLD) {
            self.end(Index(since.0 - 1), out);
            return false;
        }
        // The record of an epoch must be on disk before anything of the epoch is kept.
        self.joined && self.since == since || broken(rules::STAYS_NOT_TOLD)
    }
}
