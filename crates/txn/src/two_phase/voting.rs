//! The coordinator group's commits that wait for votes.

use super::{Ballot, Collected, Vote};
use crate::{Conflict, TransactionId};
use meridian_machine::ShardId;
use std::collections::{BTreeMap, BTreeSet};

/// A commit that waits for votes.
#[derive(Debug)]
struct Collecting<P> {
    pending: P,
    missing: BTreeSet<ShardId>,
    votes: Collected,
}

/// The commits that wait for votes. `P` is the request to commit.
#[derive(Debug)]
pub struct Voting<P>(BTreeMap<TransactionId, Collecting<P>>);

/// The state of a commit after a vote was counted.
#[derive(Debug)]
pub enum Counted<P> {
    /// Votes are missing.
    Waits,
    /// Every participant has voted yes.
    Complete(P, Collected),
    /// A participant has voted no: the transaction is aborted. Nothing of it was decided.
    Refused(P, Collected, Conflict),
}

impl<P> Default for Voting<P> {
    fn default() -> Self {
        Voting(BTreeMap::new())
    }
}

impl<P> Voting<P> {
    /// Begins to collect the votes of these participants for a commit.
    pub fn begin(
        &mut self,
        txn: TransactionId,
        pending: P,
        participants: impl IntoIterator<Item = ShardId>,
    ) {
        let missing = participants.into_iter().collect();
        self.0.insert(txn, Collecting { pending, missing, votes: Collected::default() });
    }

    /// Counts a vote; a shard's newest vote replaces its earlier one. A commit that is complete or
    /// refused is removed. `None` if no commit of the transaction waits for votes.
    pub fn count(&mut self, txn: TransactionId, ballot: Ballot) -> Option<Counted<P>> {
        let collecting = self.0.get_mut(&txn)?;
        if let Vote::No { why } = ballot.vote {
            let (pending, votes) = self.end(txn)?;
            return Some(Counted::Refused(pending, votes, why));
        }
        collecting.missing.remove(&ballot.shard);
        collecting.votes.insert(ballot);
        if !collecting.missing.is_empty() {
            return Some(Counted::Waits);
        }
        let (pending, votes) = self.end(txn)?;
        Some(Counted::Complete(pending, votes))
    }

    /// Removes and returns a commit that waits, and the yes votes so far: it is aborted, for good.
    pub fn end(&mut self, txn: TransactionId) -> Option<(P, Collected)> {
        self.0.remove(&txn).map(|Collecting { pending, votes, .. }| (pending, votes))
    }

    /// Removes and returns all commits that wait, because leadership is lost.
    pub fn end_all(&mut self) -> impl Iterator<Item = (TransactionId, P, Collected)> + use<P> {
        let all = std::mem::take(self).0.into_iter();
        all.map(|(txn, Collecting { pending, votes, .. })| (txn, pending, votes))
    }

    /// True if a commit of the transaction waits for votes.
    pub fn contains(&self, txn: TransactionId) -> bool {
        self.0.contains_key(&txn)
    }

    /// True if a commit of the transaction waits for votes and has that of a shard.
    pub fn has_vote_of(&self, txn: TransactionId, shard: ShardId) -> bool {
        self.0.get(&txn).is_some_and(|collecting| collecting.votes.has(shard))
    }

    /// The request of a commit that waits.
    pub fn get(&self, txn: TransactionId) -> Option<&P> {
        self.0.get(&txn).map(|collecting| &collecting.pending)
    }

    /// The request of a commit that waits.
    pub fn get_mut(&mut self, txn: TransactionId) -> Option<&mut P> {
        self.0.get_mut(&txn).map(|collecting| &mut collecting.pending)
    }

    /// True if no commit waits for votes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
