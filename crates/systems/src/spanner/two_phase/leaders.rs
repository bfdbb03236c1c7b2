//! Messages between leaders of different shards about one transaction, and their repetition.

use super::{Asked, Ballot};
use crate::spanner::records::Agreed;
use crate::spanner::rules;
use crate::spanner::{Member, Message};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Outbox, ShardId, sometimes, step};
use meridian_txn::Conflict;
use meridian_txn::locking::{Ask, Between, Blind, TransactionId, Verdict, Vote};

impl<T: TimestampPolicy> Member<T> {
    pub(in crate::spanner) fn on_between(
        &mut self,
        now: Reading,
        from: Address,
        between: Between,
        out: &mut Outbox<Member<T>>,
    ) {
        match between {
            Between::Vote { transaction, shard, vote, blind, decides, voted_in } => {
                let reads = matches!(vote, Vote::Read { .. });
                let ballot = Ballot { shard, node: from.node, term: voted_in, vote };
                self.on_vote(
                    now,
                    from,
                    Asked { transaction, blind, decides, voted_in, reads },
                    ballot,
                    out,
                );
            }
            Between::Decided { transaction: who, at, voted_in } => {
                self.on_decided(now, from, who, (at, voted_in), out)
            }
            Between::Undecided { transaction } => self.on_undecided(transaction),
            Between::Ended { transaction: who, shard } => {
                if let Some(debt) = self.participant.debts.get_mut(&who) {
                    debt.owes.remove(&shard);
                }
            }
            Between::Wound { transaction: who, why } => {
                if broken(rules::WOUND_NOT_FORWARDED) || self.is_ending(who) {
                    return;
                }
                sometimes!("a prepared transaction is wounded");
                if self.participant.collecting.contains_key(&who) {
                    self.abort_collecting(now, who, why, out);
                } else if self.participant.live.contains_key(&who) {
                    self.doom(now, who, why, out);
                }
            }
        }
    }

    fn on_vote(
        &mut self,
        now: Reading,
        from: Address,
        asked: Asked,
        ballot: Ballot,
        out: &mut Outbox<Member<T>>,
    ) {
        let Asked { transaction: who, blind, reads, .. } = asked;
        let shard = ballot.shard;
        if self.is_decided_later(asked) {
            // A late copy of the coordinator's first request may be live here, but this term does
            // not decide the transaction.
            return;
        }
        // A repeated vote of a shard that was only read asks whether its promise is still needed.
        let mut again = false;
        if let Some(collecting) = self.participant.collecting.get(&who) {
            again = collecting.votes.0.contains_key(&shard);
            self.count_vote(now, who, ballot, out);
        } else if let Some(Blind { by, .. }) =
            blind.filter(|_| !self.participant.live.contains_key(&who))
            && self.is_expected(now, who, blind)
        {
            sometimes!("a vote comes before a commit that was asked for blindly");
            self.participant.blinds.keep(who, by, ballot);
        } else {
            let ending = self.is_ending(who);
            match (self.participant.live.get_mut(&who), &ballot.vote) {
                (Some(live), Vote::No { why }) if live.doomed.is_none() && !ending => {
                    let why = why.clone();
                    self.doom(now, who, why, out);
                }
                (Some(live), _) if live.doomed.is_none() && !ending => {
                    let before = live.votes.len();
                    live.votes.retain(|known| known.shard != shard);
                    again = live.votes.len() < before;
                    live.votes.push(ballot);
                }
                _ => self.tell_voter(now, from, asked, out),
            }
        }
        if again && reads {
            out.send(from, Message::Between(Between::Undecided { transaction: who }));
        }
    }

    /// True if an unknown one-shot commit may still be admitted in this leader term.
    fn is_expected(&mut self, now: Reading, who: TransactionId, blind: Option<Blind>) -> bool {
        let this = blind.filter(|blind| blind.term == self.group.term().0);
        if this.is_some() && now.health != Health::Good {
            return true; // By when it may begin is a moment of a clock.
        }
        this.is_some_and(|blind| {
            self.participant.blinds.expects(now.interval.latest, who, blind.by)
        }) && !self.is_remembered(who)
    }

    fn is_remembered(&self, who: TransactionId) -> bool {
        self.is_ending(who)
            || self.participant.debts.contains_key(&who)
            || self.participant.outcome_of(who).is_some()
    }

    /// True if the transaction has all its locks and votes: its commit ends without further
    /// messages.
    pub(in crate::spanner) fn is_ending(&self, who: TransactionId) -> bool {
        self.participant.agreeing.has(who)
            || self.participant.passing.has(who)
            || self.participant.ready.iter().any(|pending| pending.request.transaction == who)
    }

    /// Aborts an attempt that cannot continue, and answers its waiting request if there is one.
    pub(in crate::spanner) fn doom(
        &mut self,
        now: Reading,
        who: TransactionId,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        let ticket = self.participant.pending.place_of(who);
        self.judge(now, vec![Verdict::Victim(who, ticket, why)], out);
    }

