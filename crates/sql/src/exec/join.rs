//! Joins: by a hash table, over all pairs, or with a right side for each left row.
//!
//! The pairs of a left row are made in steps, so that a row with many matches holds no more memory
//! than other rows.

use super::pairs::Pairs;
use super::{CHUNK_ROWS, Context, Operator, Row, all, start};
use crate::access::Target;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Expr, Scope};
use crate::interval::Interval;
use crate::key;
use crate::memory::weight;
use crate::numeric::Decimal;
use crate::physical::{self, How, Kind, Node, Op};
use meridian_txn::Future;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The rows of dependent right sides that are remembered by one join.
const REMEMBERED_ROWS: usize = 20_000;

/// A running join.
pub(super) struct Join {
    left: Box<dyn Operator>,
    plan: Arc<Node>,
    right: Right,
    /// Left rows that were read.
    waiting: VecDeque<Row>,
    current: Option<Current>,
    /// Rows that were not wanted yet.
    ready: VecDeque<Row>,
    /// True once the left side has ended.
    over: bool,
}

/// The right side.
enum Right {
    /// No left row has needed it yet.
    Unread,
    /// All rows, and for a hash join the rows of each key.
    All(Table),
    Dependent(Known),
}

/// The rows of a dependent right side that are known, by the outer values.
#[derive(Default)]
struct Known {
    /// Those of outer values that have occurred, and their number.
    remembered: HashMap<Vec<u8>, Arc<Vec<Row>>>,
    count: usize,
    /// Those that were looked up together for the waiting left rows, and their memory.
    fetched: HashMap<Vec<u8>, Arc<Vec<Row>>>,
    held: usize,
}

impl Known {
    fn get(&self, outer: &[u8]) -> Option<Arc<Vec<Row>>> {
        self.fetched.get(outer).or_else(|| self.remembered.get(outer)).cloned()
    }
}

#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    by_key: HashMap<Vec<u8>, Vec<usize>>,
    /// The rows with a NULL in their key, which equal nothing.
    without_key: Vec<usize>,
    /// For a full join: the rows that have had a match.
    matched: Vec<bool>,
    /// For a full join: the next row to look at, once the left side has ended.
    unmatched_at: usize,
}

/// A left row, and its next pair.
struct Current {
    left: Row,
    pairs: Pairs,
    rights: Rights,
}

/// The right rows of a left row that are left.
enum Rights {
    /// All rows of the table, from this one on.
    Everything(usize),
    /// The rows of a key from this one on, and then those without a key.
    OfKey(Vec<u8>, usize),
    /// The rows without a key, from this one on.
    WithoutKey(usize),
    /// Rows that were remembered, from this one on.
    Remembered(Arc<Vec<Row>>, usize),
    /// The rows of a dependent right side.
    Running(Box<Running>),
}

/// A dependent right side for one left row.
struct Running {
    operator: Box<dyn Operator>,
    outer: Vec<u8>,
    /// Its rows so far, while they are few enough to be remembered.
    rows: Option<Vec<Row>>,
    /// The memory that the operator has taken.
    held: usize,
}

impl Join {
    pub(super) fn new(left: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Join {
            left,
            plan,
            right: Right::Unread,
            waiting: VecDeque::new(),
            current: None,
            ready: VecDeque::new(),
            over: false,
        }
    }
}

/// Returns the bytes of a key; `None` if a part of it is NULL.
fn key_of(exprs: &[Expr], row: &[Datum], scope: &Scope<'_>) -> Result<Option<Vec<u8>>, SqlError> {
    let mut bytes = Vec::new();
    for expr in exprs {
        let value = expr.eval(row, scope)?;
        if value.is_null() {
            return Ok(None);
        }
        key::write(&value, false, &mut bytes);
    }
    Ok(Some(bytes))
}

