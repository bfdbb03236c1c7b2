//! Messages between leaders of different shards about one transaction, and their repetition.

use super::{Ballot, Inquiry};
use crate::locking::records::TransactionCommand;
use crate::locking::rules;
use crate::locking::{Member, Message};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Outbox, ShardId, sometimes, step};
use meridian_txn::Conflict;
use meridian_txn::locking::{
    OneShot, ParticipantMessage, RequestBody, TransactionId, Verdict, Vote,
};

impl<T: TimestampPolicy> Member<T> {
    pub(in crate::locking) fn on_participant_message(
        &mut self,
        now: Reading,
        from: Address,
        between: ParticipantMessage,
        out: &mut Outbox<Member<T>>,
    ) {
        match between {
            ParticipantMessage::Vote { transaction, shard, vote, one_shot, decides, voted_in } => {
                let reads = matches!(vote, Vote::Read { .. });
                let ballot = Ballot { shard, node: from.node, term: voted_in, vote };
                self.on_vote(
                    now,
                    from,
                    Inquiry { transaction, one_shot, decides, voted_in, reads },
                    ballot,
                    out,
                );
            }
            ParticipantMessage::Decided { transaction: txn, at, voted_in } => {
                self.on_decided(now, from, txn, (at, voted_in), out)
            }
            ParticipantMessage::Undecided { transaction } => self.on_undecided(transaction),
            ParticipantMessage::Ended { transaction: txn, shard } => {
                if let Some(unresolved) = self.participant.unresolved.get_mut(&txn) {
                    unresolved.unacknowledged.remove(&shard);
                }
            }
            ParticipantMessage::Wound { transaction: txn, why } => {
                if broken(rules::WOUND_NOT_FORWARDED) || self.is_ending(txn) {
                    return;
                }
                sometimes!("a prepared transaction is wounded");
                if self.participant.collecting.contains_key(&txn) {
                    self.abort_collecting(now, txn, why, out);
                } else if self.participant.active.contains_key(&txn) {
                    self.mark_aborted(now, txn, why, out);
                }
            }
        }
    }

    fn on_vote(
        &mut self,
        now: Reading,
        from: Address,
        asked: Inquiry,
        ballot: Ballot,
        out: &mut Outbox<Member<T>>,
    ) {
        let Inquiry { transaction: txn, one_shot, reads, .. } = asked;
        let shard = ballot.shard;
        if self.is_decided_later(asked) {
            // A late copy of the coordinator's first request may be live here, but this term does
            // not decide the transaction.
            return;
        }
        // A repeated vote of a shard that was only read asks whether its promise is still needed.
        let mut again = false;
        if let Some(collecting) = self.participant.collecting.get(&txn) {
            again = collecting.votes.0.contains_key(&shard);
            self.count_vote(now, txn, ballot, out);
        } else if let Some(OneShot { by, .. }) =
            one_shot.filter(|_| !self.participant.active.contains_key(&txn))
            && self.is_expected(now, txn, one_shot)
        {
            sometimes!("a vote comes before a commit that was asked for blindly");
            self.participant.one_shots.keep(txn, by, ballot);
        } else {
            let ending = self.is_ending(txn);
            match (self.participant.active.get_mut(&txn), &ballot.vote) {
                (Some(active), Vote::No { why }) if active.aborted.is_none() && !ending => {
                    let why = why.clone();
                    self.mark_aborted(now, txn, why, out);
                }
                (Some(active), _) if active.aborted.is_none() && !ending => {
                    let before = active.votes.len();
                    active.votes.retain(|known| known.shard != shard);
                    again = active.votes.len() < before;
                    active.votes.push(ballot);
                }
                _ => self.notify_voter(now, from, asked, out),
            }
        }
        if again && reads {
            out.send(
                from,
                Message::Participant(ParticipantMessage::Undecided { transaction: txn }),
            );
        }
    }

