//! CREATE, DROP, ALTER, TRUNCATE: changes of descriptors in the transaction of the statement.
//!
//! Dropping and truncating take constant time: the descriptor is deleted, or points to new storage,
//! and the old storage is noted; VACUUM erases it. New storage is filled before it is published
//! (see [`crate::bulk`]), so that no table is too large for it.

mod alter;
mod attributes;
mod building;
mod columns;
mod comments;
mod constraints;
mod create;
mod domains;
mod extensions;
mod foreign_keys;
mod functions;
mod generated;
mod index;
mod labels;
mod like;
mod materialized;
mod owner;
mod rows;
mod schemas;
mod sequences;
mod stored;
mod types;
mod users;
mod views;

pub(crate) use building::{Building, step};
pub(crate) use index::not_unique;

use crate::alter_any::{AlterAny, Change};
use crate::bulk::Ids;
use crate::catalog::{self, Object, Relation, Resolver, SearchPath, Table, UserType};
use crate::clauses;
use crate::compile;
use crate::constraint::Deferred;
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::extension;
use crate::kv;
use crate::materialized::MaterializedStatement;
use crate::names::{self, NamedTypes, Qualified};
use crate::notice;
use crate::parse::Parsed;
use crate::sequence::Changed;
use crate::statistics;
use crate::temporary;
use crate::type_names;
use crate::work::Work;
use alter::alter_table;
use create::create_table;
use index::{create_index, drop_index};
use meridian_mvcc::KeyRange;
use meridian_txn::{Database, Lock, SchemaVersion, Transaction};
use sqlparser::ast::{self, ObjectType, Statement};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A change of the catalog in a session's transaction.
pub(crate) struct Ddl<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) txn: &'a mut dyn Transaction,
    pub(crate) ids: Ids<'a>,
    /// True if the transaction has not changed the catalog before.
    pub(crate) clean: bool,
    /// The number of the transaction's next row without a primary key.
    pub(crate) row_number: &'a mut u64,
    /// The sequences that the transaction has created or changed.
    pub(crate) sequences: &'a mut Changed,
    /// The obligations that the transaction has deferred.
    deferred: &'a mut Deferred,
    /// The enum types that the statement names.
    types: NamedTypes,
    /// The columns of ALTER TABLE … TYPE … COLLATE, and their collations.
    collations: &'a [(ast::Ident, ast::ObjectName)],
    names: Resolver<'a>,
    /// The notices that the client gets if the statement succeeds.
    notices: &'a mut Vec<SqlError>,
    /// The objects that CASCADE has dropped.
    cascaded: Vec<String>,
    pub(crate) facts: &'a Facts,
}

