//! GROUP BY: keys, grouping sets, GROUPING, and the columns that a grouped query may use.

use super::call::Parts;
use super::query::{named, position};
use super::types::check_equality;
use super::{Binder, Item, Typed};
use crate::aggregate::Aggregate;
use crate::carried;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::limits::{MOST_GROUPING_SETS, WIDEST_CUBE};
use crate::logical::{ColumnId, GroupingSets, Rel};
use crate::names;
use crate::types::Type;
use sqlparser::ast;
use std::collections::BTreeSet;

/// The keys of a query's groups.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    pub(crate) keys: Vec<Key>,
    /// The places of each grouping set's keys; `None` for one set of all keys.
    pub(crate) sets: Option<Vec<Vec<usize>>>,
}

/// An expression by which rows are grouped, and the column of its values.
#[derive(Debug)]
pub(super) struct Key {
    pub(crate) id: ColumnId,
    pub(crate) expr: Expr,
    /// The number of the output that equals the key; it distinguishes equal expressions.
    output: Option<usize>,
}

/// GROUPING(…): its column and arguments.
pub(super) type Mark = (ColumnId, Vec<Expr>);

/// Several sets of keys.
type Sets = Vec<Vec<usize>>;

impl Grouping {
    /// True if a column is a key of every set.
    fn has_column(&self, id: ColumnId) -> bool {
        let in_all = |at: usize| {
            self.sets.as_ref().is_none_or(|sets| sets.iter().all(|set| set.contains(&at)))
        };
        self.keys.iter().enumerate().any(|(at, key)| key.expr == Expr::Column(id) && in_all(at))
    }

    /// Returns the place of the key that an expression is.
    fn find(&self, expr: &Expr) -> Option<usize> {
        self.keys.iter().position(|key| key.expr == *expr)
    }
}

fn has_sets(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_) => true,
        ast::Expr::Tuple(parts) => parts.is_empty(),
        _ => false,
    }
}

fn too_many_sets() -> SqlError {
    let message = format!("too many grouping sets present (maximum {MOST_GROUPING_SETS})");
    SqlError::new(state::TOO_COMPLEX, message)
}

/// Returns ROLLUP or CUBE inside GROUPING SETS, which parses as a call.
fn nested(set: &[ast::Expr]) -> Option<ast::Expr> {
    let [ast::Expr::Function(call)] = set else { return None };
    let part = |expr: &ast::Expr| match expr {
        ast::Expr::Tuple(parts) => parts.clone(),
        expr => vec![expr.clone()],
    };
    let parts = || Some(names::arguments(call).ok()?.into_iter().map(part).collect());
    match names::function_name(&call.name).as_str() {
        "rollup" => Some(ast::Expr::Rollup(parts()?)),
        "cube" => Some(ast::Expr::Cube(parts()?)),
        _ => None,
    }
}

impl Binder {
    /// Binds GROUP BY, whose expressions may be outputs.
    pub(super) fn bind_group_by(
        &mut self,
        group_by: &[ast::Expr],
        items: &[Item],
    ) -> Result<Grouping, SqlError> {
        let (group_by, is_distinct) = carried::distinct(group_by);
        let aggregates = self.level().aggregates.take();
        let mut grouping = Grouping::default();
        if group_by.iter().any(has_sets) {
            grouping.sets = Some(Vec::new());
        }
        let bound = self
            .without_windows("GROUP BY", |binder| binder.bind_sets(group_by, items, &mut grouping));
        self.level().aggregates = aggregates;
        let mut sets = bound?;
        if is_distinct {
            let mut seen = BTreeSet::new();
            sets.retain(|set| seen.insert(set.clone()));
        }
        grouping.sets = match sets.len() {
            1 => None,
            _ => Some(sets),
        };
        for key in &grouping.keys {
            self.refuse_computed_key(&key.expr)?;
        }
        Ok(grouping)
    }

