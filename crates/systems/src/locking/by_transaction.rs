//! Pending work in order, indexed by transaction: a request finds its own transaction's entries
//! without a scan of all of them.

use super::participant::{CommitWait, Pending};
use meridian_txn::TransactionId;
use std::collections::{BTreeMap, BTreeSet};

/// An entry that belongs to a transaction.
pub(super) trait OfTransaction {
    fn transaction(&self) -> TransactionId;
}

impl OfTransaction for Pending {
    fn transaction(&self) -> TransactionId {
        self.request.transaction
    }
}

impl OfTransaction for CommitWait {
    fn transaction(&self) -> TransactionId {
        self.transaction
    }
}

/// Entries in the order of their places.
///
/// Invariant: `places` has `(transaction, place)` of each entry, and nothing else. An entry's
/// transaction never changes.
pub(super) struct ByTransaction<K, V> {
    entries: BTreeMap<K, V>,
    places: BTreeSet<(TransactionId, K)>,
}

impl<K, V> Default for ByTransaction<K, V> {
    fn default() -> Self {
        ByTransaction { entries: BTreeMap::new(), places: BTreeSet::new() }
    }
}

/// No place may be below the default of `K`.
impl<K: Ord + Copy + Default, V: OfTransaction> ByTransaction<K, V> {
    pub(super) fn insert(&mut self, place: K, entry: V) {
        self.remove(place);
        self.places.insert((entry.transaction(), place));
        self.entries.insert(place, entry);
    }

    pub(super) fn remove(&mut self, place: K) -> Option<V> {
        let entry = self.entries.remove(&place)?;
        self.places.remove(&(entry.transaction(), place));
        Some(entry)
    }

    /// Removes and returns the first entry, if a condition holds for it.
    pub(super) fn pop_first_if(&mut self, holds: impl FnOnce(&V) -> bool) -> Option<V> {
        let (place, _) = self.entries.first_key_value().filter(|(_, entry)| holds(entry))?;
        self.remove(*place)
    }

    /// The places of a transaction's entries.
    fn places_of(&self, txn: TransactionId) -> impl Iterator<Item = K> + '_ {
        self.places
            .range((txn, K::default())..)
            .take_while(move |(of, _)| *of == txn)
            .map(|(_, place)| *place)
    }

    /// The first place of a transaction's entries.
    pub(super) fn place_of(&self, txn: TransactionId) -> Option<K> {
        self.places_of(txn).next()
    }

    /// True if a transaction has entries.
    pub(super) fn has(&self, txn: TransactionId) -> bool {
        self.place_of(txn).is_some()
    }

    /// The entries of a transaction, in order.
    pub(super) fn of(&self, txn: TransactionId) -> impl Iterator<Item = &V> {
        self.places_of(txn).filter_map(|place| self.entries.get(&place))
    }

    /// Returns the first entry of a transaction for which a condition holds.
    pub(super) fn find_of(
        &mut self,
        txn: TransactionId,
        holds: impl Fn(&V) -> bool,
    ) -> Option<&mut V> {
        let place =
            self.places_of(txn).find(|place| self.entries.get(place).is_some_and(&holds))?;
        self.entries.get_mut(&place)
    }

    /// Removes a transaction's entries. False if there were none.
    pub(super) fn withdraw(&mut self, txn: TransactionId) -> bool {
        let places: Vec<K> = self.places_of(txn).collect();
        places.iter().for_each(|place| drop(self.remove(*place)));
        !places.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All entries, in the order of their places.
    pub(super) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.entries.values()
    }

    /// Removes and returns all entries, in the order of their places.
    pub(super) fn take(&mut self) -> impl Iterator<Item = V> + use<K, V> {
        std::mem::take(self).entries.into_values()
    }
}
