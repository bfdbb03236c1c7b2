//! Requests of coordinators to a leader: which are served, which are refused, and which wait.

use super::participant::{Proposed, Waiting};
use super::records::OrderedCommand;
use super::{Member, Message};
use crate::shard::rules as shard_rules;
use crate::shard::{Effect, LEASE_SOON_NS, Serve};
use meridian_clock::{Drift, Reading, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Address, Health, Outbox, sometimes, step};
use meridian_mvcc::{Key, KeyRange, local};
use meridian_txn::mvto::{Intent, Operation, Place, State, rules};
use meridian_txn::shards::{LockEpoch, ReplicaId, Request, RequestBody, Response, Spent};
use meridian_txn::{Conflict, SchemaVersion, TransactionId};

/// How far ahead of the present a transaction's timestamp may lie, in nanoseconds: clocks differ,
/// and schema changes draw ahead.
const MOST_AHEAD_NS: u64 = 2_000_000_000;
/// How far ahead of a read the next ceiling reaches, in nanoseconds: the next reads are not to wait
/// for one.
const CEILING_AHEAD_NS: u64 = 50_000_000;

/// The needs of a request from this leader.
enum Need {
    /// It is answered, or its command is proposed.
    Nothing,
    /// The outcomes of these transactions, or a ceiling if there are none.
    Outcomes(Vec<TransactionId>),
}

/// The state of the request to write a part, of which another copy is received.
enum Copy {
    /// It is over, with this answer.
    Answered(Response),
    /// The part is being agreed on.
    Proposed,
    /// This is the first copy.
    No,
}

/// True if two operations of one transaction are copies of one another, sent at different times.
fn are_copies(one: &RequestBody, other: &RequestBody) -> bool {
    let alone = |body: &RequestBody| {
        let RequestBody::Ordered { at, operation } = body else { return None };
        matches!(operation, Operation::CommitAlone { .. }).then_some(*at)
    };
    one == other || (alone(one).is_some() && alone(one) == alone(other))
}

impl Member {
    pub(super) fn on_ordered_request(
        &mut self,
        now: Reading,
        from: Address,
        request: Request,
        out: &mut Outbox<Member>,
    ) {
        let id = request.id;
        if let RequestBody::Time { within_ns } = request.body {
            return self.on_time(now, (from, id), within_ns, out);
        }
        self.is_wanted(now, out);
        if !self.serving || !self.group.is_leader() {
            return self.answer_not_leader(from, id, out);
        }
        match &request.body {
            RequestBody::Split { at, shard } => {
                self.on_split(now, (from, id), request.transaction, (at.clone(), *shard), out);
            }
            RequestBody::Members(members) => self.on_members(now, (from, id), members, out),
            RequestBody::LastTs { range } if self.bounds.contains_range(range) => {
                let at = self.present(now);
                self.answer(from, Response::LastTs { id, at }, out);
            }
            RequestBody::LastTs { range } => self.answer_moved(from, id, &range.start, out),
            RequestBody::Ordered { operation: Operation::Commit { places, parts }, at } => {
                self.count(now, from.node, 1, out);
                let (at, intents) = (*at, (places.clone(), *parts));
                self.on_commit(now, (from, id), request.transaction, at, intents, out);
            }
            RequestBody::Ordered { operation: Operation::Abort { places }, at } => {
                let (at, places) = (*at, places.clone());
                self.on_abort(now, request.transaction, at, places);
            }
            RequestBody::Ordered { .. } if now.health != Health::Good => {
                // It is sent again. Without a clock this leader cannot tell whether the timestamp
                // lies too far ahead.
            }
            RequestBody::Ordered { at, .. } if at.nanos > now.interval.latest + MOST_AHEAD_NS => {
                sometimes!("a transaction with a timestamp far ahead is refused");
                let why =
                    "the transaction's timestamp lies too far in the future: a clock is wrong";
                self.answer(from, Response::Refused { id, why: why.into() }, out);
            }
            RequestBody::Ordered { .. } => {
                self.count(now, from.node, 1, out);
                if !self.parks(from, &request) {
                    self.admit(now, from, request, out);
                }
            }
            RequestBody::Abort => {
                // It has given up before it wrote anything.
                let txn = request.transaction;
                self.participant.waiting.retain(|waiting| waiting.request.transaction != txn);
                self.participant.reservations.release(txn);
            }
            RequestBody::KeepAlive => {
                self.participant.recorder.touch(request.transaction, now.boot_ns);
            }
            RequestBody::Withdraw | RequestBody::Time { .. } => {}
            RequestBody::Read { .. }
            | RequestBody::Commit { .. }
            | RequestBody::Snapshot { .. }
            | RequestBody::Prepare { .. }
            | RequestBody::SnapshotTimestamp => {
                let why = "this database orders transactions by their timestamps, and takes no requests of other protocols".to_owned();
                self.answer(from, Response::Refused { id, why }, out);
            }
        }
    }

