//! A transaction as its session sees it, from its first read to the outcome.
//!
//! The session is the coordinator. It reads at one replica, which may be behind; keeps what it has
//! seen and what it writes; and when it commits it proposes a timestamp to all replicas of all
//! shards that it touched. Where one shard wants another timestamp it is proposed anew, to all of
//! them.
//!
//! Invariants:
//! 1. Another attempt is proposed only when a shard has said that this one will never commit (Trap
//!    A.2-2). One that has met another transaction which is undecided is given up as a whole, so
//!    that it stands in no way while it rests, and what it has read and writes is proposed as a
//!    transaction of its own.
//! 2. Nobody is told that a transaction is aborted before a shard has said so of its last attempt,
//!    and nobody that it committed before all have said yes to it. What the session cannot find out
//!    in time is `Unknown`, and whoever finds it prepared recovers it
//!    ([`recover`](super::recover)).
//! 3. Where real time counts, the timestamp is drawn at or above `now.latest` after COMMIT, and the
//!    user is told when the last one has surely passed (Trap A.2-1). Nothing is drawn while the
//!    node does not know what time it is.
//! 4. No timestamp is proposed twice: its nanoseconds grow in each life of a node, and it names
//!    node and life.

use super::contested::Contested;
use super::schemas::{self, Planned};
use super::sharing::{Held, Turns};
use super::snapshot::Snapshot;
use super::time;
use super::{
    Answer, Common, End, Footprint, Found, Guarantee, Proposal, Question, Seen, Shards, Vote,
};
use crate::buffer::rest_of;
use crate::tapir::rules;
use crate::{
    Age, Begin, Buffer, Conflict, Database, Failure, Future, IsolationLevel, Lock, Mode, Node,
    Outcome, ReadAt, Rows, Savepoint, SchemaVersion, Stamps, Transaction, TransactionId,
    knows_time,
};
use futures::future::join_all;
use meridian_clock::rules as clock_rules;
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Chunk, Key, KeyRange, Value, Write, local};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// How long a session looks for replicas that answer.
const PATIENCE_NS: u64 = 10_000_000_000;
/// No other attempt is proposed after so long: who recovers a transaction reckons with that.
const ATTEMPTS_END_NS: u64 = 5_000_000_000;
/// So many timestamps are proposed.
const ATTEMPTS: u32 = 8;
/// A timestamp that lies further ahead is not taken up: whoever proposed it would keep everybody
/// waiting (Trap A.2-1).
const AHEAD_NS: u64 = 500_000_000;
/// From the second retry on the timestamp is so much later, and twice as much each time (§6.5); the
/// end of that.
const BUMP_NS: u64 = 1_000_000;
const LONGEST_BUMP_NS: u64 = 64_000_000;
/// A transaction that has met an undecided one comes again after up to twice this or a round trip,
/// drawn, and up to twice as much each time: the farther replicas are apart, the longer two that
/// were proposed at once keep each other out.
const REST_NS: u64 = 1_000_000;
/// The longest such rest on average.
const LONGEST_REST_NS: u64 = 2_000_000_000;
/// How long a turn is held at most: so many round trips (to the replica that gives it, the slow
/// path, and the end), and this time for what the session does meanwhile, in nanoseconds.
const TURN_ROUND_TRIPS: u64 = 4;
const TURN_NS: u64 = 100_000_000;
/// How long a key is remembered as contested: so many round trips, and at least this time, in
/// nanoseconds.
const CONTESTED_ROUND_TRIPS: u64 = 16;
const CONTESTED_NS: u64 = 2_000_000_000;

/// A database whose transactions validate, from this node.
pub struct Gateway<S: Shards> {
    shards: Arc<S>,
    guarantee: Guarantee,
    /// What is proposed from here.
    proposed: Stamps,
    /// Over what transactions from here were refused.
    contested: Arc<Mutex<Contested>>,
    turns: Arc<Turns<S>>,
}

impl<S: Shards> Gateway<S> {
    /// The door to a database.
    pub fn new(shards: Arc<S>, guarantee: Guarantee) -> Self {
        let turns = Turns::new(Arc::clone(&shards));
        Gateway { shards, guarantee, proposed: Stamps::default(), contested: Arc::default(), turns }
    }

