//! The columns of a table that a statement names as its targets, and the values that they take.

use super::query::Bound;
use super::{Binder, Typed};
use crate::carried::Overriding;
use crate::cast;
use crate::catalog::{ColumnDef, Identity, Table};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::names;
use crate::parse;
use crate::types::Type;
use sqlparser::ast;

/// Returns the number of a column; fails with 42703.
pub(crate) fn target_column(table: &Table, ident: &ast::Ident) -> Result<usize, SqlError> {
    let name = names::fold(ident);
    if let Some(column) = table.column(&name) {
        return Ok(column);
    }
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
    let error = SqlError::new(state::UNDEFINED_COLUMN, message).at(names::position(ident));
    let all = table.present().map(|(_, column)| column.name.as_str());
    Err(match names::nearest(&name, all) {
        Some(near) => error.hint(format!("Did you mean \"{near}\"?")),
        None => error,
    })
}

/// Returns the numbers of the named columns; of all columns if none is named.
pub(crate) fn target_columns(table: &Table, named: &[ast::Ident]) -> Result<Vec<usize>, SqlError> {
    if named.is_empty() {
        return Ok(table.present().map(|(at, _)| at).collect());
    }
    let mut out = Vec::with_capacity(named.len());
    for ident in named {
        let column = target_column(table, ident)?;
        if out.contains(&column) {
            let name = &table.columns[column].name;
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message).at(names::position(ident)));
        }
        out.push(column);
    }
    Ok(out)
}

/// Returns the numbers of the columns that an INSERT names, or names fields of.
pub(super) fn named_columns(
    table: &Table,
    named: &[ast::ObjectName],
) -> Result<Vec<usize>, SqlError> {
    let mut out = Vec::with_capacity(named.len());
    for name in named {
        let (column, fields) = assigned_field(table, name)?;
        let is_whole =
            |(other, of): (&usize, &ast::ObjectName)| *other == column && of.0.len() == 1;
        if out.contains(&column) && fields.is_empty() || out.iter().zip(named).any(is_whole) {
            let place = name.0.first().and_then(|part| part.as_ident()).and_then(names::position);
            let name = &table.columns[column].name;
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message).at(place));
        }
        out.push(column);
    }
    Ok(out)
}

/// Returns an expression without the brackets around it.
pub(super) fn nested(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => nested(inner),
        expr => expr,
    }
}