    /// True if an unknown one-shot commit may still be admitted in this leader term.
    fn is_expected(&mut self, now: Reading, txn: TransactionId, one_shot: Option<OneShot>) -> bool {
        let this = one_shot.filter(|one_shot| one_shot.term == self.group.term().0);
        if this.is_some() && now.health != Health::Good {
            return true; // By when it may begin is a moment of a clock.
        }
        this.is_some_and(|one_shot| {
            self.participant.one_shots.expects(now.interval.latest, txn, one_shot.by)
        }) && !self.is_remembered(txn)
    }

    fn is_remembered(&self, txn: TransactionId) -> bool {
        self.is_ending(txn)
            || self.participant.unresolved.contains_key(&txn)
            || self.participant.outcome_of(txn).is_some()
    }

    /// True if the transaction has all its locks and votes: its commit ends without further
    /// messages.
    pub(in crate::locking) fn is_ending(&self, txn: TransactionId) -> bool {
        self.participant.agreeing.has(txn)
            || self.participant.commit_waits.has(txn)
            || self.participant.ready.iter().any(|pending| pending.request.transaction == txn)
    }

    /// Aborts an attempt that cannot continue, and answers its waiting request if there is one.
    pub(in crate::locking) fn mark_aborted(
        &mut self,
        now: Reading,
        txn: TransactionId,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        let ticket = self.participant.pending.place_of(txn);
        self.judge(now, vec![Verdict::Victim(txn, ticket, why)], out);
    }

    /// Tells a participant the outcome of a transaction that it has voted for, if this leader knows
    /// it.
    pub(in crate::locking) fn notify_voter(
        &mut self,
        now: Reading,
        from: Address,
        asked: Inquiry,
        out: &mut Outbox<Member<T>>,
    ) {
        let Inquiry { transaction: txn, one_shot, decides, voted_in, reads } = asked;
        if self.is_ending(txn) {
            return;
        }
        let known = self
            .participant
            .unresolved
            .get(&txn)
            .map(|unresolved| unresolved.at)
            .or_else(|| self.participant.outcome_of(txn));
        if known.is_some() {
            return self.send_decided(from, txn, known, voted_in, out);
        }
        if self.is_decided_later(asked) || self.is_expected(now, txn, one_shot) {
            return; // It votes again.
        }
        if reads && decides <= self.participant.forgotten.0 {
            // Decisions are kept for participants with a prepare record only. This leader may have
            // forgotten that the transaction committed. The participant's bound passes without an
            // answer.
            return;
        }
        if decides == 0 && now.interval.latest >= self.leased_until(now) {
            // A prepare record of an earlier release names no term. Only a lease proves that this
            // leader decides.
            return;
        }
        // Its commit cannot be in the log any more (invariant 4).
        sometimes!("a coordinator that knows nothing of a transaction says that it is aborted");
        self.send_decided(from, txn, None, voted_in, out);
    }

    /// True if only a later leader term than this one decides the transaction.
    fn is_decided_later(&self, asked: Inquiry) -> bool {
        asked.decides > self.group.term().0 && !broken(rules::DECIDES_IN_ANY_TERM)
    }

    fn on_decided(
        &mut self,
        now: Reading,
        from: Address,
        txn: TransactionId,
        (at, voted_in): (Option<Timestamp>, u64),
        out: &mut Outbox<Member<T>>,
    ) {
        let ended = ParticipantMessage::Ended { transaction: txn, shard: self.shard };
        if let Some(doubt) = self.participant.prepared.get_mut(&txn) {
            if doubt.record.coordinator != from.shard {
                return;
            }
            doubt.told_by = Some(from);
            if !std::mem::replace(&mut doubt.ending, true) {
                step!("participant: hears the outcome");
                self.issuer.observe(doubt.ends_at(at));
                self.propose(&TransactionCommand::Outcome { transaction: txn, at });
            }
        } else if self.participant.readers.contains_key(&txn) {
            self.release_reader(now, txn, at, out);
        } else if at.is_some() {
            // The outcome is in this log already, provided that this leader would know the
            // transaction (invariant 5). If its prepare record is still being agreed on, this shard
            // asks later. An earlier release named no term.
            let leased = voted_in > 0 || now.interval.latest < self.leased_until(now);
            let knows = leased && voted_in <= self.group.term().0 || broken(rules::ENDED_UNKNOWN);
            if knows && !self.is_ending(txn) {
                out.send(from, Message::Participant(ended));
            }
        } else if self.participant.active.contains_key(&txn) && !self.is_ending(txn) {
            self.participant.would_vote.retain(|pending| pending.request.transaction != txn);
            self.mark_aborted(now, txn, Conflict::RolledBack, out);
        }
    }

