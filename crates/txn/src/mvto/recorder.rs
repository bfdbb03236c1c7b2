//! The recorder: the records of transactions, one of which decides each of them (K2 §5.3).
//!
//! ```text
//!   no record ── first write ──▶ pending ── commit ──▶ committed ── every shard has it, closed ──▶ forgotten
//!       │                           │
//!       └────────── abort ──────────┴────────────────▶ aborted ── closed timestamp ──────▶ forgotten
//! ```
//!
//! 1. A record changes only by commands of the group, in the order of its log: of a commit and an
//!    abort the first counts, and every member answers alike (Trap A.1-B7).
//! 2. A record is created only if there is none. An abort creates one too, so that a first write
//!    that comes later finds the transaction aborted (Trap A.1-B5).
//! 3. A record is forgotten once this shard accepts no write at its timestamp any more, and a
//!    commit only if every shard has it in its log (Trap A.1-B6). So a transaction without a record
//!    has not begun here, if its timestamp is not closed; and if it is, the transaction is aborted,
//!    or has ended everywhere.

use super::rules;
use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_machine::planted::broken;
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};

/// The time after which a recorder aborts a transaction that shows no sign of life, in
/// nanoseconds: its coordinator has died, does not get through, or is idle. One that goes on moves.
pub const EXPIRES_NS: u64 = 3_000_000_000;

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum State {
    /// Nothing is decided.
    #[n(0)]
    Pending,
    /// It is committed.
    #[n(1)]
    Committed,
    /// It is aborted, for good.
    #[n(2)]
    Aborted,
}

/// A shard with intents, the term of its leader when the log had the last one, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Place {
    /// The shard.
    #[n(0)]
    pub shard: ShardId,
    /// The term.
    #[n(1)]
    pub term: u64,
    /// The number of parts in which the intents were written.
    #[n(2)]
    pub parts: u32,
}

/// A transaction's record.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct TransactionRecord {
    /// The transaction's timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// Its state.
    #[n(1)]
    pub state: State,
    /// The other shards that have intents of it, as the coordinator has named them.
    #[n(2)]
    pub places: Vec<Place>,
}

/// A decision, for a shard with an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The shard.
    pub place: Place,
    /// The transaction.
    pub transaction: TransactionId,
    /// The commit timestamp, or `None` if it is aborted.
    pub at: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Entry {
    record: TransactionRecord,
    /// The shards that do not have a commit in their logs, as far as is known.
    unacknowledged: BTreeSet<ShardId>,
    /// When a pending transaction began, and when it last showed a sign of life, by the boot clock.
    began_ns: u64,
    alive_ns: u64,
}

impl Entry {
    fn of(record: TransactionRecord, now_ns: u64) -> Entry {
        let unacknowledged = match record.state {
            State::Committed => record.places.iter().map(|place| place.shard).collect(),
            State::Pending | State::Aborted => BTreeSet::new(),
        };
        Entry { record, unacknowledged, began_ns: now_ns, alive_ns: now_ns }
    }
}

/// The records of a shard.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    entries: BTreeMap<TransactionId, Entry>,
}

impl Recorder {
    /// Restores the records that a member has stored.
    pub fn restore(records: BTreeMap<TransactionId, TransactionRecord>) -> Recorder {
        let entry = |(txn, record)| (txn, Entry::of(record, 0));
        Recorder { entries: records.into_iter().map(entry).collect() }
    }

    /// Creates the record of a transaction, unless there is one. Returns the state of the
    /// transaction from then on.
    pub fn begin(&mut self, txn: TransactionId, at: Timestamp, now_ns: u64) -> State {
        let fresh = || {
            let record = TransactionRecord { at, state: State::Pending, places: Vec::new() };
            Entry::of(record, now_ns)
        };
        self.entries.entry(txn).or_insert_with(fresh).record.state
    }

