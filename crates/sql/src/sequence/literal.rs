//! Literals that name a sequence in calls of its functions.

use crate::names;
use sqlparser::ast::{self, CastKind, DataType, Expr, Value};

/// Returns the text of a literal, perhaps cast to `text` or `regclass`.
fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        Expr::Cast {
            kind: CastKind::DoubleColon | CastKind::Cast,
            expr,
            data_type: DataType::Regclass | DataType::Text,
            ..
        } => text_of(expr),
        Expr::Nested(inner) => text_of(inner),
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
    match expr {
        Expr::Function(call) => argument(call).and_then(text_of),
        _ => None,
    }
}
