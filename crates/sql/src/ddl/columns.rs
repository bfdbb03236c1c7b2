//! The columns of a table that exists: added, changed, renamed, dropped.
//!
//! A column that is dropped keeps its number, so that rows stay as they are; its values go when
//! their rows are written. One that is added has, in rows from before it, a value that the
//! descriptor holds. ALTER TABLE rewrites the rows only for a new column whose values differ from
//! row to row, and for a type that stores or computes other values.

use super::create::{self, Given, column_def, column_type, unique_of};
use super::index::remove_index;
use super::rows::{Move, check_rows, has_nulls, has_rows, refuse_nulls, rewrite};
use super::stored::{self, foreign_type, stored};
use super::{Ddl, comments, constraints, foreign_keys, generated, sequences, views};
use crate::bind::{self, Binder};
use crate::carried;
use crate::cast::{self, Coercion};
use crate::catalog::Table;
use crate::clauses;
use crate::collation;
use crate::datetime;
use crate::datum::Datum;
use crate::domain::Domain;
use crate::effects;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Scope};
use crate::index::{Index, IndexPart};
use crate::names;
use crate::notice;
use crate::parse;
use crate::statistics;
use crate::system::quoted;
use crate::types::Type;
use sqlparser::ast::{self, AlterColumnOperation};
use sqlparser::keywords::ALL_KEYWORDS;

fn exists(table: &Table, name: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
    SqlError::new(state::DUPLICATE_COLUMN, message)
}

fn number_of(table: &Table, ident: &ast::Ident) -> Result<usize, SqlError> {
    Ok(bind::target_columns(table, std::slice::from_ref(ident))?[0])
}

/// Adds a column, with its constraints.
pub(super) async fn add(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    def: &ast::ColumnDef,
    if_not_exists: bool,
) -> Result<(), SqlError> {
    let (mut column, given) = column_def(cx, def, &table.name).await?;
    if table.column(&column.name).is_some() {
        if !if_not_exists {
            return Err(exists(table, &column.name));
        }
        let error = exists(table, &column.name);
        cx.notices.push(notice::skipping(error));
        return Ok(());
    }
    clauses::check_columns(table.columns.len() + 1)?;
    let old = table.clone();
    let at = table.columns.len();
    table.columns.push(column.clone());
    stored::check_default(cx, table, at)?;
    generated::check(table, at, def, &cx.types)?;
    table.bind_stored()?;
    let default = Binder::new(&[]).defaults(table)?.pop().unwrap_or(Expr::Const(Datum::Null));
    if given.is_some() || default.is_volatile() || column.generated.is_some() {
        if let Some(Given { identity, options }) = given {
            sequences::give(cx, table, at, identity, &options).await?;
        }
        rewrite(cx, &old, table, &Move::Fill).await?;
    } else {
        let now_us = datetime::from_unix_ns(cx.txn.began().earliest);
        let scope = Scope { params: &[], now_us, session: cx.facts, catalog: None, effects: None };
        let value = effects::evaluate(&[default], &[], &scope, cx.txn).await?.remove(0);
        if let Some(domain) = column.domain
            && has_rows(cx, &old).await?
        {
            domain.check(&value, cx.facts)?;
        }
        if column.not_null && value.is_null() && has_rows(cx, &old).await? {
            return Err(has_nulls(table, &column.name));
        }
        column.fill(value);
        table.columns[at] = column;
    }
    table.settle();
    let part = || vec![IndexPart::ascending(at as u32)];
    for option in &def.options {
        let named = option.name.as_ref().map(names::fold);
        match &option.option {
            ast::ColumnOption::PrimaryKey(_) => {
                constraints::add_primary(cx, table, part(), named).await?;
            }
            ast::ColumnOption::Unique(key) => {
                let index = unique_of(part(), key)?;
                constraints::add_unique(cx, table, index, named).await?;
            }
            _ => {}
        }
    }
    for (name, foreign) in constraints::references_of_column(def) {
        let number = foreign_keys::add_foreign(cx, table, foreign, name, Some(at), true).await?;
        foreign_keys::check_foreign(cx, table, number).await?;
    }
    for (name, expr) in constraints::checks_of_column(def) {
        let number = constraints::add_check(cx, table, name, expr, true).await?;
        check_rows(cx, table, &table.checks[number]).await?;
    }
    Ok(())
}

