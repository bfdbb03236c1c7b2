//! The judge that needs neither timestamps nor lists: is there any order at all? By search, so for small and dense histories.
//!
//! A transaction is one operation on the whole state (Herlihy and Wing, 1990): it takes effect at one moment between its start and its end. The
//! search (Wing and Gong, 1993) places one after the other, whichever may come next: it began before every unplaced one ended, and what it read
//! stands there. Positions that were reached before, with the same state, are not searched again (Lowe, 2017).
//!
//! 1. `ok` is placed, `fail` is not; `info` is placed anywhere after its start, or nowhere. Nothing of what an `info` read is believed.
//! 2. Transactions that share no key, not even through others, are judged apart: linearizability is local.
//! 3. No answer within [`Limit`] is an answer of its own, and never a good one.

use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// How many positions are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub usize);

impl Default for Limit {
    fn default() -> Self {
        Limit(2_000_000)
    }
}

/// Why a history has no order, or why that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Nothing can come next, whichever way was tried.
    #[error("no order is possible: at most {placed} of {all} can be placed, and then\n{}", Stuck(.next))]
    NoOrder {
        /// The longest order that was found.
        placed: usize,
        /// How many have to be placed.
        all: usize,
        /// Who could come next then, and which key stands in its way.
        next: Vec<Refused>,
    },
    /// The search was given up.
    #[error(
        "unknown: {0} positions were looked at without an answer; judge fewer transactions, or by timestamps or cycles"
    )]
    GivenUp(usize),
}

impl Violation {
    /// The transactions of which none can come next.
    pub fn transactions(&self) -> Vec<&Transaction> {
        match self {
            Violation::NoOrder { next, .. } => next.iter().map(|refused| &refused.transaction).collect(),
            Violation::GivenUp(_) => Vec::new(),
        }
    }
}

/// A transaction that cannot come next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which.
    pub transaction: Transaction,
    /// What it read.
    pub key: String,
    /// What stands there.
    pub expected: Value,
}

struct Stuck<'a>(&'a [Refused]);

impl fmt::Display for Stuck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.iter().take(8);
        let lines = lines.map(|Refused { transaction, key, expected }| format!("  {key} is {expected}: {transaction}"));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

type State = BTreeMap<String, Value>;

/// Whether transactions can be put in an order that respects real time and explains every read.
pub fn judge(history: &[Transaction], limit: Limit) -> Result<(), Violation> {
    let mut left = limit.0;
    for part in parts(history) {
        Search::new(part).run(&mut left).map_err(|violation| violation.unwrap_or(Violation::GivenUp(limit.0)))?;
    }
    Ok(())
}

/// Transactions that share keys, each such set by itself.
fn parts(history: &[Transaction]) -> Vec<Vec<&Transaction>> {
    let placed = |transaction: &&Transaction| match transaction.status {
        Status::Ok => true,
        Status::Info => transaction.writes(),
        Status::Fail => false,
    };
    let happened: Vec<&Transaction> = history.iter().filter(placed).collect();
    let keys: BTreeSet<&str> = happened.iter().flat_map(|transaction| transaction.ops.iter().flat_map(named)).collect();
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
            Op::Scan(low, high, _) => {
                let from = keys.partition_point(|key| *key < low.as_str());
                let to = keys.partition_point(|key| *key < high.as_str());
                (from..to.max(from)).collect::<Vec<_>>()
            }
            Op::Read(key, _) | Op::Write(key, _) | Op::Append(key, _) => {
                keys.binary_search(&key.as_str()).into_iter().collect()
            }
        };
        transaction.ops.iter().flat_map(of).collect()
    };
    let touched: Vec<Vec<usize>> = happened.iter().map(|transaction| touched(transaction)).collect();
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

