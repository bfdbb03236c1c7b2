//! What a coordinator wants of the node that it runs on.

use super::{Footing, Reply, Request, Seat, Spent, TransactionId};
use crate::{Age, Conflict};
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Health, Incarnation, NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange, StoreError, Version};
use std::collections::BTreeMap;
use std::future::Future;

/// What readers of a node may do by themselves: read at `through`, and check afterwards that
/// `now.latest < until`. Where the database has several shards that is the present only if the
/// member is `quiet`, and takes no step meanwhile that is not shown yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Everything at or below is visible, and nothing more will appear there.
    pub through: Timestamp,
    /// The end of the lease, nanoseconds since the epoch; 0 when this member does not lead, or has
    /// to be asked for other reasons.
    pub until: u64,
    /// This member leads, and serves.
    pub leads: bool,
    /// No commit is under way: of this shard alone, `through` is as good as the present.
    pub quiet: bool,
    /// Whoever leads: everything at or below is installed here and was shown by a leader, so that a
    /// snapshot of it is right for ever.
    pub closed: Timestamp,
}

impl Readable {
    /// Whether the lease holds, by a reading that was sampled after the slot was loaded.
    pub fn holds(&self, now: Reading) -> bool {
        now.health == Health::Good && now.interval.latest < self.until
    }
}

/// What a session hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The node has the question, and will answer: ask again.
    Waits,
    /// The leader's answer.
    Reply(Reply),
    /// Not an answer: somewhere else an older transaction wants what this one holds.
    Wounded(Conflict),
    /// The leader is here: read at this timestamp, and believe it only if `now.latest` is below the
    /// deadline afterwards.
    Read {
        /// What the attempt's locks stand on.
        footing: Footing,
        /// The snapshot.
        at: Timestamp,
        /// The end of the lease.
        deadline: Option<u64>,
    },
}

/// For so long a leadership is not named in which somebody was refused.
pub const DOUBTED_FOR_NS: u64 = 10_000_000_000;

/// The newest leadership of each shard of which a node has heard.
#[derive(Debug, Default)]
pub struct Leaderships(BTreeMap<ShardId, Leadership>);

#[derive(Debug)]
struct Leadership {
    node: NodeId,
    term: u64,
    /// It is not named before then, by the boot clock.
    doubted_until: u64,
}

impl Leaderships {
    /// A member leads in this term.
    pub fn learn(&mut self, seat: Seat, term: u64) {
        let known = self.0.get(&seat.shard);
        if known.is_none_or(|known| known.term < term) {
            self.0.insert(seat.shard, Leadership { node: seat.node, term, doubted_until: 0 });
        }
    }

    /// Who named this term was refused: it is not named for a while, unless a newer one is learned.
    pub fn doubt(&mut self, seat: Seat, term: u64, until_ns: u64) {
        if let Some(known) = self.0.get_mut(&seat.shard).filter(|known| known.term == term) {
            known.doubted_until = until_ns;
        }
    }

    /// The term in which a member leads, if that is the newest that is known, and not in doubt.
    pub fn of(&self, seat: Seat, now_ns: u64) -> Option<u64> {
        let known = self
            .0
            .get(&seat.shard)
            .filter(|known| known.node == seat.node && known.doubted_until <= now_ns);
        known.map(|known| known.term)
    }
}

/// A node, as the coordinators on it see it.
pub trait Site: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Reading;
    /// The node and its life.
    fn here(&self) -> (NodeId, Incarnation);
    /// A number for a new attempt.
    fn new_number(&self) -> u64;
    /// A shard's group, for messages.
    fn describe(&self, shard: ShardId) -> String;
    /// The node ends: nobody answers any more.
    fn is_closed(&self) -> bool;
    /// The disk is full: nothing is written any more.
    fn is_full(&self) -> bool;
    /// Too many versions are in memory: commits wait.
    fn is_crowded(&self) -> bool;

    /// Whether the database has one shard, as far as is known here. Where that shard is led, it is
    /// known at once.
    fn has_one_shard(&self) -> bool;
    /// The shard that has a key, and its keys, as far as is known here.
    fn route(&self, key: &Key) -> (ShardId, KeyRange);
    /// The shard that has the last key below one, or the last of all; and its keys.
    fn route_below(&self, end: Option<&Key>) -> (ShardId, KeyRange);
    /// Somebody who was asked for a key said from which key on they are whose, or whom to ask next.
    fn learn_route(&self, key: &Key, from: Key, shard: ShardId);

    /// A transaction reads a shard here without asking anybody.
    fn reads_alone(&self, shard: ShardId);
    /// The slot for readers of this node; of a shard that has no member here, an empty one.
    fn readable(&self, shard: ShardId) -> Readable;
    /// Every shard can be read here at or below this, whoever leads.
    fn closed(&self) -> Timestamp;
    /// The newest version of a key at or below a timestamp, as far as this node knows.
    fn get(&self, shard: ShardId, key: &[u8], at: Timestamp)
    -> Result<Option<Version>, StoreError>;
    /// A chunk of a range as of a timestamp, as far as this node knows.
    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError>;

    /// Whom to ask, as far as is known.
    fn leader(&self, shard: ShardId) -> NodeId;
    /// Somebody said who leads. Nobody knowing, the next node is tried, unless it is known already
    /// that another than the asked one leads.
    fn heard_of_leader(&self, asked: Seat, leader: Option<NodeId>);
    /// The term in which a member leads, as far as is known.
    fn leadership(&self, seat: Seat) -> Option<u64>;
    /// A member leads in this term.
    fn heard_of_leadership(&self, seat: Seat, term: u64);
    /// Who named that term was refused: it is not named for a while.
    fn doubts_leadership(&self, seat: Seat, term: u64);
    /// Whether a node can be asked, and can answer.
    fn reaches(&self, node: NodeId) -> bool;
    /// Asks a shard's member, and waits for the answer until the boot clock reaches `until`; `None`
    /// if none came.
    fn ask(
        &self,
        seat: Seat,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<Heard>> + Send;
    /// Waits until the boot clock reaches `until`.
    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send;
    /// Says something to a shard's member; whatever it answers is not waited for.
    fn tell(&self, seat: Seat, request: Request);

    /// A transaction of this node was committed, and this is what it took.
    fn committed(&self, spent: &Spent) {
        let _ = spent;
    }

    /// An attempt holds locks there: it is to be kept alive while its session is idle.
    fn holds(&self, seat: Seat, transaction: TransactionId, age: Age);
    /// It holds none any more anywhere, or leaders end it: it does not hear that it is
    /// [wounded](Heard::Wounded).
    fn holds_no_more(&self, transaction: TransactionId);
}
