//! Computes what is the same for every row: an operator or a function over constants, if the value
//! is small, and a strict one over a constant NULL, which is NULL whatever its other operand is,
//! also where computing that would fail for some row. One that fails for every row is left to fail.
//!
//! Arguments of COALESCE behind a constant, and branches of CASE that a constant condition decides,
//! go.
//!
//! A filter whose condition is then false or NULL selects nothing, and nothing is read for it.
//!
//! Preconditions: the operator is immutable, and its value is no error: no row may come to it.

use crate::cast::{self, Coercion};
use crate::datetime::Local;
use crate::datum::Datum;
use crate::expr::Expr;
use crate::index;
use crate::logical::Rel;
use crate::memory;
use crate::number;

/// The size up to which a plan keeps a value that it has computed, in bytes.
const LARGEST_KEPT_BYTES: usize = 4 << 10;

/// Folds the expressions of a plan without subqueries in expressions.
pub(super) fn fold(rel: Rel) -> Rel {
    let mut rel = rel;
    for input in rel.inputs_mut() {
        let inner = std::mem::replace(input, Rel::one_row());
        *input = fold(inner);
    }
    rel.exprs_mut().into_iter().for_each(|expr| expr.rewrite(&mut fold_one));
    match rel {
        Rel::Filter { input, condition: Expr::Const(value) } => match value {
            Datum::Bool(true) => *input,
            _ => Rel::Values { columns: input.columns(), rows: Vec::new() },
        },
        other => other,
    }
}

/// Replaces an expression whose parts are folded by its value, if that is known.
fn fold_one(expr: &mut Expr) {
    if let Some(value) = value(expr) {
        *expr = Expr::Const(value);
        return;
    }
    match expr {
        Expr::And(_) | Expr::Or(_) => fold_junction(expr),
        Expr::Coalesce(_) => fold_coalesce(expr),
        Expr::Case { .. } => fold_case(expr),
        _ => {}
    }
}

/// The arguments of COALESCE behind the first constant are not reached.
fn fold_coalesce(expr: &mut Expr) {
    let Expr::Coalesce(parts) = expr else { return };
    parts.retain(|part| !matches!(part, Expr::Const(Datum::Null)));
    if let Some(at) = parts.iter().position(|part| matches!(part, Expr::Const(_))) {
        parts.truncate(at + 1);
    }
    match parts.as_mut_slice() {
        [] => *expr = Expr::Const(Datum::Null),
        [one] => *expr = std::mem::replace(one, Expr::truth()),
        _ => {}
    }
}

/// A branch of CASE whose condition is constant is taken, or not reached.
fn fold_case(expr: &mut Expr) {
    let Expr::Case { branches, otherwise } = expr else { return };
    let is_true = |guard: &Expr| matches!(guard, Expr::Const(Datum::Bool(true)));
    branches.retain(|(guard, _)| is_true(guard) || !matches!(guard, Expr::Const(_)));
    if let Some(at) = branches.iter().position(|(guard, _)| is_true(guard)) {
        let taken = branches.drain(at..).next();
        **otherwise = taken.map_or_else(Expr::truth, |(_, result)| result);
    }
    if branches.is_empty() {
        *expr = std::mem::replace(&mut **otherwise, Expr::truth());
    }
}

/// Operands of AND and OR that are constant decide, or say nothing.
fn fold_junction(expr: &mut Expr) {
    let (parts, absorbing) = match expr {
        Expr::And(parts) => (parts, false),
        Expr::Or(parts) => (parts, true),
        _ => return,
    };
    let is = |part: &Expr, value| matches!(part, Expr::Const(Datum::Bool(b)) if *b == value);
    if parts.iter().any(|part| is(part, absorbing)) {
        *expr = Expr::Const(Datum::Bool(absorbing));
        return;
    }
    parts.retain(|part| !is(part, !absorbing));
    match parts.as_mut_slice() {
        [] => *expr = Expr::Const(Datum::Bool(!absorbing)),
        [one] => *expr = std::mem::replace(one, Expr::truth()),
        _ => {}
    }
}

/// True if a plan may keep a value that is computed: a power has many digits.
fn is_kept(value: &Datum) -> bool {
    memory::behind(value) <= LARGEST_KEPT_BYTES
}

/// Returns the value of an expression, if it is the same for every row and no error.
fn value(expr: &Expr) -> Option<Datum> {
    let constant = |part: &Expr| match part {
        Expr::Const(value) => Some(value.clone()),
        _ => None,
    };
    let is_null = |part: &Expr| matches!(part, Expr::Const(Datum::Null));
    // A part that names nothing and is not folded fails whenever it is computed.
    let fails =
        |part: &Expr| !matches!(part, Expr::Const(_)) && part.is_row_free() && !has_param(part);
    match expr {
        Expr::Arith(_, _, sides) | Expr::Compare(_, sides)
            if (is_null(&sides.0) || is_null(&sides.1)) && !fails(&sides.0) && !fails(&sides.1) =>
        {
            Some(Datum::Null)
        }
        Expr::Arith(op, ty, sides) => {
            let value = number::arith(*op, *ty, &constant(&sides.0)?, &constant(&sides.1)?);
            value.ok().filter(is_kept)
        }
        Expr::Compare(op, sides) => {
            let (left, right) = (constant(&sides.0)?, constant(&sides.1)?);
            Some(Datum::Bool(op.holds(left.compare(&right).ok()?)))
        }
        Expr::Not(inner) => match constant(inner)? {
            Datum::Bool(value) => Some(Datum::Bool(!value)),
            _ => Some(Datum::Null),
        },
        Expr::IsNull(inner, negated) => Some(Datum::Bool(constant(inner)?.is_null() != *negated)),
        Expr::Cast(_, _, Coercion { is_stable: true, .. }) => None,
        Expr::Cast(inner, ty, how) => {
            cast::cast(constant(inner)?, *ty, how.explicit, Local::utc()).ok()
        }
        Expr::Call(function, args)
            if function.strict && args.iter().any(is_null) && !args.iter().any(fails) =>
        {
            (!function.is_set()).then_some(Datum::Null)
        }
        Expr::Call(function, args) if function.is_small() => {
            args.iter().map(constant).collect::<Option<Vec<_>>>()?;
            index::eval(expr, &[]).ok().filter(is_kept)
        }
        Expr::IsBool(inner, ..) => {
            constant(inner)?;
            index::eval(expr, &[]).ok()
        }
        Expr::Distinct(sides, _) => {
            constant(&sides.0).and(constant(&sides.1))?;
            index::eval(expr, &[]).ok()
        }
        Expr::In(needle, list, _) => {
            constant(needle)?;
            list.iter().map(constant).collect::<Option<Vec<_>>>()?;
            index::eval(expr, &[]).ok()
        }
        Expr::Like { text, pattern, .. } => {
            constant(text).and(constant(pattern))?;
            index::eval(expr, &[]).ok()
        }
        _ => None,
    }
}

fn has_param(expr: &Expr) -> bool {
    let mut has = false;
    expr.walk(&mut |part| has |= matches!(part, Expr::Param(_)));
    has
}
