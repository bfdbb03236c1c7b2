//! What a store promises that has no transactions, writes every key to all replicas and reads at
//! any of them: **an acknowledged write is never unseen again**.
//!
//! Of a key the version with the highest timestamp stands (last writer wins). So every read of a
//! key, at whichever replica, finds
//!
//! 1. a version that was written, whole, by a transaction that was not told to have failed; or
//!    nothing, where nothing or a deletion stands;
//! 2. none that is older than the newest that was acknowledged before the read began.
//!
//! Nothing else is promised: not isolation (half of what one transaction writes may be seen), not
//! atomicity (what was not acknowledged may stand at some replicas for ever), and not the order of
//! real time (a writer whose clock is behind loses against what was acknowledged before).
//!
//! The judge needs the timestamps of writes, and values that are written once.

use crate::{Op, Stamp, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What is broken, in words.
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

/// A list that was never written and a register that was never written read alike.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Nothing) || matches!(value, Value::List(list) if list.is_empty())
}

/// What a transaction leaves behind, by key: an append writes what was read last, and one more.
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
        // What has no timestamp stands nowhere: nothing of it can be read.
        let Some(at) = writer.at else { continue };
        let acknowledged = (writer.status == Status::Ok).then_some(writer.end);
        for (key, value) in written(writer) {
            versions.entry(key).or_default().insert(at, Version { value, acknowledged, writer });
        }
    }
    versions
}

/// Whether a reader that began at `start` may have found this.
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
        (None, false) => {
            Err(Violation(format!("{key} was read as {found}, which nothing wrote: {reader}")))
        }
        (Some((at, version)), false) => Err(Violation(format!(
            "{key} was read as {found}, and a version at {at:?} had been acknowledged before, of which nothing newer is that: {} and {reader}",
            version.writer
        ))),
    }
}

/// Whether every read found what the store promises.
///
/// # Errors
/// The first read that did not.
pub fn judge(history: &[Transaction]) -> Result<(), Violation> {
    let versions = versions(history);
    for reader in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        // What a transaction has written it reads itself.
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
