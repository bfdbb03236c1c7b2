//! The judge by cycles, which needs no timestamps: reads show which transactions precede which.
//!
//! ```text
//!        lists                                      registers
//!   ww   A appended the element just before B's     B read A's value and wrote another    A → B
//!   wr   B read a list that ends with A's element   B read A's value                      A → B
//!   rw   A read a list to which B appended next     B read what A did, and wrote          A → B
//!   rt   A had ended when B began (strict serializability only)                           A → B
//! ```
//!
//! Lists show their whole order, registers a part of it. The order of two blind writes to a
//! register is inferred as far as possible (`forced`): if a read of one comes after the other, the
//! other is older; and the readers of the older one come before the newer.
//!
//! A judge of cycles refutes. If it finds no cycle, an order is certain only if the order of all
//! versions is known; [`crate::judge`] otherwise searches for one.
//!
//! A cycle means that there is no order (Adya, "Weak Consistency", 1999; Kingsbury and Alvaro,
//! "Elle", VLDB 2020). Besides cycles, these are wrong: a read of a value that no transaction
//! wrote, or an aborted one, or the reader itself afterwards; a read in the middle of a
//! transaction's own writes; an element that is in a list twice; two reads of a list neither of
//! which continues the other; a scan that shows a key twice or outside its range.
//!
//! 1. Each element of a list is appended once in a history, and each number written to a register
//!    once. A key for which that does not hold is ignored, and so is a key that is both list and
//!    register.
//! 2. An `info` transaction happened if a client read a value of it: then all its writes happened.
//!    Otherwise it may not have happened, and nothing is inferred from it.

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

/// The consistency model that a history is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Model {
    /// No cycle of ww and wr (Adya's PL-2).
    ReadCommitted,
    /// No cycle without two successive rw (Cerone and Gotsman, 2018). Causal tokens and external
    /// consistency count as in [`Model::Causal`], where transactions asked for them: a snapshot has
    /// what comes before it.
    SnapshotIsolation,
    /// No cycle of ww, wr and rw (PL-3).
    Serializable,
    /// No cycle of ww, wr, rw and causal tokens: a transaction comes after those whose tokens it
    /// was given, and after those that asked for external consistency and had ended before.
    Causal,
    /// No cycle at all.
    StrictSerializable,
}

/// The reason why one transaction must precede another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It wrote before.
    Ww,
    /// Its value was read.
    Wr,
    /// It did not see the other's write.
    Rw,
    /// The other was given its causal token.
    Token,
    /// It had ended when the other began.
    RealTime,
}

/// An edge of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The transaction that comes first.
    pub from: Transaction,
    /// The transaction that comes after it.
    pub to: Transaction,
    /// The reason.
    pub why: Why,
    /// The key that both used.
    pub key: Option<String>,
    /// The third transaction of an edge that no read shows directly. For `Ww` it read what `to`
    /// wrote and comes after `from`; for `Rw` it wrote what `from` read and precedes `to`.
    pub through: Option<Transaction>,
}

/// The contradiction in a history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is no order, because of this cycle.
    #[error("{}", Cycle(.0))]
    Cycle(Vec<Edge>),
    /// An element or number was read that no transaction wrote.
    #[error("{element} of {key} was read and no transaction wrote it: {reader}")]
    Garbage {
        /// The key.
        key: String,
        /// The element.
        element: i64,
        /// The reader.
        reader: Box<Transaction>,
    },
    /// An element was read whose transaction did not happen (G1a).
    #[error("{element} of {key} was read though its transaction failed: {writer} and {reader}")]
    AbortedRead {
        /// The key.
        key: String,
        /// The element.
        element: i64,
        /// The transaction that failed.
        writer: Box<Transaction>,
        /// The reader.
        reader: Box<Transaction>,
    },
    /// A key was read in the middle of a transaction's writes to it (G1b).
    #[error("{key} was read between two writes of one transaction: {writer} and {reader}")]
    IntermediateRead {
        /// The key.
        key: String,
        /// The transaction that wrote more than was read.
        writer: Box<Transaction>,
        /// The reader.
        reader: Box<Transaction>,
    },
    /// An element that was appended once is in a list twice.
    #[error("{element} was appended to {key} once and is there twice: {transaction}")]
    Twice {
        /// The list.
        key: String,
        /// The element.
        element: i64,
        /// The transaction that read it.
        transaction: Box<Transaction>,
    },
    /// Two reads of a list, neither of which continues the other.
    #[error("two reads of {key} contradict each other: {one} and {other}")]
    Diverged {
        /// The list.
        key: String,
        /// One read.
        one: Box<Transaction>,
        /// The other read.
        other: Box<Transaction>,
    },
    /// A transaction does not see its own earlier reads and writes.
    #[error("{key} changed within a transaction by itself: {transaction}")]
    Internal {
        /// The key.
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
                (Why::Token, _) => write!(f, "the other was given its causal token")?,
                (Why::RealTime, _) => write!(f, "it had ended when the other began")?,
            }
        }
        Ok(())
    }
}

/// Checks a history against a model. `Ok` means that no contradiction was found.
pub fn judge(history: &[Transaction], model: Model) -> Result<(), Violation> {
    let history: Vec<&Transaction> = history.iter().collect();
    infer(&history, model).map(drop)
}

/// The order that is inferred from a history.
pub(crate) struct Inferred<'a> {
    /// The edges that hold in every order that explains the history.
    pub(crate) graph: Graph<'a>,
    lists: Vec<List<'a>>,
    /// The lists and registers whose values name their writers.
    registers: Vec<Register<'a>>,
    /// True if the writer of each value that was read is known.
    pub(crate) named: bool,
    /// By transaction: true for `ok`, and for `info` if a client read something of it.
    pub(crate) happened: Vec<bool>,
}

impl Inferred<'_> {
    /// True if the model holds when transactions that wrote the same key did so in the order
    /// `before`, unless the inferred order contradicts it. Every version has a known place then, so
    /// that true is a proof; false proves nothing.
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

/// Infers which transactions must precede which, or returns why that is impossible.
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
    match model {
        Model::StrictSerializable => graph.real_time(),
        Model::Causal | Model::SnapshotIsolation => graph.tokens(),
        Model::ReadCommitted | Model::Serializable => {}
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

/// The keys, by use.
struct Kinds<'a> {
    /// Keys that were appended to, or of which a list was read.
    lists: BTreeSet<&'a String>,
    /// Keys to which numbers were written, or of which a number was read.
    registers: BTreeSet<&'a String>,
    /// Keys that were both appended to and written: their values name no writer.
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

/// Checks that a scan shows each key once, and only keys of its range.
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

/// Collects the uses of each key, in the order of the history.
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

/// Returns what a scan says of each of these keys: a key without a row has no value.
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
