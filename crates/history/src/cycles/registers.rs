//! Registers: a value names its writer, and a transaction that reads one value and writes another
//! follows that writer.

use super::graph::Graph;
use super::{Kinds, Violation, Why};
use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction's use of a register: what it read of other transactions, and what it wrote, in
/// order.
#[derive(Default)]
struct Use<'a> {
    read: Option<&'a Value>,
    written: Vec<&'a Value>,
}

/// The uses of a register.
type Users<'a> = BTreeMap<usize, Use<'a>>;

/// The source of a value that was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The register was never written.
    Start,
    /// The register was never written, or a transaction deleted its value.
    StartOrDeletion,
    /// This transaction wrote it.
    Writer(usize),
}

/// Collects reads and writes, register by register. The flag is true if the writer of each value
/// that was read is known.
pub(super) fn collect<'a>(
    history: &[&'a Transaction],
    kinds: &Kinds<'a>,
) -> Result<(Vec<Register<'a>>, bool), Violation> {
    let users: BTreeMap<&String, Users<'a>> =
        super::by_key(history, |transaction| used(transaction, &kinds.registers))?;
    let (mut registers, mut named) = (Vec::new(), true);
    for (key, users) in users {
        let register = Register::new(history, users, key)?;
        let unclear = |source: &Source| *source == Source::StartOrDeletion;
        named &= register.as_ref().is_some_and(|register| !register.sources.values().any(unclear));
        registers.extend(register);
    }
    Ok((registers, named))
}

