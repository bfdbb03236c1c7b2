//! Counts what a node does, for EXPLAIN ANALYZE.

use super::{Context, Operator, Row};
use crate::error::SqlError;
use crate::explain::{Actual, NodeId};
use crate::physical::Node;
use meridian_txn::Future;
use std::sync::Arc;
use std::time::Duration;

/// An operator whose rows and time are counted.
pub(super) struct Measured {
    operator: Box<dyn Operator>,
    node: NodeId,
    has_begun: bool,
}

impl Node {
    /// Returns its identity, as long as it exists.
    pub(crate) fn id(self: &Arc<Self>) -> NodeId {
        Arc::as_ptr(self) as NodeId
    }
}

impl Measured {
    pub(super) fn new(operator: Box<dyn Operator>, node: &Arc<Node>) -> Self {
        Measured { operator, node: node.id(), has_begun: false }
    }
}

impl Context<'_> {
    /// True if nodes are counted.
    pub(super) fn measures(&self) -> bool {
        self.state.actuals.is_some()
    }

    /// The time since some moment; it stands still without a clock.
    pub(super) fn now(&self) -> Duration {
        self.facts.clock.map_or(Duration::ZERO, |clock| clock())
    }

    /// Counts rows that a node has found by itself, in so many loops.
    pub(super) fn count(&mut self, node: NodeId, rows: usize, loops: usize, took: Duration) {
        if let Some(actuals) = &mut self.state.actuals {
            let actual: &mut Actual = actuals.entry(node).or_default();
            actual.rows += rows as u64;
            actual.loops += loops as u64;
            actual.total += took;
        }
    }
}

impl Operator for Measured {
    fn next<'a>(
        &'a mut self,
        cx: &'a mut Context<'_>,
        want: usize,
    ) -> Future<'a, Result<Vec<Row>, SqlError>> {
        Box::pin(async move {
            let began = cx.now();
            let rows = self.operator.next(cx, want).await?;
            let took = cx.now().saturating_sub(began);
            let begins = !std::mem::replace(&mut self.has_begun, true);
            cx.count(self.node, rows.len(), usize::from(begins), took);
            if begins && let Some(actuals) = &mut cx.state.actuals {
                actuals.entry(self.node).or_default().first += took;
            }
            Ok(rows)
        })
    }
}
