//! A planned query, and its rows on the session's request.

use crate::Shared;
use crate::error::{inward, outward};
use crate::function::{Known, Moment};
use crate::sequential::in_order;
use crate::subquery::{self, Apply};
use crate::table::{Bridge, Event, Request};
use crate::value;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ParamValues, Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use meridian_sql::system::Catalog;
use meridian_sql::{
    AnalyticPlan, AnalyticRows, Column, Datum, Position, Reader, SqlError, Type, state,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A query planned against its tables, with placeholders for its parameters.
pub(crate) struct Plan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) logical: LogicalPlan,
    /// The correlated subqueries that were turned into functions.
    pub(crate) applied: Arc<[Arc<Apply>]>,
    pub(crate) params: Vec<Type>,
    pub(crate) columns: Arc<[Column]>,
    pub(crate) moment: Moment,
}

impl AnalyticPlan for Plan {
    fn params(&self) -> Vec<Type> {
        self.params.clone()
    }

    fn columns(&self) -> Arc<[Column]> {
        self.columns.clone()
    }

    fn explain(&self) -> Vec<String> {
        let optimized = self.shared.state.optimize(&self.logical);
        let shown = optimized.as_ref().unwrap_or(&self.logical).display_indent().to_string();
        shown.lines().map(|line| line.replace(crate::dialect::MARK, "")).collect()
    }

    fn start(&self, params: Vec<Datum>) -> Result<Box<dyn AnalyticRows>, SqlError> {
        let (mut logical, mut applied) = (self.logical.clone(), self.applied.clone());
        if !self.params.is_empty() {
            let scalars: Vec<ScalarValue> = params
                .iter()
                .zip(&self.params)
                .map(|(datum, ty)| value::scalar(datum, *ty))
                .collect::<Result<_, _>>()?;
            let values = ParamValues::from(scalars);
            applied =
                subquery::with_param_values(&applied, &values).map_err(|error| inward(&error))?;
            logical = logical.with_param_values(values).map_err(|error| inward(&error))?;
        }
        let start =
            Start { shared: self.shared.clone(), logical, moment: self.moment.clone(), applied };
        Ok(Box::new(Rows::Ready(Box::new(start))))
    }
}

/// Computes an expression without columns.
pub(crate) fn folded(expr: Expr, state: &SessionState) -> Result<Expr> {
    let context =
        SimplifyContext::builder().with_config_options(state.config_options().clone()).build();
    let simplifier = ExprSimplifier::new(context);
    simplifier.simplify(simplifier.coerce(expr, &DFSchema::empty())?)
}

struct Start {
    shared: Arc<Shared>,
    logical: LogicalPlan,
    applied: Arc<[Arc<Apply>]>,
    moment: Moment,
}

enum Rows {
    Ready(Box<Start>),
    Running(mpsc::Receiver<Event>, Task),
    Over,
}

/// A query's task, which ends when its rows are dropped. A task that computes without a pause
/// notices it at the next row of one of this crate's functions, or at the next batch.
struct Task(JoinHandle<()>, Arc<AtomicBool>);

impl Drop for Task {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        self.0.abort();
    }
}

/// The size limit of a batch that repeats a constant in each of its rows, in bytes.
const BATCH_BYTES: usize = 64 << 20;

/// Returns the length of the longest text constant of a plan, in bytes.
fn largest_constant(plan: &LogicalPlan) -> Result<usize> {
    let mut largest = 0;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Literal(
                    ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)),
                    _,
                ) = expr
                {
                    largest = largest.max(text.len());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(largest)
}

/// Plans a query's operators on a separate thread, so that the computing threads are not blocked.
async fn physical(
    state: SessionState,
    logical: LogicalPlan,
) -> Result<(SessionState, Arc<dyn ExecutionPlan>)> {
    let handle = Handle::current();
    let planning = handle.clone().spawn_blocking(move || {
        let mut state = state;
        let logical = state.optimize(&logical)?;
        let rows = BATCH_BYTES / largest_constant(&logical)?.max(1);
        let batch_size = rows.clamp(1, state.config().batch_size());
        *state.config_mut() = state.config().clone().with_batch_size(batch_size);
        let plan = handle.block_on(state.query_planner().create_physical_plan(&logical, &state))?;
        Ok((state, in_order(plan)?))
    });
    planning
        .await
        .unwrap_or_else(|_| Err(outward(SqlError::new("XX000", "the analytical engine failed"))))
}

