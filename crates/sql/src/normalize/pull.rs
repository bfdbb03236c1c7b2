//! Makes dependent joins independent where their right side is a filter over something
//! independent.
//!
//! - A filter at the top of the right side is part of the join's condition: both select pairs. In a
//!   mark join the filter's condition counts as false where it is NULL.
//! - A projection at the top of the right side moves above the join, or into its condition if the
//!   join does not return right columns, unless that makes expressions large. Above a join that
//!   adds NULLs only columns may be passed on: an expression need not be NULL where its columns
//!   are.
//! - With it moves a projection at the top of the left side that only passes columns on, if the
//!   right side is independent by then and no column has one id on both sides: one projection stays
//!   above a chain of such joins.
//! - Order and duplicates of a right side do not matter where only the existence of a match does.

use super::substitute::Substitution;
use crate::expr::Expr;
use crate::logical::{ColumnId, Join, JoinKind, Rel};
use std::collections::BTreeSet;

/// Rewrites all joins of a plan.
pub(super) fn pull_up(rel: Rel) -> Rel {
    let mut rel = rel;
    for input in rel.inputs_mut() {
        let inner = std::mem::replace(input, Rel::one_row());
        *input = pull_up(inner);
    }
    match rel {
        Rel::Join(join) => pull_join(*join),
        other => other,
    }
}

fn pull_join(join: Join) -> Rel {
    let Join { kind, left, mut right, on: condition } = join;
    let mut on = Vec::new();
    condition.into_conjuncts(&mut on);
    let lefts: BTreeSet<_> = left.columns().into_iter().collect();
    let tests = matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_));
    // The columns above the join, while projections move there.
    let mut above: Option<Vec<(ColumnId, Expr)>> = None;
    loop {
        let is_dependent = right.names_any(&lefts);
        right = match right {
            Rel::Filter { input, condition } if is_dependent && kind != JoinKind::Full => {
                let mut all = Vec::new();
                condition.into_conjuncts(&mut all);
                let goes = |conjunct: &Expr| conjunct.names_any(&lefts) && !conjunct.is_volatile();
                let (pulled, stays): (Vec<_>, Vec<_>) = all.into_iter().partition(goes);
                if pulled.is_empty() {
                    right = input.filter(stays);
                    break;
                }
                // The join's own condition comes first: it may guard what fails.
                on.extend(pulled.into_iter().map(|conjunct| match kind {
                    JoinKind::Mark(_) => Expr::IsBool(Box::new(conjunct), true, false),
                    _ => conjunct,
                }));
                input.filter(stays)
            }
            Rel::Project { input, outputs }
                if !volatile(&outputs)
                    && (tests || is_dependent && may_move_above(kind, &outputs, &input)) =>
            {
                let mut into = Substitution::of(&outputs);
                let mut users: Vec<&mut Expr> = on.iter_mut().collect();
                users.extend(above.iter_mut().flatten().map(|(_, expr)| expr));
                if !users.iter().all(|expr| into.reserve(expr)) {
                    right = Rel::Project { input, outputs };
                    break;
                }
                users.into_iter().for_each(|expr| into.apply(expr));
                if !tests {
                    above.get_or_insert(outputs);
                }
                *input
            }
            Rel::Sort { input, .. } if tests => *input,
            Rel::Distinct { input, on: columns } if tests && only_uses(&on, &input, &columns) => {
                *input
            }
            other => {
                right = other;
                break;
            }
        };
    }
    let all = |on| Expr::all_of(on).unwrap_or_else(Expr::truth);
    let Some(mut above) = above else { return left.join(kind, right, all(on)) };
    // A copy of an expression has copies of its relations, with the same columns: the projection
    // may hide those of the left side.
    let rights: BTreeSet<_> = right.columns().into_iter().collect();
    let is_apart = |input: &Rel| input.columns().iter().all(|id| !rights.contains(id));
    let (left, mut outputs) = match left {
        Rel::Project { input, outputs }
            if passes_own(&outputs, &input) && is_apart(&input) && !right.names_any(&lefts) =>
        {
            let into = Substitution::of(&outputs);
            on.iter_mut().chain(above.iter_mut().map(|(_, expr)| expr)).for_each(|e| into.apply(e));
            (*input, outputs)
        }
        left => {
            let passed = left.columns().into_iter().map(|id| (id, Expr::Column(id))).collect();
            (left, passed)
        }
    };
    outputs.extend(above);
    Rel::Project { input: Box::new(left.join(kind, right, all(on))), outputs }
}

/// True if the projection of a right side may move above a join that returns right columns.
fn may_move_above(kind: JoinKind, outputs: &[(ColumnId, Expr)], input: &Rel) -> bool {
    match kind {
        JoinKind::Inner => true,
        JoinKind::Left | JoinKind::Single => passes_own(outputs, input),
        _ => false,
    }
}

fn volatile(outputs: &[(ColumnId, Expr)]) -> bool {
    outputs.iter().any(|(_, expr)| expr.is_volatile())
}

/// True if all outputs are columns of the input.
fn passes_own(outputs: &[(ColumnId, Expr)], input: &Rel) -> bool {
    let own: BTreeSet<_> = input.columns().into_iter().collect();
    outputs.iter().all(|(_, expr)| matches!(expr, Expr::Column(id) if own.contains(id)))
}

/// True if conditions name no other columns of a relation than these.
fn only_uses(on: &[Expr], input: &Rel, columns: &[ColumnId]) -> bool {
    let others = input.columns().into_iter().filter(|id| !columns.contains(id)).collect();
    !on.iter().any(|conjunct| conjunct.names_any(&others))
}
