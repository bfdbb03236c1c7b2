//! Estimates of numbers of rows: from the statistics of tables, or guessed.

use super::{Join, Kind, Op, RowsOf, rows_of};
use crate::access::Access;
use crate::catalog::Table;
use crate::expr::Expr;
use crate::function::Function;
use crate::logical::{ColumnId, JoinKind, Rel, SetOp};
use crate::statistics::{ARRAY_ELEMENTS, ColumnStatistics, Statistics, selectivity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows of a table of unknown size.
const TABLE_ROWS: f64 = 10_000.0;
/// The rows of a table of the system catalog.
const SYSTEM_ROWS: f64 = 200.0;
/// The rows of a query of WITH.
const NAMED_ROWS: f64 = 100.0;
/// The rounds of a recursive query.
const ROUNDS: f64 = 10.0;
/// The rows of a set-returning function.
const FUNCTION_ROWS: f64 = 100.0;
/// The rows that have one value of an index, or of the first columns of a key.
const KEY_ROWS: f64 = 10.0;
/// The most rows of a relation: products of guesses stay finite.
const MOST_ROWS: f64 = 1e100;
/// The part of the rows whose keys are different.
const GROUPS: f64 = 0.3;

/// The statistics of a plan's columns.
pub(super) struct Estimates {
    columns: BTreeMap<ColumnId, (Arc<Statistics>, usize)>,
}

impl Estimates {
    /// Finds the statistics of all columns of a plan.
    pub(super) fn of(rel: &Rel) -> Self {
        let mut estimates = Estimates { columns: BTreeMap::new() };
        estimates.learn(rel);
        estimates
    }

    fn learn(&mut self, rel: &Rel) {
        rel.inputs().into_iter().for_each(|input| self.learn(input));
        match rel {
            Rel::Scan { table, columns } => {
                let Some(statistics) = &table.statistics else { return };
                let known = columns.iter().enumerate();
                self.columns.extend(known.map(|(at, id)| (*id, (statistics.clone(), at))));
            }
            Rel::Project { outputs, .. } => {
                for (id, expr) in outputs {
                    if let Expr::Column(of) = expr {
                        self.rename(*of, *id);
                    }
                }
            }
            Rel::Named { columns, of, .. } => {
                columns.iter().zip(of).for_each(|(id, of)| self.rename(*of, *id));
            }
            _ => {}
        }
    }

    fn rename(&mut self, of: ColumnId, id: ColumnId) {
        if let Some(known) = self.columns.get(&of).cloned() {
            self.columns.insert(id, known);
        }
    }

    fn column(&self, id: ColumnId) -> Option<&ColumnStatistics> {
        let (statistics, at) = self.columns.get(&id)?;
        statistics.column(*at)
    }

    /// Returns the part of the rows that a condition selects.
    pub(super) fn selectivity(&self, condition: &Expr) -> f64 {
        selectivity(condition, &|id| self.column(id))
    }

    /// Returns the estimated number of rows of a relation.
    pub(super) fn rows(&self, rel: &Rel) -> f64 {
        let rows = |rel: &Rel| self.rows(rel);
        match rel {
            Rel::Values { rows, .. } => rows.len() as f64,
            Rel::Scan { table, .. } => of_table(table),
            Rel::Filter { input, condition } => match &**input {
                Rel::Scan { .. } => self.scanned(input, std::slice::from_ref(condition)),
                input => rows(input) * self.selectivity(condition),
            },
            Rel::Project { input, .. } | Rel::Sort { input, .. } | Rel::Lock { input, .. } => {
                rows(input)
            }
            Rel::Join(join) => {
                let (left, right) = (rows(&join.left), rows(&join.right));
                let pairs = (left * right * self.selectivity(&join.on)).min(MOST_ROWS);
                match join.kind {
                    JoinKind::Inner => pairs,
                    JoinKind::Left => pairs.max(left),
                    JoinKind::Full => pairs.max(left).max(right),
                    JoinKind::Semi => pairs.min(left),
                    JoinKind::Anti => left * 0.5,
                    JoinKind::Single | JoinKind::Mark(_) => left,
                }
            }
            Rel::Window(window) => rows(&window.input),
            Rel::Aggregate { keys, sets: None, .. } if keys.is_empty() => 1.0,
            Rel::Aggregate { input, keys, .. } => self.groups(rows(input), keys),
            Rel::Distinct { input, on } => self.groups(rows(input), on),
            Rel::Limit { input, limit, .. } => match limit {
                Some(Expr::Const(count)) => {
                    rows(input).min(count.as_i64().map_or(f64::MAX, |count| count as f64))
                }
                _ => rows(input),
            },
            Rel::Set(set) => set.sides.iter().map(|(side, _)| rows(side)).sum(),
            Rel::With { body, .. } => rows(body),
            Rel::Named { .. } => NAMED_ROWS,
            Rel::Recursive(query) => rows(&query.first.0) * ROUNDS,
            Rel::Functions(functions) => called(&functions.calls),
        }
    }

    /// Returns the estimated number of different values that rows have in some columns.
    pub(super) fn distinct(&self, rel: &Rel, on: &[ColumnId]) -> f64 {
        self.groups(self.rows(rel), on)
    }

    /// Returns the estimated number of groups of rows by keys.
    fn groups(&self, rows: f64, keys: &[ColumnId]) -> f64 {
        let distinct = |key: &ColumnId| self.column(*key).map(|column| column.distinct + 1.0);
        let groups: Option<f64> = keys.iter().map(distinct).product();
        groups.map_or(rows * GROUPS, |groups| groups.min(rows))
    }

    /// Returns the estimated number of rows of a table for which conditions are true.
    pub(super) fn scanned(&self, scan: &Rel, conditions: &[Expr]) -> f64 {
        let all = self.rows(scan);
        let Rel::Scan { table, columns } = scan else { return all };
        let mut positioned = Vec::with_capacity(conditions.len());
        for condition in conditions {
            let mut condition = condition.clone();
            condition.replace_columns(&|id| {
                Some(match columns.iter().position(|column| *column == id) {
                    Some(at) => Expr::Column(at),
                    None => Expr::Param(0),
                })
            });
            positioned.push(condition);
        }
        let filter = Expr::all_of(positioned);
        let access = Access::choose(table, filter.as_ref());
        if access.is_unique(table) {
            return 1.0;
        }
        let mut parts = Vec::new();
        conditions.iter().for_each(|condition| condition.clone().into_conjuncts(&mut parts));
        let found = all * self.selectivity(&Expr::And(parts));
        bounded(found, table, &access)
    }
}

impl Estimates {
    /// Returns the estimated number of rows of an operator.
    pub(super) fn of_operator(&self, op: &Op) -> f64 {
        match op {
            Op::Values(rows) => rows.len() as f64,
            Op::Scan(scan) => estimated(&scan.table, &scan.access, scan.filter.as_ref()).1,
            Op::LockRows { input, .. } | Op::Project { input, .. } | Op::Window { input, .. } => {
                input.rows
            }
            Op::Filter { input, condition } => {
                input.rows * selectivity(condition, &|at| self.column(*input.layout.get(at)?))
            }
            Op::Join(join) => self.of_join(join),
            Op::Aggregate { keys, sets: None, .. } if keys.is_empty() => 1.0,
            Op::Aggregate { input, keys, .. } => {
                let id = |key: &Expr| match key {
                    Expr::Column(at) => input.layout.get(*at).copied(),
                    _ => None,
                };
                let keys: Vec<ColumnId> = keys.iter().filter_map(id).collect();
                self.groups(input.rows, &keys)
            }
            Op::Distinct { input, on } => {
                let on: Vec<_> = on.iter().map(|at| input.layout[*at]).collect();
                self.groups(input.rows, &on)
            }
            Op::Sort { input, most: None, .. } => input.rows,
            Op::Sort { input, most: Some((limit, offset)), .. }
            | Op::Limit { input, limit, offset } => {
                rows_of(limit, offset).map_or(input.rows, |most| most.min(input.rows))
            }
            Op::Set { op: SetOp::Union, sides, .. } => sides.iter().map(|side| side.rows).sum(),
            Op::Set { sides, .. } => sides.first().map_or(0.0, |side| side.rows),
            Op::With { body, .. } => body.rows,
            Op::Named { of: RowsOf::Query(node), .. } => node.rows,
            Op::Named { of: RowsOf::Round | RowsOf::Given, .. } => NAMED_ROWS,
            Op::Recursive { first, .. } => first.rows * ROUNDS,
            Op::Functions { calls, .. } => called(calls),
        }
    }

    fn of_join(&self, join: &Join) -> f64 {
        let (left, right) = (join.left.rows, join.right.rows);
        let at = |at: usize| match at.checked_sub(join.left_width) {
            None => join.left.layout.get(at).copied(),
            Some(at) => join.right.layout.get(at).copied(),
        };
        let on =
            join.on.as_ref().map_or(1.0, |on| selectivity(on, &|place| self.column(at(place)?)));
        let pairs = (left * right * on).min(MOST_ROWS);
        match join.kind {
            Kind::Inner => pairs,
            Kind::Left => pairs.max(left),
            Kind::Full => pairs.max(left).max(right),
            Kind::Semi => pairs.min(left),
            Kind::Anti | Kind::AntiUnknown => left * 0.5,
            Kind::Single | Kind::Mark => left,
        }
    }
}

/// Returns the estimated number of rows of functions side by side: those of a series of constants
/// are known.
fn called(calls: &[(&'static Function, Vec<Expr>)]) -> f64 {
    let rows = |(function, args): &(&'static Function, Vec<Expr>)| {
        let number = |arg: &Expr| match arg {
            Expr::Const(datum) => datum.as_i64().map(|number| number as f64),
            _ => None,
        };
        let numbers = args.iter().map(number).collect::<Option<Vec<f64>>>();
        let (from, to, by) = match numbers.as_deref() {
            Some([from, to]) => (from, to, 1.0),
            Some([from, to, by]) if *by != 0.0 => (from, to, *by),
            _ => return FUNCTION_ROWS,
        };
        match function.name {
            "generate_series" => ((to - from) / by + 1.0).floor().max(1.0),
            _ => FUNCTION_ROWS,
        }
    };
    calls.iter().map(rows).fold(1.0, f64::max)
}

/// Returns the estimated numbers of rows that an access path reads, and that the condition accepts.
pub(crate) fn estimated(table: &Table, access: &Access, filter: Option<&Expr>) -> (f64, f64) {
    if access.is_unique(table) {
        return (1.0, 1.0);
    }
    let known = |column: usize| table.statistics.as_ref()?.column(column);
    let part = filter.map_or(1.0, |filter| selectivity(filter, &known));
    let rows = bounded(of_table(table) * part, table, access);
    let read = match access.spans.is_empty() {
        true => of_table(table),
        false => access.rows(table, filter).unwrap_or(rows),
    };
    (read.max(rows), rows)
}

/// Bounds an estimate by what an access path of a table without statistics can find.
fn bounded(rows: f64, table: &Table, access: &Access) -> f64 {
    let most = match access.has_key() && table.statistics.is_none() {
        true if access.spans.len() == 1 && access.is_many() => KEY_ROWS * ARRAY_ELEMENTS,
        true => KEY_ROWS * access.spans.len() as f64,
        false => rows,
    };
    rows.min(most).max(1.0)
}

/// Returns the number of rows of a table.
fn of_table(table: &Table) -> f64 {
    match &table.statistics {
        Some(statistics) => (statistics.rows as f64).max(1.0),
        None if table.is_made() => SYSTEM_ROWS,
        None => TABLE_ROWS,
    }
}
