//! The judge by timestamps, which is exact: replays everything in the order of commit timestamps.
//!
//! 1. Each transaction that wrote has a timestamp of its own. A read-only transaction shares the
//!    timestamp of the last commit that it saw, and comes after it. A read-only transaction without
//!    a timestamp is not judged here.
//! 2. Each read must return the state after everything before it was replayed, and the
//!    transaction's own earlier writes.
//! 3. A transaction that wrote and ended before another began must not have the greater timestamp.
//!    A read-only one may: a snapshot at `now.latest` lies ahead by the clock uncertainty. If a
//!    later write is below it, rule 2 finds the read wrong.

use crate::{Op, Stamp, Status, Transaction, Value};
use std::collections::BTreeMap;

/// A contradiction to the order of the timestamps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A transaction that happened and wrote has no timestamp: the judge does not apply.
    #[error("a transaction that wrote has no timestamp: {0}")]
    NoTimestamp(Box<Transaction>),
    /// Two transactions that wrote have the same timestamp.
    #[error("two transactions that wrote have the same timestamp: {0} and {1}")]
    Shared(Box<Transaction>, Box<Transaction>),
    /// A read found another value.
    #[error("{key} was {expected} then, and was read as {found}: {transaction}")]
    Read {
        /// The reader.
        transaction: Box<Transaction>,
        /// The key.
        key: String,
        /// The value at that timestamp.
        expected: Value,
        /// The value that was read.
        found: Value,
    },
    /// The order contradicts a causal token.
    #[error("{after} was given the token of {before}, and comes earlier in the order")]
    Token {
        /// The transaction whose token it was.
        before: Box<Transaction>,
        /// The transaction that was given it.
        after: Box<Transaction>,
    },
    /// The order contradicts real time.
    #[error("{before} had ended when {after} began, and comes later in the order")]
    RealTime {
        /// The transaction that ended first.
        before: Box<Transaction>,
        /// The transaction that began then.
        after: Box<Transaction>,
    },
}

impl Violation {
    /// The transactions that contradict each other, or themselves.
    pub fn transactions(&self) -> Vec<&Transaction> {
        match self {
            Violation::NoTimestamp(transaction) | Violation::Read { transaction, .. } => {
                vec![transaction]
            }
            Violation::Shared(one, other) => vec![one, other],
            Violation::Token { before, after } | Violation::RealTime { before, after } => {
                vec![before, after]
            }
        }
    }
}

/// Checks that a history is serializable in the order of its timestamps, and that each transaction
/// comes after those that wrote and whose causal tokens it was given, or that asked for external
/// consistency and had ended.
pub fn causal(history: &[Transaction]) -> Result<(), Violation> {
    replay(history)?;
    real_time(history, |transaction| transaction.external)?;
    let written = |transaction: &&Transaction| {
        transaction.status == Status::Ok && transaction.writes() && transaction.at.is_some()
    };
    let named: BTreeMap<(u64, u64), &Transaction> = history
        .iter()
        .filter(written)
        .map(|transaction| ((transaction.client, transaction.start), transaction))
        .collect();
    let placed =
        |transaction: &&Transaction| transaction.status != Status::Fail && transaction.at.is_some();
    for after in history.iter().filter(placed) {
        let given = after.follows.iter().filter_map(|name| named.get(name));
        if let Some(before) = given.into_iter().find(|before| before.at > after.at) {
            let (before, after) = (Box::new((*before).clone()), Box::new(after.clone()));
            return Err(Violation::Token { before, after });
        }
    }
    Ok(())
}

pub(crate) type State = BTreeMap<String, Value>;

/// Checks that a history is strictly serializable in the order of its timestamps. An `info` with a
/// timestamp happened then; one without did not happen.
pub fn judge(history: &[Transaction]) -> Result<(), Violation> {
    replay(history)?;
    real_time(history, |_| true)
}

