//! Turns subqueries in expressions into joins.
//!
//! For a row of the operator's input, the subquery is evaluated by a join whose right side is the
//! subquery: EXISTS and ANY by a mark join, a value by a single join. The expression then names the
//! join's column. The join is dependent if the subquery is correlated.
//!
//! Precondition: the subquery is evaluated only where the expression would evaluate it, since it
//! may fail. In a branch of CASE, or behind the first operand of COALESCE, the condition under
//! which the branch is taken becomes part of the join's condition; where that is not true, the
//! join's column is NULL (or false), and the branch is not taken either.
//!
//! `x NOT IN (…)` and `NOT EXISTS` as a conjunct of a filter become an anti join: its rows are
//! those whose mark is false, that is, for which the condition is false for all rows of the
//! subquery, neither true nor NULL.

use crate::aggregate::Aggregate;
use crate::datum::Datum;
use crate::expr::{Compare, Expr};
use crate::logical::{ColumnId, Join, JoinKind, Rel, SetOp, SetOperation, Subquery, Wants};
use crate::window::Work;
use std::collections::BTreeSet;

/// Replaces all subqueries in expressions of a plan.
pub(super) fn hoist(rel: Rel, next: &mut ColumnId) -> Rel {
    let mut rel = rel;
    for input in rel.inputs_mut() {
        let inner = std::mem::replace(input, Rel::one_row());
        *input = hoist(inner, next);
    }
    if !rel.exprs().iter().any(|expr| expr.has_subquery()) {
        return rel;
    }
    match rel {
        Rel::Filter { input, condition } => filter(*input, condition, next),
        Rel::Project { input, mut outputs } => {
            let mut input = *input;
            for (_, expr) in &mut outputs {
                input = replace(input, expr, &[], next);
            }
            Rel::Project { input: Box::new(input), outputs }
        }
        Rel::Aggregate { input, keys, sets, mut aggregates } => {
            let mut input = *input;
            for (_, aggregate) in &mut aggregates {
                input = replace_in_aggregate(input, aggregate, next);
            }
            Rel::Aggregate { input: Box::new(input), keys, sets, aggregates }
        }
        Rel::Window(window) => {
            let mut window = *window;
            for (_, call) in &mut window.calls {
                window.input = match &mut call.work {
                    Work::Aggregate(aggregate) => {
                        replace_in_aggregate(window.input, aggregate, next)
                    }
                    Work::Function(_, args) => args
                        .iter_mut()
                        .fold(window.input, |input, arg| replace(input, arg, &[], next)),
                };
            }
            Rel::Window(Box::new(window))
        }
        Rel::Values { columns, rows } => {
            let mut sides = Vec::with_capacity(rows.len());
            for row in rows {
                let outputs: Vec<_> = row.into_iter().map(|expr| (fresh(next), expr)).collect();
                let ids = outputs.iter().map(|(id, _)| *id).collect();
                let row = Rel::Project { input: Box::new(Rel::one_row()), outputs };
                sides.push((hoist(row, next), ids));
            }
            Rel::Set(Box::new(SetOperation { op: SetOp::Union, all: true, columns, sides }))
        }
        // The arguments become columns of a left side.
        Rel::Functions(mut functions) => {
            let columns = Rel::Functions(functions.clone()).columns();
            let mut input = Rel::one_row();
            for arg in functions.calls.iter_mut().flat_map(|(_, args)| args) {
                input = replace(input, arg, &[], next);
            }
            let joined = input.join(JoinKind::Inner, Rel::Functions(functions), Expr::truth());
            let outputs = columns.into_iter().map(|id| (id, Expr::Column(id))).collect();
            Rel::Project { input: Box::new(joined), outputs }
        }
        Rel::Join(join) if join.kind == JoinKind::Full => full(*join, next),
        // The pairs of a row are the rows of a dependent right side: there the condition is a
        // filter.
        Rel::Join(join) => {
            let right = filter(join.right, join.on, next);
            join.left.join(join.kind, right, Expr::truth())
        }
        other => other,
    }
}

/// Turns the subqueries of a full join's condition into columns of the side that they name. Such a
/// subquery is evaluated for each row of its side, even where another operand of AND or OR makes it
/// needless. If one names both sides, the join is divided. What is volatile is not divided: the
/// subquery stays, and is refused when the join is lowered.
fn full(join: Join, next: &mut ColumnId) -> Rel {
    let Join { kind, mut left, mut right, mut on } = join;
    let lefts: BTreeSet<ColumnId> = left.columns().into_iter().collect();
    let rights: BTreeSet<ColumnId> = right.columns().into_iter().collect();
    let mut is_between = false;
    on.walk(&mut |part| {
        let names_both = || part.names_any(&lefts) && part.names_any(&rights);
        is_between |= matches!(part, Expr::Subquery(_)) && names_both();
    });
    if is_between && !left.is_volatile() && !right.is_volatile() && !on.is_volatile() {
        return divided(left, right, on, next);
    }
    on.rewrite(&mut |part| {
        if matches!(part, Expr::Subquery(_)) {
            let side = match (part.names_any(&lefts), part.names_any(&rights)) {
                (true, true) => return,
                (false, true) => &mut right,
                _ => &mut left,
            };
            let input = std::mem::replace(side, Rel::one_row());
            *side = replace(input, part, &[], next);
        }
    });
    left.join(kind, right, on)
}

