//! CREATE and DROP VIEW, and the part of views in changes of what they read.
//!
//! A change that the query of a view would notice is refused, or drops the view with CASCADE.

use super::{Ddl, check_row_type, depended_on, duplicate, erase, materialized, stored, users};
use crate::bind::Objects;
use crate::catalog::{self, ColumnDef, Object, Resolver, SearchPath, Table, UserType};
use crate::clauses;
use crate::compile::{self, BoundView};
use crate::composite::Composite;
use crate::error::{SqlError, state};
use crate::kv;
use crate::names::{self, Qualified};
use crate::response::Column;
use crate::sequence;
use crate::temporary;
use crate::types::Type;
use crate::view::{self, View};
use meridian_txn::{Lock, SchemaVersion};
use sqlparser::ast::{self, AlterTableOperation};
use std::ops::ControlFlow;
use std::sync::Arc;

fn missing(name: &Qualified) -> SqlError {
    SqlError::new(state::UNDEFINED_TABLE, format!("view \"{name}\" does not exist"))
}

/// Finds a view, and locks its version until the transaction ends.
async fn named(cx: &mut Ddl<'_>, name: &Qualified) -> Result<Option<Arc<View>>, SqlError> {
    match cx.object(name).await? {
        Some(Object::View(view)) => Ok(Some(view)),
        Some(Object::Table(table)) => {
            let hint = match table.query {
                Some(_) => "Use DROP MATERIALIZED VIEW to remove a materialized view.",
                None => "Use DROP TABLE to remove a table.",
            };
            Err(catalog::not_a("view", &name.name).hint(hint))
        }
        Some(_) => Err(catalog::not_a("view", &name.name)),
        None => Ok(None),
    }
}

/// Returns the view of an id, also the query of a materialized one, as it is now.
pub(super) async fn of_id(cx: &mut Ddl<'_>, id: u32) -> Result<Option<Arc<View>>, SqlError> {
    let cache = &cx.engine.cache;
    let object = catalog::object_by_id(cx.txn, cache, id, false, Lock::Exclusive).await?;
    Ok(object.and_then(of_object))
}

fn of_object(object: Object) -> Option<Arc<View>> {
    match object {
        Object::View(view) => Some(view),
        Object::Table(table) => table.as_view().map(Arc::new),
        _ => None,
    }
}

/// Creates a view, or replaces one. `text` is that of its query.
pub(super) async fn create(
    cx: &mut Ddl<'_>,
    create: &ast::CreateView,
    text: &str,
) -> Result<(), SqlError> {
    clauses::create_view(create)?;
    let name = names::relation(&create.name)?;
    let (text, new) = settle(cx, text).await?;
    let reads_temporary = new.reads.iter().any(|id| temporary::is_temporary(*id));
    if reads_temporary && !create.temporary {
        let message = format!("view \"{}\" will be a temporary view", name.name);
        cx.notices.push(SqlError::new(state::SUCCESSFUL, message));
    }
    let schema = cx.place_relation(&name, create.temporary || reads_temporary).await?;
    let old = match catalog::relation_in(cx.txn, schema, &name.name).await? {
        Some(found) if create.or_replace => match of_id(cx, found.id).await? {
            Some(view) if !view.is_materialized => Some(view),
            _ => return Err(catalog::not_a("view", &name.name)),
        },
        Some(_) => return Err(duplicate(&name.name)),
        None => {
            check_row_type(cx, schema, &name.name).await?;
            None
        }
    };
    let name = name.name;
    stored::refuse_zone(cx, new.reads_zone)?;
    let columns = columns(create, &new.query.columns)?;
    let keeps_names = columns.iter().zip(&*new.query.columns).all(|(it, of)| it.name == of.name);
    let text = match keeps_names {
        true => text,
        false => materialized::renamed(&text, columns.iter().map(|column| column.name.clone())),
    };
    let reads = new.reads;
    if let Some(old) = &old {
        check_replaced(old, &columns)?;
        refuse_cycle(cx, old, &reads).await?;
        outdate(cx, old, old.version + 1).await?;
        for id in &old.reads {
            users::remove(cx, *id, old.id)?;
        }
    }
    let (id, version) = match &old {
        Some(old) => (old.id, old.version + 1),
        None => (cx.next_id_in(schema).await?, 1),
    };
    catalog::put_name(cx.txn, schema, &name, id, id)?;
    for read in &reads {
        users::add(cx, *read, id)?;
    }
    let view = View::new(id, (schema, name), version, columns, text, reads);
    catalog::put(cx.txn, &Object::View(Arc::new(view)))
}