/// Checks that a history is serializable in the order of its timestamps, whatever real time says.
pub fn replay(history: &[Transaction]) -> Result<(), Violation> {
    let mut happened: Vec<(Stamp, bool, &Transaction)> = Vec::new();
    for transaction in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        match (transaction.at, transaction.status) {
            (Some(at), _) => happened.push((at, !transaction.writes(), transaction)),
            // A snapshot of the present by its own reads only: it has no place in the order of all,
            // and `cycles` checks that it was the present.
            (None, Status::Ok) if !transaction.writes() => {}
            (None, Status::Ok) => {
                return Err(Violation::NoTimestamp(Box::new(transaction.clone())));
            }
            (None, _) => {}
        }
    }
    happened.sort_by_key(|(at, reader, _)| (*at, *reader));
    let mut state = State::new();
    let mut last: Option<(Stamp, &Transaction)> = None;
    for (at, reader, transaction) in happened {
        if !reader {
            if let Some((_, other)) = last.filter(|(other, _)| *other == at) {
                return Err(Violation::Shared(
                    Box::new(other.clone()),
                    Box::new(transaction.clone()),
                ));
            }
            last = Some((at, transaction));
        }
        step(&mut state, transaction)?;
    }
    Ok(())
}

/// Applies a transaction to the state; its reads must match the state.
pub(crate) fn step(state: &mut State, transaction: &Transaction) -> Result<(), Violation> {
    let known = transaction.status == Status::Ok;
    let compare = |key: &String, expected: &Value, found: &Value| {
        if !known || expected.same(found) {
            return Ok(());
        }
        let (transaction, key) = (Box::new(transaction.clone()), key.clone());
        Err(Violation::Read { transaction, key, expected: expected.clone(), found: found.clone() })
    };
    for op in &transaction.ops {
        match op {
            Op::Read(key, found) => compare(key, state.get(key).unwrap_or(&Value::Nothing), found)?,
            Op::Write(key, Value::Nothing) => drop(state.remove(key)),
            Op::Write(key, value) => drop(state.insert(key.clone(), value.clone())),
            Op::Append(key, element) => {
                let value = state.get(key).unwrap_or(&Value::Nothing).appended(*element);
                state.insert(key.clone(), value);
            }
            Op::Scan(low, high, rows) => {
                let found: BTreeMap<&String, &Value> =
                    rows.iter().map(|(key, value)| (key, value)).collect();
                if low < high {
                    for (key, expected) in state.range(low.clone()..high.clone()) {
                        compare(key, expected, found.get(key).copied().unwrap_or(&Value::Nothing))?;
                    }
                }
                for (key, value) in &found {
                    compare(key, state.get(*key).unwrap_or(&Value::Nothing), value)?;
                }
            }
        }
    }
    Ok(())
}

/// Checks that no transaction of these that wrote and surely ended before another began has a
/// greater timestamp.
fn real_time(
    history: &[Transaction],
    these: impl Fn(&Transaction) -> bool,
) -> Result<(), Violation> {
    let timed =
        |transaction: &&Transaction| transaction.status != Status::Fail && transaction.at.is_some();
    let mut by_start: Vec<&Transaction> = history.iter().filter(timed).collect();
    let ok = |transaction: &&Transaction| {
        transaction.status == Status::Ok && transaction.writes() && these(transaction)
    };
    let mut by_end: Vec<&Transaction> = by_start.iter().copied().filter(ok).collect();
    by_start.sort_by_key(|transaction| transaction.start);
    by_end.sort_by_key(|transaction| transaction.end);
    let mut ended = by_end.into_iter().peekable();
    let mut newest: Option<&Transaction> = None;
    for transaction in by_start {
        while let Some(before) = ended.next_if(|before| before.end < transaction.start) {
            newest = newest.filter(|known| known.at >= before.at).or(Some(before));
        }
        if let Some(before) = newest.filter(|before| before.at > transaction.at) {
            let (before, after) = (Box::new(before.clone()), Box::new(transaction.clone()));
            return Err(Violation::RealTime { before, after });
        }
    }
    Ok(())
}
