//! A session on the wire protocol: one loop over the client's messages.

use crate::cancel::Entry;
use crate::connection::shutting_down;
use crate::counters::count;
use crate::frontend::{self, Bind, Frontend, Target};
use crate::link::{End, Link, OUTPUT_BYTES};
use crate::result::{Formats, as_report, describe_columns, notice, send_row};
use crate::run::{self, Interruption, Limits};
use crate::server::{ServerState, stops};
use crate::settings::Settings;
use meridian_sql::{
    Column, Datum, Local, Notification, Response, Session, SqlError, Status, Type, state,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout};

/// The number of rows that are requested from a portal at once, whatever the client's limit: the
/// part of a large result that a session holds.
const ROWS_AT_ONCE: usize = 1024;

/// The time that a session waits for notifications of its own before it is ready.
const OWN_NOTIFICATIONS: Duration = Duration::from_secs(1);

/// The messages that the session accepts next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expecting {
    /// Any message.
    Messages,
    /// Sync, after an error in the extended protocol.
    Sync,
    /// Data of a COPY that a simple query began.
    CopyOfQuery,
    /// Data of a COPY that an Execute began.
    CopyOfPortal,
}

pub(crate) struct Wire {
    session: Session,
    state: Arc<ServerState>,
    entry: Entry,
    settings: Settings,
    /// True if a SET ran since the session was last idle: the end of its transaction may undo
    /// settings.
    settings_touched: bool,
    expecting: Expecting,
    /// The formats of the unnamed portal, and of named ones.
    unnamed: Formats,
    named: HashMap<String, Formats>,
    /// True if ReadyForQuery was sent, and no message has arrived since.
    at_rest: bool,
    stopping: watch::Receiver<bool>,
    /// The deadline of the running statement.
    deadline: Option<Instant>,
    /// True if the running simple query has a long text.
    heavy: bool,
    text: String,
    /// The session's permit, held until it ends.
    _place: OwnedSemaphorePermit,
}

/// The reason why a statement has no result: its own error (the connection continues), or the end
/// of the connection.
enum Stop {
    Error(SqlError),
    End(End),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(error)
    }
}

impl From<End> for Stop {
    fn from(end: End) -> Stop {
        Stop::End(end)
    }
}

impl Wire {
    pub(crate) fn new(
        session: Session,
        state: Arc<ServerState>,
        entry: Entry,
        place: OwnedSemaphorePermit,
    ) -> Wire {
        Wire {
            session,
            at_rest: false,
            stopping: state.stopping.clone(),
            state,
            entry,
            settings: Settings::default(),
            settings_touched: false,
            expecting: Expecting::Messages,
            unnamed: Formats::Text,
            named: HashMap::new(),
            deadline: None,
            heavy: false,
            text: String::new(),
            _place: place,
        }
    }

    /// Sends the messages that follow AuthenticationOk. `refused` are startup settings that this
    /// server rejects, each with a warning.
    pub(crate) fn greet(&mut self, link: &mut Link, refused: &[SqlError]) {
        let version = format!("15.0 (Meridian {})", self.state.options.version);
        link.answers.parameter_status("server_version", &version);
        link.answers.parameter_status("session_authorization", self.session.user());
        self.refresh_settings(link);
        link.answers.backend_key(self.entry.process, self.entry.secret);
        for error in refused {
            notice(link, error);
        }
        self.ready(link);
    }

    /// Serves until the connection ends.
    pub(crate) async fn run(&mut self, link: &mut Link) -> End {
        let limit_bytes = self.state.options.message_limit_bytes;
        loop {
            let step = match frontend::message(&mut link.input, limit_bytes) {
                Ok(Some(message)) => self.on_message(link, message).await,
                Ok(None) => self.wait(link).await,
                Err(malformed) => return malformed.into(),
            };
            match step {
                Ok(()) => {}
                Err(Stop::End(end)) => return end,
                Err(Stop::Error(error)) => {
                    self.fail(link, &error);
                    // An error in a COPY inside a simple query ends the query; otherwise the client
                    // has to send Sync.
                    if self.expecting == Expecting::CopyOfQuery {
                        self.expecting = Expecting::Messages;
                        self.ready(link);
                    } else {
                        self.expecting = Expecting::Sync;
                        // The client of a COPY may wait for this before it sends Sync.
                        link.due = true;
                    }
                }
            }
            // Locks that were given up are released while the client is not waited for.
            if self.at_rest
                && self.session.owes_in().is_some_and(|after| after.is_zero())
                && let Err(end) =
                    run::uninterrupted(link, &self.entry, || self.session.settle()).await
            {
                return end;
            }
            if link.answers.len() > OUTPUT_BYTES
                && let Err(end) = link.flush().await
            {
                return end;
            }
        }
    }

