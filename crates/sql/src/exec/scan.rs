//! Reads a table by its access path.

use super::{Context, Operator, Row};
use crate::access::Target;
use crate::bind::{OnLocked, RowLocks};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::kv;
use crate::physical::{self, Node, Op};
use crate::row;
use crate::scan::{Cursor, Found};
use crate::system;
use bytes::Bytes;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Future, Lock, Locking};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A running scan.
pub(super) struct Scan {
    plan: Arc<Node>,
    source: Source,
    /// Rows that were read and not looked at yet: a locked row is kept only once it is returned.
    waiting: VecDeque<Found>,
}

enum Source {
    Unopened,
    /// The rows of a table.
    Stored(Box<Cursor>),
    /// The rows of a system table, and how many of them were read.
    Made(Arc<Vec<Row>>, usize),
    /// The only row, until it is read.
    Pinned(Option<Row>),
}

impl Scan {
    pub(super) fn new(plan: Arc<Node>) -> Self {
        Scan { plan, source: Source::Unopened, waiting: VecDeque::new() }
    }
}

impl physical::Scan {
    /// True if it reads a stored table by its primary key.
    pub(super) fn reads_by_primary_key(&self) -> bool {
        self.access.index.is_none() && self.access.has_key() && !self.table.is_made()
    }

    /// Reads rows by their keys, all at once.
    pub(super) async fn look_up(
        &self,
        keys: BTreeSet<Key>,
        cx: &mut Context<'_>,
    ) -> Result<BTreeMap<Key, Row>, SqlError> {
        self.table.check_populated()?;
        let count = keys.len();
        let mut cursor = Cursor::new(None, keys.into_iter().map(Target::Point).collect(), false);
        let mut rows = BTreeMap::new();
        loop {
            let found =
                cursor.next(cx.txn, &self.table, &self.wanted, Lock::Shared, count.max(1)).await?;
            if found.is_empty() {
                return Ok(rows);
            }
            for found in found {
                let key = found.key.clone();
                rows.insert(key, self.complete(found));
            }
        }
    }

    /// Returns a row with its commit timestamp and its key, as far as they are wanted.
    fn complete(&self, found: Found) -> Row {
        let Found { key, row, .. } = found;
        self.with_key(row, &key)
    }

    /// Adds a row's key, if it is wanted.
    pub(super) fn with_key(&self, mut row: Row, key: &Key) -> Row {
        let at = self.table.columns.len() + 1;
        if self.wanted.get(at) == Some(&true) {
            row.resize(at, Datum::Null);
            row.push(Datum::Bytes(Bytes::copy_from_slice(key)));
        }
        row
    }

    async fn open(&self, cx: &mut Context<'_>) -> Result<Source, SqlError> {
        if let Some((key, value)) = self.pin(cx) {
            return self.pinned(key, value).map(Source::Pinned);
        }
        if !self.table.is_made() {
            self.table.check_populated()?;
            let targets = self.access.targets(&self.table, &cx.scope())?;
            let cursor = Cursor::new(self.access.index, targets, self.backwards);
            let cursor =
                cursor.keeping(self.locks.is_some_and(|locks| locks.keeps)).only(self.access.only);
            return Ok(Source::Stored(Box::new(cursor)));
        }
        let rows = match cx.state.made.get(&self.table.id) {
            Some(rows) => rows.clone(),
            None => {
                let rows = Arc::new(system::rows(cx.txn, &self.table, cx.facts).await?);
                cx.state.made.insert(self.table.id, rows.clone());
                rows
            }
        };
        Ok(Source::Made(rows, 0))
    }

    /// Returns the row that it reads alone, if there is one.
    pub(super) fn pin<'a>(&self, cx: &'a Context<'_>) -> Option<&'a (Key, Value)> {
        cx.state.pins.get(self.columns.get(self.table.columns.len() + 1)?)
    }

    /// Returns a row that is read alone.
    fn pinned(&self, key: &Key, value: &Value) -> Result<Option<Row>, SqlError> {
        let columns = self.table.columns.len();
        if self.wanted.get(columns) == Some(&true) {
            return Err(SqlError::unsupported("SKIP LOCKED with meridian_commit_timestamp"));
        }
        let row = row::decode(&self.table, &key[kv::PREFIX..], value, &self.wanted)?;
        Ok(Some(self.with_key(row, key)))
    }

    /// Adds a row's outputs, if the filter accepts the row.
    pub(super) fn take(
        &self,
        row: &[Datum],
        cx: &Context<'_>,
        out: &mut Vec<Row>,
    ) -> Result<(), SqlError> {
        if let Some(filter) = &self.filter
            && !filter.holds(row, &cx.scope())?
        {
            return Ok(());
        }
        out.push(self.picks.iter().map(|at| row[*at].clone()).collect());
        Ok(())
    }
}

impl Operator for Scan {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Scan(scan) = &self.plan.op else { return Ok(Vec::new()) };
            if let Source::Unopened = self.source {
                self.source = scan.open(cx).await?;
            }
            // A filter that no key serves rejects many rows; another one may, too.
            let mut limit = match (&scan.filter, scan.access.spans.is_empty()) {
                (Some(_), true) => want.max(super::CHUNK_ROWS),
                _ => want,
            };
            let mut out = Vec::new();
            while out.is_empty() {
                let read = match &mut self.source {
                    Source::Unopened => 0,
                    Source::Stored(cursor) => {
                        if self.waiting.is_empty() {
                            let fails = |locks: RowLocks| locks.on_locked == OnLocked::Fail;
                            let how = match scan.locks.is_some_and(fails) {
                                true => Locking::NoWait,
                                false => cx.state.locking,
                            };
                            let before = cx.lock_as(how)?;
                            let (table, wanted) = (&scan.table, &scan.wanted);
                            let lock = scan.locks.map_or(Lock::Shared, |it| it.strength.lock());
                            let found = cursor.next(cx.txn, table, wanted, lock, limit).await;
                            cx.lock_as(before)?;
                            self.waiting = found?.into();
                        }
                        let mut count = 0;
                        while out.len() < want
                            && let Some(mut found) = self.waiting.pop_front()
                        {
                            count += 1;
                            let stored = found.value.take().map(|value| (found.key.clone(), value));
                            let before = out.len();
                            scan.take(&scan.complete(found), cx, &mut out)?;
                            // A locked row stays as it is until the transaction has committed.
                            if let Some((key, value)) = stored.filter(|_| out.len() > before) {
                                cx.txn.keep(&key, &value)?;
                            }
                            cx.pause(0).await;
                        }
                        count
                    }
                    Source::Pinned(row) => match row.take() {
                        Some(row) => {
                            scan.take(&row, cx, &mut out)?;
                            1
                        }
                        None => 0,
                    },
                    Source::Made(rows, at) => {
                        let mut count = 0;
                        while out.len() < want
                            && let Some(row) = rows.get(*at).filter(|_| count < limit)
                        {
                            scan.take(row, cx, &mut out)?;
                            (count, *at) = (count + 1, *at + 1);
                        }
                        count
                    }
                };
                if read == 0 {
                    break;
                }
                cx.pause(read).await;
                limit = (limit * 4).min(limit.max(super::CHUNK_ROWS));
            }
            Ok(out)
        })
    }
}