/// Appends a value so that only identical values have the same bytes: not only equal ones.
fn write_exactly(datum: &Datum, out: &mut Vec<u8>) {
    key::write(datum, false, out);
    match datum {
        Datum::Numeric(n) => {
            out.extend(n.finite().map_or(0, Decimal::scale).to_be_bytes());
        }
        Datum::Float4(x) => out.extend(x.to_bits().to_be_bytes()),
        Datum::Float8(x) => out.extend(x.to_bits().to_be_bytes()),
        Datum::Interval(Interval { months, days, micros }) => {
            out.extend(months.to_be_bytes());
            out.extend(days.to_be_bytes());
            out.extend(micros.to_be_bytes());
        }
        Datum::Jsonb(value) => out.extend(value.as_bytes()),
        Datum::Array(array) => array.values().iter().for_each(|value| write_exactly(value, out)),
        Datum::Record(record) => {
            record.values().iter().for_each(|value| write_exactly(value, out));
        }
        _ => {}
    }
}

impl physical::Join {
    /// Reads the right side, if it does not depend on the left one.
    async fn open(&self, cx: &mut Context<'_>) -> Result<Right, SqlError> {
        if let How::Dependent { .. } = self.how {
            return Ok(Right::Dependent(Known::default()));
        }
        let rows = all(start(&self.right, cx.measures()).as_mut(), cx).await?;
        let mut table = Table { rows, ..Table::default() };
        table.matched = vec![false; if self.kind == Kind::Full { table.rows.len() } else { 0 }];
        if let How::Hash { right, .. } = &self.how {
            for (at, row) in table.rows.iter().enumerate() {
                match key_of(right, row, &cx.scope())? {
                    Some(bytes) => {
                        cx.state.held.add(bytes.len() + 64)?;
                        table.by_key.entry(bytes).or_default().push(at);
                    }
                    None => table.without_key.push(at),
                }
                cx.pause(0).await;
            }
        }
        Ok(Right::All(table))
    }

    /// True if a NULL of the condition matters.
    fn knows_null(&self) -> bool {
        matches!(self.kind, Kind::Mark | Kind::AntiUnknown)
    }

    fn is_guarded(&self, row: &[Datum], cx: &Context<'_>) -> Result<bool, SqlError> {
        self.guard.as_ref().map_or(Ok(true), |guard| guard.holds(row, &cx.scope()))
    }

    /// Makes a left row's columns the parameters of the right side; returns them as bytes.
    fn set_outer(slots: &[(usize, usize)], left: &[Datum], cx: &mut Context<'_>) -> Vec<u8> {
        let mut outer = Vec::new();
        for (at, slot) in slots {
            write_exactly(&left[*at], &mut outer);
            cx.state.params[*slot] = left[*at].clone();
        }
        outer
    }

    /// Looks up the right rows of the waiting left rows together, if the right side is a table that
    /// is read by whole primary keys: then they take as long as one lookup.
    async fn fetch(
        &self,
        waiting: &VecDeque<Row>,
        right: &mut Right,
        cx: &mut Context<'_>,
    ) -> Result<(), SqlError> {
        let (How::Dependent { slots, .. }, Right::Dependent(known)) = (&self.how, right) else {
            return Ok(());
        };
        known.fetched.clear();
        cx.state.held.free(std::mem::take(&mut known.held));
        let Op::Scan(scan) = &self.right.op else { return Ok(()) };
        if waiting.len() < 2 || !scan.reads_by_primary_key() || scan.pin(cx).is_some() {
            return Ok(());
        }
        let mut wanted = Vec::with_capacity(waiting.len());
        let mut keys = BTreeSet::new();
        let mut seen = HashSet::new();
        for left in waiting {
            if !self.is_guarded(left, cx)? {
                continue;
            }
            let outer = Self::set_outer(slots, left, cx);
            if known.remembered.contains_key(&outer) || !seen.insert(outer.clone()) {
                continue;
            }
            let mut own = Vec::new();
            for target in scan.access.targets(&scan.table, &cx.scope())? {
                let Target::Point(key) = target else { return Ok(()) };
                own.push(key);
            }
            keys.extend(own.iter().cloned());
            wanted.push((left, outer, own));
        }
        let began = cx.now();
        let found = scan.look_up(keys, cx).await?;
        let (took, mut count) = (cx.now().saturating_sub(began), 0);
        let lookups = wanted.len();
        let before = cx.state.held.used();
        for (left, outer, own) in wanted {
            Self::set_outer(slots, left, cx);
            let mut rows = Vec::with_capacity(own.len());
            for row in own.iter().filter_map(|key| found.get(key)) {
                scan.take(row, cx, &mut rows)?;
            }
            let bytes: usize = rows.iter().map(|row| weight(row)).sum();
            cx.state.held.add(outer.len() + bytes + 64)?;
            count += rows.len();
            known.fetched.insert(outer, Arc::new(rows));
        }
        known.held = cx.state.held.used().saturating_sub(before);
        cx.count(self.right.id(), count, lookups, took);
        Ok(())
    }