    /// Answers as an oracle: any member may. A request to a leader that was elected since it left
    /// is as good.
    fn on_time(
        &mut self,
        now: Reading,
        (to, id): (Address, u64),
        within_ns: u64,
        out: &mut Outbox<Member>,
    ) {
        let said = match self.participant.oracle.answer(now, within_ns) {
            Ok(interval) => Response::Time { id, interval },
            Err(why) => Response::Refused { id, why: why.to_string() },
        };
        self.answer(to, said, out);
    }

    /// Queues a request to be served in this step, unless an earlier copy of it waits.
    fn admit(&mut self, now: Reading, from: Address, request: Request, out: &mut Outbox<Member>) {
        let id = request.id;
        let same = |waiting: &&mut Waiting| {
            waiting.request.transaction == request.transaction
                && are_copies(&waiting.request.body, &request.body)
        };
        if let Some(waiting) = self.participant.waiting.iter_mut().find(same) {
            sometimes!("a question is asked again while it waits");
            (waiting.from, waiting.request.id) = (from, id);
            return out.send(from, Message::Response(Response::Waiting { id }));
        }
        let (asked_ns, noted, blockers) = (now.boot_ns, false, Vec::new());
        self.participant.waiting.push(Waiting { from, request, asked_ns, noted, blockers });
    }

    /// Serves the requests that need not wait any longer.
    pub(super) fn serve_waiting(&mut self, now: Reading, out: &mut Outbox<Member>) {
        let mut left = Vec::new();
        for mut waiting in std::mem::take(&mut self.participant.waiting) {
            let mut noted = waiting.noted;
            if let Need::Outcomes(blockers) = self.serve_one(now, &waiting, &mut noted, out) {
                self.push_all(now, &waiting.request, &blockers, out);
                (waiting.blockers, waiting.noted) = (blockers, noted);
                left.push(waiting);
            }
        }
        self.participant.waiting = left;
    }

