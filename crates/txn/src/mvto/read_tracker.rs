//! The read tracker: the latest timestamp at which each key was read (K2 §5.2, `RT`).

use super::rules;
use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::sometimes;
use meridian_mvcc::{Key, KeyRange};
use std::collections::BTreeMap;

/// The latest read of a key, or of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LastRead {
    at: Timestamp,
    /// The reader; `None` if there were several at this timestamp.
    by: Option<TransactionId>,
}

impl LastRead {
    fn merge(self, other: LastRead) -> LastRead {
        match self.at.cmp(&other.at) {
            std::cmp::Ordering::Less => other,
            std::cmp::Ordering::Greater => self,
            std::cmp::Ordering::Equal => {
                LastRead { at: self.at, by: self.by.filter(|by| other.by == Some(*by)) }
            }
        }
    }
}

/// The reads that a leader has served, for every key and every gap between keys.
///
/// 1. No transaction writes at or below a timestamp at which another one has read the key, or the
///    range in which it lies (Trap A.1-B4).
/// 2. What the tracker forgets, the floor covers: the floor only rises (Trap A.1-B2).
#[derive(Clone, Debug)]
pub struct ReadTracker {
    /// Every key may have been read at or below this; at exactly this, by this reader only.
    floor: LastRead,
    /// Reads of single keys.
    points: BTreeMap<Key, LastRead>,
    /// Reads of ranges: each entry holds from its key up to the next one.
    ranges: BTreeMap<Key, LastRead>,
    /// The most entries to keep.
    most: usize,
}

impl ReadTracker {
    /// Returns the tracker of a leader whose predecessors may have served reads at or below the
    /// floor (Trap A.1-B1). It keeps at most so many entries.
    pub fn above(floor: Timestamp, most: usize) -> ReadTracker {
        let floor = LastRead { at: floor, by: None };
        ReadTracker { floor, points: BTreeMap::new(), ranges: BTreeMap::new(), most: most.max(2) }
    }

    /// Notes that a transaction reads a range. Called before the leader looks which versions there
    /// are, in the same step.
    pub fn note(&mut self, range: &KeyRange, at: Timestamp, by: TransactionId) {
        let read = LastRead { at, by: Some(by) };
        if range.is_empty() || broken(rules::READS_NOT_TRACKED) {
            return;
        }
        if at <= self.floor.at {
            self.floor = self.floor.merge(read);
            return;
        }
        if let Some(key) = range.as_point() {
            let known = self.points.entry(key.clone()).or_default();
            *known = known.merge(read);
        } else if !broken(rules::RANGES_NOT_TRACKED) {
            let before = self.of_ranges(&range.start);
            self.ranges.entry(range.start.clone()).or_insert(before);
            if let Some(end) = &range.end {
                let behind = self.of_ranges(end);
                self.ranges.entry(end.clone()).or_insert(behind);
            }
            let within = match &range.end {
                Some(end) => self.ranges.range_mut::<Key, _>(&range.start..end),
                None => self.ranges.range_mut::<Key, _>(&range.start..),
            };
            within.for_each(|(_, known)| *known = known.merge(read));
        }
        if self.points.len() + self.ranges.len() > self.most {
            self.evict();
        }
    }

    fn of_ranges(&self, key: &Key) -> LastRead {
        self.ranges.range::<Key, _>(..=key).next_back().map(|(_, read)| *read).unwrap_or_default()
    }

    /// True if a transaction must not write a key at a timestamp, because another one has read it
    /// there or later, or may have.
    pub fn forbids(&self, key: &Key, at: Timestamp, by: TransactionId) -> bool {
        let read = self.points.get(key).copied().unwrap_or_default().merge(self.of_ranges(key));
        let read = read.merge(self.floor);
        let tie = read.at == at && read.by != Some(by) && !broken(rules::TIES_ACCEPTED);
        read.at > at || tie
    }

    /// The floor.
    pub fn floor(&self) -> Timestamp {
        self.floor.at
    }

    /// Raises the floor, and forgets what it covers.
    pub fn raise_floor(&mut self, to: Timestamp) {
        self.raise(LastRead { at: to, by: None });
    }

