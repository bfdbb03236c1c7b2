//! Lowers window functions.

use super::{Lowering, need, position, sort_by};
use crate::datum::Datum;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::logical::{self, ColumnId};
use crate::physical::{Node, Op};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Lowering {
    /// Lowers window functions; those that are not needed are left out.
    pub(super) fn window(
        &mut self,
        window: logical::Window,
        needed: &BTreeSet<ColumnId>,
    ) -> Result<Arc<Node>, SqlError> {
        let logical::Window { input, partition, order, mut calls } = window;
        calls.retain(|(id, _)| needed.contains(id));
        if calls.is_empty() {
            return self.lower(input, needed);
        }
        let mut below: BTreeSet<_> = needed.iter().chain(&partition).copied().collect();
        below.extend(order.iter().map(|key| key.column));
        for (_, call) in &calls {
            call.exprs().into_iter().for_each(|expr| need(expr, &mut below));
        }
        let input = self.lower(input, &below)?;
        let mut layout = input.layout.clone();
        let places = partition.iter().map(|id| position(&layout, *id));
        let partition = places.collect::<Result<Vec<_>, _>>()?;
        let order = sort_by(order, &layout)?;
        let mut placed = Vec::with_capacity(calls.len());
        let mut ids = Vec::with_capacity(calls.len());
        for (id, mut call) in calls {
            for expr in call.exprs_mut() {
                let taken = std::mem::replace(expr, Expr::Const(Datum::Null));
                *expr = self.place(taken, &layout)?;
            }
            ids.push(id);
            placed.push(call);
        }
        layout.extend(ids);
        Ok(self.node(Op::Window { input, partition, order, calls: placed }, layout))
    }
}
