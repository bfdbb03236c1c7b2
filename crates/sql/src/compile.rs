//! Compiles a parsed statement to a plan, against the catalog as a transaction sees it.

use crate::bind::{self, Objects};
use crate::catalog::{self, Planned, Resolver, SearchPath, Table, UserType};
use crate::clauses;
use crate::constraint::{ForeignKey, Related};
use crate::copy;
use crate::create_as;
use crate::cursor;
use crate::datetime::Zone;
use crate::dml::{self, Write};
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::explain;
use crate::expr::{Facts, Scope};
use crate::limits;
use crate::names;
use crate::normalize;
use crate::parse::Parsed;
use crate::parts;
use crate::physical;
use crate::referenced::{Named, Readable, filled, read, readable};
use crate::response::Column;
use crate::sequence;
use crate::stack;
use crate::system;
use crate::temporary::is_temporary;
use crate::turn::Turn;
use crate::types::Type;
use crate::user_function::UserFunction;
use crate::view::{self, Uses};
use crate::work::Work;
use meridian_mvcc::KeyRange;
use meridian_txn::{Begin, Consistency, Lock, Mode, ReadAt, Transaction};
use sqlparser::ast::{self, DiscardObject, Statement};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The number of relations beyond which other tasks run between the steps of planning. A plan that
/// waits there may be dropped: the future of such a statement has stack for that
/// ([`stack::run_if_deep`]).
const MANY_RELATIONS: usize = 100;

/// The plan of a statement.
pub(crate) enum Plan {
    /// A change, and the tables that its foreign keys concern.
    Write { write: Box<Write>, related: Option<Arc<Related>> },
    /// A statement whose WITH changes data.
    With(Box<dml::With>),
    /// A query with a plan of operators.
    Query(Arc<physical::Query>),
    /// The explained plan, the options, with which it may run, and the time that planning took, if
    /// there is a clock.
    Explain { plan: Box<Plan>, options: explain::Options, planning: Option<Duration> },
    /// A change of the catalog, or TRUNCATE or COPY: runs from the statement itself.
    Schema,
    /// A statement of the session: transaction control and settings.
    Control,
}

/// A statement ready to run.
pub(crate) struct Compiled {
    pub(crate) source: Arc<Parsed>,
    pub(crate) declared: Arc<[Option<Type>]>,
    /// The schemas in which its names were looked for.
    pub(crate) path: Arc<SearchPath>,
    pub(crate) plan: Plan,
    /// The objects that it was planned for.
    pub(crate) tables: Vec<Planned>,
    /// Its views that read no table, and its types that no column has: no shard tells that they
    /// have changed.
    pub(crate) unread: Vec<Planned>,
    /// The levels for which recursion over the plan needs stack.
    pub(crate) levels: usize,
    /// True if the transaction had changed the catalog: the versions of the plan may never commit,
    /// or may be used again by another change. Also if an object is `unread`.
    pub(crate) provisional: bool,
    pub(crate) params: Arc<[Type]>,
    pub(crate) columns: Option<Arc<[Column]>>,
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let plan = std::mem::replace(&mut self.plan, Plan::Control);
        stack::with_room_if_deep(self.levels, || drop(plan));
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

    /// True if it changes rows, and a read-only transaction can run it nevertheless.
    pub(crate) fn only_changes_temporary(&self) -> bool {
        only_changes_temporary(&self.plan)
    }
}

/// True if a plan changes rows, all of temporary tables: a read-only transaction may do so.
fn only_changes_temporary(plan: &Plan) -> bool {
    match plan {
        Plan::Write { write, .. } => is_temporary(write.table().id),
        Plan::With(with) => with.written().all(|table| is_temporary(table.id)),
        Plan::Explain { plan, .. } => only_changes_temporary(plan),
        Plan::Query(_) | Plan::Schema | Plan::Control => false,
    }
}

fn only_reads(plan: &Plan) -> bool {
    match plan {
        Plan::Query(query) => query.only_reads,
        Plan::Explain { plan, options, .. } => !options.analyze || only_reads(plan),
        _ => false,
    }
}

/// Renders a duration for EXPLAIN ANALYZE.
pub(crate) fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.3} ms", nanoseconds as f64 / 1e6)
}

