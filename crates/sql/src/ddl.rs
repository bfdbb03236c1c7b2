//! CREATE, DROP, ALTER, TRUNCATE: changes of descriptors in the transaction of the statement.
//!
//! Dropping and truncating take constant time: the descriptor is deleted, or points to new storage,
//! and the old storage is noted; VACUUM erases it. New storage is filled before it is published
//! (see [`crate::bulk`]), so that no table is too large for it.

use crate::access::Target;
use crate::backfill::Step;
use crate::bind::{self, Binder};
use crate::bulk::{Bulk, Ids};
use crate::catalog::{self, ColumnDef, Table};
use crate::clauses;
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::index::{Entry, Index, IndexPart};
use crate::kv;
use crate::names;
use crate::parse;
use crate::scan::Cursor;
use crate::statistics;
use crate::types::Type;
use crate::work::Work;
use crate::write;
use meridian_txn::{Lock, SchemaVersion, Transaction};
use sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnOption, ObjectType, Statement,
    TableConstraint,
};
use std::sync::Arc;

pub(crate) async fn run(
    engine: &Engine,
    work: &mut Work,
    statement: &Statement,
) -> Result<String, SqlError> {
    let clean = work.clean;
    // Whatever happens below, this transaction's reads of the catalog may be uncommitted from now
    // on.
    work.catalog_changed();
    let database = engine.database().clone();
    let Work { txn, own, sequence, .. } = work;
    let txn = txn.as_mut();
    let ids = &mut Ids { database: &*database, own };
    Ok(match statement {
        Statement::CreateTable(create) => {
            clauses::create_table(create)?;
            create_table(txn, ids, create).await?;
            "CREATE TABLE".into()
        }
        Statement::CreateIndex(create) => {
            create_index(engine, txn, ids, clean, create).await?;
            "CREATE INDEX".into()
        }
        Statement::AlterTable(alter) => {
            clauses::alter_table(alter)?;
            alter_table(engine, txn, ids, clean, alter, sequence).await?;
            "ALTER TABLE".into()
        }
        Statement::Truncate(truncate) => {
            clauses::truncate(truncate)?;
            for target in &truncate.table_names {
                let old = open(engine, txn, clean, &target.name).await?;
                let mut table = (*old).clone();
                renew(txn, ids, &mut table).await?;
                change(txn, ids, &old, table)?;
            }
            "TRUNCATE TABLE".into()
        }
        Statement::Drop { object_type: ObjectType::Table, if_exists, names, .. } => {
            for name in names {
                let folded = names::relation(name)?;
                match catalog::table_by_name(txn, &engine.cache, &folded, clean, Lock::Exclusive)
                    .await?
                {
                    Some(table) => drop_table(txn, ids, &table)?,
                    None if *if_exists => {}
                    None => {
                        return Err(SqlError::new(
                            state::UNDEFINED_TABLE,
                            format!("table \"{folded}\" does not exist"),
                        ));
                    }
                }
            }
            "DROP TABLE".into()
        }
        Statement::Drop { object_type: ObjectType::Index, if_exists, names, .. } => {
            for name in names {
                drop_index(engine, txn, ids, clean, &names::relation(name)?, *if_exists).await?;
            }
            "DROP INDEX".into()
        }
        other => {
            let words = other.to_string();
            let words: Vec<_> = words.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(words.join(" ").to_uppercase()));
        }
    })
}

/// Loads a table that is about to change, and locks its version until this transaction ends.
async fn open(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    name: &ast::ObjectName,
) -> Result<Arc<Table>, SqlError> {
    let folded = names::relation(name)?;
    match catalog::table_by_name(txn, &engine.cache, &folded, clean, Lock::Exclusive).await? {
        Some(table) => Ok(table),
        None => crate::compile::table(engine, txn, clean, name).await,
    }
}

/// Writes a changed descriptor under a new version, and outdates the plans for the old version.
fn change(
    txn: &mut dyn Transaction,
    ids: &Ids<'_>,
    old: &Table,
    mut table: Table,
) -> Result<(), SqlError> {
    table.version += 1;
    table.settle();
    old.outdate(txn, table.version, ids.own)?;
    catalog::put_table(txn, &table)
}

