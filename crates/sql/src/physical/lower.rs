//! Lowers a logical plan: ids become positions, scans get access paths, joins get algorithms.

use super::estimate::Estimates;
use super::ordered::{self, Wanted};
use super::{How, Join, Kind, LockRows, Node, Op, Query, Scan, SortBy, order, rows_of};
use crate::access::{Access, LOOKUP, Wish};
use crate::bind::{self, OnLocked, RowLocks};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::{Arith, Compare, Expr};
use crate::logical::{self, ColumnId, JoinKind, Rel};
use crate::normalize::normalize;
use meridian_txn::Lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Plans a bound query.
pub(crate) fn lower(query: bind::Query, relations: usize) -> Result<Query, SqlError> {
    lower_with(query, relations, None)
}

/// Plans a bound query. With `by_key`, all joins that can read by key do, or none does.
pub(crate) fn lower_with(
    query: bind::Query,
    relations: usize,
    by_key: Option<bool>,
) -> Result<Query, SqlError> {
    let rel = normalize(query.rel, query.ids);
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
        locks: query.locks,
        passed: Vec::new(),
    };
    let needed = query.outputs.iter().copied().collect();
    let root = match query.locks {
        Some(RowLocks { lock, on_locked: OnLocked::Skip }) => {
            lowering.lock_rows(rel, lock, &needed)?
        }
        _ => lowering.lower(rel, &needed)?,
    };
    let root = lowering.pick(root, &query.outputs)?;
    Ok(Query {
        root,
        columns: query.columns,
        params: query.params,
        inferred: query.inferred,
        slots: lowering.slots,
        named: lowering.named_count,
        reads_catalog: lowering.reads_catalog,
        relations,
        locks: query.locks,
        known: query.known,
        passed: lowering.passed,
    })
}

pub(super) struct Lowering {
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
    named: BTreeMap<usize, (usize, Option<Arc<Node>>, Vec<ColumnId>)>,
    /// The locks of the table's rows.
    locks: Option<RowLocks>,
    /// The columns that are parameters, in the order of their slots.
    passed: Vec<ColumnId>,
}

fn internal(what: &str) -> SqlError {
    SqlError::new("XX000", format!("the query's plan is wrong: {what}"))
}

pub(super) fn position(layout: &[ColumnId], id: ColumnId) -> Result<usize, SqlError> {
    layout.iter().position(|column| *column == id).ok_or_else(|| internal("a column is missing"))
}

