//! The place where rows are locked: in the scan of a query's only table, which reads them under
//! their locks at once, or above the joins of several, where the rows that are returned are known.

use crate::bind::{OnLocked, RowLocks};
use crate::effects;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function::Volatility;
use crate::logical::{ColumnId, Rel};
use meridian_txn::Lock;

/// Moves the locks of a plan that scans can take from the queries to `in_scans`, and adds the locks
/// of all queries to `all`. Fails if rows are locked that an outer join may not have.
pub(super) fn settle(
    rel: Rel,
    all: &mut Vec<RowLocks>,
    in_scans: &mut Vec<RowLocks>,
) -> Result<Rel, SqlError> {
    let mut rel = rel;
    for input in rel.inputs_mut() {
        let inner = std::mem::replace(input, Rel::one_row());
        *input = settle(inner, all, in_scans)?;
    }
    let Rel::Lock { input, locks } = rel else { return Ok(rel) };
    if let Some(locks) = locks.iter().find(|locks| input.is_nullable(locks.of)) {
        let message =
            format!("{} cannot be applied to the nullable side of an outer join", locks.strength);
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    if locks.iter().any(|locks| locks.on_locked == OnLocked::Skip)
        && let Some(what) = unrepeatable(&input, &locks)
    {
        return Err(SqlError::unsupported(format!("{what} with SKIP LOCKED")));
    }
    all.extend(&locks);
    match &locks[..] {
        [only] if only.on_locked != OnLocked::Skip && reads_one(&input, only.of) => {
            in_scans.push(*only);
            Ok(*input)
        }
        _ => Ok(Rel::Lock { input, locks }),
    }
}

/// True if a relation reads the table with this key and no other.
fn reads_one(rel: &Rel, key: ColumnId) -> bool {
    match rel {
        Rel::Scan { columns, .. } => columns.contains(&key),
        Rel::Filter { input, .. } | Rel::Project { input, .. } | Rel::Sort { input, .. } => {
            reads_one(input, key)
        }
        _ => false,
    }
}

/// Returns what a query has that SKIP LOCKED would do twice, or over other rows than its own: it
/// runs a query again over the rows that it has locked.
fn unrepeatable(rel: &Rel, locks: &[RowLocks]) -> Option<&'static str> {
    let calls = match rel {
        Rel::Functions(functions) => functions.calls.as_slice(),
        _ => &[],
    };
    if calls.iter().any(|(function, _)| function.effect().is_some())
        || rel.exprs().into_iter().any(effects::has_effects)
    {
        return Some("a function that has effects in a query");
    }
    let decides = match rel {
        Rel::Filter { condition, .. } => is_random(condition),
        Rel::Join(join) => is_random(&join.on),
        Rel::Functions(_) => rel.is_volatile(),
        _ => false,
    };
    if decides {
        return Some("a condition that is not the same twice");
    }
    if let Rel::Limit { input, offset: Some(_), .. } = rel
        && locks.iter().any(|locks| input.columns().contains(&locks.of))
    {
        return Some("OFFSET in a subquery whose rows are locked");
    }
    rel.inputs().into_iter().find_map(|input| unrepeatable(input, locks))
}

/// True if an expression may have another value the second time, though its row is the same. A
/// clock that has gone on is right.
fn is_random(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |part| match part {
        Expr::Call(function, _) => {
            found |=
                function.volatility == Volatility::Volatile && function.name != "clock_timestamp";
        }
        Expr::Subquery(subquery) => found |= subquery.rel.is_volatile(),
        _ => {}
    });
    found
}

/// True if a transaction that only reads need not take these locks: what it reads stays as it is.
pub(super) fn is_shared(locks: &RowLocks) -> bool {
    locks.strength.lock() == Lock::Shared && locks.on_locked == OnLocked::Wait
}
