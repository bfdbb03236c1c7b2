//! The judge of a store without transactions, which writes every key to all replicas and reads at
//! any of them: **no read misses an acknowledged write**.
//!
//! Of a key's versions the one with the highest timestamp wins (last writer wins). So every read of
//! a key, at whichever replica, finds
//!
//! 1. a version that was written, whole, by a transaction that did not fail; or nothing, where
//!    nothing or a deletion was written;
//! 2. no version older than the newest that was acknowledged before the read began.
//!
//! Nothing else is promised: not isolation (a part of a transaction's writes may be seen), not
//! atomicity (an unacknowledged write may stay at some replicas for ever), and not the order of
//! real time (a writer whose clock is behind loses against what was acknowledged before).
//!
//! The judge needs the timestamps of writes, and values that are written once.

use crate::{Op, Stamp, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A description of what is violated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

/// A version of a key.
struct Version<'a> {
    value: Value,
    /// When it was acknowledged; `None` if it was not.
    acknowledged: Option<u64>,
    writer: &'a Transaction,
}

/// The versions of each key, in the order of their timestamps.
type Versions<'a> = BTreeMap<&'a str, BTreeMap<Stamp, Version<'a>>>;

/// True for the value of a key without a value, as a list or as a register.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Nothing) || matches!(value, Value::List(list) if list.is_empty())
}

/// Returns what a transaction writes, by key: an append writes the value that was read last, and
/// the element.
fn written(transaction: &Transaction) -> BTreeMap<&str, Value> {
    let (mut lists, mut written) = (BTreeMap::<&str, Vec<i64>>::new(), BTreeMap::new());
    for op in &transaction.ops {
        match op {
            Op::Read(key, Value::List(list)) => drop(lists.insert(key, list.clone())),
            Op::Append(key, element) => {
                let list = lists.entry(key).or_default();
                list.push(*element);
                written.insert(key.as_str(), Value::List(list.clone()));
            }
            Op::Write(key, value) => drop(written.insert(key.as_str(), value.clone())),
            Op::Read(..) | Op::Scan(..) => {}
        }
    }
    written
}

fn versions(history: &[Transaction]) -> Versions<'_> {
    let mut versions = Versions::new();
    for writer in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        // A write without a timestamp is at no replica: none of it can be read.
        let Some(at) = writer.at else { continue };
        let acknowledged = (writer.status == Status::Ok).then_some(writer.end);
        for (key, value) in written(writer) {
            versions.entry(key).or_default().insert(at, Version { value, acknowledged, writer });
        }
    }
    versions
}

/// Checks the result of a read that began at `start`.
fn check(
    key: &str,
    found: &Value,
    versions: &Versions<'_>,
    reader: &Transaction,
) -> Result<(), Violation> {
    let unwritten = BTreeMap::new();
    let of_key = versions.get(key).unwrap_or(&unwritten);
    let is_before = |version: &Version| version.acknowledged.is_some_and(|end| end < reader.start);
    let newest = of_key.iter().rev().find(|(_, version)| is_before(version));
    let from = newest.map_or((0, 0, 0), |(at, _)| *at);
    let mut candidates = of_key.range(from..).map(|(_, version)| &version.value);
    let alike = |value: &Value| value == found || (is_nothing(value) && is_nothing(found));
    match (newest, candidates.any(alike)) {
        (_, true) => Ok(()),
        (None, false) if is_nothing(found) => Ok(()),
        (None, false) => Err(Violation(format!(
            "{key} was read as {found}, which no transaction wrote: {reader}"
        ))),
        (Some((at, version)), false) => Err(Violation(format!(
            "{key} was read as {found}, which is older than the version at {at:?} that had been acknowledged before: {} and {reader}",
            version.writer
        ))),
    }
}

/// Checks that every read finds what the store promises.
///
/// # Errors
/// The first read that does not.
pub fn judge(history: &[Transaction]) -> Result<(), Violation> {
    let versions = versions(history);
    for reader in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        // A transaction reads its own writes.
        let mut own = BTreeSet::new();
        for op in &reader.ops {
            match op {
                Op::Write(key, _) | Op::Append(key, _) => drop(own.insert(key.as_str())),
                Op::Read(key, found) if !own.contains(key.as_str()) => {
                    check(key, found, &versions, reader)?
                }
                Op::Read(..) => {}
                Op::Scan(low, high, rows) => {
                    let rows: BTreeMap<&str, &Value> =
                        rows.iter().map(|(key, value)| (key.as_str(), value)).collect();
                    let known = versions
                        .keys()
                        .copied()
                        .filter(|key| low.as_str() <= *key && *key < high.as_str());
                    let keys: BTreeSet<&str> = known.chain(rows.keys().copied()).collect();
                    for key in keys.into_iter().filter(|key| !own.contains(key)) {
                        check(
                            key,
                            rows.get(key).copied().unwrap_or(&Value::Nothing),
                            &versions,
                            reader,
                        )?;
                    }
                }
            }
        }
    }
    Ok(())
}
