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
//! Lists tell their whole order, registers a part of it: who writes without a look is known only by who reads it.
//!
//! A cycle means that there is no order (Adya, "Weak Consistency", 1999; Kingsbury and Alvaro, "Elle", VLDB 2020). Besides cycles: an element that
//! nobody appended, or an aborted one, or twice; a read in the middle of a transaction's own appends; two reads neither of which continues the other.
//!
//! 1. Each element of a list is appended once in a history, and each number written to a register once. A register for which that is not so is
//!    not looked at.
//! 2. An `info` transaction happened if anybody read an element of it.

mod graph;
mod lists;
mod registers;

use crate::{Transaction, Value};
use graph::Graph;
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
    /// An element stands in a list twice, or was appended twice.
    #[error("{element} was appended to {key} twice: {transaction}")]
    Twice {
        /// The list.
        key: String,
        /// The element.
        element: i64,
        /// Who saw it, or did it.
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
}

impl Violation {
    /// The transactions that contradict each other, or themselves.
    pub fn transactions(&self) -> Vec<&Transaction> {
        match self {
            Violation::Cycle(edges) => edges.iter().map(|edge| &edge.from).collect(),
            Violation::Garbage { reader, .. } => vec![reader],
            Violation::AbortedRead { writer, reader, .. } | Violation::IntermediateRead { writer, reader, .. } => {
                vec![writer, reader]
            }
            Violation::Diverged { one, other, .. } => vec![one, other],
            Violation::Twice { transaction, .. } | Violation::Internal { transaction, .. } => vec![transaction],
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
            match edge.why {
                Why::Ww => write!(f, "\n  T{one} < T{next}: it wrote to {key} before")?,
                Why::Wr => write!(f, "\n  T{one} < T{next}: what it wrote to {key} was read")?,
                Why::Rw => write!(f, "\n  T{one} < T{next}: it read {key} without what the other wrote to it")?,
                Why::RealTime => write!(f, "\n  T{one} < T{next}: it had ended when the other began")?,
            }
        }
        Ok(())
    }
}

/// Whether a history keeps what a model promises.
pub fn judge(history: &[Transaction], model: Model) -> Result<(), Violation> {
    let mut graph = Graph::new(history, model);
    lists::relate(history, &mut graph)?;
    registers::relate(history, &mut graph)?;
    if model == Model::StrictSerializable {
        graph.real_time();
    }
    graph.cycle().map_or(Ok(()), |cycle| Err(Violation::Cycle(cycle)))
}

/// Who used each key, in the order of the history.
fn by_key<'a, U, Users: Default + Extend<(usize, U)>>(
    history: &'a [Transaction],
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
    let within = (low < high).then(|| keys.range::<String, _>((Bound::Included(low), Bound::Excluded(high))));
    let value = move |key: &&'a String| (*key, rows.get(*key).copied().unwrap_or(&Value::Nothing));
    within.into_iter().flatten().map(value)
}
