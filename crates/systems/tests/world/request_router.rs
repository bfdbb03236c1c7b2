//! A node as its sessions see it: their requests are queued, and the world carries them out.

use super::{KEYS, MS, SHARDS};
use futures::channel::oneshot;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Address, DatabaseId, Incarnation, NodeId, ShardId};
use meridian_mvcc::{Chunk, Key as Name, KeyRange, Value, Write};
use meridian_replication::inconsistent::{OpId, ReplicaSet};
use meridian_systems::tapir::{Message, Page, invoke, look, send_end};
use meridian_systems::{Distances, Wire};
use meridian_txn::tapir::{Common, ConsensusOp, End, ReadResult, Shards, SnapshotRead};
use meridian_txn::{Failure, Node};
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A message about an operation to a replica, or a pause.
pub type Key = (u64, NodeId);

pub enum RouterEffect {
    Say((ShardId, NodeId), Message),
    Alarm(u64, Key),
}

pub fn node(at: usize) -> NodeId {
    NodeId(at as u32 + 1)
}

pub fn replica_of(shard: ShardId, node: NodeId) -> Address {
    Address::replica(node, DatabaseId(1), shard)
}

pub fn shard_of(address: Address) -> usize {
    address.shard.0 as usize
}

/// Returns the keys of a shard: half of them each.
pub fn bounds(shard: usize) -> KeyRange {
    let middle = Name::from(&[b'a' + KEYS / 2][..]);
    let (first, second) = KeyRange::all().cut(&middle);
    if shard == 0 { first } else { second }
}

type Store = BTreeMap<Name, BTreeMap<Timestamp, Option<Value>>>;

/// The versions that replicas have installed, and the running nodes.
pub struct Shared {
    stores: Vec<Option<Store>>,
    /// The part of them that survives a crash.
    disks: Vec<Store>,
    /// The settled timestamps of each node's replicas.
    settled: Vec<[Timestamp; SHARDS]>,
    /// True if reads take time and sometimes go to a random node. Otherwise they go to the own
    /// node, at once.
    wander: bool,
    rng: ChaCha8Rng,
}

impl Shared {
    /// Without `wander` only the backoff after conflicts is random.
    pub fn new(nodes: usize, seed: u64, wander: bool) -> Shared {
        let (stores, disks) = (vec![None; nodes], vec![Store::new(); nodes]);
        let settled = vec![[Timestamp::ZERO; SHARDS]; nodes];
        Shared { stores, disks, settled, wander, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    pub fn begin(&mut self, node: usize) {
        self.stores[node] = Some(self.disks[node].clone());
        self.settled[node] = [Timestamp::ZERO; SHARDS];
    }

    pub fn sync(&mut self, node: usize) {
        self.stores[node].iter().for_each(|store| self.disks[node].clone_from(store));
    }

    pub fn settle(&mut self, node: usize, shard: usize, through: Timestamp) {
        self.settled[node][shard] = through;
    }

    pub fn end(&mut self, node: usize) {
        self.stores[node] = None;
    }

    pub fn install(&mut self, node: usize, at: Timestamp, writes: Vec<Write>) {
        let Some(store) = &mut self.stores[node] else { return };
        for Write { key, value } in writes {
            store.entry(key).or_default().insert(at, value);
        }
    }

    /// Returns a node's version of a key at a timestamp.
    pub fn version(&self, node: usize, key: &Name, at: Timestamp) -> Option<Option<Value>> {
        self.stores[node].as_ref()?.get(key)?.get(&at).cloned()
    }

    /// Returns a node's versions of a range at a timestamp.
    pub fn page(
        &self,
        node: usize,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit: usize,
    ) -> Option<Page> {
        let store = self.stores[node].as_ref()?;
        let newest = store.iter().filter(|(key, _)| range.contains(key));
        let newest =
            newest.filter_map(|(key, versions)| Some((key, versions.range(..=at).next_back()?)));
        let mut all: Vec<_> = newest.collect();
        if reverse {
            all.reverse();
        }
        let (mut page, mut live) = (Page::default(), 0);
        for (key, (at, value)) in all {
            if live == limit {
                page.rest = Some(range.from_key(key, reverse));
                break;
            }
            live += usize::from(value.is_some());
            page.versions.push((*at, Write { key: key.clone(), value: value.clone() }));
        }
        Some(page)
    }

    fn find(&self, node: usize, range: &KeyRange, reverse: bool, limit: usize) -> Option<Chunk> {
        let store = self.stores[node].as_ref()?;
        let newest = store.iter().filter(|(key, _)| range.contains(key));
        let newest = newest.filter_map(|(key, versions)| Some((key, versions.last_key_value()?)));
        let mut all: Vec<_> = newest.collect();
        if reverse {
            all.reverse();
        }
        let mut chunk = Chunk::default();
        for (key, (at, value)) in all {
            if chunk.rows.len() == limit {
                chunk.rest = Some(range.from_key(key, reverse));
                break;
            }
            match value {
                Some(value) => {
                    chunk.rows.push((key.clone(), value.clone()));
                    chunk.at.push(*at);
                }
                None => chunk.gone.push((key.clone(), *at)),
            }
        }
        Some(chunk)
    }
}

struct State {
    now: Reading,
    numbers: u64,
    waiting: BTreeMap<Key, oneshot::Sender<Message>>,
    effects: Vec<RouterEffect>,
}

/// A node between two restarts.
pub struct RequestRouter {
    me: usize,
    incarnation: u32,
    shared: Arc<Mutex<Shared>>,
    state: Mutex<State>,
    distances: Mutex<Distances>,
}

impl RequestRouter {
    pub fn new(me: usize, incarnation: u32, shared: Arc<Mutex<Shared>>) -> RequestRouter {
        let now = Reading::at(0, meridian_clock::Interval::around(0, 0));
        let state = State { now, numbers: 0, waiting: BTreeMap::new(), effects: Vec::new() };
        RequestRouter {
            me,
            incarnation,
            shared,
            state: Mutex::new(state),
            distances: Mutex::default(),
        }
    }

    pub fn set(&self, now: Reading) {
        self.state.lock().now = now;
    }

    pub fn take_effects(&self) -> Vec<RouterEffect> {
        std::mem::take(&mut self.state.lock().effects)
    }

    pub fn hear(&self, from: NodeId, said: Message) {
        let Some(id) = said.answers() else { return };
        if let Some(sender) = self.state.lock().waiting.remove(&(id.number, from)) {
            let _ = sender.send(said); // The session may be gone.
        }
    }

    pub fn alarm(&self, key: Key) {
        self.state.lock().waiting.remove(&key);
    }

    fn number(&self) -> u64 {
        let mut state = self.state.lock();
        state.numbers += 1;
        state.numbers
    }

    fn wait(&self, key: Key, until: u64) -> oneshot::Receiver<Message> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        state.waiting.insert(key, sender);
        state.effects.push(RouterEffect::Alarm(until, key));
        receiver
    }

    fn nodes(&self) -> usize {
        self.shared.lock().stores.len()
    }

    fn say(&self, to: (ShardId, NodeId), message: Message) {
        self.state.lock().effects.push(RouterEffect::Say(to, message));
    }
}

impl Node for RequestRouter {
    fn now(&self) -> Reading {
        self.state.lock().now
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (node(self.me), Incarnation(self.incarnation))
    }