/// Binds the query of a view. Returns its text as it is stored, and what it means.
pub(super) async fn settle(cx: &mut Ddl<'_>, text: &str) -> Result<(String, BoundView), SqlError> {
    let unchanged = |_: &mut Objects| {};
    let parsed = view::parse_query(text)?;
    if parsed.as_of.is_some() {
        return Err(SqlError::unsupported("AS OF SYSTEM TIME in a view"));
    }
    let bound = compile::view(cx.engine, cx.txn, &mut cx.names, &parsed, unchanged).await;
    let mut bound = bound.map_err(SqlError::unplaced)?;
    if !bound.query.params.is_empty() {
        return Err(SqlError::new(state::UNDEFINED_PARAMETER, "there is no parameter $1"));
    }
    let mentions = std::mem::take(&mut bound.mentions);
    if mentions.is_empty() {
        return Ok((text.to_owned(), bound));
    }
    let stored = view::store(text, mentions)?;
    let ambiguous = |_| SqlError::unsupported("* over columns of one name, in a view");
    let parsed = view::parse_query(&stored)?;
    let again = compile::view(cx.engine, cx.txn, &mut cx.names, &parsed, unchanged).await;
    let again = again.map_err(ambiguous)?;
    if again.query.columns != bound.query.columns || again.reads != bound.reads {
        return Err(SqlError::unsupported("this use of * or of a name in a view"));
    }
    Ok((stored, again))
}

/// Returns the columns of a view, with the names that CREATE VIEW gives.
fn columns(create: &ast::CreateView, bound: &[Column]) -> Result<Vec<ColumnDef>, SqlError> {
    if create.columns.len() > bound.len() {
        let message = "CREATE VIEW specifies more column names than columns";
        return Err(SqlError::new(state::SYNTAX, message));
    }
    let mut columns = Vec::with_capacity(bound.len());
    for (at, column) in bound.iter().enumerate() {
        let ty = column.ty;
        if ty.is_anonymous() {
            let message = format!("column \"{}\" has pseudo-type {ty}", column.name);
            return Err(SqlError::new(state::INVALID_TABLE, message));
        }
        let is_stored =
            ty.user_type().is_some() || Type::with_modifier(ty.oid(), ty.modifier()) == Some(ty);
        if !is_stored || ty.is_row_of_table() {
            return Err(SqlError::unsupported(format!("a column of type {ty} in a view")));
        }
        let given = create.columns.get(at).map(|given| names::fold(&given.name));
        let name = given.unwrap_or_else(|| column.name.clone());
        let domain = column.domain;
        columns.push(ColumnDef { domain, ..ColumnDef::new(&name, column.ty) });
    }
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
    }
    Ok(columns)
}

/// Fails unless a view that is replaced keeps its columns.
fn check_replaced(old: &View, columns: &[ColumnDef]) -> Result<(), SqlError> {
    let wrong = |message: String| Err(SqlError::new(state::INVALID_TABLE, message));
    if columns.len() < old.columns.len() {
        return wrong("cannot drop columns from view".into());
    }
    for (before, now) in old.columns.iter().zip(columns) {
        if before.name != now.name {
            return wrong(format!(
                "cannot change name of view column \"{}\" to \"{}\"",
                before.name, now.name
            ));
        }
        if (before.ty, before.domain) != (now.ty, now.domain) {
            return wrong(format!(
                "cannot change data type of view column \"{}\" from {} to {}",
                before.name,
                before.shown_type(),
                now.shown_type()
            ));
        }
    }
    Ok(())
}

/// Returns all that objects read, by views: the users' tables and sequences, and the views.
async fn all_read(cx: &mut Ddl<'_>, reads: &[u32]) -> Result<Vec<Object>, SqlError> {
    let (mut known, mut all, mut at) = (reads.to_vec(), Vec::new(), 0);
    while let Some(id) = known.get(at).copied() {
        at += 1;
        let cache = &cx.engine.cache;
        let found = catalog::object_by_id(cx.txn, cache, id, false, Lock::Shared).await?;
        let Some(object) = found else { continue };
        if let Object::View(view) = &object {
            for id in &view.reads {
                if !known.contains(id) {
                    known.push(*id);
                }
            }
        }
        all.push(object);
    }
    Ok(all)
}

