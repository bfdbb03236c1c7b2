//! FOR UPDATE and FOR SHARE.

use crate::clauses;
use crate::error::{SqlError, state};
use crate::logical::{ColumnId, Rel};
use crate::names;
use meridian_txn::Lock;
use sqlparser::ast;

/// The locks of a query's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLocks {
    pub(crate) lock: Lock,
    pub(crate) on_locked: OnLocked,
    /// A column of the scan whose rows are locked.
    pub(crate) of: ColumnId,
    /// True if a row that is locked and not written stays as it is until the transaction has
    /// committed, under every protocol.
    pub(crate) keeps: bool,
}

/// The action of FOR UPDATE and FOR SHARE at locked rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLocked {
    /// Wait for the lock.
    Wait,
    /// NOWAIT: fail.
    Fail,
    /// SKIP LOCKED: leave the row out.
    Skip,
}

/// The clauses of FOR UPDATE and FOR SHARE of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockClauses {
    lock: Lock,
    pub(super) on_locked: OnLocked,
}

impl LockClauses {
    /// Returns the locks of a relation's rows; `None` if it has none of a table.
    pub(super) fn over(self, rel: &Rel) -> Option<RowLocks> {
        let LockClauses { lock, on_locked } = self;
        Some(RowLocks { lock, on_locked, of: scanned(rel)?, keeps: true })
    }

    /// Reads the clauses of a statement's outermost query.
    pub(super) fn of(query: &ast::Query) -> Result<Option<LockClauses>, SqlError> {
        if query.locks.is_empty() {
            return Ok(None);
        }
        let one_table = || match clauses::plain_select(query)?.from.as_slice() {
            [] => Some(None),
            [only] if only.joins.is_empty() => clauses::plain_table(&only.relation).map(Some),
            _ => None,
        };
        let Some(table) = one_table() else {
            return Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in this query"));
        };
        let mut locks = LockClauses { lock: Lock::Shared, on_locked: OnLocked::Wait };
        for ast::LockClause { lock_type, of, nonblock } in &query.locks {
            if let Some(of) = of {
                let name = names::simple(of)?;
                let known = match table {
                    Some((_, Some(alias))) => Some(names::fold(&alias.name)),
                    Some((table, None)) => Some(names::relation(table)?.name),
                    None => None,
                };
                if known.as_ref() != Some(&name) {
                    let message = format!(
                        "relation \"{name}\" in FOR UPDATE clause not found in FROM clause"
                    );
                    return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                }
            }
            if matches!(lock_type, ast::LockType::Update) {
                locks.lock = Lock::Exclusive;
            }
            locks.on_locked = match nonblock {
                None => locks.on_locked,
                Some(ast::NonBlock::Nowait) => OnLocked::Fail,
                Some(ast::NonBlock::SkipLocked) => OnLocked::Skip,
            };
        }
        Ok(Some(locks))
    }
}

/// Returns a column of the only table that a relation scans, as `check` has found.
fn scanned(rel: &Rel) -> Option<ColumnId> {
    match rel {
        Rel::Scan { table, columns } if !table.is_made() => columns.last().copied(),
        Rel::Filter { input, .. }
        | Rel::Project { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Limit { input, .. } => scanned(input),
        _ => None,
    }
}

/// Fails unless each row of a relation is one of a table's.
pub(super) fn check(rel: &Rel) -> Result<(), SqlError> {
    let has_subquery = rel.exprs().into_iter().any(|expr| expr.has_subquery());
    match rel {
        Rel::Scan { .. } | Rel::Values { .. } => Ok(()),
        Rel::Filter { input, .. }
        | Rel::Project { input, .. }
        | Rel::Sort { input, .. }
        | Rel::Limit { input, .. }
            if !has_subquery =>
        {
            check(input)
        }
        Rel::Aggregate { .. } => {
            Err(SqlError::unsupported("FOR UPDATE with GROUP BY or aggregate functions"))
        }
        Rel::Distinct { .. } => Err(SqlError::unsupported("FOR UPDATE with DISTINCT")),
        _ => Err(SqlError::unsupported("FOR UPDATE or FOR SHARE in this query")),
    }
}
