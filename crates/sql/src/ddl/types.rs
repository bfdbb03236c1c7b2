//! CREATE, ALTER and DROP TYPE.
//!
//! Each column holds its type's descriptor: a change of the type is one of the relations that have
//! it, and is as atomic as the transaction.

use super::{Ddl, change, columns, depended_on, labels, users, views};
use crate::catalog::{self, Object, Table};
use crate::enumeration::{Beside, Descriptor, Enum};
use crate::error::{SqlError, state};
use crate::kv;
use crate::names::{self, Qualified};
use crate::parse;
use crate::system;
use crate::type_names;
use meridian_mvcc::KeyRange;
use meridian_txn::Lock;
use sqlparser::ast::{
    self, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation, AlterTypeRename,
    AlterTypeRenameValue, Ident, ObjectName, UserDefinedTypeRepresentation,
};
use std::ops::ControlFlow;

fn missing(name: &Qualified) -> SqlError {
    SqlError::new(state::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

/// Returns a type that every database has, as it is shown.
fn system_type(name: &Qualified) -> Option<String> {
    let is_system = name.schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
    let oid = system::type_named(&name.name).filter(|_| is_system);
    oid.map(|oid| system::format_type(oid.into(), None))
}

/// Returns the text of a label, which is a string literal.
fn label(ident: &Ident) -> Result<&str, SqlError> {
    match ident.quote_style {
        Some('\'') => Ok(&ident.value),
        _ => {
            let message = format!("syntax error at or near \"{}\"", ident.value);
            Err(SqlError::new(state::SYNTAX, message)
                .at(names::position(ident))
                .hint("A label of an enum type is a string."))
        }
    }
}

/// Fails if a type in a schema cannot get this name.
async fn check_free(cx: &mut Ddl<'_>, schema: u32, name: &str) -> Result<(), SqlError> {
    if names::is_known_type(name) {
        let what = format!("a type with the name of one of PostgreSQL's, \"{name}\",");
        return Err(SqlError::unsupported(what));
    }
    if cx.txn.get(&kv::type_name_key(schema, name), Lock::Exclusive).await?.is_some() {
        let message = format!("type \"{name}\" already exists");
        return Err(SqlError::new(state::DUPLICATE_OBJECT, message));
    }
    // The rows of tables and views have types of their names.
    cx.txn.keep_range(KeyRange::point(kv::name_key(schema, name)));
    let Some(found) = catalog::relation_in(cx.txn, schema, name).await? else { return Ok(()) };
    let cache = &cx.engine.cache;
    match catalog::object_by_id(cx.txn, cache, found.id, cx.clean, Lock::Exclusive).await? {
        Some(Object::Table(_) | Object::View(_)) => {
            let message = format!("type \"{name}\" already exists");
            Err(SqlError::new(state::DUPLICATE_OBJECT, message))
        }
        _ => Ok(()),
    }
}

/// Finds a type, and locks its version until the transaction ends.
async fn named(cx: &mut Ddl<'_>, name: &Qualified) -> Result<Option<Enum>, SqlError> {
    let cache = &cx.engine.cache;
    cx.names.enum_type(cx.txn, cache, name, cx.clean, Lock::Exclusive).await
}

/// Finds a type that is there, and locks its version until the transaction ends.
pub(super) async fn open(cx: &mut Ddl<'_>, name: &Qualified) -> Result<Enum, SqlError> {
    if let Some(found) = named(cx, name).await? {
        return Ok(found);
    }
    Err(match system_type(name) {
        Some(shown) => SqlError::new(state::WRONG_OBJECT, format!("{shown} is not an enum")),
        None => missing(name),
    })
}

/// Creates an enum type.
pub(super) async fn create(
    cx: &mut Ddl<'_>,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<(), SqlError> {
    let labels = match representation {
        Some(UserDefinedTypeRepresentation::Enum { labels }) => labels,
        Some(UserDefinedTypeRepresentation::Composite { .. }) => {
            return Err(SqlError::unsupported("CREATE TYPE of a composite type"));
        }
        Some(UserDefinedTypeRepresentation::Range { .. }) => {
            return Err(SqlError::unsupported("CREATE TYPE of a range type"));
        }
        Some(UserDefinedTypeRepresentation::SqlDefinition { .. }) | None => {
            return Err(SqlError::unsupported("CREATE TYPE of a base type"));
        }
    };
    let name = names::relation(name)?;
    let schema = cx.place(&name).await?;
    let name = name.name;
    check_free(cx, schema, &name).await?;
    let (id, array) = (cx.next_id().await?, cx.next_id().await?);
    let mut new = Descriptor { id, array, name, version: 1, labels: Vec::new(), schema };
    for ident in labels {
        let name = label(ident)?;
        if new.labels.iter().any(|label| label.name == name) {
            let constraint = "pg_enum_typid_label_index";
            let message =
                format!("duplicate key value violates unique constraint \"{constraint}\"");
            return Err(SqlError::new(state::UNIQUE, message)
                .detail(format!("The label \"{name}\" is there twice.")));
        }
        new.add(name, Beside::End)?;
    }
    catalog::put_type_name(cx.txn, schema, &new.name, id)?;
    catalog::put(cx.txn, &Object::Enum(Enum::of(new)?))
}

/// Runs ALTER TYPE.
pub(super) async fn alter(
    cx: &mut Ddl<'_>,
    name: &ObjectName,
    operation: &AlterTypeOperation,
) -> Result<(), SqlError> {
    let name = names::relation(name)?;
    let old = open(cx, &name).await?;
    let mut new = old.descriptor().clone();
    new.version += 1;
    let mut renamed = None;
    match operation {
        AlterTypeOperation::AddValue(AlterTypeAddValue { if_not_exists, value, position }) => {
            let value = label(value)?;
            if *if_not_exists && new.labels.iter().any(|label| label.name == value) {
                let message = format!("enum label \"{value}\" already exists, skipping");
                cx.notices.push(SqlError::new(state::DUPLICATE_OBJECT, message));
                return Ok(());
            }
            let beside = match position {
                Some(AlterTypeAddValuePosition::Before(other)) => Beside::Before(label(other)?),
                Some(AlterTypeAddValuePosition::After(other)) => Beside::After(label(other)?),
                None => Beside::End,
            };
            new.add(value, beside)?;
        }
        AlterTypeOperation::RenameValue(AlterTypeRenameValue { from, to }) => {
            let (from, to) = (label(from)?, label(to)?);
            new.rename(from, to)?;
            renamed = Some((from, to));
        }
        AlterTypeOperation::Rename(AlterTypeRename { new_name }) => {
            let to = names::fold(new_name);
            check_free(cx, new.schema, &to).await?;
            cx.txn.put(kv::type_name_key(new.schema, &new.name), None)?;
            catalog::put_type_name(cx.txn, new.schema, &to, new.id)?;
            new.name = to;
        }
    }
    let new = Enum::of(new)?;
    catalog::put(cx.txn, &Object::Enum(new))?;
    cx.clean = false;
    replace(cx, old, new, renamed).await
}

/// Moves a type to another schema.
pub(super) async fn set_schema(cx: &mut Ddl<'_>, old: Enum, schema: u32) -> Result<(), SqlError> {
    let mut new = old.descriptor().clone();
    check_free(cx, schema, &new.name).await?;
    cx.txn.put(kv::type_name_key(new.schema, &new.name), None)?;
    catalog::put_type_name(cx.txn, schema, &new.name, new.id)?;
    (new.schema, new.version) = (schema, new.version + 1);
    let new = Enum::of(new)?;
    catalog::put(cx.txn, &Object::Enum(new))?;
    cx.clean = false;
    replace(cx, old, new, None).await
}

/// Gives the users of a type a new version of it, in which a label may be `renamed`.
async fn replace(
    cx: &mut Ddl<'_>,
    old: Enum,
    new: Enum,
    renamed: Option<(&str, &str)>,
) -> Result<(), SqlError> {
    let (old_type, new_type) = (old.descriptor(), new.descriptor());
    let before = &old_type.name;
    let is_moved = (before, old_type.schema) != (&new_type.name, new_type.schema);
    let mut readable = Vec::new();
    for user in users::of(cx, old.id()).await? {
        match user {
            Object::Table(table) => {
                let mut changed = (*table).clone();
                for column in &mut changed.columns {
                    column.ty = column.ty.with_version(new);
                    column.settle()?;
                }
                if is_moved {
                    // Texts of earlier releases name it otherwise than by its id.
                    rename_in(&mut changed, before, &names::reference(new.id()).value)?;
                }
                match renamed {
                    Some((from, to)) => labels::rename_in(&mut changed, new, from, to)?,
                    None => changed.bind_stored()?,
                }
                readable.push(table.id);
                change(cx, &table, changed)?;
            }
            Object::View(view) => {
                let parsed = view.parsed()?;
                let named = type_names::in_statement(&parsed.statement);
                if is_moved && named.iter().any(|name| name.name == *before) {
                    let what = format!("renaming the type \"{before}\", which a view names,");
                    return Err(SqlError::unsupported(what)
                        .detail(format!("The view \"{}\" names it.", view.name))
                        .hint("Drop the view, and create it again."));
                }
                views::set_type(cx, &view, new).await?;
                readable.push(view.id);
            }
            other => {
                let message = format!("\"{}\" has columns of a type", other.name());
                return Err(SqlError::corrupted(message));
            }
        }
    }
    if let Some((from, _)) = renamed {
        check_views(cx, readable, from).await?;
    }
    Ok(())
}

/// Fails with 0A000 if a view names a label that was renamed: one that reads some relations, or
/// another such view.
async fn check_views(
    cx: &mut Ddl<'_>,
    mut relations: Vec<u32>,
    label: &str,
) -> Result<(), SqlError> {
    let mut at = 0;
    while let Some(id) = relations.get(at).copied() {
        at += 1;
        if let Some(view) = views::of_id(cx, id).await? {
            let checked = views::check(cx, &view).await;
            checked.map_err(|error| labels::named_by(error, label, "view", &view.name))?;
        }
        for view in views::readers(cx, id).await? {
            if !relations.contains(&view.id) {
                relations.push(view.id);
            }
        }
    }
    Ok(())
}

/// Replaces the name of a type in the stored expressions of a table.
fn rename_in(table: &mut Table, before: &str, after: &str) -> Result<(), SqlError> {
    let renamed = |text: &str| -> Result<String, SqlError> {
        let mut expr = parse::expression(text)?;
        let _ = ast::visit_expressions_mut(&mut expr, |part| {
            if let Some(ty) = type_names::of_mut(part) {
                rename(ty, before, after);
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(expr.to_string())
    };
    let columns = table.columns.iter_mut();
    let of_columns =
        columns.flat_map(|column| column.default.iter_mut().chain(&mut column.generated));
    let checks = table.checks.iter_mut().map(|check| &mut check.text);
    let indexes = table.indexes.iter_mut();
    let of_indexes =
        indexes.flat_map(|index| index.expressions.iter_mut().chain(&mut index.predicate));
    for text in of_columns.chain(checks).chain(of_indexes) {
        *text = renamed(text)?;
    }
    Ok(())
}

fn rename(ty: &mut ast::DataType, before: &str, after: &str) {
    match ty {
        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) => {
            rename(element, before, after);
        }
        ty if names::enumeration(ty).is_some_and(|name| name.name == before) => {
            let name = ObjectName::from(vec![Ident::with_quote('"', after)]);
            *ty = ast::DataType::Custom(name, Vec::new());
        }
        _ => {}
    }
}

/// Drops the types of these names; with CASCADE the columns and views that have them, too.
pub(super) async fn drop(
    cx: &mut Ddl<'_>,
    named_types: &[ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    for name in named_types {
        let name = names::relation(name)?;
        let Some(ty) = named(cx, &name).await? else {
            if let Some(shown) = system_type(&name) {
                let message = format!(
                    "cannot drop type {shown} because it is required by the database system"
                );
                return Err(SqlError::new(state::DEPENDENT_OBJECTS, message));
            }
            if if_exists {
                cx.skip("type", &name.name);
                continue;
            }
            return Err(missing(&name));
        };
        drop_one(cx, ty, cascade).await?;
    }
    Ok(())
}

/// Drops a type; with CASCADE the columns and views that have it, too.
pub(super) async fn drop_one(cx: &mut Ddl<'_>, ty: Enum, cascade: bool) -> Result<(), SqlError> {
    let users = users::of(cx, ty.id()).await?;
    if !cascade && !users.is_empty() {
        let details = users.iter().flat_map(|user| uses(user, ty));
        return Err(depended_on(&format!("type {}", ty.shown()), &details.collect::<Vec<_>>()));
    }
    cx.clean = false;
    for user in users {
        drop_uses(cx, &user, ty).await?;
    }
    catalog::remove(cx.txn, &Object::Enum(ty))
}

/// Returns the columns of a table that have a type.
fn columns_of(table: &Table, ty: Enum) -> impl Iterator<Item = &str> {
    let has_it = move |column: &&catalog::ColumnDef| column.ty.enumeration() == Some(ty);
    table.present().map(|(_, column)| column).filter(has_it).map(|column| &*column.name)
}

/// Describes the uses of a type by an object.
fn uses(user: &Object, ty: Enum) -> Vec<String> {
    let (name, ty_name) = (user.name(), ty.shown());
    match user {
        Object::Table(table) => columns_of(table, ty)
            .map(|column| format!("column {column} of table {name} depends on type {ty_name}"))
            .collect(),
        _ => vec![format!("view {name} depends on type {ty_name}")],
    }
}

/// Drops the columns of a table that have a type, or a view that names it.
async fn drop_uses(cx: &mut Ddl<'_>, user: &Object, ty: Enum) -> Result<(), SqlError> {
    match user {
        Object::Table(table) => {
            // What was dropped before may have changed it.
            let cache = &cx.engine.cache;
            let now = catalog::table_by_id(cx.txn, cache, table.id, false, Lock::Exclusive);
            let Some(before) = now.await? else { return Ok(()) };
            cx.refuse_deferred("ALTER TABLE", &before)?;
            let mut after = (*before).clone();
            let names: Vec<String> = columns_of(&before, ty).map(str::to_owned).collect();
            for name in names {
                cx.cascaded.push(format!("column {name} of table {}", before.name));
                let ident = Ident::with_quote('"', name);
                // A generated column may have gone with another one.
                columns::drop(cx, &mut after, &ident, true, true).await?;
                after.settle();
            }
            views::check_readers(cx, &before, &after).await?;
            change(cx, &before, after)
        }
        Object::View(view) => {
            if let Some(view) = views::of_id(cx, view.id).await? {
                cx.cascaded.push(format!("view {}", view.name));
                views::drop_readers(cx, view.id, &format!("view {}", view.name), &[], true).await?;
                views::remove(cx, &view).await?;
            }
            Ok(())
        }
        other => Err(SqlError::corrupted(format!("\"{}\" has columns of a type", other.name()))),
    }
}
