//! CREATE, ALTER and DROP SCHEMA.

use super::{
    Ddl, change, check_row_type, comments, depended_on, domains, drop_table, extensions, functions,
    owner, sequences, types, views,
};
use crate::alter_any::{self, Kind};
use crate::catalog::{self, Object, Relation, Schema, UserType, is_system_schema};
use crate::clauses;
use crate::error::{SqlError, state};
use crate::kv;
use crate::names::{self, Qualified};
use crate::notice;
use crate::system;
use crate::temporary;
use meridian_txn::Lock;
use sqlparser::ast::{AlterSchema, AlterSchemaOperation, ObjectName, SchemaName};
use std::sync::Arc;

fn missing(name: &str) -> SqlError {
    SqlError::new(state::NO_SCHEMA, format!("schema \"{name}\" does not exist"))
}

/// Fails if no schema may have this name.
fn check_name(name: &str) -> Result<(), SqlError> {
    if name.starts_with("pg_") {
        let message = format!("unacceptable schema name \"{name}\"");
        return Err(SqlError::new(state::RESERVED_NAME, message)
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    Ok(())
}

/// Fails with 42P06 if there is a schema of a name.
async fn check_free(cx: &mut Ddl<'_>, name: &str) -> Result<(), SqlError> {
    let found = catalog::schema_id(cx.txn, name, Lock::Exclusive).await?;
    if found.is_none() && !is_system_schema(name) {
        return Ok(());
    }
    let message = format!("schema \"{name}\" already exists");
    Err(SqlError::new(state::DUPLICATE_SCHEMA, message))
}

/// Finds a schema that is there until the transaction ends.
pub(super) async fn open(cx: &mut Ddl<'_>, name: &str) -> Result<u32, SqlError> {
    match name {
        "pg_catalog" => Ok(system::PG_CATALOG),
        "information_schema" => Ok(system::INFORMATION_SCHEMA),
        name => {
            let id = catalog::schema_id(cx.txn, name, Lock::Exclusive).await?;
            id.ok_or_else(|| missing(name))
        }
    }
}

/// Returns the descriptor of a schema of the users, as it is now.
async fn descriptor(cx: &mut Ddl<'_>, id: u32, name: &str) -> Result<Schema, SqlError> {
    let cache = &cx.engine.cache;
    match catalog::object_by_id(cx.txn, cache, id, false, Lock::Exclusive).await? {
        Some(Object::Schema(schema)) => Ok((*schema).clone()),
        _ => Ok(Schema { id, name: name.to_owned(), version: 0, is_gone: false }),
    }
}

/// Creates a schema.
pub(super) async fn create(
    cx: &mut Ddl<'_>,
    name: &SchemaName,
    if_not_exists: bool,
) -> Result<(), SqlError> {
    let (name, owner) = match name {
        SchemaName::Simple(name) => (names::simple(name)?, None),
        SchemaName::UnnamedAuthorization(owner) => {
            (alter_any::role(owner).unwrap_or_else(|| cx.facts.user.clone()), Some(owner))
        }
        SchemaName::NamedAuthorization(name, owner) => (names::simple(name)?, Some(owner)),
    };
    if let Some(owner) = owner {
        owner::check(cx, owner)?;
    }
    check_name(&name)?;
    match check_free(cx, &name).await {
        Err(error) if if_not_exists && error.sqlstate == state::DUPLICATE_SCHEMA => {
            cx.notices.push(notice::skipping(error));
            return Ok(());
        }
        other => other?,
    }
    if name == "public" {
        let gone = descriptor(cx, system::PUBLIC, &name).await?;
        let back = Schema { version: gone.version + 1, is_gone: false, ..gone };
        catalog::put(cx.txn, &Object::Schema(Arc::new(back)))?;
        return catalog::put_schema_name(cx.txn, &name, Some(system::PUBLIC));
    }
    let id = cx.next_id().await?;
    catalog::put_schema_name(cx.txn, &name, Some(id))?;
    let schema = Schema { id, name, version: 1, is_gone: false };
    catalog::put(cx.txn, &Object::Schema(Arc::new(schema)))
}

/// Runs ALTER SCHEMA.
pub(super) async fn alter(cx: &mut Ddl<'_>, alter: &AlterSchema) -> Result<(), SqlError> {
    let AlterSchema { name, if_exists, operations } = alter;
    clauses::refuse(&[(*if_exists, "ALTER SCHEMA IF EXISTS")])?;
    let name = names::simple(name)?;
    for operation in operations {
        match operation {
            AlterSchemaOperation::Rename { name: new } => {
                rename(cx, &name, &names::simple(new)?).await?;
            }
            other => return Err(SqlError::unsupported(format!("ALTER SCHEMA {other}"))),
        }
    }
    Ok(())
}

/// Gives a schema another name. Its objects know it by its id.
async fn rename(cx: &mut Ddl<'_>, old: &str, new: &str) -> Result<(), SqlError> {
    let id = open(cx, old).await?;
    if id == system::PUBLIC || is_system_schema(old) {
        return Err(SqlError::unsupported(format!("renaming the schema \"{old}\"")));
    }
    // Its names have keys of their own.
    if new == "public" {
        return Err(SqlError::unsupported("giving a schema the name \"public\""));
    }
    check_name(new)?;
    check_free(cx, new).await?;
    let before = descriptor(cx, id, old).await?;
    catalog::put_schema_name(cx.txn, old, None)?;
    catalog::put_schema_name(cx.txn, new, Some(id))?;
    let after = Schema { name: new.to_owned(), version: before.version + 1, ..before };
    catalog::put(cx.txn, &Object::Schema(Arc::new(after)))
}

/// Runs ALTER … SET SCHEMA.
pub(super) async fn relocate(
    cx: &mut Ddl<'_>,
    kind: Kind,
    if_exists: bool,
    object: &ObjectName,
    schema: &str,
) -> Result<(), SqlError> {
    let name = names::relation(object)?;
    let moved = match kind {
        Kind::Type => types::open(cx, &name).await?.object(),
        Kind::Domain => Object::Domain(domains::open(cx, &name).await?),
        Kind::Table | Kind::View | Kind::MaterializedView | Kind::Sequence => {
            match cx.object(&name).await? {
                Some(found) if kind.fits(&found) => found,
                Some(found) => return Err(catalog::not_a(kind.word(), found.name())),
                None if if_exists => {
                    cx.skip("relation", &name.name);
                    return Ok(());
                }
                None => {
                    let message = format!("relation \"{name}\" does not exist");
                    return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                }
            }
        }
        Kind::Index | Kind::Schema | Kind::Database => {
            let what = format!("ALTER {} SET SCHEMA", kind.word().to_uppercase());
            return Err(SqlError::unsupported(what));
        }
    };
    if is_system_schema(schema) {
        let message = format!("permission denied for schema {schema}");
        return Err(SqlError::new(state::NO_PRIVILEGE, message));
    }
    if let Object::Sequence(sequence) = &moved
        && sequence.owner.is_some()
    {
        let message = "cannot move an owned sequence into another schema";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    if schema.starts_with(temporary::ALIAS) || temporary::is_temporary(moved.schema()) {
        let message = "cannot move objects into or out of temporary schemas";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    let to = cx.place(&Qualified { schema: Some(schema.to_owned()), name: String::new() }).await?;
    if moved.schema() == to {
        return Ok(());
    }
    if UserType::of(&moved).is_none() {
        views::refuse_renamed(cx, moved.id(), moved.name()).await?;
    }
    match moved {
        Object::Table(old) => {
            let mut table = (*old).clone();
            table.schema = to;
            check_row_type(cx, to, &old.name).await?;
            move_name(cx, (old.schema, to), &old.name, (old.id, old.id)).await?;
            for index in old.keys() {
                move_name(cx, (old.schema, to), &index.name, (index.id, old.id)).await?;
            }
            for id in &old.owns {
                if let Some(Object::Sequence(sequence)) = now(cx, *id).await? {
                    let (from, name) = (sequence.schema, &sequence.name);
                    move_name(cx, (from, to), name, (*id, *id)).await?;
                    sequences::set_schema(cx, &sequence, to).await?;
                }
            }
            change(cx, &old, table)
        }
        Object::Sequence(sequence) => {
            check_row_type(cx, to, &sequence.name).await?;
            let (id, from) = (sequence.id, sequence.schema);
            move_name(cx, (from, to), &sequence.name, (id, id)).await?;
            sequences::set_schema(cx, &sequence, to).await
        }
        Object::View(view) => {
            check_row_type(cx, to, &view.name).await?;
            move_name(cx, (view.schema, to), &view.name, (view.id, view.id)).await?;
            views::set_schema(cx, &view, to).await
        }
        Object::Enum(ty) => types::set_schema(cx, UserType::Enum(ty), to).await,
        Object::Domain(domain) => types::set_schema(cx, UserType::Domain(domain), to).await,
        Object::Composite(ty) => types::set_schema(cx, UserType::Composite(ty), to).await,
        Object::BaseType(ty) => {
            let message = format!("cannot move type {} without its extension", ty.shown());
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
        }
        Object::Schema(_) | Object::Function(_) | Object::Extension(_) => Ok(()),
    }
}

/// Moves the name of a relation, the id of which comes with that of its table.
async fn move_name(
    cx: &mut Ddl<'_>,
    (from, to): (u32, u32),
    name: &str,
    (id, table): (u32, u32),
) -> Result<(), SqlError> {
    cx.check_free(to, name).await?;
    cx.txn.put(kv::name_key(from, name), None)?;
    catalog::put_name(cx.txn, to, name, id, table)
}

/// Returns the objects in a schema: no other appears until the transaction has ended.
async fn objects_in(cx: &mut Ddl<'_>, schema: u32) -> Result<Vec<Object>, SqlError> {
    let mut ids = Vec::new();
    for (prefix, is_type) in
        [(kv::names_prefix(schema), false), (kv::type_names_prefix(schema), true)]
    {
        let range = kv::prefix_range(&prefix);
        let mut rest = Some(range.clone());
        while let Some(range) = rest {
            let chunk = cx.txn.scan(&range, Lock::Exclusive, false, 1000).await?;
            for (_, value) in &chunk.rows {
                ids.push(match is_type {
                    true => catalog::read_u32(value)?,
                    false => Relation::decode(value)?.table,
                });
            }
            rest = chunk.rest;
        }
        cx.txn.keep_range(range);
    }
    let prefix = kv::function_names_prefix(schema);
    cx.txn.keep_range(kv::prefix_range(&prefix));
    ids.extend(catalog::functions_in(cx.txn, prefix).await?);
    ids.extend(extensions::in_schema(cx, schema).await?);
    ids.sort_unstable();
    ids.dedup();
    let mut objects = Vec::with_capacity(ids.len());
    for id in ids {
        objects.extend(now(cx, id).await?);
    }
    Ok(objects)
}

/// Returns an object as it is now.
async fn now(cx: &mut Ddl<'_>, id: u32) -> Result<Option<Object>, SqlError> {
    let cache = &cx.engine.cache;
    catalog::object_by_id(cx.txn, cache, id, false, Lock::Exclusive).await
}

/// Drops the schemas of these names; with CASCADE what is in them, too.
pub(super) async fn drop(
    cx: &mut Ddl<'_>,
    named: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    for name in named {
        let name = names::simple(name)?;
        if is_system_schema(&name) {
            let message =
                format!("cannot drop schema {name} because it is required by the database system");
            return Err(SqlError::new(state::DEPENDENT_OBJECTS, message));
        }
        let id = match name.as_str() {
            // Another name of the session's schema is no schema.
            temporary::ALIAS => None,
            name => catalog::schema_id(cx.txn, name, Lock::Exclusive).await?,
        };
        let Some(id) = id else {
            if if_exists {
                cx.skip("schema", &name);
                continue;
            }
            return Err(missing(&name));
        };
        if temporary::is_temporary(id) {
            let what = "DROP SCHEMA of temporary objects";
            return Err(SqlError::unsupported(what).hint("DISCARD TEMP drops them all."));
        }
        empty(cx, id, &name, cascade).await?;
        catalog::put_schema_name(cx.txn, &name, None)?;
        let before = descriptor(cx, id, &name).await?;
        if id == system::PUBLIC {
            let gone = Schema { version: before.version + 1, is_gone: true, ..before };
            catalog::put(cx.txn, &Object::Schema(Arc::new(gone)))?;
            comments::forget_public(cx)?;
        } else {
            catalog::remove(cx.txn, &Object::Schema(Arc::new(before)))?;
        }
    }
    Ok(())
}

/// Returns an object of a schema behind the word for its kind.
async fn shown_in(cx: &mut Ddl<'_>, object: &Object, schema: &str) -> Result<String, SqlError> {
    let schema = system::quoted(schema);
    Ok(match object {
        Object::Function(function) => {
            let shown = Box::pin(functions::described(cx, function)).await?;
            shown.replacen(' ', &format!(" {schema}."), 1)
        }
        Object::Extension(extension) => format!("extension {}", extension.name),
        other => format!("{} {schema}.{}", other.kind(), system::quoted(other.name())),
    })
}

/// Drops what is in a schema. Without CASCADE, fails with 2BP01 if there is anything.
async fn empty(cx: &mut Ddl<'_>, id: u32, name: &str, cascade: bool) -> Result<(), SqlError> {
    let objects = objects_in(cx, id).await?;
    // A sequence of a column is dropped with it.
    let is_own = |object: &Object| match object {
        Object::Sequence(sequence) => sequence.owner.is_some(),
        // It is dropped with its extension.
        Object::BaseType(_) => true,
        _ => false,
    };
    if !cascade && !objects.is_empty() {
        let mut details = Vec::with_capacity(objects.len());
        for object in objects.iter().filter(|object| !is_own(object)) {
            details.push(format!("{} depends on schema {name}", shown_in(cx, object, name).await?));
        }
        return Err(depended_on(&format!("schema {name}"), &details));
    }
    cx.clean = false;
    for object in objects.iter().filter(|object| !is_own(object)) {
        let shown = shown_in(cx, object, name).await?;
        cx.cascaded.push(shown);
    }
    let listed = cx.cascaded.len();
    let ids: Vec<u32> = objects.iter().map(Object::id).collect();
    for object in objects {
        // What was dropped before may have dropped it, or changed it.
        match now(cx, object.id()).await? {
            Some(Object::View(view)) => {
                views::drop_readers(cx, view.id, &view.described(), &[], true).await?;
                views::remove(cx, &view).await?;
            }
            Some(Object::Table(table)) => drop_table(cx, &table, &ids, true).await?,
            Some(Object::Sequence(sequence)) if sequence.owner.is_none() => {
                sequences::drop_one(cx, &sequence, true).await?;
            }
            Some(Object::Enum(ty)) => types::drop_one(cx, UserType::Enum(ty), true).await?,
            Some(Object::Domain(domain)) => {
                types::drop_one(cx, UserType::Domain(domain), true).await?;
            }
            Some(Object::Composite(ty)) => {
                types::drop_one(cx, UserType::Composite(ty), true).await?;
            }
            Some(Object::Function(function)) => {
                Box::pin(functions::drop_one(cx, &function, true)).await?;
            }
            Some(Object::Extension(extension)) => {
                Box::pin(extensions::drop_one(cx, &extension, true)).await?;
            }
            Some(Object::Sequence(_) | Object::Schema(_) | Object::BaseType(_)) | None => {}
        }
    }
    // A sequence in this schema may belong to a column of a table in another one.
    for id in ids {
        if let Some(Object::Sequence(sequence)) = now(cx, id).await? {
            sequences::drop_one(cx, &sequence, true).await?;
        }
    }
    // What is in the schema is listed once.
    cx.cascaded.truncate(listed);
    Ok(())
}