/// Finds a table by its name; fails with 42P01, and with 0A000 for a view.
pub(crate) async fn table(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    clean: bool,
    name: &ast::ObjectName,
) -> Result<Arc<Table>, SqlError> {
    match readable(engine, txn, names, clean, name).await? {
        Readable::Table(table) => Ok(table),
        Readable::View(view) => {
            Err(SqlError::unsupported(format!("changing rows through the view \"{}\"", view.name))
                .hint("Change the rows of its table."))
        }
    }
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
    path: &SearchPath,
    name: &ast::ObjectName,
) -> Result<Arc<Table>, SqlError> {
    let names = &mut Resolver::new(path);
    if work.sees_catalog() {
        return table(engine, work.txn.as_mut(), names, work.clean, name).await;
    }
    table(engine, look(engine).await?.as_mut(), names, true, name).await
}

/// Returns a transaction in which a statement of a session reads the catalog, and whether what it
/// reads is committed: the session's, if that sees the catalog, or else one that `own` holds.
pub(crate) async fn reader<'a>(
    engine: &Engine,
    work: Option<&'a mut Work>,
    own: &'a mut Option<Box<dyn Transaction>>,
) -> Result<(&'a mut dyn Transaction, bool), SqlError> {
    match work {
        Some(work) if work.sees_catalog() => Ok((work.txn.as_mut(), work.clean)),
        _ => Ok((own.insert(look(engine).await?).as_mut(), true)),
    }
}

/// Compiles a statement for a transaction, or for one that has not begun.
pub(crate) async fn compile_for(
    engine: &Engine,
    facts: &Facts,
    work: Option<&mut Work>,
    path: &Arc<SearchPath>,
    source: Arc<Parsed>,
    declared: Arc<[Option<Type>]>,
) -> Result<Compiled, SqlError> {
    // Apart, so that the state of what waits for it stays small.
    match work {
        // A transaction block has one snapshot, also for the catalog.
        Some(work) if work.sees_catalog() || (work.reads_only() && work.explicit) => {
            let (txn, clean) = (work.txn.as_mut(), work.clean);
            Box::pin(compile(engine, facts, txn, clean, path, source, declared)).await
        }
        _ => {
            let mut txn = look(engine).await?;
            Box::pin(compile(engine, facts, txn.as_mut(), true, path, source, declared)).await
        }
    }
}

/// Adds the sequences of a table's defaults to what a statement is planned for.
async fn plan_sequences(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    table: &Table,
    tables: &mut Vec<Planned>,
) -> Result<(), SqlError> {
    for id in table.sequences() {
        let object = catalog::object_by_id(txn, &engine.cache, id, clean, Lock::Shared).await?;
        tables.extend(object.map(|object| object.planned()));
    }
    Ok(())
}

/// Finds the table that a statement changes, if it does. Adds it, and the sequences of its
/// defaults, to what the statement is planned for.
async fn target(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    clean: bool,
    statement: &Statement,
    tables: &mut Vec<Planned>,
) -> Result<Option<Arc<Table>>, SqlError> {
    let name = match statement {
        Statement::Insert(insert) => bind::table_of(insert)?,
        Statement::Update(_) | Statement::Delete(_) => bind::target_of(statement)?,
        Statement::Merge(merge) => bind::merged(merge)?,
        _ => return Ok(None),
    };
    if let Statement::Merge(_) = statement {
        let (name, kind) = match readable(engine, txn, names, clean, name).await? {
            Readable::View(view) => (view.name.clone(), "views"),
            Readable::Table(table) if table.query.is_some() => {
                (table.name.clone(), "materialized views")
            }
            Readable::Table(_) => (String::new(), ""),
        };
        if !kind.is_empty() {
            let message = format!("cannot execute MERGE on relation \"{name}\"");
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message)
                .detail(format!("This operation is not supported for {kind}.")));
        }
    }
    let table = match names::relation(name)?.of_filled() {
        Some(name) => filled(engine, txn, names, clean, &name).await?,
        None => changeable(table(engine, txn, names, clean, name).await?)?,
    };
    if tables.iter().all(|known| known.id != table.id) {
        tables.push(table.planned());
        plan_sequences(engine, txn, clean, &table, tables).await?;
    }
    Ok(Some(table))
}

