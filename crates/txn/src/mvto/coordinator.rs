//! A transaction that is ordered by its timestamp, at its coordinator: the session's node.
//!
//! Writes are buffered until the commit. Then each shard that is written to gets its part at once,
//! the recorder's creates the record, and after the commit wait the recorder decides: two round
//! trips. With one shard the commit is one.
//!
//! A transaction that loses because a later one has read what it writes moves: it draws a new
//! timestamp, reads everything again, and commits there if it finds the same. Each time it draws
//! further ahead, and reserves what it writes.

use super::messages::Operation;
use super::recorder::Place;
use super::rules;
use crate::buffer::rest_of;
use crate::shards::asking::{ONE_TRY_NS, PAUSE_NS, TIMEOUT_NS, ask_leader, unanswered};
use crate::shards::{ReplicaId, Request, RequestBody, RequestOutcome, Response, Shards};
use crate::{
    Age, Begin, Buffer, Conflict, Consistency, Database, Failure, Future, IsolationLevel, Lock,
    Locking, Mode, Node, Outcome, ReadAt, Rows, Savepoint, SchemaVersion, Stamps, Timings,
    Transaction, TransactionId, TxnCounters, knows_time, passes,
};
use futures::future::{Either, join_all, select, try_join_all};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, ShardId, sometimes, step};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, Write};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future as StdFuture;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The age of a timestamp, in nanoseconds, at which a transaction that commits moves to a new one:
/// shards accept no write at much older ones.
const OLD_NS: u64 = 2_500_000_000;
/// The number of times that a commit moves to a new timestamp because later transactions have read
/// what it writes.
const MOST_MOVES: u32 = 6;
/// How far ahead of the present a transaction draws its timestamp when it moves for the second
/// time, in nanoseconds; each time it is four times as far. Later transactions then find its
/// reservations.
const MOVED_AHEAD_NS: u64 = 1_000_000;
/// How far ahead an attempt draws its timestamp at most, after others have lost, in nanoseconds.
const MOST_TRIED_AHEAD_NS: u64 = 50_000_000;
/// The bits of a timestamp's logical part that set coordinators' timestamps apart from leaders',
/// and those that are drawn ahead from the others.
const OF_COORDINATOR: u32 = 1 << 31;
const AHEAD: u32 = 1 << 30;
/// The number of keys that are requested in parallel.
const ASKED_TOGETHER: usize = 64;
/// The most rows that are read at once when a read is made again.
const REREAD_ROWS: usize = 4000;
/// How far ahead a schema change draws its timestamp, in nanoseconds: at first, and at most. It
/// reaches the shards before transactions with later timestamps do.
const AHEAD_NS: u64 = 20_000_000;
const MOST_AHEAD_NS: u64 = 1_000_000_000;

/// The client of a database with timestamp ordering, on one node.
pub struct TxnClient<S> {
    shards: Arc<S>,
    stamps: Draws,
}

/// The timestamps that a node draws for a database. One that is drawn ahead of the present does not
/// move the others ahead.
#[derive(Clone, Debug, Default)]
struct Draws {
    now: Stamps,
    ahead: Stamps,
}

impl Draws {
    /// Draws a timestamp that no other transaction and no leader draws.
    fn draw(&self, node: &impl Node, now_ns: u64, least_ns: u64) -> Timestamp {
        let (stamps, bits) = match least_ns > now_ns {
            true => (&self.ahead, OF_COORDINATOR | AHEAD),
            false => (&self.now, OF_COORDINATOR),
        };
        let at = stamps.draw(node.here(), least_ns.max(now_ns));
        Timestamp { logical: at.logical | bits, ..at }
    }
}

impl<S: Shards> TxnClient<S> {
    /// Returns a client of these shards.
    pub fn new(shards: Arc<S>) -> Self {
        TxnClient { shards, stamps: Draws::default() }
    }