/// Runs ALTER COLUMN.
pub(super) async fn alter(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    ident: &ast::Ident,
    op: &AlterColumnOperation,
) -> Result<(), SqlError> {
    let column = number_of(table, ident)?;
    if let AlterColumnOperation::SetDefault { value } = op
        && let Some(if_exists) = carried::drops_expression(value)
    {
        return generated::drop_expression(table, column, if_exists);
    }
    let is_of_identity = matches!(
        op,
        AlterColumnOperation::SetDefault { .. }
            | AlterColumnOperation::DropDefault
            | AlterColumnOperation::DropNotNull
    );
    let (name, relation) = (&table.columns[column].name, &table.name);
    if table.columns[column].identity.is_some() && is_of_identity {
        let message = format!("column \"{name}\" of relation \"{relation}\" is an identity column");
        let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.";
        return Err(SqlError::new(state::SYNTAX, message).hint(hint));
    }
    let is_part = |index: &Index| index.columns.iter().any(|part| part.column() == Some(column));
    match op {
        AlterColumnOperation::SetDefault { value } => {
            generated::refuse_default(table, column, false)?;
            let text = stored(cx, value).await?;
            table.columns[column].default = Some(text);
            stored::check_default(cx, table, column)?;
        }
        AlterColumnOperation::DropDefault => {
            generated::refuse_default(table, column, true)?;
            table.columns[column].default = None;
        }
        AlterColumnOperation::DropNotNull if table.primary.as_ref().is_some_and(is_part) => {
            let message = format!("column \"{name}\" is in a primary key");
            return Err(SqlError::new(state::INVALID_TABLE, message));
        }
        AlterColumnOperation::DropNotNull => table.columns[column].not_null = false,
        AlterColumnOperation::SetNotNull => {
            refuse_nulls(cx, table, column).await?;
            table.columns[column].not_null = true;
        }
        AlterColumnOperation::SetDataType { data_type, using, had_set: _ } => {
            let (ty, domain) = column_type(cx, name, data_type)?;
            let collation = collation_of(cx, name, ty)?;
            generated::refuse_type(table, column, using.is_some())?;
            let def = &table.columns[column];
            let is_collated = collation != def.collation;
            if (ty, domain) != (def.ty, def.domain) || is_collated || using.is_some() {
                let refused = "cannot alter type of a column used by a view or rule";
                views::refuse_changed(cx, table, column, refused).await?;
            }
            table.columns[column].collation = collation;
            set_type(cx, table, column, (ty, domain), using.as_ref()).await?;
        }
        other => return Err(SqlError::unsupported(format!("ALTER COLUMN {other}"))),
    }
    Binder::new(&[]).defaults(table)?;
    Ok(())
}

/// Returns the collation of a language that ALTER … TYPE … COLLATE gives a column. The texts and
/// the keys stay as they are.
fn collation_of(cx: &Ddl<'_>, column: &str, ty: Type) -> Result<Option<String>, SqlError> {
    let mut all = cx.collations.iter();
    let named = all.find(|(of, _)| names::fold(of) == column).map(|(_, name)| name);
    named.map_or(Ok(None), |name| collation::of_type(name, ty))
}

/// True if values of one type are stored as those of another, and stay the same values.
fn is_wider(from: Type, to: Type) -> bool {
    let rank = |ty| match ty {
        Type::Int2 => Some(1),
        Type::Int4 => Some(2),
        Type::Int8 => Some(3),
        _ => None,
    };
    match (from, to) {
        _ if from == to => true,
        (Type::Varchar(_), Type::Text | Type::Varchar(None)) => true,
        (Type::Text, Type::Varchar(None)) => true,
        (Type::Varbit(_), Type::Varbit(None)) => true,
        (Type::Varbit(Some(from)), Type::Varbit(Some(to))) => from <= to,
        (Type::Varchar(Some(from)), Type::Varchar(Some(to))) => from <= to,
        (Type::Numeric(_), Type::Numeric(None)) => true,
        (Type::Rounded(from), to) if from.plain() == to => true,
        _ => matches!((rank(from), rank(to)), (Some(from), Some(to)) if from <= to),
    }
}

