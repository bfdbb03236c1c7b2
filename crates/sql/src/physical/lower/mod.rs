//! Lowers a logical plan: ids become positions, scans get access paths, joins get algorithms.

mod any;
mod extreme;
mod join;
mod lock;
mod window;

use super::estimate::Estimates;
use super::ordered::{self, Wanted};
use super::{LockedTable, Node, Op, Query, RowsOf, Scan, SortBy, order, rows_of};
use crate::access::{Access, Wish};
use crate::bind::{self, OnLocked, RowLocks, Strength};
use crate::datum::Datum;
use crate::effects;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::{self, ColumnId, Rel};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Plans a normalized query.
pub(crate) fn lower(query: bind::Query, relations: usize) -> Result<Query, SqlError> {
    lower_with(query, relations, None)
}

/// Plans a normalized query. With `by_key`, all joins that can read by key do, or none does.
pub(crate) fn lower_with(
    query: bind::Query,
    relations: usize,
    by_key: Option<bool>,
) -> Result<Query, SqlError> {
    let (mut locks, mut in_scans) = (Vec::new(), Vec::from_iter(query.locks));
    let rel = lock::settle(query.rel, &mut locks, &mut in_scans)?;
    let estimates = Estimates::of(&rel);
    let rel = order::order(rel, &estimates);
    let mut lowering = Lowering {
        estimates,
        outer: BTreeMap::new(),
        slots: query.params.len(),
        named_count: 0,
        reads_catalog: false,
        by_key,
        named: BTreeMap::new(),
        locks: in_scans,
        passed: Vec::new(),
    };
    let mut given = Vec::with_capacity(query.given.len());
    for (number, columns) in query.given {
        lowering.name(number, RowsOf::Given, columns);
        given.push(number);
    }
    let needed = query.outputs.iter().copied().collect();
    let root = lowering.lower(rel, &needed)?;
    let root = lowering.pick(root, &query.outputs)?;
    Ok(Query {
        root,
        columns: query.columns,
        params: query.params,
        slots: lowering.slots,
        named: lowering.named_count,
        given,
        reads_catalog: lowering.reads_catalog,
        relations,
        locks: !locks.is_empty(),
        only_reads: locks.iter().all(lock::is_shared),
        known: query.known,
        passed: lowering.passed,
    })
}

struct Lowering {
    estimates: Estimates,
    /// Whether joins read by key: by cost unless it is given.
    by_key: Option<bool>,
    /// The parameters that hold columns of enclosing relations.
    outer: BTreeMap<ColumnId, usize>,
    /// The number of parameters so far.
    slots: usize,
    /// The number of queries of WITH so far.
    named_count: usize,
    /// True if a function so far reads the catalog.
    reads_catalog: bool,
    /// The queries of WITH: their numbers, definitions and columns.
    named: BTreeMap<usize, (usize, RowsOf, Vec<ColumnId>)>,
    /// The locks that scans take of their rows.
    locks: Vec<RowLocks>,
    /// The columns that are parameters, in the order of their slots.
    passed: Vec<ColumnId>,
}

fn internal(what: &str) -> SqlError {
    SqlError::new(state::INTERNAL, format!("the query's plan is wrong: {what}"))
}

fn position(layout: &[ColumnId], id: ColumnId) -> Result<usize, SqlError> {
    layout.iter().position(|column| *column == id).ok_or_else(|| internal("a column is missing"))
}

/// Turns the ids of sort keys into positions.
fn sort_by(by: Vec<logical::SortKey>, layout: &[ColumnId]) -> Result<Vec<SortBy>, SqlError> {
    let key = |key: logical::SortKey| {
        Ok(SortBy {
            column: position(layout, key.column)?,
            descending: key.descending,
            nulls_first: key.nulls_first,
        })
    };
    by.into_iter().map(key).collect()
}

/// Adds the columns that an expression names.
fn need(expr: &Expr, needed: &mut BTreeSet<ColumnId>) {
    expr.each_column(&mut |id| _ = needed.insert(id));
}

