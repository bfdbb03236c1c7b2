//! Statements and clauses of PostgreSQL that the parser does not know: these, too, are rejected by
//! name.

use crate::error::SqlError;
use crate::names;
use crate::parse::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Statements, by their first words.
const STATEMENTS: [&str; 97] = [
    "alter access method",
    "alter aggregate",
    "alter collation",
    "alter conversion",
    "alter default privileges",
    "alter event trigger",
    "alter foreign",
    "alter group",
    "alter language",
    "alter large object",
    "alter operator",
    "alter policy",
    "alter procedure",
    "alter publication",
    "alter role",
    "alter routine",
    "alter rule",
    "alter server",
    "alter statistics",
    "alter subscription",
    "alter system",
    "alter tablespace",
    "alter text search",
    "alter trigger",
    "alter user",
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
    "create group",
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
    "create server",
    "create statistics",
    "create subscription",
    "create tablespace",
    "create text search",
    "create transform",
    "create trusted language",
    "create unlogged",
    "create user mapping",
    "do",
    "drop access method",
    "drop aggregate",
    "drop cast",
    "drop collation",
    "drop conversion",
    "drop event trigger",
    "drop foreign",
    "drop group",
    "drop language",
    "drop owned",
    "drop policy",
    "drop publication",
    "drop role",
    "drop rule",
    "drop server",
    "drop statistics",
    "drop subscription",
    "drop tablespace",
    "drop text search",
    "drop transform",
    "drop trigger",
    "drop user",
    "drop user mapping",
    "grant",
    "import foreign schema",
    "load",
    "reassign owned",
    "reindex",
    "reset session authorization",
    "revoke",
    "security label",
    "set local session authorization",
];

/// Clauses, by the words at which the parser stops.
const CLAUSES: [&str; 26] = [
    "attach partition",
    "cluster on",
    "compression",
    "cycle",
    "deferrable",
    "detach partition",
    "include",
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
    "set tablespace",
    "set unlogged",
    "set without",
    "with cascaded check option",
    "with check option",
    "with local check option",
];

/// Forms that the parser stops in, wherever they stand.
const FORMS: [&str; 9] = [
    "current of",
    "exclude using",
    "xmlconcat",
    "xmlelement",
    "xmlforest",
    "xmlparse",
    "xmlpi",
    "xmlserialize",
    "xmltable",
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
    let begins = |rest: &[TokenWithSpan], form: &str| {
        form.split(' ')
            .enumerate()
            .all(|(at, word)| rest.get(at).is_some_and(|it| is_word(it, word)))
    };
    let anywhere = || {
        let mut all = (0..tokens.len()).map(|at| &tokens[at..]);
        all.find_map(|rest| FORMS.iter().copied().find(|form| begins(rest, form)))
    };
    let name = find(&STATEMENTS, first).or_else(|| find(&CLAUSES, stopped)).or_else(anywhere)?;
    Some(SqlError::unsupported(name.to_uppercase()))
}
