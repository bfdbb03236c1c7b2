//! The rows of a table whose descriptor changes.

use super::index::{not_unique, refuse_equal};
use super::{Ddl, renew};
use crate::access::Target;
use crate::bind::Binder;
use crate::bulk::Bulk;
use crate::catalog::Table;
use crate::constraint::Check;
use crate::datetime;
use crate::effects;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Scope};
use crate::kv;
use crate::scan::Cursor;
use crate::write;
use meridian_txn::{Lock, Transaction};

/// The change of a row while it is copied.
pub(super) enum Move {
    /// New columns take their defaults.
    Fill,
    /// A column takes a value that is computed from the old row.
    Change { column: usize, value: Expr },
}

/// Gives a table new storage, and copies each row of the old descriptor into it.
pub(super) async fn rewrite(
    cx: &mut Ddl<'_>,
    old: &Table,
    table: &mut Table,
    how: &Move,
) -> Result<(), SqlError> {
    table.settle();
    renew(cx, table).await?;
    copy_rows(cx, old, table, how).await
}

async fn copy_rows(cx: &mut Ddl<'_>, old: &Table, new: &Table, how: &Move) -> Result<(), SqlError> {
    let mut bulk = Bulk::new(cx.engine.database().clone());
    let now_us = datetime::from_unix_ns(cx.txn.began().earliest);
    let scope = Scope { params: &[], now_us, session: cx.facts, catalog: None, effects: None };
    let defaults = Binder::new(&[]).defaults(new)?;
    // A rewrite is no validation: only checks of the changed column are made, if they are valid.
    let mut checks = new.checks.clone();
    checks.retain(|check| match how {
        Move::Fill => false,
        Move::Change { column, .. } => check.is_validated && check.columns().contains(column),
    });
    let mut unchecked = new.clone();
    unchecked.checks.clear();
    for (at, column) in unchecked.columns.iter_mut().enumerate() {
        let is_new = match how {
            Move::Fill => at >= old.columns.len(),
            Move::Change { column, .. } => at == *column,
        };
        column.domain = column.domain.filter(|_| is_new);
    }
    // Columns that are there keep their values.
    unchecked.generated.clear();
    let complete = new;
    let new = &unchecked;
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
            let missing = effects::evaluate(missing, &[], &scope, cx.txn).await?;
            if let Move::Change { column, value } = how {
                let values = effects::evaluate(std::slice::from_ref(value), &row, &scope, cx.txn);
                row.splice(*column..=*column, values.await?);
            }
            let before = row.len();
            row.extend(missing);
            complete.generate_from(before, &mut row)?;
            if let Some(column) = new
                .columns
                .iter()
                .zip(&row)
                .find(|(column, datum)| column.not_null && datum.is_null())
            {
                return Err(has_nulls(new, &column.0.name));
            }
            for check in &checks {
                if !check.holds(&row, cx.facts)? {
                    return Err(violated(new, check));
                }
            }
            let (chunk, highest) = bulk.chunk().await?;
            for index in &new.indexes {
                refuse_equal(chunk, new, index, &row, cx.facts.zone()).await?;
            }
            let (number, highest) = (&mut *cx.row_number, Some(highest));
            let clash =
                write::insert_above(chunk, new, &mut row, cx.facts, number, highest).await?;
            bulk.wrote(&row).await?;
            if let Some(clash) = clash {
                let index = clash.index.map(|at| &new.indexes[at]).or(new.primary.as_ref());
                return Err(index.map_or_else(
                    || SqlError::corrupted("a clash without an index"),
                    |index| not_unique(new, index, &row, cx.facts.zone()),
                ));
            }
        }
    }
}

/// True if a table has rows.
pub(super) async fn has_rows(cx: &mut Ddl<'_>, table: &Table) -> Result<bool, SqlError> {
    let mut cursor = all_rows(cx.txn, table);
    let wanted = vec![false; table.columns.len()];
    Ok(!cursor.next(cx.txn, table, &wanted, Lock::Shared, 1).await?.is_empty())
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
            return Err(has_nulls(table, &table.columns[column].name));
        }
    }
}

/// Returns 23502: a row that exists has NULL in a column.
pub(super) fn has_nulls(table: &Table, column: &str) -> SqlError {
    let message =
        format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
    SqlError::new(state::NOT_NULL, message).of_column(table, column)
}

/// Returns 23514: a row that exists violates a check.
fn violated(table: &Table, check: &Check) -> SqlError {
    let check = &check.name;
    let message = format!(
        "check constraint \"{check}\" of relation \"{}\" is violated by some row",
        table.name
    );
    SqlError::new(state::CHECK, message).of_constraint(table, check)
}

/// Fails with 23514 if a row violates a CHECK constraint that is added.
pub(super) async fn check_rows(
    cx: &mut Ddl<'_>,
    table: &Table,
    check: &Check,
) -> Result<(), SqlError> {
    let mut cursor = all_rows(cx.txn, table);
    let mut wanted = vec![false; table.columns.len()];
    check.columns().into_iter().for_each(|column| wanted[column] = true);
    loop {
        let found = cursor.next(cx.txn, table, &wanted, Lock::Shared, 4000).await?;
        if found.is_empty() {
            return Ok(());
        }
        for found in found {
            if !check.holds(&found.row, cx.facts)? {
                return Err(violated(table, check));
            }
        }
    }
}

/// Reads all rows of a table, which stay as they are until the transaction has committed.
pub(super) fn all_rows(txn: &mut dyn Transaction, table: &Table) -> Cursor {
    let rows = kv::prefix_range(&kv::storage_prefix(table.storage));
    txn.keep_range(rows.clone());
    Cursor::new(None, vec![Target::Range(rows)], false)
}
