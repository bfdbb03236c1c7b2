//! Rewrites forms of queries on the system tables that clients use and DataFusion would reject.

use crate::dialect::{null, take};
use meridian_sql::system::is_always_empty;
use meridian_sql::{fold, heading};
use sqlparser::ast::{
    self, DataType, Expr, FunctionArg, FunctionArgExpr, GroupByExpr, Ident, ObjectName, Select,
    SelectItem, TableFactor, Value,
};
use std::ops::ControlFlow;

/// Returns the name of a cast to one of PostgreSQL's object types.
pub(crate) fn object_type(ty: &DataType) -> Option<&'static str> {
    let name = match ty {
        DataType::Regclass => return Some("regclass"),
        DataType::Custom(name, _) => name.0.last()?.as_ident()?,
        _ => return None,
    };
    let known =
        ["regclass", "regtype", "regnamespace", "regproc", "regrole", "oid", "name", "char"];
    let folded = fold(name);
    known.into_iter().find(|known| *known == folded).or(match folded.as_str() {
        "text" => Some("name"),
        "xid" | "cid" => Some("oid"),
        "regprocedure" | "regoper" | "regoperator" => Some("regproc"),
        _ => None,
    })
}

/// True if a SELECT joins a system table that never has rows. Its outputs need no support then.
pub(crate) fn has_no_rows(select: &Select) -> bool {
    let is_empty = |factor: &TableFactor| match factor {
        TableFactor::Table { name, args: None, .. } => {
            is_always_empty(&name.to_string().to_lowercase())
        }
        // Options of relations are lists without elements.
        TableFactor::Table { name, args: Some(args), .. } => {
            let last = |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(fold);
            last(name).as_deref() == Some("unnest")
                && matches!(args.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::CompoundIdentifier(parts)))]
                    if parts.last().is_some_and(|part| fold(part) == "reloptions"))
        }
        _ => false,
    };
    let inner = |join: &ast::Join| {
        matches!(
            join.join_operator,
            ast::JoinOperator::Join(_)
                | ast::JoinOperator::Inner(_)
                | ast::JoinOperator::CrossJoin(_)
        ) && is_empty(&join.relation)
    };
    let only_inner = |from: &ast::TableWithJoins| {
        from.joins.iter().all(|join| {
            !matches!(
                join.join_operator,
                ast::JoinOperator::Right(_)
                    | ast::JoinOperator::RightOuter(_)
                    | ast::JoinOperator::FullOuter(_)
            )
        })
    };
    // An aggregate over no rows returns a row. (Clients use few names of aggregates on the
    // catalog.)
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty())
        || select.having.is_some()
        || select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(Expr::Function(call))
            | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. } => {
                let name = call
                    .name
                    .0
                    .last()
                    .and_then(|part| part.as_ident())
                    .map(fold)
                    .unwrap_or_default();
                matches!(
                    name.as_str(),
                    "count"
                        | "max"
                        | "min"
                        | "sum"
                        | "array_agg"
                        | "string_agg"
                        | "bool_or"
                        | "bool_and"
                )
            }
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
            _ => false,
        });
    !grouped
        && select.from.iter().any(|from| {
            only_inner(from) && (is_empty(&from.relation) || from.joins.iter().any(inner))
        })
}

/// Inlines `CROSS JOIN LATERAL (SELECT e) AS o(n)`, which always has one row: replaces `o.n` by
/// `e`.
pub(crate) fn inline_lateral(select: &mut Select) {
    let mut values: Vec<(String, String, Expr)> = Vec::new();
    for from in &mut select.from {
        from.joins.retain(|join| {
            let ast::JoinOperator::CrossJoin(ast::JoinConstraint::None) = &join.join_operator
            else {
                return true;
            };
            let TableFactor::Derived { lateral: true, subquery, alias: Some(alias), .. } =
                &join.relation
            else {
                return true;
            };
            let ast::SetExpr::Select(inner) = &*subquery.body else { return true };
            let plain = inner.from.is_empty()
                && inner.selection.is_none()
                && inner.having.is_none()
                && inner.distinct.is_none()
                && subquery.limit_clause.is_none()
                && subquery.with.is_none();
            let mut found = Vec::new();
            for (at, item) in inner.projection.iter().enumerate() {
                let (expr, name) = match item {
                    SelectItem::UnnamedExpr(expr) => (expr, heading(expr)),
                    SelectItem::ExprWithAlias { expr, alias } => (expr, fold(alias)),
                    _ => return true,
                };
                let name = alias.columns.get(at).map_or(name, |column| fold(&column.name));
                found.push((fold(&alias.name), name, Expr::Nested(Box::new(expr.clone()))));
            }
            if plain {
                values.append(&mut found);
            }
            !plain
        });
    }
    if !values.is_empty() {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(_)) = item {
                let alias = Ident::with_quote('"', heading(expr));
                *item = SelectItem::ExprWithAlias { expr: take(expr), alias };
            }
        }
        let _ = ast::visit_expressions_mut(select, |expr| {
            if let Expr::CompoundIdentifier(parts) = expr
                && let [table, column] = parts.as_slice()
                && let Some((.., value)) = values
                    .iter()
                    .find(|(other, name, _)| *other == fold(table) && *name == fold(column))
            {
                *expr = value.clone();
            }
            ControlFlow::<()>::Continue(())
        });
    }
}

/// Turns a SELECT into `SELECT NULL, … WHERE false`.
pub(crate) fn empty(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let name = match expr {
                Expr::Subquery(_) => "?column?".into(),
                expr => heading(expr),
            };
            let text = Expr::Cast {
                kind: ast::CastKind::Cast,
                expr: Box::new(null()),
                data_type: DataType::Text,
                array: false,
                format: None,
            };
            let alias = match item {
                SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                _ => Ident::with_quote('"', name),
            };
            *item = SelectItem::ExprWithAlias { expr: text, alias };
        }
    }
    select.from.clear();
    select.selection = Some(Expr::value(Value::Boolean(false)));
    select.distinct = None;
}
