//! Two-phase locking as a shard's participant: the leader's state of transactions, and every
//! member's state of prepared ones.

use super::by_transaction::ByTransaction;
use super::records::{Prepared, TransactionCommand, TransactionRows, any_within};
use super::schemas::{Registered, Schemas};
use super::snapshots::Snapshot;
use super::{KIND, Member, Message};
use crate::Protocol;
use crate::envelope::Kind;
use crate::locking::rules;
use crate::shard::{self, Config, Participant};
use meridian_clock::{Reading, Timestamp, TimestampPolicy};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, Write};
use meridian_replication::group::{Entry, Index, Term};
use meridian_txn::locking::{LockTable, Ticket, TransactionId, TxnClient, Verdict, Waits};
use meridian_txn::shards::{Request, RequestBody, Response, Shards};
use meridian_txn::snapshot::{self, RecentWrites};
use meridian_txn::two_phase::{Collected, EarlyVotes, ParticipantMessage, RESOLVE_NS, TwoPhase};
use meridian_txn::{Age, Conflict, Database};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// An attempt that this leader term has admitted.
pub(super) struct ActiveTxn {
    /// The admission id, which is unique on this member.
    pub(super) admission: u64,
    pub(super) age: Age,
    /// The application name of its session.
    pub(super) application: Option<String>,
    /// The reason why it is aborted, if it is.
    pub(super) aborted: Option<Conflict>,
    /// The number of its newest request. Older requests that arrive later are not answered.
    pub(super) newest: u64,
    /// The address that is told when the attempt is wounded.
    pub(super) coordinator: Address,
    /// The range in which no other transaction meets its writes.
    pub(super) private: Option<KeyRange>,
    /// Votes that arrived before the commit which this shard is to coordinate.
    pub(super) votes: EarlyVotes,
}

pub(super) struct Pending {
    pub(super) from: Address,
    pub(super) request: Request,
    /// The number of the commit's keys that are locked.
    pub(super) locked: usize,
    /// The timestamp of a commit or a prepare, and when it was drawn, by the boot clock.
    pub(super) at: Timestamp,
    pub(super) drawn_ns: u64,
    /// Since when it waits for a timestamp of the authority, by the boot clock.
    pub(super) asked_ns: Option<u64>,
    /// The votes, for a commit that coordinates.
    pub(super) votes: Option<Collected>,
    /// True for a schema change after which every transaction commits above it, or votes with a
    /// bound.
    pub(super) registered: bool,
}

impl Pending {
    /// True if what it writes, or prepares to write, lies in a range.
    pub(super) fn may_write_into(&self, range: &KeyRange) -> bool {
        let (RequestBody::Commit { writes, .. } | RequestBody::Prepare { writes, .. }) =
            &self.request.body
        else {
            return true;
        };
        self.change().is_some() || any_within(writes, |write| &write.key, range)
    }

    /// True if it commits writes into a range.
    pub(super) fn writes_into(&self, range: &KeyRange) -> bool {
        let RequestBody::Commit { writes, .. } = &self.request.body else { return false };
        self.change().is_some() || any_within(writes, |write| &write.key, range)
    }

    pub(super) fn new(from: Address, request: Request) -> Pending {
        Pending {
            from,
            request,
            locked: 0,
            at: Timestamp::ZERO,
            drawn_ns: 0,
            asked_ns: None,
            votes: None,
            registered: false,
        }
    }
}

/// An agreed commit in commit wait: its timestamp has not surely passed.
pub(super) struct CommitWait {
    pub(super) at: Timestamp,
    pub(super) transaction: TransactionId,
    /// The address and the request to answer.
    pub(super) asked: Option<(Address, u64)>,
    /// When the timestamp was drawn and when the commit was agreed, by the boot clock.
    pub(super) drawn_ns: u64,
    pub(super) agreed_ns: u64,
    /// The participants to be told the outcome.
    pub(super) votes: Option<Collected>,
    /// The writes, sorted by key. None unless this leader drew the timestamp.
    pub(super) writes: Option<Vec<Write>>,
    /// True if it changed a schema.
    pub(super) schema: bool,
}

impl CommitWait {
    /// True if its writes, as far as they are known, may lie in a range.
    pub(super) fn may_write_into(&self, range: &KeyRange) -> bool {
        self.writes.is_none() || self.writes_into(range)
    }

    pub(super) fn writes_into(&self, range: &KeyRange) -> bool {
        let writes = self.writes.as_deref().unwrap_or_default();
        self.schema || any_within(writes, |write| &write.key, range)
    }
}

/// A commit that is installed before commits with lower timestamps.
pub(super) struct OutOfOrderCommit {
    pub(super) at: Timestamp,
    /// The written keys, sorted.
    pub(super) keys: Vec<Key>,
    /// True if it changed a schema: every row of the table may read differently from then on.
    pub(super) schema: bool,
}

/// The most attempts to remember that hold nothing here.
const IDLE_ATTEMPTS: usize = 10_000;

