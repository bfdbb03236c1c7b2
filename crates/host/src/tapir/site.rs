//! The interface of TAPIR's coordinators to their node.

use super::Desk;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange};
use meridian_placement::FIRST_SHARD;
use meridian_systems::{Wire, tapir};
use meridian_txn::Failure;
use meridian_txn::tapir::{Common, End, Found, Looked, Question, Site, Turn};

/// Pause of a read when no replica has responded.
const PAUSE_NS: u64 = 10_000_000;

impl Site for Desk {
    fn now(&self) -> Reading {
        self.plumbing().clock.now()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        Wire::here(self)
    }

    fn new_number(&self) -> u64 {
        Wire::new_number(self)
    }

    fn draw(&self) -> f64 {
        Desk::draw(self)
    }

    fn round_trip_ns(&self) -> u64 {
        Desk::round_trip_ns(self)
    }

    fn is_closed(&self) -> bool {
        Wire::is_closed(self)
    }

    fn is_full(&self) -> bool {
        self.plumbing().journal.is_full()
    }

    fn route(&self, _: &Key) -> (ShardId, KeyRange) {
        (FIRST_SHARD, KeyRange::all())
    }

    fn route_below(&self, _: Option<&Key>) -> (ShardId, KeyRange) {
        (FIRST_SHARD, KeyRange::all())
    }

    fn settled(&self) -> Option<Timestamp> {
        self.replica().map(|replica| replica.world().closed())
    }

    async fn read(
        &self,
        shard: ShardId,
        range: &KeyRange,
        (reverse, limit): (bool, usize),
        fresh: bool,
        until: u64,
    ) -> Option<Result<Found, Failure>> {
        let mut repetition = 0;
        while !Wire::is_closed(self) && self.boot_ns() < until {
            for node in self.nearest(fresh) {
                if node == Wire::here(self).0 {
                    // Also for a fresh read: this replica may be behind, but no other one has
                    // responded.
                    if let Some(found) = self
                        .replica()
                        .and_then(|replica| replica.world().find(range, reverse, limit))
                    {
                        return Some(found);
                    }
                    continue;
                }
                let try_ends =
                    until.min(self.boot_ns() + Wire::patience_ns(self, &[node], repetition));
                if let Some(found) =
                    tapir::read(self, (shard, node), range, (reverse, limit), try_ends).await
                {
                    return Some(Ok(found));
                }
            }
            repetition += 1;
            Wire::pause(self, until.min(self.boot_ns() + PAUSE_NS)).await;
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
    ) -> Option<Result<Looked, Failure>> {
        let (reverse, limit) = how;
        // This replica has every version of a snapshot at or below its settled timestamp.
        match self.replica().and_then(|replica| replica.world().look(range, at, reverse, limit)) {
            None | Some(Err(Failure::BelowHorizon { .. })) => {} // Other replicas may keep more.
            here => return here,
        }
        tapir::look(self, shard, range, at, how, until).await
    }

    async fn ask(&self, shard: ShardId, question: Question, until: u64) -> Option<Common> {
        tapir::invoke(self, shard, &question, until).await
    }

    fn tell(&self, shard: ShardId, end: End) {
        tapir::tell(self, shard, &end);
    }

    async fn take_turn(&self, key: (ShardId, Key), holds_ns: u64, until: u64) -> Option<Turn> {
        tapir::take_turn(self, key, holds_ns, until).await
    }

    fn keep_turn(&self, turn: &Turn, holds_ns: u64) {
        tapir::keep_turn(self, turn, holds_ns);
    }

    fn leave(&self, turn: &Turn) {
        tapir::leave(self, turn);
    }

    async fn pause(&self, until: u64) {
        Wire::pause(self, until).await;
    }
}