fn used<'a>(
    transaction: &'a Transaction,
    keys: &BTreeSet<&'a String>,
) -> Result<BTreeMap<&'a String, Use<'a>>, Violation> {
    let mut uses: BTreeMap<&String, Use<'_>> = BTreeMap::new();
    let read = |uses: &mut BTreeMap<&'a String, Use<'a>>, key: &'a String, value: &'a Value| {
        if transaction.status != Status::Ok {
            return Ok(()); // Its client received no results.
        }
        let known = uses.entry(key).or_default();
        match known.written.last().copied().or(known.read) {
            Some(before) if !before.same(value) => Err(Violation::Internal {
                key: key.clone(),
                transaction: Box::new(transaction.clone()),
            }),
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
            Op::Write(key, value) if keys.contains(key) => {
                uses.entry(key).or_default().written.push(value)
            }
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

/// A register each of whose numbers was written once.
pub(super) struct Register<'a> {
    pub(super) key: &'a str,
    users: Users<'a>,
    /// By reading transaction: the source of the value.
    sources: BTreeMap<usize, Source>,
    /// True if a transaction that may have happened deleted the value.
    deleted: bool,
}

impl<'a> Register<'a> {
    /// Returns `None` if a number was written twice: it names no writer.
    fn new(
        history: &[&'a Transaction],
        users: Users<'a>,
        name: &'a String,
    ) -> Result<Option<Self>, Violation> {
        let boxed = |at: usize| Box::new(history[at].clone());
        let key = || name.clone();
        let (mut writers, mut deleted) = (BTreeMap::new(), false);
        for (at, used) in &users {
            for value in &used.written {
                match value {
                    Value::Number(number) if writers.insert(*number, *at).is_some() => {
                        return Ok(None);
                    }
                    Value::Number(_) => {}
                    _ => deleted |= history[*at].status != Status::Fail,
                }
            }
        }
        let garbage = |element, at| Violation::Garbage { key: key(), element, reader: boxed(at) };
        let source = |at: usize, value: &Value| match value {
            Value::Number(number) => match writers.get(number).copied() {
                None => Err(garbage(*number, at)),
                Some(writer) if writer == at => {
                    Err(Violation::Future { key: key(), transaction: boxed(at) })
                }
                Some(writer) if history[writer].status == Status::Fail => {
                    let (writer, reader) = (boxed(writer), boxed(at));
                    Err(Violation::AbortedRead { key: key(), element: *number, writer, reader })
                }
                Some(writer) if users[&writer].written.last() != Some(&value) => {
                    Err(Violation::IntermediateRead {
                        key: key(),
                        writer: boxed(writer),
                        reader: boxed(at),
                    })
                }
                Some(writer) => Ok(Source::Writer(writer)),
            },
            Value::List(list) if !list.is_empty() => Err(garbage(list[0], at)),
            Value::List(_) | Value::Nothing if deleted => Ok(Source::StartOrDeletion),
            Value::List(_) | Value::Nothing => Ok(Source::Start),
        };
        let read = users.iter().filter_map(|(at, used)| Some((*at, used.read?)));
        let sources =
            read.map(|(at, value)| Ok((at, source(at, value)?))).collect::<Result<_, _>>()?;
        Ok(Some(Register { key: name, users, sources, deleted }))
    }

    /// The transactions whose numbers were read.
    pub(super) fn seen(&self) -> impl Iterator<Item = usize> + '_ {
        self.sources.values().filter_map(|source| match source {
            Source::Writer(writer) => Some(*writer),
            Source::Start | Source::StartOrDeletion => None,
        })
    }

    /// The transactions that surely wrote.
    pub(super) fn writers<'b>(&'b self, happened: &'b [bool]) -> impl Iterator<Item = usize> + 'b {
        let wrote = |(at, used): (&usize, &Use<'_>)| {
            (happened[*at] && !used.written.is_empty()).then_some(*at)
        };
        self.users.iter().filter_map(wrote)
    }

    /// True if reads leave the order of its writers open: several wrote, not all after a read.
    pub(super) fn is_open(&self, happened: &[bool]) -> bool {
        let looked =
            |at: usize| matches!(self.sources.get(&at), Some(Source::Start | Source::Writer(_)));
        self.writers(happened).nth(1).is_some() && !self.writers(happened).all(looked)
    }

    /// The transactions that read a number, each with the one that wrote it.
    pub(super) fn reads(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.sources.iter().filter_map(|(at, source)| match source {
            Source::Writer(writer) => Some((*at, *writer)),
            Source::Start | Source::StartOrDeletion => None,
        })
    }

    pub(super) fn relate(&self, happened: &[bool], graph: &mut Graph<'a>) {
        // By writer: the transactions that read its value and wrote. For no writer: those that
        // wrote and had read no value, or nothing, unless a deletion may be the reason.
        let mut after: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for at in self.writers(happened) {
            match self.sources.get(&at) {
                Some(Source::Writer(before)) => after.entry(Some(*before)).or_default().push(at),
                Some(Source::Start) => after.entry(None).or_default().push(at),
                None if !self.deleted => after.entry(None).or_default().push(at),
                Some(Source::StartOrDeletion) | None => {}
            }
        }
        for (at, source) in &self.sources {
            let from = match source {
                Source::Writer(writer) => Some(*writer),
                Source::Start => None,
                Source::StartOrDeletion => continue,
            };
            graph.relate(from, Some(*at), Why::Wr, self.key);
            for next in after.get(&from).into_iter().flatten().filter(|next| *next != at) {
                graph.relate(Some(*at), Some(*next), Why::Rw, self.key);
                graph.relate(from, Some(*next), Why::Ww, self.key);
                if !self.users[at].written.is_empty() && self.sources.get(next) == Some(source) {
                    graph.one_is_lost(*at, *next, self.key);
                }
            }
        }
    }

    /// Relates all users as if the writers had written in the order of `places`.
    pub(super) fn relate_in_order(
        &self,
        places: &[usize],
        happened: &[bool],
        graph: &mut Graph<'a>,
    ) {
        let mut writers: Vec<usize> = self.writers(happened).collect();
        writers.sort_by_key(|at| places[*at]);
        for pair in writers.windows(2) {
            graph.relate(Some(pair[0]), Some(pair[1]), Why::Ww, self.key);
        }
        for (at, source) in &self.sources {
            let next = match source {
                Source::Writer(from) => {
                    writers.iter().position(|writer| writer == from).map_or(0, |place| place + 1)
                }
                Source::Start | Source::StartOrDeletion => 0,
            };
            graph.relate(Some(*at), writers.get(next).copied(), Why::Rw, self.key);
        }
    }
}
