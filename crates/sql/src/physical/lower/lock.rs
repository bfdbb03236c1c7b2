//! The place where rows are locked: in the scan of a query's only table, which reads them under
//! their locks at once, or above the joins of several, where the rows that are returned are known.

use crate::bind::{OnLocked, RowLocks};
use crate::error::{SqlError, state};
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

/// True if a transaction that only reads need not take these locks: what it reads stays as it is.
pub(super) fn is_shared(locks: &RowLocks) -> bool {
    locks.strength.lock() == Lock::Shared && locks.on_locked == OnLocked::Wait
}
