//! Arguments of functions that make JSON, whole rows among them: `t` or `t.*`.

use super::scope::{Relation, Visibility};
use super::{Binder, Typed};
use crate::datum::Datum;
use crate::dialect;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function;
use crate::names;
use crate::types::Type;
use sqlparser::ast;

impl Binder {
    /// Binds the arguments of a function; true if one is a whole row, which is `json`.
    pub(super) fn bind_arguments(
        &mut self,
        function: &str,
        args: &[&ast::Expr],
    ) -> Result<(Vec<Typed>, bool), SqlError> {
        if !function::takes_rows(function) {
            return Ok((self.bind_all(args)?, false));
        }
        let (mut bound, mut of_rows) = (Vec::with_capacity(args.len()), false);
        for arg in args {
            let (arg, is_row) = self.bind_row_argument(function, arg)?;
            bound.push(arg);
            of_rows |= is_row;
        }
        Ok((bound, of_rows))
    }

    /// Binds `row_to_json(t)`, which is the row as it is.
    pub(super) fn row_to_json(&mut self, args: &[&ast::Expr]) -> Result<Typed, SqlError> {
        const NAME: &str = "row_to_json";
        let [arg] = args else {
            return Err(SqlError::unsupported(format!("{NAME} with several arguments")));
        };
        match self.bind_row_argument(NAME, arg)? {
            (row, true) => Ok(row),
            (Typed { expr: Expr::Const(Datum::Null), .. }, false) => {
                Ok(Typed::of(Expr::Const(Datum::Null), Type::Json))
            }
            (other, false) => Err(function::missing(NAME, &[other.ty])),
        }
    }

    /// Binds an argument of a function that takes rows; true for a whole row.
    fn bind_row_argument(
        &mut self,
        function: &str,
        arg: &ast::Expr,
    ) -> Result<(Typed, bool), SqlError> {
        let found = match arg {
            ast::Expr::CompoundIdentifier(parts) if dialect::is_whole_row(parts) => {
                let row = self.row_as_json(&names::fold(&parts[0]))?;
                row.map(|row| (row, true)).ok_or_else(|| {
                    let message = format!("missing FROM-clause entry for table {}", parts[0]);
                    SqlError::new(state::UNDEFINED_TABLE, message)
                })?
            }
            ast::Expr::Identifier(ident) => match self.bind(arg) {
                Err(missing) if missing.sqlstate == state::UNDEFINED_COLUMN => {
                    let row = self.row_as_json(&names::fold(ident))?;
                    row.map(|row| (row, true)).ok_or(missing)?
                }
                bound => (bound?, false),
            },
            _ => (self.bind(arg)?, false),
        };
        match found {
            (value, false) if function::makes_json(function) => Ok((self.padded(value)?, false)),
            found => Ok(found),
        }
    }

    /// Adds the blanks behind a text of `character(n)`, which are part of its JSON.
    fn padded(&mut self, bound: Typed) -> Result<Typed, SqlError> {
        let Some(Type::Char(length @ 1..)) = bound.ty else { return Ok(bound) };
        let length = Typed::of(Expr::Const(Datum::Int4(length as i32)), Type::Int4);
        self.apply("rpad", vec![bound, length])
    }

    /// Returns the row of a relation as `json`; `None` if there is none of this name. Fails with
    /// 0A000 if the row may be missing in an outer join, and nothing tells.
    fn row_as_json(&mut self, name: &str) -> Result<Option<Typed>, SqlError> {
        let named = |relation: &&Relation| relation.alias.as_deref() == Some(name);
        let mut levels = self.levels.iter().rev();
        let found = levels.find_map(|level| level.relations.iter().find(named));
        let Some(relation) = found.cloned() else { return Ok(None) };
        let mut args = Vec::new();
        for column in relation.columns.iter().filter(|one| one.visibility != Visibility::Dropped) {
            let info = &mut self.columns[column.id];
            info.is_used = true;
            let value = Typed::of(Expr::Column(column.id), info.ty);
            args.push(Typed::of(Expr::Const(Datum::text(&column.name)), Type::Text));
            args.push(self.padded(value)?);
        }
        let row = self.apply(function::ROW_AS_JSON, args)?;
        let primary = relation.table.as_ref().and_then(|table| table.primary.as_ref());
        let key = primary.and_then(|primary| primary.columns[0].column());
        let expr = match key {
            _ if !relation.is_optional => row.expr,
            // In a row that is there, the key is not NULL.
            Some(key) => {
                let key = Expr::Column(relation.columns[key].id);
                let is_missing = Expr::IsNull(Box::new(key), false);
                let branches = vec![(is_missing, Expr::Const(Datum::Null))];
                Expr::Case { branches, otherwise: Box::new(row.expr) }
            }
            None => {
                return Err(SqlError::unsupported(format!(
                    "the row of {name}, which has no primary key, behind an outer join"
                )));
            }
        };
        Ok(Some(Typed::of(expr, Type::Json)))
    }
}
