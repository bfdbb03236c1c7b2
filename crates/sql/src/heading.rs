//! PostgreSQL's name of an output without an alias (its `FigureColname`).

use crate::names;
use crate::system;
use sqlparser::ast::{self, AccessExpr, Expr, SelectItem, SetExpr};

/// Returns the heading of an output. `inner` is the name of the output of the subquery that it is,
/// if it is bound.
pub(crate) fn heading(expr: &Expr, inner: Option<&str>) -> String {
    named(expr, inner).map_or_else(|| "?column?".into(), |(name, _)| name)
}

/// Returns a name, and true if it is strong: a strong name inside replaces that of a cast or a
/// CASE.
fn named(expr: &Expr, inner: Option<&str>) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    let weak_type = |ty: &ast::DataType| type_name(ty).map(|name| (name, false));
    match expr {
        Expr::Identifier(ident) => Some((names::fold(ident), true)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| (names::fold(part), true)),
        Expr::Function(call) => Some((names::function_name(&call.name), true)),
        Expr::Cast { expr, data_type, .. } => match named(expr, inner) {
            Some((name, true)) => Some((name, true)),
            weak => weak_type(data_type).or(weak),
        },
        Expr::TypedString(typed) => weak_type(&typed.data_type),
        Expr::Interval(_) => Some(("interval".into(), false)),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some((names::fold(name), true)),
                _ => None,
            });
            field.or_else(|| named(root, inner))
        }
        Expr::Nested(expr) | Expr::Collate { expr, .. } => named(expr, inner),
        Expr::Case { else_result, .. } => {
            match else_result.as_deref().and_then(|expr| named(expr, inner)) {
                Some((name, true)) => Some((name, true)),
                _ => Some(("case".into(), false)),
            }
        }
        Expr::Subquery(query) => inner.map_or_else(|| output(query), strong),
        Expr::Exists { negated: false, .. } => strong("exists"),
        Expr::Array(_) => strong("array"),
        Expr::Tuple(_) => strong("row"),
        Expr::AtTimeZone { .. } => strong("timezone"),
        Expr::Extract { .. } => strong("extract"),
        Expr::BinaryOp { op: ast::BinaryOperator::Overlaps, .. } => strong("overlaps"),
        Expr::Position { .. } => strong("position"),
        Expr::Substring { shorthand: true, .. } => strong("substr"),
        Expr::Substring { .. } => strong("substring"),
        Expr::Overlay { .. } => strong("overlay"),
        Expr::Ceil { .. } => strong("ceil"),
        Expr::Floor { .. } => strong("floor"),
        Expr::Trim { trim_where, .. } => strong(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

/// Returns the name of a subquery's first output.
fn output(query: &ast::Query) -> Option<(String, bool)> {
    let SetExpr::Select(select) = &*query.body else { return None };
    match select.projection.first()? {
        SelectItem::ExprWithAlias { alias, .. } => Some((names::fold(alias), true)),
        SelectItem::UnnamedExpr(expr) => named(expr, None),
        _ => None,
    }
}

/// Returns `pg_type`'s name of a type.
fn type_name(ty: &ast::DataType) -> Option<String> {
    if let ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(element, _)) = ty {
        return type_name(element);
    }
    if let Ok(ty) = names::data_type(ty, &[]) {
        return Some(system::type_name(ty));
    }
    match ty {
        ast::DataType::Regclass => Some("regclass".into()),
        ast::DataType::Interval { .. } => Some("interval".into()),
        ast::DataType::Custom(name, _) => Some(names::function_name(name)),
        _ => None,
    }
}
