//! Participants in which a transaction has only read: they log nothing, and vote with a bound that
//! passes.

use super::{READ_AT_LEAST_NS, READ_FOR_NS};
use crate::locking::participant::Pending;
use crate::locking::rules;
use crate::locking::{Member, Message};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Outbox, sometimes, step};
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::Response;
use meridian_txn::two_phase::{ReadVote, Vote};

impl Member {
    /// Sends the votes of attempts that have only read here, first and renewed ones, once the log
    /// holds a high enough ceiling.
    pub(in crate::locking) fn vote_reads(&mut self, now: Reading, out: &mut Outbox<Member>) {
        // Where timestamps are adopted, commits may be ahead of the clock, and votes go with them.
        let ahead_ns = if self.policy.adopts() { self.issuer.last().nanos } else { 0 };
        let (latest, end) = (now.interval.latest.max(ahead_ns), self.leased_until(now));
        if !self.participant.two_phase.readers.are_due() || latest >= end {
            return;
        }
        let most = (end - 1 - latest).min(READ_FOR_NS);
        if self.ceiling.nanos < latest + READ_AT_LEAST_NS.min(most / 2)
            && !broken(rules::READ_VOTE_UNBOUNDED)
        {
            return self.want_ceiling(latest + most);
        }
        let present = Timestamp { nanos: latest, ..Timestamp::ZERO };
        let for_ever = Timestamp::end_of(latest + 3_600 * READ_FOR_NS);
        let ceiling = if broken(rules::READ_VOTE_UNBOUNDED) { for_ever } else { self.ceiling };
        let ask_at = latest + ceiling.nanos.saturating_sub(latest) / 2;
        for pending in std::mem::take(&mut self.participant.two_phase.readers.waiting) {
            if let Some(why) = self.unfit(&pending.request, self.issuer.last().max(present)) {
                self.refuse_drawn(now, pending, why, out);
                continue;
            }
            let Pending { from, request, .. } = pending;
            let decider = request.body.decider().expect("only that is prepared");
            let change =
                self.participant.schemas.changes_from(request.transaction, &request.planned);
            let limit = change.map_or(Timestamp::MAX, |(from, _)| from);
            sometimes!("a shard that was only read votes");
            step!("reader: votes");
            let readers = &mut self.participant.two_phase.readers;
            let vote = readers.promise(request.transaction, decider, (ceiling, limit), ask_at);
            self.vote_read(vote, out);
            out.send(from, Message::Response(Response::Prepared { id: request.id }));
        }
        for vote in self.participant.two_phase.readers.renew(ceiling, ask_at) {
            sometimes!("a shard that was only read promises for longer");
            self.vote_read(vote, out);
        }
        if self.participant.two_phase.readers.is_renewing() {
            self.want_ceiling(latest + most);
        }
    }

    /// Sends the vote of this shard, which was only read.
    fn vote_read(&self, vote: ReadVote, out: &mut Outbox<Member>) {
        let ReadVote { transaction, decider, below } = vote;
        self.vote(transaction, decider, Vote::Read { through: self.agreed, below }, out);
    }

    /// Releases locks of attempts that have only read here once their bound has passed. Before it
    /// does, asks the coordinator whether they are still needed.
    pub(in crate::locking) fn release_readers(&mut self, now: Reading, out: &mut Outbox<Member>) {
        for (txn, below) in self.participant.two_phase.readers.passed(now.interval) {
            sometimes!("the bound of a shard that was only read passes");
            self.release_reader(now, txn, Some(below), out);
        }
        for vote in self.participant.two_phase.readers.ask(now.interval) {
            if !broken(rules::READ_VOTE_NOT_RENEWED) {
                self.vote_read(vote, out);
            }
        }
        if let Some(left) = self.participant.two_phase.readers.next_ns(now.interval) {
            self.wake_in(left + 1);
        }
    }

    /// Releases a reader's locks. Afterwards this leader issues nothing at or below `above`.
    pub(super) fn release_reader(
        &mut self,
        now: Reading,
        txn: TransactionId,
        above: Option<Timestamp>,
        out: &mut Outbox<Member>,
    ) {
        step!("reader: releases");
        self.issuer.observe(above.unwrap_or_default());
        self.participant.two_phase.readers.release(txn);
        self.participant.active.remove(&txn);
        let verdicts = self.participant.locks.release(txn);
        self.judge(now, verdicts, out);
    }
}
