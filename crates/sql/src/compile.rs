//! Compiles a parsed statement to a plan, against the catalog as a transaction sees it.

use crate::bind::{self, Binder};
use crate::by_query::{self, ByQuery, Draft};
use crate::catalog::{self, Planned, Table};
use crate::clauses;
use crate::dml::{Change, Insert};
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::explain;
use crate::expr::Scope;
use crate::limits;
use crate::names;
use crate::parse::Parsed;
use crate::physical;
use crate::response::Column;
use crate::stack;
use crate::system;
use crate::types::Type;
use crate::work::Work;
use meridian_mvcc::KeyRange;
use meridian_txn::{Begin, Consistency, Lock, Mode, ReadAt, Transaction};
use sqlparser::ast::{self, FromTable, Statement, TableFactor, TableObject, Visit};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The errors after which a change by values or by one table is left to the plan of a query, which
/// knows more.
const OTHERS_MAY_KNOW: [&str; 3] =
    [state::FEATURE_NOT_SUPPORTED, state::UNDEFINED_FUNCTION, state::UNDEFINED_OBJECT];

fn others_may_know(error: &SqlError) -> bool {
    OTHERS_MAY_KNOW.contains(&error.sqlstate)
}

/// Returns the error to report: this executor's, unless it only means that the feature is missing
/// here.
fn better(own: SqlError, theirs: SqlError) -> SqlError {
    if own.sqlstate == state::FEATURE_NOT_SUPPORTED { theirs } else { own }
}

/// The plan of a statement.
pub(crate) enum Plan {
    Insert(Insert),
    Change(Change),
    /// A change that finds its rows by a query.
    ByQuery(ByQuery),
    /// A query with a plan of operators.
    Query(Arc<physical::Query>),
    /// The explained plan, and the options, with which it may run.
    Explain(Box<Plan>, explain::Options),
    /// A change of the catalog, or TRUNCATE or COPY: runs from the statement itself.
    Schema,
    /// A statement of the session: transaction control and settings.
    Control,
}

/// A statement ready to run.
pub(crate) struct Compiled {
    pub(crate) source: Arc<Parsed>,
    pub(crate) declared: Arc<[Option<Type>]>,
    pub(crate) plan: Plan,
    /// The tables that it was planned for.
    pub(crate) tables: Vec<Planned>,
    /// True if the transaction had changed the catalog: the versions of the plan may never commit,
    /// or may be used again by another change.
    pub(crate) provisional: bool,
    pub(crate) params: Arc<[Type]>,
    pub(crate) columns: Option<Arc<[Column]>>,
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let plan = std::mem::replace(&mut self.plan, Plan::Control);
        stack::with_room_if_deep(self.source.levels, || drop(plan));
    }
}

impl Compiled {
    /// Returns the range that contains all reads of a query, if there is one.
    pub(crate) fn scope(&self, scope: &Scope<'_>) -> Result<Option<KeyRange>, SqlError> {
        match &self.plan {
            Plan::Query(query) => query.scope(scope),
            _ => Ok(None),
        }
    }

    /// True if a read-only transaction can run it.
    pub(crate) fn only_reads(&self) -> bool {
        only_reads(&self.plan)
    }
}

fn only_reads(plan: &Plan) -> bool {
    match plan {
        Plan::Query(query) => query.only_reads(),
        Plan::Explain(inner, options) => !options.analyze || only_reads(inner),
        _ => false,
    }
}

/// Renders a duration for EXPLAIN ANALYZE.
pub(crate) fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3} ms", nanoseconds as f64 / 1e6)
}

/// Finds a table by its name; fails with 42P01.
pub(crate) async fn table(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    name: &ast::ObjectName,
) -> Result<Arc<Table>, SqlError> {
    let folded = names::relation(name)?;
    if let Some(table) = system::find(&folded) {
        return Ok(table);
    }
    if let Some(table) =
        catalog::table_by_name(txn, &engine.cache, &folded, clean, Lock::Shared).await?
    {
        return Ok(table);
    }
    let mut error =
        SqlError::new(state::UNDEFINED_TABLE, format!("relation \"{folded}\" does not exist"));
    let all = catalog::names(txn).await?;
    if let Some(near) = names::nearest(&folded, all.iter().map(|(name, _)| name.as_str())) {
        error = error.hint(format!("Did you mean \"{near}\"?"));
    }
    Err(error.at(name.0.last().and_then(|part| part.as_ident()).and_then(names::position)))
}

/// Begins a read of the catalog in a transaction of its own.
async fn look(engine: &Engine) -> Result<Box<dyn Transaction>, SqlError> {
    // Changes of the catalog have waited until they have passed: the present is above them.
    let consistency = Consistency::Hybrid;
    let how = Begin { consistency, ..Begin::new(Mode::ReadOnly(ReadAt::Now)) };
    let mut txn = engine.database().begin(how).await?;
    txn.show_versions(); // For the commit timestamps of table versions.
    Ok(txn)
}

