//! The rows of set-returning functions.

use super::{Context, Operator, Row};
use crate::datum::Datum;
use crate::effects;
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
            let running = match &mut self.calls {
                Some(running) => running,
                None => {
                    let mut running = Vec::with_capacity(calls.len());
                    for (function, args) in calls {
                        let args = cx.evaluate(args, &[]).await?;
                        let rows = match function.effect() {
                            None => function.rows(&args, &cx.scope())?,
                            // Its value is the only row.
                            Some(_) if args.iter().any(Datum::is_null) => {
                                function.only_row(Datum::Null)
                            }
                            Some(effect) => function
                                .only_row(effects::call(effect, &args, cx.txn, cx.facts).await?),
                        };
                        running.push((rows, function.width()));
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
