//! The key that ON CONFLICT names by expressions or with a condition:
//! `ON CONFLICT (lower(name)) WHERE active`.
//!
//! A name in the place of the columns carries both, with their texts.

use super::{SEPARATOR, carrier};
use crate::parse::is_word;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The mark of a name that carries a key.
const MARK: &str = "\0conflict\0";

/// Moves each such key into a name.
pub(super) fn cut(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at + 2 < tokens.len() {
        at += 1;
        let begins = is_word(&tokens[at - 1], "on")
            && is_word(&tokens[at], "conflict")
            && tokens[at + 1].token == Token::LParen;
        if !begins {
            continue;
        }
        let open = at + 1;
        let Some(close) = end_of(tokens, open, |token| token.token == Token::RParen) else {
            return;
        };
        let behind = close + 1;
        let has_condition = tokens.get(behind).is_some_and(|token| is_word(token, "where"));
        let end = match has_condition {
            true => end_of(tokens, behind, |token| is_word(token, "do")),
            false => Some(behind),
        };
        let Some(end) = end else { return };
        let is_plain = |token: &TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Comma);
        let are_columns = tokens[open + 1..close]
            .iter()
            .enumerate()
            .all(|(at, token)| is_plain(token) && (token.token == Token::Comma) == (at % 2 == 1));
        if are_columns && !has_condition {
            continue;
        }
        let key = text(&tokens[open + 1..close]);
        let condition = text(tokens.get(behind + 1..end).unwrap_or_default());
        let name = carrier(format!("{MARK}{key}{SEPARATOR}{condition}"), tokens[open].span);
        tokens.splice(open + 1..close, [name]);
        tokens.drain(open + 3..open + 3 + end - behind);
    }
}

/// Returns the place of the first token behind an open bracket, or behind a word, for which a test
/// holds outside of other brackets.
fn end_of(
    tokens: &[TokenWithSpan],
    from: usize,
    is_end: impl Fn(&TokenWithSpan) -> bool,
) -> Option<usize> {
    let mut depth = 0usize;
    (from + 1..tokens.len()).find(|at| {
        let token = &tokens[*at];
        let ends = depth == 0 && is_end(token);
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        ends
    })
}

fn text(tokens: &[TokenWithSpan]) -> String {
    let all: Vec<String> = tokens.iter().map(|token| token.token.to_string()).collect();
    all.join(" ")
}

/// Returns the texts of the key and of its condition that the columns of ON CONFLICT carry.
pub(crate) fn conflict_key(columns: &[ast::Ident]) -> Option<(&str, Option<&str>)> {
    let [name] = columns else { return None };
    let (key, condition) = name.value.strip_prefix(MARK)?.split_once(SEPARATOR)?;
    Some((key, Some(condition).filter(|condition| !condition.is_empty())))
}