    fn raise(&mut self, floor: LastRead) {
        let to = floor.at;
        if to < self.floor.at {
            return;
        }
        if !broken(rules::FLOOR_NOT_RAISED) {
            self.floor = self.floor.merge(floor);
        }
        self.points.retain(|_, read| read.at > to);
        let mut before = LastRead::default();
        self.ranges.retain(|_, read| {
            if read.at <= to {
                *read = LastRead::default();
            }
            let changes = *read != before;
            before = *read;
            changes
        });
    }

    /// Forgets the older half.
    fn evict(&mut self) {
        sometimes!("a read tracker forgets older reads");
        let mut all: Vec<Timestamp> =
            self.points.values().chain(self.ranges.values()).map(|read| read.at).collect();
        let middle = all.len() / 2;
        let (_, median, _) = all.select_nth_unstable(middle);
        let at = *median;
        let of_median = self.points.values().chain(self.ranges.values());
        let of_median = of_median.filter(|read| read.at == at).copied();
        // A transaction that reads very much may still write where only it has read.
        self.raise(of_median.reduce(LastRead::merge).unwrap_or(LastRead { at, by: None }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn key(number: u8) -> Key {
        Key::from(&[number][..])
    }

    fn by(number: u64) -> TransactionId {
        TransactionId { node: 1, incarnation: 1, number }
    }

    #[test]
    fn only_the_only_reader_of_a_timestamp_may_write_there() {
        let mut tracker = ReadTracker::above(at(10), 100);
        tracker.note(&KeyRange::point(key(1)), at(20), by(1));
        assert!(tracker.forbids(&key(1), at(20), by(2)), "a tie");
        assert!(!tracker.forbids(&key(1), at(20), by(1)));
        tracker.note(&KeyRange { start: key(0), end: Some(key(9)) }, at(20), by(2));
        assert!(tracker.forbids(&key(1), at(20), by(1)), "there were two");
        assert!(
            tracker.forbids(&key(5), at(19), by(2)) && !tracker.forbids(&key(5), at(20), by(2))
        );
        assert!(!tracker.forbids(&key(9), at(11), by(3)), "past the end of the range");
        assert!(tracker.forbids(&key(9), at(10), by(3)), "at the floor");
    }

    #[test]
    fn a_transaction_that_has_read_very_much_may_write_there() {
        let mut tracker = ReadTracker::above(at(10), 4);
        for number in 0..50 {
            tracker.note(&KeyRange::point(key(number)), at(20), by(1));
        }
        assert_eq!(tracker.floor(), at(20));
        assert!(!tracker.forbids(&key(3), at(20), by(1)));
        assert!(tracker.forbids(&key(3), at(20), by(2)) && tracker.forbids(&key(3), at(19), by(1)));
        tracker.note(&KeyRange::point(key(3)), at(20), by(2));
        assert!(tracker.forbids(&key(3), at(20), by(1)), "there were two");
    }

    proptest! {
        #[test]
        fn nothing_is_permitted_that_a_list_of_all_reads_forbids(
            reads in proptest::collection::vec((0u8..12, 0u8..12, 1u64..40, 0u64..3), 0..60),
            writes in proptest::collection::vec((0u8..12, 1u64..40, 0u64..3), 1..20),
            most in 2usize..30,
        ) {
            let mut tracker = ReadTracker::above(at(0), most);
            let mut exact = ReadTracker::above(at(0), usize::MAX);
            for (start, length, nanos, reader) in &reads {
                let end = (*length > 0).then(|| key(start + length));
                let range = match length {
                    1 => KeyRange::point(key(*start)),
                    _ => KeyRange { start: key(*start), end },
                };
                tracker.note(&range, at(*nanos), by(*reader));
                exact.note(&range, at(*nanos), by(*reader));
            }
            for (written, nanos, writer) in writes {
                let covers = |(start, length, ..): &&(u8, u8, u64, u64)| {
                    written >= *start && (*length == 0 || written < start + length)
                };
                let met = reads.iter().filter(covers);
                let later = |(.., read, reader): &(u8, u8, u64, u64)| {
                    *read > nanos || (*read == nanos && *reader != writer)
                };
                let forbidden = met.clone().any(later);
                prop_assert_eq!(exact.forbids(&key(written), at(nanos), by(writer)), forbidden);
                prop_assert!(!forbidden || tracker.forbids(&key(written), at(nanos), by(writer)));
            }
        }
    }
}
