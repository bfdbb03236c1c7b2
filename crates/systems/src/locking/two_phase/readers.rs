//! Participants in which a transaction has only read: they log nothing, and vote with a bound that
//! passes.

use super::{Decider, READ_AT_LEAST_NS, READ_FOR_NS, Reader};
use crate::locking::participant::Pending;
use crate::locking::rules;
use crate::locking::{Member, Message};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Outbox, sometimes, step};
use meridian_txn::locking::{Response, TransactionId, Vote};

impl<T: TimestampPolicy> Member<T> {
    /// Sends the votes of attempts that have only read here, first and renewed ones, once the log
    /// holds a high enough ceiling.
    pub(in crate::locking) fn vote_reads(&mut self, now: Reading, out: &mut Outbox<Member<T>>) {
        let (latest, end) = (now.interval.latest, self.leased_until(now));
        if self.participant.would_vote.is_empty() && self.participant.renewing.is_empty()
            || latest >= end
        {
            return;
        }
        let most = (end - 1 - latest).min(READ_FOR_NS);
        if self.ceiling.nanos < latest + READ_AT_LEAST_NS.min(most / 2)
            && !broken(rules::READ_VOTE_UNBOUNDED)
        {
            return self.want_ceiling(latest + most);
        }
        let present = Timestamp { nanos: latest, ..Timestamp::ZERO };
        let for_ever = Timestamp::end_of(now.interval.latest + 3_600 * READ_FOR_NS);
        let ceiling = if broken(rules::READ_VOTE_UNBOUNDED) { for_ever } else { self.ceiling };
        let ask_at = latest + ceiling.nanos.saturating_sub(latest) / 2;
        for pending in std::mem::take(&mut self.participant.would_vote) {
            if let Some(why) = self.unfit(&pending.request, self.issuer.last().max(present)) {
                self.refuse_drawn(now, pending, why, out);
                continue;
            }
            let Pending { from, request, .. } = pending;
            let decider = Decider::of(&request.body).expect("only that is prepared");
            let change =
                self.participant.schemas.changes_from(request.transaction, &request.planned);
            let limit = change.map_or(Timestamp::MAX, |(from, _)| from);
            let reader = Reader { decider, below: ceiling.min(limit), limit, ask_at, asked: false };
            sometimes!("a shard that was only read votes");
            step!("reader: votes");
            self.vote(
                request.transaction,
                decider,
                Vote::Read { through: self.agreed, below: reader.below },
                out,
            );
            out.send(from, Message::Response(Response::Prepared { id: request.id }));
            self.participant.readers.insert(request.transaction, reader);
        }
        for txn in std::mem::take(&mut self.participant.renewing) {
            let Some(reader) =
                self.participant.readers.get_mut(&txn).filter(|reader| reader.below < reader.limit)
            else {
                continue;
            };
            if ceiling <= reader.below {
                self.participant.renewing.insert(txn);
                self.want_ceiling(latest + most);
                continue;
            }
            sometimes!("a shard that was only read promises for longer");
            let (decider, below) = (reader.decider, ceiling.min(reader.limit));
            (reader.below, reader.ask_at, reader.asked) = (below, ask_at, false);
            self.vote(txn, decider, Vote::Read { through: self.agreed, below }, out);
        }
    }

    /// Releases locks of attempts that have only read here once their bound has passed. Before it
    /// does, asks the coordinator whether they are still needed.
    pub(in crate::locking) fn release_readers(
        &mut self,
        now: Reading,
        out: &mut Outbox<Member<T>>,
    ) {
        let over = |reader: &Reader| now.interval.after(reader.below.nanos);
        let over: Vec<(TransactionId, Timestamp)> = self
            .participant
            .readers
            .iter()
            .filter(|(_, reader)| over(reader))
            .map(|(txn, reader)| (*txn, reader.below))
            .collect();
        for (txn, below) in over {
            sometimes!("the bound of a shard that was only read passes");
            self.release_reader(now, txn, Some(below), out);
        }
        let latest = now.interval.latest;
        let mut asks = Vec::new();
        for (txn, reader) in self
            .participant
            .readers
            .iter_mut()
            .filter(|(_, reader)| latest >= reader.ask_at && !reader.asked)
        {
            reader.asked = true;
            asks.push((*txn, reader.decider, reader.below));
        }
        for (txn, decider, below) in
            asks.into_iter().filter(|_| !broken(rules::READ_VOTE_NOT_RENEWED))
        {
            self.vote(txn, decider, Vote::Read { through: self.agreed, below }, out);
        }
        let wakes = |reader: &Reader| match reader.asked {
            true => reader.below.nanos.saturating_sub(now.interval.earliest),
            false => reader.ask_at.saturating_sub(latest),
        };
        if let Some(left) = self.participant.readers.values().map(wakes).min() {
            self.wake_in(left + 1);
        }
    }

    /// Renews a reader's promise: the coordinator still waits for other votes.
    pub(super) fn on_undecided(&mut self, txn: TransactionId) {
        if self.participant.readers.contains_key(&txn) {
            self.participant.renewing.insert(txn);
        }
    }

    /// Releases a reader's locks. Afterwards this leader issues nothing at or below `above`.
    pub(super) fn release_reader(
        &mut self,
        now: Reading,
        txn: TransactionId,
        above: Option<Timestamp>,
        out: &mut Outbox<Member<T>>,
    ) {
        step!("reader: releases");
        self.issuer.observe(above.unwrap_or_default());
        self.participant.readers.remove(&txn);
        self.participant.renewing.remove(&txn);
        self.participant.active.remove(&txn);
        let verdicts = self.participant.locks.release(txn);
        self.judge(now, verdicts, out);
    }
}
