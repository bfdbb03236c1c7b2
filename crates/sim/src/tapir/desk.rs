//! A node as its sessions see it, where nobody leads: they speak to replicas, each of them, and what they say is left on a desk.

use super::Halves;
use crate::carried::{self, Wish};
use crate::clock::NodeClock;
use crate::life::address;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Address, Incarnation, NodeId, Role, ShardId, sometimes};
use meridian_mvcc::{Key as Name, KeyRange, StoreError};
use meridian_replication::inconsistent::{Members, OpId};
use meridian_systems::tapir::{Message, have_taken_over, invoke, leave, look, read, take_turn, tell};
use meridian_systems::{Distances, Wire};
use meridian_txn::tapir::{Common, End, Found, Looked, Question, Site, Turn, recover};
use meridian_txn::{Failure, TransactionId};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Who waits: an operation's number and who is asked about it, or a pause, which nobody is asked about.
pub type Key = (u64, NodeId);

/// Nobody.
const NOBODY: NodeId = NodeId(0);
/// Where nobody answers, nobody is asked for so long.
const PAUSE_NS: u64 = 10_000_000;

struct State {
    closed: bool,
    members: Members,
    /// The epoch whose replicas are being waited for here, and the newest one whose replicas have taken over, as far as this node has found out.
    sees_to: Option<u32>,
    taken_over: u32,
    disk_full: bool,
    numbers: u64,
    rng: ChaCha8Rng,
    reached: BTreeSet<NodeId>,
    /// Somebody can be reached who could not be.
    met: bool,
    /// Each until the boot clock shows this.
    waiting: BTreeMap<Key, (u64, oneshot::Sender<Message>)>,
    wishes: Vec<Wish<Key, Message>>,
    distances: Distances,
    /// Whose fate is being found out here.
    recovering: BTreeSet<TransactionId>,
}

/// One life of one node.
pub struct Desk {
    clock: Arc<NodeClock>,
    me: NodeId,
    incarnation: Incarnation,
    halves: Halves,
    state: Mutex<State>,
}

impl Desk {
    pub fn new(
        clock: Arc<NodeClock>,
        (me, incarnation): (NodeId, Incarnation),
        members: Members,
        halves: Halves,
        seed: u64,
    ) -> Self {
        let state = State {
            closed: false,
            reached: members.replicas.clone(),
            members,
            sees_to: None,
            taken_over: 0,
            disk_full: false,
            numbers: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            met: true,
            waiting: BTreeMap::new(),
            wishes: Vec::new(),
            distances: Distances::default(),
            recovering: BTreeSet::new(),
        };
        Desk { clock, me, incarnation, halves, state: Mutex::new(state) }
    }

    /// Finds out what became of a transaction until the boot clock reaches `until`; nothing, if that is being done here.
    pub fn recovers(
        self: &Arc<Self>,
        who: TransactionId,
        participants: Vec<ShardId>,
        until: u64,
    ) -> Option<BoxFuture<'static, ()>> {
        if !self.state.lock().recovering.insert(who) {
            return None;
        }
        let desk = Arc::clone(self);
        Some(Box::pin(async move {
            if recover(&*desk, who, &participants, until).await.is_none() {
                sometimes!("nobody can say in time what became of a transaction");
            }
            desk.state.lock().recovering.remove(&who);
        }))
    }

    /// Other replicas take over.
    pub fn reconfigure(&self, members: Members) {
        self.state.lock().members = members;
    }

    /// Waits until the replicas of an epoch have taken over, or the boot clock reaches `until`; nothing, if that is being done here.
    pub fn sees_to(self: &Arc<Self>, epoch: u32, until: u64) -> Option<BoxFuture<'static, ()>> {
        let mut state = self.state.lock();
        if state.sees_to.replace(epoch) == Some(epoch) {
            return None;
        }
        let desk = Arc::clone(self);
        Some(Box::pin(async move {
            let shards: Vec<(ShardId, Name)> =
                desk.halves.all().map(|(shard, bounds)| (shard, bounds.start.clone())).collect();
            let done = have_taken_over(&*desk, &shards, epoch, until).await;
            let mut state = desk.state.lock();
            state.sees_to = None;
            match done {
                Ok(()) => state.taken_over = state.taken_over.max(epoch),
                Err(_) => sometimes!("replicas do not take over in time"),
            }
        }))
    }

    /// Whether that is being done here, of some epoch.
    pub fn is_seeing_to(&self) -> bool {
        self.state.lock().sees_to.is_some()
    }

    /// The newest epoch whose replicas have taken over, as far as this node has found out.
    pub fn has_seen_taken_over(&self) -> u32 {
        self.state.lock().taken_over
    }

    /// Whether somebody can be reached again, or for the first time, since this was last asked.
    pub fn has_met(&self) -> bool {
        std::mem::take(&mut self.state.lock().met)
    }

    /// The longest round trip to a replica that was measured here, in nanoseconds.
    pub fn round_trip_ns(&self) -> u64 {
        let state = self.state.lock();
        state.distances.round_trip_ns(&Vec::from_iter(state.members.replicas.iter().copied()))
    }

    fn number(&self) -> u64 {
        let mut state = self.state.lock();
        state.numbers += 1;
        state.numbers
    }

    fn wait(&self, key: Key, until: u64) -> oneshot::Receiver<Message> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.closed {
            state.waiting.insert(key, (until, sender));
            state.wishes.push(Wish::Alarm(until, key));
        }
        receiver
    }

    fn say(&self, (shard, node): (ShardId, NodeId), message: Message) {
        // Sessions are told apart by what they have asked.
        let role = Role::Coordinator(0);
        let from = Address { incarnation: self.incarnation, role, ..address(self.me, shard) };
        let mut state = self.state.lock();
        if !state.closed {
            state.wishes.push(Wish::Say { from, to: address(node, shard), message: Box::new(message) });
        }
    }

    /// Whom a read asks one after the other.
    fn nearest(&self, fresh: bool) -> Vec<NodeId> {
        let mut state = self.state.lock();
        let mut drawn = Vec::from_iter(state.members.replicas.iter().copied());
        let first = state.rng.random_range(0..drawn.len().max(1));
        drawn.rotate_left(first);
        state.distances.order(self.me, drawn, fresh)
    }
}

