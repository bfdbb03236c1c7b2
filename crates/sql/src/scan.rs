//! Reads the rows of one table, chunk by chunk, through a primary key or a secondary index.

use crate::access::Target;
use crate::catalog::Table;
use crate::datetime;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::index::Index;
use crate::kv;
use crate::row;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_txn::{Lock, Transaction};
use std::collections::VecDeque;

/// A row and its key.
pub(crate) struct Found {
    pub(crate) key: Key,
    /// The row as it is stored, if the cursor keeps it.
    pub(crate) value: Option<Value>,
    pub(crate) row: Vec<Datum>,
}

/// The position of a scan.
#[derive(Debug)]
pub(crate) struct Cursor {
    index: Option<usize>,
    targets: VecDeque<Target>,
    reverse: bool,
    /// True if it returns rows as they are stored, too.
    keeps: bool,
    /// True if entries of the index stand for rows.
    only: bool,
}

impl Cursor {
    pub(crate) fn new(index: Option<usize>, mut targets: Vec<Target>, reverse: bool) -> Self {
        if reverse {
            targets.reverse();
        }
        Cursor { index, targets: targets.into(), reverse, keeps: false, only: false }
    }

    /// Returns a scan that reads entries of its index and no rows, if `only` is true.
    pub(crate) fn only(self, only: bool) -> Self {
        Cursor { only, ..self }
    }

    /// Returns a scan that also returns rows as they are stored, if `keeps` is true.
    pub(crate) fn keeping(self, keeps: bool) -> Self {
        Cursor { keeps, ..self }
    }

    /// Returns the next rows, at most `limit_rows` (about a megabyte); none only at the end.
    pub(crate) async fn next(
        &mut self,
        txn: &mut dyn Transaction,
        table: &Table,
        wanted: &[bool],
        lock: Lock,
        limit_rows: usize,
    ) -> Result<Vec<Found>, SqlError> {
        let shows = shows_versions(table, wanted);
        if shows {
            txn.show_versions();
        }
        let mut found = Vec::new();
        while found.is_empty() {
            let Some(target) = self.targets.pop_front() else { break };
            let entries: Vec<Entry> = match target {
                Target::Point(key) => {
                    // Many points are one chunk.
                    let mut keys = vec![key];
                    while keys.len() < limit_rows
                        && let Some(Target::Point(_)) = self.targets.front()
                        && let Some(Target::Point(key)) = self.targets.pop_front()
                    {
                        keys.push(key);
                    }
                    let there = get_many(txn, &keys, lock, shows).await?;
                    let entry =
                        |(key, there): (Key, Option<_>)| there.map(|(value, at)| (key, value, at));
                    keys.into_iter().zip(there).filter_map(entry).collect()
                }
                Target::Range(range) => {
                    let chunk = txn.scan(&range, lock, self.reverse, limit_rows).await?;
                    if let Some(rest) = chunk.rest {
                        self.targets.push_front(Target::Range(rest));
                    }
                    let mut committed = chunk.at.into_iter();
                    let entry = |(key, value)| (key, value, committed.next().flatten());
                    chunk.rows.into_iter().map(entry).collect()
                }
            };
            let index = self.index.and_then(|at| table.indexes.get(at));
            if let Some(index) = index.filter(|_| self.only) {
                for (key, value, _) in entries {
                    let (key, row) = index.decode(table, &key[kv::PREFIX..], &value, wanted)?;
                    found.push(Found { key: kv::to_key(key), value: None, row });
                }
                continue;
            }
            let entries = match index {
                None => entries,
                Some(index) => rows_of(txn, table, index, lock, shows, entries).await?,
            };
            found.reserve(entries.len());
            for (key, value, at) in entries {
                let mut row =
                    row::decode(table, &key[kv::PREFIX.min(key.len())..], &value, wanted)?;
                if shows {
                    row.push(at.map_or(Datum::Null, datetime::committed));
                }
                found.push(Found { key, value: self.keeps.then_some(value), row });
            }
        }
        Ok(found)
    }
}

/// A key, its value, and its commit timestamp, if that is requested.
type Entry = (Key, Value, Option<Timestamp>);

/// Returns the rows that index entries refer to.
async fn rows_of(
    txn: &mut dyn Transaction,
    table: &Table,
    index: &Index,
    lock: Lock,
    shows: bool,
    entries: Vec<Entry>,
) -> Result<Vec<Entry>, SqlError> {
    let key = |entry: &Entry| -> Result<Key, SqlError> {
        let mut bytes = kv::storage_prefix(table.storage);
        bytes.extend(index.row_key(&entry.1)?);
        Ok(kv::to_key(bytes))
    };
    let keys: Vec<Key> = entries.iter().map(key).collect::<Result<_, _>>()?;
    let found = get_many(txn, &keys, lock, shows).await?;
    let may_lack = txn.reads_apart(); // The index may be of another moment.
    let row = |(key, there): (Key, Option<_>)| match there {
        Some((value, at)) => Ok(Some((key, value, at))),
        None if may_lack => Ok(None),
        None => Err(SqlError::corrupted(format!(
            "an index of \"{}\" names a row that is not there",
            table.name
        ))),
    };
    keys.into_iter().zip(found).map(row).filter_map(Result::transpose).collect()
}

/// True if the rows' commit timestamps are requested.
fn shows_versions(table: &Table, wanted: &[bool]) -> bool {
    wanted.get(table.columns.len()) == Some(&true)
}

/// Returns the values of keys, and their commit timestamps if requested.
async fn get_many(
    txn: &mut dyn Transaction,
    keys: &[Key],
    lock: Lock,
    shows: bool,
) -> Result<Vec<Option<(Value, Option<Timestamp>)>>, SqlError> {
    if !shows {
        let found = txn.get_many(keys, lock).await?;
        return Ok(found.into_iter().map(|value| value.map(|value| (value, None))).collect());
    }
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let chunk = txn.scan(&KeyRange::point(key.clone()), lock, false, 1).await?;
        let at = chunk.at.into_iter().next().flatten();
        found.push(chunk.rows.into_iter().next().map(|(_, value)| (value, at)));
    }
    Ok(found)
}
