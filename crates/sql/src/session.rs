//! A session: one client's settings, prepared statements, portals and transaction.
//!
//! Outside BEGIN … COMMIT, the statements of one simple query, or between two Syncs, share an
//! implicit transaction. As long as they only read, it takes no locks; the first that writes begins
//! another.

use crate::advisory;
use crate::compile::{Compiled, Plan};
use crate::consistency::{self, Guarantees};
use crate::copy::Copying;
use crate::cursor::Cursors;
use crate::datetime::{Local, Zone};
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use crate::names;
use crate::notify::Notifications;
use crate::parse::{self, Parsed};
use crate::portal::Portal;
use crate::response::{Column, Description, Response, Status};
use crate::sequence::Sequences;
use crate::settings::{self, Settings};
use crate::stack;
use crate::system::{Backend, SessionSlot};
use crate::turn::Clock;
use crate::types::Type;
use crate::work::Work;
use meridian_clock::Timestamp;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The time after a failed release of advisory locks until the next attempt.
const RELEASE_PAUSE: Duration = Duration::from_secs(1);
/// The number of rows of a simple query's result in one response.
const CHUNK_ROWS: usize = 1000;

pub(crate) struct Prepared {
    pub(crate) sql: Arc<str>,
    /// `None` for an empty statement.
    pub(crate) compiled: Option<Arc<Compiled>>,
    /// The text of the PREPARE that made it.
    pub(crate) shown: Option<Arc<str>>,
}

/// Returns the levels for which statements need stack.
fn levels(statements: &[Parsed]) -> usize {
    statements.iter().map(|parsed| parsed.levels).max().unwrap_or(0)
}

/// One client's session.
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) facts: Facts,
    pub(crate) work: Option<Work>,
    pub(crate) prepared: HashMap<String, Prepared>,
    pub(crate) portals: HashMap<String, Portal>,
    pub(crate) cursors: Cursors,
    /// True once a query has changed a setting.
    pub(crate) has_set: bool,
    pub(crate) copying: Option<Copying>,
    pub(crate) notices: VecDeque<SqlError>,
    queue: VecDeque<Parsed>,
    /// The levels for which the statements that run need stack.
    levels: usize,
    waiting: VecDeque<Response>,
    running: Option<Portal>,
    simple: bool,
    /// True if the next statement is the last before the transaction ends.
    pub(crate) ends_next: bool,
    /// True if a commit was sent, and its outcome is not known yet.
    pub(crate) committing: bool,
    /// The row limit of the statement that ran last, if it is the journal's last step, and its
    /// client has not seen a part of its response before.
    pub(crate) newest: Option<usize>,
    /// The response of the journal's last step, while its implicit transaction is committed.
    pub(crate) unseen: Option<Unseen>,
    /// The commit timestamp of its newest transaction that wrote.
    pub(crate) committed_at: Option<Timestamp>,
    /// When the last release of advisory locks failed, by the session's clock.
    release_failed: Option<Duration>,
    /// True if a simple query has begun and is not parsed yet.
    begins: bool,
    sql: Arc<str>,
    pub(crate) slot: SessionSlot,
}

/// The response of a statement that its client has not seen: a replay may replace it.
pub(crate) struct Unseen {
    pub(crate) response: Response,
    /// The most rows that it may have.
    pub(crate) limit: usize,
}

