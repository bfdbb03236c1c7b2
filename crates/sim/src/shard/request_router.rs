//! The shards of a database with leaders, as the coordinators of a simulated node reach them.

use crate::clock::NodeClock;
use crate::node::{self, SimNode};
use crate::sim_protocol;
use futures::channel::oneshot;
use meridian_clock::Timestamp;
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange, StoreError, Version};
use meridian_store::ShardStore;
use meridian_systems::shard::{Message, MessageOf, Participant};
use meridian_txn::shards::{
    HeldLocks, Oracles, PendingRequests, ReadLease, ReplicaId, Request, RequestBody,
    RequestOutcome, Response, ShardMap, Shards, Woken,
};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CHUNK_BYTES: usize = 1 << 16;

#[derive(Default)]
struct State {
    read_lease: BTreeMap<ShardId, ReadLease>,
    spaces: BTreeMap<ShardId, Arc<ShardStore>>,
    waiting: PendingRequests<oneshot::Sender<RequestOutcome>>,
    read_alone: BTreeMap<ShardId, u64>,
    /// The damage that a session found while it read local data itself.
    damage: Option<StoreError>,
    /// The snapshots that sessions have read from local data themselves.
    reads: Vec<(ShardId, KeyRange, Timestamp)>,
}

/// The request router of one incarnation of a node.
pub struct RequestRouter<P: Participant> {
    node: SimNode<MessageOf<P>>,
    map: ShardMap,
    held_locks: Mutex<HeldLocks>,
    oracles: Option<Arc<Oracles>>,
    state: Mutex<State>,
}

impl<P: Participant> RequestRouter<P> {
    pub fn new(
        clock: Arc<NodeClock>,
        here: (NodeId, Incarnation),
        nodes: Vec<NodeId>,
        seed: u64,
        oracles: Option<Oracles>,
    ) -> Self {
        RequestRouter {
            node: SimNode::new(clock, here, nodes.iter().copied().collect(), seed),
            map: ShardMap::new(here.0, nodes),
            held_locks: Mutex::default(),
            oracles: oracles.map(Arc::new),
            state: Mutex::default(),
        }
    }

    /// The node.
    pub fn node(&self) -> &SimNode<MessageOf<P>> {
        &self.node
    }

    /// The keys and the leaders of the shards, as far as the node knows them.
    pub fn map(&self) -> &ShardMap {
        &self.map
    }

    /// Returns the read lease of the shard's member here.
    pub fn read_lease(&self, shard: ShardId) -> ReadLease {
        self.state.lock().read_lease.get(&shard).copied().unwrap_or_default()
    }

    /// Records that a shard with these bounds has a member on this node.
    pub fn learn(&self, bounds: &KeyRange, shard: ShardId, shard_store: Arc<ShardStore>) {
        self.map.learn_bounds(bounds, shard);
        self.state.lock().spaces.insert(shard, shard_store);
    }

    /// Records that a shard has no member on this node any more.
    pub fn forget(&self, shard: ShardId) {
        let mut state = self.state.lock();
        state.spaces.remove(&shard);
        state.read_lease.remove(&shard);
    }

    /// Sends a keep-alive to every leader that holds locks of an idle transaction.
    pub fn keep_alive(&self) {
        let held = Vec::from_iter(self.held_locks.lock().iter());
        for (replica, transaction, age) in held {
            self.send(replica, Request::plain(transaction, age, 0, RequestBody::KeepAlive));
        }
    }

    /// Takes the number of local single-shard reads per shard since the last call.
    pub fn read_alone(&self) -> BTreeMap<ShardId, u64> {
        std::mem::take(&mut self.state.lock().read_alone)
    }

    fn note(&self, shard: ShardId, range: KeyRange, at: Timestamp) {
        self.state.lock().reads.push((shard, range, at));
    }

    fn shard_store(&self, shard: ShardId) -> Result<Arc<ShardStore>, StoreError> {
        let shard_store = self.state.lock().spaces.get(&shard).cloned();
        shard_store.filter(|shard_store| !shard_store.is_behind()).ok_or(StoreError::Elsewhere)
    }

    fn note_damage<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ StoreError::Damaged { .. }) = &read {
            self.state.lock().damage = Some(error.clone());
        }
        read
    }

    pub fn set_read_lease(&self, shard: ShardId, read_lease: ReadLease) {
        self.state.lock().read_lease.insert(shard, read_lease);
    }

    /// Records the term in which a member leads.
    pub fn set_leadership(&self, replica: ReplicaId, term: u64) {
        self.map.set_leader(replica.shard, replica.node);
        self.map.learn_term(replica, term);
    }

    /// Delivers a reply to one of this node's coordinators.
    fn on_reply(&self, number: u64, reply: Response) {
        let holds = self.held_locks.lock().has(number);
        let woken = self.state.lock().waiting.respond(number, reply, holds);
        wake(woken);
    }

    pub fn answer(&self, key: node::Key, heard: RequestOutcome) {
        let woken = self.state.lock().waiting.wake(key, heard);
        wake(woken);
    }
}

impl<P: Participant> sim_protocol::RequestRouter for RequestRouter<P> {
    type Message = MessageOf<P>;

    fn node(&self) -> &SimNode<MessageOf<P>> {
        &self.node
    }

    fn receive(&self, _: NodeId, session: u64, message: MessageOf<P>) -> Option<MessageOf<P>> {
        match message {
            Message::Response(reply) => self.on_reply(session, reply),
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
fn wake(woken: impl IntoIterator<Item = Woken<oneshot::Sender<RequestOutcome>>>) {
    for (sender, heard) in woken {
        if let Some(heard) = heard {
            let _ = sender.send(heard);
        }
    }
}

impl<P: Participant> Shards for RequestRouter<P> {
    type Node = SimNode<MessageOf<P>>;

    fn node(&self) -> &SimNode<MessageOf<P>> {
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

    fn oracles(&self) -> Option<Arc<Oracles>> {
        self.oracles.clone()
    }

    fn count_local_read(&self, shard: ShardId) {
        *self.state.lock().read_alone.entry(shard).or_default() += 1;
    }

    fn read_lease(&self, shard: ShardId) -> ReadLease {
        RequestRouter::read_lease(self, shard)
    }

    fn get(
        &self,
        shard: ShardId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        let shard_store = self.shard_store(shard)?;
        self.note(shard, KeyRange::point(Key::from(key.to_vec())), at);
        self.note_damage(shard_store.get(key, at))
    }

    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError> {
        let shard_store = self.shard_store(shard)?;
        let found =
            self.note_damage(shard_store.scan(range, at, reverse, limit_rows, CHUNK_BYTES))?;
        self.note(shard, range.clone(), at);
        Ok(found)
    }

    fn request(
        &self,
        replica: ReplicaId,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<RequestOutcome>> + Send {
        let (sender, receiver) = oneshot::channel();
        let key = (request.transaction.number, request.id);
        if self.node.alarm_at(until, key) {
            self.state.lock().waiting.insert(key, replica.node, until, sender);
        }
        self.send(replica, request);
        async move { receiver.await.ok() }
    }

    fn send(&self, replica: ReplicaId, request: Request) {
        let number = request.transaction.number;
        self.node.post(number, (replica.shard, replica.node), Message::Request(request));
    }
}