/// True if a value is the key word DEFAULT.
pub(super) fn is_default(value: &ast::Expr) -> bool {
    matches!(nested(value), ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// Returns the column that the first part of a name names, and the other parts, which are fields.
pub(super) fn assigned_field(
    table: &Table,
    name: &ast::ObjectName,
) -> Result<(usize, Vec<ast::Ident>), SqlError> {
    let mut parts = name.0.iter().filter_map(|part| part.as_ident()).cloned();
    let ident = parts.next().unwrap_or_else(|| ast::Ident::new(""));
    Ok((target_column(table, &ident)?, parts.collect()))
}

/// Returns the column that a name names. Fails with 0A000 for a field of it.
pub(super) fn assigned_column(table: &Table, name: &ast::ObjectName) -> Result<usize, SqlError> {
    let (column, fields) = assigned_field(table, name)?;
    if !fields.is_empty() {
        let name = &table.columns[column].name;
        return Err(SqlError::unsupported(format!("a part of column \"{name}\" here")));
    }
    Ok(column)
}

/// Fails with 428C9 if UPDATE gives a value to a generated column, or to an identity column which
/// is generated always.
pub(super) fn check_updatable(table: &Table, column: usize) -> Result<(), SqlError> {
    let column = &table.columns[column];
    let Some(detail) = generated_always(column) else { return Ok(()) };
    let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
    Err(SqlError::new(state::GENERATED_ALWAYS, message).detail(detail))
}

/// Says why a column takes no values of statements; `None` if it does.
fn generated_always(column: &ColumnDef) -> Option<String> {
    let name = &column.name;
    match (&column.generated, column.identity) {
        (Some(_), _) => Some(format!("Column \"{name}\" is a generated column.")),
        (None, Some(Identity::Always)) => {
            Some(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."))
        }
        _ => None,
    }
}

/// Fails with 428C9 if INSERT gives a value to a generated column, or to an identity column which
/// is generated always and not overridden.
pub(super) fn check_insertable(
    table: &Table,
    column: usize,
    overriding: Option<Overriding>,
) -> Result<(), SqlError> {
    let column = &table.columns[column];
    let Some(detail) = generated_always(column) else { return Ok(()) };
    let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
    let error = SqlError::new(state::GENERATED_ALWAYS, message).detail(detail);
    match (&column.generated, overriding) {
        (Some(_), _) => Err(error),
        (None, None) => Err(error.hint("Use OVERRIDING SYSTEM VALUE to override.")),
        (None, Some(_)) => Ok(()),
    }
}

/// Fails with 42804 if a column cannot take values of a type, which `what` has.
fn check_assignable(table: &Table, column: usize, from: Type, what: &str) -> Result<(), SqlError> {
    let column = &table.columns[column];
    if cast::is_assignable(from, column.ty) {
        return Ok(());
    }
    let (name, wanted, found) = (&column.name, column.type_name(), from.name());
    let message = format!("column \"{name}\" is of type {wanted} but {what} is of type {found}");
    let hint = "You will need to rewrite or cast the expression.";
    Err(SqlError::new(state::TYPE_MISMATCH, message).hint(hint))
}

impl Binder {
    /// Binds a value for a column, which may be DEFAULT.
    pub(super) fn bind_value(
        &mut self,
        value: &ast::Expr,
        table: &Table,
        column: usize,
    ) -> Result<Expr, SqlError> {
        match is_default(value) {
            true => self.default_of(table, column),
            false => self.bind_for(value, table, column),
        }
    }

    /// Binds a value that UPDATE gives to a column: only DEFAULT, if that is a generated column, or
    /// an identity column which is generated always.
    pub(super) fn bind_new_value(
        &mut self,
        value: &ast::Expr,
        table: &Table,
        column: usize,
    ) -> Result<Expr, SqlError> {
        if !is_default(value) {
            check_updatable(table, column)?;
        }
        self.bind_value(value, table, column)
    }

    /// Binds a value for a column.
    pub(crate) fn bind_for(
        &mut self,
        expr: &ast::Expr,
        table: &Table,
        column: usize,
    ) -> Result<Expr, SqlError> {
        let bound = self.bind_as(expr, table.columns[column].ty, false)?;
        let at = |error: SqlError| error.at(names::expr_position(expr));
        if let Some(ty) = bound.ty {
            let what = if self.is_stored { "default expression" } else { "expression" };
            check_assignable(table, column, ty, what).map_err(at)?;
        }
        self.coerce(bound, table.columns[column].ty, false).map_err(at)
    }

    /// Returns the value of a column that a statement does not give.
    pub(crate) fn default_of(&mut self, table: &Table, column: usize) -> Result<Expr, SqlError> {
        let ColumnDef { default, domain, .. } = &table.columns[column];
        let of_domain = || domain.and_then(|domain| domain.descriptor().default.as_ref());
        let Some(text) = default.as_ref().or_else(of_domain) else {
            return Ok(Expr::Const(Datum::Null));
        };
        self.know_types(table);
        self.bind_stored_for(&parse::expression(text)?, table, column)
    }

    /// Binds an expression that a table stores for a column.
    pub(crate) fn bind_stored_for(
        &mut self,
        expr: &ast::Expr,
        table: &Table,
        column: usize,
    ) -> Result<Expr, SqlError> {
        let outside = (self.is_stored, self.is_frozen);
        (self.is_stored, self.is_frozen) = (true, true);
        let bound = self.bind_for(expr, table, column);
        (self.is_stored, self.is_frozen) = outside;
        bound
    }

    /// Returns the values of all columns that a statement does not give.
    pub(crate) fn defaults(&mut self, table: &Table) -> Result<Vec<Expr>, SqlError> {
        (0..table.columns.len()).map(|column| self.default_of(table, column)).collect()
    }

    /// Converts the outputs of a query to the types of the columns that take them.
    pub(super) fn fitted(
        &mut self,
        bound: &mut Bound,
        table: &Table,
        columns: &[usize],
    ) -> Result<Vec<Expr>, SqlError> {
        let mut values = Vec::with_capacity(columns.len());
        for (output, column) in bound.outputs.iter().zip(columns) {
            let ty = table.columns[*column].ty;
            if output.unknown && self.give_type(&mut bound.rel, output.id, ty)? {
                self.columns[output.id].ty = ty;
            }
            let from = self.columns[output.id].ty;
            check_assignable(table, *column, from, "expression")?;
            values.push(self.coerce(Typed::of(Expr::Column(output.id), from), ty, false)?);
        }
        Ok(values)
    }
}