    fn serve_one(
        &mut self,
        now: Reading,
        waiting: &Waiting,
        noted: &mut bool,
        out: &mut Outbox<Member>,
    ) -> Need {
        let Waiting { from, request, asked_ns, .. } = waiting;
        let (txn, id) = (request.transaction, request.id);
        let RequestBody::Ordered { at, operation } = &request.body else {
            unreachable!("only operations of transactions wait")
        };
        let at = *at;
        match operation {
            Operation::Read { range, reserves, .. } => {
                if let Some(key) = self.first_beyond(range) {
                    self.answer_moved(*from, id, &key, out);
                    return Need::Nothing;
                }
                if !self.is_below_ceiling(now, at) {
                    return Need::Outcomes(Vec::new());
                }
                if let Some(need) = self.use_schemas((*from, id), txn, at, &request.planned, out) {
                    return need;
                }
                // A read that is noted forbids earlier writes: not before those that go first.
                let reserved = self.participant.reservations.blockers(range, at, txn, now.boot_ns);
                if let Some(until_ns) = reserved.iter().map(|(_, until_ns)| *until_ns).min() {
                    sometimes!("a reader waits for a reservation");
                    self.wake_in(until_ns - now.boot_ns);
                    return Need::Outcomes(reserved.into_iter().map(|(by, _)| by).collect());
                }
                // Noted before it is looked what there is, in the same step.
                let this = &mut self.participant;
                if !std::mem::replace(noted, true) {
                    this.tracker.note(range, at, txn);
                }
                let blockers = this.intents.blockers(range, at, txn);
                if !blockers.is_empty() {
                    sometimes!("a reader waits for an older transaction");
                    return Need::Outcomes(blockers);
                }
                if let Some(key) = range.as_point().filter(|_| *reserves) {
                    sometimes!("a transaction that has lost reserves what it writes");
                    this.reservations.reserve(key, at, txn, now.boot_ns);
                }
                self.serve_read(now, *from, request, at, *asked_ns, out);
                Need::Nothing
            }
            Operation::Write { part, writes, withdrawn, schemas, recorder, acknowledged } => {
                let answer = self.copy_of(txn, (*part, *acknowledged), id);
                match answer {
                    Copy::Answered(response) => self.answer(*from, response, out),
                    Copy::Proposed => self.asks_again(txn, Some(*part), (*from, id), out),
                    Copy::No => {
                        let (part, recorder) = (*part, *recorder);
                        let intent = Intent {
                            at,
                            recorder,
                            part,
                            writes: writes.clone(),
                            withdrawn: withdrawn.clone(),
                            schemas: schemas.iter().map(|(schema, _)| *schema).collect(),
                        };
                        return self.intend(waiting, intent, schemas, false, out);
                    }
                }
                Need::Nothing
            }
            Operation::CommitAlone { writes, schemas, again, .. } => {
                if self.participant.intents.get(txn).is_some() || self.is_deciding(txn) {
                    self.asks_again(txn, None, (*from, id), out);
                    return Need::Nothing;
                }
                if let Some(outcome) = self.participant.outcomes.get(txn) {
                    sometimes!("a commit is asked for again after it was agreed");
                    self.answer_outcome((*from, id), outcome, out);
                    return Need::Nothing;
                }
                if *again {
                    // What became of an earlier copy is known by now, or nothing ever will.
                    self.settle((*from, id), txn, at, Vec::new(), out);
                    return Need::Nothing;
                }
                let intent = Intent {
                    at,
                    recorder: ReplicaId { shard: self.shard, node: self.me },
                    part: 0,
                    writes: writes.clone(),
                    withdrawn: Vec::new(),
                    schemas: schemas.iter().map(|(schema, _)| *schema).collect(),
                };
                self.intend(waiting, intent, schemas, true, out)
            }
            Operation::Commit { .. } | Operation::Abort { .. } => {
                unreachable!("decisions do not wait")
            }
        }
    }

    /// True if reads at a timestamp may be served: the log has a ceiling above it, so that no later
    /// leader accepts a write below (invariant 1).
    fn is_below_ceiling(&mut self, now: Reading, at: Timestamp) -> bool {
        // Not above the lease's end, where no ceiling can be set yet: others wait for this one,
        // too.
        let end = self.leased_until(now).saturating_sub(1);
        self.want_ceiling((at.nanos + CEILING_AHEAD_NS).min(end));
        let below = at <= self.ceiling || broken(shard_rules::CEILING_NOT_AGREED);
        if !below {
            sometimes!("a read waits for a ceiling");
            self.wake_in(LEASE_SOON_NS);
        }
        below
    }

