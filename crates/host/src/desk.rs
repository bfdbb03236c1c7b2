//! The sessions of a database without leaders on this node: whom they ask, and what they wait for.
//!
//! ```text
//!   session ── Wire ── desk ──┬──▶ this node's replica: stepped on the session's thread
//!                             └──▶ frames ──▶ other nodes' replicas ──▶ frames ──▶ wake the session
//! ```
//!
//! Invariants:
//! 1. Who waits for an answer hears one, or that none will come: nobody waits for ever.
//! 2. A pause ends when its time has come, within what a timer takes.

use crate::context::NodeContext;
use crate::local_node::LocalNode;
use crate::questions::{Open, Questions};
use crate::resident::{Input, Resident, World};
use crate::timers::Wake;
use meridian_machine::{Address, DatabaseId, Incarnation, Machine, NodeId, Role, ShardId};
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::inconsistent::{Members, OpId};
use meridian_systems::envelope::{Encoded, Frame, Kind};
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_systems::tapir::rows;
use meridian_systems::{Distances, Next, Round, Wire};
use meridian_txn::Node;
use minicbor::{Decode, Encode};
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What a session says and does not wait for leaves with what is said next to the same node, and
/// within this time, in nanoseconds: it costs neither a write nor a wake of its own.
const TOLD_WITHIN_NS: u64 = 500_000;

/// A protocol without leaders, as a node runs it; a value of it is what a node remembers for one
/// database.
pub trait Leaderless: Send + Sync + Sized + 'static {
    /// What its sessions and replicas say.
    type Message: Encode<()> + Clone + Send;
    /// A replica.
    type Replica: Machine<Message = Self::Message, Timer: Send, Record: Send, Effect: Send>
        + Send
        + 'static;
    /// What a node does for it.
    type Home: World<Self::Replica> + 'static;
    /// What its frames and records begin with.
    const KIND: Kind;
    /// The question that a message answers, if it is an answer to a session.
    fn answers(message: &Self::Message) -> Option<OpId>;
    /// Does, every now and then, what nobody asks for. Called with the boot clock, and the nodes
    /// that can be reached.
    fn tend(desk: Arc<Desk<Self>>, now: u64, connected: &[NodeId]) {
        let _ = (desk, now, connected);
    }
}

/// A replica at home.
pub type ReplicaOf<R> = Resident<<R as Leaderless>::Replica, <R as Leaderless>::Home>;

/// What sessions of one database share on this node.
pub struct Desk<R: Leaderless> {
    database: DatabaseId,
    node: Arc<LocalNode>,
    members: RwLock<Members>,
    replica: RwLock<Option<Arc<ReplicaOf<R>>>>,
    /// What sessions wait for.
    questions: Questions<R::Message>,
    /// The nodes to which something was said that leaves with what is said next, or soon.
    told: Mutex<Vec<NodeId>>,
    /// How long other nodes' replicas take to answer.
    distances: Mutex<Distances>,
    protocol: R,
    /// For how long superseded versions are kept, in nanoseconds; 0, if nobody says.
    retention_ns: AtomicU64,
    this: Weak<Desk<R>>,
}

impl<R: Leaderless> Desk<R> {
    /// Of the database of a row, without a replica yet.
    pub fn of(row: &DatabaseRow, context: &NodeContext, protocol: R) -> Arc<Self> {
        let desk = Arc::new_cyclic(|this| Desk {
            database: row.id,
            node: LocalNode::new(context),
            members: RwLock::new(rows::members(row, &context.members)),
            replica: RwLock::default(),
            questions: Questions::default(),
            told: Mutex::default(),
            distances: Mutex::default(),
            protocol,
            retention_ns: AtomicU64::new(0),
            this: this.clone(),
        });
        desk.retain(row);
        desk
    }