fn drop_table(txn: &mut dyn Transaction, ids: &Ids<'_>, table: &Table) -> Result<(), SqlError> {
    table.outdate(txn, SchemaVersion::GONE, ids.own)?;
    for index in table.primary.iter().chain(&table.indexes) {
        txn.put(kv::name_key(&index.name), None)?;
    }
    for index in &table.indexes {
        catalog::drop_storage(txn, index.id)?;
    }
    catalog::drop_storage(txn, table.storage)?;
    txn.put(kv::name_key(&table.name), None)?;
    txn.put(kv::descriptor_key(table.id), None)?;
    txn.put(kv::version_key(table.id), None)?;
    statistics::forget(txn, table.id)
}

/// Allocates new, empty storage for the rows and all indexes.
async fn renew(
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    table: &mut Table,
) -> Result<(), SqlError> {
    catalog::drop_storage(txn, table.storage)?;
    statistics::forget(txn, table.id)?;
    table.storage = ids.next(txn).await?;
    for index in &mut table.indexes {
        catalog::drop_storage(txn, index.id)?;
        index.id = ids.next(txn).await?;
        catalog::put_name(txn, &index.name, index.id, table.id)?;
    }
    Ok(())
}

async fn drop_index(
    engine: &Engine,
    txn: &mut dyn Transaction,
    ids: &Ids<'_>,
    clean: bool,
    name: &str,
    if_exists: bool,
) -> Result<(), SqlError> {
    let missing =
        || SqlError::new(state::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"));
    let relation = catalog::relation(txn, name).await?;
    let Some(relation) = relation.filter(|relation| relation.id != relation.table) else {
        return if if_exists { Ok(()) } else { Err(missing()) };
    };
    let table =
        catalog::table_by_id(txn, &engine.cache, relation.table, clean, Lock::Exclusive).await?;
    let old = table.ok_or_else(missing)?;
    let mut table = (*old).clone();
    let Some(at) = table.indexes.iter().position(|index| index.name == name) else {
        return Err(SqlError::new(
            "2BP01",
            format!(
                "cannot drop index {name} because constraint {name} on table {} requires it",
                table.name
            ),
        ));
    };
    remove_index(txn, &mut table, at)?;
    change(txn, ids, &old, table)
}

fn duplicate(name: &str) -> SqlError {
    SqlError::new(state::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

fn column_def(def: &ast::ColumnDef) -> Result<ColumnDef, SqlError> {
    let ty = names::data_type(&def.data_type)?;
    if matches!(ty, Type::Object(_) | Type::Int2Vector) {
        return Err(SqlError::unsupported(format!("a column of type {ty}")));
    }
    let mut column = ColumnDef { name: names::fold(&def.name), ty, not_null: false, default: None };
    for option in &def.options {
        match &option.option {
            ColumnOption::NotNull | ColumnOption::PrimaryKey(_) => column.not_null = true,
            ColumnOption::Default(expr) => column.default = Some(expr.to_string()),
            ColumnOption::Null | ColumnOption::Unique(_) | ColumnOption::Collation(_) => {}
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    Ok(column)
}

/// Returns the columns of a key, by number.
fn parts(table: &Table, columns: &[ast::IndexColumn]) -> Result<Vec<IndexPart>, SqlError> {
    let index = index_of(table, columns)?;
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
fn index_of(table: &Table, columns: &[ast::IndexColumn]) -> Result<Index, SqlError> {
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
                index.expressions.push(unqualified(expr));
                IndexPart::EXPRESSIONS + index.expressions.len() as u32 - 1
            }
        };
        let descending = column.column.options.asc == Some(false);
        index.columns.push(IndexPart { column: number, descending });
    }
    Ok(index)
}

/// Returns an unused name: `table_column_key`, or with a number appended.
async fn free_name(txn: &mut dyn Transaction, wanted: String) -> Result<String, SqlError> {
    let mut name = wanted.clone();
    let mut number = 1;
    while catalog::relation(txn, &name).await?.is_some() {
        name = format!("{wanted}{number}");
        number += 1;
    }
    Ok(name)
}

/// Returns the name for an index: an expression counts as its function, or as `expr`.
fn index_name(table: &Table, index: &Index, suffix: &str) -> String {
    let name = |part: &IndexPart| match part.column() {
        Some(column) => table.columns[column].name.clone(),
        None => index.call_of(table, *part).unwrap_or("expr").to_lowercase(),
    };
    let columns: Vec<String> = index.columns.iter().map(name).collect();
    format!("{}_{}_{suffix}", table.name, columns.join("_"))
}

async fn create_table(
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    create: &ast::CreateTable,
) -> Result<(), SqlError> {
    let name = names::relation(&create.name)?;
    if name.contains('.') {
        let schema = name.split('.').next().unwrap_or("");
        return Err(SqlError::new(state::NO_SCHEMA, format!("schema \"{schema}\" does not exist")));
    }
    if catalog::relation(txn, &name).await?.is_some() {
        return if create.if_not_exists { Ok(()) } else { Err(duplicate(&name)) };
    }
    let columns = create.columns.iter().map(column_def).collect::<Result<Vec<_>, _>>()?;
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
    }
    let id = ids.next(txn).await?;
    let mut table = Table::new(id, &name, columns);
    Binder::new(&[]).defaults(&table)?;
    catalog::put_name(txn, &name, id, id)?;
    for (at, def) in create.columns.iter().enumerate() {
        let part = || vec![IndexPart { column: at as u32, descending: false }];
        for option in &def.options {
            let named = option.name.as_ref().map(names::fold);
            match &option.option {
                ColumnOption::PrimaryKey(_) => {
                    set_primary(txn, ids, &mut table, part(), named).await?
                }
                ColumnOption::Unique(_) => {
                    add_unique(txn, ids, &mut table, part(), named).await?;
                }
                _ => {}
            }
        }
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let parts = parts(&table, &key.columns)?;
                set_primary(txn, ids, &mut table, parts, key.name.as_ref().map(names::fold))
                    .await?;
            }
            TableConstraint::Unique(key) => {
                let parts = parts(&table, &key.columns)?;
                let name = key.name.as_ref().map(names::fold);
                add_unique(txn, ids, &mut table, parts, name).await?;
            }
            other => return Err(SqlError::unsupported(format!("the constraint {other}"))),
        }
    }
    table.settle();
    catalog::put_table(txn, &table)
}

