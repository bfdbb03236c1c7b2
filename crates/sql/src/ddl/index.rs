//! CREATE INDEX and DROP INDEX.

use super::rows::all_rows;
use super::{
    Ddl, change, comments, duplicate, extensions, foreign_keys, free_name, functions, materialized,
    open, stored,
};
use crate::bind;
use crate::bulk::Bulk;
use crate::catalog::{self, Table, UserType};
use crate::clauses;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::index::{Entry, Index, IndexPart};
use crate::kv;
use crate::names::{self, Qualified};
use crate::operator_class;
use crate::write;
use meridian_txn::{Lock, Transaction};
use sqlparser::ast;
use std::sync::Arc;

pub(super) async fn create_index(
    cx: &mut Ddl<'_>,
    create: &ast::CreateIndex,
) -> Result<(), SqlError> {
    let Some((old, table)) = declare_index(cx, create).await? else {
        return Ok(());
    };
    fill(cx, &table).await?;
    change(cx, &old, table)
}

/// Returns the table before and after the declaration of an index; `None` if the index exists, with
/// IF NOT EXISTS.
pub(super) async fn declare_index(
    cx: &mut Ddl<'_>,
    create: &ast::CreateIndex,
) -> Result<Option<(Arc<Table>, Table)>, SqlError> {
    clauses::create_index(create)?;
    Box::pin(functions::refuse_calls(cx, create, "an index")).await?;
    let called = Box::pin(extensions::called(cx, create)).await?;
    let mut create = create.clone();
    extensions::refer_to(&mut create, &called);
    let old = match materialized::named(cx, &create.table_name).await? {
        Some(table) => table,
        None => open(cx, &create.table_name).await?,
    };
    let mut table = (*old).clone();
    let mut index = index_of(&table, &create.columns, &cx.types)?;
    index.unique = create.unique;
    index.nulls_not_distinct = create.nulls_distinct == Some(false);
    let included = match create.include.as_slice() {
        [] => Vec::new(),
        named => bind::target_columns(&table, named)?,
    };
    index.included = included.into_iter().map(|column| column as u32).collect();
    index.predicate = create.predicate.as_ref().map(|expr| unqualified(expr, &cx.types));
    let name = create.name.as_ref().map(names::simple).transpose()?;
    if let Some(name) = &name
        && catalog::relation_in(cx.txn, table.schema, name).await?.is_some()
    {
        if !create.if_not_exists {
            return Err(duplicate(name));
        }
        cx.skip_existing(name);
        return Ok(None);
    }
    add_index(cx, &mut table, index, name, "idx").await?;
    Ok(Some((old, table)))
}

/// Declares an index; the caller writes its entries. A name that is not given ends with `suffix`.
pub(super) async fn add_index(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    mut index: Index,
    name: Option<String>,
    suffix: &str,
) -> Result<(), SqlError> {
    let name = match name {
        Some(name) => name,
        None => {
            let columns = column_names(table, &index);
            free_name(cx, table.schema, (&table.name, &columns), suffix).await?
        }
    };
    cx.check_free(table.schema, &name).await?;
    let id = cx.next_id_in(table.schema).await?;
    catalog::put_name(cx.txn, table.schema, &name, id, table.id)?;
    comments::forget_parts(cx, table.id, &name).await?;
    (index.id, index.name) = (id, name);
    table.indexes.push(index);
    table.bind_stored()?;
    let reads_zone = table.indexes.last().map_or(Ok(false), |index| index.check_new(table))?;
    stored::refuse_zone(cx, reads_zone)
}

/// Returns the names of an index's columns for its own: an expression counts as its function, or as
/// `expr`.
fn column_names(table: &Table, index: &Index) -> String {
    let name = |part: &IndexPart| match part.column() {
        Some(column) => table.columns[column].name.clone(),
        None => index.call_of(table, *part).unwrap_or("expr").to_lowercase(),
    };
    let mut columns: Vec<String> = index.columns.iter().map(name).collect();
    columns.extend(index.included.iter().map(|at| table.columns[*at as usize].name.clone()));
    columns.join("_")
}

