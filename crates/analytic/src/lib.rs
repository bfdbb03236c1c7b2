//! The analytical engine: statements with windows or functions that the SQL layer does not plan
//! yet, on DataFusion. Such a statement runs here as a whole.
//!
//! ```text
//!   query ── dialect ── DataFusion's planner ── logical plan ── optimizer ── operators
//!             (AST)      (context, operator)      (per prepare)      (per execution)│
//!         (row, window)                        (repair, subquery)        (rules)    │
//!   session ◀── rows, requests for chunks ── bridge ◀────────────────────── scans ──┘
//! ```
//!
//! The problem: DataFusion computes on Arrow arrays with semantics of its own, on threads of its
//! own, over sources that it may read at any moment. A session has one transaction that no other
//! thread may hold, and its users expect PostgreSQL's semantics.
//!
//! The idea: a query runs as one task on this crate's threads. Its scans request chunks from the
//! session, which reads them while it waits for rows, so the transaction never leaves the session.
//! Expressions that PostgreSQL computes differently are planned as functions over SQL values
//! (`function`, `operator`, `aggregate`); those that the SQL layer's executor has are used.
//!
//! Invariants:
//! 1. Results are never collected: at most a few batches are between the scans and the client.
//! 2. The memory of all operators (hash tables, sorts) is bounded by one pool; beyond it a query
//!    fails with 53200.
//! 3. A query that is dropped, fails or panics affects nothing else: its task ends, and the session
//!    and its transaction remain.
//!
//! Not done: spilling to disk; lists and structs as results (they come as text); FOR UPDATE over
//! joins; trailing zeros of a numeric without declared scale.

mod aggregate;
mod catalog_forms;
mod context;
mod dialect;
mod error;
mod function;
mod operator;
mod plan;
mod pool;
mod repair;
mod row;
mod rules;
mod sequential;
mod subquery;
mod table;
mod value;
mod window;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use function::Moment;
use meridian_sql::{Analytic, AnalyticPlan, QueryMemory, SqlError, Table, Type, state};
use meridian_txn::Future;
use sqlparser::ast::{Query, Statement};
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Handle, Runtime};

/// The number of queries that are planned at once; further ones wait.
const PLANNERS: usize = 16;

/// The options of the engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The memory limit of all running queries.
    pub memory: Arc<QueryMemory>,
    /// The number of threads that compute.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Options { memory: Arc::default(), threads: (cores / 2).max(1) }
    }
}

/// The analytical engine, which all databases of a process share.
pub struct DataFusion {
    options: Options,
    started: OnceLock<Result<Started, String>>,
}

/// The engine's threads and shared state, which start with the first query.
struct Started {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

/// The state that plans and running queries need.
struct Shared {
    state: SessionState,
    handle: Handle,
}

impl DataFusion {
    /// Creates an engine.
    pub fn new(options: Options) -> DataFusion {
        DataFusion { options, started: OnceLock::new() }
    }
}

impl Started {
    fn new(options: &Options) -> Result<Started, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("analytic")
            .thread_stack_size(8 << 20)
            .max_blocking_threads(PLANNERS)
            .enable_time()
            .build()
            .map_err(|error| text(&error))?;
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool::Shared(Arc::clone(&options.memory))))
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
            )
            .build_arc()
            .map_err(|error| text(&error))?;
        let mut config =
            SessionConfig::new().with_target_partitions(1).with_information_schema(false);
        let settings = config.options_mut();
        settings.sql_parser.map_string_types_to_utf8view = false;
        settings.catalog.create_default_catalog_and_schema = false;
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(environment)
            .with_default_features()
            .with_optimizer_rules(rules::logical())
            .with_physical_optimizer_rules(rules::physical())
            .build();
        let shared = Shared { state, handle: runtime.handle().clone() };
        Ok(Started { shared: Arc::new(shared), runtime: Some(runtime) })
    }
}

