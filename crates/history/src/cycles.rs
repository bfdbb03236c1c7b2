//! The judge that needs no timestamps: what was read tells who must precede whom.
//!
//! ```text
//!        lists                                             registers
//!   ww   A appended the element just before B's            B read A's value and wrote another     A → B
//!   wr   B read a list that ends with A's element          B read A's value                       A → B
//!   rw   A read a list to which B appended next            B read what A did, and wrote           A → B
//!   rt   A had ended when B began (strict serializability only)                                   A → B
//! ```
//!
//! Lists tell their whole order, registers a part of it. The order of two blind writes to a
//! register follows from what else is known, as far as it follows (`forced`): if a read of one
//! comes after the other, the other is older; and what read the older one comes before the newer.
//!
//! A judge of cycles refutes. Where it finds no cycle, there is no order for certain only if it
//! knows the order of all versions; [`crate::judge`] looks for an order then.
//!
//! A cycle means that there is no order (Adya, "Weak Consistency", 1999; Kingsbury and Alvaro,
//! "Elle", VLDB 2020). Besides cycles, these are wrong: a read of what no transaction wrote, or of
//! what an aborted one wrote, or of what the reader itself wrote afterwards; a read in the middle
//! of a transaction's own writes; an element that stands in a list twice; two reads of a list
//! neither of which continues the other; a scan that shows a key twice or outside its range.
//!
//! 1. Each element of a list is appended once in a history, and each number written to a register
//!    once. A key for which that is not so is not looked at, nor one that is both.
//! 2. An `info` transaction happened if a client read a value of it: then all that it wrote
//!    happened. Otherwise it may not have happened, and nothing is inferred from it.

mod forced;
mod graph;
mod lists;
mod registers;

use crate::{Op, Status, Transaction, Value};
pub(crate) use graph::Graph;
use lists::List;
use registers::Register;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;

/// What a history is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// No cycle of ww and wr (Adya's PL-2).
    ReadCommitted,
    /// No cycle in which no two rw follow each other (Cerone and Gotsman, 2018).
    SnapshotIsolation,
    /// No cycle of ww, wr and rw (PL-3).
    Serializable,
    /// No cycle at all.
    StrictSerializable,
}

/// Why one must precede another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It appended before.
    Ww,
    /// Its element was read.
    Wr,
    /// It did not see the other's element.
    Rw,
    /// It had ended when the other began.
    RealTime,
}

/// One step of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Who comes first.
    pub from: Transaction,
    /// Who comes after.
    pub to: Transaction,
    /// Why.
    pub why: Why,
    /// The list over which they met.
    pub key: Option<String>,
    /// The third transaction from which a step follows that no read shows: for `Ww` the one that
    /// read what `to` wrote and comes after `from`, for `Rw` the one from which `from` read and
    /// which precedes `to`.
    pub through: Option<Transaction>,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is no order.
    #[error("{}", Cycle(.0))]
    Cycle(Vec<Edge>),
    /// An element or number was read that nobody wrote.
    #[error("nobody put {element} into {key}, and it was read: {reader}")]
    Garbage {
        /// The list.
        key: String,
        /// The element.
        element: i64,
        /// Who read it.
        reader: Box<Transaction>,
    },
    /// An element was read of a transaction that did not happen (G1a).
    #[error("{element} of {key} was read though its transaction failed: {writer} and {reader}")]
    AbortedRead {
        /// The list.
        key: String,
        /// The element.
        element: i64,
        /// Who failed.
        writer: Box<Transaction>,
        /// Who read it.
        reader: Box<Transaction>,
    },
    /// A key was read in the middle of a transaction's writes to it (G1b).
    #[error("{key} was read between two writes of one transaction: {writer} and {reader}")]
    IntermediateRead {
        /// The list.
        key: String,
        /// Who wrote more than was seen.
        writer: Box<Transaction>,
        /// Who read it.
        reader: Box<Transaction>,
    },
    /// An element stands in a list twice that was appended once.
    #[error("{element} was appended to {key} once and stands there twice: {transaction}")]
    Twice {
        /// The list.
        key: String,
        /// The element.
        element: i64,
        /// The transaction that saw it.
        transaction: Box<Transaction>,
    },
    /// Two reads of a list, neither of which continues the other.
    #[error("two reads of {key} contradict each other: {one} and {other}")]
    Diverged {
        /// The list.
        key: String,
        /// A read.
        one: Box<Transaction>,
        /// Another.
        other: Box<Transaction>,
    },
    /// A transaction does not see its own earlier reads and appends.
    #[error("{key} changed within a transaction by itself: {transaction}")]
    Internal {
        /// The list.
        key: String,
        /// The transaction.
        transaction: Box<Transaction>,
    },
    /// A transaction read what it wrote only afterwards.
    #[error(
        "{key} was read with what the transaction itself wrote to it afterwards: {transaction}"
    )]
    Future {
        /// The key.
        key: String,
        /// The transaction.
        transaction: Box<Transaction>,
    },
    /// A scan shows a key outside its range, or a key twice.
    #[error("a scan shows {key} twice or outside its range: {transaction}")]
    Row {
        /// The key.
        key: String,
        /// The transaction that scanned.
        transaction: Box<Transaction>,
    },
}

