//! Invariants of workloads, which hold in every order of the transactions.
//!
//! | workload | what its transactions do | what must hold |
//! |---|---|---|
//! | [`bank`] | move money; read all accounts | the total stays, no account is below zero |
//! | [`set`] | add elements once; read all | acknowledged elements stay, failed ones never appear |
//! | [`counter`] | add one; read | a read is between the certain and the possible additions |
//! | [`monotonic`] | add the greatest number and one more | numbers grow in real time |
//! | [`long_fork`] | write one key each; read several | reads agree on the order of two writes |
//! | [`causal_reverse`] | write one key each, in sequence | a read includes all earlier writes |
//!
//! (The workloads are Jepsen's, <https://github.com/jepsen-io/jepsen>.)

use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A description of what is violated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(String);

fn violated(what: String) -> Result<(), Violation> {
    Err(Violation(what))
}

fn ok(transaction: &&Transaction) -> bool {
    transaction.status == Status::Ok
}

/// Returns what a transaction read before it wrote, by key. A scan contributes only keys for which
/// it shows a row.
fn read(transaction: &Transaction) -> BTreeMap<&str, &Value> {
    let mut found = BTreeMap::new();
    for op in &transaction.ops {
        match op {
            Op::Read(key, value) => {
                found.entry(key.as_str()).or_insert(value);
            }
            Op::Scan(_, _, rows) => {
                for (key, value) in rows {
                    found.entry(key.as_str()).or_insert(value);
                }
            }
            Op::Write(..) | Op::Append(..) => break,
        }
    }
    found
}

/// The keys that a transaction wrote, and their last values.
fn written(transaction: &Transaction) -> BTreeMap<&str, &Value> {
    let writes = transaction.ops.iter().filter_map(|op| match op {
        Op::Write(key, value) => Some((key.as_str(), value)),
        _ => None,
    });
    writes.collect()
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Nothing | Value::List(_) => None,
    }
}

/// Checks transfers between `accounts` accounts, each of which holds `opening` until it is first
/// written: a transaction that reads all of them finds all the money.
pub fn bank(history: &[Transaction], accounts: usize, opening: i64) -> Result<(), Violation> {
    let total = opening * accounts as i64;
    for transaction in history.iter().filter(ok) {
        let found = read(transaction);
        let scans = transaction.ops.iter().any(|op| matches!(op, Op::Scan(..)));
        if let Some((account, balance)) =
            found.iter().find(|(_, balance)| number(balance).is_some_and(|n| n < 0))
        {
            return violated(format!("{account} is {balance}: {transaction}"));
        }
        // An account that no scan shows was never written.
        if scans || found.len() == accounts {
            let shown: i64 = found.values().map(|balance| number(balance).unwrap_or(opening)).sum();
            let unseen = accounts.saturating_sub(found.len()) as i64;
            if shown + unseen * opening != total {
                return violated(format!(
                    "all accounts hold {}, not {total}: {transaction}",
                    shown + unseen * opening
                ));
            }
        }
    }
    Ok(())
}

