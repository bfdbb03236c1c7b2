//! A planned query, and its rows as the session asks for them.

use crate::Shared;
use crate::error::{inward, outward};
use crate::function::{Known, Moment};
use crate::sequential::in_order;
use crate::subquery::{self, Apply};
use crate::table::{Bridge, Event, Request};
use crate::value;
use datafusion::common::{DFSchema, ParamValues, Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;
use meridian_sql::system::Catalog;
use meridian_sql::{AnalyticPlan, AnalyticRows, Column, Datum, Position, Reader, SqlError, Type, state};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// A query planned against its tables; parameters stand in it as placeholders.
pub(crate) struct Plan {
    pub(crate) shared: Arc<Shared>,
    pub(crate) logical: LogicalPlan,
    /// Its correlated subqueries that are functions now.
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
            applied = subquery::with_param_values(&applied, &values).map_err(|error| inward(&error))?;
            logical = logical.with_param_values(values).map_err(|error| inward(&error))?;
        }
        let start = Start { shared: self.shared.clone(), logical, moment: self.moment.clone(), applied };
        Ok(Box::new(Rows::Ready(Box::new(start))))
    }
}

/// An expression without columns, computed.
pub(crate) fn folded(expr: Expr, state: &SessionState) -> Result<Expr> {
    let context = SimplifyContext::builder().with_config_options(state.config_options().clone()).build();
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

/// A query's task; it ends with its rows.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Start {
    fn spawn(self) -> Rows {
        // One batch may be under way while the session sends another.
        let (sender, receiver) = mpsc::channel(2);
        let runtime = self.shared.handle.clone();
        let task = runtime.spawn(async move {
            let end = match self.run(&sender).await {
                Ok(()) => Event::Done,
                Err(error) => Event::Failed(inward(&error)),
            };
            // Nobody listens to a query that was given up.
            let _ = sender.send(end).await;
        });
        Rows::Running(receiver, Task(task))
    }

    async fn run(&self, sender: &mpsc::Sender<Event>) -> Result<()> {
        let mut state = self.shared.state.clone();
        state.config_mut().set_extension(Arc::new(Bridge(sender.clone())));
        let logical = subquery::bind(self.logical.clone(), &self.applied, &state)?;
        let plan = state.create_physical_plan(&logical).await?;
        let plan = in_order(plan)?;
        let mut batches = execute_stream(plan, state.task_ctx())?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let mut columns = Vec::with_capacity(batch.num_columns());
            for column in batch.columns() {
                columns.push(value::datums(column).map_err(outward)?.into_iter());
            }
            let mut rows = Vec::with_capacity(batch.num_rows());
            for _ in 0..batch.num_rows() {
                rows.push(columns.iter_mut().map(|column| column.next().unwrap_or(Datum::Null)).collect());
            }
            if !rows.is_empty() && sender.send(Event::Rows(rows)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// A scan's next chunk, out of the session's transaction.
async fn read(request: &mut Request, reader: &mut Reader<'_>) -> Result<(Position, Option<Vec<Vec<Datum>>>), SqlError> {
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
            let catalog = if start.moment.looks() { reader.catalog().await? } else { Catalog::default() };
            start.moment.set(Known { facts: reader.facts().clone(), now_us: reader.now_us(), catalog });
            *self = start.spawn();
        }
        let Rows::Running(events, task) = self else { return Ok(None) };
        let end = loop {
            match events.recv().await {
                Some(Event::Read(mut request)) => {
                    let rows = read(&mut request, reader).await;
                    // A scan that was given up meanwhile does not wait for it.
                    let _ = request.reply.send(rows);
                }
                Some(Event::Rows(rows)) => return Ok(Some(rows)),
                Some(Event::Failed(error)) => break Err(error),
                Some(Event::Done) => break Ok(None),
                None => {
                    let panicked = (&mut task.0).await.is_err_and(|error| error.is_panic());
                    let why = if panicked { "the analytical engine failed" } else { "the query was stopped" };
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