/// Two-phase locking at the leader of a shard's group.
pub struct Locking {
    pub(super) schemas: Schemas,
    /// Commits that are installed and lie above commits that are not visible yet.
    pub(super) late: Vec<OutOfOrderCommit>,
    pub(super) locks: LockTable,
    /// When rows were written last, where snapshots are certified.
    pub(super) recent: Option<RecentWrites>,
    /// True if the timer for idle transactions is armed.
    pub(super) watching: bool,
    pub(super) active: BTreeMap<TransactionId, ActiveTxn>,
    /// The number of attempts that this member has admitted since it started.
    pub(super) admissions: u64,
    /// Requests that wait for a lock.
    pub(super) pending: ByTransaction<Ticket, Pending>,
    pub(super) next_ticket: Ticket,
    /// Commits that hold their locks and wait for the lease to reach further.
    pub(super) ready: VecDeque<Pending>,
    /// Requests that are proposed and not agreed.
    pub(super) agreeing: ByTransaction<Index, Pending>,
    /// Agreed commits in commit wait, by their timestamps.
    pub(super) commit_waits: ByTransaction<Timestamp, CommitWait>,
    /// Answers to commits whose timestamps passed in this step.
    pub(super) answers: Vec<(Address, Response)>,
    /// Snapshots that wait until everything at or below them is visible.
    pub(super) snapshots: Vec<Snapshot>,
    /// Transactions over several shards: those that are prepared here, and those decided here.
    pub(super) two_phase: TwoPhase<Prepared, Pending>,
    /// Votes to send at the end of this step.
    pub(super) votes: Vec<(Address, Message)>,
    /// True if the timer for unresolved transactions is armed.
    pub(super) resolving: bool,
}

impl Participant for Locking {
    const KIND: Kind = KIND;
    type Peer = ParticipantMessage;
    type Command = TransactionCommand;
    type Rows = TransactionRows;

    fn database<S: Shards>(protocol: &Protocol, shards: Arc<S>) -> Arc<dyn Database> {
        if protocol.has_authority() {
            return Arc::new(snapshot::TxnClient::with_authority(shards, protocol.consistency));
        }
        if protocol.certifies() {
            return Arc::new(snapshot::TxnClient::new(shards, protocol.consistency));
        }
        Arc::new(TxnClient::new(shards, protocol.consistency))
    }

    fn new(config: &Config) -> Self {
        Locking {
            schemas: Schemas::default(),
            late: Vec::new(),
            locks: LockTable::new(),
            recent: config.certifies.then(|| RecentWrites::new(config.recent_writes)),
            watching: false,
            active: BTreeMap::new(),
            admissions: 0,
            pending: ByTransaction::default(),
            next_ticket: 0,
            ready: VecDeque::new(),
            agreeing: ByTransaction::default(),
            commit_waits: ByTransaction::default(),
            answers: Vec::new(),
            snapshots: Vec::new(),
            two_phase: TwoPhase::new(config.outcomes),
            votes: Vec::new(),
            resolving: false,
        }
    }

    fn restore(shard: &mut Member, rows: TransactionRows) {
        let this = &mut shard.participant;
        this.two_phase.restore(rows.prepared, rows.decisions);
        let changes = |(txn, record): (TransactionId, &Prepared)| {
            record.changes.as_ref().map(|changes| (txn, Registered::new(changes)))
        };
        this.schemas.registered = this.two_phase.prepared.iter().filter_map(changes).collect();
        this.schemas.agreed = rows.schemas;
    }

    fn recall(&mut self, command: TransactionCommand, term: Term) {
        if let TransactionCommand::Commit { at, transaction, .. }
        | TransactionCommand::Outcome { at: Some(at), transaction } = command
        {
            self.two_phase.remember(transaction, at, term.0);
        }
    }

    fn forget_through(&mut self, term: Term) {
        self.two_phase.outcomes.forget_through(term.0);
    }

    fn on_request(
        shard: &mut Member,
        now: Reading,
        from: Address,
        request: Request,
        out: &mut Outbox<Member>,
    ) {
        shard.on_ask(now, from, request, out);
    }

    fn on_peer(
        shard: &mut Member,
        now: Reading,
        from: Address,
        message: ParticipantMessage,
        out: &mut Outbox<Member>,
    ) {
        shard.on_participant_message(now, from, message, out);
    }

    fn apply(
        shard: &mut Member,
        now: Reading,
        entry: &Entry,
        command: TransactionCommand,
        out: &mut Outbox<Member>,
    ) {
        shard.on_agreed(now, entry, command, out);
    }

    fn look_at_idle(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        let victims = shard.participant.locks.idle_victims(now.boot_ns);
        shard.judge(now, victims, out);
        let this = &mut shard.participant;
        if this.active.len() > IDLE_ATTEMPTS {
            // Aborted attempts whose sessions never came back. A late request of one is answered
            // `Expired`.
            this.active.retain(|_, active| active.aborted.is_none());
        }
        this.watching = false;
    }

    fn resolve(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        shard.resolve_prepared(now, out);
    }

