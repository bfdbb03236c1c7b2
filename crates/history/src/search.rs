//! The exact judge: searches for an order that explains every read, without timestamps or lists.
//!
//! A transaction is one operation on the whole state (Herlihy and Wing, 1990). The search (Wing and
//! Gong, 1993) places one transaction after the other. A transaction may come next if all that
//! precede it are placed, the state has what it read, and it overwrites no value that another
//! transaction still has to read. A position that was reached before, with the same state, is not
//! searched again (Lowe, 2017): a position is identified by 128 bits of hash. A read-only
//! transaction that may come next is placed without alternatives, because its place does not affect
//! other transactions.
//!
//! 1. An `ok` transaction is placed, a `fail` is not; an `info` is placed anywhere after its start,
//!    or nowhere. The reads of an `info` transaction are ignored. If no client read its writes, it
//!    is not placed: an order with it is also an order without it.
//! 2. Transactions that share no key, not even through others, are judged apart: both
//!    serializability and strict serializability are local in this sense.
//! 3. Giving up within [`Limit`] is a result of its own, and never counts as right.

mod compiled;

use crate::cycles::{Graph, Model};
use crate::{Op, Status, Transaction, Value};
use compiled::{Compiled, Step, ValueId, Values};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

/// The orders that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any order: serializability.
    Any,
    /// Orders in which a transaction that ended before another began comes first: strict
    /// serializability, or linearizability of the whole state.
    RealTime,
}

/// The most failed tries of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub usize);

impl Default for Limit {
    fn default() -> Self {
        Limit(10_000_000)
    }
}

/// The reason why a history has no order, or why that is undecided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// No transaction can come next, in every order that was tried.
    #[error("no order is possible: at most {placed} of {all} can be placed, and then\n{}", Stuck(.next))]
    NoOrder {
        /// The length of the longest order that was found.
        placed: usize,
        /// The number of transactions that must be placed.
        all: usize,
        /// The candidates after that order, with the keys that prevent them.
        next: Vec<Refused>,
    },
    /// The search was given up.
    #[error("the search for an order tried a transaction {0} times in vain and gave up")]
    GivenUp(usize),
}

impl Violation {
    /// Returns the candidates, none of which can come next.
    pub fn transactions(&self) -> Vec<&Transaction> {
        match self {
            Violation::NoOrder { next, .. } => {
                next.iter().map(|refused| &refused.transaction).collect()
            }
            Violation::GivenUp(_) => Vec::new(),
        }
    }
}

/// A transaction that cannot come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The transaction.
    pub transaction: Transaction,
    /// The key that prevents it.
    pub key: String,
    /// The value of the key.
    pub stands: Value,
    /// True if it would overwrite a value that another transaction has yet to read.
    pub overwrites: bool,
}

struct Stuck<'a>(&'a [Refused]);

impl fmt::Display for Stuck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |Refused { transaction, key, stands, overwrites }: &Refused| {
            let read = if *overwrites { ", which another has yet to read" } else { "" };
            format!("  {key} is {stands}{read}: {transaction}")
        };
        f.write_str(&self.0.iter().take(8).map(line).collect::<Vec<_>>().join("\n"))
    }
}

/// Checks that transactions can be put in an order that explains every read.
pub fn judge(history: &[Transaction], order: Order, limit: Limit) -> Result<(), Violation> {
    let mut left = limit.0;
    for part in parts(history) {
        let mut graph = Graph::new(&part, Model::Serializable);
        if order == Order::RealTime {
            graph.real_time();
        }
        let must: Vec<bool> =
            part.iter().map(|transaction| transaction.status == Status::Ok).collect();
        search(&part, &must, &graph, &mut left)
            .map_err(|violation| violation.unwrap_or(Violation::GivenUp(limit.0)))?;
    }
    Ok(())
}

/// Searches for an order of transactions that share keys, in which all edges of the graph lead
/// forwards and all required transactions happen. The error is `None` if the search was given up.
pub(crate) fn search(
    part: &[&Transaction],
    must: &[bool],
    graph: &Graph<'_>,
    left: &mut usize,
) -> Result<(), Option<Violation>> {
    Search::new(part, must, graph).run(left)
}

/// Returns the transactions that may have happened.
pub(crate) fn placed(history: &[Transaction]) -> Vec<&Transaction> {
    let placed = |transaction: &&Transaction| match transaction.status {
        Status::Ok => true,
        Status::Info => transaction.writes(),
        Status::Fail => false,
    };
    history.iter().filter(placed).collect()
}

