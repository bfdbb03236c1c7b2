//! INSERT, UPDATE and DELETE: writes the rows that a query or a list of values gives.
//!
//! All rows are known before the first is written, so that no query sees the statement's own
//! changes, and a row that moves is not found again.

mod change;
mod insert;

pub(crate) use change::Change;
pub(crate) use insert::Insert;

use crate::catalog::Table;
use crate::constraint::{Deferral, Obligations, References};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::exec::Reader;
use crate::explain::Actuals;
use crate::expr::Scope;
use crate::memory::{Held, weight};
use crate::{kv, physical, row};
use meridian_mvcc::Key;
use meridian_txn::{Lock, Locking, Transaction};

/// The effects of a statement that changes data.
#[derive(Default)]
pub(crate) struct Changed {
    /// The number of rows.
    pub(crate) count: u64,
    /// The rows of RETURNING.
    pub(crate) rows: Vec<Vec<Datum>>,
    /// The checks that wait for the end of the transaction.
    pub(crate) later: Obligations,
}

impl Changed {
    fn add(&mut self, returned: Option<Vec<Datum>>) {
        self.count += 1;
        self.rows.extend(returned);
    }
}

/// Ends what a statement has to do for foreign keys. Returns what has to hold when the transaction
/// ends.
async fn keep_references(
    changes: Option<References<'_>>,
    txn: &mut dyn Transaction,
    scope: &Scope<'_>,
    deferral: &Deferral,
) -> Result<Obligations, SqlError> {
    match changes {
        Some(changes) => changes.finish(txn, scope, deferral).await,
        None => Ok(Obligations::new()),
    }
}

/// Returns all rows of a planned query, and the memory that they hold. Counts what its nodes do, if
/// that is wanted.
async fn all_rows(
    plan: &physical::Query,
    txn: &mut dyn Transaction,
    scope: &Scope<'_>,
    actuals: Option<&mut Actuals>,
) -> Result<(Vec<Vec<Datum>>, Held), SqlError> {
    let (mut rows, mut held) = (Vec::new(), Held::none(&scope.session.memory));
    let mut running = plan.start(scope.params.to_vec(), actuals.is_some());
    let mut reader = Reader::new(txn, scope.session, scope.now_us);
    while let Some(more) = running.next(&mut reader, usize::MAX).await? {
        held.add(more.iter().map(|row| weight(row)).sum())?;
        rows.extend(more);
    }
    // The statement's own reads wait for locks, whatever its query did (NOWAIT).
    reader.transaction.set_locking(Locking::Wait);
    if let Some(actuals) = actuals {
        actuals.extend(running.actuals());
    }
    Ok((rows, held))
}

/// Locks a row and returns its values; `None` if it is not there.
async fn locked_row(
    txn: &mut dyn Transaction,
    table: &Table,
    key: &Key,
) -> Result<Option<Vec<Datum>>, SqlError> {
    let Some(value) = txn.get(key, Lock::Exclusive).await? else { return Ok(None) };
    let all = vec![true; table.columns.len()];
    row::decode(table, &key[kv::PREFIX..], &value, &all).map(Some)
}