    /// Notes that a transaction uses tables at these versions. Returns what it needs first, if it
    /// may not go on at once. A change of a table's schema is ordered like a write of one more key.
    fn use_schemas(
        &mut self,
        asked: (Address, u64),
        txn: TransactionId,
        at: Timestamp,
        planned: &[SchemaVersion],
        out: &mut Outbox<Member>,
    ) -> Option<Need> {
        for SchemaVersion { table, version } in planned {
            let range = KeyRange::point(local::schema(self.shard.0, *table));
            let this = &mut self.participant;
            this.tracker.note(&range, at, txn);
            let blockers = this.intents.blockers(&range, at, txn);
            if !blockers.is_empty() {
                sometimes!("a transaction waits for a change of the schema");
                return Some(Need::Outcomes(blockers));
            }
            let history = this.schemas.get(table).filter(|_| !broken(rules::SCHEMA_UNCHECKED));
            if history.is_some_and(|history| history.outdates(*version, at)) {
                sometimes!("a statement was planned for a schema that holds no more");
                let why = Conflict::SchemaChanged { table: *table };
                self.answer(asked.0, Response::Aborted { id: asked.1, why }, out);
                return Some(Need::Nothing);
            }
        }
        None
    }

    /// Looks for an earlier copy of a request to write a part.
    fn copy_of(&self, txn: TransactionId, (part, acknowledged): (u32, u32), id: u64) -> Copy {
        let (term, why) = (self.group.term().0, Conflict::Expired);
        let ended = Copy::Answered(Response::Aborted { id, why });
        match self.participant.intents.get(txn) {
            Some(held) if part < held.agreed() => Copy::Answered(Response::Written { id, term }),
            Some(held) if part < held.next() => Copy::Proposed,
            // Its outcome is known, or about to be.
            Some(held) if held.decided.is_some() || self.is_deciding(txn) => ended,
            Some(held) if part == held.next() => Copy::No,
            Some(_) => {
                sometimes!("a part of an intent comes before an earlier one");
                Copy::Answered(Response::Unknown { id })
            }
            None => match self.participant.outcomes.get(txn) {
                Some(outcome) => {
                    sometimes!("a first question comes after its transaction has ended");
                    match outcome {
                        Some(_) => Copy::Answered(Response::Written { id, term }),
                        None => ended,
                    }
                }
                None if part == 0 => Copy::No,
                None if acknowledged == 0 => Copy::Answered(Response::Unknown { id }),
                // Every leader has had the earlier parts in its log: they are gone.
                None => ended,
            },
        }
    }