/// Returns the columns of a key, by number.
pub(super) fn parts(
    table: &Table,
    columns: &[ast::IndexColumn],
) -> Result<Vec<IndexPart>, SqlError> {
    let index = index_of(table, columns, &[])?;
    if !index.expressions.is_empty() {
        return Err(SqlError::new(state::SYNTAX, "a key has columns, and no expressions"));
    }
    for (at, part) in index.columns.iter().enumerate() {
        if index.columns[..at].iter().any(|other| other.column == part.column) {
            let message =
                format!("column \"{}\" appears twice in the key", index.text_of(table, *part));
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
    }
    Ok(index.columns)
}

/// Returns an index of columns and expressions, without id and name.
pub(super) fn index_of(
    table: &Table,
    columns: &[ast::IndexColumn],
    types: &[(Qualified, UserType)],
) -> Result<Index, SqlError> {
    let mut index = Index::new(0, String::new(), Vec::with_capacity(columns.len()), false);
    for column in columns {
        let mut expr = &column.column.expr;
        while let ast::Expr::Nested(inner) = expr {
            expr = inner;
        }
        let number = match expr {
            ast::Expr::Identifier(ident) => {
                bind::target_columns(table, std::slice::from_ref(ident))?[0] as u32
            }
            expr => {
                index.expressions.push(unqualified(expr, types));
                IndexPart::EXPRESSIONS + index.expressions.len() as u32 - 1
            }
        };
        let options = column.column.options;
        let descending = options.asc == Some(false);
        let nulls_reversed = options.nulls_first.is_some_and(|first| first != descending);
        let class = column.operator_class.as_ref().map(operator_class::named).transpose()?;
        let class = class.map(|class| class.oid);
        index.columns.push(IndexPart { column: number, descending, nulls_reversed, class });
    }
    Ok(index)
}

/// Returns the text of an expression whose columns are named without their table, which may get
/// another name, and whose types are named by their ids.
pub(super) fn unqualified(expr: &ast::Expr, types: &[(Qualified, UserType)]) -> String {
    let mut expr = expr.clone();
    stored::refer_to_types(&mut expr, types);
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        if let ast::Expr::CompoundIdentifier(path) = part
            && let Some(last) = path.pop()
        {
            *part = ast::Expr::Identifier(last);
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    stored::text_of(&expr)
}

/// Writes the entries of the last index for the existing rows.
pub(super) async fn fill(cx: &mut Ddl<'_>, table: &Table) -> Result<(), SqlError> {
    let Some(index) = table.indexes.last() else { return Ok(()) };
    let mut bulk = Bulk::new(cx.engine.database().clone());
    let mut cursor = all_rows(cx.txn, table);
    let wanted = vec![true; table.columns.len()];
    loop {
        let found = cursor.next(cx.txn, table, &wanted, Lock::Shared, 4000).await?;
        if found.is_empty() {
            return bulk.finish(cx.txn).await;
        }
        for found in found {
            let suffix = &found.key[kv::PREFIX..];
            let Some(entry) = index.entry(&found.row, suffix)? else { continue };
            let Entry { key, unique, value } = entry;
            let entry = kv::to_key(key);
            let (chunk, _) = bulk.chunk().await?;
            if unique && chunk.get(&entry, Lock::Exclusive).await?.is_some() {
                return Err(not_unique(table, index, &found.row, cx.facts.zone()));
            }
            refuse_equal(chunk, table, index, &found.row, cx.facts.zone()).await?;
            chunk.put(entry, Some(kv::to_value(value)))?;
            bulk.wrote(&found.row).await?;
        }
    }
}

/// Fails with 23505 if a row that was written before is equal to one in an index whose UNIQUE
/// constraint is DEFERRABLE.
pub(super) async fn refuse_equal(
    txn: &mut dyn Transaction,
    table: &Table,
    index: &Index,
    row: &[Datum],
    zone: &Zone,
) -> Result<(), SqlError> {
    let Some(prefix) = index.deferrable_prefix(row)? else { return Ok(()) };
    let found = txn.scan(&kv::prefix_range(&prefix), Lock::Exclusive, false, 1).await?;
    match found.rows.is_empty() {
        true => Ok(()),
        false => Err(not_unique(table, index, row, zone)),
    }
}

pub(crate) fn not_unique(table: &Table, index: &Index, row: &[Datum], zone: &Zone) -> SqlError {
    let mut error = write::duplicate_of(table, index, row, zone);
    error.message = format!("could not create unique index \"{}\"", index.name);
    error.detail = error.detail.map(|detail| detail.replace("already exists", "is duplicated"));
    error
}

pub(super) async fn drop_index(
    cx: &mut Ddl<'_>,
    name: &Qualified,
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    let missing =
        || SqlError::new(state::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"));
    let relation = cx.relation(name).await?;
    let name = &*name.name;
    let Some(relation) = relation.filter(|relation| relation.id != relation.table) else {
        if !if_exists {
            return Err(missing());
        }
        cx.skip("index", name);
        return Ok(());
    };
    let table =
        catalog::table_by_id(cx.txn, &cx.engine.cache, relation.table, cx.clean, Lock::Exclusive)
            .await?;
    let old = table.ok_or_else(missing)?;
    let mut table = (*old).clone();
    let is_it = |index: &Index| index.name == name && !index.is_constraint();
    let Some(at) = table.indexes.iter().position(is_it) else {
        let constraint = format!("constraint {name} on table {}", table.name);
        let message = format!("cannot drop index {name} because {constraint} requires it");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS, message)
            .hint(format!("You can drop {constraint} instead.")));
    };
    let what = format!("index {name}");
    let index = table.indexes[at].clone();
    foreign_keys::free_key(cx, &mut table, &index, &what, cascade).await?;
    remove_index(cx, &mut table, at)?;
    change(cx, &old, table)
}

pub(super) fn remove_index(cx: &mut Ddl<'_>, table: &mut Table, at: usize) -> Result<(), SqlError> {
    let index = table.indexes.remove(at);
    catalog::drop_storage(cx.txn, index.id)?;
    Ok(cx.txn.put(kv::name_key(table.schema, &index.name), None)?)
}

/// Runs ALTER INDEX … RENAME TO.
pub(super) async fn rename(
    cx: &mut Ddl<'_>,
    name: &ast::ObjectName,
    new: &ast::ObjectName,
) -> Result<(), SqlError> {
    let (id, old_name) = comments::index(cx, name).await?;
    let cache = &cx.engine.cache;
    let found = catalog::table_by_id(cx.txn, cache, id, cx.clean, Lock::Exclusive).await?;
    let old = found.ok_or_else(|| SqlError::corrupted(format!("the table {id} is not there")))?;
    let mut table = (*old).clone();
    rename_index(cx, &mut table, &old_name, &names::simple(new)?).await?;
    change(cx, &old, table)
}

/// Renames an index, or the index of a key.
pub(super) async fn rename_index(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    old: &str,
    new: &str,
) -> Result<(), SqlError> {
    cx.check_free(table.schema, new).await?;
    let (id, schema) = (table.id, table.schema);
    let mut keys = table.primary.iter_mut().chain(&mut table.indexes);
    let Some(index) = keys.find(|index| index.name == old) else {
        let message = format!("index \"{old}\" does not exist");
        return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
    };
    cx.txn.put(kv::name_key(schema, old), None)?;
    catalog::put_name(cx.txn, schema, new, index.id, id)?;
    index.name = new.into();
    comments::rename_parts(cx, id, old, new).await
}
