//! Chooses the access path of a table: by costs if its rows are known, otherwise by the number of
//! matched columns.

use super::{Access, Span, about, conjuncts, disjunct_spans};
use crate::catalog::Table;
use crate::expr::{Compare, Expr, Quantifier};
use crate::index::Index;
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
    /// The columns that are wanted of rows, if entries of an index may stand for them.
    pub(crate) wanted: Option<&'a [bool]>,
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
        Access { index: None, spans: Vec::new(), only: false }
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
        let mut served = Vec::new();
        if let Some(at) = self.index
            && let Some(condition) = table.indexes[at].condition()
        {
            conjuncts(condition, &mut served);
        }
        if self.is_unique(table) {
            return Some(1.0);
        }
        let mut all = Vec::new();
        filter.iter().for_each(|filter| conjuncts(filter, &mut all));
        all.retain(|condition| self.serves(table, condition) && !served.contains(condition));
        served.extend(all);
        let served = served.into_iter().cloned().collect();
        let known = |column: usize| statistics.column(column);
        Some(statistics.rows as f64 * selectivity(&Expr::And(served), &known))
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
        let is_partial = index.condition().is_some();
        if index.condition().is_some_and(|condition| !is_implied(condition, &all)) {
            continue;
        }
        let spans = disjunct_spans(&index.keys(), &all);
        let least = spans.iter().map(Span::worth).min().unwrap_or(0);
        let is_used = least > 0;
        let only = at.is_some() && wish.wanted.is_some_and(|wanted| index.covers(table, wanted));
        let narrows = spans.iter().any(|span| span.used() > 0);
        let access = Access { index: at, spans: if narrows { spans } else { Vec::new() }, only };
        let gives_order = access.order(table, wish.order).is_some();
        let is_ordered = gives_order && !wish.order.is_empty();
        let has_reason = is_used || (at.is_some() && (is_ordered || only || is_partial));
        if has_reason {
            let worth = match (is_used, is_partial) {
                (true, _) => least * 4 + bonus(&access, index),
                (false, true) => 1,
                (false, false) => 0,
            };
            candidates.push(Candidate { access, worth, gives_order });
        }
    }
    candidates
}

/// True if a condition is true for all rows for which others are: each of its conjuncts is one of
/// them, or follows from one of them about the same column.
fn is_implied(condition: &Expr, all: &[&Expr]) -> bool {
    let mut parts = Vec::new();
    conjuncts(condition, &mut parts);
    parts.iter().all(|part| all.iter().any(|known| known == part || follows(part, known)))
}

/// True if one condition follows from another about the same column or expression.
fn follows(part: &Expr, from: &Expr) -> bool {
    match part {
        // A comparison is true only for values.
        Expr::IsNull(key, true) => match from {
            Expr::In(needle, _, false) => needle == key,
            Expr::Each(_, Quantifier::Any, sides) => sides.0 == **key,
            Expr::Compare(_, sides) => sides.0 == **key || sides.1 == **key,
            _ => false,
        },
        Expr::Compare(op, sides) => {
            let (key, Expr::Const(bound)) = (&sides.0, &sides.1) else { return false };
            let Some((known, Expr::Const(value))) = about(from, key) else { return false };
            if bound.is_null() {
                return false;
            }
            let order = value.order(bound);
            match (op, known) {
                (_, Compare::Eq) => op.holds(order),
                (Compare::Gt | Compare::Ge, Compare::Gt) => order.is_ge(),
                (Compare::Gt, Compare::Ge) => order.is_gt(),
                (Compare::Ge, Compare::Ge) => order.is_ge(),
                (Compare::Lt | Compare::Le, Compare::Lt) => order.is_le(),
                (Compare::Lt, Compare::Le) => order.is_lt(),
                (Compare::Le, Compare::Le) => order.is_le(),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Prefers unique keys, and among equal ones those of fewer rows, and those that spare the rows.
fn bonus(access: &Access, index: &Index) -> usize {
    let parts = index.columns.len();
    let whole = index.unique && access.spans.iter().all(|span| span.is_whole(parts));
    let is_partial = index.condition().is_some();
    let spares = access.index.is_none() || access.only;
    usize::from(whole) * 100 + usize::from(is_partial) * 2 + usize::from(spares)
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
        let row = match self.access.index.is_some() && !self.access.only {
            true => 1.0 + LOOKUP,
            false => 1.0,
        };
        needed * row + whole + sort
    }
}
