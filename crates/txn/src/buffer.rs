//! The uncommitted writes of a transaction, laid over its reads.

use crate::{Failure, Rows, Savepoint, SchemaVersion};
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange, Value, Write};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The maximum size of one transaction's writes, in bytes: they are one log entry, and must fit
/// into one frame between nodes.
pub const LIMIT_BYTES: u64 = 32 << 20;

/// Returns the part of a range that is left after a read at a shard with the keys `bounds`, which
/// left `rest` of its own part.
pub fn rest_of(
    range: &KeyRange,
    bounds: &KeyRange,
    rest: Option<KeyRange>,
    reverse: bool,
) -> Option<KeyRange> {
    match (rest, reverse) {
        (Some(rest), false) => Some(KeyRange { start: rest.start, end: range.end.clone() }),
        (Some(rest), true) => Some(KeyRange { start: range.start.clone(), end: rest.end }),
        (None, false) if !bounds.reaches(range) => {
            bounds.end.clone().map(|start| KeyRange { start, end: range.end.clone() })
        }
        (None, true) if bounds.start > range.start => {
            Some(KeyRange { start: range.start.clone(), end: Some(bounds.start.clone()) })
        }
        (None, _) => None,
    }
}

/// A transaction's own writes.
#[derive(Debug, Default)]
pub struct Buffer {
    writes: BTreeMap<Key, Option<Value>>,
    /// Schema changes: the new version, and the ranges where it holds.
    schemas: Vec<(SchemaVersion, Vec<KeyRange>)>,
    /// The undo log for savepoints.
    undo: Vec<Undo>,
    bytes: u64,
}

/// An entry of the undo log.
#[derive(Debug)]
enum Undo {
    /// A write, and the write of the same key that it replaced.
    Write(Key, Option<Option<Value>>),
    /// The newest schema change.
    Schema,
}

impl Buffer {
    /// Adds a write. Fails with `TooLarge` above [`LIMIT_BYTES`].
    pub fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        self.bytes += (key.len() + value.as_ref().map_or(0, |value| value.len())) as u64;
        if self.bytes > LIMIT_BYTES {
            return Err(Failure::TooLarge { limit_bytes: LIMIT_BYTES });
        }
        let before = self.writes.insert(key.clone(), value);
        self.undo.push(Undo::Write(key, before));
        Ok(())
    }

    /// Adds a schema change.
    pub fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) {
        self.schemas.push((to, ranges));
        self.undo.push(Undo::Schema);
    }

    /// Returns its own write of a key, if there is one.
    pub fn get(&self, key: &Key) -> Option<&Option<Value>> {
        self.writes.get(key)
    }

    /// True if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.schemas.is_empty()
    }

    /// Returns a point to roll back to.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.len())
    }

    /// Undoes every write since a point. Returns the keys that were written since.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Vec<Key> {
        let mut undone = Vec::new();
        for undo in self.undo.drain(savepoint.0.min(self.undo.len())..).rev() {
            let (key, before) = match undo {
                Undo::Write(key, before) => (key, before),
                Undo::Schema => {
                    self.schemas.pop();
                    continue;
                }
            };
            match before {
                Some(before) => drop(self.writes.insert(key.clone(), before)),
                None => drop(self.writes.remove(&key)),
            }
            undone.push(key);
        }
        self.bytes = self
            .writes
            .iter()
            .map(|(k, v)| (k.len() + v.as_ref().map_or(0, |v| v.len())) as u64)
            .sum();
        undone
    }

    /// All writes, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Option<Value>)> {
        self.writes.iter()
    }

    /// All schema changes, oldest first.
    pub fn schemas(&self) -> &[(SchemaVersion, Vec<KeyRange>)] {
        &self.schemas
    }

    /// Removes and returns all writes, each key once.
    pub fn take(&mut self) -> Vec<Write> {
        self.undo.clear();
        std::mem::take(&mut self.writes)
            .into_iter()
            .map(|(key, value)| Write { key, value })
            .collect()
    }

    /// Removes and returns all schema changes, oldest first.
    pub fn take_schemas(&mut self) -> Vec<(SchemaVersion, Vec<KeyRange>)> {
        std::mem::take(&mut self.schemas)
    }

    /// Lays the writes over a chunk of stored rows of a range, of which `rest` is left.
    pub fn over(&self, range: &KeyRange, stored: Rows, reverse: bool, limit_rows: usize) -> Rows {
        let Rows { rows, at, rest } = stored;
        let covered = match &rest {
            None => range.clone(),
            Some(rest) if reverse => {
                KeyRange { start: rest.end.clone().unwrap_or_default(), end: range.end.clone() }
            }
            Some(rest) => KeyRange { start: range.start.clone(), end: Some(rest.start.clone()) },
        };
        if self.writes.is_empty() || covered.is_empty() {
            return Rows { rows, at, rest };
        }
        let end = covered.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut own =
            self.writes.range::<Key, _>((Bound::Included(&covered.start), end)).peekable();
        if own.peek().is_none() {
            return Rows { rows, at, rest };
        }
        let told = !at.is_empty();
        let at = at.into_iter().chain(std::iter::repeat(None));
        let mut merged: BTreeMap<Key, (Value, Option<Timestamp>)> =
            rows.into_iter().zip(at).map(|((key, value), at)| (key, (value, at))).collect();
        for (key, value) in own {
            match value {
                Some(value) => drop(merged.insert(key.clone(), (value.clone(), None))),
                None => drop(merged.remove(key)),
            }
        }
        let split = |(key, (value, at))| ((key, value), at);
        let (mut rows, mut at): (Vec<(Key, Value)>, Vec<Option<Timestamp>>) = if reverse {
            merged.into_iter().rev().map(split).unzip()
        } else {
            merged.into_iter().map(split).unzip()
        };
        if !told {
            at.clear();
        }
        if rows.len() <= limit_rows {
            return Rows { rows, at, rest };
        }
        rows.truncate(limit_rows);
        at.truncate(limit_rows);
        let last = rows.last().map(|(key, _)| key.clone()).unwrap_or_default();
        let rest = if reverse {
            KeyRange { start: range.start.clone(), end: Some(last) }
        } else {
            KeyRange { start: last.successor(), end: range.end.clone() }
        };
        Rows { rows, at, rest: Some(rest) }
    }
}
