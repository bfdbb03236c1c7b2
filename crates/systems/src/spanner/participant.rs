//! Two-phase locking as a shard's participant: what a leader knows of transactions, and what every
//! member knows of those that are prepared.

use super::blind::Blinds;
use super::by_transaction::ByTransaction;
use super::records::{Agreed, TransactionRows, any_within};
use super::schemas::{Registered, Schemas};
use super::snapshots::Snapshot;
use super::two_phase::{Ballot, Collected, Collecting, Debt, InDoubt, RESOLVE_NS, Reader};
use super::{Member, Message};
use crate::shard::{self, Config, Participant, ShardResponse};
use crate::spanner::rules;
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, Write};
use meridian_replication::group::{Entry, Index, Term};
use meridian_txn::locking::{
    Ask, Between, Footing, LockTable, Reply, Request, Spent, Ticket, TransactionId, Verdict,
};
use meridian_txn::{Age, Conflict};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::marker::PhantomData;

/// A read that is to be answered with [`Reply::Rows`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// Who asked.
    pub reply_to: Address,
    /// The question.
    pub id: u64,
    /// What the attempt's locks stand on.
    pub footing: Footing,
    /// The snapshot.
    pub at: Timestamp,
    /// What to read.
    pub range: KeyRange,
    /// From its end backwards.
    pub reverse: bool,
    /// At most so many rows.
    pub limit_rows: u32,
    /// Tell when each row was committed.
    pub versions: bool,
    /// The answer is true only if it leaves while `now.latest` is below this.
    pub deadline: Option<u64>,
}

/// An attempt that asked this leadership something.
pub(super) struct Live {
    /// The number of its birth here.
    pub(super) birth: u64,
    pub(super) age: Age,
    /// What its session calls itself.
    pub(super) application: Option<String>,
    /// Why it cannot go on, if it cannot.
    pub(super) doomed: Option<Conflict>,
    /// Its newest question: what is older and arrives later is not answered.
    pub(super) newest: u64,
    /// Who is told that it is wounded.
    pub(super) gateway: Address,
    /// Votes of other shards that came before the commit, for which this one coordinates.
    pub(super) votes: Vec<Ballot>,
}

pub(super) struct Pending {
    pub(super) from: Address,
    pub(super) request: Request,
    /// Of a commit: how many of its keys are locked.
    pub(super) locked: usize,
    /// Of a commit or a prepare: its timestamp, and when that was drawn, by the boot clock.
    pub(super) at: Timestamp,
    pub(super) drawn_ns: u64,
    /// Of a commit that coordinates: the votes.
    pub(super) votes: Option<Collected>,
    /// Of a change of schemas: nobody who has voted before it can come after it.
    pub(super) registered: bool,
}

impl Pending {
    /// Whether it commits what writes into a range.
    pub(super) fn writes_into(&self, range: &KeyRange) -> bool {
        let Ask::Commit { writes, .. } = &self.request.ask else { return false };
        self.change().is_some() || any_within(writes, |write| &write.key, range)
    }

    pub(super) fn new(from: Address, request: Request) -> Pending {
        Pending {
            from,
            request,
            locked: 0,
            at: Timestamp::ZERO,
            drawn_ns: 0,
            votes: None,
            registered: false,
        }
    }
}

/// An agreed commit whose timestamp has not surely passed.
pub(super) struct Passing {
    pub(super) at: Timestamp,
    pub(super) transaction: TransactionId,
    /// Who wants to hear of it, and by which question.
    pub(super) asked: Option<(Address, u64)>,
    /// By the boot clock.
    pub(super) drawn_ns: u64,
    pub(super) agreed_ns: u64,
    /// Who waits for the outcome elsewhere.
    pub(super) votes: Option<Collected>,
    /// What it wrote, sorted, where this leader drew its timestamp.
    pub(super) writes: Vec<Write>,
    /// It changed a schema.
    pub(super) schema: bool,
}

impl Passing {
    pub(super) fn writes_into(&self, range: &KeyRange) -> bool {
        self.schema || any_within(&self.writes, |write| &write.key, range)
    }
}

/// An outcome that is installed before what lies below it.
pub(super) struct Late {
    pub(super) at: Timestamp,
    /// What it wrote, sorted.
    pub(super) keys: Vec<Key>,
    /// It changed a schema: everything here is another since.
    pub(super) schema: bool,
}

/// Attempts that are remembered although they hold nothing here.
const IDLE_ATTEMPTS: usize = 10_000;

