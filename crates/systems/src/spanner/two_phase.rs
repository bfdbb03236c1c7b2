//! Two-phase commit between groups (§4.2.1): as the coordinator, and as a participant.
//!
//! 1. A participant's prepare record holds its locks, the shared ones too: whoever leads next takes
//!    them up before it serves (Trap A.5-8).
//! 2. A shard that was only read logs nothing: it votes with a bound below its ceiling, keeps its
//!    locks until the outcome is known or the bound has passed, and issues above the bound from
//!    then on, as whoever leads next does (Trap A.5-8).
//! 3. The commit timestamp is above all votes and below all bounds (Trap A.5-9). Nobody is told
//!    before it has surely passed.
//! 4. A transaction is decided in the leadership that its prepare records name, or never. What a
//!    leader of that term or a later one knows nothing of is aborted: its commit would stand on a
//!    birth in that leadership, and there is none; one that may yet begin without
//!    ([`blind`](super::blind)) is waited for. A leader of an earlier term says nothing.
//! 5. Decisions stay in the log until every participant has the outcome in its own (Traps A.5-11,
//!    A.5-12). A participant's leader says that of a transaction of which it knows nothing only if
//!    it was not prepared in a later term than its own.
//! 6. An older transaction that waits for one that is prepared, or has voted, has its coordinator
//!    told; while votes are outstanding it is aborted (Trap A.5-10).
//!
//! None of this is decided by a clock: a lease that a wrong clock believes in breaks no transaction
//! apart (I7).

use super::participant::{Late, Pending};
use super::records::{Agreed, Decision, Prepared, row_of_decision, row_of_prepared};
use super::schemas::Registered;
use super::{Member, Message};
use crate::spanner::rules;
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, NodeId, Outbox, ShardId, sometimes, step};
use meridian_mvcc::{KeyRange, Write};
use meridian_txn::locking::{Ask, Between, Blind, Reply, Seat, TransactionId, Verdict, Vote};
use meridian_txn::{Conflict, Lock};
use std::collections::{BTreeMap, BTreeSet};

/// What is prepared, or owed, is asked and told again so often.
pub(super) const RESOLVE_NS: u64 = 1_000_000_000;
/// A vote of a shard that was only read is good for at least so long, and for about so long if a
/// new ceiling is needed; under a short lease for less.
const READ_AT_LEAST_NS: u64 = 300_000_000;
const READ_FOR_NS: u64 = 1_000_000_000;
/// What is prepared and not resolved is asked for after 1, 2 and then 4 rounds: at most 2 to the
/// power of this.
const MOST_RESTS: u32 = 2;
/// A prepare timestamp, or what was read, may be so far ahead of the coordinator's clock: otherwise
/// its clock, or another, is wrong.
const FAR_NS: u64 = 1_000_000_000;

/// A transaction that is prepared here.
pub(super) struct InDoubt {
    pub(super) record: Prepared,
    /// The outcome is proposed, and who told it.
    ending: bool,
    told_by: Option<Address>,
    /// The node that led the coordinator's group when this leader prepared it.
    coordinator: Option<NodeId>,
    /// How often its coordinator was looked for, and how many rounds are let pass before the next
    /// time.
    asked: u32,
    rests: u32,
}

impl InDoubt {
    pub(super) fn new(record: Prepared) -> InDoubt {
        // Not in the first moment.
        InDoubt { record, ending: false, told_by: None, coordinator: None, asked: 0, rests: 1 }
    }

    /// Whether its coordinator is to be asked in this round, and where: at the node that led it,
    /// then everywhere, less and less often.
    fn asks(&mut self) -> Option<Option<NodeId>> {
        if self.rests > 0 {
            self.rests -= 1;
            return None;
        }
        let first = self.asked == 0;
        self.rests = (1 << self.asked.min(MOST_RESTS)) - 1;
        self.asked += 1;
        Some(self.coordinator.filter(|_| first))
    }

    /// When what stands here of it is replaced: at its commit, or where nothing else is. Nobody
    /// issues the last of a nanosecond.
    fn ends_at(&self, at: Option<Timestamp>) -> Timestamp {
        at.unwrap_or(Timestamp { logical: u32::MAX, ..self.record.at })
    }

    fn vote(&self) -> Vote {
        Vote::Prepared {
            at: self.record.from(),
            below: self.record.below.unwrap_or(Timestamp::MAX),
        }
    }
}

/// A decision that participants have to be told of: those that are, and the terms in which they
/// voted.
pub(super) struct Debt {
    at: Timestamp,
    owes: BTreeMap<ShardId, u64>,
}

