//! The context of DataFusion's planner, which turns a query into a logical plan: tables, types,
//! functions.

use crate::aggregate;
use crate::error::outward;
use crate::function::{self, Moment};
use crate::operator::{MomentOf, Operators};
use crate::table::Scanned;
use crate::value;
use arrow::datatypes::{DataType, FieldRef, IntervalUnit, SchemaRef, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, TypePlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF,
};
use meridian_sql::{SqlError, Table, state};
use std::collections::HashMap;
use std::sync::Arc;

/// The planner's view of one query.
pub(crate) struct Context<'a> {
    state: &'a SessionState,
    tables: HashMap<String, Arc<dyn TableSource>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    moment: Moment,
}

impl<'a> Context<'a> {
    pub(crate) fn new(state: &'a SessionState, tables: &[Arc<Table>], moment: &Moment) -> Self {
        let source = |table: &Arc<Table>| provider_as_source(Arc::new(Scanned::new(table.clone())));
        let mut planners: Vec<Arc<dyn ExprPlanner>> =
            vec![Arc::new(Operators(MomentOf(moment.clone())))];
        planners.extend(state.expr_planners().iter().cloned());
        let tables = tables.iter().map(|table| (table.name.clone(), source(table))).collect();
        Context { state, tables, planners, moment: moment.clone() }
    }
}

/// Types by their SQL names.
#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, ty: &sqlparser::ast::DataType) -> Result<Option<FieldRef>> {
        if matches!(ty, sqlparser::ast::DataType::Interval { .. }) {
            return Ok(None);
        }
        let ty = meridian_sql::type_of_sql(ty).map_err(outward)?;
        Ok(Some(Arc::new(value::field("", ty, true))))
    }
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let found = self.tables.get(name.table());
        found.cloned().ok_or_else(|| {
            outward(SqlError::new(
                state::UNDEFINED_TABLE,
                format!("relation \"{}\" does not exist", name.table()),
            ))
        })
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let function = self
            .state
            .table_functions()
            .get(name)
            .filter(|_| name == "generate_series")
            .ok_or_else(|| {
                outward(SqlError::new(
                    state::UNDEFINED_FUNCTION,
                    format!("function {name} does not exist"),
                ))
            })?;
        let mut args = args
            .into_iter()
            .map(|arg| crate::plan::folded(arg, self.state))
            .collect::<Result<Vec<_>>>()?;
        // It takes bigints, or timestamps by an interval, exactly.
        let in_time = matches!(
            args.first(),
            Some(Expr::Literal(ScalarValue::TimestampMicrosecond(..) | ScalarValue::Date32(_), _))
        );
        for (at, arg) in args.iter_mut().enumerate() {
            if let Expr::Literal(value, _) = arg {
                let wanted = match (in_time, at) {
                    (false, _) => DataType::Int64,
                    (true, 2) => DataType::Interval(IntervalUnit::MonthDayNano),
                    (true, _) => DataType::Timestamp(TimeUnit::Nanosecond, None),
                };
                *value = value.cast_to(&wanted)?;
            }
        }
        let args = datafusion::catalog::TableFunctionArgs::new(&args, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(args)?))
    }

    fn create_cte_work_table(&self, name: &str, schema: SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(Types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        function::find(name, &self.moment).or_else(|| {
            self.state.scalar_functions().get(name).filter(|_| function::is_shared(name)).cloned()
        })
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        aggregate::find(name, self.state)
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        // The planner suggests names from this list. If it is empty, the planner fails instead of
        // reporting an error.
        vec!["count".into()]
    }

    fn udwf_names(&self) -> Vec<String> {
        vec!["rank".into()]
    }
}