    /// Begins the pairs of a left row; `None` if it has none.
    fn begin(
        &self,
        left: &[Datum],
        right: &Right,
        cx: &mut Context<'_>,
    ) -> Result<Option<Rights>, SqlError> {
        Ok(match (&self.how, right) {
            (How::Dependent { slots, .. }, Right::Dependent(known)) => {
                let outer = Self::set_outer(slots, left, cx);
                Some(match known.get(&outer) {
                    Some(rows) => Rights::Remembered(rows, 0),
                    None => Rights::Running(Box::new(Running {
                        operator: start(&self.right, cx.measures()),
                        outer,
                        rows: Some(Vec::new()),
                        held: 0,
                    })),
                })
            }
            (How::Hash { left: keys, .. }, _) => match key_of(keys, left, &cx.scope())? {
                Some(bytes) => Some(Rights::OfKey(bytes, 0)),
                None if self.knows_null() => Some(Rights::Everything(0)),
                None => None,
            },
            _ => Some(Rights::Everything(0)),
        })
    }

    /// Makes the next pairs of a left row. Returns what is left of it.
    async fn step(
        &self,
        mut current: Current,
        right: &mut Right,
        cx: &mut Context<'_>,
        out: &mut VecDeque<Row>,
    ) -> Result<Option<Current>, SqlError> {
        let rest = match &self.how {
            How::Hash { rest, .. } => rest,
            _ => &self.on,
        };
        // The next right rows, the condition, and how to go on.
        let mut pair = current.left.clone();
        let width = pair.len();
        let mut goes_on = true;
        let next = match (current.rights, &mut *right) {
            (Rights::Running(mut running), Right::Dependent(known)) => {
                let asks_existence =
                    matches!((self.kind, &self.on), (Kind::Semi | Kind::Anti | Kind::Mark, None));
                let want = if asks_existence { 1 } else { CHUNK_ROWS };
                let before = cx.state.held.used();
                let rows = running.operator.next(cx, want).await?;
                running.held += cx.state.held.used().saturating_sub(before);
                for right in &rows {
                    pair.truncate(width);
                    pair.extend(right.iter().cloned());
                    let value = value_of(&self.on, &pair, cx)?;
                    if !current.pairs.add(self, &value, &pair, out)? {
                        goes_on = false;
                        break;
                    }
                    cx.pause(0).await;
                }
                let ended = rows.is_empty();
                if let Some(all) = &mut running.rows {
                    all.extend(rows);
                    if !self.remembers() || known.count + all.len() > REMEMBERED_ROWS {
                        running.rows = None;
                    }
                }
                if ended || !goes_on {
                    cx.state.held.free(running.held);
                }
                // Where existence is all that is asked, the first row tells it.
                let is_known = ended || asks_existence && !goes_on;
                if is_known && let Some(rows) = running.rows.take() {
                    known.count += rows.len() + 1;
                    let bytes: usize = rows.iter().map(|row| weight(row)).sum();
                    cx.state.held.add(running.outer.len() + bytes + 64)?;
                    known.remembered.insert(std::mem::take(&mut running.outer), Arc::new(rows));
                }
                (!ended).then_some(Rights::Running(running))
            }
            (Rights::Remembered(rows, at), _) => {
                let end = rows.len().min(at + CHUNK_ROWS);
                for right in &rows[at..end] {
                    pair.truncate(width);
                    pair.extend(right.iter().cloned());
                    let value = value_of(&self.on, &pair, cx)?;
                    if !current.pairs.add(self, &value, &pair, out)? {
                        goes_on = false;
                        break;
                    }
                    cx.pause(0).await;
                }
                (end < rows.len()).then_some(Rights::Remembered(rows, end))
            }
            (rights, Right::All(table)) => {
                // The numbers of the candidates; all rows if there are none.
                let (candidates, from, on) = match &rights {
                    Rights::OfKey(key, at) => {
                        (Some(table.by_key.get(key).map_or(&[][..], Vec::as_slice)), *at, rest)
                    }
                    Rights::WithoutKey(at) => (Some(&*table.without_key), *at, &self.on),
                    Rights::Everything(at) => (None, *at, &self.on),
                    Rights::Remembered(..) | Rights::Running(_) => return Ok(None),
                };
                let count = candidates.map_or(table.rows.len(), <[usize]>::len);
                let end = count.min(from + CHUNK_ROWS);
                for number in from..end {
                    let at = candidates.map_or(number, |rows| rows[number]);
                    pair.truncate(width);
                    pair.extend(table.rows[at].iter().cloned());
                    let value = value_of(on, &pair, cx)?;
                    if self.kind == Kind::Full && value == Datum::Bool(true) {
                        table.matched[at] = true;
                    }
                    if !current.pairs.add(self, &value, &pair, out)? {
                        goes_on = false;
                        break;
                    }
                    cx.pause(0).await;
                }
                match rights {
                    Rights::OfKey(key, _) if end < count => Some(Rights::OfKey(key, end)),
                    Rights::OfKey(..) if self.knows_null() => Some(Rights::WithoutKey(0)),
                    Rights::WithoutKey(_) if end < count => Some(Rights::WithoutKey(end)),
                    Rights::Everything(_) if end < count => Some(Rights::Everything(end)),
                    _ => None,
                }
            }
            _ => None,
        };
        match next {
            Some(rights) if goes_on => Ok(Some(Current { rights, ..current })),
            _ => {
                current.pairs.finish(self, current.left, out);
                Ok(None)
            }
        }
    }

