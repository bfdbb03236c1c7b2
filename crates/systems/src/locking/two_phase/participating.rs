//! The participant's side of two-phase commit: prepares, votes, and logs the outcome.

use crate::locking::participant::{OutOfOrderCommit, Pending};
use crate::locking::records::{Prepared, TransactionCommand, row_of_prepared};
use crate::locking::rules;
use crate::locking::schemas::Registered;
use crate::locking::{Member, Message};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, sometimes, step};
use meridian_mvcc::{KeyRange, Write};
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::{RequestBody, Response};
use meridian_txn::two_phase::{Decider, EndedTxn, ParticipantMessage, PrepareRecord, Vote};
use meridian_txn::{Conflict, Lock};

impl Member {
    /// Answers a repeated request to prepare, and votes again unless the transaction has ended.
    /// False if the attempt has not voted here.
    pub(in crate::locking) fn has_voted(
        &mut self,
        from: Address,
        txn: TransactionId,
        id: u64,
        decider: Decider,
        out: &mut Outbox<Member>,
    ) -> bool {
        let two_phase = &self.participant.two_phase;
        let vote = two_phase.vote_of(txn, self.agreed);
        if vote.is_none() && !two_phase.outcomes.contains(txn) {
            return false;
        }
        sometimes!("a participant is asked again after it has voted");
        if let Some(vote) = vote {
            self.vote(txn, decider, vote, out);
        }
        out.send(from, Message::Response(Response::Prepared { id }));
        true
    }

    pub(super) fn vote(
        &self,
        txn: TransactionId,
        decider: Decider,
        vote: Vote,
        out: &mut Outbox<Member>,
    ) {
        let vote = self.ballot(txn, decider, vote);
        out.send(self.replica_address(decider.node, decider.shard), vote);
    }

    fn ballot(&self, txn: TransactionId, decider: Decider, vote: Vote) -> Message {
        Message::Participant(decider.message(txn, self.shard, vote, self.group.term().0))
    }

    /// Answers that the request is aborted. For a prepare, also votes no to the coordinator.
    pub(in crate::locking) fn refuse(
        &self,
        pending: &Pending,
        why: Conflict,
        out: &mut Outbox<Member>,
    ) {
        let (txn, id) = (pending.request.transaction, pending.request.id);
        if let Some(decider) = pending.request.body.decider() {
            self.vote(
                txn,
                Decider { one_shot: None, ..decider },
                Vote::No { why: why.clone() },
                out,
            );
        }
        out.send(pending.from, Message::Response(Response::Aborted { id, why }));
    }

    /// Aborts a request whose turn to draw a timestamp has come. Tells the session, and the
    /// coordinator or the participants.
    pub(in crate::locking) fn refuse_drawn(
        &mut self,
        now: Reading,
        mut pending: Pending,
        why: Conflict,
        out: &mut Outbox<Member>,
    ) {
        if let Some(votes) = pending.votes.take() {
            return self.abort_voted(now, pending, &votes, why, out);
        }
        let txn = pending.request.transaction;
        if let Some(active) = self.participant.active.get_mut(&txn) {
            active.aborted = Some(why.clone());
        }
        self.refuse(&pending, why, out);
        self.forget(now, txn, out);
    }

    /// Queues an attempt that has its locks to be prepared, or to vote as a reader if it wrote
    /// nothing.
    pub(in crate::locking) fn prepare(&mut self, pending: Pending, out: &mut Outbox<Member>) {
        let RequestBody::Prepare { writes, coordinator, schema, .. } = &pending.request.body else {
            unreachable!("only that is prepared")
        };
        let (txn, coordinator, reads) =
            (pending.request.transaction, *coordinator, writes.is_empty() && schema.is_none());
        if let Some(why) = self.participant.locks.prepared(txn) {
            self.forward_wound(txn, coordinator.shard, why, out);
        }
        if reads {
            self.participant.two_phase.readers.waiting.push(pending)
        } else {
            self.participant.ready.push_back(pending)
        }
    }