/// Finds a table by its name, for a transaction that is to use it.
pub(crate) async fn table_for(
    engine: &Engine,
    work: &mut Work,
    name: &ast::ObjectName,
) -> Result<Arc<Table>, SqlError> {
    if work.sees_catalog() {
        return table(engine, work.txn.as_mut(), work.clean, name).await;
    }
    table(engine, look(engine).await?.as_mut(), true, name).await
}

/// Compiles a statement for a transaction, or for one that has not begun.
pub(crate) async fn compile_for(
    engine: &Engine,
    work: Option<&mut Work>,
    source: Arc<Parsed>,
    declared: Arc<[Option<Type>]>,
) -> Result<Compiled, SqlError> {
    match work {
        // A transaction block has one snapshot, also for the catalog.
        Some(work) if work.sees_catalog() || (work.reads_only() && work.explicit) => {
            compile(engine, work.txn.as_mut(), work.clean, source, declared).await
        }
        _ => compile(engine, look(engine).await?.as_mut(), true, source, declared).await,
    }
}

/// Returns the table if statements may change it.
fn changeable(table: Arc<Table>) -> Result<Arc<Table>, SqlError> {
    if system::is_system(table.id) {
        let message = format!("permission denied: \"{}\" is a system catalog", table.name);
        return Err(SqlError::new(state::NO_PRIVILEGE, message));
    }
    Ok(table)
}

fn only_table(
    factor: &TableFactor,
) -> Result<(&ast::ObjectName, Option<&ast::TableAlias>), SqlError> {
    clauses::plain_table(factor).ok_or_else(|| SqlError::unsupported(format!("changing {factor}")))
}

/// Compiles a statement. `clean`: the transaction has not changed the catalog.
async fn compile(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    source: Arc<Parsed>,
    declared: Arc<[Option<Type>]>,
) -> Result<Compiled, SqlError> {
    let (statement, explained) = match &source.statement {
        Statement::Explain {
            describe_alias: _,
            analyze,
            verbose,
            query_plan,
            estimate,
            statement,
            format,
            options,
        } => {
            if *query_plan || *estimate {
                return Err(SqlError::unsupported("EXPLAIN of another dialect"));
            }
            let (format, options) = (format.as_ref(), options.as_deref().unwrap_or(&[]));
            (&**statement, Some(explain::Options::of(*analyze, *verbose, format, options)?))
        }
        other => (other, None),
    };
    clauses::statement(statement)?;
    let has_plan = matches!(
        statement,
        Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
    );
    if explained.is_some() && !has_plan {
        let message = "EXPLAIN is for SELECT, VALUES, INSERT, UPDATE and DELETE";
        return Err(SqlError::new(state::SYNTAX, message));
    }
    let mut tables = Vec::new();
    let (plan, params, columns) = match statement {
        Statement::Query(query) => {
            plan_query(engine, txn, clean, query, &declared, &mut tables, false).await?
        }
        Statement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else {
                return Err(SqlError::unsupported("inserting into anything but a table"));
            };
            let into = changeable(table(engine, txn, clean, name).await?)?;
            tables.push(into.planned());
            let source = insert.source.as_deref();
            let is_query = source.is_some_and(|query| clauses::plain_values(query).is_none());
            // Values are compiled here, unless only a query knows what they need.
            let own = match is_query {
                true => Err(SqlError::unsupported("this source of INSERT")),
                false => Insert::compile(&declared, insert, into.clone(), None),
            };
            let (insert, binder) = match (own, source) {
                (Err(error), Some(query)) if others_may_know(&error) => {
                    let mut read = Vec::new();
                    let query = by_query::source_of(insert, query, &into)?;
                    let planned =
                        plan_query(engine, txn, clean, &query, &declared, &mut read, false).await;
                    let plan = match planned.map_err(|theirs| better(error, theirs))? {
                        (Plan::Query(plan), ..) => plan,
                        _ => return Err(SqlError::unsupported("this query")),
                    };
                    tables.truncate(1);
                    tables.extend(read.into_iter().filter(|read: &Planned| read.id != into.id));
                    Insert::compile(&declared, insert, into, Some(plan))?
                }
                (own, _) => own?,
            };
            let columns = insert.returning.as_ref().map(|returning| returning.columns.clone());
            (Plan::Insert(insert), binder.param_types(), columns)
        }
        Statement::Update(_) | Statement::Delete(_) => {
            let factor = match statement {
                Statement::Update(update) => &update.table.relation,
                Statement::Delete(delete) => match &delete.from {
                    FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                        match from.as_slice() {
                            [only] if only.joins.is_empty() => &only.relation,
                            _ => return Err(SqlError::unsupported("deleting from several tables")),
                        }
                    }
                },
                _ => return Err(SqlError::unsupported("this statement")),
            };
            let (name, alias) = only_table(factor)?;
            let table = changeable(table(engine, txn, clean, name).await?)?;
            tables.push(table.planned());
            let mut binder = Binder::new(&declared);
            let alias = alias.map_or_else(|| table.name.clone(), |alias| names::fold(&alias.name));
            binder.add(table.clone(), &alias);
            let change = match statement {
                Statement::Update(update) => Change::update(&mut binder, update, table.clone()),
                Statement::Delete(delete) => Change::delete(&mut binder, delete, table.clone()),
                _ => return Err(SqlError::unsupported("this statement")),
            };
            match change {
                Err(error) if others_may_know(&error) => {
                    let draft = Draft::of(statement, &table)?;
                    let (query, keys) = (&draft.query, draft.reads_row_keys());
                    let planned =
                        plan_query(engine, txn, clean, query, &declared, &mut tables, keys).await;
                    let Ok((Plan::Query(plan), ..)) = planned else {
                        return Err(planned.map_or_else(
                            |theirs| better(error, theirs),
                            |_| SqlError::unsupported("this query"),
                        ));
                    };
                    let mut binder = Binder::new(&declared);
                    let change = draft.planned(&mut binder, table, plan)?;
                    let columns =
                        change.returning.as_ref().map(|returning| returning.columns.clone());
                    (Plan::ByQuery(change), binder.param_types(), columns)
                }
                change => {
                    let change = change?;
                    let columns =
                        change.returning.as_ref().map(|returning| returning.columns.clone());
                    (Plan::Change(change), binder.param_types(), columns)
                }
            }
        }
        Statement::ShowVariable { variable } => {
            (Plan::Control, Arc::from([]), Some(crate::control::columns_of_show(variable)))
        }
        statement if is_control(statement) => (Plan::Control, Arc::from([]), None),
        _ => (Plan::Schema, Arc::from([]), None),
    };
    if let Some(columns) = &columns {
        limits::check_outputs(columns.len())?;
    }
    let (plan, columns) = match explained {
        Some(options) => (
            Plan::Explain(Box::new(plan), options),
            Some(Arc::from([Column::new("QUERY PLAN", Type::Text)])),
        ),
        None => (plan, columns),
    };
    Ok(Compiled { source, declared, plan, tables, provisional: !clean, params, columns })
}

