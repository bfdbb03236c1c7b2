//! Reservations: keys that transactions are about to write, after they have lost once.
//!
//! Where many transactions read and then write one key, each of them forbids the earlier ones their
//! writes, and none may get on. A transaction that has lost reserves what it writes when it reads
//! it again: later transactions wait there until it has written, like for an intent. A reservation
//! is neither in the log nor needed for correctness, and ends by itself.

use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound;

/// How long a reservation holds, in nanoseconds.
const HOLDS_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Reservation {
    at: Timestamp,
    by: TransactionId,
    /// By the boot clock.
    until_ns: u64,
}

/// The reservations at a leader.
#[derive(Debug, Default)]
pub struct Reservations {
    held: BTreeMap<Key, Reservation>,
}

impl Reservations {
    /// Reserves a key for a transaction, unless it is reserved for another one.
    pub fn reserve(&mut self, key: &Key, at: Timestamp, by: TransactionId, now_ns: u64) {
        self.expire(now_ns);
        let taken = |known: &Reservation| known.by != by && known.until_ns > now_ns;
        if !self.held.get(key).is_some_and(taken) {
            let until_ns = now_ns + HOLDS_NS;
            self.held.insert(key.clone(), Reservation { at, by, until_ns });
        }
    }

    /// Returns the transactions for which a reader at a timestamp waits, and when the first of
    /// their reservations ends, by the boot clock. They are earlier than the reader.
    pub fn blockers(
        &self,
        range: &KeyRange,
        at: Timestamp,
        reader: TransactionId,
        now_ns: u64,
    ) -> Vec<(TransactionId, u64)> {
        if self.held.is_empty() || range.is_empty() {
            return Vec::new();
        }
        let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let held = self.held.range::<Key, _>((Bound::Included(&range.start), end));
        let blocks = |(_, known): (&Key, &Reservation)| {
            let holds = known.until_ns > now_ns && known.at < at && known.by != reader;
            holds.then_some((known.by, known.until_ns))
        };
        held.filter_map(blocks).collect()
    }

    /// Ends a transaction's reservations of keys.
    pub fn release_keys<'a>(&mut self, by: TransactionId, keys: impl Iterator<Item = &'a Key>) {
        for key in keys {
            if self.held.get(key).is_some_and(|known| known.by == by) {
                self.held.remove(key);
            }
        }
    }

    /// Ends the reservations of a transaction.
    pub fn release(&mut self, by: TransactionId) {
        self.held.retain(|_, known| known.by != by);
    }

    /// Drops the reservations that have ended.
    pub fn expire(&mut self, now_ns: u64) {
        self.held.retain(|_, known| known.until_ns > now_ns);
    }

    /// Drops all of them, when leadership is lost.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_readers_wait_for_a_while_and_earlier_ones_never() {
        let at = |nanos| Timestamp { nanos, logical: 0, issuer: 1 };
        let by = |number| TransactionId { node: 1, incarnation: 1, number };
        let (key, mut reservations) = (Key::from("k"), Reservations::default());
        let range = KeyRange::point(key.clone());
        reservations.reserve(&key, at(20), by(1), 0);
        reservations.reserve(&key, at(30), by(2), 5);
        let blockers = |reservations: &Reservations, nanos, reader, now_ns| {
            reservations.blockers(&range, at(nanos), by(reader), now_ns)
        };
        assert_eq!(blockers(&reservations, 30, 2, 5), [(by(1), HOLDS_NS)]);
        assert_eq!(blockers(&reservations, 20, 2, 5), []);
        assert_eq!(blockers(&reservations, 30, 1, 5), [], "its own");
        assert_eq!(blockers(&reservations, 30, 2, HOLDS_NS), []);
        reservations.release(by(1));
        assert_eq!(blockers(&reservations, 30, 2, 5), []);
        reservations.reserve(&key, at(30), by(2), 5);
        assert_eq!(blockers(&reservations, 40, 3, 5), [(by(2), HOLDS_NS + 5)]);
        reservations.expire(HOLDS_NS + 5);
        assert!(reservations.held.is_empty());
    }
}