/// Divides a full join into a left join, and the right rows without a match.
fn divided(left: Rel, right: Rel, on: Expr, next: &mut ColumnId) -> Rel {
    let (lefts, rights) = (left.columns(), right.columns());
    let columns: Vec<ColumnId> = lefts.iter().chain(&rights).copied().collect();
    let is_true = Expr::IsBool(Box::new(on.clone()), true, false);
    let pairs = left.clone().join(JoinKind::Left, right.clone(), on);
    let others = right.join(JoinKind::Anti, left, is_true);
    let nulls = lefts.iter().map(|_| (fresh(next), Expr::Const(Datum::Null)));
    let mut outputs: Vec<(ColumnId, Expr)> = nulls.collect();
    outputs.extend(rights.iter().map(|id| (*id, Expr::Column(*id))));
    let ids = outputs.iter().map(|(id, _)| *id).collect();
    let others = Rel::Project { input: Box::new(hoist(others, next)), outputs };
    let sides = vec![(hoist(pairs, next), columns.clone()), (others, ids)];
    Rel::Set(Box::new(SetOperation { op: SetOp::Union, all: true, columns, sides }))
}

/// Replaces the subqueries of an aggregate, whose arguments are evaluated where its filter is true.
fn replace_in_aggregate(input: Rel, aggregate: &mut Aggregate, next: &mut ColumnId) -> Rel {
    let (mut input, mut guards) = (input, Vec::new());
    if let Some(filter) = &mut aggregate.filter {
        input = once(replace(input, filter, &[], next), filter, next);
        guards.push(filter.clone());
    }
    let order = aggregate.order.iter_mut().map(|key| &mut key.expr);
    aggregate
        .args
        .iter_mut()
        .chain(order)
        .fold(input, |input, expr| replace(input, expr, &guards, next))
}

/// Makes an expression that differs each time a column of the input, since it is used twice: as the
/// guard of a subquery, and in its own place.
fn once(input: Rel, expr: &mut Expr, next: &mut ColumnId) -> Rel {
    if !expr.is_volatile() {
        return input;
    }
    let id = fresh(next);
    let passed = input.columns().into_iter().map(|id| (id, Expr::Column(id)));
    let computed = (id, std::mem::replace(expr, Expr::Column(id)));
    let outputs = passed.chain([computed]).collect();
    Rel::Project { input: Box::new(input), outputs }
}

fn fresh(next: &mut ColumnId) -> ColumnId {
    *next += 1;
    *next - 1
}

/// Filters by a condition with subqueries. Other conjuncts are evaluated first.
fn filter(input: Rel, condition: Expr, next: &mut ColumnId) -> Rel {
    let mut conjuncts = Vec::new();
    condition.into_conjuncts(&mut conjuncts);
    let (with, without): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(Expr::has_subquery);
    let columns = input.columns();
    let mut input = input.filter(without);
    let mut rest = Vec::new();
    for conjunct in with {
        match or_one_row(conjunct) {
            Expr::Subquery(subquery) if is_truth(&subquery) => {
                input = test(input, *subquery, false, next);
            }
            Expr::Not(inner) if matches!(&*inner, Expr::Subquery(s) if is_truth(s)) => {
                if let Expr::Subquery(subquery) = *inner {
                    input = test(input, *subquery, true, next);
                }
            }
            mut other => {
                input = replace(input, &mut other, &[], next);
                rest.push(other);
            }
        }
    }
    if rest.is_empty() {
        return input;
    }
    let outputs = columns.into_iter().map(|id| (id, Expr::Column(id))).collect();
    Rel::Project { input: Box::new(input.filter(rest)), outputs }
}

fn is_truth(subquery: &Subquery) -> bool {
    match &subquery.wants {
        Wants::Value(_) => false,
        Wants::Existence => true,
        Wants::Any(condition) => !condition.has_subquery(),
    }
}

/// Returns `x = (SELECT …)` as `x IN (SELECT …)` if the subquery has at most one row and is the
/// same for all rows: as conjuncts, both are true for the same rows, and a join may begin at that
/// row.
fn or_one_row(conjunct: Expr) -> Expr {
    let is_one = |side: &Expr| match side {
        Expr::Subquery(it) => {
            matches!(it.wants, Wants::Value(_))
                && has_one_row(&it.rel)
                && it.rel.free_columns().is_empty()
        }
        _ => false,
    };
    let (left, right) = match conjunct {
        Expr::Compare(Compare::Eq, sides) if is_one(&sides.1) => *sides,
        Expr::Compare(Compare::Eq, sides) if is_one(&sides.0) => (sides.1, sides.0),
        other => return other,
    };
    let equal = |right| Expr::Compare(Compare::Eq, Box::new((left, right)));
    match right {
        Expr::Subquery(subquery) => match *subquery {
            Subquery { wants: Wants::Value(column), rel } => {
                let wants = Wants::Any(equal(Expr::Column(column)));
                Expr::Subquery(Box::new(Subquery { wants, rel }))
            }
            other => equal(Expr::Subquery(Box::new(other))),
        },
        other => equal(other),
    }
}

