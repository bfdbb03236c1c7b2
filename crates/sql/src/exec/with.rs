//! Queries of WITH, recursive ones among them.

use super::{Context, Operator, Row, all, start};
use crate::error::SqlError;
use crate::key;
use crate::memory::weight;
use crate::physical::{Node, Op, RowsOf};
use crate::record::similar::Similar;
use meridian_txn::{Future, Locking};
use std::collections::HashSet;
use std::sync::Arc;

/// A query of WITH, and the query that uses it.
pub(super) struct With {
    body: Box<dyn Operator>,
    plan: Arc<Node>,
    begun: bool,
}

impl With {
    pub(super) fn new(body: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        With { body, plan, begun: false }
    }
}

impl Operator for With {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::With { name, .. } = &self.plan.op else { return Ok(Vec::new()) };
            if !std::mem::replace(&mut self.begun, true) {
                // In a dependent join the rows of the row before do not count.
                cx.state.named[*name] = None;
            }
            self.body.next(cx, want).await
        })
    }
}

/// The rows of a query of WITH.
pub(super) struct Named {
    plan: Arc<Node>,
    rows: Option<Arc<Vec<Row>>>,
    at: usize,
}

impl Named {
    pub(super) fn new(plan: Arc<Node>) -> Self {
        Named { plan, rows: None, at: 0 }
    }
}

impl Operator for Named {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Named { name, picks, of } = &self.plan.op else {
                return Ok(Vec::new());
            };
            let rows = match (&self.rows, &cx.state.named[*name], of) {
                (Some(rows), ..) | (None, Some(rows), _) => rows.clone(),
                (None, None, RowsOf::Query(definition)) => {
                    // Its rows are read once, and are not looked at again as candidates.
                    let before = cx.lock_as(Locking::Wait)?;
                    let rows = all(start(definition, cx.measures()).as_mut(), cx).await;
                    cx.lock_as(before)?;
                    let rows = Arc::new(rows?);
                    cx.state.named[*name] = Some(rows.clone());
                    rows
                }
                (None, None, RowsOf::Round | RowsOf::Given) => return Ok(Vec::new()),
            };
            let next = rows.iter().skip(self.at).take(want);
            let picked: Vec<Row> =
                next.map(|row| picks.iter().map(|at| row[*at].clone()).collect()).collect();
            self.at += picked.len();
            self.rows = Some(rows);
            Ok(picked)
        })
    }
}

/// The rows of a recursive query, in rounds.
pub(super) struct Recursive {
    plan: Arc<Node>,
    /// The first query, then the step of each round.
    round: Box<dyn Operator>,
    /// The rows that the round before added.
    before: Arc<Vec<Row>>,
    /// The rows that this round has added, and their memory in bytes.
    added: Vec<Row>,
    held: usize,
    before_held: usize,
    /// All rows, if duplicates do not count.
    seen: HashSet<Vec<u8>>,
    similar: Similar,
    ended: bool,
}

impl Recursive {
    pub(super) fn new(first: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Recursive {
            plan,
            round: first,
            before: Arc::default(),
            added: Vec::new(),
            held: 0,
            before_held: 0,
            seen: HashSet::new(),
            similar: Similar::default(),
            ended: false,
        }
    }
}

impl Operator for Recursive {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Recursive { name, all, step, .. } = &self.plan.op else {
                return Ok(Vec::new());
            };
            while !self.ended {
                cx.state.named[*name] = Some(self.before.clone());
                let mut found = self.round.next(cx, want).await?;
                cx.pause(found.len()).await;
                if found.is_empty() {
                    cx.state.held.free(self.before_held);
                    self.before_held = std::mem::take(&mut self.held);
                    self.before = Arc::new(std::mem::take(&mut self.added));
                    self.ended = self.before.is_empty();
                    self.round = start(step, cx.measures());
                    continue;
                }
                if !all {
                    for row in std::mem::take(&mut found) {
                        self.similar.check(&row)?;
                        let mut bytes = Vec::new();
                        row.iter().for_each(|datum| key::write(datum, false, &mut bytes));
                        let length = bytes.len();
                        if self.seen.insert(bytes) {
                            cx.state.held.add(length + 48)?;
                            found.push(row);
                        }
                    }
                }
                for row in &found {
                    let bytes = weight(row);
                    cx.state.held.add(bytes)?;
                    self.held += bytes;
                }
                self.added.extend_from_slice(&found);
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            Ok(Vec::new())
        })
    }
}
