//! The search's form of transactions: keys and values are numbers, scans are reads.

use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The number of a value of one key. The first numbers, in the order of the keys, mean that the key
/// has no value.
pub(super) type ValueId = usize;

/// One step of a transaction.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// The key has the value.
    Read(usize, ValueId),
    /// Sets the key's value.
    Set(usize, ValueId),
    /// Appends an element to the key's list.
    Append(usize, i64),
}

/// One transaction.
pub(super) struct Compiled {
    pub(super) steps: Vec<Step>,
    /// The keys that it reads before it writes them.
    pub(super) needs: Vec<(usize, ValueId)>,
}

impl Compiled {
    pub(super) fn only_reads(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Read(..)))
    }

    pub(super) fn sets(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.steps.iter().filter_map(|step| match step {
            Step::Set(_, value) => Some(*value),
            Step::Read(..) | Step::Append(..) => None,
        })
    }
}

/// A value's structure.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// The key has no value.
    Nothing(usize),
    /// A number.
    Number(usize, i64),
    /// A list: a shorter list, and an element.
    Longer(ValueId, i64),
}

/// The keys and values of a history.
pub(super) struct Values<'a> {
    keys: Vec<&'a str>,
    /// True for keys that are both appended to and written.
    mixed: Vec<bool>,
    nodes: Vec<Node>,
    ids: HashMap<Node, ValueId>,
}

