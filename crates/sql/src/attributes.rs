//! ALTER TYPE … ATTRIBUTE, which the parser does not know: its tokens become those of ALTER
//! TABLE … COLUMN.

use crate::parse::is_word;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The words before ATTRIBUTE.
const ACTIONS: [&str; 4] = ["add", "alter", "drop", "rename"];

/// Rewrites the statement; returns true if it is one.
pub(crate) fn adapt(tokens: &mut Vec<TokenWithSpan>) -> bool {
    let is = |tokens: &[TokenWithSpan], at: usize, word: &str| {
        tokens.get(at).is_some_and(|token| is_word(token, word))
    };
    let is_action = |tokens: &[TokenWithSpan], at: usize| {
        ACTIONS.iter().any(|word| is(tokens, at, word)) && is(tokens, at + 1, "attribute")
    };
    if !is(tokens, 0, "alter") || !is(tokens, 1, "type") {
        return false;
    }
    let Some(first) = (2..tokens.len()).find(|at| is_action(tokens, *at)) else { return false };
    tokens[1].token = Token::make_keyword("TABLE");
    let (mut at, mut action) = (first, "");
    while at < tokens.len() {
        let begins = at == first || tokens[at - 1].token == Token::Comma;
        if begins && is_action(tokens, at) {
            action = ACTIONS.into_iter().find(|word| is(tokens, at, word)).unwrap_or_default();
            tokens[at + 1].token = Token::make_keyword("COLUMN");
        }
        // Both say what happens to tables of a type, which there are not.
        let is_behavior = is(tokens, at, "cascade") || is(tokens, at, "restrict");
        let ends = tokens.get(at + 1).is_none_or(|next| next.token == Token::Comma);
        if is_behavior && ends && action != "drop" {
            tokens.remove(at);
            continue;
        }
        at += 1;
    }
    true
}