impl Debt {
    pub(super) fn new(Decision { at, participants, voted_in }: Decision) -> Debt {
        let terms = voted_in.into_iter().chain(std::iter::repeat(0));
        Debt { at, owes: participants.into_iter().zip(terms).collect() }
    }
}

/// A shard's vote: the node that led it, and in which term.
#[derive(Clone, Debug)]
pub(super) struct Ballot {
    pub(super) shard: ShardId,
    pub(super) node: NodeId,
    pub(super) term: u64,
    pub(super) vote: Vote,
}

/// Votes, all of them yes; of each shard the newest.
#[derive(Clone, Debug, Default)]
pub(super) struct Collected(BTreeMap<ShardId, Ballot>);

impl Collected {
    /// The commit timestamp is above this.
    pub(super) fn above(&self) -> Timestamp {
        let above = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { at, .. } => at,
            Vote::Read { through, .. } => through,
            Vote::No { .. } => Timestamp::ZERO,
        };
        self.0.values().map(above).max().unwrap_or_default()
    }

    /// The commit timestamp is below this.
    pub(super) fn below(&self) -> Timestamp {
        let below = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { below, .. } | Vote::Read { below, .. } => below,
            Vote::No { .. } => Timestamp::MAX,
        };
        self.0.values().map(below).min().unwrap_or(Timestamp::MAX)
    }

    /// Whether some vote is so far ahead that a clock is wrong: the commit would wait for that, and
    /// everything behind it.
    pub(super) fn is_far(&self, now: Reading, ahead_ns: u64) -> bool {
        self.above().nanos > now.interval.latest.max(ahead_ns) + FAR_NS
    }

    /// The shards that have prepared, and the terms in which they voted.
    pub(super) fn prepared(&self) -> (Vec<ShardId>, Vec<u64>) {
        let prepared =
            self.0.values().filter(|ballot| matches!(ballot.vote, Vote::Prepared { .. }));
        prepared.map(|ballot| (ballot.shard, ballot.term)).unzip()
    }
}

/// A commit that waits for votes.
pub(super) struct Collecting {
    pub(super) pending: Pending,
    missing: BTreeSet<ShardId>,
    votes: Collected,
}

/// The leadership that decides on a transaction.
#[derive(Clone, Copy)]
pub(super) struct Decider {
    pub(super) seat: Seat,
    /// Its term: in another one the transaction is never committed.
    term: u64,
    /// How it was asked, if the attempt has locked nothing there.
    blind: Option<Blind>,
}

impl Decider {
    /// The one that a request to prepare names.
    pub(super) fn of(ask: &Ask) -> Option<Decider> {
        let Ask::Prepare { coordinator, blind, decides, .. } = ask else { return None };
        Some(Decider { seat: *coordinator, term: *decides, blind: *blind })
    }
}

/// A transaction that a participant asks about.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) transaction: TransactionId,
    pub(super) blind: Option<Blind>,
    /// The term in which it is decided, and the one in which the participant voted.
    pub(super) decides: u64,
    pub(super) voted_in: u64,
    /// It was only read there.
    pub(super) reads: bool,
}

/// An attempt that has only read here, and has voted.
pub(super) struct Reader {
    decider: Decider,
    /// Its commit timestamp is below this.
    below: Timestamp,
    /// However often the promise is renewed, not beyond this: a schema may be another from there
    /// on.
    limit: Timestamp,
    /// When the coordinator is to be asked whether the promise is needed for longer, in nanoseconds
    /// since the epoch; it is asked once for each promise.
    ask_at: u64,
    asked: bool,
}

impl<T: TimestampPolicy> Member<T> {
    // ------------------------------------------------------------------------
    // the coordinator

