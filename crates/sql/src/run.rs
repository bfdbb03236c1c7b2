//! Runs a compiled statement in the session's transaction.

use crate::bind::Strength;
use crate::catalog;
use crate::compile::{self, Compiled, Plan};
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::{SqlError, restart, state};
use crate::exec::Reader;
use crate::explain::{self, Actuals, Summary};
use crate::expr::{Facts, Scope};
use crate::materialized::MaterializedStatement;
use crate::memory::weight;
use crate::parse::{AsOf, Parsed};
use crate::portal::{Analyzed, Portal};
use crate::replay::MOST_REPLAYS;
use crate::response::Response;
use crate::session::Session;
use crate::settings::Asked;
use crate::stack;
use crate::statistics;
use crate::temporary;
use crate::types::Type;
use crate::work::{self, Effected, Work};
use crate::{control, copy, ddl, system};
use meridian_txn::{Age, Begin, Conflict, Lock, Locking, Mode, ReadAt, SnapshotAge, Times};
use sqlparser::ast::{SetExpr, Statement};
use std::sync::Arc;

/// The size at which a chunk of a result ends, in bytes.
const CHUNK_BYTES: usize = 4 << 20;

/// The number of rows that EXPLAIN ANALYZE reads at a time.
const EXPLAINED_ROWS: usize = 1000;

/// A chunk of a result: rows, true if they are the last, the tag.
pub(crate) struct Chunk {
    rows: Vec<Vec<Datum>>,
    pub(crate) done: bool,
    tag: String,
}

impl Session {
    /// Compiles a statement in the open transaction, or in a read-only one.
    pub(crate) async fn compile(
        &mut self,
        parsed: Arc<Parsed>,
        declared: Arc<[Option<Type>]>,
    ) -> Result<Arc<Compiled>, SqlError> {
        let (engine, path) = (self.engine.clone(), Arc::new(self.facts.search_path()));
        loop {
            let work = self.work.as_mut().filter(|work| !work.failed);
            let compiled = compile::compile_for(
                &engine,
                &self.facts,
                work,
                &path,
                parsed.clone(),
                declared.clone(),
            )
            .await;
            self.learn_from_work();
            match self.stands(compiled).await {
                Err(error) if error.is_restart() && self.work.is_some() => {
                    self.replay(error).await?
                }
                other => return other.map(Arc::new),
            }
        }
    }

    /// Returns the plan of a portal: another one if its names were looked for in other schemas.
    async fn planned_in_path(
        &mut self,
        portal: &mut Portal,
    ) -> Result<Option<Arc<Compiled>>, SqlError> {
        let Some(compiled) = portal.compiled.clone() else { return Ok(None) };
        if portal.rows.is_some() || self.facts.is_search_path(&compiled.path) {
            return Ok(Some(compiled));
        }
        let fresh = self.compile(compiled.source.clone(), compiled.declared.clone()).await?;
        portal.replace(fresh.clone())?;
        Ok(Some(fresh))
    }

