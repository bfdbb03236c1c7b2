//! Aggregates of a query.

use super::call::{Parts, element};
use super::query::direction;
use super::types::{check_equality, check_order};
use super::{Binder, Typed};
use crate::aggregate::{self, Aggregate, OrderKey, Work};
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::function::{Form, Out};
use crate::logical::ColumnId;
use crate::names;
use crate::types::Type;
use sqlparser::ast;
use std::collections::BTreeSet;

impl Binder {
    /// Binds an aggregate: it belongs to the innermost query whose columns it reads, and is a
    /// column of that query's groups.
    pub(super) fn aggregate(&mut self, parts: &Parts<'_>) -> Result<Typed, SqlError> {
        let own = self.level().aggregates.take();
        let bound = self.without_windows("an aggregate", |binder| binder.aggregate_parts(parts));
        self.level().aggregates = own;
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
        if let Some((id, _)) = known.iter().find(|(_, other)| *other == aggregate)
            && !aggregate.exprs().iter().any(|expr| expr.is_volatile())
        {
            return Ok(Typed::of(Expr::Column(*id), ty));
        }
        let id = self.computed(&parts.name, ty);
        self.columns[id].level = at;
        if let Some(known) = &mut self.levels[at].aggregates {
            known.push((id, aggregate));
        }
        Ok(Typed::of(Expr::Column(id), ty))
    }

    /// Binds an aggregate's arguments and clauses, except OVER.
    pub(super) fn aggregate_parts(&mut self, parts: &Parts<'_>) -> Result<Aggregate, SqlError> {
        let name = parts.name.as_str();
        if parts.distinct && !parts.within.is_empty() {
            let message = "cannot use DISTINCT with WITHIN GROUP";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        if !parts.order.is_empty() && !parts.within.is_empty() {
            let message = "cannot use multiple ORDER BY clauses with WITHIN GROUP";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        let mut filter = None;
        if let Some(condition) = parts.filter {
            let clause = std::mem::replace(&mut self.level().clause, "FILTER");
            let aggregates = self.level().aggregates.take();
            let bound = self.bind_bool(condition, "FILTER");
            self.level().clause = clause;
            self.level().aggregates = aggregates;
            filter = Some(bound?);
        }
        if parts.star {
            if name != "count" {
                return Err(crate::function::missing(name, &[]));
            }
            return Ok(Aggregate {
                function: &aggregate::COUNT_ROWS,
                args: Vec::new(),
                ty: Type::Int8,
                distinct: false,
                order: self.order_keys(parts.order)?.into_iter().map(|(key, _)| key).collect(),
                filter,
            });
        }
        if parts.args.is_empty() && parts.within.is_empty() && name == "count" {
            let message =
                format!("{name}(*) must be used to call a parameterless aggregate function");
            return Err(SqlError::new(state::WRONG_OBJECT, message));
        }
        let args = self.bind_arguments(name, &parts.args)?;
        if matches!(name, "min" | "max") {
            args.iter().try_for_each(|arg| self.check_collation(arg))?;
        }
        let order = self.order_keys(parts.order)?;
        let within = self.within(parts.within)?;
        let plain: Vec<Expr> = args.iter().map(|arg| arg.expr.clone()).collect();
        if parts.distinct {
            args.iter().filter_map(|arg| arg.ty).try_for_each(check_equality)?;
        }
        let types: Vec<_> =
            args.iter().map(|arg| arg.ty).chain(within.iter().map(|(arg, _)| arg.ty)).collect();
        let call = aggregate::resolve(name, &types)?;
        let function = call.function;
        let mut ty = match (name, call.result) {
            // These take networks for addresses, as in PostgreSQL.
            ("min" | "max", Type::Cidr) => Type::Inet,
            (_, ty) => ty,
        };
        if function.is_ordered_set() && within.is_empty() {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(SqlError::new(state::WRONG_OBJECT, message));
        }
        if !function.is_ordered_set() && !within.is_empty() {
            let message =
                format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP");
            return Err(SqlError::new(state::WRONG_OBJECT, message));
        }
        if let Work::Ordered(direct, _) = function.work
            && direct != args.len()
        {
            return Err(crate::function::missing(name, &types));
        }
        if function.is_ordered_set() && function.result() == Out::Common {
            ty = element(ty, &types[args.len()..])?;
        }
        let (args, order) = match function.work {
            Work::Rows(_) => {
                let args = self.convert(args, call.params)?;
                let is_argument =
                    |key: &OrderKey| args.contains(&key.expr) || plain.contains(&key.expr);
                if parts.distinct
                    && let Some(at) = order.iter().position(|(key, _)| !is_argument(key))
                {
                    let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                    let place = names::expr_position(&parts.order[at].expr);
                    return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message).at(place));
                }
                (args, order.into_iter().map(|(key, _)| key).collect())
            }
            Work::Ordered(direct, _) => {
                let (values, keys): (Vec<_>, Vec<_>) = within.into_iter().unzip();
                let mut params = call.params;
                let behind = params.split_off(direct);
                let values = self.convert(values, behind)?;
                (self.convert(args, params)?, with_values(keys, values))
            }
            Work::Hypothetical(_) => self.hypothetical(name, args, within, &types)?,
        };
        let distinct = parts.distinct;
        Ok(Aggregate { function, args, ty, distinct, order, filter })
    }

