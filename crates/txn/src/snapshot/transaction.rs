//! A transaction of snapshot isolation, at its coordinator.

use crate::locking::{self, Coordinator};
use crate::shards::{ReadSnapshot, Shards};
use crate::snapshot::rules;
use crate::{
    Age, AgeParts, Begin, Conflict, Consistency, Database, Failure, Future, IsolationLevel, Lock,
    Locking, Mode, Outcome, ReadAt, Rows, Savepoint, SchemaVersion, Timings, Transaction,
};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::sometimes;
use meridian_mvcc::{Key, KeyRange, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The number of rows of a kept range that are compared at once.
const KEPT_ROWS: usize = 1000;

/// A client of a database with snapshot isolation, on one node.
pub struct TxnClient<S> {
    locking: Arc<locking::TxnClient<S>>,
}

impl<S: Shards> TxnClient<S> {
    /// Returns a client of a database whose transactions have these consistency modes, the default
    /// first.
    pub fn new(shards: Arc<S>, modes: &'static [Consistency]) -> Self {
        TxnClient { locking: Arc::new(locking::TxnClient::new(shards, modes).with_snapshot_ages()) }
    }

    /// Returns a client of such a database whose snapshots are at timestamps of an authority.
    pub fn with_authority(shards: Arc<S>, modes: &'static [Consistency]) -> Self {
        TxnClient { locking: Arc::new(locking::TxnClient::with_authority(shards, modes)) }
    }
}

impl<S: Shards> Database for TxnClient<S> {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::RepeatableRead
    }

    fn consistency(&self) -> &'static [Consistency] {
        self.locking.consistency()
    }

    fn snapshot_age(&self) -> Option<AgeParts> {
        self.locking.snapshot_age()
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        self.locking.sleep(time)
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        if how.mode != Mode::ReadWrite {
            return self.locking.begin(how);
        }
        Box::pin(async move {
            // Reads are answered at once: only the end of the transaction waits for a clock.
            let (mode, consistency) =
                (Mode::ReadOnly(ReadAt::Now), how.consistency.min(Consistency::Hybrid));
            let begin = Begin { mode, consistency, ..how.clone() };
            let snapshot = self.locking.begin_here(begin).await?;
            let writes = self.locking.coordinator(how, snapshot.began(), None);
            let begun = SnapshotTransaction {
                locking: Arc::clone(&self.locking),
                snapshot,
                writes,
                kept_ranges: BTreeSet::new(),
                owned: Vec::new(),
                adopted: Vec::new(),
            };
            Ok(Box::new(begun) as Box<dyn Transaction>)
        })
    }
}

/// A transaction that reads a snapshot, and whose writes are certified against it.
struct SnapshotTransaction<S: Shards> {
    locking: Arc<locking::TxnClient<S>>,
    snapshot: Box<Coordinator<S>>,
    /// The transaction that commits. It reads only what it locks for the ranges that are kept.
    writes: Coordinator<S>,
    /// The ranges in which nothing may change meanwhile.
    kept_ranges: BTreeSet<KeyRange>,
    /// The ranges in which only adopted commits have written.
    owned: Vec<KeyRange>,
    /// Commits that other transactions made for this one.
    adopted: Vec<Timestamp>,
}

impl<S: Shards> SnapshotTransaction<S> {
    /// Returns a snapshot of the present for a range that this transaction owns. It has all commits
    /// that were adopted, and in the range nothing else. `None` for other ranges.
    async fn newest_of(&self, range: &KeyRange) -> Result<Option<Box<Coordinator<S>>>, Failure> {
        if !self.owned.iter().any(|owned| owned.contains_range(range)) {
            return Ok(None);
        }
        let token = self.adopted.iter().max().copied().unwrap_or(Timestamp::ZERO);
        self.present_above(token).await.map(Some)
    }

    /// Returns a snapshot of the present that is not below a timestamp.
    async fn present_above(&self, token: Timestamp) -> Result<Box<Coordinator<S>>, Failure> {
        let (mode, consistency) = (Mode::ReadOnly(ReadAt::Now), Consistency::Hybrid);
        let begin = Begin::new(mode).aged(Some(self.writes.age()));
        self.locking.begin_here(Begin { consistency, token, ..begin }).await
    }

    /// Locks the ranges that are kept, until the commit ends, and checks that what is there now is
    /// what the snapshot has. The commit names the locks: if a leader changes, it is refused.
    async fn lock_kept(&mut self) -> Result<(), Failure> {
        for range in std::mem::take(&mut self.kept_ranges) {
            let mut rest = Some(range);
            while let Some(part) = rest {
                let now = self.writes.scan(&part, Lock::Shared, false, KEPT_ROWS).await?;
                let end = now.rest.as_ref().map(|rest| rest.start.clone()).or(part.end.clone());
                let covered = KeyRange { start: part.start.clone(), end };
                let (mut then, mut left) = (Vec::new(), Some(covered));
                while let Some(part) = left {
                    let found = self.scan(&part, Lock::Shared, false, KEPT_ROWS).await?;
                    then.extend(found.rows);
                    left = found.rest;
                }
                if then != now.rows && !broken(rules::RANGE_NOT_KEPT) {
                    sometimes!("a range that a transaction keeps has changed since its snapshot");
                    let why =
                        Conflict::WrittenSince { key: part.start, at: Some(self.writes.token()) };
                    return Err(self.writes.end(why));
                }
                rest = now.rest;
            }
        }
        Ok(())
    }
}

impl<S: Shards> Transaction for SnapshotTransaction<S> {
    fn mode(&self) -> Mode {
        Mode::ReadWrite
    }

    fn age(&self) -> Age {
        self.writes.age()
    }