impl<'a> Ddl<'a> {
    /// Whatever happens in it, the transaction's reads of the catalog may be uncommitted from now
    /// on.
    fn of(
        engine: &'a Engine,
        database: &'a dyn Database,
        work: &'a mut Work,
        facts: &'a Facts,
        path: &'a SearchPath,
    ) -> Ddl<'a> {
        let clean = work.clean;
        work.catalog_changed();
        let Work { txn, own, row_number, sequences, deferred, notices, .. } = work;
        let (txn, ids) = (txn.as_mut(), Ids { database, own });
        let (types, cascaded, names) = (Vec::new(), Vec::new(), Resolver::new(path));
        let collations = &[];
        Ddl {
            engine,
            txn,
            ids,
            clean,
            row_number,
            sequences,
            deferred,
            types,
            collations,
            names,
            notices,
            cascaded,
            facts,
        }
    }

    /// Accepts that IF EXISTS has found no object, and says so.
    fn skip(&mut self, kind: &str, name: &str) {
        self.notices.push(notice::does_not_exist(kind, name));
    }

    /// Does so for a part of a table.
    fn skip_of(&mut self, kind: &str, name: &str, table: &Table) {
        let message =
            format!("{kind} \"{name}\" of relation \"{}\" does not exist, skipping", table.name);
        self.notices.push(SqlError::new(state::SUCCESSFUL, message));
    }

    /// Accepts that IF NOT EXISTS has found a relation, and says so.
    fn skip_existing(&mut self, name: &str) {
        self.notices.push(notice::already_exists(name));
    }

    /// Fails with 55006 if a check of a table's rows is deferred: it would find other columns, or
    /// other storage.
    fn refuse_deferred(&self, command: &str, table: &Table) -> Result<(), SqlError> {
        if !self.deferred.concerns(table.id) {
            return Ok(());
        }
        let name = &table.name;
        let message = format!("cannot {command} \"{name}\" because it has pending trigger events");
        Err(SqlError::new(state::OBJECT_IN_USE, message)
            .detail("A foreign key of it is deferred, and has to be checked.")
            .hint("Run SET CONSTRAINTS ALL IMMEDIATE before."))
    }

    /// Looks up the types that the statement names.
    async fn know_types(&mut self, names: BTreeSet<Qualified>) -> Result<(), SqlError> {
        let cache = &self.engine.cache;
        let of_extensions = names.iter().filter_map(|name| extension::of_type_name(&name.name));
        for extension in of_extensions {
            let (name, lock) = (extension.name, Lock::Shared);
            let found = catalog::extension(self.txn, cache, name, self.clean, lock).await?;
            if let Some(installed) = found {
                users::keep(self, installed.id);
            }
        }
        self.types = self.names.user_types(self.txn, cache, names, self.clean).await?;
        Ok(())
    }

    /// Returns the relation of a name, if there is one.
    async fn relation(&mut self, name: &Qualified) -> Result<Option<Relation>, SqlError> {
        self.names.relation(self.txn, name).await
    }

    /// Fails with 42P07 if a schema has a relation of a name.
    async fn check_free(&mut self, schema: u32, name: &str) -> Result<(), SqlError> {
        match catalog::relation_in(self.txn, schema, name).await? {
            Some(_) => Err(duplicate(name)),
            None => Ok(()),
        }
    }

    /// Finds the object of a name, and locks its version until the transaction ends.
    async fn object(&mut self, name: &Qualified) -> Result<Option<Object>, SqlError> {
        let cache = &self.engine.cache;
        self.names.object(self.txn, cache, name, self.clean, Lock::Exclusive).await
    }

    /// Finds the table of a name, and locks its version until the transaction ends.
    async fn table(&mut self, name: &Qualified) -> Result<Option<Arc<Table>>, SqlError> {
        match self.object(name).await? {
            Some(Object::Table(table)) if table.query.is_some() => {
                let hint = "Use DROP MATERIALIZED VIEW to remove a materialized view.";
                Err(catalog::not_a("table", &name.name).hint(hint))
            }
            Some(Object::Table(table)) => Ok(Some(table)),
            Some(_) => Err(catalog::not_a("table", &name.name)),
            None => Ok(None),
        }
    }

    /// Returns the schema in which a new object of a name is created. Fails with 0A000 if it is
    /// that of temporary objects.
    async fn place(&mut self, name: &Qualified) -> Result<u32, SqlError> {
        let schema = self.names.place(self.txn, name).await?;
        let is_in_it = name.schema.as_deref() == Some(temporary::ALIAS);
        match is_in_it || temporary::is_temporary(schema) {
            true => Err(SqlError::unsupported("an object of this kind in the schema pg_temp")),
            false => Ok(schema),
        }
    }

    /// Returns the schema in which a new relation of a name is created, perhaps a temporary one.
    async fn place_relation(
        &mut self,
        name: &Qualified,
        is_temporary: bool,
    ) -> Result<u32, SqlError> {
        let schema = self.names.place_relation(self.txn, name, is_temporary).await?;
        if temporary::is_temporary(schema) {
            temporary::ensure_schema(self.txn, self.facts)?;
        }
        Ok(schema)
    }

    /// Returns the next id, for a table, an index or a sequence.
    async fn next_id(&mut self) -> Result<u32, SqlError> {
        self.ids.next(self.txn).await
    }

    /// Returns the next id, for a part of a schema.
    async fn next_id_in(&mut self, schema: u32) -> Result<u32, SqlError> {
        match temporary::is_temporary(schema) {
            true => self.facts.temporary.next_id(),
            false => self.next_id().await,
        }
    }
}

