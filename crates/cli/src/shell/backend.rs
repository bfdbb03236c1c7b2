//! What a shell needs of a database, wherever it runs.

use super::fault::Fault;

/// A column's heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Its name.
    pub name: String,
    /// Whether it holds numbers; `None` when that is not known.
    pub number: Option<bool>,
}

/// What a statement answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A result. NULL is `None`.
    Rows {
        /// Its columns.
        headings: Vec<Heading>,
        /// Its rows, as text.
        rows: Vec<Vec<Option<String>>>,
        /// The command tag.
        tag: String,
    },
    /// Done without rows: the command tag.
    Done(String),
    /// A warning or notice.
    Notice(Fault),
    /// It failed.
    Failed(Fault),
}

/// Where the session stands, for the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No transaction block.
    Idle,
    /// In a transaction block.
    InTransaction,
    /// In a failed transaction block.
    Failed,
}

/// A session on some database.
pub trait Backend {
    /// Runs one statement to its end. Interrupting it (ctrl-C) makes it fail.
    fn run(&mut self, sql: &str) -> Vec<Answer>;
    /// Runs a COPY … FROM STDIN with its lines.
    fn copy(&mut self, sql: &str, data: &[u8]) -> Vec<Answer>;
    /// The database's name.
    fn database(&self) -> &str;
    /// Where the session stands.
    fn state(&self) -> State;
    /// Looks whether the server is still there; if not, the next statement connects again.
    fn look(&mut self) {}
    /// Goes to another database.
    fn connect(&mut self, database: &str) -> Result<(), String>;
    /// One line that says what this is.
    fn describe(&self) -> String;
}
