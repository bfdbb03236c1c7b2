//! Aggregates of a query, and the columns that a grouped query may use.

use super::functions::SetCall;
use super::{Binder, Typed};
use crate::aggregate::{Aggregate, Kind};
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::ColumnId;
use crate::names;
use crate::types::Type;
use sqlparser::ast;
use std::collections::BTreeSet;

impl Binder {
    /// Binds an aggregate: it belongs to the innermost query whose columns it reads, and is a
    /// column of that query's groups.
    pub(super) fn aggregate(
        &mut self,
        kind: Kind,
        name: &str,
        call: &ast::Function,
    ) -> Result<Typed, SqlError> {
        let own = self.level().aggregates.take();
        let clause = std::mem::replace(&mut self.level().clause, "an aggregate");
        let sets = self.level().sets.take();
        let bound = self.aggregate_inner(kind, name, call);
        self.level().sets = sets;
        self.level().aggregates = own;
        self.level().clause = clause;
        let aggregate = bound?;
        let mut reads = BTreeSet::new();
        aggregate.exprs().iter().for_each(|expr| {
            expr.each_column(&mut |id| _ = reads.insert(self.columns[id].level));
        });
        let at = reads.last().copied().unwrap_or(self.levels.len() - 1);
        let clause = self.levels[at].clause;
        let Some(known) = &self.levels[at].aggregates else {
            let message = match clause {
                "an aggregate" => "aggregate function calls cannot be nested".to_owned(),
                "" => "aggregate functions are not allowed here".to_owned(),
                clause => format!("aggregate functions are not allowed in {clause}"),
            };
            return Err(SqlError::new(state::GROUPING, message));
        };
        let ty = aggregate.ty;
        if let Some((id, _)) = known.iter().find(|(_, other)| *other == aggregate) {
            return Ok(Typed::of(Expr::Column(*id), ty));
        }
        let id = self.computed(name, ty);
        self.columns[id].level = at;
        if let Some(known) = &mut self.levels[at].aggregates {
            known.push((id, aggregate));
        }
        Ok(Typed::of(Expr::Column(id), ty))
    }

    fn aggregate_inner(
        &mut self,
        kind: Kind,
        name: &str,
        call: &ast::Function,
    ) -> Result<Aggregate, SqlError> {
        let ast::Function {
            name: _,
            uses_odbc_syntax: _,
            parameters: _,
            args,
            filter,
            null_treatment,
            over,
            within_group,
        } = call;
        if over.is_some() {
            return Err(SqlError::unsupported(format!("{name} as a window function")));
        }
        if null_treatment.is_some() || !within_group.is_empty() {
            return Err(SqlError::unsupported(format!("WITHIN GROUP or IGNORE NULLS of {name}")));
        }
        let ast::FunctionArguments::List(list) = args else {
            return Err(SqlError::new(
                state::SYNTAX,
                format!("{name}(*) must be used to call a parameterless aggregate"),
            ));
        };
        let ast::FunctionArgumentList { duplicate_treatment, args, clauses } = list;
        if !clauses.is_empty() {
            return Err(SqlError::unsupported(format!("ORDER BY in {name}")));
        }
        let distinct = matches!(duplicate_treatment, Some(ast::DuplicateTreatment::Distinct));
        let filter = filter.as_ref().map(|filter| self.bind_bool(filter, "FILTER")).transpose()?;
        if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] = args.as_slice()
            && kind == Kind::Count
        {
            if distinct {
                let message = "DISTINCT specified, but count(*) has no argument";
                return Err(SqlError::new(state::SYNTAX, message));
            }
            let (arg, kind) = (Expr::Const(Datum::Null), Kind::CountRows);
            return Ok(Aggregate { kind, arg, ty: Type::Int8, distinct, filter });
        }
        let args = names::arguments(call)?;
        let [arg] = args.as_slice() else {
            return Err(SqlError::new(
                state::UNDEFINED_FUNCTION,
                format!("function {name} takes one argument"),
            ));
        };
        let bound = self.bind_free(arg)?;
        let from = bound.ty.unwrap_or(Type::Text);
        let ty = kind.result(from).ok_or_else(|| {
            SqlError::new(
                state::UNDEFINED_FUNCTION,
                format!("function {name}({}) does not exist", from.name()),
            )
        })?;
        Ok(Aggregate { kind, arg: bound.expr, ty, distinct, filter })
    }

    /// Begins a clause of the innermost query, in which aggregates are allowed or not.
    pub(crate) fn begin_clause(&mut self, clause: &'static str, aggregates: bool) {
        let level = self.level();
        level.clause = clause;
        level.aggregates = aggregates.then(Vec::new);
    }

    /// Ends a clause; returns its aggregates.
    pub(crate) fn end_clause(&mut self) -> Vec<(ColumnId, Aggregate)> {
        self.level().clause = "";
        self.level().aggregates.take().unwrap_or_default()
    }

    /// Replaces the keys inside an expression of a grouped query by their columns. Fails with 42803
    /// for any other column of the query's relations.
    pub(crate) fn use_groups(
        &self,
        expr: &mut Expr,
        keys: &[(ColumnId, Expr)],
        aggregates: &[(ColumnId, Aggregate)],
        sets: &[SetCall],
    ) -> Result<(), SqlError> {
        // A constant needs no key, and may differ from an equal one in its type.
        if let Expr::Const(_) = expr {
            return Ok(());
        }
        if let Some((id, _)) = keys.iter().find(|(_, key)| key == expr) {
            *expr = Expr::Column(*id);
            return Ok(());
        }
        let refused = |id: ColumnId| {
            let info = &self.columns[id];
            let is_own = info.level == self.levels.len() - 1;
            let known = keys.iter().any(|(key, _)| *key == id)
                || aggregates.iter().any(|(aggregate, _)| *aggregate == id)
                || sets.iter().any(|(set, ..)| *set == id);
            (is_own && !known).then(|| {
                let name = match info.relation.as_str() {
                    "" => info.name.clone(),
                    relation => format!("{relation}.{}", info.name),
                };
                (name, info.used_at)
            })
        };
        match expr {
            Expr::Column(id) => match refused(*id) {
                Some((name, at)) => {
                    let message = format!(
                        "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
                    );
                    return Err(SqlError::new(state::GROUPING, message).at(at));
                }
                None => return Ok(()),
            },
            Expr::Subquery(_) => {
                let mut bad = None;
                expr.each_column(&mut |id| bad = bad.take().or_else(|| refused(id)));
                if let Some((name, at)) = bad {
                    let message =
                        format!("subquery uses ungrouped column \"{name}\" from outer query");
                    return Err(SqlError::new(state::GROUPING, message).at(at));
                }
                return Ok(());
            }
            _ => {}
        }
        let mut parts = expr.children_mut().into_iter();
        parts.try_for_each(|part| self.use_groups(part, keys, aggregates, sets))
    }
}