    /// Accepts a transaction's writes, or refuses them.
    fn intend(
        &mut self,
        waiting: &Waiting,
        intent: Intent,
        schemas: &[(SchemaVersion, KeyRange)],
        alone: bool,
        out: &mut Outbox<Member>,
    ) -> Need {
        let Waiting { from, request, .. } = waiting;
        let (txn, id, at) = (request.transaction, request.id, intent.at);
        // Its intent holds later readers off, or it has lost again.
        let written = intent.writes.iter().map(|write| &write.key);
        self.participant.reservations.release_keys(txn, written);
        if self.participant.recorder.state(txn) == Some(State::Aborted) {
            sometimes!("a first write finds its transaction aborted");
            let why = Conflict::Expired;
            self.answer(*from, Response::Aborted { id, why }, out);
            return Need::Nothing;
        }
        let first = self.participant.intents.get(txn).is_none();
        if first && self.participant.outcomes.may_have_forgotten(at) {
            sometimes!("the outcome of a transaction may have been forgotten");
            let key = intent.writes.first().map_or_else(Key::default, |write| write.key.clone());
            let said = match alone {
                true => Response::Unknown { id },
                // A commit comes after all intents are acknowledged: nothing is committed yet, or
                // this is a late copy, whose answer is not waited for.
                false => Response::Aborted { id, why: Conflict::ReadLater { key } },
            };
            self.answer(*from, said, out);
            return Need::Nothing;
        }
        if let Some(key) = self.strange_key(&intent, schemas) {
            self.answer_moved(*from, id, &key, out);
            return Need::Nothing;
        }
        if first && self.is_splitting() {
            // Some of the keys may be another shard's once it is agreed. A split waits for
            // transactions that have written before.
            return Need::Outcomes(Vec::new());
        }
        if let Some(need) = self.use_schemas((*from, id), txn, at, &request.planned, out) {
            return need;
        }
        // Changes of one table come one after the other, in every shard.
        let key_of = |schema: &SchemaVersion| local::schema(self.shard.0, schema.table);
        let before = intent.schemas.iter().flat_map(|schema| {
            self.participant.intents.blockers(&KeyRange::point(key_of(schema)), at, txn)
        });
        let before: Vec<TransactionId> = before.collect();
        if !before.is_empty() {
            return Need::Outcomes(before);
        }
        let changed = intent.schemas.iter().map(key_of);
        let keys = intent.writes.iter().map(|write| write.key.clone()).chain(changed);
        let this = &self.participant;
        // A later reader waits for an intent that is there, and has not passed it.
        let read_later =
            |key: &Key| this.tracker.forbids(key, at, txn) && !this.intents.holds(txn, key);
        if let Some(key) = keys.into_iter().find(read_later) {
            sometimes!("a write is refused because of a later reader");
            self.participant.reservations.release(txn);
            let why = Conflict::ReadLater { key };
            self.answer(*from, Response::Aborted { id, why }, out);
            return Need::Nothing;
        }
        let command = match alone {
            true => {
                step!("leader: proposes a commit");
                let Intent { writes, schemas, .. } = intent.clone();
                OrderedCommand::Alone { transaction: txn, at, writes, schemas }
            }
            false => {
                step!("leader: proposes an intent");
                OrderedCommand::Intend { transaction: txn, intent: intent.clone() }
            }
        };
        self.issuer.observe(at);
        let Some(index) = self.propose(&command) else {
            self.answer_not_leader(*from, id, out);
            return Need::Nothing;
        };
        let this = &mut self.participant;
        this.newest = this.newest.max(at);
        let part = intent.part;
        this.intents.propose(self.shard, txn, intent, waiting.asked_ns);
        let asked = Some((*from, id));
        let part = (!alone).then_some(part);
        // By this timer, which may be fast.
        let passes_in_ns = match &request.body {
            RequestBody::Ordered {
                operation: Operation::CommitAlone { passes_in_ns, .. }, ..
            } => *passes_in_ns,
            _ => None,
        };
        let passed = |ns: u64| waiting.asked_ns.saturating_add(ns + Drift::WORST.of(ns));
        let passed_ns = passes_in_ns.map(passed);
        let proposed = Proposed { transaction: txn, asked, part, passed_ns, decides: false };
        this.proposed.insert(index, proposed);
        Need::Nothing
    }

    /// The first key that this shard does not have.
    fn strange_key(&self, intent: &Intent, schemas: &[(SchemaVersion, KeyRange)]) -> Option<Key> {
        let written = intent.writes.iter().map(|write| &write.key).chain(&intent.withdrawn);
        let strange = written.filter(|key| !self.bounds.contains(key)).min().cloned();
        strange.or_else(|| schemas.iter().filter_map(|(_, range)| self.first_beyond(range)).min())
    }

    /// The first key of a range that this shard does not have.
    fn first_beyond(&self, range: &KeyRange) -> Option<Key> {
        let inside = self.bounds.contains_range(range);
        (!inside).then(|| match &self.bounds.end {
            Some(end) if self.bounds.contains(&range.start) => end.clone(),
            _ => range.start.clone(),
        })
    }

    /// Has the answer to a proposed command go to a later copy of its request.
    pub(super) fn asks_again(
        &mut self,
        txn: TransactionId,
        part: Option<u32>,
        asked: (Address, u64),
        out: &mut Outbox<Member>,
    ) {
        let this = &mut self.participant;
        let is_it = |it: &&mut Proposed| it.transaction == txn && it.part == part;
        let mut proposed = this.proposed.values_mut().filter(is_it);
        let mut waits = this.commit_waits.values_mut().filter(|it| it.transaction == txn);
        let known = match proposed.next() {
            Some(proposed) => Some(&mut proposed.asked),
            None => waits.next().map(|wait| &mut wait.asked),
        };
        if let Some(known) = known {
            sometimes!("a question is asked again while it waits");
            *known = Some(asked);
            self.answer(asked.0, Response::Waiting { id: asked.1 }, out);
        }
    }

