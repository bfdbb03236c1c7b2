//! A transaction at its coordinator, from its first read to the outcome.
//!
//! The session's node is the coordinator. It reads at one replica, which may be behind; it keeps
//! what the transaction has read and writes; and at commit it proposes a timestamp to all replicas
//! of all participants. If one shard asks for another timestamp, the coordinator proposes that to
//! all of them.
//!
//! Invariants:
//! 1. Another attempt is proposed only when a shard has decided that the present one will never
//!    commit (Trap A.2-2). An attempt that has met an undecided transaction is aborted as a whole,
//!    so that it blocks no other transaction during its pause; its reads and writes are then
//!    proposed as a new transaction.
//! 2. The coordinator reports an abort only after a shard has refused the last attempt, and a
//!    commit only after all shards have voted `Ok` on it. If it cannot determine the outcome in
//!    time, the outcome is `Unknown`, and a node that finds the transaction prepared recovers it
//!    ([`recover`](super::recover)).
//! 3. If the database is strictly serializable, the timestamp is drawn at or above `now.latest`
//!    after COMMIT, and the client receives the outcome when the timestamp has surely passed (Trap
//!    A.2-1). No timestamp is drawn while the node does not know the time.
//! 4. No timestamp is proposed twice: its nanoseconds grow within each incarnation of a node, and
//!    it names node and incarnation.

use super::contested::{Contested, likely};
use super::schemas::{self, Planned};
use super::sharing::{Held, Turns};
use super::snapshot::Snapshot;
use super::{
    Common, ConsensusOp, ConsensusResult, End, Footprint, Guarantee, Proposal, RangeRead,
    ReadResult, Shards, Vote,
};
use crate::buffer::rest_of;
use crate::tapir::rules;
use crate::{
    Age, Begin, Buffer, Conflict, Consistency, Database, Failure, Future, IsolationLevel, Lock,
    Mode, Node, Outcome, ReadAt, Rows, Savepoint, SchemaVersion, Stamps, Timings, Transaction,
    TransactionId, knows_time, passes,
};
use futures::future::join_all;
use meridian_clock::rules as clock_rules;
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Chunk, Key, KeyRange, Value, Write, local};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time that a coordinator waits for replicas that answer, in nanoseconds.
const TIMEOUT_NS: u64 = 10_000_000_000;
/// No further attempt is proposed after this time, in nanoseconds. Recovery relies on it.
const ATTEMPTS_END_NS: u64 = 5_000_000_000;
/// The maximum number of attempts.
const ATTEMPTS: u32 = 8;
/// A requested timestamp that is further ahead than this, in nanoseconds, is not proposed: it comes
/// from a wrong clock, and the commit wait would be long (Trap A.2-1).
const AHEAD_NS: u64 = 500_000_000;
/// The amount by which a retry's timestamp is moved ahead from the second retry on, in nanoseconds;
/// it doubles with each retry (§6.5), up to the second constant.
const BUMP_NS: u64 = 1_000_000;
const LONGEST_BUMP_NS: u64 = 64_000_000;
/// The base of the pause after a conflict with an undecided transaction, in nanoseconds. The pause
/// is drawn from up to twice this or twice a round trip, and doubles with each retry: the farther
/// apart replicas are, the longer two transactions that were proposed at once keep each other out.
const REST_NS: u64 = 1_000_000;
/// The longest mean pause, in nanoseconds.
const LONGEST_REST_NS: u64 = 2_000_000_000;
/// The time that a turn is held at most: this many round trips (to the replica that grants it, the
/// slow path, and the end), and this time for what the session does meanwhile, in nanoseconds.
const TURN_ROUND_TRIPS: u64 = 4;
const TURN_NS: u64 = 100_000_000;
/// The time that a key counts as contested: this many round trips, and at least this time, in
/// nanoseconds.
const CONTESTED_ROUND_TRIPS: u64 = 16;
const CONTESTED_NS: u64 = 2_000_000_000;

/// A client of a database whose transactions validate (TAPIR), on one node.
pub struct TxnClient<S: Shards> {
    shards: Arc<S>,
    guarantee: Guarantee,
    /// The timestamps that this node proposes.
    proposed: Stamps,
    /// The keys over which transactions of this node were refused.
    contested: Arc<Mutex<Contested>>,
    turns: Arc<Turns<S>>,
}

