//! The shards of a TAPIR database, as coordinators reach them over any wire.

use super::{Message, client};
use crate::Wire;
use meridian_clock::Timestamp;
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::FIRST_SHARD;
use meridian_txn::tapir::{self, Common, ConsensusOp, End, ReadResult, SnapshotRead, Turn};
use meridian_txn::{Failure, Node, TxnCounters};
use std::sync::Arc;

/// The time between two rounds over all replicas of a read that none answers, in nanoseconds.
const PAUSE_NS: u64 = 10_000_000;

/// The knowledge and the reads of coordinators on their own node, without a message.
pub trait Local {
    /// The shard of a key, and the shard's keys.
    fn route(&self, key: &Key) -> (ShardId, KeyRange);
    /// The shard of the last key below `end`, or of the last of all keys, and the shard's keys.
    fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange);
    /// True if the node's replica is read without a message: then a replica that is not ready is
    /// passed over.
    fn reads_here(&self) -> bool {
        false
    }
    /// The timestamp at or below which every transaction has ended, as the node's replicas know.
    fn settled(&self) -> Option<Timestamp> {
        None
    }
    /// The counters of the node's transactions, if it has any.
    fn counters(&self) -> Option<&TxnCounters> {
        None
    }
    /// Reads a range at the node's replica now; `None` if it is not ready.
    fn find(&self, _range: &KeyRange, _how: (bool, usize)) -> Option<Result<ReadResult, Failure>> {
        None
    }
    /// Reads a range at a settled timestamp; `None` if the node's replica cannot say.
    fn look(
        &self,
        _range: &KeyRange,
        _at: Timestamp,
        _how: (bool, usize),
    ) -> Option<Result<SnapshotRead, Failure>> {
        None
    }
}

/// The shards of a database, over a wire.
pub struct Shards<W>(pub Arc<W>);

impl<W: Wire<Message = Message> + Local> tapir::Shards for Shards<W> {
    type Node = W::Node;

    fn node(&self) -> &W::Node {
        self.0.node()
    }

    fn route(&self, key: &Key) -> (ShardId, KeyRange) {
        self.0.route(key)
    }

    fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        self.0.route_below(end)
    }

    fn settled(&self) -> Option<Timestamp> {
        self.0.settled()
    }

    fn counters(&self) -> Option<&TxnCounters> {
        self.0.counters()
    }

    fn round_trip_ns(&self) -> u64 {
        self.0.round_trip_ns(FIRST_SHARD) // All shards of a database have the same replicas.
    }

    async fn read(
        &self,
        shard: ShardId,
        range: &KeyRange,
        how: (bool, usize),
        fresh: bool,
        until: u64,
    ) -> Option<Result<ReadResult, Failure>> {
        let (wire, node, mut repetition) = (&*self.0, self.0.node(), 0);
        while !node.is_closed() && node.boot_ns() < until {
            for replica in wire.nearest(shard, fresh) {
                if replica == node.here().0 && wire.reads_here() {
                    // Also of a fresh read: what may be behind is better than nothing.
                    match wire.find(range, how) {
                        Some(found) => return Some(found),
                        None => continue,
                    }
                }
                let times_out_at =
                    until.min(node.boot_ns() + wire.timeout_ns(&[replica], repetition));
                let found = client::read(wire, (shard, replica), range, how, times_out_at).await;
                if let Some(found) = found {
                    return Some(Ok(found));
                }
                sometimes!("the nearest replica does not answer");
            }
            repetition += 1;
            node.sleep_until(until.min(node.boot_ns() + PAUSE_NS)).await;
        }
        None
    }

    async fn look(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        how: (bool, usize),
        until: u64,
    ) -> Option<Result<SnapshotRead, Failure>> {
        match self.0.look(range, at, how) {
            None | Some(Err(Failure::BelowHorizon { .. })) => {} // Other replicas may have more.
            here => return here,
        }
        client::look(&*self.0, shard, range, at, how, until).await
    }

    async fn ask(&self, shard: ShardId, question: ConsensusOp, until: u64) -> Option<Common> {
        client::invoke(&*self.0, shard, &question, until).await
    }

    fn send(&self, shard: ShardId, end: End) {
        client::send_end(&*self.0, shard, &end);
    }

    async fn take_turn(
        &self,
        key: (ShardId, Key),
        ranges: Vec<KeyRange>,
        holds_ns: u64,
        until: u64,
    ) -> Option<Turn> {
        client::take_turn(&*self.0, key, ranges, holds_ns, until).await
    }

    fn keep_turn(&self, turn: &Turn, holds_ns: u64) {
        client::keep_turn(&*self.0, turn, holds_ns);
    }

    fn leave(&self, turn: &Turn) {
        client::leave(&*self.0, turn);
    }
}
