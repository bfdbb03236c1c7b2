//! A transaction that is ordered by its timestamp, at its coordinator: the session's node.
//!
//! Writes are sent as intents, to all shards at once; the recorder's creates the record, and after
//! the commit wait the recorder decides. They are sent after each statement of a transaction that
//! goes on ([`Transaction::send_writes`], K2 §5.3), so that the commit is one round trip; or all of
//! them at the commit, which is then two. What is written in one shard, and not sent before, is
//! committed there in one.
//!
//! A transaction that loses because a later one has read what it writes, or because its intents are
//! gone, moves: it draws a new timestamp, reads everything again, and goes on there if it finds the
//! same. Each time it draws further ahead, and reserves what it writes.
//!
//! | file | question |
//! |---|---|
//! | `timestamps` | which timestamp does a transaction draw? |
//! | `reading` | how does it read, and read again at another timestamp? |
//! | `writing` | which intents are where? |
//! | `committing` | how does it commit, and move where it must not write? |

mod committing;
mod reading;
mod timestamps;
mod writing;

use super::messages::Operation;
use crate::shards::asking::PAUSE_NS;
use crate::shards::{ReplicaId, Request, RequestBody, Shards};
use crate::{
    Age, Begin, Buffer, Conflict, Consistency, Database, Failure, Future, IsolationLevel, Lock,
    Locking, Mode, Node, Outcome, PlannedVersions, ReadAt, Rows, Savepoint, SchemaVersion, Timings,
    Transaction, TransactionId, TxnCounters, knows_time,
};
use futures::future::join_all;
use meridian_clock::{Interval, Timestamp};
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Value};
use parking_lot::Mutex;
use reading::Done;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use timestamps::{Drawn, Draws};
use writing::Intended;

/// The number of keys that are requested in parallel.
const ASKED_TOGETHER: usize = 64;

/// The client of a database with timestamp ordering, on one node.
pub struct TxnClient<S> {
    shards: Arc<S>,
    stamps: Draws,
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
        let tried_ns = how.age.map_or(0, |age| now.interval.latest.saturating_sub(age.began_ns));
        let age = Age { began_ns: now.interval.latest, node: here.0, number };
        let age = how.age.unwrap_or(age);
        let transaction = TransactionId { node: here.0, incarnation: incarnation.0, number };
        let requests: Arc<AtomicU64> = Arc::default();
        let ask = |within_ns: u64| {
            let id = requests.fetch_add(1, Ordering::Relaxed) + 1;
            Request::plain(transaction, age, id, RequestBody::Time { within_ns })
        };
        let drawn = match how.mode {
            Mode::ReadOnly(ReadAt::Exact(at) | ReadAt::AtLeast(at))
                if at.nanos > now.interval.latest =>
            {
                return Err(Failure::InFuture { now: now.interval });
            }
            Mode::ReadOnly(ReadAt::Exact(at)) => Drawn::by_clock(at),
            Mode::ReadOnly(_) => self.stamps.draw_to_begin(&*self.shards, 0, ask).await,
            Mode::ReadWrite => self.stamps.draw_to_begin(&*self.shards, tried_ns, ask).await,
        };
        Ok(Coordinator {
            shards: Arc::clone(&self.shards),
            stamps: self.stamps.clone(),
            mode: how.mode,
            transaction,
            age,
            began: now.interval,
            at: drawn.at,
            passed_ns: drawn.passed_ns,
            timestamp_ns: drawn.waited_ns,
            reserved: Mutex::default(),
            lost: how.age.is_some(),
            above: Timestamp::ZERO,
            moves: 0,
            ahead_ns: 0,
            requests,
            reads: Vec::new(),
            writes: Buffer::default(),
            unsent: BTreeSet::new(),
            intended: Intended::default(),
            planned: PlannedVersions::default(),
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

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        Box::pin(crate::node::sleep(self.shards.node(), time))
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        Box::pin(async move { Ok(Box::new(self.begin_now(how).await?) as Box<dyn Transaction>) })
    }
}

struct Coordinator<S: Shards> {
    shards: Arc<S>,
    stamps: Draws,
    mode: Mode,
    transaction: TransactionId,
    age: Age,
    began: Interval,
    /// Its timestamp, and when that has surely passed by the boot clock, if an oracle said so.
    at: Timestamp,
    passed_ns: Option<u64>,
    /// The time that it waited for the timestamp.
    timestamp_ns: u64,
    /// The shards where it may have reserved keys.
    reserved: Mutex<BTreeSet<ShardId>>,
    /// True if an earlier attempt has lost a conflict: what it is about to write is reserved.
    lost: bool,
    /// Its timestamp must be above this: commits that other transactions made for it.
    above: Timestamp,
    /// How often it has moved because it has lost, and how far ahead of the present it draws next.
    moves: u32,
    ahead_ns: u64,
    requests: Arc<AtomicU64>,
    /// The reads of a transaction that may write.
    reads: Vec<Done>,
    writes: Buffer,
    /// The keys that have changed in `writes` since they were last sent.
    unsent: BTreeSet<Key>,
    intended: Intended,
    planned: PlannedVersions,
    aborted: Option<Conflict>,
    versions: bool,
    timings: Option<Arc<Timings>>,
}

impl<S: Shards> Coordinator<S> {
    fn request(&self, operation: Operation) -> Request {
        self.asker().request(operation)
    }

    fn request_of(&self, body: RequestBody) -> Request {
        let id = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        Request::plain(self.transaction, self.age, id, body)
    }

    fn count(&self, count: impl FnOnce(&TxnCounters)) {
        if let Some(counters) = self.shards.counters() {
            count(counters);
        }
    }

    /// Ends what it has reserved and written in shards.
    fn release(&mut self) {
        self.give_up_intents();
        for shard in std::mem::take(&mut *self.reserved.lock()) {
            self.give_up_in(shard);
        }
    }

    /// Ends what waits or is reserved for the transaction in a shard.
    fn give_up_in(&self, shard: ShardId) {
        self.send_to_leader(shard, self.request_of(RequestBody::Abort));
    }

    /// Sends a request that has no answer to the leader of a shard.
    fn send_to_leader(&self, shard: ShardId, request: Request) {
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
                let answers = self.alive(join_all(keys.iter().map(read))).await;
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
        self.writes.put(key.clone(), value)?;
        self.unsent.insert(key);
        Ok(())
    }

    fn send_writes(&mut self) -> Future<'_, ()> {
        Box::pin(async move {
            // A schema change draws another timestamp when it commits.
            let sends = self.writes.schemas().is_empty() && !self.unsent.is_empty();
            if sends && self.aborted.is_none() {
                self.send_ahead().await;
            }
        })
    }

    fn set_locking(&mut self, how: Locking) -> bool {
        how == Locking::Wait
    }

    fn measure(&mut self) -> Option<Arc<Timings>> {
        let (shards, timestamp_ns) = (Arc::clone(&self.shards), self.timestamp_ns);
        let fresh = || {
            let timings = Timings::new(move || shards.node().now().boot_ns);
            timings.note(|times| times.timestamp_ns = timestamp_ns);
            Arc::new(timings)
        };
        Some(Arc::clone(self.timings.get_or_insert_with(fresh)))
    }

    fn show_versions(&mut self) {
        self.versions = true;
    }

    fn planned_for(&mut self, schema: SchemaVersion) {
        self.planned.plan(schema);
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
        self.unsent.extend(self.writes.rollback_to(savepoint));
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