    fn may_lead(&self) -> bool {
        self.commit_waits.is_empty()
    }

    fn lead(shard: &mut Member, now: Reading) {
        shard.participant.late.clear();
        shard.begin_to_certify();
        shard.take_up_prepared(now);
    }

    fn step_down(shard: &mut Member, out: &mut Outbox<Member>) {
        shard.refuse_all(out);
    }

    fn release(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        shard.release_waited_commits(now, out);
        shard.release_readers(now, out);
    }

    fn propose_ready(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        shard.go_on_registering(now, out);
        shard.give_up_changes(now, out);
        shard.draw(now, out);
        shard.vote_reads(now, out);
    }

    fn answer_reads(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        shard.show_snapshots(now, out);
    }

    fn next_release(&self, now: Reading, policy: &dyn TimestampPolicy) -> Option<u64> {
        self.commit_waits.values().next().map(|commit_waits| policy.wait_ns(now, commit_waits.at))
    }

    fn arm(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        let (serving, this) = (shard.serving, &mut shard.participant);
        if serving && this.two_phase.has_unresolved() && !this.resolving {
            this.resolving = true;
            out.arm(shard::Timer::Resolve, now.boot_ns + RESOLVE_NS);
        }
        if !this.watching && !this.locks.is_empty() {
            this.watching = true;
            out.arm(shard::Timer::Idle, now.boot_ns + LockTable::IDLE_NS / 2);
        }
    }

    fn send(&mut self, out: &mut Outbox<Member>) {
        // After `ReadLease` is published: a read that begins on this node now must find the commit
        // (real time).
        std::mem::take(&mut self.votes).into_iter().for_each(|(to, vote)| out.send(to, vote));
        std::mem::take(&mut self.answers)
            .into_iter()
            .for_each(|(to, reply)| out.send(to, Message::Response(reply)));
    }

    fn oldest_in_flight(&self) -> Option<Timestamp> {
        let commit_waits = self.commit_waits.values().next().map(|commit_waits| commit_waits.at);
        commit_waits.or_else(|| self.agreeing.values().next().map(|pending| pending.at))
    }

    fn newest_proposed(&self) -> Option<Timestamp> {
        self.agreeing.values().next_back().map(|last| last.at)
    }

    fn in_doubt_from(&self) -> Timestamp {
        let prepared = self.two_phase.prepared.records();
        let in_doubt = prepared.map(|record| Timestamp::end_of(record.at.nanos - 1)).min();
        in_doubt.filter(|_| !broken(rules::SAFE_TIME_PREPARED)).unwrap_or(Timestamp::MAX)
    }

    fn reads_alone(&self) -> bool {
        // A prepared transaction may be committed elsewhere already.
        self.two_phase.prepared.is_empty() && self.late.is_empty()
    }

    fn is_quiet(&self) -> bool {
        self.commit_waits.is_empty() && self.agreeing.is_empty()
    }

    fn has_drained(&self) -> bool {
        self.active.values().all(|active| active.aborted.is_some())
    }

    fn is_at_rest(&self) -> bool {
        let asked = self.pending.is_empty() && self.ready.is_empty() && self.agreeing.is_empty();
        let attempts = self.locks.is_empty() && self.has_drained();
        let shown = self.commit_waits.is_empty() && self.snapshots.is_empty();
        asked && attempts && shown && self.two_phase.is_at_rest()
    }

    fn may_split(&self) -> bool {
        self.locks.is_empty()
            && self.is_quiet()
            && self.two_phase.prepared.is_empty()
            && self.two_phase.readers.waiting.is_empty()
            && self.schemas.is_quiet()
    }

    fn begins(&self, request: &Request) -> bool {
        request.lock_epoch.is_none() && !self.active.contains_key(&request.transaction)
    }

    fn end_for_split(shard: &mut Member, now: Reading, out: &mut Outbox<Member>) {
        let open: Vec<TransactionId> = shard.participant.locks.open().collect();
        for txn in open {
            sometimes!("an attempt is aborted for a split");
            let ticket = shard.participant.pending.place_of(txn);
            shard.judge(now, vec![Verdict::Victim(txn, ticket, Conflict::Moved)], out);
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
        let (asked, votes, writes, schema) = (Some(asked), None, Some(Vec::new()), false);
        self.commit_waits.insert(
            at,
            CommitWait { at, transaction, asked, drawn_ns, agreed_ns, votes, writes, schema },
        );
    }

    fn rows_of_child(shard: &Member, child: ShardId) -> Vec<Write> {
        shard.participant.schemas.rows_of_child(child)
    }

    fn waits(&self) -> Vec<Waits> {
        self.locks.waits()
    }

    fn holders(&self) -> usize {
        self.locks.owners().count()
    }

    fn unresolved(&self) -> usize {
        self.two_phase.prepared.len() + self.two_phase.decisions.len()
    }
}

impl Member {
    /// The lock table, for inspection.
    pub fn locks(&self) -> &LockTable {
        &self.participant.locks
    }
}