impl Start {
    fn spawn(self, stopped: Arc<AtomicBool>) -> Rows {
        // One batch may be in progress while the session sends another.
        let (sender, receiver) = mpsc::channel(2);
        let runtime = self.shared.handle.clone();
        let task = runtime.spawn(async move {
            let end = match self.run(&sender).await {
                Ok(()) => Event::Done,
                Err(error) => Event::Failed(inward(&error)),
            };
            // Fails if the query was abandoned.
            let _ = sender.send(end).await;
        });
        Rows::Running(receiver, Task(task, stopped))
    }

    async fn run(&self, sender: &mpsc::Sender<Event>) -> Result<()> {
        let mut state = self.shared.state.clone();
        state.config_mut().set_extension(Arc::new(Bridge(sender.clone())));
        let logical = subquery::bind(self.logical.clone(), &self.applied, &state)?;
        let (state, plan) = physical(state, logical).await?;
        let mut batches = execute_stream(plan, state.task_ctx())?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let mut columns = Vec::with_capacity(batch.num_columns());
            for column in batch.columns() {
                columns.push(value::datums(column).map_err(outward)?.into_iter());
            }
            let mut rows = Vec::with_capacity(batch.num_rows());
            for _ in 0..batch.num_rows() {
                rows.push(
                    columns.iter_mut().map(|column| column.next().unwrap_or(Datum::Null)).collect(),
                );
            }
            if !rows.is_empty() && sender.send(Event::Rows(rows)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Reads a scan's next chunk in the session's transaction.
async fn read(
    request: &mut Request,
    reader: &mut Reader<'_>,
) -> Result<(Position, Option<Vec<Vec<Datum>>>), SqlError> {
    let table = &request.table;
    let mut position = match request.position.take() {
        Some(position) => position,
        None => Position::matching(table, reader.facts(), &request.conditions)?,
    };
    let rows = reader.chunk(table, &mut position, &request.columns, request.limit_rows).await?;
    Ok((position, rows))
}

impl Rows {
    async fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<Vec<Vec<Datum>>>, SqlError> {
        if let Rows::Ready(_) = self
            && let Rows::Ready(start) = std::mem::replace(self, Rows::Over)
        {
            let catalog =
                if start.moment.looks() { reader.catalog().await? } else { Catalog::default() };
            let stopped = Arc::new(AtomicBool::new(false));
            let (facts, now_us) = (reader.facts().clone(), reader.now_us());
            start.moment.set(Known { facts, now_us, catalog, stopped: stopped.clone() });
            *self = start.spawn(stopped);
        }
        let Rows::Running(events, task) = self else { return Ok(None) };
        let end = loop {
            match events.recv().await {
                Some(Event::Read(mut request)) => {
                    let rows = read(&mut request, reader).await;
                    // Fails if the scan was abandoned meanwhile.
                    let _ = request.reply.send(rows);
                }
                Some(Event::Rows(rows)) => return Ok(Some(rows)),
                Some(Event::Failed(error)) => break Err(error),
                Some(Event::Done) => break Ok(None),
                None => {
                    let panicked = (&mut task.0).await.is_err_and(|error| error.is_panic());
                    let why = if panicked {
                        "the analytical engine failed"
                    } else {
                        "the query was stopped"
                    };
                    let code = if panicked { "XX000" } else { state::CANCELED };
                    break Err(SqlError::new(code, why));
                }
            }
        };
        *self = Rows::Over;
        end
    }
}

impl AnalyticRows for Rows {
    fn next<'a>(
        &'a mut self,
        reader: &'a mut Reader<'_>,
    ) -> meridian_txn::Future<'a, Result<Option<Vec<Vec<Datum>>>, SqlError>> {
        Box::pin(Rows::next(self, reader))
    }
}