    /// True if a decision of a transaction is proposed.
    pub(super) fn is_deciding(&self, txn: TransactionId) -> bool {
        let mut proposed = self.participant.proposed.values();
        proposed.any(|it| it.transaction == txn && it.decides)
    }

    /// True if a transaction of which this shard has no record may have a timestamp: it does not
    /// lie too far ahead, as far as is known here. A command with a timestamp far ahead would hold
    /// up the shard until then.
    pub(super) fn is_credible(now: Reading, at: Timestamp) -> bool {
        now.health == Health::Good && at.nanos <= now.interval.latest + MOST_AHEAD_NS
    }

    /// Answers with the outcome of a transaction.
    pub(super) fn answer_outcome(
        &self,
        (to, id): (Address, u64),
        outcome: Option<Timestamp>,
        out: &mut Outbox<Member>,
    ) {
        let said = match outcome {
            Some(at) => Response::Committed { id, at, spent: Spent::default() },
            None => Response::Aborted { id, why: Conflict::Expired },
        };
        self.answer(to, said, out);
    }

    /// Serves a read: nothing changes any more at or below its timestamp in its range.
    fn serve_read(
        &self,
        now: Reading,
        to: Address,
        request: &Request,
        at: Timestamp,
        asked_ns: u64,
        out: &mut Outbox<Member>,
    ) {
        let RequestBody::Ordered {
            operation: Operation::Read { range, reverse, limit_rows, versions, .. },
            ..
        } = &request.body
        else {
            unreachable!("only reads are served")
        };
        out.act(Effect::Serve(Serve {
            reply_to: to,
            id: request.id,
            lock_epoch: LockEpoch { term: self.group.term().0, admission: 0 },
            at,
            range: range.clone(),
            reverse: *reverse,
            limit_rows: *limit_rows,
            versions: *versions,
            deadline: None,
            waited_ns: Some(now.boot_ns - asked_ns).filter(|ns| *ns > 0),
        }));
    }

    /// Answers everything that waits, because this member lost leadership.
    pub(super) fn dismiss_ordered(&mut self, out: &mut Outbox<Member>) {
        for Waiting { from, request, .. } in std::mem::take(&mut self.participant.waiting) {
            self.answer_not_leader(from, request.id, out);
        }
        let proposed = std::mem::take(&mut self.participant.proposed);
        if !proposed.is_empty() {
            sometimes!("leadership is lost while a command is being agreed on");
        }
        let waits = std::mem::take(&mut self.participant.commit_waits);
        let waits = waits.into_values().filter_map(|wait| wait.asked);
        for (to, id) in proposed.into_values().filter_map(|proposed| proposed.asked).chain(waits) {
            self.answer(to, Response::Unknown { id }, out);
        }
        let this = &mut self.participant;
        this.reservations.clear();
        this.intents.forget_proposed(self.shard);
        this.pushed.clear();
        this.pushes.clear();
        this.acknowledge_to.clear();
        this.closing = false;
    }

    /// Decides a transaction of which this shard has no record: it is aborted, unless its outcome
    /// may have been forgotten.
    pub(super) fn settle(
        &mut self,
        asked: (Address, u64),
        txn: TransactionId,
        at: Timestamp,
        places: Vec<Place>,
        out: &mut Outbox<Member>,
    ) {
        let unknown = self.participant.outcomes.may_have_forgotten(at);
        if unknown && self.participant.recorder.state(txn).is_none() {
            sometimes!("the outcome of a transaction may have been forgotten");
            return self.answer(asked.0, Response::Unknown { id: asked.1 }, out);
        }
        self.propose_decision((txn, at), None, places, Some(asked));
    }
}