    async fn begin_now(&self, how: Begin) -> Result<Coordinator<S>, Failure> {
        let node = self.shards.node();
        if !knows_time(node).await {
            return Err(Failure::Unavailable(
                "this node does not know what time it is: check that the other nodes are up".into(),
            ));
        }
        let ((here, incarnation), number, now) = (node.here(), node.new_number(), node.now());
        // An attempt that has lost draws ahead of transactions that begin now, the further the
        // longer it has tried.
        let tried_ns = how.age.map_or(0, |age| now.interval.latest.saturating_sub(age.began_ns));
        let ahead_ns = (tried_ns / 8).min(MOST_TRIED_AHEAD_NS);
        let drawn = || {
            let now_ns = now.interval.latest;
            let ahead_ns = if how.mode == Mode::ReadWrite { ahead_ns } else { 0 };
            self.stamps.draw(node, now_ns, now_ns + ahead_ns)
        };
        let at = match how.mode {
            Mode::ReadOnly(ReadAt::Exact(at) | ReadAt::AtLeast(at))
                if at.nanos > now.interval.latest =>
            {
                return Err(Failure::InFuture { now: now.interval });
            }
            Mode::ReadOnly(ReadAt::Exact(at)) => at,
            Mode::ReadWrite | Mode::ReadOnly(_) => drawn(),
        };
        let age = Age { began_ns: now.interval.latest, node: here.0, number };
        Ok(Coordinator {
            shards: Arc::clone(&self.shards),
            stamps: self.stamps.clone(),
            mode: how.mode,
            transaction: TransactionId { node: here.0, incarnation: incarnation.0, number },
            age: how.age.unwrap_or(age),
            began: now.interval,
            at,
            reserved: Mutex::default(),
            lost: how.age.is_some(),
            above: Timestamp::ZERO,
            requests: AtomicU64::new(0),
            reads: Vec::new(),
            writes: Buffer::default(),
            planned: BTreeMap::new(),
            aborted: None,
            versions: false,
            timings: None,
        })
    }
}

impl<S: Shards> Database for TxnClient<S> {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn consistency(&self) -> &'static [Consistency] {
        &[Consistency::CommitWait]
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        Box::pin(async move { Ok(Box::new(self.begin_now(how).await?) as Box<dyn Transaction>) })
    }
}

/// A read that was made, to be made again at another timestamp.
struct Done {
    /// The range that the read covered, and what it found there.
    range: KeyRange,
    digest: u64,
}

struct Coordinator<S: Shards> {
    shards: Arc<S>,
    stamps: Draws,
    mode: Mode,
    transaction: TransactionId,
    age: Age,
    began: Interval,
    /// Its timestamp.
    at: Timestamp,
    /// The shards where it may have reserved keys.
    reserved: Mutex<BTreeSet<ShardId>>,
    /// True if an earlier attempt has lost a conflict: what it is about to write is reserved.
    lost: bool,
    /// Its timestamp must be above this: commits that other transactions made for it.
    above: Timestamp,
    requests: AtomicU64,
    /// The reads of a transaction that may write.
    reads: Vec<Done>,
    writes: Buffer,
    planned: BTreeMap<u32, u64>,
    aborted: Option<Conflict>,
    versions: bool,
    timings: Option<Arc<Timings>>,
}

/// The part of a commit in one shard.
#[derive(Clone, Default)]
struct Share {
    writes: Vec<Write>,
    schemas: Vec<(SchemaVersion, KeyRange)>,
}

type Shares = BTreeMap<ShardId, Share>;

/// A digest of rows, which are added in the order of their keys.
#[derive(Default)]
struct Digest(DefaultHasher);

impl Digest {
    fn add<'a>(&mut self, rows: impl Iterator<Item = &'a (Key, Value)>) {
        for (key, value) in rows {
            key[..].hash(&mut self.0);
            value[..].hash(&mut self.0);
        }
    }
}

