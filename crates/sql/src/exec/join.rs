//! Joins: by a hash table, over all pairs, or with a right side for each left row.

use super::pairs::Pairs;
use super::{CHUNK_ROWS, Context, Operator, Row, all, start};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Expr, Scope};
use crate::key;
use crate::memory::weight;
use crate::physical::{self, How, Kind, Node};
use meridian_txn::Future;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The size of the results of a dependent right side that are remembered, in rows.
const REMEMBERED_ROWS: usize = 20_000;

/// A running join.
pub(super) struct Join {
    left: Box<dyn Operator>,
    plan: Arc<Node>,
    right: Option<Right>,
    /// Left rows that were read.
    waiting: VecDeque<Row>,
    /// Rows that were not wanted yet.
    ready: VecDeque<Row>,
    /// True once the left side has ended.
    over: bool,
}

/// The right side.
enum Right {
    /// All rows, and for a hash join the rows of each key.
    All(Table),
    /// The rows for outer values that have occurred.
    Dependent { remembered: HashMap<Vec<u8>, Arc<Vec<Row>>>, rows: usize },
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

impl Join {
    pub(super) fn new(left: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Join {
            left,
            plan,
            right: None,
            waiting: VecDeque::new(),
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

/// Returns the value of a condition for a pair.
fn condition(on: &Option<Expr>, pair: &[Datum], scope: &Scope<'_>) -> Result<Datum, SqlError> {
    on.as_ref().map_or(Ok(Datum::Bool(true)), |on| on.eval(pair, scope))
}

impl physical::Join {
    /// Reads the right side, if it does not depend on the left one.
    async fn open(&self, cx: &mut Context<'_>) -> Result<Right, SqlError> {
        if let How::Dependent { .. } = self.how {
            return Ok(Right::Dependent { remembered: HashMap::new(), rows: 0 });
        }
        let mut table =
            Table { rows: all(start(&self.right).as_mut(), cx).await?, ..Table::default() };
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
            }
        }
        Ok(Right::All(table))
    }

    /// True if a NULL of the condition matters.
    fn knows_null(&self) -> bool {
        matches!(self.kind, Kind::Mark | Kind::AntiUnknown)
    }

    /// Joins a left row with a right side that is in memory.
    async fn join_with_all(
        &self,
        row: Row,
        table: &mut Table,
        cx: &mut Context<'_>,
        out: &mut Vec<Row>,
    ) -> Result<(), SqlError> {
        let mut pairs = Pairs::new(self.kind, &row, self.right_width);
        if !self.is_guarded(&row, cx)? {
            pairs.finish(out);
            return Ok(());
        }
        let mut pair = row.clone();
        let width = row.len();
        let everything: Vec<usize>;
        let mut null_too: &[usize] = &[];
        let (candidates, on): (&[usize], &Option<Expr>) = match &self.how {
            How::Hash { left, rest, .. } => match key_of(left, &row, &cx.scope())? {
                Some(bytes) => {
                    if self.knows_null() {
                        null_too = &table.without_key;
                    }
                    (table.by_key.get(&bytes).map_or(&[][..], Vec::as_slice), rest)
                }
                None if self.knows_null() => {
                    everything = (0..table.rows.len()).collect();
                    (&everything, &self.on)
                }
                None => (&[], rest),
            },
            _ => {
                everything = (0..table.rows.len()).collect();
                (&everything, &self.on)
            }
        };
        let parts = [(candidates, on), (null_too, &self.on)];
        'pairs: for (candidates, on) in parts {
            for (count, at) in candidates.iter().enumerate() {
                if count % CHUNK_ROWS == CHUNK_ROWS - 1 {
                    cx.pause(CHUNK_ROWS).await;
                }
                let right = &table.rows[*at];
                pair.truncate(width);
                pair.extend(right.iter().cloned());
                let value = condition(on, &pair, &cx.scope())?;
                if self.kind == Kind::Full && value == Datum::Bool(true) {
                    table.matched[*at] = true;
                }
                if !pairs.add(&value, right, out)? {
                    break 'pairs;
                }
            }
        }
        pairs.finish(out);
        Ok(())
    }

    fn is_guarded(&self, row: &[Datum], cx: &Context<'_>) -> Result<bool, SqlError> {
        self.guard.as_ref().map_or(Ok(true), |guard| guard.holds(row, &cx.scope()))
    }

