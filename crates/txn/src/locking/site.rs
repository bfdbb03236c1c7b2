//! The interface of a coordinator to the node that it runs on.

use super::{Footing, Reply, Request, Seat, Spent, TransactionId};
use crate::{Age, Conflict};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Health, Incarnation, NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange, StoreError, Version};
use std::collections::BTreeMap;
use std::future::Future;

/// The read lease of a shard at this node: a reader may read at `through` without asking the
/// leader, and must check afterwards that `now.latest < until`. If the database has several shards,
/// that is the present only if the member is `quiet` and takes no step meanwhile that is not
/// visible yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Everything at or below is visible, and nothing more will appear there.
    pub through: Timestamp,
    /// The end of the lease, nanoseconds since the epoch; 0 if this member does not lead, or if
    /// readers must ask it for another reason.
    pub until: u64,
    /// True if this member leads and serves.
    pub leads: bool,
    /// True if no commit is under way: within this shard, `through` is as good as the present.
    pub quiet: bool,
    /// The closed timestamp: at or below it everything is installed here and was visible at a
    /// leader. A snapshot there is right for ever, whichever member leads.
    pub closed: Timestamp,
}

impl Readable {
    /// True if the lease holds, by a reading that was sampled after the slot was loaded.
    pub fn holds(&self, now: Reading) -> bool {
        now.health == Health::Good && now.interval.latest < self.until
    }
}

/// The result of a request that a coordinator sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The node has the request and will answer: the coordinator retries.
    Waits,
    /// The leader's response.
    Reply(Reply),
    /// Not a response: in another shard an older transaction requests a lock of this one.
    Wounded(Conflict),
    /// The leader is on this node: the coordinator reads at this timestamp, and uses the result
    /// only if `now.latest` is below the deadline afterwards.
    Read {
        /// The attempt's lock epoch.
        footing: Footing,
        /// The timestamp to read at.
        at: Timestamp,
        /// The end of the lease.
        deadline: Option<u64>,
    },
}

/// The time that a leader's term is not used for one-shot commits after a request that named it was
/// refused, in nanoseconds.
pub const DOUBTED_FOR_NS: u64 = 10_000_000_000;

/// The newest known leader and term of each shard.
#[derive(Debug, Default)]
pub struct Leaderships(BTreeMap<ShardId, Leadership>);

#[derive(Debug)]
struct Leadership {
    node: NodeId,
    term: u64,
    /// The term is not named before this, by the boot clock.
    doubted_until: u64,
}

impl Leaderships {
    /// Records that a replica leads in this term.
    pub fn learn(&mut self, seat: Seat, term: u64) {
        let known = self.0.get(&seat.shard);
        if known.is_none_or(|known| known.term < term) {
            self.0.insert(seat.shard, Leadership { node: seat.node, term, doubted_until: 0 });
        }
    }

    /// Stops naming this term until `until_ns`, because a request that named it was refused. A
    /// newer term is named at once.
    pub fn doubt(&mut self, seat: Seat, term: u64, until_ns: u64) {
        if let Some(known) = self.0.get_mut(&seat.shard).filter(|known| known.term == term) {
            known.doubted_until = until_ns;
        }
    }

    /// Returns the term in which a replica leads, if that is the newest known term and not in
    /// doubt.
    pub fn of(&self, seat: Seat, now_ns: u64) -> Option<u64> {
        let known = self
            .0
            .get(&seat.shard)
            .filter(|known| known.node == seat.node && known.doubted_until <= now_ns);
        known.map(|known| known.term)
    }
}

/// The node that a coordinator runs on.
pub trait Site: Send + Sync + 'static {
    /// Returns the present time.
    fn now(&self) -> Reading;
    /// Returns the node and its incarnation.
    fn here(&self) -> (NodeId, Incarnation);
    /// Returns a number for a new attempt.
    fn new_number(&self) -> u64;
    /// Returns the name of a shard's group, for messages.
    fn describe(&self, shard: ShardId) -> String;
    /// True if the node is shutting down: no request is answered any more.
    fn is_closed(&self) -> bool;
    /// True if the disk is full: nothing is written any more.
    fn is_full(&self) -> bool;
    /// True if too many versions are in memory: commits wait.
    fn is_crowded(&self) -> bool;

    /// True if the database has one shard, as far as is known here. A node with that shard's leader
    /// knows at once.
    fn has_one_shard(&self) -> bool;
    /// Returns the shard that has a key, and its range, as far as is known here.
    fn route(&self, key: &Key) -> (ShardId, KeyRange);
    /// Returns the shard that has the last key below `end`, or the last shard; and its range.
    fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange);
    /// Records the response to a request for `key`: from the key `from` on, `shard` has the keys,
    /// or knows which shard has them.
    fn learn_route(&self, key: &Key, from: Key, shard: ShardId);

    /// Records that a transaction reads a shard here without asking its leader.
    fn reads_alone(&self, shard: ShardId);
    /// Returns the read lease of a shard; an empty one if the shard has no member here.
    fn readable(&self, shard: ShardId) -> Readable;
    /// Returns the timestamp at or below which every shard can be read here, whichever members
    /// lead.
    fn closed(&self) -> Timestamp;
    /// Returns the newest version of a key at or below a timestamp, as far as this node knows.
    fn get(&self, shard: ShardId, key: &[u8], at: Timestamp)
    -> Result<Option<Version>, StoreError>;
    /// Returns a chunk of a range as of a timestamp, as far as this node knows.
    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError>;

    /// Returns the node to ask first: the shard's leader, as far as is known.
    fn leader(&self, shard: ShardId) -> NodeId;
    /// Records a response that names the leader. If it names none, the next node is tried, unless a
    /// leader other than the asked replica is known already.
    fn heard_of_leader(&self, asked: Seat, leader: Option<NodeId>);
    /// Returns the term in which a replica leads, as far as is known.
    fn leadership(&self, seat: Seat) -> Option<u64>;
    /// Records that a replica leads in this term.
    fn heard_of_leadership(&self, seat: Seat, term: u64);
    /// Records that a request that named this term was refused: it is not named for a while.
    fn doubts_leadership(&self, seat: Seat, term: u64);
    /// True if a node can be reached and can answer.
    fn reaches(&self, node: NodeId) -> bool;
    /// Sends a request to a replica and waits for the response until the boot clock reaches
    /// `until`; `None` if none came.
    fn ask(
        &self,
        seat: Seat,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<Heard>> + Send;
    /// Waits until the boot clock reaches `until`.
    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send;
    /// Sends a request to a replica without waiting for a response.
    fn tell(&self, seat: Seat, request: Request);

    /// Records a commit of this node and the time that it took.
    fn committed(&self, spent: &Spent) {
        let _ = spent;
    }

    /// Records that an attempt holds locks at a replica: it is kept alive while its session is
    /// idle.
    fn holds(&self, seat: Seat, transaction: TransactionId, age: Age);
    /// Records that an attempt holds no locks any more, or that leaders end it. Its coordinator
    /// does not receive [`Heard::Wounded`] any more.
    fn holds_no_more(&self, transaction: TransactionId);
}
