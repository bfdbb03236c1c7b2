//! Queries: SELECT, VALUES, set operations, WITH, ORDER BY and LIMIT.

use super::lock::{LockClause, Lockable, RowLocks};
use super::types::{check_equality, check_order, shared};
use super::window::{WindowCall, Windows};
use super::{Binder, ColumnInfo, Item, Level, Objects, Typed, bind_items};
use crate::cast::Coercion;
use crate::clauses;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::{ColumnId, JoinKind, Rel, SetOp, SetOperation, SortKey};
use crate::names;
use crate::response::Column;
use crate::select_into;
use crate::types::Type;
use sqlparser::ast::{self, GroupByExpr, SetExpr, SetQuantifier};
use std::sync::Arc;

/// An output column of a query.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) id: ColumnId,
    pub(crate) name: String,
    /// True for a literal whose type the context decides; it is text otherwise.
    pub(super) unknown: bool,
}

/// A bound query. The relation may have more columns than the outputs.
pub(crate) struct Bound {
    pub(crate) rel: Rel,
    pub(crate) outputs: Vec<Output>,
    /// The rows of tables that its rows are made of.
    pub(super) rows: Lockable,
}

/// A logical plan of a whole query.
pub(crate) struct Query {
    pub(crate) rel: Rel,
    pub(crate) outputs: Vec<ColumnId>,
    pub(crate) columns: Arc<[Column]>,
    pub(crate) params: Arc<[Type]>,
    /// The number of column ids.
    pub(crate) ids: usize,
    /// The names and types of the columns, by id.
    pub(crate) known: Vec<ColumnInfo>,
    /// The locks of the rows of the table that an UPDATE or DELETE changes.
    pub(crate) locks: Option<RowLocks>,
    /// The queries of WITH whose rows it is given, with their columns.
    pub(crate) given: Vec<(usize, Vec<ColumnId>)>,
}

impl Query {
    /// Creates the plan of a part of a statement, which has to be [completed](Binder::complete).
    pub(super) fn part(rel: Rel, outputs: Vec<ColumnId>) -> Query {
        Query {
            rel,
            outputs,
            columns: Arc::from([]),
            params: Arc::from([]),
            ids: 0,
            known: Vec::new(),
            locks: None,
            given: Vec::new(),
        }
    }
}

/// Binds a query over the objects that it may name.
pub(crate) fn compile(
    query: &ast::Query,
    objects: &Objects,
    declared: &[Option<Type>],
) -> Result<Query, SqlError> {
    let mut binder = Binder::over(objects, declared);
    let bound = binder.bind_query(query)?;
    let columns = binder.result_columns(&bound);
    let outputs = bound.outputs.iter().map(|output| output.id).collect();
    Ok(Query { columns, ..binder.finish(bound.rel, outputs) })
}

/// The clauses of a query behind its body.
#[derive(Default)]
pub(super) struct Order<'a> {
    pub(super) by: &'a [ast::OrderByExpr],
    pub(super) limit: Option<&'a ast::LimitClause>,
    pub(super) fetch: Option<&'a ast::Fetch>,
}

/// An expression of ORDER BY or DISTINCT ON.
enum Chosen {
    /// The output of this number.
    Output(usize),
    Computed(Expr),
}

impl Chosen {
    fn output(&self) -> Option<usize> {
        match self {
            Chosen::Output(at) => Some(*at),
            Chosen::Computed(_) => None,
        }
    }
}

/// An item of ORDER BY: descending, and NULLs first.
type Sorted = (Chosen, bool, bool);

/// Returns the sides of a set operation: of a chain of one UNION, all of them.
fn sides_of(set: &SetExpr) -> Vec<&SetExpr> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = set else { return vec![set] };
    let (mut sides, mut waiting) = (Vec::new(), vec![&**right, &**left]);
    while let Some(next) = waiting.pop() {
        match next {
            SetExpr::SetOperation { op: of, set_quantifier: kind, left, right }
                if (*op, *of) == (ast::SetOperator::Union, ast::SetOperator::Union)
                    && kind == set_quantifier =>
            {
                waiting.extend([&**right, &**left]);
            }
            side => sides.push(side),
        }
    }
    sides
}

fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(state::SYNTAX, message)
}

impl Binder {
    /// Begins a statement over the tables that it may name.
    pub(crate) fn over(objects: &Objects, declared: &[Option<Type>]) -> Self {
        let mut binder = Binder::new(declared);
        binder.tables = Some(objects.tables.clone());
        binder.views.clone_from(&objects.views);
        binder.by_name.clone_from(&objects.by_name);
        binder.relations = objects.relations.clone();
        binder.types.clone_from(&objects.types);
        binder.functions.clone_from(&objects.functions);
        binder.extensions.clone_from(&objects.extensions);
        binder.zone = objects.zone.clone();
        binder
    }

