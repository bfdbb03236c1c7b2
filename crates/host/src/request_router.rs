//! The request router of a database without leaders on this node: the replica, the requests that
//! wait for responses, and the round trips to other nodes' replicas.
//!
//! ```text
//!   session ── Wire ── desk ──┬──▶ this node's replica: stepped on the session's thread
//!                             └──▶ frames ──▶ other nodes' replicas ──▶ frames ──▶ session wakes
//! ```
//!
//! Invariants:
//! 1. A waiting request gets a response, or learns that none can come: no request waits for ever.
//! 2. A pause ends when its time has come, within the delay of a timer.

use crate::actor::{Actor, Input, ReplicaRuntime};
use crate::context::NodeContext;
use crate::local_node::LocalNode;
use crate::questions::{Open, Questions};
use crate::timers::Wake;
use meridian_machine::{Address, DatabaseId, Incarnation, Machine, NodeId, Role, ShardId};
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::inconsistent::{OpId, ReplicaSet};
use meridian_systems::envelope::{Encoded, Frame, Kind};
use meridian_systems::replica_rows as rows;
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_systems::{Distances, Next, Round, Wire};
use meridian_txn::{Node, TxnCounters};
use minicbor::{Decode, Encode};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time within which a message without a response leaves, in nanoseconds. It leaves earlier with
/// the next message to the same node, and costs neither a write nor a wake of its own.
const TOLD_WITHIN_NS: u64 = 500_000;

/// A protocol without leaders, as a node runs it. A value is the protocol's part of one database's
/// request router.
pub trait Leaderless: Send + Sync + Sized + 'static {
    /// Messages of its sessions and replicas.
    type Message: Encode<()> + Clone + Send;
    /// The state machine of a replica.
    type Replica: Machine<Message = Self::Message, Timer: Send, Record: Send, Effect: Send>
        + Send
        + 'static;
    /// The runtime of a replica on a node.
    type Runtime: ReplicaRuntime<Self::Replica> + 'static;
    /// The first bytes of its frames and records.
    const KIND: Kind;
    /// Returns the operation to which a message is the response, if it is a response to a session.
    fn answers(message: &Self::Message) -> Option<OpId>;
    /// Does background tasks, such as recovery. Called periodically with the boot time and the
    /// reachable nodes.
    fn maintain(router: Arc<RequestRouter<Self>>, now: u64, connected: &[NodeId]) {
        let _ = (router, now, connected);
    }
}

/// A replica, with the thread-safe wrapper that steps it.
pub type ReplicaOf<R> = Actor<<R as Leaderless>::Replica, <R as Leaderless>::Runtime>;

/// The request router of a database on this node.
pub struct RequestRouter<R: Leaderless> {
    database: DatabaseId,
    node: Arc<LocalNode>,
    members: RwLock<ReplicaSet>,
    replica: RwLock<Option<Arc<ReplicaOf<R>>>>,
    /// The requests that wait for responses.
    questions: Questions<R::Message>,
    /// Nodes with messages that leave with the next message or by the timer.
    told: Mutex<Vec<NodeId>>,
    /// The round trips to other nodes' replicas.
    distances: Mutex<Distances>,
    protocol: R,
    /// Retention of superseded versions, in nanoseconds; 0 if the database's row does not say.
    retention_ns: AtomicU64,
    /// The counters of this node's transactions.
    counters: TxnCounters,
    this: Weak<RequestRouter<R>>,
}

impl<R: Leaderless> RequestRouter<R> {
    /// Returns the router of a database that has no replica on this node yet.
    pub fn of(row: &DatabaseRow, context: &NodeContext, protocol: R) -> Arc<Self> {
        let router = Arc::new_cyclic(|this| RequestRouter {
            database: row.id,
            node: LocalNode::new(context),
            members: RwLock::new(rows::members(row, &context.members)),
            replica: RwLock::default(),
            questions: Questions::default(),
            told: Mutex::default(),
            distances: Mutex::default(),
            protocol,
            retention_ns: AtomicU64::new(0),
            counters: TxnCounters::default(),
            this: this.clone(),
        });
        router.retain(row);
        router
    }

