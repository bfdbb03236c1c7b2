//! The simulated request router of a node of a leaderless protocol: it sends the requests of
//! sessions to replicas, and hands each response to the request that waits for it.

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

/// Identifies a waiting request, by its number and the replica's node; or a pause, which has no
/// node.
pub type Key = (u64, NodeId);

const NO_NODE: NodeId = NodeId(0);

/// A protocol without leaders.
pub trait Leaderless: 'static {
    /// The protocol's messages.
    type Message: Clone + Send;
    /// The state that the sessions of a node share.
    type Own: Send + Sync;

    /// Returns the operation that a message responds to, if the message is for a session.
    fn answers(message: &Self::Message) -> Option<OpId>;
    /// Returns the damage that sessions have found on their node's disks.
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
    /// True if a node became reachable since `has_met` was last called.
    met: bool,
    /// The waiting requests, each with the boot time at which it expires.
    waiting: BTreeMap<Key, (u64, oneshot::Sender<M>)>,
    wishes: Vec<Wish<Key, M>>,
    distances: Distances,
}

/// The request router of one incarnation of a node.
pub struct Desk<L: Leaderless> {
    clock: Arc<NodeClock>,
    me: NodeId,
    incarnation: Incarnation,
    pub own: L::Own,
    state: Mutex<State<L::Message>>,
}

impl<L: Leaderless> Desk<L> {
    /// Creates the router of an incarnation.
    pub fn new(
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

    /// Returns the node's clock reading.
    pub fn reading(&self) -> Reading {
        self.clock.reading()
    }

    /// True if the node's disk has no room.
    pub fn is_disk_full(&self) -> bool {
        self.state.lock().disk_full
    }

    /// Returns the replicas in the order in which a read asks them. With `fresh`, earlier slowness
    /// of a replica is ignored.
    pub fn nearest(&self, fresh: bool) -> Vec<NodeId> {
        let mut state = self.state.lock();
        let mut drawn = Vec::from_iter(state.members.replicas.iter().copied());
        let first = state.rng.random_range(0..drawn.len().max(1));
        drawn.rotate_left(first);
        state.distances.order(self.me, drawn, fresh)
    }

    /// Sets the replicas after a reconfiguration.
    pub fn reconfigure(&self, members: Members) {
        self.state.lock().members = members;
    }

    /// True if a node has become reachable since the last call.
    pub fn has_met(&self) -> bool {
        std::mem::take(&mut self.state.lock().met)
    }

    /// Returns the longest measured round trip to a replica, in nanoseconds.
    pub fn round_trip_ns(&self) -> u64 {
        let state = self.state.lock();
        state.distances.round_trip_ns(&Vec::from_iter(state.members.replicas.iter().copied()))
    }

    /// Draws a number from 0 to 1, uniformly.
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
        // All sessions share this number: the operation's id identifies the session.
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
            let _ = waiting.send(message); // Fails if the session has closed.
        }
        None
    }

    fn alarm(&self, key: Key) {
        let (now, mut state) = (self.clock.reading().boot_ns, self.state.lock());
        // The request may have been repeated since, with a later expiry.
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
        Vec::new() // Reads have no timestamp here.
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

    /// Sends the request even if the node is not reachable now, since the message may still arrive;
    /// but waits for a response only if the node is reachable.
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
