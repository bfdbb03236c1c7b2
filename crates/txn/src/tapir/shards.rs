//! The shards of a database, as the coordinators of one node reach them.

use super::{ConsensusOp, ConsensusResult, End};
use crate::{Failure, Node, TxnCounters};
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange};

/// One replica's result of a read of a range: the newest version of each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadResult {
    /// The rows.
    pub chunk: Chunk,
    /// The replica's settled timestamp before the read.
    pub through: Timestamp,
}

/// A quorum's result of a snapshot read: the newest versions at a timestamp, below which no other
/// can appear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRead {
    /// The rows.
    pub chunk: Chunk,
    /// The timestamp of the newest version found, tombstones included.
    pub newest: Timestamp,
}

/// The decided result of an operation at a shard's replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// The result.
    pub answer: ConsensusResult,
    /// True if every replica has given this result itself, and so has the operation.
    pub by_all: bool,
}

/// A turn that a replica has granted to a transaction of this node. Other transactions that request
/// ranges which overlap wait there for its end, or until its bound has passed. It keeps no
/// transaction from committing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The key that names the turn at this node, and its shard.
    pub key: (ShardId, Key),
    /// The contested ranges for which it was requested.
    pub ranges: Vec<KeyRange>,
    /// The replica that has granted it.
    pub at: NodeId,
    /// The request's number.
    pub number: u64,
    /// True if other transactions came first.
    pub waited: bool,
}

/// The number of keys of a shard that are requested in parallel.
const ASKED_TOGETHER: usize = 64;

/// The shards of a database, as the coordinators of one node reach them: by questions to replicas
/// of which none leads.
pub trait Shards: Send + Sync + 'static {
    /// The node.
    type Node: Node;
    /// The node on which the coordinators run.
    fn node(&self) -> &Self::Node;
    /// The shard that has a key, and its keys.
    fn route(&self, key: &Key) -> (ShardId, KeyRange);
    /// Returns the shard that has the last key below `end`, or the last shard; and its range.
    fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange);

    /// The counters of the node's transactions, if it has any.
    fn counters(&self) -> Option<&TxnCounters> {
        None
    }
    /// Returns the timestamp at or below which every transaction has ended in all shards, as this
    /// node's replicas know: they have complete snapshots there.
    fn settled(&self) -> Option<Timestamp> {
        None
    }
    /// Returns the longest measured round trip to a replica, in nanoseconds; zero if none was
    /// measured. It spaces the retries of conflicting transactions.
    fn round_trip_ns(&self) -> u64 {
        0
    }
    /// Reads a range at the nearest replica that answers, which may lack versions that others have.
    /// `fresh` asks another replica first than before, because a failed transaction may have read
    /// stale versions. `None` if no replica has answered when the boot clock reaches `until`.
    fn read(
        &self,
        shard: ShardId,
        range: &KeyRange,
        how: (bool, usize),
        fresh: bool,
        until: u64,
    ) -> impl Future<Output = Option<Result<ReadResult, Failure>>> + Send;
    /// Reads a range at a timestamp from enough replicas that no other version can appear there.
    /// `None` if that does not succeed before the boot clock reaches `until`.
    fn look(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        how: (bool, usize),
        until: u64,
    ) -> impl Future<Output = Option<Result<SnapshotRead, Failure>>> + Send;
    /// Sends an operation to a shard's replicas, and waits for its decided result until the boot
    /// clock reaches `until`. `None` if there is none by then: any result is still possible. If the
    /// result is that a transaction is [open](super::TxnStatus::Open) in their view, the replicas
    /// are asked to begin another view.
    fn ask(
        &self,
        shard: ShardId,
        question: ConsensusOp,
        until: u64,
    ) -> impl Future<Output = Option<Common>> + Send;
    /// Sends a transaction's outcome to all replicas of a shard; a commit by its
    /// [name](super::Proposal::name), if each of them has prepared it. A replica that does not
    /// receive it recovers the outcome.
    fn send(&self, shard: ShardId, end: End);
    /// Waits for the turn of contested ranges, to be held for up to `holds_ns` nanoseconds. `None`
    /// if no replica grants it before the boot clock reaches `until`: the transaction proceeds
    /// without it.
    fn take_turn(
        &self,
        key: (ShardId, Key),
        ranges: Vec<KeyRange>,
        holds_ns: u64,
        until: u64,
    ) -> impl Future<Output = Option<Turn>> + Send {
        let _ = (key, ranges, holds_ns, until);
        std::future::ready(None)
    }
    /// Records that another transaction of this node holds a turn for up to `holds_ns` nanoseconds
    /// from now on.
    fn keep_turn(&self, turn: &Turn, holds_ns: u64) {
        let _ = (turn, holds_ns);
    }
    /// Ends a turn, so that the next transaction gets it.
    fn leave(&self, turn: &Turn) {
        let _ = turn;
    }
}

/// Splits keys into parts that are requested in parallel: each of one shard, and not too large.
pub(super) fn by_shard<'a, S: Shards>(
    shards: &S,
    keys: &'a [Key],
) -> impl Iterator<Item = (ShardId, &'a [Key])> {
    let parts = keys.chunk_by(|one, other| shards.route(one).0 == shards.route(other).0);
    parts.flat_map(|part| part.chunks(ASKED_TOGETHER)).map(|part| (shards.route(&part[0]).0, part))
}
