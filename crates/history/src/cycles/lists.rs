//! What lists tell: the order of their elements is the order of those who appended them.

use super::graph::Graph;
use super::{Violation, Why};
use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction read of a list from outside of itself, and what it appended.
#[derive(Default)]
struct Use<'a> {
    read: Option<&'a [i64]>,
    appended: Vec<i64>,
}

/// Who used a list, in the order of the history.
type Users<'a> = Vec<(usize, Use<'a>)>;

/// Relates all who read or appended to lists.
pub(super) fn relate<'a>(history: &'a [Transaction], graph: &mut Graph<'a>) -> Result<(), Violation> {
    let mut keys: BTreeSet<&String> = BTreeSet::new();
    for op in history.iter().flat_map(|transaction| &transaction.ops) {
        if let Op::Append(key, _) | Op::Read(key, Value::List(_)) = op {
            keys.insert(key);
        }
    }
    let lists: BTreeMap<&String, Users<'a>> = super::by_key(history, |transaction| used(transaction, &keys))?;
    lists.iter().try_for_each(|(key, users)| {
        List::new(history, users, key)?.relate(graph);
        Ok(())
    })
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
        let found = match value {
            Value::List(list) => list.as_slice(),
            Value::Nothing => &[],
            Value::Number(number) => std::slice::from_ref(number),
        };
        let wrong = || Violation::Internal { key: key.clone(), transaction: Box::new(transaction.clone()) };
        let known = uses.entry(key).or_default();
        let outside = found.strip_suffix(known.appended.as_slice()).ok_or_else(wrong)?;
        match known.read {
            Some(before) if before != outside => Err(wrong()),
            Some(_) => Ok(()),
            None => {
                known.read = Some(outside);
                Ok(())
            }
        }
    };
    for op in &transaction.ops {
        match op {
            Op::Read(key, value) if keys.contains(key) => read(&mut uses, key, value)?,
            Op::Append(key, element) => uses.entry(key).or_default().appended.push(*element),
            Op::Scan(low, high, rows) => {
                for (key, value) in super::shown(keys, low, high, rows) {
                    read(&mut uses, key, value)?;
                }
            }
            Op::Read(..) | Op::Write(..) => {}
        }
    }
    Ok(uses)
}

/// All of one list: the order of its elements, and who appended them.
struct List<'a, 'u> {
    key: &'a str,
    users: &'u Users<'a>,
    order: &'a [i64],
    writers: BTreeMap<i64, usize>,
    /// Who surely appended what nobody read.
    unseen: BTreeSet<usize>,
}

impl<'a, 'u> List<'a, 'u> {
    fn new(history: &[Transaction], users: &'u Users<'a>, name: &'a String) -> Result<List<'a, 'u>, Violation> {
        let boxed = |at: usize| Box::new(history[at].clone());
        let key = || name.clone();
        let mut writers = BTreeMap::new();
        let mut longest: (usize, &[i64]) = (0, &[]);
        for (at, used) in users {
            for element in &used.appended {
                if writers.insert(*element, *at).is_some() {
                    return Err(Violation::Twice { key: key(), element: *element, transaction: boxed(*at) });
                }
            }
            let read = (*at, used.read.unwrap_or_default());
            let (shorter, longer) = if read.1.len() > longest.1.len() { (longest, read) } else { (read, longest) };
            if !longer.1.starts_with(shorter.1) {
                return Err(Violation::Diverged { key: key(), one: boxed(longest.0), other: boxed(*at) });
            }
            longest = longer;
        }
        let (reader, order) = longest;
        let mut seen = BTreeSet::new();
        for element in order {
            if !seen.insert(*element) {
                return Err(Violation::Twice { key: key(), element: *element, transaction: boxed(reader) });
            }
            match writers.get(element) {
                None => return Err(Violation::Garbage { key: key(), element: *element, reader: boxed(reader) }),
                Some(writer) if history[*writer].status == Status::Fail => {
                    let (writer, reader) = (boxed(*writer), boxed(reader));
                    return Err(Violation::AbortedRead { key: key(), element: *element, writer, reader });
                }
                Some(_) => {}
            }
        }
        // Who sees one append of a transaction sees all of them.
        let ends: BTreeSet<i64> = users.iter().filter_map(|(_, used)| used.appended.last().copied()).collect();
        for (at, used) in users {
            if let Some(last) = used.read.and_then(<[i64]>::last).filter(|last| !ends.contains(last)) {
                let (writer, reader) = (boxed(writers[last]), boxed(*at));
                return Err(Violation::IntermediateRead { key: key(), writer, reader });
            }
        }
        let surely = |(element, at): (&i64, &usize)| {
            (history[*at].status == Status::Ok && !seen.contains(element)).then_some(*at)
        };
        let unseen = writers.iter().filter_map(surely).collect();
        Ok(List { key: name, users, order, unseen, writers })
    }

    fn relate(&self, graph: &mut Graph<'a>) {
        let writer = |place: usize| self.order.get(place).map(|element| self.writers[element]);
        for place in 1..self.order.len() {
            graph.relate(writer(place - 1), writer(place), Why::Ww, self.key);
        }
        for late in &self.unseen {
            graph.relate(self.order.len().checked_sub(1).and_then(writer), Some(*late), Why::Ww, self.key);
        }
        for (at, used) in self.users {
            let Some(read) = used.read else { continue };
            graph.relate(read.len().checked_sub(1).and_then(writer), Some(*at), Why::Wr, self.key);
            match writer(read.len()) {
                Some(next) => graph.relate(Some(*at), Some(next), Why::Rw, self.key),
                None => self.unseen.iter().for_each(|late| graph.relate(Some(*at), Some(*late), Why::Rw, self.key)),
            }
        }
    }
}
