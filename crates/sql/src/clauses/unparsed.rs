//! Statements and clauses of PostgreSQL that the parser does not know: these, too, are rejected by
//! name.

use crate::error::SqlError;
use crate::names;
use crate::parse::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Statements, by their first words.
const STATEMENTS: [&str; 49] = [
    "alter default privileges",
    "alter system",
    "alter trigger",
    "alter view",
    "checkpoint",
    "cluster",
    "comment on access method",
    "comment on cast",
    "comment on constraint",
    "comment on operator",
    "comment on policy",
    "comment on rule",
    "comment on trigger",
    "create access method",
    "create aggregate",
    "create cast",
    "create collation",
    "create conversion",
    "create event trigger",
    "create foreign",
    "create language",
    "create operator",
    "create or replace aggregate",
    "create or replace language",
    "create or replace procedure",
    "create or replace recursive view",
    "create or replace rule",
    "create or replace transform",
    "create procedure",
    "create publication",
    "create recursive view",
    "create rule",
    "create statistics",
    "create subscription",
    "create tablespace",
    "create text search",
    "create transform",
    "create trusted language",
    "create unlogged",
    "create user mapping",
    "do",
    "drop cast",
    "drop event trigger",
    "drop language",
    "drop rule",
    "drop transform",
    "import foreign schema",
    "reindex",
    "security label",
];

/// Clauses, by the words at which the parser stops.
const CLAUSES: [&str; 21] = [
    "cluster on",
    "cycle",
    "deferrable",
    "inherit",
    "key share",
    "no inherit",
    "no key update",
    "not deferrable",
    "nulls not distinct",
    "rows from",
    "search breadth first",
    "search depth first",
    "set compression",
    "set logged",
    "set statistics",
    "set storage",
    "set unlogged",
    "set without",
    "with cascaded check option",
    "with check option",
    "with local check option",
];

/// Returns 0A000 for what a statement begins with, or for the clause at the place where the parser
/// stopped, if PostgreSQL knows it. `first` is the [place](names::place) of the statement's first
/// token.
pub(crate) fn unparsed(
    tokens: &[TokenWithSpan],
    first: Option<usize>,
    stopped: Option<usize>,
) -> Option<SqlError> {
    let find = |all: &[&'static str], place: Option<usize>| {
        let is_there = |token: &TokenWithSpan| names::place(token.span.start) == place;
        let rest = &tokens[tokens.iter().position(is_there)?..];
        let rest = rest.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let begins = |words: &&&str| {
            let mut rest = rest.clone();
            words.split(' ').all(|word| rest.next().is_some_and(|token| is_word(token, word)))
        };
        all.iter().find(begins).copied()
    };
    let name = find(&STATEMENTS, first).or_else(|| find(&CLAUSES, stopped))?;
    Some(SqlError::unsupported(name.to_uppercase()))
}