impl Session {
    /// Opens a session of a user on a database.
    pub fn new(engine: Arc<Engine>, user: impl Into<String>) -> Self {
        let user = user.into();
        let slot = engine.sessions().enter(engine.name(), &user);
        let engine = Arc::new(engine.for_session(slot.number()));
        let guarantees = Guarantees::of(&engine);
        let facts = Facts {
            guarantees,
            settings: Arc::new(Settings::of(guarantees)),
            token: Timestamp::ZERO,
            user,
            database: engine.name().into(),
            server_info: engine.server_info().cloned(),
            sessions: engine.sessions().clone(),
            pid: slot.pid(),
            warnings: Arc::default(),
            statement_us: None,
            clock: None,
            memory: engine.memory().clone(),
            sequences: Arc::new(Sequences::new(engine.clone())),
            advisory: Arc::new(advisory::Holds::new(&engine, slot.number())),
            made: Arc::default(),
            notifications: Arc::new(Notifications::new(&engine, slot.number())),
            temporary: engine.temporary().clone(),
            engine: Some(engine.clone()),
            opened: Arc::default(),
        };
        Session {
            engine,
            facts,
            work: None,
            prepared: HashMap::new(),
            portals: HashMap::new(),
            cursors: Cursors::default(),
            has_set: false,
            copying: None,
            notices: VecDeque::new(),
            queue: VecDeque::new(),
            levels: 0,
            waiting: VecDeque::new(),
            running: None,
            simple: false,
            ends_next: false,
            committing: false,
            newest: None,
            unseen: None,
            committed_at: None,
            release_failed: None,
            begins: false,
            sql: Arc::from(""),
            slot,
        }
    }

    /// Sets the clock by which long statements let other tasks run. Without one they do so after a
    /// number of rows.
    pub fn set_clock(&mut self, clock: Clock) {
        self.facts.clock = Some(clock);
    }

    /// Returns the database.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the user.
    pub fn user(&self) -> &str {
        &self.facts.user
    }

    /// Returns the transaction status, for ReadyForQuery.
    pub fn status(&self) -> Status {
        match &self.work {
            Some(work) if work.explicit && work.failed => Status::Failed,
            Some(work) if work.explicit => Status::InTransaction,
            _ => Status::Idle,
        }
    }