/// Fails with 42P17 if a view would read itself.
async fn refuse_cycle(cx: &mut Ddl<'_>, view: &View, reads: &[u32]) -> Result<(), SqlError> {
    if all_read(cx, reads).await?.iter().any(|object| object.id() == view.id) {
        let message = format!("infinite recursion detected in the query of view \"{}\"", view.name);
        return Err(SqlError::new(state::INVALID_DEFINITION, message));
    }
    Ok(())
}

/// From the commit on, rejects transactions that planned for this version of a view or an older
/// one, by the tables that it reads.
async fn outdate(cx: &mut Ddl<'_>, view: &View, to: u64) -> Result<(), SqlError> {
    cx.clean = false;
    let mut ranges = Vec::new();
    for object in all_read(cx, &view.reads).await? {
        if let Object::Table(table) = object {
            ranges.extend(table.ranges(cx.ids.own));
        }
    }
    if !ranges.is_empty() {
        cx.txn.change_schema(SchemaVersion { table: view.id, version: to }, ranges)?;
    }
    Ok(())
}

/// Drops the views of these names.
pub(super) async fn drop(
    cx: &mut Ddl<'_>,
    named_views: &[ast::ObjectName],
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    let mut views = Vec::with_capacity(named_views.len());
    for name in named_views {
        let name = names::relation(name)?;
        match named(cx, &name).await? {
            Some(view) => views.push(view),
            None if if_exists => cx.skip("view", &name.name),
            None => return Err(missing(&name)),
        }
    }
    let ids: Vec<u32> = views.iter().map(|view| view.id).collect();
    for id in &ids {
        // With CASCADE, a view before it may have dropped it.
        let Some(view) = of_id(cx, *id).await? else { continue };
        drop_readers(cx, *id, &format!("view {}", view.name), &ids, cascade).await?;
        remove(cx, &view).await?;
    }
    Ok(())
}

pub(super) async fn remove(cx: &mut Ddl<'_>, view: &Arc<View>) -> Result<(), SqlError> {
    if view.is_materialized {
        let cache = &cx.engine.cache;
        let table = catalog::table_by_id(cx.txn, cache, view.id, false, Lock::Exclusive).await?;
        cx.clean = false;
        return table.map_or(Ok(()), |table| erase(cx, &table));
    }
    outdate(cx, view, SchemaVersion::GONE).await?;
    for id in &view.reads {
        users::remove(cx, *id, view.id)?;
    }
    catalog::remove(cx.txn, &Object::View(view.clone()))
}

/// Returns the views whose queries name a relation. No other appears until the transaction has
/// ended.
pub(super) async fn readers(cx: &mut Ddl<'_>, id: u32) -> Result<Vec<Arc<View>>, SqlError> {
    let views = users::of(cx, id).await?.into_iter().map(|user| {
        let wrong = SqlError::corrupted(format!("\"{}\" reads a relation", user.name()));
        of_object(user).ok_or(wrong)
    });
    views.collect()
}

/// Fails if the text of a view has no meaning any more.
pub(super) async fn check(cx: &mut Ddl<'_>, view: &View) -> Result<(), SqlError> {
    let parsed = view.parsed()?;
    let public = SearchPath::public();
    let names = &mut Resolver::new(&public);
    let bound = compile::view(cx.engine, cx.txn, names, &parsed, |_: &mut Objects| {}).await;
    bound.map(|_| ()).map_err(SqlError::unplaced)
}

/// Moves a view, whose name is moved, to another schema.
pub(super) async fn set_schema(cx: &mut Ddl<'_>, old: &View, schema: u32) -> Result<(), SqlError> {
    outdate(cx, old, old.version + 1).await?;
    let mut view = old.clone();
    (view.schema, view.version) = (schema, old.version + 1);
    catalog::put(cx.txn, &Object::View(Arc::new(view)))
}

/// Runs ALTER VIEW … RENAME, or ALTER TABLE … RENAME of a view; returns false if the relation is
/// none. Fails with 42P01 or 42809 if it has to be one.
pub(super) async fn renamed(
    cx: &mut Ddl<'_>,
    alter: &ast::AlterTable,
    is_view: bool,
) -> Result<bool, SqlError> {
    let [operation] = &*alter.operations else { return Ok(false) };
    let renames = matches!(
        operation,
        AlterTableOperation::RenameTable { .. } | AlterTableOperation::RenameColumn { .. }
    );
    let name = names::relation(&alter.name)?;
    let found = if renames { cx.relation(&name).await? } else { None };
    let object = match found {
        Some(found) if found.id == found.table => cx.object(&name).await?,
        _ => None,
    };
    match (object, found) {
        (Some(Object::View(view)), _) => rename(cx, &view, operation).await.map(|()| true),
        _ if !is_view => Ok(false),
        (_, Some(_)) => Err(catalog::not_a("view", &name.name)),
        (_, None) => {
            let message = format!("relation \"{name}\" does not exist");
            Err(SqlError::new(state::UNDEFINED_TABLE, message))
        }
    }
}

