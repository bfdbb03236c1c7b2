//! Normalization: rewrites of a logical plan that never change its result.
//!
//! Each rule is a function in a file of its own, which states the rule's precondition in
//! three-valued logic. The naive interpreter of logical plans is the oracle of their tests.

mod fixed;
mod fold;
mod hoist;
mod outer;
mod pull;
mod push;
mod substitute;
#[cfg(test)]
mod tests;

use crate::bind::Query;
use crate::logical::Rel;

/// Normalizes the plan of a query.
pub(crate) fn query(query: Query) -> Query {
    Query { rel: normalize(query.rel, query.ids), ..query }
}

/// Normalizes a plan whose column ids are below `ids`.
pub(crate) fn normalize(rel: Rel, ids: usize) -> Rel {
    let mut next = ids;
    let rel = fold::fold(hoist::hoist(rel, &mut next));
    let rel = push::push_down(rel);
    let rel = pull::pull_up(rel);
    let rel = outer::simplify(rel);
    push::push_down(rel)
}