    /// Returns a setting's value as SHOW prints it.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.facts.settings.get(name).map(Into::into)
    }

    /// Returns the time zone, in which values are shown.
    pub fn zone(&self) -> &Zone {
        self.facts.zone()
    }

    /// Returns what texts of times are read by.
    pub fn local(&self) -> Local<'_> {
        let now_us = self.work.as_ref().map(Work::now_us);
        Local { zone: self.facts.zone(), now_us: now_us.or(self.facts.statement_us) }
    }

    /// Returns a setting that is a duration; `None` if it is 0, which means no limit.
    pub fn timeout(&self, name: &str) -> Option<Duration> {
        self.facts.settings.timeout(name)
    }

    /// Sets a setting when the session begins (a start-up parameter): RESET returns to this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        if name.eq_ignore_ascii_case(consistency::CAUSAL_TOKEN) {
            return self.set_token(value);
        }
        self.facts.settings_mut().begin_with(name, value)?;
        self.show_application();
        Ok(())
    }

    /// Runs SET, or SET LOCAL.
    pub(crate) fn set_in_transaction(
        &mut self,
        name: &str,
        value: &str,
        local: bool,
    ) -> Result<(), SqlError> {
        if name.eq_ignore_ascii_case(consistency::CAUSAL_TOKEN) {
            if local {
                let what = format!("SET LOCAL {}", consistency::CAUSAL_TOKEN);
                return Err(SqlError::unsupported(what)
                    .hint("A token is the session's, and only grows: SET it before BEGIN."));
            }
            return self.set_token(value);
        }
        if settings::canonical(name) == settings::ISOLATION {
            return self.choose_isolation(value);
        }
        self.facts.settings_mut().set(name, value, local)?;
        self.show_application();
        Ok(())
    }

    /// Sets the isolation level that the transaction asks for. Fails with 25001 if it has run a
    /// query, or has a savepoint.
    pub(crate) fn choose_isolation(&mut self, level: &str) -> Result<(), SqlError> {
        let before = self.setting(settings::ISOLATION);
        let mut after = self.facts.settings.clone();
        Arc::make_mut(&mut after).set(settings::ISOLATION, level, true)?;
        if let Some(work) = self.work.as_ref().filter(|work| work.explicit)
            && before.as_deref() != after.get(settings::ISOLATION)
        {
            let begun = |rest| {
                let message = format!("SET TRANSACTION ISOLATION LEVEL must {rest}");
                Err(SqlError::new(state::ACTIVE_TRANSACTION, message))
            };
            if work.ran {
                return begun("be called before any query");
            }
            if work.savepoints.newest().is_some() {
                return begun("not be called in a subtransaction");
            }
        }
        self.facts.settings = after;
        Ok(())
    }

    /// Gives the session a causal token as text.
    fn set_token(&mut self, value: &str) -> Result<(), SqlError> {
        let token = consistency::token_from_text(&self.facts.database, value)?;
        if self.status() != Status::Idle && token > self.facts.token {
            let message = "the causal token must be set outside of a transaction block";
            return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
        }
        consistency::check_token(&self.facts, token)?;
        self.learn(token);
        Ok(())
    }

    /// Runs RESET.
    pub(crate) fn reset(&mut self, name: Option<&str>) -> Result<(), SqlError> {
        if name.is_some_and(|name| name.eq_ignore_ascii_case(consistency::CAUSAL_TOKEN)) {
            if self.status() != Status::Idle {
                let message = "the causal token must be reset outside of a transaction block";
                return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
            }
            self.facts.token = Timestamp::ZERO;
            return Ok(());
        }
        self.facts.settings_mut().reset(name);
        self.show_application();
        Ok(())
    }

    fn show_application(&self) {
        self.slot.calls_itself(self.facts.settings.get("application_name").unwrap_or_default());
    }

    /// Ends the transaction, and what ends with it: portals, cursors (those WITH HOLD stay if it
    /// has committed), its advisory locks, what it has not announced, SET LOCAL, and if it has not
    /// committed, SET.
    pub(crate) fn end_transaction(&mut self, committed: bool) {
        self.work = None;
        self.portals.clear();
        self.cursors.end(committed);
        self.facts.advisory.roll_back(0);
        self.facts.made.end_transaction();
        self.facts.notifications.end_transaction();
        let settings = self.facts.settings_mut();
        let changed = if committed { settings.commit() } else { settings.roll_back() };
        if changed {
            self.show_application();
        }
    }

    /// Returns the session's causal token: the greatest timestamp that it was told.
    pub fn token(&self) -> Timestamp {
        self.facts.token
    }

    /// Gives the session a causal token: its next transactions come after that timestamp.
    pub fn learn(&mut self, token: Timestamp) {
        self.facts.token = self.facts.token.max(token);
    }

    /// Sets the session's properties for `pg_stat_activity`: its process number, the client's
    /// address, and the start of the session, in microseconds since 2000-01-01 UTC.
    pub fn introduce(&mut self, pid: i32, client: Option<(String, u16)>, began_us: i64) {
        self.slot.introduce(pid, client, began_us);
        self.facts.pid = pid;
    }

    /// Sets the connection, which other sessions may end (`pg_terminate_backend`).
    pub fn set_backend(&mut self, backend: Arc<dyn Backend>) {
        self.slot.set_backend(backend);
    }

    /// Starts a simple query, of any number of statements; its responses come from
    /// [`Session::next`].
    pub fn start(&mut self, sql: &str) {
        self.sql = Arc::from(sql);
        self.slot.runs(self.sql.clone());
        self.simple = true;
        self.queue.clear();
        self.waiting.clear();
        self.running = None;
        self.unseen = None;
        self.begins = true;
    }

    /// Parses the text of a simple query.
    async fn read(&mut self) {
        match parse::statements(&self.sql) {
            Ok(statements) if statements.is_empty() => self.waiting.push_back(Response::Empty),
            Ok(statements) => {
                self.levels = levels(&statements).max(self.replayed_levels());
                self.queue.extend(statements);
            }
            Err(error) => {
                self.fail();
                self.waiting.push_back(Response::Failed(error));
            }
        }
    }

    /// Returns the next response of a simple query; `None` when it is over, and then its implicit
    /// transaction is, too. After [`Response::CopyIn`], the caller must send the copy data before
    /// the next call.
    pub async fn next(&mut self) -> Option<Response> {
        if std::mem::take(&mut self.begins) {
            self.read().await;
        }
        let response = stack::run_if_deep(self.levels, || self.next_inner()).await;
        if response.is_none() {
            // COPY goes on until its data have ended.
            if self.work.is_none() {
                self.end_transaction(true);
            }
            self.settle().await;
            self.slot.rests(self.status());
        }
        response
    }

    /// Returns the time until advisory locks that it has given up are to be
    /// [released](Session::settle): zero for now, more after a failure. `None` if there are none.
    pub fn owes_in(&self) -> Option<Duration> {
        let since = |failed| self.facts.clock.map(|clock| clock().saturating_sub(failed));
        let past = self.release_failed.and_then(since);
        let left = past.map_or(Duration::ZERO, |past| RELEASE_PAUSE.saturating_sub(past));
        self.facts.advisory.owes().then_some(left)
    }

    /// Releases the advisory locks that it has given up: those of a transaction that has ended, or
    /// of a call that was interrupted. What fails is done again [later](Session::owes_in).
    pub async fn settle(&mut self) {
        if self.owes_in() != Some(Duration::ZERO) {
            return;
        }
        let settled = self.facts.advisory.settle(&self.engine).await;
        let failed_before = self.release_failed.take().is_some();
        if let Err(error) = settled {
            self.release_failed = self.facts.clock.map(|clock| clock());
            if !failed_before {
                self.notices.push_back(SqlError::new("01000", error.message));
            }
        }
    }

    /// Ends the session: rolls its transaction back, and releases its advisory locks. A session
    /// that is dropped does so, too, but its locks are released a little later.
    pub async fn end(&mut self) {
        self.work = None;
        // What fails is done again by `Engine::keep_locks`.
        let _ = self.facts.advisory.end(&self.engine).await;
    }

    async fn next_inner(&mut self) -> Option<Response> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(Response::Notice(notice));
            }
            if let Some(response) = self.waiting.pop_front() {
                return Some(response);
            }
            if self.copying.is_some() {
                return None;
            }
            let step = match self.running.take() {
                Some(portal) => self.go_on(portal).await,
                None => match self.queue.pop_front() {
                    Some(parsed) => self.begin_next(parsed).await,
                    None if self.simple => {
                        self.simple = false;
                        match self.finish_implicit().await {
                            Ok(()) => return self.notices.pop_front().map(Response::Notice),
                            Err(error) => Err(error),
                        }
                    }
                    None => return None,
                },
            };
            match step {
                Ok(response) if self.notices.is_empty() => return Some(response),
                Ok(response) => self.waiting.push_back(response),
                Err(error) => {
                    let error = names::settle_position(error, &self.sql);
                    self.fail();
                    self.queue.clear();
                    self.simple = false;
                    return Some(Response::Failed(error));
                }
            }
            if let Some(notice) = self.notices.pop_front() {
                return Some(Response::Notice(notice));
            }
        }
    }

    async fn begin_next(&mut self, parsed: Parsed) -> Result<Response, SqlError> {
        self.refuse_if_failed(&parsed)?;
        let compiled = self.compile(Arc::new(parsed), Arc::from([])).await?;
        if !compiled.params.is_empty() {
            return Err(SqlError::new(state::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let last = self.queue.is_empty();
        self.go_on_last(Portal::new(compiled, Arc::from([])), last).await
    }

    async fn go_on(&mut self, portal: Portal) -> Result<Response, SqlError> {
        let last = self.queue.is_empty();
        self.go_on_last(portal, last).await
    }

    /// Runs a statement of a simple query. If it is the last one, the implicit transaction ends
    /// before its response is returned, so that success is not reported before it is durable.
    async fn go_on_last(&mut self, mut portal: Portal, last: bool) -> Result<Response, SqlError> {
        let response = self.run(&mut portal, CHUNK_ROWS).await?;
        match &response {
            response if response.goes_on() => self.running = Some(portal),
            Response::CopyIn { .. } => {}
            _ if last => return self.finish_with(response).await,
            _ => {}
        }
        Ok(response)
    }

    /// Commits the implicit transaction before the client sees the response of its last statement.
    /// Returns the response of the run that was committed.
    async fn finish_with(&mut self, response: Response) -> Result<Response, SqlError> {
        let Some(limit) = self.newest.take() else {
            self.finish_implicit().await?;
            return Ok(response);
        };
        self.unseen = Some(Unseen { response, limit });
        let finished = self.finish_implicit().await;
        let unseen = self.unseen.take();
        finished?;
        unseen.map(|it| it.response).ok_or_else(|| SqlError::corrupted("a response was lost"))
    }

    /// Runs a simple query and collects its responses, up to the point where COPY needs data.
    pub async fn simple(&mut self, sql: &str) -> Vec<Response> {
        self.start(sql);
        let mut responses = Vec::new();
        while let Some(response) = self.next().await {
            responses.push(response);
        }
        responses
    }

    fn refuse_if_failed(&self, parsed: &Parsed) -> Result<(), SqlError> {
        if self.work.as_ref().is_some_and(|work| work.failed)
            && !parse::ends_transaction(&parsed.statement)
        {
            return Err(SqlError::new(
                state::FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Prepares a statement under a name (the name "" may be overwritten). `params` are declared
    /// type ids, 0 if not declared.
    pub async fn parse(&mut self, name: &str, sql: &str, params: &[u32]) -> Result<(), SqlError> {
        let result = match parse::statements(sql) {
            Ok(statements) => {
                let deep = levels(&statements).max(self.replayed_levels());
                stack::run_if_deep(deep, || self.parse_inner(name, sql, statements, params)).await
            }
            Err(error) => Err(error),
        };
        result.map_err(|error| {
            self.fail();
            names::settle_position(error, sql)
        })
    }

    async fn parse_inner(
        &mut self,
        name: &str,
        sql: &str,
        mut statements: Vec<Parsed>,
        params: &[u32],
    ) -> Result<(), SqlError> {
        if !name.is_empty() {
            self.refuse_prepared(name)?;
        }
        if statements.len() > 1 {
            return Err(SqlError::new(
                state::SYNTAX,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let compiled = match statements.pop() {
            None => None,
            Some(parsed) => {
                self.refuse_if_failed(&parsed)?;
                let declared: Arc<[Option<Type>]> =
                    params.iter().map(|oid| Type::from_oid(*oid)).collect();
                Some(self.compile(Arc::new(parsed), declared).await?)
            }
        };
        self.prepared.insert(name.into(), Prepared { sql: Arc::from(sql), compiled, shown: None });
        Ok(())
    }

    /// Fails with 42P05 if there is a prepared statement of a name.
    pub(crate) fn refuse_prepared(&self, name: &str) -> Result<(), SqlError> {
        if self.prepared.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_STATEMENT, message));
        }
        Ok(())
    }

    /// Makes stack for the levels of another statement until the simple query is over.
    pub(crate) fn deepen(&mut self, levels: usize) {
        self.levels = self.levels.max(levels);
    }

    /// Keeps the plan of a portal for the next execution of its prepared statement: it is another
    /// one if the catalog has changed.
    pub(crate) fn keep_plan(&mut self, portal: &Portal) {
        if let (Some(prepared), Some(compiled)) =
            (self.prepared.get_mut(&portal.statement), &portal.compiled)
            && prepared.compiled.as_ref().is_some_and(|old| !Arc::ptr_eq(old, compiled))
        {
            prepared.compiled = Some(compiled.clone());
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<&Prepared, SqlError> {
        self.prepared.get(name).ok_or_else(|| {
            SqlError::new(
                state::NO_STATEMENT,
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    /// Returns the parameters and columns of a prepared statement.
    pub fn describe_statement(&self, name: &str) -> Result<Description, SqlError> {
        Ok(match &self.find(name)?.compiled {
            Some(compiled) => {
                Description { params: compiled.params.clone(), columns: self.columns_of(compiled) }
            }
            None => Description { params: Arc::from([]), columns: None },
        })
    }

    /// Returns the columns of a portal, or of a cursor of the name; `None` if it returns no rows.
    pub fn describe_portal(&self, name: &str) -> Result<Option<Arc<[Column]>>, SqlError> {
        if let Some(portal) = self.portals.get(name) {
            return Ok(portal.compiled.as_ref().and_then(|compiled| self.columns_of(compiled)));
        }
        let missing =
            || SqlError::new(state::NO_PORTAL, format!("portal \"{name}\" does not exist"));
        self.cursors.columns(name).map(Some).ok_or_else(missing)
    }

    /// Binds parameters, already of the types of [`Session::describe_statement`], to a prepared
    /// statement.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        params: Vec<Datum>,
    ) -> Result<(), SqlError> {
        let prepared = self.find(statement)?;
        let wanted = prepared.compiled.as_ref().map_or(0, |compiled| compiled.params.len());
        if params.len() != wanted {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {wanted}",
                params.len()
            );
            self.fail();
            return Err(SqlError::new(state::PROTOCOL_VIOLATION, message));
        }
        let bound = Portal::of_statement(statement, prepared.compiled.clone(), params.into());
        // Only the unnamed one is replaced.
        if !portal.is_empty()
            && let Err(error) = self.refuse_cursor(portal)
        {
            self.fail();
            return Err(error);
        }
        self.portals.insert(portal.into(), bound);
        Ok(())
    }

    /// Sets whether Sync follows the next statement, as far as it has arrived: a query that is a
    /// transaction by itself may read at a timestamp of its own shard only.
    pub fn ends_next(&mut self, yes: bool) {
        self.ends_next = yes;
    }

    /// Runs a portal, or continues it: at most `max_rows` rows, 0 for all. Returns one response,
    /// whose `done` is `None` if there are more rows. After an error, the caller skips messages
    /// until Sync.
    pub async fn execute(&mut self, portal: &str, max_rows: usize) -> Result<Response, SqlError> {
        let Some(mut running) = self.portals.remove(portal) else {
            return Err(SqlError::new(
                state::NO_PORTAL,
                format!("portal \"{portal}\" does not exist"),
            ));
        };
        let max = if max_rows == 0 { usize::MAX } else { max_rows };
        if let Some(prepared) = self.prepared.get(&running.statement) {
            self.slot.runs(prepared.sql.clone());
        }
        let result = match running.source() {
            None => return Ok(Response::Empty),
            Some(parsed) => match self.refuse_if_failed(parsed) {
                Ok(()) => {
                    let deep = parsed.levels.max(self.replayed_levels());
                    stack::run_if_deep(deep, || self.run(&mut running, max)).await
                }
                Err(error) => Err(error),
            },
        };
        self.slot.rests(self.status());
        match result {
            Ok(response) => {
                self.keep_plan(&running);
                if response.goes_on() {
                    self.portals.insert(portal.into(), running);
                } else if running.is_query() {
                    // All rows were wanted, or there are none beyond those that were.
                    let at_end =
                        matches!(&response, Response::Rows { rows, .. } if rows.len() < max);
                    running.end(at_end);
                    self.keep_portal(portal, running);
                }
                Ok(response)
            }
            Err(error) => {
                self.fail();
                let sql =
                    self.prepared.get(&running.statement).map(|prepared| prepared.sql.clone());
                Err(names::settle_position(error, sql.as_deref().unwrap_or("")))
            }
        }
    }

    /// Keeps a named portal until it is closed, or the transaction ends.
    pub(crate) fn keep_portal(&mut self, name: &str, portal: Portal) {
        if !name.is_empty() {
            self.portals.insert(name.into(), portal);
        }
    }

    /// Commits the implicit transaction before its client sees the response of its last statement,
    /// which Sync follows. If the commit loses a conflict, the statement runs again, and the
    /// response of the run that was committed is returned. A response that is not complete is
    /// returned at once. Not to be interrupted.
    pub async fn finish(&mut self, response: Response) -> Result<Response, SqlError> {
        let is_result = matches!(
            response,
            Response::Rows { .. } | Response::CopyOut { .. } | Response::Complete(_)
        );
        if !is_result || response.goes_on() {
            return Ok(response);
        }
        let deep = self.replayed_levels();
        let finished = stack::run_if_deep(deep, || self.finish_with(response)).await;
        if finished.is_err() {
            self.fail();
        }
        // A replay may have failed in another statement.
        finished.map_err(SqlError::unplaced)
    }

    /// True if it has a transaction, which an interruption rolls back.
    pub fn has_transaction(&self) -> bool {
        self.work.is_some()
    }

    /// True if a query has changed a setting since the last call.
    pub fn has_set(&mut self) -> bool {
        std::mem::take(&mut self.has_set)
    }

    /// Takes the notices since the last call, for the extended protocol; a simple query returns
    /// them among its responses.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        self.notices.drain(..).collect()
    }

    /// Removes a prepared statement.
    pub fn close_statement(&mut self, name: &str) {
        self.prepared.remove(name);
    }

    /// Removes a portal, or a cursor of the name.
    pub fn close_portal(&mut self, name: &str) {
        if self.portals.remove(name).is_none() {
            // There may be none: Close succeeds in any case.
            let _ = self.cursors.close(Some(name));
        }
    }

    /// Handles Sync: commits the implicit transaction, or rolls it back after an error.
    pub async fn sync(&mut self) -> Result<(), SqlError> {
        if self.work.as_ref().is_some_and(|work| work.explicit) {
            self.settle().await;
            return Ok(());
        }
        let deep = self.replayed_levels();
        let finished = stack::run_if_deep(deep, || self.finish_implicit()).await;
        self.end_transaction(finished.is_ok());
        self.settle().await;
        finished.map_err(SqlError::unplaced)
    }

    /// Fails the transaction after a statement was cancelled by dropping its future. Returns the
    /// error for the client: 57014, or 40003 if the commit was in progress and can no longer be
    /// undone.
    pub fn interrupt(&mut self) -> SqlError {
        self.fail();
        self.begins = false;
        self.queue.clear();
        self.waiting.clear();
        self.running = None;
        self.copying = None;
        self.simple = false;
        self.unseen = None;
        self.slot.rests(self.status());
        if std::mem::take(&mut self.committing) {
            return crate::commit::unknown()
                .detail("It was interrupted while it was being committed.");
        }
        SqlError::new(state::CANCELED, "canceling statement due to user request")
    }

    /// Returns the levels of the statements that may run again.
    fn replayed_levels(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.levels)
    }

    /// Rolls an implicit transaction back; an explicit one waits for ROLLBACK.
    pub(crate) fn fail(&mut self) {
        self.copying = None;
        match &mut self.work {
            Some(work) if work.explicit => work.fail(&self.facts.advisory),
            _ => self.end_transaction(false),
        }
    }

    /// Ends the simple query after a failed COPY.
    pub(crate) fn abandon_copy(&mut self) {
        self.fail();
        self.queue.clear();
        self.simple = false;
    }

    /// True if no later statement of the simple query shares the statement's implicit transaction;
    /// always true in the extended protocol.
    pub(crate) fn is_alone(&self) -> bool {
        !self.simple || self.queue.is_empty()
    }

    /// True if no statement of the simple query is left.
    pub(crate) fn is_last(&self) -> bool {
        self.simple && self.queue.is_empty()
    }

    pub(crate) fn is_write(compiled: &Compiled) -> bool {
        !matches!(compiled.plan, Plan::Control) && !compiled.only_reads()
    }
}
