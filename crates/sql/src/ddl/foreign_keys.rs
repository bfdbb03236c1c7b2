//! ADD and DROP of foreign keys, and their part in ALTER TYPE, TRUNCATE and DROP TABLE.

use super::rows::all_rows;
use super::{Ddl, change, comments, constraints, depended_on, generated, open};
use crate::cast::{self, Coercion};
use crate::catalog::{self, Table};
use crate::constraint::{
    Action, ForeignKey, Obligation, Obligations, Referred, Written, check_all,
};
use crate::error::{SqlError, state};
use crate::index::Index;
use crate::names;
use crate::temporary::is_temporary;
use crate::types::Type;
use meridian_txn::Lock;
use sqlparser::ast;
use std::sync::Arc;

fn action(given: Option<ast::ReferentialAction>) -> Action {
    match given {
        None | Some(ast::ReferentialAction::NoAction) => Action::NoAction,
        Some(ast::ReferentialAction::Restrict) => Action::Restrict,
        Some(ast::ReferentialAction::Cascade) => Action::Cascade,
        Some(ast::ReferentialAction::SetNull) => Action::SetNull,
        Some(ast::ReferentialAction::SetDefault) => Action::SetDefault,
    }
}

/// Returns the numbers of columns that a foreign key names.
fn columns_of(table: &Table, named: &[ast::Ident]) -> Result<Vec<u32>, SqlError> {
    let mut columns = Vec::with_capacity(named.len());
    for ident in named {
        let name = names::fold(ident);
        let Some(column) = table.column(&name) else {
            let message =
                format!("column \"{name}\" referenced in foreign key constraint does not exist");
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message));
        };
        columns.push(column as u32);
    }
    Ok(columns)
}

/// True if a column of one type may refer to one of another: its values are among those, or have
/// the same order.
fn comparable(from: Type, to: Type) -> bool {
    let is_integer = |ty| matches!(ty, Type::Int2 | Type::Int4 | Type::Int8);
    cast::is_implicit(from, to) || (is_integer(from) && is_integer(to))
}

/// Fails with 42804 unless some columns of a child may refer to those of a parent, and with 0A000
/// if their values are compared by the zone of a session.
fn check_comparable(
    name: &str,
    (child, columns): (&Table, &[u32]),
    (parent, key): (&Table, &[u32]),
) -> Result<(), SqlError> {
    for (from, to) in columns.iter().zip(key) {
        let (from, to) = (&child.columns[*from as usize], &parent.columns[*to as usize]);
        if !comparable(from.ty, to.ty) {
            let message = format!("foreign key constraint \"{name}\" cannot be implemented");
            return Err(SqlError::new(state::TYPE_MISMATCH, message).detail(format!(
                "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                from.name,
                to.name,
                from.ty.name(),
                to.ty.name()
            )));
        }
        if Coercion::of(Some(from.ty), to.ty, false).is_stable {
            let (from, to) = (from.ty.name(), to.ty.name());
            return Err(SqlError::unsupported(format!(
                "a foreign key from {from} to {to}, whose values are equal in one TimeZone only,"
            )));
        }
    }
    Ok(())
}

/// Fails with 42830 unless a key of the table has exactly these columns, and with 55000 if that key
/// is DEFERRABLE.
fn check_key(parent: &Table, key: &[u32]) -> Result<(), SqlError> {
    if parent.keys_of(key).next().is_some() {
        return Ok(());
    }
    if parent.indexes.iter().any(|index| index.deferrable.is_some() && index.has_columns(key)) {
        let name = &parent.name;
        let message =
            format!("cannot use a deferrable unique constraint for referenced table \"{name}\"");
        return Err(SqlError::new(state::NOT_IN_STATE, message));
    }
    let message = format!(
        "there is no unique constraint matching given keys for referenced table \"{}\"",
        parent.name
    );
    Err(SqlError::new(state::INVALID_FOREIGN_KEY, message))
}

