//! The shell's interface to a database, embedded or remote.

use super::fault::Fault;

/// A column's heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The name.
    pub name: String,
    /// True if the column holds numbers; `None` if that is not known.
    pub number: Option<bool>,
}

/// A result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A result. NULL is `None`.
    Rows {
        /// The columns.
        headings: Vec<Heading>,
        /// The rows, as text.
        rows: Vec<Vec<Option<String>>>,
        /// The command tag.
        tag: String,
    },
    /// The data of a COPY … TO STDOUT.
    Copied(Vec<u8>),
    /// A command tag without rows.
    Done(String),
    /// A warning or notice.
    Notice(Fault),
    /// An error.
    Failed(Fault),
}

/// The transaction state of the session, for the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No transaction block.
    Idle,
    /// In a transaction block.
    InTransaction,
    /// In a failed transaction block.
    Failed,
}

/// A session on a database.
pub trait Backend {
    /// Runs one statement to its end. Interrupting it (ctrl-C) makes it fail.
    fn run(&mut self, sql: &str) -> Vec<Answer>;
    /// Runs a COPY … FROM STDIN with its rows.
    fn copy(&mut self, sql: &str, data: &[u8]) -> Vec<Answer>;
    /// Returns the database's name.
    fn database(&self) -> &str;
    /// Returns the transaction state.
    fn state(&self) -> State;
    /// Checks the connection to the server; if it is lost, the next statement connects again.
    fn look(&mut self) {}
    /// Connects to another database.
    fn connect(&mut self, database: &str) -> Result<(), String>;
    /// Returns a line that describes the connection.
    fn describe(&self) -> String;
}
