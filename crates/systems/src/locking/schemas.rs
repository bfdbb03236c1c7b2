//! Schema versions that transactions were planned for, and changes of them (§4.2.3).
//!
//! ```text
//!             registered                   from          decided at s ≥ from
//!   ──────────────┼──────────────────────────┼───────────────────┼─────────────────▶
//!    commits as before                       │ no commit drawn   │ only plans for the new version
//! ```
//!
//! 1. A transaction that was planned for an older version than the current one is refused when it
//!    reads, and when its timestamp is drawn.
//! 2. A change registers with a timestamp that lies ahead. It does not affect commits below that.
//!    At or above it, until the change is decided, a commit of a transaction that was planned for
//!    any version of the table is refused, and a read waits. So no transaction that has voted waits
//!    for a change.
//! 3. A change registers only after all transactions that have voted here have ended, because their
//!    commit timestamps may be above it. Later votes carry a bound. If a transaction does not end
//!    in time, the change gives way: that transaction may wait for one that waits for the change.
//!    If it is younger than the change, and the change's next attempt meets it again, it is
//!    wounded.
//! 4. The coordinator of a change decides when its timestamp has come, and no sooner: later
//!    timestamps are not pushed ahead.

use super::participant::Pending;
use super::{Locking, Member, Message};
use crate::locking::rules;
use crate::shard::row_of_schema;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Outbox, ShardId, sometimes, step};
use meridian_mvcc::Write;
use meridian_txn::locking::TransactionId;
use meridian_txn::shards::{Request, RequestBody, Response};
use meridian_txn::{Age, Conflict, SchemaChange, SchemaHistory, SchemaVersion};
use std::collections::{BTreeMap, BTreeSet};

/// How far ahead a change's timestamp may lie, in nanoseconds. Farther ahead, a clock is wrong.
const FARTHEST_NS: u64 = 5_000_000_000;
/// How long after its timestamp a change waits for votes, in nanoseconds.
const LATE_NS: u64 = 1_000_000_000;

/// A schema change that is not decided.
pub(super) struct Registered {
    /// The change happens at this timestamp or later.
    pub(super) from: Timestamp,
    pub(super) tables: Vec<u32>,
}

impl Registered {
    /// Reads a change from a prepare record.
    pub(super) fn new((from, versions): &(Timestamp, Vec<SchemaVersion>)) -> Registered {
        Registered { from: *from, tables: versions.iter().map(|schema| schema.table).collect() }
    }
}

/// A change that waits until the transactions which voted before it have ended.
struct Registering {
    pending: Pending,
    after: BTreeSet<TransactionId>,
}

/// The schema versions of a shard's tables.
#[derive(Default)]
pub(super) struct Schemas {
    /// The versions that are agreed. A table that is missing never changed.
    pub(super) agreed: BTreeMap<u32, SchemaHistory>,
    /// The versions of changes that this leader has proposed besides.
    drawn: BTreeMap<u32, u64>,
    /// Undecided changes: prepared here, or requested of this leader.
    pub(super) registered: BTreeMap<TransactionId, Registered>,
    registering: Vec<Registering>,
    /// Transactions that have voted, and for which a change has waited in vain.
    in_vain: BTreeSet<TransactionId>,
    /// Reads that wait for a change to be decided.
    waiting: Vec<(Address, Request)>,
}

impl Schemas {
    /// Returns the earliest timestamp from which another transaction may change one of these
    /// tables, with the table.
    pub(super) fn changes_from(
        &self,
        txn: TransactionId,
        planned: &[SchemaVersion],
    ) -> Option<(Timestamp, u32)> {
        let others = self.registered.iter().filter(|(other, _)| **other != txn);
        let met = |change: &Registered| {
            planned
                .iter()
                .find(|schema| change.tables.contains(&schema.table))
                .map(|schema| (change.from, schema.table))
        };
        others
            .filter_map(|(_, change)| met(change))
            .min()
            .filter(|_| !broken(rules::CHANGE_NOT_HEEDED))
    }

