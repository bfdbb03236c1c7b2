//! Subqueries that DataFusion cannot turn into joins: run once for each combination of values they refer to.
//!
//! They are correlated scalar subqueries, and EXISTS and IN outside a condition. Such a subquery becomes an asynchronous function of the columns it refers to. For each row the subquery's plan is taken with
//! those columns replaced by the row's values, and executed; equal rows share one execution. That is slow and always right, and what
//! needs it in practice asks the small tables of the catalog.

use crate::error::outward;
use crate::sequential::in_order;
use arrow::array::{Array, ArrayRef, NullArray, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef};
use async_trait::async_trait;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue};
use datafusion::execution::SessionState;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::expr::{Exists, InSubquery, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Subquery, TypeSignature, Volatility,
};
use datafusion::physical_plan::collect;
use meridian_sql::{SqlError, state};
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A subquery as a function.
pub(crate) struct Apply {
    name: String,
    plan: Arc<LogicalPlan>,
    /// What it refers to; the function's arguments, in this order.
    outer: Vec<Column>,
    wanted: Wanted,
    field: FieldRef,
    signature: Signature,
    /// Where it runs, and the subqueries inside it; set when the whole query starts.
    running: Option<(SessionState, Arc<[Arc<Apply>]>)>,
}

/// What is wanted of a subquery.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Its one value.
    Value,
    /// Whether it has a row.
    Existence,
    /// Whether a value, the function's last argument, is among its rows.
    Membership,
}

/// Whether a plan still has a correlated subquery somewhere, or something else that only a rewrite of the subquery would have removed.
pub(crate) fn has_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                found |= correlated(expr).is_some();
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    Ok(found)
}

fn correlated(expr: &Expr) -> Option<(&Subquery, Wanted, bool)> {
    match expr {
        // Without a reference to the outside, DataFusion runs it once by itself.
        Expr::ScalarSubquery(subquery) if subquery.outer_ref_columns.is_empty() => None,
        Expr::ScalarSubquery(subquery) => Some((subquery, Wanted::Value, false)),
        Expr::Exists(Exists { subquery, negated }) => Some((subquery, Wanted::Existence, *negated)),
        Expr::InSubquery(InSubquery { subquery, negated, .. }) => Some((subquery, Wanted::Membership, *negated)),
        _ => None,
    }
}

/// Rewrites every expression of a plan, keeping its outputs' names.
fn rewrite(plan: LogicalPlan, f: &mut dyn FnMut(Expr) -> Result<Transformed<Expr>>) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(&mut *f)?.update_data(|expr| name.restore(expr)))
        })?;
        node.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(rewritten.data)
}

/// Replaces every correlated subquery by a function.
pub(crate) fn apply(plan: LogicalPlan, all: &mut Vec<Arc<Apply>>) -> Result<LogicalPlan> {
    rewrite(plan, &mut |expr| {
        let Some((subquery, wanted, negated)) = correlated(&expr) else { return Ok(Transformed::no(expr)) };
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
            args.push((**expr).clone());
        }
        let signature =
            Signature::one_of(vec![TypeSignature::VariadicAny, TypeSignature::Nullary], Volatility::Volatile);
        let plan = subquery.subquery.clone();
        let apply = Arc::new(Apply { name, plan, outer, wanted, field: Arc::new(field), signature, running: None });
        all.push(apply.clone());
        let call = Expr::ScalarFunction(ScalarFunction::new_udf(apply.function(), args));
        Ok(Transformed::yes(if negated { Expr::Not(Box::new(call)) } else { call }))
    })
}

