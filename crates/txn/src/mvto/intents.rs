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

/// Writes of a transaction in one shard, until its outcome is known there: a part of what it writes
/// there, since it may send its writes as its statements run (K2 §5.3).
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Intent {
    /// The transaction's timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// The recorder, which decides the transaction: its shard, and the node that led it when the
    /// intent was written.
    #[n(1)]
    pub recorder: ReplicaId,
    /// The number of earlier parts in this shard.
    #[n(2)]
    pub part: u32,
    /// The writes; each key occurs once. They replace those of earlier parts.
    #[n(3)]
    pub writes: Vec<Write>,
    /// The keys whose writes in earlier parts are taken back (ROLLBACK TO).
    #[n(4)]
    pub withdrawn: Vec<Key>,
    /// The schema versions that hold in this shard from the timestamp on.
    #[n(5)]
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

/// A transaction's intents at a member.
#[derive(Clone, Debug)]
pub struct Held {
    /// The transaction's timestamp.
    pub at: Timestamp,
    /// The recorder.
    pub recorder: ReplicaId,
    /// The parts that are agreed: the log has them.
    pub parts: Vec<Intent>,
    /// The next parts, which this leader has proposed.
    pub proposed: Vec<Intent>,
    /// Since when the first one is held, by the boot clock.
    pub since_ns: u64,
    /// The decision, if it is known and not agreed here yet: the commit timestamp, or `None`.
    pub decided: Option<Option<Timestamp>>,
}

impl Held {
    fn new(intent: &Intent, since_ns: u64) -> Held {
        let Intent { at, recorder, .. } = *intent;
        Held { at, recorder, parts: Vec::new(), proposed: Vec::new(), since_ns, decided: None }
    }

    /// The number of agreed parts.
    pub fn agreed(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX)
    }

    /// The number of the first part that is not proposed here.
    pub fn next(&self) -> u32 {
        self.proposed.last().map_or(self.agreed(), |part| part.part + 1)
    }

    /// The writes and schema versions of the agreed parts, each key once.
    pub fn merged(mut self) -> (Vec<Write>, Vec<SchemaVersion>) {
        if self.parts.len() <= 1 {
            let first = self.parts.pop();
            return first.map(|part| (part.writes, part.schemas)).unwrap_or_default();
        }
        let (mut writes, mut schemas) = (BTreeMap::new(), Vec::new());
        for part in self.parts {
            let withdrawn = part.withdrawn.iter().filter(|_| !broken(rules::WITHDRAWN_KEPT));
            withdrawn.for_each(|key| drop(writes.remove(key)));
            writes.extend(part.writes.into_iter().map(|write| (write.key, write.value)));
            schemas.extend(part.schemas);
        }
        (writes.into_iter().map(|(key, value)| Write { key, value }).collect(), schemas)
    }
}

/// The intents of a shard.
///
/// A leader adds an intent when it proposes it: from then on no later reader passes it over.
#[derive(Clone, Debug, Default)]
pub struct Intents {
    held: BTreeMap<TransactionId, Held>,
    /// The undecided intents of each key, by timestamp.
    undecided: BTreeMap<Key, BTreeMap<Timestamp, TransactionId>>,
    /// The timestamps of all intents.
    times: BTreeSet<Timestamp>,
}

impl Intents {
    /// Adds a part that this leader proposes.
    pub fn propose(&mut self, shard: ShardId, txn: TransactionId, intent: Intent, now_ns: u64) {
        self.index(shard, txn, &intent);
        let held = self.held.entry(txn).or_insert_with(|| Held::new(&intent, now_ns));
        held.proposed.push(intent);
    }

    /// Adds a part that is in the log. Returns false if it is not the next one: then its
    /// transaction has ended here.
    pub fn agree(
        &mut self,
        shard: ShardId,
        txn: TransactionId,
        intent: Intent,
        now_ns: u64,
    ) -> bool {
        if intent.part != self.held.get(&txn).map_or(0, Held::agreed) {
            return false;
        }
        self.index(shard, txn, &intent);
        let held = self.held.entry(txn).or_insert_with(|| Held::new(&intent, now_ns));
        held.proposed.retain(|proposed| proposed.part > intent.part);
        let mut withdrawn: BTreeSet<Key> = intent.withdrawn.iter().cloned().collect();
        if !withdrawn.is_empty() {
            let again = held.proposed.iter().flat_map(|part| part.writes.iter());
            again.for_each(|write| drop(withdrawn.take(&write.key)));
        }
        let at = held.at;
        held.parts.push(intent);
        self.pass(withdrawn.iter(), at);
        true
    }