    /// Handles frames of another node. Those for this node's replica form one batch.
    pub fn receive(&self, frames: &[Frame<'_>])
    where
        R::Message: for<'b> Decode<'b, ()>,
    {
        let mut to_replica = Vec::with_capacity(frames.len());
        for frame in frames {
            match (frame.message(R::KIND), frame.to.role) {
                (Err(why), _) => tracing::warn!(from = %frame.from, %why, "dropped a frame"),
                (Ok(message), Role::Coordinator(_)) => self.on_response(frame.from.node, message),
                (Ok(message), Role::Replica) if frame.to.shard == FIRST_SHARD => {
                    to_replica.push(Input::Message(frame.from, message));
                }
                (Ok(_), Role::Replica) => {}
            }
        }
        if let Some(replica) = self.replica() {
            replica.post_all(to_replica);
        }
    }

    /// Returns the database's id.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// This node.
    pub fn node(&self) -> &LocalNode {
        &self.node
    }

    /// Returns the counters of this node's transactions.
    pub fn counters(&self) -> &TxnCounters {
        &self.counters
    }

    /// Returns the protocol's part of the router.
    pub fn protocol(&self) -> &R {
        &self.protocol
    }

    /// Returns the nodes that have a replica.
    pub fn replicas(&self) -> Vec<NodeId> {
        self.members.read().replicas.iter().copied().collect()
    }

    /// Returns the nodes that have a replica, with their membership epoch.
    pub fn members(&self) -> ReplicaSet {
        self.members.read().clone()
    }

    /// Sets the nodes that have a replica.
    pub fn reconfigure(&self, members: ReplicaSet) {
        *self.members.write() = members;
    }

    /// Removes and stops this node's replica. No step of it is running when this returns.
    pub fn remove(&self) -> Option<Arc<ReplicaOf<R>>> {
        let replica = self.replica.write().take();
        if let Some(replica) = &replica {
            replica.stop();
            while !replica.is_idle() {
                std::thread::yield_now();
            }
        }
        replica
    }

    /// Returns how long superseded versions are kept, if the database's row says.
    pub fn retention(&self) -> Option<Duration> {
        Some(self.retention_ns.load(Ordering::Relaxed))
            .filter(|ns| *ns > 0)
            .map(Duration::from_nanos)
    }

    /// Sets the retention from the database's row.
    pub fn retain(&self, row: &DatabaseRow) {
        let retention = VERSION_RETENTION_PERIOD.duration(row).unwrap_or_default();
        self.retention_ns
            .store(u64::try_from(retention.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Adds this node's replica, and has it take its first step.
    pub fn add(&self, replica: Arc<ReplicaOf<R>>) {
        *self.replica.write() = Some(Arc::clone(&replica));
        replica.post(Input::Wake); // Carries out what its creation asked for.
    }

    /// Returns this node's replica, if it has one.
    pub fn replica(&self) -> Option<Arc<ReplicaOf<R>>> {
        self.replica.read().clone()
    }

    fn wake_me(&self, at: Option<u64>) {
        if let Some(at) = at {
            let this: Weak<dyn Wake> = self.this.clone();
            self.node.resources().timers.wake_at(at, this);
        }
    }

    /// Sends a message to replicas, encoded once. It leaves at once, or with the next message.
    fn post_to(&self, shard: ShardId, nodes: &[NodeId], message: &R::Message, at_once: bool) {
        let (me, incarnation) = self.node.here();
        let from = Address {
            node: me,
            incarnation,
            database: self.database,
            shard,
            role: Role::Coordinator(0),
        };
        if let Some(peers) = self.node.peers() {
            let mut body = None;
            for node in nodes.iter().copied().filter(|node| *node != me) {
                let body = body.get_or_insert_with(|| Encoded::of(message));
                let to = Address::replica(node, self.database, shard);
                peers.post(node, None, body.frame(R::KIND, from, to));
                if at_once {
                    peers.flush(node);
                }
            }
        }
        if nodes.contains(&me)
            && let Some(replica) = self.replica()
        {
            replica.post(Input::Message(from, message.clone()));
        }
    }

    /// Delivers a response to a session of this node.
    pub fn on_response(&self, from: NodeId, message: R::Message) {
        let Some(id) = R::answers(&message)
            .filter(|id| (NodeId(id.node), Incarnation(id.incarnation)) == self.node.here())
        else {
            return;
        };
        self.questions.answer(id.number, from, message);
    }

    /// Gives up requests to nodes that are unreachable, and starts the protocol's background tasks.
    pub fn sweep(&self) {
        let connected = self.node.peers().map(|peers| peers.connected()).unwrap_or_default();
        let me = self.node.here().0;
        self.questions.give_up(|node| node != me && !connected.contains(&node));
        if let Some(this) = self.this.upgrade().filter(|_| !self.node.is_closed()) {
            R::maintain(this, crate::clock::boot_ns(), &connected);
        }
    }

    /// Ends all waits and stops the replica. Returns the replica.
    pub fn close(&self) -> Option<Arc<ReplicaOf<R>>> {
        self.node.close();
        let replica = self.replica.write().take();
        if let Some(replica) = &replica {
            replica.stop();
        }
        self.questions.close();
        if let Some(peers) = self.node.peers() {
            let told = std::mem::take(&mut *self.told.lock());
            told.into_iter().for_each(|node| peers.flush(node));
        }
        replica
    }
}

impl<R: Leaderless> Wake for RequestRouter<R> {
    fn wake(self: Arc<Self>) {
        let next = self.questions.wake_late(crate::clock::boot_ns());
        self.wake_me(next);
        if let Some(peers) = self.node.peers() {
            let told = std::mem::take(&mut *self.told.lock());
            // Not on this thread: other threads may keep it writing, and timers would wait.
            told.into_iter().for_each(|node| peers.flush_soon(node));
        }
    }
}

/// A round of requests of a session of this node.
struct RouterRound<'d, R: Leaderless> {
    router: &'d RequestRouter<R>,
    shard: ShardId,
    until: u64,
    open: Open<'d, R::Message>,
}

impl<R: Leaderless> Round<R::Message> for RouterRound<'_, R> {
    fn ask(&mut self, nodes: &[NodeId], message: &R::Message) {
        let mut reached = nodes.to_vec();
        reached.retain(|node| self.router.node.reaches(*node));
        self.open.expect(&reached);
        self.router.post_to(self.shard, &reached, message, true);
    }

    async fn next(&mut self, until: u64, enough: usize) -> Next<R::Message> {
        let RouterRound { router, open, .. } = self;
        open.next(until.min(self.until), enough, |at| router.wake_me(Some(at))).await
    }
}

impl<R: Leaderless> Wire for RequestRouter<R> {
    type Message = R::Message;
    type Node = LocalNode;

    fn node(&self) -> &LocalNode {
        &self.node
    }

    fn members(&self, _: ShardId) -> ReplicaSet {
        RequestRouter::members(self)
    }

    fn distances(&self) -> &Mutex<Distances> {
        &self.distances
    }

    async fn ask(
        &self,
        (shard, node): (ShardId, NodeId),
        id: OpId,
        message: R::Message,
        until: u64,
    ) -> Option<R::Message> {
        let mut round = self.round(shard, id, until);
        round.ask(&[node], &message);
        match round.next(until, 1).await {
            Next::Answer { answer, .. } => Some(answer),
            Next::All | Next::Late => None,
        }
    }

    fn round(&self, shard: ShardId, id: OpId, until: u64) -> impl Round<R::Message> {
        RouterRound { router: self, shard, until, open: self.questions.open(id.number) }
    }

    fn send(&self, (shard, node): (ShardId, NodeId), message: R::Message) {
        // The timers stop after the databases close.
        let at_once = self.node.is_closed();
        self.post_to(shard, &[node], &message, at_once);
        if at_once || node == self.node.here().0 {
            return;
        }
        let mut told = self.told.lock();
        if told.is_empty() {
            self.wake_me(Some(crate::clock::boot_ns() + TOLD_WITHIN_NS));
        }
        if !told.contains(&node) {
            told.push(node);
        }
    }
}