    /// Ends the statement: a plan without names for its outputs, and without locks.
    pub(super) fn finish(mut self, rel: Rel, outputs: Vec<ColumnId>) -> Query {
        let mut query = Query::part(rel, outputs);
        self.complete(&mut query);
        query
    }

    /// Adds what is known once the whole statement is bound, and ends it.
    pub(super) fn complete(&mut self, query: &mut Query) {
        query.params = self.param_types();
        query.ids = self.columns.len();
        query.known = std::mem::take(&mut self.columns);
    }

    /// Returns the columns of a query's result.
    pub(super) fn result_columns(&self, bound: &Bound) -> Arc<[Column]> {
        let column = |output: &Output| {
            let info = self.column(output.id);
            let mut column = Column::new(output.name.clone(), info.ty);
            column.domain = info.domain;
            (column.table, column.number) = info.origin;
            column
        };
        bound.outputs.iter().map(column).collect()
    }

    /// Binds a query, which sees the relations of the queries around it.
    pub(super) fn bind_query(&mut self, query: &ast::Query) -> Result<Bound, SqlError> {
        self.bind_query_of(query, None)
    }

    /// Binds a query, of which the set operation may be bound already.
    pub(super) fn bind_query_of(
        &mut self,
        query: &ast::Query,
        set: Option<Bound>,
    ) -> Result<Bound, SqlError> {
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause: _,
            settings: _,
            format_clause: _,
            pipe_operators: _,
        } = query;
        if self.tables.is_none() {
            return Err(SqlError::unsupported("a subquery here"));
        }
        let is_side = std::mem::take(&mut self.binds_side);
        let locks = LockClause::all(locks)?;
        if clauses::is_foreign(query) {
            return Err(SqlError::unsupported("a clause of another dialect"));
        }
        let scope = self.named.len();
        let definitions = match with {
            Some(with) => self.bind_with(with)?,
            None => Vec::new(),
        };
        let (limit, fetch) = (limit_clause.as_ref(), fetch.as_ref());
        let order = Order { limit, fetch, ..order_of(order_by.as_ref())? };
        let mut bound = match (&**body, set) {
            (SetExpr::Select(select), _) => {
                self.binds_side = is_side;
                let outside = self.row_keys;
                self.row_keys |= !locks.is_empty();
                let bound = self.bind_select(select, &order, &locks);
                self.row_keys = outside;
                bound?
            }
            (other, set) => {
                LockClause::refuse(&locks, other)?;
                let bound = set.map_or_else(|| self.bind_body(other), Ok)?;
                let mut bound = self.sort_outputs(bound, &order)?;
                bound.rel = self.bind_limit(bound.rel, &order)?;
                bound
            }
        };
        bound.rel = bound.rel.with_all(definitions);
        self.named.truncate(scope);
        Ok(bound)
    }

    /// Binds what may be a side of a set operation.
    pub(super) fn bind_body(&mut self, body: &SetExpr) -> Result<Bound, SqlError> {
        match body {
            SetExpr::Select(select) => self.bind_select(select, &Order::default(), &[]),
            SetExpr::Query(query) => self.bind_query(query),
            SetExpr::Values(values) => self.bind_values(values),
            SetExpr::SetOperation { op, set_quantifier, .. } => {
                let all = match set_quantifier {
                    SetQuantifier::All => true,
                    SetQuantifier::None | SetQuantifier::Distinct => false,
                    _ => return Err(SqlError::unsupported("a set operation BY NAME")),
                };
                let (op, name) = match op {
                    ast::SetOperator::Union => (SetOp::Union, "UNION"),
                    ast::SetOperator::Intersect => (SetOp::Intersect, "INTERSECT"),
                    ast::SetOperator::Except => (SetOp::Except, "EXCEPT"),
                    ast::SetOperator::Minus => return Err(SqlError::unsupported("MINUS")),
                };
                let sides = sides_of(body).into_iter().map(|side| self.bind_side(side));
                let sides = sides.collect::<Result<_, _>>()?;
                self.bind_set(op, all, name, sides)
            }
            SetExpr::Table(_) => Err(SqlError::unsupported("TABLE in a query")),
            _ => Err(SqlError::unsupported("a change of data inside a query")),
        }
    }

    /// Binds a side of a set operation, which leaves parameters among its outputs without a type.
    pub(super) fn bind_side(&mut self, side: &SetExpr) -> Result<Bound, SqlError> {
        self.binds_side = matches!(side, SetExpr::Select(_) | SetExpr::Query(_));
        let bound = self.bind_body(side);
        self.binds_side = false;
        bound
    }

    /// Binds a chain of one set operation.
    pub(super) fn bind_set(
        &mut self,
        op: SetOp,
        all: bool,
        name: &str,
        mut sides: Vec<Bound>,
    ) -> Result<Bound, SqlError> {
        let Some((first, rest)) = sides.split_first() else { return Err(syntax("no queries")) };
        if rest.iter().any(|side| side.outputs.len() != first.outputs.len()) {
            return Err(syntax(format!("each {name} query must have the same number of columns")));
        }
        let names: Vec<String> = first.outputs.iter().map(|output| output.name.clone()).collect();
        let mut outputs = Vec::with_capacity(names.len());
        let mut types = Vec::with_capacity(names.len());
        for (at, name_of) in names.into_iter().enumerate() {
            // One side after the other: two literals are text, and stay that beside a number.
            let mut met = self.type_of_output(&sides[0].outputs[at]);
            for next in 1..sides.len() {
                let side = self.type_of_output(&sides[next].outputs[at]);
                let ty = self.meet_all(name, &[met.clone(), side])?.unwrap_or(Type::Text);
                // A literal has the type of the sides up to its own.
                let first = if next == 1 { 0 } else { next };
                for side in &mut sides[first..=next] {
                    self.give_output_type(side, at, ty)?;
                }
                met.ty = Some(ty);
            }
            let ty = met.ty.unwrap_or(Type::Text);
            types.push(ty);
            let id = self.computed(&name_of, ty);
            let domains = sides.iter().map(|side| self.columns[side.outputs[at].id].domain);
            self.columns[id].domain = shared(domains);
            outputs.push(Output { id, name: name_of, unknown: false });
        }
        if !all || op != SetOp::Union {
            types.iter().try_for_each(|ty| check_equality(*ty))?;
        }
        let sides = sides.into_iter().map(|side| self.side(side, &types));
        let sides = sides.collect::<Result<_, _>>()?;
        let columns = outputs.iter().map(|output| output.id).collect();
        let rel = Rel::Set(Box::new(SetOperation { op, all, columns, sides }));
        Ok(Bound { rel, outputs, rows: Lockable::refused("UNION/INTERSECT/EXCEPT") })
    }

    /// The type of an output; none for a literal or a parameter.
    fn type_of_output(&self, output: &Output) -> Typed {
        match output.unknown {
            true => Typed::free(Expr::Column(output.id)),
            false => self.typed_column(output.id),
        }
    }

    /// Gives an output that is a literal or a parameter its type.
    fn give_output_type(&mut self, side: &mut Bound, at: usize, ty: Type) -> Result<(), SqlError> {
        let output = &mut side.outputs[at];
        if output.unknown && self.give_type(&mut side.rel, output.id, ty)? {
            self.columns[output.id].ty = ty;
            output.unknown = false;
        }
        Ok(())
    }

    /// Converts a side's columns to the types of the set operation.
    pub(super) fn side(
        &mut self,
        mut side: Bound,
        types: &[Type],
    ) -> Result<(Rel, Vec<ColumnId>), SqlError> {
        for (at, ty) in types.iter().enumerate() {
            self.give_output_type(&mut side, at, *ty)?;
        }
        let same = |(output, ty): (&Output, &Type)| self.columns[output.id].ty.base() == ty.base();
        if side.outputs.iter().zip(types).all(same) {
            return Ok((side.rel, side.outputs.iter().map(|output| output.id).collect()));
        }
        let (mut outputs, mut ids) = (Vec::new(), Vec::new());
        for (output, ty) in side.outputs.iter().zip(types) {
            let column = Expr::Column(output.id);
            let expr = match self.columns[output.id].ty.base() == ty.base() {
                true => column,
                false => {
                    let from = Some(self.columns[output.id].ty);
                    Expr::Cast(Box::new(column), *ty, Coercion::of(from, *ty, false))
                }
            };
            let id = self.computed(&output.name, *ty);
            outputs.push((id, expr));
            ids.push(id);
        }
        Ok((Rel::Project { input: Box::new(side.rel), outputs }, ids))
    }

    /// Gives a literal or a parameter that is an output of a projection its type. Returns false if
    /// it is not there.
    pub(super) fn give_type(
        &mut self,
        rel: &mut Rel,
        id: ColumnId,
        ty: Type,
    ) -> Result<bool, SqlError> {
        match rel {
            Rel::Project { outputs, .. } => {
                let Some((_, expr)) = outputs.iter_mut().find(|(output, _)| *output == id) else {
                    return Ok(false);
                };
                let known = match expr {
                    Expr::Param(at) => self.params[*at],
                    _ => None,
                };
                let typed = Typed { ty: known, ..Typed::free(expr.clone()) };
                *expr = self.coerce(typed, ty, false)?;
                Ok(true)
            }
            Rel::Sort { input, .. }
            | Rel::Distinct { input, .. }
            | Rel::Limit { input, .. }
            | Rel::Lock { input, .. }
            | Rel::With { body: input, .. } => self.give_type(input, id, ty),
            _ => Ok(false),
        }
    }

    fn bind_values(&mut self, values: &ast::Values) -> Result<Bound, SqlError> {
        let ast::Values { explicit_row, value_keyword, rows } = values;
        if *explicit_row || *value_keyword {
            return Err(SqlError::unsupported("VALUES of another dialect"));
        }
        let width = rows.first().map_or(0, |row| row.content.len());
        let mut columns: Vec<Vec<Typed>> = vec![Vec::with_capacity(rows.len()); width];
        self.levels.push(Level { clause: "VALUES", ..Level::default() });
        for row in rows {
            if row.content.len() != width {
                return Err(syntax("VALUES lists must all be the same length"));
            }
            for (column, expr) in columns.iter_mut().zip(&row.content) {
                column.push(self.bind(expr)?);
            }
        }
        let mut outputs = Vec::with_capacity(width);
        let mut made: Vec<Vec<Expr>> = vec![Vec::with_capacity(width); rows.len()];
        for (at, column) in columns.into_iter().enumerate() {
            let ty = self.meet_all("VALUES", &column)?.unwrap_or(Type::Text);
            for (row, typed) in made.iter_mut().zip(column) {
                row.push(self.coerce(typed, ty, false)?);
            }
            let name = format!("column{}", at + 1);
            let id = self.computed(&name, ty);
            outputs.push(Output { id, name, unknown: false });
        }
        self.levels.pop();
        let columns = outputs.iter().map(|output| output.id).collect();
        let rel = Rel::Values { columns, rows: made };
        Ok(Bound { rel, outputs, rows: Lockable::default() })
    }

    /// Sorts a query by its outputs.
    fn sort_outputs(&mut self, bound: Bound, order: &Order<'_>) -> Result<Bound, SqlError> {
        let mut bound = bound;
        let mut by = Vec::with_capacity(order.by.len());
        for item in order.by {
            let (descending, nulls_first) = direction(item)?;
            let at = match &item.expr {
                ast::Expr::Identifier(ident) => output_named(&bound.outputs, ident)?,
                expr => position(expr, bound.outputs.len(), "ORDER BY")?,
            };
            let Some(at) = at else {
                return match &item.expr {
                    ast::Expr::Identifier(ident) => {
                        let message = format!("column \"{}\" does not exist", names::fold(ident));
                        Err(SqlError::new(state::UNDEFINED_COLUMN, message)
                            .at(names::position(ident)))
                    }
                    _ => Err(SqlError::new(
                        state::FEATURE_NOT_SUPPORTED,
                        "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                    )
                    .detail("Only result column names can be used, not expressions or functions.")),
                };
            };
            let output = &mut bound.outputs[at];
            let column = output.id;
            if std::mem::take(&mut output.unknown) {
                self.give_type(&mut bound.rel, column, Type::Text)?;
            }
            self.check_collation(&self.typed_column(column))?;
            by.push(SortKey { column, descending, nulls_first });
        }
        if !by.is_empty() {
            bound.rel = Rel::Sort { input: Box::new(bound.rel), by };
        }
        Ok(bound)
    }

    fn bind_limit(&mut self, rel: Rel, order: &Order<'_>) -> Result<Rel, SqlError> {
        let (mut limit, offset) = match order.limit {
            None => (None, None),
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
                if !limit_by.is_empty() {
                    return Err(SqlError::unsupported("LIMIT BY"));
                }
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
                return Err(syntax("LIMIT #,# syntax is not supported")
                    .hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        let one = ast::Expr::value(ast::Value::Number("1".into(), false));
        if let Some(ast::Fetch { with_ties, percent, quantity }) = order.fetch {
            if *with_ties || *percent {
                return Err(SqlError::unsupported("FETCH … WITH TIES or PERCENT"));
            }
            limit = Some(quantity.as_ref().unwrap_or(&one));
        }
        if limit.is_none() && offset.is_none() {
            return Ok(rel);
        }
        self.levels.push(Level { clause: "LIMIT", ..Level::default() });
        let mut count = |expr: Option<&ast::Expr>, clause: &str| {
            let Some(expr) = expr else { return Ok(None) };
            let bound = self.bind(expr)?;
            if let Some(ty) = self.type_of(&bound).filter(|ty| !ty.is_number()) {
                let name = ty.name();
                let message = format!("argument of {clause} must be type bigint, not type {name}");
                return Err(
                    SqlError::new(state::TYPE_MISMATCH, message).at(names::expr_position(expr))
                );
            }
            let count = self.coerce(bound, Type::Int8, false)?;
            let (mut varies, query) = (false, self.levels.len() - 2);
            count.each_column(&mut |id| varies |= self.columns[id].level == query);
            if varies {
                let message = format!("argument of {clause} must not contain variables");
                return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message)
                    .at(names::expr_position(expr)));
            }
            Ok(Some(count))
        };
        let (mut limit, mut offset) = (count(limit, "LIMIT")?, count(offset, "OFFSET")?);
        self.levels.pop();
        let counts: Vec<&mut Expr> = limit.iter_mut().chain(&mut offset).collect();
        if !counts.iter().any(|count| count.has_subquery()) {
            return Ok(Rel::Limit { input: Box::new(rel), limit, offset });
        }
        // A row of the counts, and for it the rows that they limit.
        let counts = counts.into_iter().map(|count| {
            let id = self.computed("count", Type::Int8);
            (id, std::mem::replace(count, Expr::Column(id)))
        });
        let outputs = counts.collect();
        let counted = Rel::Project { input: Box::new(Rel::one_row()), outputs };
        let limited = Rel::Limit { input: Box::new(rel), limit, offset };
        Ok(counted.join(JoinKind::Inner, limited, Expr::truth()))
    }

    fn bind_select(
        &mut self,
        select: &ast::Select,
        order: &Order<'_>,
        locks: &[LockClause],
    ) -> Result<Bound, SqlError> {
        let (levels, named) = (self.levels.len(), self.named.len());
        self.levels.push(Level::default());
        let bound = self.bind_select_inner(select, order, locks);
        self.levels.truncate(levels);
        self.named.truncate(named);
        bound.or_else(|error| self.bind_empty(select, error))
    }

    fn bind_select_inner(
        &mut self,
        select: &ast::Select,
        order: &Order<'_>,
        locks: &[LockClause],
    ) -> Result<Bound, SqlError> {
        let ast::Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor: _,
        } = select;
        if let Some(into) = into {
            return Err(select_into::not_here(into));
        }
        if qualify.is_some() {
            return Err(SqlError::unsupported("QUALIFY"));
        }
        let foreign = !optimizer_hints.is_empty()
            || select_modifiers.is_some()
            || top.is_some()
            || exclude.is_some()
            || !lateral_views.is_empty()
            || prewhere.is_some()
            || !connect_by.is_empty()
            || !cluster_by.is_empty()
            || !distribute_by.is_empty()
            || !sort_by.is_empty()
            || value_table_mode.is_some();
        if foreign {
            return Err(SqlError::unsupported("a clause of another dialect"));
        }
        let is_side = std::mem::take(&mut self.binds_side);
        let mut rel = self.bind_from(from)?;
        let GroupByExpr::Expressions(group_by, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("GROUP BY … WITH"));
        }
        self.begin_clause("SELECT", true);
        self.level().sets = Some(Vec::new());
        self.level().windows = Some(Windows::default());
        self.level().present = Some(Vec::new());
        self.bind_named_windows(named_window)?;
        // The outputs come first: a parameter has the type that its first use gives it.
        let mut items = bind_items(self, projection)?;
        if let Some(filter) = selection {
            rel = rel.filter(vec![self.bind_where(filter)?]);
        }
        for item in &mut items {
            if is_side && matches!(item.typed.expr, Expr::Param(_)) {
                continue;
            }
            if !matches!(item.typed.expr, Expr::Const(_)) {
                self.settle(item)?;
            }
        }
        let grouping = self.bind_group_by(group_by, &items)?;
        let mut having = having.as_ref().map(|having| self.bind_having(having)).transpose()?;
        let mut sort = self.bind_order(order, &items)?;
        let mut first_of = Vec::new();
        if let Some(ast::Distinct::On(on)) = distinct {
            for expr in on {
                first_of.push(self.choose(expr, &items, "SELECT DISTINCT ON")?);
            }
        }
        // What rows are compared by has a type, and that an order.
        let is_distinct = matches!(distinct, Some(ast::Distinct::Distinct));
        let chosen = sort.iter().map(|(chosen, ..)| chosen).chain(&first_of);
        let compared: Vec<usize> = match is_distinct {
            true => (0..items.len()).collect(),
            false => chosen.filter_map(Chosen::output).collect(),
        };
        for at in compared {
            self.settle(&mut items[at])?;
            let check = if is_distinct { check_equality } else { check_order };
            check(items[at].typed.ty.unwrap_or(Type::Text))?;
        }
        let mut sets = self.level().sets.take().unwrap_or_default();
        let set_queries = std::mem::take(&mut self.level().set_queries);
        let mut windows = self.level().windows.take().unwrap_or_default();
        let aggregates = self.end_clause();
        let apart = [
            (distinct.is_some(), "DISTINCT clause"),
            (!group_by.is_empty(), "GROUP BY clause"),
            (having.is_some(), "HAVING clause"),
            (!aggregates.is_empty(), "aggregate functions"),
            (!windows.calls.is_empty(), "window functions"),
            (
                !sets.is_empty() || !set_queries.is_empty(),
                "set-returning functions in the target list",
            ),
        ];
        let apart = apart.into_iter().find_map(|(has, what)| has.then_some(what));
        let locked = self.row_locks(locks, apart)?;
        let rows = apart.map_or_else(|| Lockable::all(self.relations()), Lockable::refused);

        self.add_presence(&mut rel)?;
        let grouped = !group_by.is_empty()
            || having.is_some()
            || !aggregates.is_empty()
            || !self.level().marks.is_empty();
        if grouped && !set_queries.is_empty() {
            let what = "a set-returning function of the database among the outputs of groups";
            return Err(SqlError::unsupported(what));
        }
        if grouped {
            let outputs = items.iter_mut().map(|item| &mut item.typed.expr).collect();
            let mut others: Vec<_> = having.iter_mut().collect();
            let chosen = sort.iter_mut().map(|(chosen, ..)| chosen).chain(&mut first_of);
            others.extend(chosen.filter_map(|chosen| match chosen {
                Chosen::Output(_) => None,
                Chosen::Computed(expr) => Some(expr),
            }));
            let mut args: Vec<_> =
                sets.iter_mut().map(|(_, _, args)| std::mem::take(args)).collect();
            others.extend(args.iter_mut().flatten());
            let known = windows.calls.iter().map(|call| call.id);
            let known =
                known.chain(sets.iter().flat_map(|(ids, ..)| ids.iter().copied())).collect();
            others.extend(windows.calls.iter_mut().flat_map(WindowCall::exprs_mut));
            rel = self.group(rel, grouping, (aggregates, known), outputs, others)?;
            for ((_, _, place), args) in sets.iter_mut().zip(args) {
                *place = args;
            }
            rel = rel.filter(having.into_iter().collect());
        }
        rel = self.add_windows(rel, windows).with_sets(sets);
        for rows in set_queries {
            rel = rel.join(JoinKind::Inner, rows, Expr::truth());
        }
        let mut bound = self.project(rel, items, sort, distinct.as_ref(), first_of, rows)?;
        if !locked.is_empty() {
            bound.rel = Rel::Lock { input: Box::new(bound.rel), locks: locked };
        }
        bound.rel = self.bind_limit(bound.rel, order)?;
        Ok(bound)
    }

    /// Gives text to an output without a type.
    fn settle(&mut self, item: &mut Item) -> Result<(), SqlError> {
        if item.typed.ty.is_none() {
            let expr = self.coerce(item.typed.clone(), Type::Text, false)?;
            item.typed = Typed::of(expr, Type::Text);
        }
        Ok(())
    }

    /// Binds WHERE, in which there are neither aggregates nor window functions nor functions that
    /// return rows, while SELECT has them.
    fn bind_where(&mut self, filter: &ast::Expr) -> Result<Expr, SqlError> {
        let level = self.level();
        let of_select =
            (level.clause, level.aggregates.take(), level.sets.take(), level.windows.take());
        level.clause = "WHERE";
        let condition = self.bind_bool(filter, "WHERE");
        let level = self.level();
        (level.clause, level.aggregates, level.sets, level.windows) = of_select;
        condition
    }

    /// Binds HAVING, in which there may be aggregates and no window functions.
    pub(super) fn bind_having(&mut self, having: &ast::Expr) -> Result<Expr, SqlError> {
        self.without_windows("HAVING", |binder| binder.bind_bool(having, "HAVING"))
    }

    /// Binds ORDER BY: an output, or an expression over the query's relations.
    fn bind_order(&mut self, order: &Order<'_>, items: &[Item]) -> Result<Vec<Sorted>, SqlError> {
        let mut sort = Vec::with_capacity(order.by.len());
        for item in order.by {
            let (descending, nulls_first) = direction(item)?;
            sort.push((self.choose(&item.expr, items, "ORDER BY")?, descending, nulls_first));
        }
        Ok(sort)
    }

    fn choose(
        &mut self,
        expr: &ast::Expr,
        items: &[Item],
        clause: &str,
    ) -> Result<Chosen, SqlError> {
        let output = match expr {
            ast::Expr::Identifier(ident) => named(ident, items, clause)?,
            expr => position(expr, items.len(), clause)?,
        };
        Ok(match output {
            Some(at) => Chosen::Output(at),
            None => {
                let bound = self.bind_free(expr)?;
                check_order(bound.ty.unwrap_or(Type::Text))
                    .and_then(|()| self.check_collation(&bound))
                    .map_err(|error| error.at(names::expr_position(expr)))?;
                Chosen::Computed(bound.expr)
            }
        })
    }

    /// Computes the outputs, and what the rows are distinct and sorted by.
    fn project(
        &mut self,
        rel: Rel,
        items: Vec<Item>,
        sort: Vec<Sorted>,
        distinct: Option<&ast::Distinct>,
        first_of: Vec<Chosen>,
        rows: Lockable,
    ) -> Result<Bound, SqlError> {
        let mut computed: Vec<(ColumnId, Expr)> = Vec::with_capacity(items.len());
        let mut outputs = Vec::with_capacity(items.len());
        for item in items {
            let unknown = item.typed.ty.is_none();
            let id = match item.typed.ty {
                Some(ty) => {
                    let id = self.output_of(&mut computed, item.typed.expr, &item.name, ty);
                    self.columns[id].domain = self.columns[id].domain.or(item.typed.domain);
                    id
                }
                // Each may get a type of its own.
                None => {
                    let id = self.computed(&item.name, Type::Text);
                    computed.push((id, item.typed.expr));
                    id
                }
            };
            outputs.push(Output { id, name: item.name, unknown });
        }
        let shown = computed.len();
        let mut by = Vec::with_capacity(sort.len());
        let mut column = |binder: &mut Self, chosen: Chosen| match chosen {
            Chosen::Output(at) => outputs[at].id,
            Chosen::Computed(expr) => binder.place(&mut computed, expr),
        };
        for (chosen, descending, nulls_first) in sort {
            if let Chosen::Output(at) = chosen {
                let id = outputs[at].id;
                self.check_collation(&self.typed_column(id))?;
            }
            let column = column(self, chosen);
            by.push(SortKey { column, descending, nulls_first });
        }
        let mut first_ids = Vec::with_capacity(first_of.len());
        for chosen in first_of {
            let column = column(self, chosen);
            if !first_ids.contains(&column) {
                first_ids.push(column);
            }
        }
        let is_distinct = matches!(distinct, Some(ast::Distinct::Distinct));
        if is_distinct && computed.len() > shown {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
        }
        let leading = by.iter().take(first_ids.len()).all(|key| first_ids.contains(&key.column));
        if !leading {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
        }
        let keys = rows.keys().iter().map(|key| (*key, Expr::Column(*key)));
        let keys = keys.filter(|(key, _)| computed.iter().all(|(known, _)| known != key));
        let keys: Vec<_> = keys.collect();
        computed.extend(keys);
        let mut rel = Rel::Project { input: Box::new(rel), outputs: computed };
        if is_distinct {
            let on = outputs.iter().map(|output| output.id).collect();
            rel = Rel::Distinct { input: Box::new(rel), on };
        }
        if !by.is_empty() {
            rel = Rel::Sort { input: Box::new(rel), by };
        }
        if matches!(distinct, Some(ast::Distinct::On(_))) {
            rel = Rel::Distinct { input: Box::new(rel), on: first_ids };
        }
        Ok(Bound { rel, outputs, rows })
    }

    /// Adds an output to a projection, and returns its column. No two outputs have one column,
    /// though their expressions be equal: a query around may group by one of them only.
    fn output_of(
        &mut self,
        computed: &mut Vec<(ColumnId, Expr)>,
        expr: Expr,
        name: &str,
        ty: Type,
    ) -> ColumnId {
        let is_new = |id: ColumnId| computed.iter().all(|(known, _)| *known != id);
        let id = match &expr {
            Expr::Column(id) if self.is_own(*id) && ty == self.columns[*id].ty && is_new(*id) => {
                *id
            }
            _ => {
                let id = self.computed(name, ty);
                self.columns[id].shape = self.shape_of(&expr);
                id
            }
        };
        computed.push((id, expr));
        id
    }

    /// Returns the column of an expression that rows are sorted by or distinct in, among those of a
    /// projection; adds it if it is new.
    fn place(&mut self, computed: &mut Vec<(ColumnId, Expr)>, expr: Expr) -> ColumnId {
        if let Some((id, _)) = computed.iter().find(|(_, known)| *known == expr)
            && !expr.is_volatile()
        {
            return *id;
        }
        let id = match &expr {
            Expr::Column(id) if self.is_own(*id) => *id,
            _ => self.computed("?column?", Type::Text),
        };
        computed.push((id, expr));
        id
    }
}