/// Two-phase locking at the leader of a shard's group.
pub struct Locking<T: TimestampPolicy> {
    clock: PhantomData<T>,
    pub(super) schemas: Schemas,
    /// Outcomes that are installed, above commits that are not visible yet.
    pub(super) late: Vec<Late>,
    pub(super) locks: LockTable,
    /// The timer for idle transactions is armed.
    pub(super) watching: bool,
    pub(super) live: BTreeMap<TransactionId, Live>,
    /// What this leadership remembers of attempts that locked nothing before.
    pub(super) blinds: Blinds,
    /// How many attempts this life of the member has seen begin.
    pub(super) births: u64,
    /// Requests that wait for a lock.
    pub(super) pending: ByTransaction<Ticket, Pending>,
    pub(super) next_ticket: Ticket,
    /// Commits that hold their locks and wait for the lease to reach further.
    pub(super) ready: VecDeque<Pending>,
    /// Proposed.
    pub(super) agreeing: ByTransaction<Index, Pending>,
    /// Agreed; in commit wait, by their timestamps.
    pub(super) passing: ByTransaction<Timestamp, Passing>,
    /// Answers to those of which the timestamp has passed in this step.
    pub(super) answers: Vec<(Address, Reply)>,
    /// Snapshots that wait until everything at or below them is visible.
    pub(super) snapshots: Vec<Snapshot>,
    /// Transactions that are prepared here, whichever member leads.
    pub(super) prepared: BTreeMap<TransactionId, InDoubt>,
    /// Commits that were decided here and are not in every participant's log, as far as is known.
    pub(super) debts: BTreeMap<TransactionId, Debt>,
    /// Commits that wait for votes.
    pub(super) collecting: BTreeMap<TransactionId, Collecting>,
    /// Attempts that have only read here, and want to vote; and those that have, with the bound of
    /// their commit timestamps.
    pub(super) would_vote: Vec<Pending>,
    pub(super) readers: BTreeMap<TransactionId, Reader>,
    /// Those whose bound is to be a later one.
    pub(super) renewing: BTreeSet<TransactionId>,
    /// Votes of this step.
    pub(super) votes: Vec<(Address, Message)>,
    /// The timer for what is prepared or owed is armed.
    pub(super) resolving: bool,
    pub(super) outcomes: BTreeMap<TransactionId, Timestamp>,
    /// How many of them are remembered.
    most_outcomes: usize,
    /// The remembered outcomes and their terms, oldest first.
    pub(super) remembered: VecDeque<(TransactionId, Term)>,
    /// Outcomes of this term and of earlier ones may be forgotten: a request for one is answered
    /// `Unknown`, never `Aborted`.
    pub(super) forgotten: Term,
}

impl From<ShardResponse> for Reply {
    fn from(response: ShardResponse) -> Reply {
        match response {
            ShardResponse::Done { id, at } => Reply::Committed { id, at, spent: Spent::default() },
            ShardResponse::Waiting { id } => Reply::Waiting { id },
            ShardResponse::NotLeader { id, leader } => Reply::NotLeader { id, leader },
            ShardResponse::Moved { id, to } => Reply::Moved { id, to },
            ShardResponse::Refused { id, why } => Reply::Refused { id, why },
            ShardResponse::Unknown { id } => Reply::Unknown { id },
        }
    }
}

impl shard::Request for Request {
    fn id(&self) -> u64 {
        self.id
    }
}

impl<T: TimestampPolicy> Participant for Locking<T> {
    type Clock = T;
    type Request = Request;
    type Response = Reply;
    type Peer = Between;
    type Command = Agreed;
    type Rows = TransactionRows;
    type Read = Serve;

    fn new(config: &Config) -> Self {
        Locking {
            clock: PhantomData,
            schemas: Schemas::default(),
            late: Vec::new(),
            locks: LockTable::new(),
            watching: false,
            live: BTreeMap::new(),
            blinds: Blinds::default(),
            births: 0,
            pending: ByTransaction::default(),
            next_ticket: 0,
            ready: VecDeque::new(),
            agreeing: ByTransaction::default(),
            passing: ByTransaction::default(),
            answers: Vec::new(),
            snapshots: Vec::new(),
            prepared: BTreeMap::new(),
            debts: BTreeMap::new(),
            collecting: BTreeMap::new(),
            would_vote: Vec::new(),
            readers: BTreeMap::new(),
            renewing: BTreeSet::new(),
            votes: Vec::new(),
            resolving: false,
            outcomes: BTreeMap::new(),
            most_outcomes: config.outcomes,
            remembered: VecDeque::new(),
            forgotten: Term(0),
        }
    }

