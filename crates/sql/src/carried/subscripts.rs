//! Subscripts of what UPDATE and INSERT assign to: `SET a[1][2:3] = …`, `INSERT INTO t (a[1])`.
//!
//! A name behind a dot carries them, with their text.

use super::{SEPARATOR, carrier};
use crate::parse::is_word;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Moves the subscripts of targets into names.
pub(super) fn cut(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| token.token == Token::LBracket) {
        return;
    }
    let mut at = 0;
    let mut updates = false;
    while at < tokens.len() {
        updates |= is_word(&tokens[at], "update");
        if updates && is_word(&tokens[at], "set") {
            cut_assignments(tokens, at + 1);
        }
        if is_word(&tokens[at], "insert")
            && tokens.get(at + 1).is_some_and(|it| is_word(it, "into"))
        {
            cut_columns(tokens, at + 2);
        }
        at += 1;
    }
}

/// Cuts the subscripts of the targets of SET, which begin at a place.
fn cut_assignments(tokens: &mut Vec<TokenWithSpan>, from: usize) {
    const ENDS: [&str; 4] = ["from", "where", "returning", "when"];
    let (mut at, mut depth, mut is_target) = (from, 0, true);
    while at < tokens.len() {
        if is_target && depth == 0 {
            at = cut_target(tokens, at);
            is_target = false;
            continue;
        }
        match &tokens[at].token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket if depth == 0 => return,
            Token::RParen | Token::RBracket => depth -= 1,
            Token::Comma if depth == 0 => is_target = true,
            // IS DISTINCT FROM is an operator.
            _ if is_word(&tokens[at], "from") && is_word(&tokens[at - 1], "distinct") => {}
            _ if depth == 0 && ENDS.iter().any(|word| is_word(&tokens[at], word)) => return,
            _ => {}
        }
        at += 1;
    }
}

/// Cuts the subscripts of the columns of INSERT, behind the name of the table at a place.
fn cut_columns(tokens: &mut Vec<TokenWithSpan>, from: usize) {
    let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Period);
    let Some(open) = (from..tokens.len()).find(|at| !is_name(&tokens[*at])) else { return };
    let is_query = |token: &TokenWithSpan| {
        ["select", "with", "values", "table"].iter().any(|word| is_word(token, word))
            || token.token == Token::LParen
    };
    if tokens[open].token != Token::LParen || tokens.get(open + 1).is_none_or(is_query) {
        return;
    }
    let mut at = open + 1;
    loop {
        at = cut_target(tokens, at);
        if tokens.get(at).is_none_or(|token| token.token != Token::Comma) {
            return;
        }
        at += 1;
    }
}

/// Cuts the subscripts of the name at a place. Returns the place behind the name.
fn cut_target(tokens: &mut Vec<TokenWithSpan>, mut at: usize) -> usize {
    if !matches!(tokens.get(at).map(|token| &token.token), Some(Token::Word(_))) {
        return at;
    }
    at += 1;
    loop {
        match tokens.get(at).map(|token| &token.token) {
            Some(Token::Period) => at += 2,
            Some(Token::LBracket) => {
                let Some(end) = end_of_subscripts(tokens, at) else { return at };
                let text: Vec<String> =
                    tokens[at..end].iter().map(|token| token.token.to_string()).collect();
                let span = tokens[at].span;
                let name = carrier(format!("{SEPARATOR}{}", text.join(" ")), span);
                tokens.splice(at..end, [TokenWithSpan::new(Token::Period, span), name]);
                at += 2;
            }
            _ => return at.min(tokens.len()),
        }
    }
}

/// Returns the place behind the brackets that begin at a place.
fn end_of_subscripts(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.token {
            Token::LBracket => depth += 1,
            Token::RBracket => depth = depth.checked_sub(1)?,
            _ if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(tokens.len())
}

/// Returns the text of the subscripts that a name carries.
pub(crate) fn subscripts(name: &ast::Ident) -> Option<&str> {
    name.value.strip_prefix(SEPARATOR).filter(|text| text.starts_with('['))
}