pub(super) fn order_of(order_by: Option<&ast::OrderBy>) -> Result<Order<'_>, SqlError> {
    let Some(ast::OrderBy { kind, interpolate }) = order_by else { return Ok(Order::default()) };
    match kind {
        ast::OrderByKind::Expressions(by) if interpolate.is_none() => {
            Ok(Order { by, ..Order::default() })
        }
        _ => Err(SqlError::unsupported("ORDER BY ALL")),
    }
}

/// Returns whether an item of ORDER BY is descending, and whether its NULLs come first.
pub(super) fn direction(item: &ast::OrderByExpr) -> Result<(bool, bool), SqlError> {
    let ast::OrderByExpr { expr: _, options, with_fill } = item;
    let ast::OrderByOptions { asc, nulls_first } = options;
    if with_fill.is_some() {
        return Err(SqlError::unsupported("WITH FILL"));
    }
    let descending = *asc == Some(false);
    Ok((descending, nulls_first.unwrap_or(descending)))
}

/// Returns the output of this name; fails if several have it.
fn output_named(outputs: &[Output], ident: &ast::Ident) -> Result<Option<usize>, SqlError> {
    let name = names::fold(ident);
    let mut found = outputs.iter().enumerate().filter(|(_, output)| output.name == name);
    let first = found.next().map(|(at, _)| at);
    if found.next().is_some() {
        let message = format!("ORDER BY \"{name}\" is ambiguous");
        return Err(SqlError::new(state::AMBIGUOUS_COLUMN, message).at(names::position(ident)));
    }
    Ok(first)
}

