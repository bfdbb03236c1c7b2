//! Parts of MERGE that the parser does not know: DO NOTHING, INSERT DEFAULT VALUES, and a source
//! that is a join.

use super::{carrier, only_name};
use crate::parse::is_word;
use sqlparser::ast;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The name that carries DO NOTHING: the column of an UPDATE, or the value of an INSERT.
const NOTHING: &str = "\0nothing";
/// The name that carries DEFAULT VALUES, as the only value.
const DEFAULTS: &str = "\0defaults";

/// Returns the length of `WHEN [NOT] MATCHED` at a place, and true for NOT.
fn condition(tokens: &[TokenWithSpan]) -> Option<(usize, bool)> {
    let is = |at: usize, word| tokens.get(at).is_some_and(|token| is_word(token, word));
    match is(0, "when") {
        true if is(1, "matched") => Some((2, false)),
        true if is(1, "not") && is(2, "matched") => Some((3, true)),
        _ => None,
    }
}

/// Replaces what the parser does not know of a MERGE.
pub(super) fn cut(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, "merge")) {
        return;
    }
    enclose_source(tokens);
    let (mut at, mut inserts) = (0, false);
    while at < tokens.len() {
        if let Some((length, not)) = condition(&tokens[at..]) {
            (inserts, at) = (not, at + length);
            continue;
        }
        let starts = |words: &[&str]| {
            let rest = &tokens[at..];
            rest.len() >= words.len() && words.iter().zip(rest).all(|(word, t)| is_word(t, word))
        };
        let span = tokens[at].span;
        let token = |token: Token| TokenWithSpan::new(token, span);
        let word = |word: &str| token(Token::make_keyword(word));
        let values = |name: &str| {
            let name = carrier(name.to_owned(), span);
            [word("VALUES"), token(Token::LParen), name, token(Token::RParen)]
        };
        if starts(&["then", "do", "nothing"]) {
            let stand_in = match inserts {
                true => [vec![word("INSERT")], values(NOTHING).to_vec()].concat(),
                false => {
                    let name = carrier(NOTHING.to_owned(), span);
                    let zero = token(Token::Number("0".into(), false));
                    vec![word("UPDATE"), word("SET"), name, token(Token::Eq), zero]
                }
            };
            drop(tokens.splice(at + 1..at + 3, stand_in));
        } else if starts(&["then", "insert", "default", "values"]) {
            drop(tokens.splice(at + 2..at + 4, values(DEFAULTS)));
        }
        at += 1;
    }
}

/// Adds brackets around a source that is a join. The last ON before WHEN is that of MERGE.
fn enclose_source(tokens: &mut Vec<TokenWithSpan>) {
    let (mut depth, mut first, mut on) = (0usize, None, None);
    let (mut joins, mut is_merge) = (false, false);
    for at in 0..tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(_) if depth == 0 => {
                if first.is_some() && condition(&tokens[at..]).is_some() {
                    is_merge = true;
                    break;
                } else if first.is_none() && is_word(&tokens[at], "using") {
                    first = Some(at + 1);
                } else if first.is_some() && is_word(&tokens[at], "on") {
                    on = Some(at);
                } else if first.is_some() && on.is_none() && is_word(&tokens[at], "join") {
                    joins = true;
                }
            }
            _ => {}
        }
    }
    if let (Some(first), Some(on), true) = (first, on, joins && is_merge) {
        let bracket = |token: Token, at: usize| TokenWithSpan::new(token, tokens[at].span);
        let (open, close) = (bracket(Token::LParen, first), bracket(Token::RParen, on));
        tokens.insert(on, close);
        tokens.insert(first, open);
    }
}

/// True if an action is DO NOTHING.
pub(crate) fn is_nothing(action: &ast::MergeAction) -> bool {
    match action {
        ast::MergeAction::Update(update) => update.assignments.iter().any(|assignment| {
            matches!(&assignment.target, ast::AssignmentTarget::ColumnName(name)
                if only_name(name) == Some(NOTHING))
        }),
        ast::MergeAction::Insert(insert) => only_value(insert) == Some(NOTHING),
        ast::MergeAction::Delete { .. } => false,
    }
}

/// True if an INSERT of MERGE gives DEFAULT VALUES.
pub(crate) fn gives_defaults(insert: &ast::MergeInsertExpr) -> bool {
    only_value(insert) == Some(DEFAULTS)
}

/// Returns the name that is the only value of an INSERT.
fn only_value(insert: &ast::MergeInsertExpr) -> Option<&str> {
    let ast::MergeInsertKind::Values(values) = &insert.kind else { return None };
    let [row] = values.rows.as_slice() else { return None };
    match row.content.as_slice() {
        [ast::Expr::Identifier(ident)] => Some(ident.value.as_str()),
        _ => None,
    }
}
