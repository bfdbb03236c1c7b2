//! Generated columns: values that are computed from the other columns of their row, when it is
//! inserted, and when one of these changes.
//!
//! An expression is immutable and names no generated column, so that the order of the columns has
//! no meaning, and a stored value stays that of its row.

use super::Table;
use crate::bind::Binder;
use crate::datum::Datum;
use crate::dialect;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::index::{self, Stored};
use crate::logical::ColumnId;
use crate::names;
use crate::parse;
use crate::types::Type;
use sqlparser::ast::{self, Visit};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A generated column of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Generated {
    /// The number of the column.
    pub(crate) column: usize,
    /// The value, over a row of the table.
    value: Expr,
}

impl Generated {
    /// Binds the expression of a column to a table.
    pub(crate) fn bind(
        table: &Arc<Table>,
        column: usize,
        expr: &ast::Expr,
    ) -> Result<Generated, SqlError> {
        if let ControlFlow::Break(error) = expr.visit(&mut Forms { table }) {
            return Err(error);
        }
        let mut binder = Binder::new(&[]);
        binder.add(table.clone(), &table.name);
        binder.begin_clause("column generation expressions", false);
        let value = binder.bind_stored_for(expr, table, column)?;
        index::refuse_mutable(&value, Stored::Generated, table)?;
        let mut is_mutable = false;
        value.walk(&mut |part| {
            if let Expr::Cast(inner, to, _) = part {
                is_mutable |= index::type_of(inner, table).is_some_and(|from| depends(from, *to));
            }
        });
        if is_mutable { Err(index::not_immutable()) } else { Ok(Generated { column, value }) }
    }

    /// Fails with 42P17 if the value is computed by a function that only columns of earlier
    /// releases may call.
    pub(crate) fn check_new(&self) -> Result<(), SqlError> {
        let mut is_mutable = false;
        self.value.walk(&mut |part| {
            is_mutable |= matches!(part, Expr::Call(function, _) if function.was_immutable);
        });
        if is_mutable { Err(index::not_immutable()) } else { Ok(()) }
    }

    /// True if the value is computed from one of some columns.
    pub(crate) fn names_any(&self, columns: &[usize]) -> bool {
        let mut names = false;
        self.value.walk(&mut |part| {
            names |= matches!(part, Expr::Column(at) if columns.contains(at));
        });
        names
    }

    fn set(&self, row: &mut [Datum]) -> Result<(), SqlError> {
        row[self.column] = index::eval(&self.value, row)?;
        Ok(())
    }

    /// Returns the value over the columns of a plan that stand for a row of the table.
    fn over(&self, row: &[ColumnId]) -> Expr {
        let mut value = self.value.clone();
        value.rewrite(&mut |part| {
            if let Expr::Column(at) = part {
                *at = row[*at];
            }
        });
        value
    }
}

impl Table {
    /// Binds the expressions of its generated columns. `columns` is the table of its columns.
    pub(super) fn bind_generated(&mut self, columns: &Arc<Table>) -> Result<(), SqlError> {
        self.generated.clear();
        for (at, column) in columns.columns.iter().enumerate() {
            if let Some(text) = &column.generated {
                self.generated.push(Generated::bind(columns, at, &parse::expression(text)?)?);
            }
        }
        Ok(())
    }

    /// Gives a new row the values of the generated columns.
    pub(crate) fn generate(&self, row: &mut [Datum]) -> Result<(), SqlError> {
        self.generated.iter().try_for_each(|it| it.set(row))
    }

    /// Gives a row the values of the generated columns from one on, which are new.
    pub(crate) fn generate_from(&self, first: usize, row: &mut [Datum]) -> Result<(), SqlError> {
        self.generated.iter().filter(|it| it.column >= first).try_for_each(|it| it.set(row))
    }

    /// Gives a row the values of the generated columns that are computed from changed ones.
    pub(crate) fn generate_after(
        &self,
        changed: &[usize],
        row: &mut [Datum],
    ) -> Result<(), SqlError> {
        self.generated.iter().filter(|it| it.names_any(changed)).try_for_each(|it| it.set(row))
    }

    /// Returns the generated columns that are computed from a column.
    pub(crate) fn generated_from(&self, column: usize) -> impl Iterator<Item = usize> {
        self.generated.iter().filter(move |it| it.names_any(&[column])).map(|it| it.column)
    }

