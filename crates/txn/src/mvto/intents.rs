//! Write streams: the intents of transactions whose outcome is not known (K2 §5.2, `WS`).

use super::rules;
use crate::shards::ReplicaId;
use crate::{SchemaVersion, TransactionId};
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_machine::planted::broken;
use meridian_mvcc::{Key, KeyRange, Write, local};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// The writes of a transaction in one shard, until its outcome is known there.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Intent {
    /// The transaction's timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// The recorder, which decides the transaction: its shard, and the node that led it when the
    /// intent was written.
    #[n(1)]
    pub recorder: ReplicaId,
    /// The writes; each key occurs once.
    #[n(2)]
    pub writes: Vec<Write>,
    /// The schema versions that hold in this shard from the timestamp on.
    #[n(3)]
    #[cbor(default)]
    pub schemas: Vec<SchemaVersion>,
}

impl Intent {
    /// The keys that are written, those of schemas included, so that a schema change is ordered
    /// with its users like every write with the readers of its key.
    fn keys(&self, shard: ShardId) -> impl Iterator<Item = Key> + '_ {
        let schemas = self.schemas.iter().map(move |schema| local::schema(shard.0, schema.table));
        self.writes.iter().map(|write| write.key.clone()).chain(schemas)
    }
}

/// An intent at a member.
#[derive(Clone, Debug)]
pub struct Held {
    /// The intent.
    pub intent: Intent,
    /// True if it is agreed: the log has it.
    pub agreed: bool,
    /// Since when it is held, by the boot clock.
    pub since_ns: u64,
    /// The decision, if it is known and not agreed here yet: the commit timestamp, or `None`.
    pub decided: Option<Option<Timestamp>>,
}

/// The intents of a shard.
///
/// A leader adds an intent when it proposes it: from then on no later reader passes it over.
#[derive(Debug, Default)]
pub struct Intents {
    held: BTreeMap<TransactionId, Held>,
    /// The undecided intents of each key, by timestamp.
    undecided: BTreeMap<Key, BTreeMap<Timestamp, TransactionId>>,
    /// The timestamps of all intents.
    times: BTreeSet<Timestamp>,
}

impl Intents {
    /// Adds an intent, or replaces the transaction's by an equal one.
    pub fn insert(
        &mut self,
        shard: ShardId,
        txn: TransactionId,
        intent: Intent,
        agreed: bool,
        now_ns: u64,
    ) {
        for key in intent.keys(shard) {
            self.undecided.entry(key).or_default().insert(intent.at, txn);
        }
        self.times.insert(intent.at);
        self.held.insert(txn, Held { intent, agreed, since_ns: now_ns, decided: None });
    }

    /// The intent of a transaction.
    pub fn get(&self, txn: TransactionId) -> Option<&Held> {
        self.held.get(&txn)
    }

    /// Notes that an intent is in the log.
    pub fn agree(&mut self, txn: TransactionId) {
        if let Some(held) = self.held.get_mut(&txn) {
            held.agreed = true;
        }
    }

    /// Notes the decision of a transaction, which the recorder has sent. Readers do not wait for a
    /// commit any more. They do wait for an abort, until it is agreed on here: a leader that is
    /// deposed without knowing it may receive one of a transaction that has ended without it.
    /// Returns the intent the first time.
    pub fn decide(
        &mut self,
        shard: ShardId,
        txn: TransactionId,
        outcome: Option<Timestamp>,
    ) -> Option<&Intent> {
        let held = self.held.get_mut(&txn).filter(|held| held.decided.is_none())?;
        held.decided = Some(outcome);
        let (keys, at) = (held.intent.keys(shard).collect::<Vec<_>>(), held.intent.at);
        if outcome.is_some() {
            self.pass(&keys, at);
        }
        self.held.get(&txn).map(|held| &held.intent)
    }

    fn pass(&mut self, keys: &[Key], at: Timestamp) {
        for key in keys {
            if let Some(stream) = self.undecided.get_mut(key) {
                stream.remove(&at);
                if stream.is_empty() {
                    self.undecided.remove(key);
                }
            }
        }
    }

    /// Removes an intent.
    pub fn remove(&mut self, shard: ShardId, txn: TransactionId) -> Option<Intent> {
        let Held { intent, .. } = self.held.remove(&txn)?;
        let keys: Vec<Key> = intent.keys(shard).collect();
        self.pass(&keys, intent.at);
        self.times.remove(&intent.at);
        Some(intent)
    }

