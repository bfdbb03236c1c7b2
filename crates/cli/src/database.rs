//! The embedded library: a database, its sessions, and their results.

use crate::node_server::{NodeServer, Storage};
use meridian_sql::{Column, Datum, Response, SqlError};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The error of an operation.
#[derive(Debug)]
pub enum Error {
    /// The database cannot be opened; the message names the file and what to do.
    Open(String),
    /// A statement failed, as PostgreSQL would say it.
    Sql(SqlError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Open(message) => f.write_str(message),
            Error::Sql(error) => write!(f, "{} (SQLSTATE {})", error.message, error.sqlstate),
        }
    }
}

impl std::error::Error for Error {}

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        Error::Sql(error)
    }
}

/// An embedded database. Dropping it closes it; committed data are there when it is opened again.
pub struct Database {
    // Sessions keep the runtime and the node alive.
    inside: Arc<Inside>,
}

struct Inside {
    node_server: NodeServer,
    runtime: Runtime,
}

impl Database {
    /// Opens the database in a folder, which is created if it does not exist.
    pub fn open(path: impl AsRef<Path>) -> Result<Database, Error> {
        Database::at(Storage::Folder(path.as_ref().to_owned()))
    }

    /// Opens a database in memory, which ends with the process.
    pub fn in_memory() -> Result<Database, Error> {
        Database::at(Storage::Memory)
    }

    fn at(place: Storage) -> Result<Database, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("meridian")
            .enable_all()
            .build()
            .map_err(|error| Error::Open(format!("cannot start threads: {error}")))?;
        let node_server = NodeServer::alone(place).map_err(Error::Open)?;
        Ok(Database { inside: Arc::new(Inside { node_server, runtime }) })
    }

    /// Opens a session, with its own settings and transaction.
    pub fn session(&self) -> Session {
        let session = meridian_sql::Session::new(self.inside.node_server.first(), "root");
        Session { session, inside: self.inside.clone() }
    }

    /// Runs statements in a session of their own, as one transaction unless they control it
    /// themselves. Returns the number of rows that the last one touched.
    pub fn execute(&self, sql: &str) -> Result<u64, Error> {
        self.session().execute(sql)
    }

    /// Runs a query and collects its rows.
    pub fn query(&self, sql: &str) -> Result<Rows, Error> {
        self.session().query(sql)
    }
}

/// A session of an embedded database. Dropping it rolls its open transaction back.
pub struct Session {
    session: meridian_sql::Session,
    inside: Arc<Inside>,
}

impl Session {
    /// Runs statements. Returns the number of rows that the last one touched.
    pub fn execute(&mut self, sql: &str) -> Result<u64, Error> {
        Ok(touched(&self.run(sql)?.1))
    }

    /// Runs a query and collects the rows of its last statement.
    pub fn query(&mut self, sql: &str) -> Result<Rows, Error> {
        Ok(self.run(sql)?.0)
    }

    /// Runs one statement with parameters `$1`, `$2` …, each of the type that the statement infers.
    pub fn query_with(&mut self, sql: &str, params: Vec<Datum>) -> Result<Rows, Error> {
        let runtime = self.inside.runtime.handle().clone();
        runtime.block_on(async {
            let answered = self.answer(sql, params).await;
            let closed = self.session.sync().await;
            let rows = answered?;
            closed?;
            Ok(rows)
        })
    }

    async fn answer(&mut self, sql: &str, params: Vec<Datum>) -> Result<Rows, Error> {
        self.session.parse("", sql, &[]).await?;
        let wanted = self.session.describe_statement("")?.params.len();
        if wanted != params.len() {
            return Err(SqlError::new(
                "08P01",
                format!("the statement takes {wanted} parameters, {} were given", params.len()),
            )
            .into());
        }
        self.session.bind("", "", params)?;
        let mut found = Rows::default();
        loop {
            let response = self.session.execute("", 0).await?;
            match self.session.finish(response).await? {
                Response::Rows { columns, rows, done } => {
                    found.columns = columns;
                    found.rows.extend(rows);
                    if done.is_some() {
                        return Ok(found);
                    }
                }
                Response::Failed(error) => return Err(error.into()),
                Response::CopyIn { .. } => {
                    return Err(self.session.copy_fail(COPY_IN).await.into());
                }
                Response::CopyOut { .. } => return Err(SqlError::unsupported(COPY_OUT).into()),
                Response::Complete(_) | Response::Empty => return Ok(found),
                Response::Notice(_) => {}
            }
        }
    }

    fn run(&mut self, sql: &str) -> Result<(Rows, String), Error> {
        let runtime = self.inside.runtime.handle().clone();
        runtime.block_on(async {
            self.session.start(sql);
            let (mut rows, mut tag, mut failed) = (Rows::default(), String::new(), None);
            let mut open = false;
            while let Some(response) = self.session.next().await {
                match response {
                    Response::Rows { columns, rows: more, done } => {
                        if !open {
                            rows = Rows { columns, rows: Vec::new() };
                        }
                        rows.rows.extend(more);
                        open = done.is_none();
                        tag = done.unwrap_or_default();
                    }
                    Response::Complete(done) => (rows, tag) = (Rows::default(), done),
                    Response::Failed(error) => failed = failed.or(Some(error)),
                    Response::CopyIn { .. } => failed = Some(self.session.copy_fail(COPY_IN).await),
                    Response::CopyOut { .. } => failed = Some(SqlError::unsupported(COPY_OUT)),
                    Response::Empty | Response::Notice(_) => {}
                }
            }
            match failed {
                Some(error) => Err(error.into()),
                None => Ok((rows, tag)),
            }
        })
    }
}

const COPY_IN: &str = "COPY FROM STDIN needs a connection over the wire";
const COPY_OUT: &str = "COPY TO STDOUT without a connection over the wire";

/// The number at the end of a command tag.
fn touched(tag: &str) -> u64 {
    tag.rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The rows of a result.
#[derive(Clone, Debug)]
pub struct Rows {
    columns: Arc<[Column]>,
    rows: Vec<Vec<Datum>>,
}

impl Default for Rows {
    fn default() -> Self {
        Rows { columns: Arc::from([]), rows: Vec::new() }
    }
}

impl Rows {
    /// Returns the columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns one value, with both places counted from 0; `None` outside of the result.
    pub fn get(&self, row: usize, column: usize) -> Option<&Datum> {
        self.rows.get(row)?.get(column)
    }

    /// Iterates over the rows in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Vec<Datum>> {
        self.rows.iter()
    }
}

impl IntoIterator for Rows {
    type Item = Vec<Datum>;
    type IntoIter = std::vec::IntoIter<Vec<Datum>>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::touched;

    #[test]
    fn a_tag_ends_with_the_number_of_rows() {
        for (tag, rows) in [("INSERT 0 3", 3), ("UPDATE 12", 12), ("CREATE TABLE", 0), ("", 0)] {
            assert_eq!(touched(tag), rows, "{tag}");
        }
    }
}
