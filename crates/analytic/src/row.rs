//! Row comparisons, and ANY, ALL and IN of subqueries, in three-valued logic.
//!
//! `x < ANY (q)` as a condition is EXISTS of a row of `q` for which `x < it`. As a value it is
//! CASE: true if there is such a row, else NULL if there is one for which that is unknown, else
//! false. An expression in WHERE, HAVING or ON that is under AND and OR only is a condition
//! ([`settle`] finds it before its parts are rewritten); everything else is a value.

use crate::dialect::{MARK, apart, equals, is_subquery, negate, null, take};
use meridian_sql::{SqlError, state};
use sqlparser::ast::{
    self, BinaryOperator, CaseWhen, Expr, Ident, JoinConstraint, JoinOperator, Query, Select,
    SetExpr, TableAliasColumnDef, TableFactor, Value,
};

/// Returns an expression without the parentheses around it.
pub(crate) fn plain(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => plain(inner),
        expr => expr,
    }
}

fn unwrapped(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(inner) => unwrapped(*inner),
        expr => expr,
    }
}

pub(crate) fn is_row(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::Tuple(_))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Returns the parts of two rows, pair by pair.
fn pairs(left: Expr, right: Expr) -> Result<Vec<(Expr, Expr)>, SqlError> {
    match (unwrapped(left), unwrapped(right)) {
        (Expr::Tuple(lefts), Expr::Tuple(rights))
            if lefts.len() == rights.len() && !lefts.is_empty() =>
        {
            Ok(lefts.into_iter().zip(rights).collect())
        }
        (Expr::Tuple(_), Expr::Tuple(_)) => {
            Err(SqlError::new(state::SYNTAX, "unequal number of entries in row expressions"))
        }
        (left, right) => {
            let message = format!(
                "a row beside {} (write both sides as rows)",
                if is_row(&left) { right } else { left }
            );
            Err(SqlError::unsupported(message))
        }
    }
}

fn joined(parts: impl Iterator<Item = Expr>, op: &BinaryOperator) -> Expr {
    nested(parts.reduce(|left, right| binary(left, op.clone(), right)).unwrap_or_else(null))
}

/// Builds `left op right`, of rows part by part: the first pair that is not equal decides.
pub(crate) fn compare(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr, SqlError> {
    if !is_row(&left) && !is_row(&right) {
        return Ok(binary(left, op, right));
    }
    let mut pairs = pairs(left, right)?;
    let strict = match &op {
        BinaryOperator::Eq | BinaryOperator::NotEq => {
            let equal = joined(
                pairs.into_iter().map(|(left, right)| equals(left, right)),
                &BinaryOperator::And,
            );
            return Ok(negate(equal, op == BinaryOperator::NotEq));
        }
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        op => return Err(SqlError::unsupported(format!("the operator {op} between rows"))),
    };
    let (left, right) = pairs.pop().unwrap_or_else(|| (null(), null()));
    let mut found = binary(left, op, right);
    for (left, right) in pairs.into_iter().rev() {
        let further = binary(equals(left.clone(), right.clone()), BinaryOperator::And, found);
        found = nested(binary(binary(left, strict.clone(), right), BinaryOperator::Or, further));
    }
    Ok(found)
}

/// Builds `left IS [NOT] DISTINCT FROM right`, of rows.
pub(crate) fn distinct(left: Expr, right: Expr, is_distinct: bool) -> Result<Expr, SqlError> {
    let parts = pairs(left, right)?.into_iter().map(|(left, right)| {
        let (left, right) = (Box::new(left), Box::new(right));
        if is_distinct {
            Expr::IsDistinctFrom(left, right)
        } else {
            Expr::IsNotDistinctFrom(left, right)
        }
    });
    Ok(joined(parts, if is_distinct { &BinaryOperator::Or } else { &BinaryOperator::And }))
}

/// Builds `row IS [NOT] NULL`: every part of the row IS [NOT] NULL.
pub(crate) fn is_null(row: Expr, negated: bool) -> Expr {
    let Expr::Tuple(parts) = unwrapped(row) else { return null() };
    let part = |part: Expr| {
        if negated { Expr::IsNotNull(Box::new(part)) } else { Expr::IsNull(Box::new(part)) }
    };
    joined(parts.into_iter().map(part), &BinaryOperator::And)
}

/// Returns the conditions of a SELECT.
pub(crate) fn conditions(select: &mut Select) -> Vec<&mut Expr> {
    let mut all: Vec<&mut Expr> =
        select.selection.iter_mut().chain(select.having.iter_mut()).collect();
    for from in &mut select.from {
        for join in &mut from.joins {
            if let JoinOperator::Join(on)
            | JoinOperator::Inner(on)
            | JoinOperator::Left(on)
            | JoinOperator::LeftOuter(on)
            | JoinOperator::Right(on)
            | JoinOperator::RightOuter(on)
            | JoinOperator::FullOuter(on) = &mut join.join_operator
                && let JoinConstraint::On(on) = on
            {
                all.push(on);
            }
        }
    }
    all
}

/// Rewrites comparisons with subqueries that are conditions, before their parts are visited.
pub(crate) fn settle(condition: &mut Expr) -> Result<(), SqlError> {
    match condition {
        Expr::Nested(inner) => settle(inner)?,
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            settle(left)?;
            settle(right)?;
        }
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } if is_subquery(right) => {
            *condition = quantified(take(condition), true)?;
        }
        Expr::InSubquery { expr, .. } if is_row(expr) => {
            *condition = quantified(take(condition), true)?
        }
        _ => {}
    }
    Ok(())
}

