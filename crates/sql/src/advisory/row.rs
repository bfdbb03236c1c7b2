//! The row of a lock: the sessions that hold it, or wait for it.

use crate::datum::Datum;
use crate::error::SqlError;
use crate::kv;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Age, Lock, Transaction};
use minicbor::{Decode, Encode};

/// The name of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// A `bigint`.
    One(i64),
    /// Two integers, which name other locks than any `bigint`.
    Two(i32, i32),
}

impl Name {
    /// Returns the name that a function's arguments are.
    pub(super) fn of(args: &[Datum]) -> Result<Name, SqlError> {
        match args {
            [Datum::Int8(key)] => Ok(Name::One(*key)),
            [Datum::Int4(first), Datum::Int4(second)] => Ok(Name::Two(*first, *second)),
            _ => Err(SqlError::corrupted("the key of an advisory lock")),
        }
    }

    /// Returns its halves, and 1 or 2 for the kind of name, as `pg_locks` shows them.
    pub(crate) fn parts(self) -> (u32, u32, u8) {
        match self {
            Name::One(key) => ((key as u64 >> 32) as u32, key as u32, 1),
            Name::Two(first, second) => (first as u32, second as u32, 2),
        }
    }

    pub(super) fn key(self) -> Key {
        let (high, low, space) = self.parts();
        let mut bytes = kv::ADVISORY.to_vec();
        bytes.push(space);
        bytes.extend(high.to_be_bytes());
        bytes.extend(low.to_be_bytes());
        kv::to_key(bytes)
    }

    fn of_key(key: &Key) -> Option<Name> {
        let (space, key) = key.0.strip_prefix(&kv::ADVISORY)?.split_first()?;
        let key = u64::from_be_bytes(key.try_into().ok()?);
        match space {
            1 => Some(Name::One(key as i64)),
            2 => Some(Name::Two((key >> 32) as i32, key as i32)),
            _ => None,
        }
    }
}

/// A session of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub(crate) struct Owner {
    /// The process: the age of the first transaction that it took a lock in, which no other
    /// transaction has.
    #[n(0)]
    pub(super) process: Age,
    /// The session's number in its process.
    #[n(1)]
    pub(super) session: u64,
}

/// A session that holds a lock, or waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Entry {
    #[n(0)]
    pub(super) owner: Owner,
    /// The session's process number, for its client.
    #[n(1)]
    pub(crate) pid: i32,
    #[n(2)]
    pub(crate) is_shared: bool,
    #[n(3)]
    pub(crate) waits: bool,
}

impl Entry {
    /// True if it holds what another session wants.
    pub(super) fn blocks(&self, owner: Owner, is_shared: bool) -> bool {
        !self.waits && self.owner != owner && !(self.is_shared && is_shared)
    }
}

#[derive(Default, Encode, Decode)]
struct Row {
    #[n(0)]
    entries: Vec<Entry>,
}

fn decode(value: &Value) -> Result<Vec<Entry>, SqlError> {
    let row: Row = minicbor::decode(&value.0)
        .map_err(|error| SqlError::corrupted(format!("an advisory lock: {error}")))?;
    Ok(row.entries)
}

/// Reads the row of a lock.
pub(super) async fn read(
    txn: &mut dyn Transaction,
    name: Name,
    lock: Lock,
) -> Result<Vec<Entry>, SqlError> {
    match txn.get(&name.key(), lock).await? {
        Some(value) => decode(&value),
        None => Ok(Vec::new()),
    }
}

/// Writes the row of a lock; without entries there is none.
pub(super) fn write(
    txn: &mut dyn Transaction,
    name: Name,
    entries: &[Entry],
) -> Result<(), SqlError> {
    let row = Row { entries: entries.to_vec() };
    let bytes = || minicbor::to_vec(&row).expect("invariant: a vector takes all bytes");
    let value = (!entries.is_empty()).then(|| kv::to_value(bytes()));
    Ok(txn.put(name.key(), value)?)
}

/// Reads all locks.
pub(super) async fn all(txn: &mut dyn Transaction) -> Result<Vec<(Name, Vec<Entry>)>, SqlError> {
    let (mut locks, mut rest) = (Vec::new(), Some(kv::prefix_range(&kv::ADVISORY)));
    while let Some(range) = rest {
        let chunk = txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (key, value) in &chunk.rows {
            if let Some(name) = Name::of_key(key) {
                locks.push((name, decode(value)?));
            }
        }
        rest = chunk.rest;
    }
    Ok(locks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_key_of_its_own() {
        let names =
            [Name::One(0), Name::One(-1), Name::One(1 << 40), Name::Two(0, 0), Name::Two(-1, 7)];
        for name in names {
            assert_eq!(Name::of_key(&name.key()), Some(name));
        }
        assert_eq!(Name::One(-5).parts(), (u32::MAX, u32::MAX - 4, 1));
        assert_eq!(Name::Two(1, -2).parts(), (1, u32::MAX - 1, 2));
    }
}