impl<S: Shards> Coordinator<S> {
    fn request(&self, operation: Operation) -> Request {
        let id = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let body = RequestBody::Ordered { at: self.at, operation };
        let planned = self.planned.iter();
        let planned = planned
            .map(|(table, version)| SchemaVersion { table: *table, version: *version })
            .collect();
        Request { planned, ..Request::plain(self.transaction, self.age, id, body) }
    }

    fn count(&self, count: impl FnOnce(&TxnCounters)) {
        if let Some(counters) = self.shards.counters() {
            count(counters);
        }
    }

    /// Ends what it has reserved, unless a write has replaced it.
    fn release(&self) {
        for shard in std::mem::take(&mut *self.reserved.lock()) {
            self.give_up_in(shard);
        }
    }

    /// Tells a shard that nothing is waited for or reserved there any more.
    fn give_up_in(&self, shard: ShardId) {
        self.tell(shard, RequestBody::Abort);
    }

    /// Sends a request that has no answer.
    fn tell(&self, shard: ShardId, body: RequestBody) {
        let id = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let request = Request::plain(self.transaction, self.age, id, body);
        let replica = ReplicaId { shard, node: self.shards.map().leader(shard) };
        self.shards.send(replica, request);
    }

    fn end(&mut self, why: Conflict) -> Failure {
        self.release();
        self.count(|counters| counters.aborted(&why));
        self.aborted = Some(why.clone());
        Failure::Aborted(why)
    }

    fn boot_ns(&self) -> u64 {
        self.shards.node().boot_ns()
    }

    async fn pause(&self) {
        self.shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
    }

    fn note_read_wait(&self, waited_ns: Option<u64>) {
        let waited_ns = waited_ns.unwrap_or(0);
        self.count(|counters| counters.read_waited(waited_ns));
        if let Some(timings) = &self.timings {
            timings.note(|times| times.read_wait_ns += waited_ns);
        }
    }

    // ------------------------------------------------------------------------
    // reads

