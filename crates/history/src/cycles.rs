//! The judge that needs no timestamps: lists tell in which order their elements were appended, and with that who must precede whom.
//!
//! ```text
//!   ww   A appended the element just before B's            A → B
//!   wr   B read a list that ends with A's element          A → B
//!   rw   A read a list to which B appended next            A → B
//!   rt   A had ended when B began                          A → B      (strict serializability only)
//! ```
//!
//! A cycle means that there is no order (Adya, "Weak Consistency", 1999; Kingsbury and Alvaro, "Elle", VLDB 2020). Besides cycles: an element that
//! nobody appended, or an aborted one, or twice; a read in the middle of a transaction's own appends; two reads neither of which continues the other.
//!
//! 1. Each element of a list is appended once in a history.
//! 2. An `info` transaction happened if anybody read an element of it.
//!
//! Registers are not looked at: their order is not told by reads. [`crate::timestamps`] judges them.

use crate::{Op, Status, Transaction, Value};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

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
    /// An element was read that nobody appended.
    #[error("nobody appended {element} to {key}, and it was read: {reader}")]
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
    /// A list was read in the middle of a transaction's appends to it (G1b).
    #[error("{key} was read between two appends of one transaction: {writer} and {reader}")]
    IntermediateRead {
        /// The list.
        key: String,
        /// Who appended more than was seen.
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
                Why::Ww => write!(f, "\n  T{one} < T{next}: it appended to {key} before")?,
                Why::Wr => write!(f, "\n  T{one} < T{next}: what it appended to {key} was read")?,
                Why::Rw => write!(f, "\n  T{one} < T{next}: it read {key} without what was appended to it")?,
                Why::RealTime => write!(f, "\n  T{one} < T{next}: it had ended when the other began")?,
            }
        }
        Ok(())
    }
}

/// What a transaction read of a list from outside of itself, and what it appended.
#[derive(Default)]
struct Use {
    read: Option<Vec<i64>>,
    appended: Vec<i64>,
}

/// Whether a history keeps what a model promises.
pub fn judge(history: &[Transaction], model: Model) -> Result<(), Violation> {
    let mut keys: BTreeSet<&String> = BTreeSet::new();
    for op in history.iter().flat_map(|transaction| &transaction.ops) {
        if let Op::Append(key, _) | Op::Read(key, Value::List(_)) = op {
            keys.insert(key);
        }
    }
    let uses: Vec<BTreeMap<&String, Use>> =
        history.iter().map(|transaction| used(transaction, &keys)).collect::<Result<_, _>>()?;
    let mut graph = Graph::new(history, model);
    for key in keys {
        let list = List::new(history, &uses, key)?;
        list.relate(&uses, &mut graph);
    }
    if model == Model::StrictSerializable {
        graph.real_time();
    }
    graph.cycle().map_or(Ok(()), |cycle| Err(Violation::Cycle(cycle)))
}

fn used<'a>(transaction: &'a Transaction, keys: &BTreeSet<&'a String>) -> Result<BTreeMap<&'a String, Use>, Violation> {
    let mut uses: BTreeMap<&String, Use> = BTreeMap::new();
    let read = |uses: &mut BTreeMap<&'a String, Use>, key: &'a String, value: &Value| {
        if transaction.status != Status::Ok {
            return Ok(()); // Nobody was told what it read.
        }
        let found = match value {
            Value::List(list) => list.clone(),
            Value::Nothing => Vec::new(),
            Value::Number(number) => vec![*number],
        };
        let wrong = || Violation::Internal { key: key.clone(), transaction: Box::new(transaction.clone()) };
        let known = uses.entry(key).or_default();
        let outside = found.strip_suffix(known.appended.as_slice()).ok_or_else(wrong)?;
        match &known.read {
            Some(before) if before != outside => Err(wrong()),
            Some(_) => Ok(()),
            None => {
                known.read = Some(outside.to_vec());
                Ok(())
            }
        }
    };
    for op in &transaction.ops {
        match op {
            Op::Read(key, value) if keys.contains(key) => read(&mut uses, key, value)?,
            Op::Append(key, element) => uses.entry(key).or_default().appended.push(*element),
            Op::Scan(low, high, rows) => {
                let within = |key: &&&String| *low <= ***key && ***key < *high;
                for key in keys.iter().filter(within) {
                    let found = rows.iter().find(|(name, _)| name == *key);
                    read(&mut uses, key, found.map_or(&Value::Nothing, |(_, value)| value))?;
                }
            }
            Op::Read(..) | Op::Write(..) => {}
        }
    }
    Ok(uses)
}

