//! Votes of a transaction's participants.

use super::Vote;
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use std::collections::BTreeMap;

/// How far a prepare timestamp, or what was read, may be ahead of the coordinator's clock, in
/// nanoseconds. Farther ahead, one of the clocks is wrong.
const FAR_NS: u64 = 1_000_000_000;

/// A shard's vote, the node that led the shard, and its term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ballot {
    /// The shard.
    pub shard: ShardId,
    /// The node that led it.
    pub node: NodeId,
    /// The term of that leader.
    pub term: u64,
    /// The vote.
    pub vote: Vote,
}

/// Votes that arrived before the commit that is to collect them, in the order of their arrival; of
/// each shard the newest.
#[derive(Clone, Debug, Default)]
pub struct EarlyVotes(Vec<Ballot>);

impl EarlyVotes {
    /// Keeps a vote in place of the shard's earlier one. True if there was an earlier one.
    pub fn keep(&mut self, ballot: Ballot) -> bool {
        let before = self.0.len();
        self.0.retain(|known| known.shard != ballot.shard);
        let again = self.0.len() < before;
        self.0.push(ballot);
        again
    }
}

impl IntoIterator for EarlyVotes {
    type Item = Ballot;
    type IntoIter = std::vec::IntoIter<Ballot>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The yes votes of a transaction's participants; of each shard the newest.
#[derive(Clone, Debug, Default)]
pub struct Collected(BTreeMap<ShardId, Ballot>);

impl Collected {
    /// Counts a yes vote in place of the shard's earlier one.
    pub(super) fn insert(&mut self, ballot: Ballot) {
        self.0.insert(ballot.shard, ballot);
    }

    /// True if a shard has voted.
    pub(super) fn has(&self, shard: ShardId) -> bool {
        self.0.contains_key(&shard)
    }

    /// The votes, in the order of their shards.
    pub fn ballots(&self) -> impl Iterator<Item = &Ballot> {
        self.0.values()
    }

    /// Returns the timestamp that the commit timestamp must be above.
    pub fn above(&self) -> Timestamp {
        let above = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { at, .. } => at,
            Vote::Read { through, .. } => through,
            Vote::No { .. } => Timestamp::ZERO,
        };
        self.ballots().map(above).max().unwrap_or_default()
    }

    /// Returns the timestamp that the commit timestamp must be below.
    pub fn below(&self) -> Timestamp {
        let below = |ballot: &Ballot| match ballot.vote {
            Vote::Prepared { below, .. } | Vote::Read { below, .. } => below,
            Vote::No { .. } => Timestamp::MAX,
        };
        self.ballots().map(below).min().unwrap_or(Timestamp::MAX)
    }

    /// True if some vote is so far ahead that a clock must be wrong: ahead of the latest time that
    /// it can be, and of `ahead_ns`, until which the commit waits anyway. The commit would wait for
    /// that vote, and so would every later one.
    pub fn is_far(&self, latest_ns: u64, ahead_ns: u64) -> bool {
        self.above().nanos > latest_ns.max(ahead_ns) + FAR_NS
    }

    /// Returns the shards that have prepared, and the terms in which they voted.
    pub fn prepared(&self) -> (Vec<ShardId>, Vec<u64>) {
        let prepared = self.ballots().filter(|ballot| matches!(ballot.vote, Vote::Prepared { .. }));
        prepared.map(|ballot| (ballot.shard, ballot.term)).unzip()
    }
}