/// Gives a view, or a column of it, another name.
async fn rename(
    cx: &mut Ddl<'_>,
    old: &View,
    operation: &AlterTableOperation,
) -> Result<(), SqlError> {
    let (mut name, mut columns, mut text) =
        (old.name.clone(), old.columns.clone(), old.text.clone());
    match operation {
        AlterTableOperation::RenameTable {
            table_name: ast::RenameTableNameKind::As(new) | ast::RenameTableNameKind::To(new),
        } => {
            name = names::simple(new)?;
            cx.check_free(old.schema, &name).await?;
            check_row_type(cx, old.schema, &name).await?;
            refuse_renamed(cx, old.id, &old.name).await?;
            cx.txn.put(kv::name_key(old.schema, &old.name), None)?;
            catalog::put_name(cx.txn, old.schema, &name, old.id, old.id)?;
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let (from, to) = (names::fold(old_column_name), names::fold(new_column_name));
            let Some(at) = columns.iter().position(|column| column.name == from) else {
                let message = format!("column \"{from}\" does not exist");
                return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
            };
            if columns.iter().any(|column| column.name == to) {
                let message = format!("column \"{to}\" of relation \"{name}\" already exists");
                return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
            }
            if let Some(reader) = readers(cx, old.id).await?.first() {
                let what = "renaming a column of a view that another view reads";
                return Err(SqlError::unsupported(what)
                    .detail(format!("The view \"{}\" reads it.", reader.name)));
            }
            columns[at].name = to;
            text = materialized::renamed(&text, columns.iter().map(|column| column.name.clone()));
        }
        other => return Err(SqlError::unsupported(format!("ALTER VIEW {other}"))),
    }
    outdate(cx, old, old.version + 1).await?;
    let name = (old.schema, name);
    let mut view = View::new(old.id, name, old.version + 1, columns, text, old.reads.clone());
    view.by_id = old.by_id;
    catalog::put(cx.txn, &Object::View(Arc::new(view)))
}

/// Gives the columns of a view a new version of their type.
pub(super) async fn set_type(cx: &mut Ddl<'_>, old: &View, new: UserType) -> Result<(), SqlError> {
    outdate(cx, old, old.version + 1).await?;
    let mut columns = old.columns.clone();
    columns.iter_mut().for_each(|column| column.take_version(new));
    let (text, reads) = (old.text.clone(), old.reads.clone());
    let name = (old.schema, old.name.clone());
    let mut view = View::new(old.id, name, old.version + 1, columns, text, reads);
    view.by_id = old.by_id;
    catalog::put(cx.txn, &Object::View(Arc::new(view)))
}

/// Drops the views that read an object which is to be dropped, and those that read them. Without
/// CASCADE, fails with 2BP01 if there is any but some `others`, which are dropped as well.
pub(super) async fn drop_readers(
    cx: &mut Ddl<'_>,
    id: u32,
    what: &str,
    others: &[u32],
    cascade: bool,
) -> Result<(), SqlError> {
    let mut all: Vec<Arc<View>> = Vec::new();
    let mut rest = vec![(id, what.to_owned())];
    let mut details = Vec::new();
    while let Some((id, of)) = rest.pop() {
        for view in readers(cx, id).await? {
            if others.contains(&view.id) {
                continue;
            }
            details.push(format!("{} depends on {of}", view.described()));
            if all.iter().all(|known| known.id != view.id) {
                rest.push((view.id, view.described()));
                all.push(view);
            }
        }
    }
    if !cascade && !details.is_empty() {
        return Err(depended_on(what, &details));
    }
    cx.cascaded.extend(all.iter().map(|view| view.described()));
    for view in all {
        remove(cx, &view).await?;
    }
    Ok(())
}

