//! Transactions as a session sees them, over the shard's machine on this node.
//!
//! A session steps the machine on its own thread: a lock that is free costs no wake and no other thread. A read-only transaction
//! reads at the shard's slot and asks nobody. Writes are buffered here, merged into the transaction's own reads and scans, and
//! sent with the commit.
//!
//! Invariant: once a transaction was told that it is aborted, it asks for nothing any more: its locks are gone, and what
//! it read may have changed.

use crate::rendezvous::{Answer, rendezvous};
use crate::resident::Input;
use crate::shard::Shard;
use meridian_clock::{Interval, Timestamp};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, Write};
use meridian_txn::{
    Age, Begin, Conflict, Database, Failure, Future, Lock, Mode, Outcome, ReadAt, Rows, Savepoint, Transaction,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const WRITES_LIMIT_BYTES: u64 = 256 << 20;
const CHUNK_BYTES: usize = 1 << 20;

/// A database of this node.
pub struct Gateway {
    shard: Arc<Shard>,
    node: u32,
    next: AtomicU64,
}

impl Gateway {
    /// The door to a shard.
    pub fn new(shard: Arc<Shard>, node: u32) -> Self {
        Gateway { shard, node, next: AtomicU64::new(1) }
    }

    /// The shard behind it.
    pub fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }
}

impl Database for Gateway {
    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        Box::pin(async move {
            let home = self.shard.world();
            let began = home.plumbing().clock.now().interval;
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let age = how.age.unwrap_or(Age { began_ns: began.latest, node: self.node, number });
            let read_at = match how.mode {
                Mode::ReadWrite => None,
                Mode::ReadOnly(ReadAt::Now) => Some(home.through()),
                Mode::ReadOnly(ReadAt::Exact(at)) => {
                    if at > home.through() {
                        let (answerer, answer) = rendezvous();
                        self.shard.post(Input::Call(Box::new(move |solo, now, out| {
                            solo.snapshot(now, at, answerer, out);
                        })));
                        answer.await.unwrap_or_else(|| Err(gone()))?;
                    }
                    Some(at)
                }
            };
            let transaction = Session {
                shard: Arc::clone(&self.shard),
                number,
                mode: how.mode,
                age,
                began,
                read_at,
                writes: BTreeMap::new(),
                undo: Vec::new(),
                bytes: 0,
                aborted: None,
                touched: false,
            };
            Ok(Box::new(transaction) as Box<dyn Transaction>)
        })
    }
}

fn gone() -> Failure {
    Failure::Unavailable("this node is shutting down: begin again once it is back".into())
}

fn of_store(error: StoreError) -> Failure {
    match error {
        StoreError::BelowHorizon { oldest } => Failure::BelowHorizon { oldest },
        other => Failure::Storage(other.to_string()),
    }
}

struct Session {
    shard: Arc<Shard>,
    number: u64,
    mode: Mode,
    age: Age,
    began: Interval,
    read_at: Option<Timestamp>,
    writes: BTreeMap<Key, Option<Value>>,
    /// What each write replaced, for savepoints.
    undo: Vec<(Key, Option<Option<Value>>)>,
    bytes: u64,
    aborted: Option<Conflict>,
    /// The machine may know of this transaction.
    touched: bool,
}

impl Session {
    async fn lock(&mut self, range: KeyRange, lock: Lock) -> Result<(), Failure> {
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        self.touched = true;
        let (answerer, answer): (_, Answer<Result<(), Failure>>) = rendezvous();
        let (number, age) = (self.number, self.age);
        self.shard.post(Input::Call(Box::new(move |solo, now, out| {
            solo.acquire(now, number, age, range, lock, answerer, out);
        })));
        let granted = answer.await.unwrap_or_else(|| Err(gone()));
        if let Err(Failure::Aborted(why)) = &granted {
            self.aborted = Some(why.clone());
        }
        granted
    }

    fn at(&self) -> Timestamp {
        self.read_at.unwrap_or(Timestamp::MAX)
    }