/// Declares a foreign key, that of a column if `column` is given. The caller checks the rows that
/// exist. Returns its number among those of the table.
pub(super) async fn add_foreign(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    added: &ast::ForeignKeyConstraint,
    name: Option<String>,
    column: Option<usize>,
    is_validated: bool,
) -> Result<usize, SqlError> {
    // A new table has a name already, and no descriptor.
    let parent = cx.relation(&names::relation(&added.foreign_table)?).await?;
    let own = parent.is_some_and(|parent| parent.id == table.id);
    let before = match own {
        true => Arc::new(table.clone()),
        false => open(cx, &added.foreign_table).await?,
    };
    check_persistence(table, &before)?;
    let columns = match column {
        Some(column) => vec![column as u32],
        None => columns_of(table, &added.columns)?,
    };
    let key = match (added.referred_columns.as_slice(), &before.primary) {
        ([], Some(primary)) => primary.columns.iter().map(|part| part.column).collect(),
        ([], None) => {
            let message =
                format!("there is no primary key for referenced table \"{}\"", before.name);
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        }
        (named, _) => columns_of(&before, named)?,
    };
    if key.len() != columns.len() {
        let message = "number of referencing and referenced columns for foreign key disagree";
        return Err(SqlError::new(state::INVALID_FOREIGN_KEY, message));
    }
    check_key(&before, &key)?;
    let name = match name {
        Some(name) if constraints::names_of(table).any(|other| other == name) => {
            return Err(constraints::exists(table, &name));
        }
        Some(name) => name,
        None => {
            let columns = columns.iter().map(|at| table.columns[*at as usize].name.as_str());
            let columns = columns.collect::<Vec<_>>().join("_");
            constraints::free(table, &columns, "fkey")
        }
    };
    check_comparable(&name, (table, &columns), (&before, &key))?;
    let deferrable = constraints::deferrable(added.characteristics.as_ref())?;
    let foreign = ForeignKey {
        id: cx.next_id_in(table.schema).await?,
        name,
        columns,
        parent: before.id,
        key,
        on_delete: action(added.on_delete),
        on_update: action(added.on_update),
        is_full: matches!(added.match_kind, Some(ast::ConstraintReferenceMatchKind::Full)),
        is_deferrable: deferrable.is_some(),
        is_deferred: deferrable == Some(true),
        is_validated,
    };
    comments::forget_parts(cx, table.id, &foreign.name).await?;
    generated::refuse_actions(table, &foreign)?;
    // Foreign keys are checked in the order of their names.
    let at = table.foreign.partition_point(|other| other.name < foreign.name);
    table.foreign.insert(at, foreign);
    if own {
        refer(table, table.id);
    } else {
        let mut parent = (*before).clone();
        refer(&mut parent, table.id);
        change(cx, &before, parent)?;
    }
    Ok(at)
}

/// Fails with 42P16 if one of a child and its parent is temporary, and the other is not.
fn check_persistence(child: &Table, parent: &Table) -> Result<(), SqlError> {
    let of = |table: &Table| if is_temporary(table.id) { "temporary" } else { "permanent" };
    let kind = of(child);
    if kind == of(parent) {
        return Ok(());
    }
    let message = format!("constraints on {kind} tables may reference only {kind} tables");
    Err(SqlError::new(state::INVALID_TABLE, message))
}

fn refer(parent: &mut Table, child: u32) {
    if !parent.referenced_by.contains(&child) {
        parent.referenced_by.push(child);
    }
}

/// Finds a table by its id, and locks its version until the transaction ends.
async fn table_of(cx: &mut Ddl<'_>, id: u32) -> Result<Option<Arc<Table>>, SqlError> {
    catalog::table_by_id(cx.txn, &cx.engine.cache, id, cx.clean, Lock::Exclusive).await
}

/// Removes a foreign key of a table, and the table from the parent's list, if it was the last one.
pub(super) async fn remove_foreign(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    at: usize,
) -> Result<(), SqlError> {
    let removed = table.foreign.remove(at);
    if table.foreign.iter().any(|foreign| foreign.parent == removed.parent) {
        return Ok(());
    }
    if removed.parent == table.id {
        table.referenced_by.retain(|id| *id != table.id);
        return Ok(());
    }
    let Some(before) = table_of(cx, removed.parent).await? else { return Ok(()) };
    let mut parent = (*before).clone();
    parent.referenced_by.retain(|id| *id != table.id);
    change(cx, &before, parent)
}

