//! Window functions: sorts the rows into partitions, and adds the functions' values.

use super::sort::compare;
use super::{Context, Operator, Row, all};
use crate::error::SqlError;
use crate::expr::Scope;
use crate::memory::weight;
use crate::physical::{Node, Op, SortBy};
use crate::record::similar::Similar;
use crate::turn;
use crate::window::{Offsets, Partition};
use meridian_txn::Future;
use std::sync::Arc;

/// The partitions that are left, once the input has ended.
pub(super) struct Window {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    state: Option<State>,
}

/// The rows by partition, and the values of the frames' offsets.
struct State {
    /// Sorted rows whose partitions are not computed yet.
    waiting: std::iter::Peekable<std::vec::IntoIter<Row>>,
    ready: std::vec::IntoIter<Row>,
    offsets: Vec<Offsets>,
}

impl Window {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Window { input, plan, state: None }
    }

    /// Reads and sorts all rows.
    async fn begin(&mut self, cx: &mut Context<'_>) -> Result<State, SqlError> {
        let plan = self.plan.clone();
        let Op::Window { partition, order, calls, .. } = &plan.op else {
            return Ok(State {
                waiting: Vec::new().into_iter().peekable(),
                ready: Vec::new().into_iter(),
                offsets: Vec::new(),
            });
        };
        let mut rows = all(self.input.as_mut(), cx).await?;
        let by: Vec<SortBy> = partition.iter().map(part).chain(order.iter().copied()).collect();
        let mut similar = Similar::default();
        for row in &rows {
            similar.check(by.iter().map(|key| &row[key.column]))?;
        }
        if !by.is_empty() {
            turn::sort(&mut rows, &mut cx.state.turn, |a, b| compare(&by, a, b)).await;
        }
        let mut offsets = Vec::with_capacity(calls.len());
        if !rows.is_empty() {
            for call in calls {
                offsets.push(Offsets::of(&call.frame, &cx.scope())?);
            }
        }
        Ok(State { waiting: rows.into_iter().peekable(), ready: Vec::new().into_iter(), offsets })
    }
}

fn part(column: &usize) -> SortBy {
    SortBy { column: *column, descending: false, nulls_first: false }
}

/// Computes the functions for the next partition; no rows are the end.
async fn next_partition(
    plan: &Node,
    state: &mut State,
    cx: &mut Context<'_>,
) -> Result<Vec<Row>, SqlError> {
    let Op::Window { partition, order, calls, .. } = &plan.op else { return Ok(Vec::new()) };
    let by: Vec<SortBy> = partition.iter().map(part).collect();
    let mut rows: Vec<Row> = Vec::new();
    while let Some(row) = state
        .waiting
        .next_if(|row| rows.first().is_none_or(|first| compare(&by, first, row).is_eq()))
    {
        rows.push(row);
    }
    let mut columns = Vec::with_capacity(calls.len());
    {
        let divided = Partition::new(&rows, order);
        for (call, offsets) in calls.iter().zip(&state.offsets) {
            let query = &mut *cx.state;
            let scope = Scope {
                params: &query.params,
                now_us: cx.now_us,
                session: cx.facts,
                catalog: query.catalog.as_ref(),
                effects: None,
            };
            let mut running = divided.start(call, offsets, &scope, &mut query.held)?;
            cx.pause(rows.len()).await;
            let mut values = Vec::with_capacity(rows.len());
            for at in 0..rows.len() {
                let (value, steps) = running.value(at, &mut cx.state.held)?;
                cx.state.held.add(weight(std::slice::from_ref(&value)))?;
                values.push(value);
                cx.pause(steps).await;
            }
            running.end(&mut cx.state.held);
            columns.push(values);
        }
    }
    for values in columns {
        rows.iter_mut().zip(values).for_each(|(row, value)| row.push(value));
    }
    Ok(rows)
}

impl Operator for Window {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            if self.state.is_none() {
                self.state = Some(self.begin(cx).await?);
            }
            let Some(state) = &mut self.state else { return Ok(Vec::new()) };
            let mut out: Vec<Row> = state.ready.by_ref().take(want).collect();
            while out.len() < want && state.waiting.peek().is_some() {
                state.ready = next_partition(&self.plan, state, cx).await?.into_iter();
                out.extend(state.ready.by_ref().take(want - out.len()));
            }
            Ok(out)
        })
    }
}