impl Shared {
    fn plan(
        self: Arc<Self>,
        mut query: Query,
        tables: &[Arc<Table>],
        declared: &[Option<Type>],
    ) -> Result<Arc<dyn AnalyticPlan>, SqlError> {
        let counts = dialect::rewrite(&mut query)?;
        let statement = Statement::Query(Box::new(query));
        let moment = Moment::default();
        let context = context::Context::new(&self.state, tables, &moment);
        let options = ParserOptions::new()
            .with_parse_float_as_decimal(true)
            .with_support_varchar_with_length(true)
            .with_map_string_types_to_utf8view(false);
        let planner = SqlToRel::new_with_options(&context, options);
        let known = |at: usize| {
            let counted = counts.contains(&(at + 1)).then_some(Type::Int8);
            declared.get(at).copied().flatten().or(counted)
        };
        let failed = |error: datafusion::common::DataFusionError| error::inward(&error);
        // Plans once to find the parameters' types, then again with these types.
        let mut logical = planner.sql_statement_to_plan(statement.clone()).map_err(failed)?;
        let found = logical.get_parameter_fields().map_err(failed)?;
        let number = |name: &String| name.trim_start_matches('$').parse::<usize>().ok();
        let count = found.keys().filter_map(number).max().unwrap_or(0).max(declared.len());
        if count > usize::from(u16::MAX) {
            return Err(SqlError::new(
                state::UNDEFINED_PARAMETER,
                format!("there is no parameter ${count}"),
            ));
        }
        let mut params = Vec::with_capacity(count);
        for at in 0..count {
            let inferred = found.get(&format!("${}", at + 1)).cloned().flatten();
            params.push(
                known(at)
                    .or(inferred.map(|field| value::type_of(&field).base()))
                    .unwrap_or(Type::Text),
            );
        }
        if count > 0 {
            let fields =
                params.iter().map(|ty| Some(Arc::new(value::field("", *ty, true)))).collect();
            let mut typed = PlannerContext::new().with_prepare_param_data_types(fields);
            logical = planner
                .sql_statement_to_plan_with_context(statement, &mut typed)
                .map_err(failed)?;
        }
        let state = &self.state;
        let analyze = |logical| {
            state.analyzer().execute_and_check(logical, state.config_options(), |_, _| {})
        };
        logical = repair::repair(logical, &moment).map_err(failed)?;
        let mut applied = Vec::new();
        logical = subquery::apply_unsound(logical, &mut applied).map_err(failed)?;
        if subquery::is_left(&logical).map_err(failed)? {
            // In conditions most subqueries become joins. If one does not, none may.
            let joined = state
                .optimize(&logical)
                .is_ok_and(|plan| subquery::is_left(&plan).is_ok_and(|left| !left));
            if !joined {
                logical = subquery::apply_all(logical, &mut applied).map_err(failed)?;
            }
        }
        let logical = analyze(logical).map_err(failed)?;
        let columns = value::columns(logical.schema().fields());
        Ok(Arc::new(plan::Plan {
            shared: self.clone(),
            logical,
            applied: applied.into(),
            params,
            columns,
            moment,
        }))
    }
}

impl Analytic for DataFusion {
    fn plan<'a>(
        &'a self,
        query: &'a Query,
        tables: &'a [Arc<Table>],
        params: &'a [Option<Type>],
    ) -> Future<'a, Result<Arc<dyn AnalyticPlan>, SqlError>> {
        Box::pin(async move {
            let started = self.started.get_or_init(|| Started::new(&self.options));
            let started = started.as_ref().map_err(|why| SqlError::new("XX000", why.clone()))?;
            // On a thread of its own, so that the session can be interrupted and other sessions
            // continue.
            let (shared, query, tables, params) =
                (started.shared.clone(), query.clone(), tables.to_vec(), params.to_vec());
            let planning =
                started.shared.handle.spawn_blocking(move || shared.plan(query, &tables, &params));
            planning
                .await
                .unwrap_or_else(|_| Err(SqlError::new("XX000", "the analytical engine failed")))
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // Blocking on the threads is forbidden where a runtime may be dropped from within another.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
