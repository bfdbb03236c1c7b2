//! The command `TABLE t`, which stands for `SELECT * FROM t` wherever a query may begin.
//!
//! The parser knows it in few places. So it is spelled out before a statement is parsed: in the
//! tokens, each of which then has the place of the word, and in the texts of views.

use crate::parse::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The text that the word stands for.
pub(crate) const SPELLED: &str = "SELECT * FROM";

/// The words before a query.
const BEFORE: [&str; 10] = [
    "all",
    "analyze",
    "distinct",
    "except",
    "explain",
    "for",
    "intersect",
    "union",
    "value",
    "verbose",
];

/// The words behind a query, or behind its name.
const BEHIND: [&str; 11] = [
    "except",
    "fetch",
    "for",
    "intersect",
    "limit",
    "offset",
    "on",
    "order",
    "returning",
    "union",
    "with",
];

/// Spells out each command of a statement.
pub(crate) fn spell_out(tokens: &mut Vec<TokenWithSpan>) {
    let Some(mut at) = tokens.iter().position(|token| is_word(token, "table")) else { return };
    while at < tokens.len() {
        if is_word(&tokens[at], "table")
            && begins_query(tokens, at)
            && let Some(name) = name_behind(&tokens[at + 1..])
        {
            let span = tokens[at].span;
            let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            let token = |token| TokenWithSpan::new(token, span);
            let mut spelled: Vec<TokenWithSpan> = select.map(token).into();
            spelled.extend_from_slice(&tokens[at + 1..][name.start..name.end]);
            if !name.is_last {
                // The clauses of SELECT may not follow.
                spelled.insert(0, token(Token::LParen));
                spelled.push(token(Token::RParen));
            }
            tokens.splice(at..=at + name.length, spelled);
        }
        at += 1;
    }
}

/// The name of the table: its place among the tokens behind the word, and the number of the tokens
/// that belong to the command.
struct Name {
    start: usize,
    end: usize,
    length: usize,
    /// True if a query may end behind it.
    is_last: bool,
}

/// Finds the name. ONLY and `*` have no meaning without inheritance.
fn name_behind(rest: &[TokenWithSpan]) -> Option<Name> {
    let is_name = |at: usize| matches!(rest.get(at)?.token, Token::Word(_)).then_some(());
    let is = |at: usize, token: &Token| rest.get(at).is_some_and(|it| it.token == *token);
    let start = usize::from(is_word(rest.first()?, "only"));
    let mut end = start + 1;
    is_name(start)?;
    while is(end, &Token::Period) {
        is_name(end + 1)?;
        end += 2;
    }
    let length = end + usize::from(start == 0 && is(end, &Token::Mul));
    let is_last = match &rest[length..] {
        [] => true,
        [next, ..] if next.token == Token::RParen => true,
        [next, of, ..] if is_word(next, "as") => is_word(of, "of"),
        [next, ..] => BEHIND.iter().any(|word| is_word(next, word)),
    };
    Some(Name { start, end, length, is_last })
}

/// True if a query begins at a word that other commands have as well: `DROP TABLE`.
fn begins_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
    let Some(before) = at.checked_sub(1) else { return true };
    let token = &tokens[before];
    if matches!(token.token, Token::LParen | Token::RParen)
        || BEFORE.iter().any(|word| is_word(token, word))
    {
        return true;
    }
    if is_word(token, "as") {
        // A column may be called so: `SELECT 1 AS table`.
        let first = tokens.iter().position(|it| is_word(it, "as"));
        let begins = if is(0, "explain") { 1..at } else { 0..1 };
        let is_command = |at: usize| is(at, "create") || is(at, "prepare");
        return first == Some(before) && begins.into_iter().any(is_command);
    }
    // INSERT INTO name TABLE …, INSERT INTO name AS alias TABLE …
    let Token::Word(_) = token.token else { return false };
    let mut name = before;
    if name >= 2 && is(name - 1, "as") {
        name -= 2;
    }
    while name >= 2 && tokens[name - 1].token == Token::Period {
        name -= 2;
    }
    name >= 2 && is(name - 1, "into") && is(name - 2, "insert")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    fn spelled(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
        let mut tokens = tokens.expect("tokens");
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        spell_out(&mut tokens);
        let words: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
        words.join(" ")
    }

    #[test]
    fn a_query_begins_at_the_word() {
        for (sql, expected) in [
            ("table t", "SELECT * FROM t"),
            ("table only s.t order by 1", "SELECT * FROM s . t order by 1"),
            ("table t * limit 1", "SELECT * FROM t limit 1"),
            ("table a union all table b", "SELECT * FROM a union all SELECT * FROM b"),
            ("select (table t)", "select ( SELECT * FROM t )"),
            ("insert into t table u", "insert into t SELECT * FROM u"),
            ("insert into s.t as x table u", "insert into s . t as x SELECT * FROM u"),
            ("create table a as table b", "create table a as SELECT * FROM b"),
            ("create view a as table b", "create view a as SELECT * FROM b"),
            ("table t where a = 1", "( SELECT * FROM t ) where a = 1"),
            ("with q as (table t) table q", "with q as ( SELECT * FROM t ) SELECT * FROM q"),
        ] {
            assert_eq!(spelled(sql), expected);
        }
    }

    #[test]
    fn other_commands_keep_the_word() {
        for sql in [
            "create table t ( a int )",
            "drop table t",
            "alter table t drop b",
            "select a into table t from u",
            "select 1 as table",
            "create view a as select 1 as table",
            "comment on table t is 'x'",
            "table ( select 1 )",
            "table",
        ] {
            assert_eq!(spelled(sql), sql);
        }
    }
}