/// Finds the tables that the constraints of some tables concern, if any is checked when statements
/// end: those that foreign keys refer to, those that refer to them, and, since actions may change
/// rows of these, the same of each. Adds them to the objects that a statement is planned for.
async fn related(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    targets: &[Arc<Table>],
    planned: &mut Vec<Planned>,
) -> Result<Option<Arc<Related>>, SqlError> {
    if !targets.iter().any(|table| table.has_late_checks()) {
        return Ok(None);
    }
    let mut related = Related::default();
    related.tables.extend(targets.iter().map(|table| (table.id, table.clone())));
    // The tables whose rows the statement may change.
    let (mut changing, mut at) = (targets.to_vec(), 0);
    while let Some(table) = changing.get(at).cloned() {
        at += 1;
        let parents = table.foreign.iter().map(|foreign| (foreign.parent, false));
        let all = parents.chain(table.referenced_by.iter().map(|id| (*id, true)));
        for (id, is_child) in all {
            let found = match related.tables.get(&id) {
                Some(found) => found.clone(),
                None => {
                    let cache = &engine.cache;
                    let found = catalog::table_by_id(txn, cache, id, clean, Lock::Shared).await?;
                    let missing = || SqlError::corrupted(format!("the table {id} is not there"));
                    let found = found.ok_or_else(missing)?;
                    if planned.iter().all(|known| known.id != id) {
                        planned.push(found.planned());
                    }
                    if found.foreign.iter().any(ForeignKey::sets_defaults) {
                        plan_sequences(engine, txn, clean, &found, planned).await?;
                    }
                    related.tables.insert(id, found.clone());
                    found
                }
            };
            if is_child && changing.iter().all(|known| known.id != id) {
                changing.push(found);
            }
        }
    }
    Ok(Some(Arc::new(related)))
}

/// Finds the tables that foreign keys of a table concern, for a transaction that is to use them.
pub(crate) async fn related_for(
    engine: &Engine,
    work: &mut Work,
    table: &Arc<Table>,
    tables: &mut Vec<Planned>,
) -> Result<Option<Arc<Related>>, SqlError> {
    let targets = std::slice::from_ref(table);
    if work.sees_catalog() {
        return related(engine, work.txn.as_mut(), work.clean, targets, tables).await;
    }
    related(engine, look(engine).await?.as_mut(), true, targets, tables).await
}

/// Returns the table if statements may change it.
pub(crate) fn changeable(table: Arc<Table>) -> Result<Arc<Table>, SqlError> {
    if system::is_system(table.id) {
        let message = format!("permission denied: \"{}\" is a system catalog", table.name);
        return Err(SqlError::new(state::NO_PRIVILEGE, message));
    }
    if table.is_sequence {
        let message = format!("cannot change sequence \"{}\"", table.name);
        return Err(SqlError::new(state::WRONG_OBJECT, message));
    }
    if table.query.is_some() {
        let message = format!("cannot change materialized view \"{}\"", table.name);
        return Err(SqlError::new(state::WRONG_OBJECT, message));
    }
    Ok(table)
}

/// Returns the newest versions of the types of parameters; of one that was dropped, its last.
async fn newest_types(
    engine: &Engine,
    txn: &mut dyn Transaction,
    clean: bool,
    declared: Arc<[Option<Type>]>,
) -> Result<Arc<[Option<Type>]>, SqlError> {
    let mut types = Vec::new();
    declared.iter().flatten().for_each(|ty| ty.each_user_type(&mut types));
    if types.is_empty() {
        return Ok(declared);
    }
    let mut newest = Vec::with_capacity(types.len());
    for ty in types {
        let id = ty.id();
        newest.extend(catalog::type_of_id(txn, &engine.cache, id, clean, Lock::Shared).await?);
    }
    let renewed = |ty: Type| newest.iter().fold(ty, |ty, new| ty.with_version(*new));
    Ok(declared.iter().map(|ty| ty.map(renewed)).collect())
}

