//! The simulated request router of a Spanner node: coordinators leave their requests here, and the
//! world carries them out.

use crate::carried::{self, Wish};
use crate::clock::NodeClock;
use crate::life::address;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Address, Incarnation, NodeId, Role, ShardId};
use meridian_mvcc::{Chunk, Key as Name, KeyRange, StoreError, Version};
use meridian_placement::Routes;
use meridian_store::Space;
use meridian_systems::spanner::Message;
use meridian_txn::Age;
use meridian_txn::locking::{
    Ask, DOUBTED_FOR_NS, Heard, Leaderships, PendingRequests, Readable, Reply, Request, RequestKey,
    Seat, Site, TransactionId, Woken,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Identifies a waiting coordinator: the numbers of its transaction and its request, or a pause.
pub type Key = RequestKey;

const CHUNK_BYTES: usize = 1 << 16;

#[derive(Default)]
struct State {
    closed: bool,
    disk_full: bool,
    numbers: u64,
    readable: BTreeMap<ShardId, Readable>,
    leaders: BTreeMap<ShardId, NodeId>,
    leaderships: Leaderships,
    routes: Routes,
    spaces: BTreeMap<ShardId, Arc<Space>>,
    reached: BTreeSet<NodeId>,
    waiting: PendingRequests<oneshot::Sender<Heard>>,
    wishes: Vec<Wish<Key, Message>>,
    holding: BTreeMap<(u64, Seat), (TransactionId, Age)>,
    read_alone: BTreeMap<ShardId, u64>,
    /// The damage that a session found while it read local data itself.
    damage: Option<StoreError>,
    /// The snapshots that sessions have read from local data themselves.
    reads: Vec<(ShardId, KeyRange, Timestamp)>,
}

/// The request router of one incarnation of a node.
pub struct Desk {
    clock: Arc<NodeClock>,
    me: NodeId,
    incarnation: Incarnation,
    nodes: Vec<NodeId>,
    state: Mutex<State>,
}

impl Desk {
    pub fn new(
        clock: Arc<NodeClock>,
        me: NodeId,
        incarnation: Incarnation,
        nodes: Vec<NodeId>,
    ) -> Self {
        let state = State { reached: nodes.iter().copied().collect(), ..State::default() };
        Desk { clock, me, incarnation, nodes, state: Mutex::new(state) }
    }

    /// Records that a shard with these bounds has a member on this node.
    pub fn learn(&self, bounds: &KeyRange, shard: ShardId, space: Arc<Space>) {
        let mut state = self.state.lock();
        if !bounds.is_empty() {
            state.routes.learn(bounds.start.clone(), shard);
            if let Some(end) = &bounds.end {
                state.routes.learn_end(end.clone());
            }
        }
        state.spaces.insert(shard, space);
    }

    /// Records that a shard has no member on this node any more.
    pub fn forget(&self, shard: ShardId) {
        let mut state = self.state.lock();
        state.spaces.remove(&shard);
        state.readable.remove(&shard);
    }

    /// Returns the leader of a shard, as far as known, if it is another node.
    pub fn elsewhere(&self, shard: ShardId) -> Option<NodeId> {
        self.state.lock().leaders.get(&shard).copied().filter(|leader| *leader != self.me)
    }

    /// Records that the keys from `from` on belong to `shard`.
    pub fn learn_route(&self, key: &[u8], from: Name, shard: ShardId) {
        let mut state = self.state.lock();
        // A child shard mostly has the leader of its parent.
        let parent = state.routes.of(&from).0;
        let leader = state.leaders.get(&parent).copied();
        if state.routes.learn_whereabouts(key, from, shard)
            && let Some(leader) = leader
        {
            state.leaders.entry(shard).or_insert(leader);
        }
    }

    /// Sends a keep-alive to every leader that holds locks of an idle transaction.
    pub fn keep_alive(&self) {
        let mut state = self.state.lock();
        let holding: Vec<_> = state.holding.iter().map(|(key, value)| (*key, *value)).collect();
        for ((_, seat), (transaction, age)) in holding {
            let request = Request::plain(transaction, age, 0, Ask::KeepAlive);
            state.wishes.push(self.says(seat, request));
        }
    }

    /// Takes the number of local single-shard reads per shard since the last call.
    pub fn read_alone(&self) -> BTreeMap<ShardId, u64> {
        std::mem::take(&mut self.state.lock().read_alone)
    }

    fn note(&self, shard: ShardId, range: KeyRange, at: Timestamp) {
        self.state.lock().reads.push((shard, range, at));
    }

    fn space(&self, shard: ShardId) -> Result<Arc<Space>, StoreError> {
        let space = self.state.lock().spaces.get(&shard).cloned();
        space.filter(|space| !space.is_behind()).ok_or(StoreError::Elsewhere)
    }

    /// Returns the read lease of a shard.
    pub fn readable(&self, shard: ShardId) -> Readable {
        self.state.lock().readable.get(&shard).copied().unwrap_or_default()
    }

    fn heed<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ StoreError::Damaged { .. }) = &read {
            self.state.lock().damage = Some(error.clone());
        }
        read
    }

    pub fn set_readable(&self, shard: ShardId, readable: Readable) {
        self.state.lock().readable.insert(shard, readable);
    }

    pub fn set_leader(&self, shard: ShardId, leader: NodeId) {
        self.state.lock().leaders.insert(shard, leader);
    }

    /// Records the term in which a member leads.
    pub fn set_leadership(&self, seat: Seat, term: u64) {
        let mut state = self.state.lock();
        state.leaders.insert(seat.shard, seat.node);
        state.leaderships.learn(seat, term);
    }

    /// Delivers a reply to one of this node's coordinators.
    fn hear_reply(&self, number: u64, reply: Reply) {
        let mut state = self.state.lock();
        let holds = state.holding.keys().any(|(of, _)| *of == number);
        let woken = state.waiting.respond(number, reply, holds);
        drop(state);
        wake(woken);
    }

    /// Returns a send of a coordinator's request to a shard's member.
    fn says(&self, seat: Seat, request: Request) -> Wish<Key, Message> {
        let role = Role::Coordinator(request.transaction.number);
        let from = Address { incarnation: self.incarnation, role, ..address(self.me, seat.shard) };
        Wish::Say {
            from,
            to: address(seat.node, seat.shard),
            message: Box::new(Message::Ask(request)),
        }
    }

    pub fn answer(&self, key: Key, heard: Heard) {
        let woken = self.state.lock().waiting.wake(key, heard);
        wake(woken);
    }

    fn wait(&self, key: Key, node: NodeId, until: u64) -> oneshot::Receiver<Heard> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.closed {
            state.waiting.insert(key, node, until, sender);
            state.wishes.push(Wish::Alarm(until, key));
        }
        receiver
    }
}