    /// Tells the coordinator group that an older transaction waits for one that is prepared here.
    pub(in crate::locking) fn forward_wound(
        &self,
        txn: TransactionId,
        coordinator: ShardId,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        for node in &self.nodes {
            let wound = ParticipantMessage::Wound { transaction: txn, why: why.clone() };
            out.send(self.replica_address(*node, coordinator), Message::Participant(wound));
        }
    }

    /// Returns the shard that decides a transaction which is prepared here, or about to be.
    pub(in crate::locking) fn coordinator_of(&self, txn: TransactionId) -> Option<ShardId> {
        let drawn = || {
            self.participant
                .ready
                .iter()
                .chain(&self.participant.would_vote)
                .filter(|pending| pending.request.transaction == txn)
        };
        let of_pending = || {
            self.participant.agreeing.of(txn).chain(drawn()).next().and_then(|pending| {
                match &pending.request.body {
                    RequestBody::Prepare { coordinator, .. } => Some(coordinator.shard),
                    _ => None,
                }
            })
        };
        let of_reader =
            || self.participant.readers.get(&txn).map(|reader| reader.decider.replica.shard);
        self.participant
            .prepared
            .get(&txn)
            .map(|doubt| doubt.record.coordinator)
            .or_else(of_reader)
            .or_else(of_pending)
    }

    /// Repeats unanswered votes, decisions and wounds, and forgets decisions that every participant
    /// has in its log.
    pub(in crate::locking) fn resolve_prepared(
        &mut self,
        now: Reading,
        out: &mut Outbox<Member<T>>,
    ) {
        self.participant.resolving = false;
        if !self.serving || !self.group.is_leader() {
            return;
        }
        let mut said = Vec::new();
        let term = self.group.term().0;
        for (txn, doubt) in self.participant.prepared.iter_mut().filter(|(_, doubt)| !doubt.ending)
        {
            let Some(node) = doubt.asks() else { continue };
            sometimes!("a participant asks what became of a transaction");
            step!("participant: asks for the outcome");
            let (vote, one_shot, decides) =
                (doubt.vote(), doubt.record.one_shot, doubt.record.decides);
            let (transaction, shard) = (*txn, self.shard);
            let vote = ParticipantMessage::Vote {
                transaction,
                shard,
                vote,
                one_shot,
                decides,
                voted_in: term,
            };
            said.push((node, doubt.record.coordinator, vote));
        }
        for (txn, unresolved) in
            self.participant.unresolved.iter().filter(|(txn, _)| !self.is_ending(**txn))
        {
            let decided = |voted_in| ParticipantMessage::Decided {
                transaction: *txn,
                at: Some(unresolved.at),
                voted_in,
            };
            said.extend(
                unresolved
                    .unacknowledged
                    .iter()
                    .map(|(shard, term)| (None, *shard, decided(*term))),
            );
        }
        for (txn, why) in self.participant.locks.wounded_prepared() {
            let wound = |shard| (None, shard, ParticipantMessage::Wound { transaction: txn, why });
            said.extend(self.coordinator_of(txn).map(wound));
        }
        for (node, shard, between) in said {
            let nodes = node.as_ref().map_or(&self.nodes[..], std::slice::from_ref);
            nodes.iter().for_each(|node| {
                out.send(self.replica_address(*node, shard), Message::Participant(between.clone()))
            });
        }
        let paid = self
            .participant
            .unresolved
            .iter()
            .filter(|(_, unresolved)| unresolved.unacknowledged.is_empty());
        let transactions: Vec<TransactionId> = paid.map(|(txn, _)| *txn).collect();
        if !transactions.is_empty()
            && let Some(at) = self.draw_one(now)
        {
            step!("coordinator: forgets");
            self.propose(&TransactionCommand::Forget { at, transactions });
        }
    }
}
