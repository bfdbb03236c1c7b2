//! Leadership: pre-vote, votes, leases, and giving up.

use super::{Event, Group, Index, Message, Payload, Role, Term, Timer};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{Health, NodeId, Outbox, Reading, sometimes, step};
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};

impl Group {
    /// True if the group never had a leader, as far as this member knows: then elections begin
    /// sooner.
    pub(super) fn is_new(&self) -> bool {
        self.term == Term(0) && self.leader.is_none()
    }

    pub(super) fn arm_election(&mut self, now: Reading, out: &mut Outbox<Group>) {
        let least = self.config.election_timeout_ns / if self.is_new() { 8 } else { 1 };
        // A witness serves no reads, so it lets other members stand first.
        let least = least * if self.witness { 2 } else { 1 };
        let patience = least + self.rng.random_range(0..=least);
        self.quiescent = false;
        out.arm(Timer::Election, now.boot_ns + patience);
    }

    /// True if a promise to another member forbids a vote for this candidate (Trap A.5-3).
    pub(super) fn promised_to_another(&self, now: Reading, candidate: NodeId) -> bool {
        now.health != Health::Good
            || !broken(rules::LEASES_OVERLAP)
                && self
                    .grant
                    .is_some_and(|grant| grant.to != candidate && !now.interval.after(grant.until))
    }

    pub(super) fn has_live_leader(&self, now: Reading) -> bool {
        matches!(self.role, Role::Leader { .. })
            || self
                .heard_leader_at
                .is_some_and(|at| now.boot_ns < at + self.config.election_timeout_ns)
    }

    pub(super) fn up_to_date(&self, last_index: Index, last_term: Term) -> bool {
        let (own_index, own_term) = self.log.last();
        broken(rules::STALE_LOG_ELECTED) || (last_term, last_index) >= (own_term, own_index)
    }

    pub(super) fn campaign(&mut self, now: Reading, forced: bool, out: &mut Outbox<Group>) {
        self.arm_election(now, out);
        if self.promised_to_another(now, self.config.me) {
            return;
        }
        self.leader = None;
        let ((last_index, last_term), term) = (self.log.last(), Term(self.term.0 + 1));
        let asked_at = now.interval.earliest;
        let ask = |membership_epoch| Message::PreVote {
            term,
            last_index,
            last_term,
            membership_epoch,
            asked_at,
        };
        if !self.votes() {
            // This member may have been removed: every node is asked, not only the voters of its
            // log.
            let asked = self.config.nodes.iter().copied().filter(|node| *node != self.config.me);
            asked.for_each(|node| out.send(self.address(node), ask(None)));
            return;
        }
        let electors: Vec<NodeId> = self.electors().collect();
        if !electors.is_empty() && !forced {
            let again = matches!(self.role, Role::PreCandidate { .. });
            self.role = Role::PreCandidate { votes: BTreeSet::from([self.config.me]) };
            let membership_epoch = |node| Some(self.membership().membership_epoch(node));
            electors
                .iter()
                .for_each(|node| out.send(self.address(*node), ask(membership_epoch(*node))));
            if again {
                // The voters in its log may be members no more, and neither may this one. A present
                // member answers so.
                sometimes!(
                    "a candidate without an answer asks nodes that are no electors in its log"
                );
                let others = self.config.nodes.iter().filter(|node| **node != self.config.me);
                let others = others.filter(|node| !electors.contains(node));
                others.for_each(|node| out.send(self.address(*node), ask(None)));
            }
            return;
        }
        self.stand(now, out);
    }

    /// Begins a term as a candidate; its own vote counts when it is on disk.
    pub(super) fn stand(&mut self, now: Reading, out: &mut Outbox<Group>) {
        self.term.0 += 1;
        self.voted_for = Some(self.config.me);
        step!("candidate: asks for votes");
        self.role = Role::Candidate { votes: BTreeSet::new() };
        self.persist_hard_state(Some(self.config.me), out);
        let (last_index, last_term) = self.log.last();
        for node in self.electors() {
            let (term, asked_at) = (self.term, now.interval.earliest);
            out.send(self.address(node), Message::Vote { term, last_index, last_term, asked_at });
        }
        self.arm_election(now, out);
    }

