//! The coordinator group of a transaction: collects votes, decides, and tells the participants.

use crate::locking::participant::Pending;
use crate::locking::records::row_of_decision;
use crate::locking::{Member, Message};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Address, Outbox, ShardId, sometimes, step};
use meridian_mvcc::Write;
use meridian_txn::Conflict;
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::{RequestBody, Response};
use meridian_txn::two_phase::{
    Ballot, Collected, Counted, Decision, Inquiry, ParticipantMessage, Vote,
};

impl Member {
    /// Begins to collect votes for a commit that has its own locks. Votes that arrived earlier are
    /// counted at once.
    pub(in crate::locking) fn collect(
        &mut self,
        now: Reading,
        pending: Pending,
        out: &mut Outbox<Member>,
    ) {
        let RequestBody::Commit { participants, .. } = &pending.request.body else {
            unreachable!("only commits coordinate")
        };
        let txn = pending.request.transaction;
        let participants = participants.clone();
        let wounded = self.participant.locks.collecting(txn);
        let early = self
            .participant
            .active
            .get_mut(&txn)
            .map(|active| std::mem::take(&mut active.votes))
            .unwrap_or_default();
        step!("coordinator: waits for votes");
        self.participant.two_phase.voting.begin(txn, pending, participants);
        for ballot in early {
            sometimes!("a vote comes before the commit");
            self.count_vote(now, txn, ballot, out);
        }
        if let Some(why) = wounded {
            self.abort_collecting(now, txn, why, out);
        }
    }

    pub(super) fn count_vote(
        &mut self,
        now: Reading,
        txn: TransactionId,
        ballot: Ballot,
        out: &mut Outbox<Member>,
    ) {
        match self.participant.two_phase.voting.count(txn, ballot) {
            None | Some(Counted::Waits) => {}
            Some(Counted::Refused(pending, votes, why)) => {
                sometimes!("a coordinator aborts while votes are outstanding");
                self.abort_voted(now, pending, &votes, why, out);
            }
            Some(Counted::Complete(mut pending, votes)) => {
                let ahead = pending.change().map_or(0, |change| change.from.nanos);
                if votes.is_far(now.interval.latest, ahead) {
                    return self.abort_voted(now, pending, &votes, Conflict::Late, out);
                }
                step!("coordinator: has all votes");
                self.participant.locks.committing(txn);
                pending.votes = Some(votes);
                self.participant.ready.push_back(pending);
            }
        }
    }

    /// Aborts, for good, a commit that still waits for votes. Nothing of it was decided.
    pub(in crate::locking) fn abort_collecting(
        &mut self,
        now: Reading,
        txn: TransactionId,
        why: Conflict,
        out: &mut Outbox<Member>,
    ) {
        if let Some((pending, votes)) = self.participant.two_phase.voting.end(txn) {
            sometimes!("a coordinator aborts while votes are outstanding");
            self.abort_voted(now, pending, &votes, why, out);
        }
    }

    /// Aborts a commit given the votes collected so far, and answers the request.
    pub(in crate::locking) fn abort_voted(
        &mut self,
        now: Reading,
        pending: Pending,
        votes: &Collected,
        why: Conflict,
        out: &mut Outbox<Member>,
    ) {
        let (txn, id) = (pending.request.transaction, pending.request.id);
        if let Some(active) = self.participant.active.get_mut(&txn) {
            active.aborted = Some(why.clone());
        }
        out.send(pending.from, Message::Response(Response::Aborted { id, why }));
        self.send_outcome(txn, None, votes, out);
        self.forget(now, txn, out);
    }

    /// Tells the outcome to participants that voted early for an attempt that ends before its
    /// commit was requested, so that they do not wait. Does nothing if a later leader term decides.
    pub(in crate::locking) fn dismiss_early_votes(
        &mut self,
        now: Reading,
        txn: TransactionId,
        out: &mut Outbox<Member>,
    ) {
        let votes = self
            .participant
            .active
            .get_mut(&txn)
            .map(|active| std::mem::take(&mut active.votes))
            .unwrap_or_default();
        for Ballot { shard, node, term, vote } in votes {
            // Votes for a later leader term are never kept, so this term decides.
            let (decides, reads) = (self.group.term().0, matches!(vote, Vote::Read { .. }));
            let asked =
                Inquiry { transaction: txn, one_shot: None, decides, voted_in: term, reads };
            self.notify_voter(now, self.replica_address(node, shard), asked, out);
        }
    }

    pub(super) fn send_decided(
        &self,
        to: Address,
        txn: TransactionId,
        at: Option<Timestamp>,
        term: u64,
        out: &mut Outbox<Member>,
    ) {
        let decided = ParticipantMessage::Decided { transaction: txn, at, voted_in: term };
        out.send(to, Message::Participant(decided));
    }

    /// Sends the outcome to every participant that voted.
    pub(in crate::locking) fn send_outcome(
        &self,
        transaction: TransactionId,
        at: Option<Timestamp>,
        votes: &Collected,
        out: &mut Outbox<Member>,
    ) {
        for ballot in votes.ballots() {
            self.send_decided(
                self.replica_address(ballot.node, ballot.shard),
                transaction,
                at,
                ballot.term,
                out,
            );
        }
    }

    /// Records that participants are still to be told a decision that is now in the log. Returns
    /// the decision's row, or `None` if the transaction has no participants.
    pub(in crate::locking) fn add_unresolved(
        &mut self,
        txn: TransactionId,
        at: Timestamp,
        (participants, voted_in): (Vec<ShardId>, Vec<u64>),
    ) -> Option<Write> {
        if participants.is_empty() {
            return None;
        }
        step!("coordinator: its decision is agreed");
        let decision = Decision { at, participants, voted_in };
        let row = row_of_decision(self.shard, txn, Some(&decision));
        self.participant.two_phase.decisions.keep(txn, decision);
        Some(row)
    }

    /// Drops decisions that every participant has in its log. Returns the writes that delete their
    /// rows.
    pub(in crate::locking) fn on_forget_agreed(
        &mut self,
        transactions: &[TransactionId],
    ) -> Vec<Write> {
        self.participant.two_phase.decisions.forget(transactions);
        transactions.iter().map(|txn| row_of_decision(self.shard, *txn, None)).collect()
    }

    /// Aborts the commits that wait for votes, because this member lost leadership: their lock
    /// epochs are void.
    pub(in crate::locking) fn dismiss_votes(&mut self, out: &mut Outbox<Member>) {
        for (txn, pending, votes) in self.participant.two_phase.voting.end_all() {
            let (id, why) = (pending.request.id, Conflict::LeaderChanged);
            out.send(pending.from, Message::Response(Response::Aborted { id, why }));
            self.send_outcome(txn, None, &votes, out);
        }
        for pending in self.participant.two_phase.readers.end_all() {
            self.refuse(&pending, Conflict::LeaderChanged, out);
        }
    }
}