    fn began(&self) -> Interval {
        self.snapshot.began()
    }

    fn read_at(&self) -> Option<Timestamp> {
        self.snapshot.read_at()
    }

    fn token(&self) -> Timestamp {
        self.snapshot.token()
    }

    fn get<'a>(
        &'a mut self,
        key: &'a Key,
        lock: Lock,
    ) -> Future<'a, Result<Option<Value>, Failure>> {
        if let Some(own) = self.writes.writes.get(key).cloned() {
            return Box::pin(std::future::ready(Ok(own)));
        }
        if self.owned.is_empty() {
            return self.snapshot.get(key, lock);
        }
        Box::pin(async move {
            match self.newest_of(&KeyRange::point(key.clone())).await? {
                Some(mut newest) => newest.get(key, lock).await,
                None => self.snapshot.get(key, lock).await,
            }
        })
    }

    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        lock: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        Box::pin(async move {
            let mut found = self.snapshot.get_many(keys, lock).await?;
            for (key, found) in keys.iter().zip(&mut found) {
                if let Some(own) = self.writes.writes.get(key) {
                    found.clone_from(own);
                } else if let Some(mut newest) =
                    self.newest_of(&KeyRange::point(key.clone())).await?
                {
                    *found = newest.get(key, lock).await?;
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
            let found = match self.newest_of(range).await? {
                Some(mut newest) => newest.scan(range, lock, reverse, limit_rows).await?,
                None => self.snapshot.scan(range, lock, reverse, limit_rows).await?,
            };
            Ok(self.writes.writes.over(range, found, reverse, limit_rows.max(1)))
        })
    }

    fn keep(&mut self, key: &Key, value: &Value) -> Result<(), Failure> {
        // It is written again as it is, so that certification meets it (a materialized conflict).
        // An own write may be newer than the row that was read.
        match self.writes.writes.get(key) {
            Some(_) => Ok(()),
            None => self.writes.put(key.clone(), Some(value.clone())),
        }
    }

    fn keep_range(&mut self, range: KeyRange) {
        self.kept_ranges.insert(range);
    }

    fn kept_ranges(&self) -> Vec<KeyRange> {
        self.kept_ranges.iter().cloned().collect()
    }

    fn lock_first(&mut self, ranges: Vec<KeyRange>) -> Future<'_, Result<(), Failure>> {
        Box::pin(async move {
            if ranges.is_empty() {
                return Ok(());
            }
            sometimes!("a repetition locks what it keeps before it reads");
            for range in ranges {
                self.keep_range(range.clone());
                let mut rest = Some(range);
                while let Some(part) = rest {
                    match self.writes.scan(&part, Lock::Shared, false, KEPT_ROWS).await {
                        Ok(locked) => rest = locked.rest,
                        // The commit says so.
                        Err(Failure::Aborted(_)) => return Ok(()),
                        Err(other) => return Err(other),
                    }
                }
            }
            // What was committed before the locks is in the snapshot, and nothing comes after.
            self.snapshot = self.present_above(self.writes.token()).await?;
            Ok(())
        })
    }

    fn own(&mut self, range: KeyRange) {
        self.owned.push(range);
    }

    fn writes_alone(&mut self, range: KeyRange) {
        self.writes.private = Some(range);
    }

    fn adopt(&mut self, commit: Timestamp) {
        self.adopted.push(commit);
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        self.writes.put(key, value)
    }

    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.writes.set_lock_timeout(timeout);
    }

    fn set_locking(&mut self, how: Locking) -> bool {
        how != Locking::None
    }

    fn set_consistency(&mut self, mode: Consistency) {
        self.snapshot.set_consistency(mode.min(Consistency::Hybrid));
        self.writes.set_consistency(mode);
    }

    fn set_application(&mut self, name: &str) {
        self.writes.set_application(name);
    }

    fn measure(&mut self) -> Option<Arc<Timings>> {
        let timings = self.snapshot.measure();
        self.writes.timings.clone_from(&timings);
        timings
    }

    fn show_versions(&mut self) {
        self.snapshot.show_versions();
    }

    fn planned_for(&mut self, schema: SchemaVersion) {
        self.snapshot.planned_for(schema);
        self.writes.planned_for(schema);
    }

    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure> {
        self.writes.change_schema(to, ranges)
    }

    fn before_commit(&mut self) -> Future<'_, Result<(), Failure>> {
        Box::pin(self.lock_kept())
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint);
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        Box::pin(async move {
            let mut this = self;
            if this.writes.writes.is_empty() {
                let consistency = this.writes.order.consistency();
                this.snapshot.set_consistency(consistency);
                return this.snapshot.commit().await;
            }
            if let Err(why) = this.lock_kept().await {
                let why = match why {
                    Failure::Aborted(why) => why,
                    _ => Conflict::LeaderChanged,
                };
                return Outcome::Aborted { why };
            }
            let SnapshotTransaction { mut snapshot, mut writes, adopted, .. } = *this;
            writes.order.learn(snapshot.token());
            // Without a snapshot it has read nothing, and overwrites.
            writes.snapshot = snapshot.read_at().map(|at| ReadSnapshot { at, adopted });
            // It comes after what was acknowledged before it, all the same: a leader may have a
            // timestamp that the authority has handed out for another commit, long ago.
            if writes.snapshot.is_none() && !broken(rules::OVERWRITE_UNBOUNDED) {
                if snapshot.choose_snapshot().await.is_err() {
                    return Outcome::Aborted { why: Conflict::Late };
                }
                writes.order.learn(snapshot.read_at().unwrap_or_default());
            }
            Box::new(writes).commit().await
        })
    }
}
