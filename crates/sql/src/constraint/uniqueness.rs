//! The obligation of a UNIQUE constraint that is DEFERRABLE: at most one row has certain values.
//!
//! The index of such a constraint is not unique: while a transaction runs, rows may be equal in it,
//! and each has an entry of its own. The check reads the entries of the values, and keeps their
//! range ([`Transaction::keep_range`]): no other transaction enters the values before this one has
//! committed, under every isolation.

use super::Deferral;
use crate::catalog::Table;
use crate::datetime::Zone;
use crate::datum::Datum;
use crate::error::SqlError;
use crate::index::Index;
use crate::kv;
use crate::write;
use meridian_txn::{Lock, Transaction};
use std::sync::Arc;

/// Values that at most one row has in a key when this is checked.
#[derive(Clone, Debug)]
pub(crate) struct Uniqueness {
    table: Arc<Table>,
    /// The number of the index among those of the table.
    number: usize,
    values: Vec<Datum>,
    /// The first bytes of the entries of the values.
    prefix: Vec<u8>,
}

impl Uniqueness {
    /// Creates the obligations of a row that was written, instead of `old`, or as a new one: one
    /// for each key in which it has got new values.
    pub(super) fn of_row(
        table: &Arc<Table>,
        old: Option<&[Datum]>,
        new: &[Datum],
    ) -> Result<Vec<Uniqueness>, SqlError> {
        let mut all = Vec::new();
        for (number, index) in table.indexes.iter().enumerate() {
            let Some(prefix) = index.deferrable_prefix(new)? else { continue };
            let before = old.map(|old| index.deferrable_prefix(old)).transpose()?.flatten();
            if before.as_ref() != Some(&prefix) {
                let (table, values) = (table.clone(), index.values(new)?);
                all.push(Uniqueness { table, number, values, prefix });
            }
        }
        Ok(all)
    }

    fn index(&self) -> &Index {
        &self.table.indexes[self.number]
    }

    pub(super) fn concerns(&self, table: u32) -> bool {
        self.table.id == table
    }

    pub(super) fn id(&self) -> Vec<u8> {
        let mut id = self.index().id.to_be_bytes().to_vec();
        id.extend(&self.prefix);
        id
    }

    /// Returns it for its table that has changed; `None` if the constraint is gone.
    pub(super) fn with(&self, table: &Arc<Table>) -> Option<Uniqueness> {
        let id = self.index().id;
        let number = table.indexes.iter().position(|index| index.id == id)?;
        Some(Uniqueness { table: table.clone(), number, ..self.clone() })
    }

    pub(super) fn is_deferred(&self, deferral: &Deferral) -> bool {
        let index = self.index();
        index.deferrable.is_some_and(|initially| deferral.defers(index.id, initially))
    }

    /// Fails with 23505 if several rows have the values.
    pub(super) async fn check(
        &self,
        txn: &mut dyn Transaction,
        zone: &Zone,
    ) -> Result<(), SqlError> {
        let range = kv::prefix_range(&self.prefix);
        let found = txn.scan(&range, Lock::Shared, false, 2).await?;
        if found.rows.len() > 1 {
            return Err(write::duplicate_values(&self.table, self.index(), &self.values, zone));
        }
        txn.keep_range(range);
        Ok(())
    }
}
