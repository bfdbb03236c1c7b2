//! The attempts of a node's coordinators that hold locks.
//!
//! Their leaders are told every second that idle sessions live on, and release the locks of an
//! attempt of which they hear nothing.

use super::ReplicaId;
use crate::{Age, TransactionId};
use std::collections::BTreeMap;

/// Attempts that hold locks, with the replicas that hold them.
#[derive(Debug, Default)]
pub struct HeldLocks {
    held: BTreeMap<u64, Vec<(ReplicaId, TransactionId, Age)>>,
}

impl HeldLocks {
    /// An attempt holds locks at a replica.
    pub fn insert(&mut self, replica: ReplicaId, transaction: TransactionId, age: Age) {
        let seats = self.held.entry(transaction.number).or_default();
        if let Err(place) = seats.binary_search_by_key(&replica, |(replica, ..)| *replica) {
            seats.insert(place, (replica, transaction, age));
        }
    }

    /// An attempt holds no locks, or is being committed.
    pub fn remove(&mut self, transaction: TransactionId) {
        self.held.remove(&transaction.number);
    }

    /// True if the attempt of this number holds locks.
    pub fn has(&self, number: u64) -> bool {
        self.held.contains_key(&number)
    }

    /// All attempts, once for each replica that holds locks of theirs.
    pub fn iter(&self) -> impl Iterator<Item = (ReplicaId, TransactionId, Age)> {
        self.held.values().flatten().copied()
    }
}
