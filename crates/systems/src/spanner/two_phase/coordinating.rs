//! The coordinator group of a transaction: collects votes, decides, and tells the participants.

use super::{Asked, Ballot, Collected, Collecting, Debt};
use crate::spanner::participant::Pending;
use crate::spanner::records::{Decision, row_of_decision};
use crate::spanner::{Member, Message};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::{Address, Outbox, ShardId, sometimes, step};
use meridian_mvcc::Write;
use meridian_txn::Conflict;
use meridian_txn::locking::{Ask, Between, Reply, TransactionId, Vote};

impl<T: TimestampPolicy> Member<T> {
    /// Begins to collect votes for a commit that has its own locks. Votes that arrived earlier are
    /// counted at once.
    pub(in crate::spanner) fn collect(
        &mut self,
        now: Reading,
        pending: Pending,
        out: &mut Outbox<Member<T>>,
    ) {
        let Ask::Commit { participants, .. } = &pending.request.ask else {
            unreachable!("only commits coordinate")
        };
        let who = pending.request.transaction;
        let (missing, votes) = (participants.iter().copied().collect(), Collected::default());
        let wounded = self.participant.locks.collecting(who);
        let early = self
            .participant
            .live
            .get_mut(&who)
            .map(|live| std::mem::take(&mut live.votes))
            .unwrap_or_default();
        step!("coordinator: waits for votes");
        self.participant.collecting.insert(who, Collecting { pending, missing, votes });
        for ballot in early {
            sometimes!("a vote comes before the commit");
            self.count_vote(now, who, ballot, out);
        }
        if let Some(why) = wounded {
            self.abort_collecting(now, who, why, out);
        }
    }

    pub(super) fn count_vote(
        &mut self,
        now: Reading,
        who: TransactionId,
        ballot: Ballot,
        out: &mut Outbox<Member<T>>,
    ) {
        let Some(collecting) = self.participant.collecting.get_mut(&who) else { return };
        if let Vote::No { why } = ballot.vote {
            return self.abort_collecting(now, who, why, out);
        }
        collecting.missing.remove(&ballot.shard);
        collecting.votes.0.insert(ballot.shard, ballot);
        if collecting.missing.is_empty()
            && let Some(Collecting { mut pending, votes, .. }) =
                self.participant.collecting.remove(&who)
        {
            let ahead = pending.change().map_or(0, |change| change.from.nanos);
            if votes.is_far(now, ahead) {
                return self.abort_voted(now, pending, &votes, Conflict::Late, out);
            }
            step!("coordinator: has all votes");
            self.participant.locks.committing(who);
            pending.votes = Some(votes);
            self.participant.ready.push_back(pending);
        }
    }

    /// Aborts, for good, a commit that still waits for votes. Nothing of it was decided.
    pub(in crate::spanner) fn abort_collecting(
        &mut self,
        now: Reading,
        who: TransactionId,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        if let Some(Collecting { pending, votes, .. }) = self.participant.collecting.remove(&who) {
            sometimes!("a coordinator aborts while votes are outstanding");
            self.abort_voted(now, pending, &votes, why, out);
        }
    }

    /// Aborts a commit given the votes collected so far, and answers the request.
    pub(in crate::spanner) fn abort_voted(
        &mut self,
        now: Reading,
        pending: Pending,
        votes: &Collected,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        let (who, id) = (pending.request.transaction, pending.request.id);
        if let Some(live) = self.participant.live.get_mut(&who) {
            live.doomed = Some(why.clone());
        }
        out.send(pending.from, Message::Answer(Reply::Aborted { id, why }));
        self.tell_outcome(who, None, votes, out);
        self.forget(now, who, out);
    }

    /// Tells the outcome to participants that voted early for an attempt that ends before its
    /// commit was requested, so that they do not wait. Does nothing if a later leader term decides.
    pub(in crate::spanner) fn dismiss_early_votes(
        &mut self,
        now: Reading,
        who: TransactionId,
        out: &mut Outbox<Member<T>>,
    ) {
        let votes = self
            .participant
            .live
            .get_mut(&who)
            .map(|live| std::mem::take(&mut live.votes))
            .unwrap_or_default();
        for Ballot { shard, node, term, vote } in votes {
            // Votes for a later leader term are never kept, so this term decides.
            let (decides, reads) = (self.group.term().0, matches!(vote, Vote::Read { .. }));
            let asked = Asked { transaction: who, blind: None, decides, voted_in: term, reads };
            self.tell_voter(now, self.seat(node, shard), asked, out);
        }
    }

    pub(super) fn say_decided(
        &self,
        to: Address,
        who: TransactionId,
        at: Option<Timestamp>,
        term: u64,
        out: &mut Outbox<Member<T>>,
    ) {
        let decided = Between::Decided { transaction: who, at, voted_in: term };
        out.send(to, Message::Between(decided));
    }

    /// Sends the outcome to every participant that voted.
    pub(in crate::spanner) fn tell_outcome(
        &self,
        transaction: TransactionId,
        at: Option<Timestamp>,
        votes: &Collected,
        out: &mut Outbox<Member<T>>,
    ) {
        for ballot in votes.0.values() {
            self.say_decided(
                self.seat(ballot.node, ballot.shard),
                transaction,
                at,
                ballot.term,
                out,
            );
        }
    }

    /// Records that participants are still to be told a decision that is now in the log. Returns
    /// the decision's row, or `None` if the transaction has no participants.
    pub(in crate::spanner) fn owe(
        &mut self,
        who: TransactionId,
        at: Timestamp,
        (participants, voted_in): (Vec<ShardId>, Vec<u64>),
    ) -> Option<Write> {
        if participants.is_empty() {
            return None;
        }
        step!("coordinator: its decision is agreed");
        let decision = Decision { at, participants, voted_in };
        let row = row_of_decision(self.shard, who, Some(&decision));
        self.participant.debts.insert(who, Debt::new(decision));
        Some(row)
    }

    /// Drops decisions that every participant has in its log. Returns the writes that delete their
    /// rows.
    pub(in crate::spanner) fn on_forget_agreed(
        &mut self,
        transactions: &[TransactionId],
    ) -> Vec<Write> {
        for who in transactions {
            self.participant.debts.remove(who);
        }
        transactions.iter().map(|who| row_of_decision(self.shard, *who, None)).collect()
    }

    /// Aborts the commits that wait for votes, because this member lost leadership: their lock
    /// epochs are void.
    pub(in crate::spanner) fn dismiss_votes(&mut self, out: &mut Outbox<Member<T>>) {
        for (who, Collecting { pending, votes, .. }) in
            std::mem::take(&mut self.participant.collecting)
        {
            let (id, why) = (pending.request.id, Conflict::LeaderChanged);
            out.send(pending.from, Message::Answer(Reply::Aborted { id, why }));
            self.tell_outcome(who, None, &votes, out);
        }
        for pending in std::mem::take(&mut self.participant.would_vote) {
            self.refuse(&pending, Conflict::LeaderChanged, out);
        }
        self.participant.readers.clear();
        self.participant.renewing.clear();
    }
}
