//! The coordinator group's decisions that participants are still to be told.

use super::{ParticipantMessage, ToLeader};
use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use minicbor::{Decode, Encode};
use std::collections::BTreeMap;

/// A commit that was decided here and that participants must be told.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Decision {
    /// The commit timestamp.
    #[n(0)]
    pub at: Timestamp,
    /// The shards that were prepared.
    #[n(1)]
    pub participants: Vec<ShardId>,
    /// The terms in which they voted, in the same order.
    #[n(2)]
    #[cbor(default)]
    pub voted_in: Vec<u64>,
}

/// A decision that some participants do not have in their logs, as far as is known: those
/// participants, with the terms in which they voted.
#[derive(Debug)]
struct UnresolvedCommit {
    at: Timestamp,
    unacknowledged: BTreeMap<ShardId, u64>,
}

impl From<Decision> for UnresolvedCommit {
    fn from(Decision { at, participants, voted_in }: Decision) -> UnresolvedCommit {
        let terms = voted_in.into_iter().chain(std::iter::repeat(0));
        UnresolvedCommit { at, unacknowledged: participants.into_iter().zip(terms).collect() }
    }
}

/// The decisions that are not logged by every participant, as far as is known.
#[derive(Debug, Default)]
pub struct Decisions(BTreeMap<TransactionId, UnresolvedCommit>);

impl Decisions {
    pub(super) fn restore(decisions: BTreeMap<TransactionId, Decision>) -> Decisions {
        Decisions(decisions.into_iter().map(|(txn, decision)| (txn, decision.into())).collect())
    }

    /// Keeps a decision that is in the log, until [`forget`](Self::forget).
    pub fn keep(&mut self, txn: TransactionId, decision: Decision) {
        self.0.insert(txn, decision.into());
    }

    /// Returns the commit timestamp of a transaction that is decided.
    pub fn at(&self, txn: TransactionId) -> Option<Timestamp> {
        self.0.get(&txn).map(|unresolved| unresolved.at)
    }

    /// Notes that a participant has the outcome of a transaction in its log.
    pub fn acknowledge(&mut self, txn: TransactionId, shard: ShardId) {
        if let Some(unresolved) = self.0.get_mut(&txn) {
            unresolved.unacknowledged.remove(&shard);
        }
    }

    /// Returns the decisions for the participants that have not acknowledged them, of those
    /// transactions for which a condition holds.
    pub fn repeat(&self, holds: impl Fn(TransactionId) -> bool) -> Vec<ToLeader> {
        let of = |(transaction, unresolved): (TransactionId, &UnresolvedCommit)| {
            let at = Some(unresolved.at);
            let told = |(shard, voted_in): (&ShardId, &u64)| ToLeader {
                shard: *shard,
                node: None,
                message: ParticipantMessage::Decided { transaction, at, voted_in: *voted_in },
            };
            unresolved.unacknowledged.iter().map(told).collect::<Vec<_>>()
        };
        let all = self.0.iter().map(|(txn, unresolved)| (*txn, unresolved));
        all.filter(|(txn, _)| holds(*txn)).flat_map(of).collect()
    }

    /// The transactions that every participant has acknowledged: their decisions may be forgotten,
    /// once the log says so.
    pub fn acknowledged(&self) -> impl Iterator<Item = TransactionId> + '_ {
        let all = self.0.iter();
        all.filter(|(_, unresolved)| unresolved.unacknowledged.is_empty()).map(|(txn, _)| *txn)
    }

    /// Forgets the decisions of these transactions.
    pub fn forget(&mut self, transactions: &[TransactionId]) {
        for txn in transactions {
            self.0.remove(txn);
        }
    }

    /// The number of decisions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if every participant has every decision.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