pub(crate) async fn run(
    engine: &Engine,
    work: &mut Work,
    facts: &Facts,
    source: &Parsed,
) -> Result<String, SqlError> {
    let (clean, before) = (work.clean, facts.temporary.shared_writes());
    let done = run_in(engine, work, facts, source).await;
    if facts.temporary.shared_writes() == before {
        // Temporary objects alone have changed, which no other session sees.
        work.clean = clean;
    }
    done
}

/// Drops temporary tables at the end of their transaction, and what depends on them.
pub(crate) async fn drop_at_commit(
    engine: &Engine,
    work: &mut Work,
    facts: &Facts,
    tables: &[u32],
) -> Result<(), SqlError> {
    let (clean, database) = (work.clean, engine.database().clone());
    let path = facts.search_path();
    let cx = &mut Ddl::of(engine, &*database, work, facts, &path);
    for id in tables {
        // One before it may have changed it.
        let found = catalog::table_by_id(cx.txn, &engine.cache, *id, false, Lock::Exclusive);
        if let Some(table) = found.await? {
            drop_table(cx, &table, tables, true).await?;
        }
    }
    work.clean = clean;
    Ok(())
}

async fn run_in(
    engine: &Engine,
    work: &mut Work,
    facts: &Facts,
    source: &Parsed,
) -> Result<String, SqlError> {
    let database = engine.database().clone();
    let path = facts.search_path();
    let cx = &mut Ddl::of(engine, &*database, work, facts, &path);
    cx.collations = &source.collations;
    if source.is_global_temporary {
        let message = "GLOBAL is deprecated in temporary table creation";
        cx.notices.push(SqlError::new("01000", message));
    }
    if let Some(statement) = &source.function {
        let done = Box::pin(functions::run(cx, statement)).await;
        cx.notices.extend(notice::cascades(&cx.cascaded));
        return done;
    }
    if let Some(statement) = &source.extension {
        let done = Box::pin(extensions::run(cx, statement)).await;
        cx.notices.extend(notice::cascades(&cx.cascaded));
        return done;
    }
    if let Some(AlterAny { kind, if_exists, name, change }) = &source.alter_any {
        match change {
            Change::Owner(role) => owner::run(cx, *kind, *if_exists, name, role).await?,
            Change::Schema(schema) => {
                schemas::relocate(cx, *kind, *if_exists, name, &names::fold(schema)).await?;
            }
        }
        return Ok(format!("ALTER {}", kind.word().to_uppercase()));
    }
    if let Some(MaterializedStatement::Renew(refresh)) = &source.materialized {
        materialized::renew(cx, refresh).await?;
        return Ok("REFRESH MATERIALIZED VIEW".into());
    }
    if let Some(statement) = &source.sequence {
        let done = sequences::run(cx, statement).await;
        cx.notices.extend(notice::cascades(&cx.cascaded));
        return done;
    }
    let names = type_names::in_statement(&source.statement);
    cx.know_types(names).await?;
    Box::pin(functions::refuse_stored(cx, &source.statement)).await?;
    let referring = Box::pin(extensions::refer(cx, source)).await?;
    let source = referring.as_ref().unwrap_or(source);
    let done = match source.is_domain {
        true => domains::run(cx, source).await,
        false => run_statement(cx, source).await,
    };
    cx.notices.extend(notice::cascades(&cx.cascaded));
    done.map_err(|error| stored::foreign_type(error, cx.types.iter().map(|(_, ty)| *ty)))
}