/// Before a key of a table is dropped: removes the foreign keys that refer to it, which is CASCADE,
/// or fails with 2BP01, unless the table has another key of the same columns.
pub(super) async fn free_key(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    key: &Index,
    what: &str,
    cascade: bool,
) -> Result<(), SqlError> {
    let Some(columns) = key.key_columns() else { return Ok(()) };
    if table.keys_of(&columns).nth(1).is_some() {
        return Ok(());
    }
    let of_key = |parent: u32, foreign: &ForeignKey| {
        foreign.parent == parent
            && foreign.key.len() == columns.len()
            && foreign.key.iter().all(|column| columns.contains(column))
    };
    let parent = table.id;
    for id in table.referenced_by.clone() {
        if id == table.id {
            while let Some(at) = table.foreign.iter().position(|it| of_key(parent, it)) {
                if !cascade {
                    return Err(depends(what, &table.foreign[at].name, &table.name, &key.name));
                }
                cx.cascaded.push(shown(&table.foreign[at], &table.name));
                remove_foreign(cx, table, at).await?;
            }
            continue;
        }
        let Some(before) = table_of(cx, id).await? else { continue };
        let Some(foreign) = before.foreign.iter().find(|it| of_key(parent, it)) else { continue };
        if !cascade {
            return Err(depends(what, &foreign.name, &before.name, &key.name));
        }
        let gone = before.foreign.iter().filter(|it| of_key(parent, it));
        cx.cascaded.extend(gone.map(|it| shown(it, &before.name)));
        let mut child = (*before).clone();
        child.foreign.retain(|it| !of_key(parent, it));
        if child.foreign.iter().all(|it| it.parent != parent) {
            table.referenced_by.retain(|other| *other != id);
        }
        change(cx, &before, child)?;
    }
    Ok(())
}

/// Names a foreign key, as one that CASCADE drops.
fn shown(foreign: &ForeignKey, table: &str) -> String {
    format!("constraint {} on table {table}", foreign.name)
}

fn depends(what: &str, foreign: &str, child: &str, key: &str) -> SqlError {
    depended_on(what, &[format!("constraint {foreign} on table {child} depends on index {key}")])
}

/// Fails with 42804 if a column, whose type has changed, is no longer of a type that a foreign key
/// can compare.
pub(super) async fn check_types(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
) -> Result<(), SqlError> {
    for (child, parent, number) in with_column(cx, table, column).await? {
        let foreign = &child.foreign[number];
        check_comparable(&foreign.name, (&child, &foreign.columns), (&parent, &foreign.key))?;
    }
    Ok(())
}

/// Checks the rows that exist for the foreign keys of a column whose values have changed, and for
/// those that refer to it.
pub(super) async fn check_column(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
) -> Result<(), SqlError> {
    for (child, parent, number) in with_column(cx, table, column).await? {
        if child.foreign[number].is_validated {
            check_rows(cx, &child, &parent, number).await?;
        }
    }
    Ok(())
}

/// The foreign keys that a column is part of, as children, parents, and numbers in the children.
async fn with_column(
    cx: &mut Ddl<'_>,
    table: &Table,
    column: usize,
) -> Result<Vec<(Arc<Table>, Arc<Table>, usize)>, SqlError> {
    let (own, column) = (Arc::new(table.clone()), column as u32);
    let mut found = Vec::new();
    for (number, foreign) in table.foreign.iter().enumerate() {
        if foreign.columns.contains(&column) {
            let parent = parent_of(cx, &own, foreign).await?;
            found.push((own.clone(), parent, number));
        }
    }
    for id in &table.referenced_by {
        let child = if *id == table.id { Some(own.clone()) } else { table_of(cx, *id).await? };
        let Some(child) = child else { continue };
        for (number, foreign) in child.foreign.iter().enumerate() {
            if foreign.parent == table.id && foreign.key.contains(&column) {
                found.push((child.clone(), own.clone(), number));
            }
        }
    }
    Ok(found)
}

async fn parent_of(
    cx: &mut Ddl<'_>,
    child: &Arc<Table>,
    foreign: &ForeignKey,
) -> Result<Arc<Table>, SqlError> {
    if foreign.parent == child.id {
        return Ok(child.clone());
    }
    let found = table_of(cx, foreign.parent).await?;
    found.ok_or_else(|| SqlError::corrupted("a foreign key without a table"))
}