    fn restore(shard: &mut Member<T>, rows: TransactionRows) {
        let this = &mut shard.participant;
        this.prepared = rows
            .prepared
            .into_iter()
            .map(|(who, prepared)| (who, InDoubt::new(prepared)))
            .collect();
        let changes = |(who, doubt): (&TransactionId, &InDoubt)| {
            doubt.record.changes.as_ref().map(|changes| (*who, Registered::new(changes)))
        };
        this.schemas.registered = this.prepared.iter().filter_map(changes).collect();
        this.schemas.agreed = rows.schemas;
        this.debts =
            rows.decisions.into_iter().map(|(who, decision)| (who, Debt::new(decision))).collect();
    }

    fn recall(&mut self, command: Agreed, term: Term) {
        if let Agreed::Commit { at, transaction, .. }
        | Agreed::Outcome { at: Some(at), transaction } = command
        {
            self.remember(transaction, at, term);
        }
    }

    fn forget_through(&mut self, term: Term) {
        self.forgotten = self.forgotten.max(term);
    }

    fn on_request(
        shard: &mut Member<T>,
        now: Reading,
        from: Address,
        request: Request,
        out: &mut Outbox<Member<T>>,
    ) {
        shard.on_ask(now, from, request, out);
    }

    fn on_peer(
        shard: &mut Member<T>,
        now: Reading,
        from: Address,
        message: Between,
        out: &mut Outbox<Member<T>>,
    ) {
        shard.on_between(now, from, message, out);
    }

    fn apply(
        shard: &mut Member<T>,
        now: Reading,
        entry: &Entry,
        command: Agreed,
        out: &mut Outbox<Member<T>>,
    ) {
        shard.on_agreed(now, entry, command, out);
    }

    fn look_at_idle(shard: &mut Member<T>, now: Reading, out: &mut Outbox<Member<T>>) {
        let victims = shard.participant.locks.idle_victims(now.boot_ns);
        shard.judge(now, victims, out);
        let this = &mut shard.participant;
        if this.live.len() > IDLE_ATTEMPTS {
            // Victims whose sessions never came back. Should one come yet, it hears `Expired`.
            this.live.retain(|_, live| live.doomed.is_none());
        }
        this.watching = false;
    }

    fn resolve(shard: &mut Member<T>, now: Reading, out: &mut Outbox<Member<T>>) {
        shard.resolve_prepared(now, out);
    }

    fn may_lead(&self) -> bool {
        self.passing.is_empty()
    }

    fn lead(shard: &mut Member<T>, now: Reading) {
        shard.participant.late.clear();
        shard.take_up_prepared(now);
    }

    fn step_down(shard: &mut Member<T>, out: &mut Outbox<Member<T>>) {
        shard.refuse_all(out);
    }

    fn release(shard: &mut Member<T>, now: Reading, out: &mut Outbox<Member<T>>) {
        shard.release_waited_commits(now, out);
        shard.release_readers(now, out);
    }

    fn propose_ready(shard: &mut Member<T>, now: Reading, out: &mut Outbox<Member<T>>) {
        shard.go_on_registering(now, out);
        shard.give_up_changes(now, out);
        shard.draw(now, out);
        shard.vote_reads(now, out);
    }

    fn answer_reads(shard: &mut Member<T>, now: Reading, out: &mut Outbox<Member<T>>) {
        shard.show_snapshots(now, out);
    }

    fn next_release(&self, now: Reading) -> Option<u64> {
        self.passing.values().next().map(|passing| T::wait_ns(now, passing.at))
    }

    fn arm(shard: &mut Member<T>, now: Reading, out: &mut Outbox<Member<T>>) {
        let (serving, this) = (shard.serving, &mut shard.participant);
        let unresolved =
            !this.prepared.is_empty() || !this.debts.is_empty() || !this.readers.is_empty();
        if serving && unresolved && !this.resolving {
            this.resolving = true;
            out.arm(shard::Timer::Resolve, now.boot_ns + RESOLVE_NS);
        }
        if !this.watching && !this.locks.is_empty() {
            this.watching = true;
            out.arm(shard::Timer::Idle, now.boot_ns + LockTable::IDLE_NS / 2);
        }
    }