async fn run_statement(cx: &mut Ddl<'_>, source: &Parsed) -> Result<String, SqlError> {
    Ok(match &source.statement {
        Statement::CreateTable(create) => {
            clauses::create_table(create)?;
            let query = materialized::query_of(cx, source, create).await?;
            create_table(cx, create, &source.likes, query).await?;
            "CREATE TABLE".into()
        }
        Statement::CreateView(create) => {
            let text = source.view_text.as_deref();
            let text = text.ok_or_else(|| SqlError::unsupported("this form of CREATE VIEW"))?;
            views::create(cx, create, text).await?;
            "CREATE VIEW".into()
        }
        Statement::Drop {
            object_type: ObjectType::MaterializedView,
            if_exists,
            names,
            cascade,
            ..
        } => {
            materialized::drop(cx, names, *if_exists, *cascade).await?;
            "DROP MATERIALIZED VIEW".into()
        }
        Statement::Drop { object_type: ObjectType::View, if_exists, names, cascade, .. } => {
            views::drop(cx, names, *if_exists, *cascade).await?;
            "DROP VIEW".into()
        }
        Statement::Comment { object_type, object_name, comment, if_exists } => {
            clauses::refuse(&[(*if_exists, "COMMENT IF EXISTS")])?;
            let (constraint, text) = (source.commented.as_ref(), comment.as_deref());
            comments::comment(cx, *object_type, object_name, constraint, text).await?;
            "COMMENT".into()
        }
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            clauses::create_schema(&source.statement)?;
            schemas::create(cx, schema_name, *if_not_exists).await?;
            "CREATE SCHEMA".into()
        }
        Statement::AlterSchema(alter) => {
            schemas::alter(cx, alter).await?;
            "ALTER SCHEMA".into()
        }
        Statement::Drop { object_type: ObjectType::Schema, if_exists, names, cascade, .. } => {
            schemas::drop(cx, names, *if_exists, *cascade).await?;
            "DROP SCHEMA".into()
        }
        Statement::CreateType { name, representation } => {
            types::create(cx, name, representation.as_ref()).await?;
            "CREATE TYPE".into()
        }
        Statement::Discard { object_type: ast::DiscardObject::TEMP } => {
            cx.facts.temporary.clear()?;
            "DISCARD TEMP".into()
        }
        Statement::AlterType(ast::AlterType { name, operation }) => {
            types::alter(cx, name, operation).await?;
            "ALTER TYPE".into()
        }
        Statement::Drop { object_type: ObjectType::Type, if_exists, names, cascade, .. } => {
            types::drop(cx, names, *if_exists, *cascade).await?;
            "DROP TYPE".into()
        }
        Statement::CreateIndex(create) => {
            create_index(cx, create).await?;
            "CREATE INDEX".into()
        }
        Statement::AlterIndex {
            name,
            operation: ast::AlterIndexOperation::RenameIndex { index_name },
        } => {
            index::rename(cx, name, index_name).await?;
            "ALTER INDEX".into()
        }
        Statement::AlterTable(alter) if source.alters_type => {
            clauses::alter_table(alter)?;
            attributes::alter(cx, alter).await?;
            "ALTER TYPE".into()
        }
        Statement::AlterTable(alter) => {
            clauses::alter_table(alter)?;
            let is_materialized = source.materialized.is_some();
            let name = names::relation(&alter.name)?;
            if alter.if_exists && cx.relation(&name).await?.is_none() {
                cx.skip("relation", &name.name);
            } else if !views::renamed(cx, alter, source.renames_view).await? {
                alter_table(cx, alter, is_materialized).await?;
            }
            let kind = match source.renames_view {
                true => "VIEW",
                false if is_materialized => "MATERIALIZED VIEW",
                false => "TABLE",
            };
            format!("ALTER {kind}")
        }
        Statement::Truncate(truncate) => {
            clauses::truncate(truncate)?;
            let mut tables: Vec<Arc<Table>> = Vec::new();
            for target in &truncate.table_names {
                let table = open(cx, &target.name).await?;
                if tables.iter().all(|other| other.id != table.id) {
                    tables.push(table);
                }
            }
            let cascade = truncate.cascade == Some(ast::CascadeOption::Cascade);
            for old in foreign_keys::truncated_with(cx, tables, cascade).await? {
                cx.refuse_deferred("TRUNCATE", &old)?;
                let mut table = (*old).clone();
                renew(cx, &mut table).await?;
                change(cx, &old, table)?;
                if truncate.identity == Some(ast::TruncateIdentityOption::Restart) {
                    sequences::restart_owned(cx, &old).await?;
                }
            }
            "TRUNCATE TABLE".into()
        }
        Statement::Drop {
            object_type: ObjectType::Sequence, if_exists, names, cascade, ..
        } => {
            for name in names {
                sequences::drop(cx, &names::relation(name)?, *if_exists, *cascade).await?;
            }
            "DROP SEQUENCE".into()
        }
        Statement::Drop { object_type: ObjectType::Table, if_exists, names, cascade, .. } => {
            let mut dropped = Vec::new();
            for name in names {
                let folded = names::relation(name)?;
                match cx.table(&folded).await? {
                    Some(table) => dropped.push(table),
                    None if *if_exists => cx.skip("table", &folded.name),
                    None => {
                        return Err(SqlError::new(
                            state::UNDEFINED_TABLE,
                            format!("table \"{folded}\" does not exist"),
                        ));
                    }
                }
            }
            let ids: Vec<u32> = dropped.iter().map(|table| table.id).collect();
            for table in dropped {
                // A table before it may have changed it.
                let cache = &cx.engine.cache;
                let now = catalog::table_by_id(cx.txn, cache, table.id, false, Lock::Exclusive);
                if let Some(table) = now.await? {
                    drop_table(cx, &table, &ids, *cascade).await?;
                }
            }
            "DROP TABLE".into()
        }
        Statement::Drop { object_type: ObjectType::Index, if_exists, names, cascade, .. } => {
            for name in names {
                drop_index(cx, &names::relation(name)?, *if_exists, *cascade).await?;
            }
            "DROP INDEX".into()
        }
        Statement::Call(call) => {
            let names = &mut cx.names;
            let statement = &source.statement;
            let found = compile::call(cx.engine, cx.txn, names, statement, call);
            return Err(Box::pin(found).await?);
        }
        Statement::CreateTrigger(_) => return Err(SqlError::unsupported("CREATE TRIGGER")),
        other => {
            let words = other.to_string();
            let words: Vec<_> = words.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(words.join(" ").to_uppercase()));
        }
    })
}