impl<S: Shards> TxnClient<S> {
    /// Returns a client of a database.
    pub fn new(shards: Arc<S>, guarantee: Guarantee) -> Self {
        let turns = Turns::new(Arc::clone(&shards));
        TxnClient {
            shards,
            guarantee,
            proposed: Stamps::default(),
            contested: Arc::default(),
            turns,
        }
    }

    /// Returns the node that the client runs on.
    pub fn shards(&self) -> &Arc<S> {
        &self.shards
    }
}

impl<S: Shards> Database for TxnClient<S> {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn consistency(&self) -> &'static [Consistency] {
        match self.guarantee {
            Guarantee::StrictlySerializable => &[Consistency::CommitWait],
            Guarantee::Serializable => &[Consistency::None],
        }
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        Box::pin(crate::node::sleep(self.shards.node(), time))
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        Box::pin(async move {
            let ((node, incarnation), number) =
                (self.shards.node().here(), self.shards.node().new_number());
            if !knows_time(self.shards.node()).await {
                return Err(Failure::Unavailable(
                    "this node does not know what time it is: check that the other nodes are up"
                        .into(),
                ));
            }
            let began = self.shards.node().now().interval;
            let (shards, guarantee, mode) = (Arc::clone(&self.shards), self.guarantee, how.mode);
            let age = how.age.unwrap_or(Age { began_ns: began.latest, node: node.0, number });
            if let Mode::ReadOnly(when) = mode {
                let at = match when {
                    ReadAt::Exact(at) | ReadAt::AtLeast(at) if at.nanos > began.latest => {
                        return Err(Failure::InFuture { now: began });
                    }
                    ReadAt::Exact(at) => at,
                    ReadAt::AtLeast(at) if self.shards.settled() >= Some(at) => {
                        self.shards.settled().unwrap_or(at)
                    }
                    // Every commit that was acknowledged before has surely passed.
                    ReadAt::Now | ReadAt::AtLeast(_) => {
                        Timestamp { nanos: began.latest, ..Timestamp::ZERO }
                    }
                };
                let snapshot = Snapshot {
                    shards,
                    guarantee,
                    mode,
                    age,
                    began,
                    at,
                    planned: Planned::default(),
                    versions: false,
                    timings: None,
                };
                return Ok(Box::new(snapshot) as Box<dyn Transaction>);
            }
            let coordinator = Coordinator {
                shards,
                guarantee,
                proposed: self.proposed.clone(),
                contested: Arc::clone(&self.contested),
                turns: Arc::clone(&self.turns),
                turn: None,
                took_turn: false,
                waited_for: None,
                transaction: TransactionId { node: node.0, incarnation: incarnation.0, number },
                age,
                fresh: how.age.is_some(),
                began,
                seen: BTreeMap::new(),
                writes: Buffer::default(),
                planned: Planned::default(),
                versions: false,
                timings: None,
                commit_wait_ns: 0,
            };
            Ok(Box::new(coordinator) as Box<dyn Transaction>)
        })
    }
}

struct Coordinator<S: Shards> {
    shards: Arc<S>,
    guarantee: Guarantee,
    proposed: Stamps,
    contested: Arc<Mutex<Contested>>,
    turns: Arc<Turns<S>>,
    /// The turn, taken before the first contested key is read or, if none was read, before one is
    /// written.
    turn: Option<Held<S>>,
    /// True if it has taken a turn, or waited for one in vain. It does not do so again.
    took_turn: bool,
    /// The contested range for which the transaction had to wait until it had its turn.
    waited_for: Option<KeyRange>,
    transaction: TransactionId,
    age: Age,
    /// True if an attempt has failed: its reads may have been stale.
    fresh: bool,
    began: Interval,
    /// The reads in each shard.
    seen: BTreeMap<ShardId, Vec<RangeRead>>,
    writes: Buffer,
    planned: Planned,
    /// True if the commit timestamps of rows are to be returned.
    versions: bool,
    /// Set if the time that the transaction takes is to be measured.
    timings: Option<Arc<Timings>>,
    /// The time that its commit waited for its timestamp, in nanoseconds.
    commit_wait_ns: u64,
}

/// Returns a stopwatch that follows a node's boot clock.
pub(super) fn stopwatch<S: Shards>(shards: &Arc<S>) -> Arc<Timings> {
    let shards = Arc::clone(shards);
    Arc::new(Timings::new(move || shards.node().now().boot_ns))
}