/// True if the text of a view names a sequence in a literal, or may do so.
fn has_literal(view: &View, name: &str) -> bool {
    let Ok(parsed) = view.parsed() else { return true };
    let mut found = false;
    let _ = ast::visit_expressions(&parsed.statement, |expr| {
        let written = sequence::literal_of(expr).and_then(names::written);
        found |= written.is_some_and(|written| written.name == name);
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Fails with 0A000 if views read a relation that is to get another name, and their texts have the
/// old one: those of earlier releases, and those that name a sequence in a literal.
pub(super) async fn refuse_renamed(cx: &mut Ddl<'_>, id: u32, name: &str) -> Result<(), SqlError> {
    let has_name = |view: &&Arc<View>| !view.by_id || has_literal(view, name);
    match readers(cx, id).await?.iter().find(has_name) {
        None => Ok(()),
        Some(view) => {
            Err(SqlError::unsupported(format!("renaming \"{name}\", which a view reads,"))
                .detail(format!("The view \"{}\" reads it.", view.name))
                .hint("Drop the view, and create it again."))
        }
    }
}

/// Returns the views that use a column.
async fn users(cx: &mut Ddl<'_>, table: &Table, column: usize) -> Result<Vec<Arc<View>>, SqlError> {
    let mut users = Vec::new();
    let origin = (table.id, column as i16 + 1);
    for view in readers(cx, table.id).await? {
        match meaning(cx, &view, table).await {
            Ok(meaning) if !meaning.used.contains(&origin) => {}
            _ => users.push(view),
        }
    }
    Ok(users)
}

/// The meaning of a view's text: its columns, and the columns of tables that it names, in order.
#[derive(PartialEq)]
struct Meaning {
    columns: Arc<[Column]>,
    used: Vec<(u32, i16)>,
}

/// Returns the meaning of a view beside a table as it is in the middle of a change.
async fn meaning(cx: &mut Ddl<'_>, view: &View, table: &Table) -> Result<Meaning, SqlError> {
    let as_now = |objects: &mut Objects| {
        let tables = objects.tables.iter_mut();
        tables.filter(|it| it.id == table.id).for_each(|it| *it = Arc::new(table.clone()));
        let types = objects.types.iter_mut().filter(|(_, ty)| ty.planned().id == table.id);
        types.for_each(|(_, ty)| *ty = UserType::Composite(Composite::of_table(table)));
    };
    let parsed = view.parsed()?;
    let public = SearchPath::public();
    let names = &mut Resolver::new(&public);
    let bound = compile::view(cx.engine, cx.txn, names, &parsed, as_now).await?;
    let BoundView { query, .. } = bound;
    let used = query.known.iter().filter(|column| column.is_used()).map(|column| column.origin);
    Ok(Meaning { columns: query.columns, used: used.collect() })
}

/// Fails with 0A000 if a view would have another meaning, or none, after a change of a table: its
/// text would find other columns.
pub(super) async fn check_readers(
    cx: &mut Ddl<'_>,
    before: &Table,
    after: &Table,
) -> Result<(), SqlError> {
    for view in readers(cx, before.id).await? {
        let Ok(was) = meaning(cx, &view, before).await else { continue };
        let why = match meaning(cx, &view, after).await {
            Ok(now) if now == was => continue,
            Ok(_) => "Its text would name other columns.".to_owned(),
            Err(error) => error.message,
        };
        let (table, name) = (&before.name, &view.name);
        let what = format!("a change of \"{table}\" that the view \"{name}\" would notice");
        return Err(SqlError::unsupported(what)
            .detail(why)
            .hint("Drop the view, and create it again."));
    }
    Ok(())
}

/// Drops the views that use a column which is to be dropped. Fails with 2BP01 without CASCADE.
pub(super) async fn drop_users(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
    cascade: bool,
) -> Result<(), SqlError> {
    let what = format!("column {} of table {}", table.columns[column].name, table.name);
    let users = users(cx, table, column).await?;
    let detail = |view: &Arc<View>| format!("{} depends on {what}", view.described());
    if !cascade && !users.is_empty() {
        return Err(depended_on(&what, &users.iter().map(detail).collect::<Vec<_>>()));
    }
    for view in users {
        cx.cascaded.push(view.described());
        drop_readers(cx, view.id, &view.described(), &[], true).await?;
        if of_id(cx, view.id).await?.is_some() {
            remove(cx, &view).await?;
        }
    }
    Ok(())
}

/// Fails with 0A000 if a view uses a column that is to be changed.
pub(super) async fn refuse_changed(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
    message: &str,
) -> Result<(), SqlError> {
    let name = &table.columns[column].name;
    match users(cx, table, column).await?.first() {
        None => Ok(()),
        Some(view) => Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
            .detail(format!("The view \"{}\" uses the column \"{name}\".", view.name))
            .hint("Drop the view, and create it again.")),
    }
}