    /// Returns the generated columns among the columns of a plan that stand for a row, with their
    /// values over the others.
    pub(crate) fn generated_over(&self, row: &[ColumnId]) -> Vec<(ColumnId, Expr)> {
        self.generated.iter().map(|it| (row[it.column], it.over(row))).collect()
    }
}

/// Refuses what the text of an expression tells.
struct Forms<'t> {
    table: &'t Table,
}

impl ast::Visitor for Forms<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<SqlError> {
        let message = "cannot use subquery in column generation expression";
        ControlFlow::Break(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<SqlError> {
        let parts = match expr {
            ast::Expr::Identifier(ident) => std::slice::from_ref(ident),
            ast::Expr::CompoundIdentifier(parts) => parts,
            ast::Expr::Function(call) if has_whole_row(call) => {
                return ControlFlow::Break(whole_row().at(names::expr_position(expr)));
            }
            _ => return ControlFlow::Continue(()),
        };
        let place = || parts.first().and_then(names::position);
        if dialect::is_whole_row(parts) {
            return ControlFlow::Break(whole_row().at(place()));
        }
        let Some(name) = parts.last().map(names::fold) else { return ControlFlow::Continue(()) };
        let found = self.table.column(&name);
        if found.is_none() && parts.len() == 1 && name == self.table.name {
            return ControlFlow::Break(whole_row().at(place()));
        }
        if found.is_some_and(|at| self.table.columns[at].generated.is_some()) {
            let message =
                format!("cannot use generated column \"{name}\" in column generation expression");
            let detail = "A generated column cannot reference another generated column.";
            let error = SqlError::new(state::INVALID_DEFINITION, message).detail(detail);
            return ControlFlow::Break(error.at(place()));
        }
        ControlFlow::Continue(())
    }
}

/// True for a call that has an argument `t.*`.
fn has_whole_row(call: &ast::Function) -> bool {
    let is_row = |arg: &ast::FunctionArg| {
        matches!(arg, ast::FunctionArg::Unnamed(ast::FunctionArgExpr::QualifiedWildcard(_)))
    };
    matches!(&call.args, ast::FunctionArguments::List(list) if list.args.iter().any(is_row))
}

fn whole_row() -> SqlError {
    let message = "cannot use whole-row variable in column generation expression";
    let detail = "This would cause the generated column to depend on its own value.";
    SqlError::new(state::INVALID_DEFINITION, message).detail(detail)
}

/// True if a cast depends on the settings of a session: the time zone, or the style of dates and
/// intervals.
fn depends(from: Type, to: Type) -> bool {
    let (from, to) = (from.element().unwrap_or(from), to.element().unwrap_or(to));
    let (from, to) = (from.plain(), to.plain());
    let is_date = |ty| matches!(ty, Type::Date | Type::Timestamp | Type::TimestampTz);
    let is_time = |ty| is_date(ty) || matches!(ty, Type::Time | Type::TimeTz | Type::Interval);
    let is_zoned = |ty| ty == Type::TimestampTz;
    (from == Type::Time && to == Type::TimeTz)
        || ((is_date(from) || from == Type::Interval) && to.is_text())
        || (from.is_text() && is_time(to))
        || (is_zoned(from) != is_zoned(to) && is_time(from) && is_time(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{ColumnDef, Object};

    #[test]
    fn values_follow_their_columns_and_earlier_releases_refuse_the_table() {
        let column = |name: &str| ColumnDef::new(name, Type::Int4);
        let mut table = Table::new(7, "t", vec![column("a"), column("b"), column("c")]);
        table.columns[1].generated = Some("a * 2 + 1".into());
        table.bind_stored().expect("bound");
        let mut row = [Datum::Int4(3), Datum::Null, Datum::Int4(5)];
        table.generate(&mut row).expect("a value");
        assert_eq!(row[1], Datum::Int4(7));
        row[0] = Datum::Int4(4);
        table.generate_after(&[2], &mut row).expect("no value");
        table.generate_from(2, &mut row).expect("no value");
        assert_eq!(row[1], Datum::Int4(7));
        table.generate_after(&[2, 0], &mut row).expect("a value");
        assert_eq!(row[1], Datum::Int4(9));
        assert_eq!(table.generated_from(0).collect::<Vec<_>>(), [1]);
        // Earlier releases know no object of the kind.
        let object = Object::Table(Arc::new(table));
        let bytes = object.encode();
        assert_eq!(bytes[..5], [0xda, 0x00, 0x6d, 0x00, 0x07]);
        assert_eq!(Object::decode(&bytes).expect("known"), object);
    }
}
