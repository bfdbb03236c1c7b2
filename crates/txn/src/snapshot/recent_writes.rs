//! The memory that a leader has of when rows were written last.

use crate::shards::ReadSnapshot;
use crate::snapshot::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::sometimes;
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
#[derive(Debug)]
pub struct RecentWrites {
    /// The most writes to remember by key.
    most: usize,
    newest: HashMap<Key, Timestamp>,
    /// The entries, in the order in which they were added.
    order: VecDeque<(Timestamp, Key)>,
    /// The newest of the older writes, by hash, in nanoseconds. Empty until there are some.
    older: Vec<u64>,
    floor: Timestamp,
}

impl RecentWrites {
    /// The number of hashes of older writes, for each write that is remembered by key.
    const HASHES: usize = 4;

    /// Returns a memory of this many writes by key.
    pub fn new(most: usize) -> Self {
        RecentWrites {
            most,
            newest: HashMap::new(),
            order: VecDeque::new(),
            older: Vec::new(),
            floor: Timestamp::ZERO,
        }
    }

    /// Begins at a leader: everything at or below `floor` was agreed before.
    pub fn begin(&mut self, floor: Timestamp) {
        let floor = if broken(rules::RECENT_WITHOUT_FLOOR) { Timestamp::ZERO } else { floor };
        *self = RecentWrites { floor, ..RecentWrites::new(self.most) };
    }

    /// Adds a committed write.
    pub fn add(&mut self, key: &Key, at: Timestamp) {
        let newest = self.newest.entry(key.clone()).or_default();
        *newest = at.max(*newest);
        self.order.push_back((at, key.clone()));
        if self.order.len() > self.most {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some((at, key)) = self.order.pop_front() else { return };
        self.older.resize(Self::HASHES * self.most.max(1), 0);
        let place = self.place(&key);
        let older = &mut self.older[place];
        *older = at.nanos.max(*older);
        if self.newest.get(&key) == Some(&at) {
            self.newest.remove(&key);
        }
    }

    /// Returns the newest version that a row has or may have above a snapshot, other than those of
    /// commits that the transaction has adopted.
    pub fn written_since(&self, key: &Key, read: &ReadSnapshot) -> Option<Timestamp> {
        let newest = self.newest.get(key).filter(|newest| !read.adopted.contains(newest));
        let newest = newest.copied().unwrap_or_default();
        let older = if self.older.is_empty() { 0 } else { self.older[self.place(key)] };
        // Rounded up: which write of its nanosecond it was is forgotten.
        let older = if older == 0 { Timestamp::ZERO } else { Timestamp::end_of(older) };
        if older > read.at && older > newest.max(self.floor) {
            sometimes!("a row may have been written since a snapshot, by the hash of its key");
        }
        let newest = newest.max(older).max(self.floor);
        (newest > read.at && !broken(rules::NOT_CERTIFIED)).then_some(newest)
    }

    /// Returns the place of a key among the older writes.
    fn place(&self, key: &Key) -> usize {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        usize::try_from(hasher.finish() % self.older.len() as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1_000;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, ..Timestamp::ZERO }
    }

    fn since(recent: &RecentWrites, key: &Key, nanos: u64) -> bool {
        recent.written_since(key, &ReadSnapshot { at: at(nanos), adopted: Vec::new() }).is_none()
    }

    #[test]
    fn what_was_written_for_a_transaction_is_no_conflict_until_it_is_written_again() {
        let (mut recent, row) = (RecentWrites::new(MOST), Key::from("note"));
        recent.add(&row, at(20));
        let read = |adopted: &[u64]| ReadSnapshot {
            at: at(10),
            adopted: adopted.iter().copied().map(at).collect(),
        };
        assert_eq!(recent.written_since(&row, &read(&[20])), None);
        assert!(recent.written_since(&row, &read(&[19])).is_some());
        recent.add(&row, at(30));
        assert_eq!(recent.written_since(&row, &read(&[20])), Some(at(30)));
    }

    #[test]
    fn the_newest_write_counts_whatever_the_order() {
        let (mut recent, row) = (RecentWrites::new(MOST), Key::from("row"));
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
        let mut recent = RecentWrites::new(MOST);
        let row = |number: usize| Key::from(number.to_be_bytes().as_slice());
        let written = MOST + 100;
        for number in 0..written {
            recent.add(&row(number), at(100 + number as u64));
        }
        assert_eq!(recent.newest.len(), MOST);
        for number in 0..written {
            let commit = 100 + number as u64;
            assert!(!since(&recent, &row(number), commit - 1), "row {number}");
            assert!(since(&recent, &row(number), 100_000_000));
        }
        let never = (written..2 * written).map(row);
        let refused = never.filter(|row| !since(&recent, row, 99)).count();
        assert!((1..100).contains(&refused), "{refused} rows for the sake of 100 others");
        // A row that was written again keeps its newer entry.
        recent.add(&row(101), at(900_000));
        (0..200).for_each(|number| recent.add(&row(written + number), at(900_001)));
        assert!(!since(&recent, &row(101), 899_999));
    }

    /// An adopted commit is known by its entry only: by its hash it may be another one.
    #[test]
    fn what_was_adopted_is_refused_once_it_is_older_and_below_a_floor() {
        let (mut recent, row) = (RecentWrites::new(2), Key::from("note"));
        let adopted = ReadSnapshot { at: at(10), adopted: vec![at(20)] };
        recent.add(&row, at(20));
        assert_eq!(recent.written_since(&row, &adopted), None);
        recent.add(&Key::from("a"), at(21));
        recent.add(&Key::from("b"), at(22));
        assert!(recent.written_since(&row, &adopted).is_some());
        let later = ReadSnapshot { at: at(21), adopted: Vec::new() };
        assert_eq!(recent.written_since(&row, &later), None);
        // A new leader remembers nothing from before.
        recent.begin(at(22));
        assert!(recent.written_since(&row, &adopted).is_some());
        assert!(recent.written_since(&Key::from("never"), &later).is_some());
    }
}
