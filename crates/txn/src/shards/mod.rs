//! The shards of a database whose replicas have leaders, as the coordinators of one node reach
//! them, whichever concurrency control orders their transactions.
//!
//! | file | question |
//! |---|---|
//! | `messages` | what do coordinators and leaders say to each other? |
//! | `shard_map` | which shard has a key, and which node leads it? |
//! | `pending_requests` | which requests of this node have no response yet? |
//! | `held_locks` | which transactions of this node must be kept alive, and where? |
//! | `asking` | how does a request find the leader? |
//! | `administration` | how are shards split, and members changed? |

mod administration;
pub(crate) mod asking;
mod held_locks;
mod messages;
mod pending_requests;
mod shard_map;

pub use administration::Administrator;
pub use asking::{ONE_TRY_NS, TIMEOUT_NS};
pub use held_locks::HeldLocks;
pub use messages::{
    LockEpoch, MemberRoles, ReadSnapshot, ReplicaId, Request, RequestBody, Response, Spent,
};
pub use pending_requests::{PendingRequests, RequestKey, Woken};
pub use shard_map::ShardMap;

use crate::{Conflict, Node, TxnCounters};
use meridian_clock::oracle::Terms;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Health, NodeId, ShardId};
use meridian_mvcc::{Chunk, KeyRange, StoreError, Version};
use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;

/// The read lease of a shard at this node: a reader may read at `through` without asking the
/// leader, and must check afterwards that `now.latest < until`. If the database has several shards,
/// that is the present only if the member is `quiet` and takes no step meanwhile that is not
/// visible yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLease {
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

impl ReadLease {
    /// True if the lease holds, by a reading that was sampled after the slot was loaded.
    pub fn holds(&self, now: Reading) -> bool {
        now.health == Health::Good && now.interval.latest < self.until
    }
}

/// The result of a request that a coordinator sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The node has the request and will answer: the coordinator retries.
    Waits,
    /// The leader's response.
    Response(Response),
    /// Not a response: in another shard an older transaction requests a lock of this one.
    Wounded(Conflict),
    /// The leader is on this node: the coordinator reads at this timestamp, and uses the result
    /// only if `now.latest` is below the deadline afterwards.
    Read {
        /// The attempt's lock epoch.
        lock_epoch: LockEpoch,
        /// The timestamp to read at.
        at: Timestamp,
        /// The end of the lease.
        deadline: Option<u64>,
        /// The time that the snapshot waited for its clock and for commits before it, in
        /// nanoseconds; none if it did not have to.
        waited_ns: Option<u64>,
    },
}

/// The oracles of a database: nodes that know the time better than others do (K2 §2.2).
#[derive(Clone, Debug)]
pub struct Oracles {
    /// The nodes, in the order in which they are asked. Each has a replica of the first shard.
    pub nodes: Vec<NodeId>,
    /// The terms of oracles and coordinators.
    pub terms: Terms,
    /// True if one answer serves all transactions of a period (K2-TB); false if each transaction
    /// asks by itself (the strawman, §4).
    pub batches: bool,
}

/// The shards of a database, as the coordinators of one node reach them: by what its replicas here
/// can read alone, and by requests to their leaders.
pub trait Shards: Send + Sync + 'static {
    /// The node.
    type Node: Node;
    /// The node on which the coordinators run.
    fn node(&self) -> &Self::Node;
    /// The keys and the leaders of the shards, as far as the node knows them.
    fn map(&self) -> &ShardMap;
    /// The locks that the node's coordinators hold.
    fn held_locks(&self) -> &Mutex<HeldLocks>;

    /// A shard's group, as messages to users name it.
    fn describe(&self, shard: ShardId) -> String;
    /// True while too many versions wait in memory for the store: commits wait.
    fn is_crowded(&self) -> bool {
        false
    }
    /// The counters of the node's transactions, if it has any.
    fn counters(&self) -> Option<&TxnCounters> {
        None
    }
    /// The nodes that transactions ask for the time when they begin, if the database has some.
    fn oracles(&self) -> Option<Arc<Oracles>> {
        None
    }
    /// Counts a transaction that reads a shard here without a request.
    fn count_local_read(&self, shard: ShardId);
    /// Returns the read lease of the shard's replica here; an empty one, without a replica.
    fn read_lease(&self, shard: ShardId) -> ReadLease;
    /// The newest version of a key at or below a timestamp, at the shard's replica here.
    fn get(&self, shard: ShardId, key: &[u8], at: Timestamp)
    -> Result<Option<Version>, StoreError>;
    /// A chunk of a range as of a timestamp, at the shard's replica here.
    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError>;

    /// Sends a request to a replica, and waits for the response until the boot clock reaches
    /// `until`. Returns `None` without one.
    fn request(
        &self,
        replica: ReplicaId,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<RequestOutcome>> + Send;
    /// Sends a request to a replica whose response is not waited for.
    fn send(&self, replica: ReplicaId, request: Request);
}

/// The timestamp at or below which every shard can be read at its replica here.
pub(crate) fn closed<S: Shards>(shards: &S) -> Timestamp {
    let closed = |shard| shards.read_lease(shard).closed;
    shards.map().shards().into_iter().map(closed).min().unwrap_or_default()
}