/// Gives the functions of a plan the session they run in.
pub(crate) fn bind(plan: LogicalPlan, all: &Arc<[Arc<Apply>]>, session: &SessionState) -> Result<LogicalPlan> {
    if all.is_empty() {
        return Ok(plan);
    }
    rewrite(plan, &mut |expr| match expr {
        Expr::ScalarFunction(call) => match all.iter().find(|apply| apply.name == call.name()) {
            Some(apply) => {
                let bound = Arc::new(apply.with(session, all));
                let call = ScalarFunction::new_udf(bound.function(), call.args);
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            None => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        expr => Ok(Transformed::no(expr)),
    })
}

impl Apply {
    fn function(self: &Arc<Self>) -> Arc<ScalarUDF> {
        Arc::new(AsyncScalarUDF::new(self.clone() as Arc<dyn AsyncScalarUDFImpl>).into_scalar_udf())
    }

    fn with(&self, session: &SessionState, all: &Arc<[Arc<Apply>]>) -> Apply {
        Apply {
            name: self.name.clone(),
            plan: self.plan.clone(),
            outer: self.outer.clone(),
            wanted: self.wanted,
            field: self.field.clone(),
            signature: self.signature.clone(),
            running: Some((session.clone(), all.clone())),
        }
    }

    /// Its rows for one row of what it refers to, at most `limit` of them.
    async fn rows(&self, row: &[ScalarValue], limit: Option<usize>) -> Result<Vec<ArrayRef>> {
        let Some((session, all)) = &self.running else {
            return Err(outward(SqlError::new("XX000", "a subquery has no session")));
        };
        let plan = rewrite((*self.plan).clone(), &mut |expr| match expr {
            Expr::OuterReferenceColumn(field, column) => {
                match self.outer.iter().position(|other| *other == column).and_then(|at| row.get(at)) {
                    Some(value) => Ok(Transformed::yes(Expr::Literal(value.clone(), None))),
                    None => Ok(Transformed::no(Expr::OuterReferenceColumn(field, column))),
                }
            }
            // What was replaced inside a subquery of this one is no reference any more.
            Expr::ScalarSubquery(subquery) => Ok(Transformed::yes(Expr::ScalarSubquery(settled(subquery)))),
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
        let batches = collect(in_order(plan)?, session.task_ctx()).await?;
        let first = |batch: &RecordBatch| match batch.columns().first() {
            Some(column) => column.clone(),
            // SELECT without outputs has rows, too.
            None => Arc::new(NullArray::new(batch.num_rows())),
        };
        Ok(batches.iter().filter(|batch| batch.num_rows() > 0).map(first).collect())
    }

    /// Its value for one row of what it refers to.
    async fn value(&self, row: &[ScalarValue]) -> Result<ScalarValue> {
        if self.wanted == Wanted::Existence {
            return Ok(ScalarValue::Boolean(Some(!self.rows(row, Some(1)).await?.is_empty())));
        }
        // Two rows tell that there are too many.
        let found = self.rows(row, Some(2)).await?;
        if found.iter().map(|column| column.len()).sum::<usize>() > 1 {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(outward(SqlError::new(state::CARDINALITY_VIOLATION, message)));
        }
        match found.first() {
            Some(column) => ScalarValue::try_from_array(column, 0)?.cast_to(self.field.data_type()),
            None => ScalarValue::try_from(self.field.data_type()),
        }
    }
}

/// The values of a subquery's rows, for IN.
struct Members {
    ty: DataType,
    values: HashSet<ScalarValue>,
    null: bool,
}

impl Members {
    fn of(columns: &[ArrayRef]) -> Result<Members> {
        let ty = columns.first().map_or(DataType::Null, |column| column.data_type().clone());
        let mut members = Members { ty, values: HashSet::new(), null: false };
        for column in columns {
            for at in 0..column.len() {
                let value = ScalarValue::try_from_array(column, at)?;
                members.null |= value.is_null();
                members.values.insert(value);
            }
        }
        Ok(members)
    }

    /// IN in three-valued logic.
    fn has(&self, value: &ScalarValue) -> Result<Option<bool>> {
        if self.values.is_empty() {
            return Ok(Some(false));
        }
        if value.is_null() || self.ty.is_null() {
            return Ok(None);
        }
        if self.values.contains(&value.cast_to(&self.ty)?) {
            return Ok(Some(true));
        }
        Ok(if self.null { None } else { Some(false) })
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

// Within a query a name stands for one subquery.
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

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(outward(SqlError::unsupported("a correlated subquery in this place")))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Apply {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays: Vec<ArrayRef> = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<_>>()?;
        let mut known: HashMap<Vec<ScalarValue>, ScalarValue> = HashMap::new();
        let mut members: HashMap<Vec<ScalarValue>, Members> = HashMap::new();
        let mut values = Vec::with_capacity(rows);
        for at in 0..rows {
            let mut row: Vec<ScalarValue> =
                arrays.iter().map(|array| ScalarValue::try_from_array(array, at)).collect::<Result<_>>()?;
            if self.wanted == Wanted::Membership {
                let sought = row.pop().unwrap_or(ScalarValue::Null);
                if !members.contains_key(&row) {
                    let found = Members::of(&self.rows(&row, None).await?)?;
                    members.insert(row.clone(), found);
                }
                let found = members.get(&row).map_or(Ok(None), |members| members.has(&sought))?;
                values.push(ScalarValue::Boolean(found));
                continue;
            }
            let value = match known.get(&row) {
                Some(value) => value.clone(),
                None => {
                    let value = self.value(&row).await?;
                    known.insert(row, value.clone());
                    value
                }
            };
            values.push(value);
        }
        if values.is_empty() {
            return Ok(ColumnarValue::Array(arrow::array::new_empty_array(self.field.data_type())));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
    }
}