/// Notes reads that began at `began_ns` by the boot clock.
pub(super) fn note_reads(timings: Option<&Timings>, reads: usize, began_ns: u64, now_ns: u64) {
    if let Some(timings) = timings {
        timings.note(|times| {
            times.reads += u64::try_from(reads).unwrap_or(u64::MAX);
            times.reading_ns += now_ns.saturating_sub(began_ns);
        });
    }
}

/// Counts an attempt that a failure has ended.
pub(super) fn count_failure<S: Shards>(shards: &S, failure: &Failure) {
    if let (Failure::Aborted(why), Some(counters)) = (failure, shards.counters()) {
        counters.aborted(why);
    }
}

/// Returns the error for a shard of which too few replicas answered.
pub(super) fn unavailable<S: Shards>(shards: &S, shard: ShardId) -> Failure {
    Failure::Unavailable(match shards.node().is_closed() {
        true => "this node is shutting down: retry once it is back".to_owned(),
        false => {
            format!("too few replicas of shard {} answer: check that their nodes are up", shard.0)
        }
    })
}

/// Returns the part of a range that a chunk covers.
fn covered(range: &KeyRange, rest: Option<&KeyRange>, reverse: bool) -> KeyRange {
    match rest {
        None => range.clone(),
        Some(rest) if reverse => {
            KeyRange { start: rest.end.clone().unwrap_or_default(), end: range.end.clone() }
        }
        Some(rest) => KeyRange { start: range.start.clone(), end: Some(rest.start.clone()) },
    }
}

/// Returns the read that a replica's result stands for: every unsettled version, in key order.
fn seen(range: KeyRange, found: &ReadResult) -> RangeRead {
    let ReadResult { chunk: Chunk { rows, at, gone, .. }, through } = found;
    let live = rows.iter().map(|(key, _)| key).zip(at.iter());
    let all = live.chain(gone.iter().map(|(key, at)| (key, at)));
    let unsettled = all.filter(|(key, at)| **at > *through && range.contains(key));
    let versions: BTreeMap<Key, Timestamp> =
        unsettled.map(|(key, at)| (key.clone(), *at)).collect();
    RangeRead { range, versions: versions.into_iter().collect(), through: *through }
}

impl<S: Shards> Coordinator<S> {
    fn boot_ns(&self) -> u64 {
        self.shards.node().now().boot_ns
    }

    /// Reads a chunk of one shard's part of a range. The result's `rest` covers the other shards'
    /// parts.
    async fn read(
        &mut self,
        range: &KeyRange,
        reverse: bool,
        limit: usize,
    ) -> Result<Rows, Failure> {
        let (shard, bounds) = if reverse {
            self.shards.route_below(range.end.as_ref())
        } else {
            self.shards.route(&range.start)
        };
        let checked = self.check_schemas(shard).await;
        checked.inspect_err(|failure| count_failure(&*self.shards, failure))?;
        let Chunk { rows, at, rest, .. } =
            self.find(shard, &range.common(&bounds), (reverse, limit)).await?;
        let at = if self.versions { at.into_iter().map(Some).collect() } else { Vec::new() };
        let rest = rest_of(range, &bounds, rest, reverse);
        Ok(Rows { rows, at, rest })
    }

    fn contested(&self) -> std::sync::MutexGuard<'_, Contested> {
        self.contested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks ranges as contested for a while, in the turn that the transaction has, if any.
    fn contest(&self, ranges: impl IntoIterator<Item = KeyRange>) {
        let (now, round_trip_ns) = (self.boot_ns(), self.shards.round_trip_ns());
        let until = now + CONTESTED_NS.max(CONTESTED_ROUND_TRIPS * round_trip_ns);
        self.contested().note(now, until, ranges, self.turn.as_ref().map(Held::key));
    }

