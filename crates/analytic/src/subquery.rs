//! Runs subqueries as functions where DataFusion would reject them or return wrong results.
//!
//! Such a subquery becomes a function of the columns it refers to. For each row the subquery's plan
//! is taken with those columns replaced by the row's values, and executed; equal rows of a batch
//! share one execution, and a subquery that refers to nothing outside runs once in a query. That is
//! always correct, and slow only where a subquery refers to many different values.
//!
//! DataFusion's own ways stay for the forms that it runs correctly ([`joins_well`]): EXISTS and IN
//! as conditions, NOT IN without NULLs, aggregates of a correlated subquery. Elsewhere they lose
//! NULL: a mark of a join is never unknown, an anti join that knows NULLs has one key, and the
//! simplifier assumes that a subquery without NULLs has a row.

use crate::error::outward;
use crate::operator::{comparable, is_decimal, is_float, is_span};
use crate::sequential::in_order;
use crate::table::Bridge;
use crate::value::{base_type, datums, scalar};
use arrow::array::{Array, ArrayRef, Float64Array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, DataFusionError, ExprSchema, ParamValues, Result, ScalarValue,
};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::expr::{Exists, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, JoinType, LogicalPlan,
    LogicalPlanBuilder, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Subquery, TypeSignature, Volatility,
};
use datafusion::physical_plan::execute_stream;
use futures::TryStreamExt;
use futures::future::{Either, select};
use futures::lock::Mutex;
use meridian_sql::{Datum, SqlError, state};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use tokio::runtime::Handle;

/// A subquery as a function.
pub(crate) struct Apply {
    name: String,
    plan: Arc<LogicalPlan>,
    /// The outer columns that it refers to: the function's arguments, in this order.
    outer: Vec<Column>,
    wanted: Wanted,
    field: FieldRef,
    signature: Signature,
    /// The results for the rows of the latest batch; for the whole query if it refers to nothing
    /// outside.
    known: Mutex<HashMap<Vec<ScalarValue>, Found>>,
    /// Set when the whole query starts.
    running: Option<Running>,
}

/// The session state in which a subquery runs, and all subqueries of the query: some may be inside
/// it.
type Running = (SessionState, Arc<[Arc<Apply>]>);

/// The result of a subquery for one row of outer values.
enum Found {
    Value(ScalarValue),
    Members(Members),
}

/// The requested kind of result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// The single value.
    Value,
    /// True if it has a row.
    Existence,
    /// True if a value, the function's last argument, is among its rows.
    Membership,
}

/// True if a plan still has a subquery that only a rewrite could have removed: a correlated one,
/// EXISTS or IN.
pub(crate) fn is_left(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= match expr {
                    // Without a reference to the outside, DataFusion runs it once by itself.
                    Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
                    expr => matches!(expr, Expr::Exists(_) | Expr::InSubquery(_)),
                };
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

/// Rewrites every expression of a plan, keeping its outputs' names. `f` gets the root of an
/// expression, true if that is the condition of a filter, and the columns it may refer to.
fn rewrite_roots(
    plan: LogicalPlan,
    f: &mut dyn FnMut(Expr, bool, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let is_filter = matches!(node, LogicalPlan::Filter(_));
        let mut schema = DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(f(expr, is_filter, &schema)?.update_data(|expr| name.restore(expr)))
        })?;
        node.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(rewritten.data)
}

/// Rewrites every part of every expression of a plan.
fn rewrite(
    plan: LogicalPlan,
    f: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    rewrite_roots(plan, &mut |expr, _, _| expr.transform_up(&mut *f))
}

/// Replaces every subquery that DataFusion does not run correctly by a function.
pub(crate) fn apply_unsound(plan: LogicalPlan, all: &mut Vec<Arc<Apply>>) -> Result<LogicalPlan> {
    rewrite_roots(plan, &mut |expr, is_filter, schema| {
        if !has_subquery(&expr) {
            return Ok(Transformed::no(expr));
        }
        let expr = if is_filter {
            condition(expr, false, schema, all)?
        } else {
            value(expr, schema, all)?
        };
        Ok(Transformed::yes(expr))
    })
}

/// Replaces every subquery by a function, except scalar ones that refer to nothing outside and may
/// be NULL.
pub(crate) fn apply_all(plan: LogicalPlan, all: &mut Vec<Arc<Apply>>) -> Result<LogicalPlan> {
    rewrite_roots(plan, &mut |expr, _, schema| {
        if !has_subquery(&expr) {
            return Ok(Transformed::no(expr));
        }
        expr.transform_up(|expr| match expr {
            Expr::ScalarSubquery(subquery) if runs_once(&subquery) => {
                Ok(Transformed::no(Expr::ScalarSubquery(subquery)))
            }
            expr => replaced(expr, schema, all),
        })
    })
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))
    };
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(true)
}