    /// Returns the conflict if one of these versions is outdated at a timestamp.
    pub(super) fn outdated(&self, planned: &[SchemaVersion], at: Timestamp) -> Option<Conflict> {
        let newer = |SchemaVersion { table, version }: &&SchemaVersion| {
            !broken(rules::SCHEMA_UNCHECKED)
                && self.agreed.get(table).is_some_and(|history| history.outdates(*version, at))
        };
        planned.iter().find(newer).map(|schema| Conflict::SchemaChanged { table: schema.table })
    }

    /// Returns the conflict if one of these versions is outdated for a timestamp that is drawn now.
    fn outdated_now(&self, planned: &[SchemaVersion]) -> Option<Conflict> {
        let newer = |schema: &&SchemaVersion| {
            !broken(rules::SCHEMA_UNCHECKED)
                && self.drawn.get(&schema.table).is_some_and(|version| *version > schema.version)
        };
        let drawn = planned
            .iter()
            .find(newer)
            .map(|schema| Conflict::SchemaChanged { table: schema.table });
        drawn.or_else(|| self.outdated(planned, Timestamp::MAX))
    }

    /// Notes a change that is proposed.
    pub(super) fn draw(&mut self, versions: &[SchemaVersion]) {
        self.drawn.extend(versions.iter().map(|schema| (schema.table, schema.version)));
    }

    /// Returns the schema rows with which a shard begins that is split off.
    pub(super) fn rows_of_child(&self, child: ShardId) -> Vec<Write> {
        self.agreed.iter().map(|(table, history)| row_of_schema(child, *table, history)).collect()
    }

    /// True if no request waits here.
    pub(super) fn is_quiet(&self) -> bool {
        self.registering.is_empty() && self.waiting.is_empty()
    }

    /// The changes that wait here.
    pub(super) fn under_way(&mut self) -> impl Iterator<Item = &mut Pending> {
        self.registering.iter_mut().map(|registering| &mut registering.pending)
    }
}

impl Pending {
    /// Returns the schema change that a commit or prepare carries.
    pub(super) fn change(&self) -> Option<&SchemaChange> {
        match &self.request.body {
            RequestBody::Commit { schema, .. } | RequestBody::Prepare { schema, .. } => {
                schema.as_ref()
            }
            _ => None,
        }
    }

    /// How long a change has to wait, in nanoseconds, until it may draw its timestamp. `None` if it
    /// may now.
    pub(super) fn lies_ahead(&self, now: Reading) -> Option<u64> {
        let RequestBody::Commit { schema: Some(change), .. } = &self.request.body else {
            return None;
        };
        let from = self.votes.as_ref().map_or(change.from, |votes| votes.above().max(change.from));
        Some(from.nanos.saturating_sub(now.interval.latest)).filter(|left| *left > 0)
    }

    /// The versions that hold once the change has happened.
    pub(super) fn versions(&self) -> Vec<SchemaVersion> {
        let mut newest = BTreeMap::new();
        for (SchemaVersion { table, version }, _) in
            self.change().iter().flat_map(|change| &change.tables)
        {
            let known = newest.entry(*table).or_insert(*version);
            *known = *version.max(known);
        }
        newest.into_iter().map(|(table, version)| SchemaVersion { table, version }).collect()
    }
}

impl Member {
    /// True if all tables of a change lie in this shard, as its coordinator assumed.
    pub(super) fn has_all(&self, change: Option<&SchemaChange>) -> bool {
        let mut ranges =
            change.into_iter().flat_map(|change| &change.tables).map(|(_, range)| range);
        ranges.all(|range| self.bounds.contains_range(range))
    }

    /// True if a read has to wait for a schema change, or to be planned anew. The request is then
    /// queued, or answered.
    pub(super) fn holds_back(
        &mut self,
        now: Reading,
        from: Address,
        request: &Request,
        out: &mut Outbox<Member>,
    ) -> bool {
        if request.planned.is_empty() {
            return false;
        }
        let id = request.id;
        let (transaction, present) = (request.transaction, now.interval.latest);
        if self
            .participant
            .schemas
            .changes_from(transaction, &request.planned)
            .is_some_and(|(from, _)| from.nanos <= present)
        {
            sometimes!("a reader waits for a change of the schema");
            match self
                .participant
                .schemas
                .waiting
                .iter_mut()
                .find(|(_, other)| other.transaction == transaction)
            {
                Some(known) => {
                    *known = (from, request.clone());
                    out.send(from, Message::Response(Response::Waiting { id }));
                }
                None => self.participant.schemas.waiting.push((from, request.clone())),
            }
            return true;
        }
        if let Some(why) = self.participant.schemas.outdated_now(&request.planned) {
            sometimes!("a statement was planned for a schema that holds no more");
            out.send(from, Message::Response(Response::Aborted { id, why: why.clone() }));
            self.mark_aborted(now, transaction, why, out);
            return true;
        }
        false
    }

