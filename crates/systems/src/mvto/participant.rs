//! Timestamp ordering as a shard's participant: every member's state of transactions, and what only
//! a leader knows besides.

use super::records::{OrderedCommand, OrderedRows, row_of_closed, rows_of_schemas};
use super::{KIND, Member, Message};
use crate::Protocol;
use crate::envelope::Kind;
use crate::shard::{self, Config, Participant, row_of_ceiling};
use meridian_clock::oracle::Oracle;
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, ShardId};
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::group::{Entry, Index, Term};
use meridian_txn::locking::Waits;
use meridian_txn::mvto::{
    self, Intents, Operation, Outcomes, Peer, ReadTracker, Recorder, Reservations, State, rules,
};
use meridian_txn::shards::{Request, RequestBody, Response, Shards, Spent};
use meridian_txn::{Database, Lock, SchemaHistory, TransactionId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many times as many outcomes are remembered as under locks: a transaction whose timestamp is
/// older than a forgotten one's has to move to a new timestamp.
const OUTCOMES: usize = 10;
/// How often a leader looks for transactions that do not end by themselves, in nanoseconds.
const RESOLVE_NS: u64 = 1_000_000_000;

/// A request that waits for older transactions, or for a ceiling.
pub(super) struct Waiting {
    pub(super) from: Address,
    pub(super) request: Request,
    /// When it was received, by the boot clock.
    pub(super) asked_ns: u64,
    /// True if its read is noted: nothing that it may see is written any more.
    pub(super) noted: bool,
    /// The transactions for which it waited last.
    pub(super) blockers: Vec<TransactionId>,
}

/// A command that is proposed and not agreed, and the request that it answers.
pub(super) struct Proposed {
    pub(super) transaction: TransactionId,
    pub(super) asked: Option<(Address, u64)>,
    /// The part of an intent.
    pub(super) part: Option<u32>,
    /// When the timestamp has surely passed, by the boot clock, if its coordinator knows that.
    pub(super) passed_ns: Option<u64>,
    /// True for the recorder's decision.
    pub(super) decides: bool,
}

/// An agreed commit in commit wait.
pub(super) struct CommitWait {
    pub(super) transaction: TransactionId,
    pub(super) asked: Option<(Address, u64)>,
    /// When it was agreed, by the boot clock.
    pub(super) agreed_ns: u64,
    /// When the timestamp has surely passed, by the boot clock, if its coordinator knows that.
    pub(super) passed_ns: Option<u64>,
}

/// The shards that wait for a transaction's outcome, at its recorder.
pub(super) struct Pushed {
    pub(super) at: Timestamp,
    pub(super) by: Vec<Address>,
    /// When the first one asked, by the boot clock.
    pub(super) since_ns: u64,
}

/// Timestamp ordering at a member of a shard's group.
pub struct Mvto {
    /// The intents: those in the log, and at a leader also those that are proposed.
    pub(super) intents: Intents,
    /// The records of transactions that this shard decides.
    pub(super) recorder: Recorder,
    pub(super) outcomes: Outcomes,
    pub(super) schemas: BTreeMap<u32, SchemaHistory>,
    /// The closed timestamp: no write at or below it is accepted.
    pub(super) closed: Timestamp,
    /// The most outcomes to remember, and the most reads.
    most_outcomes: usize,
    most_reads: usize,

    // What only a leader has.
    pub(super) tracker: ReadTracker,
    pub(super) waiting: Vec<Waiting>,
    pub(super) proposed: BTreeMap<Index, Proposed>,
    pub(super) pushed: BTreeMap<TransactionId, Pushed>,
    /// When the recorders of transactions were asked last, by the boot clock.
    pub(super) pushes: BTreeMap<TransactionId, u64>,
    /// The recorders' leaders to which `Finalized` is sent once an outcome is in the log.
    pub(super) acknowledge_to: BTreeMap<TransactionId, Address>,
    /// The newest timestamp of a transaction that was written here.
    pub(super) newest: Timestamp,
    /// True while a closed timestamp is being agreed on.
    pub(super) closing: bool,
    pub(super) reservations: Reservations,
    /// Agreed commits of one shard whose timestamps have not surely passed: later readers wait.
    pub(super) commit_waits: BTreeMap<Timestamp, CommitWait>,
    /// Answers to requests about the shard, by the timestamps that must have passed.
    due: BTreeMap<Timestamp, (Address, u64)>,
    /// The time, for coordinators. What it has answered before needs no ceiling on disk: a
    /// timestamp names its coordinator's incarnation, and lies between the true times of its
    /// transaction whatever an earlier incarnation has answered.
    pub(super) oracle: Oracle,
    /// True if the timer is armed with which the leader looks for what does not end by itself.
    resolving: bool,
}

impl Participant for Mvto {
    const KIND: Kind = KIND;
    type Peer = Peer;
    type Command = OrderedCommand;
    type Rows = OrderedRows;

    fn database<S: Shards>(_: &Protocol, shards: Arc<S>) -> Arc<dyn Database> {
        Arc::new(mvto::TxnClient::new(shards))
    }

    fn new(config: &Config) -> Self {
        Mvto {
            intents: Intents::default(),
            recorder: Recorder::default(),
            outcomes: Outcomes::new(OUTCOMES * config.outcomes.max(1), Timestamp::ZERO),
            schemas: BTreeMap::new(),
            closed: Timestamp::ZERO,
            most_reads: config.recent_writes,
            most_outcomes: OUTCOMES * config.outcomes.max(1),
            tracker: ReadTracker::above(Timestamp::ZERO, config.recent_writes),
            waiting: Vec::new(),
            proposed: BTreeMap::new(),
            pushed: BTreeMap::new(),
            pushes: BTreeMap::new(),
            acknowledge_to: BTreeMap::new(),
            newest: Timestamp::ZERO,
            closing: false,
            reservations: Reservations::default(),
            commit_waits: BTreeMap::new(),
            due: BTreeMap::new(),
            oracle: Oracle::default(),
            resolving: false,
        }
    }

    fn restore(shard: &mut Member, rows: OrderedRows) {
        // What is stored of a transaction lies just below its timestamp.
        let intents = rows.intents.values().map(|intent| intent.at);
        shard.agreed = intents.fold(shard.agreed, Timestamp::max);
        let (id, agreed) = (shard.shard, shard.agreed);
        let this = &mut shard.participant;
        this.intents = Intents::default();
        for ((txn, _), intent) in rows.intents {
            this.intents.agree(id, txn, intent, 0);
        }
        this.recorder = Recorder::restore(rows.records);
        this.schemas = rows.schemas;
        this.closed = rows.closed;
        // The log has a part of them again.
        this.outcomes = Outcomes::new(this.most_outcomes, agreed);
    }

    fn recall(&mut self, command: OrderedCommand, _: Term) {
        if let Some((txn, at, outcome)) = outcome_in(&self.recorder, &command) {
            self.outcomes.remember(txn, at, outcome);
        }
    }

    fn forget_through(&mut self, _: Term) {
        // `restore` has noted which outcomes may be forgotten, by their timestamps.
    }

    fn on_request(
        shard: &mut Member,
        now: Reading,
        from: Address,
        request: Request,
        out: &mut Outbox<Member>,
    ) {
        shard.on_ordered_request(now, from, request, out);
    }

    fn on_peer(
        shard: &mut Member,
        now: Reading,
        from: Address,
        message: Peer,
        out: &mut Outbox<Member>,
    ) {
        shard.on_peer_message(now, from, message, out);
    }

    fn apply(
        shard: &mut Member,
        now: Reading,
        entry: &Entry,
        command: OrderedCommand,
        out: &mut Outbox<Member>,
    ) {
        shard.on_agreed(now, entry, command, out);
    }

    fn look_at_idle(_: &mut Member, _: Reading, _: &mut Outbox<Member>) {}

    fn resolve(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        shard.participant.resolving = false;
        shard.resolve_pending(now, out);
    }

    fn may_lead(&self) -> bool {
        true
    }

    fn lead(shard: &mut Member, now: Reading) {
        let mut floor = shard.agreed.max(shard.ceiling).max(shard.participant.closed);
        if broken(rules::LEADER_WITHOUT_FLOOR) {
            floor = Timestamp::ZERO;
        }
        let this = &mut shard.participant;
        this.tracker = ReadTracker::above(floor, this.most_reads);
        this.recorder.touch_all(now.boot_ns);
        this.newest = this.newest.max(shard.agreed);
    }

    fn step_down(shard: &mut Member, out: &mut Outbox<Member>) {
        shard.dismiss_ordered(out);
    }

    fn release(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        shard.release_waited_commits(now, out);
        let (policy, closed) = (shard.policy, shard.participant.closed);
        shard.visible = shard.visible.max(closed);
        while let Some(due) = shard.participant.due.first_entry() {
            if !policy.is_visible(now, *due.key()) {
                break;
            }
            let (at, (to, id)) = due.remove_entry();
            let done = Response::Committed { id, at, spent: Spent::default() };
            out.send(to, Message::Response(done));
        }
    }

    fn propose_ready(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        shard.serve_waiting(now, out);
    }

    fn answer_reads(_: &mut Member, _: Reading, _: &mut Outbox<Member>) {}

    fn next_release(&self, now: Reading, policy: &dyn TimestampPolicy) -> Option<u64> {
        let due = self.due.keys().next().map(|at| policy.wait_ns(now, *at));
        let waited = self.commit_waits.first_key_value().map(|(at, wait)| match wait.passed_ns {
            Some(passed_ns) => passed_ns.saturating_sub(now.boot_ns),
            None => policy.wait_ns(now, *at),
        });
        due.into_iter().chain(waited).min()
    }

    fn arm(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        let (serving, this) = (shard.serving, &mut shard.participant);
        if serving && this.has_unresolved() && !this.resolving {
            this.resolving = true;
            out.arm(shard::Timer::Resolve, now.boot_ns + RESOLVE_NS);
        }
    }

    fn send(&mut self, _: &mut Outbox<Member>) {}

    fn oldest_in_flight(&self) -> Option<Timestamp> {
        None
    }

    fn newest_proposed(&self) -> Option<Timestamp> {
        None
    }

    fn in_doubt_from(&self) -> Timestamp {
        let before = |at: Timestamp| Timestamp::end_of(at.nanos - 1);
        self.intents.oldest().map_or(self.closed, |oldest| self.closed.min(before(oldest)))
    }

    fn reads_alone(&self) -> bool {
        // A read has to be noted, so that nothing is written below it.
        false
    }

    fn is_quiet(&self) -> bool {
        false
    }

    fn has_drained(&self) -> bool {
        // Transactions outlast a change of leaders.
        true
    }

    fn is_at_rest(&self) -> bool {
        let asked = self.waiting.is_empty() && self.proposed.is_empty();
        asked && self.commit_waits.is_empty() && !self.has_unresolved()
    }

    fn may_split(&self) -> bool {
        self.intents.is_empty() && self.proposed.is_empty()
    }

    fn begins(&self, request: &Request) -> bool {
        let RequestBody::Ordered { operation, .. } = &request.body else { return false };
        let txn = request.transaction;
        matches!(operation, Operation::Write { .. } | Operation::CommitAlone { .. })
            && self.intents.get(txn).is_none()
            && self.outcomes.get(txn).is_none()
    }

    fn end_for_split(shard: &mut Member, _: Reading, _: &mut Outbox<Member>) {
        // Their coordinators move. Those that others decide end by themselves.
        shard.abort_pending();
    }

    fn answer_when_passed(
        &mut self,
        _: Reading,
        at: Timestamp,
        _: TransactionId,
        asked: (Address, u64),
    ) {
        self.due.insert(at, asked);
    }

    fn rows_of_child(shard: &Member, child: ShardId) -> Vec<Write> {
        // The new shard accepts writes above every read that was served here.
        let this = &shard.participant;
        let about = [
            row_of_ceiling(child, shard.ceiling.max(shard.agreed)),
            row_of_closed(child, this.closed),
        ];
        rows_of_schemas(child, &this.schemas).chain(about).collect()
    }

    fn waits(&self) -> Vec<Waits> {
        let line = |waiting: &Waiting| {
            let range = match &waiting.request.body {
                RequestBody::Ordered { operation: Operation::Read { range, .. }, .. } => {
                    range.clone()
                }
                _ => KeyRange::default(),
            };
            Waits {
                waiter: waiting.request.transaction,
                range,
                lock: Lock::Shared,
                blockers: waiting.blockers.clone(),
            }
        };
        let blocked = self.waiting.iter().filter(|waiting| !waiting.blockers.is_empty());
        blocked.map(line).collect()
    }

    fn holders(&self) -> usize {
        self.intents.len()
    }

    fn unresolved(&self) -> usize {
        self.recorder.unresolved()
    }
}

impl Mvto {
    /// True if something is left that a leader may have to end: intents, records, or timestamps to
    /// be closed.
    pub(super) fn has_unresolved(&self) -> bool {
        let pending = !self.intents.is_empty() || !self.recorder.is_empty();
        pending || !self.pushed.is_empty() || self.closing || self.closed < self.newest
    }
}

/// The outcome that a command in the log gives a transaction, which the log may have decided
/// before: then the record has the decision that counts, and the log may have its entry no more.
fn outcome_in(
    recorder: &Recorder,
    command: &OrderedCommand,
) -> Option<(TransactionId, Timestamp, Option<Timestamp>)> {
    match command {
        OrderedCommand::Alone { transaction, at, .. } => {
            let aborted = recorder.state(*transaction) == Some(State::Aborted);
            Some((*transaction, *at, (!aborted).then_some(*at)))
        }
        OrderedCommand::Decide { transaction, at, .. } => match recorder.state(*transaction)? {
            State::Committed => Some((*transaction, *at, Some(*at))),
            State::Aborted => Some((*transaction, *at, None)),
            State::Pending => None,
        },
        OrderedCommand::Finalize { transaction, at: Some(at), .. } => {
            Some((*transaction, *at, Some(*at)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_txn::mvto::TransactionRecord;

    #[test]
    fn a_later_decision_in_the_log_does_not_contradict_the_record() {
        let at = Timestamp { nanos: 10, logical: 0, issuer: 1 };
        let by = |number| TransactionId { node: 1, incarnation: 1, number };
        let record = |state| TransactionRecord { at, state, places: Vec::new() };
        let records = [(by(1), record(State::Committed)), (by(2), record(State::Aborted))];
        let recorder = Recorder::restore(records.into());
        let outcome = |transaction, commits| {
            let places = Vec::new();
            outcome_in(
                &recorder,
                &OrderedCommand::Decide { transaction, at, commits, places, parts: 0 },
            )
        };
        assert_eq!(outcome(by(1), false), Some((by(1), at, Some(at))));
        assert_eq!(outcome(by(2), true), Some((by(2), at, None)));
        assert_eq!(outcome(by(3), true), None, "its record is forgotten");
        let (writes, schemas) = (Vec::new(), Vec::new());
        let alone = OrderedCommand::Alone { transaction: by(2), at, writes, schemas };
        assert_eq!(outcome_in(&recorder, &alone), Some((by(2), at, None)));
    }
}