/// Declares the primary key; the caller handles the rows.
async fn set_primary(
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    table: &mut Table,
    parts: Vec<IndexPart>,
    name: Option<String>,
) -> Result<(), SqlError> {
    if table.primary.is_some() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
        return Err(SqlError::new(state::INVALID_TABLE, message));
    }
    for part in &parts {
        table.columns[part.column as usize].not_null = true;
    }
    let name = match name {
        Some(name) if catalog::relation(txn, &name).await?.is_some() => {
            return Err(duplicate(&name));
        }
        Some(name) => name,
        None => free_name(txn, format!("{}_pkey", table.name)).await?,
    };
    let id = ids.next(txn).await?;
    catalog::put_name(txn, &name, id, table.id)?;
    table.primary = Some(Index::new(id, name, parts, true));
    table.settle();
    Ok(())
}

/// Declares the index of a UNIQUE constraint; the caller writes its entries.
async fn add_unique(
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    table: &mut Table,
    parts: Vec<IndexPart>,
    name: Option<String>,
) -> Result<(), SqlError> {
    let index = Index::new(0, String::new(), parts, true);
    add_index(txn, ids, table, index, name, "key").await
}

/// Declares an index; the caller writes its entries. A name that is not given ends with `suffix`.
async fn add_index(
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    table: &mut Table,
    mut index: Index,
    name: Option<String>,
    suffix: &str,
) -> Result<(), SqlError> {
    let name = match name {
        Some(name) if catalog::relation(txn, &name).await?.is_some() => {
            return Err(duplicate(&name));
        }
        Some(name) => name,
        None => free_name(txn, index_name(table, &index, suffix)).await?,
    };
    let id = ids.next(txn).await?;
    catalog::put_name(txn, &name, id, table.id)?;
    (index.id, index.name) = (id, name);
    table.indexes.push(index);
    table.bind_indexes()
}

