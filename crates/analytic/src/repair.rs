//! Repairs logical plans in which DataFusion's planner deviates from PostgreSQL.
//!
//! - EXCEPT ALL and INTERSECT ALL count: each row gets its number among its equals, and numbers are
//!   compared as well.
//! - A numeric beside a float is compared as a float, in join keys and IN lists, too.
//! - Intervals are ordered by their length, with 30 days in a month and 24 hours in a day; where
//!   they would be hashed or compared by a function, the query is rejected.

use crate::error::outward;
use crate::function::Moment;
use crate::operator::{is_decimal, is_float, is_span, length, to_float};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Case, InList, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprFunctionExt, ExprSchemable, Join, JoinType, LogicalPlan,
    LogicalPlanBuilder, Operator,
};
use meridian_sql::SqlError;
use std::sync::Arc;

/// Repairs a plan that comes from the planner, before any optimization.
pub(crate) fn repair(plan: LogicalPlan, moment: &Moment) -> Result<LogicalPlan> {
    let repaired = plan.transform_up_with_subqueries(|node| {
        let node = match node {
            LogicalPlan::Join(join) => repair_join(join, moment)?,
            LogicalPlan::Sort(mut sort) => {
                let schema = sort.input.schema().clone();
                for by in &mut sort.expr {
                    if is_span(&by.expr.get_type(&schema)?) {
                        by.expr = length(by.expr.clone());
                    }
                }
                LogicalPlan::Sort(sort)
            }
            node => node,
        };
        refuse_hashed_intervals(&node)?;
        let mut schema = DFSchema::empty();
        for input in node.inputs() {
            schema.merge(input.schema());
        }
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| repair_expr(expr, &schema, moment))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })?;
        Ok(Transformed::yes(node.data.recompute_schema()?))
    })?;
    Ok(repaired.data)
}

fn refused(what: &str) -> Result<()> {
    let message = format!("{what} intervals (use extract(epoch FROM …) of them instead)");
    Err(outward(SqlError::unsupported(message)))
}