    /// Runs a portal, or continues it.
    pub(crate) async fn run(
        &mut self,
        portal: &mut Portal,
        max: usize,
    ) -> Result<Response, SqlError> {
        self.newest = None;
        if portal.is_over()
            && let Some(columns) = portal.columns()
        {
            portal.end(true);
            return Ok(Response::Rows { columns, rows: Vec::new(), done: Some("SELECT 0".into()) });
        }
        let Some(compiled) = self.planned_in_path(portal).await? else {
            return Ok(Response::Empty);
        };
        if let Some(work) = self.work.as_mut() {
            work.ran |= compiled.source.takes_snapshot();
        }
        if let Statement::Declare { .. } = &compiled.source.statement {
            return self.declare(&compiled, portal.params.clone()).await;
        }
        if let Statement::Fetch { name, direction, into: None, .. } = &compiled.source.statement {
            let moves = compiled.source.moves;
            return Box::pin(self.fetch(portal, name, direction, moves, max)).await;
        }
        if let Some(MaterializedStatement::Refresh(refresh)) = &compiled.source.materialized {
            return self.refresh(&compiled, refresh).await;
        }
        match &compiled.source.statement {
            Statement::Prepare { .. } => return self.prepare(&compiled).await,
            Statement::CreateTable(create) if create.query.is_some() => {
                return self.create_table_as(&compiled, portal.params.clone()).await;
            }
            Statement::Explain { statement, .. }
                if matches!(**statement, Statement::Execute { .. }) =>
            {
                return self.explain_prepared(portal, &compiled, max).await;
            }
            Statement::Execute { .. } => {
                return self.execute_prepared(portal, &compiled, max).await;
            }
            _ => {}
        }
        if matches!(compiled.plan, Plan::Control) {
            return control::run(self, &compiled).await;
        }
        if let Statement::Copy { .. } = &compiled.source.statement {
            self.ensure_work(&compiled).await?;
            return self.start_copy(&compiled.source.statement).await;
        }
        if let (Some(options), Some(columns)) = (&compiled.source.copy_to, &compiled.columns) {
            // An option that names no column fails before the query runs.
            copy::Writer::new(options, columns, self.facts.zone())?;
        }
        if let Some(vacuum) = &compiled.source.vacuum {
            return self.vacuum(vacuum).await;
        }
        // By itself, each of them runs in transactions of its own, and no writer waits.
        let is_by_itself = self.is_alone()
            && self.work.as_ref().is_none_or(|work| !work.explicit && work.journal.is_empty());
        match &compiled.source.statement {
            Statement::CreateIndex(create) if is_by_itself => {
                return self.create_index(create).await;
            }
            Statement::Analyze(analyze) if is_by_itself => return self.analyze(analyze).await,
            _ => {}
        }
        let goes_on = portal.rows.is_some();
        if !goes_on {
            if system::shows_opened(compiled.tables.iter().map(|table| table.id)) {
                self.note_opened();
            }
            self.facts.statement_us =
                system::interval_now(&self.facts).ok().map(|(earliest, _)| earliest);
        }
        let fresh = !goes_on && self.ensure_work(&compiled).await?;
        let alone = self.is_last() || self.ends_next;
        let now = |work: &&mut Work| work.txn.mode() == Mode::ReadOnly(ReadAt::Now);
        if let Some(work) = self.work.as_mut().filter(|_| fresh && alone).filter(now) {
            work.scope = work::Scope::Wanted;
        }
        let mut effected = Effected::default();
        // As they are before it changes some.
        let settings = self.facts.settings.clone();
        let announced = self.facts.notifications.mark();
        for _ in 0..MOST_REPLAYS {
            if let Some(work) = &mut self.work {
                work.notices.clear();
            }
            let mut attempt = self.attempt(portal, max, &mut effected).await;
            if !goes_on && attempt.as_ref().is_ok_and(|chunk| chunk.done) {
                let all_made = self.facts.made.check_all_made();
                attempt = attempt.and_then(|chunk| all_made.map(|()| chunk));
            }
            let is_final = self.facts.made.take_is_other();
            if attempt.is_err() {
                // An attempt that did not come to run has not taken the effects of the one before.
                if effected.is_empty() {
                    effected = Effected::of_failed(&self.facts);
                }
                self.facts.notifications.roll_back(announced);
            }
            match attempt {
                Err(error) if is_final => return Err(error),
                Err(error)
                    if !goes_on
                        && error.is_restart()
                        && self.restarts_transaction(&error).await? =>
                {
                    (portal.rows, portal.ahead) = (None, None);
                    portal.count = 0;
                }
                Err(error) if error.is_restart() && !goes_on => {
                    (portal.rows, portal.ahead) = (None, None);
                    portal.count = 0;
                    self.replay(error).await?;
                }
                Err(error) => return Err(error),
                Ok(mut chunk) => {
                    let work =
                        self.work.as_mut().expect("invariant: a statement ran in a transaction");
                    let compiled = portal
                        .compiled
                        .as_ref()
                        .expect("invariant: a portal that ran has a statement");
                    work.ran = true;
                    let notices = std::mem::take(&mut work.notices);
                    if chunk.done && !goes_on {
                        let sum = checksum_of(compiled, &chunk);
                        let effected = Effected::of_last(&self.facts);
                        work.record(compiled, &portal.params, sum, effected, &settings);
                        self.newest = Some(max);
                    } else {
                        // Results in parts are not kept, so that a replay could not compare them.
                        work.settled = true;
                    }
                    // The client is about to think, or to send the next statement.
                    let ahead =
                        work.explicit && work.clean && chunk.done && Self::is_write(compiled);
                    if ahead && self.facts.settings.is_on("meridian.pipelined_writes") {
                        work.txn.send_writes().await;
                    }
                    let compiled = compiled.clone();
                    notices.into_iter().for_each(|notice| self.notify(notice));
                    if let Some(analyzed) = portal.analyzed.take() {
                        chunk.rows = texts(self.show_analyzed(&compiled, &analyzed).await?);
                    }
                    return response_of(&compiled, chunk, !goes_on, self.facts.zone());
                }
            }
        }
        Err(restart("the transaction lost too many conflicts"))
    }