    /// Binds ORDER BY inside an aggregate or a window: expressions, never outputs.
    pub(super) fn order_keys(
        &mut self,
        order: &[ast::OrderByExpr],
    ) -> Result<Vec<(OrderKey, Type)>, SqlError> {
        let mut keys = Vec::with_capacity(order.len());
        for item in order {
            let (descending, nulls_first) = direction(item)?;
            let bound = self.bind_free(&item.expr)?;
            let ty = bound.ty.unwrap_or(Type::Text);
            check_order(ty)?;
            self.check_collation(&bound)?;
            keys.push((OrderKey { expr: bound.expr, descending, nulls_first }, ty));
        }
        Ok(keys)
    }

    /// Binds WITHIN GROUP: the values, whose types may be undetermined, and their order.
    fn within(
        &mut self,
        order: &[ast::OrderByExpr],
    ) -> Result<Vec<(Typed, (bool, bool))>, SqlError> {
        let mut keys = Vec::with_capacity(order.len());
        for item in order {
            let bound = self.bind(&item.expr)?;
            check_order(bound.ty.unwrap_or(Type::Text))?;
            self.check_collation(&bound)?;
            keys.push((bound, direction(item)?));
        }
        Ok(keys)
    }

    /// Gives the direct arguments of a hypothetical row the types of the values beside them.
    fn hypothetical(
        &mut self,
        name: &str,
        args: Vec<Typed>,
        within: Vec<(Typed, (bool, bool))>,
        types: &[Option<Type>],
    ) -> Result<(Vec<Expr>, Vec<OrderKey>), SqlError> {
        if args.len() != within.len() {
            return Err(crate::function::missing(name, types).hint(format!(
                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {}) must match the number of ordering columns (here {}).",
                args.len(),
                within.len()
            )));
        }
        let (mut direct, mut values, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        for (arg, (value, key)) in args.into_iter().zip(within) {
            let sides = [value, arg];
            let ty = self.meet_all("WITHIN GROUP", &sides)?.unwrap_or(Type::Text);
            let [value, arg] = sides;
            values.push(self.coerce(value, ty, false)?);
            direct.push(self.coerce(arg, ty, false)?);
            keys.push(key);
        }
        Ok((direct, with_values(keys, values)))
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
}

fn with_values(keys: Vec<(bool, bool)>, values: Vec<Expr>) -> Vec<OrderKey> {
    let key = |((descending, nulls_first), expr)| OrderKey { expr, descending, nulls_first };
    keys.into_iter().zip(values).map(key).collect()
}