impl carried::Desk for Desk {
    type Key = Key;
    type Message = Message;

    fn wishes(&self) -> Vec<Wish<Key, Message>> {
        std::mem::take(&mut self.state.lock().wishes)
    }

    fn hear(&self, _: NodeId, session: u64, message: Message) -> Option<Message> {
        match message {
            Message::Answer(reply) => self.hear_reply(session, reply),
            other => return Some(other),
        }
        None
    }

    fn alarm(&self, key: Key) {
        let woken = self.state.lock().waiting.expire(key);
        wake(woken);
    }

    fn set_reached(&self, reached: BTreeSet<NodeId>) {
        let mut state = self.state.lock();
        let woken = state.waiting.keep(|node| reached.contains(&node));
        state.reached = reached;
        drop(state);
        wake(woken);
    }

    fn lose(&self, lost: NodeId) {
        let woken = self.state.lock().waiting.keep(|node| node != lost);
        wake(woken);
    }

    fn set_disk_full(&self, full: bool) {
        self.state.lock().disk_full = full;
    }

    fn damage(&self) -> Option<StoreError> {
        self.state.lock().damage.clone()
    }

    fn reads(&self) -> Vec<(ShardId, KeyRange, Timestamp)> {
        std::mem::take(&mut self.state.lock().reads)
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let woken = state.waiting.clear();
        drop(state);
        wake(woken);
    }

    fn rest(self: &Arc<Self>, for_ns: u64) -> BoxFuture<'static, ()> {
        let site = Handle(Arc::clone(self));
        Box::pin(async move { site.pause(site.now().boot_ns + for_ns).await })
    }
}

/// Wakes coordinators; ignores those whose session has closed.
fn wake(woken: impl IntoIterator<Item = Woken<oneshot::Sender<Heard>>>) {
    for (sender, heard) in woken {
        if let Some(heard) = heard {
            let _ = sender.send(heard);
        }
    }
}