    /// Removes the intents that are not agreed, when leadership is lost, and forgets decisions that
    /// only this leader knew.
    pub fn forget_proposed(&mut self, shard: ShardId) {
        let proposed = self.held.iter().filter(|(_, held)| !held.agreed).map(|(txn, _)| *txn);
        for txn in proposed.collect::<Vec<_>>() {
            self.remove(shard, txn);
        }
        let decided = self.held.iter().filter(|(_, held)| held.decided.is_some());
        for txn in decided.map(|(txn, _)| *txn).collect::<Vec<_>>() {
            if let Some(intent) = self.remove(shard, txn) {
                self.insert(shard, txn, intent, true, 0);
            }
        }
    }

    /// Returns the transactions that a reader at a timestamp has to wait for: in each key of a
    /// range the newest undecided one below it. An older one matters only if that one aborts (Trap
    /// A.1-B11).
    pub fn blockers(
        &self,
        range: &KeyRange,
        at: Timestamp,
        reader: TransactionId,
    ) -> Vec<TransactionId> {
        if broken(rules::INTENT_PASSED_OVER) {
            return Vec::new();
        }
        let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        if range.is_empty() {
            return Vec::new();
        }
        let streams = self.undecided.range::<Key, _>((Bound::Included(&range.start), end));
        let newest = |(_, stream): (&Key, &BTreeMap<Timestamp, TransactionId>)| {
            let mut below = stream.range(..at).map(|(_, txn)| *txn);
            below.rfind(|txn| *txn != reader)
        };
        streams.filter_map(newest).collect()
    }

    /// All intents.
    pub fn iter(&self) -> impl Iterator<Item = (TransactionId, &Held)> {
        self.held.iter().map(|(txn, held)| (*txn, held))
    }

    /// The oldest timestamp of an intent.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.times.first().copied()
    }

    /// The number of intents.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::NodeId;

    const SHARD: ShardId = ShardId(0);

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn by(number: u64) -> TransactionId {
        TransactionId { node: 1, incarnation: 1, number }
    }

    fn intent(nanos: u64, keys: &[&str]) -> Intent {
        let recorder = ReplicaId { shard: SHARD, node: NodeId(1) };
        let write = |key: &&str| Write { key: (*key).into(), value: None };
        let writes = keys.iter().map(write).collect();
        Intent { at: at(nanos), recorder, writes, schemas: Vec::new() }
    }

    #[test]
    fn a_reader_waits_for_the_newest_older_intent_of_each_key() {
        let mut intents = Intents::default();
        intents.insert(SHARD, by(1), intent(10, &["a", "b"]), true, 0);
        intents.insert(SHARD, by(2), intent(20, &["a"]), false, 0);
        intents.insert(SHARD, by(3), intent(30, &["c"]), true, 0);
        let blockers = |intents: &Intents, start: &str, end: &str, nanos, reader| {
            let range = KeyRange { start: start.into(), end: Some(end.into()) };
            intents.blockers(&range, at(nanos), by(reader))
        };
        assert_eq!(blockers(&intents, "a", "z", 25, 9), [by(2), by(1)]);
        assert_eq!(blockers(&intents, "a", "b", 15, 9), [by(1)]);
        assert_eq!(blockers(&intents, "a", "z", 25, 2), [by(1), by(1)], "its own is no obstacle");
        assert_eq!(blockers(&intents, "a", "b", 10, 9), []);
        // The newer one aborts: once that is agreed, the older one matters.
        assert!(intents.decide(SHARD, by(2), None).is_some());
        assert!(intents.decide(SHARD, by(2), None).is_none(), "known already");
        assert_eq!(blockers(&intents, "a", "b", 25, 9), [by(2)]);
        intents.remove(SHARD, by(2));
        assert_eq!(blockers(&intents, "a", "b", 25, 9), [by(1)]);
        // What was only proposed goes with leadership; what was decided here is undecided again.
        intents.decide(SHARD, by(1), Some(at(10)));
        assert_eq!(blockers(&intents, "a", "z", 25, 9), []);
        intents.forget_proposed(SHARD);
        assert_eq!(blockers(&intents, "a", "z", 40, 9), [by(1), by(1), by(3)]);
        assert_eq!((intents.len(), intents.oldest()), (2, Some(at(10))));
    }
}
