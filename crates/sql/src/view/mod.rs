//! Views: queries with a name, bound where a statement names them.
//!
//! A view keeps the text of its query. The lists that `*` stands for are written into it when it is
//! created, so that columns that its tables get later do not appear in it.

mod text;
mod uses;

pub(crate) use text::{Mention, cut_rename, cut_text, show, store};
pub(crate) use uses::Uses;

use crate::catalog::{ColumnDef, Planned, Table, schema_codec};
use crate::error::{SqlError, state};
use crate::parse::{self, Parsed};
use minicbor::{Decode, Encode};
use sqlparser::ast::{Query, Statement};
use std::sync::{Arc, OnceLock};

/// The descriptor of a view.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(crate) struct View {
    #[n(0)]
    pub(crate) id: u32,
    #[n(1)]
    pub(crate) name: String,
    #[n(2)]
    pub(crate) version: u64,
    #[n(3)]
    pub(crate) columns: Vec<ColumnDef>,
    /// The text of its query.
    #[n(4)]
    pub(crate) text: String,
    /// The ids of the tables, sequences and views that its query names.
    #[n(5)]
    pub(crate) reads: Vec<u32>,
    /// The schema that it is in.
    #[n(6)]
    #[cbor(with = "schema_codec", has_nil)]
    pub(crate) schema: u32,
    /// True if its text names relations and types by their ids; else they are in `public`.
    #[n(7)]
    #[cbor(default)]
    pub(crate) by_id: bool,
    /// True if it is the query of a materialized view.
    #[cbor(skip)]
    pub(crate) is_materialized: bool,
    #[cbor(skip)]
    parsed: ParsedOnce,
}

/// The parsed text, once it is asked for.
#[derive(Clone, Debug, Default)]
struct ParsedOnce(OnceLock<Arc<Parsed>>);

impl PartialEq for ParsedOnce {
    /// It follows from the text.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl View {
    pub(crate) fn new(
        id: u32,
        (schema, name): (u32, String),
        version: u64,
        columns: Vec<ColumnDef>,
        text: String,
        reads: Vec<u32>,
    ) -> View {
        let (by_id, parsed) = (true, ParsedOnce::default());
        let is_materialized = false;
        View { id, name, version, columns, text, reads, schema, by_id, is_materialized, parsed }
    }

    /// Returns its name behind the words for its kind.
    pub(crate) fn described(&self) -> String {
        let kind = if self.is_materialized { "materialized view" } else { "view" };
        format!("{kind} {}", self.name)
    }

    /// Returns a table of its columns, for the system tables.
    pub(crate) fn as_table(&self) -> Table {
        let mut table = Table::new(self.id, &self.name, self.columns.clone());
        table.schema = self.schema;
        table
    }

    pub(crate) fn planned(&self) -> Planned {
        Planned { id: self.id, version: self.version, statistics: 0 }
    }

    /// Returns its query as a parsed statement.
    pub(crate) fn parsed(&self) -> Result<Arc<Parsed>, SqlError> {
        if let Some(parsed) = self.parsed.0.get() {
            return Ok(parsed.clone());
        }
        let parsed = parse_query(&self.text).map_err(|error| {
            SqlError::corrupted(format!("the query of view \"{}\": {error}", self.name))
        })?;
        Ok(self.parsed.0.get_or_init(|| Arc::new(parsed)).clone())
    }
}

/// Parses the text of a view's query.
pub(crate) fn parse_query(text: &str) -> Result<Parsed, SqlError> {
    let mut parsed = parse::statements(text)?;
    match parsed.pop() {
        Some(one) if parsed.is_empty() && query_of(&one).is_some() => Ok(one),
        _ => Err(SqlError::new(state::SYNTAX, "a view needs one query")),
    }
}

/// Returns the query of a parsed text.
pub(crate) fn query_of(parsed: &Parsed) -> Option<&Query> {
    match &parsed.statement {
        Statement::Query(query) => Some(query),
        _ => None,
    }
}