    /// Takes in frames of another node: what they say to this node's replica is one batch.
    pub fn receive(&self, frames: &[Frame<'_>])
    where
        R::Message: for<'b> Decode<'b, ()>,
    {
        let mut to_replica = Vec::with_capacity(frames.len());
        for frame in frames {
            match (frame.message(R::KIND), frame.to.role) {
                (Err(why), _) => tracing::warn!(from = %frame.from, %why, "dropped a frame"),
                (Ok(message), Role::Coordinator(_)) => self.hear(frame.from.node, message),
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

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// This node.
    pub fn node(&self) -> &LocalNode {
        &self.node
    }

    /// What this node remembers for the protocol's sake.
    pub fn protocol(&self) -> &R {
        &self.protocol
    }

    /// The nodes that have a replica.
    pub fn replicas(&self) -> Vec<NodeId> {
        self.members.read().replicas.iter().copied().collect()
    }

    /// The same, with the epoch whose they are.
    pub fn members(&self) -> Members {
        self.members.read().clone()
    }

    /// Others take over.
    pub fn reconfigure(&self, members: Members) {
        *self.members.write() = members;
    }

    /// This node's replica takes no step any more, and no step of it is under way when this
    /// returns.
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

    /// For how long superseded versions are kept, if the database's row says.
    pub fn retention(&self) -> Option<Duration> {
        Some(self.retention_ns.load(Ordering::Relaxed))
            .filter(|ns| *ns > 0)
            .map(Duration::from_nanos)
    }

    /// Takes the retention from the database's row.
    pub fn retain(&self, row: &DatabaseRow) {
        let retention = VERSION_RETENTION_PERIOD.of(row).unwrap_or_default();
        self.retention_ns
            .store(u64::try_from(retention.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// This node's replica takes its first step.
    pub fn add(&self, replica: Arc<ReplicaOf<R>>) {
        *self.replica.write() = Some(Arc::clone(&replica));
        replica.post(Input::Wake); // what its birth asked for
    }

    /// This node's replica, if it has one.
    pub fn replica(&self) -> Option<Arc<ReplicaOf<R>>> {
        self.replica.read().clone()
    }

    fn wake_me(&self, at: Option<u64>) {
        if let Some(at) = at {
            let this: Weak<dyn Wake> = self.this.clone();
            self.node.plumbing().timers.wake_at(at, this);
        }
    }

    /// Says something to replicas, which is encoded once. It leaves at once, or with what is said
    /// next.
    fn say(&self, shard: ShardId, nodes: &[NodeId], message: &R::Message, at_once: bool) {
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

    /// A replica has answered a session of this node.
    pub fn hear(&self, from: NodeId, message: R::Message) {
        let Some(id) = R::answers(&message)
            .filter(|id| (NodeId(id.node), Incarnation(id.incarnation)) == self.node.here())
        else {
            return;
        };
        self.questions.answer(id.number, from, message);
    }

    /// Gives up questions to nodes that cannot be reached.
    pub fn sweep(&self) {
        let connected = self.node.peers().map(|peers| peers.connected()).unwrap_or_default();
        let me = self.node.here().0;
        self.questions.give_up(|node| node != me && !connected.contains(&node));
        if let Some(this) = self.this.upgrade().filter(|_| !self.node.is_closed()) {
            R::tend(this, crate::clock::boot_ns(), &connected);
        }
    }

    /// Lets go of everybody, and ends the replica, if there is one: says which.
    pub fn close(&self) -> Option<Arc<ReplicaOf<R>>> {
        self.node.close();
        let replica = self.replica.write().take();
        if let Some(replica) = &replica {
            replica.stop();
        }
        self.questions.close();
        replica
    }
}

impl<R: Leaderless> Wake for Desk<R> {
    fn wake(self: Arc<Self>) {
        let next = self.questions.wake_late(crate::clock::boot_ns());
        self.wake_me(next);
        if let Some(peers) = self.node.peers() {
            let told = std::mem::take(&mut *self.told.lock());
            told.into_iter().for_each(|node| peers.flush(node));
        }
    }
}

/// A round of questions of a session of this node.
struct DeskRound<'d, R: Leaderless> {
    desk: &'d Desk<R>,
    shard: ShardId,
    until: u64,
    open: Open<'d, R::Message>,
}

impl<R: Leaderless> Round<R::Message> for DeskRound<'_, R> {
    fn ask(&mut self, nodes: &[NodeId], message: &R::Message) {
        let mut reached = nodes.to_vec();
        reached.retain(|node| self.desk.node.reaches(*node));
        self.open.expect(&reached);
        self.desk.say(self.shard, &reached, message, true);
    }

    async fn next(&mut self, until: u64, enough: usize) -> Next<R::Message> {
        let DeskRound { desk, open, .. } = self;
        open.next(until.min(self.until), enough, |at| desk.wake_me(Some(at))).await
    }
}

impl<R: Leaderless> Wire for Desk<R> {
    type Message = R::Message;
    type Node = LocalNode;

    fn node(&self) -> &LocalNode {
        &self.node
    }

    fn members(&self, _: ShardId) -> Members {
        Desk::members(self)
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
            Next::Answer(_, answer) => Some(answer),
            Next::All | Next::Late => None,
        }
    }

    fn round(&self, shard: ShardId, id: OpId, until: u64) -> impl Round<R::Message> {
        DeskRound { desk: self, shard, until, open: self.questions.open(id.number) }
    }

    fn tell(&self, (shard, node): (ShardId, NodeId), message: R::Message) {
        self.say(shard, &[node], &message, false);
        let mut told = self.told.lock();
        if told.is_empty() {
            self.wake_me(Some(crate::clock::boot_ns() + TOLD_WITHIN_NS));
        }
        if !told.contains(&node) {
            told.push(node);
        }
    }
}
