//! CREATE TABLE: columns and keys.

use super::index::{add_index, parts};
use super::like::model;
use super::stored::{self, stored};
use super::{
    Ddl, check_row_type, comments, constraints, duplicate, foreign_keys, free_name, generated,
    refuse_temporary_sequences, sequences, users,
};
use crate::catalog::{self, ColumnDef, Comments, Identity, Table};
use crate::clauses;
use crate::collation;
use crate::domain::Domain;
use crate::error::{SqlError, state};
use crate::index::{Index, IndexPart};
use crate::like::{self, Like};
use crate::materialized::Materialized;
use crate::names;
use crate::sequence::{self, Options};
use crate::temporary;
use crate::types::Type;
use sqlparser::ast::{self, ColumnOption, DataType, TableConstraint};

pub(super) async fn create_table(
    cx: &mut Ddl<'_>,
    create: &ast::CreateTable,
    likes: &[Like],
    query: Option<Materialized>,
) -> Result<(), SqlError> {
    let name = names::relation(&create.name)?;
    let schema = cx.place_relation(&name, create.temporary).await?;
    let name = name.name;
    if create.on_commit.is_some() && !temporary::is_temporary(schema) {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(SqlError::new(state::INVALID_TABLE, message));
    }
    if catalog::relation_in(cx.txn, schema, &name).await?.is_some() {
        if !create.if_not_exists {
            return Err(duplicate(&name));
        }
        cx.skip_existing(&name);
        return Ok(());
    }
    check_row_type(cx, schema, &name).await?;
    let (mut columns, mut given, mut defs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut rest, mut models) = (likes.iter(), Vec::new());
    for def in &create.columns {
        if like::stands_for_one(def)
            && let Some(one) = rest.next()
        {
            let model = model(cx, one).await?;
            for (column, takes) in model.columns(cx).await? {
                columns.push(column);
                given.push(takes);
            }
            models.push(model);
        } else {
            let (column, takes) = column_def(cx, def, &name).await?;
            defs.push((columns.len(), def));
            columns.push(column);
            given.push(takes);
        }
    }
    clauses::check_columns(columns.len())?;
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
    }
    let id = cx.next_id_in(schema).await?;
    let mut table = Table::new(id, &name, columns);
    table.schema = schema;
    catalog::put_name(cx.txn, schema, &name, id, id)?;
    for (at, given) in given.into_iter().enumerate() {
        if let Some(Given { identity, options }) = given {
            sequences::give(cx, &mut table, at, identity, &options).await?;
        }
    }
    (0..table.columns.len()).try_for_each(|at| stored::check_default(cx, &table, at))?;
    for (at, def) in &defs {
        generated::check(&table, *at, def, &cx.types)?;
    }
    table.bind_stored()?;
    for (at, def) in &defs {
        let part = || vec![IndexPart::ascending(*at as u32)];
        for option in &def.options {
            let named = option.name.as_ref().map(names::fold);
            match &option.option {
                ColumnOption::PrimaryKey(_) => set_primary(cx, &mut table, part(), named).await?,
                ColumnOption::Unique(key) => {
                    let index = unique_of(part(), key)?;
                    add_unique(cx, &mut table, index, named).await?;
                }
                _ => {}
            }
        }
    }
    for (_, def) in &defs {
        for (name, expr) in constraints::checks_of_column(def) {
            constraints::add_check(cx, &mut table, name, expr, true).await?;
        }
    }
    for constraint in &create.constraints {
        add_constraint(cx, &mut table, constraint).await?;
    }
    let mut comments = Comments::default();
    for model in &models {
        model.finish(cx, &mut table, &mut comments).await?;
    }
    if comments != Comments::default() {
        catalog::put_comments(cx.txn, id, &comments)?;
    }
    // They may refer to the table's own keys.
    for constraint in &create.constraints {
        if let TableConstraint::ForeignKey(foreign) = constraint {
            let name = foreign.name.as_ref().map(names::fold);
            foreign_keys::add_foreign(cx, &mut table, foreign, name, None, true).await?;
        }
    }
    for (at, def) in &defs {
        for (name, foreign) in constraints::references_of_column(def) {
            foreign_keys::add_foreign(cx, &mut table, foreign, name, Some(*at), true).await?;
        }
    }
    refuse_temporary_sequences(&table)?;
    if let Some(action) = temporary::on_commit(create.on_commit.as_ref()) {
        temporary::set_on_commit(cx.txn, id, action)?;
    }
    table.settle();
    for read in query.iter().flat_map(|query| &query.reads) {
        users::add(cx, *read, table.id)?;
    }
    table.query = query;
    users::settle_types(cx, table.id, &[], &table.user_types())?;
    catalog::put_table(cx.txn, table)
}

