//! The judgement of a run: its history against the versions that the replicas installed.

use crate::client::{MARK, numbers, value};
use meridian_clock::Timestamp;
use meridian_history::cycles::{self, Model};
use meridian_history::{Op, Stamp, Status, Transaction, Value, snapshots, timestamps};
use meridian_mvcc::Write;
use std::collections::BTreeMap;

/// A snapshot read in the past: its timestamp, and the reads.
pub type Past = (Timestamp, Vec<Op>);

/// All committed writes, by commit timestamp.
pub type Installed = BTreeMap<Timestamp, Vec<Write>>;

fn name(write: &Write) -> String {
    String::from_utf8_lossy(write.key.as_ref()).into_owned()
}

/// Returns the mark in a key: the whole key, or the part behind SQL's prefix.
fn mark(key: &[u8]) -> Option<i64> {
    let at = key.iter().position(|byte| *byte == MARK as u8)?;
    let digits = key[at + 1..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.map(|byte| char::from(*byte)).collect::<String>().parse().ok()
}

/// Returns the commits that wrote each element (the last number of each value), and each mark.
fn writers(installed: &Installed) -> (BTreeMap<i64, Stamp>, BTreeMap<i64, Stamp>) {
    let (mut elements, mut marks) = (BTreeMap::new(), BTreeMap::new());
    for (at, writes) in installed {
        for write in writes {
            let last = |stored: &meridian_mvcc::Value| numbers(stored.as_ref()).last().copied();
            match mark(write.key.as_ref()) {
                // An index may repeat the mark later.
                Some(mark) => drop(marks.entry(mark).or_insert(crate::client::stamp(*at))),
                None => {
                    let element = write.value.as_ref().and_then(last);
                    elements.extend(element.map(|element| (element, crate::client::stamp(*at))));
                }
            }
        }
    }
    (elements, marks)
}

/// Returns the last element that a transaction wrote to each key.
fn elements(transaction: &Transaction) -> impl Iterator<Item = i64> + '_ {
    let mut last: BTreeMap<&String, Option<i64>> = BTreeMap::new();
    for op in &transaction.ops {
        match op {
            Op::Append(key, element) | Op::Write(key, Value::Number(element)) => {
                let _ = last.insert(key, Some(*element));
            }
            Op::Write(key, _) => drop(last.insert(key, None)),
            Op::Read(..) | Op::Scan(..) => {}
        }
    }
    last.into_values().flatten()
}

/// The evidence against which a history is judged.
pub struct Evidence<'a> {
    /// The model that the protocol promises: the strict one if clocks kept their bounds.
    pub model: Model,
    /// True if timestamps are of true time.
    pub true_time: bool,
    /// True if clients spoke SQL: they receive no timestamps, and transactions without a mark
    /// cannot be found among the installed versions.
    pub sql: bool,
    /// The mark of each transaction, if it has one; its elements do not identify it then.
    pub marks: &'a [Option<i64>],
    /// The reads at timestamps in the past.
    pub past: &'a [Past],
    /// The writes that replicas installed.
    pub installed: &'a Installed,
}

/// Gives transactions of unknown outcome the timestamps at which they were installed, and checks
/// known outcomes against the installed versions. A transaction is found by its mark if it has one,
/// else by its elements, unless clients spoke SQL.
pub fn date(
    history: &mut [Transaction],
    marks: &[Option<i64>],
    sql: bool,
    installed: &Installed,
) -> Result<(), String> {
    let (by_element, by_mark) = writers(installed);
    for (transaction, mark) in history.iter_mut().zip(marks) {
        let found: Vec<Option<Stamp>> = match mark {
            Some(mark) => vec![by_mark.get(mark).copied()],
            None if sql => Vec::new(),
            None => {
                elements(transaction).map(|element| by_element.get(&element).copied()).collect()
            }
        };
        match transaction.status {
            Status::Ok if sql => {
                transaction.at = found.first().copied().flatten();
                if transaction.at.is_none() && mark.is_some() {
                    return Err(format!("reported committed, but never installed: {transaction}"));
                }
            }
            Status::Ok => {
                if let Some(other) = found.iter().find(|found| **found != transaction.at) {
                    return Err(format!(
                        "reported committed, but installed at {other:?}: {transaction}"
                    ));
                }
            }
            Status::Fail => {
                if let Some(at) = found.iter().flatten().next() {
                    return Err(format!(
                        "reported aborted, but installed at {at:?}: {transaction}"
                    ));
                }
            }
            Status::Info => transaction.at = found.into_iter().flatten().next(),
        }
    }
    Ok(())
}

