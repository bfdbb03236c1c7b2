//! The error of a statement: PostgreSQL's SQLSTATE and words.

use crate::catalog::Table;
use crate::system;
use meridian_txn::{Conflict, Failure};
use std::fmt;

/// An error in PostgreSQL's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The five characters that programs match on.
    pub sqlstate: &'static str,
    /// One line in PostgreSQL's words.
    pub message: String,
    /// The detail.
    pub detail: Option<String>,
    /// The hint.
    pub hint: Option<String>,
    /// The position in the statement's text, in characters counted from 1.
    pub position: Option<usize>,
    /// The fields that programs read instead of the message.
    pub fields: Option<Box<ErrorFields>>,
    /// The reason of an abort, until it is rendered as the detail.
    pub(crate) conflict: Option<Box<Conflict>>,
}

/// The names that an error is about, as fields of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFields {
    /// The schema of the table or type.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column of the table.
    pub column: Option<String>,
    /// The type.
    pub data_type: Option<String>,
    /// The constraint: of the table or type, or a unique index.
    pub constraint: Option<String>,
    /// The function of PostgreSQL that reports the error, where clients decide by it.
    pub routine: Option<&'static str>,
    /// The id of the schema, while its name has to be looked up.
    pub(crate) schema_id: Option<u32>,
}

/// The SQLSTATEs of this crate.
pub mod state {
    #![allow(missing_docs)]
    pub const SUCCESSFUL: &str = "00000";
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const CARDINALITY_VIOLATION: &str = "21000";
    pub const NAME_TOO_LONG: &str = "42622";
    pub const STRING_TOO_LONG: &str = "22001";
    pub const OUT_OF_RANGE: &str = "22003";
    pub const NULL_NOT_ALLOWED: &str = "22004";
    pub const BAD_DATETIME: &str = "22007";
    pub const DATETIME_OVERFLOW: &str = "22008";
    pub const DIVISION_BY_ZERO: &str = "22012";
    pub const INVALID_FRAME: &str = "22013";
    pub const INVALID_NTILE: &str = "22014";
    pub const INVALID_NTH_VALUE: &str = "22016";
    pub const INVALID_ARGUMENT: &str = "2201F";
    pub const DUPLICATE_DATABASE: &str = "42P04";
    pub const NO_DATABASE: &str = "3D000";
    pub const INVALID_LIMIT: &str = "2201W";
    pub const ARRAY_SUBSCRIPT: &str = "2202E";
    pub const SEQUENCE_END: &str = "2200H";
    pub const INVALID_PARAMETER: &str = "22023";
    pub const DISPLACEMENT: &str = "22009";
    pub const BAD_JSON_DATETIME: &str = "22031";
    pub const JSON_SUBSCRIPT: &str = "22033";
    pub const NON_NUMERIC_JSON_ITEM: &str = "22036";
    pub const NO_SINGLE_JSON_ITEM: &str = "22038";
    pub const NO_JSON_ARRAY: &str = "22039";
    pub const NO_JSON_MEMBER: &str = "2203A";
    pub const NO_JSON_NUMBER: &str = "2203B";
    pub const NO_JSON_OBJECT: &str = "2203C";
    pub const BAD_TEXT: &str = "22P02";
    pub const BAD_BINARY: &str = "22P03";
    pub const BAD_COPY: &str = "22P04";
    pub const UNTRANSLATABLE_CHARACTER: &str = "22P05";
    pub const BAD_ENCODING: &str = "22021";
    pub const DEPENDENT_OBJECTS: &str = "2BP01";
    pub const NOT_NULL: &str = "23502";
    pub const FOREIGN_KEY: &str = "23503";
    pub const UNIQUE: &str = "23505";
    pub const CHECK: &str = "23514";
    pub const ACTIVE_TRANSACTION: &str = "25001";
    pub const READ_ONLY: &str = "25006";
    pub const NO_TRANSACTION: &str = "25P01";
    pub const FAILED_TRANSACTION: &str = "25P02";
    pub const NO_STATEMENT: &str = "26000";
    pub const NO_SAVEPOINT: &str = "3B001";
    pub const NO_PORTAL: &str = "34000";
    pub const DUPLICATE_CURSOR: &str = "42P03";
    pub const NO_SCHEMA: &str = "3F000";
    pub const DUPLICATE_SCHEMA: &str = "42P06";
    pub const RESERVED_NAME: &str = "42939";
    pub const SERIALIZATION: &str = "40001";
    pub const COMPLETION_UNKNOWN: &str = "40003";
    pub const NO_PRIVILEGE: &str = "42501";
    pub const GENERATED_ALWAYS: &str = "428C9";
    pub const SYNTAX: &str = "42601";
    pub const INVALID_NAME: &str = "42602";
    pub const DUPLICATE_COLUMN: &str = "42701";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const UNDEFINED_OBJECT: &str = "42704";
    pub const DUPLICATE_OBJECT: &str = "42710";
    pub const GROUPING: &str = "42803";
    pub const INVALID_COLUMN_DEFINITION: &str = "42611";
    pub const TYPE_MISMATCH: &str = "42804";
    pub const INVALID_FOREIGN_KEY: &str = "42830";
    pub const CANNOT_COERCE: &str = "42846";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const INVALID_FUNCTION: &str = "42P13";
    pub const DUPLICATE_FUNCTION: &str = "42723";
    pub const AMBIGUOUS_FUNCTION: &str = "42725";
    pub const UNDEFINED_TABLE: &str = "42P01";
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    pub const WINDOWING: &str = "42P20";
    pub const DUPLICATE_STATEMENT: &str = "42P05";
    pub const DUPLICATE_TABLE: &str = "42P07";
    pub const INVALID_COLUMN_REFERENCE: &str = "42P10";
    pub const INVALID_TABLE: &str = "42P16";
    pub const INVALID_DEFINITION: &str = "42P17";
    pub const INDETERMINATE_TYPE: &str = "42P18";
    pub const WRONG_OBJECT: &str = "42809";
    pub const DISK_FULL: &str = "53100";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const TOO_LARGE: &str = "54000";
    pub const TOO_COMPLEX: &str = "54001";
    pub const TOO_MANY_COLUMNS: &str = "54011";
    pub const NOT_IN_STATE: &str = "55000";
    pub const OBJECT_IN_USE: &str = "55006";
    pub const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub const UNAVAILABLE: &str = "57P03";
    pub const CANCELED: &str = "57014";
    pub const IO: &str = "58030";
    pub const SNAPSHOT_TOO_OLD: &str = "72000";
    pub const INTERNAL: &str = "XX000";
    pub const CORRUPTED: &str = "XX001";
}

