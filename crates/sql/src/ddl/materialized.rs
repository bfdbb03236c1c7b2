//! Materialized views in the catalog: tables with a query.

use super::{Ddl, change, comments, drop_table, stored, views};
use crate::catalog::{self, Object, Table};
use crate::error::{SqlError, state};
use crate::materialized::{
    Materialized, MaterializedStatement, Refresh, missing, not_materialized,
};
use crate::names;
use crate::parse::Parsed;
use crate::system::quoted;
use crate::temporary::is_temporary;
use meridian_txn::Lock;
use sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, CreateTable, ObjectName,
};
use std::sync::Arc;

/// Returns the query of a new materialized view; `None` if the statement creates a table.
pub(super) async fn query_of(
    cx: &mut Ddl<'_>,
    source: &Parsed,
    create: &CreateTable,
) -> Result<Option<Materialized>, SqlError> {
    if source.materialized != Some(MaterializedStatement::Create) {
        return Ok(None);
    }
    let text = source.view_text.as_deref();
    let text = text.ok_or_else(|| SqlError::unsupported("this form of the statement"))?;
    let (mut text, bound) = views::settle(cx, text).await?;
    stored::refuse_zone(cx, bound.reads_zone)?;
    if bound.reads.iter().any(|id| is_temporary(*id)) {
        let message = "materialized views must not use temporary tables or views";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    if !source.table_as.names.is_empty() {
        let name = |def: &ColumnDef| names::fold(&def.name);
        text = renamed(&text, create.columns.iter().map(name));
    }
    Ok(Some(Materialized { text, reads: bound.reads, is_populated: !source.table_as.is_empty }))
}

/// Returns the text of a query whose columns have other names.
pub(super) fn renamed(text: &str, names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.map(|name| quoted(&name)).collect();
    let listed: Vec<String> = names.iter().map(|name| format!("q.{name}")).collect();
    format!("SELECT {} FROM ({text}) AS q({})", listed.join(", "), names.join(", "))
}

/// Gives the columns of a materialized view's query the names that the view has for them.
pub(super) fn name_columns(table: &mut Table) {
    let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
    if let Some(query) = &mut table.query {
        query.text = renamed(&query.text, names.into_iter());
    }
}

/// Finds a materialized view, and locks its version until the transaction ends. Returns `None` if
/// there is no relation of the name, or one of another kind.
pub(super) async fn named(
    cx: &mut Ddl<'_>,
    name: &ObjectName,
) -> Result<Option<Arc<Table>>, SqlError> {
    let name = names::relation(name)?;
    match cx.relation(&name).await? {
        Some(found) if found.id == found.table => match cx.object(&name).await? {
            Some(Object::Table(table)) => Ok(Some(table).filter(|table| table.query.is_some())),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Fails with 42809 for an action of ALTER TABLE that changes more than a name.
pub(super) fn check_action(table: &Table, operation: &AlterTableOperation) -> Result<(), SqlError> {
    let action = match operation {
        AlterTableOperation::RenameTable { .. } | AlterTableOperation::RenameColumn { .. } => {
            return Ok(());
        }
        AlterTableOperation::AddColumn { .. } => "ADD COLUMN",
        AlterTableOperation::DropColumn { .. } => "DROP COLUMN",
        AlterTableOperation::AddConstraint { .. } => "ADD CONSTRAINT",
        AlterTableOperation::DropConstraint { .. } => "DROP CONSTRAINT",
        AlterTableOperation::ValidateConstraint { .. } => "VALIDATE CONSTRAINT",
        AlterTableOperation::AlterColumn { op, .. } => match op {
            AlterColumnOperation::SetDataType { .. } => "ALTER COLUMN ... SET DATA TYPE",
            AlterColumnOperation::SetNotNull => "ALTER COLUMN ... SET NOT NULL",
            AlterColumnOperation::DropNotNull => "ALTER COLUMN ... DROP NOT NULL",
            _ => "ALTER COLUMN ... SET DEFAULT",
        },
        other => {
            let what = format!("ALTER MATERIALIZED VIEW {other}");
            return Err(SqlError::unsupported(what));
        }
    };
    let name = &table.name;
    let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
    Err(SqlError::new(state::WRONG_OBJECT, message)
        .detail("This operation is not supported for materialized views."))
}

/// Runs the first step of REFRESH: gives a materialized view new, empty storage.
pub(super) async fn renew(cx: &mut Ddl<'_>, refresh: &Refresh) -> Result<(), SqlError> {
    let Refresh { name, concurrently, with_data } = refresh;
    let Some(old) = named(cx, name).await? else {
        let folded = names::relation(name)?;
        if cx.relation(&folded).await?.is_none() {
            return Err(missing(&folded));
        }
        return Err(match comments::relation(cx, name).await? {
            // As in PostgreSQL, whose code for it differs from that of other kinds.
            Object::Table(table) => {
                SqlError { sqlstate: state::FEATURE_NOT_SUPPORTED, ..not_materialized(&table.name) }
            }
            other => catalog::not_a("table or materialized view", other.name()),
        });
    };
    if *concurrently {
        check_concurrent(cx, &old, *with_data).await?;
    }
    let mut table = (*old).clone();
    super::renew(cx, &mut table).await?;
    if let Some(query) = &mut table.query {
        query.is_populated = *with_data;
    }
    change(cx, &old, table)
}

/// Fails as PostgreSQL does where it could not tell the new rows from the old ones. Here, no form
/// of REFRESH makes readers wait.
async fn check_concurrent(
    cx: &mut Ddl<'_>,
    table: &Table,
    with_data: bool,
) -> Result<(), SqlError> {
    if table.query.as_ref().is_some_and(|query| !query.is_populated) {
        let message = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    if !with_data {
        let message = "CONCURRENTLY and WITH NO DATA options cannot be used together";
        return Err(SqlError::new(state::SYNTAX, message));
    }
    let has_key = table.indexes.iter().any(|index| {
        let is_plain = index.predicate.is_none() && index.expressions.is_empty();
        index.unique && is_plain && index.building.is_none()
    });
    if has_key {
        return Ok(());
    }
    let cache = &cx.engine.cache;
    let schema = catalog::object_by_id(cx.txn, cache, table.schema, false, Lock::Shared).await?;
    let schema = schema.as_ref().map_or("public", Object::name);
    let name = &table.name;
    let message = format!("cannot refresh materialized view \"{schema}.{name}\" concurrently");
    Err(SqlError::new(state::NOT_IN_STATE, message).hint(
        "Create a unique index with no WHERE clause on one or more columns of the materialized \
         view.",
    ))
}

/// Drops the materialized views of these names.
pub(super) async fn drop(
    cx: &mut Ddl<'_>,
    named: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    let mut dropped: Vec<Arc<Table>> = Vec::with_capacity(named.len());
    for name in named {
        let folded = names::relation(name)?;
        let wrong = |hint: &str| Err(not_materialized(&folded.name).hint(hint));
        match cx.object(&folded).await? {
            Some(Object::Table(table)) if table.query.is_some() => dropped.push(table),
            Some(Object::Table(_)) => return wrong("Use DROP TABLE to remove a table."),
            Some(Object::View(_)) => return wrong("Use DROP VIEW to remove a view."),
            Some(_) => return wrong("Use DROP SEQUENCE to remove a sequence."),
            None if if_exists => cx.skip("materialized view", &folded.name),
            None => {
                let message = format!("materialized view \"{folded}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_TABLE, message));
            }
        }
    }
    let ids: Vec<u32> = dropped.iter().map(|table| table.id).collect();
    for id in &ids {
        // With CASCADE, one before it may have dropped it.
        let cache = &cx.engine.cache;
        let now = catalog::table_by_id(cx.txn, cache, *id, false, Lock::Exclusive).await?;
        if let Some(table) = now {
            drop_table(cx, &table, &ids, cascade).await?;
        }
    }
    Ok(())
}