/// True if DataFusion runs a scalar subquery once by itself, and knows that it may be NULL.
fn runs_once(subquery: &Subquery) -> bool {
    subquery.outer_ref_columns.is_empty() && subquery.subquery.schema().field(0).is_nullable()
}

/// Rewrites a filter's condition, or a part of one under AND and OR only: there unknown means
/// false, as in a join. `in_or`: it is under OR.
fn condition(
    expr: Expr,
    in_or: bool,
    schema: &DFSchema,
    all: &mut Vec<Arc<Apply>>,
) -> Result<Expr> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let in_or = in_or || op == Operator::Or;
            let (left, right) =
                (condition(*left, in_or, schema, all)?, condition(*right, in_or, schema, all)?);
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        }
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(among) => {
                let negated = !among.negated;
                condition(Expr::InSubquery(InSubquery { negated, ..among }), in_or, schema, all)?
            }
            Expr::Exists(exists) => {
                let negated = !exists.negated;
                condition(Expr::Exists(Exists { negated, ..exists }), in_or, schema, all)?
            }
            inner => value(Expr::Not(Box::new(inner)), schema, all)?,
        },
        Expr::Exists(exists) if joins_well(&exists.subquery, in_or) => Expr::Exists(exists),
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let sought = value(*expr, schema, all)?;
            let plan = &subquery.subquery;
            let alike = {
                let (left, right) = (sought.get_type(schema)?, plan.schema().field(0).data_type());
                !(is_float(&left) != is_float(right) && (is_decimal(&left) || is_decimal(right)))
                    && !is_span(&left)
                    && !is_span(right)
            };
            let plain = sought.any_column_refs() && !sought.is_volatile() && !has_subquery(&sought);
            let nullable = || {
                Ok::<_, DataFusionError>(
                    sought.nullable(schema)? || plan.schema().field(0).is_nullable(),
                )
            };
            let joins = alike && plain && joins_well(&subquery, in_or);
            let correlated = !subquery.outer_ref_columns.is_empty();
            if joins && negated && correlated {
                not_matched(sought, &subquery, schema)?
            } else if joins && (!negated || !in_or && !nullable()?) {
                Expr::InSubquery(InSubquery::new(Box::new(sought), subquery, negated))
            } else {
                replaced(
                    Expr::InSubquery(InSubquery::new(Box::new(sought), subquery, negated)),
                    schema,
                    all,
                )?
                .data
            }
        }
        expr => value(expr, schema, all)?,
    })
}

/// Builds `sought NOT IN (subquery)` of a correlated subquery, as a condition: no row for which
/// `sought = it` is true or unknown.
fn not_matched(sought: Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Expr> {
    let sought = sought.transform(|expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        expr => Ok(Transformed::no(expr)),
    })?;
    let plan = (*subquery.subquery).clone();
    let found = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let matches = Expr::IsNotFalse(Box::new(sought.data.eq(found)));
    let plan = LogicalPlanBuilder::from(plan).filter(matches)?.build()?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    let subquery =
        Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() };
    Ok(Expr::Exists(Exists::new(subquery, true)))
}

/// Rewrites an expression whose value matters, NULL included.
fn value(expr: Expr, schema: &DFSchema, all: &mut Vec<Arc<Apply>>) -> Result<Expr> {
    let replaced = expr.transform_up(|expr| match expr {
        Expr::ScalarSubquery(subquery) if runs_once(&subquery) || is_aggregate(&subquery) => {
            Ok(Transformed::no(Expr::ScalarSubquery(subquery)))
        }
        expr => replaced(expr, schema, all),
    })?;
    Ok(replaced.data)
}

/// True if a join computes EXISTS or IN of a subquery correctly.
fn joins_well(subquery: &Subquery, in_or: bool) -> bool {
    if subquery.outer_ref_columns.is_empty() {
        return !in_or;
    }
    pulls_up(&subquery.subquery)
}

