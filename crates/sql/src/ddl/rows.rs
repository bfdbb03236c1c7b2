//! The rows of a table whose descriptor changes.

use super::Ddl;
use super::index::not_unique;
use crate::access::Target;
use crate::bind::Binder;
use crate::bulk::Bulk;
use crate::catalog::Table;
use crate::datetime;
use crate::effects;
use crate::error::{SqlError, state};
use crate::expr::Scope;
use crate::kv;
use crate::scan::Cursor;
use crate::write;
use meridian_txn::{Lock, Transaction};

/// Copies every row of the old descriptor's storage into the new one's. New columns get their
/// default.
pub(super) async fn move_rows(cx: &mut Ddl<'_>, old: &Table, new: &Table) -> Result<(), SqlError> {
    let mut bulk = Bulk::new(cx.engine.database().clone());
    let now_us = datetime::from_unix_ns(cx.txn.began().earliest);
    let scope = Scope { params: &[], now_us, session: cx.facts, catalog: None, effects: None };
    let defaults = Binder::new(&[]).defaults(new)?;
    let mut cursor = all_rows(cx.txn, old);
    let wanted = vec![true; old.columns.len()];
    loop {
        let found = cursor.next(cx.txn, old, &wanted, Lock::Shared, 4000).await?;
        if found.is_empty() {
            return bulk.finish(cx.txn).await;
        }
        for found in found {
            let mut row = found.row;
            let missing = &defaults[row.len()..];
            row.extend(effects::evaluate(missing, &[], &scope, cx.txn).await?);
            if let Some(column) = new
                .columns
                .iter()
                .zip(&row)
                .find(|(column, datum)| column.not_null && datum.is_null())
            {
                let message = format!(
                    "column \"{}\" of relation \"{}\" contains null values",
                    column.0.name, new.name
                );
                return Err(SqlError::new(state::NOT_NULL, message));
            }
            let (chunk, highest) = bulk.chunk().await?;
            let clash = write::insert_above(chunk, new, &row, cx.row_number, Some(highest)).await?;
            bulk.wrote(&row).await?;
            if let Some(clash) = clash {
                let index = clash.index.map(|at| &new.indexes[at]).or(new.primary.as_ref());
                return Err(index.map_or_else(
                    || SqlError::corrupted("a clash without an index"),
                    |index| not_unique(new, index, &row),
                ));
            }
        }
    }
}

/// Fails with 23502 if a row has NULL in a column that becomes NOT NULL.
pub(super) async fn refuse_nulls(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
) -> Result<(), SqlError> {
    let mut cursor = all_rows(cx.txn, table);
    let mut wanted = vec![false; table.columns.len()];
    wanted[column] = true;
    loop {
        let found = cursor.next(cx.txn, table, &wanted, Lock::Shared, 4000).await?;
        if found.is_empty() {
            return Ok(());
        }
        if found.iter().any(|found| found.row[column].is_null()) {
            let name = &table.columns[column].name;
            let message =
                format!("column \"{name}\" of relation \"{}\" contains null values", table.name);
            return Err(SqlError::new(state::NOT_NULL, message));
        }
    }
}

/// Reads all rows of a table, which stay as they are until the transaction has committed.
pub(super) fn all_rows(txn: &mut dyn Transaction, table: &Table) -> Cursor {
    let rows = kv::prefix_range(&kv::storage_prefix(table.storage));
    txn.keep_range(rows.clone());
    Cursor::new(None, vec![Target::Range(rows)], false)
}
