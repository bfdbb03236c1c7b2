//! Schema versions of plans, and schema changes (Spanner §4.2.3).
//!
//! A table's schema has versions. A transaction names the versions that it was planned for, and
//! commits only at a timestamp at which none of them is outdated in any shard that it read or
//! wrote. So no transaction holds a lock on a schema, and a schema change blocks a transaction only
//! by its timestamp.

use meridian_clock::Timestamp;
use meridian_mvcc::KeyRange;
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// A version of a table's schema. Versions of one table grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct SchemaVersion {
    /// The table's id.
    #[n(0)]
    pub table: u32,
    /// Its version.
    #[n(1)]
    pub version: u64,
}

impl SchemaVersion {
    /// The version of a dropped table, for which there are no plans.
    pub const GONE: u64 = u64::MAX;
}

/// The schema versions that the statements of a transaction were planned for: of several versions
/// of one table the oldest.
#[derive(Clone, Debug, Default)]
pub struct PlannedVersions(BTreeMap<u32, u64>);

impl PlannedVersions {
    /// Adds the version of a table that the following statements are planned for.
    pub fn plan(&mut self, SchemaVersion { table, version }: SchemaVersion) {
        let known = self.0.entry(table).or_insert(version);
        *known = version.min(*known);
    }

    /// The versions, one of each table.
    pub fn iter(&self) -> impl Iterator<Item = SchemaVersion> + '_ {
        self.0.iter().map(|(table, version)| SchemaVersion { table: *table, version: *version })
    }
}

/// The number of versions of a table that are remembered.
const KEPT: usize = 8;

/// A shard's record of the versions of a table's schema, and from which timestamp on each holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SchemaHistory {
    /// The newest versions, oldest first.
    #[n(0)]
    versions: Vec<(Timestamp, u64)>,
}

impl SchemaHistory {
    /// Adds a version that holds from a timestamp on.
    pub fn begin(&mut self, at: Timestamp, version: u64) {
        let place = self.versions.partition_point(|(since, _)| *since < at);
        self.versions.insert(place, (at, version));
        if self.versions.len() > KEPT {
            self.versions.remove(0);
        }
    }

    /// True if a version holds from exactly this timestamp on.
    pub fn has(&self, at: Timestamp) -> bool {
        self.versions.iter().any(|(since, _)| *since == at)
    }

    /// True if a later version than this one holds at a timestamp, or if that is forgotten.
    pub fn outdates(&self, version: u64, at: Timestamp) -> bool {
        let held = self.versions.iter().rev().find(|(since, _)| *since <= at);
        let forgotten = || self.versions.first().filter(|_| self.versions.len() == KEPT);
        held.or_else(forgotten).is_some_and(|(_, held)| *held > version)
    }
}

/// A schema change, as one shard receives it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SchemaChange {
    /// The change takes effect at or above this timestamp, which lies ahead. It does not concern a
    /// transaction with a lower timestamp.
    #[n(0)]
    pub from: Timestamp,
    /// The versions that hold from then on, and the keys of their tables in this shard, as far as
    /// the coordinator knows.
    #[n(1)]
    pub tables: Vec<(SchemaVersion, KeyRange)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_outdated_from_the_timestamp_on_at_which_a_later_version_begins() {
        let at = |nanos| Timestamp { nanos, ..Timestamp::ZERO };
        let mut history = SchemaHistory::default();
        assert!(!history.outdates(1, at(5)));
        history.begin(at(10), 2);
        assert!(
            !history.outdates(1, at(9))
                && history.outdates(1, at(10))
                && !history.outdates(2, at(10))
        );
        history.begin(at(20), SchemaVersion::GONE);
        assert!(!history.outdates(2, at(19)) && history.outdates(2, at(20)));
        (3..10).for_each(|version| history.begin(at(version * 10), version));
        // The first version is forgotten: a plan for so old a version counts as outdated.
        assert!(history.outdates(1, at(9)) && !history.outdates(9, at(95)));
    }
}