/// Writes the entries of the last index for the existing rows.
async fn fill(txn: &mut dyn Transaction, engine: &Engine, table: &Table) -> Result<(), SqlError> {
    let Some(index) = table.indexes.last() else { return Ok(()) };
    let mut bulk = Bulk::new(engine.database().clone());
    let mut cursor = all_rows(txn, table);
    let wanted = vec![true; table.columns.len()];
    loop {
        let found = cursor.next(txn, table, &wanted, Lock::Shared, 4000).await?;
        if found.is_empty() {
            return bulk.finish(txn).await;
        }
        for found in found {
            let suffix = &found.key[kv::PREFIX..];
            let Some(entry) = index.entry(&found.row, suffix)? else { continue };
            let Entry { key, unique, value } = entry;
            let entry = kv::to_key(key);
            let (chunk, _) = bulk.chunk().await?;
            if unique && chunk.get(&entry, Lock::Exclusive).await?.is_some() {
                return Err(not_unique(table, index, &found.row));
            }
            chunk.put(entry, Some(kv::to_value(value)))?;
            bulk.wrote(&found.row).await?;
        }
    }
}

/// Fails with 23502 if a row has NULL in a column that becomes NOT NULL.
async fn refuse_nulls(
    txn: &mut dyn Transaction,
    table: &Table,
    column: usize,
) -> Result<(), SqlError> {
    let mut cursor = all_rows(txn, table);
    let mut wanted = vec![false; table.columns.len()];
    wanted[column] = true;
    loop {
        let found = cursor.next(txn, table, &wanted, Lock::Shared, 4000).await?;
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

pub(crate) fn not_unique(table: &Table, index: &Index, row: &[crate::datum::Datum]) -> SqlError {
    let mut error = write::duplicate_of(table, index, row);
    error.message = format!("could not create unique index \"{}\"", index.name);
    error.detail = error.detail.map(|detail| detail.replace("already exists", "is duplicated"));
    error
}

/// Reads all rows of a table, which stay as they are until the transaction has committed.
fn all_rows(txn: &mut dyn Transaction, table: &Table) -> Cursor {
    let rows = kv::prefix_range(&kv::storage_prefix(table.storage));
    txn.keep_range(rows.clone());
    Cursor::new(None, vec![Target::Range(rows)], false)
}

/// An index that is being built.
#[derive(Clone, Debug)]
pub(crate) struct Building {
    pub(crate) table: u32,
    /// The version of the table when it was last read.
    pub(crate) version: u64,
    /// The name; `number` identifies this build of the index.
    pub(crate) name: String,
    pub(crate) number: u32,
}

impl Building {
    /// Returns the position of the index in a table.
    pub(crate) fn find(&self, table: &Table) -> Option<usize> {
        table.indexes.iter().position(|index| index.building == Some(self.number))
    }
}

/// Runs one step of building an index on a table in use (see [`crate::backfill`]). Returns `None`
/// without a change if the index to declare exists, with IF NOT EXISTS; if the index was dropped;
/// or if the table to publish it in has changed since the index was filled.
pub(crate) async fn step(
    engine: &Engine,
    work: &mut Work,
    step: &Step<'_>,
) -> Result<Option<Building>, SqlError> {
    work.catalog_changed();
    let database = engine.database().clone();
    let Work { txn, own, .. } = work;
    let txn = txn.as_mut();
    let ids = &mut Ids { database: &*database, own };
    let building = match step {
        Step::Declare(create) => {
            let Some((old, mut table)) = declare_index(engine, txn, ids, true, create).await?
            else {
                return Ok(None);
            };
            let Some(index) = table.indexes.last_mut() else { return Ok(None) };
            let (name, number) = (index.name.clone(), index.id);
            index.building = Some(number);
            let building = Building { table: table.id, version: table.version + 1, name, number };
            change(txn, ids, &old, table)?;
            return Ok(Some(building));
        }
        Step::Publish(building) | Step::Withdraw(building) => building,
    };
    let old =
        catalog::table_by_id(txn, &engine.cache, building.table, false, Lock::Exclusive).await?;
    let Some(old) = old else { return Ok(None) };
    let mut table = (*old).clone();
    let Some(at) = building.find(&table) else { return Ok(None) };
    match step {
        Step::Publish(_) if table.version != building.version => return Ok(None),
        Step::Withdraw(_) => remove_index(txn, &mut table, at)?,
        _ => table.indexes[at].building = None,
    }
    change(txn, ids, &old, table)?;
    Ok(Some((*building).clone()))
}

fn remove_index(txn: &mut dyn Transaction, table: &mut Table, at: usize) -> Result<(), SqlError> {
    let index = table.indexes.remove(at);
    catalog::drop_storage(txn, index.id)?;
    Ok(txn.put(kv::name_key(&index.name), None)?)
}

/// Returns the table before and after the declaration of an index; `None` if the index exists, with
/// IF NOT EXISTS.
async fn declare_index(
    engine: &Engine,
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    clean: bool,
    create: &ast::CreateIndex,
) -> Result<Option<(Arc<Table>, Table)>, SqlError> {
    clauses::create_index(create)?;
    let old = open(engine, txn, clean, &create.table_name).await?;
    let mut table = (*old).clone();
    let mut index = index_of(&table, &create.columns)?;
    index.unique = create.unique;
    let included = match create.include.as_slice() {
        [] => Vec::new(),
        named => bind::target_columns(&table, named)?,
    };
    index.included = included.into_iter().map(|column| column as u32).collect();
    index.predicate = create.predicate.as_ref().map(unqualified);
    let name = create.name.as_ref().map(names::relation).transpose()?;
    if let Some(name) = &name
        && catalog::relation(txn, name).await?.is_some()
    {
        return if create.if_not_exists { Ok(None) } else { Err(duplicate(name)) };
    }
    add_index(txn, ids, &mut table, index, name, "idx").await?;
    Ok(Some((old, table)))
}

async fn create_index(
    engine: &Engine,
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    clean: bool,
    create: &ast::CreateIndex,
) -> Result<(), SqlError> {
    let Some((old, table)) = declare_index(engine, txn, ids, clean, create).await? else {
        return Ok(());
    };
    fill(txn, engine, &table).await?;
    change(txn, ids, &old, table)
}

async fn alter_table(
    engine: &Engine,
    txn: &mut dyn Transaction,
    ids: &mut Ids<'_>,
    clean: bool,
    alter: &ast::AlterTable,
    sequence: &mut u64,
) -> Result<(), SqlError> {
    let before = open(engine, txn, clean, &alter.name).await?;
    let mut table = (*before).clone();
    for operation in &alter.operations {
        match operation {
            AlterTableOperation::AddConstraint { not_valid: true, constraint: _ } => {
                return Err(SqlError::unsupported("NOT VALID"));
            }
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::PrimaryKey(key),
                ..
            } => {
                let old = table.clone();
                let parts = parts(&table, &key.columns)?;
                set_primary(txn, ids, &mut table, parts, key.name.as_ref().map(names::fold))
                    .await?;
                renew(txn, ids, &mut table).await?;
                move_rows(txn, engine, &old, &table, sequence).await?;
            }
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::Unique(key), ..
            } => {
                let parts = parts(&table, &key.columns)?;
                let name = key.name.as_ref().map(names::fold);
                add_unique(txn, ids, &mut table, parts, name).await?;
                fill(txn, engine, &table).await?;
            }
            AlterTableOperation::AddColumn { column_position: Some(_), .. } => {
                return Err(SqlError::unsupported("ADD COLUMN FIRST or AFTER"));
            }
            AlterTableOperation::AddColumn {
                column_keyword: _,
                if_not_exists,
                column_def: def,
                column_position: None,
            } => {
                let column = column_def(def)?;
                if table.column(&column.name).is_some() {
                    if *if_not_exists {
                        continue;
                    }
                    let message = format!(
                        "column \"{}\" of relation \"{}\" already exists",
                        column.name, table.name
                    );
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                clauses::check_columns(table.columns.len() + 1)?;
                if column.not_null || column.default.is_some() {
                    // Existing rows lack the column and would read it as NULL, so they are
                    // rewritten.
                    let old = table.clone();
                    table.columns.push(column);
                    table.settle();
                    renew(txn, ids, &mut table).await?;
                    move_rows(txn, engine, &old, &table, sequence).await?;
                } else {
                    table.columns.push(column);
                }
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let column = bind::target_columns(&table, std::slice::from_ref(column_name))?[0];
                match op {
                    AlterColumnOperation::SetDefault { value } => {
                        table.columns[column].default = Some(value.to_string())
                    }
                    AlterColumnOperation::DropDefault => table.columns[column].default = None,
                    AlterColumnOperation::DropNotNull => table.columns[column].not_null = false,
                    AlterColumnOperation::SetNotNull => {
                        refuse_nulls(txn, &table, column).await?;
                        table.columns[column].not_null = true;
                    }
                    other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
                }
                Binder::new(&[]).defaults(&table)?;
            }
            AlterTableOperation::RenameTable { table_name } => {
                let name = match table_name {
                    ast::RenameTableNameKind::As(name) | ast::RenameTableNameKind::To(name) => {
                        names::relation(name)?
                    }
                };
                if catalog::relation(txn, &name).await?.is_some() {
                    return Err(duplicate(&name));
                }
                txn.put(kv::name_key(&table.name), None)?;
                catalog::put_name(txn, &name, table.id, table.id)?;
                table.name = name;
                table.bind_indexes()?;
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let column =
                    bind::target_columns(&table, std::slice::from_ref(old_column_name))?[0];
                let name = names::fold(new_column_name);
                if table.column(&name).is_some() {
                    let message =
                        format!("column \"{name}\" of relation \"{}\" already exists", table.name);
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                for index in &mut table.indexes {
                    let texts = index.expressions.iter_mut().chain(&mut index.predicate);
                    for text in texts {
                        *text = renamed(text, &table.columns[column].name, new_column_name)?;
                    }
                }
                table.columns[column].name = name;
                table.bind_indexes()?;
            }
            other => return Err(SqlError::unsupported(format!("ALTER TABLE {other}"))),
        }
        table.settle();
    }
    change(txn, ids, &before, table)
}

/// Returns the text of an expression whose columns are named without their table, which may get
/// another name.
fn unqualified(expr: &ast::Expr) -> String {
    let mut expr = expr.clone();
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        if let ast::Expr::CompoundIdentifier(path) = part
            && let Some(last) = path.pop()
        {
            *part = ast::Expr::Identifier(last);
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

/// Returns the text of an expression in which a column has another name.
fn renamed(text: &str, old: &str, new: &ast::Ident) -> Result<String, SqlError> {
    let mut expr = parse::expression(text)?;
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        if let ast::Expr::Identifier(ident) = part
            && names::fold(ident) == old
        {
            *ident = new.clone();
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    Ok(expr.to_string())
}

/// Copies every row of the old descriptor's storage into the new one's. New columns get their
/// default.
async fn move_rows(
    txn: &mut dyn Transaction,
    engine: &Engine,
    old: &Table,
    new: &Table,
    sequence: &mut u64,
) -> Result<(), SqlError> {
    let mut bulk = Bulk::new(engine.database().clone());
    let facts = crate::expr::Facts::default();
    let now_us = crate::datetime::from_unix_ns(txn.began().earliest);
    let scope = crate::expr::Scope { params: &[], now_us, session: &facts, catalog: None };
    let defaults = Binder::new(&[]).defaults(new)?;
    let mut cursor = all_rows(txn, old);
    let wanted = vec![true; old.columns.len()];
    loop {
        let found = cursor.next(txn, old, &wanted, Lock::Shared, 4000).await?;
        if found.is_empty() {
            return bulk.finish(txn).await;
        }
        for found in found {
            let mut row = found.row;
            for default in &defaults[row.len()..] {
                row.push(default.eval(&[], &scope)?);
            }
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
            let clash = write::insert_above(chunk, new, &row, sequence, Some(highest)).await?;
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