/// True if conditions inside a plan may become conditions of a join with it.
fn pulls_up(plan: &LogicalPlan) -> bool {
    let node = match plan {
        LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
        // Without groups there is a row for every outer row, matched or not.
        LogicalPlan::Aggregate(aggregate) => {
            !aggregate.group_expr.is_empty()
                && !matches!(aggregate.group_expr[..], [Expr::GroupingSet(_)])
        }
        // A condition moved out of it would still use the column names below it.
        LogicalPlan::SubqueryAlias(alias) => alias.input.all_out_ref_exprs().is_empty(),
        plan => matches!(
            plan,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::TableScan(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::EmptyRelation(_)
                | LogicalPlan::Values(_)
                | LogicalPlan::Distinct(Distinct::All(_))
        ),
    };
    node && plan.inputs().iter().all(|input| pulls_up(input))
}

/// True if a correlated scalar subquery is an aggregate without groups, which always has a row.
fn is_aggregate(subquery: &Subquery) -> bool {
    let mut plan = &*subquery.subquery;
    loop {
        match plan {
            LogicalPlan::Projection(projection) => plan = &projection.input,
            LogicalPlan::SubqueryAlias(alias) => plan = &alias.input,
            LogicalPlan::Aggregate(aggregate) => {
                return aggregate.group_expr.is_empty() && pulls_up(&aggregate.input);
            }
            _ => return false,
        }
    }
}

/// Replaces a subquery by a function.
fn replaced(expr: Expr, schema: &DFSchema, all: &mut Vec<Arc<Apply>>) -> Result<Transformed<Expr>> {
    let (subquery, wanted, negated) = match &expr {
        Expr::ScalarSubquery(subquery) => (subquery, Wanted::Value, false),
        Expr::Exists(Exists { subquery, negated }) => (subquery, Wanted::Existence, *negated),
        Expr::InSubquery(InSubquery { subquery, negated, .. }) => {
            (subquery, Wanted::Membership, *negated)
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let mut outer: Vec<Column> = Vec::new();
    for expr in subquery.subquery.all_out_ref_exprs() {
        if let Expr::OuterReferenceColumn(_, column) = expr
            && !outer.contains(&column)
        {
            outer.push(column);
        }
    }
    let field = match wanted {
        Wanted::Existence => Field::new("exists", DataType::Boolean, false),
        Wanted::Membership => Field::new("in", DataType::Boolean, true),
        Wanted::Value => subquery.subquery.schema().field(0).as_ref().clone().with_nullable(true),
    };
    let name = format!("subquery {}", all.len() + 1);
    let mut args: Vec<Expr> = outer.iter().cloned().map(Expr::Column).collect();
    if let Expr::InSubquery(InSubquery { expr, .. }) = &expr {
        let found = subquery.subquery.schema().field(0).data_type();
        args.push(comparable_with(expr, found, schema)?);
    }
    let signature = Signature::one_of(
        vec![TypeSignature::VariadicAny, TypeSignature::Nullary],
        Volatility::Volatile,
    );
    let plan = subquery.subquery.clone();
    let known = Mutex::default();
    let apply = Arc::new(Apply {
        name,
        plan,
        outer,
        wanted,
        field: Arc::new(field),
        signature,
        known,
        running: None,
    });
    all.push(apply.clone());
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(apply.function(), args));
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(call)) } else { call }))
}

/// Returns the left side of IN; a quoted literal gets the type of the subquery's values. Fails if
/// the types cannot be compared.
fn comparable_with(sought: &Expr, found: &DataType, schema: &DFSchema) -> Result<Expr> {
    let ty = sought.get_type(schema)?;
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), _) = sought
        && !base_type(found).is_text()
        && !found.is_null()
    {
        let ty = base_type(found);
        let datum = Datum::from_text(ty, text).map_err(outward)?;
        return Ok(Expr::Literal(scalar(&datum, ty).map_err(outward)?, None));
    }
    if is_span(&ty) || is_span(found) {
        return Err(outward(SqlError::unsupported(
            "IN (SELECT …) over intervals (use extract(epoch FROM …) of them instead)",
        )));
    }
    if !ty.is_null()
        && !found.is_null()
        && (!comparable(&ty, found) || common(&ty, found).is_none())
    {
        let name = |ty: &DataType| base_type(ty).name();
        let message = format!("operator does not exist: {} = {}", name(&ty), name(found));
        return Err(outward(SqlError::new(state::UNDEFINED_FUNCTION, message)));
    }
    Ok(sought.clone())
}

/// Returns the type in which two values are compared.
fn common(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        (left, right) if left == right => Some(left.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        // As PostgreSQL: a numeric beside a float is a float.
        (left, right)
            if left.is_numeric() && right.is_numeric() && (is_float(left) || is_float(right)) =>
        {
            Some(DataType::Float64)
        }
        (left, right) => comparison_coercion(left, right),
    }
}