    fn remembers(&self) -> bool {
        matches!(self.how, How::Dependent { remembers: true, .. })
    }
}

/// Returns the value of a condition for a pair.
fn value_of(on: &Option<Expr>, pair: &[Datum], cx: &Context<'_>) -> Result<Datum, SqlError> {
    on.as_ref().map_or(Ok(Datum::Bool(true)), |on| on.eval(pair, &cx.scope()))
}

impl Join {
    /// Returns the right rows of a full join that have had no match.
    fn unmatched(&mut self, join: &physical::Join, want: usize) {
        let Right::All(table) = &mut self.right else { return };
        while self.ready.len() < want && table.unmatched_at < table.rows.len() {
            let at = table.unmatched_at;
            table.unmatched_at += 1;
            if !table.matched[at] {
                let nulls = std::iter::repeat_n(Datum::Null, join.left_width);
                self.ready.push_back(nulls.chain(table.rows[at].iter().cloned()).collect());
            }
        }
    }
}

impl Operator for Join {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let plan = self.plan.clone();
            let Op::Join(join) = &plan.op else { return Ok(Vec::new()) };
            while self.ready.len() < want && !self.over {
                if let Some(current) = self.current.take() {
                    self.current = join.step(current, &mut self.right, cx, &mut self.ready).await?;
                    continue;
                }
                let Some(left) = self.waiting.pop_front() else {
                    if !self.ready.is_empty() {
                        break;
                    }
                    let more = self.left.next(cx, want).await?;
                    self.over = more.is_empty();
                    self.waiting.extend(more);
                    if let How::Dependent { .. } = join.how {
                        if let Right::Unread = self.right {
                            self.right = join.open(cx).await?;
                        }
                        join.fetch(&self.waiting, &mut self.right, cx).await?;
                    }
                    continue;
                };
                if !join.is_guarded(&left, cx)? {
                    Pairs::default().finish(join, left, &mut self.ready);
                    continue;
                }
                if let Right::Unread = self.right {
                    self.right = join.open(cx).await?;
                }
                match join.begin(&left, &self.right, cx)? {
                    Some(rights) => {
                        self.current = Some(Current { left, pairs: Pairs::default(), rights });
                    }
                    None => Pairs::default().finish(join, left, &mut self.ready),
                }
            }
            if self.over && join.kind == Kind::Full {
                if let Right::Unread = self.right {
                    self.right = join.open(cx).await?;
                }
                self.unmatched(join, want);
            }
            let count = want.min(self.ready.len());
            Ok(self.ready.drain(..count).collect())
        })
    }
}