    /// Registers a change that has its locks. It proceeds as soon as the transactions that have
    /// voted have ended.
    pub(super) fn register(&mut self, now: Reading, pending: Pending, out: &mut Outbox<Member>) {
        let txn = pending.request.transaction;
        if pending
            .change()
            .is_some_and(|change| change.from.nanos > now.interval.latest + FARTHEST_NS)
        {
            return self.refuse_drawn(now, pending, Conflict::Late, out);
        }
        let proposed = self
            .participant
            .agreeing
            .values()
            .filter(|other| matches!(other.request.body, RequestBody::Prepare { .. }));
        let proposed = proposed.map(|other| other.request.transaction);
        let voted = self.participant.two_phase.voters().chain(proposed);
        let changes = pending.change().is_some_and(|change| !change.tables.is_empty());
        let after = voted.filter(|_| changes && !broken(rules::CHANGE_NOT_HEEDED)).collect();
        step!("leader: registers a change of the schema");
        let from = pending.change().map_or(Timestamp::ZERO, |change| change.from);
        let tables = pending.versions().iter().map(|schema| schema.table).collect();
        self.participant.schemas.registered.insert(txn, Registered { from, tables });
        self.participant.schemas.registering.push(Registering { pending, after });
    }

    /// Proceeds with changes for which every earlier voter has ended.
    pub(super) fn go_on_registering(&mut self, now: Reading, out: &mut Outbox<Member>) {
        let mut at = 0;
        while let Some(registering) = self.participant.schemas.registering.get_mut(at) {
            let votes =
                self.participant.agreeing.values().map(|pending| pending.request.transaction);
            let voters: BTreeSet<TransactionId> =
                self.participant.two_phase.voters().chain(votes).collect();
            registering.after.retain(|txn| voters.contains(txn));
            if !registering.after.is_empty() {
                let from = registering.pending.change().map_or(0, |change| change.from.nanos);
                if now.interval.latest < from {
                    sometimes!("a change of the schema waits for those who have voted");
                    self.wake_in(from - now.interval.latest);
                    at += 1;
                    continue;
                }
                // The voters may wait for a transaction that waits for the change, or for a lock of
                // the change in another shard.
                sometimes!("a change of the schema comes too late");
                let Registering { pending, after } =
                    self.participant.schemas.registering.remove(at);
                self.wound_voters(&after, pending.request.age, out);
                self.refuse_drawn(now, pending, Conflict::Late, out);
                continue;
            }
            let mut pending = self.participant.schemas.registering.remove(at).pending;
            pending.registered = true;
            self.lock_writes(now, pending, out);
        }
    }

    /// Has the coordinators abort voters that are younger than a change, and for which one has
    /// waited in vain before, unless they are decided. Otherwise its repetitions, which take their
    /// locks before they do, would keep them waiting for ever.
    fn wound_voters(
        &mut self,
        voters: &BTreeSet<TransactionId>,
        change: Age,
        out: &mut Outbox<Member>,
    ) {
        let mut wounds = Vec::new();
        let Locking { schemas, two_phase, .. } = &mut self.participant;
        schemas.in_vain.retain(|txn| two_phase.prepared.contains(*txn));
        for txn in voters {
            let Some(record) = two_phase.prepared.get(*txn) else { continue };
            if change < record.age && !schemas.in_vain.insert(*txn) {
                let key = record.writes.first().map(|write| write.key.clone()).unwrap_or_default();
                wounds.push((*txn, Conflict::Wounded { by: change, key, application: None }));
            }
        }
        for (txn, why) in wounds {
            if let Some(coordinator) = self.coordinator_of(txn) {
                sometimes!("a change of the schema wounds a transaction that has voted");
                self.forward_wound(txn, coordinator, why, out);
            }
        }
    }

