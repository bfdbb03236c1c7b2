//! Reads of coordinators of a TAPIR database at this node's replica, without a message.

use super::RequestRouter;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::FIRST_SHARD;
use meridian_systems::tapir::Local;
use meridian_txn::tapir::{ReadResult, SnapshotRead};
use meridian_txn::{Failure, TxnCounters};

impl Local for RequestRouter {
    fn route(&self, _: &Key) -> (ShardId, KeyRange) {
        (FIRST_SHARD, KeyRange::all())
    }

    fn route_below(&self, _: Option<&Key>) -> (ShardId, KeyRange) {
        (FIRST_SHARD, KeyRange::all())
    }

    fn reads_here(&self) -> bool {
        true
    }

    fn counters(&self) -> Option<&TxnCounters> {
        Some(RequestRouter::counters(self))
    }

    fn settled(&self) -> Option<Timestamp> {
        self.replica().map(|replica| replica.runtime().closed())
    }

    fn find(
        &self,
        range: &KeyRange,
        (reverse, limit): (bool, usize),
    ) -> Option<Result<ReadResult, Failure>> {
        self.replica()?.runtime().find(range, reverse, limit)
    }

    fn look(
        &self,
        range: &KeyRange,
        at: Timestamp,
        (reverse, limit): (bool, usize),
    ) -> Option<Result<SnapshotRead, Failure>> {
        self.replica()?.runtime().look(range, at, reverse, limit)
    }
}
