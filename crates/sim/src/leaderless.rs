//! A node as its sessions see it, where sessions speak to replicas of which none leads: what they
//! ask is left on a desk, and answers find the question that waits for them.

use crate::carried::{self, Wish};
use crate::clock::NodeClock;
use crate::life::address;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Address, Incarnation, NodeId, Role, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_replication::inconsistent::{Members, OpId};
use meridian_systems::{Distances, Wire};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What waits: a question's number and the node that was asked; or a pause, which is no node's.
pub type Key = (u64, NodeId);

const NO_NODE: NodeId = NodeId(0);

/// A protocol without leaders.
pub trait Leaderless: 'static {
    /// What is said.
    type Message: Clone + Send;
    /// What sessions of a node share besides.
    type Own: Send + Sync;

    /// The question that a message answers, if it is for a session.
    fn answers(message: &Self::Message) -> Option<OpId>;
    /// The damage that sessions have found on their node's disks, where they read there.
    fn damage(_: &Self::Own) -> Option<StoreError> {
        None
    }
}

struct State<M> {
    closed: bool,
    /// The nodes that have replicas, as far as this node knows.
    members: Members,
    disk_full: bool,
    numbers: u64,
    rng: ChaCha8Rng,
    reached: BTreeSet<NodeId>,
    /// A node can be reached that could not be.
    met: bool,
    /// Each until the boot clock shows this.
    waiting: BTreeMap<Key, (u64, oneshot::Sender<M>)>,
    wishes: Vec<Wish<Key, M>>,
    distances: Distances,
}

/// One life of one node.
pub struct Desk<L: Leaderless> {
    clock: Arc<NodeClock>,
    me: NodeId,
    incarnation: Incarnation,
    pub(crate) own: L::Own,
    state: Mutex<State<L::Message>>,
}

impl<L: Leaderless> Desk<L> {
    /// The desk of a node for one life, and the nodes that have replicas.
    pub(crate) fn new(
        clock: Arc<NodeClock>,
        (me, incarnation): (NodeId, Incarnation),
        members: Members,
        own: L::Own,
        seed: u64,
    ) -> Self {
        let state = State {
            closed: false,
            disk_full: false,
            numbers: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            reached: members.replicas.clone(),
            members,
            met: true,
            waiting: BTreeMap::new(),
            wishes: Vec::new(),
            distances: Distances::default(),
        };
        Desk { clock, me, incarnation, own, state: Mutex::new(state) }
    }

    /// The time on this node.
    pub fn reading(&self) -> Reading {
        self.clock.reading()
    }

    /// Whether the node's disk has no room.
    pub fn is_disk_full(&self) -> bool {
        self.state.lock().disk_full
    }

    /// The replicas in the order in which a read asks them; `fresh`: it does not matter which were
    /// slow before.
    pub fn nearest(&self, fresh: bool) -> Vec<NodeId> {
        let mut state = self.state.lock();
        let mut drawn = Vec::from_iter(state.members.replicas.iter().copied());
        let first = state.rng.random_range(0..drawn.len().max(1));
        drawn.rotate_left(first);
        state.distances.order(self.me, drawn, fresh)
    }

    /// Other replicas take over.
    pub fn reconfigure(&self, members: Members) {
        self.state.lock().members = members;
    }

    /// Whether a node can be reached again, or for the first time, since this was last asked.
    pub fn has_met(&self) -> bool {
        std::mem::take(&mut self.state.lock().met)
    }

    /// The longest round trip to a replica that was measured here, in nanoseconds.
    pub fn round_trip_ns(&self) -> u64 {
        let state = self.state.lock();
        state.distances.round_trip_ns(&Vec::from_iter(state.members.replicas.iter().copied()))
    }

    /// A number of 0 to 1, evenly drawn.
    pub fn draw(&self) -> f64 {
        self.state.lock().rng.random_range(0.0..1.0)
    }