/// Converts values to a type in which they are compared.
fn converted(array: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    if *ty == DataType::Float64 {
        let floats = datums(array).map_err(outward)?;
        // Adding zero turns -0 into 0.
        let floats = floats.iter().map(|datum| datum.as_f64().map(|x| x + 0.0));
        return Ok(Arc::new(Float64Array::from_iter(floats)));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(array, ty, &options)?)
}

/// Binds the functions of a plan to the session state in which they run.
pub(crate) fn bind(
    plan: LogicalPlan,
    all: &Arc<[Arc<Apply>]>,
    session: &SessionState,
) -> Result<LogicalPlan> {
    if all.is_empty() {
        return Ok(plan);
    }
    rewrite(plan, &mut |expr| match expr {
        Expr::ScalarFunction(call) => match all.iter().find(|apply| apply.name == call.name()) {
            Some(apply) => {
                let bound =
                    Arc::new(apply.like(apply.plan.clone(), Some((session.clone(), all.clone()))));
                let call = ScalarFunction::new_udf(bound.function(), call.args);
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        expr => Ok(Transformed::no(expr)),
    })
}

/// Returns the functions with values for the parameters in their subqueries.
pub(crate) fn with_param_values(
    all: &[Arc<Apply>],
    values: &ParamValues,
) -> Result<Arc<[Arc<Apply>]>> {
    all.iter()
        .map(|apply| {
            let plan = (*apply.plan).clone().with_param_values(values.clone())?;
            Ok(Arc::new(apply.like(Arc::new(plan), None)))
        })
        .collect()
}

impl Apply {
    fn function(self: &Arc<Self>) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_shared_impl(self.clone() as Arc<dyn ScalarUDFImpl>))
    }

    fn like(&self, plan: Arc<LogicalPlan>, running: Option<Running>) -> Apply {
        Apply {
            name: self.name.clone(),
            plan,
            outer: self.outer.clone(),
            wanted: self.wanted,
            field: self.field.clone(),
            signature: self.signature.clone(),
            known: Mutex::default(),
            running,
        }
    }

    /// Returns its rows for one row of outer values, at most `limit` of them.
    async fn rows(
        &self,
        row: &[ScalarValue],
        limit: Option<usize>,
    ) -> Result<SendableRecordBatchStream> {
        let Some((session, all)) = &self.running else {
            return Err(outward(SqlError::new("XX000", "a subquery has no session")));
        };
        let plan = rewrite((*self.plan).clone(), &mut |expr| match expr {
            Expr::OuterReferenceColumn(field, column) => {
                match self
                    .outer
                    .iter()
                    .position(|other| *other == column)
                    .and_then(|at| row.get(at))
                {
                    Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
                    None => Ok(Transformed::no(Expr::OuterReferenceColumn(field, column))),
                }
            }
            // Columns that were replaced inside a nested subquery are no references any more.
            Expr::ScalarSubquery(subquery) => {
                Ok(Transformed::yes(Expr::ScalarSubquery(settled(subquery))))
            }
            Expr::Exists(mut exists) => {
                exists.subquery = settled(exists.subquery);
                Ok(Transformed::yes(Expr::Exists(exists)))
            }
            Expr::InSubquery(mut among) => {
                among.subquery = settled(among.subquery);
                Ok(Transformed::yes(Expr::InSubquery(among)))
            }
            expr => Ok(Transformed::no(expr)),
        })?;
        let plan = match limit {
            Some(limit) => LogicalPlanBuilder::from(plan).limit(0, Some(limit))?.build()?,
            None => plan,
        };
        let plan = bind(plan, all, session)?;
        let plan = session.create_physical_plan(&plan).await?;
        execute_stream(in_order(plan)?, session.task_ctx())
    }

    /// Returns its value for one row of outer values.
    async fn value(&self, row: &[ScalarValue]) -> Result<ScalarValue> {
        let is_existence = self.wanted == Wanted::Existence;
        // Two rows are enough to detect too many.
        let mut rows = self.rows(row, Some(if is_existence { 1 } else { 2 })).await?;
        let mut value = ScalarValue::try_from(self.field.data_type())?;
        let mut count = 0;
        while let Some(batch) = rows.try_next().await? {
            if count == 0 && batch.num_rows() > 0 && !is_existence {
                value = ScalarValue::try_from_array(batch.column(0), 0)?
                    .cast_to(self.field.data_type())?;
            }
            count += batch.num_rows();
        }
        if is_existence {
            return Ok(ScalarValue::Boolean(Some(count > 0)));
        }
        if count > 1 {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(outward(SqlError::new(state::CARDINALITY_VIOLATION, message)));
        }
        Ok(value)
    }

    /// Returns the values of its rows, converted to a type.
    async fn members(&self, row: &[ScalarValue], ty: &DataType) -> Result<Members> {
        let Some((session, _)) = &self.running else { return Err(homeless()) };
        let held = MemoryConsumer::new("subquery").register(&session.runtime_env().memory_pool);
        let mut members = Members { values: HashSet::new(), null: false, held };
        let mut rows = self.rows(row, None).await?;
        while let Some(batch) = rows.try_next().await? {
            let column = converted(batch.column(0), ty)?;
            let mut more = 0;
            for at in 0..column.len() {
                if column.is_null(at) {
                    members.null = true;
                    continue;
                }
                let value = ScalarValue::try_from_array(&column, at)?;
                let size = value.size();
                if members.values.insert(value) {
                    more += 2 * size;
                }
            }
            members.held.try_grow(more)?;
        }
        Ok(members)
    }

    /// Returns its values for rows of arguments.
    async fn values(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let count = args.number_rows;
        let mut arrays: Vec<ArrayRef> =
            args.args.iter().map(|arg| arg.to_array(count)).collect::<Result<_>>()?;
        let mut ty = DataType::Null;
        if self.wanted == Wanted::Membership
            && let Some(sought) = arrays.last_mut()
        {
            let found = self.plan.schema().field(0).data_type();
            ty = common(sought.data_type(), found).unwrap_or_else(|| found.clone());
            *sought = converted(sought, &ty)?;
        }
        let mut known = self.known.lock().await;
        if !self.outer.is_empty() {
            known.clear();
        }
        let mut values = Vec::with_capacity(count);
        for at in 0..count {
            let mut row: Vec<ScalarValue> = arrays
                .iter()
                .map(|array| ScalarValue::try_from_array(array, at))
                .collect::<Result<_>>()?;
            let sought = if self.wanted == Wanted::Membership { row.pop() } else { None };
            let found = match known.entry(row) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let found = match self.wanted {
                        Wanted::Membership => Found::Members(self.members(entry.key(), &ty).await?),
                        _ => Found::Value(self.value(entry.key()).await?),
                    };
                    entry.insert(found)
                }
            };
            values.push(match found {
                Found::Value(value) => value.clone(),
                Found::Members(members) => {
                    ScalarValue::Boolean(members.has(&sought.unwrap_or(ScalarValue::Null)))
                }
            });
        }
        if values.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(self.field.data_type())));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
    }
}

