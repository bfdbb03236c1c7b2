//! A session: one client's settings, prepared statements, portals and transaction.

use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::response::{Column, Description, Response, Status};
use std::collections::VecDeque;
use std::sync::Arc;

/// One client's session.
pub struct Session {
    engine: Arc<Engine>,
    user: String,
    waiting: VecDeque<Response>,
}

impl Session {
    /// A session of a user on a database.
    pub fn new(engine: Arc<Engine>, user: impl Into<String>) -> Self {
        Session { engine, user: user.into(), waiting: VecDeque::new() }
    }

    /// The database.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// For ReadyForQuery.
    pub fn status(&self) -> Status {
        Status::Idle
    }

    /// A setting's value as SHOW prints it.
    pub fn setting(&self, _name: &str) -> Option<String> {
        None
    }

    /// Sets a setting: a start-up parameter, or SET.
    pub fn set(&mut self, name: &str, _value: &str) -> Result<(), SqlError> {
        Err(SqlError::unsupported(format!("the setting \"{name}\"")))
    }

    /// Starts a simple query, of any number of statements; its answers come from [`Session::next`].
    pub fn start(&mut self, sql: &str) {
        self.waiting.push_back(if sql.trim().is_empty() {
            Response::Empty
        } else {
            Response::Failed(SqlError::unsupported("this statement"))
        });
    }

    /// The next answer of a simple query; `None` when it is over, and then its implicit transaction is, too. After
    /// [`Response::CopyIn`], copy data are to be sent before asking again.
    pub async fn next(&mut self) -> Option<Response> {
        self.waiting.pop_front()
    }

    /// Runs a simple query and collects its answers.
    pub async fn simple(&mut self, sql: &str) -> Vec<Response> {
        self.start(sql);
        let mut responses = Vec::new();
        while let Some(response) = self.next().await {
            let copy = matches!(response, Response::CopyIn { .. });
            responses.push(response);
            if copy {
                break;
            }
        }
        responses
    }

    /// Prepares a statement under a name ("" is overwritten freely). `params` are declared type ids, 0 where not declared.
    pub async fn parse(&mut self, _name: &str, _sql: &str, _params: &[u32]) -> Result<(), SqlError> {
        Err(SqlError::unsupported("this statement"))
    }

    /// What a prepared statement takes and returns.
    pub fn describe_statement(&self, name: &str) -> Result<Description, SqlError> {
        Err(SqlError::new("26000", format!("prepared statement \"{name}\" does not exist")))
    }

    /// The columns of a portal, `None` when it returns no rows.
    pub fn describe_portal(&self, name: &str) -> Result<Option<Arc<[Column]>>, SqlError> {
        Err(SqlError::new("34000", format!("portal \"{name}\" does not exist")))
    }

    /// Binds parameters, already of the types that [`Session::describe_statement`] says, to a prepared statement.
    pub fn bind(&mut self, _portal: &str, statement: &str, _params: Vec<Datum>) -> Result<(), SqlError> {
        Err(SqlError::new("26000", format!("prepared statement \"{statement}\" does not exist")))
    }

    /// Runs a portal, or goes on with it: at most `max_rows` rows, 0 for all. One answer; its `done` tells whether there are more.
    /// After an error, the caller skips messages until Sync.
    pub async fn execute(&mut self, portal: &str, _max_rows: usize) -> Result<Response, SqlError> {
        Err(SqlError::new("34000", format!("portal \"{portal}\" does not exist")))
    }

    /// Forgets a prepared statement.
    pub fn close_statement(&mut self, _name: &str) {}

    /// Forgets a portal.
    pub fn close_portal(&mut self, _name: &str) {}

    /// Sync: commits what ran outside a transaction block, or rolls it back after an error.
    pub async fn sync(&mut self) -> Result<(), SqlError> {
        Ok(())
    }

    /// The wire says: the future of [`Session::next`], [`Session::execute`], [`Session::sync`] or a `copy_…` was dropped before it was ready
    /// (cancel, timeout), or the wire found an error of its own (a parameter that cannot be read). What ran is rolled back, the
    /// rest of a simple query is dropped, and a transaction block is failed. True when a commit was under way already: its
    /// outcome is unknown, and the wire answers 40003 instead of 57014.
    pub fn interrupt(&mut self) -> bool {
        self.waiting.clear();
        false
    }

    /// Rows of COPY FROM STDIN, cut anywhere.
    pub async fn copy_data(&mut self, _data: &[u8]) -> Result<(), SqlError> {
        Err(SqlError::new("08P01", "no COPY is in progress"))
    }

    /// The end of the rows: answers with the command tag.
    pub async fn copy_done(&mut self) -> Result<Response, SqlError> {
        Err(SqlError::new("08P01", "no COPY is in progress"))
    }

    /// The client gave up: the COPY fails with its message.
    pub async fn copy_fail(&mut self, message: &str) -> SqlError {
        SqlError::new("57014", format!("COPY from stdin failed: {message}"))
    }
}