/// Changes the type of a column, and its values by an expression, or by the cast of an assignment.
async fn set_type(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    column: usize,
    (ty, domain): (Type, Option<Domain>),
    using: Option<&ast::Expr>,
) -> Result<(), SqlError> {
    let old = table.clone();
    let def = &old.columns[column];
    if def.identity.is_some() && !ty.is_integer() {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(SqlError::new(state::INVALID_PARAMETER, message));
    }
    if using.is_none() && !cast::is_assignable(def.ty, ty) {
        let (name, shown) = (&def.name, ty.name());
        let message = format!("column \"{name}\" cannot be cast automatically to type {shown}");
        let error = SqlError::new(state::TYPE_MISMATCH, message);
        return Err(match &def.generated {
            Some(_) => error,
            None => error.hint(format!("You might need to specify \"USING {name}::{shown}\".")),
        });
    }
    keep_literals(table, column, ty)?;
    table.columns[column].ty = ty;
    table.columns[column].domain = domain;
    let bound = table.bind_stored();
    bound.map_err(|error| generated::not_of_type(error, table, column, ty))?;
    for index in table.indexes.iter().filter(|index| index.computes_from(column)) {
        index.check_new(table)?;
    }
    foreign_keys::check_types(cx, table, column).await?;
    if def.identity.is_some() {
        sequences::set_type(cx, table, column, ty).await?;
    }
    // An expression may have another value for the wider type: entries and checks are made again.
    let computes = table.indexes.iter().any(|index| index.computes_from(column))
        || table.checks.iter().any(|check| check.columns().contains(&column));
    let checks = domain.is_some() && domain != def.domain;
    if using.is_none() && is_wider(def.ty, ty) && !computes && !checks {
        table.columns[column].settle()?;
        table.settle();
        // Statistics hold values of the old type.
        return statistics::forget(cx.txn, table.id);
    }
    let mut binder = Binder::new(&[]);
    binder.types.clone_from(&cx.types);
    binder.zone = cx.facts.zone().clone();
    binder.add(old.columns_alone(), &old.name);
    binder.begin_clause("transform expressions", false);
    let value = match using {
        Some(using) => {
            let bound = binder.bind(using)?;
            let shown = ty.name();
            if bound.ty.is_some_and(|from| !cast::is_assignable(from, ty)) {
                let name = &def.name;
                let message = format!(
                    "result of USING clause for column \"{name}\" cannot be cast automatically to \
                     type {shown}"
                );
                return Err(SqlError::new(state::TYPE_MISMATCH, message)
                    .hint("You might need to add an explicit cast."));
            }
            binder.coerce(bound, ty, false)?
        }
        None => {
            let how = Coercion::of(Some(def.ty), ty, false);
            Expr::Cast(Box::new(Expr::Column(column)), ty, how)
        }
    };
    if value.has_subquery() {
        return Err(SqlError::unsupported("a subquery in USING"));
    }
    if def.default.is_some() && !cast::is_assignable(def.ty, ty) {
        let (name, shown) = (&def.name, ty.name());
        let message =
            format!("default for column \"{name}\" cannot be cast automatically to type {shown}");
        return Err(SqlError::new(state::TYPE_MISMATCH, message));
    }
    table.columns[column].fill(Datum::Null);
    rewrite(cx, &old, table, &Move::Change { column, value }).await?;
    foreign_keys::check_column(cx, table, column).await
}

/// Renames a column, also in the texts of generated columns, indexes and constraints.
pub(super) async fn rename(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    old: &ast::Ident,
    new: &ast::Ident,
) -> Result<(), SqlError> {
    let column = number_of(table, old)?;
    let name = names::fold(new);
    create::check_column_name(&name)?;
    if table.column(&name).is_some() {
        return Err(exists(table, &name));
    }
    let refused = "renaming a column that a view uses is not supported";
    views::refuse_changed(cx, table, column, refused).await?;
    let before = table.columns[column].name.clone();
    let indexes = table.indexes.iter_mut();
    let texts = indexes.flat_map(|index| index.expressions.iter_mut().chain(&mut index.predicate));
    let generated = table.columns.iter_mut().filter_map(|column| column.generated.as_mut());
    let checks = table.checks.iter_mut().map(|check| &mut check.text);
    for text in texts.chain(checks).chain(generated) {
        *text = renamed(text, &before, new)?;
    }
    table.columns[column].name = name;
    table.bind_stored()
}

/// Returns a name as it stands in stored expressions: in quotes if it could be taken for a word.
fn stored_name(name: &str) -> ast::Ident {
    let is_word = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str()).is_ok();
    match is_word || quoted(name) != name {
        true => ast::Ident::with_quote('"', name),
        false => ast::Ident::new(name),
    }
}