/// Does what a transaction did, or says which key it saw otherwise.
fn step(state: &State, transaction: &Transaction) -> Result<State, (String, Value)> {
    let mut state = state.clone();
    let known = transaction.status == Status::Ok;
    let stands = |state: &State, key: &String| state.get(key).cloned().unwrap_or(Value::Nothing);
    for op in &transaction.ops {
        match op {
            Op::Read(key, found) => {
                let expected = stands(&state, key);
                if known && !expected.same(found) {
                    return Err((key.clone(), expected));
                }
            }
            Op::Write(key, Value::Nothing) => drop(state.remove(key)),
            Op::Write(key, value) => drop(state.insert(key.clone(), value.clone())),
            Op::Append(key, element) => {
                let longer = stands(&state, key).appended(*element);
                state.insert(key.clone(), longer);
            }
            Op::Scan(low, high, rows) if known => {
                let rows: BTreeMap<&String, &Value> = rows.iter().map(|(key, value)| (key, value)).collect();
                let within = state.keys().filter(|key| *low <= **key && **key < *high);
                for key in within.chain(rows.keys().copied()) {
                    let expected = stands(&state, key);
                    if !expected.same(rows.get(key).copied().unwrap_or(&Value::Nothing)) {
                        return Err((key.clone(), expected));
                    }
                }
            }
            Op::Scan(..) => {}
        }
    }
    Ok(state)
}

/// Where the search stands: who is placed, and what that leaves.
#[derive(Clone)]
struct Position {
    placed: Vec<u64>,
    /// How many of those that must be.
    count: usize,
    state: State,
}

struct Search<'a> {
    /// By their ends: who ended first is tried first, and who may never have happened last.
    transactions: Vec<&'a Transaction>,
    must: usize,
    seen: HashSet<u64>,
    best: Option<Position>,
}

impl<'a> Search<'a> {
    fn new(mut transactions: Vec<&'a Transaction>) -> Self {
        transactions.sort_by_key(|transaction| (transaction.status != Status::Ok, transaction.end));
        let must = transactions.iter().filter(|transaction| transaction.status == Status::Ok).count();
        Search { transactions, must, seen: HashSet::new(), best: None }
    }

    /// Who may come next: they began before any unplaced one had ended.
    fn next(&self, position: &Position) -> Vec<usize> {
        let free = |at: &usize| position.placed[at / 64] >> (at % 64) & 1 == 0;
        let ends = self.transactions[..self.must].iter().enumerate().find(|(at, _)| free(at));
        let until = ends.map_or(u64::MAX, |(_, first)| first.end);
        (0..self.transactions.len()).filter(free).filter(|at| self.transactions[*at].start <= until).collect()
    }

    fn run(mut self, left: &mut usize) -> Result<(), Option<Violation>> {
        let words = self.transactions.len().div_ceil(64);
        let mut ways = vec![Position { placed: vec![0; words], count: 0, state: State::new() }];
        while let Some(position) = ways.pop() {
            if position.count == self.must {
                return Ok(());
            }
            *left = left.checked_sub(1).ok_or(None)?;
            for at in self.next(&position).into_iter().rev() {
                let Ok(state) = step(&position.state, self.transactions[at]) else { continue };
                let mut placed = position.placed.clone();
                placed[at / 64] |= 1 << (at % 64);
                let mut hasher = DefaultHasher::new();
                (&placed, format!("{state:?}")).hash(&mut hasher);
                if self.seen.insert(hasher.finish()) {
                    let count = position.count + usize::from(at < self.must);
                    ways.push(Position { placed, count, state });
                }
            }
            if self.best.as_ref().is_none_or(|best| position.count > best.count) {
                self.best = Some(position);
            }
        }
        let best = self.best.take().ok_or(None)?;
        let refused = |at: usize| {
            let transaction = self.transactions[at];
            let (key, expected) = step(&best.state, transaction).err()?;
            Some(Refused { transaction: transaction.clone(), key, expected })
        };
        let next = self.next(&best).into_iter().filter_map(refused).collect();
        Err(Some(Violation::NoOrder { placed: best.count, all: self.must, next }))
    }
}