    /// Commits a transaction, if it is pending. Returns its state from then on.
    pub fn commit(
        &mut self,
        txn: TransactionId,
        at: Timestamp,
        places: Vec<Place>,
        now_ns: u64,
    ) -> State {
        let pending = self.state(txn) == Some(State::Pending);
        if pending || broken(rules::DECIDED_TWICE) {
            let record = TransactionRecord { at, state: State::Committed, places };
            self.entries.insert(txn, Entry::of(record, now_ns));
        }
        self.state(txn).unwrap_or(State::Aborted)
    }

    /// Aborts a transaction, unless it is committed. Returns its state from then on.
    pub fn abort(
        &mut self,
        txn: TransactionId,
        at: Timestamp,
        places: Vec<Place>,
        now_ns: u64,
    ) -> State {
        match self.state(txn) {
            None if broken(rules::TOMBSTONE_FORGOTTEN) => return State::Aborted,
            Some(State::Committed) if !broken(rules::DECIDED_TWICE) => return State::Committed,
            _ => {}
        }
        let record = TransactionRecord { at, state: State::Aborted, places };
        self.entries.insert(txn, Entry::of(record, now_ns));
        State::Aborted
    }

    /// The state of a transaction that has a record.
    pub fn state(&self, txn: TransactionId) -> Option<State> {
        self.entries.get(&txn).map(|entry| entry.record.state)
    }

    /// The record of a transaction.
    pub fn get(&self, txn: TransactionId) -> Option<&TransactionRecord> {
        self.entries.get(&txn).map(|entry| &entry.record)
    }

    /// Notes a sign of life of a pending transaction.
    pub fn touch(&mut self, txn: TransactionId, now_ns: u64) {
        if let Some(entry) = self.entries.get_mut(&txn) {
            entry.alive_ns = now_ns;
        }
    }

    /// Gives every pending transaction time for a sign of life, when a leader term begins.
    pub fn touch_all(&mut self, now_ns: u64) {
        let touch = |entry: &mut Entry| (entry.began_ns, entry.alive_ns) = (now_ns, now_ns);
        self.entries.values_mut().for_each(touch);
    }

