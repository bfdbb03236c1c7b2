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
use crate::rendezvous::{Answerer, rendezvous};
use crate::resident::{Input, Resident, World};
use crate::timers::Wake;
use meridian_machine::{Address, Alarms, DatabaseId, Incarnation, Machine, NodeId, Role, ShardId};
use meridian_placement::{DatabaseRow, FIRST_SHARD};
use meridian_replication::inconsistent::{Members, OpId};
use meridian_systems::envelope::{self, Frame, Kind};
use meridian_systems::setting::VERSION_RETENTION_PERIOD;
use meridian_systems::tapir::rows;
use meridian_systems::{Distances, Wire};
use minicbor::{Decode, Encode};
use parking_lot::{Mutex, RwLock};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// A protocol without leaders, as a node runs it; a value of it is what a node remembers for one
/// database.
pub trait Leaderless: Send + Sync + Sized + 'static {
    /// What its sessions and replicas say.
    type Message: Encode<()> + Send;
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

struct Waiting<M> {
    answerer: Answerer<M>,
    until: u64,
}

/// Who waits for a moment, by number. The timer thread is asked for the next one only, and once.
#[derive(Default)]
struct Sleepers {
    alarms: Alarms<u64>,
    answerers: HashMap<u64, Answerer<()>>,
}

/// What sessions of one database share on this node.
pub struct Desk<R: Leaderless> {
    database: DatabaseId,
    me: NodeId,
    incarnation: Incarnation,
    members: RwLock<Members>,
    plumbing: Arc<Plumbing>,
    peers: Arc<OnceLock<Arc<Peers>>>,
    replica: RwLock<Option<Arc<ReplicaOf<R>>>>,
    /// Questions, by number and whom they are put to.
    waiting: Mutex<HashMap<(u64, NodeId), Waiting<R::Message>>>,
    sleepers: Mutex<Sleepers>,
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

    /// Takes in a frame of another node.
    pub fn receive(&self, frame: &Frame<'_>)
    where
        R::Message: for<'b> Decode<'b, ()>,
    {
        match frame.message(R::KIND) {
            Ok(message) => self.deliver(frame.from, frame.to, message),
            Err(why) => tracing::warn!(from = %frame.from, %why, "dropped a frame"),
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
            waiting: Mutex::default(),
            sleepers: Mutex::default(),
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

    fn post(&self, (shard, node): (ShardId, NodeId), message: R::Message) {
        let from = Address {
            node: self.me,
            incarnation: self.incarnation,
            database: self.database,
            shard,
            role: Role::Coordinator(0),
        };
        if node == self.me {
            if let Some(replica) = self.replica() {
                replica.post(Input::Message(from, message));
            }
        } else if let Some(peers) = self.peers.get() {
            let to = Address::replica(node, self.database, shard);
            peers.post(node, None, envelope::write_frame(R::KIND, from, to, &message));
            peers.flush(node);
        }
    }

    /// Somebody of another node says something to this node's replica, or to a session.
    fn deliver(&self, from: Address, to: Address, message: R::Message) {
        match to.role {
            Role::Replica => {
                if let Some(replica) = self.replica().filter(|_| to.shard == FIRST_SHARD) {
                    replica.post(Input::Message(from, message));
                }
            }
            Role::Coordinator(_) => self.hear(from.node, message),
        }
    }

    /// A replica has answered a session of this node.
    pub fn hear(&self, from: NodeId, message: R::Message) {
        let Some(id) = R::answers(&message)
            .filter(|id| (id.node, id.incarnation) == (self.me.0, self.incarnation.0))
        else {
            return;
        };
        let waiting = self.waiting.lock().remove(&(id.number, from));
        if let Some(waiting) = waiting {
            waiting.answerer.answer(message);
        }
    }

    /// Lets go of whoever waits for too long, or for a node that cannot be reached.
    pub fn sweep(&self) {
        let now = crate::clock::boot_ns();
        let connected = self.peers.get().map(|peers| peers.connected()).unwrap_or_default();
        let late = |node: NodeId, until: u64| {
            until <= now || (node != self.me && !connected.contains(&node))
        };
        let gone: Vec<Waiting<R::Message>> = {
            let mut waiting = self.waiting.lock();
            waiting
                .extract_if(|(_, node), waiting| late(*node, waiting.until))
                .map(|(_, waiting)| waiting)
                .collect()
        };
        drop(gone); // Not under the lock: who is woken may ask again.
        if let Some(this) = self.this.upgrade().filter(|_| !Wire::is_closed(self)) {
            R::tend(this, now, &connected);
        }
    }

    /// Lets go of everybody, and ends the replica, if there is one: says which.
    pub fn close(&self) -> Option<Arc<ReplicaOf<R>>> {
        self.closed.store(true, Ordering::Release);
        let replica = self.replica.write().take();
        if let Some(replica) = &replica {
            replica.stop();
        }
        let gone =
            (std::mem::take(&mut *self.waiting.lock()), std::mem::take(&mut *self.sleepers.lock()));
        drop(gone);
        replica
    }
}

impl<R: Leaderless> Wake for Desk<R> {
    fn wake(self: Arc<Self>) {
        let now = crate::clock::boot_ns();
        let mut due = Vec::new();
        let next = {
            let mut sleepers = self.sleepers.lock();
            sleepers.alarms.woken(now);
            while let Some(number) = sleepers.alarms.due(now) {
                due.extend(sleepers.answerers.remove(&number));
            }
            sleepers.alarms.next_wake()
        };
        self.wake_me(next);
        // Not under the lock: who is woken may pause again.
        due.into_iter().for_each(|answerer| answerer.answer(()));
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
        to: (ShardId, NodeId),
        id: OpId,
        message: R::Message,
        until: u64,
    ) -> Option<R::Message> {
        if !self.reaches(to.1) {
            return None;
        }
        let (answerer, answer) = rendezvous();
        let key = (id.number, to.1);
        self.waiting.lock().insert(key, Waiting { answerer, until });
        if Wire::is_closed(self) {
            // after the insertion: whoever closes has not missed it
            self.waiting.lock().remove(&key);
        }
        self.post(to, message);
        answer.await
    }

    fn tell(&self, to: (ShardId, NodeId), message: R::Message) {
        self.post(to, message);
    }

    async fn pause(&self, until: u64) {
        let (answerer, answer) = rendezvous();
        let number = self.number();
        let next = {
            let mut sleepers = self.sleepers.lock();
            sleepers.alarms.set(number, until);
            sleepers.answerers.insert(number, answerer);
            sleepers.alarms.next_wake()
        };
        if Wire::is_closed(self) {
            self.sleepers.lock().answerers.remove(&number);
        }
        self.wake_me(next);
        let _: Option<()> = answer.await;
    }

    fn measured(&self, replica: NodeId, took_ns: Option<u64>) {
        self.distances.lock().measured(replica, took_ns);
    }

    fn patience_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        self.distances.lock().patience_ns(replicas, repetition)
    }
}
