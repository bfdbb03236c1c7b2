//! Chooses the access path of a table: by costs if its rows are known, otherwise by the number of
//! matched columns.

use super::{Access, Span, conjuncts, disjunct_spans};
use crate::catalog::{IndexPart, Table};
use crate::expr::Expr;
use crate::physical::SortBy;
use crate::statistics::selectivity;

/// The cost of a row that an index names, in rows that a scan of the table reads meanwhile.
pub(crate) const LOOKUP: f64 = 4.0;
/// The cost of reading without a key, beside that of the rows: the read conflicts with each writer
/// of the table.
const WHOLE: f64 = 100.0;
/// The cost of comparing two rows in a sort.
const COMPARE: f64 = 0.2;

/// The requirements for an access path.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wish<'a> {
    /// The condition for rows.
    pub(crate) filter: Option<&'a Expr>,
    /// The order of the rows.
    pub(crate) order: &'a [SortBy],
    /// The number of rows that are needed, if not all are.
    pub(crate) rows: Option<f64>,
    /// True if a key is to be used even if the table is read faster without one: the rows are
    /// going to be changed.
    pub(crate) by_key: bool,
}

struct Candidate {
    access: Access,
    /// A measure for the columns that it matches.
    worth: usize,
    gives_order: bool,
}

impl Access {
    /// The scan of a whole table.
    pub(crate) fn whole() -> Access {
        Access { index: None, spans: Vec::new() }
    }

    /// Returns the best access path for a condition.
    pub(crate) fn choose(table: &Table, filter: Option<&Expr>) -> Access {
        Access::choose_for(table, &Wish { filter, ..Wish::default() })
    }

    /// Returns the best access path.
    pub(crate) fn choose_for(table: &Table, wish: &Wish<'_>) -> Access {
        let mut candidates = candidates(table, wish);
        if wish.by_key && candidates.iter().any(|candidate| candidate.worth > 0) {
            candidates.retain(|candidate| candidate.worth > 0);
        }
        let best = match &table.statistics {
            Some(_) => {
                let cost = |candidate: &Candidate| candidate.cost(table, wish);
                candidates.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))
            }
            // The first of equal ones.
            None => candidates.into_iter().rev().max_by_key(|candidate| {
                let is_helpful = candidate.gives_order && wish.rows.is_some();
                (candidate.worth, is_helpful && !wish.order.is_empty())
            }),
        };
        best.map_or_else(Access::whole, |best| best.access)
    }

    /// Returns the estimated number of rows that it reads.
    pub(crate) fn rows(&self, table: &Table, filter: Option<&Expr>) -> Option<f64> {
        let statistics = table.statistics.as_ref()?;
        let rows = statistics.rows as f64;
        if self.spans.is_empty() {
            return Some(rows);
        }
        if self.is_unique(table) {
            return Some(1.0);
        }
        let mut all = Vec::new();
        filter.iter().for_each(|filter| conjuncts(filter, &mut all));
        all.retain(|condition| self.serves(table, condition));
        let served = all.into_iter().cloned().collect();
        let known = |column: usize| statistics.column(column);
        Some(rows * selectivity(&Expr::And(served), &known))
    }
}

/// Returns the whole table, and each key that the condition or the order gives a reason for.
fn candidates(table: &Table, wish: &Wish<'_>) -> Vec<Candidate> {
    let mut all = Vec::new();
    wish.filter.iter().for_each(|filter| conjuncts(filter, &mut all));
    let whole = Access::whole();
    let gives_order = whole.order(table, wish.order).is_some();
    let mut candidates = vec![Candidate { access: whole, worth: 0, gives_order }];
    let primary = table.primary.iter().map(|primary| (None, primary));
    let indexes = table.indexes.iter().enumerate().map(|(at, index)| (Some(at), index));
    for (at, index) in primary.chain(indexes).filter(|(_, index)| index.building.is_none()) {
        let spans = disjunct_spans(&index.columns, &all);
        let least = spans.iter().map(Span::worth).min().unwrap_or(0);
        let is_used = least > 0;
        let access = Access { index: at, spans: if is_used { spans } else { Vec::new() } };
        let gives_order = access.order(table, wish.order).is_some();
        let has_reason = is_used || (at.is_some() && gives_order && !wish.order.is_empty());
        if has_reason {
            let worth =
                if is_used { least * 4 + bonus(&access, &index.columns, index.unique) } else { 0 };
            candidates.push(Candidate { access, worth, gives_order });
        }
    }
    candidates
}

fn bonus(access: &Access, parts: &[IndexPart], unique: bool) -> usize {
    let whole = unique && access.spans.iter().all(|span| span.equal.len() == parts.len());
    usize::from(whole) * 100 + usize::from(access.index.is_none())
}

impl Candidate {
    /// The cost of reading and sorting, in rows that a scan of the table reads meanwhile.
    fn cost(&self, table: &Table, wish: &Wish<'_>) -> f64 {
        let read = self.access.rows(table, wish.filter).unwrap_or(0.0);
        let known = |column: usize| table.statistics.as_ref()?.column(column);
        let all = table.statistics.as_ref().map_or(0.0, |statistics| statistics.rows as f64);
        let accepted = wish.filter.map_or(1.0, |filter| selectivity(filter, &known)) * all;
        let needed = match wish.rows {
            Some(rows) if self.gives_order => {
                // As many are read as it takes to find those that are accepted.
                read.min(rows * (read / accepted.max(1.0)).max(1.0))
            }
            _ => read,
        };
        let whole = if self.access.spans.is_empty() && wish.rows.is_none() { WHOLE } else { 0.0 };
        let sort = match self.gives_order {
            true => 0.0,
            false => accepted * accepted.max(2.0).log2() * COMPARE,
        };
        let row = if self.access.index.is_some() { 1.0 + LOOKUP } else { 1.0 };
        needed * row + whole + sort
    }
}