    /// The pending transactions without a sign of life since one time, or that began before
    /// another, with their timestamps.
    pub fn overdue(&self, silent_ns: u64, began_ns: u64) -> Vec<(TransactionId, Timestamp)> {
        let overdue = |entry: &Entry| entry.alive_ns <= silent_ns || entry.began_ns <= began_ns;
        let overdue = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.record.state == State::Pending && overdue(entry));
        overdue.map(|(txn, entry)| (*txn, entry.record.at)).collect()
    }

    /// Notes that a shard has a commit in its log.
    pub fn acknowledge(&mut self, txn: TransactionId, shard: ShardId) {
        if let Some(entry) = self.entries.get_mut(&txn) {
            entry.unacknowledged.remove(&shard);
        }
    }

    /// The decision of a transaction, for every shard that has yet to learn it.
    pub fn decisions_of(&self, txn: TransactionId) -> Vec<Decision> {
        let Some(entry) = self.entries.get(&txn) else { return Vec::new() };
        let decision = |place: &Place| Decision {
            place: *place,
            transaction: txn,
            at: (entry.record.state == State::Committed).then_some(entry.record.at),
        };
        match entry.record.state {
            State::Pending => Vec::new(),
            State::Aborted => entry.record.places.iter().map(decision).collect(),
            State::Committed => {
                let places = entry.record.places.iter();
                let unacknowledged =
                    places.filter(|place| entry.unacknowledged.contains(&place.shard));
                unacknowledged.map(decision).collect()
            }
        }
    }

    /// The commits that some shards do not have in their logs, as far as is known.
    pub fn unacknowledged(&self) -> Vec<Decision> {
        let unacknowledged =
            self.entries.iter().filter(|(_, entry)| !entry.unacknowledged.is_empty());
        unacknowledged.flat_map(|(txn, _)| self.decisions_of(*txn)).collect()
    }

    /// The records that may be forgotten: those at or below the closed timestamp, of commits only
    /// if every shard has them.
    pub fn forgettable(&self, closed: Timestamp) -> Vec<TransactionId> {
        let may = |entry: &Entry| match entry.record.state {
            State::Pending => false,
            State::Committed if broken(rules::RECORD_FORGOTTEN) => true,
            State::Committed => entry.unacknowledged.is_empty() && entry.record.at <= closed,
            State::Aborted => entry.record.at <= closed,
        };
        self.entries.iter().filter(|(_, entry)| may(entry)).map(|(txn, _)| *txn).collect()
    }

    /// Forgets records.
    pub fn forget(&mut self, txns: &[TransactionId]) {
        txns.iter().for_each(|txn| drop(self.entries.remove(txn)));
    }

    /// The number of transactions that are pending, or committed and not in every log.
    pub fn unresolved(&self) -> usize {
        let unresolved = |entry: &&Entry| {
            entry.record.state == State::Pending || !entry.unacknowledged.is_empty()
        };
        self.entries.values().filter(unresolved).count()
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamp = Timestamp { nanos: 10, logical: 0, issuer: 1 };
    const PLACE: Place = Place { shard: ShardId(3), term: 7, parts: 1 };

    fn by(number: u64) -> TransactionId {
        TransactionId { node: 1, incarnation: 1, number }
    }

    #[test]
    fn of_a_commit_and_an_abort_the_first_counts() {
        let mut recorder = Recorder::default();
        assert_eq!(recorder.begin(by(1), AT, 0), State::Pending);
        assert_eq!(recorder.commit(by(1), AT, vec![PLACE], 0), State::Committed);
        assert_eq!(recorder.abort(by(1), AT, Vec::new(), 0), State::Committed);
        assert_eq!(recorder.commit(by(1), AT, Vec::new(), 0), State::Committed);
        assert_eq!(recorder.begin(by(2), AT, 0), State::Pending);
        assert_eq!(recorder.abort(by(2), AT, vec![PLACE], 0), State::Aborted);
        assert_eq!(recorder.commit(by(2), AT, vec![PLACE], 0), State::Aborted);
        // A push to a missing record: a first write that comes later finds it aborted.
        assert_eq!(recorder.abort(by(3), AT, Vec::new(), 0), State::Aborted);
        assert_eq!(recorder.begin(by(3), AT, 0), State::Aborted);
        assert_eq!(recorder.commit(by(4), AT, Vec::new(), 0), State::Aborted, "it never began");
    }

    #[test]
    fn a_commit_is_kept_until_every_shard_has_it_and_an_abort_until_its_time_is_closed() {
        let mut recorder = Recorder::default();
        recorder.begin(by(1), AT, 0);
        recorder.commit(by(1), AT, vec![PLACE], 0);
        recorder.begin(by(2), AT, 5);
        recorder.abort(by(3), AT, Vec::new(), 0);
        assert_eq!(recorder.unacknowledged().len(), 1);
        assert_eq!(recorder.unresolved(), 2);
        let before = Timestamp { nanos: 9, ..AT };
        assert_eq!(recorder.forgettable(before), []);
        recorder.acknowledge(by(1), PLACE.shard);
        assert_eq!(recorder.forgettable(before), [], "a late push would find no record");
        assert_eq!(recorder.forgettable(AT), [by(1), by(3)]);
        recorder.forget(&[by(1), by(3)]);
        assert_eq!((recorder.len(), recorder.state(by(1))), (1, None));
        assert_eq!(recorder.overdue(4, 4), []);
        assert_eq!(recorder.overdue(5, 0), [(by(2), AT)]);
        recorder.touch(by(2), 6);
        assert_eq!(recorder.overdue(5, 0), []);
        assert_eq!(recorder.overdue(5, 5), [(by(2), AT)], "its life is bounded");
        // A restored member sends what was not acknowledged.
        let committed = TransactionRecord { at: AT, state: State::Committed, places: vec![PLACE] };
        let restored = Recorder::restore([(by(1), committed)].into());
        let decision = Decision { place: PLACE, transaction: by(1), at: Some(AT) };
        assert_eq!(restored.unacknowledged(), [decision]);
    }
}