impl carried::Desk for Desk {
    type Key = Key;
    type Message = Message;

    fn wishes(&self) -> Vec<Wish<Key, Message>> {
        std::mem::take(&mut self.state.lock().wishes)
    }

    fn hear(&self, from: NodeId, _: u64, message: Message) -> Option<Message> {
        let Some(id) = message.answers() else { return Some(message) };
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
        state.waiting.retain(|(_, node), _| *node == NOBODY || reached.contains(node));
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
        None // Sessions read at replicas.
    }

    fn reads(&self) -> Vec<(ShardId, KeyRange, Timestamp)> {
        Vec::new()
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
    }

    fn rest(self: &Arc<Self>, for_ns: u64) -> BoxFuture<'static, ()> {
        let desk = Arc::clone(self);
        Box::pin(async move { Wire::pause(&*desk, desk.boot_ns() + for_ns).await })
    }
}

impl Wire for Desk {
    type Message = Message;

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
        self.number()
    }

    fn replicas(&self, _: ShardId) -> Vec<NodeId> {
        self.state.lock().members.replicas.iter().copied().collect()
    }

    fn members(&self, _: ShardId) -> Members {
        self.state.lock().members.clone()
    }

    /// Also what nobody would answer is said: it may get there.
    async fn ask(&self, to: (ShardId, NodeId), id: OpId, message: Message, until: u64) -> Option<Message> {
        let reaches = self.state.lock().reached.contains(&to.1);
        let answer = reaches.then(|| self.wait((id.number, to.1), until));
        self.say(to, message);
        answer?.await.ok()
    }

    fn tell(&self, to: (ShardId, NodeId), message: Message) {
        self.say(to, message);
    }

    async fn pause(&self, until: u64) {
        let _ = self.wait((self.number(), NOBODY), until).await;
    }

    fn measured(&self, replica: NodeId, took_ns: Option<u64>) {
        self.state.lock().distances.measured(replica, took_ns);
    }

    fn patience_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        self.state.lock().distances.patience_ns(replicas, repetition)
    }
}

impl Site for Desk {
    fn now(&self) -> Reading {
        self.clock.reading()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    fn new_number(&self) -> u64 {
        self.number()
    }

    fn round_trip_ns(&self) -> u64 {
        Desk::round_trip_ns(self)
    }

    fn draw(&self) -> f64 {
        self.state.lock().rng.random_range(0.0..1.0)
    }

    fn is_closed(&self) -> bool {
        Wire::is_closed(self)
    }

    fn is_full(&self) -> bool {
        self.state.lock().disk_full
    }

    fn route(&self, key: &Name) -> (ShardId, KeyRange) {
        self.halves.of(key)
    }

    fn route_below(&self, end: Option<&Name>) -> (ShardId, KeyRange) {
        self.halves.below(end)
    }

    async fn read(
        &self,
        shard: ShardId,
        range: &KeyRange,
        how: (bool, usize),
        fresh: bool,
        until: u64,
    ) -> Option<Result<Found, Failure>> {
        let mut repetition = 0;
        while self.boot_ns() < until {
            for node in self.nearest(fresh) {
                let patience_ends = until.min(self.boot_ns() + Wire::patience_ns(self, &[node], repetition));
                if let Some(found) = read(self, (shard, node), range, how, patience_ends).await {
                    return Some(Ok(found));
                }
                sometimes!("the nearest replica does not answer");
            }
            repetition += 1;
            Wire::pause(self, until.min(self.boot_ns() + PAUSE_NS)).await;
        }
        None
    }

    async fn look(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        how: (bool, usize),
        until: u64,
    ) -> Option<Result<Looked, Failure>> {
        look(self, shard, range, at, how, until).await
    }

    async fn ask(&self, shard: ShardId, question: Question, until: u64) -> Option<Common> {
        invoke(self, shard, &question, until).await
    }

    fn tell(&self, shard: ShardId, end: End) {
        tell(self, shard, &end);
    }

    async fn take_turn(&self, key: (ShardId, Name), holds_ns: u64, until: u64) -> Option<Turn> {
        take_turn(self, key, holds_ns, until).await
    }

    fn leave(&self, turn: &Turn) {
        leave(self, turn);
    }

    async fn pause(&self, until: u64) {
        Wire::pause(self, until).await;
    }
}
