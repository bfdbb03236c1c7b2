//! When rows were written last, as far as a leader remembers.

use crate::locking::ReadSnapshot;
use crate::snapshot::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_mvcc::Key;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The newest commit of each row that was written recently.
///
/// ```text
///   newest writes, by key (exact)  ──when they are too many──▶  older writes, by the key's hash
/// ```
///
/// Invariant: no row has a version above the greatest of three: its entry, the newest write of a
/// row with its hash, and the floor, which is what was agreed when the leader began. So a snapshot
/// may be refused for the sake of another row, and is never accepted wrongly.
#[derive(Debug, Default)]
pub struct RecentWrites {
    newest: HashMap<Key, Timestamp>,
    /// The entries, in the order in which they were added.
    order: VecDeque<(Timestamp, Key)>,
    /// The newest of the older writes, by hash. Empty until there are some.
    older: Vec<Timestamp>,
    floor: Timestamp,
}

impl RecentWrites {
    /// The most writes to remember by key.
    const MOST: usize = 65_536;
    /// The number of hashes of older writes.
    const HASHES: usize = 65_536;

    /// Begins at a leader: everything at or below `floor` was agreed before.
    pub fn begin(&mut self, floor: Timestamp) {
        let floor = if broken(rules::RECENT_WITHOUT_FLOOR) { Timestamp::ZERO } else { floor };
        *self = RecentWrites { floor, ..RecentWrites::default() };
    }

    /// Adds a committed write.
    pub fn add(&mut self, key: &Key, at: Timestamp) {
        let newest = self.newest.entry(key.clone()).or_default();
        *newest = at.max(*newest);
        self.order.push_back((at, key.clone()));
        if self.order.len() > Self::MOST {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some((at, key)) = self.order.pop_front() else { return };
        self.older.resize(Self::HASHES, Timestamp::ZERO);
        let older = &mut self.older[hash(&key)];
        *older = at.max(*older);
        if self.newest.get(&key) == Some(&at) {
            self.newest.remove(&key);
        }
    }

    /// True if a row has surely no version above a snapshot but those of commits
    /// that the transaction has adopted.
    pub fn is_unwritten_since(&self, key: &Key, read: &ReadSnapshot) -> bool {
        let newest = self.newest.get(key).filter(|newest| !read.adopted.contains(newest));
        let newest = newest.copied().unwrap_or_default();
        let older = if self.older.is_empty() { Timestamp::ZERO } else { self.older[hash(key)] };
        newest.max(older).max(self.floor) <= read.at || broken(rules::NOT_CERTIFIED)
    }
}

/// Returns the place of a key among the older writes.
fn hash(key: &Key) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    usize::try_from(hasher.finish() % RecentWrites::HASHES as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, ..Timestamp::ZERO }
    }

    fn since(recent: &RecentWrites, key: &Key, nanos: u64) -> bool {
        recent.is_unwritten_since(key, &ReadSnapshot { at: at(nanos), adopted: Vec::new() })
    }

    #[test]
    fn what_was_written_for_a_transaction_is_no_conflict_until_it_is_written_again() {
        let (mut recent, row) = (RecentWrites::default(), Key::from("note"));
        recent.add(&row, at(20));
        let read = |adopted: &[u64]| ReadSnapshot {
            at: at(10),
            adopted: adopted.iter().copied().map(at).collect(),
        };
        assert!(recent.is_unwritten_since(&row, &read(&[20])));
        assert!(!recent.is_unwritten_since(&row, &read(&[19])));
        recent.add(&row, at(30));
        assert!(!recent.is_unwritten_since(&row, &read(&[20])));
    }

    #[test]
    fn the_newest_write_counts_whatever_the_order() {
        let (mut recent, row) = (RecentWrites::default(), Key::from("row"));
        recent.begin(at(10));
        assert!(since(&recent, &row, 10));
        assert!(!since(&recent, &row, 9), "what was before the leader is unknown");
        recent.add(&row, at(30));
        recent.add(&row, at(20));
        assert!(!since(&recent, &row, 29));
        assert!(since(&recent, &row, 30));
        assert!(since(&recent, &Key::from("other"), 10));
    }

    #[test]
    fn older_writes_are_remembered_by_hash() {
        let mut recent = RecentWrites::default();
        let row = |number: usize| Key::from(number.to_be_bytes().as_slice());
        let written = RecentWrites::MOST + 100;
        for number in 0..written {
            recent.add(&row(number), at(100 + number as u64));
        }
        assert_eq!(recent.newest.len(), RecentWrites::MOST);
        for number in 0..written {
            let commit = 100 + number as u64;
            assert!(!since(&recent, &row(number), commit - 1), "row {number}");
            assert!(since(&recent, &row(number), 100_000_000));
        }
        let never = (written..2 * written).map(row);
        let refused = never.filter(|row| !since(&recent, row, 99)).count();
        assert!(refused < 1_000, "{refused} rows for the sake of 100 others");
        // A row that was written again keeps its newer entry.
        recent.add(&row(101), at(900_000));
        (0..200).for_each(|number| recent.add(&row(written + number), at(900_001)));
        assert!(!since(&recent, &row(101), 899_999));
    }
}
