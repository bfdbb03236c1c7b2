//! The naive interpreter of logical plans, the oracle of every rewrite: it evaluates each operator
//! as its definition says, and each subquery for each row.

use super::{ColumnId, Join, JoinKind, Rel, SetOp, SortKey, Subquery, Wants};
use crate::aggregate::Groups;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Expr, Facts, Scope};
use crate::key;
use std::cell::RefCell;
use std::collections::BTreeMap;

pub(crate) type Row = Vec<Datum>;

/// The tables, by name, and the queries of WITH that were evaluated.
pub(crate) struct Naive {
    pub(crate) tables: BTreeMap<String, Vec<Row>>,
    pub(crate) facts: Facts,
    named: RefCell<BTreeMap<usize, (Vec<ColumnId>, Vec<Row>)>>,
}

/// The values of columns, by id; NULL for those that are not in scope.
pub(super) type Values = Vec<Datum>;

pub(super) fn with(values: &[Datum], columns: &[ColumnId], row: &[Datum]) -> Values {
    let mut values = values.to_vec();
    for (id, datum) in columns.iter().zip(row) {
        if values.len() <= *id {
            values.resize(id + 1, Datum::Null);
        }
        values[*id] = datum.clone();
    }
    values
}

fn bytes(row: &[Datum]) -> Vec<u8> {
    let mut bytes = Vec::new();
    row.iter().for_each(|datum| key::write(datum, false, &mut bytes));
    bytes
}

impl Naive {
    pub(crate) fn new(tables: BTreeMap<String, Vec<Row>>) -> Naive {
        Naive { tables, facts: Facts::default(), named: RefCell::default() }
    }