/// Groups the transactions that may have happened by the keys that they share.
pub(crate) fn parts(history: &[Transaction]) -> Vec<Vec<&Transaction>> {
    let happened = placed(history);
    let keys: BTreeSet<&str> =
        happened.iter().flat_map(|transaction| transaction.ops.iter().flat_map(named)).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let mut above: Vec<usize> = (0..keys.len()).collect();
    fn top(above: &mut [usize], mut at: usize) -> usize {
        while above[at] != at {
            above[at] = above[above[at]];
            at = above[at];
        }
        at
    }
    let touched = |transaction: &Transaction| -> Vec<usize> {
        let of = |op: &Op| match op {
            Op::Scan(low, high, rows) => {
                let from = keys.partition_point(|key| *key < low.as_str());
                let to = keys.partition_point(|key| *key < high.as_str());
                let shown =
                    rows.iter().filter_map(|(key, _)| keys.binary_search(&key.as_str()).ok());
                (from..to.max(from)).chain(shown).collect::<Vec<_>>()
            }
            Op::Read(key, _) | Op::Write(key, _) | Op::Append(key, _) => {
                keys.binary_search(&key.as_str()).into_iter().collect()
            }
        };
        transaction.ops.iter().flat_map(of).collect()
    };
    let touched: Vec<Vec<usize>> =
        happened.iter().map(|transaction| touched(transaction)).collect();
    for keys in &touched {
        for pair in keys.windows(2) {
            let (one, other) = (top(&mut above, pair[0]), top(&mut above, pair[1]));
            above[one] = other;
        }
    }
    let mut parts: BTreeMap<usize, Vec<&Transaction>> = BTreeMap::new();
    for (transaction, keys) in happened.into_iter().zip(&touched) {
        if let Some(first) = keys.first() {
            parts.entry(top(&mut above, *first)).or_default().push(transaction);
        }
    }
    parts.into_values().collect()
}

fn named(op: &Op) -> Vec<&str> {
    match op {
        Op::Read(key, _) | Op::Write(key, _) | Op::Append(key, _) => vec![key],
        Op::Scan(_, _, rows) => rows.iter().map(|(key, _)| key.as_str()).collect(),
    }
}

/// The reason why a transaction cannot come next.
struct Blocked {
    key: usize,
    stands: ValueId,
    overwrites: bool,
}

/// The changes that placing a transaction made.
struct Placed {
    transaction: usize,
    /// The keys it wrote, and their values before.
    before: Vec<(usize, ValueId)>,
    /// The moments that passed.
    moments: Vec<usize>,
}

/// A position of the search: how it was reached, and what may still be tried from it.
struct Frame {
    placed: Option<Placed>,
    /// The next transaction to try.
    next: usize,
    /// True if read-only transactions were looked for.
    is_narrowed: bool,
}

impl Frame {
    fn after(placed: Option<Placed>) -> Frame {
        Frame { placed, next: 0, is_narrowed: false }
    }
}