    /// Ends the session.
    pub(crate) async fn end(&mut self) {
        self.session.end().await;
    }

    /// Sends the responses that the client waits for, then waits for the client.
    async fn wait(&mut self, link: &mut Link) -> Result<(), Stop> {
        if link.due {
            link.flush().await?;
        }
        // Between statements a block may be idle up to the timeout; inside a COPY the statement
        // itself waits.
        let copying = matches!(self.expecting, Expecting::CopyOfQuery | Expecting::CopyOfPortal);
        let idle_timeout = self.settings.idle_in_transaction_timeout;
        let idle_timeout =
            idle_timeout.filter(|_| self.at_rest && self.session.status() != Status::Idle);
        let idle = async {
            match idle_timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let owed_in = self.session.owes_in().filter(|_| self.at_rest);
        let owes = async {
            match owed_in {
                Some(after) => tokio::time::sleep(after).await,
                None => std::future::pending().await,
            }
        };
        let running = &self.entry.running;
        let terminated = async {
            loop {
                let told = running.cancelled.notified();
                if running.is_terminated() {
                    break;
                }
                told.await;
            }
        };
        let is_open = self.at_rest && self.session.status() == Status::Idle;
        let arrival = is_open.then(|| self.session.notified());
        let notified = async {
            match arrival {
                Some(arrival) => arrival.await,
                None => std::future::pending().await,
            }
        };
        let limits = Limits::of(&self.entry, self.deadline);
        let interrupted = async {
            if copying { limits.interrupted().await } else { std::future::pending().await }
        };
        let interruption = tokio::select! {
            biased;
            received = link.receive() => return Ok(received?),
            () = stops(&mut self.stopping) => return Err(shutting_down().into()),
            () = terminated => return Err(shutting_down().into()),
            () = owes => return Ok(()),
            () = idle => {
                count(&self.state.counters.timeouts_total);
                let why = "terminating connection due to idle-in-transaction timeout";
                return Err(End::fatal("25P03", why).into());
            }
            () = notified => {
                self.send_notifications(link);
                link.due = true;
                return self.check_notifications();
            }
            interruption = interrupted => interruption,
        };
        Err(interruption.settle(&mut self.session, &self.state).into())
    }

    async fn on_message(&mut self, link: &mut Link, message: Frontend) -> Result<(), Stop> {
        self.at_rest = false;
        match self.expecting {
            Expecting::Messages => {}
            Expecting::Sync => match message {
                Frontend::Sync => self.expecting = Expecting::Messages,
                Frontend::Terminate => return Err(End::Closed.into()),
                _ => return Ok(()),
            },
            Expecting::CopyOfQuery | Expecting::CopyOfPortal => {
                return self.on_copy(link, message).await;
            }
        }
        match message {
            Frontend::Query(text) => self.on_query(link, text.as_str()).await,
            Frontend::Parse { name, query, types } => {
                self.begin_statement();
                let heavy = run::is_heavy(query.as_str());
                run::statement(link, &self.entry, self.deadline, heavy, || {
                    self.session.parse(name.as_str(), query.as_str(), &types)
                })
                .await?
                .settle(&mut self.session, &self.state)?;
                link.answers.parse_complete();
                Ok(())
            }
            Frontend::Bind(bind) => self.on_bind(link, bind).await,
            Frontend::Describe(Target::Statement(name)) => {
                let description = self.session.describe_statement(name.as_str())?;
                link.answers.parameter_description(description.params.iter().map(|ty| ty.oid()));
                describe_columns(link, description.columns.as_deref(), &Formats::Text);
                Ok(())
            }
            Frontend::Describe(Target::Portal(name)) => {
                let columns = self.session.describe_portal(name.as_str())?;
                describe_columns(link, columns.as_deref(), self.formats(name.as_str()));
                Ok(())
            }
            Frontend::Execute { portal, limit } => {
                self.on_execute(link, portal.as_str(), limit as usize).await
            }
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => self.session.close_statement(name.as_str()),
                    Target::Portal(name) => {
                        self.session.close_portal(name.as_str());
                        self.named.remove(name.as_str());
                    }
                }
                link.answers.close_complete();
                Ok(())
            }
            Frontend::Flush => {
                link.due = true;
                Ok(())
            }
            Frontend::Sync => self.on_sync(link).await,
            // Data of a COPY that has failed already.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Terminate => Err(End::Closed.into()),
            Frontend::NotText { what, in_query } => {
                let error = SqlError::new(
                    "22021",
                    format!("invalid byte sequence for encoding \"UTF8\" in {what}"),
                )
                .hint("This server reads UTF-8 only: convert the text.");
                if in_query {
                    self.fail(link, &error);
                    self.ready(link);
                    return Ok(());
                }
                Err(error.into())
            }
        }
    }

    async fn on_query(&mut self, link: &mut Link, text: &str) -> Result<(), Stop> {
        self.heavy = run::is_heavy(text);
        self.session.start(text);
        self.begin_statement();
        self.entry.running.runs(true);
        self.go_on_with_query(link).await
    }

    /// Sends the responses of a simple query up to its end, or to a COPY that needs data.
    async fn go_on_with_query(&mut self, link: &mut Link) -> Result<(), Stop> {
        // A result comes in chunks: its description goes before the first, its tag after the last.
        let mut inside_result = false;
        loop {
            let session = &mut self.session;
            let next =
                run::statement(link, &self.entry, self.deadline, self.heavy, move || async move {
                    Ok(session.next().await)
                })
                .await?;
            let response = match next.settle(&mut self.session, &self.state) {
                Ok(Some(response)) => response,
                Ok(None) => break,
                Err(error) => {
                    self.fail(link, &error);
                    break;
                }
            };
            let over = match response {
                Response::Rows { columns, rows, done } => {
                    if !inside_result {
                        describe_columns(link, Some(&columns), &Formats::Text);
                    }
                    let sent = self.send_rows(link, &columns, &rows, &Formats::Text).await;
                    if self.is_cut(link, sent)? {
                        break;
                    }
                    inside_result = done.is_none();
                    if let Some(tag) = &done {
                        self.complete(link, tag);
                    }
                    !inside_result
                }
                Response::Complete(tag) => {
                    self.complete(link, &tag);
                    true
                }
                Response::CopyOut { columns, is_binary, records, done } => {
                    if !inside_result {
                        link.answers.copy_out(columns, is_binary);
                    }
                    let sent = self.send_records(link, &records).await;
                    if self.is_cut(link, sent)? {
                        break;
                    }
                    inside_result = done.is_none();
                    if let Some(tag) = &done {
                        link.answers.copy_done();
                        self.complete(link, tag);
                    }
                    !inside_result
                }
                Response::CopyIn { columns, is_binary } => {
                    self.begin_copy(link, columns, is_binary, Expecting::CopyOfQuery);
                    return Ok(());
                }
                Response::Empty => {
                    link.answers.empty_query();
                    true
                }
                Response::Notice(error) => {
                    notice(link, &error);
                    false
                }
                Response::Failed(error) => {
                    self.report(link, &error);
                    true
                }
            };
            if over {
                self.begin_statement();
            }
        }
        self.read_notifications(link).await?;
        self.ready(link);
        Ok(())
    }

    async fn on_bind(&mut self, link: &mut Link, bind: Bind) -> Result<(), Stop> {
        let statement = bind.statement.as_str();
        let description = self.session.describe_statement(statement)?;
        if bind.parameters.len() != description.params.len() {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {}",
                    bind.parameters.len(),
                    description.params.len()
                ),
            )
            .into());
        }
        let columns = description.columns.as_ref().map_or(0, |columns| columns.len());
        if bind.result_formats.len() > 1 && bind.result_formats.len() != columns {
            return Err(SqlError::new(
                "08P01",
                format!(
                    "bind message has {} result formats but query has {columns} columns",
                    bind.result_formats.len()
                ),
            )
            .into());
        }
        let mut params = values(&bind, &description.params, self.session.local());
        // A label may be newer than the plan.
        let is_bad = params.as_ref().is_err_and(|error| error.sqlstate == state::BAD_TEXT);
        if is_bad && self.session.renew(statement).await? {
            let newest = self.session.describe_statement(statement)?.params;
            params = values(&bind, &newest, self.session.local());
        }
        let params = params?;
        let portal = bind.portal.as_str();
        self.session.bind(portal, statement, params)?;
        let formats = Formats::of(bind.result_formats);
        if portal.is_empty() {
            self.unnamed = formats;
        } else {
            self.named.insert(portal.to_owned(), formats);
        }
        link.answers.bind_complete();
        Ok(())
    }

    async fn on_execute(
        &mut self,
        link: &mut Link,
        portal: &str,
        limit: usize,
    ) -> Result<(), Stop> {
        self.begin_statement();
        self.entry.running.runs(true);
        let executed = self.run_portal(link, portal, limit).await;
        self.entry.running.runs(false);
        executed
    }

    async fn run_portal(
        &mut self,
        link: &mut Link,
        portal: &str,
        limit: usize,
    ) -> Result<(), Stop> {
        let formats = self.formats(portal).clone();
        let ends = link.input.first() == Some(&b'S');
        self.session.ends_next(ends);
        let (mut sent, mut inside_copy) = (0, false);
        loop {
            let ask = match limit {
                0 => ROWS_AT_ONCE,
                limit => (limit - sent).min(ROWS_AT_ONCE),
            };
            let response = run::statement(link, &self.entry, self.deadline, false, || {
                self.session.execute(portal, ask)
            })
            .await?;
            let mut response = response.settle(&mut self.session, &self.state)?;
            if ends {
                // As behind Sync: a commit is short, and its outcome would be unknown.
                response = run::uninterrupted(link, &self.entry, || self.session.finish(response))
                    .await??;
            }
            self.send_notices(link);
            match response {
                Response::Rows { columns, rows, done } => {
                    self.send_rows(link, &columns, &rows, &formats).await?;
                    sent += rows.len();
                    match done {
                        // The tag counts the rows of this Execute, not of the whole portal.
                        Some(tag)
                            if tag
                                .strip_prefix("SELECT ")
                                .is_some_and(|n| n.parse() != Ok(sent)) =>
                        {
                            self.complete(link, &format!("SELECT {sent}"));
                        }
                        Some(tag) => self.complete(link, &tag),
                        None if sent == limit => link.answers.portal_suspended(),
                        None => continue,
                    }
                }
                Response::Complete(tag) => self.complete(link, &tag),
                // All of it, whatever the limit: the portal is no query.
                Response::CopyOut { columns, is_binary, records, done } => {
                    if !inside_copy {
                        link.answers.copy_out(columns, is_binary);
                    }
                    inside_copy = true;
                    self.send_records(link, &records).await?;
                    let Some(tag) = done else { continue };
                    link.answers.copy_done();
                    self.complete(link, &tag);
                }
                Response::CopyIn { columns, is_binary } => {
                    self.begin_copy(link, columns, is_binary, Expecting::CopyOfPortal)
                }
                Response::Empty => link.answers.empty_query(),
                Response::Notice(error) => {
                    notice(link, &error);
                    continue;
                }
                Response::Failed(error) => return Err(error.into()),
            }
            return Ok(());
        }
    }

    async fn on_sync(&mut self, link: &mut Link) -> Result<(), Stop> {
        // A commit is not interrupted: it is short, and its outcome would be unknown.
        let synced = run::uninterrupted(link, &self.entry, || self.session.sync()).await?;
        self.send_notices(link);
        if let Err(error) = synced {
            self.report(link, &error);
        }
        self.read_notifications(link).await?;
        self.ready(link);
        Ok(())
    }

    fn begin_copy(
        &mut self,
        link: &mut Link,
        columns: usize,
        is_binary: bool,
        expecting: Expecting,
    ) {
        link.answers.copy_in(columns, is_binary);
        link.due = true;
        self.expecting = expecting;
    }

    async fn on_copy(&mut self, link: &mut Link, message: Frontend) -> Result<(), Stop> {
        match message {
            Frontend::CopyData(rows) => {
                let copied = run::statement(link, &self.entry, self.deadline, false, || {
                    self.session.copy_data(&rows)
                })
                .await?;
                Ok(copied.settle(&mut self.session, &self.state)?)
            }
            Frontend::CopyDone => {
                let done = run::statement(link, &self.entry, self.deadline, false, || {
                    self.session.copy_done()
                })
                .await?;
                match done.settle(&mut self.session, &self.state)? {
                    Response::Complete(tag) => self.complete(link, &tag),
                    Response::Failed(error) => return Err(error.into()),
                    other => tracing::error!(
                        ?other,
                        "a COPY ended with a response that is no command tag"
                    ),
                }
                let of_query = self.expecting == Expecting::CopyOfQuery;
                self.expecting = Expecting::Messages;
                if of_query {
                    self.begin_statement();
                    return self.go_on_with_query(link).await;
                }
                Ok(())
            }
            Frontend::CopyFail(why) => Err(self.session.copy_fail(why.as_str()).await.into()),
            // Ignored, as in PostgreSQL: a client may send them without knowing that a COPY began.
            Frontend::Flush | Frontend::Sync => Ok(()),
            Frontend::Terminate => Err(End::Closed.into()),
            _ => Err(End::fatal("08P01", "unexpected message type during COPY from stdin").into()),
        }
    }

    fn formats(&self, portal: &str) -> &Formats {
        match portal {
            "" => &self.unnamed,
            name => self.named.get(name).unwrap_or(&Formats::Text),
        }
    }

    /// Starts the statement timeout.
    fn begin_statement(&mut self) {
        self.deadline = self.settings.statement_timeout.map(|timeout| Instant::now() + timeout);
    }

    async fn send_rows(
        &mut self,
        link: &mut Link,
        columns: &[Column],
        rows: &[Vec<Datum>],
        formats: &Formats,
    ) -> Result<(), Stop> {
        let zone = self.session.zone().clone();
        for row in rows {
            send_row(link, &mut self.text, columns, row, formats, &zone);
            self.relieve(link).await?;
        }
        Ok(())
    }

    /// True if a part of a result was not sent because its statement has failed, which is reported.
    fn is_cut(&mut self, link: &mut Link, sent: Result<(), Stop>) -> Result<bool, Stop> {
        match sent {
            Ok(()) => Ok(false),
            Err(Stop::Error(error)) => {
                self.fail(link, &error);
                Ok(true)
            }
            Err(end) => Err(end),
        }
    }

    /// Sends records of COPY … TO.
    async fn send_records(&mut self, link: &mut Link, records: &[Vec<u8>]) -> Result<(), Stop> {
        for record in records {
            link.answers.copy_data(record);
            self.relieve(link).await?;
        }
        Ok(())
    }

    /// Sends the responses if there are many.
    async fn relieve(&mut self, link: &mut Link) -> Result<(), Stop> {
        if link.answers.len() <= OUTPUT_BYTES {
            return Ok(());
        }
        if !self.session.has_transaction() {
            // It is committed: no interruption undoes it.
            link.flush().await?;
            return Ok(());
        }
        let limits = Limits::of(&self.entry, self.deadline);
        match run::flush(link, limits).await? {
            Ok(()) => Ok(()),
            Err(interruption) => Err(interruption.settle(&mut self.session, &self.state).into()),
        }
    }

    /// Sends the notices of the extended protocol; in a simple query they are among the responses.
    fn send_notices(&mut self, link: &mut Link) {
        for error in self.session.take_notices() {
            notice(link, &error);
        }
    }

    /// Reads what the session itself has notified, so that its client gets it before ReadyForQuery.
    /// Ends the connection if notifications were lost.
    async fn read_notifications(&mut self, link: &mut Link) -> Result<(), Stop> {
        if self.session.has_notified() {
            let read = timeout(OWN_NOTIFICATIONS, self.session.read_notifications());
            // The delivery reads what is not read in time.
            let _ = run::uninterrupted(link, &self.entry, move || read).await?;
        }
        match self.session.listens() && self.session.status() == Status::Idle {
            true => self.check_notifications(),
            false => Ok(()),
        }
    }

    /// Sends the notifications that have arrived. The session is in no transaction.
    fn send_notifications(&mut self, link: &mut Link) {
        for notification in self.session.take_notifications() {
            let Notification { pid, channel, payload } = &*notification;
            link.answers.notification(*pid, channel, payload);
        }
    }

    /// Ends the connection if notifications were lost.
    fn check_notifications(&self) -> Result<(), Stop> {
        if !self.session.has_lost_notifications() {
            return Ok(());
        }
        Err(Stop::End(End::Fatal {
            code: "54000",
            message: "notifications of this session were lost".into(),
            detail: Some(
                "It has not taken them for too long, or its node could not read them.".into(),
            ),
            hint: Some("Connect and LISTEN again, and read what has changed.".into()),
        }))
    }

    fn complete(&mut self, link: &mut Link, tag: &str) {
        self.state.counters.statements_total.fetch_add(1, Relaxed);
        link.answers.command_complete(tag);
        if self.session.has_set() || matches!(tag, "SET" | "RESET" | "DISCARD ALL") {
            self.settings_touched = true;
            self.refresh_settings(link);
        }
    }

    /// Reports an error of the wire protocol, which also fails the transaction.
    fn fail(&mut self, link: &mut Link, error: &SqlError) {
        self.session.interrupt();
        self.report(link, error);
    }

    fn report(&mut self, link: &mut Link, error: &SqlError) {
        count(&self.state.counters.errors_total);
        link.answers.error(&as_report("ERROR", error));
    }

    fn ready(&mut self, link: &mut Link) {
        let status = self.session.status();
        if self.settings_touched {
            self.refresh_settings(link);
            self.settings_touched = status != Status::Idle;
        }
        if status == Status::Idle {
            self.named.clear();
            if self.session.listens() {
                self.send_notifications(link);
            }
        }
        if self.session.listens() {
            // In a block, too: what arrives meanwhile is sent when the block has ended.
            self.state.deliveries.begin(self.session.engine());
        }
        link.answers.ready(status.byte());
        self.entry.running.runs(false);
        link.due = true;
        self.at_rest = true;
        self.deadline = None;
    }

    fn refresh_settings(&mut self, link: &mut Link) {
        self.settings
            .refresh(&self.session, |name, value| link.answers.parameter_status(name, value));
    }
}