    /// Fails if a key contains an aggregate or a window function of this query.
    fn refuse_computed_key(&mut self, expr: &Expr) -> Result<(), SqlError> {
        let level = self.level();
        let aggregates = level.aggregates.iter().flatten().map(|(id, _)| *id);
        let marks = level.marks.iter().map(|(id, _)| *id);
        let aggregates: BTreeSet<_> = aggregates.chain(marks).collect();
        let windows = level.windows.iter().flat_map(|windows| &windows.calls);
        let windows: BTreeSet<_> = windows.map(|call| call.id).collect();
        let sets: BTreeSet<_> =
            level.sets.iter().flatten().flat_map(|(ids, ..)| ids.iter().copied()).collect();
        if expr.names_any(&sets) {
            return Err(SqlError::unsupported("a set-returning function in GROUP BY"));
        }
        if expr.names_any(&aggregates) {
            let message = "aggregate functions are not allowed in GROUP BY";
            return Err(SqlError::new(state::GROUPING, message));
        }
        if expr.names_any(&windows) {
            let message = "window functions are not allowed in GROUP BY";
            return Err(SqlError::new(state::WINDOWING, message));
        }
        Ok(())
    }

    /// Returns the product of the sets of all elements.
    fn bind_sets(
        &mut self,
        group_by: &[ast::Expr],
        items: &[Item],
        grouping: &mut Grouping,
    ) -> Result<Sets, SqlError> {
        let mut all: Sets = vec![Vec::new()];
        for element in group_by {
            let sets = self.bind_element(element, items, grouping)?;
            if all.len() * sets.len() > MOST_GROUPING_SETS {
                return Err(too_many_sets());
            }
            let join = |left: &Vec<usize>| {
                let left = left.clone();
                sets.iter().map(move |right| {
                    let both: BTreeSet<_> = left.iter().chain(right).copied().collect();
                    both.into_iter().collect()
                })
            };
            all = all.iter().flat_map(join).collect();
        }
        Ok(all)
    }

    fn bind_element(
        &mut self,
        element: &ast::Expr,
        items: &[Item],
        grouping: &mut Grouping,
    ) -> Result<Sets, SqlError> {
        Ok(match element {
            ast::Expr::Tuple(parts) => vec![self.bind_keys(parts, items, grouping)?],
            ast::Expr::Rollup(parts) => rollup(self.bind_parts(parts, items, grouping)?),
            ast::Expr::Cube(parts) => cube(self.bind_parts(parts, items, grouping)?)?,
            ast::Expr::GroupingSets(sets) => {
                let mut all = Vec::new();
                for set in sets {
                    match nested(set) {
                        Some(inner) => all.extend(self.bind_element(&inner, items, grouping)?),
                        None => all.push(self.bind_keys(set, items, grouping)?),
                    }
                    if all.len() > MOST_GROUPING_SETS {
                        return Err(too_many_sets());
                    }
                }
                all
            }
            expr => vec![vec![self.bind_key(expr, items, grouping)?]],
        })
    }

    fn bind_parts(
        &mut self,
        parts: &[Vec<ast::Expr>],
        items: &[Item],
        grouping: &mut Grouping,
    ) -> Result<Sets, SqlError> {
        parts.iter().map(|part| self.bind_keys(part, items, grouping)).collect()
    }

    fn bind_keys(
        &mut self,
        exprs: &[ast::Expr],
        items: &[Item],
        grouping: &mut Grouping,
    ) -> Result<Vec<usize>, SqlError> {
        exprs.iter().map(|expr| self.bind_key(expr, items, grouping)).collect()
    }

