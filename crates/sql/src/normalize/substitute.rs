//! Puts the expressions of a projection in the place of its columns, within bounds.
//!
//! An expression that names a column twice would double with each projection below it: `a + a` over
//! `a + a` and so on. So an expression grows to [`MOST_NODES`] at most, and one projection lets the
//! expressions above it grow by as many in all. What would grow further stays above the projection.

use crate::expr::Expr;
use crate::logical::ColumnId;

/// The nodes of an expression beyond which it does not grow.
const MOST_NODES: usize = 2_000;

/// The outputs of a projection that take the place of its columns.
pub(super) struct Substitution<'a> {
    outputs: &'a [(ColumnId, Expr)],
    /// The nodes by which expressions may grow yet.
    room: usize,
}

impl<'a> Substitution<'a> {
    pub(super) fn of(outputs: &'a [(ColumnId, Expr)]) -> Substitution<'a> {
        Substitution { outputs, room: MOST_NODES }
    }

    fn output(&self, id: ColumnId) -> Option<&'a Expr> {
        self.outputs.iter().find(|(output, _)| *output == id).map(|(_, expr)| expr)
    }

    /// Takes the room that an expression needs. Returns false if there is none.
    pub(super) fn reserve(&mut self, expr: &Expr) -> bool {
        let mut growth = 0;
        expr.each_column(&mut |id| {
            growth += self.output(id).map_or(0, |output| output.nodes() - 1);
        });
        let fits = growth == 0 || growth <= self.room && expr.nodes() + growth <= MOST_NODES;
        if fits {
            self.room -= growth;
        }
        fits
    }

    /// Replaces the columns of an expression. One that grows needs [`Substitution::reserve`] first.
    pub(super) fn apply(&self, expr: &mut Expr) {
        expr.replace_columns(&|id| self.output(id).cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datum::Datum;

    fn sum(of: ColumnId, times: usize) -> Expr {
        Expr::And(vec![Expr::Column(of); times])
    }

    #[test]
    fn what_would_grow_too_large_is_refused_and_what_does_not_grow_is_not() {
        let outputs = [(1, sum(0, 99)), (2, Expr::Column(0)), (3, Expr::Const(Datum::Null))];
        let mut into = Substitution::of(&outputs);
        assert!(into.reserve(&sum(2, 100_000)), "columns take no room");
        assert!(into.reserve(&sum(3, 100_000)), "constants take no room");
        assert!(!into.reserve(&sum(1, 20)), "1 981 nodes of growth, 2 001 in all");
        assert!(into.reserve(&sum(1, 19)));
        assert!(into.reserve(&sum(1, 1)));
        assert!(!into.reserve(&sum(1, 1)), "there is room for 1 of 99 nodes");
        assert!(into.reserve(&sum(2, 1)));
        let mut expr = sum(1, 2);
        into.apply(&mut expr);
        assert_eq!(expr.nodes(), 201);
    }
}