    /// Waits for the turn of the first of these ranges that is contested, in its shard, unless the
    /// transaction took a turn before. If no replica grants one the transaction proceeds: a turn is
    /// not a lock.
    async fn take_turn(&mut self, ranges: impl IntoIterator<Item = impl Borrow<KeyRange>>) {
        if self.took_turn || broken(rules::TURNS_NOT_TAKEN) {
            return;
        }
        let now = self.boot_ns();
        let (shard, key, ranges) = {
            let contested = self.contested();
            if contested.is_empty() {
                return;
            }
            let mut all = ranges.into_iter();
            let first = all.find_map(|range| contested.turn_of(now, range.borrow()));
            let Some((wanted, key)) = first else { return };
            let (shard, bounds) = self.shards.route(&wanted.start);
            let wanted = wanted.common(&bounds);
            (shard, key.clone(), contested.sharing(now, &wanted, &key, &bounds))
        };
        sometimes!("a transaction waits for its turn");
        let holds_ns = TURN_NS + TURN_ROUND_TRIPS * self.shards.round_trip_ns();
        let wanted = ranges.first().cloned();
        self.took_turn = true;
        self.turn = self.turns.take((shard, key), ranges, holds_ns, now + TIMEOUT_NS).await;
        self.waited_for = wanted.filter(|_| self.turn.as_ref().is_some_and(|turn| turn.waited));
    }

    /// Keeps the range for which the transaction has waited contested, if it is among those over
    /// which the transaction would probably have been refused without its turn.
    fn contest_again(&self, proposals: &[Proposal]) {
        let Some(wanted) = &self.waited_for else { return };
        let mut met = proposals.iter().flat_map(|proposal| likely(proposal, false));
        if met.any(|range| range.overlaps(wanted)) {
            self.contest([wanted.clone()]);
        }
    }

    /// Reads a part of a shard's range at a replica, and notes it for validation.
    async fn find(
        &mut self,
        shard: ShardId,
        part: &KeyRange,
        how: (bool, usize),
    ) -> Result<Chunk, Failure> {
        let (reverse, limit) = how;
        self.take_turn([part]).await;
        let began_ns = self.boot_ns();
        let until = began_ns + TIMEOUT_NS;
        let found = self.shards.read(shard, part, (reverse, limit.max(1)), self.fresh, until).await;
        note_reads(self.timings.as_deref(), 1, began_ns, self.boot_ns());
        let Some(found) = found else {
            return Err(unavailable(&*self.shards, shard));
        };
        Ok(self.saw(shard, part, reverse, found?))
    }

    /// Notes a read, so that it is validated.
    fn saw(&mut self, shard: ShardId, part: &KeyRange, reverse: bool, found: ReadResult) -> Chunk {
        let looked = covered(part, found.chunk.rest.as_ref(), reverse);
        if !looked.is_empty() {
            let seen = seen(looked, &found);
            let known = self.seen.entry(shard).or_default();
            if !known.contains(&seen) {
                known.push(seen);
            }
        }
        found.chunk
    }

    /// Reads points of one shard in parallel.
    async fn read_points(
        &mut self,
        shard: ShardId,
        keys: &[Key],
    ) -> Result<Vec<Option<Value>>, Failure> {
        let checked = self.check_schemas(shard).await;
        checked.inspect_err(|failure| count_failure(&*self.shards, failure))?;
        let points: Vec<KeyRange> = keys.iter().cloned().map(KeyRange::point).collect();
        self.take_turn(&points).await;
        let began_ns = self.boot_ns();
        let until = began_ns + TIMEOUT_NS;
        let asked = points
            .iter()
            .map(|point| self.shards.read(shard, point, (false, 1), self.fresh, until));
        let found = join_all(asked).await;
        note_reads(self.timings.as_deref(), keys.len(), began_ns, self.boot_ns());
        let mut values = Vec::with_capacity(keys.len());
        for (point, found) in points.iter().zip(found) {
            let found = found.unwrap_or_else(|| Err(unavailable(&*self.shards, shard)))?;
            values.push(
                self.saw(shard, point, false, found)
                    .rows
                    .into_iter()
                    .next()
                    .map(|(_, value)| value),
            );
        }
        Ok(values)
    }

    /// Reads, once, a shard's versions of the schemas that the transaction was planned for. Like
    /// every read, this one is validated.
    async fn check_schemas(&mut self, shard: ShardId) -> Result<(), Failure> {
        for table in self.planned.unchecked(shard) {
            let row = self
                .find(shard, &KeyRange::point(local::schema(shard.0, table)), (false, 1))
                .await?;
            self.planned.check(shard, table, row.rows.first().map(|(_, value)| value))?;
        }
        Ok(())
    }