    /// Binds a key; returns its place among all.
    fn bind_key(
        &mut self,
        expr: &ast::Expr,
        items: &[Item],
        grouping: &mut Grouping,
    ) -> Result<usize, SqlError> {
        let is_input = |binder: &Self, ident: &ast::Ident| {
            let name = names::fold(ident);
            binder.relations().iter().flat_map(|r| &r.columns).any(|c| c.name == name)
        };
        let output = match expr {
            ast::Expr::Identifier(ident) if is_input(self, ident) => None,
            ast::Expr::Identifier(ident) => named(ident, items, "GROUP BY")?,
            expr => position(expr, items.len(), "GROUP BY")?,
        };
        let bound = match output {
            Some(at) => {
                let typed = items[at].typed.clone();
                match typed.ty {
                    Some(_) => typed,
                    None => Typed::of(self.coerce(typed, Type::Text, false)?, Type::Text),
                }
            }
            None => self.bind_free(expr)?,
        };
        let is_it =
            |item: &Item| item.typed.expr == bound.expr && !matches!(bound.expr, Expr::Const(_));
        let output = output.or_else(|| items.iter().position(is_it));
        // Only grouping sets tell equal keys apart.
        let same =
            |key: &Key| key.expr == bound.expr && (grouping.sets.is_none() || key.output == output);
        if let Some(at) = grouping.keys.iter().position(same) {
            return Ok(at);
        }
        let ty = bound.ty.unwrap_or(Type::Text);
        check_equality(ty).map_err(|error| error.at(names::expr_position(expr)))?;
        let id = self.key_column(&bound.expr, ty, grouping.sets.is_some());
        grouping.keys.push(Key { id, expr: bound.expr, output });
        Ok(grouping.keys.len() - 1)
    }

    /// Returns the column of a key's values; with grouping sets one of its own, which NULLs enter.
    fn key_column(&mut self, expr: &Expr, ty: Type, has_sets: bool) -> ColumnId {
        match expr {
            Expr::Column(id) if self.is_own(*id) && !has_sets => *id,
            Expr::Column(id) if self.is_own(*id) => {
                self.columns.push(self.columns[*id].clone());
                self.columns.len() - 1
            }
            _ => {
                let id = self.computed("?column?", ty);
                self.columns[id].shape = self.shape_of(expr);
                id
            }
        }
    }

    /// Adds the columns of a table whose primary key is among the keys: they depend on it.
    pub(super) fn add_dependent_keys(&mut self, grouping: &mut Grouping, over: &[&mut Expr]) {
        let mut wanted = BTreeSet::new();
        for expr in over {
            expr.each_column(&mut |id| _ = wanted.insert(id));
        }
        let mut dependent = Vec::new();
        for relation in self.relations() {
            let Some(primary) = relation.table.as_ref().and_then(|t| t.primary.as_ref()) else {
                continue;
            };
            let mut parts =
                primary.columns.iter().map(|part| relation.columns[part.column as usize].id);
            if !parts.all(|id| grouping.has_column(id)) {
                continue;
            }
            let ids = relation.columns.iter().map(|column| column.id);
            dependent.extend(ids.filter(|id| wanted.contains(id) && !grouping.has_column(*id)));
        }
        for column in dependent {
            let (ty, expr) = (self.columns[column].ty, Expr::Column(column));
            let id = self.key_column(&expr, ty, grouping.sets.is_some());
            grouping.keys.push(Key { id, expr, output: None });
            let at = grouping.keys.len() - 1;
            grouping.sets.iter_mut().flatten().for_each(|set| set.push(at));
        }
    }