/// Returns the values of parameters of these types.
fn values(bind: &Bind, types: &[Type], local: Local<'_>) -> Result<Vec<Datum>, SqlError> {
    let mut params = Vec::with_capacity(bind.parameters.len());
    for (index, (bytes, &ty)) in bind.parameters.iter().zip(types).enumerate() {
        let Some(bytes) = bytes else {
            params.push(Datum::Null);
            continue;
        };
        let format = match bind.parameter_formats[..] {
            [] => 0,
            [format] => format,
            _ => bind.parameter_formats[index],
        };
        let value = if format == 1 {
            Datum::from_binary(ty, bytes)
        } else {
            match std::str::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => Datum::from_text_in(ty, text, local),
                _ => Err(SqlError::new("22021", "invalid byte sequence for encoding \"UTF8\"")),
            }
        };
        params.push(value.map_err(|mut error| {
            let place = format!("parameter ${}", index + 1);
            error.detail =
                Some(error.detail.map_or(place.clone(), |detail| format!("{detail} ({place})")));
            error
        })?);
    }
    Ok(params)
}

impl Interruption {
    /// Interrupts the session, and returns the error.
    fn settle(self, session: &mut Session, state: &ServerState) -> SqlError {
        let mut error = session.interrupt();
        if self == Interruption::TimedOut {
            count(&state.counters.timeouts_total);
            // An SQLSTATE other than 57014 takes precedence: the outcome may be unknown.
            if error.sqlstate == "57014" {
                error.message = "canceling statement due to statement timeout".into();
            }
        }
        error
    }
}

/// The result of a statement, or its interruption.
pub(crate) type Came<T> = Result<Result<T, SqlError>, Interruption>;

/// Reports a statement's interruption to its session.
trait Settle<T> {
    fn settle(self, session: &mut Session, state: &ServerState) -> Result<T, SqlError>;
}

impl<T> Settle<T> for Came<T> {
    fn settle(self, session: &mut Session, state: &ServerState) -> Result<T, SqlError> {
        match self {
            Ok(answer) => answer,
            Err(interruption) => Err(interruption.settle(session, state)),
        }
    }
}
