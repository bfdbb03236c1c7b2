//! Set-returning functions: in FROM, and in the outputs of a query.

use super::call::without_results;
use super::lock::Lockable;
use super::{Binder, Output, Typed};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function::Function;
use crate::logical::{ColumnId, Functions, JoinKind, Rel};
use crate::names;
use crate::types::Type;
use sqlparser::ast;

/// A set-returning function among the outputs of a query: its columns and its call.
pub(crate) type SetCall = (Vec<ColumnId>, &'static Function, Vec<Expr>);

impl Binder {
    /// Binds functions in FROM, and adds their relation. Their arguments may name the relations
    /// before them.
    pub(super) fn bind_functions(
        &mut self,
        calls: &[(String, Vec<&ast::Expr>)],
        ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Rel, SqlError> {
        self.begin_clause("functions in FROM", false);
        let mut bound = Vec::with_capacity(calls.len());
        let mut outputs = Vec::with_capacity(calls.len() + 1);
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        for (name, args) in calls {
            let args = without_results(self.bind_all(args)?);
            if self.is_folding_call(name, &args) {
                return Err(SqlError::unsupported(format!("{name} of citext in FROM")));
            }
            let (function, args, ty) = self.resolve_call(name, args)?;
            bound.push((function, args));
            if !function.columns.is_empty() {
                let of_rows = function.columns.iter().map(|(name, ty)| self.output(name, *ty));
                let of_rows: Vec<Output> = of_rows.collect();
                columns.extend(of_rows.iter().map(|output| output.id));
                outputs.extend(of_rows);
                continue;
            }
            // The fields of a row are the columns.
            if let Type::Composite(of) = ty {
                let row = self.computed(name, ty);
                columns.push(row);
                for (at, field) in of.fields().iter().enumerate() {
                    let output = self.output(&field.name, field.ty);
                    fields.push((output.id, Expr::Field(Box::new(Expr::Column(row)), at)));
                    outputs.push(output);
                }
                continue;
            }
            if ty == Type::Record {
                let message =
                    "a column definition list is required for functions returning \"record\"";
                return Err(SqlError::new(state::SYNTAX, message));
            }
            // The column of a single function has the name of its alias.
            let renamed = alias.filter(|_| calls.len() == 1).map(|alias| names::fold(&alias.name));
            let output = self.output(renamed.as_ref().unwrap_or(name), ty);
            columns.push(output.id);
            outputs.push(output);
        }
        self.end_clause();
        let number = ordinality.then(|| self.output("ordinality", Type::Int8));
        let ordinality = number.as_ref().map(|output| output.id);
        outputs.extend(number);
        let name = calls.first().map(|(name, _)| name.as_str());
        let mut relation =
            self.derived(&outputs, alias, name, Lockable::default().of_kind("a function"))?;
        // A row of one value is that value.
        relation.is_scalar = matches!(bound.as_slice(), [(function, _)] if function.width() == 1)
            && ordinality.is_none()
            && fields.is_empty();
        self.level().relations.push(relation);
        let rel = Rel::Functions(Functions { calls: bound, columns, ordinality });
        Ok(if fields.is_empty() { rel } else { rel.with_columns(fields) })
    }

    fn output(&mut self, name: &str, ty: Type) -> Output {
        Output { id: self.computed(name, ty), name: name.to_owned(), unknown: false }
    }

    /// Binds a set-returning function among the outputs: a column of the rows that are made for
    /// each row of the query.
    pub(super) fn set_call(
        &mut self,
        function: &'static Function,
        args: Vec<Expr>,
        ty: Type,
    ) -> Result<Typed, SqlError> {
        let level = self.level();
        let Some(known) = &level.sets else { return Err(self.no_sets()) };
        if !level.set_queries.is_empty() {
            let what = "a set-returning function beside another among the outputs";
            return Err(SqlError::unsupported(what));
        }
        let ids = known.iter().flat_map(|(ids, ..)| ids.iter().copied()).collect();
        if args.iter().any(|arg| arg.names_any(&ids)) {
            let what = "a set-returning function in the arguments of another";
            return Err(SqlError::unsupported(what));
        }
        if function.width() == 1 {
            let id = self.computed(function.name, ty);
            self.level().sets.get_or_insert_default().push((vec![id], function, args));
            return Ok(Typed::of(Expr::Column(id), ty));
        }
        let columns = function.columns.iter().map(|(name, ty)| self.computed(name, *ty));
        let ids: Vec<ColumnId> = columns.collect();
        self.level().sets.get_or_insert_default().push((ids.clone(), function, args));
        // Beside a longer set there is no row.
        let parts: Vec<Expr> = ids.into_iter().map(Expr::Column).collect();
        let missing = parts.iter().map(|part| Expr::IsNull(Box::new(part.clone()), false));
        let branches = vec![(Expr::And(missing.collect()), Expr::Const(Datum::Null))];
        let otherwise = Box::new(Expr::Row(parts, function.shape()));
        Ok(Typed::of(Expr::Case { branches, otherwise }, Type::Record))
    }

    /// Returns the error of a set-returning function in a clause that may have none.
    pub(super) fn no_sets(&mut self) -> SqlError {
        let message = match self.level().clause {
            "" => "set-returning functions are not allowed here".to_owned(),
            "an aggregate" => {
                "aggregate function calls cannot contain set-returning function calls".to_owned()
            }
            clause => format!("set-returning functions are not allowed in {clause}"),
        };
        SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
    }

    /// Binds something in a place where a set-returning function is refused.
    pub(super) fn without_sets<T>(
        &mut self,
        place: &'static str,
        bind: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let sets = self.level().sets.take();
        let clause = std::mem::replace(&mut self.level().clause, place);
        let bound = bind(self);
        self.level().sets = sets;
        self.level().clause = clause;
        bound
    }
}

impl Rel {
    /// Adds the rows of set-returning functions to each row.
    pub(super) fn with_sets(self, sets: Vec<SetCall>) -> Rel {
        if sets.is_empty() {
            return self;
        }
        let (mut columns, mut calls) = (Vec::new(), Vec::new());
        for (ids, function, args) in sets {
            columns.extend(ids);
            calls.push((function, args));
        }
        let functions = Rel::Functions(Functions { calls, columns, ordinality: None });
        self.join(JoinKind::Inner, functions, Expr::truth())
    }
}