/// The state of the search. Transactions are numbered in the order in which they are tried: by
/// commit timestamp if all have one, by end otherwise. Higher nodes of the graph are moments.
struct Search<'a> {
    transactions: Vec<&'a Transaction>,
    must: Vec<bool>,
    compiled: Vec<Compiled>,
    values: Values<'a>,
    /// By node: the nodes after it, and the number of nodes before it that are not placed.
    next: Vec<Vec<usize>>,
    waits: Vec<usize>,
    ready: BTreeSet<usize>,
    state: Vec<ValueId>,
    /// By value: the number of unplaced transactions that must read it, and of those that may still
    /// write it.
    needed: Vec<u32>,
    supply: Vec<u32>,
    /// The number of transactions that must be placed and are not.
    open: usize,
    position: u128,
    seen: HashSet<u128>,
    longest: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(part: &[&'a Transaction], must: &[bool], graph: &Graph<'_>) -> Self {
        let mut by_time: Vec<usize> = (0..part.len()).collect();
        if part.iter().zip(must).all(|(transaction, must)| !must || transaction.at.is_some()) {
            // The snapshot of a read-only transaction includes the commit at the same timestamp.
            by_time
                .sort_by_key(|at| (!must[*at], part[*at].at, !part[*at].writes(), part[*at].end));
        } else {
            by_time.sort_by_key(|at| (!must[*at], part[*at].end));
        }
        let mut number: Vec<usize> = (0..graph.nodes()).collect();
        by_time.iter().enumerate().for_each(|(place, at)| number[*at] = place);
        let transactions: Vec<&Transaction> = by_time.iter().map(|at| part[*at]).collect();
        let must: Vec<bool> = by_time.iter().map(|at| must[*at]).collect();
        let (mut next, mut waits) = (vec![Vec::new(); graph.nodes()], vec![0; graph.nodes()]);
        for (from, to) in graph.edges() {
            next[number[from]].push(number[to]);
            waits[number[to]] += 1;
        }
        let mut values = Values::new(&transactions);
        let compiled: Vec<Compiled> =
            transactions.iter().map(|transaction| values.compile(transaction)).collect();
        let is_tried = values.may_matter(&transactions, &compiled, &must);
        let (mut needed, mut supply) = (vec![0; values.count()], vec![0; values.count()]);
        for (at, compiled) in compiled.iter().enumerate() {
            if must[at] {
                compiled.needs.iter().for_each(|(_, value)| needed[*value] += 1);
            }
            if is_tried[at] {
                compiled.sets().for_each(|value| supply[value] += 1);
            }
        }
        let ready = (0..transactions.len()).filter(|at| waits[*at] == 0 && is_tried[*at]).collect();
        // A transaction that is never tried is never ready.
        (0..transactions.len())
            .filter(|at| !is_tried[*at])
            .for_each(|at| waits[at] = usize::MAX / 2);
        let open = must.iter().filter(|must| **must).count();
        let state = values.nothing();
        let (seen, longest) = (HashSet::new(), Vec::new());
        let position = 0;
        Search {
            transactions,
            must,
            compiled,
            values,
            next,
            waits,
            ready,
            state,
            needed,
            supply,
            open,
            position,
            seen,
            longest,
        }
    }

    fn run(mut self, left: &mut usize) -> Result<(), Option<Violation>> {
        let all = self.open;
        let mut way = vec![Frame::after(None)];
        while self.open > 0 {
            let from = way.last_mut().ok_or(None)?;
            if let Some(placed) = self.advance(from, left)? {
                way.push(Frame::after(Some(placed)));
                continue;
            }
            if way.len() > self.longest.len() {
                self.longest = way
                    .iter()
                    .filter_map(|frame| Some(frame.placed.as_ref()?.transaction))
                    .collect();
            }
            let Some(placed) = way.pop().and_then(|frame| frame.placed) else {
                return Err(Some(self.no_order(all)));
            };
            let failed = placed.transaction;
            self.take_back(placed);
            if let Some(from) = way.last_mut() {
                self.narrow(from, failed);
            }
        }
        Ok(())
    }

    /// Places the next transaction that leads to a position not seen before.
    fn advance(
        &mut self,
        from: &mut Frame,
        left: &mut usize,
    ) -> Result<Option<Placed>, Option<Violation>> {
        while let Some(at) = self.ready.range(from.next..).next().copied() {
            from.next = if from.is_narrowed { usize::MAX } else { at + 1 };
            if let Ok(placed) = self.place(at) {
                if self.seen.insert(self.position) {
                    return Ok(Some(placed));
                }
                self.take_back(placed);
            }
            *left = left.checked_sub(1).ok_or(None)?;
        }
        Ok(None)
    }

    /// Restricts the tries from a position after the first one failed: a read-only transaction that
    /// may come next is placed now.
    fn narrow(&mut self, from: &mut Frame, failed: usize) {
        if self.compiled[failed].only_reads() {
            from.next = usize::MAX;
        }
        if from.is_narrowed || from.next == usize::MAX {
            return;
        }
        let reads = |at: &usize| self.compiled[*at].only_reads() && self.refused(*at).is_none();
        if let Some(reader) = self.ready.range(from.next..).copied().find(reads) {
            (from.next, from.is_narrowed) = (reader, true);
        }
    }

    /// Returns the reason why a read-only transaction cannot come next.
    fn refused(&self, at: usize) -> Option<Blocked> {
        let differs = |step: &Step| match *step {
            Step::Read(key, value) if self.state[key] != value => {
                Some(Blocked { key, stands: self.state[key], overwrites: false })
            }
            _ => None,
        };
        self.compiled[at].steps.iter().find_map(differs)
    }

    fn place(&mut self, at: usize) -> Result<Placed, Blocked> {
        let mut before: Vec<(usize, ValueId)> = Vec::new();
        let mut blocked = None;
        for place in 0..self.compiled[at].steps.len() {
            let (key, value) = match self.compiled[at].steps[place] {
                Step::Read(key, value) if self.state[key] == value => continue,
                Step::Read(key, _) => {
                    blocked = Some(Blocked { key, stands: self.state[key], overwrites: false });
                    break;
                }
                Step::Set(key, value) => (key, value),
                Step::Append(key, element) => (key, self.values.appended(self.state[key], element)),
            };
            if !before.iter().any(|(written, _)| *written == key) {
                before.push((key, self.state[key]));
            }
            self.state[key] = value;
        }
        self.needed.resize(self.values.count(), 0);
        self.supply.resize(self.values.count(), 0);
        self.count(at, false);
        if blocked.is_none() {
            let lost = |(key, value): &&(usize, ValueId)| {
                let returns = self.supply[*value] > 0 || self.values.is_mixed(*key);
                self.state[*key] != *value && self.needed[*value] > 0 && !returns
            };
            blocked = before.iter().find(lost).map(|(key, value)| Blocked {
                key: *key,
                stands: *value,
                overwrites: true,
            });
        }
        if let Some(blocked) = blocked {
            self.count(at, true);
            before.iter().for_each(|(key, value)| self.state[*key] = *value);
            return Err(blocked);
        }
        for (key, value) in &before {
            self.position ^= place_of(*key, *value) ^ place_of(*key, self.state[*key]);
        }
        self.position ^= mark_of(at);
        self.open -= usize::from(self.must[at]);
        self.ready.remove(&at);
        let mut moments = Vec::new();
        self.pass(at, &mut moments);
        let mut passed = 0;
        while let Some(moment) = moments.get(passed).copied() {
            self.pass(moment, &mut moments);
            passed += 1;
        }
        Ok(Placed { transaction: at, before, moments })
    }

    /// Marks a node as placed for the nodes after it.
    fn pass(&mut self, node: usize, moments: &mut Vec<usize>) {
        for next in &self.next[node] {
            self.waits[*next] -= 1;
            if self.waits[*next] == 0 {
                if *next < self.transactions.len() {
                    self.ready.insert(*next);
                } else {
                    moments.push(*next);
                }
            }
        }
    }

    fn take_back(&mut self, placed: Placed) {
        let Placed { transaction, before, moments } = placed;
        for node in moments.iter().rev().chain([&transaction]) {
            for next in &self.next[*node] {
                if self.waits[*next] == 0 {
                    self.ready.remove(next);
                }
                self.waits[*next] += 1;
            }
        }
        self.ready.insert(transaction);
        self.open += usize::from(self.must[transaction]);
        self.position ^= mark_of(transaction);
        for (key, value) in before {
            self.position ^= place_of(key, value) ^ place_of(key, self.state[key]);
            self.state[key] = value;
        }
        self.count(transaction, true);
    }

    /// Adds the reads and writes of an unplaced transaction to the counts, or removes them.
    fn count(&mut self, at: usize, is_unplaced: bool) {
        let change = |count: &mut u32| *count = if is_unplaced { *count + 1 } else { *count - 1 };
        if self.must[at] {
            self.compiled[at].needs.iter().for_each(|(_, value)| change(&mut self.needed[*value]));
        }
        self.compiled[at].sets().for_each(|value| change(&mut self.supply[value]));
    }

    fn no_order(mut self, all: usize) -> Violation {
        for at in std::mem::take(&mut self.longest) {
            drop(self.place(at));
        }
        let mut next = Vec::new();
        for at in self.ready.clone() {
            match self.place(at) {
                Ok(placed) => self.take_back(placed),
                Err(Blocked { key, stands, overwrites }) => next.push(Refused {
                    transaction: self.transactions[at].clone(),
                    key: self.values.key(key).to_owned(),
                    stands: self.values.value(stands),
                    overwrites,
                }),
            }
        }
        Violation::NoOrder { placed: all - self.open, all, next }
    }
}

/// The part of a position's hash for a placed transaction.
fn mark_of(transaction: usize) -> u128 {
    mixed(transaction as u64, u64::MAX)
}

/// The part of a position's hash for a key's value.
fn place_of(key: usize, value: ValueId) -> u128 {
    mixed(key as u64, value as u64)
}

/// 128 bits that look random (the finalizer of SplitMix64, twice).
fn mixed(one: u64, other: u64) -> u128 {
    let mix = |mut bits: u64| {
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    };
    let seed =
        mix(one.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ other.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let (high, low) = (mix(seed), mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    u128::from(high) << 64 | u128::from(low)
}
