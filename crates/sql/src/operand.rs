//! Operands that PostgreSQL reads and the parser does not: a literal behind the name of any type
//! (`mood 'ok'`), and operators by the name of their schema where the parser expects their signs.

use crate::parse::is_word;
use crate::system;
use sqlparser::ast::{BinaryOperator, Expr, TypedString, UnaryOperator};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

type Parsed = Option<Result<Expr, ParserError>>;

/// The most tokens inside the brackets of OPERATOR (…): two names, and a sign.
const LONGEST_OPERATOR: usize = 5;

fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::DollarQuotedString(_)
    )
}

/// Parses `type 'text'`. Key words that name types are left to the parser.
pub(crate) fn typed_literal(parser: &mut Parser) -> Parsed {
    let is_name = |at: usize| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => word.quote_style.is_some() || !system::is_key_word(&word.value),
        _ => false,
    };
    let is_qualified = parser.peek_nth_token_ref(1).token == Token::Period;
    let literal = if is_qualified { 3 } else { 1 };
    if !is_string(&parser.peek_nth_token_ref(literal).token) || !is_name(0) {
        return None;
    }
    Some(parser.parse_data_type().and_then(|data_type| {
        let value = parser.parse_value()?;
        Ok(Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }))
    }))
}

/// Returns the names and the sign in OPERATOR (…), which is next, and the number of its tokens.
fn named_operator(parser: &Parser) -> Option<(Vec<String>, usize)> {
    let is_next = is_word(parser.peek_token_ref(), "operator");
    if !is_next || parser.peek_nth_token_ref(1).token != Token::LParen {
        return None;
    }
    let mut parts = Vec::new();
    for at in 2..2 + LONGEST_OPERATOR {
        match &parser.peek_nth_token_ref(at).token {
            Token::RParen => return Some((parts, at + 1)),
            Token::Period => {}
            Token::EOF => return None,
            token => parts.push(token.to_string()),
        }
    }
    None
}

fn skip(parser: &mut Parser, tokens: usize) {
    for _ in 0..tokens {
        parser.next_token();
    }
}

/// Parses OPERATOR (…) before its operand, whose precedence is `other`.
pub(crate) fn prefix(parser: &mut Parser, other: u8) -> Parsed {
    let (parts, length) = named_operator(parser)?;
    let op = match parts.last()?.as_str() {
        "+" => UnaryOperator::Plus,
        "-" => UnaryOperator::Minus,
        "~" => UnaryOperator::BitwiseNot,
        "@" => UnaryOperator::PGAbs,
        "|/" => UnaryOperator::PGSquareRoot,
        "||/" => UnaryOperator::PGCubeRoot,
        _ => return None,
    };
    skip(parser, length);
    let operand = parser.parse_subexpr(other);
    Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
}

/// Parses OPERATOR (…) before ANY, SOME or ALL.
pub(crate) fn quantified(parser: &mut Parser, left: &Expr, precedence: u8) -> Parsed {
    let (parts, length) = named_operator(parser)?;
    let quantifier = |word| is_word(parser.peek_nth_token_ref(length), word);
    let (any, some, all) = (quantifier("any"), quantifier("some"), quantifier("all"));
    if !any && !some && !all {
        return None;
    }
    skip(parser, length + 1);
    let is_query = parser.peek_token_ref().token == Token::LParen
        && ["select", "with"].iter().any(|word| is_word(parser.peek_nth_token_ref(1), word));
    let right = match is_query {
        true => parser.parse_subexpr(precedence),
        false => parser.expect_token(&Token::LParen).and_then(|_| {
            let right = parser.parse_subexpr(0)?;
            parser.expect_token(&Token::RParen)?;
            Ok(right)
        }),
    };
    Some(right.map(|right| {
        let (left, right) = (Box::new(left.clone()), Box::new(right));
        let compare_op = BinaryOperator::PGCustomBinaryOperator(parts);
        match all {
            true => Expr::AllOp { left, compare_op, right },
            false => Expr::AnyOp { left, compare_op, right, is_some: some },
        }
    }))
}

#[cfg(test)]
mod tests {
    use crate::parse;

    #[test]
    fn literals_have_the_names_of_any_type() {
        for (text, shown) in [
            ("mood 'ok'", "mood 'ok'"),
            ("public.mood E'ok'", "public.mood E'ok'"),
            ("\"Mood\" 'ok' = mood 'ok'", "\"Mood\" 'ok' = mood 'ok'"),
            ("not 'true'", "NOT 'true'"),
            ("a OPERATOR(pg_catalog.=) ANY (b)", "a OPERATOR(pg_catalog.=) ANY(b)"),
        ] {
            assert_eq!(parse::expression(text).unwrap().to_string(), shown);
        }
    }
}