fn homeless() -> DataFusionError {
    outward(SqlError::new("XX000", "a subquery has no session"))
}

/// The values of a subquery's rows, for IN.
struct Members {
    values: HashSet<ScalarValue>,
    /// True if NULL is one of them.
    null: bool,
    /// The memory that they hold.
    held: MemoryReservation,
}

impl Members {
    /// Computes IN in three-valued logic.
    fn has(&self, value: &ScalarValue) -> Option<bool> {
        if self.values.is_empty() && !self.null {
            return Some(false);
        }
        if value.is_null() {
            return None;
        }
        if self.values.contains(value) {
            return Some(true);
        }
        if self.null { None } else { Some(false) }
    }
}

fn settled(mut subquery: Subquery) -> Subquery {
    subquery.outer_ref_columns = subquery.subquery.all_out_ref_exprs();
    subquery
}

impl std::fmt::Debug for Apply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

// Within a query a name identifies a subquery.
impl PartialEq for Apply {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Apply {}

impl Hash for Apply {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Apply {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(self.field.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((session, _)) = &self.running else { return Err(homeless()) };
        let Some(bridge) = session.config().get_extension::<Bridge>() else {
            return Err(homeless());
        };
        // The session serves the subquery's scans meanwhile, on a thread of its own. If the session
        // has closed, the wait ends.
        tokio::task::block_in_place(|| {
            Handle::try_current().map_err(|_| homeless())?.block_on(async {
                let (values, gone) = (pin!(self.values(args)), pin!(bridge.0.closed()));
                match select(values, gone).await {
                    Either::Left((values, _)) => values,
                    Either::Right(_) => {
                        Err(outward(SqlError::new(state::CANCELED, "the query has ended")))
                    }
                }
            })
        })
    }
}
