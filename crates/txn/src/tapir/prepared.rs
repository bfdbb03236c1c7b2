//! The prepared proposals, indexed by transaction and by key. A new proposal is compared only with
//! those that touch the same keys, however many are prepared.

use super::Proposal;
use super::slots::Slots;
use crate::TransactionId;
use meridian_mvcc::{Key, KeyRange};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A prepared proposal.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub proposal: Proposal,
    /// True if the group decided `Ok`.
    pub sure: bool,
}

/// The prepared proposals, at most one attempt of each transaction.
#[derive(Clone, Default)]
pub(super) struct Prepared {
    all: BTreeMap<TransactionId, Held>,
    /// The transactions that write a key, and those that read it as a point.
    writers: Slots<Vec<TransactionId>>,
    readers: Slots<Vec<TransactionId>>,
    /// The transactions that read longer ranges.
    scanners: BTreeSet<TransactionId>,
}

/// Shows the proposals only; the indexes follow from them.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

/// Adds a transaction to those that touch a key, once.
fn enter(there: &mut Vec<TransactionId>, txn: TransactionId) {
    if !there.contains(&txn) {
        there.push(txn);
    }
}

impl Prepared {
    /// Returns the prepared attempt of a transaction.
    pub fn of(&self, transaction: TransactionId) -> Option<&Held> {
        self.all.get(&transaction)
    }

    /// Returns all prepared proposals.
    pub fn iter(&self) -> impl Iterator<Item = &Proposal> {
        self.all.values().map(|held| &held.proposal)
    }

    /// Adds a proposal in place of the transaction's former attempt.
    pub fn put(&mut self, held: Held) {
        let txn = held.proposal.transaction;
        self.take(txn);
        for write in &held.proposal.writes {
            enter(self.writers.slot(&write.key), txn);
        }
        for seen in &held.proposal.reads {
            match seen.range.as_point() {
                Some(key) => enter(self.readers.slot(key), txn),
                None => drop(self.scanners.insert(txn)),
            }
        }
        self.all.insert(txn, held);
    }

    /// Removes and returns the prepared attempt of a transaction.
    pub fn take(&mut self, txn: TransactionId) -> Option<Held> {
        let held = self.all.remove(&txn)?;
        let leave = |slots: &mut Slots<Vec<TransactionId>>, key: &Key| {
            slots.change(key, |there| {
                there.retain(|other| *other != txn);
                !there.is_empty()
            });
        };
        held.proposal.writes.iter().for_each(|write| leave(&mut self.writers, &write.key));
        let points = held.proposal.reads.iter().filter_map(|seen| seen.range.as_point());
        points.for_each(|key| leave(&mut self.readers, key));
        self.scanners.remove(&txn);
        Some(held)
    }

    /// Removes every proposal for which `is_so` is true.
    pub fn take_if(&mut self, is_so: impl Fn(&Proposal) -> bool) {
        let taken: Vec<TransactionId> =
            self.iter().filter(|one| is_so(one)).map(|one| one.transaction).collect();
        taken.into_iter().for_each(|txn| drop(self.take(txn)));
    }

    /// Sets `sure` of a transaction's proposal.
    pub fn mark(&mut self, txn: TransactionId, sure: bool) {
        self.all.get_mut(&txn).into_iter().for_each(|held| held.sure = sure);
    }

    /// Clears `sure` of every proposal.
    pub fn suspect(&mut self) {
        self.all.values_mut().for_each(|held| held.sure = false);
    }

    /// Returns the proposals that write into a range.
    pub fn writing<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Proposal> {
        self.writers.within(range).flat_map(|(_, there)| there).map(|txn| &self.all[txn].proposal)
    }

    /// Returns the proposals that may conflict with a new one: those that write what it reads or
    /// writes, and those that may have read what it writes.
    pub fn beside(&self, proposal: &Proposal) -> impl Iterator<Item = &Proposal> {
        let mut there: BTreeSet<TransactionId> = BTreeSet::new();
        for seen in &proposal.reads {
            there.extend(self.writers.within(&seen.range).flat_map(|(_, there)| there));
        }
        for write in &proposal.writes {
            let touching = [&self.writers, &self.readers]
                .into_iter()
                .filter_map(|slots| slots.get(&write.key));
            there.extend(touching.flatten());
        }
        if !proposal.writes.is_empty() {
            there.extend(&self.scanners);
        }
        there.into_iter().map(|txn| &self.all[&txn].proposal)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Footprint, RangeRead};
    use super::*;
    use meridian_clock::Timestamp;
    use meridian_machine::ShardId;
    use meridian_mvcc::Write;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn key(number: u8) -> Key {
        Key::from(&[number][..])
    }

    fn txn(number: u64) -> TransactionId {
        TransactionId { node: 1, incarnation: 1, number }
    }

    /// Returns a proposal that reads `(first, many)`: one key if `many` is 0, else a range of
    /// `many` keys.
    fn proposal(number: u64, reads: &[(u8, u8)], writes: &[u8]) -> Proposal {
        let range = |(first, many): &(u8, u8)| match many {
            0 => KeyRange::point(key(*first)),
            many => KeyRange { start: key(*first), end: Some(key(first + many)) },
        };
        let seen =
            |read| RangeRead { range: range(read), versions: Vec::new(), through: Timestamp::ZERO };
        let reads = reads.iter().map(seen).collect();
        let writes = writes.iter().map(|number| Write { key: key(*number), value: None }).collect();
        let footprint = Arc::new(Footprint { reads, writes, participants: vec![ShardId(0)] });
        Proposal { transaction: txn(number), attempt: 0, at: Timestamp::ZERO, footprint }
    }

    fn may_meet(new: &Proposal, old: &Proposal) -> bool {
        let reads =
            |one: &Proposal, key: &Key| one.reads.iter().any(|seen| seen.range.contains(key));
        let writes = |one: &Proposal, key: &Key| one.writes.iter().any(|write| write.key == *key);
        old.writes.iter().any(|write| reads(new, &write.key) || writes(new, &write.key))
            || new.writes.iter().any(|write| reads(old, &write.key))
    }

    proptest! {
        #[test]
        fn every_conflicting_transaction_is_found(
            many in proptest::collection::vec(
                (0u64..8, proptest::collection::vec((0u8..10, 0u8..4), 0..3), proptest::collection::vec(0u8..12, 0..3), any::<bool>()),
                0..40,
            )
        ) {
            let (mut prepared, mut model) = (Prepared::default(), BTreeMap::new());
            for (number, reads, writes, stays) in many {
                let new = proposal(number, &reads, &writes);
                model.remove(&txn(number));
                prepared.take(txn(number));
                let found: BTreeSet<TransactionId> = prepared.beside(&new).map(|old| old.transaction).collect();
                for (txn, old) in &model {
                    prop_assert!(found.contains(txn) || !may_meet(&new, old));
                }
                if stays {
                    model.insert(txn(number), new.clone());
                    prepared.put(Held { proposal: new, sure: false });
                }
                prop_assert_eq!(prepared.iter().cloned().collect::<Vec<_>>(), model.values().cloned().collect::<Vec<_>>());
            }
            prepared.take_if(|_| true);
            prop_assert!(prepared.writers.is_empty() && prepared.readers.is_empty() && prepared.scanners.is_empty());
        }
    }
}
