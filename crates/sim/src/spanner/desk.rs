//! The shards of a Spanner database, as the coordinators of a simulated node reach them.

use crate::carried;
use crate::clock::NodeClock;
use crate::node::{self, SimNode};
use futures::channel::oneshot;
use meridian_clock::Timestamp;
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange, StoreError, Version};
use meridian_store::Space;
use meridian_systems::spanner::Message;
use meridian_txn::locking::{
    Ask, Heard, HeldLocks, PendingRequests, Readable, Reply, Request, Seat, ShardMap, Shards, Woken,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CHUNK_BYTES: usize = 1 << 16;

#[derive(Default)]
struct State {
    readable: BTreeMap<ShardId, Readable>,
    spaces: BTreeMap<ShardId, Arc<Space>>,
    waiting: PendingRequests<oneshot::Sender<Heard>>,
    read_alone: BTreeMap<ShardId, u64>,
    /// The damage that a session found while it read local data itself.
    damage: Option<StoreError>,
    /// The snapshots that sessions have read from local data themselves.
    reads: Vec<(ShardId, KeyRange, Timestamp)>,
}

/// The request router of one incarnation of a node.
pub struct Desk {
    node: SimNode<Message>,
    map: ShardMap,
    held_locks: Mutex<HeldLocks>,
    state: Mutex<State>,
}

impl Desk {
    pub fn new(
        clock: Arc<NodeClock>,
        here: (NodeId, Incarnation),
        nodes: Vec<NodeId>,
        seed: u64,
    ) -> Self {
        Desk {
            node: SimNode::new(clock, here, nodes.iter().copied().collect(), seed),
            map: ShardMap::new(here.0, nodes),
            held_locks: Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// The node.
    pub fn node(&self) -> &SimNode<Message> {
        &self.node
    }

    /// The keys and the leaders of the shards, as far as the node knows them.
    pub fn map(&self) -> &ShardMap {
        &self.map
    }

    /// What the shard's member here may serve.
    pub fn readable(&self, shard: ShardId) -> Readable {
        self.state.lock().readable.get(&shard).copied().unwrap_or_default()
    }

    /// Records that a shard with these bounds has a member on this node.
    pub fn learn(&self, bounds: &KeyRange, shard: ShardId, space: Arc<Space>) {
        self.map.learn_bounds(bounds, shard);
        self.state.lock().spaces.insert(shard, space);
    }

    /// Records that a shard has no member on this node any more.
    pub fn forget(&self, shard: ShardId) {
        let mut state = self.state.lock();
        state.spaces.remove(&shard);
        state.readable.remove(&shard);
    }

    /// Sends a keep-alive to every leader that holds locks of an idle transaction.
    pub fn keep_alive(&self) {
        let held = Vec::from_iter(self.held_locks.lock().iter());
        for (seat, transaction, age) in held {
            self.send(seat, Request::plain(transaction, age, 0, Ask::KeepAlive));
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

    fn note_damage<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ StoreError::Damaged { .. }) = &read {
            self.state.lock().damage = Some(error.clone());
        }
        read
    }

    pub fn set_readable(&self, shard: ShardId, readable: Readable) {
        self.state.lock().readable.insert(shard, readable);
    }

    /// Records the term in which a member leads.
    pub fn set_leadership(&self, seat: Seat, term: u64) {
        self.map.set_leader(seat.shard, seat.node);
        self.map.learn_term(seat, term);
    }

    /// Delivers a reply to one of this node's coordinators.
    fn hear_reply(&self, number: u64, reply: Reply) {
        let holds = self.held_locks.lock().has(number);
        let woken = self.state.lock().waiting.respond(number, reply, holds);
        wake(woken);
    }

    pub fn answer(&self, key: node::Key, heard: Heard) {
        let woken = self.state.lock().waiting.wake(key, heard);
        wake(woken);
    }
}

impl carried::Desk for Desk {
    type Message = Message;

    fn node(&self) -> &SimNode<Message> {
        &self.node
    }

    fn hear(&self, _: NodeId, session: u64, message: Message) -> Option<Message> {
        match message {
            Message::Answer(reply) => self.hear_reply(session, reply),
            other => return Some(other),
        }
        None
    }

    fn alarm(&self, key: node::Key) {
        let woken = self.state.lock().waiting.expire(key);
        wake(woken);
    }

    fn set_reached(&self, reached: BTreeSet<NodeId>) {
        let woken = self.state.lock().waiting.keep(|node| reached.contains(&node));
        self.node.set_reached(reached);
        wake(woken);
    }

    fn lose(&self, lost: NodeId) {
        let woken = self.state.lock().waiting.keep(|node| node != lost);
        wake(woken);
    }

    fn damage(&self) -> Option<StoreError> {
        self.state.lock().damage.clone()
    }

    fn reads(&self) -> Vec<(ShardId, KeyRange, Timestamp)> {
        std::mem::take(&mut self.state.lock().reads)
    }

    fn close(&self) {
        self.node.close();
        let woken = self.state.lock().waiting.clear();
        wake(woken);
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

impl Shards for Desk {
    type Node = SimNode<Message>;

    fn node(&self) -> &SimNode<Message> {
        &self.node
    }

    fn map(&self) -> &ShardMap {
        &self.map
    }

    fn held_locks(&self) -> &Mutex<HeldLocks> {
        &self.held_locks
    }

    fn describe(&self, shard: ShardId) -> String {
        format!("the group of shard {}", shard.0)
    }

    fn reads_alone(&self, shard: ShardId) {
        *self.state.lock().read_alone.entry(shard).or_default() += 1;
    }

    fn readable(&self, shard: ShardId) -> Readable {
        Desk::readable(self, shard)
    }

    fn get(
        &self,
        shard: ShardId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        let space = self.space(shard)?;
        self.note(shard, KeyRange::point(Key::from(key.to_vec())), at);
        self.note_damage(space.get(key, at))
    }

    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError> {
        let space = self.space(shard)?;
        let found = self.note_damage(space.scan(range, at, reverse, limit_rows, CHUNK_BYTES))?;
        self.note(shard, range.clone(), at);
        Ok(found)
    }

    fn request(
        &self,
        seat: Seat,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<Heard>> + Send {
        let (sender, receiver) = oneshot::channel();
        let key = (request.transaction.number, request.id);
        if self.node.alarm_at(until, key) {
            self.state.lock().waiting.insert(key, seat.node, until, sender);
        }
        self.send(seat, request);
        async move { receiver.await.ok() }
    }

    fn send(&self, seat: Seat, request: Request) {
        let number = request.transaction.number;
        self.node.say(number, (seat.shard, seat.node), Message::Ask(request));
    }
}
