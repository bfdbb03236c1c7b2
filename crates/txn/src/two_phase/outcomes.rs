//! The outcomes that a member remembers, so that a repeated request is answered like the first
//! (Trap A.5-11).

use super::rules;
use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::sometimes;
use std::collections::{BTreeMap, VecDeque};

/// The commit timestamps of transactions that have ended, of the newest ones.
#[derive(Debug)]
pub struct Outcomes {
    at: BTreeMap<TransactionId, Timestamp>,
    /// The most outcomes to remember.
    most: usize,
    /// The remembered transactions and the terms of their log entries, oldest first.
    order: VecDeque<(TransactionId, u64)>,
    /// Outcomes of this term and of earlier ones may be forgotten: a request for one is answered
    /// `Unknown`, never `Aborted`.
    forgotten: u64,
}

impl Outcomes {
    pub(super) fn new(most: usize) -> Outcomes {
        Outcomes { at: BTreeMap::new(), most, order: VecDeque::new(), forgotten: 0 }
    }

    pub(super) fn remember(&mut self, txn: TransactionId, at: Timestamp, term: u64) {
        self.at.insert(txn, at);
        self.order.push_back((txn, term));
        if self.order.len() > self.most
            && let Some((oldest, term)) = self.order.pop_front()
        {
            sometimes!("an outcome is forgotten for the sake of newer ones");
            self.at.remove(&oldest);
            if !broken(rules::FORGETS_SILENTLY) {
                self.forget_through(term);
            }
        }
    }

    /// Notes that outcomes of this term and of earlier ones may be forgotten.
    pub fn forget_through(&mut self, term: u64) {
        self.forgotten = self.forgotten.max(term);
    }

    /// True if the outcome of a transaction that was decided in this term may be forgotten.
    pub fn may_have_forgotten(&self, term: u64) -> bool {
        term <= self.forgotten
    }

    /// Returns the commit timestamp of a transaction, if it is remembered.
    pub fn get(&self, txn: TransactionId) -> Option<Timestamp> {
        self.at.get(&txn).copied()
    }

    /// True if the outcome of a transaction is remembered.
    pub fn contains(&self, txn: TransactionId) -> bool {
        self.at.contains_key(&txn)
    }
}