    /// Lays the transaction's own writes over a chunk of stored rows that is complete for `covered`.
    fn merge(&self, covered: &KeyRange, reverse: bool, stored: Vec<(Key, Value)>) -> Vec<(Key, Value)> {
        if covered.is_empty() {
            return stored;
        }
        let end = covered.end.as_ref().map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut own = self.writes.range::<Key, _>((std::ops::Bound::Included(&covered.start), end)).peekable();
        if own.peek().is_none() {
            return stored;
        }
        let mut rows: BTreeMap<Key, Value> = stored.into_iter().collect();
        for (key, value) in own {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        if reverse { rows.into_iter().rev().collect() } else { rows.into_iter().collect() }
    }
}

impl Transaction for Session {
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
        self.read_at
    }

    fn get<'a>(&'a mut self, key: &'a Key, lock: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            if self.read_at.is_none() {
                self.lock(KeyRange::point(key.clone()), lock).await?;
                if let Some(own) = self.writes.get(key) {
                    return Ok(own.clone());
                }
            }
            let found = self.shard.world().space().get(key, self.at()).map_err(of_store)?;
            Ok(found.and_then(|version| version.value))
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
            if self.read_at.is_none() {
                self.lock(range.clone(), lock).await?;
            }
            let space = self.shard.world().space();
            let chunk = space.scan(range, self.at(), reverse, limit_rows.max(1), CHUNK_BYTES).map_err(of_store)?;
            if self.writes.is_empty() {
                return Ok(Rows { rows: chunk.rows, rest: chunk.rest });
            }
            let covered = match &chunk.rest {
                None => range.clone(),
                Some(rest) if reverse => {
                    KeyRange { start: rest.end.clone().unwrap_or_default(), end: range.end.clone() }
                }
                Some(rest) => KeyRange { start: range.start.clone(), end: Some(rest.start.clone()) },
            };
            let mut rows = self.merge(&covered, reverse, chunk.rows);
            let mut rest = chunk.rest;
            if rows.len() > limit_rows.max(1) {
                rows.truncate(limit_rows.max(1));
                let last = rows.last().map(|(key, _)| key.clone()).unwrap_or_default();
                rest = Some(if reverse {
                    KeyRange { start: range.start.clone(), end: Some(last) }
                } else {
                    KeyRange { start: last.successor(), end: range.end.clone() }
                });
            }
            Ok(Rows { rows, rest })
        })
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if self.read_at.is_some() {
            return Err(Failure::ReadOnly);
        }
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        if self.shard.world().plumbing().journal.is_full() {
            return Err(Failure::DiskFull);
        }
        self.bytes += (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64;
        if self.bytes > WRITES_LIMIT_BYTES {
            return Err(Failure::TooLarge { limit_bytes: WRITES_LIMIT_BYTES });
        }
        let before = self.writes.insert(key.clone(), value);
        self.undo.push((key, before));
        Ok(())
    }

    fn savepoint(&mut self) -> Savepoint {
        Savepoint(self.undo.len())
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        while self.undo.len() > savepoint.0 {
            match self.undo.pop() {
                Some((key, Some(before))) => drop(self.writes.insert(key, before)),
                Some((key, None)) => drop(self.writes.remove(&key)),
                None => return,
            }
        }
        self.bytes = self.writes.iter().map(|(k, v)| (k.len() + v.as_ref().map_or(0, |v| v.len())) as u64).sum();
    }

    fn commit(mut self: Box<Self>) -> Future<'static, Outcome> {
        if let Some(why) = self.aborted.clone() {
            return Box::pin(std::future::ready(Outcome::Aborted { why }));
        }
        if let Some(at) = self.read_at {
            return Box::pin(std::future::ready(Outcome::Committed { at }));
        }
        let writes = std::mem::take(&mut self.writes);
        if writes.is_empty() && !self.touched {
            return Box::pin(std::future::ready(Outcome::Committed { at: self.shard.world().through() }));
        }
        self.touched = false; // from here on the machine ends it; dropping the session recalls nothing
        let writes = writes.into_iter().map(|(key, value)| Write { key, value }).collect();
        let (answerer, answer) = rendezvous();
        let (number, age) = (self.number, self.age);
        self.shard.post(Input::Call(Box::new(move |solo, now, out| {
            solo.commit(now, number, age, writes, answerer, out);
        })));
        Box::pin(async move { answer.await.unwrap_or(Outcome::Unknown) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.touched {
            let number = self.number;
            self.shard.post(Input::Call(Box::new(move |solo, now, out| solo.abort(now, number, out))));
        }
    }
}
