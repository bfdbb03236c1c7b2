//! FROM: tables, derived tables, and joins of them.

use super::definitions::has_definitions;
use super::lock::Lockable;
use super::named_args;
use super::scope::{Relation, ScopeColumn, Visibility};
use super::{Binder, Output, Typed};
use crate::error::{SqlError, state};
use crate::expr::{Compare, Expr};
use crate::logical::{JoinKind, Rel};
use crate::names;
use crate::system;
use crate::view::Mention;
use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};
use std::collections::BTreeSet;

/// The join that an operator names, before its sides are in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Inner,
    Left,
    Right,
    Full,
}

impl Binder {
    /// Binds FROM, and adds its relations to the innermost query.
    pub(super) fn bind_from(&mut self, from: &[TableWithJoins]) -> Result<Rel, SqlError> {
        let mut all: Option<Rel> = None;
        for item in from {
            let next = self.bind_joins(item)?;
            all = Some(match all {
                None => next,
                Some(left) => left.join(JoinKind::Inner, next, Expr::truth()),
            });
        }
        self.check_aliases()?;
        Ok(all.unwrap_or_else(Rel::one_row))
    }

    /// Fails if two relations of the innermost query have one name.
    pub(super) fn check_aliases(&self) -> Result<(), SqlError> {
        let mut names = BTreeSet::new();
        for alias in self.relations().iter().filter_map(|relation| relation.alias.as_ref()) {
            if !names.insert(alias) {
                let message = format!("table name \"{alias}\" specified more than once");
                return Err(SqlError::new("42712", message));
            }
        }
        Ok(())
    }

    fn bind_joins(&mut self, item: &TableWithJoins) -> Result<Rel, SqlError> {
        let TableWithJoins { relation, joins } = item;
        let first = self.relations().len();
        let mut left = self.bind_factor(relation)?;
        for ast::Join { relation, global, join_operator } in joins {
            let (side, constraint) = match join_operator {
                JoinOperator::Join(on) | JoinOperator::Inner(on) => (Side::Inner, on),
                JoinOperator::CrossJoin(on) => (Side::Inner, on),
                JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (Side::Left, on),
                JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (Side::Right, on),
                JoinOperator::FullOuter(on) => (Side::Full, on),
                _ => return Err(SqlError::unsupported("this kind of join")),
            };
            let is_cross = matches!(join_operator, JoinOperator::CrossJoin(_));
            if is_cross != matches!(constraint, JoinConstraint::None) {
                let message = match is_cross {
                    true => "CROSS JOIN has no condition",
                    false => "a join needs ON, USING or NATURAL",
                };
                return Err(SqlError::new(state::SYNTAX, message));
            }
            if *global {
                return Err(SqlError::unsupported("GLOBAL JOIN"));
            }
            let middle = self.relations().len();
            // A right side that is read first cannot depend on the left side.
            let is_hidden = matches!(side, Side::Right | Side::Full);
            let hidden =
                if is_hidden { self.level().relations.split_off(first) } else { Vec::new() };
            let right = self.bind_factor(relation)?;
            let at = if is_hidden { first } else { middle };
            let rights = self.level().relations.split_off(at);
            self.level().relations.extend(hidden);
            let lefts = self.level().relations.split_off(first);
            left = self.bind_join(side, (left, lefts), (right, rights), constraint)?;
        }
        Ok(left)
    }