    /// Returns the writes in each shard, rows of schemas included.
    fn take_writes(&mut self) -> BTreeMap<ShardId, Vec<Write>> {
        let mut writes: BTreeMap<ShardId, BTreeMap<Key, Option<Value>>> = BTreeMap::new();
        for (to, ranges) in self.writes.take_schemas() {
            for range in ranges {
                let mut rest = Some(range);
                while let Some(range) = rest {
                    let (shard, bounds) = self.shards.route(&range.start);
                    let row = (local::schema(shard.0, to.table), Some(schemas::row(to.version)));
                    writes.entry(shard).or_default().extend([row]);
                    rest = rest_of(&range, &bounds, None, false);
                }
            }
        }
        for Write { key, value } in self.writes.take() {
            writes.entry(self.shards.route(&key).0).or_default().insert(key, value);
        }
        let in_order = |writes: BTreeMap<Key, Option<Value>>| {
            writes.into_iter().map(|(key, value)| Write { key, value }).collect::<Vec<Write>>()
        };
        writes.into_iter().map(|(shard, writes)| (shard, in_order(writes))).collect()
    }

    /// Draws a unique timestamp above `above` and now.
    fn draw(&self, above: Timestamp, bump_ns: u64) -> Timestamp {
        let least = self
            .shards
            .node()
            .now()
            .interval
            .latest
            .max(above.nanos.saturating_add(1))
            .saturating_add(bump_ns);
        self.proposed.draw(self.shards.node().here(), least)
    }