    /// Adds a part's keys to the index, and its timestamp.
    fn index(&mut self, shard: ShardId, txn: TransactionId, intent: &Intent) {
        for key in intent.keys(shard) {
            self.undecided.entry(key).or_default().insert(intent.at, txn);
        }
        self.times.insert(intent.at);
    }

    /// The intents of a transaction.
    pub fn get(&self, txn: TransactionId) -> Option<&Held> {
        self.held.get(&txn)
    }

    /// True if a transaction has an intent of a key that later readers wait for.
    pub fn holds(&self, txn: TransactionId, key: &Key) -> bool {
        let at = self.held.get(&txn).map(|held| held.at);
        at.and_then(|at| self.undecided.get(key)?.get(&at)) == Some(&txn)
    }

    /// Notes the decision of a transaction, which the recorder has sent. Readers do not wait for a
    /// commit any more. They do wait for an abort, until it is agreed on here: a leader that is
    /// deposed without knowing it may receive one of a transaction that has ended without it.
    /// Returns the intents the first time.
    pub fn decide(
        &mut self,
        shard: ShardId,
        txn: TransactionId,
        outcome: Option<Timestamp>,
    ) -> Option<&Held> {
        let held = self.held.get_mut(&txn).filter(|held| held.decided.is_none())?;
        held.decided = Some(outcome);
        let (keys, at) = (keys_of(held, shard), held.at);
        if outcome.is_some() {
            self.pass(keys.iter(), at);
        }
        self.held.get(&txn)
    }

    fn pass<'a>(&mut self, keys: impl Iterator<Item = &'a Key>, at: Timestamp) {
        for key in keys {
            if let Some(stream) = self.undecided.get_mut(key) {
                stream.remove(&at);
                if stream.is_empty() {
                    self.undecided.remove(key);
                }
            }
        }
    }

    /// Removes the intents of a transaction.
    pub fn remove(&mut self, shard: ShardId, txn: TransactionId) -> Option<Held> {
        let held = self.held.remove(&txn)?;
        self.pass(keys_of(&held, shard).iter(), held.at);
        self.times.remove(&held.at);
        Some(held)
    }

    /// Removes what is not agreed, when leadership is lost, and forgets decisions that only this
    /// leader knew.
    pub fn forget_proposed(&mut self, shard: ShardId) {
        let unsure = |held: &Held| !held.proposed.is_empty() || held.decided.is_some();
        let unsure = self.held.iter().filter(|(_, held)| unsure(held)).map(|(txn, _)| *txn);
        for txn in unsure.collect::<Vec<_>>() {
            let Some(held) = self.remove(shard, txn) else { continue };
            for part in held.parts {
                self.agree(shard, txn, part, 0);
            }
        }
    }

    /// Returns the transactions that a reader at a timestamp has to wait for: in each key of a
    /// range the newest undecided one at or below it: a query of the past may read at another
    /// transaction's timestamp. An older one matters only if that one aborts (Trap A.1-B11).
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
            let mut below = stream.range(..=at).map(|(_, txn)| *txn);
            below.rfind(|txn| *txn != reader)
        };
        streams.filter_map(newest).collect()
    }

    /// The intents of all transactions.
    pub fn iter(&self) -> impl Iterator<Item = (TransactionId, &Held)> {
        self.held.iter().map(|(txn, held)| (*txn, held))
    }

    /// The oldest timestamp of an intent.
    pub fn oldest(&self) -> Option<Timestamp> {
        self.times.first().copied()
    }

    /// The number of transactions with intents.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

