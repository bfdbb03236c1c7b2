//! Queries of clients over system tables that never have rows, because the objects that they list
//! do not exist here. Such a query has no rows either, so it is answered even if it uses functions
//! and operators that are not built.

use super::lock::Lockable;
use super::query::{Bound, Output};
use super::{Binder, Level};
use crate::aggregate;
use crate::error::{SqlError, state};
use crate::heading::heading;
use crate::logical::Rel;
use crate::names;
use crate::system;
use crate::types::Type;
use sqlparser::ast::{
    self, Expr, GroupByExpr, JoinOperator, Select, SelectItem, TableFactor, TableWithJoins,
};

/// The SQLSTATEs of what is not built.
const NOT_BUILT: [&str; 5] = [
    state::FEATURE_NOT_SUPPORTED,
    state::UNDEFINED_FUNCTION,
    state::UNDEFINED_OBJECT,
    state::TYPE_MISMATCH,
    state::WRONG_OBJECT,
];

fn is_empty(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, args: None, .. } => {
            names::relation(name).is_ok_and(|name| system::is_always_empty(&name))
        }
        _ => false,
    }
}

/// True if a join of FROM has no rows.
fn joins_nothing(from: &TableWithJoins) -> bool {
    let keeps_left = from.joins.iter().all(|join| {
        !matches!(
            join.join_operator,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
        )
    });
    let is_inner = |join: &ast::Join| {
        matches!(
            join.join_operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
        )
    };
    let inner = |join: &ast::Join| is_inner(join) && is_empty(&join.relation);
    keeps_left && (is_empty(&from.relation) || from.joins.iter().any(inner))
}

/// True if an aggregate makes a row of no rows.
fn aggregates(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    let mut found = false;
    let _ = ast::visit_expressions(expr, |part| {
        if let Expr::Function(call) = part {
            let name = names::function_name(&call.name);
            found |= !aggregate::named(&name).is_empty() || name.ends_with("_agg");
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    found
}

fn has_no_rows(select: &Select) -> bool {
    let is_star = |item: &SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty())
        || select.having.is_some()
        || select.projection.iter().any(|item| aggregates(item) || is_star(item));
    !grouped && select.from.iter().any(joins_nothing)
}

impl Binder {
    /// Binds a SELECT without rows, for which another error stands otherwise.
    pub(super) fn bind_empty(
        &mut self,
        select: &Select,
        error: SqlError,
    ) -> Result<Bound, SqlError> {
        if !NOT_BUILT.contains(&error.sqlstate) || !has_no_rows(select) {
            return Err(error);
        }
        self.levels.push(Level::default());
        let mut outputs = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            let name = match item {
                SelectItem::ExprWithAlias { alias, .. } => names::fold(alias),
                SelectItem::UnnamedExpr(expr) => heading(expr, None),
                _ => return Err(error),
            };
            outputs.push(Output { id: self.computed(&name, Type::Text), name, unknown: false });
        }
        self.levels.pop();
        let columns = outputs.iter().map(|output| output.id).collect();
        let rel = Rel::Values { columns, rows: Vec::new() };
        Ok(Bound { rel, outputs, rows: Lockable::default() })
    }
}