impl Lowering {
    /// Turns the ids of an expression into positions and parameters.
    fn place(&mut self, mut expr: Expr, layout: &[ColumnId]) -> Result<Expr, SqlError> {
        let (mut missing, mut reads_catalog) = (false, false);
        expr.rewrite(&mut |part| match part {
            Expr::Column(id) => {
                match (layout.iter().position(|column| column == id), self.outer.get(id)) {
                    (Some(at), _) => *part = Expr::Column(at),
                    (None, Some(slot)) => *part = Expr::Param(*slot),
                    (None, None) => missing = true,
                }
            }
            Expr::Call(function, _) => reads_catalog |= function.reads_catalog(),
            _ => {}
        });
        self.reads_catalog |= reads_catalog;
        if missing || expr.has_subquery() {
            return Err(internal("an expression names a column that is not there"));
        }
        Ok(expr)
    }

    fn place_all(
        &mut self,
        exprs: impl IntoIterator<Item = Expr>,
        layout: &[ColumnId],
    ) -> Result<Vec<Expr>, SqlError> {
        exprs.into_iter().map(|expr| self.place(expr, layout)).collect()
    }

    /// Lowers a relation of which some columns are needed.
    fn lower(&mut self, rel: Rel, needed: &BTreeSet<ColumnId>) -> Result<Arc<Node>, SqlError> {
        match rel {
            Rel::Values { columns, rows } => {
                let rows = rows.into_iter().map(|row| self.place_all(row, &[]));
                let rows = rows.collect::<Result<_, _>>()?;
                Ok(self.node(Op::Values(rows), columns))
            }
            Rel::Scan { .. } => self.scan(rel, Vec::new(), needed, None),
            Rel::Filter { input, condition }
                if matches!(*input, Rel::Scan { .. }) && !effects::has_effects(&condition) =>
            {
                match self.by_any_key(&input, &condition, needed) {
                    Some(union) => self.lower(union, needed),
                    None => self.scan(*input, vec![condition], needed, None),
                }
            }
            Rel::Filter { input, condition } => {
                let mut below = needed.clone();
                need(&condition, &mut below);
                let input = self.lower(*input, &below)?;
                let layout = input.layout.clone();
                let condition = self.place(condition, &layout)?;
                Ok(self.node(Op::Filter { input, condition }, layout))
            }
            Rel::Project { input, outputs } => {
                let outputs: Vec<_> =
                    outputs.into_iter().filter(|(id, _)| needed.contains(id)).collect();
                let mut below = BTreeSet::new();
                outputs.iter().for_each(|(_, expr)| need(expr, &mut below));
                let input = self.lower(*input, &below)?;
                let layout = input.layout.clone();
                let (ids, exprs): (Vec<_>, Vec<_>) = outputs.into_iter().unzip();
                let outputs = self.place_all(exprs, &layout)?;
                Ok(self.node(Op::Project { input, outputs }, ids))
            }
            Rel::Join(join) => self.join(*join, needed, None),
            Rel::Aggregate { input, keys, sets, aggregates } => {
                let aggregates: Vec<_> =
                    aggregates.into_iter().filter(|(id, _)| needed.contains(id)).collect();
                let is_whole = keys.is_empty() && sets.is_none() && self.locks.is_empty();
                if let Some(firsts) =
                    is_whole.then(|| extreme::by_key(&input, &aggregates)).flatten()
                {
                    return self.lower(firsts, needed);
                }
                let mut below: BTreeSet<_> = keys.iter().copied().collect();
                for (_, aggregate) in &aggregates {
                    aggregate.exprs().into_iter().for_each(|expr| need(expr, &mut below));
                }
                let input = self.lower(*input, &below)?;
                let layout = input.layout.clone();
                let mut ids = keys.clone();
                ids.extend(sets.iter().flat_map(|sets| &sets.marks).map(|(id, _)| *id));
                let mut placed = Vec::with_capacity(aggregates.len());
                for (id, mut aggregate) in aggregates {
                    for expr in aggregate.exprs_mut() {
                        let taken = std::mem::replace(expr, Expr::Const(Datum::Null));
                        *expr = self.place(taken, &layout)?;
                    }
                    ids.push(id);
                    placed.push(aggregate);
                }
                let keys = self.place_all(keys.into_iter().map(Expr::Column), &layout)?;
                Ok(self.node(Op::Aggregate { input, keys, sets, aggregates: placed }, ids))
            }
            Rel::Window(window) => self.window(*window, needed),
            Rel::Distinct { input, on } => {
                let below = needed.iter().chain(&on).copied().collect();
                let input = self.lower(*input, &below)?;
                let layout = input.layout.clone();
                let on = on.iter().map(|id| position(&layout, *id)).collect::<Result<_, _>>()?;
                Ok(self.node(Op::Distinct { input, on }, layout))
            }
            Rel::Sort { input, by } => self.sort(*input, by, None, needed),
            Rel::Limit { input, limit, offset } => {
                let (limit, offset) = (
                    limit.map(|limit| self.place(limit, &[])).transpose()?,
                    offset.map(|offset| self.place(offset, &[])).transpose()?,
                );
                let input = match *input {
                    Rel::Sort { input, by } if limit.is_some() => {
                        self.sort(*input, by, Some((limit.clone(), offset.clone())), needed)?
                    }
                    other => self.lower(other, needed)?,
                };
                let layout = input.layout.clone();
                Ok(self.node(Op::Limit { input, limit, offset }, layout))
            }
            Rel::Lock { input, locks } => self.lock_rows(*input, &locks, needed),
            Rel::Set(set) => {
                let logical::SetOperation { op, all, columns, sides } = *set;
                let sides = sides.into_iter().map(|side| self.side(side));
                let sides = sides.collect::<Result<_, _>>()?;
                Ok(self.node(Op::Set { op, all, sides }, columns))
            }
            Rel::With { name, definition, body } => {
                let below = definition.columns().into_iter().collect();
                let definition = self.lower(*definition, &below)?;
                let layout = definition.layout.clone();
                let slot = self.name(name, RowsOf::Query(definition.clone()), layout);
                let body = self.lower(*body, needed)?;
                let layout = body.layout.clone();
                Ok(self.node(Op::With { name: slot, definition, body }, layout))
            }
            Rel::Named { name, columns, of } => {
                let (slot, rows, layout) =
                    self.named.get(&name).ok_or_else(|| internal("WITH is missing"))?;
                let picks = of.iter().map(|id| position(layout, *id)).collect::<Result<_, _>>()?;
                let of = rows.clone();
                Ok(self.node(Op::Named { name: *slot, picks, of }, columns))
            }
            Rel::Recursive(query) => {
                let logical::Recursion { name, all, columns, first, step } = *query;
                let first = self.side(first)?;
                let name = self.name(name, RowsOf::Round, columns.clone());
                let step = self.side(step)?;
                Ok(self.node(Op::Recursive { name, all, first, step }, columns))
            }
            Rel::Functions(functions) => {
                let logical::Functions { calls, mut columns, ordinality } = functions;
                let mut placed = Vec::with_capacity(calls.len());
                for (function, args) in calls {
                    self.reads_catalog |= function.reads_catalog();
                    placed.push((function, self.place_all(args, &[])?));
                }
                columns.extend(ordinality);
                let ordinality = ordinality.is_some();
                Ok(self.node(Op::Functions { calls: placed, ordinality }, columns))
            }
        }
    }