    /// A commit has its own locks, and waits for votes; some may have come already.
    pub(super) fn collect(&mut self, now: Reading, pending: Pending, out: &mut Outbox<Member<T>>) {
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

    fn count_vote(
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

    /// A commit that waits for votes is aborted, for good: nothing of it was decided.
    pub(super) fn abort_collecting(
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

    /// The same when the votes are known.
    pub(super) fn abort_voted(
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

    /// An attempt ends without having asked for its commit to be decided: who has voted for it
    /// already need not wait, if this is the leadership that counts.
    pub(super) fn dismiss_early_votes(
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
            // None of a later leadership's was kept.
            let (decides, reads) = (self.group.term().0, matches!(vote, Vote::Read { .. }));
            let asked = Asked { transaction: who, blind: None, decides, voted_in: term, reads };
            self.tell_voter(now, self.seat(node, shard), asked, out);
        }
    }

    fn say_decided(
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

    /// Tells whoever voted.
    pub(super) fn tell_outcome(
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

    /// A decision is in the log, its row beside it.
    pub(super) fn owe(
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

    /// Rows of decisions that everybody has.
    pub(super) fn on_forget_agreed(&mut self, transactions: &[TransactionId]) -> Vec<Write> {
        for who in transactions {
            self.participant.debts.remove(who);
        }
        transactions.iter().map(|who| row_of_decision(self.shard, *who, None)).collect()
    }

    // ------------------------------------------------------------------------
    // a participant

    /// Somebody wants an attempt to be prepared. True if that is answered already.
    pub(super) fn has_voted(
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

    fn vote(&self, who: TransactionId, decider: Decider, vote: Vote, out: &mut Outbox<Member<T>>) {
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

    /// Says to whoever asked, and to the coordinator if it is another, that it cannot be.
    pub(super) fn refuse(&self, pending: &Pending, why: Conflict, out: &mut Outbox<Member<T>>) {
        let (who, id) = (pending.request.transaction, pending.request.id);
        if let Some(decider) = Decider::of(&pending.request.ask) {
            self.vote(who, Decider { blind: None, ..decider }, Vote::No { why: why.clone() }, out);
        }
        out.send(pending.from, Message::Answer(Reply::Aborted { id, why }));
    }

    /// Whose turn has come cannot be: says so to everybody.
    pub(super) fn refuse_drawn(
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

    /// An attempt has its locks, and is to be prepared.
    pub(super) fn prepare(&mut self, pending: Pending, out: &mut Outbox<Member<T>>) {
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

    /// What is to be in the log of an attempt that has its locks.
    pub(super) fn record_of(&self, pending: &Pending, at: Timestamp) -> Option<Agreed> {
        let Ask::Prepare { writes, coordinator, schema, blind, decides } = &pending.request.ask
        else {
            return None;
        };
        let who = pending.request.transaction;
        // What is written is locked exclusively, and stands in the record anyhow.
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

    /// A prepare record is in the log: its row. The leader votes.
    pub(super) fn on_prepare_agreed(
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
            // Its vote leaves after the slot says that something is prepared here: who reads by
            // himself must not miss what comes of it.
            let vote = self.ballot(who, (term, blind), doubt.vote());
            self.participant.votes.push((self.seat(seat.node, seat.shard), Message::Between(vote)));
            out.send(from, Message::Answer(Reply::Prepared { id: request.id }));
        } else {
            step!("member: another's prepare record is agreed");
        }
        self.participant.prepared.insert(who, doubt);
        row
    }

    /// Sends the votes of attempts that have only read here, first ones and renewed ones, once the
    /// log holds a high enough ceiling.
    pub(super) fn vote_reads(&mut self, now: Reading, out: &mut Outbox<Member<T>>) {
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
            let decider = Decider::of(&request.ask).expect("only that is prepared");
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
            out.send(from, Message::Answer(Reply::Prepared { id: request.id }));
            self.participant.readers.insert(request.transaction, reader);
        }
        for who in std::mem::take(&mut self.participant.renewing) {
            let Some(reader) =
                self.participant.readers.get_mut(&who).filter(|reader| reader.below < reader.limit)
            else {
                continue;
            };
            if ceiling <= reader.below {
                self.participant.renewing.insert(who);
                self.want_ceiling(latest + most);
                continue;
            }
            sometimes!("a shard that was only read promises for longer");
            let (decider, below) = (reader.decider, ceiling.min(reader.limit));
            (reader.below, reader.ask_at, reader.asked) = (below, ask_at, false);
            self.vote(who, decider, Vote::Read { through: self.agreed, below }, out);
        }
    }

    /// Locks of attempts that have only read here are not needed any more once their bound has
    /// passed. Before it does, the coordinator is asked whether they are.
    pub(super) fn release_readers(&mut self, now: Reading, out: &mut Outbox<Member<T>>) {
        let over = |reader: &Reader| now.interval.after(reader.below.nanos);
        let over: Vec<(TransactionId, Timestamp)> = self
            .participant
            .readers
            .iter()
            .filter(|(_, reader)| over(reader))
            .map(|(who, reader)| (*who, reader.below))
            .collect();
        for (who, below) in over {
            sometimes!("the bound of a shard that was only read passes");
            self.let_reader_go(now, who, Some(below), out);
        }
        let latest = now.interval.latest;
        let mut asks = Vec::new();
        for (who, reader) in self
            .participant
            .readers
            .iter_mut()
            .filter(|(_, reader)| latest >= reader.ask_at && !reader.asked)
        {
            reader.asked = true;
            asks.push((*who, reader.decider, reader.below));
        }
        for (who, decider, below) in
            asks.into_iter().filter(|_| !broken(rules::READ_VOTE_NOT_RENEWED))
        {
            self.vote(who, decider, Vote::Read { through: self.agreed, below }, out);
        }
        let wakes = |reader: &Reader| match reader.asked {
            true => reader.below.nanos.saturating_sub(now.interval.earliest),
            false => reader.ask_at.saturating_sub(latest),
        };
        if let Some(left) = self.participant.readers.values().map(wakes).min() {
            self.wake_in(left + 1);
        }
    }

    /// The coordinator waits for others, and needs a promise for longer.
    fn on_undecided(&mut self, who: TransactionId) {
        if self.participant.readers.contains_key(&who) {
            self.participant.renewing.insert(who);
        }
    }

    /// From now on nothing is issued at or below `above`.
    fn let_reader_go(
        &mut self,
        now: Reading,
        who: TransactionId,
        above: Option<Timestamp>,
        out: &mut Outbox<Member<T>>,
    ) {
        step!("reader: lets go");
        self.issuer.observe(above.unwrap_or_default());
        self.participant.readers.remove(&who);
        self.participant.renewing.remove(&who);
        self.participant.live.remove(&who);
        let verdicts = self.participant.locks.release(who);
        self.judge(now, verdicts, out);
    }

    /// An outcome is in the log: when it is installed, and what.
    pub(super) fn on_outcome_agreed(
        &mut self,
        who: TransactionId,
        at: Option<Timestamp>,
        out: &mut Outbox<Member<T>>,
    ) -> Option<(Timestamp, Vec<Write>)> {
        // Proposed by two leaders, it counts once.
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

    /// Nobody asks a follower for keys: of what is late only the newest counts.
    pub(super) fn forget_keys(&mut self) {
        let newest = self.participant.late.iter().map(|late| late.at).max();
        self.participant.late =
            newest.map(|at| Late { at, keys: Vec::new(), schema: true }).into_iter().collect();
    }

    // ------------------------------------------------------------------------
    // between leaders

    pub(super) fn on_between(
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
            // An echo of its first question may live here; nothing of it is decided by that.
            return;
        }
        // A shard that was only read and votes again asks whether its promise is still needed.
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

    /// Whether a commit of which nothing is known here may yet begin.
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

    /// It has all its locks and votes: it ends by itself.
    pub(super) fn is_ending(&self, who: TransactionId) -> bool {
        self.participant.agreeing.has(who)
            || self.participant.passing.has(who)
            || self.participant.ready.iter().any(|pending| pending.request.transaction == who)
    }

    /// An attempt cannot go on; if it waits, it is told.
    pub(super) fn doom(
        &mut self,
        now: Reading,
        who: TransactionId,
        why: Conflict,
        out: &mut Outbox<Member<T>>,
    ) {
        let ticket = self.participant.pending.place_of(who);
        self.judge(now, vec![Verdict::Victim(who, ticket, why)], out);
    }

    /// What became of a transaction that another shard has prepared.
    pub(super) fn tell_voter(
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
            // Decisions are kept for who has prepared. That this one has committed may be
            // forgotten; its bound passes.
            return;
        }
        if decides == 0 && now.interval.latest >= self.leased_until(now) {
            // An earlier release has prepared it, and named no leadership: only a lease says that
            // this is the one that counts.
            return;
        }
        // No commit of it can stand here any more (invariant 4).
        sometimes!("a coordinator that knows nothing of a transaction says that it is aborted");
        self.say_decided(from, who, None, voted_in, out);
    }

    /// Whether only a later leadership than this one decides on a transaction.
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
            // It has ended here already, if this leader would know (invariant 5). If its record is
            // only on its way into the log, it will ask.
            // An earlier release named no term.
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

    /// An older transaction waits for a prepared one.
    pub(super) fn forward_wound(
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

    /// Whose group decides on a transaction that holds locks here until then.
    pub(super) fn coordinator_of(&self, who: TransactionId) -> Option<ShardId> {
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

    /// Asks and tells again.
    pub(super) fn resolve_prepared(&mut self, now: Reading, out: &mut Outbox<Member<T>>) {
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

    /// A leadership begins: what is prepared holds its locks again (invariant 1).
    pub(super) fn take_up_prepared(&mut self, now: Reading) {
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

    /// This member leads no more: what waits for votes is aborted, for its births are void.
    pub(super) fn dismiss_votes(&mut self, out: &mut Outbox<Member<T>>) {
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