/// Loads a table that is about to change, and locks its version until this transaction ends.
async fn open(cx: &mut Ddl<'_>, name: &ast::ObjectName) -> Result<Arc<Table>, SqlError> {
    let folded = names::relation(name)?;
    match cx.table(&folded).await? {
        Some(table) => Ok(table),
        None => {
            let names = &mut cx.names;
            let found = compile::table(cx.engine, cx.txn, names, cx.clean, name).await?;
            compile::changeable(found)
        }
    }
}

/// Writes a changed descriptor under a new version, and outdates the plans for the old version.
fn change(cx: &mut Ddl<'_>, old: &Table, mut table: Table) -> Result<(), SqlError> {
    refuse_temporary_sequences(&table)?;
    table.version += 1;
    table.settle();
    old.outdate(cx.txn, table.version, cx.ids.own)?;
    users::settle_types(cx, table.id, &old.user_types(), &table.user_types())?;
    cx.clean = false;
    cx.deferred.refresh(&Arc::new(table.clone()));
    catalog::put_table(cx.txn, table)
}

/// Fails with 0A000 if a permanent table takes values of a temporary sequence.
fn refuse_temporary_sequences(table: &Table) -> Result<(), SqlError> {
    let is_other = |id: u32| temporary::is_temporary(id) && !temporary::is_temporary(table.id);
    match table.sequences().into_iter().any(is_other) {
        true => Err(SqlError::unsupported("a permanent table that uses a temporary sequence")),
        false => Ok(()),
    }
}

