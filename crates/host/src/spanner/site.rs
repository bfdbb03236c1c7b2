//! The interface of coordinators to their node: the database's replicas and its request router.

use super::member::MemberShard;
use super::sessions::Sessions;
use crate::plumbing::CHUNK_BYTES;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange, StoreError, Version};
use meridian_txn::Age;
use meridian_txn::locking::{self, Heard, Readable, Request, Seat, Site, Spent, TransactionId};
use std::sync::Arc;

/// Commits wait while unsettled versions take more bytes than this.
const RECENT_BYTES: usize = 256 << 20;

/// A Spanner database, for transactions of this node.
pub type Gateway = locking::Gateway<Local>;

/// This node's side of the coordinators' interface.
pub struct Local(Arc<Sessions>);

impl Local {
    /// Returns the interface for one database.
    pub fn new(sessions: Arc<Sessions>) -> Self {
        Local(sessions)
    }

    /// Reads at this node's replica of a shard. Fails with `Elsewhere` if there is none, or if it
    /// lacks entries from before it joined.
    fn look<T>(
        &self,
        shard: ShardId,
        look: impl FnOnce(&MemberShard) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let look =
            |member: &MemberShard| (!member.world().space().is_behind()).then(|| look(member));
        self.0.with_member(shard, look).flatten().unwrap_or(Err(StoreError::Elsewhere))
    }
}

impl Site for Local {
    fn now(&self) -> Reading {
        self.0.plumbing().clock.now()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        self.0.here()
    }

    fn new_number(&self) -> u64 {
        self.0.number()
    }

    fn describe(&self, shard: ShardId) -> String {
        format!("the group of database {}'s shard {}", self.0.database().0, shard.0)
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn is_full(&self) -> bool {
        self.0.plumbing().journal.is_full()
    }

    fn is_crowded(&self) -> bool {
        let bytes = |shard| {
            self.0.with_member(shard, |member| member.world().space().recent_bytes()).unwrap_or(0)
        };
        match self.0.has_one_shard() {
            true => bytes(ShardId(0)) > RECENT_BYTES,
            false => {
                self.0.routes().shards().map(|(_, shard)| bytes(shard)).sum::<usize>()
                    > RECENT_BYTES
            }
        }
    }

    fn has_one_shard(&self) -> bool {
        self.0.has_one_shard()
    }

    fn route(&self, key: &Key) -> (ShardId, KeyRange) {
        self.0.route(key)
    }

    fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange) {
        self.0.route_below(end)
    }

    fn learn_route(&self, key: &Key, from: Key, shard: ShardId) {
        self.0.learn_route(key, from, shard);
    }

    fn committed(&self, spent: &Spent) {
        self.0.plumbing().commit_wait.count(spent.commit_wait_ns);
    }

    fn reads_alone(&self, shard: ShardId) {
        self.0.with_member(shard, |member| member.world().reads_alone());
    }

    fn readable(&self, shard: ShardId) -> Readable {
        let look =
            |member: &MemberShard| member.world().slot().load_unless_busy(|| member.is_idle());
        self.0.with_member(shard, look).unwrap_or_default()
    }

    fn closed(&self) -> Timestamp {
        if self.0.has_one_shard() {
            return self.readable(ShardId(0)).closed;
        }
        let closed = |(_, shard): (&Key, ShardId)| self.readable(shard).closed;
        self.0.routes().shards().map(closed).min().unwrap_or_default()
    }

    fn get(
        &self,
        shard: ShardId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        let look = |member: &MemberShard| {
            let home = member.world();
            home.space().get(key, at).inspect_err(|error| home.heed(error))
        };
        self.look(shard, look)
    }

    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError> {
        let look = |member: &MemberShard| {
            let home = member.world();
            let found = home.space().scan(range, at, reverse, limit_rows, CHUNK_BYTES);
            found.inspect_err(|error| home.heed(error))
        };
        self.look(shard, look)
    }

    fn leader(&self, shard: ShardId) -> NodeId {
        self.0.leader(shard)
    }

    fn heard_of_leader(&self, asked: Seat, leader: Option<NodeId>) {
        let next =
            || self.0.node_after(asked.node).filter(|_| self.0.leader(asked.shard) == asked.node);
        if let Some(leader) = leader.or_else(next) {
            self.0.ask_next(asked.shard, leader);
        }
    }

    fn leadership(&self, seat: Seat) -> Option<u64> {
        self.0.leadership(seat)
    }

    fn heard_of_leadership(&self, seat: Seat, term: u64) {
        self.0.heard_of_leadership(seat, term);
    }

    fn doubts_leadership(&self, seat: Seat, term: u64) {
        self.0.doubts_leadership(seat, term);
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.0.reaches(node)
    }

    fn ask(
        &self,
        seat: Seat,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<Heard>> + Send {
        self.0.ask(seat, request, until)
    }

    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send {
        self.0.pause(until)
    }

    fn tell(&self, seat: Seat, request: Request) {
        self.0.tell(seat, request);
    }

    fn holds(&self, seat: Seat, transaction: TransactionId, age: Age) {
        self.0.holds(seat, transaction, age);
    }

    fn holds_no_more(&self, transaction: TransactionId) {
        self.0.holds_no_more(transaction);
    }
}