    /// Binds a join, and adds the relations of both sides.
    fn bind_join(
        &mut self,
        side: Side,
        (left, mut lefts): (Rel, Vec<Relation>),
        (right, mut rights): (Rel, Vec<Relation>),
        constraint: &JoinConstraint,
    ) -> Result<Rel, SqlError> {
        let mut outer = std::mem::take(&mut self.level().relations);
        let mut merged = Vec::new();
        let on = match constraint {
            JoinConstraint::None => Expr::truth(),
            JoinConstraint::On(on) => {
                self.level().relations = lefts.iter().chain(&rights).cloned().collect();
                self.begin_clause("JOIN conditions", false);
                let on = self.bind_bool(on, "JOIN/ON");
                self.end_clause();
                on?
            }
            JoinConstraint::Using(names) => {
                let mut wanted = Vec::with_capacity(names.len());
                for name in names {
                    wanted.push(names::simple(name)?);
                }
                self.merge(side, &mut lefts, &mut rights, &wanted, &mut merged)?
            }
            JoinConstraint::Natural => {
                let right: BTreeSet<&str> = visible(&rights).map(|c| c.name.as_str()).collect();
                let shared = visible(&lefts).filter(|column| right.contains(column.name.as_str()));
                let wanted: Vec<String> = shared.map(|column| column.name.clone()).collect();
                self.merge(side, &mut lefts, &mut rights, &wanted, &mut merged)?
            }
        };
        if !merged.is_empty() {
            let columns = merged
                .iter()
                .map(|(name, id, _)| ScopeColumn {
                    name: String::clone(name),
                    id: *id,
                    visibility: Visibility::Full,
                })
                .collect();
            outer.push(Relation {
                alias: None,
                columns,
                table: None,
                commit_timestamp: None,
                row_key: None,
                rows: Lockable::default(),
                is_scalar: false,
                outer_joins: 0,
            });
        }
        for relation in lefts.iter_mut().filter(|_| matches!(side, Side::Right | Side::Full)) {
            relation.outer_joins += 1;
        }
        for relation in rights.iter_mut().filter(|_| matches!(side, Side::Left | Side::Full)) {
            relation.outer_joins += 1;
        }
        outer.extend(lefts);
        outer.extend(rights);
        self.level().relations = outer;
        let joined = match side {
            Side::Inner => left.join(JoinKind::Inner, right, on),
            Side::Left => left.join(JoinKind::Left, right, on),
            Side::Right => right.join(JoinKind::Left, left, on),
            Side::Full => left.join(JoinKind::Full, right, on),
        };
        let computed = merged.into_iter().filter_map(|(_, id, expr)| Some((id, expr?)));
        let computed: Vec<_> = computed.collect();
        if computed.is_empty() {
            return Ok(joined);
        }
        let passed = joined.columns().into_iter().map(|id| (id, Expr::Column(id)));
        let outputs = passed.chain(computed).collect();
        Ok(Rel::Project { input: Box::new(joined), outputs })
    }

    /// Merges the columns of USING. Returns the join's condition; adds the merged columns, each
    /// with its expression unless it is a column of one side.
    fn merge(
        &mut self,
        side: Side,
        lefts: &mut [Relation],
        rights: &mut [Relation],
        wanted: &[String],
        merged: &mut Vec<(String, usize, Option<Expr>)>,
    ) -> Result<Expr, SqlError> {
        let mut conditions = Vec::with_capacity(wanted.len());
        for name in wanted {
            let left = self.only(lefts, name, "left")?;
            let right = self.only(rights, name, "right")?;
            let common = self.meet_all("JOIN/USING", &[left.clone(), right.clone()])?;
            let condition = self.compare(Compare::Eq, left.clone(), right.clone(), "=")?;
            let (Expr::Column(left_id), Expr::Column(right_id)) = (&left.expr, &right.expr) else {
                return Err(SqlError::unsupported("USING over this column"));
            };
            let same = left.ty == right.ty;
            let (id, expr) = match side {
                Side::Inner | Side::Left if same => (*left_id, None),
                Side::Right if same => (*right_id, None),
                _ => {
                    let ty = common.or(left.ty).unwrap_or(crate::types::Type::Text);
                    let id = self.computed(name, ty);
                    let left = self.coerce(left.clone(), ty, false)?;
                    let right = self.coerce(right.clone(), ty, false)?;
                    let expr = match side {
                        Side::Inner | Side::Left => left,
                        Side::Right => right,
                        Side::Full => Expr::Coalesce(vec![left, right]),
                    };
                    (id, Some(expr))
                }
            };
            merged.push((name.clone(), id, expr));
            conditions.push(condition);
        }
        for relation in lefts.iter_mut().chain(rights) {
            let columns = relation.columns.iter_mut().filter(|column| column.is_visible(true));
            columns
                .filter(|column| wanted.contains(&column.name))
                .for_each(|column| column.visibility = Visibility::Qualified);
        }
        Ok(Expr::all_of(conditions).unwrap_or_else(Expr::truth))
    }