    pub(super) fn lead(&mut self, now: Reading, out: &mut Outbox<Group>) {
        let last = self.log.last().0;
        if last > self.commit {
            sometimes!(
                "a new leader has entries of which it does not know whether they are agreed"
            );
        }
        step!("candidate: is elected");
        let (followers, first) = (BTreeMap::new(), Index(last.0 + 1));
        let (announced, transferring, leased_to, began_ns) = (false, None, 0, now.boot_ns);
        let (quiescent, woken_ns) = (false, 0);
        self.role = Role::Leader {
            followers,
            first,
            announced,
            transferring,
            leased_to,
            began_ns,
            quiescent,
            woken_ns,
        };
        self.follow_members();
        self.leader = Some(self.config.me);
        self.s_max = 0;
        self.propose(Payload::default()).expect("a leader may propose");
        out.disarm(Timer::Election);
        self.persist_entries(out);
        self.heartbeat(now, out);
    }

    pub(super) fn heartbeat(&mut self, now: Reading, out: &mut Outbox<Group>) {
        if !matches!(self.role, Role::Leader { quiescent: false, .. }) || self.is_alone() {
            return;
        }
        out.arm(Timer::Heartbeat, now.boot_ns + self.config.heartbeat_ns);
        self.promise(now, self.config.me, self.config.lease_ns, out);
        let lapsed = self.lease().is_some_and(|lease| lease.granted_until <= now.interval.earliest);
        let Role::Leader { followers, announced, woken_ns, .. } = &mut self.role else { return };
        // A leader that was quiescent first waits for answers.
        let lapsed = lapsed && now.boot_ns >= *woken_ns + self.config.election_timeout_ns;
        let fenced = now.health != Health::Good;
        if *announced && (lapsed || fenced) {
            // No quorum answers, or the time is not known: the followers may elect another leader.
            if fenced {
                sometimes!("a leader gives up because it does not know the time");
            } else {
                sometimes!("a leader gives up because its lease has lapsed");
            }
            self.follow(now, None, out);
            return;
        }
        for progress in followers.values_mut() {
            if !progress.inflight.is_empty() && progress.matched == progress.matched_before {
                progress.inflight.clear();
                progress.probing = true;
                progress.next = Index(progress.matched.0 + 1).max(Index(1));
            }
            progress.matched_before = progress.matched;
        }
        self.send_appends(now, true, out);
        self.announce(now, out);
        self.pass_on(now, out);
    }

    /// Emits `BecameLeader` once: the first entry of the term is committed, and a lease is held.
    pub(super) fn announce(&mut self, now: Reading, out: &mut Outbox<Group>) {
        let held = self.lease().is_some_and(|lease| lease.granted_until > now.interval.latest);
        let (commit, term, serves) = (self.commit, self.term, !self.witness);
        if let Role::Leader { first, announced, .. } = &mut self.role
            && !*announced
            && held
            && serves
            && commit >= *first
        {
            *announced = true;
            out.act(Event::BecameLeader { term });
        }
    }

    pub(super) fn follow(&mut self, now: Reading, leader: Option<NodeId>, out: &mut Outbox<Group>) {
        if let Role::Leader { announced, .. } = self.role {
            out.disarm(Timer::Heartbeat);
            out.disarm(Timer::TransferLeadership);
            if announced {
                out.act(Event::LostLeadership { term: self.term });
            }
        }
        self.role = Role::Follower;
        self.leader = leader;
        self.arm_election(now, out);
    }

    pub(super) fn enter(&mut self, now: Reading, term: Term, out: &mut Outbox<Group>) {
        self.follow(now, None, out);
        self.term = term;
        self.voted_for = None;
        self.matched = Index(0);
        self.ungranted = None;
        self.persist_hard_state(None, out);
    }
}