/// Returns the output of a name in ORDER BY, GROUP BY or DISTINCT ON.
pub(super) fn named(
    ident: &ast::Ident,
    items: &[Item],
    clause: &str,
) -> Result<Option<usize>, SqlError> {
    let name = names::fold(ident);
    let mut found = items.iter().enumerate().filter(|(_, item)| item.name == name);
    let Some((at, first)) = found.next() else { return Ok(None) };
    if found.any(|(_, other)| other.typed.expr != first.typed.expr) {
        let message = format!("{clause} \"{name}\" is ambiguous");
        return Err(SqlError::new(state::AMBIGUOUS_COLUMN, message).at(names::position(ident)));
    }
    Ok(Some(at))
}

/// Returns the output's index in `ORDER BY 2`. Fails for any other literal.
pub(super) fn position(
    expr: &ast::Expr,
    outputs: usize,
    clause: &str,
) -> Result<Option<usize>, SqlError> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let place = names::expr_position(expr);
    let digits = match &value.value {
        ast::Value::Number(digits, _) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits,
        ast::Value::Placeholder(_) => return Ok(None),
        _ => {
            let message = format!("non-integer constant in {clause}");
            return Err(SqlError::new(state::SYNTAX, message).at(place));
        }
    };
    match digits.parse::<usize>() {
        Ok(n) if (1..=outputs).contains(&n) => Ok(Some(n - 1)),
        _ => {
            let message = format!("{clause} position {digits} is not in select list");
            Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message).at(place))
        }
    }
}

