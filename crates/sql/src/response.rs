//! What a session answers.

use crate::datum::Datum;
use crate::error::SqlError;
use crate::types::Type;
use std::sync::Arc;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The table it comes from, 0 when it is computed.
    pub table: u32,
    /// Its number in that table counted from 1, 0 when it is computed.
    pub number: i16,
}

impl Column {
    /// A computed column.
    pub fn new(name: impl Into<String>, ty: Type) -> Self {
        Column { name: name.into(), ty, table: 0, number: 0 }
    }
}

/// One message, or chunk of rows, for the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// Some rows of a result. The first chunk of a result is preceded by no other of it; the last
    /// carries the command tag.
    Rows {
        /// What each row consists of.
        columns: Arc<[Column]>,
        /// The rows.
        rows: Vec<Vec<Datum>>,
        /// The command tag when these are the last; `None` when there are more (or the portal is
        /// suspended).
        done: Option<String>,
    },
    /// A statement without rows is done: its command tag.
    Complete(String),
    /// The client shall send the rows of COPY FROM STDIN.
    CopyIn {
        /// How many columns each line has.
        columns: usize,
    },
    /// The text was empty.
    Empty,
    /// A warning or notice; SQLSTATE 00000, 01000 or a warning's own.
    Notice(SqlError),
    /// The statement failed, and the rest of a simple query with it.
    Failed(SqlError),
}

/// What a prepared statement takes and returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The types of its parameters.
    pub params: Arc<[Type]>,
    /// Its columns; `None` when it returns no rows.
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
    /// The byte on the wire.
    pub const fn byte(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        }
    }
}
