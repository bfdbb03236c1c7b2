//! Runs INSERT.

use super::target::Target;
use super::{Changed, Running, Touched, all_rows};
use crate::bind::{self, DoUpdate, NewValues, OnConflict, Returning};
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::explain::Actuals;
use crate::expr::{Expr, Scope};
use crate::response::Column;
use crate::write::{self, Store};
use crate::{effects, kv, normalize, physical};
use std::sync::Arc;

/// The source of the rows.
enum Source {
    Values(Vec<Vec<Expr>>),
    Query(Arc<physical::Query>),
}

/// A planned INSERT.
pub(crate) struct Insert {
    pub(crate) table: Arc<Table>,
    source: Source,
    conflict: OnConflict,
    returning: Option<Returning>,
}

/// The effects of a running INSERT.
struct Inserted {
    changed: Changed,
    /// The rows that ON CONFLICT DO UPDATE has written: none may be written twice.
    touched: Touched,
}

impl Insert {
    /// Plans a bound INSERT.
    pub(crate) fn plan(insert: bind::Insert, relations: usize) -> Result<Insert, SqlError> {
        let bind::Insert { table, source, conflict, returning } = insert;
        let source = match source {
            bind::Source::Values(rows) => Source::Values(rows),
            bind::Source::Query(query) => {
                Source::Query(Arc::new(physical::lower(normalize::query(*query), relations)?))
            }
        };
        Ok(Insert { table, source, conflict, returning })
    }

    /// An INSERT of no rows.
    #[cfg(test)]
    pub(super) fn of_nothing(table: Arc<Table>) -> Insert {
        let (source, conflict) = (Source::Values(Vec::new()), OnConflict::Fail);
        Insert { table, source, conflict, returning: None }
    }

    /// Returns the query of its rows; the number of rows, if they are values.
    pub(crate) fn query(&self) -> Result<&physical::Query, usize> {
        match &self.source {
            Source::Query(query) => Ok(query),
            Source::Values(rows) => Err(rows.len()),
        }
    }

    /// Returns the columns of RETURNING.
    pub(crate) fn columns(&self) -> Option<Arc<[Column]>> {
        self.returning.as_ref().map(|returning| returning.columns.clone())
    }