/// Compiles a statement. `clean`: the transaction has not changed the catalog.
async fn compile(
    engine: &Engine,
    facts: &Facts,
    txn: &mut dyn Transaction,
    clean: bool,
    path: &Arc<SearchPath>,
    source: Arc<Parsed>,
    declared: Arc<[Option<Type>]>,
) -> Result<Compiled, SqlError> {
    let declared = newest_types(engine, txn, clean, declared).await?;
    let began = facts.clock.map(|clock| clock());
    let planning = || Some(facts.clock?().saturating_sub(began?));
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
    let later;
    let statement = match planned_later(statement)? {
        Some(query) if explained.is_some() => {
            let creates = matches!(statement, Statement::CreateTable(_));
            if creates && explained.as_ref().is_some_and(|options| options.analyze) {
                return Err(SqlError::unsupported("EXPLAIN ANALYZE of CREATE TABLE AS"));
            }
            later = Statement::Query(Box::new(query.clone()));
            &later
        }
        _ => statement,
    };
    clauses::statement(statement)?;
    names::check_reserved(statement)?;
    names::check_database(statement, &facts.database)?;
    let (with, planned) = parts::with_of(statement)?;
    if let (Statement::Execute { .. }, Some(_)) = (planned, &explained) {
        return Ok(Compiled {
            levels: source.levels,
            source,
            declared,
            path: path.clone(),
            plan: Plan::Control,
            tables: Vec::new(),
            unread: Vec::new(),
            provisional: !clean,
            params: Arc::from([]),
            columns: Some(Arc::from([Column::new("QUERY PLAN", Type::Text)])),
        });
    }
    let has_plan = matches!(
        planned,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
    );
    if explained.is_some() && !has_plan {
        let message = "EXPLAIN is for SELECT, VALUES, INSERT, UPDATE, DELETE and MERGE";
        return Err(SqlError::new(state::SYNTAX, message));
    }
    let mut tables = Vec::new();
    let mut views = Uses::default();
    let names = &mut Resolver::new(path);
    let (plan, params, columns) = match planned {
        _ if let Some(with) = parts::modifying_of(statement) => {
            let mut targets = Vec::with_capacity(with.cte_tables.len() + 1);
            for part in with.cte_tables.iter().filter(|cte| bind::modifies(cte)) {
                let change = parts::part_of(part)?;
                targets.extend(target(engine, txn, names, clean, change, &mut tables).await?);
            }
            let main = target(engine, txn, names, clean, planned, &mut tables).await?;
            let changing = targets.len();
            targets.extend(main.clone());
            let named = Named::of(statement);
            let (mut found, relations) =
                read(engine, txn, names, clean, named, &targets, &mut tables, &mut views).await?;
            found.zone = facts.zone().clone();
            let related = related(engine, txn, clean, &targets, &mut tables).await?;
            targets.truncate(changing);
            found.targets = targets;
            let bound =
                step(relations, || bind::modifying(with, planned, main, &found, &declared)).await?;
            let params = bound.params.clone();
            let with = step(relations, || parts::plan_with(bound, related, relations)).await?;
            let columns = with.columns();
            (Plan::With(Box::new(with)), params, columns)
        }
        Statement::Query(query) => {
            let named = Named::of(statement);
            let (mut found, relations) =
                read(engine, txn, names, clean, named, &[], &mut tables, &mut views).await?;
            found.zone = facts.zone().clone();
            let shorter = match &source.copy_to {
                Some(options) => copy::without_generated(options, query, &found)?,
                None => None,
            };
            let query = shorter.as_ref().unwrap_or(query);
            let query = step(relations, || bind::compile(query, &found, &declared)).await?;
            let query = step(relations, || normalize::query(query)).await;
            let plan = Arc::new(step(relations, || physical::lower(query, relations)).await?);
            let (params, columns) = (plan.params.clone(), plan.columns.clone());
            (Plan::Query(plan), params, Some(columns))
        }
        _ if let Some(table) = target(engine, txn, names, clean, planned, &mut tables).await? => {
            let targets = std::slice::from_ref(&table);
            let named = Named::of(statement);
            let (mut found, relations) =
                read(engine, txn, names, clean, named, targets, &mut tables, &mut views).await?;
            found.zone = facts.zone().clone();
            let related = related(engine, txn, clean, targets, &mut tables).await?;
            let bound =
                step(relations, || bind::alone(planned, with, table, &found, &declared)).await?;
            let (part, params) = bound;
            let write = Box::new(step(relations, || parts::plan_write(part, relations)).await?);
            let columns = write.columns();
            (Plan::Write { write, related }, params, columns)
        }
        _ if let Some(query) = planned_later(planned)? => {
            let params = if query.with.as_ref().is_some_and(parts::is_modifying) {
                let mut alone = Parsed::clone(&source);
                alone.statement = Statement::Query(Box::new(query.clone()));
                let (alone, declared) = (Arc::new(alone), declared.clone());
                let compiled = compile(engine, facts, txn, clean, path, alone, declared);
                Box::pin(compiled).await?.params.clone()
            } else {
                let named = Named::of(statement);
                let (mut found, relations) =
                    read(engine, txn, names, clean, named, &[], &mut tables, &mut views).await?;
                found.zone = facts.zone().clone();
                let collation = found.tables.iter().find_map(|table| table.collation());
                if let (Some(collation), Statement::CreateTable(_)) = (collation, planned) {
                    let what = format!("CREATE TABLE AS of texts in the collation \"{collation}\"");
                    return Err(SqlError::unsupported(what));
                }
                step(relations, || bind::compile(query, &found, &declared)).await?.params
            };
            tables.clear();
            let is_control = is_control(planned);
            (if is_control { Plan::Control } else { Plan::Schema }, params, None)
        }
        Statement::ShowVariable { variable } => {
            (Plan::Control, Arc::from([]), Some(crate::control::columns_of_show(variable)))
        }
        Statement::Lock(lock) => {
            for ast::LockTableTarget { name, only: _, has_asterisk: _ } in &lock.tables {
                readable(engine, txn, names, clean, name).await?;
            }
            (Plan::Control, Arc::from([]), None)
        }
        statement if is_control(statement) => (Plan::Control, Arc::from([]), None),
        _ => (Plan::Schema, Arc::from([]), None),
    };
    if let Some(columns) = &columns {
        limits::check_outputs(columns.len())?;
    }
    let (plan, columns) = match explained {
        Some(options) => (
            Plan::Explain { plan: Box::new(plan), options, planning: planning() },
            Some(Arc::from([Column::new("QUERY PLAN", Type::Text)])),
        ),
        None => (plan, columns),
    };
    let (levels, provisional) = (source.levels + views.levels, !clean || !views.unread.is_empty());
    let unread = views.unread;
    let path = path.clone();
    Ok(Compiled {
        source,
        declared,
        path,
        plan,
        tables,
        unread,
        levels,
        provisional,
        params,
        columns,
    })
}