    /// Binds GROUPING, whose arguments are compared with the keys once these are known.
    pub(super) fn grouping(&mut self, parts: &Parts<'_>) -> Result<Typed, SqlError> {
        if self.tables.is_none() {
            return Err(SqlError::unsupported("GROUPING here"));
        }
        let Parts { name: _, star, distinct, args, order, within, filter, over } = parts;
        let plain = !star && !distinct && order.is_empty() && within.is_empty();
        if !plain || filter.is_some() || over.is_some() || args.is_empty() {
            return Err(SqlError::new(state::SYNTAX, "syntax error at or near \"grouping\""));
        }
        if args.len() > 31 {
            let message = "GROUPING must have fewer than 32 arguments";
            return Err(SqlError::new("54023", message));
        }
        let level = self.level();
        if level.aggregates.is_none() {
            let message = match level.clause {
                "an aggregate" => "aggregate function calls cannot be nested".to_owned(),
                "" => "grouping operations are not allowed here".to_owned(),
                clause => format!("grouping operations are not allowed in {clause}"),
            };
            return Err(SqlError::new(state::GROUPING, message));
        }
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(self.bind_free(arg)?.expr);
        }
        if let Some((id, _)) = self.level().marks.iter().find(|(_, known)| *known == bound) {
            return Ok(Typed::of(Expr::Column(*id), Type::Int4));
        }
        let id = self.computed("grouping", Type::Int4);
        self.level().marks.push((id, bound));
        Ok(Typed::of(Expr::Column(id), Type::Int4))
    }

    /// Returns the values of GROUPING for each set.
    fn marks(
        &self,
        grouping: &Grouping,
        marks: &[Mark],
    ) -> Result<Vec<(ColumnId, Vec<i32>)>, SqlError> {
        let one = [(0..grouping.keys.len()).collect::<Vec<_>>()];
        let sets: &[Vec<usize>] = grouping.sets.as_deref().unwrap_or(&one);
        let mut found = Vec::with_capacity(marks.len());
        for (id, args) in marks {
            let keys: Option<Vec<usize>> = args.iter().map(|arg| grouping.find(arg)).collect();
            let Some(keys) = keys else {
                let message = "arguments to GROUPING must be grouping expressions of the associated query level";
                return Err(SqlError::new(state::GROUPING, message));
            };
            let bits = |set: &Vec<usize>| {
                keys.iter().fold(0, |bits, key| bits << 1 | i32::from(!set.contains(key)))
            };
            found.push((*id, sets.iter().map(bits).collect()));
        }
        Ok(found)
    }

    /// Groups a relation. `outputs` are the expressions of the outputs, `others` all other
    /// expressions over the groups; they may name the columns of aggregates and of windows.
    pub(super) fn group(
        &mut self,
        rel: Rel,
        mut grouping: Grouping,
        (aggregates, windows): (Vec<(ColumnId, Aggregate)>, Vec<ColumnId>),
        mut outputs: Vec<&mut Expr>,
        mut others: Vec<&mut Expr>,
    ) -> Result<Rel, SqlError> {
        let marks = std::mem::take(&mut self.level().marks);
        self.add_dependent_keys(&mut grouping, &outputs);
        self.add_dependent_keys(&mut grouping, &others);
        let marks = self.marks(&grouping, &marks)?;
        let known: BTreeSet<_> = aggregates
            .iter()
            .map(|(id, _)| *id)
            .chain(marks.iter().map(|(id, _)| *id))
            .chain(windows)
            .collect();
        self.check_direct(&aggregates, &grouping, &known)?;
        for (at, expr) in outputs.iter_mut().enumerate() {
            let own = grouping.keys.iter().find(|key| key.output == Some(at));
            match own {
                // A constant is NULL where a set lacks it, too.
                Some(key) if grouping.sets.is_some() || !matches!(expr, Expr::Const(_)) => {
                    **expr = Expr::Column(key.id);
                }
                _ => self.use_groups(expr, &grouping.keys, &known)?,
            }
        }
        for expr in others.iter_mut() {
            self.use_groups(expr, &grouping.keys, &known)?;
        }
        let Grouping { keys, sets } = grouping;
        if sets.is_none() {
            let zero = |id| {
                let is_mark = marks.iter().any(|(mark, _)| *mark == id);
                is_mark.then_some(Expr::Const(Datum::Int4(0)))
            };
            outputs.into_iter().chain(others).for_each(|expr| expr.replace_columns(&zero));
        }
        let mut rel = rel;
        if keys.iter().any(|key| key.expr != Expr::Column(key.id)) {
            let mut outputs: Vec<_> =
                rel.columns().into_iter().map(|id| (id, Expr::Column(id))).collect();
            let computed = keys.iter().filter(|key| key.expr != Expr::Column(key.id));
            outputs.extend(computed.map(|key| (key.id, key.expr.clone())));
            rel = Rel::Project { input: Box::new(rel), outputs };
        }
        let keys = keys.into_iter().map(|key| key.id).collect();
        let sets = sets.map(|sets| Box::new(GroupingSets { sets, marks }));
        Ok(Rel::Aggregate { input: Box::new(rel), keys, sets, aggregates })
    }

    /// Fails with 42803 if a direct argument of an ordered-set aggregate is not grouped; with 0A000
    /// if it is a key that not all grouping sets have: it would be NULL in the others' groups.
    pub(super) fn check_direct(
        &self,
        aggregates: &[(ColumnId, Aggregate)],
        grouping: &Grouping,
        known: &BTreeSet<ColumnId>,
    ) -> Result<(), SqlError> {
        for (_, aggregate) in aggregates {
            for arg in aggregate.args.iter().filter(|_| aggregate.function.is_ordered_set()) {
                let mut arg = arg.clone();
                self.use_groups(&mut arg, &grouping.keys, known).map_err(|error| {
                    error.detail(
                        "Direct arguments of an ordered-set aggregate must use only grouped columns.",
                    )
                })?;
                let mut is_absent = false;
                for set in grouping.sets.iter().flatten() {
                    let lacks = |id: &ColumnId| {
                        let at = grouping.keys.iter().position(|key| key.id == *id);
                        at.is_some_and(|at| !set.contains(&at))
                    };
                    arg.walk(&mut |part| {
                        is_absent |= matches!(part, Expr::Column(id) if lacks(id));
                    });
                }
                if is_absent {
                    let what = "a direct argument of WITHIN GROUP that not all grouping sets have";
                    return Err(SqlError::unsupported(what));
                }
            }
        }
        Ok(())
    }

    /// Replaces the keys inside an expression of a grouped query by their columns. Fails with 42803
    /// for any other column of the query's relations, unless it is `known`.
    pub(super) fn use_groups(
        &self,
        expr: &mut Expr,
        keys: &[Key],
        known: &BTreeSet<ColumnId>,
    ) -> Result<(), SqlError> {
        // A constant needs no key, and may differ from an equal one in its type.
        if let Expr::Const(_) = expr {
            return Ok(());
        }
        if let Some(key) = keys.iter().find(|key| key.expr == *expr) {
            *expr = Expr::Column(key.id);
            return Ok(());
        }
        let column = |id: ColumnId| keys.iter().find(|key| key.expr == Expr::Column(id));
        let refused = |id: ColumnId| {
            let info = &self.columns[id];
            let is_known = known.contains(&id) || column(id).is_some();
            (self.is_own(id) && !is_known).then(|| {
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
                expr.replace_columns(&|id| column(id).map(|key| Expr::Column(key.id)));
                return Ok(());
            }
            _ => {}
        }
        let mut parts = expr.children_mut().into_iter();
        parts.try_for_each(|part| self.use_groups(part, keys, known))
    }
}

/// Returns all prefixes of a list of keys, the longest first.
fn rollup(parts: Sets) -> Sets {
    (0..=parts.len()).rev().map(|count| parts[..count].concat()).collect()
}

/// Returns all sublists of a list of keys.
fn cube(parts: Sets) -> Result<Sets, SqlError> {
    if parts.len() > WIDEST_CUBE {
        let message = format!("CUBE is limited to {WIDEST_CUBE} elements");
        return Err(SqlError::new(state::TOO_MANY_COLUMNS, message));
    }
    let chosen = |bits: usize| {
        let kept = parts.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 0);
        kept.flat_map(|(_, part)| part.iter().copied()).collect()
    };
    Ok((0..1usize << parts.len()).map(chosen).collect())
}