/// Before a column has another type: gives its default, or the expression that it is generated by,
/// if that is a quoted literal, the type that it has now. Fails with 0A000 if an index or a check
/// compares the column with such a literal, which would be read as another value.
fn keep_literals(table: &mut Table, column: usize, to: Type) -> Result<(), SqlError> {
    let from = table.columns[column].ty;
    let is_label = matches!(from, Type::Enum(_)) && to.is_text();
    if from.base() == to.base() || (from.is_text() && to.is_text()) || is_label {
        return Ok(());
    }
    let def = &mut table.columns[column];
    for text in def.default.iter_mut().chain(&mut def.generated) {
        let expr = parse::expression(text)?;
        if matches!(expr, ast::Expr::Value(value) if is_quoted(&value.value)) {
            let from = parse::name_of_type(from);
            let from = from.ok_or_else(|| SqlError::unsupported("a literal of this type"))?;
            *text = format!("CAST({text} AS {from})");
        }
    }
    let indexes = table.indexes.iter().filter(|index| index.computes_from(column));
    let of_indexes = indexes.flat_map(|index| {
        index.expressions.iter().chain(&index.predicate).map(|text| (&index.name, text))
    });
    let checks = table.checks.iter().filter(|check| check.columns().contains(&column));
    for (name, text) in of_indexes.chain(checks.map(|check| (&check.name, &check.text))) {
        let mut has_literal = false;
        let _ = ast::visit_expressions(&parse::expression(text)?, |part| {
            has_literal |= matches!(part, ast::Expr::Value(value) if is_quoted(&value.value));
            std::ops::ControlFlow::<()>::Continue(())
        });
        if has_literal {
            let what =
                format!("another type of a column that \"{name}\" may compare with a literal");
            return Err(SqlError::unsupported(what).hint(format!("Drop \"{name}\" before.")));
        }
    }
    Ok(())
}

fn is_quoted(value: &ast::Value) -> bool {
    matches!(
        value,
        ast::Value::SingleQuotedString(_)
            | ast::Value::EscapedStringLiteral(_)
            | ast::Value::DollarQuotedString(_)
            | ast::Value::UnicodeStringLiteral(_)
            | ast::Value::NationalStringLiteral(_)
    )
}

/// Returns the text of an expression in which a column has another name.
fn renamed(text: &str, old: &str, new: &ast::Ident) -> Result<String, SqlError> {
    let mut expr = parse::expression(text)?;
    let _ = ast::visit_expressions_mut(&mut expr, |part| {
        if let ast::Expr::Identifier(ident) = part
            && names::fold(ident) == old
        {
            *ident = stored_name(&names::fold(new));
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    Ok(expr.to_string())
}

/// Drops a column, with the indexes and constraints that it is part of.
pub(super) async fn drop(
    cx: &mut Ddl<'_>,
    table: &mut Table,
    ident: &ast::Ident,
    if_exists: bool,
    cascade: bool,
) -> Result<(), SqlError> {
    let column = match number_of(table, ident) {
        Ok(column) => column,
        Err(_) if if_exists => {
            let name = names::fold(ident);
            cx.skip_of("column", &name, table);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let what = format!("column {} of table {}", table.columns[column].name, table.name);
    generated::drop_computed(cx, table, column, &what, cascade).await?;
    let old = table.clone();
    let uses = |index: &Index| index.uses(column);
    views::drop_users(cx, table, column, cascade).await?;
    while let Some(at) = table.foreign.iter().position(|it| it.columns.contains(&(column as u32))) {
        foreign_keys::remove_foreign(cx, table, at).await?;
    }
    for key in old.keys().filter(|index| uses(index)) {
        foreign_keys::free_key(cx, table, key, &what, cascade).await?;
    }
    table.checks.retain(|check| !check.columns().contains(&column));
    while let Some(at) = table.indexes.iter().position(uses) {
        remove_index(cx, table, at)?;
    }
    let has_moved = table.primary.as_ref().is_some_and(uses);
    if has_moved {
        constraints::remove_primary(cx, table)?;
    }
    sequences::drop_of_column(cx, table, column, &what, cascade).await?;
    comments::forget_column(cx, table.id, column).await?;
    table.columns[column].drop(column);
    table.settle();
    let bound = table.bind_stored().and_then(|()| Binder::new(&[]).defaults(table));
    bound.map_err(|error| foreign_type(error, old.user_types().into_iter()))?;
    if has_moved {
        rewrite(cx, &old, table, &Move::Fill).await?;
    }
    Ok(())
}