/// All of one list: the order of its elements, and who appended them.
struct List<'a> {
    key: &'a String,
    order: Vec<i64>,
    writers: BTreeMap<i64, usize>,
    /// Who surely appended what nobody read.
    unseen: Vec<usize>,
}

impl<'a> List<'a> {
    fn new(
        history: &[Transaction],
        uses: &[BTreeMap<&'a String, Use>],
        key: &'a String,
    ) -> Result<List<'a>, Violation> {
        let boxed = |at: usize| Box::new(history[at].clone());
        let mut writers = BTreeMap::new();
        let mut longest: Option<(usize, &Vec<i64>)> = None;
        for (at, used) in uses.iter().enumerate() {
            let Some(used) = used.get(key) else { continue };
            for element in &used.appended {
                if writers.insert(*element, at).is_some() {
                    return Err(Violation::Twice { key: key.clone(), element: *element, transaction: boxed(at) });
                }
            }
            let Some(read) = &used.read else { continue };
            let (shorter, longer, other) = match longest {
                Some((other, known)) if known.len() >= read.len() => (read, known, other),
                Some((other, known)) => (known, read, other),
                None => (read, read, at),
            };
            if !longer.starts_with(shorter) {
                return Err(Violation::Diverged { key: key.clone(), one: boxed(other), other: boxed(at) });
            }
            if longest.is_none_or(|(_, known)| read.len() > known.len()) {
                longest = Some((at, read));
            }
        }
        let (reader, order) = longest.map_or((0, Vec::new()), |(at, order)| (at, order.clone()));
        let mut seen = BTreeSet::new();
        for element in &order {
            if !seen.insert(*element) {
                return Err(Violation::Twice { key: key.clone(), element: *element, transaction: boxed(reader) });
            }
            match writers.get(element) {
                None => {
                    let reader = boxed(reader);
                    return Err(Violation::Garbage { key: key.clone(), element: *element, reader });
                }
                Some(writer) if history[*writer].status == Status::Fail => {
                    let (writer, reader) = (boxed(*writer), boxed(reader));
                    return Err(Violation::AbortedRead { key: key.clone(), element: *element, writer, reader });
                }
                Some(_) => {}
            }
        }
        // Who sees one append of a transaction sees all of them.
        for (at, used) in uses.iter().enumerate() {
            let Some(last) = used.get(key).and_then(|used| used.read.as_ref()?.last()) else { continue };
            let writer = writers[last];
            let all = &uses[writer][key].appended;
            if all.last() != Some(last) {
                let (writer, reader) = (boxed(writer), boxed(at));
                return Err(Violation::IntermediateRead { key: key.clone(), writer, reader });
            }
        }
        let surely = |(element, at): (&i64, &usize)| {
            (history[*at].status == Status::Ok && !seen.contains(element)).then_some(*at)
        };
        let unseen: BTreeSet<usize> = writers.iter().filter_map(surely).collect();
        Ok(List { key, order, unseen: unseen.into_iter().collect(), writers })
    }

    fn relate(&self, uses: &[BTreeMap<&'a String, Use>], graph: &mut Graph<'_>) {
        let writer = |place: usize| self.order.get(place).map(|element| self.writers[element]);
        for place in 1..self.order.len() {
            graph.relate(writer(place - 1), writer(place), Why::Ww, self.key);
        }
        for late in &self.unseen {
            graph.relate(self.order.len().checked_sub(1).and_then(writer), Some(*late), Why::Ww, self.key);
        }
        for (at, used) in uses.iter().enumerate() {
            let Some(read) = used.get(self.key).and_then(|used| used.read.as_ref()) else { continue };
            graph.relate(read.len().checked_sub(1).and_then(writer), Some(at), Why::Wr, self.key);
            match writer(read.len()) {
                Some(next) => graph.relate(Some(at), Some(next), Why::Rw, self.key),
                None => self.unseen.iter().for_each(|late| graph.relate(Some(at), Some(*late), Why::Rw, self.key)),
            }
        }
    }
}

/// Who precedes whom. Nodes beyond the transactions are moments, which keep the edges of real time few.
struct Graph<'a> {
    history: &'a [Transaction],
    model: Model,
    graph: DiGraph<(), (Why, Option<String>)>,
}

