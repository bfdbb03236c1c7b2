//! Makes dependent joins independent where their right side is a filter over something
//! independent.
//!
//! - A filter at the top of the right side is part of the join's condition: both select pairs. In a
//!   mark join the filter's condition counts as false where it is NULL.
//! - A projection at the top of the right side moves above the join, or into its condition if the
//!   join does not return right columns. Above a join that adds NULLs only columns may be passed
//!   on: an expression need not be NULL where its columns are.
//! - Order and duplicates of a right side do not matter where only the existence of a match does.

use crate::expr::Expr;
use crate::logical::{Join, JoinKind, Rel};
use std::collections::BTreeSet;

/// Rewrites all joins of a plan.
pub(super) fn pull_up(rel: Rel) -> Rel {
    let mut rel = rel;
    for input in rel.inputs_mut() {
        let inner = std::mem::replace(input, Rel::one_row());
        *input = pull_up(inner);
    }
    match rel {
        Rel::Join(join) => pull_join(*join),
        other => other,
    }
}

fn pull_join(join: Join) -> Rel {
    let Join { kind, left, mut right, mut on } = join;
    let lefts: BTreeSet<_> = left.columns().into_iter().collect();
    let tests = matches!(kind, JoinKind::Semi | JoinKind::Anti | JoinKind::Mark(_));
    // The columns above the join, while projections move there.
    let mut above: Option<Vec<(usize, Expr)>> = None;
    loop {
        let is_dependent = !right.free_columns().is_disjoint(&lefts);
        right = match right {
            Rel::Filter { input, condition } if is_dependent && kind != JoinKind::Full => {
                let mut pulled = Vec::new();
                let mut stays = Vec::new();
                let mut all = Vec::new();
                condition.into_conjuncts(&mut all);
                for conjunct in all {
                    let goes = conjunct.names_any(&lefts) && !conjunct.is_volatile();
                    if goes { pulled.push(conjunct) } else { stays.push(conjunct) }
                }
                if pulled.is_empty() {
                    right = input.filter(stays);
                    break;
                }
                if let JoinKind::Mark(_) = kind {
                    let surely = |c: Expr| Expr::IsBool(Box::new(c), true, false);
                    pulled = pulled.into_iter().map(surely).collect();
                }
                // The join's own condition comes first: it may guard what fails.
                let mut all = Vec::new();
                on.into_conjuncts(&mut all);
                all.extend(pulled);
                on = Expr::And(all);
                input.filter(stays)
            }
            Rel::Project { input, outputs } if tests && !volatile(&outputs) => {
                on.replace_columns(&|id| {
                    outputs.iter().find(|(output, _)| *output == id).map(|(_, e)| e.clone())
                });
                *input
            }
            Rel::Project { input, outputs }
                if is_dependent
                    && (kind == JoinKind::Inner && !volatile(&outputs)
                        || matches!(kind, JoinKind::Left | JoinKind::Single)
                            && passes_own(&outputs, &input)) =>
            {
                let find = |id: usize| {
                    outputs.iter().find(|(output, _)| *output == id).map(|(_, e)| e.clone())
                };
                on.replace_columns(&find);
                above = Some(match above {
                    None => outputs,
                    Some(mut above) => {
                        above.iter_mut().for_each(|(_, expr)| expr.replace_columns(&find));
                        above
                    }
                });
                *input
            }
            Rel::Sort { input, .. } if tests => *input,
            Rel::Distinct { input, on: columns } if tests && only_uses(&on, &input, &columns) => {
                *input
            }
            other => {
                right = other;
                break;
            }
        };
    }
    let passed: Vec<_> = left.columns().into_iter().map(|id| (id, Expr::Column(id))).collect();
    let joined = left.join(kind, right, on);
    match above {
        None => joined,
        Some(above) => {
            let outputs = passed.into_iter().chain(above).collect();
            Rel::Project { input: Box::new(joined), outputs }
        }
    }
}

fn volatile(outputs: &[(usize, Expr)]) -> bool {
    outputs.iter().any(|(_, expr)| expr.is_volatile())
}

/// True if all outputs are columns of the input.
fn passes_own(outputs: &[(usize, Expr)], input: &Rel) -> bool {
    let own: BTreeSet<_> = input.columns().into_iter().collect();
    outputs.iter().all(|(_, expr)| matches!(expr, Expr::Column(id) if own.contains(id)))
}

/// True if a condition names no other columns of a relation than these.
fn only_uses(on: &Expr, input: &Rel, columns: &[usize]) -> bool {
    let others = input.columns().into_iter().filter(|id| !columns.contains(id)).collect();
    !on.names_any(&others)
}
