//! The attempts of a node's coordinators that hold locks.
//!
//! Their leaders are told every second that idle sessions live on, and release the locks of an
//! attempt of which they hear nothing.

use super::{Seat, TransactionId};
use crate::Age;
use meridian_machine::{NodeId, ShardId};
use std::collections::BTreeMap;

/// Attempts that hold locks, with the replicas that hold them.
#[derive(Debug, Default)]
pub struct HeldLocks {
    held: BTreeMap<(u64, ShardId), (NodeId, TransactionId, Age)>,
}

impl HeldLocks {
    /// An attempt holds locks at a replica, and at no other one of that shard.
    pub fn insert(&mut self, seat: Seat, transaction: TransactionId, age: Age) {
        self.held.insert((transaction.number, seat.shard), (seat.node, transaction, age));
    }

    /// An attempt holds no locks, or is being committed.
    pub fn remove(&mut self, transaction: TransactionId) {
        let of_attempt = (transaction.number, ShardId(0))..=(transaction.number, ShardId(u32::MAX));
        let keys: Vec<(u64, ShardId)> = self.held.range(of_attempt).map(|(key, _)| *key).collect();
        for key in keys {
            self.held.remove(&key);
        }
    }

    /// True if the attempt of this number holds locks.
    pub fn has(&self, number: u64) -> bool {
        let of_attempt = (number, ShardId(0))..=(number, ShardId(u32::MAX));
        self.held.range(of_attempt).next().is_some()
    }

    /// All attempts, once for each shard, with the replica that holds their locks.
    pub fn iter(&self) -> impl Iterator<Item = (Seat, TransactionId, Age)> {
        self.held.iter().map(|((_, shard), (node, transaction, age))| {
            (Seat { shard: *shard, node: *node }, *transaction, *age)
        })
    }
}
