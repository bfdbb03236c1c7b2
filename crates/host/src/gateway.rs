//! Transactions as a session sees them, over the shard's machine on this node.
//!
//! A session steps the machine on its own thread: a lock that is free costs no wake and no other thread. A read-only transaction
//! reads at the shard's slot and asks nobody. Writes are buffered here, merged into the transaction's own reads and scans, and
//! sent with the commit.
//!
//! Invariant: once a transaction was told that it is aborted, it asks for nothing any more: its locks are gone, and what
//! it read may have changed.

use crate::buffer::Buffer;
use crate::rendezvous::{Answer, rendezvous};
use crate::resident::Input;
use crate::shard::Shard;
use meridian_clock::{Interval, Timestamp};
use meridian_mvcc::{Key, KeyRange, StoreError, Value};
use meridian_txn::{
    Age, Begin, Conflict, Database, Failure, Future, Lock, Mode, Outcome, ReadAt, Rows, Savepoint, Transaction,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
                writes: Buffer::default(),
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
    writes: Buffer,
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
            Ok(self.writes.over(range, chunk.rows, chunk.rest, reverse, limit_rows.max(1)))
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
        self.writes.put(key, value)
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint);
    }

    fn commit(mut self: Box<Self>) -> Future<'static, Outcome> {
        if let Some(why) = self.aborted.clone() {
            return Box::pin(std::future::ready(Outcome::Aborted { why }));
        }
        if let Some(at) = self.read_at {
            return Box::pin(std::future::ready(Outcome::Committed { at }));
        }
        let writes = self.writes.take();
        if writes.is_empty() && !self.touched {
            return Box::pin(std::future::ready(Outcome::Committed { at: self.shard.world().through() }));
        }
        self.touched = false; // from here on the machine ends it; dropping the session recalls nothing
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