    fn send(&mut self, out: &mut Outbox<Member<T>>) {
        // Behind the slot, which shows it: a read that begins on this node now must find it (real
        // time).
        std::mem::take(&mut self.votes).into_iter().for_each(|(to, vote)| out.send(to, vote));
        std::mem::take(&mut self.answers)
            .into_iter()
            .for_each(|(to, reply)| out.send(to, Message::Answer(reply)));
    }

    fn oldest_in_flight(&self) -> Option<Timestamp> {
        let passing = self.passing.values().next().map(|passing| passing.at);
        passing.or_else(|| self.agreeing.values().next().map(|pending| pending.at))
    }

    fn newest_proposed(&self) -> Option<Timestamp> {
        self.agreeing.values().next_back().map(|last| last.at)
    }

    fn in_doubt_from(&self) -> Timestamp {
        let in_doubt =
            self.prepared.values().map(|doubt| Timestamp::end_of(doubt.record.at.nanos - 1)).min();
        in_doubt.filter(|_| !broken(rules::SAFE_TIME_PREPARED)).unwrap_or(Timestamp::MAX)
    }

    fn reads_alone(&self) -> bool {
        // What is prepared may be committed already, elsewhere.
        self.prepared.is_empty() && self.late.is_empty()
    }

    fn is_quiet(&self) -> bool {
        self.passing.is_empty() && self.agreeing.is_empty()
    }

    fn has_drained(&self) -> bool {
        self.live.values().all(|live| live.doomed.is_some())
    }

    fn is_at_rest(&self) -> bool {
        let asked = self.pending.is_empty() && self.ready.is_empty() && self.agreeing.is_empty();
        let attempts = self.locks.is_empty() && self.has_drained();
        let shown = self.passing.is_empty() && self.snapshots.is_empty();
        let others = self.prepared.is_empty() && self.debts.is_empty() && self.readers.is_empty();
        asked
            && attempts
            && shown
            && others
            && self.collecting.is_empty()
            && self.would_vote.is_empty()
    }

    fn may_split(&self) -> bool {
        self.locks.is_empty()
            && self.is_quiet()
            && self.prepared.is_empty()
            && self.would_vote.is_empty()
            && self.schemas.is_quiet()
    }

    fn begins(&self, request: &Request) -> bool {
        request.footing.is_none() && !self.live.contains_key(&request.transaction)
    }

    fn end_for_split(shard: &mut Member<T>, now: Reading, out: &mut Outbox<Member<T>>) {
        let open: Vec<TransactionId> = shard.participant.locks.open().collect();
        for who in open {
            sometimes!("an attempt is aborted for a split");
            let ticket = shard.participant.pending.place_of(who);
            shard.judge(now, vec![Verdict::Victim(who, ticket, Conflict::Moved)], out);
        }
    }

    fn answer_when_passed(
        &mut self,
        now: Reading,
        at: Timestamp,
        transaction: TransactionId,
        asked: (Address, u64),
    ) {
        let (drawn_ns, agreed_ns) = (now.boot_ns, now.boot_ns);
        let (asked, votes, writes, schema) = (Some(asked), None, Vec::new(), false);
        self.passing.insert(
            at,
            Passing { at, transaction, asked, drawn_ns, agreed_ns, votes, writes, schema },
        );
    }

    fn rows_of_child(&self, child: ShardId) -> Vec<Write> {
        self.schemas.rows_of_child(child)
    }
}

impl<T: TimestampPolicy> Locking<T> {
    pub(super) fn remember(&mut self, transaction: TransactionId, at: Timestamp, term: Term) {
        self.outcomes.insert(transaction, at);
        self.blinds.note_commit(transaction, at);
        self.remembered.push_back((transaction, term));
        if self.remembered.len() > self.most_outcomes
            && let Some((oldest, term)) = self.remembered.pop_front()
        {
            sometimes!("an outcome is forgotten for the sake of newer ones");
            self.outcomes.remove(&oldest);
            if !broken(rules::FORGETS_SILENTLY) {
                self.forgotten = self.forgotten.max(term);
            }
        }
    }

    /// When a transaction committed, if that is remembered.
    pub(super) fn outcome_of(&self, transaction: TransactionId) -> Option<Timestamp> {
        self.outcomes.get(&transaction).copied().or_else(|| self.blinds.committed(transaction))
    }
}

impl<T: TimestampPolicy> Member<T> {
    /// The lock table, to look at.
    pub fn locks(&self) -> &LockTable {
        &self.participant.locks
    }

    /// How many transactions are prepared here or were decided here and not told to all.
    pub fn unresolved(&self) -> usize {
        self.participant.prepared.len() + self.participant.debts.len()
    }
}
