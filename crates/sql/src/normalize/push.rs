//! Moves filters toward the relations that they are about.
//!
//! A conjunct moves below an operator if the operator treats rows for which the conjunct is not
//! true as if they were not there, and if it is not volatile:
//!
//! - a projection, with its columns replaced by their expressions if they stay small;
//! - a sort; the side of an inner join whose columns alone it names; the left side of other joins;
//! - an aggregate with keys, if it names only keys. An aggregate without keys has a row even for no
//!   input, so that nothing moves below it. Of grouping sets, if it names only keys that all sets
//!   have. Likewise DISTINCT;
//! - a window, if it names only partition columns: it selects whole partitions;
//! - each side of a set operation.
//!
//! Conjuncts of a join's condition move to the right side if they name nothing of the left side,
//! except for mark joins, whose mark is NULL where a conjunct is NULL. In inner and semi joins
//! they move to the left side as well, where they name nothing of the right one.

use super::fixed::{Fixed, complete, drop_implied, equalities, fixed, implied, pairs};
use super::substitute::Substitution;
use crate::expr::Expr;
use crate::logical::{Join, JoinKind, Rel, SetOp, Window};
use std::collections::BTreeSet;

/// Moves all filters of a plan down.
pub(super) fn push_down(rel: Rel) -> Rel {
    push(rel, Vec::new())
}

/// Applies conjuncts to a relation as far down as possible.
fn push(rel: Rel, mut conjuncts: Vec<Expr>) -> Rel {
    match rel {
        Rel::Filter { input, condition } => {
            let mut all = Vec::new();
            condition.into_conjuncts(&mut all);
            all.extend(conjuncts);
            let (stay, go) = all.into_iter().partition::<Vec<_>, _>(Expr::is_volatile);
            push(*input, go).filter(stay)
        }
        Rel::Project { input, outputs } => {
            let computed: Vec<_> =
                outputs.iter().filter(|(_, expr)| expr.is_volatile()).map(|(id, _)| *id).collect();
            let computed: BTreeSet<_> = computed.into_iter().collect();
            let mut into = Substitution::of(&outputs);
            let stays = |conjunct: &Expr| conjunct.names_any(&computed) || !into.reserve(conjunct);
            let (stay, mut go): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(stays);
            go.iter_mut().for_each(|conjunct| into.apply(conjunct));
            Rel::Project { input: Box::new(push(*input, go)), outputs }.filter(stay)
        }
        Rel::Sort { input, by } => Rel::Sort { input: Box::new(push(*input, conjuncts)), by },
        Rel::Distinct { input, on } => {
            let keys: BTreeSet<_> = on.iter().copied().collect();
            let others = others(&input, &keys);
            let (go, stay) = conjuncts.into_iter().partition(|c| !c.names_any(&others));
            Rel::Distinct { input: Box::new(push(*input, go)), on }.filter(stay)
        }
        Rel::Aggregate { input, keys, sets, aggregates } => {
            let passed: BTreeSet<_> = match &sets {
                None => keys.iter().copied().collect(),
                Some(sets) => {
                    let shared = |(at, _): &(usize, &usize)| sets.all_have(*at);
                    keys.iter().enumerate().filter(shared).map(|(_, id)| *id).collect()
                }
            };
            let mut computed: BTreeSet<_> = aggregates.iter().map(|(id, _)| *id).collect();
            computed.extend(keys.iter().filter(|id| !passed.contains(id)));
            computed.extend(sets.iter().flat_map(|sets| &sets.marks).map(|(id, _)| *id));
            let may_go = |c: &Expr| !passed.is_empty() && !c.names_any(&computed);
            let (go, stay) = conjuncts.into_iter().partition(may_go);
            let input = Box::new(push(*input, go));
            Rel::Aggregate { input, keys, sets, aggregates }.filter(stay)
        }
        Rel::Window(window) => {
            let Window { input, partition, order, calls } = *window;
            let partition_columns: BTreeSet<_> = partition.iter().copied().collect();
            let mut others = others(&input, &partition_columns);
            others.extend(calls.iter().map(|(id, _)| *id));
            let (go, stay) = conjuncts.into_iter().partition(|c| !c.names_any(&others));
            let input = push(input, go);
            Rel::Window(Box::new(Window { input, partition, order, calls })).filter(stay)
        }
        // A row of one side takes an equal one of the other away, which need not be the same (1.0
        // and 1.00): a condition on either alone would change which ones are left.
        Rel::Set(mut set) if set.op == SetOp::Except => {
            for (side, _) in &mut set.sides {
                *side = push(std::mem::replace(side, Rel::one_row()), Vec::new());
            }
            Rel::Set(set).filter(conjuncts)
        }
        Rel::Set(mut set) => {
            for (side, columns) in &mut set.sides {
                let mut own = conjuncts.clone();
                for conjunct in &mut own {
                    conjunct.replace_columns(&|id| {
                        let at = set.columns.iter().position(|column| *column == id)?;
                        Some(Expr::Column(columns[at]))
                    });
                }
                *side = push(std::mem::replace(side, Rel::one_row()), own);
            }
            Rel::Set(set)
        }
        Rel::With { name, definition, body } => Rel::With {
            name,
            definition: Box::new(push(*definition, Vec::new())),
            body: Box::new(push(*body, conjuncts)),
        },
        Rel::Join(join) => push_join(*join, conjuncts),
        Rel::Limit { input, limit, offset } => {
            Rel::Limit { input: Box::new(push(*input, Vec::new())), limit, offset }
                .filter(conjuncts)
        }
        Rel::Lock { input, locks } => {
            Rel::Lock { input: Box::new(push(*input, Vec::new())), locks }.filter(conjuncts)
        }
        // A row that a condition removes may be the origin of rows of later rounds.
        Rel::Recursive(mut query) => {
            for (side, _) in [&mut query.first, &mut query.step] {
                *side = push(std::mem::replace(side, Rel::one_row()), Vec::new());
            }
            Rel::Recursive(query).filter(conjuncts)
        }
        leaf @ (Rel::Values { .. } | Rel::Scan { .. } | Rel::Named { .. } | Rel::Functions(_)) => {
            conjuncts.retain(|conjunct| *conjunct != Expr::truth());
            complete(&mut conjuncts);
            leaf.filter(conjuncts)
        }
    }
}