impl Violation {
    /// The transactions that contradict each other, or themselves.
    pub fn transactions(&self) -> Vec<&Transaction> {
        match self {
            Violation::Cycle(edges) => edges.iter().map(|edge| &edge.from).collect(),
            Violation::Garbage { reader, .. } => vec![reader],
            Violation::AbortedRead { writer, reader, .. }
            | Violation::IntermediateRead { writer, reader, .. } => {
                vec![writer, reader]
            }
            Violation::Diverged { one, other, .. } => vec![one, other],
            Violation::Twice { transaction, .. }
            | Violation::Internal { transaction, .. }
            | Violation::Future { transaction, .. }
            | Violation::Row { transaction, .. } => vec![transaction],
        }
    }
}

struct Cycle<'a>(&'a [Edge]);

impl fmt::Display for Cycle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no order of these is possible:")?;
        for (number, edge) in self.0.iter().enumerate() {
            write!(f, "\n  T{} = {}", number + 1, edge.from)?;
        }
        for (number, edge) in self.0.iter().enumerate() {
            let (one, next) = (number + 1, (number + 1) % self.0.len() + 1);
            let key = edge.key.as_deref().unwrap_or_default();
            write!(f, "\n  T{one} < T{next}: ")?;
            match (edge.why, &edge.through) {
                (Why::Ww, None) => write!(f, "it wrote to {key} before")?,
                (Why::Ww, Some(reader)) => {
                    write!(
                        f,
                        "both wrote to {key}, and what T{next} wrote was read after T{one}, by: {reader}"
                    )?;
                }
                (Why::Wr, _) => write!(f, "what it wrote to {key} was read")?,
                (Why::Rw, None) => write!(f, "it read {key} without what the other wrote to it")?,
                (Why::Rw, Some(writer)) => {
                    write!(
                        f,
                        "T{next} wrote to {key} after the transaction of which T{one} read it: {writer}"
                    )?;
                }
                (Why::RealTime, _) => write!(f, "it had ended when the other began")?,
            }
        }
        Ok(())
    }
}

/// Whether a history contradicts what a model promises. `Ok` says that no contradiction was found.
pub fn judge(history: &[Transaction], model: Model) -> Result<(), Violation> {
    let history: Vec<&Transaction> = history.iter().collect();
    infer(&history, model).map(drop)
}

/// What a history tells about the order of its transactions.
pub(crate) struct Inferred<'a> {
    /// What precedes what, in every order that explains the history.
    pub(crate) graph: Graph<'a>,
    lists: Vec<List<'a>>,
    /// Those whose values name their writers.
    registers: Vec<Register<'a>>,
    /// Whether the writer of each value that was read is known.
    pub(crate) named: bool,
    /// By transaction: `ok`, or `info` of which a client read something.
    pub(crate) happened: Vec<bool>,
}

impl Inferred<'_> {
    /// Whether the model is kept if transactions that wrote the same key did so in the order
    /// `before`, as far as the inferred order does not say otherwise. Every version has a known
    /// place then, so that the answer yes is a proof; the answer no is none.
    pub(crate) fn keeps_order(
        mut self,
        before: impl Fn(usize, usize) -> std::cmp::Ordering,
    ) -> bool {
        let Some(places) = self.graph.places(before) else { return false };
        for list in &self.lists {
            list.relate_in_order(&places, &self.happened, &mut self.graph);
        }
        for register in &self.registers {
            register.relate_in_order(&places, &self.happened, &mut self.graph);
        }
        self.named && self.graph.cycle().is_none()
    }
}