/// Before a table is dropped with `others`: removes the foreign keys that refer to it, which is
/// CASCADE, or fails with 2BP01; and removes it from the lists of those that it refers to.
pub(super) async fn drop_references(
    cx: &mut Ddl<'_>,
    table: &Table,
    others: &[u32],
    cascade: bool,
) -> Result<(), SqlError> {
    for id in &table.referenced_by {
        if *id == table.id || others.contains(id) {
            continue;
        }
        let Some(before) = table_of(cx, *id).await? else { continue };
        let mut child = (*before).clone();
        if !cascade {
            let refers = |foreign: &&ForeignKey| foreign.parent == table.id;
            let details = child.foreign.iter().filter(refers).map(|foreign| {
                format!(
                    "constraint {} on table {} depends on table {}",
                    foreign.name, child.name, table.name
                )
            });
            let what = format!("table {}", table.name);
            return Err(depended_on(&what, &details.collect::<Vec<_>>()));
        }
        let gone = before.foreign.iter().filter(|foreign| foreign.parent == table.id);
        cx.cascaded.extend(gone.map(|foreign| shown(foreign, &before.name)));
        child.foreign.retain(|foreign| foreign.parent != table.id);
        change(cx, &before, child)?;
    }
    let mut parents: Vec<u32> = table.foreign.iter().map(|foreign| foreign.parent).collect();
    parents.sort_unstable();
    parents.dedup();
    for id in parents.into_iter().filter(|id| *id != table.id && !others.contains(id)) {
        let Some(before) = table_of(cx, id).await? else { continue };
        let mut parent = (*before).clone();
        parent.referenced_by.retain(|id| *id != table.id);
        change(cx, &before, parent)?;
    }
    Ok(())
}

/// Returns the tables that are truncated with some: those that refer to them, with CASCADE. Fails
/// with 0A000 if there are any without it.
pub(super) async fn truncated_with(
    cx: &mut Ddl<'_>,
    tables: Vec<Arc<Table>>,
    cascade: bool,
) -> Result<Vec<Arc<Table>>, SqlError> {
    let mut all = tables;
    let mut at = 0;
    while at < all.len() {
        let table = all[at].clone();
        at += 1;
        for id in &table.referenced_by {
            if all.iter().any(|other| other.id == *id) {
                continue;
            }
            let Some(child) = table_of(cx, *id).await? else { continue };
            if !cascade {
                let message = "cannot truncate a table referenced in a foreign key constraint";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
                    .detail(format!("Table \"{}\" references \"{}\".", child.name, table.name))
                    .hint(format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name
                    )));
            }
            let message = format!("truncate cascades to table \"{}\"", child.name);
            cx.notices.push(SqlError::new(state::SUCCESSFUL, message));
            all.push(child);
        }
    }
    Ok(all)
}

/// Checks the rows that exist for a foreign key, by its number among those of the table.
pub(super) async fn check_foreign(
    cx: &mut Ddl<'_>,
    table: &Table,
    number: usize,
) -> Result<(), SqlError> {
    let child = Arc::new(table.clone());
    let parent = parent_of(cx, &child, &table.foreign[number]).await?;
    check_rows(cx, &child, &parent, number).await
}

async fn check_rows(
    cx: &mut Ddl<'_>,
    child: &Arc<Table>,
    parent: &Arc<Table>,
    number: usize,
) -> Result<(), SqlError> {
    let foreign = &child.foreign[number];
    let mut wanted = vec![false; child.columns.len()];
    foreign.columns.iter().for_each(|column| wanted[*column as usize] = true);
    let mut cursor = all_rows(cx.txn, child);
    let mut seen = Obligations::new();
    loop {
        let found = cursor.next(cx.txn, child, &wanted, Lock::Shared, 4000).await?;
        if found.is_empty() {
            break;
        }
        for found in found {
            foreign.check_full(child, &found.row)?;
            if let Some(values) = foreign.values(&found.row) {
                let it = Obligation::Referred(Referred::of_child(child, parent, number, values));
                seen.entry(it.id()).or_insert(it);
            }
        }
    }
    check_all(&seen, cx.txn, Written::Stays, cx.facts.zone()).await
}