    /// Reads a chunk of committed rows at the transaction's timestamp. The result's `rest` covers
    /// the other shards' parts.
    async fn read(
        &self,
        range: &KeyRange,
        reverse: bool,
        limit_rows: usize,
        reserves: bool,
    ) -> Result<Rows, Failure> {
        let (shards, limit) = (&*self.shards, limit_rows.max(1));
        let until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let (shard, bounds) = match reverse {
                true => shards.map().route_below(range.end.as_ref()),
                false => shards.map().route(&range.start),
            };
            let part = range.common(&bounds);
            if reserves {
                self.reserved.lock().insert(shard);
            }
            let ask = || {
                self.request(Operation::Read {
                    range: part.clone(),
                    reverse,
                    limit_rows: u32::try_from(limit).unwrap_or(u32::MAX),
                    versions: self.versions,
                    reserves,
                })
            };
            let waiting = Waiting { coordinator: self, shard, answered: false };
            let heard = ask_leader(shards, shard, ask).await;
            waiting.end();
            let Some((_, heard)) = heard else { return Err(unanswered(shards, shard)) };
            let whole =
                |rows, at, rest| Rows { rows, at, rest: rest_of(range, &bounds, rest, reverse) };
            match heard {
                RequestOutcome::Response(Response::Rows {
                    rows,
                    rest,
                    committed_at,
                    waited_ns,
                    ..
                }) => {
                    self.note_read_wait(waited_ns);
                    return Ok(whole(rows, committed_at.into_iter().map(Some).collect(), rest));
                }
                RequestOutcome::Read { at, waited_ns, .. } => {
                    match shards.scan(shard, &part, at, reverse, limit) {
                        Ok(found) => {
                            self.note_read_wait(waited_ns);
                            let at = if self.versions { found.at } else { Vec::new() };
                            let at = at.into_iter().map(Some).collect();
                            return Ok(whole(found.rows, at, found.rest));
                        }
                        // The shard was split, or its member here has been replaced.
                        Err(StoreError::Elsewhere) => {}
                        Err(StoreError::BelowHorizon { oldest }) => {
                            return Err(Failure::BelowHorizon { oldest });
                        }
                        Err(other) => return Err(Failure::Storage(other.to_string())),
                    }
                }
                RequestOutcome::Response(Response::Moved { to, .. }) => {
                    sometimes!("a shard is asked for keys that it has no more");
                    if let Some((from, other)) = to {
                        shards.map().learn_route(&part.start, from, other);
                    }
                }
                RequestOutcome::Response(Response::Aborted { why, .. }) => {
                    return Err(Failure::Aborted(why));
                }
                RequestOutcome::Response(Response::BelowHorizon { oldest, .. }) => {
                    return Err(Failure::BelowHorizon { oldest });
                }
                RequestOutcome::Response(Response::Refused { why, .. }) => {
                    return Err(Failure::Refused(why));
                }
                RequestOutcome::Response(Response::Broken { what, .. }) => {
                    return Err(Failure::Storage(what));
                }
                _ => {}
            }
            if self.boot_ns() >= until {
                return Err(unanswered(shards, shard));
            }
            self.pause().await;
        }
    }

    /// Reads a chunk, and notes the read and the time that it took.
    async fn read_and_note(
        &mut self,
        range: &KeyRange,
        (reverse, limit_rows): (bool, usize),
        lock: Lock,
    ) -> Result<Rows, Failure> {
        self.check().await?;
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let reserves = self.lost && lock == Lock::Exclusive && self.mode == Mode::ReadWrite;
        let found = self.read(range, reverse, limit_rows, reserves).await;
        if let Some(timings) = timings {
            timings.note(|times| {
                times.reads += 1;
                times.reading_ns += timings.elapsed_ns() - began_ns;
            });
        }
        match found {
            Ok(found) => {
                self.note(range, reverse, &found);
                Ok(found)
            }
            Err(Failure::Aborted(why)) => Err(self.end(why)),
            Err(other) => Err(other),
        }
    }

    fn note(&mut self, range: &KeyRange, reverse: bool, found: &Rows) {
        if self.mode != Mode::ReadWrite {
            return;
        }
        let covered = match &found.rest {
            None => range.clone(),
            Some(rest) if reverse => {
                KeyRange { start: rest.end.clone().unwrap_or_default(), end: range.end.clone() }
            }
            Some(rest) => KeyRange { start: range.start.clone(), end: Some(rest.start.clone()) },
        };
        let known = self.reads.iter().rev().take(ASKED_TOGETHER);
        if known.into_iter().any(|done| done.range == covered) {
            return; // A transaction reads the same each time.
        }
        let mut digest = Digest::default();
        match reverse {
            true => digest.add(found.rows.iter().rev()),
            false => digest.add(found.rows.iter()),
        }
        self.reads.push(Done { range: covered, digest: digest.0.finish() });
    }

    /// Fails if the transaction has ended. Moves its timestamp if it has to.
    async fn check(&mut self) -> Result<(), Failure> {
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        if self.above >= self.at && self.mode == Mode::ReadWrite {
            sometimes!("a transaction moves above commits that were made for it");
            self.move_to(self.above.nanos + 1, &[]).await?;
        }
        Ok(())
    }

    /// Draws a new timestamp, at or above `least_ns` if that lies ahead, and makes all reads again
    /// at it: then the transaction is one that has begun now. Fails if a read shows something else.
    async fn move_to(&mut self, least_ns: u64, writes: &[Write]) -> Result<(), Failure> {
        // Unless all reads have been made again, it must not go on.
        self.aborted = Some(Conflict::Overwritten);
        let now_ns = self.shards.node().now().interval.latest;
        self.at = self.stamps.draw(self.shards.node(), now_ns, least_ns);
        let written: BTreeSet<&Key> = writes.iter().map(|write| &write.key).collect();
        for reads in self.reads.chunks(ASKED_TOGETHER) {
            let again = |done: &Done| {
                // What it writes next.
                let reserves = done.range.as_point().is_some_and(|key| written.contains(key));
                let (this, range) = (&*self, done.range.clone());
                async move { this.digest_of(range, reserves).await }
            };
            let found = try_join_all(reads.iter().map(again)).await?;
            if found.iter().zip(reads).any(|(digest, done)| *digest != done.digest) {
                sometimes!("a transaction cannot move: its reads would show something else");
                return Err(self.end(Conflict::Overwritten));
            }
        }
        self.aborted = None;
        Ok(())
    }

    /// Reads a whole range, and returns the digest of what is there.
    async fn digest_of(&self, range: KeyRange, reserves: bool) -> Result<u64, Failure> {
        let (mut digest, mut rest) = (Digest::default(), Some(range));
        while let Some(range) = rest {
            let found = self.read(&range, false, REREAD_ROWS, reserves).await?;
            digest.add(found.rows.iter());
            rest = found.rest;
        }
        Ok(digest.0.finish())
    }

    // ------------------------------------------------------------------------
    // commit

    /// Returns the writes and schema changes of each shard, as far as this node knows the shards.
    fn shares(&self, schemas: &[(SchemaVersion, Vec<KeyRange>)], writes: &[Write]) -> Shares {
        let (map, mut shares) = (self.shards.map(), Shares::new());
        for write in writes {
            shares.entry(map.route(&write.key).0).or_default().writes.push(write.clone());
        }
        for (schema, ranges) in schemas {
            for range in ranges {
                let mut rest = Some(range.clone()).filter(|range| !range.is_empty());
                while let Some(range) = rest {
                    let (shard, bounds) = map.route(&range.start);
                    let part = (*schema, range.common(&bounds));
                    shares.entry(shard).or_default().schemas.push(part);
                    let beyond = bounds.end.clone().filter(|_| !bounds.reaches(&range));
                    rest = beyond.map(|start| KeyRange { start, end: range.end.clone() });
                }
            }
        }
        shares
    }

    async fn decide(mut self: Box<Self>) -> Outcome {
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let mut waited_ns = 0;
        let outcome = self.commit_writes(&mut waited_ns).await;
        self.count(|counters| match &outcome {
            Outcome::Committed { .. } => counters.committed(waited_ns),
            Outcome::Unknown => counters.outcome_unknown(),
            Outcome::Aborted { why } if self.aborted.is_none() => counters.aborted(why),
            Outcome::Aborted { .. } => {}
        });
        if let Some(timings) = timings {
            timings.note(|times| {
                times.commit_ns = timings.elapsed_ns() - began_ns;
                times.commit_wait_ns = waited_ns;
                times.replication_ns = times.commit_ns.saturating_sub(waited_ns);
            });
        }
        outcome
    }

    async fn commit_writes(&mut self, waited_ns: &mut u64) -> Outcome {
        let aborted = |failure| match failure {
            Failure::Aborted(why) => Outcome::Aborted { why },
            // Nothing was written anywhere.
            _ => Outcome::Aborted { why: Conflict::LeaderChanged },
        };
        while self.shards.is_crowded() && !self.shards.node().is_closed() {
            self.pause().await;
        }
        if let Err(failure) = self.check().await {
            return aborted(failure);
        }
        let (schemas, writes) = (self.writes.take_schemas(), self.writes.take());
        let (mut ahead_ns, mut moves) = (if schemas.is_empty() { 0 } else { AHEAD_NS }, 0);
        loop {
            let now = self.shards.node().now().interval.latest;
            let old = now.saturating_sub(self.at.nanos) > OLD_NS;
            if (old || ahead_ns > 0 || moves > 0)
                && let Err(failure) = self.move_to(now + ahead_ns, &writes).await
            {
                return aborted(failure);
            }
            let outcome = self.try_to_commit(self.shares(&schemas, &writes), waited_ns).await;
            let met = matches!(outcome, Outcome::Aborted { why: Conflict::ReadLater { .. } });
            if !met || moves == MOST_MOVES {
                return outcome;
            }
            // A later transaction has read what this one writes. If what this one has read is still
            // there, it is as good as one that begins now: with another timestamp and another
            // number (Trap A.1-B10).
            sometimes!("a transaction moves because a later one has read what it writes");
            moves += 1;
            // Ahead of transactions that read there meanwhile.
            let least_ns = if moves > 1 { MOVED_AHEAD_NS } else { 0 };
            ahead_ns = (4 * ahead_ns).clamp(least_ns, MOST_AHEAD_NS);
            self.release();
            self.transaction.number = self.shards.node().new_number();
        }
    }

    async fn try_to_commit(&self, mut shares: Shares, waited_ns: &mut u64) -> Outcome {
        if shares.len() == 1 {
            let (shard, share) = shares.pop_first().expect("there is one");
            step!("session: asks one shard to commit");
            return self.commit_alone(shard, share, waited_ns).await;
        }
        sometimes!("a transaction writes in several shards");
        let map = self.shards.map();
        let here = self.shards.node().here().0;
        let led_here = shares.keys().find(|shard| map.leader(**shard) == here);
        let Some(shard) = led_here.or_else(|| shares.keys().next()).copied() else {
            return Outcome::Committed { at: self.at };
        };
        let recorder = ReplicaId { shard, node: map.leader(shard) };
        step!("session: writes intents");
        let others = shares.keys().copied().filter(|other| *other != shard).collect::<Vec<_>>();
        let intended = Intended { coordinator: self, recorder: shard, others, asked: false };
        let write = |(shard, share)| self.write(shard, share, recorder);
        let written = match broken(rules::INTENTS_NOT_AWAITED) {
            false => self.alive(shard, try_join_all(shares.into_iter().map(write))).await,
            true => {
                let mut first = shares.into_iter().map(write);
                let first = first.by_ref().next().expect("there are several");
                first.await.map(|place| vec![place])
            }
        };
        let places = match written {
            Ok(places) => places.into_iter().filter(|place| place.shard != shard).collect(),
            Err(why) => return Outcome::Aborted { why },
        };
        let passed = self.alive(shard, self.timestamp_passes()).await;
        let Some(waited) = passed else { return Outcome::Aborted { why: Conflict::Expired } };
        *waited_ns += waited;
        // From here on the recorder decides.
        intended.end();
        step!("session: asks the recorder to commit");
        self.commit_at(shard, places).await
    }

    /// Runs something, and tells the recorder every second that the transaction is alive.
    async fn alive<T>(&self, recorder: ShardId, work: impl StdFuture<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let tick = pin!(self.shards.node().sleep_until(self.boot_ns() + ONE_TRY_NS));
            match select(work, tick).await {
                Either::Left((done, _)) => return done,
                Either::Right(((), again)) => {
                    self.tell(recorder, RequestBody::KeepAlive);
                    work = again;
                }
            }
        }
    }

    /// Waits until the timestamp has surely passed. Returns the time that it waited, or `None` if
    /// the node closes before.
    async fn timestamp_passes(&self) -> Option<u64> {
        let began_ns = self.boot_ns();
        if broken(rules::COMMIT_WAIT) {
            return Some(0);
        }
        passes(self.shards.node(), self.at).await.then(|| self.boot_ns() - began_ns)
    }

    /// Writes intents in a shard.
    async fn write(
        &self,
        shard: ShardId,
        share: Share,
        recorder: ReplicaId,
    ) -> Result<Place, Conflict> {
        let ask = || {
            let Share { writes, schemas } = share.clone();
            self.request(Operation::Write { writes, schemas, recorder })
        };
        let until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let heard = ask_leader(&*self.shards, shard, ask).await;
            match heard.map(|(_, heard)| heard) {
                Some(RequestOutcome::Response(Response::Written { term, .. })) => {
                    return Ok(Place { shard, term });
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => return Err(why),
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    self.learn(to);
                    return Err(Conflict::Moved);
                }
                None | Some(RequestOutcome::Response(Response::Refused { .. })) => {
                    return Err(Conflict::LeaderChanged);
                }
                Some(_) if self.boot_ns() >= until => return Err(Conflict::LeaderChanged),
                Some(_) => self.pause().await,
            }
        }
    }

    fn learn(&self, to: Option<(Key, ShardId)>) {
        if let Some((from, other)) = to {
            self.shards.map().learn_route(&from, from.clone(), other);
        }
    }

    /// Asks the recorder to decide, until it answers.
    async fn commit_at(&self, shard: ShardId, places: Vec<Place>) -> Outcome {
        let ask = || self.request(Operation::Commit { places: places.clone() });
        let until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let heard = ask_leader(&*self.shards, shard, ask).await;
            match heard.map(|(_, heard)| heard) {
                Some(RequestOutcome::Response(Response::Committed { at, .. })) => {
                    return Outcome::Committed { at };
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => {
                    return Outcome::Aborted { why };
                }
                None => return Outcome::Unknown,
                Some(_) if self.boot_ns() >= until => return Outcome::Unknown,
                Some(_) => self.pause().await,
            }
        }
    }

    /// Commits in one shard. Only the first request is executed; every other one asks what became
    /// of it.
    async fn commit_alone(&self, shard: ShardId, share: Share, waited_ns: &mut u64) -> Outcome {
        let shards = &*self.shards;
        let (mut until, mut again) = (self.boot_ns() + TIMEOUT_NS, false);
        loop {
            let now = self.boot_ns();
            if now >= until || shards.node().is_closed() {
                return match again {
                    true => Outcome::Unknown,
                    false => Outcome::Aborted { why: Conflict::LeaderChanged },
                };
            }
            let replica = ReplicaId { shard, node: shards.map().leader(shard) };
            let Share { writes, schemas } = share.clone();
            let request = self.request(Operation::CommitAlone { writes, schemas, again });
            let heard = match shards.node().reaches(replica.node) {
                true => {
                    // From here on a copy of it may be received at any time.
                    again = true;
                    shards.request(replica, request, now + ONE_TRY_NS).await
                }
                false => None,
            };
            match heard {
                Some(RequestOutcome::Response(Response::Committed { at, spent, .. })) => {
                    *waited_ns += spent.commit_wait_ns;
                    return Outcome::Committed { at };
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => {
                    return Outcome::Aborted { why };
                }
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    self.learn(to);
                    return Outcome::Aborted { why: Conflict::Moved };
                }
                Some(RequestOutcome::Waits) => {
                    until = self.boot_ns() + TIMEOUT_NS;
                    continue;
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                    shards.map().redirect(replica, leader.map(NodeId));
                }
                Some(_) => {}
                None => shards.map().redirect(replica, None),
            }
            self.pause().await;
        }
    }
}

