//! Lists of column definitions in FROM: `json_to_record(j) AS x (a int, b text)`.
//!
//! The function returns documents, one for each row. Each column is the member of its name,
//! converted from its text as the input of its type; `json` and `jsonb` take the member itself.

use super::call::without_results;
use super::lock::Lockable;
use super::{Binder, Output, Typed};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function;
use crate::logical::{Functions, Rel};
use crate::names;
use crate::types::Type;
use sqlparser::ast;

/// True if an alias defines columns.
pub(super) fn has_definitions(alias: &ast::TableAlias) -> bool {
    alias.columns.iter().any(|column| column.data_type.is_some())
}

impl Binder {
    /// Binds a function that returns rows of the columns that its alias defines, and adds its
    /// relation.
    pub(super) fn bind_record_function(
        &mut self,
        name: &str,
        args: &[&ast::Expr],
        ordinality: bool,
        alias: &ast::TableAlias,
    ) -> Result<Rel, SqlError> {
        self.begin_clause("functions in FROM", false);
        let args = without_results(self.bind_all(args)?);
        let (function, args, ty) = self.resolve_call(name, args)?;
        if !function::takes_definitions(name) {
            let message = match (function.columns.is_empty(), ty) {
                (true, Type::Composite(_)) => {
                    "a column definition list is redundant for a function returning a named \
                     composite type"
                }
                (true, _) => {
                    "a column definition list is only allowed for functions returning \"record\""
                }
                (false, _) => {
                    "a column definition list is redundant for a function with OUT parameters"
                }
            };
            return Err(SqlError::new(state::SYNTAX, message));
        }
        if ordinality {
            let message = "WITH ORDINALITY cannot be used with a column definition list";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        self.end_clause();
        let document_type = if name.starts_with("jsonb") { Type::Jsonb } else { Type::Json };
        let document = self.computed(name, document_type);
        let (mut outputs, mut fields) = (Vec::new(), Vec::new());
        for (column, ty) in self.defined_columns(alias)? {
            let value =
                self.member(Typed::of(Expr::Column(document), document_type), &column, ty)?;
            let output = Output { id: self.computed(&column, ty), name: column, unknown: false };
            fields.push((output.id, value));
            outputs.push(output);
        }
        let alias = ast::TableAlias { columns: Vec::new(), ..alias.clone() };
        let rows = Lockable::default().of_kind("a function");
        let relation = self.derived(&outputs, Some(&alias), None, rows)?;
        self.level().relations.push(relation);
        let calls = vec![(function, args)];
        let functions = Functions { calls, columns: vec![document], ordinality: None };
        Ok(Rel::Functions(functions).with_columns(fields))
    }

    /// Returns the names and types of the columns that an alias defines.
    fn defined_columns(&self, alias: &ast::TableAlias) -> Result<Vec<(String, Type)>, SqlError> {
        let mut columns: Vec<(String, Type)> = Vec::with_capacity(alias.columns.len());
        for column in &alias.columns {
            let name = names::fold(&column.name);
            let Some(data_type) = &column.data_type else {
                let message = format!("the column \"{name}\" of a list of definitions has no type");
                return Err(SqlError::new(state::SYNTAX, message));
            };
            if columns.iter().any(|(other, _)| *other == name) {
                let message = format!("column name \"{name}\" specified more than once");
                return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
            }
            if names::enumeration(data_type).is_some() {
                let what = "a type of the database in a list of column definitions";
                return Err(SqlError::unsupported(what));
            }
            let (ty, _) = names::declared_type(data_type, &self.types)
                .map_err(|error| error.at(names::type_position(data_type)))?;
            if ty.element().is_some() {
                let what = format!("the type {ty} in a list of column definitions");
                return Err(SqlError::unsupported(what));
            }
            if ty == Type::Record {
                let message = format!("column \"{name}\" has pseudo-type record");
                return Err(SqlError::new(state::INVALID_TABLE, message));
            }
            columns.push((name, ty));
        }
        Ok(columns)
    }

    /// Returns a member of a document as a value of a type: NULL for `null`.
    fn member(&mut self, document: Typed, name: &str, ty: Type) -> Result<Expr, SqlError> {
        let key = Typed::of(Expr::Const(Datum::text(name)), Type::Text);
        let text = self.apply("->>", vec![document.clone(), key.clone()])?;
        if !matches!(ty, Type::Json | Type::Jsonb) {
            return self.coerce(text, ty, false);
        }
        let value = self.apply("->", vec![document, key])?;
        let branches = vec![(Expr::IsNull(Box::new(text.expr), false), Expr::Const(Datum::Null))];
        let otherwise = Box::new(self.coerce(value, ty, true)?);
        Ok(Expr::Case { branches, otherwise })
    }
}
