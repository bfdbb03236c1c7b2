//! Operators that hold no rows: values, filters, projections, limits.

use super::{CHUNK_BYTES, Context, Operator, Row, evaluate};
use crate::effects;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Scope};
use crate::memory::weight;
use crate::physical::{Node, Op};
use meridian_txn::Future;
use std::sync::Arc;

/// Rows of expressions.
pub(super) struct Values {
    plan: Arc<Node>,
    at: usize,
}

impl Values {
    pub(super) fn new(plan: Arc<Node>) -> Self {
        Values { plan, at: 0 }
    }
}

impl Operator for Values {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Values(rows) = &self.plan.op else { return Ok(Vec::new()) };
            let (mut made, mut bytes) = (Vec::new(), 0);
            for row in rows.iter().skip(self.at).take(want) {
                made.push(cx.evaluate(row, &[]).await?);
                if row.iter().any(effects::has_effects) {
                    break;
                }
                bytes += made.last().map_or(0, |row| weight(row));
                cx.pause(1).await;
                if bytes > CHUNK_BYTES {
                    break;
                }
            }
            self.at += made.len();
            Ok(made)
        })
    }
}

/// The rows for which a condition is true.
pub(super) struct Filter {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    /// True if functions of the condition have effects: rows are taken one by one.
    has_effects: bool,
}

impl Filter {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        let has_effects =
            matches!(&plan.op, Op::Filter { condition, .. } if effects::has_effects(condition));
        Filter { input, plan, has_effects }
    }
}

impl Operator for Filter {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Filter { condition, .. } = &self.plan.op else { return Ok(Vec::new()) };
            loop {
                let want = if self.has_effects { 1 } else { want };
                let found = self.input.next(cx, want).await?;
                if found.is_empty() {
                    return Ok(found);
                }
                cx.pause(found.len()).await;
                let mut kept = Vec::with_capacity(found.len());
                for row in found {
                    let holds = match self.has_effects {
                        true => cx.holds(condition, &row).await?,
                        false => condition.holds(&row, &cx.scope())?,
                    };
                    if holds {
                        kept.push(row);
                    }
                    cx.pause(0).await;
                }
                if !kept.is_empty() {
                    return Ok(kept);
                }
            }
        })
    }
}

/// A row of expressions for each row.
pub(super) struct Project {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    /// Input rows whose outputs were not wanted yet.
    waiting: std::vec::IntoIter<Row>,
    /// True if functions of the outputs have effects: rows are taken one by one.
    has_effects: bool,
}

impl Project {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        let has_effects = matches!(&plan.op, Op::Project { outputs, .. }
            if outputs.iter().any(effects::has_effects));
        Project { input, plan, waiting: Vec::new().into_iter(), has_effects }
    }
}

impl Operator for Project {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Project { outputs, .. } = &self.plan.op else { return Ok(Vec::new()) };
            let want = if self.has_effects { 1 } else { want };
            if self.waiting.len() == 0 {
                self.waiting = self.input.next(cx, want).await?.into_iter();
            }
            let (mut made, mut bytes) = (Vec::with_capacity(want.min(self.waiting.len())), 0);
            while made.len() < want
                && bytes <= CHUNK_BYTES
                && let Some(row) = self.waiting.next()
            {
                let outputs = match self.has_effects {
                    true => cx.evaluate(outputs, &row).await?,
                    false => evaluate(outputs, &row, &cx.scope())?,
                };
                bytes += weight(&outputs);
                made.push(outputs);
                cx.pause(0).await;
            }
            Ok(made)
        })
    }
}

/// Some of the rows.
pub(super) struct Limit {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    /// The rows to skip, and those to return after them; `None` before the first request.
    left: Option<(u64, u64)>,
}

impl Limit {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Limit { input, plan, left: None }
    }
}

/// Returns the value of LIMIT (none for all rows) or OFFSET.
pub(super) fn count(
    expr: &Option<Expr>,
    scope: &Scope<'_>,
    is_limit: bool,
) -> Result<Option<u64>, SqlError> {
    let Some(expr) = expr else { return Ok(None) };
    match expr.eval(&[], scope)?.as_i64() {
        Some(n) if n < 0 && is_limit => {
            Err(SqlError::new(state::INVALID_LIMIT, "LIMIT must not be negative"))
        }
        Some(n) if n < 0 => Err(SqlError::new("2201X", "OFFSET must not be negative")),
        n => Ok(n.map(|n| n as u64)),
    }
}

impl Operator for Limit {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Limit { limit, offset, .. } = &self.plan.op else { return Ok(Vec::new()) };
            let (mut skip, mut left) = match self.left {
                Some(left) => left,
                None => {
                    let skip = count(offset, &cx.scope(), false)?.unwrap_or(0);
                    (skip, count(limit, &cx.scope(), true)?.unwrap_or(u64::MAX))
                }
            };
            let mut rows = Vec::new();
            while rows.is_empty() && left > 0 {
                let most = skip.saturating_add(left).min(want as u64) as usize;
                let mut found = self.input.next(cx, most).await?;
                if found.is_empty() {
                    left = 0;
                    break;
                }
                let skipped = (skip as usize).min(found.len());
                found.drain(..skipped);
                skip -= skipped as u64;
                found.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                left -= found.len() as u64;
                rows = found;
            }
            self.left = Some((skip, left));
            Ok(rows)
        })
    }
}
