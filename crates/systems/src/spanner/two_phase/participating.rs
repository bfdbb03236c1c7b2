//! The participant's side of two-phase commit: prepares, votes, and logs the outcome.

use super::{Decider, InDoubt};
use crate::spanner::participant::{Late, Pending};
use crate::spanner::records::{Agreed, Prepared, row_of_prepared};
use crate::spanner::rules;
use crate::spanner::schemas::Registered;
use crate::spanner::{Member, Message};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, sometimes, step};
use meridian_mvcc::{KeyRange, Write};
use meridian_txn::locking::{Ask, Between, Blind, Reply, TransactionId, Vote};
use meridian_txn::{Conflict, Lock};

impl<T: TimestampPolicy> Member<T> {
    /// Answers a repeated request to prepare, and votes again unless the transaction has ended.
    /// False if the attempt has not voted here.
    pub(in crate::spanner) fn has_voted(
        &mut self,
        from: Address,
        who: TransactionId,
        id: u64,
        decider: Decider,
        out: &mut Outbox<Member<T>>,
    ) -> bool {
        let vote = if let Some(doubt) = self.participant.prepared.get(&who) {
            Some(doubt.vote())
        } else if let Some(reader) = self.participant.readers.get(&who) {
            Some(Vote::Read { through: self.agreed, below: reader.below })
        } else if self.participant.outcomes.contains_key(&who) {
            None
        } else {
            return false;
        };
        sometimes!("a participant is asked again after it has voted");
        if let Some(vote) = vote {
            self.vote(who, decider, vote, out);
        }
        out.send(from, Message::Answer(Reply::Prepared { id }));
        true
    }

    pub(super) fn vote(
        &self,
        who: TransactionId,
        decider: Decider,
        vote: Vote,
        out: &mut Outbox<Member<T>>,
    ) {
        let to = self.seat(decider.seat.node, decider.seat.shard);
        out.send(to, Message::Between(self.ballot(who, (decider.term, decider.blind), vote)));
    }

    fn ballot(
        &self,
        transaction: TransactionId,
        (decides, blind): (u64, Option<Blind>),
        vote: Vote,
    ) -> Between {
        Between::Vote {
            transaction,
            shard: self.shard,
            vote,
            blind,
            decides,
            voted_in: self.group.term().0,
        }
    }

    /// Answers that the request is aborted. For a prepare, also votes no to the coordinator.
    pub(in crate::spanner) fn refuse(
        &self,
        pending: &Pending,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        let (who, id) = (pending.request.transaction, pending.request.id);
        if let Some(decider) = Decider::of(&pending.request.ask) {
            self.vote(who, Decider { blind: None, ..decider }, Vote::No { why: why.clone() }, out);
        }
        out.send(pending.from, Message::Answer(Reply::Aborted { id, why }));
    }

    /// Aborts a request whose turn to draw a timestamp has come. Tells the session, and the
    /// coordinator or the participants.
    pub(in crate::spanner) fn refuse_drawn(
        &mut self,
        now: Reading,
        mut pending: Pending,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        if let Some(votes) = pending.votes.take() {
            return self.abort_voted(now, pending, &votes, why, out);
        }
        let who = pending.request.transaction;
        if let Some(live) = self.participant.live.get_mut(&who) {
            live.doomed = Some(why.clone());
        }
        self.refuse(&pending, why, out);
        self.forget(now, who, out);
    }

    /// Queues an attempt that has its locks to be prepared, or to vote as a reader if it wrote
    /// nothing.
    pub(in crate::spanner) fn prepare(&mut self, pending: Pending, out: &mut Outbox<Member<T>>) {
        let Ask::Prepare { writes, coordinator, schema, .. } = &pending.request.ask else {
            unreachable!("only that is prepared")
        };
        let (who, coordinator, reads) =
            (pending.request.transaction, *coordinator, writes.is_empty() && schema.is_none());
        if let Some(why) = self.participant.locks.prepared(who) {
            self.forward_wound(who, coordinator.shard, why, out);
        }
        if reads {
            self.participant.would_vote.push(pending)
        } else {
            self.participant.ready.push_back(pending)
        }
    }