/// Returns the query of a statement that plans it when it runs.
fn planned_later(statement: &Statement) -> Result<Option<&ast::Query>, SqlError> {
    match statement {
        Statement::Declare { stmts } => {
            let (_, query) = cursor::query_of(stmts)?;
            if query.with.as_ref().is_some_and(parts::is_modifying) {
                let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
            Ok(Some(query))
        }
        other => Ok(create_as::query_of(other).map(|(_, query)| query)),
    }
}

/// A step of planning a statement, which computes without waiting, with stack for the relations.
/// Other tasks run behind it if there are many.
async fn step<T>(relations: usize, f: impl FnOnce() -> T) -> T {
    let value = stack::with_room(relations, f);
    if relations > MANY_RELATIONS {
        Turn::new(None).pass().await;
    }
    value
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
            | Statement::Deallocate { .. }
            | Statement::Prepare { .. }
            | Statement::LISTEN { .. }
            | Statement::UNLISTEN { .. }
            | Statement::NOTIFY { .. }
            | Statement::Execute { .. }
            | Statement::Declare { .. }
            | Statement::Fetch { .. }
            | Statement::Close { .. }
            | Statement::CreateDatabase { .. }
            | Statement::Drop { object_type: ast::ObjectType::Database, .. }
    ) || matches!(statement, Statement::Discard { object_type } if *object_type != DiscardObject::TEMP)
        || matches!(statement, Statement::AlterTable(alter) if alter.operations.is_empty())
}

