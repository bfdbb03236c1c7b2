//! Views: queries with a name, bound where a statement names them.
//!
//! A view keeps the text of its query. The lists that `*` stands for are written into it when it is
//! created, so that columns that its tables get later do not appear in it.

use crate::catalog::{ColumnDef, Planned, Table};
use crate::error::{SqlError, state};
use crate::names;
use crate::parse::{self, Parsed, is_word};
use minicbor::{Decode, Encode};
use sqlparser::ast::{Query, Statement};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan};
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
        name: String,
        version: u64,
        columns: Vec<ColumnDef>,
        text: String,
        reads: Vec<u32>,
    ) -> View {
        View { id, name, version, columns, text, reads, parsed: ParsedOnce::default() }
    }

    /// Returns a table of its columns, for the system tables.
    pub(crate) fn as_table(&self) -> Table {
        Table::new(self.id, &self.name, self.columns.clone())
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

/// Returns the text of the query of CREATE VIEW: all behind `AS`.
pub(crate) fn cut_text(tokens: &[TokenWithSpan], sql: &str) -> Option<String> {
    let words = ["or", "replace", "temp", "temporary", "recursive", "materialized", "view"];
    let [create, rest @ ..] = tokens else { return None };
    let before = rest.iter().take_while(|token| words.iter().any(|word| is_word(token, word)));
    let is_view = before.last().is_some_and(|token| is_word(token, "view"));
    if !is_word(create, "create") || !is_view {
        return None;
    }
    let mut depth = 0_usize;
    let behind = tokens.iter().find(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(token, "as")
    });
    let start = place(sql, behind?.span.end)?;
    let end = place(sql, tokens.last()?.span.end)?;
    Some(sql.get(start..end)?.trim().to_owned())
}

/// Returns the offset of a place in a text, in bytes.
fn place(text: &str, at: Location) -> Option<usize> {
    let line = usize::try_from(at.line).ok()?.checked_sub(1)?;
    let column = usize::try_from(at.column).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = text.get(start..)?;
    let within = rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at);
    Some(start + within)
}

/// A `*` of a text: its [place](names::place), and the columns that it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Star {
    pub(crate) at: usize,
    pub(crate) columns: Vec<String>,
}

/// Writes the columns of each `*` into a text.
pub(crate) fn expand(text: &str, mut stars: Vec<Star>) -> Result<String, SqlError> {
    let lost = || SqlError::unsupported("* in this view");
    stars.sort_by_key(|star| star.at);
    stars.dedup_by_key(|star| star.at);
    let mut out = String::with_capacity(text.len());
    let mut written = 0;
    for star in stars {
        let location = Location { line: (star.at >> 32) as u64, column: (star.at as u32).into() };
        debug_assert_eq!(names::place(location), Some(star.at));
        let at = place(text, location).ok_or_else(lost)?;
        if text.as_bytes().get(at) != Some(&b'*') || at < written {
            return Err(lost());
        }
        // `t.*` gives its qualifier, too.
        let before = &text[written..at];
        let kept = match before.trim_end().strip_suffix('.') {
            Some(qualified) => without_last_name(qualified),
            None => before,
        };
        out.push_str(kept);
        out.push_str(&star.columns.join(", "));
        written = at + 1;
    }
    out.push_str(&text[written..]);
    Ok(out)
}

/// Returns a text without the name at its end, and the names that qualify this.
fn without_last_name(text: &str) -> &str {
    let mut rest = text.trim_end();
    loop {
        rest = match rest.strip_suffix('"') {
            // A quote inside a quoted name is doubled.
            Some(mut inner) => loop {
                let Some(at) = inner.rfind('"') else { return "" };
                match inner[..at].strip_suffix('"') {
                    Some(doubled) => inner = doubled,
                    None => break &inner[..at],
                }
            },
            None => rest.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '$'),
        };
        match rest.trim_end().strip_suffix('.') {
            Some(qualifier) => rest = qualifier.trim_end(),
            None => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_become_lists() {
        let star = |line: u64, column: u64, columns: &[&str]| Star {
            at: names::place(Location { line, column }).expect("a place"),
            columns: columns.iter().map(ToString::to_string).collect(),
        };
        for (text, stars, expected) in [
            ("select * from t", vec![star(1, 8, &["t.a", "t.b"])], "select t.a, t.b from t"),
            (
                "select é.*, 1\n from \"é\", (select *) x",
                vec![star(2, 20, &["c"]), star(1, 10, &["\"é\".a"])],
                "select \"é\".a, 1\n from \"é\", (select c) x",
            ),
            ("select \"a \"\" b\" . *", vec![star(1, 19, &["x"])], "select x"),
            ("select s.t.* from s.t", vec![star(1, 12, &["t.a"])], "select t.a from s.t"),
        ] {
            assert_eq!(expand(text, stars).expect("expanded"), expected);
        }
        assert!(expand("select 1", vec![star(1, 8, &["a"])]).is_err());
    }
}