    /// Returns the prepare record to propose for an attempt that has its locks.
    pub(in crate::spanner) fn record_of(&self, pending: &Pending, at: Timestamp) -> Option<Agreed> {
        let Ask::Prepare { writes, coordinator, schema, blind, decides } = &pending.request.ask
        else {
            return None;
        };
        let who = pending.request.transaction;
        // Written keys are locked exclusively, and the record holds the writes anyway.
        let written = |range: &KeyRange| {
            range
                .as_point()
                .is_some_and(|key| writes.binary_search_by(|write| write.key.cmp(key)).is_ok())
        };
        let mut locks = self.participant.locks.held(who);
        locks.retain(|(range, _)| !written(range));
        if broken(rules::PREPARE_WITHOUT_READ_LOCKS) {
            locks.retain(|(_, lock)| *lock == Lock::Exclusive);
        }
        let age = pending.request.age;
        let (coordinator, writes) = (coordinator.shard, writes.clone());
        let below = self
            .participant
            .schemas
            .changes_from(who, &pending.request.planned)
            .map(|(from, _)| from);
        let changes = schema.as_ref().map(|change| (change.from, pending.versions()));
        let (blind, decides) = (*blind, *decides);
        let prepared =
            Prepared { at, age, coordinator, writes, locks, below, changes, blind, decides };
        Some(Agreed::Prepare { transaction: who, prepared })
    }

    /// Takes in a prepare record that is agreed, and returns its row. The leader votes.
    pub(in crate::spanner) fn on_prepare_agreed(
        &mut self,
        who: TransactionId,
        record: Prepared,
        pending: Option<Pending>,
        out: &mut Outbox<Member<T>>,
    ) -> Write {
        let row = row_of_prepared(self.shard, who, Some(&record));
        if let Some(changes) = &record.changes {
            self.participant.schemas.registered.insert(who, Registered::new(changes));
        }
        let mut doubt = InDoubt::new(record);
        if let Some(Pending { from, request, .. }) = pending
            && let Some(Decider { seat, term, blind }) = Decider::of(&request.ask)
        {
            step!("participant: votes");
            doubt.coordinator = Some(seat.node);
            // The vote leaves after `Readable` says that a transaction is prepared here: a session
            // that reads without asking the leader must not miss its commit.
            let vote = self.ballot(who, (term, blind), doubt.vote());
            self.participant.votes.push((self.seat(seat.node, seat.shard), Message::Between(vote)));
            out.send(from, Message::Answer(Reply::Prepared { id: request.id }));
        } else {
            step!("member: another's prepare record is agreed");
        }
        self.participant.prepared.insert(who, doubt);
        row
    }

    /// Takes in an outcome that is agreed. Returns the timestamp and the writes to install.
    pub(in crate::spanner) fn on_outcome_agreed(
        &mut self,
        who: TransactionId,
        at: Option<Timestamp>,
        out: &mut Outbox<Member<T>>,
    ) -> Option<(Timestamp, Vec<Write>)> {
        // An outcome that two leaders proposed counts once.
        let doubt = self.participant.prepared.remove(&who)?;
        let ends_at = doubt.ends_at(at);
        let InDoubt { record, told_by, .. } = doubt;
        self.agreed = self.agreed.max(ends_at);
        step!("participant: the outcome is agreed");
        let keyed = at.is_some() && self.serving;
        let keys = if keyed {
            record.writes.iter().map(|write| write.key.clone()).collect()
        } else {
            Vec::new()
        };
        let mut writes = if at.is_some() { record.writes } else { Vec::new() };
        if let (Some(at), Some((_, versions))) = (at, &record.changes) {
            writes.extend(self.on_schemas_agreed(at, versions));
        }
        writes.push(row_of_prepared(self.shard, who, None));
        if let Some(to) = told_by {
            let ended = Between::Ended { transaction: who, shard: self.shard };
            out.send(to, Message::Between(ended));
        }
        self.participant.live.remove(&who);
        if let Some(at) = at {
            self.participant.late.push(Late { at, keys, schema: record.changes.is_some() });
            if !self.serving {
                self.forget_keys();
            }
            self.issuer.observe(at);
        }
        Some((ends_at, writes))
    }

    /// Forgets the keys of out-of-order commits, and keeps only the newest timestamp: followers
    /// serve no reads that need the keys.
    pub(in crate::spanner) fn forget_keys(&mut self) {
        let newest = self.participant.late.iter().map(|late| late.at).max();
        self.participant.late =
            newest.map(|at| Late { at, keys: Vec::new(), schema: true }).into_iter().collect();
    }

    /// Restores the locks of prepared transactions when a leader term begins (invariant 1).
    pub(in crate::spanner) fn take_up_prepared(&mut self, now: Reading) {
        for (who, doubt) in &mut self.participant.prepared {
            (doubt.ending, doubt.told_by, doubt.coordinator) = (false, None, None);
            (doubt.asked, doubt.rests) = (0, 1);
            let Prepared { age, locks, writes, .. } = &doubt.record;
            let written =
                writes.iter().map(|write| (KeyRange::point(write.key.clone()), Lock::Exclusive));
            self.participant.locks.restore(
                now.boot_ns,
                *who,
                *age,
                locks.iter().cloned().chain(written),
            );
        }
    }
}