/// The query of a view, bound alone.
pub(crate) struct BoundView {
    pub(crate) query: bind::Query,
    /// The parts that the text has otherwise once it is stored.
    pub(crate) mentions: Vec<view::Mention>,
    /// The ids of the users' tables, sequences, views, types, functions that the query names, also
    /// those that a name of WITH hides in a part of it; and of the types of its columns.
    pub(crate) reads: Vec<u32>,
    /// True if a literal is another time in another zone.
    pub(crate) reads_zone: bool,
}

/// Binds the body of a new function, in a transaction that changes the catalog, to see that it
/// returns what the function does.
pub(crate) async fn function(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    function: &UserFunction,
    zone: Zone,
) -> Result<(), SqlError> {
    let parsed = function.parsed().map_err(SqlError::unplaced)?;
    let mut named = Named::of(&parsed.statement);
    named.types.extend(function.types());
    let mut views = Uses::default();
    let found = read(engine, txn, names, false, named, &[], &mut Vec::new(), &mut views).await;
    let (mut found, relations) = found.map_err(SqlError::unplaced)?;
    found.zone = zone;
    step(relations + parsed.levels, || bind::check_body(function, &found)).await
}

/// Returns the error of a CALL, which finds no procedure.
pub(crate) async fn call(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    statement: &Statement,
    call: &ast::Function,
) -> Result<SqlError, SqlError> {
    let mut named = Named::of(statement);
    if let ast::FunctionArguments::List(list) = &call.args {
        named.call(&call.name, &list.args);
    }
    let mut views = Uses::default();
    let (found, relations) =
        read(engine, txn, names, false, named, &[], &mut Vec::new(), &mut views).await?;
    Ok(step(relations, || bind::procedure_error(call, &found)).await)
}

/// Binds the query of a view, in a transaction that changes the catalog, over the objects that it
/// names after a `change` of these.
pub(crate) async fn view(
    engine: &Engine,
    txn: &mut dyn Transaction,
    names: &mut Resolver<'_>,
    parsed: &Parsed,
    change: impl Fn(&mut Objects),
) -> Result<BoundView, SqlError> {
    let query = view::query_of(parsed);
    let query = query.ok_or_else(|| SqlError::new(state::SYNTAX, "a view needs one query"))?;
    if query.with.as_ref().is_some_and(parts::is_modifying) {
        let message = "views must not contain data-modifying statements in WITH";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    let named = Named::of(&parsed.statement);
    let own_types = named.types.clone();
    let mut own = Vec::with_capacity(named.tables.len());
    for name in &named.tables {
        own.push(names::relation(name)?);
    }
    let mut views = Uses::default();
    let (mut found, relations) =
        read(engine, txn, names, false, named, &[], &mut Vec::new(), &mut views).await?;
    change(&mut found);
    let all = found.by_name.iter();
    let named = all.filter(|(name, id)| own.contains(name) && !system::is_system(*id));
    let in_literals = found.relations.iter().map(|(_, id)| *id);
    let in_casts = found.types.iter().filter(|(name, _)| own_types.contains(name));
    let mut reads: Vec<u32> = named.map(|(_, id)| *id).chain(in_literals).collect();
    reads.extend(in_casts.map(|(_, ty)| ty.planned().id));
    let bound = step(relations, || bind::view(query, &found)).await?;
    let bind::NewView { query, mut mentions, reads_zone, called } = bound;
    reads.extend(called);
    let _ = ast::visit_expressions(&parsed.statement, |expr| {
        if let Some((text, at)) = sequence::placed_literal_of(expr)
            && names::written(text).is_some_and(|name| name.id().is_none())
            && let Some((_, id)) = found.relations.iter().find(|(literal, _)| literal == text)
        {
            mentions.push(view::Mention::of_literal(at, *id));
        }
        ControlFlow::<()>::Continue(())
    });
    let of_columns = query.columns.iter().flat_map(|column| {
        [column.ty.user_type(), column.domain.map(UserType::Domain)].into_iter().flatten()
    });
    reads.extend(of_columns.map(|ty| ty.planned().id));
    reads.sort_unstable();
    reads.dedup();
    Ok(BoundView { query, mentions, reads, reads_zone })
}