    /// Returns the rows of EXPLAIN ANALYZE. A statement that is a transaction by itself is
    /// committed first, so that there are times to report.
    async fn show_analyzed(
        &mut self,
        compiled: &Compiled,
        analyzed: &Analyzed,
    ) -> Result<Vec<String>, SqlError> {
        let Plan::Explain { options, planning, .. } = &compiled.plan else { return Ok(Vec::new()) };
        let mut summary = Summary::new();
        let mut time =
            |name: &'static str, ns: u64| summary.push((name, compile::milliseconds(ns)));
        for (name, took) in [("Planning Time", *planning), ("Execution Time", analyzed.took)] {
            if let Some(took) = took {
                time(name, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        let Some(timings) = &analyzed.timings else {
            return Ok(analyzed.explained.show(options, Some(&analyzed.actuals), &summary));
        };
        let Times { timestamp_ns, reads, reading_ns, read_wait_ns, .. } = timings.times();
        if analyzed.took.is_none() {
            time("Execution Time", timings.elapsed_ns());
        }
        if timestamp_ns > 0 {
            time("Timestamp Time", timestamp_ns);
        }
        time("Reading Time", reading_ns);
        if read_wait_ns > 0 {
            time("Read Wait", read_wait_ns);
        }
        summary.push(("Reads", reads.to_string()));
        let alone =
            self.work.as_ref().is_some_and(|work| !work.explicit && work.journal.len() == 1);
        if !Self::is_write(compiled) {
            summary.push(("Commit", "nothing to commit".into()));
        } else if !alone || !self.is_alone() {
            summary.push(("Commit", "when the transaction ends".into()));
        } else {
            self.finish_implicit().await?;
            let times = timings.times();
            let mut time =
                |name: &'static str, ns: u64| summary.push((name, compile::milliseconds(ns)));
            time("Commit Time", times.commit_ns);
            time("Replication Time", times.replication_ns);
            time("Commit Wait", times.commit_wait_ns);
        }
        Ok(analyzed.explained.show(options, Some(&analyzed.actuals), &summary))
    }

    /// Begins the implicit transaction that a statement needs, unless a suitable one is open.
    /// Returns true if it began one.
    async fn ensure_work(&mut self, compiled: &Compiled) -> Result<bool, SqlError> {
        let as_of = &compiled.source.as_of;
        if as_of.is_some() && !compiled.only_reads() {
            return Err(SqlError::new(state::READ_ONLY, "AS OF SYSTEM TIME is for queries only"));
        }
        let writes = Self::is_write(compiled);
        let known = self.work.as_ref().map(|work| (work.explicit, work.reads_only()));
        let mut announced = Vec::new();
        match known {
            Some((true, true)) if writes && !compiled.only_changes_temporary() => {
                let verb = verb(&compiled.source.statement);
                return Err(SqlError::new(
                    state::READ_ONLY,
                    format!("cannot execute {verb} in a read-only transaction"),
                ));
            }
            Some((true, _)) if as_of.is_some() => {
                return Err(SqlError::unsupported("AS OF SYSTEM TIME inside a transaction block"));
            }
            Some((false, reads_only)) if as_of.is_some() || (writes && reads_only) => {
                announced = self.facts.notifications.take_pending();
                self.finish_implicit().await?
            }
            Some(_) if self.work.as_ref().is_some_and(|work| work.scope == work::Scope::Narrow) => {
                self.finish_implicit().await?;
            }
            Some(_) => return Ok(false),
            None => {}
        }
        let mode = if writes { Mode::ReadWrite } else { self.reading(as_of.clone()).await? };
        let work = self.begin_work(mode, None, false).await?;
        self.slot.begins(work.txn.age());
        self.work = Some(work);
        announced.into_iter().for_each(|action| self.announce(action));
        Ok(true)
    }

    /// Returns the read mode of the statement, or else of the session.
    pub(crate) async fn reading(&mut self, as_of: Option<AsOf>) -> Result<Mode, SqlError> {
        let Some(as_of) = as_of.or_else(|| self.facts.settings.staleness()) else {
            return Ok(Mode::ReadOnly(ReadAt::Now));
        };
        let clock = self.engine.database().begin(Begin::new(Mode::ReadOnly(ReadAt::Now))).await?;
        Ok(Mode::ReadOnly(as_of.read_at(clock.began())?))
    }

    /// Attempts a portal's next rows once.
    async fn attempt(
        &mut self,
        portal: &mut Portal,
        max: usize,
        effected: &mut Effected,
    ) -> Result<Chunk, SqlError> {
        let lock_timeout = self.facts.settings.timeout("lock_timeout");
        let negotiates = self.facts.settings.is_on("meridian.negotiate_timestamps");
        let consistency = self.facts.settings.consistency();
        let work = self.work.as_mut().expect("invariant: the caller began a transaction");
        work.txn.set_lock_timeout(lock_timeout);
        work.txn.set_consistency(consistency);
        work.negotiates = negotiates;
        // The settings that an attempt before this one would have changed stay.
        self.facts.settings.take_asked();
        if portal.rows.is_none() {
            self.facts.forget_warnings();
        }
        let result = attempt(&self.engine, &self.facts, work, portal, max, effected).await;
        self.learn_from_work();
        let chunk = self.stands(result).await?;
        let warnings = self.facts.take_warnings(chunk.done);
        warnings.into_iter().for_each(|warning| self.notify(warning));
        for Asked { name, value, local } in self.facts.settings.take_asked() {
            self.set_in_transaction(&name, &value, local)?;
            self.has_set = true;
        }
        Ok(chunk)
    }

    /// Learns what the open transaction has seen. An error may tell of it, too: a statement that
    /// failed counts.
    pub(crate) fn learn_from_work(&mut self) {
        if let Some(seen) = self.work.as_ref().map(|work| work.txn.token()) {
            self.learn(seen);
        }
    }

    /// Learns from a conflict what the next attempt has to come after, so that it does not meet the
    /// same conflict again.
    pub(crate) fn learn_from_conflict(&mut self, why: &Conflict) {
        if let Conflict::WrittenSince { at: Some(at), .. } = why {
            self.learn(*at);
        }
    }

    /// Validates the transaction's reads before an error is reported: without that, the error may
    /// come from a combination of reads that was never committed together.
    pub(crate) async fn stands<T>(
        &mut self,
        mut result: Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        if let Err(error) = &mut result {
            self.name_schema(error).await;
        }
        if result.as_ref().is_err_and(|error| !error.is_restart())
            && let Some(work) = self.work.as_mut().filter(|work| !work.failed && !work.reads_only())
        {
            work.txn.validate().await?;
        }
        result
    }

    /// Looks up the name of the schema that an error is about, as the transaction sees it, and
    /// without a lock unless that has changed the catalog. Leaves it out if that fails.
    pub(crate) async fn name_schema(&mut self, error: &mut SqlError) {
        let Some(fields) = &mut error.fields else { return };
        let Some(id) = fields.schema_id.take() else { return };
        let cache = &self.engine.cache;
        let found = match &mut self.work {
            Some(work) if !work.clean => {
                catalog::object_by_id(work.txn.as_mut(), cache, id, false, Lock::Shared).await
            }
            _ => {
                let how = Begin::new(Mode::ReadOnly(ReadAt::Now));
                let Ok(mut look) = self.engine.database().begin(how).await else { return };
                catalog::object_by_id(look.as_mut(), cache, id, false, Lock::Shared).await
            }
        };
        if let Ok(Some(schema)) = found {
            fields.schema = Some(schema.name().to_owned());
        }
    }

    /// Begins a transaction with this session's application name.
    pub(crate) async fn begin_work(
        &mut self,
        mode: Mode,
        age: Option<Age>,
        explicit: bool,
    ) -> Result<Work, SqlError> {
        let (consistency, token) = (self.facts.settings.consistency(), self.facts.token);
        // A repetition at an older snapshot would meet the same conflict, or an older schema.
        let asked = self.facts.settings.snapshot_age();
        let snapshot_age = if age.is_some() { SnapshotAge::PRESENT } else { asked };
        let how = Begin { consistency, token, snapshot_age, ..Begin::new(mode).aged(age) };
        let mut work = Work::begin(&self.engine, how, explicit).await?;
        work.txn.set_application(self.facts.settings.get("application_name").unwrap_or_default());
        Ok(work)
    }
}

/// Returns the response of a statement that ran. `first`: the chunk is the first of the result.
pub(crate) fn response_of(
    compiled: &Compiled,
    chunk: Chunk,
    first: bool,
    zone: &Zone,
) -> Result<Response, SqlError> {
    let Chunk { rows, done, tag } = chunk;
    let Some(columns) = &compiled.columns else { return Ok(Response::Complete(tag)) };
    let Some(options) = &compiled.source.copy_to else {
        return Ok(Response::Rows { columns: columns.clone(), rows, done: done.then_some(tag) });
    };
    Ok(Response::CopyOut {
        columns: columns.len(),
        is_binary: options.is_binary(),
        records: copy::Writer::new(options, columns, zone)?.records(&rows, first, done),
        done: done.then_some(tag),
    })
}

/// Returns the checksum that a replay must reproduce. The times of EXPLAIN ANALYZE are never the
/// same.
pub(crate) fn checksum_of(compiled: &Compiled, chunk: &Chunk) -> u64 {
    match compiled.plan {
        Plan::Explain { .. } => work::checksum(&[], &chunk.tag),
        _ => work::checksum(&chunk.rows, &chunk.tag),
    }
}

/// Declares the reads of a transaction's only statement, if that is wanted. Returns false if the
/// plan has to be checked again.
fn narrow(
    facts: &Facts,
    work: &mut Work,
    portal: &Portal,
    compiled: &Compiled,
) -> Result<bool, SqlError> {
    if std::mem::replace(&mut work.scope, work::Scope::Open) != work::Scope::Wanted {
        return Ok(true);
    }
    let scope = Scope {
        params: &portal.params,
        now_us: work.now_us(),
        session: facts,
        catalog: None,
        effects: None,
    };
    if let Some(range) = compiled.scope(&scope)?
        && work.txn.reads_only_in(&range, work.negotiates)
    {
        work.scope = work::Scope::Narrow;
        return Ok(true);
    }
    // The transaction reads the present of all shards, which may be older than the plan's versions.
    Ok(false)
}

pub(crate) async fn attempt(
    engine: &Engine,
    facts: &Facts,
    work: &mut Work,
    portal: &mut Portal,
    max: usize,
    effected: &mut Effected,
) -> Result<Chunk, SqlError> {
    let compiled = portal.compiled.clone().expect("invariant: a portal that runs has a statement");
    let mut compiled = compiled;
    // NOWAIT and SKIP LOCKED of an earlier statement have ended with it.
    work.txn.set_locking(Locking::Wait);
    let (mut looks, mut planned) = (0, portal.rows.is_some());
    while !planned {
        let generation = facts.temporary.generation();
        planned = !(compiled.provisional && looks == 0)
            && compiled.path.generation() == generation
            && work.is_current(&engine.cache, &compiled.tables, looks == 0).await?;
        if planned {
            // Other reads of the catalog are over by then: only the statement's own reads are left.
            planned = narrow(facts, work, portal, &compiled)?;
            continue;
        }
        if looks > 0 {
            work.fits_snapshot(&engine.cache, &compiled.tables)?;
        }
        looks += 1;
        if looks > MOST_REPLAYS {
            return Err(restart("the definition of a table changed too often"));
        }
        work.exact |= work.reads_only() && work.scope != work::Scope::Wanted;
        let (source, declared) = (compiled.source.clone(), compiled.declared.clone());
        let path = Arc::new(compiled.path.at(generation));
        let fresh =
            compile::compile_for(engine, facts, Some(work), &path, source, declared).await?;
        compiled = Arc::new(fresh);
        portal.replace(compiled.clone())?;
    }
    if compiled.source.as_of.is_some()
        && compiled.tables.iter().any(|table| temporary::is_temporary(table.id))
    {
        return Err(SqlError::unsupported("AS OF SYSTEM TIME of a temporary table"));
    }
    if portal.rows.is_none() {
        // What no shard tells is read, and stays as it is until the transaction has ended.
        for view in &compiled.unread {
            if work.version(view.id).await? != Some(view.version) {
                return Err(restart("the definition of a view or type has changed"));
            }
        }
        let reads_only = work.reads_only() && (work.explicit || compiled.source.as_of.is_some());
        let lock_timeout = facts.settings.timeout("lock_timeout");
        let Effected { drawn, calls } = std::mem::take(effected);
        facts.sequences.begin_statement(&work.sequences, reads_only, lock_timeout, drawn);
        facts.made.begin_statement(calls);
    }
    // The session has made room for the statement's own levels.
    let has_views = compiled.levels > compiled.source.levels;
    let levels = if has_views { compiled.levels } else { 0 };
    // Apart, so that the state of what waits for it stays small.
    let run = Box::pin(run_compiled(engine, facts, work, portal, &compiled, max));
    stack::run_if_deep(levels, || run).await
}

/// Runs a statement whose plan is current.
async fn run_compiled(
    engine: &Engine,
    facts: &Facts,
    work: &mut Work,
    portal: &mut Portal,
    compiled: &Compiled,
    max: usize,
) -> Result<Chunk, SqlError> {
    let params = portal.params.clone();
    let scope = Scope {
        params: &params,
        now_us: work.now_us(),
        session: facts,
        catalog: None,
        effects: None,
    };
    let chunk = match &compiled.plan {
        Plan::Explain { plan: inner, options, .. } => {
            let style = explain::Style { verbose: options.verbose, zone: facts.zone() };
            let explained = explain::explain(inner, style);
            if !options.analyze {
                let rows = explained.show(options, None, &Summary::new());
                Chunk { rows: texts(rows), done: true, tag: "EXPLAIN".into() }
            } else {
                work.touched.extend(compiled.tables.iter().map(|table| table.id));
                let timings = work.txn.measure();
                let (began, mut actuals) = (facts.clock.map(|clock| clock()), Actuals::new());
                // In parts, each of which is dropped before the next: only their number is
                // reported.
                let counts = &mut actuals;
                while !run_plan(inner, work, portal, &scope, EXPLAINED_ROWS, Some(counts)).await?.1
                {
                }
                if let Some(mut running) = portal.rows.take() {
                    actuals.extend(running.actuals());
                }
                let clock = facts.clock.map(|clock| clock());
                let took = clock.zip(began).map(|(now, began)| now.saturating_sub(began));
                actuals.extend(explain::counted(portal.count, took.unwrap_or_default()));
                portal.analyzed = Some(Analyzed { explained, actuals, took, timings });
                Chunk { rows: Vec::new(), done: true, tag: "EXPLAIN".into() }
            }
        }
        Plan::Schema if let Statement::Analyze(analyze) = &compiled.source.statement => {
            statistics::in_transaction(engine, work, facts, analyze).await?;
            Chunk { rows: Vec::new(), done: true, tag: "ANALYZE".into() }
        }
        Plan::Schema => {
            let tag = ddl::run(engine, work, facts, &compiled.source).await?;
            Chunk { rows: Vec::new(), done: true, tag }
        }
        plan => {
            work.touched.extend(compiled.tables.iter().map(|table| table.id));
            let (rows, done, verb) = run_plan(plan, work, portal, &scope, max, None).await?;
            let tag = match verb {
                _ if compiled.source.copy_to.is_some() => format!("COPY {}", portal.count),
                "INSERT" => format!("INSERT 0 {}", portal.count),
                verb => format!("{verb} {}", portal.count),
            };
            Chunk { rows, done, tag }
        }
    };
    Ok(chunk)
}

/// Returns rows of one text each.
fn texts(lines: Vec<String>) -> Vec<Vec<Datum>> {
    lines.into_iter().map(|line| vec![Datum::text(line)]).collect()
}

async fn run_plan(
    plan: &Plan,
    work: &mut Work,
    portal: &mut Portal,
    scope: &Scope<'_>,
    max: usize,
    actuals: Option<&mut Actuals>,
) -> Result<(Vec<Vec<Datum>>, bool, &'static str), SqlError> {
    match plan {
        Plan::Write { write, related } => {
            let Work { txn, row_number, deferral, .. } = &mut *work;
            let foreign = (related.as_deref(), &*deferral);
            let changed = write.run(txn.as_mut(), scope, row_number, foreign, actuals).await?;
            work.deferred.add(changed.later);
            work.has_changed(write.table().id, changed.count);
            portal.count = changed.count;
            Ok((changed.rows, true, write.verb()))
        }
        Plan::With(with) => {
            let Work { txn, row_number, deferral, .. } = &mut *work;
            let outcome = with.run(txn.as_mut(), scope, row_number, deferral, actuals).await?;
            work.deferred.add(outcome.later);
            outcome.changed.iter().for_each(|(table, count)| work.has_changed(*table, *count));
            portal.count = outcome.count;
            Ok((outcome.rows, true, with.verb()))
        }
        Plan::Query(plan) => {
            let running = portal.rows.get_or_insert_with(|| {
                Box::new(plan.start(portal.params.to_vec(), Vec::new(), actuals.is_some()))
            });
            let mut reader = Reader::new(work.txn.as_mut(), scope.session, scope.now_us);
            let (mut rows, mut over, mut bytes) = (Vec::new(), false, 0);
            rows.extend(portal.ahead.take());
            // No row is locked that was not asked for.
            let most = if plan.locks { max } else { max.saturating_add(1) };
            while rows.len() < most && !over && bytes < CHUNK_BYTES {
                match running.next(&mut reader, most - rows.len()).await? {
                    Some(more) => {
                        bytes += more.iter().map(|row| weight(row)).sum::<usize>();
                        rows.extend(more);
                    }
                    None => over = true,
                }
            }
            if rows.len() > max {
                portal.ahead = rows.pop();
            }
            portal.count += rows.len() as u64;
            Ok((rows, over, "SELECT"))
        }
        Plan::Explain { .. } | Plan::Schema | Plan::Control => {
            Err(SqlError::unsupported("this statement here"))
        }
    }
}

/// Returns the word of a statement that changes data.
fn verb(statement: &Statement) -> String {
    let text = match statement {
        Statement::Explain { statement, .. } => return verb(statement),
        Statement::Query(query) => match &*query.body {
            SetExpr::Insert(changed)
            | SetExpr::Update(changed)
            | SetExpr::Delete(changed)
            | SetExpr::Merge(changed) => return verb(changed),
            _ if let Some(clause) = query.locks.first() => {
                return format!("SELECT {}", Strength::of(clause));
            }
            _ => "SELECT".to_owned(),
        },
        other => other.to_string(),
    };
    text.split_whitespace().next().unwrap_or_default().to_uppercase()
}
