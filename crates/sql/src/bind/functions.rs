//! Set-returning functions: in FROM, and in the outputs of a query.

use super::lock::Lockable;
use super::{Binder, Output};
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function::Function;
use crate::logical::{ColumnId, Functions, JoinKind, Rel};
use crate::names;
use crate::types::Type;
use sqlparser::ast;

/// A set-returning function among the outputs of a query: its column and its call.
pub(crate) type SetCall = (ColumnId, &'static Function, Vec<Expr>);

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
        for (name, args) in calls {
            let args = args.iter().map(|arg| self.bind(arg)).collect::<Result<Vec<_>, _>>()?;
            let (function, args, ty) = self.resolve_call(name, args)?;
            bound.push((function, args));
            if !function.columns.is_empty() {
                outputs.extend(function.columns.iter().map(|(name, ty)| self.output(name, *ty)));
                continue;
            }
            // The column of a single function has the name of its alias.
            let renamed = alias.filter(|_| calls.len() == 1).map(|alias| names::fold(&alias.name));
            outputs.push(self.output(renamed.as_ref().unwrap_or(name), ty));
        }
        self.end_clause();
        let columns = outputs.iter().map(|output| output.id).collect();
        let number = ordinality.then(|| self.output("ordinality", Type::Int8));
        let ordinality = number.as_ref().map(|output| output.id);
        outputs.extend(number);
        let name = calls.first().map(|(name, _)| name.as_str());
        let mut relation =
            self.derived(&outputs, alias, name, Lockable::default().of_kind("a function"))?;
        // A row of one value is that value.
        relation.is_scalar = matches!(bound.as_slice(), [(function, _)] if function.width() == 1)
            && ordinality.is_none();
        self.level().relations.push(relation);
        Ok(Rel::Functions(Functions { calls: bound, columns, ordinality }))
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
    ) -> Result<Expr, SqlError> {
        if function.width() > 1 {
            let what = format!("{}, which returns several columns, outside FROM", function.name);
            return Err(SqlError::unsupported(what));
        }
        let level = self.level();
        let Some(known) = &level.sets else {
            let message = match level.clause {
                "" => "set-returning functions are not allowed here".to_owned(),
                "an aggregate" => {
                    "aggregate function calls cannot contain set-returning function calls"
                        .to_owned()
                }
                clause => format!("set-returning functions are not allowed in {clause}"),
            };
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        };
        let ids = known.iter().map(|(id, ..)| *id).collect();
        if args.iter().any(|arg| arg.names_any(&ids)) {
            let what = "a set-returning function in the arguments of another";
            return Err(SqlError::unsupported(what));
        }
        let id = self.computed(function.name, ty);
        self.level().sets.get_or_insert_default().push((id, function, args));
        Ok(Expr::Column(id))
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
        for (id, function, args) in sets {
            columns.push(id);
            calls.push((function, args));
        }
        let functions = Rel::Functions(Functions { calls, columns, ordinality: None });
        self.join(JoinKind::Inner, functions, Expr::truth())
    }
}
