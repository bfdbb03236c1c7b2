//! A read-only transaction, at one timestamp (§6.1).
//!
//! Each read is answered by so many replicas that no transaction that is not prepared can write
//! below the timestamp any more, whatever view begins. Each replica refuses such writes from then
//! on, and answers only when no prepared transaction may write there. The newest version that any
//! of them has is the result.
//!
//! A commit may be visible before its timestamp has surely passed. If the database is strictly
//! serializable, a read returns only when the timestamps that it read have passed (Traps A.2-20,
//! A.2-5).

use super::coordinator::{count_failure, note_reads, stopwatch, unavailable};
use super::schemas::Planned;
use super::{Guarantee, Shards, SnapshotRead};
use crate::{
    Age, Failure, Future, Lock, Mode, Node, Outcome, Rows, Savepoint, SchemaVersion, Timings,
    Transaction, buffer::rest_of,
};
use futures::future::join_all;
use meridian_clock::{Interval, Timestamp};
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange, Value, local};
use std::sync::Arc;

/// The time that a read waits for replicas that answer, in nanoseconds.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// A snapshot that is being read.
pub(super) struct Snapshot<S: Shards> {
    pub shards: Arc<S>,
    pub guarantee: Guarantee,
    pub mode: Mode,
    pub age: Age,
    pub began: Interval,
    pub at: Timestamp,
    pub planned: Planned,
    pub versions: bool,
    pub timings: Option<Arc<Timings>>,
}

impl<S: Shards> Snapshot<S> {
    fn boot_ns(&self) -> u64 {
        self.shards.node().now().boot_ns
    }

    /// Reads a part of a shard's keys.
    async fn look(
        &self,
        shard: ShardId,
        part: &KeyRange,
        how: (bool, usize),
    ) -> Result<SnapshotRead, Failure> {
        let until = self.boot_ns() + TIMEOUT_NS;
        let looked = self.shards.look(shard, part, self.at, how, until).await;
        looked.unwrap_or_else(|| Err(unavailable(&*self.shards, shard)))
    }

    /// Reads points of one shard in parallel.
    async fn read_points(
        &mut self,
        shard: ShardId,
        keys: &[Key],
    ) -> Result<Vec<Option<Value>>, Failure> {
        let rows = self.planned.unchecked(shard).into_iter();
        let rows: Vec<(u32, Key)> =
            rows.map(|table| (table, local::schema(shard.0, table))).collect();
        let points = rows.iter().map(|(_, key)| key).chain(keys).cloned();
        let points: Vec<KeyRange> = points.map(KeyRange::point).collect();
        let began_ns = self.boot_ns();
        let found = join_all(points.iter().map(|point| self.look(shard, point, (false, 1)))).await;
        note_reads(self.timings.as_deref(), keys.len(), began_ns, self.boot_ns());
        let found = found.into_iter().collect::<Result<Vec<SnapshotRead>, Failure>>()?;
        let newest = found.iter().map(|looked| looked.newest).max();
        let mut values = found
            .into_iter()
            .map(|looked| looked.chunk.rows.into_iter().next().map(|(_, value)| value));
        for ((table, _), value) in rows.iter().zip(values.by_ref()) {
            let checked = self.planned.check(shard, *table, value.as_ref());
            checked.inspect_err(|failure| count_failure(&*self.shards, failure))?;
        }
        let values = values.collect();
        self.has_passed(shard, newest.unwrap_or_default()).await?;
        Ok(values)
    }

    /// Waits until the newest version that was read has surely passed.
    async fn has_passed(&self, shard: ShardId, newest: Timestamp) -> Result<(), Failure> {
        if self.guarantee != Guarantee::StrictlySerializable {
            return Ok(());
        }
        let began_ns = self.boot_ns();
        if !crate::passes(self.shards.node(), newest).await {
            return Err(unavailable(&*self.shards, shard));
        }
        let waited_ns = self.boot_ns() - began_ns;
        if let Some(counters) = self.shards.counters() {
            counters.read_waited(waited_ns);
        }
        if let Some(timings) = &self.timings {
            timings.note(|times| times.read_wait_ns += waited_ns);
        }
        Ok(())
    }

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
        // The schema versions of the shard are read in parallel, and once.
        let tables = self.planned.unchecked(shard);
        let rows = tables.iter().map(|table| KeyRange::point(local::schema(shard.0, *table)));
        let part = range.common(&bounds);
        let asked = rows.map(|row| (row, (false, 1))).chain([(part, (reverse, limit.max(1)))]);
        let asked: Vec<(KeyRange, (bool, usize))> = asked.collect();
        let began_ns = self.boot_ns();
        let mut found =
            join_all(asked.iter().map(|(part, how)| self.look(shard, part, *how))).await;
        note_reads(self.timings.as_deref(), 1, began_ns, self.boot_ns());
        let looked = found.pop().expect("the range was asked for last");
        for (table, found) in tables.into_iter().zip(found) {
            let row = found?.chunk.rows.into_iter().next().map(|(_, value)| value);
            let checked = self.planned.check(shard, table, row.as_ref());
            checked.inspect_err(|failure| count_failure(&*self.shards, failure))?;
        }
        let looked = looked?;
        self.has_passed(shard, looked.newest).await?;
        let at = if self.versions {
            looked.chunk.at.into_iter().map(Some).collect()
        } else {
            Vec::new()
        };
        let rest = rest_of(range, &bounds, looked.chunk.rest, reverse);
        Ok(Rows { rows: looked.chunk.rows, at, rest })
    }
}

impl<S: Shards> Transaction for Snapshot<S> {
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

    fn get<'a>(&'a mut self, key: &'a Key, _: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
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
            let mut found = Vec::with_capacity(keys.len());
            let shards = Arc::clone(&self.shards);
            for (shard, keys) in super::shards::by_shard(&*shards, keys) {
                found.extend(self.read_points(shard, keys).await?);
            }
            Ok(found)
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        _: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(self.read(range, reverse, limit_rows))
    }

    fn put(&mut self, _: Key, _: Option<Value>) -> Result<(), Failure> {
        Err(Failure::ReadOnly)
    }

    fn planned_for(&mut self, schema: SchemaVersion) {
        self.planned.plan(schema);
    }

    fn change_schema(&mut self, _: SchemaVersion, _: Vec<KeyRange>) -> Result<(), Failure> {
        Err(Failure::ReadOnly)
    }

    fn show_versions(&mut self) {
        self.versions = true;
    }

    fn savepoint(&mut self) -> Savepoint {
        Savepoint::default()
    }

    fn rollback_to(&mut self, _: Savepoint) {}

    fn measure(&mut self) -> Option<Arc<Timings>> {
        let shards = &self.shards;
        Some(Arc::clone(self.timings.get_or_insert_with(|| stopwatch(shards))))
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::Committed { at: self.at }))
    }
}
