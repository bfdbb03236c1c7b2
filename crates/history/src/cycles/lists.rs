//! What lists tell: the order of their elements is the order of those who appended them.

use super::graph::Graph;
use super::{Violation, Why};
use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction read of a list from outside of itself, and what it appended.
#[derive(Default)]
struct Use {
    read: Option<Vec<i64>>,
    appended: Vec<i64>,
}

/// Relates all who read or appended to lists.
pub(super) fn relate(history: &[Transaction], graph: &mut Graph<'_>) -> Result<(), Violation> {
    let mut keys: BTreeSet<&String> = BTreeSet::new();
    for op in history.iter().flat_map(|transaction| &transaction.ops) {
        if let Op::Append(key, _) | Op::Read(key, Value::List(_)) = op {
            keys.insert(key);
        }
    }
    let uses: Vec<BTreeMap<&String, Use>> =
        history.iter().map(|transaction| used(transaction, &keys)).collect::<Result<_, _>>()?;
    for key in keys {
        List::new(history, &uses, key)?.relate(&uses, graph);
    }
    Ok(())
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
