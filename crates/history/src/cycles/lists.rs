//! Lists: the order of their elements is the order of the transactions that appended them.

use super::graph::Graph;
use super::{Kinds, Violation, Why};
use crate::{Op, Status, Transaction, Value};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction's use of a list: what it read of other transactions, and what it appended.
#[derive(Default)]
struct Use<'a> {
    read: Option<&'a [i64]>,
    appended: Vec<i64>,
}

/// The uses of a list, in the order of the history.
type Users<'a> = Vec<(usize, Use<'a>)>;

/// Collects reads and appends, list by list. The flag is true if each element names the transaction
/// that appended it.
pub(super) fn collect<'a>(
    history: &[&'a Transaction],
    kinds: &Kinds<'a>,
) -> Result<(Vec<List<'a>>, bool), Violation> {
    let lists: BTreeMap<&String, Users<'a>> =
        super::by_key(history, |transaction| used(transaction, &kinds.lists))?;
    let all = lists.len();
    let lists = lists.into_iter().map(|(key, users)| List::new(history, users, key));
    let lists: Vec<List<'a>> = lists.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    let named = lists.len() == all;
    Ok((lists, named))
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
        let found = match value {
            Value::List(list) => list.as_slice(),
            Value::Nothing => &[],
            Value::Number(number) => std::slice::from_ref(number),
        };
        let wrong =
            || Violation::Internal { key: key.clone(), transaction: Box::new(transaction.clone()) };
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
            Op::Append(key, element) if keys.contains(key) => {
                uses.entry(key).or_default().appended.push(*element)
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

/// A list: the order of its elements, and the transactions that appended them.
pub(super) struct List<'a> {
    key: &'a str,
    users: Users<'a>,
    order: &'a [i64],
    writers: BTreeMap<i64, usize>,
}

impl<'a> List<'a> {
    /// Returns `None` if an element was appended twice: it names no writer.
    fn new(
        history: &[&'a Transaction],
        users: Users<'a>,
        name: &'a String,
    ) -> Result<Option<Self>, Violation> {
        let boxed = |at: usize| Box::new(history[at].clone());
        let key = || name.clone();
        let mut writers = BTreeMap::new();
        let mut longest: (usize, &[i64]) = (0, &[]);
        for (at, used) in &users {
            if used.appended.iter().any(|element| writers.insert(*element, *at).is_some()) {
                return Ok(None);
            }
        }
        for (at, used) in &users {
            let read = (*at, used.read.unwrap_or_default());
            let (shorter, longer) =
                if read.1.len() > longest.1.len() { (longest, read) } else { (read, longest) };
            if !longer.1.starts_with(shorter.1) {
                return Err(Violation::Diverged {
                    key: key(),
                    one: boxed(longest.0),
                    other: boxed(*at),
                });
            }
            longest = longer;
        }
        let (reader, order) = longest;
        let mut seen = BTreeSet::new();
        for element in order {
            if !seen.insert(*element) {
                return Err(Violation::Twice {
                    key: key(),
                    element: *element,
                    transaction: boxed(reader),
                });
            }
            match writers.get(element) {
                None => {
                    return Err(Violation::Garbage {
                        key: key(),
                        element: *element,
                        reader: boxed(reader),
                    });
                }
                Some(writer) if history[*writer].status == Status::Fail => {
                    let (writer, reader) = (boxed(*writer), boxed(reader));
                    return Err(Violation::AbortedRead {
                        key: key(),
                        element: *element,
                        writer,
                        reader,
                    });
                }
                Some(_) => {}
            }
        }
        // A read that sees one append of a transaction sees all of them.
        let ends: BTreeSet<i64> =
            users.iter().filter_map(|(_, used)| used.appended.last().copied()).collect();
        for (at, used) in &users {
            let own = |element: &i64| used.read.is_some_and(|read| read.contains(element));
            if used.appended.iter().any(own) {
                return Err(Violation::Future { key: key(), transaction: boxed(*at) });
            }
            if let Some(last) =
                used.read.and_then(<[i64]>::last).filter(|last| !ends.contains(last))
            {
                let (writer, reader) = (boxed(writers[last]), boxed(*at));
                return Err(Violation::IntermediateRead { key: key(), writer, reader });
            }
        }
        Ok(Some(List { key: name, users, order, writers }))
    }

    /// The transactions whose elements were read.
    pub(super) fn seen(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().map(|element| self.writers[element])
    }

    /// Returns the transactions that surely appended something that no other one read.
    fn unseen(&self, happened: &[bool]) -> BTreeSet<usize> {
        let order: BTreeSet<i64> = self.order.iter().copied().collect();
        let unseen =
            self.writers.iter().filter(|(element, at)| happened[**at] && !order.contains(element));
        unseen.map(|(_, at)| *at).collect()
    }

    pub(super) fn relate(&self, happened: &[bool], graph: &mut Graph<'a>) {
        let writer = |place: usize| self.order.get(place).map(|element| self.writers[element]);
        for place in 1..self.order.len() {
            graph.relate(writer(place - 1), writer(place), Why::Ww, self.key);
        }
        // An element that was not read comes after everything that was.
        let unseen = self.unseen(happened);
        for late in &unseen {
            graph.relate(
                self.order.len().checked_sub(1).and_then(writer),
                Some(*late),
                Why::Ww,
                self.key,
            );
        }
        for (at, used) in &self.users {
            let Some(read) = used.read else { continue };
            graph.relate(read.len().checked_sub(1).and_then(writer), Some(*at), Why::Wr, self.key);
            match writer(read.len()) {
                Some(next) => graph.relate(Some(*at), Some(next), Why::Rw, self.key),
                None => unseen
                    .iter()
                    .for_each(|late| graph.relate(Some(*at), Some(*late), Why::Rw, self.key)),
            }
            if read.len() == self.order.len() && unseen.contains(at) {
                let read_alike =
                    |(_, other): &&(usize, Use<'a>)| other.read.is_some_and(|other| other == read);
                for (other, _) in
                    self.users.iter().filter(read_alike).filter(|(other, _)| unseen.contains(other))
                {
                    graph.one_is_lost(*at, *other, self.key);
                }
            }
        }
    }

    /// Relates transactions whose elements were not read as if they had appended in the order of
    /// `places`.
    pub(super) fn relate_in_order(
        &self,
        places: &[usize],
        happened: &[bool],
        graph: &mut Graph<'a>,
    ) {
        let mut unseen: Vec<usize> = self.unseen(happened).into_iter().collect();
        unseen.sort_by_key(|at| places[*at]);
        for pair in unseen.windows(2) {
            graph.relate(Some(pair[0]), Some(pair[1]), Why::Ww, self.key);
        }
    }
}
