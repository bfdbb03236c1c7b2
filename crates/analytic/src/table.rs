//! A table as DataFusion scans it: chunk by chunk, only the requested columns, by key where the
//! filters allow.
//!
//! DataFusion's threads never hold the session's transaction. A scan requests its next chunk
//! through the [`Bridge`], and the session responds while it waits for the query's rows.

use crate::error::{inward, outward};
use crate::value;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use meridian_sql::{Condition, Datum, Position, SqlError, Table, state};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The number of rows that are read at once, unless a limit is lower.
const CHUNK_ROWS: usize = 8192;

/// A message of a running query to its session.
pub(crate) enum Event {
    /// A request for a chunk of a table.
    Read(Box<Request>),
    /// Rows of its result.
    Rows(Vec<Vec<Datum>>),
    /// The end of the result.
    Done,
    /// An error of the query.
    Failed(SqlError),
}

/// A scan's request for its next chunk.
pub(crate) struct Request {
    pub(crate) table: Arc<Table>,
    /// `None` before the first chunk.
    pub(crate) position: Option<Position>,
    pub(crate) conditions: Arc<[Condition]>,
    pub(crate) columns: Arc<[usize]>,
    pub(crate) limit_rows: usize,
    pub(crate) reply: oneshot::Sender<Result<(Position, Option<Vec<Vec<Datum>>>), SqlError>>,
}

/// The channel from a scan to its session.
pub(crate) struct Bridge(pub(crate) mpsc::Sender<Event>);

#[derive(Debug)]
pub(crate) struct Scanned {
    table: Arc<Table>,
    schema: SchemaRef,
}

impl Scanned {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Scanned { schema: value::schema(&table), table }
    }
}

/// Returns a filter as a condition on keys, if it is one.
fn condition(table: &Table, filter: &Expr) -> Option<Condition> {
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => table.column(&column.name),
        _ => None,
    };
    let value = |expr: &Expr, column: usize| match expr {
        Expr::Literal(scalar, _) => constant(scalar, table, column),
        _ => None,
    };
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (at, other, op) = match (column(left), column(right)) {
                (Some(at), None) => (at, right, *op),
                (None, Some(at)) => (at, left, op.swap()?),
                _ => return None,
            };
            let op = match op {
                Operator::Eq => "=",
                Operator::Lt => "<",
                Operator::LtEq => "<=",
                Operator::Gt => ">",
                Operator::GtEq => ">=",
                _ => return None,
            };
            Some(Condition { column: at, op, values: vec![value(other, at)?] })
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let at = column(expr)?;
            let values = list.iter().map(|item| value(item, at)).collect::<Option<Vec<_>>>()?;
            Some(Condition { column: at, op: "=", values })
        }
        _ => None,
    }
}

/// Returns the value of a literal, if it is ordered as the column's values are.
fn constant(scalar: &ScalarValue, table: &Table, column: usize) -> Option<Datum> {
    let array = scalar.to_array().ok()?;
    let datum = value::datums(&array).ok()?.pop()?;
    let (ty, found) = (table.columns.get(column)?.ty, datum.type_of()?);
    let agree = ty.base() == found.base()
        || ty.is_integer() && found.is_integer()
        || ty.is_text() && found.is_text();
    agree.then_some(datum)
}

#[async_trait]
impl TableProvider for Scanned {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let kind = |filter: &&Expr| match condition(&self.table, filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(kind).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Arc<[usize]> = match projection {
            Some(columns) => columns.as_slice().into(),
            None => (0..self.table.columns.len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&columns)?);
        let Some(bridge) = state.config().get_extension::<Bridge>() else {
            return Err(outward(SqlError::new(state::CANCELED, "the query has no session")));
        };
        let scan = Scan {
            table: self.table.clone(),
            schema: schema.clone(),
            columns,
            conditions: filters
                .iter()
                .filter_map(|filter| condition(&self.table, filter))
                .collect(),
            bridge,
            limit_rows: limit
                .unwrap_or(CHUNK_ROWS)
                .clamp(1, CHUNK_ROWS.min(state.config().batch_size())),
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![Arc::new(scan)],
            None,
            [],
            false,
            limit,
        )?))
    }
}

struct Scan {
    table: Arc<Table>,
    schema: SchemaRef,
    columns: Arc<[usize]>,
    conditions: Arc<[Condition]>,
    bridge: Arc<Bridge>,
    limit_rows: usize,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.table.name, if self.conditions.is_empty() { "" } else { " by key" })
    }
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (table, schema, columns) =
            (self.table.clone(), self.schema.clone(), self.columns.clone());
        let (bridge, limit_rows) = (self.bridge.clone(), self.limit_rows);
        let conditions = self.conditions.clone();
        let stream = futures::stream::try_unfold(None, move |position| {
            let (table, schema, columns, bridge) =
                (table.clone(), schema.clone(), columns.clone(), bridge.clone());
            let conditions = conditions.clone();
            async move {
                let gone = || outward(SqlError::new(state::CANCELED, "the query has ended"));
                let (reply, answer) = oneshot::channel();
                let request = Request {
                    table,
                    position,
                    conditions,
                    columns: columns.clone(),
                    limit_rows,
                    reply,
                };
                bridge.0.send(Event::Read(Box::new(request))).await.map_err(|_| gone())?;
                let (position, rows) = answer.await.map_err(|_| gone())?.map_err(outward)?;
                let Some(rows) = rows else { return Ok(None) };
                let mut arrays = Vec::with_capacity(columns.len());
                for (at, field) in schema.fields().iter().enumerate() {
                    let values = rows.iter().map(|row| row.get(at).unwrap_or(&Datum::Null));
                    arrays.push(value::array(values, field.data_type()).map_err(outward)?);
                }
                let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
                let batch = RecordBatch::try_new_with_options(schema, arrays, &options)
                    .map_err(|error| outward(inward(&error.into())))?;
                Ok(Some((batch, Some(position))))
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream))
    }
}
