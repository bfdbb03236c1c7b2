//! A node as its sessions see it: their requests are queued, and the world carries them out.

use futures::channel::oneshot;
use meridian_clock::{Interval, Reading, Timestamp};
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, Role, ShardId};
use meridian_mvcc::{Chunk, Key, KeyRange, StoreError, Value, Version};
use meridian_txn::Node as TxnNode;
use meridian_txn::shards::{
    HeldLocks, PendingRequests, ReadLease, ReplicaId, Request, RequestOutcome, Response, ShardMap,
    Shards,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

pub const SHARDS: usize = 2;
/// The first number of a sleep's key.
const SLEEP: u64 = u64::MAX;

/// The versions of a shard.
pub type Store = BTreeMap<Key, BTreeMap<Timestamp, Option<Value>>>;

pub enum RouterEffect {
    Say(Address, Address, Box<Request>),
    Alarm(u64, (u64, u64)),
}

pub fn name(node: usize) -> NodeId {
    NodeId(node as u32 + 1)
}

pub fn number(node: NodeId) -> usize {
    node.0 as usize - 1
}

/// Returns the address of a shard's only member.
pub fn home(shard: usize) -> Address {
    Address::replica(name(shard), DatabaseId(1), ShardId(shard as u32))
}

/// Returns the keys of a shard.
pub fn bounds(shard: usize) -> KeyRange {
    let (first, second) = KeyRange::all().cut(&Key::from("n"));
    if shard == 0 { first } else { second }
}

/// Reads a range of a shard as of a timestamp.
pub fn look(store: &Store, range: &KeyRange, at: Timestamp, reverse: bool, limit: usize) -> Chunk {
    let within = store.iter().filter(|(key, _)| range.contains(key));
    let newest = within.filter_map(|(key, all)| Some((key, all.range(..=at).next_back()?)));
    let live = newest.filter_map(|(key, (at, value))| Some((key, *at, value.clone()?)));
    let mut all: Vec<_> = live.collect();
    if reverse {
        all.reverse();
    }
    let mut chunk = Chunk::default();
    for (key, at, value) in all {
        if chunk.rows.len() == limit {
            chunk.rest = Some(range.from_key(key, reverse));
            break;
        }
        chunk.rows.push((key.clone(), value));
        chunk.at.push(at);
    }
    chunk
}

struct State {
    now: Reading,
    numbers: u64,
    leases: BTreeMap<ShardId, ReadLease>,
    waiting: PendingRequests<oneshot::Sender<RequestOutcome>>,
    sleeping: BTreeMap<u64, oneshot::Sender<()>>,
    effects: Vec<RouterEffect>,
}

pub struct Node {
    me: usize,
    map: ShardMap,
    held_locks: Mutex<HeldLocks>,
    stores: Arc<Mutex<[Store; SHARDS]>>,
    state: Mutex<State>,
}

impl Node {
    pub fn new(me: usize, nodes: Vec<NodeId>, stores: Arc<Mutex<[Store; SHARDS]>>) -> Node {
        let map = ShardMap::new(name(me), nodes);
        for shard in 0..SHARDS {
            map.learn_bounds(&bounds(shard), ShardId(shard as u32));
            map.set_leader(ShardId(shard as u32), name(shard));
        }
        let state = State {
            now: Reading::at(0, Interval::around(0, 0)),
            numbers: 0,
            leases: BTreeMap::new(),
            waiting: PendingRequests::default(),
            sleeping: BTreeMap::new(),
            effects: Vec::new(),
        };
        Node { me, map, held_locks: Mutex::default(), stores, state: Mutex::new(state) }
    }

    pub fn set(&self, now: Reading) {
        self.state.lock().now = now;
    }

    pub fn set_read_lease(&self, shard: ShardId, lease: ReadLease) {
        self.state.lock().leases.insert(shard, lease);
    }

    pub fn learn_term(&self, leader: ReplicaId, term: u64) {
        self.map.learn_term(leader, term);
    }

    /// Returns the number of the last transaction that began.
    pub fn last_number(&self) -> u64 {
        self.state.lock().numbers
    }

    pub fn take_effects(&self) -> Vec<RouterEffect> {
        std::mem::take(&mut self.state.lock().effects)
    }

    /// Delivers a response to a session.
    pub fn hear(&self, session: u64, response: Response) {
        let holds = self.held_locks.lock().has(session);
        let woken = self.state.lock().waiting.respond(session, response, holds);
        for (sender, heard) in woken {
            if let Some(heard) = heard {
                let _ = sender.send(heard);
            }
        }
    }

    pub fn alarm(&self, key: (u64, u64)) {
        let mut state = self.state.lock();
        if key.0 == SLEEP {
            state.sleeping.remove(&key.1);
        } else if let Some((sender, Some(heard))) = state.waiting.expire(key) {
            let _ = sender.send(heard);
        }
    }
}

impl TxnNode for Node {
    fn now(&self) -> Reading {
        self.state.lock().now
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (name(self.me), Incarnation(1))
    }

    fn new_number(&self) -> u64 {
        let mut state = self.state.lock();
        state.numbers += 1;
        state.numbers
    }

    fn random(&self) -> f64 {
        0.5
    }

    fn random_below(&self, _: usize) -> usize {
        0
    }

    fn is_closed(&self) -> bool {
        false
    }

    fn is_full(&self) -> bool {
        false
    }

    fn reaches(&self, _: NodeId) -> bool {
        true
    }

    async fn sleep_until(&self, until: u64) {
        let (sender, receiver) = oneshot::channel();
        let number = self.new_number();
        {
            let mut state = self.state.lock();
            state.effects.push(RouterEffect::Alarm(until, (SLEEP, number)));
            state.sleeping.insert(number, sender);
        }
        let _ = receiver.await;
    }
}

impl Shards for Node {
    type Node = Self;

    fn node(&self) -> &Self {
        self
    }

    fn map(&self) -> &ShardMap {
        &self.map
    }

    fn held_locks(&self) -> &Mutex<HeldLocks> {
        &self.held_locks
    }

    fn describe(&self, shard: ShardId) -> String {
        format!("s{}", shard.0 + 1)
    }

    fn count_local_read(&self, _: ShardId) {}

    fn read_lease(&self, shard: ShardId) -> ReadLease {
        self.state.lock().leases.get(&shard).copied().unwrap_or_default()
    }

    fn get(
        &self,
        shard: ShardId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        let stores = self.stores.lock();
        let versions = stores[shard.0 as usize].get(key);
        let found = versions.and_then(|all| all.range(..=at).next_back());
        Ok(found.map(|(at, value)| Version { at: *at, value: value.clone() }))
    }

    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit: usize,
    ) -> Result<Chunk, StoreError> {
        Ok(look(&self.stores.lock()[shard.0 as usize], range, at, reverse, limit))
    }

    fn request(
        &self,
        replica: ReplicaId,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<RequestOutcome>> + Send {
        let (sender, receiver) = oneshot::channel();
        let key = (request.transaction.number, request.id);
        {
            let mut state = self.state.lock();
            state.effects.push(RouterEffect::Alarm(until, key));
            state.waiting.insert(key, replica.node, until, sender);
        }
        self.send(replica, request);
        async move { receiver.await.ok() }
    }

    fn send(&self, ReplicaId { shard, node }: ReplicaId, request: Request) {
        let role = Role::Coordinator(request.transaction.number);
        let replica = |node| Address::replica(node, DatabaseId(1), shard);
        let from = Address { incarnation: Incarnation(1), role, ..replica(name(self.me)) };
        let say = RouterEffect::Say(from, replica(node), Box::new(request));
        self.state.lock().effects.push(say);
    }
}
