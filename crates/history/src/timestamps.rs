//! The exact judge: everything that happened, replayed in the order of its commit timestamps.
//!
//! 1. Whoever wrote has a timestamp of its own. Who only read shares the one of the last commit
//!    that it saw: it comes after it. Who only read and tells no timestamp is not judged here.
//! 2. Each read must return what stands there when everything before was replayed, and its own
//!    earlier writes.
//! 3. Who wrote, and ended before another began, has not the greater timestamp. Who only read may
//!    have: a snapshot at `now.latest` lies ahead by what the clocks do not know. What begins after
//!    it and writes below it is missing in what it read.

use crate::{Op, Stamp, Status, Transaction, Value};
use std::collections::BTreeMap;

/// What contradicts the order of the timestamps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A transaction that happened and wrote has no timestamp: nothing can be said.
    #[error("a transaction that wrote tells no timestamp: {0}")]
    NoTimestamp(Box<Transaction>),
    /// Two that wrote share one.
    #[error("two transactions that wrote have one timestamp: {0} and {1}")]
    Shared(Box<Transaction>, Box<Transaction>),
    /// A read saw something else.
    #[error("{key} was {expected} then, and was read as {found}: {transaction}")]
    Read {
        /// Who read.
        transaction: Box<Transaction>,
        /// The key.
        key: String,
        /// What stood there at that timestamp.
        expected: Value,
        /// What was read.
        found: Value,
    },
    /// The order is not that of real time.
    #[error("{before} had ended when {after} began, and comes later in the order")]
    RealTime {
        /// Who ended.
        before: Box<Transaction>,
        /// Who began then.
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
            Violation::RealTime { before, after } => vec![before, after],
        }
    }
}

type State = BTreeMap<String, Value>;

/// Whether a history is strictly serializable in the order of its timestamps. An `info` with a
/// timestamp happened then; one without did not.
pub fn judge(history: &[Transaction]) -> Result<(), Violation> {
    replay(history)?;
    real_time(history)
}

/// Whether a history is serializable in the order of its timestamps, whatever real time says.
pub fn replay(history: &[Transaction]) -> Result<(), Violation> {
    let mut happened: Vec<(Stamp, bool, &Transaction)> = Vec::new();
    for transaction in history.iter().filter(|transaction| transaction.status != Status::Fail) {
        match (transaction.at, transaction.status) {
            (Some(at), _) => happened.push((at, !transaction.writes(), transaction)),
            // Of the present in what it read only: it has no place in the order of all, and
            // `cycles` says whether that was the present.
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

/// Does what a transaction did; what it read must be what stands there.
fn step(state: &mut State, transaction: &Transaction) -> Result<(), Violation> {
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

/// Of those that wrote and surely ended before one began, none has a greater timestamp.
fn real_time(history: &[Transaction]) -> Result<(), Violation> {
    let timed =
        |transaction: &&Transaction| transaction.status != Status::Fail && transaction.at.is_some();
    let mut by_start: Vec<&Transaction> = history.iter().filter(timed).collect();
    let ok = |transaction: &&Transaction| transaction.status == Status::Ok && transaction.writes();
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