    /// Returns its action at a conflict, if it does not fail.
    pub(crate) fn conflict_resolution(&self) -> Option<&'static str> {
        match self.conflict {
            OnConflict::Fail => None,
            OnConflict::Nothing(_) => Some("NOTHING"),
            OnConflict::Update(_) => Some("UPDATE"),
        }
    }

    /// Inserts the rows. Counts what the nodes of its query do, if that is wanted.
    pub(super) async fn run(
        &self,
        running: &mut Running<'_>,
        actuals: Option<&mut Actuals>,
    ) -> Result<Changed, SqlError> {
        let touched = Touched::none(running.scope);
        let mut inserted = Inserted { changed: Changed::default(), touched };
        match &self.source {
            Source::Values(rows) => {
                for row in rows {
                    let txn = &mut *running.target.txn;
                    let row = effects::evaluate(row, &[], running.scope, txn).await?;
                    self.insert(row, Vec::new(), running, &mut inserted).await?;
                }
            }
            Source::Query(plan) => {
                let (rows, _held) = all_rows(plan, running, actuals).await?;
                for mut row in rows {
                    let computed = row.split_off(self.table.columns.len());
                    self.insert(row, computed, running, &mut inserted).await?;
                }
            }
        }
        Ok(inserted.changed)
    }

    /// Counts a row that was written, and adds its outputs: those that were computed with it, or
    /// expressions over it and over whether ON CONFLICT changed it.
    async fn take(
        &self,
        mut row: Vec<Datum>,
        is_changed: bool,
        computed: Vec<Datum>,
        running: &mut Running<'_>,
        inserted: &mut Inserted,
    ) -> Result<(), SqlError> {
        running.target.account()?;
        let returned = match &self.returning {
            None => None,
            Some(Returning { exprs: None, .. }) => Some(computed),
            Some(Returning { exprs: Some(exprs), .. }) => {
                row.push(bind::Insert::xmax(is_changed));
                let txn = &mut *running.target.txn;
                Some(effects::evaluate(exprs, &row, running.scope, txn).await?)
            }
        };
        inserted.changed.add(returned);
        Ok(())
    }

    /// Fails if the source computed the outputs of RETURNING for a row whose key the statement
    /// itself has changed since: the row is inserted, and they belong to the changed one.
    fn check_unmoved(&self, computed: &[Datum]) -> Result<(), SqlError> {
        let OnConflict::Update(DoUpdate { values: NewValues::Computed, .. }) = &self.conflict
        else {
            return Ok(());
        };
        let returns = self.returning.as_ref().is_some_and(|returning| returning.exprs.is_none());
        if returns && computed.starts_with(&[Datum::Bool(true), Datum::Bool(true)]) {
            let what =
                "a subquery in RETURNING of a row whose key another row of the statement had";
            return Err(SqlError::unsupported(what));
        }
        Ok(())
    }

    /// Returns the outputs of RETURNING among what the source computed with a row.
    fn returned(&self, mut computed: Vec<Datum>) -> Vec<Datum> {
        match &self.conflict {
            OnConflict::Update(DoUpdate { columns, values: NewValues::Computed, .. }) => {
                computed.split_off(2 + columns.len())
            }
            _ => computed,
        }
    }

    async fn insert(
        &self,
        mut row: Vec<Datum>,
        computed: Vec<Datum>,
        running: &mut Running<'_>,
        inserted: &mut Inserted,
    ) -> Result<(), SqlError> {
        let table = &*self.table;
        let Running { target, scope, row_number, owed, .. } = &mut *running;
        let (mut own, facts) = (**row_number, scope.session);
        let clash = write::insert(target, table, &mut row, facts, row_number).await?;
        let Some(clash) = clash else {
            if let Some(owed) = owed {
                owed.wrote(&self.table, None, &row)?;
            }
            if let OnConflict::Update(_) = &self.conflict {
                let hidden = || write::hidden_key(table, target.age(), &mut own);
                let key = table.row_key(&row).unwrap_or_else(hidden);
                inserted.touched.add(kv::to_key(key))?;
            }
            self.check_unmoved(&computed)?;
            return self.take(row, false, self.returned(computed), running, inserted).await;
        };
        // The key that is named decides, even if the row conflicts in another one as well.
        let named = match &self.conflict {
            OnConflict::Nothing(Some(index)) | OnConflict::Update(DoUpdate { index, .. }) => {
                Some(*index)
            }
            OnConflict::Nothing(None) | OnConflict::Fail => None,
        };
        let clash = match named.filter(|named| *named != clash.index) {
            Some(named) => write::clash_in(target, table, &row, named).await?.unwrap_or(clash),
            None => clash,
        };
        match &self.conflict {
            OnConflict::Nothing(index) if index.is_none_or(|index| index == clash.index) => Ok(()),
            OnConflict::Update(DoUpdate { index, columns, values }) if *index == clash.index => {
                if inserted.touched.contains(&clash.key) || target.has_written(&clash.key) {
                    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
                    return Err(SqlError::new(state::CARDINALITY_VIOLATION, message)
                        .hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values."));
                }
                let Some(old) = target.locked_row(table, &clash.key).await? else {
                    let message = "a unique index names a row that is not there";
                    return Err(SqlError::corrupted(message));
                };
                let made = new_values(values, &old, &row, &computed, scope, target).await?;
                let Some(made) = made else {
                    return Ok(());
                };
                let mut new = old.clone();
                for (column, value) in columns.iter().zip(made) {
                    new[*column] = value;
                }
                table.generate_after(columns, &mut new)?;
                running.rewrite(&self.table, &clash.key, &old, Some(&new)).await?;
                inserted.touched.add(table.row_key(&new).map_or(clash.key, kv::to_key))?;
                self.take(new, true, self.returned(computed), running, inserted).await
            }
            _ => Err(write::duplicate(table, clash.index, &row, facts.zone())),
        }
    }
}

/// Returns the new values of an existing row; `None` if it stays as it is.
async fn new_values(
    values: &NewValues,
    old: &[Datum],
    row: &[Datum],
    computed: &[Datum],
    scope: &Scope<'_>,
    target: &mut Target<'_>,
) -> Result<Option<Vec<Datum>>, SqlError> {
    let txn = &mut *target.txn;
    match (values, computed) {
        (NewValues::Exprs { values, filter }, _) => {
            let both = [old, row].concat();
            match filter {
                Some(filter) if !effects::holds(filter, &both, scope, txn).await? => Ok(None),
                _ => effects::evaluate(values, &both, scope, txn).await.map(Some),
            }
        }
        (NewValues::Computed, [Datum::Bool(true), Datum::Bool(true), values @ ..]) => {
            Ok(Some(values.to_vec()))
        }
        (NewValues::Computed, [Datum::Bool(true), ..]) => Ok(None),
        // The transaction would have to read another state than its own query did.
        (NewValues::Computed, _) => {
            Err(SqlError::corrupted("a row exists that the query of its statement did not find"))
        }
    }
}