/// A read that waits for its answer. If it is dropped before, because the statement was cancelled,
/// the leader is told: it need not wait for older transactions any longer.
struct Waiting<'a, S: Shards> {
    coordinator: &'a Coordinator<S>,
    shard: ShardId,
    answered: bool,
}

impl<S: Shards> Waiting<'_, S> {
    fn end(mut self) {
        self.answered = true;
    }
}

impl<S: Shards> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        if !self.answered {
            self.coordinator.give_up_in(self.shard);
        }
    }
}

/// Intents whose transaction is not to be committed unless that is asked for. If it is dropped
/// before, the recorder is told: later readers need not wait until it takes the transaction for
/// dead.
struct Intended<'a, S: Shards> {
    coordinator: &'a Coordinator<S>,
    recorder: ShardId,
    others: Vec<ShardId>,
    /// True once the recorder is asked to commit.
    asked: bool,
}

impl<S: Shards> Intended<'_, S> {
    fn end(mut self) {
        self.asked = true;
    }
}

impl<S: Shards> Drop for Intended<'_, S> {
    fn drop(&mut self) {
        if self.asked {
            return;
        }
        let Intended { coordinator, recorder, others, .. } = self;
        let places = others.iter().map(|shard| Place { shard: *shard, term: 0 }).collect();
        let node = coordinator.shards.map().leader(*recorder);
        let replica = ReplicaId { shard: *recorder, node };
        coordinator.shards.send(replica, coordinator.request(Operation::Abort { places }));
    }
}