/// Turns the ids of sort keys into positions.
pub(super) fn sort_by(
    by: Vec<logical::SortKey>,
    layout: &[ColumnId],
) -> Result<Vec<SortBy>, SqlError> {
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
pub(super) fn need(expr: &Expr, needed: &mut BTreeSet<ColumnId>) {
    expr.each_column(&mut |id| _ = needed.insert(id));
}

impl Lowering {
    /// Turns the ids of an expression into positions and parameters.
    pub(super) fn place(&mut self, mut expr: Expr, layout: &[ColumnId]) -> Result<Expr, SqlError> {
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
    pub(super) fn lower(
        &mut self,
        rel: Rel,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Arc<Node>, SqlError> {
        match rel {
            Rel::Values { columns, rows } => {
                let rows = rows.into_iter().map(|row| self.place_all(row, &[]));
                let rows = rows.collect::<Result<_, _>>()?;
                Ok(self.node(Op::Values(rows), columns))
            }
            Rel::Scan { .. } => self.scan(rel, Vec::new(), needed, None),
            Rel::Filter { input, condition } if matches!(*input, Rel::Scan { .. }) => {
                self.scan(*input, vec![condition], needed, None)
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
                let slot = self.name(name, Some(definition.clone()), layout);
                let body = self.lower(*body, needed)?;
                let layout = body.layout.clone();
                Ok(self.node(Op::With { name: slot, definition, body }, layout))
            }
            Rel::Named { name, columns, of } => {
                let (slot, definition, layout) =
                    self.named.get(&name).ok_or_else(|| internal("WITH is missing"))?;
                let picks = of.iter().map(|id| position(layout, *id)).collect::<Result<_, _>>()?;
                let definition = definition.clone();
                Ok(self.node(Op::Named { name: *slot, picks, definition }, columns))
            }
            Rel::Recursive(query) => {
                let logical::Recursion { name, all, columns, first, step } = *query;
                let first = self.side(first)?;
                let name = self.name(name, None, columns.clone());
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

    /// Lowers a query whose rows are locked one by one. A limit counts those that could be locked.
    fn lock_rows(
        &mut self,
        rel: Rel,
        lock: Lock,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Arc<Node>, SqlError> {
        if let Rel::Limit { input, limit, offset } = rel {
            let (limit, offset) = (
                limit.map(|limit| self.place(limit, &[])).transpose()?,
                offset.map(|offset| self.place(offset, &[])).transpose()?,
            );
            let input = self.lock_rows(*input, lock, needed)?;
            let layout = input.layout.clone();
            return Ok(self.node(Op::Limit { input, limit, offset }, layout));
        }
        let mut rel = rel;
        let Some(key) = with_row_key(&mut rel) else { return self.lower(rel, needed) };
        let below = needed.iter().copied().chain([key]).collect();
        let input = self.lower(rel, &below)?;
        let layout = input.layout.clone();
        let key = position(&layout, key)?;
        let (mut node, mut outputs) = (&input, None);
        let scan = loop {
            node = match &node.op {
                Op::Sort { input, .. } => input,
                Op::Project { input, outputs: made } if outputs.is_none() => {
                    outputs = Some(made.clone());
                    input
                }
                Op::Scan(scan) if !scan.wanted[scan.table.columns.len()] => break node.clone(),
                Op::Scan(_) => {
                    let what = "SKIP LOCKED with meridian_commit_timestamp";
                    return Err(SqlError::unsupported(what));
                }
                _ => return Err(SqlError::unsupported("SKIP LOCKED in this query")),
            };
        };
        Ok(self.node(Op::LockRows(LockRows { input, lock, key, scan, outputs }), layout))
    }

    /// Gives a query of WITH its number.
    fn name(&mut self, name: usize, node: Option<Arc<Node>>, layout: Vec<ColumnId>) -> usize {
        let slot = self.named_count;
        self.named_count += 1;
        self.named.insert(name, (slot, node, layout));
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
    pub(super) fn node(&self, op: Op, layout: Vec<ColumnId>) -> Arc<Node> {
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
            by_key: self.locks.is_some(),
        };
        if ordered::gives(&input, &wanted) {
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
        let is_locked = self.locks.is_some();
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
        let locks = self.locks.filter(|locks| locks.on_locked != OnLocked::Skip);
        let wanted = reads;
        let scan = Scan { table, access, backwards, locks, filter, wanted, picks, columns };
        Ok(self.node(Op::Scan(scan), layout))
    }

    fn join(
        &mut self,
        join: logical::Join,
        needed: &BTreeSet<ColumnId>,
        wanted: Option<Wanted<'_>>,
    ) -> Result<Arc<Node>, SqlError> {
        let logical::Join { kind, left, right, on } = join;
        if kind == JoinKind::Full && on.has_subquery() {
            return Err(SqlError::unsupported("FULL JOIN with a subquery in its condition"));
        }
        let lefts: BTreeSet<ColumnId> = left.columns().into_iter().collect();
        let rights: BTreeSet<ColumnId> = right.columns().into_iter().collect();
        let mut conjuncts = Vec::new();
        on.into_conjuncts(&mut conjuncts);
        let (guards, mut pairs): (Vec<_>, Vec<_>) = conjuncts
            .into_iter()
            .partition(|conjunct| logical::Join::is_guard(kind, conjunct, &rights));
        let mut physical = match kind {
            JoinKind::Inner => Kind::Inner,
            JoinKind::Left => Kind::Left,
            JoinKind::Full => Kind::Full,
            JoinKind::Semi => Kind::Semi,
            JoinKind::Anti => Kind::Anti,
            JoinKind::Single => Kind::Single,
            JoinKind::Mark(_) => Kind::Mark,
        };
        if let (Kind::Anti, [Expr::IsBool(inner, false, true)]) = (physical, &*pairs) {
            let mut inner_pairs = Vec::new();
            inner.as_ref().clone().into_conjuncts(&mut inner_pairs);
            pairs = inner_pairs;
            physical = Kind::AntiUnknown;
        }

        // By key, if there are few left rows, or if the right side depends on them anyway.
        let is_dependent = !right.free_columns().is_disjoint(&lefts);
        let knows_null = matches!(physical, Kind::Mark | Kind::AntiUnknown)
            && !pairs.iter().all(Expr::is_never_null);
        let by_key = kind != JoinKind::Full
            && !knows_null
            && !is_dependent
            && self.looked_up(&right, &pairs, &lefts).is_some_and(|found| {
                let most = wanted.as_ref().and_then(|wanted| wanted.rows);
                let count = self.estimates.rows(&left).min(most.unwrap_or(f64::MAX));
                let is_cheaper = count * (LOOKUP + found) < count + self.base_rows(&right);
                self.by_key.unwrap_or(is_cheaper)
            });
        let (mut left, mut right) = (left, right);
        // The smaller side is held in memory. The left side gives the order.
        let swaps = kind == JoinKind::Inner
            && wanted.is_none()
            && !by_key
            && !is_dependent
            && guards.is_empty()
            && self.estimates.rows(&left) < self.estimates.rows(&right);
        let (lefts, rights) = if swaps { (rights, lefts) } else { (lefts, rights) };
        if swaps {
            std::mem::swap(&mut left, &mut right);
        }
        if by_key {
            let truths = std::mem::take(&mut pairs).into_iter().map(|pair| match pair {
                Expr::IsBool(inner, true, false) => *inner,
                pair => pair,
            });
            right = right.filter(truths.collect()).settled();
        }
        let dependent = by_key || is_dependent;

        let mut below_left: BTreeSet<ColumnId> = needed.intersection(&lefts).copied().collect();
        let mut below_right: BTreeSet<ColumnId> = needed.intersection(&rights).copied().collect();
        for expr in guards.iter().chain(&pairs) {
            expr.each_column(&mut |id| {
                if lefts.contains(&id) {
                    below_left.insert(id);
                } else if rights.contains(&id) {
                    below_right.insert(id);
                }
            });
        }
        let passed: Vec<ColumnId> = match dependent {
            true => right.free_columns().intersection(&lefts).copied().collect(),
            false => Vec::new(),
        };
        below_left.extend(&passed);
        let left = match wanted {
            Some(wanted) => {
                below_left.extend(wanted.by.iter().map(|key| key.column));
                self.lower_in_order(left, wanted, &below_left)?
            }
            None => self.lower(left, &below_left)?,
        };
        let left_layout = left.layout.clone();
        let mut slots = Vec::with_capacity(passed.len());
        for id in &passed {
            slots.push((position(&left_layout, *id)?, self.slots));
            self.outer.insert(*id, self.slots);
            self.passed.push(*id);
            self.slots += 1;
        }
        let remembers = !right.is_volatile();
        let right = self.lower(right, &below_right)?;
        let right_layout = right.layout.clone();
        for id in &passed {
            self.outer.remove(id);
        }

        let guards = self.place_all(guards, &left_layout)?;
        let both: Vec<ColumnId> = left_layout.iter().chain(&right_layout).copied().collect();
        let how = match dependent {
            true => How::Dependent { slots, remembers },
            false => self.keys(&pairs, &left_layout, &right_layout, &both)?,
        };
        let on = Expr::all_of(self.place_all(pairs, &both)?);
        let left_width = left_layout.len();
        let layout = match kind {
            JoinKind::Semi | JoinKind::Anti => left_layout,
            JoinKind::Mark(mark) => left_layout.into_iter().chain([mark]).collect(),
            _ => both,
        };
        let right_width = right_layout.len();
        let guard = Expr::all_of(guards);
        let join = Join { kind: physical, left, right, left_width, right_width, guard, on, how };
        Ok(self.node(Op::Join(join), layout))
    }

    /// The rows that a right side reads without a key of the left side.
    fn base_rows(&self, right: &Rel) -> f64 {
        match scan_of(right) {
            Some((scan, conditions)) if reads_by_key(scan, &conditions) => {
                self.estimates.scanned(scan, &conditions)
            }
            Some((scan, _)) => self.estimates.rows(scan),
            None => self.estimates.rows(right),
        }
    }

    /// Returns the estimated rows of a lookup, if the conditions give a key of a right side that is
    /// a table.
    fn looked_up(&self, right: &Rel, pairs: &[Expr], lefts: &BTreeSet<ColumnId>) -> Option<f64> {
        let (scan, mut conditions) = scan_of(right)?;
        if let Rel::Scan { table, .. } = scan
            && crate::system::is_system(table.id)
        {
            return None;
        }
        let alone = access(scan, &conditions)?;
        let joining = pairs.iter().filter(|pair| pair.names_any(lefts)).map(|pair| match pair {
            Expr::IsBool(inner, true, false) => (**inner).clone(),
            pair => pair.clone(),
        });
        conditions.extend(joining);
        let found = access(scan, &conditions)?;
        (found.has_key() && found != alone).then(|| self.estimates.scanned(scan, &conditions))
    }

    /// Finds equalities between the sides; without one, all pairs are looked at.
    fn keys(
        &mut self,
        pairs: &[Expr],
        left: &[ColumnId],
        right: &[ColumnId],
        both: &[ColumnId],
    ) -> Result<How, SqlError> {
        let (lefts, rights): (BTreeSet<_>, BTreeSet<_>) =
            (left.iter().copied().collect(), right.iter().copied().collect());
        let (mut left_keys, mut right_keys, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for pair in pairs {
            let equal = match pair {
                Expr::IsBool(inner, true, false) => inner,
                pair => pair,
            };
            let sides = match equal {
                Expr::Compare(Compare::Eq, sides) => Some((&sides.0, &sides.1)),
                _ => None,
            };
            let apart = |(a, b): &(&Expr, &Expr)| !a.names_any(&rights) && !b.names_any(&lefts);
            let own = |(a, b): &(&Expr, &Expr)| a.names_any(&lefts) && b.names_any(&rights);
            let sides =
                sides.map(|(a, b)| if apart(&(a, b)) { (a, b) } else { (b, a) }).filter(|sides| {
                    apart(sides) && own(sides) && !may_fail(sides.0) && !may_fail(sides.1)
                });
            match sides {
                Some((a, b)) => {
                    left_keys.push(self.place(a.clone(), left)?);
                    right_keys.push(self.place(b.clone(), right)?);
                }
                None => rest.push(pair.clone()),
            }
        }
        if left_keys.is_empty() {
            return Ok(How::Loop);
        }
        let rest = Expr::all_of(self.place_all(rest, both)?);
        Ok(How::Hash { left: left_keys, right: right_keys, rest })
    }
}

/// Adds the key of a table's rows, the last column of its scan, to the columns of a relation.
fn with_row_key(rel: &mut Rel) -> Option<ColumnId> {
    match rel {
        Rel::Scan { table, columns } if !crate::system::is_system(table.id) => {
            columns.last().copied()
        }
        Rel::Filter { input, .. } | Rel::Sort { input, .. } => with_row_key(input),
        Rel::Project { input, outputs } => {
            let key = with_row_key(input)?;
            outputs.push((key, Expr::Column(key)));
            Some(key)
        }
        _ => None,
    }
}

/// True if the value may be an error for some rows. Overflow counts only where it is likely.
fn may_fail(expr: &Expr) -> bool {
    let mut may = false;
    expr.walk(&mut |part| {
        may |= match part {
            Expr::Arith(op, ..) => matches!(op, Arith::Div | Arith::Mod),
            Expr::Cast(_, _, explicit) => *explicit,
            Expr::Call(..) | Expr::Case { .. } => true,
            _ => false,
        };
    });
    may
}

impl Rel {
    /// Merges a filter into the filter or the scan below it.
    fn settled(self) -> Rel {
        match self {
            Rel::Filter { input, condition } => match *input {
                Rel::Filter { input, condition: inner } => {
                    let mut all = Vec::new();
                    inner.into_conjuncts(&mut all);
                    condition.into_conjuncts(&mut all);
                    input.filter(all)
                }
                input => Rel::Filter { input: Box::new(input), condition },
            },
            other => other,
        }
    }
}

/// Returns the scan of a right side, and its own conditions.
fn scan_of(rel: &Rel) -> Option<(&Rel, Vec<Expr>)> {
    match rel {
        Rel::Scan { .. } => Some((rel, Vec::new())),
        Rel::Filter { input, condition } if matches!(**input, Rel::Scan { .. }) => {
            Some((input, vec![condition.clone()]))
        }
        _ => None,
    }
}

fn reads_by_key(scan: &Rel, conditions: &[Expr]) -> bool {
    access(scan, conditions).is_some_and(|access| access.has_key())
}

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
