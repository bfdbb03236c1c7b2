//! What registers tell: a value names its writer, and who reads one value and writes another follows it.

use super::graph::Graph;
use super::{Violation, Why};
use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction read of a register from outside of itself, and what it wrote, in order.
#[derive(Default)]
struct Use<'a> {
    read: Option<&'a Value>,
    written: Vec<&'a Value>,
}

/// Who used a register.
type Users<'a> = BTreeMap<usize, Use<'a>>;

/// Relates all who read or wrote registers.
pub(super) fn relate<'a>(history: &'a [Transaction], graph: &mut Graph<'a>) -> Result<(), Violation> {
    let ops = || history.iter().flat_map(|transaction| &transaction.ops);
    let mut keys: BTreeSet<&String> = BTreeSet::new();
    for op in ops() {
        if let Op::Write(key, Value::Number(_) | Value::Nothing) = op {
            keys.insert(key);
        }
    }
    for op in ops() {
        if let Op::Append(key, _) | Op::Write(key, Value::List(_)) = op {
            keys.remove(key);
        }
    }
    let registers: BTreeMap<&String, Users<'a>> = super::by_key(history, |transaction| used(transaction, &keys))?;
    registers.iter().try_for_each(|(key, users)| register(history, users, key, graph))
}

fn used<'a>(
    transaction: &'a Transaction,
    keys: &BTreeSet<&'a String>,
) -> Result<BTreeMap<&'a String, Use<'a>>, Violation> {
    let mut uses: BTreeMap<&String, Use<'_>> = BTreeMap::new();
    let read = |uses: &mut BTreeMap<&'a String, Use<'a>>, key: &'a String, value: &'a Value| {
        if transaction.status != Status::Ok {
            return Ok(()); // Nobody was told what it read.
        }
        let known = uses.entry(key).or_default();
        match known.written.last().copied().or(known.read) {
            Some(before) if before != value => {
                Err(Violation::Internal { key: key.clone(), transaction: Box::new(transaction.clone()) })
            }
            Some(_) => Ok(()),
            None => {
                known.read = Some(value);
                Ok(())
            }
        }
    };
    for op in &transaction.ops {
        match op {
            Op::Read(key, value) if keys.contains(key) => read(&mut uses, key, value)?,
            Op::Write(key, value) if keys.contains(key) => uses.entry(key).or_default().written.push(value),
            Op::Scan(low, high, rows) => {
                for (key, value) in super::shown(keys, low, high, rows) {
                    read(&mut uses, key, value)?;
                }
            }
            Op::Read(..) | Op::Write(..) | Op::Append(..) => {}
        }
    }
    Ok(uses)
}

fn register<'a>(
    history: &[Transaction],
    users: &Users<'a>,
    key: &'a str,
    graph: &mut Graph<'a>,
) -> Result<(), Violation> {
    let boxed = |at: usize| Box::new(history[at].clone());
    let mut writers: BTreeMap<i64, usize> = BTreeMap::new();
    let mut deleted = false;
    for (at, used) in users {
        for value in &used.written {
            match value {
                Value::Number(number) if writers.insert(*number, *at).is_some() => return Ok(()), // It names nobody.
                Value::Number(_) => {}
                _ => deleted = true,
            }
        }
    }
    // Whom a value is from; `None` of what stood there at first.
    let writer = |at: usize, value: &Value| match value {
        Value::Number(number) => match writers.get(number) {
            None => Err(Violation::Garbage { key: key.to_owned(), element: *number, reader: boxed(at) }),
            Some(writer) if history[*writer].status == Status::Fail => {
                let (writer, reader) = (boxed(*writer), boxed(at));
                Err(Violation::AbortedRead { key: key.to_owned(), element: *number, writer, reader })
            }
            Some(writer) if users[writer].written.last() != Some(&value) && *writer != at => {
                Err(Violation::IntermediateRead { key: key.to_owned(), writer: boxed(*writer), reader: boxed(at) })
            }
            Some(writer) => Ok(Some(*writer)),
        },
        _ => Ok(None),
    };
    // Who read a value and wrote another; after nothing, whoever wrote, unless it may stand for a deletion.
    let mut after: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    let happened = |at: usize| history[at].status == Status::Ok;
    for (at, used) in users.iter().filter(|(at, used)| happened(**at) && !used.written.is_empty()) {
        match used.read {
            Some(Value::Nothing) | None if !deleted => after.entry(None).or_default().push(*at),
            Some(value) => {
                if let Some(before) = writer(*at, value)? {
                    after.entry(Some(before)).or_default().push(*at);
                    // Of whom it read from, the same is said, if he surely wrote.
                    if !deleted && !happened(before) {
                        after.entry(None).or_default().push(*at);
                    }
                }
            }
            None => {}
        }
    }
    for (at, used) in users.iter().map(|(at, used)| (*at, used)) {
        let Some(value) = used.read else { continue };
        let from = writer(at, value)?;
        graph.relate(from, Some(at), Why::Wr, key);
        for next in after.get(&from).into_iter().flatten().filter(|next| **next != at) {
            graph.relate(Some(at), Some(*next), Why::Rw, key);
            graph.relate(from, Some(*next), Why::Ww, key);
            if !used.written.is_empty() && users[next].read == used.read {
                graph.one_is_lost(at, *next, key);
            }
        }
    }
    Ok(())
}
