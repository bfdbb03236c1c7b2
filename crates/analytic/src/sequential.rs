//! Runs the parts of a set operation one after the other.
//!
//! DataFusion would run them all at once and mix their rows as they come. In sequence, the rows of
//! UNION ALL have PostgreSQL's usual order, the same each time, and a query runs in one task.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// Runs a plan's partitions one after the other, as one partition.
#[derive(Debug)]
struct Sequential {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

/// Returns a plan of one partition, in order.
pub(crate) fn in_order(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let whole = match plan.properties().partitioning.partition_count() {
        0 | 1 => plan,
        _ => Arc::new(CoalescePartitionsExec::new(plan)),
    };
    let ordered = whole.transform_up(|node| {
        let Some(mixed) = node.downcast_ref::<CoalescePartitionsExec>() else {
            return Ok(Transformed::no(node));
        };
        let input = mixed.input().clone();
        let ordered: Arc<dyn ExecutionPlan> =
            Arc::new(Sequential { input, properties: node.properties().clone() });
        Ok(Transformed::yes(match mixed.fetch() {
            Some(fetch) => Arc::new(GlobalLimitExec::new(ordered, 0, Some(fetch))),
            None => ordered,
        }))
    })?;
    Ok(ordered.data)
}

impl DisplayAs for Sequential {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sequential")
    }
}

impl ExecutionPlan for Sequential {
    fn name(&self) -> &str {
        "Sequential"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(Sequential { input, properties: self.properties.clone() }))
    }

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.clone();
        let count = input.properties().partitioning.partition_count();
        let parts =
            futures::stream::iter(0..count).map(move |part| input.execute(part, context.clone()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), parts.try_flatten())))
    }
}