    fn wait(&self, key: Key, until: u64) -> oneshot::Receiver<L::Message> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.closed {
            state.waiting.insert(key, (until, sender));
            state.wishes.push(Wish::Alarm(until, key));
        }
        receiver
    }

    fn say(&self, (shard, node): (ShardId, NodeId), message: L::Message) {
        // Sessions are told apart by what they have asked.
        let role = Role::Coordinator(0);
        let from = Address { incarnation: self.incarnation, role, ..address(self.me, shard) };
        let mut state = self.state.lock();
        if !state.closed {
            state.wishes.push(Wish::Say {
                from,
                to: address(node, shard),
                message: Box::new(message),
            });
        }
    }
}

impl<L: Leaderless> carried::Desk for Desk<L> {
    type Key = Key;
    type Message = L::Message;

    fn wishes(&self) -> Vec<Wish<Key, L::Message>> {
        std::mem::take(&mut self.state.lock().wishes)
    }

    fn hear(&self, from: NodeId, _: u64, message: L::Message) -> Option<L::Message> {
        let Some(id) = L::answers(&message) else { return Some(message) };
        let waiting = self.state.lock().waiting.remove(&(id.number, from));
        if let Some((_, waiting)) = waiting {
            let _ = waiting.send(message); // A session that is gone does not mind.
        }
        None
    }

    fn alarm(&self, key: Key) {
        let (now, mut state) = (self.clock.reading().boot_ns, self.state.lock());
        // The same question may have been asked again since, for longer.
        if state.waiting.get(&key).is_some_and(|(until, _)| *until <= now) {
            state.waiting.remove(&key);
        }
    }

    fn set_reached(&self, reached: BTreeSet<NodeId>) {
        let mut state = self.state.lock();
        state.waiting.retain(|(_, node), _| *node == NO_NODE || reached.contains(node));
        state.met |= !reached.is_subset(&state.reached);
        state.reached = reached;
    }

    fn lose(&self, node: NodeId) {
        self.state.lock().waiting.retain(|(_, other), _| *other != node);
    }

    fn set_disk_full(&self, full: bool) {
        self.state.lock().disk_full = full;
    }

    fn damage(&self) -> Option<StoreError> {
        L::damage(&self.own)
    }

    fn reads(&self) -> Vec<(ShardId, KeyRange, Timestamp)> {
        Vec::new() // Of no timestamp.
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
    }

    fn rest(self: &Arc<Self>, for_ns: u64) -> BoxFuture<'static, ()> {
        let desk = Arc::clone(self);
        Box::pin(async move { desk.pause(desk.boot_ns() + for_ns).await })
    }
}

impl<L: Leaderless> Wire for Desk<L> {
    type Message = L::Message;

    fn boot_ns(&self) -> u64 {
        self.clock.reading().boot_ns
    }

    fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    fn new_number(&self) -> u64 {
        let mut state = self.state.lock();
        state.numbers += 1;
        state.numbers
    }

    fn replicas(&self, _: ShardId) -> Vec<NodeId> {
        self.state.lock().members.replicas.iter().copied().collect()
    }

    fn members(&self, _: ShardId) -> Members {
        self.state.lock().members.clone()
    }

    /// What no node would answer is said, too: it may get there.
    async fn ask(
        &self,
        to: (ShardId, NodeId),
        id: OpId,
        message: L::Message,
        until: u64,
    ) -> Option<L::Message> {
        let reaches = self.state.lock().reached.contains(&to.1);
        let answer = reaches.then(|| self.wait((id.number, to.1), until));
        self.say(to, message);
        answer?.await.ok()
    }

    fn tell(&self, to: (ShardId, NodeId), message: L::Message) {
        self.say(to, message);
    }

    async fn pause(&self, until: u64) {
        let _ = self.wait((self.new_number(), NO_NODE), until).await;
    }

    fn measured(&self, replica: NodeId, took_ns: Option<u64>) {
        self.state.lock().distances.measured(replica, took_ns);
    }

    fn patience_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        self.state.lock().distances.patience_ns(replicas, repetition)
    }
}