    /// Tells a participant the outcome of a transaction that it has voted for, if this leader knows
    /// it.
    pub(in crate::spanner) fn tell_voter(
        &mut self,
        now: Reading,
        from: Address,
        asked: Asked,
        out: &mut Outbox<Member<T>>,
    ) {
        let Asked { transaction: who, blind, decides, voted_in, reads } = asked;
        if self.is_ending(who) {
            return;
        }
        let known = self
            .participant
            .debts
            .get(&who)
            .map(|debt| debt.at)
            .or_else(|| self.participant.outcome_of(who));
        if known.is_some() {
            return self.say_decided(from, who, known, voted_in, out);
        }
        if self.is_decided_later(asked) || self.is_expected(now, who, blind) {
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
        self.say_decided(from, who, None, voted_in, out);
    }

    /// True if only a later leader term than this one decides the transaction.
    fn is_decided_later(&self, asked: Asked) -> bool {
        asked.decides > self.group.term().0 && !broken(rules::DECIDES_IN_ANY_TERM)
    }

    fn on_decided(
        &mut self,
        now: Reading,
        from: Address,
        who: TransactionId,
        (at, voted_in): (Option<Timestamp>, u64),
        out: &mut Outbox<Member<T>>,
    ) {
        let ended = Between::Ended { transaction: who, shard: self.shard };
        if let Some(doubt) = self.participant.prepared.get_mut(&who) {
            if doubt.record.coordinator != from.shard {
                return;
            }
            doubt.told_by = Some(from);
            if !std::mem::replace(&mut doubt.ending, true) {
                step!("participant: hears the outcome");
                self.issuer.observe(doubt.ends_at(at));
                self.propose(&Agreed::Outcome { transaction: who, at });
            }
        } else if self.participant.readers.contains_key(&who) {
            self.let_reader_go(now, who, at, out);
        } else if at.is_some() {
            // The outcome is in this log already, provided that this leader would know the
            // transaction (invariant 5). If its prepare record is still being agreed on, this shard
            // asks later. An earlier release named no term.
            let leased = voted_in > 0 || now.interval.latest < self.leased_until(now);
            let knows = leased && voted_in <= self.group.term().0 || broken(rules::ENDED_UNKNOWN);
            if knows && !self.is_ending(who) {
                out.send(from, Message::Between(ended));
            }
        } else if self.participant.live.contains_key(&who) && !self.is_ending(who) {
            self.participant.would_vote.retain(|pending| pending.request.transaction != who);
            self.doom(now, who, Conflict::RolledBack, out);
        }
    }

    /// Tells the coordinator group that an older transaction waits for one that is prepared here.
    pub(in crate::spanner) fn forward_wound(
        &self,
        who: TransactionId,
        coordinator: ShardId,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        for node in &self.nodes {
            let wound = Between::Wound { transaction: who, why: why.clone() };
            out.send(self.seat(*node, coordinator), Message::Between(wound));
        }
    }

    /// Returns the shard that decides a transaction which is prepared here, or about to be.
    pub(in crate::spanner) fn coordinator_of(&self, who: TransactionId) -> Option<ShardId> {
        let drawn = || {
            self.participant
                .ready
                .iter()
                .chain(&self.participant.would_vote)
                .filter(|pending| pending.request.transaction == who)
        };
        let of_pending = || {
            self.participant.agreeing.of(who).chain(drawn()).next().and_then(|pending| {
                match &pending.request.ask {
                    Ask::Prepare { coordinator, .. } => Some(coordinator.shard),
                    _ => None,
                }
            })
        };
        let of_reader =
            || self.participant.readers.get(&who).map(|reader| reader.decider.seat.shard);
        self.participant
            .prepared
            .get(&who)
            .map(|doubt| doubt.record.coordinator)
            .or_else(of_reader)
            .or_else(of_pending)
    }

    /// Repeats unanswered votes, decisions and wounds, and forgets decisions that every participant
    /// has in its log.
    pub(in crate::spanner) fn resolve_prepared(
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
        for (who, doubt) in self.participant.prepared.iter_mut().filter(|(_, doubt)| !doubt.ending)
        {
            let Some(node) = doubt.asks() else { continue };
            sometimes!("a participant asks what became of a transaction");
            step!("participant: asks for the outcome");
            let (vote, blind, decides) = (doubt.vote(), doubt.record.blind, doubt.record.decides);
            let (transaction, shard) = (*who, self.shard);
            let vote = Between::Vote { transaction, shard, vote, blind, decides, voted_in: term };
            said.push((node, doubt.record.coordinator, vote));
        }
        for (who, debt) in self.participant.debts.iter().filter(|(who, _)| !self.is_ending(**who)) {
            let decided =
                |voted_in| Between::Decided { transaction: *who, at: Some(debt.at), voted_in };
            said.extend(debt.owes.iter().map(|(shard, term)| (None, *shard, decided(*term))));
        }
        for (who, why) in self.participant.locks.wounded_prepared() {
            let wound = |shard| (None, shard, Between::Wound { transaction: who, why });
            said.extend(self.coordinator_of(who).map(wound));
        }
        for (node, shard, between) in said {
            let nodes = node.as_ref().map_or(&self.nodes[..], std::slice::from_ref);
            nodes.iter().for_each(|node| {
                out.send(self.seat(*node, shard), Message::Between(between.clone()))
            });
        }
        let paid = self.participant.debts.iter().filter(|(_, debt)| debt.owes.is_empty());
        let transactions: Vec<TransactionId> = paid.map(|(who, _)| *who).collect();
        if !transactions.is_empty()
            && let Some(at) = self.draw_one(now)
        {
            step!("coordinator: forgets");
            self.propose(&Agreed::Forget { at, transactions });
        }
    }
}
