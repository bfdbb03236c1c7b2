//! Runs MERGE.

use super::{Changed, Running, Touched, all_rows};
use crate::bind::{self, MergeAction};
use crate::catalog::Table;
use crate::datum::Datum;
use crate::error::{SqlError, state};
use crate::explain::Actuals;
use crate::{kv, normalize, physical, write};
use std::sync::Arc;

/// A planned MERGE.
pub(crate) struct Merge {
    pub(crate) table: Arc<Table>,
    /// Each of its rows has the key of the table's row, NULL if there is none; the number of the
    /// action, NULL if there is none; and the values of each action.
    pub(crate) query: Arc<physical::Query>,
    /// The actions, each with the place of its values.
    actions: Vec<(MergeAction, usize)>,
}

fn again() -> SqlError {
    let message = "MERGE command cannot affect row a second time";
    let hint = "Ensure that not more than one source row matches any one target row.";
    SqlError::new(state::CARDINALITY_VIOLATION, message).hint(hint)
}

impl Merge {
    /// Plans a bound MERGE.
    pub(crate) fn plan(merge: bind::Merge, relations: usize) -> Result<Merge, SqlError> {
        let bind::Merge { table, query, actions: bound } = merge;
        let query = Arc::new(physical::lower(normalize::query(query), relations)?);
        let (mut actions, mut place) = (Vec::with_capacity(bound.len()), 2);
        for action in bound {
            let width = action.width(&table);
            actions.push((action, place));
            place += width;
        }
        Ok(Merge { table, query, actions })
    }

    /// Changes and inserts the rows. Counts what the nodes of its query do, if that is wanted.
    pub(super) async fn run(
        &self,
        running: &mut Running<'_>,
        actuals: Option<&mut Actuals>,
    ) -> Result<Changed, SqlError> {
        let table = &*self.table;
        let mut changed = Changed::default();
        let (rows, _held) = all_rows(&self.query, running, actuals).await?;
        let mut touched = Touched::none(running.scope);
        for mut row in rows {
            let [key, number, ..] = row.as_slice() else {
                return Err(SqlError::corrupted("a row without a key"));
            };
            let Some(number) = number.as_i64() else { continue };
            let action = usize::try_from(number).ok().and_then(|at| self.actions.get(at));
            let Some((action, place)) = action else {
                return Err(SqlError::corrupted("a row without an action"));
            };
            let key = match key {
                Datum::Bytes(key) => Some(kv::to_key(key.to_vec())),
                _ => None,
            };
            let values = row.split_off(*place);
            let (key, assigned) = match (action, key) {
                (MergeAction::Nothing, _) => continue,
                (MergeAction::Insert, _) => {
                    let mut new = values;
                    new.truncate(table.columns.len());
                    let Running { target, scope, row_number, owed, .. } = &mut *running;
                    let facts = scope.session;
                    let clash = write::insert(target, table, &mut new, facts, row_number).await?;
                    if let Some(clash) = clash {
                        return Err(write::duplicate(table, clash.index, &new, facts.zone()));
                    }
                    if let Some(owed) = owed {
                        owed.wrote(&self.table, None, &new)?;
                    }
                    target.account()?;
                    changed.add(None);
                    continue;
                }
                (MergeAction::Update(assigned), Some(key)) => (key, Some(assigned)),
                (MergeAction::Delete, Some(key)) => (key, None),
                (_, None) => return Err(SqlError::corrupted("a row without a key")),
            };
            if touched.contains(&key) || running.target.has_written(&key) {
                return Err(again());
            }
            let old = running.locked_row(table, &key).await?;
            let mut new = None;
            if let Some(assigned) = assigned {
                let new = new.insert(old.clone());
                for (column, value) in assigned.iter().zip(values) {
                    new[*column] = value;
                }
                table.generate_after(assigned, new)?;
            }
            running.rewrite(&self.table, &key, &old, new.as_deref()).await?;
            touched.add(key)?;
            changed.add(None);
        }
        Ok(changed)
    }
}
