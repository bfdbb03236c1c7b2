//! Messages between leaders of different shards about one transaction, and their repetition.

use crate::locking::records::TransactionCommand;
use crate::locking::rules;
use crate::locking::{Member, Message};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Outbox, ShardId, sometimes, step};
use meridian_txn::Conflict;
use meridian_txn::locking::{TransactionId, Verdict};
use meridian_txn::shards::RequestBody;
use meridian_txn::two_phase::{
    Answer, Ballot, Inquiry, OneShot, ParticipantMessage, Receipt, ToLeader, Vote,
};

/// Returns the latest time that it can be, or `None` where the node does not know the time.
fn known_latest(now: Reading) -> Option<u64> {
    (now.health == Health::Good).then_some(now.interval.latest)
}

impl Member {
    pub(in crate::locking) fn on_participant_message(
        &mut self,
        now: Reading,
        from: Address,
        between: ParticipantMessage,
        out: &mut Outbox<Member>,
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
            ParticipantMessage::Undecided { transaction } => {
                self.participant.two_phase.readers.on_undecided(transaction)
            }
            ParticipantMessage::Ended { transaction: txn, shard } => {
                self.participant.two_phase.decisions.acknowledge(txn, shard)
            }
            ParticipantMessage::Wound { transaction: txn, why } => {
                if broken(rules::WOUND_NOT_FORWARDED) || self.is_ending(txn) {
                    return;
                }
                sometimes!("a prepared transaction is wounded");
                if self.participant.two_phase.voting.contains(txn) {
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
        out: &mut Outbox<Member>,
    ) {
        let Inquiry { transaction: txn, one_shot, reads, .. } = asked;
        let shard = ballot.shard;
        if asked.is_decided_after(self.group.term().0) {
            // A late copy of the coordinator's first request may be live here, but this term does
            // not decide the transaction.
            return;
        }
        // A repeated vote of a shard that was only read asks whether its promise is still needed.
        let mut again = false;
        if self.participant.two_phase.voting.contains(txn) {
            again = self.participant.two_phase.voting.has_vote_of(txn, shard);
            self.count_vote(now, txn, ballot, out);
        } else if let Some(OneShot { by, .. }) =
            one_shot.filter(|_| !self.participant.active.contains_key(&txn))
            && self.is_expected(now, txn, one_shot)
        {
            sometimes!("a vote comes before a commit that was asked for blindly");
            self.participant.two_phase.one_shots.keep(txn, by, ballot);
        } else {
            let ending = self.is_ending(txn);
            match (self.participant.active.get_mut(&txn), &ballot.vote) {
                (Some(active), Vote::No { why }) if active.aborted.is_none() && !ending => {
                    let why = why.clone();
                    self.mark_aborted(now, txn, why, out);
                }
                (Some(active), _) if active.aborted.is_none() && !ending => {
                    again = active.votes.keep(ballot);
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
        let (term, latest_ns) = (self.group.term().0, known_latest(now));
        self.participant.two_phase.expects(txn, one_shot, term, latest_ns)
            && (latest_ns.is_none() || !self.is_ending(txn))
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
        out: &mut Outbox<Member>,
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
        out: &mut Outbox<Member>,
    ) {
        let (txn, term, latest_ns) = (asked.transaction, self.group.term().0, known_latest(now));
        if self.is_ending(txn) {
            return;
        }
        let leased = now.interval.latest < self.leased_until(now);
        let at = match self.participant.two_phase.answer(asked, term, latest_ns, leased) {
            Answer::Unknown => return, // It votes again.
            Answer::Committed(at) => Some(at),
            Answer::Aborted => {
                sometimes!(
                    "a coordinator that knows nothing of a transaction says that it is aborted"
                );
                None
            }
        };
        self.send_decided(from, txn, at, asked.voted_in, out);
    }

    fn on_decided(
        &mut self,
        now: Reading,
        from: Address,
        txn: TransactionId,
        (at, voted_in): (Option<Timestamp>, u64),
        out: &mut Outbox<Member>,
    ) {
        if let Some(receipt) = self.participant.two_phase.prepared.on_decided(txn, from, at) {
            if let Receipt::New(ends_at) = receipt {
                step!("participant: hears the outcome");
                self.issuer.observe(ends_at);
                self.propose(&TransactionCommand::Outcome { transaction: txn, at });
            }
        } else if self.participant.two_phase.readers.contains(txn) {
            self.release_reader(now, txn, at, out);
        } else if at.is_some() {
            // The outcome is in this log already, if this leader would know the transaction.
            let (term, leased) =
                (self.group.term().0, now.interval.latest < self.leased_until(now));
            if self.participant.two_phase.confirms(txn, voted_in, term, leased)
                && !self.is_ending(txn)
            {
                let ended = ParticipantMessage::Ended { transaction: txn, shard: self.shard };
                out.send(from, Message::Participant(ended));
            }
        } else if self.participant.active.contains_key(&txn) && !self.is_ending(txn) {
            let waiting = &mut self.participant.two_phase.readers.waiting;
            waiting.retain(|pending| pending.request.transaction != txn);
            self.mark_aborted(now, txn, Conflict::RolledBack, out);
        }
    }

    /// Tells the coordinator group that an older transaction waits for one that is prepared here.
    pub(in crate::locking) fn forward_wound(
        &self,
        txn: TransactionId,
        coordinator: ShardId,
        why: Conflict,
        out: &mut Outbox<Member>,
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
                .chain(&self.participant.two_phase.readers.waiting)
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
        self.participant.two_phase.coordinator_of(txn).or_else(of_pending)
    }

    /// Repeats unanswered votes, decisions and wounds, and forgets decisions that every participant
    /// has in its log.
    pub(in crate::locking) fn resolve_prepared(&mut self, now: Reading, out: &mut Outbox<Member>) {
        self.participant.resolving = false;
        if !self.serving || !self.group.is_leader() {
            return;
        }
        let mut messages = self.participant.two_phase.prepared.ask(self.shard, self.group.term().0);
        for _ in &messages {
            sometimes!("a participant asks what became of a transaction");
            step!("participant: asks for the outcome");
        }
        messages.extend(self.participant.two_phase.decisions.repeat(|txn| !self.is_ending(txn)));
        let wounded = self.participant.locks.wounded_prepared().into_iter();
        for (txn, why) in wounded.chain(self.wounded_by_snapshots(now)) {
            let message = ParticipantMessage::Wound { transaction: txn, why };
            let wound = |shard| ToLeader { shard, node: None, message };
            messages.extend(self.coordinator_of(txn).map(wound));
        }
        for ToLeader { shard, node, message } in messages {
            let nodes = node.as_ref().map_or(&self.nodes[..], std::slice::from_ref);
            nodes.iter().for_each(|node| {
                out.send(self.replica_address(*node, shard), Message::Participant(message.clone()))
            });
        }
        let transactions: Vec<TransactionId> =
            self.participant.two_phase.decisions.acknowledged().collect();
        if !transactions.is_empty()
            && let Some(at) = self.draw_one(now)
        {
            step!("coordinator: forgets");
            self.propose(&TransactionCommand::Forget { at, transactions });
        }
    }
}