    /// Lowers a query whose rows are locked.
    fn lock_rows(
        &mut self,
        input: Rel,
        locks: &[RowLocks],
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Arc<Node>, SqlError> {
        if locks.iter().all(|locks| locks.on_locked != OnLocked::Skip) {
            // What NOWAIT is to lock is not waited for when it is read either.
            let nowait = locks.iter().filter(|locks| locks.on_locked == OnLocked::Fail);
            let reads =
                |locks: &RowLocks| RowLocks { strength: Strength::Share, keeps: false, ..*locks };
            self.locks.extend(nowait.map(reads));
        }
        let below = needed.iter().copied().chain(locks.iter().map(|locks| locks.of)).collect();
        let input = self.lower(input, &below)?;
        let layout = input.layout.clone();
        let table = |locks: &RowLocks| {
            let RowLocks { strength, on_locked, of, .. } = *locks;
            Ok(LockedTable { strength, on_locked, of, key: position(&layout, of)? })
        };
        let tables = locks.iter().map(table).collect::<Result<_, SqlError>>()?;
        Ok(self.node(Op::LockRows { input, tables }, layout))
    }

    /// Gives a query of WITH its number.
    fn name(&mut self, name: usize, of: RowsOf, layout: Vec<ColumnId>) -> usize {
        let slot = self.named_count;
        self.named_count += 1;
        self.named.insert(name, (slot, of, layout));
        slot
    }

    /// Lowers a side of a set operation: its columns in order.
    fn side(&mut self, (side, ids): (Rel, Vec<ColumnId>)) -> Result<Arc<Node>, SqlError> {
        let node = self.lower(side, &ids.iter().copied().collect())?;
        self.pick(node, &ids)
    }

    /// Projects columns, unless all of them are in order already.
    fn pick(&self, node: Arc<Node>, ids: &[ColumnId]) -> Result<Arc<Node>, SqlError> {
        if node.layout == ids {
            return Ok(node);
        }
        let column = |id: &ColumnId| Ok(Expr::Column(position(&node.layout, *id)?));
        let outputs = ids.iter().map(column).collect::<Result<_, SqlError>>()?;
        Ok(self.node(Op::Project { input: node, outputs }, ids.to_vec()))
    }

    /// Makes a node of an operator and the ids of its columns.
    fn node(&self, op: Op, layout: Vec<ColumnId>) -> Arc<Node> {
        let rows = self.estimates.of_operator(&op);
        Arc::new(Node { op, layout, rows })
    }

    fn sort(
        &mut self,
        input: Rel,
        by: Vec<logical::SortKey>,
        most: Option<(Option<Expr>, Option<Expr>)>,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Arc<Node>, SqlError> {
        let below = needed.iter().copied().chain(by.iter().map(|key| key.column)).collect();
        let wanted = Wanted {
            by: &by,
            rows: most.as_ref().and_then(|(limit, offset)| rows_of(limit, offset)),
            by_key: !self.locks.is_empty(),
        };
        if ordered::gives(&input, &wanted) && !self.finds_few(&input, wanted.rows) {
            return self.lower_in_order(input, wanted, &below);
        }
        let input = self.lower(input, &below)?;
        let layout = input.layout.clone();
        let by = sort_by(by, &layout)?;
        Ok(self.node(Op::Sort { input, by, most }, layout))
    }

    /// Lowers a relation that [gives](ordered::gives) an order.
    fn lower_in_order(
        &mut self,
        rel: Rel,
        wanted: Wanted<'_>,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Arc<Node>, SqlError> {
        match rel {
            Rel::Scan { .. } => self.scan(rel, Vec::new(), needed, Some(wanted)),
            Rel::Filter { input, condition } if matches!(*input, Rel::Scan { .. }) => {
                self.scan(*input, vec![condition], needed, Some(wanted))
            }
            Rel::Filter { input, condition } => {
                let mut below = needed.clone();
                need(&condition, &mut below);
                let input = self.lower_in_order(*input, wanted, &below)?;
                let layout = input.layout.clone();
                let condition = self.place(condition, &layout)?;
                Ok(self.node(Op::Filter { input, condition }, layout))
            }
            Rel::Project { input, outputs } => {
                let Some(by) = ordered::below(wanted.by, &outputs) else {
                    return Err(internal("an order is lost"));
                };
                let outputs: Vec<_> =
                    outputs.into_iter().filter(|(id, _)| needed.contains(id)).collect();
                let mut below = by.iter().map(|key| key.column).collect();
                outputs.iter().for_each(|(_, expr)| need(expr, &mut below));
                let wanted = Wanted { by: &by, ..wanted };
                let input = self.lower_in_order(*input, wanted, &below)?;
                let layout = input.layout.clone();
                let (ids, exprs): (Vec<_>, Vec<_>) = outputs.into_iter().unzip();
                let outputs = self.place_all(exprs, &layout)?;
                Ok(self.node(Op::Project { input, outputs }, ids))
            }
            Rel::Join(join) => self.join(*join, needed, Some(wanted)),
            _ => Err(internal("an order is not there")),
        }
    }

    fn scan(
        &mut self,
        scan: Rel,
        conditions: Vec<Expr>,
        needed: &BTreeSet<ColumnId>,
        wanted: Option<Wanted<'_>>,
    ) -> Result<Arc<Node>, SqlError> {
        let Rel::Scan { table, columns } = scan else { return Err(internal("not a scan")) };
        let filter = self.place_all(conditions, &columns)?;
        let filter = Expr::all_of(filter);
        let mut reads = vec![false; columns.len()];
        filter.iter().for_each(|filter| filter.mark(&mut reads));
        let picks: Vec<usize> =
            (0..columns.len()).filter(|at| needed.contains(&columns[*at])).collect();
        picks.iter().for_each(|at| reads[*at] = true);
        let by = wanted.as_ref().map_or(&[][..], |wanted| wanted.by);
        let order = &sort_by(by.to_vec(), &columns)?[..];
        let (filtered, rows) = (filter.as_ref(), wanted.and_then(|wanted| wanted.rows));
        let locks = self.locks.iter().copied().find(|locks| columns.contains(&locks.of));
        let is_locked = locks.is_some();
        // A row that is locked is read itself.
        let wanted = Some(&reads[..]).filter(|_| !is_locked);
        let wish = Wish { filter: filtered, order, rows, wanted, by_key: is_locked };
        let mut access = Access::choose_for(&table, &wish);
        if access.order(&table, order).is_none() {
            // The path that was promised to give the order.
            access = Access::choose_for(&table, &Wish { wanted: None, ..wish });
            let covers = |at: usize| table.indexes[at].covers(&table, &reads);
            access.only = !is_locked && access.index.is_some_and(covers);
        }
        let backwards = access.order(&table, order).ok_or_else(|| internal("an order is lost"))?;
        let layout = picks.iter().map(|at| columns[*at]).collect();
        let wanted = reads;
        let scan = Scan { table, access, backwards, locks, filter, wanted, picks, columns };
        Ok(self.node(Op::Scan(scan), layout))
    }
}

/// Returns the scan of a relation that is one, and its conditions.
fn scan_of(rel: &Rel) -> Option<(&Rel, Vec<Expr>)> {
    match rel {
        Rel::Scan { .. } => Some((rel, Vec::new())),
        Rel::Filter { input, condition } if matches!(**input, Rel::Scan { .. }) => {
            Some((input, vec![condition.clone()]))
        }
        _ => None,
    }
}

/// Returns the access path of a scan for conditions; columns of other relations are parameters.
fn access(scan: &Rel, conditions: &[Expr]) -> Option<Access> {
    let Rel::Scan { table, columns } = scan else { return None };
    let mut placed = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let mut condition = condition.clone();
        condition.replace_columns(&|id| {
            let at = columns.iter().position(|column| *column == id);
            Some(at.map_or(Expr::Param(0), Expr::Column))
        });
        placed.push(condition);
    }
    Some(Access::choose(table, Expr::all_of(placed).as_ref()))
}