    fn new_number(&self) -> u64 {
        self.number()
    }

    fn random(&self) -> f64 {
        self.shared.lock().rng.random_range(0.0..1.0)
    }

    fn random_below(&self, bound: usize) -> usize {
        self.shared.lock().rng.random_range(0..bound.max(1))
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
        let key = (self.number(), NodeId(0));
        let _ = self.wait(key, until).await;
    }
}

impl Wire for RequestRouter {
    type Message = Message;
    type Node = Self;

    fn node(&self) -> &Self {
        self
    }

    fn members(&self, _: ShardId) -> ReplicaSet {
        ReplicaSet::first((0..self.nodes()).map(node).collect())
    }

    fn distances(&self) -> &Mutex<Distances> {
        &self.distances
    }

    /// All nodes stay as far away as they are.
    fn measured(&self, _: NodeId, _: Option<u64>) {}

    async fn ask(
        &self,
        to: (ShardId, NodeId),
        id: OpId,
        message: Message,
        until: u64,
    ) -> Option<Message> {
        let answer = self.wait((id.number, to.1), until);
        self.say(to, message);
        answer.await.ok()
    }

    fn send(&self, to: (ShardId, NodeId), message: Message) {
        self.say(to, message);
    }
}

impl Shards for RequestRouter {
    type Node = Self;

    fn node(&self) -> &Self {
        self
    }

    fn route(&self, key: &Name) -> (ShardId, KeyRange) {
        let shard =
            (0..SHARDS).find(|shard| bounds(*shard).contains(key)).expect("some shard has it");
        (ShardId(shard as u32), bounds(shard))
    }

    fn route_below(&self, end: Option<&Name>) -> (ShardId, KeyRange) {
        let below = |shard: &usize| end.is_none_or(|end| bounds(*shard).start < *end);
        let shard = (0..SHARDS).rev().find(below).unwrap_or(0);
        (ShardId(shard as u32), bounds(shard))
    }

    async fn read(
        &self,
        shard: ShardId,
        range: &KeyRange,
        (reverse, limit): (bool, usize),
        fresh: bool,
        until: u64,
    ) -> Option<Result<ReadResult, Failure>> {
        while self.boot_ns() < until {
            let (asked, after) = {
                let mut shared = self.shared.lock();
                let nodes = shared.stores.len();
                let wanders = shared.wander;
                let elsewhere = wanders && (fresh || shared.rng.random_range(0..4) == 0);
                let asked = if elsewhere { shared.rng.random_range(0..nodes) } else { self.me };
                (asked, wanders.then(|| shared.rng.random_range(0..2 * MS)))
            };
            if let Some(after) = after {
                self.sleep_until(self.boot_ns() + after).await;
            }
            let shared = self.shared.lock();
            if let Some(chunk) = shared.find(asked, range, reverse, limit) {
                return Some(Ok(ReadResult {
                    chunk,
                    through: shared.settled[asked][shard.0 as usize],
                }));
            }
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
    ) -> Option<Result<SnapshotRead, Failure>> {
        look(self, shard, range, at, how, until).await
    }

    async fn ask(&self, shard: ShardId, question: ConsensusOp, until: u64) -> Option<Common> {
        invoke(self, shard, &question, until).await
    }

    fn send(&self, shard: ShardId, end: End) {
        send_end(self, shard, &end);
    }
}