/// Checks keys that are written once and never removed: a scan that began after a write was
/// acknowledged shows it, and a failed write is never shown.
pub fn set(history: &[Transaction]) -> Result<(), Violation> {
    let mut failed: BTreeMap<&str, &Transaction> = BTreeMap::new();
    let mut added: Vec<(u64, &str, &Transaction)> = Vec::new();
    for transaction in history {
        for key in written(transaction).into_keys() {
            match transaction.status {
                Status::Ok => added.push((transaction.end, key, transaction)),
                Status::Fail => drop(failed.insert(key, transaction)),
                Status::Info => {}
            }
        }
    }
    added.sort_unstable_by_key(|(end, key, _)| (*end, *key));
    for transaction in history.iter().filter(ok) {
        for op in &transaction.ops {
            let Op::Scan(low, high, rows) = op else { continue };
            let shown: BTreeSet<&str> = rows.iter().map(|(key, _)| key.as_str()).collect();
            if let Some(writer) = shown.iter().find_map(|key| failed.get(key)) {
                return violated(format!("a failed write was read: {writer} and {transaction}"));
            }
            let before = added.iter().take_while(|(end, ..)| *end < transaction.start);
            let within = |key: &str| low.as_str() <= key && key < high.as_str();
            for (_, key, writer) in before {
                if within(key) && !shown.contains(key) {
                    return violated(format!(
                        "{key} was acknowledged and is missing: {writer} and {transaction}"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Checks a number to which each transaction that writes it adds one.
pub fn counter(history: &[Transaction], key: &str) -> Result<(), Violation> {
    let adds = |transaction: &&Transaction| written(transaction).contains_key(key);
    let mut ended: Vec<u64> =
        history.iter().filter(ok).filter(adds).map(|transaction| transaction.end).collect();
    let begun =
        history.iter().filter(|transaction| transaction.status != Status::Fail).filter(adds);
    let mut begun: Vec<u64> = begun.map(|transaction| transaction.start).collect();
    ended.sort_unstable();
    begun.sort_unstable();
    for transaction in history.iter().filter(ok) {
        let Some(found) = read(transaction).get(key).map(|value| number(value).unwrap_or(0)) else {
            continue;
        };
        let least = ended.partition_point(|end| *end < transaction.start) as i64;
        let most = begun.partition_point(|start| *start <= transaction.end) as i64;
        if !(least..=most).contains(&found) {
            return violated(format!(
                "{key} must be between {least} and {most}, and was read as {found}: {transaction}"
            ));
        }
    }
    Ok(())
}

/// Checks keys each of which holds a number greater than all before: a transaction that began after
/// another had ended wrote the greater number.
pub fn monotonic(history: &[Transaction]) -> Result<(), Violation> {
    let greatest =
        |transaction: &Transaction| written(transaction).into_values().filter_map(number).max();
    let mut by_start: Vec<(i64, &Transaction)> = history
        .iter()
        .filter(ok)
        .filter_map(|transaction| Some((greatest(transaction)?, transaction)))
        .collect();
    let mut by_end = by_start.clone();
    by_start.sort_by_key(|(_, transaction)| transaction.start);
    by_end.sort_by_key(|(_, transaction)| transaction.end);
    let mut ended = by_end.into_iter().peekable();
    let mut newest: Option<(i64, &Transaction)> = None;
    for (number, transaction) in by_start {
        while let Some(before) = ended.next_if(|(_, before)| before.end < transaction.start) {
            newest = newest.filter(|newest| newest.0 >= before.0).or(Some(before));
        }
        if let Some((_, before)) = newest.filter(|(before, _)| *before >= number) {
            return violated(format!(
                "the greater number had been written before: {before} and {transaction}"
            ));
        }
    }
    Ok(())
}

/// Checks keys that are written once: no two reads of two keys each see only a different one.
pub fn long_fork(history: &[Transaction]) -> Result<(), Violation> {
    let reads: Vec<(&Transaction, BTreeMap<&str, &Value>)> =
        history.iter().filter(ok).map(|transaction| (transaction, read(transaction))).collect();
    let there = |value: &Value| *value != Value::Nothing;
    for (at, (one, first)) in reads.iter().enumerate() {
        for (other, second) in &reads[at + 1..] {
            let both = || {
                first
                    .iter()
                    .filter_map(|(key, value)| Some((there(value), there(second.get(key)?))))
            };
            if both().any(|seen| seen == (true, false)) && both().any(|seen| seen == (false, true))
            {
                return violated(format!(
                    "each sees a write that the other does not: {one} and {other}"
                ));
            }
        }
    }
    Ok(())
}

/// Checks keys that are written once: a read that sees a write also sees each write that was
/// acknowledged before that one began, if it read the key.
pub fn causal_reverse(history: &[Transaction]) -> Result<(), Violation> {
    let mut writers: BTreeMap<&str, &Transaction> = BTreeMap::new();
    for transaction in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        writers.extend(written(transaction).into_keys().map(|key| (key, transaction)));
    }
    for transaction in history.iter().filter(ok) {
        let found = read(transaction);
        let of = |wanted: bool| {
            let found =
                found.iter().filter(move |(_, value)| (***value != Value::Nothing) == wanted);
            found.filter_map(|(key, _)| Some((*key, *writers.get(key)?)))
        };
        for (late, after) in of(true) {
            for (early, before) in of(false).filter(|(_, before)| before.status == Status::Ok) {
                if before.end < after.start {
                    return violated(format!(
                        "{late} is seen and {early} is not, which was there before: {transaction}"
                    ));
                }
            }
        }
    }
    Ok(())
}
