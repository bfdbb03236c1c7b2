//! Counts how much of each table has changed since its statistics were made, as far as the sessions
//! of this node have changed it.

use crate::catalog::{Cache, Table};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// The rows that change before a table is analyzed again, and the part of its rows that is added to
/// them.
const LEAST_ROWS: u64 = 50;
const PART: f64 = 0.2;

/// The changes of each table since it was analyzed.
#[derive(Default)]
pub(crate) struct Changes {
    tables: Mutex<BTreeMap<u32, u64>>,
}

impl Changes {
    fn tables(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        self.tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Counts rows that a transaction has changed.
    pub(crate) fn add(&self, changed: &[(u32, u64)]) {
        let mut tables = self.tables();
        for (table, rows) in changed {
            *tables.entry(*table).or_insert(0) += rows;
        }
    }

    /// Returns a table whose statistics are outdated, and counts it from the start again.
    pub(crate) fn take_due(&self, cache: &Cache) -> Option<u32> {
        let mut tables = self.tables();
        let is_due = |(id, changed): (&u32, &u64)| {
            let known = cache.find(|table: &Table| table.id == *id);
            let statistics = known.and_then(|table| table.statistics.clone());
            let rows = statistics.map_or(0, |statistics| statistics.rows);
            *changed >= LEAST_ROWS + (rows as f64 * PART) as u64
        };
        let due = tables.iter().find(|entry| is_due(*entry)).map(|(id, _)| *id);
        due.inspect(|id| _ = tables.remove(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_due_once_enough_has_changed() {
        let (changes, cache) = (Changes::default(), Cache::default());
        changes.add(&[(7, 30), (8, 1)]);
        assert_eq!(changes.take_due(&cache), None);
        changes.add(&[(7, 20)]);
        assert_eq!(changes.take_due(&cache), Some(7));
        assert_eq!(changes.take_due(&cache), None);
    }
}