    /// Proposes timestamps until all shards vote `Ok` on one, or one refuses.
    async fn propose(&mut self) -> Outcome {
        let mut writes = self.take_writes();
        let written = writes.values().flatten().map(|write| KeyRange::point(write.key.clone()));
        self.take_turn(written).await;
        let touched: BTreeSet<ShardId> = self.seen.keys().chain(writes.keys()).copied().collect();
        for shard in touched {
            match self.check_schemas(shard).await {
                Ok(()) => {}
                Err(Failure::Aborted(why)) => return Outcome::Aborted { why },
                // Nothing was proposed yet.
                Err(_) => return Outcome::Aborted { why: Conflict::Late },
            }
        }
        let mut seen = std::mem::take(&mut self.seen);
        let participants: BTreeSet<ShardId> = seen.keys().chain(writes.keys()).copied().collect();
        let participants: Vec<ShardId> = participants.into_iter().collect();
        let mut proposals = Vec::with_capacity(participants.len());
        for shard in &participants {
            proposals.push(Proposal {
                transaction: self.transaction,
                attempt: 0,
                at: Timestamp::ZERO,
                footprint: Arc::new(Footprint {
                    reads: seen.remove(shard).unwrap_or_default(),
                    writes: writes.remove(shard).unwrap_or_default(),
                    participants: participants.clone(),
                }),
            });
        }
        let began_ns = self.boot_ns();
        // The proposal's timestamp lies above every read at the farthest replica by the time that
        // the proposal arrives there, and has passed once all replicas have answered. Replicas
        // reject what is too far ahead, and a replica that is away keeps its last distance.
        let arrives_ns = match self.turn {
            Some(_) => (self.shards.round_trip_ns() * 5 / 8).min(AHEAD_NS),
            None => 0,
        };
        let (mut above, mut bump_ns) = (Timestamp::ZERO, arrives_ns);
        let mut last = None;
        let mut attempt = 0;
        for proposed in 0..ATTEMPTS {
            if !knows_time(self.shards.node()).await {
                return match last {
                    None => Outcome::Aborted { why: Conflict::Late }, // Nothing was proposed yet.
                    Some(refused) => self.abort(refused, &participants, Conflict::Contended),
                };
            }
            let at = self.draw(above, bump_ns);
            last = Some(at);
            proposals
                .iter_mut()
                .for_each(|proposal| (proposal.attempt, proposal.at) = (attempt, at));
            let until = self.boot_ns() + TIMEOUT_NS;
            let asked = participants.iter().zip(&proposals).map(|(shard, proposal)| {
                self.shards.ask(*shard, ConsensusOp::Prepare(proposal.clone()), until)
            });
            let answers: Vec<Option<Common>> = join_all(asked).await;
            let votes: Vec<Option<Vote>> = answers.iter().map(vote).collect();
            let said = |vote: Vote| votes.contains(&Some(vote));
            let met = |vote: &Option<Vote>| matches!(vote, Some(Vote::Abort | Vote::Abstain));
            for (proposal, _) in proposals.iter().zip(&votes).filter(|(_, vote)| met(vote)) {
                self.contest(likely(proposal, self.took_turn));
            }
            if votes.iter().all(|vote| *vote == Some(Vote::Ok)) {
                self.contest_again(&proposals);
                let by_all = answers
                    .iter()
                    .map(|answer| answer.as_ref().is_some_and(|common| common.by_all));
                let told = proposals.iter().zip(by_all);
                let told = told.map(
                    |(proposal, by_all)| if by_all { proposal.name() } else { proposal.clone() },
                );
                if let Some(timings) = &self.timings {
                    let agreed_ns = self.boot_ns() - began_ns;
                    timings.note(|times| times.replication_ns = agreed_ns);
                }
                return self.commit_at(at, &participants, told.collect()).await;
            }
            if said(Vote::Abort) {
                return self.abort(at, &participants, Conflict::Overwritten);
            }
            let refused = votes.iter().flatten().any(|vote| *vote != Vote::Ok);
            if votes.contains(&None) {
                // A shard that has refused has refused the last attempt.
                return match refused {
                    true => self.abort(at, &participants, Conflict::Contended),
                    false => {
                        sometimes!("it is unknown in time whether a transaction has committed");
                        Outcome::Unknown
                    }
                };
            }
            let retry = votes
                .iter()
                .filter_map(|vote| if let Some(Vote::Retry(at)) = vote { Some(*at) } else { None });
            above = retry.max().unwrap_or_default();
            let far =
                above.nanos > self.shards.node().now().interval.latest.saturating_add(AHEAD_NS);
            let late = self.boot_ns() >= began_ns + ATTEMPTS_END_NS;
            if far || late || proposed + 1 == ATTEMPTS || self.shards.node().is_closed() {
                return self.abort(at, &participants, Conflict::Contended);
            }
            sometimes!("another timestamp is proposed");
            let later_ns =
                if proposed == 0 { 0 } else { (BUMP_NS << proposed).min(LONGEST_BUMP_NS) };
            bump_ns = arrives_ns.max(later_ns);
            attempt += 1;
            if said(Vote::Abstain) {
                // A prepared attempt would block other transactions during the pause.
                self.abort(at, &participants, Conflict::Contended);
                self.transaction.number = self.shards.node().new_number();
                attempt = 0;
                proposals.iter_mut().for_each(|proposal| proposal.transaction = self.transaction);
                let rest_ns =
                    (REST_NS.max(self.shards.round_trip_ns()) << proposed).min(LONGEST_REST_NS);
                self.shards
                    .node()
                    .sleep_until(
                        self.boot_ns()
                            + (2.0 * rest_ns as f64 * self.shards.node().random()) as u64,
                    )
                    .await;
            }
        }
        unreachable!("the last attempt returns")
    }

    async fn commit_at(
        &mut self,
        at: Timestamp,
        participants: &[ShardId],
        proposals: Vec<Proposal>,
    ) -> Outcome {
        for (shard, proposal) in participants.iter().zip(proposals) {
            self.shards.send(*shard, End::Commit(proposal));
        }
        self.turn = None; // The next holder of the turn reads this transaction's writes.
        let waits =
            self.guarantee == Guarantee::StrictlySerializable && !broken(clock_rules::COMMIT_WAIT);
        let began_ns = self.boot_ns();
        if waits && !passes(self.shards.node(), at).await {
            return Outcome::Unknown; // No outcome is reported before the timestamp has passed.
        }
        self.commit_wait_ns = self.boot_ns() - began_ns;
        Outcome::Committed { at }
    }

    fn abort(&self, at: Timestamp, participants: &[ShardId], why: Conflict) -> Outcome {
        let transaction = self.transaction;
        participants
            .iter()
            .for_each(|shard| self.shards.send(*shard, End::Abort { transaction, at }));
        Outcome::Aborted { why }
    }
}

fn vote(answer: &Option<Common>) -> Option<Vote> {
    match &answer.as_ref()?.answer {
        // The shard has forgotten the outcome: at this age no replica's former vote can be
        // obtained.
        ConsensusResult::Vote(Vote::Late) => None,
        ConsensusResult::Vote(vote) => Some(*vote),
        ConsensusResult::Stands(_) => None,
    }
}