impl Rel {
    /// Takes it, and leaves a row without columns.
    pub(super) fn take(&mut self) -> Rel {
        std::mem::replace(self, Rel::one_row())
    }

    /// Adds the queries of WITH that it reads.
    pub(super) fn with_all(mut self, definitions: Vec<(usize, Rel, bool)>) -> Rel {
        for (name, definition, materialized) in definitions.into_iter().rev() {
            self = match self.uses_of(name) {
                0 => self,
                1 if !materialized => self.with_inlined(name, definition),
                _ => {
                    let (definition, body) = (Box::new(definition), Box::new(self));
                    Rel::With { name, definition, body }
                }
            };
        }
        self
    }

    /// The number of places that read a query of WITH.
    pub(super) fn uses_of(&mut self, number: usize) -> usize {
        let own = matches!(self, Rel::Named { name, .. } if *name == number);
        let mut uses = usize::from(own);
        for expr in self.exprs_mut() {
            expr.each_subquery(&mut |subquery| uses += subquery.rel.uses_of(number));
        }
        uses + self.inputs_mut().into_iter().map(|input| input.uses_of(number)).sum::<usize>()
    }

    /// Replaces the only use of a query of WITH by its definition.
    fn with_inlined(mut self, number: usize, definition: Rel) -> Rel {
        let mut definition = Some(definition);
        self.inline(number, &mut definition);
        self
    }

    fn inline(&mut self, number: usize, definition: &mut Option<Rel>) {
        if let Rel::Named { name, columns, of } = self
            && *name == number
            && let Some(definition) = definition.take()
        {
            let outputs =
                columns.iter().copied().zip(of.iter().map(|id| Expr::Column(*id))).collect();
            *self = Rel::Project { input: Box::new(definition), outputs };
            return;
        }
        for expr in self.exprs_mut() {
            expr.each_subquery(&mut |subquery| subquery.rel.inline(number, definition));
        }
        for input in self.inputs_mut() {
            input.inline(number, definition);
        }
    }
}
