//! How a leader brings its group from one membership to another, and how who is no member finds
//! out.
//!
//! The leader says when the next step may be taken ([`Group::next_members`]), and its owner takes
//! it ([`Group::propose_members`]): an entry may have to carry more than the group knows of.

use super::{
    ChangeError, Entry, Event, Group, Index, Membership, Message, NotLeader, Payload, Progress,
    Role, Roster, Term,
};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, Outbox, Reading, sometimes, step};
use std::collections::{BTreeSet, VecDeque};

/// Entries that a newcomer may lack when it becomes a voter.
const BEHIND: u64 = 100;
/// A witness that leads gives up after so many election timeouts, if nobody could be helped.
const WITNESS_LEADS: u64 = 4;

impl Group {
    /// Who is in the group, as far as this member's log says; agreed or not.
    pub fn membership(&self) -> &Membership {
        self.memberships.newest()
    }

    /// The same, as far as it is agreed.
    pub fn agreed_members(&self) -> &Membership {
        self.memberships.agreed()
    }

    /// Whether a node's membership is the stay that it speaks of. One that was removed and added
    /// again is another: what it has voted and has on disk was forgotten with the former.
    pub(super) fn knows(&self, node: NodeId, since: Index) -> bool {
        self.membership().since(node) == since || broken(rules::STAYS_NOT_TOLD)
    }

    /// Whether it keeps the log and no versions. That does not change during a stay, so it is known
    /// before anything of the stay is kept.
    pub fn is_witness(&self) -> bool {
        self.witness
    }

    /// Whether this member may stand for election: it votes in this stay (not in a former one of
    /// which it reads in the log), or did before something that is not known to be agreed. It may
    /// be the only one that has that (Ongaro §4.2.2).
    pub(super) fn votes(&self) -> bool {
        let (me, same) =
            (self.config.me, |since| self.since == since || broken(rules::STAYS_NOT_TOLD));
        self.memberships.iter().any(|members| members.is_voter(me) && same(members.since(me)))
    }

    /// Whether it is on disk which stay in the group this is: only then a copy may be gone on from.
    pub fn has_joined(&self) -> bool {
        self.joined && !self.gone
    }

    /// Whether what the log says of members is agreed, and is to stay.
    pub fn is_settled(&self) -> bool {
        self.membership().is_settled() && self.membership().index() <= self.commit
    }

    /// Whether what these nodes have is agreed: they are enough of those that count now, or did
    /// when it was counted.
    pub fn are_enough(&self, nodes: &BTreeSet<NodeId>) -> bool {
        self.memberships.iter().any(|members| members.quorum().has(nodes))
    }

    /// Adds an entry to the log in memory; from now on it counts what it says of members.
    pub(super) fn add(&mut self, entry: Entry) {
        if let Some(members) = &entry.members {
            self.memberships.push((**members).clone());
        }
        self.log.push(entry);
    }

    /// The first step towards other members; none if they are so already, or are on the way.
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

    /// The next step, if it may be taken now.
    pub fn next_members(&self) -> Option<Membership> {
        let Role::Leader { followers, leased_to, announced: true, abdicating: None, .. } =
            &self.role
        else {
            return None;
        };
        let now = self.membership();
        let next =
            now.next(Index(self.log.last().0.0 + 1)).filter(|_| now.index() <= self.commit)?;
        if now.is_joint() {
            // Who voted before may have granted a lease that still runs: so must have those who
            // vote next.
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
        // A voter of old may be away; enough of those who are to vote must not be, or nobody could
        // lead: a node that was a voter at the group's birth may have no member yet.
        let able: BTreeSet<NodeId> =
            next.nodes().into_iter().filter(|node| has(*node, now.index().0)).collect();
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
            // Who votes alone has no lease that ends; what counts is what was used of it.
            *leased_to = if reaches == u64::MAX { used } else { reaches };
        }
        self.add(Entry { index, term: self.term, payload, members: Some(Box::new(members)) });
        self.follow_members();
        if alone {
            self.heartbeat(now, out); // Nobody had to be told that it leads.
        }
        Ok((self.term, index))
    }