impl SqlError {
    /// Creates an error of a state and a message.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        SqlError {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            fields: None,
            conflict: None,
        }
    }

    /// Adds a detail.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn fields(&mut self) -> &mut ErrorFields {
        self.fields.get_or_insert_default()
    }

    /// Names the table that it is about.
    pub(crate) fn of_table(mut self, table: &Table) -> Self {
        let fields = self.fields();
        fields.table = Some(table.name.clone());
        match table.schema {
            system::PUBLIC => fields.schema = Some("public".into()),
            other => fields.schema_id = Some(other),
        }
        self
    }

    /// Names the column of a table that it is about.
    pub(crate) fn of_column(self, table: &Table, column: &str) -> Self {
        let mut error = self.of_table(table);
        error.fields().column = Some(column.to_owned());
        error
    }

    /// Names the constraint of a table that it is about.
    pub(crate) fn of_constraint(self, table: &Table, constraint: &str) -> Self {
        let mut error = self.of_table(table);
        error.fields().constraint = Some(constraint.to_owned());
        error
    }

    /// Names the function of PostgreSQL that reports it.
    pub(crate) fn of_routine(mut self, routine: &'static str) -> Self {
        self.fields().routine = Some(routine);
        self
    }

    /// Returns the error without its position, which is one in a text that the client did not send.
    pub(crate) fn unplaced(self) -> Self {
        SqlError { position: None, ..self }
    }

    /// Adds a position, unless the error has one or there is none.
    pub fn at(mut self, position: Option<usize>) -> Self {
        self.position = self.position.or(position);
        self
    }

    /// Returns 0A000: the feature is not supported.
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(state::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Returns XX001: stored bytes that no correct node could have written.
    pub fn corrupted(what: impl fmt::Display) -> Self {
        Self::new(state::CORRUPTED, format!("stored data cannot be read: {what}"))
    }

    /// True if a replay of the transaction may resolve the error.
    pub fn is_restart(&self) -> bool {
        self.sqlstate == state::SERIALIZATION
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.sqlstate, self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, "; {detail}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

impl From<Failure> for SqlError {
    fn from(failure: Failure) -> Self {
        let text = failure.to_string();
        match failure {
            Failure::Aborted(why) => aborted(why),
            Failure::BelowHorizon { .. } => SqlError::new(state::SNAPSHOT_TOO_OLD, "snapshot too old").detail(text),
            Failure::InFuture { .. } | Failure::FarToken { .. } => SqlError::new(state::INVALID_PARAMETER, text),
            Failure::ReadOnly => SqlError::new(state::READ_ONLY, "cannot execute a write in a read-only transaction"),
            Failure::TooLarge { .. } => {
                SqlError::new(state::TOO_LARGE, text).hint(
                "Write in several transactions; COPY into a table that the same transaction created or truncated has no limit.",
            )
            }
            Failure::OutOfMemory { limit_bytes } => crate::memory::out_of_memory(limit_bytes),
            Failure::DiskFull => SqlError::new(state::DISK_FULL, text).hint("Free some space; reads go on meanwhile."),
            Failure::LockTimeout | Failure::Locked => SqlError::new(state::LOCK_NOT_AVAILABLE, text),
            Failure::Refused(_) => SqlError::new(state::NOT_IN_STATE, text),
            Failure::Unavailable(_) => SqlError::new(state::UNAVAILABLE, text),
            Failure::Storage(_) => SqlError::new(state::IO, text),
        }
    }
}

impl SqlError {
    /// Returns the table whose definition changed, if that is the cause.
    pub(crate) fn changed_schema(&self) -> Option<u32> {
        match self.conflict.as_deref() {
            Some(Conflict::SchemaChanged { table }) => Some(*table),
            _ => None,
        }
    }
}

/// Returns 40001 with this reason.
pub(crate) fn aborted(why: Conflict) -> SqlError {
    SqlError { conflict: Some(Box::new(why.clone())), ..restart(&why.to_string()) }
}

/// Returns 40001: nothing of the transaction happened.
pub(crate) fn restart(why: &str) -> SqlError {
    SqlError::new(state::SERIALIZATION, format!("could not serialize access: {why}"))
        .detail("Nothing of the transaction happened.")
        .hint("The transaction might succeed if retried.")
}