    /// Joins a left row with a right side that depends on it.
    async fn join_with_its_own(
        &self,
        row: Row,
        (remembered, count): (&mut HashMap<Vec<u8>, Arc<Vec<Row>>>, &mut usize),
        cx: &mut Context<'_>,
        out: &mut Vec<Row>,
    ) -> Result<(), SqlError> {
        let mut pairs = Pairs::new(self.kind, &row, self.right_width);
        let How::Dependent { slots } = &self.how else { return Ok(()) };
        if !self.is_guarded(&row, cx)? {
            pairs.finish(out);
            return Ok(());
        }
        let mut bytes = Vec::new();
        for (at, slot) in slots {
            key::write(&row[*at], false, &mut bytes);
            cx.state.params[*slot] = row[*at].clone();
        }
        let (mut pair, width) = (row.clone(), row.len());
        let mut known = remembered.get(&bytes).cloned();
        let mut running = known.is_none().then(|| start(&self.right));
        // Rows are remembered only if all of them were read.
        let mut gathered = Some(Vec::new());
        'pairs: loop {
            let rights = match (&mut running, known.take()) {
                (Some(running), _) => {
                    let want = match (self.kind, &self.on) {
                        (Kind::Semi | Kind::Anti | Kind::Mark, None) => 1,
                        _ => CHUNK_ROWS,
                    };
                    let more = running.next(cx, want).await?;
                    cx.pause(more.len()).await;
                    Arc::new(more)
                }
                (None, Some(known)) => known,
                (None, None) => break,
            };
            if rights.is_empty() {
                break;
            }
            for (at, right) in rights.iter().enumerate() {
                pair.truncate(width);
                pair.extend(right.iter().cloned());
                let value = condition(&self.on, &pair, &cx.scope())?;
                if !pairs.add(&value, right, out)? {
                    if at + 1 < rights.len() || running.is_some() {
                        gathered = None;
                    }
                    break 'pairs;
                }
            }
            if let (Some(rows), true) = (&mut gathered, running.is_some()) {
                rows.extend(rights.iter().cloned());
                if *count + rows.len() > REMEMBERED_ROWS {
                    gathered = None;
                }
            }
        }
        if let (Some(rows), true) = (gathered, running.is_some())
            && *count < REMEMBERED_ROWS
        {
            *count += rows.len() + 1;
            cx.state
                .held
                .add(bytes.len() + rows.iter().map(|row| weight(row)).sum::<usize>() + 64)?;
            remembered.insert(bytes, Arc::new(rows));
        }
        pairs.finish(out);
        Ok(())
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
            let Node::Join(join) = &*plan else { return Ok(Vec::new()) };
            while self.ready.len() < want && !self.over {
                let Some(row) = self.waiting.pop_front() else {
                    if !self.ready.is_empty() {
                        break;
                    }
                    let more = self.left.next(cx, want).await?;
                    self.over = more.is_empty();
                    self.waiting.extend(more);
                    continue;
                };
                if self.right.is_none() {
                    self.right = Some(join.open(cx).await?);
                }
                let mut out = Vec::new();
                match &mut self.right {
                    Some(Right::All(table)) => {
                        join.join_with_all(row, table, cx, &mut out).await?;
                        cx.pause(out.len()).await;
                    }
                    Some(Right::Dependent { remembered, rows }) => {
                        join.join_with_its_own(row, (remembered, rows), cx, &mut out).await?;
                    }
                    None => {}
                }
                self.ready.extend(out);
            }
            if self.over && join.kind == Kind::Full {
                if self.right.is_none() {
                    self.right = Some(join.open(cx).await?);
                }
                if let Some(Right::All(table)) = &mut self.right {
                    while self.ready.len() < want && table.unmatched_at < table.rows.len() {
                        let at = table.unmatched_at;
                        table.unmatched_at += 1;
                        if !table.matched[at] {
                            let left_width = join.left_width;
                            let nulls = std::iter::repeat_n(Datum::Null, left_width);
                            self.ready
                                .push_back(nulls.chain(table.rows[at].iter().cloned()).collect());
                        }
                    }
                }
            }
            let count = want.min(self.ready.len());
            Ok(self.ready.drain(..count).collect())
        })
    }
}