    /// Finds the only column of this name.
    fn only(&mut self, side: &[Relation], name: &str, which: &str) -> Result<Typed, SqlError> {
        let found: Vec<_> = visible(side).filter(|column| column.name == name).collect();
        match found.as_slice() {
            [one] => {
                let info = &mut self.columns[one.id];
                info.is_used = true;
                Ok(Typed::of(Expr::Column(one.id), info.ty))
            }
            [] => {
                let message = format!(
                    "column \"{name}\" specified in USING clause does not exist in {which} table"
                );
                Err(SqlError::new(state::UNDEFINED_COLUMN, message))
            }
            _ => {
                let message = format!(
                    "common column name \"{name}\" appears more than once in {which} table"
                );
                Err(SqlError::new(state::AMBIGUOUS_COLUMN, message))
            }
        }
    }

    /// Binds one item, and adds its relation.
    fn bind_factor(&mut self, factor: &TableFactor) -> Result<Rel, SqlError> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                let plain = with_hints.is_empty()
                    && version.is_none()
                    && (args.is_some() || !with_ordinality)
                    && partitions.is_empty()
                    && json_path.is_none()
                    && sample.is_none()
                    && index_hints.is_empty();
                if !plain {
                    return Err(SqlError::unsupported(format!("{factor} in FROM")));
                }
                match args {
                    None => self.bind_table(name, alias.as_ref()),
                    Some(ast::TableFunctionArgs { args, settings: None }) => {
                        self.bind_function(name, args, *with_ordinality, alias.as_ref())
                    }
                    Some(_) => Err(SqlError::unsupported("SETTINGS")),
                }
            }
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality,
            } => {
                let call = |array| ("unnest".to_owned(), vec![array]);
                let calls: Vec<_> = array_exprs.iter().map(call).collect();
                self.bind_functions(&calls, *with_ordinality, alias.as_ref())
            }
            TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
                self.bind_function(name, args, *with_ordinality, alias.as_ref())
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                if sample.is_some() {
                    return Err(SqlError::unsupported("TABLESAMPLE"));
                }
                let seen = std::mem::take(&mut self.level().relations);
                if *lateral {
                    self.level().relations = seen.clone();
                }
                let bound = self.bind_query(subquery);
                self.level().relations = seen;
                let bound = bound?;
                let relation = self.derived(&bound.outputs, alias.as_ref(), None, bound.rows)?;
                self.level().relations.push(relation);
                Ok(bound.rel)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let outside = self.level().relations.len();
                let rel = self.bind_joins(table_with_joins)?;
                if let Some(ast::TableAlias { name, .. }) = alias {
                    // It hides the names inside.
                    let inside = self.level().relations.split_off(outside);
                    let rows = Lockable::all(&inside).of_kind("a join");
                    let columns = inside.into_iter().flat_map(|relation| relation.columns);
                    let mut relation = Relation {
                        alias: Some(names::fold(name)),
                        columns: columns.filter(|column| column.is_visible(false)).collect(),
                        table: None,
                        commit_timestamp: None,
                        row_key: None,
                        rows,
                        is_scalar: false,
                        outer_joins: 0,
                    };
                    rename(&mut relation, alias.as_ref())?;
                    self.level().relations.push(relation);
                }
                Ok(rel)
            }
            other => Err(SqlError::unsupported(format!("{other} in FROM"))),
        }
    }

    fn bind_function(
        &mut self,
        name: &ast::ObjectName,
        args: &[ast::FunctionArg],
        with_ordinality: bool,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Rel, SqlError> {
        if self.is_extension_call(name) {
            self.mention_extension(name)?;
        } else if self.is_user_call(name) {
            return self.bind_user_function(name, args, with_ordinality, alias);
        }
        let name = names::function_name(name);
        let args = named_args::in_order(&name, args)?;
        if let Some(alias) = alias.filter(|alias| has_definitions(alias)) {
            return self.bind_record_function(&name, &args, with_ordinality, alias);
        }
        self.bind_functions(&[(name, args)], with_ordinality, alias)
    }

    fn bind_table(
        &mut self,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
    ) -> Result<Rel, SqlError> {
        let folded = names::relation(name)?;
        if folded.schema.is_none()
            && let Some(at) = self.named.iter().rposition(|named| named.name == folded.name)
        {
            if let Some(error) = &self.named[at].refused {
                let place = name.0.last().and_then(|part| part.as_ident());
                return Err(error.clone().at(place.and_then(names::position)));
            }
            let (number, outputs) = (self.named[at].number, self.named[at].outputs.clone());
            let of = outputs.iter().map(|output| output.id).collect();
            let mut fresh = Vec::with_capacity(outputs.len());
            for output in &outputs {
                let id = self.computed(&output.name, self.columns[output.id].ty);
                self.columns[id].domain = self.columns[output.id].domain;
                self.columns[id].shape = self.columns[output.id].shape.clone();
                fresh.push(Output { id, ..output.clone() });
            }
            let rows = Lockable::default().of_kind("a WITH query");
            let relation = self.derived(&fresh, alias, Some(&folded.name), rows)?;
            self.level().relations.push(relation);
            let columns = fresh.iter().map(|output| output.id).collect();
            return Ok(Rel::Named { name: number, columns, of });
        }
        let known = self.by_name.iter().find(|(other, _)| *other == folded).map(|(_, id)| *id);
        // A temporary relation may hide one of the system's.
        let of_system = system::find(&folded).filter(|_| known.is_none_or(system::is_system));
        let found = of_system.or_else(|| {
            self.tables.iter().flatten().find(|table| Some(table.id) == known).cloned()
        });
        let shown =
            name.0.last().and_then(|part| part.as_ident()).map(names::fold).unwrap_or_default();
        let shown = alias.map_or(shown, |alias| names::fold(&alias.name));
        if let Some(id) = known.filter(|id| !system::is_system(*id))
            && let Some(mentions) = &mut self.mentions
        {
            mentions.extend(Mention::of_relation(name, id, alias.is_some()));
        }
        if found.is_none()
            && let Some(view) = self.views.iter().find(|view| Some(view.id) == known).cloned()
        {
            return self.bind_view(&view, alias, &shown);
        }
        let Some(table) = found else {
            let message = format!("relation \"{folded}\" does not exist");
            let at = name.0.last().and_then(|part| part.as_ident()).and_then(names::position);
            return Err(SqlError::new(state::UNDEFINED_TABLE, message).at(at));
        };
        let mut relation = self.table_columns(table.clone(), &shown, true);
        let mut columns: Vec<_> = relation.columns.iter().map(|column| column.id).collect();
        columns.extend(relation.commit_timestamp);
        columns.extend(relation.row_key);
        rename(&mut relation, alias)?;
        self.level().relations.push(relation);
        Ok(Rel::Scan { table, columns })
    }

    /// Makes a relation of a query's outputs.
    pub(super) fn derived(
        &mut self,
        outputs: &[Output],
        alias: Option<&ast::TableAlias>,
        name: Option<&str>,
        rows: Lockable,
    ) -> Result<Relation, SqlError> {
        let alias_name = alias.map(|alias| names::fold(&alias.name)).or(name.map(str::to_owned));
        let level = self.levels.len() - 1;
        for output in outputs {
            let info = &mut self.columns[output.id];
            info.level = level;
            info.relation = alias_name.clone().unwrap_or_default();
            info.name.clone_from(&output.name);
        }
        let column = |output: &Output| ScopeColumn {
            name: output.name.clone(),
            id: output.id,
            visibility: Visibility::Full,
        };
        let mut relation = Relation {
            alias: alias_name,
            columns: outputs.iter().map(column).collect(),
            table: None,
            commit_timestamp: None,
            row_key: None,
            rows,
            is_scalar: false,
            outer_joins: 0,
        };
        rename(&mut relation, alias)?;
        Ok(relation)
    }
}

/// Gives a relation's columns the names of its alias.
fn rename(relation: &mut Relation, alias: Option<&ast::TableAlias>) -> Result<(), SqlError> {
    let Some(ast::TableAlias { explicit: _, name, columns, at }) = alias else { return Ok(()) };
    if at.is_some() || columns.iter().any(|column| column.data_type.is_some()) {
        return Err(SqlError::unsupported("a list of column definitions in FROM"));
    }
    let there =
        relation.columns.iter().filter(|column| column.visibility != Visibility::Dropped).count();
    if columns.len() > there {
        let name = names::fold(name);
        let message = format!(
            "table \"{name}\" has {there} columns available but {} columns specified",
            columns.len()
        );
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    let all = relation.columns.iter_mut().filter(|column| column.visibility != Visibility::Dropped);
    for (column, renamed) in all.zip(columns) {
        column.name = names::fold(&renamed.name);
    }
    Ok(())
}

/// The columns that a name without a qualifier may find.
fn visible(relations: &[Relation]) -> impl Iterator<Item = &ScopeColumn> {
    relations
        .iter()
        .flat_map(|relation| &relation.columns)
        .filter(|column| column.is_visible(false))
}