    /// Aborts changes whose votes do not arrive in time: readers wait for them.
    pub(super) fn give_up_changes(&mut self, now: Reading, out: &mut Outbox<Member>) {
        let ends = |txn: &TransactionId| {
            let change = self.participant.two_phase.voting.get(*txn)?.change()?;
            Some((*txn, change.from.nanos + LATE_NS))
        };
        let changes: Vec<(TransactionId, u64)> =
            self.participant.schemas.registered.keys().filter_map(ends).collect();
        for (txn, ends) in changes {
            if now.interval.latest < ends {
                self.wake_in(ends - now.interval.latest);
            } else {
                sometimes!("a change of the schema is given up for want of votes");
                self.abort_collecting(now, txn, Conflict::Late, out);
            }
        }
    }

    /// Drops a transaction's waiting read: its session no longer wants the answer.
    pub(super) fn wants_no_answer(&mut self, txn: TransactionId) {
        self.participant.schemas.waiting.retain(|(_, request)| request.transaction != txn);
    }

    /// Removes and returns a change that has not drawn its timestamp.
    pub(super) fn take_registering(&mut self, txn: TransactionId) -> Option<Pending> {
        let at = self
            .participant
            .schemas
            .registering
            .iter()
            .position(|one| one.pending.request.transaction == txn)?;
        Some(self.participant.schemas.registering.remove(at).pending)
    }

    /// Removes a decided change, and resumes the reads that wait.
    pub(super) fn unregister(
        &mut self,
        now: Reading,
        txn: TransactionId,
        out: &mut Outbox<Member>,
    ) {
        if self.participant.schemas.registered.remove(&txn).is_some() {
            for (from, request) in std::mem::take(&mut self.participant.schemas.waiting) {
                self.on_ask(now, from, request, out);
            }
        }
    }

    /// Records versions that hold from a timestamp on, and returns their rows.
    pub(super) fn on_schemas_agreed(
        &mut self,
        at: Timestamp,
        versions: &[SchemaVersion],
    ) -> Vec<Write> {
        let mut rows = Vec::new();
        if !versions.is_empty() {
            step!("member: a change of the schema is agreed");
        }
        for SchemaVersion { table, version } in versions {
            let history = self.participant.schemas.agreed.entry(*table).or_default();
            history.begin(at, *version);
            rows.push(row_of_schema(self.shard, *table, history));
        }
        rows
    }

    /// Returns the conflict if what a request was planned for does not hold at a timestamp that is
    /// drawn now.
    pub(super) fn unfit(&self, request: &Request, at: Timestamp) -> Option<Conflict> {
        let met = || {
            let change =
                self.participant.schemas.changes_from(request.transaction, &request.planned);
            change
                .filter(|(from, _)| *from <= at)
                .map(|(_, table)| Conflict::SchemaChanged { table })
        };
        self.participant.schemas.outdated_now(&request.planned).or_else(met)
    }

    /// True if a snapshot at a timestamp may be affected by an undecided change.
    pub(super) fn meets_change(&self, request: &Request, at: Timestamp) -> bool {
        let change = self.participant.schemas.changes_from(request.transaction, &request.planned);
        change.is_some_and(|(from, _)| from <= at)
    }

    /// Refuses everything that waits, because this member lost leadership.
    pub(super) fn dismiss_schemas(&mut self, out: &mut Outbox<Member>) {
        let why = Conflict::LeaderChanged;
        for Registering { pending, .. } in std::mem::take(&mut self.participant.schemas.registering)
        {
            self.refuse(&pending, why.clone(), out);
        }
        let leader = self.group.leader().map(|node| node.0);
        for (from, request) in std::mem::take(&mut self.participant.schemas.waiting) {
            out.send(from, Message::Response(Response::NotLeader { id: request.id, leader }));
        }
        self.participant.schemas.drawn.clear();
        self.participant.schemas.in_vain.clear();
        let prepared = &self.participant.two_phase.prepared;
        self.participant.schemas.registered.retain(|txn, _| prepared.contains(*txn));
    }
}