fn others(input: &Rel, keys: &BTreeSet<usize>) -> BTreeSet<usize> {
    input.columns().into_iter().filter(|id| !keys.contains(id)).collect()
}

fn push_join(join: Join, conjuncts: Vec<Expr>) -> Rel {
    let Join { kind, left, right, on } = join;
    let (lefts, rights): (BTreeSet<_>, BTreeSet<_>) =
        (left.columns().into_iter().collect(), right.columns().into_iter().collect());
    let (mut to_left, mut to_right, mut pairs, mut above) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut all = Vec::new();
    on.into_conjuncts(&mut all);
    for conjunct in all {
        let may_move = !conjunct.is_volatile();
        let right_only = may_move && !conjunct.names_any(&lefts) && conjunct.names_any(&rights);
        match kind {
            JoinKind::Inner | JoinKind::Semi if may_move && !conjunct.names_any(&rights) => {
                to_left.push(conjunct)
            }
            JoinKind::Full | JoinKind::Mark(_) => pairs.push(conjunct),
            _ if right_only => to_right.push(conjunct),
            _ => pairs.push(conjunct),
        }
    }
    let mark = match kind {
        JoinKind::Mark(mark) => Some(mark),
        _ => None,
    };
    for conjunct in conjuncts {
        let names_right =
            conjunct.names_any(&rights) || mark.is_some_and(|m| conjunct.names_any(&[m].into()));
        match kind {
            JoinKind::Full => above.push(conjunct),
            _ if !names_right => to_left.push(conjunct),
            JoinKind::Inner if !conjunct.names_any(&lefts) => to_right.push(conjunct),
            JoinKind::Inner => pairs.push(conjunct),
            _ => above.push(conjunct),
        }
    }
    let (mut left, mut right) = (push(left, to_left), push(right, to_right));
    pass_on(kind, &mut left, &mut right, &mut pairs);
    let on = Expr::all_of(pairs).unwrap_or_else(Expr::truth);
    left.join(kind, right, on).filter(above)
}

/// Passes on what is fixed on one side of a join to the other (see [`super::fixed`]).
fn pass_on(kind: JoinKind, left: &mut Rel, right: &mut Rel, on: &mut Vec<Expr>) {
    let pairs = pairs(on, left, right);
    if pairs.is_empty() || matches!(kind, JoinKind::Full | JoinKind::Mark(_)) {
        return;
    }
    let (mut lefts, mut rights) = (fixed(left), fixed(right));
    let both_ways = matches!(kind, JoinKind::Inner | JoinKind::Semi);
    // A column that has become fixed may be compared with another one of the first side.
    loop {
        let to_right = implied(pairs.iter().copied(), &lefts, &rights);
        let to_left = match both_ways {
            true => implied(pairs.iter().map(|(left, right)| (*right, *left)), &rights, &lefts),
            false => Fixed::new(),
        };
        if to_left.is_empty() && to_right.is_empty() {
            break;
        }
        for (side, known, new) in
            [(&mut *left, &mut lefts, to_left), (&mut *right, &mut rights, to_right)]
        {
            let input = std::mem::replace(side, Rel::one_row());
            *side = push(input, equalities(&new));
            known.extend(new);
        }
    }
    drop_implied(on, &lefts, &rights);
}
