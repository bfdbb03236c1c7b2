//! What statements are planned for, and how that changes (Spanner §4.2.3).
//!
//! A table's schema has versions. A transaction says which ones it was planned for; it commits only
//! at a timestamp at which none of them is outdated in any shard that it read or wrote. So nobody
//! has to hold a lock on a schema, and nobody is stopped by a change of it but by its timestamp.

use meridian_clock::Timestamp;
use meridian_mvcc::KeyRange;
use minicbor::{Decode, Encode};

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
    /// The version of a table that is no more: no plan is for that.
    pub const GONE: u64 = u64::MAX;
}

/// So many versions of a table are remembered.
const KEPT: usize = 8;

/// Since when which versions of a table's schema hold, as a shard keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SchemaHistory {
    /// The newest of them, oldest first.
    #[n(0)]
    versions: Vec<(Timestamp, u64)>,
}

impl SchemaHistory {
    /// From a timestamp on another version holds.
    pub fn begin(&mut self, at: Timestamp, version: u64) {
        self.versions.push((at, version));
        if self.versions.len() > KEPT {
            self.versions.remove(0);
        }
    }

    /// Whether a later version than this one holds at a timestamp; also if nobody knows any more.
    pub fn outdates(&self, version: u64, at: Timestamp) -> bool {
        let held = self.versions.iter().rev().find(|(since, _)| *since <= at);
        let forgotten = || self.versions.first().filter(|_| self.versions.len() == KEPT);
        held.or_else(forgotten).is_some_and(|(_, held)| *held > version)
    }
}

/// A change of schemas, as one shard is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct SchemaChange {
    /// It happens at or above this timestamp, which lies ahead: whoever draws below it need not
    /// care.
    #[n(0)]
    pub from: Timestamp,
    /// Which versions hold from then on, and the keys of their tables that the shard is thought to
    /// have.
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
        // What began first is forgotten: who is planned for something so old cannot be told.
        assert!(history.outdates(1, at(9)) && !history.outdates(9, at(95)));
    }
}