/// True if a relation has no more than one row.
fn has_one_row(rel: &Rel) -> bool {
    match rel {
        Rel::Limit { limit: Some(Expr::Const(limit)), .. } => {
            limit.as_i64().is_some_and(|limit| limit <= 1)
        }
        Rel::Aggregate { keys, sets, .. } => keys.is_empty() && sets.is_none(),
        Rel::Project { input, .. }
        | Rel::Filter { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Lock { input, .. } => has_one_row(input),
        _ => false,
    }
}

/// Returns the first row of a subquery of EXISTS that is the same for all rows. Others become
/// conditions of their joins, which stop at a row, too.
fn first_row(rel: Rel) -> Rel {
    let is_small = matches!(rel, Rel::Values { .. } | Rel::Limit { .. });
    if is_small || !rel.free_columns().is_empty() {
        return rel;
    }
    Rel::Limit { input: Box::new(rel), limit: Some(Expr::Const(Datum::Int8(1))), offset: None }
}

/// Keeps the rows for which EXISTS or ANY is true, or false.
fn test(input: Rel, subquery: Subquery, negated: bool, next: &mut ColumnId) -> Rel {
    let right = hoist(subquery.rel, next);
    let (right, on) = match subquery.wants {
        Wants::Any(condition) => (right, condition),
        _ => (first_row(right), Expr::truth()),
    };
    match negated {
        false => input.join(JoinKind::Semi, right, on),
        true if on == Expr::truth() => input.join(JoinKind::Anti, right, on),
        true => {
            let possible = Expr::IsBool(Box::new(on), false, true);
            input.join(JoinKind::Anti, right, possible)
        }
    }
}

/// Replaces the subqueries of the operands of AND or OR, which stop at a value.
fn operands(
    input: Rel,
    parts: &mut [Expr],
    stops_at: bool,
    guards: &[Expr],
    next: &mut ColumnId,
) -> Rel {
    let mut input = input;
    let mut guards = guards.to_vec();
    let last = parts.iter().rposition(Expr::has_subquery).unwrap_or(0);
    for (at, part) in parts.iter_mut().enumerate() {
        input = replace(input, part, &guards, next);
        if at < last && !part.is_volatile() {
            guards.push(Expr::IsBool(Box::new(part.clone()), stops_at, true));
        }
    }
    input
}

/// Replaces the subqueries of an expression by columns of joins with its input. `guards` are the
/// conditions under which the expression is evaluated.
fn replace(input: Rel, expr: &mut Expr, guards: &[Expr], next: &mut ColumnId) -> Rel {
    if !expr.has_subquery() {
        return input;
    }
    let mut input = input;
    match expr {
        Expr::Case { branches, otherwise } => {
            let mut guards = guards.to_vec();
            for (condition, result) in branches {
                input = replace(input, condition, &guards, next);
                input = once(input, condition, next);
                guards.push(condition.clone());
                input = replace(input, result, &guards, next);
                guards.pop();
                guards.push(Expr::IsBool(Box::new(condition.clone()), true, true));
            }
            replace(input, otherwise, &guards, next)
        }
        Expr::Coalesce(parts) => {
            let mut guards = guards.to_vec();
            for part in parts {
                input = once(replace(input, part, &guards, next), part, next);
                guards.push(Expr::IsNull(Box::new(part.clone()), false));
            }
            input
        }
        // An operand behind others is needed only if these leave the value open.
        Expr::And(parts) => operands(input, parts, false, guards, next),
        Expr::Or(parts) => operands(input, parts, true, guards, next),
        Expr::Subquery(_) => {
            let taken = std::mem::replace(expr, Expr::Const(Datum::Null));
            let Expr::Subquery(subquery) = taken else { return input };
            let Subquery { wants, rel } = *subquery;
            let mut right = hoist(rel, next);
            let condition = match wants {
                Wants::Value(id) => {
                    // Two uses of one subquery have different columns.
                    let copy = fresh(next);
                    let outputs = vec![(copy, Expr::Column(id))];
                    let right = Rel::Project { input: Box::new(right), outputs };
                    *expr = Expr::Column(copy);
                    let on = Expr::all_of(guards.to_vec()).unwrap_or_else(Expr::truth);
                    return input.join(JoinKind::Single, right, on);
                }
                Wants::Existence => {
                    right = first_row(right);
                    None
                }
                Wants::Any(mut condition) => {
                    input = replace(input, &mut condition, guards, next);
                    Some(condition)
                }
            };
            let surely = |guard: &Expr| Expr::IsBool(Box::new(guard.clone()), true, false);
            let on = Expr::all_of(guards.iter().map(surely).chain(condition).collect());
            let mark = fresh(next);
            *expr = Expr::Column(mark);
            input.join(JoinKind::Mark(mark), right, on.unwrap_or_else(Expr::truth))
        }
        _ => {
            for part in expr.children_mut() {
                input = replace(input, part, guards, next);
            }
            input
        }
    }
}
