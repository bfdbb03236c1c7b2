//! Passes on that a column has one value: where `a = b` joins two relations and `a = 1` is true of
//! each row of one, `b = 1` selects rows of the other. That gives the other relation a key to be
//! read by.
//!
//! Preconditions: the value names no column, is small and not volatile; and rows of the other side
//! for which `a = b` is not true of any partner do not matter to the join. That holds for the right
//! side of all joins but full and mark joins, whose result shows that a comparison was NULL, and
//! for the left side of inner and semi joins. `=` is transitive: columns that are compared
//! without a cast (of integers, of texts, of timestamps) are in one order, and a cast is no column.
//!
//! Once both sides have the value, the condition `a = b` says nothing more, and goes.

use crate::expr::{Compare, Expr};
use crate::logical::{ColumnId, JoinKind, Rel};
use std::collections::BTreeMap;

/// Columns that have one value in all rows of a relation.
pub(super) type Fixed = BTreeMap<ColumnId, Expr>;

/// Returns the columns of a relation whose value a filter has fixed.
pub(super) fn fixed(rel: &Rel) -> Fixed {
    match rel {
        Rel::Filter { input, condition } => {
            let mut found = fixed(input);
            let mut conjuncts = Vec::new();
            condition.clone().into_conjuncts(&mut conjuncts);
            found.extend(conjuncts.iter().filter_map(equality));
            found
        }
        Rel::Project { input, outputs } => {
            let inner = fixed(input);
            let passed = outputs.iter().filter_map(|(id, output)| match output {
                Expr::Column(of) => Some((*id, inner.get(of)?.clone())),
                _ => None,
            });
            passed.collect()
        }
        Rel::Join(join) => {
            let mut found = match join.kind {
                JoinKind::Full => return Fixed::new(),
                _ => fixed(&join.left),
            };
            if join.kind == JoinKind::Inner {
                found.extend(fixed(&join.right));
            }
            found
        }
        Rel::Sort { input, .. }
        | Rel::Limit { input, .. }
        | Rel::Lock { input, .. }
        | Rel::Distinct { input, .. } => fixed(input),
        Rel::Window(window) => fixed(&window.input),
        Rel::Aggregate { input, keys, sets: None, .. } => {
            let mut found = fixed(input);
            found.retain(|id, _| keys.contains(id));
            found
        }
        _ => Fixed::new(),
    }
}

/// The nodes of a value beyond which it is not passed on: it would be computed for each column.
const MOST_NODES: usize = 100;

/// True for a small expression that has one value for a statement.
fn is_value(expr: &Expr) -> bool {
    expr.names_none() && !expr.is_volatile() && !expr.has_subquery() && expr.nodes() <= MOST_NODES
}

/// The column and the value of a condition that fixes a column.
fn equality(conjunct: &Expr) -> Option<(ColumnId, Expr)> {
    let Expr::Compare(Compare::Eq, sides) = conjunct else { return None };
    match &**sides {
        (Expr::Column(id), value) | (value, Expr::Column(id)) if is_value(value) => {
            Some((*id, value.clone()))
        }
        _ => None,
    }
}

/// Passes on what is fixed among the columns of one relation.
pub(super) fn complete(conjuncts: &mut Vec<Expr>) {
    let pairs: Vec<_> = conjuncts.iter().filter_map(pair).collect();
    if pairs.is_empty() {
        return;
    }
    let mut known: Fixed = conjuncts.iter().filter_map(equality).collect();
    loop {
        let both_ways = pairs.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        let new = implied(both_ways, &known, &known);
        if new.is_empty() {
            break;
        }
        conjuncts.extend(equalities(&new));
        known.extend(new);
    }
    drop_implied(conjuncts, &known, &known);
}

/// The two columns of an equality.
fn pair(conjunct: &Expr) -> Option<(ColumnId, ColumnId)> {
    let Expr::Compare(Compare::Eq, sides) = conjunct else { return None };
    match **sides {
        (Expr::Column(a), Expr::Column(b)) => Some((a, b)),
        _ => None,
    }
}

/// Returns the equalities of a left and a right column among the conditions of a join.
pub(super) fn pairs(on: &[Expr], left: &Rel, right: &Rel) -> Vec<(ColumnId, ColumnId)> {
    let mut found: Vec<_> = on.iter().filter_map(pair).collect();
    if found.is_empty() {
        return found;
    }
    let (lefts, rights) = (left.columns(), right.columns());
    found.retain_mut(|(a, b)| {
        if lefts.contains(b) && rights.contains(a) {
            std::mem::swap(a, b);
        }
        lefts.contains(a) && rights.contains(b)
    });
    found
}

/// Returns what is fixed by equality with something known: pairs are of a known and another column.
pub(super) fn implied(
    pairs: impl Iterator<Item = (ColumnId, ColumnId)>,
    known: &Fixed,
    already: &Fixed,
) -> Fixed {
    let new = pairs.filter(|(_, to)| !already.contains_key(to));
    new.filter_map(|(from, to)| Some((to, known.get(&from)?.clone()))).collect()
}

/// Returns the conditions that fix these columns.
pub(super) fn equalities(fixed: &Fixed) -> Vec<Expr> {
    let equal = |(id, value): (&ColumnId, &Expr)| {
        Expr::Compare(Compare::Eq, Box::new((Expr::Column(*id), value.clone())))
    };
    fixed.iter().map(equal).collect()
}

/// Removes the equalities that what is fixed on both sides makes true.
pub(super) fn drop_implied(on: &mut Vec<Expr>, left: &Fixed, right: &Fixed) {
    let value = |id| left.get(&id).or_else(|| right.get(&id));
    on.retain(|conjunct| match pair(conjunct) {
        Some((a, b)) => value(a).is_none() || value(a) != value(b),
        None => true,
    });
}
