//! Arguments of functions that make JSON: whole rows among them.

use super::scope::{Relation, Visibility};
use super::{Binder, Typed};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::function;
use crate::names;
use crate::types::Type;
use sqlparser::ast;

/// True for the functions that make JSON of values of any type.
pub(super) fn makes_json(name: &str) -> bool {
    matches!(name, "to_json" | "to_jsonb" | "row_to_json")
        || name.starts_with("json") && (name.contains("_build_") || name.ends_with("_agg"))
}

impl Binder {
    /// Binds an argument of a function that makes JSON; true for a whole row, which is `json`.
    pub(super) fn bind_json_argument(
        &mut self,
        arg: &ast::Expr,
    ) -> Result<(Typed, bool), SqlError> {
        let bound = match (self.bind(arg), arg) {
            (Err(missing), ast::Expr::Identifier(ident)) => {
                let row = self.row_as_json(&names::fold(ident))?;
                return row.map(|row| (row, true)).ok_or(missing);
            }
            (bound, _) => bound?,
        };
        Ok((self.padded(bound)?, false))
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
        let mut levels = self.levels.iter().rev();
        let named = |relation: &&Relation| relation.alias.as_deref() == Some(name);
        let found = levels.find_map(|level| {
            let relation = level.relations.iter().find(named)?;
            Some((relation.clone(), level.relations.len() == 1))
        });
        let Some((relation, is_alone)) = found else { return Ok(None) };
        let mut args = Vec::new();
        for column in relation.columns.iter().filter(|one| one.visibility != Visibility::Dropped) {
            let value = Typed::of(Expr::Column(column.id), self.columns[column.id].ty);
            args.push(Typed::of(Expr::Const(Datum::text(&column.name)), Type::Text));
            args.push(self.padded(value)?);
        }
        let row = self.apply(function::ROW_AS_JSON, args)?;
        let primary = relation.table.as_ref().and_then(|table| table.primary.as_ref());
        let key = primary.and_then(|primary| primary.columns[0].column());
        let expr = match (key, is_alone) {
            (_, true) => row.expr,
            // In a row that is there, the key is not NULL.
            (Some(key), false) => {
                let key = Expr::Column(relation.columns[key].id);
                let is_missing = Expr::IsNull(Box::new(key), false);
                let branches = vec![(is_missing, Expr::Const(Datum::Null))];
                Expr::Case { branches, otherwise: Box::new(row.expr) }
            }
            (None, false) => {
                let what =
                    format!("the row of {name}, which has no primary key, as JSON in a join");
                return Err(SqlError::unsupported(what));
            }
        };
        Ok(Some(Typed::of(expr, Type::Json)))
    }
}