    pub(super) fn scope(&self) -> Scope<'_> {
        Scope { params: &[], now_us: 0, session: &self.facts, catalog: None, effects: None }
    }

    /// Returns columns of a relation's rows.
    pub(crate) fn run(&self, rel: &Rel, outputs: &[ColumnId]) -> Result<Vec<Row>, SqlError> {
        let columns = rel.columns();
        let at = |id: &ColumnId| columns.iter().position(|column| column == id);
        let picks: Vec<usize> = outputs.iter().map(|id| at(id).expect("an output")).collect();
        let rows = self.rows(rel, &Vec::new())?;
        Ok(rows.iter().map(|row| picks.iter().map(|at| row[*at].clone()).collect()).collect())
    }

    pub(super) fn rows(&self, rel: &Rel, outer: &Values) -> Result<Vec<Row>, SqlError> {
        Ok(match rel {
            Rel::Values { rows, .. } => {
                let row = |row: &Vec<Expr>| row.iter().map(|expr| self.eval(expr, outer)).collect();
                rows.iter().map(row).collect::<Result<_, _>>()?
            }
            Rel::Scan { table, .. } => {
                let stored = self.tables[&table.name].iter();
                stored.map(|row| row.iter().cloned().chain([Datum::Null]).collect()).collect()
            }
            Rel::Filter { input, condition } => {
                let columns = input.columns();
                let mut kept = Vec::new();
                for row in self.rows(input, outer)? {
                    if self.eval(condition, &with(outer, &columns, &row))? == Datum::Bool(true) {
                        kept.push(row);
                    }
                }
                kept
            }
            Rel::Project { input, outputs } => {
                let columns = input.columns();
                let row = |row: Row| {
                    let values = with(outer, &columns, &row);
                    outputs.iter().map(|(_, expr)| self.eval(expr, &values)).collect()
                };
                self.rows(input, outer)?.into_iter().map(row).collect::<Result<_, _>>()?
            }
            Rel::Join(join) => self.join(join, outer)?,
            Rel::Aggregate { input, keys, sets, aggregates } => {
                let columns = input.columns();
                let aggregates: Vec<_> = aggregates.iter().map(|(_, a)| a.clone()).collect();
                let all = [(0..keys.len()).collect::<Vec<_>>()];
                let sets_of_keys = sets.as_ref().map_or(all.as_slice(), |sets| &sets.sets);
                let rows = self.rows(input, outer)?;
                let mut out = Vec::new();
                for (number, set) in sets_of_keys.iter().enumerate() {
                    let own: Vec<Expr> = set.iter().map(|at| Expr::Column(keys[*at])).collect();
                    let mut groups = Groups::new(&own, &aggregates, None, Zone::utc());
                    for row in &rows {
                        let values = with(outer, &columns, row);
                        groups.add(&values, &self.scope(), &mut self.facts.held())?;
                    }
                    for group in groups.finish(&mut self.facts.held())? {
                        let mut row = vec![Datum::Null; keys.len()];
                        set.iter().zip(&group).for_each(|(at, key)| row[*at] = key.clone());
                        let marks = sets.iter().flat_map(|sets| &sets.marks);
                        row.extend(marks.map(|(_, marks)| Datum::Int4(marks[number])));
                        row.extend_from_slice(&group[set.len()..]);
                        out.push(row);
                    }
                }
                out
            }
            Rel::Window(window) => self.window(window, outer)?,
            Rel::Distinct { input, on } => {
                let columns = input.columns();
                let mut seen = std::collections::BTreeSet::new();
                let mut rows = self.rows(input, outer)?;
                rows.retain(|row| {
                    let values = with(&[], &columns, row);
                    let key: Row = on.iter().map(|id| values[*id].clone()).collect();
                    seen.insert(bytes(&key))
                });
                rows
            }
            Rel::Sort { input, by } => {
                let columns = input.columns();
                let mut rows = self.rows(input, outer)?;
                rows.sort_by(|a, b| compare(by, &columns, a, b));
                rows
            }
            Rel::Limit { input, limit, offset } => {
                let count = |expr: &Option<Expr>| match expr {
                    Some(expr) => self.eval(expr, outer).map(|n| n.as_i64().map(|n| n as usize)),
                    None => Ok(None),
                };
                let (limit, offset) = (count(limit)?, count(offset)?);
                let rows = self.rows(input, outer)?.into_iter().skip(offset.unwrap_or(0));
                rows.take(limit.unwrap_or(usize::MAX)).collect()
            }
            Rel::Lock { input, .. } => self.rows(input, outer)?,
            Rel::Set(set) => {
                let mut sides = Vec::new();
                for (side, ids) in &set.sides {
                    let columns = side.columns();
                    let pick = |row: Row| -> Row {
                        let at = |id: &ColumnId| columns.iter().position(|c| c == id);
                        ids.iter().map(|id| row[at(id).expect("a column")].clone()).collect()
                    };
                    sides.push(self.rows(side, outer)?.into_iter().map(pick).collect::<Vec<_>>());
                }
                combine(set.op, set.all, sides)
            }
            Rel::Recursive(query) => {
                let pick = |(side, ids): &(Rel, Vec<ColumnId>)| {
                    let columns = side.columns();
                    let at = |id: &ColumnId| columns.iter().position(|c| c == id).expect("an id");
                    let row = |row: Row| ids.iter().map(|id| row[at(id)].clone()).collect();
                    let rows = self.rows(side, outer)?.into_iter();
                    Ok::<Vec<Row>, SqlError>(rows.map(row).collect())
                };
                let mut added = pick(&query.first)?;
                let mut all = Vec::new();
                loop {
                    if !query.all {
                        let mut seen: std::collections::BTreeSet<_> =
                            all.iter().map(|row: &Row| bytes(row)).collect();
                        added.retain(|row| seen.insert(bytes(row)));
                    }
                    if added.is_empty() {
                        break;
                    }
                    all.extend(added.iter().cloned());
                    let before = (query.columns.clone(), std::mem::take(&mut added));
                    self.named.borrow_mut().insert(query.name, before);
                    added = pick(&query.step)?;
                }
                all
            }
            Rel::Functions(functions) => {
                let scope = Scope {
                    params: &[],
                    now_us: 0,
                    session: &self.facts,
                    catalog: None,
                    effects: None,
                };
                let mut sides = Vec::new();
                for (function, args) in &functions.calls {
                    let args = args.iter().map(|arg| self.eval(arg, outer));
                    let args = args.collect::<Result<Vec<_>, _>>()?;
                    let rows = function.rows(&args, &scope)?.collect::<Result<Vec<_>, _>>()?;
                    sides.push((rows, function.width()));
                }
                let count = sides.iter().map(|(rows, _)| rows.len()).max().unwrap_or(0);
                let row = |at: usize| {
                    let side = |(rows, width): &(Vec<Row>, usize)| {
                        rows.get(at).cloned().unwrap_or_else(|| vec![Datum::Null; *width])
                    };
                    let number = functions.ordinality.map(|_| Datum::Int8(at as i64 + 1));
                    sides.iter().flat_map(side).chain(number).collect()
                };
                (0..count).map(row).collect()
            }
            Rel::With { name, definition, body } => {
                let rows = self.rows(definition, outer)?;
                self.named.borrow_mut().insert(*name, (definition.columns(), rows));
                self.rows(body, outer)?
            }
            Rel::Named { name, of, .. } => {
                let named = self.named.borrow();
                let (columns, rows) = &named[name];
                let at = |id: &ColumnId| columns.iter().position(|c| c == id).expect("a column");
                rows.iter().map(|row| of.iter().map(|id| row[at(id)].clone()).collect()).collect()
            }
        })
    }

    fn join(&self, join: &Join, outer: &Values) -> Result<Vec<Row>, SqlError> {
        let Join { kind, left, right, on } = join;
        let (lefts, rights) = (left.columns(), right.columns());
        let mut out = Vec::new();
        let mut guards = Vec::new();
        on.clone().into_conjuncts(&mut guards);
        let names: std::collections::BTreeSet<_> = rights.iter().copied().collect();
        guards.retain(|guard| Join::is_guard(*kind, guard, &names));
        let mut matched_right: Vec<Row> = Vec::new();
        for row in self.rows(left, outer)? {
            let values = with(outer, &lefts, &row);
            let mut open = true;
            for guard in &guards {
                open = open && self.eval(guard, &values)? == Datum::Bool(true);
            }
            let (mut matches, mut unknown) = (Vec::new(), false);
            for other in if open { self.rows(right, &values)? } else { Vec::new() } {
                match self.eval(on, &with(&values, &rights, &other))? {
                    Datum::Bool(true) => matches.push(other),
                    Datum::Null => unknown = true,
                    _ => {}
                }
            }
            let pair = |other: &Row| row.iter().chain(other).cloned().collect::<Row>();
            let padded = || row.iter().cloned().chain(rights.iter().map(|_| Datum::Null)).collect();
            match kind {
                JoinKind::Inner => out.extend(matches.iter().map(pair)),
                JoinKind::Left | JoinKind::Full if matches.is_empty() => out.push(padded()),
                JoinKind::Left | JoinKind::Full => out.extend(matches.iter().map(pair)),
                JoinKind::Single if matches.len() > 1 => {
                    return Err(SqlError::new(state::CARDINALITY_VIOLATION, "several rows"));
                }
                JoinKind::Single if matches.is_empty() => out.push(padded()),
                JoinKind::Single => out.extend(matches.iter().map(pair)),
                JoinKind::Semi if !matches.is_empty() => out.push(row.clone()),
                JoinKind::Anti if matches.is_empty() => out.push(row.clone()),
                JoinKind::Semi | JoinKind::Anti => {}
                JoinKind::Mark(_) => {
                    let mark = match (matches.is_empty(), unknown) {
                        (false, _) => Datum::Bool(true),
                        (true, true) => Datum::Null,
                        (true, false) => Datum::Bool(false),
                    };
                    out.push(row.iter().cloned().chain([mark]).collect());
                }
            }
            matched_right.extend(matches);
        }
        if *kind == JoinKind::Full {
            for other in self.rows(right, outer)? {
                if !matched_right.contains(&other) {
                    out.push(lefts.iter().map(|_| Datum::Null).chain(other).collect());
                }
            }
        }
        Ok(out)
    }

    /// Evaluates an expression; subqueries where, and only where, their values are needed.
    pub(super) fn eval(&self, expr: &Expr, values: &Values) -> Result<Datum, SqlError> {
        match expr {
            Expr::Subquery(subquery) => self.subquery(subquery, values),
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if self.eval(condition, values)? == Datum::Bool(true) {
                        return self.eval(result, values);
                    }
                }
                self.eval(otherwise, values)
            }
            Expr::Coalesce(parts) => {
                for part in parts {
                    let datum = self.eval(part, values)?;
                    if !datum.is_null() {
                        return Ok(datum);
                    }
                }
                Ok(Datum::Null)
            }
            Expr::Column(id) => Ok(values.get(*id).cloned().unwrap_or(Datum::Null)),
            other => {
                let mut node = other.clone();
                for part in node.children_mut() {
                    *part = Expr::Const(self.eval(part, values)?);
                }
                node.eval(&[], &self.scope())
            }
        }
    }

    fn subquery(&self, subquery: &Subquery, values: &Values) -> Result<Datum, SqlError> {
        let columns = subquery.rel.columns();
        let rows = self.rows(&subquery.rel, values)?;
        match &subquery.wants {
            Wants::Existence => Ok(Datum::Bool(!rows.is_empty())),
            Wants::Value(_) if rows.len() > 1 => {
                Err(SqlError::new(state::CARDINALITY_VIOLATION, "several rows"))
            }
            Wants::Value(id) => {
                let at = columns.iter().position(|column| column == id).expect("a column");
                Ok(rows.first().map_or(Datum::Null, |row| row[at].clone()))
            }
            Wants::Any(condition) => {
                let mut found = Datum::Bool(false);
                for row in rows {
                    match self.eval(condition, &with(values, &columns, &row))? {
                        Datum::Bool(true) => return Ok(Datum::Bool(true)),
                        Datum::Null => found = Datum::Null,
                        _ => {}
                    }
                }
                Ok(found)
            }
        }
    }
}

