//! DataFusion's optimizer rules, restricted to rewrites that do not change results.
//!
//! - A filter that refers to no column, or whose value differs each time, is not pushed below an
//!   aggregate or a window: an aggregate without groups has a row even if nothing is left below it.
//! - Filters are pushed by the logical rules only: the physical ones find a projection's columns by
//!   their names, and two of a join may have the same.
//! - A constant on the side that an outer join fills with NULLs is not constant above the join, so
//!   a sort by it stays.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, JoinType, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use std::fmt;
use std::sync::Arc;

/// Returns the rules for logical plans.
pub(crate) fn logical() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let guarded = |rule: Arc<dyn OptimizerRule + Send + Sync>| match rule.name() {
        "push_down_filter" => Arc::new(PushDownFilter(rule)),
        _ => rule,
    };
    Optimizer::new().rules.into_iter().map(guarded).collect()
}

/// Returns the rules for physical plans.
pub(crate) fn physical() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    // Scans accept no filters but a table's keys, which they have by then.
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    rules.insert(0, Arc::new(ForgetPadded));
    rules
}

/// DataFusion's rule of this name, except for filters that must stay above an aggregate or a
/// window.
#[derive(Debug)]
struct PushDownFilter(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for PushDownFilter {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return self.0.rewrite(plan, config) };
        // Stacked filters are merged, as the inner rule would do.
        let (mut predicates, mut input) =
            (split_conjunction_owned(filter.predicate.clone()), filter.input.clone());
        while let LogicalPlan::Filter(below) = &*input {
            let mut all = split_conjunction_owned(below.predicate.clone());
            all.append(&mut predicates);
            (predicates, input) = (all, below.input.clone());
        }
        if !matches!(&*input, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        }
        let stays = |expr: &Expr| expr.column_refs().is_empty() || expr.is_volatile();
        let (stay, go): (Vec<Expr>, Vec<Expr>) = predicates.into_iter().partition(stays);
        let Some(stay) = conjunction(stay) else {
            return self.0.rewrite(LogicalPlan::Filter(filter), config);
        };
        let below = match conjunction(go) {
            Some(go) => self.0.rewrite(LogicalPlan::Filter(Filter::try_new(go, input)?), config)?,
            None => Transformed::no(Arc::unwrap_or_clone(input)),
        };
        below.map_data(|below| Ok(LogicalPlan::Filter(Filter::try_new(stay, Arc::new(below))?)))
    }
}

/// Puts [`Forgetful`] above outer joins.
#[derive(Debug)]
struct ForgetPadded;

impl PhysicalOptimizerRule for ForgetPadded {
    fn name(&self) -> &str {
        "forget_padded"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let forgetful = plan.transform_up(|node| {
            let hash = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
            let kind = hash.or_else(|| {
                node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type())
            });
            Ok(match kind {
                Some(JoinType::Left | JoinType::Right | JoinType::Full) => {
                    Transformed::yes(Arc::new(Forgetful::new(node)) as Arc<dyn ExecutionPlan>)
                }
                _ => Transformed::no(node),
            })
        })?;
        Ok(forgetful.data)
    }
}

/// Passes its input through, without the input's ordering and constants.
#[derive(Debug)]
struct Forgetful {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Forgetful {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let known = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            known.partitioning.clone(),
            known.emission_type,
            known.boundedness,
        );
        Forgetful { properties: Arc::new(properties), input }
    }
}

impl DisplayAs for Forgetful {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forgetful")
    }
}

impl ExecutionPlan for Forgetful {
    fn name(&self) -> &str {
        "Forgetful"
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
        Ok(Arc::new(Forgetful::new(children.swap_remove(0))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
