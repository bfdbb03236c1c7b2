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
    tables: Mutex<BTreeMap<u32, Changed>>,
}

/// The changes of a table.
#[derive(Clone, Copy, Default)]
struct Changed {
    changed: u64,
    /// The number of its rows when it was analyzed, as far as is known.
    rows: u64,
}

impl Changed {
    fn is_due(&self) -> bool {
        self.changed >= LEAST_ROWS + (self.rows as f64 * PART) as u64
    }
}

impl Changes {
    fn tables(&self) -> MutexGuard<'_, BTreeMap<u32, Changed>> {
        self.tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Counts rows that a transaction has changed, of tables that it has used.
    pub(crate) fn add(&self, changed: &[(u32, u64)], cache: &Cache) {
        for (id, rows) in changed {
            let known = cache.find(|table: &Table| table.id == *id);
            let mut tables = self.tables();
            let table = tables.entry(*id).or_default();
            table.changed += rows;
            if let Some(statistics) = known.and_then(|table| table.statistics.clone()) {
                table.rows = statistics.rows;
            }
        }
    }

    /// True if a table's statistics are outdated.
    pub(crate) fn has_due(&self) -> bool {
        self.tables().values().any(Changed::is_due)
    }

    /// Returns a table whose statistics are outdated, and counts it from the start again.
    pub(crate) fn take_due(&self) -> Option<u32> {
        let mut tables = self.tables();
        let due = tables.iter_mut().find(|(_, table)| table.is_due());
        due.map(|(id, table)| {
            table.changed = 0;
            *id
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_due_once_enough_has_changed() {
        let (changes, cache) = (Changes::default(), Cache::default());
        changes.add(&[(7, 30), (8, 1)], &cache);
        assert_eq!(changes.take_due(), None);
        changes.add(&[(7, 20)], &cache);
        assert_eq!(changes.take_due(), Some(7));
        assert_eq!(changes.take_due(), None);
    }
}
