//! LIKE among the columns of CREATE TABLE: the relation, and what of it the new table takes.
//!
//! The parser knows a part of it, and only alone. So each is cut off before the statement is
//! parsed, and a column stands for it.

use crate::error::{SqlError, state};
use crate::names;
use crate::parse::is_word;
use sqlparser::ast::{self, ObjectName};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The name of a column that stands for a LIKE. No name in a text contains its first character.
const STAND_IN: &str = "\0like";

/// A part that a new table may take of a relation beside its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Comments,
    Compression,
    Constraints,
    Defaults,
    Generated,
    Identity,
    Indexes,
    Statistics,
    Storage,
}

const PARTS: [(&str, Part); 9] = [
    ("comments", Part::Comments),
    ("compression", Part::Compression),
    ("constraints", Part::Constraints),
    ("defaults", Part::Defaults),
    ("generated", Part::Generated),
    ("identity", Part::Identity),
    ("indexes", Part::Indexes),
    ("statistics", Part::Statistics),
    ("storage", Part::Storage),
];

/// A LIKE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Like {
    pub(crate) relation: ObjectName,
    included: Vec<Part>,
}

impl Like {
    /// True if the new table takes a part of the relation.
    pub(crate) fn includes(&self, part: Part) -> bool {
        self.included.contains(&part)
    }

    /// Reads the options at the beginning of some tokens. Returns the number of their tokens.
    fn options(&mut self, tokens: &[TokenWithSpan]) -> Result<usize, SqlError> {
        let mut at = 0;
        while let [verb, rest @ ..] = &tokens[at..] {
            let includes = is_word(verb, "including");
            if !includes && !is_word(verb, "excluding") {
                break;
            }
            let Some(name) = rest.first() else { return Err(wrong(rest)) };
            let named: Vec<Part> = PARTS
                .iter()
                .filter(|(word, _)| is_word(name, word) || is_word(name, "all"))
                .map(|(_, part)| *part)
                .collect();
            if named.is_empty() {
                return Err(wrong(rest));
            }
            self.included.retain(|part| !named.contains(part));
            if includes {
                self.included.extend(named);
            }
            at += 2;
        }
        Ok(at)
    }
}

/// True for a column that stands for a LIKE.
pub(crate) fn stands_for_one(column: &ast::ColumnDef) -> bool {
    column.name.value == STAND_IN
}

fn wrong(rest: &[TokenWithSpan]) -> SqlError {
    match rest.first() {
        Some(token) => {
            let message = format!("syntax error at or near \"{}\"", token.token);
            SqlError::new(state::SYNTAX, message).at(names::place(token.span.start))
        }
        None => SqlError::new(state::SYNTAX, "syntax error at end of input"),
    }
}

/// Cuts each LIKE from the list of columns of CREATE TABLE, in order.
pub(crate) fn cut(tokens: &mut Vec<TokenWithSpan>) -> Result<Vec<Like>, SqlError> {
    let mut likes = Vec::new();
    let is_table = tokens.iter().take(4).any(|token| is_word(token, "table"));
    if !tokens.first().is_some_and(|token| is_word(token, "create")) || !is_table {
        return Ok(likes);
    }
    let opens = |token: &TokenWithSpan| token.token == Token::LParen || is_word(token, "as");
    let Some(open) = tokens.iter().position(opens) else { return Ok(likes) };
    if tokens[open].token != Token::LParen {
        return Ok(likes);
    }
    let (mut at, mut depth) = (open, 0_usize);
    while at < tokens.len() {
        let begins = match tokens[at].token {
            Token::LParen => {
                depth += 1;
                depth == 1
            }
            Token::RParen if depth <= 1 => break,
            Token::RParen => {
                depth -= 1;
                false
            }
            Token::Comma => depth == 1,
            _ => false,
        };
        at += 1;
        if begins && tokens.get(at).is_some_and(|token| is_word(token, "like")) {
            let rest = &tokens[at + 1..];
            if !matches!(rest.first().map(|it| &it.token), Some(Token::Word(_))) {
                return Err(wrong(rest));
            }
            let dialect = PostgreSqlDialect {};
            let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest.to_vec());
            let relation = parser.parse_object_name(false).map_err(|_| wrong(rest))?;
            // One token for each part, and the points between them.
            let name = relation.0.len() * 2 - 1;
            let mut like = Like { relation, included: Vec::new() };
            let options = like.options(&rest[name..])?;
            likes.push(like);
            let span = tokens[at].span;
            let word = |value: &str, quote_style, keyword| {
                let word = Word { value: value.to_owned(), quote_style, keyword };
                TokenWithSpan::new(Token::Word(word), span)
            };
            let stand_in =
                [word(STAND_IN, Some('"'), Keyword::NoKeyword), word("INT", None, Keyword::INT)];
            tokens.splice(at..=at + name + options, stand_in);
        }
    }
    Ok(likes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::tokenizer::Tokenizer;

    fn cut_text(sql: &str) -> Result<(String, Vec<Like>), SqlError> {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location();
        let mut tokens = tokens.expect("tokens");
        tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
        let likes = cut(&mut tokens)?;
        let words: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
        Ok((words.join(" ").replace('\0', "/"), likes))
    }

    #[test]
    fn each_like_becomes_a_column() {
        let (text, likes) = cut_text(
            "create table t (a int check (a like 'x'), like s.\"U\" including all excluding \
             indexes, like v, primary key (a))",
        )
        .expect("cut");
        assert_eq!(
            text,
            "create table t ( a int check ( a like 'x' ) , \"/like\" INT , \"/like\" INT , primary \
             key ( a ) )"
        );
        let names: Vec<String> = likes.iter().map(|like| like.relation.to_string()).collect();
        assert_eq!(names, ["s.\"U\"", "v"]);
        assert!(likes[0].includes(Part::Defaults) && !likes[0].includes(Part::Indexes));
        assert!(!likes[1].includes(Part::Defaults));
        assert_eq!(
            cut_text("create table t (like u including x").unwrap_err().message,
            "syntax error at or near \"x\""
        );
        for sql in ["create table t (like", "create table t (like u including", "create table t ("]
        {
            let _ = cut_text(sql);
        }
        let (text, likes) = cut_text("create table t as select (like)").expect("cut");
        assert_eq!((text.as_str(), likes.len()), ("create table t as select ( like )", 0));
    }
}
