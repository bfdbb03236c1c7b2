//! ON CONFLICT of INSERT.
//!
//! The new values of DO UPDATE are expressions over the existing row and the one that was to be
//! inserted. If they read tables, or if RETURNING does, the source of the INSERT computes them
//! before the first row is written:
//!
//! ```text
//! outputs of RETURNING, over the row as it will be
//!   └─ new values
//!        └─ whether a row exists, and whether it is changed: WHERE
//!             └─ the rows to insert ⟕ the table, on the key
//! ```
//!
//! A row that the statement itself inserts cannot be changed by it, so that the rows from before
//! are all that it may change.

use super::Binder;
use super::arbiter::conflict_index;
use super::insert::{at, ids};
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::expr::{Compare, Expr};
use crate::logical::{ColumnId, JoinKind, Rel};
use crate::types::Type;
use sqlparser::ast;
use std::sync::Arc;

/// The action at a row whose key exists.
#[derive(Debug)]
pub(crate) enum OnConflict<U = DoUpdate> {
    Fail,
    /// The key whose conflicts are ignored; `None` for all keys.
    Nothing(Option<Option<usize>>),
    Update(U),
}

/// A change of the existing row.
#[derive(Debug)]
pub(crate) struct DoUpdate {
    pub(crate) index: Option<usize>,
    pub(crate) columns: Vec<usize>,
    pub(crate) values: NewValues,
}

/// The new values of DO UPDATE.
#[derive(Debug)]
pub(crate) enum NewValues {
    /// Expressions over the values of the existing row and those of the row that was to be
    /// inserted; changes nothing if the filter does not hold.
    Exprs { values: Vec<Expr>, filter: Option<Expr> },
    /// Computed by the source: whether a row exists, whether it is changed, and the values.
    Computed,
}

/// DO UPDATE as bound: its expressions are over the columns of both rows.
pub(super) struct BoundUpdate {
    index: Option<usize>,
    /// The columns of the row that was to be inserted.
    excluded: Vec<ColumnId>,
    assignments: Vec<(usize, Expr)>,
    filter: Option<Expr>,
}

/// A DO UPDATE that the source of the INSERT computes.
pub(super) struct Planned {
    pub(super) action: OnConflict,
    pub(super) rel: Rel,
    /// The row to insert, whether a row exists, whether it is changed, and the new values.
    pub(super) outputs: Vec<ColumnId>,
    /// The column that tells whether an existing row is changed.
    pub(super) changes: ColumnId,
}

impl OnConflict<BoundUpdate> {
    /// True if an expression of it is one that only a plan evaluates.
    pub(super) fn needs_plan(&self, reads: impl Fn(&Expr) -> bool) -> bool {
        let OnConflict::Update(update) = self else { return false };
        update.assignments.iter().map(|(_, value)| value).chain(&update.filter).any(reads)
    }

    /// Returns the action, with values that the running statement evaluates.
    pub(super) fn evaluated(self, existing: &[ColumnId]) -> OnConflict {
        let update = match self {
            OnConflict::Fail => return OnConflict::Fail,
            OnConflict::Nothing(index) => return OnConflict::Nothing(index),
            OnConflict::Update(update) => update,
        };
        let layout = [existing, &update.excluded].concat();
        let (columns, values): (Vec<_>, Vec<_>) = update.assignments.into_iter().unzip();
        let values = values.into_iter().map(|value| at(value, &layout)).collect();
        let filter = update.filter.map(|filter| at(filter, &layout));
        let values = NewValues::Exprs { values, filter };
        OnConflict::Update(DoUpdate { index: update.index, columns, values })
    }
}

impl Binder {
    /// Binds ON CONFLICT; the relation in scope is the table.
    pub(super) fn on_conflict(
        &mut self,
        on: &ast::OnConflict,
        table: &Arc<Table>,
    ) -> Result<OnConflict<BoundUpdate>, SqlError> {
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
        let relation = self.table_columns(table.clone(), "excluded", false);
        let excluded = ids(&relation);
        self.level().relations.push(relation);
        self.begin_clause("UPDATE", false);
        let assignments = self.assignments(table, assignments, None)?;
        self.begin_clause("WHERE", false);
        let filter = selection.as_ref().map(|expr| self.bind_bool(expr, "WHERE")).transpose()?;
        self.end_clause();
        self.level().relations.pop();
        Ok(OnConflict::Update(BoundUpdate { index, excluded, assignments, filter }))
    }