pub(super) fn compare(
    by: &[SortKey],
    columns: &[ColumnId],
    a: &Row,
    b: &Row,
) -> std::cmp::Ordering {
    for key in by {
        let at = columns.iter().position(|id| *id == key.column).expect("a column");
        let order = match (a[at].is_null(), b[at].is_null()) {
            (false, false) if key.descending => b[at].order(&a[at]),
            (false, false) => a[at].order(&b[at]),
            (a, b) if key.nulls_first => b.cmp(&a),
            (a, b) => a.cmp(&b),
        };
        if order.is_ne() {
            return order;
        }
    }
    std::cmp::Ordering::Equal
}

fn combine(op: SetOp, all: bool, sides: Vec<Vec<Row>>) -> Vec<Row> {
    let mut out: Vec<Row> = match op {
        SetOp::Union => sides.concat(),
        _ => {
            let mut others = sides[1].clone();
            let keeps = op == SetOp::Intersect;
            let mut first = sides[0].clone();
            first.retain(|row| {
                let found = others.iter().position(|other| bytes(other) == bytes(row));
                if let (Some(at), true) = (found, all) {
                    others.remove(at);
                }
                found.is_some() == keeps
            });
            first
        }
    };
    if !all {
        let mut seen = std::collections::BTreeSet::new();
        out.retain(|row| seen.insert(bytes(row)));
    }
    out
}
