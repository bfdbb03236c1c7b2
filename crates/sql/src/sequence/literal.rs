//! Literals that name a sequence in calls of its functions.

use crate::names;
use sqlparser::ast::{self, CastKind, DataType, Expr, Value};
use sqlparser::tokenizer::Span;

/// Returns a literal and its place, perhaps cast to `text` or `regclass`.
fn literal(expr: &Expr) -> Option<(&str, Span)> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some((text, value.span)),
            _ => None,
        },
        Expr::Cast {
            kind: CastKind::DoubleColon | CastKind::Cast,
            expr,
            data_type: DataType::Regclass | DataType::Text,
            ..
        } => literal(expr),
        Expr::Nested(inner) => literal(inner),
        _ => None,
    }
}

/// Returns the first argument of a call of a function of sequences.
fn argument(call: &ast::Function) -> Option<&Expr> {
    let name = names::function_name(&call.name);
    if !matches!(name.as_str(), "nextval" | "currval" | "setval") {
        return None;
    }
    names::arguments(call).ok()?.first().copied()
}

/// Returns the literal that names a sequence in a call.
pub(crate) fn literal_of(expr: &Expr) -> Option<&str> {
    placed_literal_of(expr).map(|(text, _)| text)
}

/// Returns that literal with its place in the statement.
pub(crate) fn placed_literal_of(expr: &Expr) -> Option<(&str, Span)> {
    match expr {
        Expr::Function(call) => argument(call).and_then(literal),
        _ => None,
    }
}