    /// The node that it stands on.
    pub fn shards(&self) -> &Arc<S> {
        &self.shards
    }
}

impl<S: Shards> Database for Gateway<S> {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        Box::pin(async move {
            let ((node, incarnation), number) =
                (self.shards.node().here(), self.shards.node().new_number());
            if !knows_time(self.shards.node()).await {
                return Err(Failure::Unavailable(
                    "this node does not know what time it is: are the others up?".into(),
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
                    // Everything that was told before has surely passed.
                    ReadAt::Now | ReadAt::AtLeast(_) => {
                        Timestamp { nanos: began.latest, ..Timestamp::ZERO }
                    }
                };
                let planned = Planned::default();
                let snapshot =
                    Snapshot { shards, guarantee, mode, age, began, at, planned, versions: false };
                return Ok(Box::new(snapshot) as Box<dyn Transaction>);
            }
            let session = Session {
                shards,
                guarantee,
                proposed: self.proposed.clone(),
                contested: Arc::clone(&self.contested),
                turns: Arc::clone(&self.turns),
                turn: None,
                transaction: TransactionId { node: node.0, incarnation: incarnation.0, number },
                age,
                fresh: how.age.is_some(),
                began,
                seen: BTreeMap::new(),
                writes: Buffer::default(),
                planned: Planned::default(),
                versions: false,
            };
            Ok(Box::new(session) as Box<dyn Transaction>)
        })
    }
}

struct Session<S: Shards> {
    shards: Arc<S>,
    guarantee: Guarantee,
    proposed: Stamps,
    contested: Arc<Mutex<Contested>>,
    turns: Arc<Turns<S>>,
    /// Taken before the first contested key is read or, where none was read, before one is written.
    turn: Option<Held<S>>,
    transaction: TransactionId,
    age: Age,
    /// An attempt has failed: what it read may have been old.
    fresh: bool,
    began: Interval,
    /// What it has read, in each shard.
    seen: BTreeMap<ShardId, Vec<Seen>>,
    writes: Buffer,
    planned: Planned,
    /// Somebody wants to know when rows were committed.
    versions: bool,
}

/// Nobody has answered.
pub(super) fn unavailable<S: Shards>(shards: &S, shard: ShardId) -> Failure {
    Failure::Unavailable(match shards.node().is_closed() {
        true => "this node is shutting down: begin again once it is back".to_owned(),
        false => format!("too few replicas of shard {} answer: are their nodes up?", shard.0),
    })
}

/// The part of a range that a chunk covers.
fn covered(range: &KeyRange, rest: Option<&KeyRange>, reverse: bool) -> KeyRange {
    match rest {
        None => range.clone(),
        Some(rest) if reverse => {
            KeyRange { start: rest.end.clone().unwrap_or_default(), end: range.end.clone() }
        }
        Some(rest) => KeyRange { start: range.start.clone(), end: Some(rest.start.clone()) },
    }
}

/// What a transaction has seen of what a replica found: every version that is not settled, in the
/// order of the keys.
fn seen(range: KeyRange, found: &Found) -> Seen {
    let Found { chunk: Chunk { rows, at, gone, .. }, through } = found;
    let live = rows.iter().map(|(key, _)| key).zip(at.iter());
    let all = live.chain(gone.iter().map(|(key, at)| (key, at)));
    let unsettled = all.filter(|(key, at)| **at > *through && range.contains(key));
    let versions: BTreeMap<Key, Timestamp> =
        unsettled.map(|(key, at)| (key.clone(), *at)).collect();
    Seen { range, versions: versions.into_iter().collect(), through: *through }
}

impl<S: Shards> Session<S> {
    fn boot_ns(&self) -> u64 {
        self.shards.node().now().boot_ns
    }