impl<'a> Graph<'a> {
    fn new(history: &'a [Transaction], model: Model) -> Graph<'a> {
        let mut graph = DiGraph::with_capacity(2 * history.len(), 4 * history.len());
        // Under snapshot isolation each stands there twice: as one that is reached by rw, and as one that is not.
        let copies = if model == Model::SnapshotIsolation { 2 } else { 1 };
        for _ in 0..copies * history.len() {
            graph.add_node(());
        }
        Graph { history, model, graph }
    }

    fn relate(&mut self, from: Option<usize>, to: Option<usize>, why: Why, key: &str) {
        let (Some(from), Some(to)) = (from, to) else { return };
        if from == to {
            return;
        }
        let all = self.history.len();
        let mut add = |from: usize, to: usize| {
            self.graph.add_edge(NodeIndex::new(from), NodeIndex::new(to), (why, Some(key.to_owned())));
        };
        match (self.model, why) {
            (Model::ReadCommitted, Why::Rw) => {}
            (Model::SnapshotIsolation, Why::Rw) => add(from, to + all),
            (Model::SnapshotIsolation, _) => {
                add(from, to);
                add(from + all, to);
            }
            _ => add(from, to),
        }
    }

    /// A moment for each end: whoever begins later comes after the last moment before.
    fn real_time(&mut self) {
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * self.history.len());
        for (at, transaction) in self.history.iter().enumerate() {
            if transaction.status != Status::Fail {
                events.push((transaction.start, false, at));
            }
            if transaction.status == Status::Ok {
                events.push((transaction.end, true, at));
            }
        }
        events.sort_unstable();
        let mut moment: Option<NodeIndex> = None;
        for (_, ends, at) in events {
            let node = NodeIndex::new(at);
            if ends {
                let next = self.graph.add_node(());
                self.graph.add_edge(node, next, (Why::RealTime, None));
                if let Some(moment) = moment.replace(next) {
                    self.graph.add_edge(moment, next, (Why::RealTime, None));
                }
            } else if let Some(moment) = moment {
                self.graph.add_edge(moment, node, (Why::RealTime, None));
            }
        }
    }

    /// A short cycle, if there is any.
    fn cycle(&self) -> Option<Vec<Edge>> {
        /// From how many of a tangle's transactions the shortest way back is looked for.
        const TRIES: usize = 64;
        let tangles = petgraph::algo::kosaraju_scc(&self.graph);
        let tangle = tangles.into_iter().filter(|tangle| tangle.len() > 1).min_by_key(Vec::len)?;
        let within: BTreeSet<NodeIndex> = tangle.iter().copied().collect();
        let copies = if self.model == Model::SnapshotIsolation { 2 } else { 1 };
        let is_transaction = |node: &NodeIndex| node.index() < copies * self.history.len();
        let begins = within.iter().copied().filter(is_transaction).take(TRIES);
        let cycles = begins.filter_map(|start| self.shortest(start, &within));
        cycles.map(|cycle| self.told(&cycle)).min_by_key(Vec::len)
    }

    /// The shortest way from a node back to itself: the edges, each with where it leads from.
    fn shortest(&self, start: NodeIndex, within: &BTreeSet<NodeIndex>) -> Option<Vec<petgraph::graph::EdgeIndex>> {
        let mut came: BTreeMap<NodeIndex, petgraph::graph::EdgeIndex> = BTreeMap::new();
        let mut next = VecDeque::from([start]);
        while let Some(node) = next.pop_front() {
            for edge in self.graph.edges(node) {
                let to = edge.target();
                if to == start {
                    let (mut way, mut at) = (vec![edge.id()], node);
                    while at != start {
                        way.push(came[&at]);
                        at = self.graph.edge_endpoints(came[&at])?.0;
                    }
                    way.reverse();
                    return Some(way);
                }
                if within.contains(&to) && !came.contains_key(&to) {
                    came.insert(to, edge.id());
                    next.push_back(to);
                }
            }
        }
        None
    }

    /// The same in terms of transactions: ways through moments are one step.
    fn told(&self, way: &[petgraph::graph::EdgeIndex]) -> Vec<Edge> {
        let copies = if self.model == Model::SnapshotIsolation { 2 } else { 1 };
        let transaction = |node: NodeIndex| {
            (node.index() < copies * self.history.len()).then(|| &self.history[node.index() % self.history.len()])
        };
        let (mut edges, mut from) = (Vec::new(), None);
        for edge in way {
            let Some((source, target)) = self.graph.edge_endpoints(*edge) else { continue };
            from = transaction(source).or(from);
            if let (Some(one), Some(to)) = (from, transaction(target)) {
                let (why, key) = self.graph[*edge].clone();
                edges.push(Edge { from: one.clone(), to: to.clone(), why, key });
            }
        }
        edges
    }
}
