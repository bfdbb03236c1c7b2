//! Sorts rows.

use super::rows::count;
use super::{CHUNK_ROWS, Context, Operator, Row};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::memory::weight;
use crate::physical::{Node, Op, SortBy};
use crate::record::similar::Similar;
use crate::turn;
use meridian_txn::Future;
use std::cmp::Ordering;
use std::sync::Arc;

/// Half of the number of rows below which none is dropped.
const FEW: usize = 100;

/// Rows in order, once the input has ended.
pub(super) struct Sort {
    input: Box<dyn Operator>,
    plan: Arc<Node>,
    sorted: Option<std::vec::IntoIter<Row>>,
}

impl Sort {
    pub(super) fn new(input: Box<dyn Operator>, plan: Arc<Node>) -> Self {
        Sort { input, plan, sorted: None }
    }
}

/// Compares rows by their columns.
pub(super) fn compare(by: &[SortBy], a: &[Datum], b: &[Datum]) -> Ordering {
    for key in by {
        let (a, b) = (&a[key.column], &b[key.column]);
        let order = match (a.is_null(), b.is_null()) {
            (false, false) if key.descending => b.order(a),
            (false, false) => a.order(b),
            (a, b) if key.nulls_first => b.cmp(&a),
            (a, b) => a.cmp(&b),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

impl Operator for Sort {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Sort { by, most, .. } = &self.plan.op else { return Ok(Vec::new()) };
            if self.sorted.is_none() {
                let most = match most {
                    None => usize::MAX,
                    Some((limit, offset)) => {
                        let limit = count(limit, &cx.scope(), true)?.unwrap_or(u64::MAX);
                        let offset = count(offset, &cx.scope(), false)?.unwrap_or(0);
                        usize::try_from(limit.saturating_add(offset)).unwrap_or(usize::MAX)
                    }
                };
                let (mut rows, mut similar): (Vec<Row>, _) = (Vec::new(), Similar::default());
                loop {
                    let found = self.input.next(cx, CHUNK_ROWS).await?;
                    if found.is_empty() {
                        break;
                    }
                    cx.pause(found.len()).await;
                    for row in found {
                        similar.check(by.iter().map(|key| &row[key.column]))?;
                        cx.hold(&row)?;
                        rows.push(row);
                    }
                    // At twice the wanted number, half of the rows are dropped.
                    if rows.len() >= most.max(FEW).saturating_mul(2) {
                        turn::sort(&mut rows, &mut cx.state.turn, |a, b| compare(by, a, b)).await;
                        for row in rows.drain(most..) {
                            cx.state.held.free(weight(&row));
                        }
                    }
                }
                turn::sort(&mut rows, &mut cx.state.turn, |a, b| compare(by, a, b)).await;
                rows.truncate(most);
                self.sorted = Some(rows.into_iter());
            }
            Ok(self.sorted.iter_mut().flatten().take(want).collect())
        })
    }
}
