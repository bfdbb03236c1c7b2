//! Runs UPDATE and DELETE.

use super::{Changed, Running, all_rows};
use crate::bind;
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::explain::Actuals;
use crate::response::Column;
use crate::{kv, normalize, physical};
use std::sync::Arc;

/// A planned UPDATE or DELETE.
pub(crate) struct Change {
    pub(crate) table: Arc<Table>,
    /// Each of its rows has a row's key, its values if the scan has locked it, the values of the
    /// assigned columns, and the outputs of RETURNING.
    pub(crate) query: Arc<physical::Query>,
    /// True if the scan locks the rows. Otherwise each is locked when it is changed: its query
    /// reads rows that are not changed in the end.
    locks: bool,
    /// The columns that change; `None` for DELETE.
    assigned: Option<Vec<usize>>,
    pub(crate) returning: Option<Arc<[Column]>>,
}

impl Change {
    /// Plans a bound UPDATE or DELETE.
    pub(crate) fn plan(change: bind::Change, relations: usize) -> Result<Change, SqlError> {
        let bind::Change { table, query, locks, assigned, returning } = change;
        let query = Arc::new(physical::lower(normalize::query(query), relations)?);
        Ok(Change { table, query, locks, assigned, returning })
    }

    pub(crate) fn is_update(&self) -> bool {
        self.assigned.is_some()
    }

    /// Changes the rows. Counts what the nodes of its query do, if that is wanted.
    pub(super) async fn run(
        &self,
        running: &mut Running<'_>,
        actuals: Option<&mut Actuals>,
    ) -> Result<Changed, SqlError> {
        let table = &*self.table;
        let mut changed = Changed::default();
        let (rows, _held) = all_rows(&self.query, running, actuals).await?;
        for row in rows {
            let mut values = row.into_iter();
            let Some(Datum::Bytes(key)) = values.next() else {
                return Err(SqlError::corrupted("a row without a key"));
            };
            let key = kv::to_key(key.to_vec());
            if running.target.has_written(&key) {
                continue;
            }
            let old: Vec<Datum> = if self.locks {
                values.by_ref().take(table.columns.len()).collect()
            } else {
                running.locked_row(table, &key).await?
            };
            let new = self.assigned.as_ref().map(|assigned| {
                let mut new = old.clone();
                for (column, value) in assigned.iter().zip(values.by_ref()) {
                    new[*column] = value;
                }
                new
            });
            running.rewrite(&self.table, &key, &old, new.as_deref()).await?;
            changed.add(self.returning.is_some().then(|| values.collect()));
        }
        Ok(changed)
    }
}
