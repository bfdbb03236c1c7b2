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
    /// The distance in nanoseconds beyond which transactions keep the order of real time even under
    /// the causal model: twice the largest clock error. `None` if clocks are not bounded.
    pub apart_ns: Option<u64>,
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
        if let Some(by_ns) = self.apart_ns {
            self.judge_distant(&ending_later(history, by_ns))
                .map_err(|why| format!("apart by more than {by_ns} ns: {why}"))?;
        }
        self.past.iter().try_for_each(|(at, ops)| exactly(*at, ops, self.installed))
    }
}

impl Evidence<'_> {
    /// Judges the real time of a history whose ends were put off: only transactions that are
    /// further apart than that are related.
    fn judge_distant(&self, history: &[Transaction]) -> Result<(), String> {
        if !self.sql {
            timestamps::judge(history).map_err(|why| format!("by timestamps: {why}"))?;
        }
        let strict = cycles::judge(history, Model::StrictSerializable);
        strict.map_err(|why| format!("by cycles: {why}"))
    }
}

/// Checks that reads that have no place in a history's order found what was committed, whole. Each
/// read of a transaction stands for itself.
pub fn committed_reads(history: &[Transaction], reads: &[Transaction]) -> Result<(), String> {
    let alone =
        |reader: &Transaction, op: &Op| Transaction { ops: vec![op.clone()], ..reader.clone() };
    let reads = reads.iter().flat_map(|reader| reader.ops.iter().map(|op| alone(reader, op)));
    let all: Vec<Transaction> = history.iter().cloned().chain(reads).collect();
    cycles::judge(&all, Model::ReadCommitted).map_err(|why| format!("by cycles: {why}"))
}

/// Returns a history in which each transaction ends later by this number of nanoseconds.
pub fn ending_later(history: &[Transaction], by_ns: u64) -> Vec<Transaction> {
    let later = |it: &Transaction| Transaction { end: it.end + by_ns, ..it.clone() };
    history.iter().map(later).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wrote(client: u64, period: (u64, u64), nanos: u64, external: bool) -> Transaction {
        let ops = vec![Op::Write(format!("r{client}"), Value::Number(client as i64))];
        let at = Some((nanos, 0, 0));
        Transaction { at, external, ..Transaction::new(client, period, Status::Ok, ops) }
    }

    fn judged(history: &mut [Transaction], apart_ns: Option<u64>) -> Result<(), String> {
        let write = |it: &Transaction| {
            let key = format!("r{}", it.client).as_str().into();
            let value = Some((it.client as i64).to_be_bytes().to_vec().into());
            let (nanos, logical, issuer) = it.at.expect("it is dated");
            (Timestamp { nanos, logical, issuer }, vec![Write { key, value }])
        };
        let installed: Installed = history.iter().map(write).collect();
        let marks = vec![None; history.len()];
        let (model, true_time, sql) = (Model::Causal, true, false);
        let (marks, past, installed) = (&marks[..], &[][..], &installed);
        Evidence { model, true_time, apart_ns, sql, marks, past, installed }.judge(history)
    }

    /// The first transaction is 40 ahead of its end, as a clock with an error of 20 allows.
    #[test]
    fn transactions_change_places_only_if_they_are_near() {
        let two = |start, external| {
            [wrote(1, (10, 20), 60, external), wrote(2, (start, start + 9), start, false)]
        };
        assert_eq!(judged(&mut two(50, false), Some(40)), Ok(()));
        let why = judged(&mut two(61, false), Some(40));
        assert_eq!(why, Ok(()), "it is further apart, and later in the order");
        let mut late = two(61, false);
        late[0].at = Some((70, 0, 0));
        let why = judged(&mut late, Some(40)).expect_err("further apart, and earlier");
        assert!(why.starts_with("apart by more than 40 ns"), "{why}");
        assert_eq!(judged(&mut late, None), Ok(()), "clocks that lie promise nothing");
        let why = judged(&mut two(50, true), Some(40)).expect_err("it did not wait");
        assert!(why.starts_with("by timestamps"), "{why}");
    }

    #[test]
    fn a_read_in_mode_none_shows_only_what_was_committed() {
        let read = |found| Transaction {
            ops: vec![Op::Read("r1".into(), Value::Number(found))],
            at: None,
            ..wrote(3, (1, 99), 0, false)
        };
        let history = [wrote(1, (10, 20), 15, false)];
        assert_eq!(committed_reads(&history, &[read(1)]), Ok(()));
        committed_reads(&history, &[read(7)]).expect_err("no transaction wrote it");
    }
}
