//! The responses of a session.

use crate::datum::Datum;
use crate::domain::Domain;
use crate::error::SqlError;
use crate::types::Type;
use std::sync::Arc;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The type.
    pub ty: Type,
    /// The table that the column comes from; 0 if it is computed.
    pub table: u32,
    /// The number in that table, counted from 1; 0 if it is computed.
    pub number: i16,
    /// The domain that the values are of; clients know them by its base type.
    pub domain: Option<Domain>,
}

impl Column {
    /// Returns a computed column.
    pub fn new(name: impl Into<String>, ty: Type) -> Self {
        Column { name: name.into(), ty, table: 0, number: 0, domain: None }
    }
}

/// A message, or a chunk of rows, for the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// Some rows of a result. The chunks of a result follow one another; the last one carries the
    /// command tag.
    Rows {
        /// The columns of the rows.
        columns: Arc<[Column]>,
        /// The rows.
        rows: Vec<Vec<Datum>>,
        /// The command tag if these rows are the last; `None` if there are more (or the portal is
        /// suspended).
        done: Option<String>,
    },
    /// Some records of COPY … TO STDOUT, which follow one another as rows do.
    CopyOut {
        /// The number of columns of each row.
        columns: usize,
        /// True if the records are in PostgreSQL's binary format.
        is_binary: bool,
        /// The records, each with its end.
        records: Vec<Vec<u8>>,
        /// The command tag if these records are the last.
        done: Option<String>,
    },
    /// The command tag of a statement without rows.
    Complete(String),
    /// The client must send the data of COPY FROM STDIN.
    CopyIn {
        /// The number of columns of each row.
        columns: usize,
        /// True if the rows must be in PostgreSQL's binary format.
        is_binary: bool,
    },
    /// The text was empty.
    Empty,
    /// A warning or notice; SQLSTATE 00000, 01000 or a warning's own.
    Notice(SqlError),
    /// The statement failed, and the rest of a simple query with it.
    Failed(SqlError),
}

impl Response {
    /// True if more of the result follows.
    pub(crate) fn goes_on(&self) -> bool {
        matches!(self, Response::Rows { done: None, .. } | Response::CopyOut { done: None, .. })
    }
}

/// The parameters and columns of a prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The types of the parameters.
    pub params: Arc<[Type]>,
    /// The columns; `None` if it returns no rows.
    pub columns: Option<Arc<[Column]>>,
}

/// The transaction status that ReadyForQuery carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `I`
    Idle,
    /// `T`
    InTransaction,
    /// `E`
    Failed,
}

impl Status {
    /// Returns the byte on the wire.
    pub const fn byte(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        }
    }
}