/// The tables that a query names, and the names of its WITH clauses.
#[derive(Default)]
struct Named {
    tables: Vec<ast::ObjectName>,
    hidden: Vec<String>,
    /// The number of tables, queries and their sides.
    relations: usize,
}

impl ast::Visitor for Named {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.relations += 1;
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hidden.extend(ctes.map(|cte| names::fold(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.relations += 1;
        if let TableFactor::Table { name, args: None, .. } = factor {
            self.tables.push(name.clone());
        }
        ControlFlow::Continue(())
    }
}

type PlannedQuery = (Plan, Arc<[Type]>, Option<Arc<[Column]>>);

async fn plan_query(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    query: &ast::Query,
    declared: &[Option<Type>],
    tables: &mut Vec<Planned>,
    row_keys: bool,
) -> Result<PlannedQuery, SqlError> {
    let mut named = Named::default();
    let _ = query.visit(&mut named);
    tables.clear();
    let mut found: Vec<Arc<Table>> = Vec::new();
    for name in std::mem::take(&mut named.tables) {
        let folded = names::relation(&name)?;
        let known =
            system::find(&folded).map_or_else(|| folded.clone(), |table| table.name.clone());
        if found.iter().any(|table| table.name == known) {
            continue;
        }
        let table = match table(engine, txn, clean, &name).await {
            // A name of WITH may hide a table in one place and not in another.
            Err(error)
                if error.sqlstate == state::UNDEFINED_TABLE && named.hidden.contains(&folded) =>
            {
                continue;
            }
            other => other?,
        };
        tables.push(table.planned());
        found.push(table);
    }
    let relations = named.relations;
    let plan = stack::with_room(relations, || {
        bind::compile(query, &found, declared, row_keys)
            .and_then(|query| physical::lower(query, relations))
    });
    let plan = Arc::new(plan?);
    let (params, columns) = (plan.params.clone(), plan.columns.clone());
    Ok((Plan::Query(plan), params, Some(columns)))
}

/// True if a statement concerns only the session, and needs no catalog.
pub(crate) fn is_control(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Set(_)
            | Statement::Reset(_)
            | Statement::ShowVariable { .. }
            | Statement::Discard { .. }
            | Statement::Deallocate { .. }
            | Statement::CreateDatabase { .. }
            | Statement::Drop { object_type: ast::ObjectType::Database, .. }
    ) || matches!(statement, Statement::AlterTable(alter) if alter.operations.is_empty())
}