/// Declares a constraint of a new table, other than a foreign key.
async fn add_constraint(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    constraint: &TableConstraint,
) -> Result<(), SqlError> {
    match constraint {
        TableConstraint::ForeignKey(_) => {}
        TableConstraint::Check(check) => {
            let name = check.name.as_ref().map(names::fold);
            constraints::add_check(cx, table, name, &check.expr, true).await?;
        }
        TableConstraint::PrimaryKey(key) => {
            let parts = parts(table, &key.columns)?;
            set_primary(cx, table, parts, key.name.as_ref().map(names::fold)).await?;
        }
        TableConstraint::Unique(key) => {
            let index = unique_of(parts(table, &key.columns)?, key)?;
            add_unique(cx, table, index, key.name.as_ref().map(names::fold)).await?;
        }
        other => return Err(SqlError::unsupported(format!("the constraint {other}"))),
    }
    Ok(())
}

/// The sequence that a new column takes its values from.
pub(super) struct Given {
    pub(super) identity: Option<Identity>,
    pub(super) options: Options,
}

/// Returns the integer that `serial` and its kind stand for.
fn serial(ty: &DataType) -> Option<Type> {
    let DataType::Custom(name, modifiers) = ty else { return None };
    if !modifiers.is_empty() || name.0.len() != 1 {
        return None;
    }
    match names::function_name(name).as_str() {
        "smallserial" | "serial2" => Some(Type::Int2),
        "serial" | "serial4" => Some(Type::Int4),
        "bigserial" | "serial8" => Some(Type::Int8),
        _ => None,
    }
}

/// Returns the type of a column, and its domain. Fails with 0A000 if no table stores its values,
/// with 42P16 for a pseudo-type.
pub(super) fn column_type(
    cx: &Ddl<'_>,
    name: &str,
    data_type: &ast::DataType,
) -> Result<(Type, Option<Domain>), SqlError> {
    let found = names::declared_type(data_type, &cx.types)?;
    if is_pseudo(found.0) {
        let message = format!("column \"{name}\" has pseudo-type {}", found.0);
        return Err(SqlError::new(state::INVALID_TABLE, message));
    }
    check_stored(found.0)?;
    Ok(found)
}

/// True for a type that has no values of its own.
pub(super) fn is_pseudo(ty: Type) -> bool {
    ty == Type::Void || ty.is_anonymous()
}

/// Fails with 0A000 if no table stores the values of a type.
pub(super) fn check_stored(ty: Type) -> Result<(), SqlError> {
    match ty {
        _ if ty.is_of_system() => Err(SqlError::unsupported(format!("a column of type {ty}"))),
        _ if ty.is_row_of_table() => {
            Err(SqlError::unsupported(format!("a column of {ty}, the row type of a table,")))
        }
        _ => Ok(()),
    }
}

const BOTH_DEFAULT: &str = "both default and generation expression specified";
const BOTH_IDENTITY: &str = "both identity and generation expression specified";

/// The columns that every table has in PostgreSQL.
const SYSTEM_COLUMNS: [&str; 6] = ["cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"];