/// The keys of all parts.
fn keys_of(held: &Held, shard: ShardId) -> Vec<Key> {
    held.parts.iter().chain(&held.proposed).flat_map(|part| part.keys(shard)).collect()
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

    fn part(nanos: u64, part: u32, keys: &[&str], withdrawn: &[&str]) -> Intent {
        let recorder = ReplicaId { shard: SHARD, node: NodeId(1) };
        let write = |key: &&str| Write { key: (*key).into(), value: Some(vec![part as u8].into()) };
        let writes = keys.iter().map(write).collect();
        let withdrawn = withdrawn.iter().map(|key| (*key).into()).collect();
        Intent { at: at(nanos), recorder, part, writes, withdrawn, schemas: Vec::new() }
    }

    fn blockers(
        intents: &Intents,
        (start, end): (&str, &str),
        nanos: u64,
        reader: u64,
    ) -> Vec<TransactionId> {
        let range = KeyRange { start: start.into(), end: Some(end.into()) };
        intents.blockers(&range, at(nanos), by(reader))
    }

    #[test]
    fn a_reader_waits_for_the_newest_older_intent_of_each_key() {
        let mut intents = Intents::default();
        assert!(intents.agree(SHARD, by(1), part(10, 0, &["a", "b"], &[]), 0));
        intents.propose(SHARD, by(2), part(20, 0, &["a"], &[]), 0);
        assert!(intents.agree(SHARD, by(3), part(30, 0, &["c"], &[]), 0));
        assert_eq!(blockers(&intents, ("a", "z"), 25, 9), [by(2), by(1)]);
        assert_eq!(blockers(&intents, ("a", "b"), 15, 9), [by(1)]);
        assert_eq!(blockers(&intents, ("a", "z"), 25, 2), [by(1), by(1)], "its own is no obstacle");
        assert_eq!(blockers(&intents, ("a", "b"), 10, 9), [by(1)]);
        assert_eq!(blockers(&intents, ("a", "b"), 9, 9), []);
        // The newer one aborts: once that is agreed, the older one matters.
        assert!(intents.decide(SHARD, by(2), None).is_some());
        assert!(intents.decide(SHARD, by(2), None).is_none(), "known already");
        assert_eq!(blockers(&intents, ("a", "b"), 25, 9), [by(2)]);
        intents.remove(SHARD, by(2));
        assert_eq!(blockers(&intents, ("a", "b"), 25, 9), [by(1)]);
        // What was only proposed goes with leadership; what was decided here is undecided again.
        intents.decide(SHARD, by(1), Some(at(10)));
        assert_eq!(blockers(&intents, ("a", "z"), 25, 9), []);
        intents.forget_proposed(SHARD);
        assert_eq!(blockers(&intents, ("a", "z"), 40, 9), [by(1), by(1), by(3)]);
        assert_eq!((intents.len(), intents.oldest()), (2, Some(at(10))));
    }

    #[test]
    fn parts_replace_and_take_back_what_earlier_ones_wrote() {
        let mut intents = Intents::default();
        assert!(!intents.agree(SHARD, by(1), part(10, 1, &["a"], &[]), 0), "the first is missing");
        assert!(intents.is_empty());
        assert!(intents.agree(SHARD, by(1), part(10, 0, &["a", "b"], &[]), 0));
        assert!(!intents.agree(SHARD, by(1), part(10, 0, &["a", "b"], &[]), 0), "a copy");
        let second = part(10, 1, &["b", "c"], &["a"]);
        intents.propose(SHARD, by(1), second.clone(), 0);
        let waits_at = |intents: &Intents| {
            ["a", "b", "c"].map(|key| blockers(intents, (key, &format!("{key}0")), 20, 9).len())
        };
        assert_eq!(waits_at(&intents), [1, 1, 1], "until it is agreed, nothing is taken back");
        assert!(intents.holds(by(1), &"c".into()));
        // A third part writes again what the second takes back.
        intents.propose(SHARD, by(1), part(10, 2, &["a"], &[]), 0);
        assert_eq!(intents.get(by(1)).map(|held| (held.agreed(), held.next())), Some((1, 3)));
        assert!(intents.agree(SHARD, by(1), second.clone(), 0));
        assert_eq!(waits_at(&intents), [1, 1, 1]);
        // A leader that is deposed knows what the log has.
        intents.forget_proposed(SHARD);
        assert_eq!(waits_at(&intents), [0, 1, 1]);
        assert!(!intents.holds(by(1), &"a".into()) && intents.holds(by(1), &"b".into()));
        let (writes, schemas) = intents.remove(SHARD, by(1)).expect("it is held").merged();
        let written = |key: &str| Write { key: key.into(), value: Some(vec![1].into()) };
        assert_eq!((writes, schemas), (vec![written("b"), written("c")], Vec::new()));
        assert_eq!(waits_at(&intents), [0, 0, 0]);
        assert!(intents.is_empty() && intents.oldest().is_none());
    }
}
