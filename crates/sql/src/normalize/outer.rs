//! Turns left joins into inner joins, and full joins into left ones, where a filter above removes
//! the rows that have no match.
//!
//! Precondition: a conjunct above the join is not true where all columns of the side without a
//! match are NULL. That is known for comparisons, arithmetic, casts, LIKE and IN of such a column,
//! whose value is NULL then, and for `IS NOT NULL` and `IS TRUE` of such a value, which are false.

use crate::expr::Expr;
use crate::logical::{Join, JoinKind, Rel};
use std::collections::BTreeSet;

/// Rewrites all left and full joins of a plan.
pub(super) fn simplify(rel: Rel) -> Rel {
    let mut rel = rel;
    for input in rel.inputs_mut() {
        let inner = std::mem::replace(input, Rel::one_row());
        *input = simplify(inner);
    }
    let Rel::Filter { input, condition } = rel else { return rel };
    let Rel::Join(join) = *input else { return Rel::Filter { input, condition } };
    let Join { mut kind, mut left, mut right, on } = *join;
    let needs = |side: &Rel| rejects(&condition, &side.columns().into_iter().collect());
    // A subquery between the sides of a full join is refused; it could not be hoisted any more.
    if kind == JoinKind::Full && !on.has_subquery() {
        if needs(&left) {
            kind = JoinKind::Left;
        } else if needs(&right) {
            kind = JoinKind::Left;
            std::mem::swap(&mut left, &mut right);
        }
    }
    if kind == JoinKind::Left && needs(&right) {
        kind = JoinKind::Inner;
    }
    Rel::Filter { input: Box::new(left.join(kind, right, on)), condition }
}

/// True if the condition is false or NULL where these columns are NULL.
fn rejects(condition: &Expr, columns: &BTreeSet<usize>) -> bool {
    match condition {
        Expr::And(all) => all.iter().any(|part| rejects(part, columns)),
        Expr::Or(any) => any.iter().all(|part| rejects(part, columns)),
        Expr::IsNull(inner, true) => is_null(inner, columns),
        Expr::IsBool(inner, _, false) => is_null(inner, columns),
        other => is_null(other, columns),
    }
}

/// True if the value is NULL where these columns are NULL.
fn is_null(expr: &Expr, columns: &BTreeSet<usize>) -> bool {
    match expr {
        Expr::Column(id) => columns.contains(id),
        Expr::Compare(_, sides) | Expr::Arith(_, _, sides) => {
            is_null(&sides.0, columns) || is_null(&sides.1, columns)
        }
        Expr::Cast(inner, ..) | Expr::Not(inner) => is_null(inner, columns),
        Expr::In(needle, ..) => is_null(needle, columns),
        Expr::Like { text, pattern, .. } => is_null(text, columns) || is_null(pattern, columns),
        _ => false,
    }
}