impl<'a> Values<'a> {
    pub(super) fn new(transactions: &[&'a Transaction]) -> Values<'a> {
        let named = transactions
            .iter()
            .flat_map(|transaction| transaction.ops.iter().flat_map(super::named));
        let keys: Vec<&str> = named.collect::<BTreeSet<_>>().into_iter().collect();
        let nodes = (0..keys.len()).map(Node::Nothing).collect();
        let ids = (0..keys.len()).map(|key| (Node::Nothing(key), key)).collect();
        let [mut appended, mut written] = [vec![false; keys.len()], vec![false; keys.len()]];
        let place = |key: &str| keys.binary_search(&key).unwrap_or_default();
        for op in transactions.iter().flat_map(|transaction| &transaction.ops) {
            match op {
                Op::Append(key, _) => appended[place(key)] = true,
                Op::Write(key, _) => written[place(key)] = true,
                Op::Read(..) | Op::Scan(..) => {}
            }
        }
        let mixed = appended
            .into_iter()
            .zip(written)
            .map(|(appended, written)| appended && written)
            .collect();
        Values { keys, mixed, nodes, ids }
    }

    pub(super) fn key(&self, key: usize) -> &str {
        self.keys[key]
    }

    pub(super) fn is_mixed(&self, key: usize) -> bool {
        self.mixed[key]
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the initial value of each key.
    pub(super) fn nothing(&self) -> Vec<ValueId> {
        (0..self.keys.len()).collect()
    }

    fn id(&mut self, node: Node) -> ValueId {
        let new = self.nodes.len();
        let id = *self.ids.entry(node).or_insert(new);
        if id == new {
            self.nodes.push(node);
        }
        id
    }

    /// Returns the key of a value, as the number of the value that means none.
    fn root(&self, mut value: ValueId) -> ValueId {
        loop {
            match self.nodes[value] {
                Node::Nothing(key) | Node::Number(key, _) => return key,
                Node::Longer(shorter, _) => value = shorter,
            }
        }
    }

    pub(super) fn appended(&mut self, value: ValueId, element: i64) -> ValueId {
        // A number counts as a list of one.
        let list = match self.nodes[value] {
            Node::Number(key, number) => self.id(Node::Longer(key, number)),
            Node::Nothing(_) | Node::Longer(..) => value,
        };
        self.id(Node::Longer(list, element))
    }

    fn intern(&mut self, key: usize, value: &Value) -> ValueId {
        match value {
            Value::Nothing => key,
            Value::Number(number) => self.id(Node::Number(key, *number)),
            Value::List(list) => {
                list.iter().fold(key, |shorter, element| self.id(Node::Longer(shorter, *element)))
            }
        }
    }

    pub(super) fn value(&self, mut id: ValueId) -> Value {
        let mut list = Vec::new();
        loop {
            match self.nodes[id] {
                Node::Number(_, number) => return Value::Number(number),
                Node::Nothing(_) if list.is_empty() => return Value::Nothing,
                Node::Nothing(_) => break,
                Node::Longer(shorter, element) => {
                    list.push(element);
                    id = shorter;
                }
            }
        }
        list.reverse();
        Value::List(list)
    }

    fn place(&self, key: &str) -> usize {
        self.keys.binary_search(&key).expect("invariant: each key of the history has a place")
    }

    /// Returns the keys of a range.
    fn within(&self, low: &str, high: &str) -> Range<usize> {
        let from = self.keys.partition_point(|key| *key < low);
        from..self.keys.partition_point(|key| *key < high).max(from)
    }

    /// Compiles a transaction. The reads of an `info` transaction are ignored, and not among its
    /// steps.
    pub(super) fn compile(&mut self, transaction: &Transaction) -> Compiled {
        let mut steps = Vec::new();
        let believed = transaction.status == Status::Ok;
        for op in &transaction.ops {
            match op {
                Op::Read(key, value) if believed => {
                    let key = self.place(key);
                    steps.push(Step::Read(key, self.intern(key, value)));
                }
                Op::Scan(low, high, rows) if believed => {
                    let shown: HashMap<&str, &Value> =
                        rows.iter().map(|(key, value)| (key.as_str(), value)).collect();
                    let within = self.within(low, high);
                    for key in within.clone() {
                        let value = shown.get(self.keys[key]).copied().unwrap_or(&Value::Nothing);
                        steps.push(Step::Read(key, self.intern(key, value)));
                    }
                    for (key, value) in rows {
                        let key = self.place(key);
                        if !within.contains(&key) {
                            steps.push(Step::Read(key, self.intern(key, value)));
                        }
                    }
                }
                Op::Read(..) | Op::Scan(..) => {}
                Op::Write(key, value) => {
                    let key = self.place(key);
                    steps.push(Step::Set(key, self.intern(key, value)));
                }
                Op::Append(key, element) => steps.push(Step::Append(self.place(key), *element)),
            }
        }
        let (mut written, mut needs) = (BTreeSet::new(), BTreeSet::new());
        for step in &steps {
            match step {
                Step::Read(key, value) if !written.contains(key) => {
                    let _ = needs.insert((*key, *value));
                }
                Step::Read(..) => {}
                Step::Set(key, _) | Step::Append(key, _) => drop(written.insert(*key)),
            }
        }
        Compiled { steps, needs: needs.into_iter().collect() }
    }

    /// Returns the transactions to try: those that must happen, and those of which a value may have
    /// been read.
    pub(super) fn may_matter(
        &self,
        transactions: &[&Transaction],
        compiled: &[Compiled],
        must: &[bool],
    ) -> Vec<bool> {
        let mut read: BTreeSet<ValueId> = BTreeSet::new();
        for step in compiled.iter().flat_map(|compiled| &compiled.steps) {
            if let Step::Read(_, value) = step {
                read.insert(*value);
            }
        }
        let mut elements: BTreeSet<(usize, i64)> = BTreeSet::new();
        let mut known: BTreeSet<ValueId> = BTreeSet::new();
        for value in &read {
            let (key, mut value) = (self.root(*value), *value);
            while let Node::Longer(shorter, element) = self.nodes[value] {
                if !known.insert(value) {
                    break;
                }
                elements.insert((key, element));
                value = shorter;
            }
        }
        let is_read = |step: &Step| match step {
            Step::Read(..) => false,
            Step::Set(key, value) => self.mixed[*key] || read.contains(value),
            Step::Append(key, element) => self.mixed[*key] || elements.contains(&(*key, *element)),
        };
        let all = 0..transactions.len();
        all.map(|at| must[at] || compiled[at].steps.iter().any(is_read)).collect()
    }
}