impl Evidence<'_> {
    /// Judges a history, and gives transactions of unknown outcome the timestamps at which they
    /// were installed.
    pub fn judge(&self, history: &mut [Transaction]) -> Result<(), String> {
        date(history, self.marks, self.sql, self.installed)?;
        if !self.sql {
            let found = match self.model {
                Model::StrictSerializable => {
                    timestamps::judge(history).map_err(|why| why.to_string())
                }
                Model::Causal => timestamps::causal(history).map_err(|why| why.to_string()),
                Model::SnapshotIsolation => {
                    snapshots::judge(history).map_err(|why| why.to_string())
                }
                _ => timestamps::replay(history).map_err(|why| why.to_string()),
            };
            found.map_err(|why| format!("by timestamps: {why}"))?;
        }
        if self.true_time {
            let all = self.model == Model::StrictSerializable;
            let check = |transaction| in_true_time(transaction, all);
            history.iter().try_for_each(check)?;
        }
        cycles::judge(history, self.model).map_err(|why| format!("by cycles: {why}"))?;
        self.past.iter().try_for_each(|(at, ops)| exactly(*at, ops, self.installed))
    }
}

/// Checks timestamps against true time: a commit timestamp is not before the start of its
/// transaction (Spanner §4.1.2: start; HybridTime, Theorem 2), and has passed when it is reported,
/// if `all` are externally consistent or this transaction is (commit wait).
fn in_true_time(transaction: &Transaction, all: bool) -> Result<(), String> {
    let (Status::Ok, Some((nanos, ..))) = (transaction.status, transaction.at) else {
        return Ok(());
    };
    if nanos >= transaction.end && transaction.writes() && (all || transaction.external) {
        return Err(format!("by true time: reported before its timestamp passed: {transaction}"));
    }
    if transaction.writes() && nanos < transaction.start {
        return Err(format!("by true time: its timestamp is before its start: {transaction}"));
    }
    Ok(())
}

/// Checks that a read at a timestamp returned exactly the versions committed up to it.
fn exactly(at: Timestamp, ops: &[Op], installed: &Installed) -> Result<(), String> {
    let mut state: BTreeMap<String, Value> = BTreeMap::new();
    for write in installed.range(..=at).flat_map(|(_, writes)| writes) {
        let key = name(write);
        match value(&key, write.value.as_ref().map(|stored| stored.as_ref())) {
            Value::Nothing => drop(state.remove(&key)),
            found => drop(state.insert(key, found)),
        }
    }
    let check = |key: &String, found: &Value| {
        let expected = state.get(key).unwrap_or(&Value::Nothing);
        if expected == found {
            Ok(())
        } else {
            Err(format!("{key} was {expected} at {at}, and was read as {found}"))
        }
    };
    for op in ops {
        match op {
            Op::Read(key, found) => check(key, found)?,
            Op::Scan(low, high, rows) => {
                let found: BTreeMap<String, Value> = rows.iter().cloned().collect();
                for key in
                    state.range(low.clone()..high.clone()).map(|(key, _)| key).chain(found.keys())
                {
                    check(key, found.get(key).unwrap_or(&Value::Nothing))?;
                }
            }
            Op::Write(..) | Op::Append(..) => {}
        }
    }
    Ok(())
}