async fn drop_table(
    cx: &mut Ddl<'_>,
    table: &Arc<Table>,
    others: &[u32],
    cascade: bool,
) -> Result<(), SqlError> {
    cx.refuse_deferred("DROP TABLE", table)?;
    let what = format!("{} {}", table.kind(), table.name);
    views::drop_readers(cx, table.id, &what, &[], cascade).await?;
    Box::pin(functions::drop_users(cx, table, cascade)).await?;
    foreign_keys::drop_references(cx, table, others, cascade).await?;
    sequences::drop_owned(cx, table, cascade).await?;
    erase(cx, table)
}

/// Removes a table that nothing depends on.
fn erase(cx: &mut Ddl<'_>, table: &Arc<Table>) -> Result<(), SqlError> {
    for read in table.query.iter().flat_map(|query| &query.reads) {
        users::remove(cx, *read, table.id)?;
    }
    table.outdate(cx.txn, SchemaVersion::GONE, cx.ids.own)?;
    users::settle_types(cx, table.id, &table.user_types(), &[])?;
    for index in table.primary.iter().chain(&table.indexes) {
        cx.txn.put(kv::name_key(table.schema, &index.name), None)?;
    }
    for index in &table.indexes {
        catalog::drop_storage(cx.txn, index.id)?;
    }
    catalog::drop_storage(cx.txn, table.storage)?;
    catalog::remove(cx.txn, &Object::Table(table.clone()))?;
    if temporary::is_temporary(table.id) {
        cx.txn.put(kv::on_commit_key(table.id), None)?;
    }
    statistics::forget(cx.txn, table.id)
}

/// Allocates new, empty storage for the rows and all indexes.
async fn renew(cx: &mut Ddl<'_>, table: &mut Table) -> Result<(), SqlError> {
    catalog::drop_storage(cx.txn, table.storage)?;
    statistics::forget(cx.txn, table.id)?;
    table.storage = cx.next_id_in(table.schema).await?;
    for index in &mut table.indexes {
        catalog::drop_storage(cx.txn, index.id)?;
        index.id = cx.next_id_in(table.schema).await?;
        catalog::put_name(cx.txn, table.schema, &index.name, index.id, table.id)?;
    }
    Ok(())
}

/// Returns an unused name: `first_second_label`, or with a number appended.
async fn free_name(
    cx: &mut Ddl<'_>,
    schema: u32,
    (first, second): (&str, &str),
    label: &str,
) -> Result<String, SqlError> {
    let mut name = names::made(first, second, label);
    let mut number = 1;
    while catalog::relation_in(cx.txn, schema, &name).await?.is_some() {
        name = names::made(first, second, &format!("{label}{number}"));
        number += 1;
    }
    Ok(name)
}

/// Fails with 42710 if a type has the name of a new table, view or sequence in its schema, whose
/// rows have a type of that name; with 42P07 if that is a composite type, which is a relation.
async fn check_row_type(cx: &mut Ddl<'_>, schema: u32, name: &str) -> Result<(), SqlError> {
    cx.txn.keep_range(KeyRange::point(kv::type_name_key(schema, name)));
    let Some(id) = catalog::type_in(cx.txn, schema, name, Lock::Exclusive).await? else {
        return Ok(());
    };
    let cache = &cx.engine.cache;
    match catalog::type_of_id(cx.txn, cache, id, cx.clean, Lock::Shared).await? {
        Some(UserType::Composite(_)) => Err(duplicate(name)),
        _ => {
            let message = format!("type \"{name}\" already exists");
            Err(SqlError::new(state::DUPLICATE_OBJECT, message).hint(
                "A relation has an associated type of the same name, so you must use a name that \
                 doesn't conflict with any existing type.",
            ))
        }
    }
}

fn duplicate(name: &str) -> SqlError {
    SqlError::new(state::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

/// Returns 2BP01: something cannot be dropped, because of these.
fn depended_on(what: &str, details: &[String]) -> SqlError {
    let message = format!("cannot drop {what} because other objects depend on it");
    SqlError::new(state::DEPENDENT_OBJECTS, message)
        .detail(details.join("\n"))
        .hint("Use DROP ... CASCADE to drop the dependent objects too.")
}