impl<S: Shards> Transaction for Coordinator<S> {
    fn mode(&self) -> Mode {
        Mode::ReadWrite
    }

    fn age(&self) -> Age {
        self.age
    }

    fn began(&self) -> Interval {
        self.began
    }

    fn read_at(&self) -> Option<Timestamp> {
        None // The transaction reads as of its commit timestamp, which is drawn last.
    }

    fn get<'a>(&'a mut self, key: &'a Key, _: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            let found = self.read(&KeyRange::point(key.clone()), false, 1).await?;
            Ok(found.rows.into_iter().next().map(|(_, value)| value))
        })
    }

    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        _: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        Box::pin(async move {
            let foreign: Vec<Key> =
                keys.iter().filter(|key| self.writes.get(key).is_none()).cloned().collect();
            let shards = Arc::clone(&self.shards);
            let mut there = Vec::with_capacity(foreign.len());
            for (shard, keys) in super::shards::by_shard(&*shards, &foreign) {
                there.extend(self.read_points(shard, keys).await?);
            }
            let mut there = there.into_iter();
            let value =
                |key| self.writes.get(key).cloned().unwrap_or_else(|| there.next().flatten());
            Ok(keys.iter().map(value).collect())
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        _: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(async move {
            let found = self.read(range, reverse, limit_rows).await?;
            Ok(self.writes.over(range, found, reverse, limit_rows.max(1)))
        })
    }

    fn give_way(&mut self) {
        self.turn = None;
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if self.shards.node().is_full() {
            return Err(Failure::DiskFull);
        }
        self.writes.put(key, value)
    }

    fn planned_for(&mut self, schema: SchemaVersion) {
        self.planned.plan(schema);
    }

    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure> {
        self.writes.change_schema(to, ranges);
        Ok(())
    }

    fn show_versions(&mut self) {
        self.versions = true;
    }

    fn validate(&mut self) -> Future<'_, Result<(), Failure>> {
        if self.seen.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        // Validates the reads as another transaction, which writes nothing.
        let transaction =
            TransactionId { number: self.shards.node().new_number(), ..self.transaction };
        let (shards, proposed) = (Arc::clone(&self.shards), self.proposed.clone());
        let (seen, writes, planned) = (self.seen.clone(), Buffer::default(), Planned::default());
        let (contested, turns) = (Arc::clone(&self.contested), Arc::clone(&self.turns));
        let timings = None;
        let mut same = Coordinator {
            shards,
            proposed,
            contested,
            turns,
            turn: None,
            waited_for: None,
            transaction,
            seen,
            writes,
            planned,
            timings,
            ..*self
        };
        Box::pin(async move {
            match same.propose().await {
                Outcome::Committed { .. } => Ok(()),
                Outcome::Aborted { why } => {
                    let failure = Failure::Aborted(why);
                    count_failure(&*same.shards, &failure);
                    Err(failure)
                }
                Outcome::Unknown => Err(Failure::Unavailable(
                    "too few replicas answer to validate the reads of this transaction: retry it"
                        .into(),
                )),
            }
        })
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        drop(self.writes.rollback_to(savepoint));
    }

    fn measure(&mut self) -> Option<Arc<Timings>> {
        let shards = &self.shards;
        Some(Arc::clone(self.timings.get_or_insert_with(|| stopwatch(shards))))
    }

    fn commit(mut self: Box<Self>) -> Future<'static, Outcome> {
        if self.seen.is_empty() && self.writes.is_empty() {
            let at = Timestamp { nanos: self.began.earliest, ..Timestamp::ZERO };
            return Box::pin(std::future::ready(Outcome::Committed { at }));
        }
        Box::pin(async move {
            let began_ns = self.boot_ns();
            let outcome = self.propose().await;
            if let Some(counters) = self.shards.counters() {
                match &outcome {
                    Outcome::Committed { .. } => counters.committed(self.commit_wait_ns),
                    Outcome::Aborted { why } => counters.aborted(why),
                    Outcome::Unknown => counters.outcome_unknown(),
                }
            }
            if let Some(timings) = &self.timings {
                timings.note(|times| {
                    times.commit_ns = self.boot_ns() - began_ns;
                    times.commit_wait_ns = self.commit_wait_ns;
                });
            }
            outcome
        })
    }
}