/// Fails with 42701 if a column would have the name of a system column.
pub(super) fn check_column_name(name: &str) -> Result<(), SqlError> {
    if !SYSTEM_COLUMNS.contains(&name) {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(SqlError::new(state::DUPLICATE_COLUMN, message))
}

/// Returns a column, and the sequence that it is to get.
pub(super) async fn column_def(
    cx: &mut Ddl<'_>,
    def: &ast::ColumnDef,
    table: &str,
) -> Result<(ColumnDef, Option<Given>), SqlError> {
    let serial = serial(&def.data_type);
    let name = names::fold(&def.name);
    check_column_name(&name)?;
    let (ty, domain) =
        serial.map_or_else(|| column_type(cx, &name, &def.data_type), |ty| Ok((ty, None)))?;
    let mut column = ColumnDef::new(&name, ty);
    column.domain = domain;
    let mut given = serial.map(|_| Given { identity: None, options: Options::default() });
    let wrong = |column: &ColumnDef, what: &str| {
        let message = format!("{what} for column \"{}\" of table \"{table}\"", column.name);
        SqlError::new(state::SYNTAX, message)
    };
    for option in &def.options {
        match &option.option {
            ColumnOption::NotNull | ColumnOption::PrimaryKey(_) => column.not_null = true,
            ColumnOption::Default(_) if given.as_ref().is_some_and(|it| it.identity.is_some()) => {
                return Err(wrong(&column, "both default and identity specified"));
            }
            ColumnOption::Default(_) if given.is_some() || column.default.is_some() => {
                return Err(wrong(&column, "multiple default values specified"));
            }
            ColumnOption::Default(_) if column.generated.is_some() => {
                return Err(wrong(&column, BOTH_DEFAULT));
            }
            ColumnOption::Default(expr) => column.default = Some(stored(cx, expr).await?),
            ColumnOption::DialectSpecific(tokens) => {
                if column.default.is_some() || serial.is_some() {
                    return Err(wrong(&column, "both default and identity specified"));
                }
                if column.generated.is_some() {
                    return Err(wrong(&column, BOTH_IDENTITY));
                }
                if given.is_some() {
                    return Err(wrong(&column, "multiple identity specifications"));
                }
                let (always, options) = sequence::identity(tokens)?;
                given = Some(Given { identity: Some(sequences::kind(always)), options });
            }
            ColumnOption::Generated { generation_expr: Some(expr), .. } => {
                let what = match &given {
                    _ if column.generated.is_some() => "multiple generation clauses specified",
                    Some(Given { identity: Some(_), .. }) => BOTH_IDENTITY,
                    given if given.is_some() || column.default.is_some() => BOTH_DEFAULT,
                    _ => {
                        column.generated = Some(generated::text(expr, &cx.types));
                        continue;
                    }
                };
                return Err(wrong(&column, what));
            }
            ColumnOption::Collation(name) => {
                column.collation = collation::of_type(name, ty)?;
            }
            ColumnOption::Null
            | ColumnOption::Unique(_)
            | ColumnOption::Check(_)
            | ColumnOption::ForeignKey(_) => {}
            other => return Err(SqlError::unsupported(format!("the column option {other}"))),
        }
    }
    let takes_null = |def: &ast::ColumnOptionDef| matches!(def.option, ColumnOption::Null);
    let rejects_null = |def: &ast::ColumnOptionDef| matches!(def.option, ColumnOption::NotNull);
    let is_not_null = given.is_some() || def.options.iter().any(rejects_null);
    if is_not_null && def.options.iter().any(takes_null) {
        return Err(wrong(&column, "conflicting NULL/NOT NULL declarations"));
    }
    column.not_null |= given.is_some();
    Ok((column, given))
}

/// Declares the primary key; the caller handles the rows.
pub(super) async fn set_primary(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    parts: Vec<IndexPart>,
    name: Option<String>,
) -> Result<(), SqlError> {
    if table.primary.is_some() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
        return Err(SqlError::new(state::INVALID_TABLE, message));
    }
    check_key_name(table, name.as_deref())?;
    for part in &parts {
        table.columns[part.column as usize].not_null = true;
    }
    let name = match name {
        Some(name) => name,
        None => free_name(cx, table.schema, (&table.name, ""), "pkey").await?,
    };
    cx.check_free(table.schema, &name).await?;
    let id = cx.next_id_in(table.schema).await?;
    catalog::put_name(cx.txn, table.schema, &name, id, table.id)?;
    comments::forget_parts(cx, table.id, &name).await?;
    let primary = Index::new(id, name, parts, true);
    primary.check_keys(table)?;
    table.primary = Some(primary);
    table.settle();
    Ok(())
}

/// Returns the index of a UNIQUE constraint over some columns, without id and name.
pub(super) fn unique_of(
    columns: Vec<IndexPart>,
    key: &ast::UniqueConstraint,
) -> Result<Index, SqlError> {
    let joins_nulls = key.nulls_distinct == ast::NullsDistinctOption::NotDistinct;
    let deferrable = constraints::deferrable(key.characteristics.as_ref())?;
    Ok(Index::of_unique(columns, joins_nulls, deferrable))
}

/// Fails with 42710 if a constraint that is no key has the name of a new key. Keys share names with
/// relations.
fn check_key_name(table: &Table, name: Option<&str>) -> Result<(), SqlError> {
    let checks = table.checks.iter().map(|check| check.name.as_str());
    let mut others = checks.chain(table.foreign.iter().map(|foreign| foreign.name.as_str()));
    match name.filter(|name| others.any(|other| other == *name)) {
        Some(name) => Err(constraints::exists(table, name)),
        None => Ok(()),
    }
}

/// Declares the index of a UNIQUE constraint; the caller writes its entries.
pub(super) async fn add_unique(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    index: Index,
    name: Option<String>,
) -> Result<(), SqlError> {
    check_key_name(table, name.as_deref())?;
    add_index(cx, table, index, name, "key").await
}
