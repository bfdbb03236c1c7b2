//! The shards of a database, as the coordinators of one node reach them.

use super::{Answer, End, Question};
use crate::{Failure, Node};
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange};

/// What one replica has of a range: the newest of each key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// It.
    pub chunk: Chunk,
    /// Everything at or below was settled there, before it was looked at.
    pub through: Timestamp,
}

/// What enough replicas have of a range at a timestamp, newest versions: no other will ever stand
/// there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// It.
    pub chunk: Chunk,
    /// The newest of what was found, tombstones, too.
    pub newest: Timestamp,
}

/// What the replicas of a shard answer together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common {
    /// It.
    pub answer: Answer,
    /// Each of them has said so, and has the question.
    pub by_all: bool,
}

/// A turn that a replica has given to a transaction of this node: others that ask for the same key
/// there wait for its end, or until its bound has passed. It keeps no transaction from committing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The key after which the queue is named, and its shard.
    pub key: (ShardId, Key),
    /// The replica that keeps the queue.
    pub at: NodeId,
    /// The request's number.
    pub number: u64,
    /// Whether other transactions came first.
    pub waited: bool,
}

/// So many keys of a shard are asked for at once.
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
    /// The shard that has the last key below one, or the last of all; and its keys.
    fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange);

    /// Everything at or below has ended in all shards, as this node's replicas know: of a snapshot
    /// there they have everything.
    fn settled(&self) -> Option<Timestamp> {
        None
    }
    /// How long replicas take to answer, in nanoseconds: the longest round trip that was measured;
    /// zero, where none was. Transactions that have met come again as far apart.
    fn round_trip_ns(&self) -> u64 {
        0
    }
    /// What the nearest replica that answers has of a range now, which may be less than others
    /// have. `fresh` asks another one first than was asked before: a transaction that failed may
    /// have read what was behind. `None` if nobody has answered when the boot clock reaches
    /// `until`.
    fn read(
        &self,
        shard: ShardId,
        range: &KeyRange,
        how: (bool, usize),
        fresh: bool,
        until: u64,
    ) -> impl Future<Output = Option<Result<Found, Failure>>> + Send;
    /// What stands in a range at a timestamp, from so many replicas that nothing else comes to
    /// stand there. `None` if it cannot be known when the boot clock reaches `until`.
    fn look(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        how: (bool, usize),
        until: u64,
    ) -> impl Future<Output = Option<Result<Looked, Failure>>> + Send;
    /// Asks a shard's replicas, and waits for their common answer until the boot clock reaches
    /// `until`. `None`, if there is none by then: it may come to be any. Where the answer is that
    /// something is [open](super::Standing::Open) in their view, they are asked to begin another.
    fn ask(
        &self,
        shard: ShardId,
        question: Question,
        until: u64,
    ) -> impl Future<Output = Option<Common>> + Send;
    /// Tells all of them how a transaction ended; a commit by its [name](super::Proposal::name), if
    /// each of them has said yes to it. Whoever does not hear it finds out.
    fn tell(&self, shard: ShardId, end: End);
    /// Waits for the turn of a contested key, to be held for up to `holds_ns` nanoseconds. `None`,
    /// if no replica gives it before the boot clock reaches `until`: the transaction goes on
    /// without.
    fn take_turn(
        &self,
        key: (ShardId, Key),
        holds_ns: u64,
        until: u64,
    ) -> impl Future<Output = Option<Turn>> + Send {
        let _ = (key, holds_ns, until);
        std::future::ready(None)
    }
    /// Another transaction of this node goes on with a turn, and holds it for up to `holds_ns`
    /// nanoseconds from now on.
    fn keep_turn(&self, turn: &Turn, holds_ns: u64) {
        let _ = (turn, holds_ns);
    }
    /// Ends a turn, so that the next transaction has it.
    fn leave(&self, turn: &Turn) {
        let _ = turn;
    }
}

/// Keys in parts that are asked for at once: each of one shard, and not too large.
pub(super) fn by_shard<'a, S: Shards>(
    shards: &S,
    keys: &'a [Key],
) -> impl Iterator<Item = (ShardId, &'a [Key])> {
    let parts = keys.chunk_by(|one, other| shards.route(one).0 == shards.route(other).0);
    parts.flat_map(|part| part.chunks(ASKED_TOGETHER)).map(|part| (shards.route(&part[0]).0, part))
}
