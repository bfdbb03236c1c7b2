//! ON CONFLICT of INSERT.

use super::Binder;
use super::insert::{at, ids};
use super::target::target_columns;
use crate::catalog::Table;
use crate::error::{SqlError, state};
use crate::expr::Expr;
use crate::logical::ColumnId;
use crate::names;
use sqlparser::ast;
use std::sync::Arc;

/// The action at a row whose key exists.
#[derive(Debug)]
pub(crate) enum OnConflict {
    Fail,
    /// The key whose conflicts are ignored; `None` for all keys.
    Nothing(Option<Option<usize>>),
    /// Changes the existing row. Its values stand before those of the row that was to be inserted.
    Update {
        index: Option<usize>,
        assignments: Vec<(usize, Expr)>,
        filter: Option<Expr>,
    },
}

impl Binder {
    /// Binds ON CONFLICT; the relation in scope, with these columns, is the table.
    pub(super) fn on_conflict(
        &mut self,
        on: &ast::OnConflict,
        table: &Arc<Table>,
        existing: &[ColumnId],
    ) -> Result<OnConflict, SqlError> {
        let ast::OnConflict { conflict_target, action } = on;
        let index = conflict_index(table, conflict_target.as_ref())?;
        let ast::OnConflictAction::DoUpdate(ast::DoUpdate { assignments, selection }) = action
        else {
            return Ok(OnConflict::Nothing(index));
        };
        let Some(index) = index else {
            let message =
                "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            return Err(SqlError::new(state::SYNTAX, message)
                .hint("For example, ON CONFLICT (column_name)."));
        };
        let excluded = self.table_columns(table.clone(), "excluded", false);
        let layout = [existing, &ids(&excluded)].concat();
        self.level().relations.push(excluded);
        self.begin_clause("UPDATE", false);
        let assignments = self.assignments(table, assignments, None)?;
        self.begin_clause("WHERE", false);
        let filter = selection.as_ref().map(|expr| self.bind_bool(expr, "WHERE")).transpose()?;
        self.end_clause();
        self.level().relations.pop();
        let mut exprs = assignments.iter().map(|(_, value)| value).chain(&filter);
        if exprs.any(Expr::has_subquery) {
            return Err(SqlError::unsupported("a subquery in ON CONFLICT DO UPDATE"));
        }
        let place = |(column, value)| (column, at(value, &layout));
        Ok(OnConflict::Update {
            index,
            assignments: assignments.into_iter().map(place).collect(),
            filter: filter.map(|filter| at(filter, &layout)),
        })
    }
}

/// Returns the unique key that ON CONFLICT names: `Some(None)` is the primary key.
fn conflict_index(
    table: &Table,
    target: Option<&ast::ConflictTarget>,
) -> Result<Option<Option<usize>>, SqlError> {
    let keys = || {
        table.primary.iter().map(|primary| (None, primary)).chain(
            table
                .indexes
                .iter()
                .enumerate()
                .filter(|(_, index)| index.unique && index.building.is_none())
                .map(|(at, index)| (Some(at), index)),
        )
    };
    match target {
        None => Ok(None),
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let name = names::relation(name)?;
            let found = keys()
                .find(|(_, index)| index.name == name && index.predicate.is_none())
                .map(|(at, _)| at);
            found.map(Some).ok_or_else(|| {
                let message =
                    format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
                SqlError::new(state::UNDEFINED_OBJECT, message)
            })
        }
        Some(ast::ConflictTarget::Columns(columns)) => {
            let mut wanted = target_columns(table, columns)?;
            wanted.sort_unstable();
            let found = keys().filter(|(_, index)| index.predicate.is_none()).find(|(_, index)| {
                let mut columns: Vec<usize> =
                    index.columns.iter().map(|part| part.column as usize).collect();
                columns.sort_unstable();
                columns == wanted
            });
            found.map(|(at, _)| Some(at)).ok_or_else(|| {
                SqlError::new(
                    state::INVALID_COLUMN_REFERENCE,
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                )
            })
        }
    }
}
