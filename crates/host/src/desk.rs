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
use crate::peers::Peers;
use crate::plumbing::Plumbing;
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
use minicbor::{Decode, Encode};
use parking_lot::{Mutex, RwLock};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
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
    me: NodeId,
    incarnation: Incarnation,
    members: RwLock<Members>,
    plumbing: Arc<Plumbing>,
    peers: Arc<OnceLock<Arc<Peers>>>,
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
    next: AtomicU64,
    random: Mutex<StdRng>,
    closed: AtomicBool,
    this: Weak<Desk<R>>,
}

impl<R: Leaderless> Desk<R> {
    /// Of the database of a row, without a replica yet.
    pub fn of(row: &DatabaseRow, context: &NodeContext, protocol: R) -> Arc<Self> {
        let members = rows::members(row, &context.members);
        let me = (context.me, context.incarnation);
        let desk = Desk::new(
            row.id,
            me,
            members,
            Arc::clone(&context.plumbing),
            Arc::clone(&context.peers),
            protocol,
        );
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

    /// Without a replica yet. `members` are the nodes that have one.
    fn new(
        database: DatabaseId,
        (me, incarnation): (NodeId, Incarnation),
        members: Members,
        plumbing: Arc<Plumbing>,
        peers: Arc<OnceLock<Arc<Peers>>>,
        protocol: R,
    ) -> Arc<Self> {
        let mut seed = [0; 32];
        if getrandom::fill(&mut seed).is_err() {
            // It only keeps those who met apart.
            seed[..8].copy_from_slice(&crate::clock::boot_ns().to_le_bytes());
        }
        Arc::new_cyclic(|this| Desk {
            database,
            me,
            incarnation,
            members: RwLock::new(members),
            plumbing,
            peers,
            replica: RwLock::default(),
            questions: Questions::default(),
            told: Mutex::default(),
            distances: Mutex::default(),
            protocol,
            retention_ns: AtomicU64::new(0),
            next: AtomicU64::new(1),
            random: Mutex::new(StdRng::from_seed(seed)),
            closed: AtomicBool::new(false),
            this: this.clone(),
        })
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// This node and its life.
    pub fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    /// What this node remembers for the protocol's sake.
    pub fn protocol(&self) -> &R {
        &self.protocol
    }

    /// What all machines of the node share.
    pub fn plumbing(&self) -> &Arc<Plumbing> {
        &self.plumbing
    }

    /// The links.
    pub fn peers(&self) -> &Arc<OnceLock<Arc<Peers>>> {
        &self.peers
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

    /// Whether a node can be asked, and can answer.
    pub fn reaches(&self, node: NodeId) -> bool {
        node == self.me || self.peers.get().is_some_and(|peers| peers.is_connected(node))
    }

    /// Whom a read asks one after the other, of those who can be asked: [the closest
    /// first](Distances::order).
    pub fn nearest(&self, fresh: bool) -> Vec<NodeId> {
        let mut drawn = self.replicas();
        let first = self.random.lock().random_range(0..drawn.len().max(1));
        drawn.rotate_left(first);
        let mut order = self.distances.lock().order(self.me, drawn, fresh);
        order.retain(|node| self.reaches(*node));
        order
    }

    /// The longest round trip to a replica that sessions of this node have measured, in
    /// nanoseconds.
    pub fn round_trip_ns(&self) -> u64 {
        self.distances.lock().round_trip_ns(&self.replicas())
    }

    /// A number below one, drawn.
    pub fn draw(&self) -> f64 {
        self.random.lock().random_range(0.0..1.0)
    }

    /// A number that nobody else of this life has.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn wake_me(&self, at: Option<u64>) {
        if let Some(at) = at {
            let this: Weak<dyn Wake> = self.this.clone();
            self.plumbing.timers.wake_at(at, this);
        }
    }

    /// Says something to replicas, which is encoded once. It leaves at once, or with what is said
    /// next.
    fn say(&self, shard: ShardId, nodes: &[NodeId], message: &R::Message, at_once: bool) {
        let from = Address {
            node: self.me,
            incarnation: self.incarnation,
            database: self.database,
            shard,
            role: Role::Coordinator(0),
        };
        if let Some(peers) = self.peers.get() {
            let mut body = None;
            for node in nodes.iter().copied().filter(|node| *node != self.me) {
                let body = body.get_or_insert_with(|| Encoded::of(message));
                let to = Address::replica(node, self.database, shard);
                peers.post(node, None, body.frame(R::KIND, from, to));
                if at_once {
                    peers.flush(node);
                }
            }
        }
        if nodes.contains(&self.me)
            && let Some(replica) = self.replica()
        {
            replica.post(Input::Message(from, message.clone()));
        }
    }

    /// A replica has answered a session of this node.
    pub fn hear(&self, from: NodeId, message: R::Message) {
        let Some(id) = R::answers(&message)
            .filter(|id| (id.node, id.incarnation) == (self.me.0, self.incarnation.0))
        else {
            return;
        };
        self.questions.answer(id.number, from, message);
    }

    /// Gives up questions to nodes that cannot be reached.
    pub fn sweep(&self) {
        let connected = self.peers.get().map(|peers| peers.connected()).unwrap_or_default();
        self.questions.give_up(|node| node != self.me && !connected.contains(&node));
        if let Some(this) = self.this.upgrade().filter(|_| !Wire::is_closed(self)) {
            R::tend(this, crate::clock::boot_ns(), &connected);
        }
    }

    /// Lets go of everybody, and ends the replica, if there is one: says which.
    pub fn close(&self) -> Option<Arc<ReplicaOf<R>>> {
        self.closed.store(true, Ordering::Release);
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
        if let Some(peers) = self.peers.get() {
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
        reached.retain(|node| self.desk.reaches(*node));
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

    fn boot_ns(&self) -> u64 {
        crate::clock::boot_ns()
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    fn new_number(&self) -> u64 {
        self.number()
    }

    fn replicas(&self, _: ShardId) -> Vec<NodeId> {
        Desk::replicas(self)
    }

    fn members(&self, _: ShardId) -> Members {
        Desk::members(self)
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

    async fn pause(&self, until: u64) {
        self.questions.open(self.number()).pause(until, |at| self.wake_me(Some(at))).await;
    }

    fn measured(&self, replica: NodeId, took_ns: Option<u64>) {
        self.distances.lock().measured(replica, took_ns);
    }

    fn patience_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        self.distances.lock().patience_ns(replicas, repetition)
    }
}