    /// Returns the prepare record to propose for an attempt that has its locks.
    pub(in crate::locking) fn record_of(
        &self,
        pending: &Pending,
        at: Timestamp,
    ) -> Option<TransactionCommand> {
        let RequestBody::Prepare { writes, coordinator, schema, one_shot, decides } =
            &pending.request.body
        else {
            return None;
        };
        let txn = pending.request.transaction;
        // Written keys are locked exclusively, and the record holds the writes anyway.
        let written = |range: &KeyRange| {
            range
                .as_point()
                .is_some_and(|key| writes.binary_search_by(|write| write.key.cmp(key)).is_ok())
        };
        let mut locks = self.participant.locks.held(txn);
        locks.retain(|(range, _)| !written(range));
        if broken(rules::PREPARE_WITHOUT_READ_LOCKS) {
            locks.retain(|(_, lock)| *lock == Lock::Exclusive);
        }
        let age = pending.request.age;
        let (coordinator, writes) = (coordinator.shard, writes.clone());
        let below = self
            .participant
            .schemas
            .changes_from(txn, &pending.request.planned)
            .map(|(from, _)| from);
        let changes = schema.as_ref().map(|change| (change.from, pending.versions()));
        let (one_shot, decides) = (*one_shot, *decides);
        let prepared =
            Prepared { at, age, coordinator, writes, locks, below, changes, one_shot, decides };
        Some(TransactionCommand::Prepare { transaction: txn, prepared })
    }

    /// Takes in a prepare record that is agreed, and returns its row. The leader votes.
    pub(in crate::locking) fn on_prepare_agreed(
        &mut self,
        txn: TransactionId,
        record: Prepared,
        pending: Option<Pending>,
        out: &mut Outbox<Member>,
    ) -> Write {
        let row = row_of_prepared(self.shard, txn, Some(&record));
        if let Some(changes) = &record.changes {
            self.participant.schemas.registered.insert(txn, Registered::new(changes));
        }
        let mut coordinator = None;
        if let Some(Pending { from, request, .. }) = pending
            && let Some(decider) = request.body.decider()
        {
            step!("participant: votes");
            coordinator = Some(decider.node);
            // The vote leaves after `ReadLease` says that a transaction is prepared here: a session
            // that reads without asking the leader must not miss its commit.
            let to = self.replica_address(decider.node, decider.shard);
            self.participant.votes.push((to, self.ballot(txn, decider, record.vote())));
            out.send(from, Message::Response(Response::Prepared { id: request.id }));
        } else {
            step!("member: another's prepare record is agreed");
        }
        self.participant.two_phase.prepared.prepare(txn, record, coordinator);
        row
    }

    /// Takes in an outcome that is agreed. Returns the timestamp and the writes to install.
    pub(in crate::locking) fn on_outcome_agreed(
        &mut self,
        txn: TransactionId,
        at: Option<Timestamp>,
        out: &mut Outbox<Member>,
    ) -> Option<(Timestamp, Vec<Write>)> {
        // An outcome that two leaders proposed counts once.
        let EndedTxn { record, at: ends_at, told_by } =
            self.participant.two_phase.prepared.end(txn, at)?;
        self.agreed = self.agreed.max(ends_at);
        step!("participant: the outcome is agreed");
        let keyed = at.is_some() && self.serving;
        let keys = if keyed {
            record.writes.iter().map(|write| write.key.clone()).collect()
        } else {
            Vec::new()
        };
        let mut writes = if at.is_some() { record.writes } else { Vec::new() };
        if let Some(at) = at {
            self.remember_writes(txn, &writes, at);
        }
        if let (Some(at), Some((_, versions))) = (at, &record.changes) {
            writes.extend(self.on_schemas_agreed(at, versions));
        }
        writes.push(row_of_prepared(self.shard, txn, None));
        if let Some(to) = told_by {
            let ended = ParticipantMessage::Ended { transaction: txn, shard: self.shard };
            out.send(to, Message::Participant(ended));
        }
        self.participant.active.remove(&txn);
        if let Some(at) = at {
            self.participant.late.push(OutOfOrderCommit {
                at,
                keys,
                schema: record.changes.is_some(),
            });
            if !self.serving {
                self.forget_keys();
            }
            self.issuer.observe(at);
        }
        Some((ends_at, writes))
    }

    /// Forgets the keys of out-of-order commits, and keeps only the newest timestamp: followers
    /// serve no reads that need the keys.
    pub(in crate::locking) fn forget_keys(&mut self) {
        let newest = self.participant.late.iter().map(|late| late.at).max();
        self.participant.late = newest
            .map(|at| OutOfOrderCommit { at, keys: Vec::new(), schema: true })
            .into_iter()
            .collect();
    }

    /// Restores the locks of prepared transactions when a leader term begins (invariant 1).
    pub(in crate::locking) fn take_up_prepared(&mut self, now: Reading) {
        let this = &mut self.participant;
        this.two_phase.prepared.take_up();
        for (txn, Prepared { age, locks, writes, .. }) in this.two_phase.prepared.iter() {
            let written =
                writes.iter().map(|write| (KeyRange::point(write.key.clone()), Lock::Exclusive));
            this.locks.restore(now.boot_ns, txn, *age, locks.iter().cloned().chain(written));
        }
    }
}
