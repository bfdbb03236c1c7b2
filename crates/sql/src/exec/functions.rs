//! The rows of set-returning functions.

use super::{Context, Operator, Row, evaluate};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::function::Rows;
use crate::physical::{Node, Op};
use meridian_txn::Future;
use std::sync::Arc;

/// The rows of functions side by side.
pub(super) struct Functions {
    plan: Arc<Node>,
    /// The rows of each call, with its number of columns; `None` before the first request.
    calls: Option<Vec<(Rows, usize)>>,
    /// The rows so far.
    count: i64,
}

impl Functions {
    pub(super) fn new(plan: Arc<Node>) -> Self {
        Functions { plan, calls: None, count: 0 }
    }
}

impl Operator for Functions {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let Op::Functions { calls, ordinality } = &self.plan.op else {
                return Ok(Vec::new());
            };
            let scope = cx.scope();
            let running = match &mut self.calls {
                Some(running) => running,
                None => {
                    let mut running = Vec::with_capacity(calls.len());
                    for (function, args) in calls {
                        let args = evaluate(args, &[], &scope)?;
                        running.push((function.rows(&args, &scope)?, function.width()));
                    }
                    self.calls.insert(running)
                }
            };
            let mut rows = Vec::new();
            while rows.len() < want {
                let mut row = Row::new();
                let mut any = false;
                for (call, width) in running.iter_mut() {
                    match call.next().transpose()? {
                        Some(values) => {
                            any = true;
                            row.extend(values);
                        }
                        None => row.extend(std::iter::repeat_n(Datum::Null, *width)),
                    }
                }
                if !any {
                    break;
                }
                self.count += 1;
                if *ordinality {
                    row.push(Datum::Int8(self.count));
                }
                rows.push(row);
            }
            Ok(rows)
        })
    }
}
