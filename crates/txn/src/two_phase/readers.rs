//! Attempts that have only read at a participant: it logs nothing, and votes with a bound that
//! passes (Trap A.5-8).

use super::Decider;
use crate::TransactionId;
use meridian_clock::Timestamp;
use meridian_machine::Interval;
use std::collections::{BTreeMap, BTreeSet};

/// An attempt that has only read here, and for which this shard has voted.
#[derive(Debug)]
struct Reader {
    decider: Decider,
    /// Its commit timestamp is below this.
    below: Timestamp,
    /// Renewals of the promise never go beyond this: a schema may change from there on.
    limit: Timestamp,
    /// When the coordinator is to be asked whether the promise is needed for longer, in nanoseconds
    /// since the epoch. It is asked once for each promise.
    ask_at: u64,
    asked: bool,
}

/// A vote of a shard that was only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadVote {
    /// The attempt.
    pub transaction: TransactionId,
    /// The leader that decides.
    pub decider: Decider,
    /// The commit timestamp must be below this.
    pub below: Timestamp,
}

/// The votes of this shard for attempts that have only read here. `P` is the request to prepare.
#[derive(Debug)]
pub struct ReadVotes<P> {
    /// The requests for which this shard is about to vote.
    pub waiting: Vec<P>,
    promised: BTreeMap<TransactionId, Reader>,
    /// The transactions for which the promise is to be renewed.
    renewing: BTreeSet<TransactionId>,
}

impl<P> Default for ReadVotes<P> {
    fn default() -> Self {
        ReadVotes { waiting: Vec::new(), promised: BTreeMap::new(), renewing: BTreeSet::new() }
    }
}

impl<P> ReadVotes<P> {
    /// True if votes are to be given or renewed.
    pub fn are_due(&self) -> bool {
        !self.waiting.is_empty() || self.is_renewing()
    }

    /// True if promises are to be renewed.
    pub fn is_renewing(&self) -> bool {
        !self.renewing.is_empty()
    }

    /// Promises that the shard stays as it was read until the ceiling, but at most until `limit`.
    /// From `ask_at` on it asks whether the promise is needed for longer. Returns the vote.
    pub fn promise(
        &mut self,
        transaction: TransactionId,
        decider: Decider,
        (ceiling, limit): (Timestamp, Timestamp),
        ask_at: u64,
    ) -> ReadVote {
        let below = ceiling.min(limit);
        let reader = Reader { decider, below, limit, ask_at, asked: false };
        self.promised.insert(transaction, reader);
        ReadVote { transaction, decider, below }
    }

    /// Notes that the coordinator group still waits for other votes: the promise is to be renewed.
    pub fn on_undecided(&mut self, txn: TransactionId) {
        if self.promised.contains_key(&txn) {
            self.renewing.insert(txn);
        }
    }

    /// Extends the promises that are to be renewed, up to the ceiling, and returns the votes. Those
    /// that reach the ceiling already wait for a higher one.
    pub fn renew(&mut self, ceiling: Timestamp, ask_at: u64) -> Vec<ReadVote> {
        let mut votes = Vec::new();
        self.renewing.retain(|txn| {
            let extensible = |reader: &&mut Reader| reader.below < reader.limit;
            let Some(reader) = self.promised.get_mut(txn).filter(extensible) else { return false };
            if ceiling <= reader.below {
                return true;
            }
            (reader.below, reader.ask_at) = (ceiling.min(reader.limit), ask_at);
            reader.asked = false;
            let Reader { decider, below, .. } = *reader;
            votes.push(ReadVote { transaction: *txn, decider, below });
            false
        });
        votes
    }

    /// The transactions whose bounds have surely passed, and the bounds.
    pub fn passed(&self, now: Interval) -> Vec<(TransactionId, Timestamp)> {
        let passed = self.promised.iter().filter(|(_, reader)| now.after(reader.below.nanos));
        passed.map(|(txn, reader)| (*txn, reader.below)).collect()
    }

    /// Returns the votes to repeat, to ask whether a promise is needed for longer: once for each
    /// promise.
    pub fn ask(&mut self, now: Interval) -> Vec<ReadVote> {
        let due = |reader: &Reader| now.latest >= reader.ask_at && !reader.asked;
        let asks = self.promised.iter_mut().filter(|(_, reader)| due(reader));
        let asks = asks.map(|(txn, reader)| {
            reader.asked = true;
            ReadVote { transaction: *txn, decider: reader.decider, below: reader.below }
        });
        asks.collect()
    }

    /// Returns how long it takes, in nanoseconds, until a bound passes or a question is due.
    pub fn next_ns(&self, now: Interval) -> Option<u64> {
        let left = |reader: &Reader| match reader.asked {
            true => reader.below.nanos.saturating_sub(now.earliest),
            false => reader.ask_at.saturating_sub(now.latest),
        };
        self.promised.values().map(left).min()
    }

    /// Forgets a transaction that has voted: its locks are released.
    pub fn release(&mut self, txn: TransactionId) {
        self.promised.remove(&txn);
        self.renewing.remove(&txn);
    }

    /// Forgets all transactions that have voted, because leadership is lost. Returns the requests
    /// for which this shard has not voted.
    pub fn end_all(&mut self) -> Vec<P> {
        std::mem::take(self).waiting
    }

    /// The decider of a transaction that has voted.
    pub fn decider(&self, txn: TransactionId) -> Option<Decider> {
        self.promised.get(&txn).map(|reader| reader.decider)
    }

    /// The bound of a transaction that has voted.
    pub fn below(&self, txn: TransactionId) -> Option<Timestamp> {
        self.promised.get(&txn).map(|reader| reader.below)
    }

    /// True if a transaction has voted.
    pub fn contains(&self, txn: TransactionId) -> bool {
        self.promised.contains_key(&txn)
    }

    /// The transactions that have voted.
    pub fn transactions(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.promised.keys().copied()
    }

    /// True if no transaction has voted.
    pub fn is_empty(&self) -> bool {
        self.promised.is_empty()
    }
}