    /// Adds what DO UPDATE does to the plan of the rows to insert, whose columns are the proposed
    /// ones. Those of the existing row and of the row as it will be written have ids already.
    pub(super) fn planned_update(
        &mut self,
        update: BoundUpdate,
        table: &Arc<Table>,
        (rel, proposed): (Rel, &[ColumnId]),
        existing: &[ColumnId],
        written: &[ColumnId],
    ) -> Result<Planned, SqlError> {
        let BoundUpdate { index, excluded, assignments, filter } = update;
        let renamed = excluded.iter().zip(proposed).map(|(id, of)| (*id, Expr::Column(*of)));
        let rel = Rel::Project { input: Box::new(rel), outputs: renamed.collect() };
        // The existing row.
        let key = match index {
            Some(at) => &table.indexes[at],
            None => table.primary.as_ref().ok_or_else(|| SqlError::corrupted("no primary key"))?,
        };
        if key.predicate.is_some() {
            return Err(SqlError::unsupported("a subquery beside ON CONFLICT of a partial index"));
        }
        let mut equal = Vec::with_capacity(key.columns.len());
        for part in &key.columns {
            let column = part.column as usize;
            if column >= existing.len() {
                return Err(SqlError::unsupported("a subquery beside ON CONFLICT of expressions"));
            }
            let sides = (Expr::Column(excluded[column]), Expr::Column(existing[column]));
            equal.push(Expr::Compare(Compare::Eq, Box::new(sides)));
        }
        let timestamp = self.computed(super::COMMIT_TIMESTAMP, Type::TimestampTz);
        let columns = existing.iter().copied().chain([timestamp]).collect();
        let scan = Rel::Scan { table: table.clone(), columns };
        let found = self.computed("found", Type::Bool);
        let mut kept: Vec<_> = existing.iter().map(|id| (*id, Expr::Column(*id))).collect();
        kept.push((found, Expr::truth()));
        let scan = Rel::Project { input: Box::new(scan), outputs: kept };
        let rel = rel.join(JoinKind::Left, scan, Expr::And(equal));
        // Whether it is changed, and its new values.
        let case = |when: Expr, then: Expr, otherwise: Expr| Expr::Case {
            branches: vec![(when, then)],
            otherwise: Box::new(otherwise),
        };
        let exists = Expr::IsNull(Box::new(Expr::Column(found)), true);
        let changes = self.computed("changes", Type::Bool);
        let changed =
            case(exists, filter.unwrap_or_else(Expr::truth), Expr::Const(Datum::Bool(false)));
        let rel = rel.with_columns(vec![(changes, changed)]);
        let mut outputs = [&excluded[..], &[found, changes]].concat();
        let mut values = Vec::with_capacity(assignments.len());
        let mut after = existing.to_vec();
        let mut assigned = Vec::with_capacity(assignments.len());
        for (column, value) in assignments {
            let id = self.copied(existing[column]);
            values.push((id, case(Expr::Column(changes), value, Expr::Const(Datum::Null))));
            outputs.push(id);
            after[column] = id;
            assigned.push(column);
        }
        let rel = rel.with_columns(values);
        // The row as it will be.
        let mut rows = Vec::with_capacity(after.len());
        for (at, id) in written.iter().enumerate() {
            if table.columns[at].generated.is_none() {
                let either = (Expr::Column(after[at]), Expr::Column(excluded[at]));
                rows.push((*id, case(Expr::Column(changes), either.0, either.1)));
            }
        }
        let rel = rel.with_columns(rows).with_columns(table.generated_over(written));
        let (columns, values) = (assigned, NewValues::Computed);
        let action = OnConflict::Update(DoUpdate { index, columns, values });
        Ok(Planned { action, rel, outputs, changes })
    }
}
