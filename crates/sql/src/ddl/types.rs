//! CREATE, ALTER and DROP TYPE of enum types and composite types.
//!
//! Each column holds its type's descriptor: a change of the type is one of the relations that have
//! it, and is as atomic as the transaction.

use super::create::column_type;
use super::{
    Ddl, attributes, change, columns, depended_on, domains, functions, labels, users, views,
};
use crate::base_type::BaseType;
use crate::bind::Binder;
use crate::catalog::{self, Object, Table, UserType};
use crate::clauses;
use crate::composite::{self, Attribute, Composite};
use crate::enumeration::{Beside, Descriptor, Enum};
use crate::error::{SqlError, state};
use crate::kv;
use crate::names::{self, Qualified};
use crate::parse;
use crate::system;
use crate::type_names;
use crate::view::View;
use meridian_mvcc::KeyRange;
use meridian_txn::Lock;
use sqlparser::ast::{
    self, AlterTypeAddValue, AlterTypeAddValuePosition, AlterTypeOperation, AlterTypeRename,
    AlterTypeRenameValue, Ident, ObjectName, UserDefinedTypeCompositeAttributeDef,
    UserDefinedTypeRepresentation,
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
pub(super) async fn check_free(cx: &mut Ddl<'_>, schema: u32, name: &str) -> Result<(), SqlError> {
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
async fn named(cx: &mut Ddl<'_>, name: &Qualified) -> Result<Option<UserType>, SqlError> {
    let cache = &cx.engine.cache;
    cx.names.user_type(cx.txn, cache, name, cx.clean, Lock::Exclusive).await
}

/// Finds a type that is there, and locks its version until the transaction ends.
pub(super) async fn open(cx: &mut Ddl<'_>, name: &Qualified) -> Result<UserType, SqlError> {
    match named(cx, name).await? {
        Some(UserType::Composite(of)) if of.is_of_table() => {
            let message = format!("{} is a table's row type", of.shown());
            Err(SqlError::new(state::WRONG_OBJECT, message).hint("Use ALTER TABLE instead."))
        }
        Some(found) => Ok(found),
        None => Err(match system_type(name) {
            Some(shown) => SqlError::new(state::WRONG_OBJECT, format!("{shown} is not an enum")),
            None => missing(name),
        }),
    }
}

/// Returns the fields of a new composite type.
fn attributes_of(
    cx: &Ddl<'_>,
    defs: &[UserDefinedTypeCompositeAttributeDef],
) -> Result<Vec<Attribute>, SqlError> {
    let mut attributes: Vec<Attribute> = Vec::with_capacity(defs.len());
    for UserDefinedTypeCompositeAttributeDef { name, data_type, collation } in defs {
        collation.iter().try_for_each(clauses::collation)?;
        let attribute = attribute_of(cx, name, data_type)?;
        if attributes.iter().any(|other| other.name == attribute.name) {
            let message = format!("column \"{}\" specified more than once", attribute.name);
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        attributes.push(attribute);
    }
    Ok(attributes)
}

/// Returns a field of a composite type.
pub(super) fn attribute_of(
    cx: &Ddl<'_>,
    name: &Ident,
    data_type: &ast::DataType,
) -> Result<Attribute, SqlError> {
    let name = names::fold(name);
    let (ty, domain) = column_type(cx, &name, data_type)?;
    if let Some(domain) = domain {
        return Err(SqlError::unsupported(format!("a field of the domain {}", domain.shown())));
    }
    Ok(Attribute { name, ty, dropped: false })
}

/// Creates a composite type.
async fn create_composite(
    cx: &mut Ddl<'_>,
    name: &ObjectName,
    defs: &[UserDefinedTypeCompositeAttributeDef],
) -> Result<(), SqlError> {
    let name = names::relation(name)?;
    let schema = cx.place(&name).await?;
    let name = name.name;
    check_free(cx, schema, &name).await?;
    cx.check_free(schema, &name).await?;
    let attributes = attributes_of(cx, defs)?;
    let (id, array) = (cx.next_id().await?, cx.next_id().await?);
    let new = composite::Descriptor { id, array, name, version: 1, attributes, schema };
    catalog::put_type_name(cx.txn, schema, &new.name, id)?;
    put_composite(cx, None, new).map(|_| ())
}

/// Stores a new version of a composite type, and that it uses the types of its fields. Fails with
/// 54001 or 54011 if it is too large.
pub(super) fn put_composite(
    cx: &mut Ddl<'_>,
    old: Option<Composite>,
    new: composite::Descriptor,
) -> Result<UserType, SqlError> {
    let new = Composite::of(new);
    new.check_size()?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (of, types) in [(old, &mut before), (Some(new), &mut after)] {
        let fields = of.iter().flat_map(|of| of.fields().iter());
        fields.for_each(|field| field.ty.each_user_type(types));
    }
    users::settle_types(cx, new.id(), &before, &after)?;
    catalog::put(cx.txn, &Object::Composite(new))?;
    Ok(UserType::Composite(new))
}

/// Creates an enum type or a composite type.
pub(super) async fn create(
    cx: &mut Ddl<'_>,
    name: &ObjectName,
    representation: Option<&UserDefinedTypeRepresentation>,
) -> Result<(), SqlError> {
    let labels = match representation {
        Some(UserDefinedTypeRepresentation::Enum { labels }) => labels,
        Some(UserDefinedTypeRepresentation::Composite { attributes }) => {
            return create_composite(cx, name, attributes).await;
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
    if let UserType::Base(ty) = old {
        return Err(SqlError::unsupported(format!("ALTER TYPE of the base type {}", ty.shown())));
    }
    if let AlterTypeOperation::Rename(AlterTypeRename { new_name }) = operation {
        return move_to(cx, old, old.schema(), &names::fold(new_name)).await;
    }
    let UserType::Enum(ty) = old else {
        let message = format!("{} is not an enum", old.shown());
        return Err(SqlError::new(state::WRONG_OBJECT, message));
    };
    let mut new = ty.descriptor().clone();
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
        AlterTypeOperation::Rename(_) => {}
    }
    let new = UserType::Enum(Enum::of(new)?);
    catalog::put(cx.txn, &new.object())?;
    cx.clean = false;
    replace(cx, old, new, renamed).await
}

/// Gives a type another name, or another schema.
pub(super) async fn move_to(
    cx: &mut Ddl<'_>,
    old: UserType,
    schema: u32,
    name: &str,
) -> Result<(), SqlError> {
    check_free(cx, schema, name).await?;
    if let UserType::Composite(_) = old {
        cx.check_free(schema, name).await?;
    }
    cx.txn.put(kv::type_name_key(old.schema(), old.name()), None)?;
    catalog::put_type_name(cx.txn, schema, name, old.id())?;
    let place = |(of_schema, of_name, version): (&mut u32, &mut String, &mut u64)| {
        (*of_schema, *of_name, *version) = (schema, name.to_owned(), *version + 1);
    };
    let new = match old {
        UserType::Enum(ty) => {
            let mut new = ty.descriptor().clone();
            place((&mut new.schema, &mut new.name, &mut new.version));
            UserType::Enum(Enum::of(new)?)
        }
        UserType::Composite(ty) => {
            let mut new = ty.descriptor().clone();
            place((&mut new.schema, &mut new.name, &mut new.version));
            UserType::Composite(Composite::of(new))
        }
        UserType::Base(ty) => {
            let mut new = ty.descriptor().clone();
            place((&mut new.schema, &mut new.name, &mut new.version));
            UserType::Base(BaseType::of(new))
        }
        UserType::Domain(domain) => {
            let mut new = domain.descriptor().clone();
            place((&mut new.schema, &mut new.name, &mut new.version));
            return domains::replace(cx, domain, new).await;
        }
    };
    catalog::put(cx.txn, &new.object())?;
    cx.clean = false;
    replace(cx, old, new, None).await
}

/// Moves a type to another schema.
pub(super) async fn set_schema(
    cx: &mut Ddl<'_>,
    old: UserType,
    schema: u32,
) -> Result<(), SqlError> {
    move_to(cx, old, schema, old.name()).await
}

/// Gives the users of a type a new version of it, in which a label may be `renamed`.
pub(super) async fn replace(
    cx: &mut Ddl<'_>,
    old: UserType,
    new: UserType,
    renamed: Option<(&str, &str)>,
) -> Result<(), SqlError> {
    let (before, after) = (old.name(), new.name());
    let is_moved = (before, old.schema()) != (after, new.schema());
    let mut readable = Vec::new();
    let mut users = users::of(cx, old.id()).await?;
    // A table that has the type beside a type with it takes its own new version first.
    users.sort_by_key(|user| matches!(user, Object::Composite(_)));
    for user in users {
        let Some(user) = users::now(cx, user.id()).await? else { continue };
        match user {
            Object::Table(table) => {
                let mut changed = (*table).clone();
                for column in &mut changed.columns {
                    column.take_version(new);
                    column.settle()?;
                }
                if is_moved {
                    // Texts of earlier releases name it otherwise than by its id.
                    rename_in(&mut changed, before, &names::reference(new.id()).value)?;
                }
                match (renamed, new) {
                    (Some((from, to)), UserType::Enum(of)) => {
                        labels::rename_in(&mut changed, of, from, to)?;
                    }
                    (_, UserType::Composite(of)) => bind_again(&mut changed, of)?,
                    _ => changed.bind_stored()?,
                }
                readable.push(table.id);
                change(cx, &table, changed)?;
            }
            Object::View(view) => {
                let parsed = view.parsed()?;
                let named = type_names::in_statement(&parsed.statement);
                if is_moved && named.iter().any(|name| name.name == before) {
                    let what = format!("renaming the type \"{before}\", which a view names,");
                    return Err(SqlError::unsupported(what)
                        .detail(format!("The view \"{}\" names it.", view.name))
                        .hint("Drop the view, and create it again."));
                }
                views::set_type(cx, &view, new).await?;
                readable.push(view.id);
            }
            Object::Composite(outer) => {
                let mut changed = outer.with_version(new).descriptor().clone();
                changed.version += 1;
                let changed = put_composite(cx, Some(outer), changed)?;
                Box::pin(replace(cx, UserType::Composite(outer), changed, None)).await?;
            }
            // It finds the type by its id.
            Object::Function(_) => {}
            other => {
                let message = format!("\"{}\" has columns of a type", other.name());
                return Err(SqlError::corrupted(message));
            }
        }
    }
    match (renamed, new) {
        (Some((from, _)), _) => {
            let named = |error, view: &View| labels::named_by(error, from, "view", &view.name);
            check_views(cx, readable, &named).await
        }
        (None, UserType::Composite(of)) => {
            let named = |_, view: &View| {
                let what = format!("changing the type {}, which a view names,", of.shown());
                SqlError::unsupported(what).detail(format!("The view \"{}\" names it.", view.name))
            };
            check_views(cx, readable, &named).await
        }
        (None, UserType::Enum(_) | UserType::Domain(_) | UserType::Base(_)) => Ok(()),
    }
}

/// Binds the stored expressions of a table to a new version of a type. Fails with 0A000 if one
/// names fields that are no longer there, or makes a row of the fields before.
fn bind_again(table: &mut Table, of: Composite) -> Result<(), SqlError> {
    let bound = table.bind_stored().and_then(|()| {
        let mut columns = 0..table.columns.len();
        columns.try_for_each(|column| Binder::new(&[]).default_of(table, column).map(|_| ()))
    });
    bound.map_err(|error| {
        let (of, table) = (of.shown(), &table.name);
        let what = format!("changing the type {of}, whose fields table \"{table}\" names,");
        SqlError::unsupported(what).detail(error.message)
    })
}

/// Fails with 0A000 if a view names a part of a type that was changed: one that reads some
/// relations, or another such view. `refused` makes the error.
async fn check_views(
    cx: &mut Ddl<'_>,
    mut relations: Vec<u32>,
    refused: &(dyn Fn(SqlError, &View) -> SqlError + Sync),
) -> Result<(), SqlError> {
    let mut at = 0;
    while let Some(id) = relations.get(at).copied() {
        at += 1;
        if let Some(view) = views::of_id(cx, id).await? {
            let checked = views::check(cx, &view).await;
            checked.map_err(|error| refused(error, &view))?;
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
        let Some(ty) = known(cx, &name, if_exists).await? else { continue };
        if let UserType::Composite(of) = ty
            && of.is_of_table()
        {
            let (ty, table) = (of.shown(), of.shown());
            let message = format!("cannot drop type {ty} because table {table} requires it");
            return Err(SqlError::new(state::DEPENDENT_OBJECTS, message)
                .hint(format!("You can drop table {table} instead.")));
        }
        if let UserType::Base(of) = ty {
            let extension = users::now(cx, of.descriptor().extension).await?;
            let extension = extension.as_ref().map_or("?", |it| it.name());
            let message = format!(
                "cannot drop type {} because extension {extension} requires it",
                of.shown()
            );
            return Err(SqlError::new(state::DEPENDENT_OBJECTS, message)
                .hint(format!("You can drop extension {extension} instead.")));
        }
        drop_one(cx, ty, cascade).await?;
    }
    Ok(())
}

/// Finds a type that is to be dropped; `None` if it does not exist, and IF EXISTS accepts that.
pub(super) async fn known(
    cx: &mut Ddl<'_>,
    name: &Qualified,
    if_exists: bool,
) -> Result<Option<UserType>, SqlError> {
    if let Some(ty) = named(cx, name).await? {
        return Ok(Some(ty));
    }
    if let Some(shown) = system_type(name) {
        let message =
            format!("cannot drop type {shown} because it is required by the database system");
        return Err(SqlError::new(state::DEPENDENT_OBJECTS, message));
    }
    if !if_exists {
        return Err(missing(name));
    }
    cx.skip("type", &name.name);
    Ok(None)
}

/// Drops a type; with CASCADE the columns and views that have it, too.
pub(super) async fn drop_one(
    cx: &mut Ddl<'_>,
    ty: UserType,
    cascade: bool,
) -> Result<(), SqlError> {
    drop_with(cx, ty, &format!("type {}", ty.shown()), cascade).await
}

/// Drops a type as [`drop_one`] does, for the sake of what is to be dropped.
pub(super) async fn drop_with(
    cx: &mut Ddl<'_>,
    ty: UserType,
    what: &str,
    cascade: bool,
) -> Result<(), SqlError> {
    let users = users::of(cx, ty.id()).await?;
    if !cascade && !users.is_empty() {
        let mut details = Vec::new();
        for user in &users {
            match user {
                Object::Function(function) => {
                    let function = Box::pin(functions::described(cx, function)).await?;
                    details.push(format!("{function} depends on type {}", ty.shown()));
                }
                other => details.extend(uses(other, ty)),
            }
        }
        return Err(depended_on(what, &details));
    }
    cx.clean = false;
    for user in users {
        if let Some(user) = users::now(cx, user.id()).await? {
            drop_uses(cx, &user, ty).await?;
        }
    }
    if let UserType::Domain(domain) = ty
        && let Some(over) = domain.descriptor().over
    {
        users::remove(cx, over.id(), ty.id())?;
    }
    if let UserType::Composite(of) = ty {
        let mut before = Vec::new();
        of.fields().iter().for_each(|field| field.ty.each_user_type(&mut before));
        users::settle_types(cx, of.id(), &before, &[])?;
    }
    catalog::remove(cx.txn, &ty.object())
}

/// Returns the columns of a table that have a type.
fn columns_of(table: &Table, ty: UserType) -> impl Iterator<Item = &str> {
    let has_it = move |column: &&catalog::ColumnDef| column.user_type() == Some(ty);
    table.present().map(|(_, column)| column).filter(has_it).map(|column| &*column.name)
}

/// True for a materialized view whose query names a type, or has columns of it.
fn is_read(table: &Table, ty: UserType) -> bool {
    table.query.as_ref().is_some_and(|query| query.reads.contains(&ty.id()))
}

/// Describes the uses of a type by an object.
fn uses(user: &Object, ty: UserType) -> Vec<String> {
    let (name, ty_name) = (user.name(), ty.shown());
    match user {
        Object::Table(table) if columns_of(table, ty).next().is_some() => columns_of(table, ty)
            .map(|column| {
                let kind = table.kind();
                format!("column {column} of {kind} {name} depends on type {ty_name}")
            })
            .collect(),
        // A field of a column's type has it, which is told of there.
        Object::Table(table) if !is_read(table, ty) => Vec::new(),
        Object::Composite(of) => {
            let fields = of.fields().iter().filter(|field| field.ty.user_type() == Some(ty));
            fields
                .map(|field| {
                    let field = &field.name;
                    format!("column {field} of composite type {name} depends on type {ty_name}")
                })
                .collect()
        }
        other => vec![format!("{} {name} depends on type {ty_name}", other.kind())],
    }
}

/// Drops the columns of a table or the fields of a composite type that have a type, a view that
/// names it, or a domain over it.
async fn drop_uses(cx: &mut Ddl<'_>, user: &Object, ty: UserType) -> Result<(), SqlError> {
    match user {
        Object::Table(table) if is_read(table, ty) => {
            if let Some(view) = views::of_id(cx, table.id).await? {
                cx.cascaded.push(view.described());
                views::drop_readers(cx, view.id, &view.described(), &[], true).await?;
                views::remove(cx, &view).await?;
            }
            Ok(())
        }
        Object::Table(before) => {
            cx.refuse_deferred("ALTER TABLE", before)?;
            let mut after = (**before).clone();
            let names: Vec<String> = columns_of(before, ty).map(str::to_owned).collect();
            for name in names {
                cx.cascaded.push(format!("column {name} of table {}", before.name));
                let ident = Ident::with_quote('"', name);
                // A generated column may have gone with another one.
                columns::drop(cx, &mut after, &ident, true, true).await?;
                after.settle();
            }
            views::check_readers(cx, before, &after).await?;
            change(cx, before, after)
        }
        Object::View(view) => {
            if let Some(view) = views::of_id(cx, view.id).await? {
                cx.cascaded.push(format!("view {}", view.name));
                views::drop_readers(cx, view.id, &format!("view {}", view.name), &[], true).await?;
                views::remove(cx, &view).await?;
            }
            Ok(())
        }
        Object::Function(function) => {
            let shown = Box::pin(functions::described(cx, function)).await?;
            cx.cascaded.push(shown);
            Box::pin(functions::drop_one(cx, function, true)).await
        }
        Object::Domain(over) => {
            cx.cascaded.push(format!("type {}", over.shown()));
            Box::pin(drop_one(cx, UserType::Domain(*over), true)).await
        }
        Object::Composite(of) => {
            let mut new = of.descriptor().clone();
            new.version += 1;
            for (at, attribute) in new.attributes.iter_mut().enumerate() {
                if attribute.ty.user_type() == Some(ty) && !attribute.dropped {
                    let (field, name) = (&attribute.name, of.shown());
                    cx.cascaded.push(format!("column {field} of composite type {name}"));
                    attribute.drop(at);
                }
            }
            attributes::refuse_keys(cx, UserType::Composite(*of)).await?;
            let new = put_composite(cx, Some(*of), new)?;
            Box::pin(replace(cx, UserType::Composite(*of), new, None)).await
        }
        other => Err(SqlError::corrupted(format!("\"{}\" has columns of a type", other.name()))),
    }
}