    /// Reads a chunk of what one shard has of a range; what others have of it is left.
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
        self.check_schemas(shard).await?;
        let Chunk { rows, at, rest, .. } =
            self.find(shard, &range.common(&bounds), (reverse, limit)).await?;
        let at = if self.versions { at.into_iter().map(Some).collect() } else { Vec::new() };
        let rest = rest_of(range, &bounds, rest, reverse);
        Ok(Rows { rows, at, rest })
    }

    fn contested(&self) -> std::sync::MutexGuard<'_, Contested> {
        self.contested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These keys and ranges are contested for a while, from now on.
    fn contest(&self, ranges: impl IntoIterator<Item = KeyRange>) {
        let (now, round_trip_ns) = (self.boot_ns(), self.shards.round_trip_ns());
        let until = now + CONTESTED_NS.max(CONTESTED_ROUND_TRIPS * round_trip_ns);
        self.contested().note(now, until, ranges);
    }

    /// Waits for the turn of the first of these keys that is contested, unless the transaction has
    /// a turn. Where no replica gives one the transaction goes on: a turn is no lock.
    async fn take_turn<'a>(&mut self, keys: impl IntoIterator<Item = &'a Key>) {
        if self.turn.is_some() || broken(rules::TURNS_NOT_TAKEN) {
            return;
        }
        let now = self.boot_ns();
        let first = {
            let contested = self.contested();
            keys.into_iter().find_map(|key| Some((key.clone(), contested.turn_of(now, key)?)))
        };
        let Some((wanted, key)) = first else { return };
        sometimes!("a transaction waits for its turn");
        let holds_ns = TURN_NS + TURN_ROUND_TRIPS * self.shards.round_trip_ns();
        let shard = self.shards.route(&key).0;
        self.turn = self.turns.take(shard, key, holds_ns, now + PATIENCE_NS).await;
        if self.turn.as_ref().is_some_and(|turn| turn.waited) {
            self.contest([KeyRange::point(wanted)]);
        }
    }

    /// What a replica of a shard has of a part of its keys; it is to be validated that nothing else
    /// comes to stand there.
    async fn find(
        &mut self,
        shard: ShardId,
        part: &KeyRange,
        how: (bool, usize),
    ) -> Result<Chunk, Failure> {
        let (reverse, limit) = how;
        self.take_turn([&part.start]).await;
        let until = self.boot_ns() + PATIENCE_NS;
        let Some(found) =
            self.shards.read(shard, part, (reverse, limit.max(1)), self.fresh, until).await
        else {
            return Err(unavailable(&*self.shards, shard));
        };
        Ok(self.saw(shard, part, reverse, found?))
    }

    /// Notes what was found, so that it is validated.
    fn saw(&mut self, shard: ShardId, part: &KeyRange, reverse: bool, found: Found) -> Chunk {
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

    /// Reads points of one shard at once.
    async fn read_points(
        &mut self,
        shard: ShardId,
        keys: &[Key],
    ) -> Result<Vec<Option<Value>>, Failure> {
        self.check_schemas(shard).await?;
        let points: Vec<KeyRange> = keys.iter().cloned().map(KeyRange::point).collect();
        self.take_turn(keys).await;
        let until = self.boot_ns() + PATIENCE_NS;
        let asked = points
            .iter()
            .map(|point| self.shards.read(shard, point, (false, 1), self.fresh, until));
        let found = join_all(asked).await;
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

    /// Reads which versions of schemas hold in a shard of those that the transaction was planned
    /// for, once: as everything that it reads, that is validated.
    async fn check_schemas(&mut self, shard: ShardId) -> Result<(), Failure> {
        for table in self.planned.unchecked(shard) {
            let row = self
                .find(shard, &KeyRange::point(local::schema(shard.0, table)), (false, 1))
                .await?;
            self.planned.check(shard, table, row.rows.first().map(|(_, value)| value))?;
        }
        Ok(())
    }

    /// What it writes in each shard, rows of schemas included.
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

    /// A timestamp that nobody has, above another one and now.
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

    /// Proposes timestamps until all shards say yes to one, or one says no.
    async fn propose(mut self) -> Outcome {
        let mut writes = self.take_writes();
        self.take_turn(writes.values().flatten().map(|write| &write.key)).await;
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
        // What was read at the farthest replica by the time that the proposal arrives there is
        // below its timestamp, which has passed once all have answered.
        let arrives_ns = if self.turn.is_some() { self.shards.round_trip_ns() * 5 / 8 } else { 0 };
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
            let until = self.boot_ns() + PATIENCE_NS;
            let asked = participants.iter().zip(&proposals).map(|(shard, proposal)| {
                self.shards.ask(*shard, Question::Prepare(proposal.clone()), until)
            });
            let answers: Vec<Option<Common>> = join_all(asked).await;
            let votes: Vec<Option<Vote>> = answers.iter().map(vote).collect();
            let said = |vote: Vote| votes.contains(&Some(vote));
            let met = |vote: &Option<Vote>| matches!(vote, Some(Vote::Abort | Vote::Abstain));
            for (proposal, _) in proposals.iter().zip(&votes).filter(|(_, vote)| met(vote)) {
                let read = proposal.reads.iter().map(|seen| seen.range.clone());
                self.contest(
                    read.chain(
                        proposal.writes.iter().map(|write| KeyRange::point(write.key.clone())),
                    ),
                );
            }
            if votes.iter().all(|vote| *vote == Some(Vote::Ok)) {
                let by_all = answers
                    .iter()
                    .map(|answer| answer.as_ref().is_some_and(|common| common.by_all));
                let told = proposals.iter().zip(by_all);
                let told = told.map(
                    |(proposal, by_all)| if by_all { proposal.name() } else { proposal.clone() },
                );
                return self.commit_at(at, &participants, told.collect()).await;
            }
            if said(Vote::Abort) {
                return self.abort(at, &participants, Conflict::Overwritten);
            }
            let refused = votes.iter().flatten().any(|vote| *vote != Vote::Ok);
            if votes.contains(&None) {
                // A shard that has said no has said so of the last attempt.
                return match refused {
                    true => self.abort(at, &participants, Conflict::Contended),
                    false => {
                        sometimes!("nobody can say in time whether a transaction has committed");
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
                // What is prepared of it would keep others out while it rests.
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
            self.shards.tell(*shard, End::Commit(proposal));
        }
        self.turn = None; // What comes next reads what this one wrote.
        let waits =
            self.guarantee == Guarantee::StrictlySerializable && !broken(clock_rules::COMMIT_WAIT);
        if waits && !time::passes(self.shards.node(), at).await {
            return Outcome::Unknown; // Nobody is told before it is past, also not by who goes.
        }
        Outcome::Committed { at }
    }

    fn abort(&self, at: Timestamp, participants: &[ShardId], why: Conflict) -> Outcome {
        let transaction = self.transaction;
        participants
            .iter()
            .for_each(|shard| self.shards.tell(*shard, End::Abort { transaction, at }));
        Outcome::Aborted { why }
    }
}

fn vote(answer: &Option<Common>) -> Option<Vote> {
    match &answer.as_ref()?.answer {
        // Its shard does not know any more: so late nobody hears from others what they said before.
        Answer::Vote(Vote::Late) => None,
        Answer::Vote(vote) => Some(*vote),
        Answer::Stands(_) => None,
    }
}

impl<S: Shards> Transaction for Session<S> {
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
        None // What it reads is of its commit timestamp, which is drawn last.
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
        // Another transaction that has read the same, and writes nothing.
        let transaction =
            TransactionId { number: self.shards.node().new_number(), ..self.transaction };
        let (shards, proposed) = (Arc::clone(&self.shards), self.proposed.clone());
        let (seen, writes, planned) = (self.seen.clone(), Buffer::default(), Planned::default());
        let (contested, turns, turn) = (Arc::clone(&self.contested), Arc::clone(&self.turns), None);
        let same = Session {
            shards,
            proposed,
            contested,
            turns,
            turn,
            transaction,
            seen,
            writes,
            planned,
            ..*self
        };
        Box::pin(async move {
            match same.propose().await {
                Outcome::Committed { .. } => Ok(()),
                Outcome::Aborted { why } => Err(Failure::Aborted(why)),
                Outcome::Unknown => Err(Failure::Unavailable(
                    "too few replicas say whether what was read stands".into(),
                )),
            }
        })
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint);
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        if self.seen.is_empty() && self.writes.is_empty() {
            let at = Timestamp { nanos: self.began.earliest, ..Timestamp::ZERO };
            return Box::pin(std::future::ready(Outcome::Committed { at }));
        }
        Box::pin((*self).propose())
    }
}
