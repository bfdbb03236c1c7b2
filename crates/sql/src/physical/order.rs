//! The order of inner joins.
//!
//! A cluster of inner joins is a set of relations and a set of conditions. It is joined greedily:
//! first the relation with the fewest rows, then each time the one that makes the fewest pairs,
//! those with a condition to what is joined before all others. A dependent relation comes after the
//! relations that it names.

use super::estimate;
use crate::expr::Expr;
use crate::logical::{Join, JoinKind, Rel};
use std::collections::BTreeSet;

/// Orders all inner joins of a plan.
pub(super) fn order(rel: Rel) -> Rel {
    let mut rel = rel;
    if is_inner(&rel) {
        let (mut relations, mut conditions) = (Vec::new(), Vec::new());
        flatten(rel, &mut relations, &mut conditions);
        let relations = relations.into_iter().map(order).collect();
        return greedy(relations, conditions);
    }
    for input in rel.inputs_mut() {
        let inner = std::mem::replace(input, Rel::one_row());
        *input = order(inner);
    }
    rel
}

fn is_inner(rel: &Rel) -> bool {
    matches!(rel, Rel::Join(join) if join.kind == JoinKind::Inner)
}

fn flatten(rel: Rel, relations: &mut Vec<Rel>, conditions: &mut Vec<Expr>) {
    match rel {
        Rel::Join(join) if join.kind == JoinKind::Inner => {
            let Join { left, right, on, .. } = *join;
            flatten(left, relations, conditions);
            flatten(right, relations, conditions);
            on.into_conjuncts(conditions);
        }
        other => relations.push(other),
    }
}

fn greedy(relations: Vec<Rel>, mut conditions: Vec<Expr>) -> Rel {
    let cluster: BTreeSet<usize> = relations.iter().flat_map(Rel::columns).collect();
    let with_needs = |rel: Rel| {
        let needs: BTreeSet<usize> = rel.free_columns().intersection(&cluster).copied().collect();
        (rel, needs)
    };
    let mut waiting: Vec<(Rel, BTreeSet<usize>)> = relations.into_iter().map(with_needs).collect();
    let first = least(&waiting, |(rel, needs)| needs.is_empty().then(|| (0, estimate::rows(rel))));
    let (mut joined, _) = waiting.remove(first.unwrap_or(0));
    let mut have: BTreeSet<usize> = joined.columns().into_iter().collect();
    let mut count = estimate::rows(&joined);
    while !waiting.is_empty() {
        let next = least(&waiting, |(rel, needs)| {
            if !needs.is_subset(&have) {
                return None;
            }
            let (on, pairs) = pairs(rel, (&have, &cluster), count, &conditions);
            Some((usize::from(on.is_empty() && needs.is_empty()), pairs))
        });
        let (rel, _) = waiting.remove(next.unwrap_or(0));
        let (on, pairs) = pairs(&rel, (&have, &cluster), count, &conditions);
        count = pairs;
        have.extend(rel.columns());
        let mut taken = Vec::with_capacity(on.len());
        for at in on.into_iter().rev() {
            taken.insert(0, conditions.remove(at));
        }
        let on = Expr::all_of(taken).unwrap_or_else(Expr::truth);
        joined = joined.join(JoinKind::Inner, rel, on);
    }
    joined.filter(conditions)
}

/// Returns the conditions between what is joined and a relation, and the estimated pairs.
fn pairs(
    rel: &Rel,
    (have, cluster): (&BTreeSet<usize>, &BTreeSet<usize>),
    count: f64,
    conditions: &[Expr],
) -> (Vec<usize>, f64) {
    let own: BTreeSet<usize> = rel.columns().into_iter().collect();
    let made: BTreeSet<usize> = have.union(&own).copied().collect();
    let applies = |condition: &Expr| {
        let mut all = true;
        let mut some = false;
        condition.each_column(&mut |id| {
            some |= own.contains(&id);
            // Columns outside of the cluster are known everywhere.
            all &= made.contains(&id) || !cluster.contains(&id);
        });
        all && some
    };
    let on: Vec<usize> = (0..conditions.len()).filter(|at| applies(&conditions[*at])).collect();
    let (scan, mut filters) = match rel {
        Rel::Filter { input, condition } => (&**input, vec![condition.clone()]),
        rel => (rel, Vec::new()),
    };
    filters.extend(on.iter().map(|at| conditions[*at].clone()));
    let matches = match scan {
        Rel::Scan { .. } => estimate::scanned(scan, &filters),
        _ => {
            let joint: f64 = on.iter().map(|at| estimate::selectivity(&conditions[*at])).product();
            estimate::rows(rel) * joint
        }
    };
    (on, (count * matches).max(1.0))
}

/// Returns the element with the least measure.
fn least<T>(all: &[T], measure: impl Fn(&T) -> Option<(usize, f64)>) -> Option<usize> {
    let mut best: Option<(usize, (usize, f64))> = None;
    for (at, element) in all.iter().enumerate() {
        if let Some(found) = measure(element)
            && best.is_none_or(|(_, least)| found < least)
        {
            best = Some((at, found));
        }
    }
    best.map(|(at, _)| at)
}