impl<S: Shards> Drop for Coordinator<S> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<S: Shards> Transaction for Coordinator<S> {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn age(&self) -> Age {
        self.age
    }

    fn began(&self) -> Interval {
        self.began
    }

    fn read_at(&self) -> Option<Timestamp> {
        Some(self.at)
    }

    fn get<'a>(
        &'a mut self,
        key: &'a Key,
        lock: Lock,
    ) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            let found = self.read_and_note(&KeyRange::point(key.clone()), (false, 1), lock).await?;
            Ok(found.rows.into_iter().next().map(|(_, value)| value))
        })
    }

    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        lock: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(keys.len());
            for keys in keys.chunks(ASKED_TOGETHER) {
                self.check().await?;
                let began_ns = self.timings.as_ref().map(|timings| timings.elapsed_ns());
                let reserves = self.lost && lock == Lock::Exclusive && self.mode == Mode::ReadWrite;
                let read = |key: &Key| {
                    let (this, own) = (&*self, self.writes.get(key).cloned());
                    let range = KeyRange::point(key.clone());
                    async move {
                        match own {
                            Some(own) => Ok((own, None)),
                            None => {
                                let rows = this.read(&range, false, 1, reserves).await?;
                                let value = rows.rows.first().map(|(_, value)| value.clone());
                                Ok::<_, Failure>((value, Some((range, rows))))
                            }
                        }
                    }
                };
                let answers = join_all(keys.iter().map(read)).await;
                if let (Some(timings), Some(began_ns)) = (&self.timings, began_ns) {
                    timings.note(|times| {
                        times.reads += keys.len() as u64;
                        times.reading_ns += timings.elapsed_ns() - began_ns;
                    });
                }
                for answer in answers {
                    match answer {
                        Ok((value, read)) => {
                            found.push(value);
                            if let Some((range, rows)) = read {
                                self.note(&range, false, &rows);
                            }
                        }
                        Err(Failure::Aborted(why)) => return Err(self.end(why)),
                        Err(other) => return Err(other),
                    }
                }
            }
            Ok(found)
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        lock: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(async move {
            let found = self.read_and_note(range, (reverse, limit_rows), lock).await?;
            Ok(self.writes.over(range, found, reverse, limit_rows.max(1)))
        })
    }

    fn adopt(&mut self, commit: Timestamp) {
        self.above = self.above.max(commit);
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if self.mode != Mode::ReadWrite {
            return Err(Failure::ReadOnly);
        }
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        if self.shards.node().is_full() {
            return Err(Failure::DiskFull);
        }
        self.writes.put(key, value)
    }

    fn set_locking(&mut self, how: Locking) -> bool {
        how == Locking::Wait
    }

    fn measure(&mut self) -> Option<Arc<Timings>> {
        let shards = Arc::clone(&self.shards);
        let fresh = || Arc::new(Timings::new(move || shards.node().now().boot_ns));
        Some(Arc::clone(self.timings.get_or_insert_with(fresh)))
    }

    fn show_versions(&mut self) {
        self.versions = true;
    }

    fn planned_for(&mut self, SchemaVersion { table, version }: SchemaVersion) {
        let known = self.planned.entry(table).or_insert(version);
        *known = version.min(*known);
    }

    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure> {
        if self.mode != Mode::ReadWrite {
            return Err(Failure::ReadOnly);
        }
        self.writes.change_schema(to, ranges);
        Ok(())
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint);
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        if let Some(why) = self.aborted.clone() {
            return Box::pin(std::future::ready(Outcome::Aborted { why }));
        }
        if self.mode != Mode::ReadWrite || self.writes.is_empty() {
            // Everything that it has read has surely passed, and nothing more appears there.
            return Box::pin(std::future::ready(Outcome::Committed { at: self.at }));
        }
        Box::pin(self.decide())
    }
}
