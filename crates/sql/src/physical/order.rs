//! The order of inner joins.
//!
//! A cluster of inner joins is a set of relations and a set of conditions. It is joined greedily:
//! first the relation with the fewest rows, then each time the one that makes the fewest pairs,
//! those with a condition to what is joined before all others. A dependent relation comes after the
//! relations that it names.
//!
//! Below ORDER BY … LIMIT a relation that gives the order comes first, if the result has many more
//! rows than the limit: the join then ends after a few of them.

use super::estimate::Estimates;
use super::ordered::{self, Wanted};
use super::rows_of;
use crate::expr::Expr;
use crate::logical::{Join, JoinKind, Rel};
use std::collections::{BTreeMap, BTreeSet};

/// How many times as many rows as the limit a result has for which an order is followed.
const FEW: f64 = 10.0;

/// Orders all inner joins of a plan.
pub(super) fn order(rel: Rel, estimates: &Estimates) -> Rel {
    match rel {
        Rel::Limit { input, limit, offset } => {
            let rows = rows_of(&limit, &offset);
            let input = Box::new(match *input {
                Rel::Sort { input, by } if rows.is_some() => {
                    let wanted = Wanted { by: &by, rows, by_key: false };
                    Rel::Sort { input: Box::new(order_for_limit(*input, wanted, estimates)), by }
                }
                other => order(other, estimates),
            });
            Rel::Limit { input, limit, offset }
        }
        rel if is_inner(&rel) => cluster(rel, None, estimates),
        mut rel => {
            for input in rel.inputs_mut() {
                let inner = std::mem::replace(input, Rel::one_row());
                *input = order(inner, estimates);
            }
            rel
        }
    }
}

/// Orders the joins below a sort with a limit.
fn order_for_limit(rel: Rel, wanted: Wanted<'_>, estimates: &Estimates) -> Rel {
    match rel {
        Rel::Project { input, outputs } => {
            let input = match ordered::below(wanted.by, &outputs) {
                Some(by) => order_for_limit(*input, Wanted { by: &by, ..wanted }, estimates),
                None => order(*input, estimates),
            };
            Rel::Project { input: Box::new(input), outputs }
        }
        Rel::Filter { input, condition } => {
            Rel::Filter { input: Box::new(order_for_limit(*input, wanted, estimates)), condition }
        }
        rel if is_inner(&rel) => cluster(rel, Some(wanted), estimates),
        rel => order(rel, estimates),
    }
}

fn cluster(rel: Rel, wanted: Option<Wanted<'_>>, estimates: &Estimates) -> Rel {
    let (mut relations, mut conditions) = (Vec::new(), Vec::new());
    flatten(rel, &mut relations, &mut conditions);
    let relations: Vec<Rel> = relations.into_iter().map(|one| order(one, estimates)).collect();
    let first = wanted.and_then(|wanted| {
        let rows: f64 = relations.iter().map(|one| estimates.rows(one)).product();
        let selected: f64 = conditions.iter().map(|one| estimates.selectivity(one)).product();
        let many = rows * selected > wanted.rows? * FEW;
        let gives = |one: &Rel| ordered::gives(one, &wanted);
        many.then(|| relations.iter().position(gives))?
    });
    greedy(relations, conditions, first, estimates)
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

/// A relation that is not joined yet.
struct Waiting {
    rel: Rel,
    /// Its number in the cluster.
    number: usize,
    /// The relations of the cluster that it names.
    needs: BTreeSet<usize>,
    /// The conditions that apply once it is joined, and the rows that match a row of what is
    /// joined.
    matches: Option<(Vec<usize>, f64)>,
}

/// Joins relations, beginning with `first` if it is known.
fn greedy(
    relations: Vec<Rel>,
    conditions: Vec<Expr>,
    first: Option<usize>,
    estimates: &Estimates,
) -> Rel {
    let mut owner = BTreeMap::new();
    for (number, rel) in relations.iter().enumerate() {
        owner.extend(rel.columns().into_iter().map(|id| (id, number)));
    }
    // The relations that each condition names. Columns outside of the cluster are known everywhere.
    let named = |condition: &Expr| {
        let mut named = BTreeSet::new();
        condition.each_column(&mut |id| named.extend(owner.get(&id)));
        named
    };
    let named: Vec<BTreeSet<usize>> = conditions.iter().map(named).collect();
    let mut of_relation = vec![Vec::new(); relations.len()];
    for (at, named) in named.iter().enumerate() {
        named.iter().for_each(|number: &usize| of_relation[*number].push(at));
    }
    let wait = |(number, rel): (usize, Rel)| {
        let needs = rel.free_columns().iter().filter_map(|id| owner.get(id).copied()).collect();
        Waiting { rel, number, needs, matches: None }
    };
    let mut waiting: Vec<Waiting> = relations.into_iter().enumerate().map(wait).collect();
    let first = first.filter(|at| waiting[*at].needs.is_empty()).or_else(|| {
        least(&mut waiting, |one| one.needs.is_empty().then(|| (0, estimates.rows(&one.rel))))
    });
    let first = waiting.remove(first.unwrap_or(0));
    let (mut count, mut joined) = (estimates.rows(&first.rel), first.rel);
    let mut have = BTreeSet::from([first.number]);
    let mut conditions: Vec<Option<Expr>> = conditions.into_iter().map(Some).collect();
    while !waiting.is_empty() {
        let next = least(&mut waiting, |one| {
            if !one.needs.is_subset(&have) {
                return None;
            }
            let applies = |at: &usize| {
                conditions[*at].is_some()
                    && named[*at].iter().all(|it| *it == one.number || have.contains(it))
            };
            let on: Vec<usize> = of_relation[one.number].iter().copied().filter(applies).collect();
            if one.matches.as_ref().is_none_or(|(known, _)| *known != on) {
                let applied = on.iter().filter_map(|at| conditions[*at].clone()).collect();
                one.matches = Some((on, matches(&one.rel, applied, estimates)));
            }
            let (on, matches) = one.matches.as_ref()?;
            Some((usize::from(on.is_empty() && one.needs.is_empty()), count * matches))
        });
        let one = waiting.remove(next.unwrap_or(0));
        let (on, matches) = one.matches.unwrap_or_default();
        count = (count * matches).max(1.0);
        have.insert(one.number);
        let on = on.into_iter().filter_map(|at| conditions[at].take()).collect();
        let on = Expr::all_of(on).unwrap_or_else(Expr::truth);
        joined = joined.join(JoinKind::Inner, one.rel, on);
    }
    joined.filter(conditions.into_iter().flatten().collect())
}

/// Returns the estimated rows of a relation for which conditions are true.
fn matches(rel: &Rel, mut conditions: Vec<Expr>, estimates: &Estimates) -> f64 {
    let joint: f64 = conditions.iter().map(|on| estimates.selectivity(on)).product();
    let scan = match rel {
        Rel::Filter { input, condition } => {
            conditions.push(condition.clone());
            &**input
        }
        rel => rel,
    };
    match scan {
        Rel::Scan { .. } => estimates.scanned(scan, &conditions),
        _ => estimates.rows(rel) * joint,
    }
}

/// Returns the element with the least measure.
fn least<T>(
    all: &mut [T],
    mut measure: impl FnMut(&mut T) -> Option<(usize, f64)>,
) -> Option<usize> {
    let mut best: Option<(usize, (usize, f64))> = None;
    for (at, element) in all.iter_mut().enumerate() {
        if let Some(found) = measure(element)
            && best.is_none_or(|(_, least)| found < least)
        {
            best = Some((at, found));
        }
    }
    best.map(|(at, _)| at)
}
