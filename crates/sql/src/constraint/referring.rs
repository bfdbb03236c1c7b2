//! The rows of a table that refer by certain values.

use super::ForeignKey;
use crate::access::{Access, Target};
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Compare, Expr, Scope};
use crate::scan::{Cursor, Found};
use meridian_mvcc::KeyRange;
use meridian_txn::{Lock, Transaction};
use std::sync::Arc;

/// The rows that are read from storage at once.
const ROWS_AT_ONCE: usize = 4000;

/// The columns that are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Those that refer.
    Key,
    All,
}

/// The rows of a table that refer by certain values: found by an index, if there is one of the
/// columns, or among all rows.
pub(super) struct Referring {
    table: Arc<Table>,
    columns: Vec<usize>,
    values: Vec<Datum>,
    cursor: Cursor,
    wanted: Vec<bool>,
}

impl Referring {
    /// Keeps the ranges that are read: until the transaction has ended, no row that refers by the
    /// values appears or goes.
    pub(super) fn with(
        txn: &mut dyn Transaction,
        table: &Arc<Table>,
        foreign: &ForeignKey,
        values: &[Datum],
        wanted: Wanted,
    ) -> Result<Referring, SqlError> {
        let columns: Vec<usize> = foreign.columns.iter().map(|column| *column as usize).collect();
        let equal = |(column, value): (&usize, &Datum)| {
            let sides = (Expr::Column(*column), Expr::Const(value.clone()));
            Expr::Compare(Compare::Eq, Box::new(sides))
        };
        let filter = Expr::all_of(columns.iter().zip(values).map(equal).collect());
        let access = Access::choose(table, filter.as_ref());
        let targets = access.targets(table, &Scope::immutable())?;
        for target in &targets {
            txn.keep_range(match target {
                Target::Point(key) => KeyRange::point(key.clone()),
                Target::Range(range) => range.clone(),
            });
        }
        let cursor = Cursor::new(access.index, targets, false);
        let mut read = vec![wanted == Wanted::All; table.columns.len()];
        columns.iter().for_each(|column| read[*column] = true);
        let values = values.to_vec();
        Ok(Referring { table: table.clone(), columns, values, cursor, wanted: read })
    }

    /// Returns the next rows; none only at the end.
    pub(super) async fn next(
        &mut self,
        txn: &mut dyn Transaction,
        lock: Lock,
    ) -> Result<Vec<Found>, SqlError> {
        loop {
            let cursor = &mut self.cursor;
            let mut found = cursor.next(txn, &self.table, &self.wanted, lock, ROWS_AT_ONCE).await?;
            if found.is_empty() {
                return Ok(found);
            }
            let keys = self.columns.iter().zip(&self.values);
            found.retain(|found| {
                keys.clone().all(|(column, value)| found.row[*column].order(value).is_eq())
            });
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }
}