/// What must precede what, or why that is impossible.
pub(crate) fn infer<'a>(
    history: &[&'a Transaction],
    model: Model,
) -> Result<Inferred<'a>, Violation> {
    rows(history)?;
    let kinds = Kinds::of(history);
    let mut happened: Vec<bool> =
        history.iter().map(|transaction| transaction.status == Status::Ok).collect();
    let (lists, lists_named) = lists::collect(history, &kinds)?;
    let (registers, registers_named) = registers::collect(history, &kinds)?;
    let seen =
        lists.iter().flat_map(|list| list.seen()).chain(registers.iter().flat_map(Register::seen));
    seen.for_each(|writer| happened[writer] = true);
    let mut graph = Graph::new(history, model);
    lists.iter().for_each(|list| list.relate(&happened, &mut graph));
    registers.iter().for_each(|register| register.relate(&happened, &mut graph));
    if model == Model::StrictSerializable {
        graph.real_time();
    }
    if let Some(cycle) = graph.cycle() {
        return Err(Violation::Cycle(cycle));
    }
    if model != Model::ReadCommitted {
        forced::relate(&registers, &happened, &mut graph)?;
    }
    let named = lists_named && registers_named && kinds.mixed.is_empty();
    Ok(Inferred { graph, lists, registers, named, happened })
}

/// How keys are used.
struct Kinds<'a> {
    /// To which is appended, or of which a list was read.
    lists: BTreeSet<&'a String>,
    /// To which numbers were written, or of which a number was read.
    registers: BTreeSet<&'a String>,
    /// To which is appended and written: their values name no writer.
    mixed: BTreeSet<&'a String>,
}

impl<'a> Kinds<'a> {
    fn of(history: &[&'a Transaction]) -> Kinds<'a> {
        let [mut appended, mut written, mut whole] = [(); 3].map(|()| BTreeSet::new());
        let [mut read_as_list, mut read_as_number] = [(); 2].map(|()| BTreeSet::new());
        let mut read = |key: &'a String, value: &Value| match value {
            Value::Number(_) => drop(read_as_number.insert(key)),
            Value::List(list) if !list.is_empty() => drop(read_as_list.insert(key)),
            Value::List(_) | Value::Nothing => {}
        };
        for transaction in history {
            let told = transaction.status == Status::Ok;
            for op in &transaction.ops {
                match op {
                    Op::Append(key, _) => drop(appended.insert(key)),
                    Op::Write(key, Value::List(_)) => drop(whole.insert(key)),
                    Op::Write(key, _) => drop(written.insert(key)),
                    Op::Read(key, value) if told => read(key, value),
                    Op::Scan(_, _, rows) if told => {
                        rows.iter().for_each(|(key, value)| read(key, value))
                    }
                    Op::Read(..) | Op::Scan(..) => {}
                }
            }
        }
        let mixed: BTreeSet<&String> =
            appended.intersection(&written).copied().chain(whole).collect();
        let unwritten = |key: &&'a String| !appended.contains(key) && !written.contains(key);
        let lists = appended.iter().copied().chain(read_as_list.into_iter().filter(unwritten));
        let registers = written.iter().copied().chain(read_as_number.into_iter().filter(unwritten));
        let pure = |key: &&'a String| !mixed.contains(key);
        let (lists, registers) = (lists.filter(pure).collect(), registers.filter(pure).collect());
        Kinds { lists, registers, mixed }
    }
}

/// A scan shows each key once, and keys of its range only.
fn rows(history: &[&Transaction]) -> Result<(), Violation> {
    for transaction in history.iter().filter(|transaction| transaction.status == Status::Ok) {
        for op in &transaction.ops {
            let Op::Scan(low, high, rows) = op else { continue };
            let mut seen = BTreeSet::new();
            let mut keys = rows.iter().map(|(key, _)| key);
            if let Some(key) = keys.find(|key| !(low <= *key && *key < high && seen.insert(*key))) {
                let (key, transaction) = (key.clone(), Box::new((*transaction).clone()));
                return Err(Violation::Row { key, transaction });
            }
        }
    }
    Ok(())
}

/// Who used each key, in the order of the history.
fn by_key<'a, U, Users: Default + Extend<(usize, U)>>(
    history: &[&'a Transaction],
    used: impl Fn(&'a Transaction) -> Result<BTreeMap<&'a String, U>, Violation>,
) -> Result<BTreeMap<&'a String, Users>, Violation> {
    let mut users: BTreeMap<&String, Users> = BTreeMap::new();
    for (at, transaction) in history.iter().enumerate() {
        for (key, used) in used(transaction)? {
            users.entry(key).or_default().extend([(at, used)]);
        }
    }
    Ok(users)
}

/// What a scan says of each of these keys: a key of which it shows no row has no value.
fn shown<'a>(
    keys: &BTreeSet<&'a String>,
    low: &'a String,
    high: &'a String,
    rows: &'a [(String, Value)],
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let rows: BTreeMap<&String, &Value> = rows.iter().map(|(key, value)| (key, value)).collect();
    let within = (low < high)
        .then(|| keys.range::<String, _>((Bound::Included(low), Bound::Excluded(high))));
    let value = move |key: &&'a String| (*key, rows.get(*key).copied().unwrap_or(&Value::Nothing));
    within.into_iter().flatten().map(value)
}
