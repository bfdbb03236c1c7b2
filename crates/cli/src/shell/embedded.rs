//! A session inside this process: without a port, and without a copy of the rows over a connection.

use super::backend::{Answer, Backend, Heading, State};
use super::fault::Fault;
use meridian::node_server::NodeServer;
use meridian_sql::{Column, Response, Session, SqlError, Status, Type};
use std::sync::Arc;
use tokio::runtime::Handle;

/// A session on a database of this process.
pub struct Embedded {
    runtime: Handle,
    node_server: Arc<NodeServer>,
    session: Session,
    describe: String,
}

impl Embedded {
    /// Opens a session on the default database. `describe` names the place of the data.
    pub fn new(
        runtime: Handle,
        node_server: Arc<NodeServer>,
        describe: impl Into<String>,
    ) -> Embedded {
        let session = Session::new(node_server.first(), "root");
        Embedded { runtime, node_server, session, describe: describe.into() }
    }
}

fn fault(severity: &str, error: SqlError) -> Fault {
    Fault {
        severity: severity.into(),
        sqlstate: error.sqlstate.into(),
        message: error.message,
        detail: error.detail,
        hint: error.hint,
        position: error.position,
    }
}

fn heading(column: &Column) -> Heading {
    let number = column.ty.is_number() || column.ty == Type::Oid;
    Heading { name: column.name.clone(), number: Some(number) }
}

async fn run(session: &mut Session, sql: &str, data: Option<&[u8]>) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut open: Option<Vec<Vec<Option<String>>>> = None;
    let mut copied_out = Vec::new();
    session.start(sql);
    loop {
        let next = tokio::select! {
            next = session.next() => Some(next),
            _ = tokio::signal::ctrl_c() => None,
        };
        let response = match next {
            Some(Some(response)) => response,
            Some(None) => return answers,
            None => {
                // 57014, or 40003 if a commit was in progress.
                let error = session.interrupt();
                answers.push(Answer::Failed(fault("ERROR", error)));
                return answers;
            }
        };
        match response {
            Response::Rows { columns, rows, done } => {
                let all = open.get_or_insert_default();
                all.extend(rows.iter().map(|row| -> Vec<Option<String>> {
                    row.iter()
                        .zip(columns.iter())
                        .map(|(datum, column)| datum.to_text_in(column.ty, session.zone()))
                        .collect()
                }));
                if let Some(tag) = done {
                    let rows = open.take().unwrap_or_default();
                    answers.push(Answer::Rows {
                        headings: columns.iter().map(heading).collect(),
                        rows,
                        tag,
                    });
                }
            }
            Response::CopyOut { records, done, .. } => {
                copied_out.extend(records.concat());
                if done.is_some() {
                    answers.push(Answer::Copied(std::mem::take(&mut copied_out)));
                }
            }
            Response::Complete(tag) => answers.push(Answer::Done(tag)),
            Response::Notice(notice) => {
                let severity = if meridian_sql::is_warning(&notice) { "WARNING" } else { "NOTICE" };
                answers.push(Answer::Notice(fault(severity, notice)));
            }
            Response::Failed(error) => answers.push(Answer::Failed(fault("ERROR", error))),
            Response::CopyIn { .. } => answers.push(match copied(session, data).await {
                Ok(tag) => Answer::Done(tag),
                Err(error) => Answer::Failed(fault("ERROR", error)),
            }),
            Response::Empty => {}
        }
    }
}

/// Sends a COPY its rows, and returns its tag.
async fn copied(session: &mut Session, data: Option<&[u8]>) -> Result<String, SqlError> {
    let Some(data) = data else {
        return Err(session.copy_fail("no lines follow it").await);
    };
    session.copy_data(data).await?;
    match session.copy_done().await? {
        Response::Complete(tag) => Ok(tag),
        Response::Failed(error) => Err(error),
        _ => Ok("COPY".to_owned()),
    }
}

impl Backend for Embedded {
    fn run(&mut self, sql: &str) -> Vec<Answer> {
        self.runtime.block_on(run(&mut self.session, sql, None))
    }

    fn copy(&mut self, sql: &str, data: &[u8]) -> Vec<Answer> {
        self.runtime.block_on(run(&mut self.session, sql, Some(data)))
    }

    fn database(&self) -> &str {
        self.session.engine().name()
    }

    fn state(&self) -> State {
        match self.session.status() {
            Status::Idle => State::Idle,
            Status::InTransaction => State::InTransaction,
            Status::Failed => State::Failed,
        }
    }

    fn connect(&mut self, database: &str) -> Result<(), String> {
        let engine = self.runtime.block_on(self.node_server.find(database))?.ok_or_else(|| {
            format!(
                "database \"{database}\" does not exist; there are: {}",
                self.node_server.list().join(", ")
            )
        })?;
        self.session = Session::new(engine, "root");
        Ok(())
    }

    fn describe(&self) -> String {
        format!("Database \"{}\", {}.", self.database(), self.describe)
    }
}