    /// A leader keeps track of whoever is a member.
    pub(super) fn follow_members(&mut self) {
        let (last, me) = (self.log.last().0, self.config.me);
        let members = self.memberships.newest();
        let Role::Leader { followers, .. } = &mut self.role else { return };
        followers.retain(|node, progress| {
            members.contains(*node) && members.since(*node) == progress.since
        });
        for node in members.nodes().into_iter().filter(|node| *node != me) {
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

    /// Whether a node may lead: it votes, will go on to, and has what it would serve.
    pub(super) fn may_lead(&self, node: NodeId) -> bool {
        self.membership().voters().contains(&node) && !self.membership().is_witness(node)
    }

    /// A leader that is not to lead for long hands over: one that leaves the group, and a witness
    /// as soon as somebody else has what it has.
    pub(super) fn pass_on(&mut self, now: Reading, out: &mut Outbox<Group>) {
        let Role::Leader { followers, abdicating: None, began_ns, .. } = &self.role else { return };
        let (me, last) = (self.config.me, self.log.last().0);
        if self.witness {
            let helped = followers
                .iter()
                .any(|(node, progress)| self.may_lead(*node) && progress.matched >= last);
            if helped {
                sometimes!("a witness hands over to whoever has what it has");
                self.abdicate(now, None, out);
            } else if now.boot_ns > began_ns + WITNESS_LEADS * self.config.election_timeout_ns {
                self.follow(now, None, out);
            }
        } else if !self.membership().voters().contains(&me)
            && self.membership().index() <= self.commit
        {
            sometimes!("a leader that leaves its group hands over");
            self.abdicate(now, None, out);
        }
    }

    /// What is agreed may have removed somebody.
    pub(super) fn on_members_agreed(&mut self, out: &mut Outbox<Group>) {
        let before = self.memberships.agree(self.commit);
        let (agreed, index) = (self.memberships.agreed(), self.commit);
        if !before.is_empty() && matches!(self.role, Role::Leader { .. }) {
            let gone =
                before.iter().flat_map(Membership::nodes).filter(|node| !agreed.contains(*node));
            gone.for_each(|node| {
                out.send(
                    self.address(node),
                    Message::Removed { index, landmarks: self.landmarks() },
                )
            });
        }
        // One that leads hands over before it goes.
        let leads = matches!(self.role, Role::Leader { .. });
        if !leads && index > self.since && !self.membership().contains(self.config.me) {
            self.on_removed(index, &[], out);
        }
    }

    /// Tells who asks and is no member that it is none, as far as is agreed.
    pub(super) fn tell_removed(&self, node: NodeId, out: &mut Outbox<Group>) {
        let agreed = self.memberships.agreed();
        if agreed.voters().is_empty() {
            return; // Nothing is known here of who is one.
        }
        if !agreed.contains(node) && !self.membership().contains(node) && self.commit > Index(0) {
            out.send(
                self.address(node),
                Message::Removed { index: self.commit, landmarks: self.landmarks() },
            );
        }
    }

    /// Somebody says that this is no member as of an entry: what came before this stay says nothing
    /// of it.
    pub(super) fn on_removed(
        &mut self,
        index: Index,
        landmarks: &[(Index, Term)],
        out: &mut Outbox<Group>,
    ) {
        if index > self.since {
            self.learn_agreed(landmarks, out);
            self.end(index, out);
        }
    }

    fn landmarks(&self) -> Vec<(Index, Term)> {
        self.landmarks.iter().copied().collect()
    }

    fn end(&mut self, index: Index, out: &mut Outbox<Group>) {
        if !self.gone {
            sometimes!("a member is removed from its group");
            step!("member: is removed");
            self.gone = true;
            out.act(Event::Removed { index });
        }
    }

    /// Whether an append is meant for this stay of this node in the group. If it is for a later
    /// one, it was removed and added again, and what it keeps is not what the leader takes it for.
    pub(super) fn stays(&mut self, since: Index, out: &mut Outbox<Group>) -> bool {
        if self.since < since && !broken(rules::STAYS_NOT_TOLD) {
            self.end(Index(since.0 - 1), out);
            return false;
        }
        // Nothing of a stay is kept before it is on disk which it is.
        self.joined && self.since == since || broken(rules::STAYS_NOT_TOLD)
    }
}
