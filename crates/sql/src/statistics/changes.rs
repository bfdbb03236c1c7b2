//! Counts how much of each table has changed since its statistics were made, as far as the sessions
//! of this node have changed it.

use crate::catalog::{Cache, Table};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// The rows that change before a table is analyzed again, and the part of its rows that is added to
/// them.
const LEAST_ROWS: u64 = 50;
const PART: f64 = 0.2;
/// The longest time until a table may be analyzed again. For a table that was analyzed for the
/// first time a moment ago, which is growing, it is the time between its first and last analysis.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

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
    /// When it was analyzed for the first time and the last time, by the sessions' clock.
    analyzed: Option<(Duration, Duration)>,
}

impl Changed {
    fn is_due(&self, now: Duration) -> bool {
        let rested = self.analyzed.is_none_or(|(first, last)| {
            let known = last.saturating_sub(first);
            now.saturating_sub(last) >= known.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
        });
        rested && self.changed >= LEAST_ROWS + (self.rows as f64 * PART) as u64
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
    pub(crate) fn has_due(&self, now: Duration) -> bool {
        self.tables().values().any(|table| table.is_due(now))
    }

    /// Returns a table whose statistics are outdated, and counts it from the start again.
    pub(crate) fn take_due(&self, now: Duration) -> Option<u32> {
        let mut tables = self.tables();
        let due = tables.iter_mut().find(|(_, table)| table.is_due(now));
        due.map(|(id, table)| {
            table.changed = 0;
            table.analyzed = Some((table.analyzed.map_or(now, |(first, _)| first), now));
            *id
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_table_is_due_once_enough_has_changed() {
        let (changes, cache) = (Changes::default(), Cache::default());
        changes.add(&[(7, 30), (8, 1)], &cache);
        assert_eq!(changes.take_due(SECOND), None);
        changes.add(&[(7, 20)], &cache);
        assert_eq!(changes.take_due(SECOND), Some(7));
        assert_eq!(changes.take_due(SECOND), None);
    }

    #[test]
    fn a_table_that_changes_all_the_time_is_analyzed_less_and_less_often() {
        let (changes, cache) = (Changes::default(), Cache::default());
        let mut analyzed = Vec::new();
        for second in 1..=300 {
            changes.add(&[(7, 1_000)], &cache);
            if changes.take_due(SECOND * second).is_some() {
                analyzed.push(second);
            }
        }
        assert_eq!(analyzed, [1, 2, 3, 5, 9, 17, 33, 65, 125, 185, 245]);
    }
}