/// Rejects plans in which DataFusion would compare the parts of intervals.
fn refuse_hashed_intervals(node: &LogicalPlan) -> Result<()> {
    let any = |exprs: &[Expr], schema: &DFSchema| -> Result<bool> {
        for expr in exprs {
            // The analyzer reports expressions that cannot be typed here.
            if expr.get_type(schema).is_ok_and(|ty| is_span(&ty)) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match node {
        LogicalPlan::Aggregate(aggregate) => {
            let mut groups = Vec::new();
            for expr in &aggregate.group_expr {
                match expr {
                    Expr::GroupingSet(set) => {
                        groups.extend(set.distinct_expr().into_iter().cloned())
                    }
                    expr => groups.push(expr.clone()),
                }
            }
            if any(&groups, aggregate.input.schema())? {
                return refused("GROUP BY over");
            }
        }
        LogicalPlan::Distinct(Distinct::All(input))
            if input.schema().fields().iter().any(|field| is_span(field.data_type())) =>
        {
            return refused("DISTINCT, UNION, EXCEPT and INTERSECT over");
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            let sorted: Vec<Expr> =
                on.sort_expr.iter().flatten().map(|by| by.expr.clone()).collect();
            if any(&on.on_expr, on.input.schema())? || any(&sorted, on.input.schema())? {
                return refused("DISTINCT ON over");
            }
        }
        LogicalPlan::RecursiveQuery(query)
            if query.is_distinct
                && query
                    .static_term
                    .schema()
                    .fields()
                    .iter()
                    .any(|field| is_span(field.data_type())) =>
        {
            return refused("a recursive UNION over");
        }
        _ => {}
    }
    Ok(())
}

/// True for a float and a numeric.
fn mixed(left: &DataType, right: &DataType) -> bool {
    is_float(left) && is_decimal(right) || is_decimal(left) && is_float(right)
}

fn repair_join(mut join: Join, moment: &Moment) -> Result<LogicalPlan> {
    let (left, right) = (join.left.schema().clone(), join.right.schema().clone());
    for (l, r) in &mut join.on {
        let types = (l.get_type(&left)?, r.get_type(&right)?);
        if is_span(&types.0) || is_span(&types.1) {
            refused("a join, EXCEPT or INTERSECT by")?;
        }
        if mixed(&types.0, &types.1) {
            let side = if is_decimal(&types.0) { l } else { r };
            *side = to_float(side.clone(), moment)?;
        }
    }
    // Only set operations treat NULLs as equal. One without ALL has made its left side distinct
    // before.
    let is_set = join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti);
    if !is_set || matches!(&*join.left, LogicalPlan::Distinct(_)) {
        return Ok(LogicalPlan::Join(join));
    }
    let outputs: Vec<Expr> = left.columns().into_iter().map(Expr::Column).collect();
    let names = ["left", "right"].map(|side| format!("{}number {side}", crate::dialect::MARK));
    join.left = Arc::new(numbered(&join.left, &names[0])?);
    join.right = Arc::new(numbered(&join.right, &names[1])?);
    let [l, r] = names.map(|name| Expr::Column(Column::from_name(name)));
    join.on.push((l, r));
    let join = Join::try_new(
        join.left,
        join.right,
        join.on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(outputs)?.build()
}

/// Returns a plan whose rows also have their number among their equals.
fn numbered(plan: &LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let all = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(all).build()?.alias(name);
    LogicalPlanBuilder::from(plan.clone()).window([number])?.build()
}

fn compares(op: Operator) -> bool {
    use Operator::*;
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn repair_expr(expr: Expr, schema: &DFSchema, moment: &Moment) -> Result<Transformed<Expr>> {
    let type_of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
    let spans = |exprs: &[Expr]| exprs.iter().any(|expr| is_span(&type_of(expr)));
    let float = |expr: &mut Expr| -> Result<()> {
        if is_decimal(&type_of(expr)) {
            *expr = to_float(expr.clone(), moment)?;
        }
        Ok(())
    };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if compares(op) => {
            let types = (type_of(&left), type_of(&right));
            if is_span(&types.0) && is_span(&types.1) {
                (*left, *right) = (length(*left), length(*right));
            } else if mixed(&types.0, &types.1) {
                float(&mut left)?;
                float(&mut right)?;
            }
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { mut expr, mut list, negated }) => {
            if is_span(&type_of(&expr)) {
                (*expr, list) = (length(*expr), list.into_iter().map(length).collect());
            } else if list.iter().chain([&*expr]).any(|one| is_float(&type_of(one))) {
                float(&mut expr)?;
                list.iter_mut().try_for_each(float)?;
            }
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Case(Case { expr: Some(mut operand), mut when_then_expr, else_expr }) => {
            if is_span(&type_of(&operand)) {
                refused("CASE with an operand over")?;
            }
            if when_then_expr.iter().any(|(when, _)| mixed(&type_of(&operand), &type_of(when))) {
                float(&mut operand)?;
                when_then_expr.iter_mut().try_for_each(|(when, _)| float(when))?;
            }
            Transformed::yes(Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr }))
        }
        Expr::ScalarFunction(call) => {
            if matches!(call.name(), "nullif" | "greatest" | "least") && spans(&call.args) {
                refused(&format!("{} over", call.name()))?;
            }
            Transformed::no(Expr::ScalarFunction(call))
        }
        Expr::AggregateFunction(call) => {
            let compares = call.params.distinct || matches!(call.func.name(), "min" | "max");
            let sorted: Vec<Expr> = call.params.order_by.iter().map(|by| by.expr.clone()).collect();
            if compares && spans(&call.params.args) || spans(&sorted) {
                refused(&format!("{} over", call.func.name()))?;
            }
            Transformed::no(Expr::AggregateFunction(call))
        }
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, params } = &*call;
            let sorted: Vec<Expr> = params.order_by.iter().map(|by| by.expr.clone()).collect();
            let compares = params.distinct || matches!(fun.name(), "min" | "max");
            if spans(&params.partition_by) || spans(&sorted) || compares && spans(&params.args) {
                refused("a window over")?;
            }
            Transformed::no(Expr::WindowFunction(call))
        }
        expr => Transformed::no(expr),
    })
}