/// Builds ANY, ALL and IN of a subquery. `is_condition`: unknown may become false, and the parts
/// have not been rewritten yet.
pub(crate) fn quantified(expr: Expr, is_condition: bool) -> Result<Expr, SqlError> {
    let (left, op, right, all) = match expr {
        Expr::AnyOp { left, compare_op, right, .. } => {
            (*left, compare_op, unwrapped(*right), false)
        }
        Expr::AllOp { left, compare_op, right } => (*left, compare_op, unwrapped(*right), true),
        Expr::InSubquery { expr, subquery, negated: true } => {
            (*expr, BinaryOperator::NotEq, Expr::Subquery(subquery), true)
        }
        Expr::InSubquery { expr, subquery, .. } => {
            (*expr, BinaryOperator::Eq, Expr::Subquery(subquery), false)
        }
        expr => return Ok(expr),
    };
    let Expr::Subquery(subquery) = right else {
        return Err(SqlError::unsupported(format!("ANY or ALL of {right}")));
    };
    let left = unwrapped(left);
    match (&left, all, &op) {
        (Expr::Tuple(_), ..) => {}
        (_, false, BinaryOperator::Eq) | (_, true, BinaryOperator::NotEq) => {
            return Ok(Expr::InSubquery { expr: Box::new(left), subquery, negated: all });
        }
        _ => {}
    }
    let names: Vec<Ident> = match &left {
        Expr::Tuple(parts) => {
            (1..=parts.len()).map(|at| Ident::with_quote('"', format!("v{at}{MARK}"))).collect()
        }
        _ => vec![Ident::with_quote('"', format!("v{MARK}"))],
    };
    let mut found: Vec<Expr> = names.iter().cloned().map(Expr::Identifier).collect();
    let found = if is_row(&left) { Expr::Tuple(found) } else { found.pop().unwrap_or_else(null) };
    let holds = nested(compare(left, op, found)?);
    let exists =
        |test: Expr, negated: bool| exists(&subquery, &names, test, negated, !is_condition);
    if is_condition {
        return match all {
            true => exists(Expr::IsNotTrue(Box::new(holds)), true),
            false => exists(holds, false),
        };
    }
    let decides = if all { Expr::IsFalse(Box::new(holds.clone())) } else { holds.clone() };
    let truth = |truth: bool| Expr::value(Value::Boolean(truth));
    let when = |condition: Expr, result: Expr| CaseWhen { condition, result };
    Ok(Expr::Case {
        case_token: ast::helpers::attached_token::AttachedToken::empty(),
        end_token: ast::helpers::attached_token::AttachedToken::empty(),
        operand: None,
        conditions: vec![
            when(exists(decides, false)?, truth(!all)),
            when(exists(Expr::IsNull(Box::new(holds)), false)?, null()),
        ],
        else_result: Some(Box::new(truth(all))),
    })
}

/// Builds `[NOT] EXISTS (SELECT 1 FROM (subquery) q (names) WHERE test)`. `rewritten`: no visitor
/// will reach it any more.
fn exists(
    subquery: &Query,
    names: &[Ident],
    test: Expr,
    negated: bool,
    rewritten: bool,
) -> Result<Expr, SqlError> {
    let text = "SELECT 1 FROM (SELECT 1) AS q (v) WHERE true";
    let parsed = sqlparser::parser::Parser::new(&sqlparser::dialect::PostgreSqlDialect {})
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_query());
    let mut query = parsed.map_err(|error| SqlError::new("XX000", error.to_string()))?;
    if let SetExpr::Select(select) = &mut *query.body
        && let [
            ast::TableWithJoins {
                relation: TableFactor::Derived { subquery: inner, alias: Some(alias), .. },
                ..
            },
        ] = select.from.as_mut_slice()
    {
        **inner = subquery.clone();
        if rewritten {
            alias.name = apart(&alias.name);
        }
        let column = |name: &Ident| TableAliasColumnDef { name: name.clone(), data_type: None };
        alias.columns = names.iter().map(column).collect();
        select.selection = Some(test);
    }
    Ok(Expr::Exists { subquery: query, negated })
}
