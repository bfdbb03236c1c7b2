//! ADD, DROP, RENAME and VALIDATE CONSTRAINT.

use super::index::{fill, parts, remove_index, rename_index, unqualified};
use super::rows::{Move, check_rows, rewrite};
use super::{Ddl, comments, create, foreign_keys, stored};
use crate::bind::Binder;
use crate::catalog::Table;
use crate::constraint::{self, Check};
use crate::error::{SqlError, state};
use crate::index::{Index, IndexPart};
use crate::kv;
use crate::names;
use sqlparser::ast::{self, TableConstraint};

/// Runs ADD CONSTRAINT: declares the constraint, and checks the rows that exist, unless it is NOT
/// VALID.
pub(super) async fn add(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    constraint: &TableConstraint,
    not_valid: bool,
) -> Result<(), SqlError> {
    match constraint {
        TableConstraint::Check(check) => {
            let name = check.name.as_ref().map(names::fold);
            let number = add_check(cx, table, name, &check.expr, !not_valid).await?;
            if !not_valid {
                check_rows(cx, table, &table.checks[number]).await?;
            }
        }
        TableConstraint::ForeignKey(foreign) => {
            let name = foreign.name.as_ref().map(names::fold);
            let number =
                foreign_keys::add_foreign(cx, table, foreign, name, None, !not_valid).await?;
            if !not_valid {
                foreign_keys::check_foreign(cx, table, number).await?;
            }
        }
        _ if not_valid => return Err(SqlError::unsupported("NOT VALID")),
        TableConstraint::PrimaryKey(key) => {
            let (parts, name) = (parts(table, &key.columns)?, key.name.as_ref().map(names::fold));
            add_primary(cx, table, parts, name).await?;
        }
        TableConstraint::Unique(key) => {
            let index = create::unique_of(parts(table, &key.columns)?, key)?;
            add_unique(cx, table, index, key.name.as_ref().map(names::fold)).await?;
        }
        other => return Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
    Ok(())
}

/// Declares the primary key of a table that exists, and rewrites the rows.
pub(super) async fn add_primary(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    parts: Vec<IndexPart>,
    name: Option<String>,
) -> Result<(), SqlError> {
    let old = table.clone();
    create::set_primary(cx, table, parts, name).await?;
    rewrite(cx, &old, table, &Move::Fill).await
}

/// Declares a UNIQUE constraint of a table that exists, and writes the entries of its index.
pub(super) async fn add_unique(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    index: Index,
    name: Option<String>,
) -> Result<(), SqlError> {
    create::add_unique(cx, table, index, name).await?;
    fill(cx, table).await
}

/// Returns whether a constraint that is DEFERRABLE is INITIALLY DEFERRED; `None` if it is not
/// DEFERRABLE.
pub(super) fn deferrable(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> Result<Option<bool>, SqlError> {
    let deferrable = characteristics.and_then(|it| it.deferrable);
    let initially = characteristics.and_then(|it| it.initially);
    let is_deferred = matches!(initially, Some(ast::DeferrableInitial::Deferred));
    if is_deferred && deferrable == Some(false) {
        let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(SqlError::new(state::SYNTAX, message));
    }
    Ok((is_deferred || deferrable == Some(true)).then_some(is_deferred))
}

/// Returns the options of a column that are CHECK constraints.
pub(super) fn checks_of_column(
    def: &ast::ColumnDef,
) -> impl Iterator<Item = (Option<String>, &ast::Expr)> {
    def.options.iter().filter_map(|option| match &option.option {
        ast::ColumnOption::Check(check) => {
            let name = option.name.as_ref().or(check.name.as_ref()).map(names::fold);
            Some((name, &*check.expr))
        }
        _ => None,
    })
}

/// Returns the options of a column that are foreign keys.
pub(super) fn references_of_column(
    def: &ast::ColumnDef,
) -> impl Iterator<Item = (Option<String>, &ast::ForeignKeyConstraint)> {
    def.options.iter().filter_map(|option| match &option.option {
        ast::ColumnOption::ForeignKey(foreign) => {
            Some((option.name.as_ref().map(names::fold), foreign))
        }
        _ => None,
    })
}

/// The constraints of a table by name.
pub(super) fn names_of(table: &Table) -> impl Iterator<Item = &str> {
    let keys = table.constraints().map(|index| index.name.as_str());
    keys.chain(table.checks.iter().map(|check| check.name.as_str()))
        .chain(table.foreign.iter().map(|foreign| foreign.name.as_str()))
}

/// Returns 42710: a constraint of the name exists.
pub(super) fn exists(table: &Table, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
    SqlError::new(state::DUPLICATE_OBJECT, message)
}

/// Returns a name that no constraint of the table has: with that of the table, and `second` if that
/// is not empty.
pub(super) fn free(table: &Table, second: &str, label: &str) -> String {
    let mut name = names::made(&table.name, second, label);
    let mut number = 1;
    while names_of(table).any(|other| other == name) {
        name = names::made(&table.name, second, &format!("{label}{number}"));
        number += 1;
    }
    name
}

/// Returns a name for a condition: with that of its column, if it names one.
fn check_name(table: &Table, columns: &[usize]) -> String {
    let column = match columns {
        [column] => table.columns[*column].name.as_str(),
        _ => "",
    };
    free(table, column, "check")
}

/// Declares a CHECK constraint. The caller checks the rows that exist. Returns its number among
/// those of the table.
pub(super) async fn add_check(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    name: Option<String>,
    expr: &ast::Expr,
    is_validated: bool,
) -> Result<usize, SqlError> {
    if let Some(name) = &name
        && names_of(table).any(|other| other == name)
    {
        return Err(exists(table, name));
    }
    // As it is written: only the table itself may qualify a column.
    let mut binder = Binder::stored();
    binder.types.clone_from(&cx.types);
    binder.add(table.columns_alone(), &table.name);
    binder.begin_clause("check constraints", false);
    binder.bind_bool(expr, "CHECK")?;
    let text = unqualified(expr, &cx.types);
    let mut check =
        Check::new(cx.next_id_in(table.schema).await?, String::new(), text, is_validated);
    check.bind(&table.columns_alone())?;
    stored::refuse_zone(cx, check.reads_zone)?;
    check.name = name.unwrap_or_else(|| check_name(table, &check.columns()));
    comments::forget_parts(cx, table.id, &check.name).await?;
    Ok(insert_check(table, check))
}

/// Adds a constraint among those of a table, which are checked in the order of their names. Returns
/// its number.
pub(super) fn insert_check(table: &mut Table, check: Check) -> usize {
    let at = table.checks.partition_point(|other| other.name < check.name);
    table.checks.insert(at, check);
    at
}

fn missing(table: &Table, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    SqlError::new(state::UNDEFINED_OBJECT, message)
}

/// Drops a constraint, and rewrites the rows if it was their key.
pub(super) async fn drop_constraint(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    if let Some(at) = table.checks.iter().position(|check| check.name == name) {
        table.checks.remove(at);
        return Ok(());
    }
    if let Some(at) = table.foreign.iter().position(|foreign| foreign.name == name) {
        return foreign_keys::remove_foreign(cx, table, at).await;
    }
    let is_key = |index: &Index| index.is_constraint() && index.name == name;
    let key = table.constraints().find(|index| index.name == name).cloned();
    if let Some(key) = key {
        let what = format!("constraint {name} on table {}", table.name);
        foreign_keys::free_key(cx, table, &key, &what, cascade).await?;
    }
    if let Some(at) = table.indexes.iter().position(is_key) {
        return remove_index(cx, table, at);
    }
    if table.primary.as_ref().is_some_and(|primary| primary.name == name) {
        let old = table.clone();
        remove_primary(cx, table)?;
        return rewrite(cx, &old, table, &Move::Fill).await;
    }
    if !if_exists {
        return Err(missing(table, name));
    }
    cx.skip_of("constraint", name, table);
    Ok(())
}

/// Removes the primary key. The caller rewrites the rows.
pub(super) fn remove_primary(cx: &mut Ddl<'_>, table: &mut Table) -> Result<(), SqlError> {
    match table.primary.take() {
        Some(primary) => Ok(cx.txn.put(kv::name_key(table.schema, &primary.name), None)?),
        None => Ok(()),
    }
}

/// Renames a constraint, with the index of a key.
pub(super) async fn rename_constraint(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    old: &str,
    new: &str,
) -> Result<(), SqlError> {
    if names_of(table).all(|other| other != old) {
        return Err(constraint::missing(&table.name, old));
    }
    if names_of(table).any(|other| other == new) {
        return Err(exists(table, new));
    }
    if let Some(check) = table.checks.iter_mut().find(|check| check.name == old) {
        check.name = new.into();
        table.checks.sort_by(|a, b| a.name.cmp(&b.name));
        return comments::rename_parts(cx, table.id, old, new).await;
    }
    if let Some(foreign) = table.foreign.iter_mut().find(|foreign| foreign.name == old) {
        foreign.name = new.into();
        table.foreign.sort_by(|a, b| a.name.cmp(&b.name));
        return comments::rename_parts(cx, table.id, old, new).await;
    }
    rename_index(cx, table, old, new).await
}

/// Checks the rows that exist for a constraint that was added with NOT VALID.
pub(super) async fn validate(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    name: &str,
) -> Result<(), SqlError> {
    if let Some(at) = table.foreign.iter().position(|foreign| foreign.name == name) {
        foreign_keys::check_foreign(cx, table, at).await?;
        table.foreign[at].is_validated = true;
        return Ok(());
    }
    let Some(at) = table.checks.iter().position(|check| check.name == name) else {
        if table.constraints().any(|index| index.name == name) {
            let message = format!(
                "constraint \"{name}\" of relation \"{}\" is not a foreign key or check constraint",
                table.name
            );
            return Err(SqlError::new(state::WRONG_OBJECT, message));
        }
        return Err(missing(table, name));
    };
    check_rows(cx, table, &table.checks[at]).await?;
    table.checks[at].is_validated = true;
    Ok(())
}