/// A handle of a request router, shared by the world and the coordinators.
#[derive(Clone)]
pub struct Handle(pub Arc<Desk>);

impl Site for Handle {
    fn now(&self) -> Reading {
        self.0.clock.reading()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (self.0.me, self.0.incarnation)
    }

    fn new_number(&self) -> u64 {
        let mut state = self.0.state.lock();
        state.numbers += 1;
        state.numbers
    }

    fn describe(&self, shard: ShardId) -> String {
        format!("the group of shard {}", shard.0)
    }

    fn has_one_shard(&self) -> bool {
        self.0.state.lock().routes.count() == 1
    }

    fn route(&self, key: &Name) -> (ShardId, KeyRange) {
        self.0.state.lock().routes.of(key)
    }

    fn route_below(&self, end: Option<&Name>) -> (ShardId, KeyRange) {
        self.0.state.lock().routes.below(end)
    }

    fn learn_route(&self, key: &Name, from: Name, shard: ShardId) {
        self.0.learn_route(key, from, shard);
    }

    fn closed(&self) -> Timestamp {
        let state = self.0.state.lock();
        let closed =
            |shard| state.readable.get(&shard).map_or(Timestamp::ZERO, |readable| readable.closed);
        state.routes.shards().map(|(_, shard)| closed(shard)).min().unwrap_or_default()
    }

    fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }

    fn is_full(&self) -> bool {
        self.0.state.lock().disk_full
    }

    fn is_crowded(&self) -> bool {
        false // No run of the simulator writes that much.
    }

    fn reads_alone(&self, shard: ShardId) {
        *self.0.state.lock().read_alone.entry(shard).or_default() += 1;
    }

    fn readable(&self, shard: ShardId) -> Readable {
        self.0.readable(shard)
    }

    fn get(
        &self,
        shard: ShardId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        let space = self.0.space(shard)?;
        self.0.note(shard, KeyRange::point(Name::from(key.to_vec())), at);
        self.0.heed(space.get(key, at))
    }

    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError> {
        let space = self.0.space(shard)?;
        let found = self.0.heed(space.scan(range, at, reverse, limit_rows, CHUNK_BYTES))?;
        self.0.note(shard, range.clone(), at);
        Ok(found)
    }

    fn leader(&self, shard: ShardId) -> NodeId {
        self.0.state.lock().leaders.get(&shard).copied().unwrap_or(self.0.me)
    }

    fn heard_of_leader(&self, asked: Seat, leader: Option<NodeId>) {
        let next = || {
            self.0.nodes.iter().find(|node| **node > asked.node).or(self.0.nodes.first()).copied()
        };
        let next = || next().filter(|_| self.leader(asked.shard) == asked.node);
        if let Some(leader) = leader.or_else(next) {
            self.0.set_leader(asked.shard, leader);
        }
    }

    fn leadership(&self, seat: Seat) -> Option<u64> {
        self.0.state.lock().leaderships.of(seat, self.now().boot_ns)
    }

    fn doubts_leadership(&self, seat: Seat, term: u64) {
        self.0.state.lock().leaderships.doubt(seat, term, self.now().boot_ns + DOUBTED_FOR_NS);
    }

    fn heard_of_leadership(&self, seat: Seat, term: u64) {
        self.0.state.lock().leaderships.learn(seat, term);
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.0.state.lock().reached.contains(&node)
    }

    fn ask(
        &self,
        seat: Seat,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<Heard>> + Send {
        let receiver = self.0.wait((request.transaction.number, request.id), seat.node, until);
        self.tell(seat, request);
        async move { receiver.await.ok() }
    }

    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send {
        let receiver = self.0.wait((u64::MAX, self.new_number()), self.0.me, until);
        async move { drop(receiver.await) }
    }

    fn tell(&self, seat: Seat, request: Request) {
        let mut state = self.0.state.lock();
        if !state.closed {
            state.wishes.push(self.0.says(seat, request));
        }
    }

    fn holds(&self, seat: Seat, transaction: TransactionId, age: Age) {
        self.0.state.lock().holding.insert((transaction.number, seat), (transaction, age));
    }

    fn holds_no_more(&self, transaction: TransactionId) {
        self.0.state.lock().holding.retain(|(number, _), _| *number != transaction.number);
    }
}
