//! What coordinators of a TAPIR database read at this node's replica, without a message.

use super::Desk;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::FIRST_SHARD;
use meridian_systems::tapir::Local;
use meridian_txn::Failure;
use meridian_txn::tapir::{Found, Looked};

impl Local for Desk {
    fn route(&self, _: &Key) -> (ShardId, KeyRange) {
        (FIRST_SHARD, KeyRange::all())
    }

    fn route_below(&self, _: Option<&Key>) -> (ShardId, KeyRange) {
        (FIRST_SHARD, KeyRange::all())
    }

    fn reads_here(&self) -> bool {
        true
    }

    fn settled(&self) -> Option<Timestamp> {
        self.replica().map(|replica| replica.world().closed())
    }

    fn find(
        &self,
        range: &KeyRange,
        (reverse, limit): (bool, usize),
    ) -> Option<Result<Found, Failure>> {
        self.replica()?.world().find(range, reverse, limit)
    }

    fn look(
        &self,
        range: &KeyRange,
        at: Timestamp,
        (reverse, limit): (bool, usize),
    ) -> Option<Result<Looked, Failure>> {
        self.replica()?.world().look(range, at, reverse, limit)
    }
}
