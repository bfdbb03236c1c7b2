//! Records that a member writes before it answers: its vote, its entries, and its lease promise.

use super::{Grant, Group, Index, Message, Record, Role, Waiting};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, Outbox, Reading};

/// The longest lease, in nanoseconds: a group whose leader failed has no leader for as long.
pub(super) const LONGEST_LEASE_NS: u64 = 600_000_000_000;

impl Group {
    pub(super) fn hard_state(&self, grant: Option<Grant>) -> Record {
        Record::HardState { term: self.term, voted_for: self.voted_for, grant }
    }

    pub(super) fn persist_hard_state(
        &mut self,
        vote_reply: Option<NodeId>,
        out: &mut Outbox<Group>,
    ) {
        let position = out.persist(self.hard_state(self.written_grant));
        self.waiting.push_back((
            position,
            Waiting::HardState { term: self.term, grant: self.written_grant, vote_reply },
        ));
    }

    pub(super) fn persist_entries(&mut self, out: &mut Outbox<Group>) {
        let (last, term) = self.log.last();
        if self.persisted >= last {
            return;
        }
        let entries = self.log.from(Index(self.persisted.0 + 1), usize::MAX);
        self.persisted = last;
        let position = out.persist(Record::Append { entries });
        self.waiting.push_back((position, Waiting::Entries(last, term)));
    }

    /// Promises a lease to a leader, and persists the promise. False if the member has promised one
    /// to another member, or does not know the time.
    pub(super) fn promise(
        &mut self,
        now: Reading,
        to: NodeId,
        lease_ns: u64,
        out: &mut Outbox<Group>,
    ) -> bool {
        self.shorten_promise(now);
        if self.promised_to_another(now, to) || lease_ns > LONGEST_LEASE_NS {
            return false;
        }
        let until = now.interval.latest.saturating_add(lease_ns);
        let until =
            self.grant.filter(|grant| grant.to == to).map_or(until, |grant| grant.until.max(until));
        self.grant = Some(Grant { to, until, lease_ns });
        let covers = |on_disk: &Option<Grant>| {
            on_disk.is_some_and(|grant| grant.to == to && grant.until >= until)
        };
        if !covers(&self.written_grant) {
            self.written_grant =
                Some(Grant { to, until: until.saturating_add(lease_ns), lease_ns });
            if broken(rules::PROMISE_NOT_LOGGED) {
                self.durable_grant = self.written_grant;
            } else {
                self.persist_hard_state(None, out);
            }
        }
        true
    }

    /// Acknowledges to the leader what is on disk here.
    pub(super) fn acknowledge(&mut self, out: &mut Outbox<Group>) {
        let (Role::Follower, Some(leader)) = (&self.role, self.leader) else { return };
        let covered = self.grant.is_some_and(|grant| {
            grant.to == leader
                && self
                    .durable_grant
                    .is_some_and(|disk| disk.to == leader && disk.until >= grant.until)
        });
        let granted = if covered { self.ungranted.take() } else { None };
        let durable = if broken(rules::ACK_BEFORE_DURABLE) { self.matched } else { self.durable };
        let matched = self.matched.min(durable);
        let (term, since) = (self.term, self.since);
        out.send(self.address(leader), Message::Appended { term, matched, granted, since });
    }
}
