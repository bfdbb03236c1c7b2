//! COPY: rows in and out of tables, as text, csv or PostgreSQL's binary format.
//!
//! COPY … TO is a query whose rows are written in a format ([`to::Writer`]). COPY … FROM reads
//! records from bytes that arrive cut anywhere ([`records::Records`]), and writes their rows.

mod binary;
mod csv;
mod from;
mod options;
mod records;
#[cfg(test)]
mod tests;
mod text;
mod to;

pub(crate) use from::Copying;
pub(crate) use options::Options;
pub(crate) use to::{Writer, adapt, cut, without_generated};

use crate::error::{SqlError, state};

/// The name that stands for all columns in FORCE_QUOTE.
const ALL_COLUMNS: &str = "*";

/// The longest accepted record, in bytes.
const LONGEST_RECORD_BYTES: usize = 64 << 20;

/// Returns 42P10: COPY neither reads nor writes a generated column.
fn generated(column: &str) -> SqlError {
    let message = format!("column \"{column}\" is a generated column");
    SqlError::new(state::INVALID_COLUMN_REFERENCE, message)
        .detail("Generated columns cannot be used in COPY.")
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(state::BAD_COPY, message)
}
