//! The outcomes that a member remembers, so that a repeated request is answered like the first.

use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::sometimes;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// The outcomes of the newest transactions that have ended in a shard.
#[derive(Debug)]
pub struct Outcomes {
    ended: BTreeMap<TransactionId, Option<Timestamp>>,
    /// The transactions with their timestamps, in the order in which they ended.
    order: VecDeque<(TransactionId, Timestamp)>,
    most: usize,
    forgotten: Timestamp,
}

impl Outcomes {
    /// Returns a memory for so many outcomes. Those of transactions at or below a timestamp may be
    /// missing.
    pub fn new(most: usize, forgotten: Timestamp) -> Outcomes {
        Outcomes { ended: BTreeMap::new(), order: VecDeque::new(), most, forgotten }
    }

    /// Remembers the outcome of a transaction, of which the first counts: its commit timestamp, or
    /// `None` if it is aborted.
    pub fn remember(&mut self, txn: TransactionId, at: Timestamp, outcome: Option<Timestamp>) {
        if let Entry::Vacant(vacant) = self.ended.entry(txn) {
            vacant.insert(outcome);
            self.order.push_back((txn, at));
        }
        if self.order.len() > self.most
            && let Some((oldest, at)) = self.order.pop_front()
        {
            sometimes!("an outcome is forgotten for the sake of newer ones");
            self.ended.remove(&oldest);
            self.forgotten = self.forgotten.max(at);
        }
    }

    /// The outcome of a transaction, if it is remembered.
    pub fn get(&self, txn: TransactionId) -> Option<Option<Timestamp>> {
        self.ended.get(&txn).copied()
    }

    /// True if the outcome of a transaction with this timestamp may have been forgotten: then it is
    /// unknown, and not aborted.
    pub fn may_have_forgotten(&self, at: Timestamp) -> bool {
        at <= self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_unknown() {
        let at = |nanos| Timestamp { nanos, logical: 0, issuer: 1 };
        let by = |number| TransactionId { node: 1, incarnation: 1, number };
        let mut outcomes = Outcomes::new(2, at(5));
        outcomes.remember(by(1), at(10), Some(at(10)));
        outcomes.remember(by(1), at(10), Some(at(10)));
        outcomes.remember(by(2), at(8), None);
        assert_eq!((outcomes.get(by(1)), outcomes.get(by(2))), (Some(Some(at(10))), Some(None)));
        assert!(outcomes.may_have_forgotten(at(5)) && !outcomes.may_have_forgotten(at(6)));
        outcomes.remember(by(3), at(20), Some(at(20)));
        assert_eq!(outcomes.get(by(1)), None);
        assert!(outcomes.may_have_forgotten(at(10)) && !outcomes.may_have_forgotten(at(11)));
    }
}
