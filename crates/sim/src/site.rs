//! A node as the coordinators on it see it: what they ask for is left on a desk, and the world takes it from there.

use crate::clock::NodeClock;
use futures::channel::oneshot;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Incarnation, NodeId};
use meridian_mvcc::{Chunk, KeyRange, StoreError, Version};
use meridian_store::Space;
use meridian_txn::Age;
use meridian_txn::locking::{Ask, Heard, Readable, Reply, Request, Site, TransactionId};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Who waits: an attempt's number and its question's, or a pause.
pub type Key = (u64, u64);

const CHUNK_BYTES: usize = 1 << 16;

/// What coordinators want of the world.
pub enum Wish {
    /// Say this to a node's member.
    Ask(NodeId, Request),
    /// Let go of who waits here when the boot clock shows this.
    Alarm(u64, Key),
}

struct Waiting {
    sender: oneshot::Sender<Heard>,
    node: NodeId,
    waits: bool,
}

#[derive(Default)]
struct State {
    closed: bool,
    disk_full: bool,
    numbers: u64,
    readable: Readable,
    leader: NodeId,
    reached: BTreeSet<NodeId>,
    waiting: BTreeMap<Key, Waiting>,
    wishes: Vec<Wish>,
    holding: BTreeMap<u64, (NodeId, TransactionId, Age)>,
    read_alone: u64,
    /// What a session found when it read here by itself.
    damage: Option<StoreError>,
    /// Snapshots that sessions have read here by themselves.
    reads: Vec<(KeyRange, Timestamp)>,
}

/// One life of one node.
pub struct Desk {
    clock: Arc<NodeClock>,
    me: NodeId,
    incarnation: Incarnation,
    members: Vec<NodeId>,
    space: Arc<Space>,
    state: Mutex<State>,
}

impl Desk {
    pub fn new(
        clock: Arc<NodeClock>,
        me: NodeId,
        incarnation: Incarnation,
        members: Vec<NodeId>,
        space: Arc<Space>,
    ) -> Self {
        let state = State { leader: me, reached: members.iter().copied().collect(), ..State::default() };
        Desk { clock, me, incarnation, members, space, state: Mutex::new(state) }
    }

    pub fn wishes(&self) -> Vec<Wish> {
        std::mem::take(&mut self.state.lock().wishes)
    }

    /// Says to leaders that idle sessions live on.
    pub fn keep_alive(&self) {
        let mut state = self.state.lock();
        let holding: Vec<_> = state.holding.values().copied().collect();
        for (node, transaction, age) in holding {
            let request = Request { transaction, age, id: 0, footing: None, ask: Ask::KeepAlive };
            state.wishes.push(Wish::Ask(node, request));
        }
    }

    /// How many transactions have read here by themselves since this was last asked.
    pub fn read_alone(&self) -> u64 {
        std::mem::take(&mut self.state.lock().read_alone)
    }

    /// What sessions have read here by themselves since this was last asked.
    pub fn reads(&self) -> Vec<(KeyRange, Timestamp)> {
        std::mem::take(&mut self.state.lock().reads)
    }

    fn note(&self, range: KeyRange, at: Timestamp) {
        self.state.lock().reads.push((range, at));
    }

    /// What is damaged here, if a session has found out.
    pub fn damage(&self) -> Option<StoreError> {
        self.state.lock().damage.clone()
    }

    fn heed<T>(&self, read: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error @ StoreError::Damaged { .. }) = &read {
            self.state.lock().damage = Some(error.clone());
        }
        read
    }

    pub fn set_readable(&self, readable: Readable) {
        self.state.lock().readable = readable;
    }

    pub fn set_leader(&self, leader: NodeId) {
        self.state.lock().leader = leader;
    }

    pub fn set_disk_full(&self, full: bool) {
        self.state.lock().disk_full = full;
    }

    /// These nodes can be spoken to; who waits for another hears nothing.
    pub fn set_reached(&self, reached: BTreeSet<NodeId>) {
        let mut state = self.state.lock();
        state.waiting.retain(|_, waiting| reached.contains(&waiting.node));
        state.reached = reached;
    }

    /// The connection to a node broke: who waits for it hears nothing.
    pub fn lose(&self, node: NodeId) {
        self.state.lock().waiting.retain(|_, waiting| waiting.node != node);
    }

    /// The node ends.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
    }

    /// An answer for one of its coordinators.
    pub fn hear(&self, number: u64, reply: Reply) {
        let id = reply.id();
        if let Reply::Waiting { .. } = reply {
            if let Some(waiting) = self.state.lock().waiting.get_mut(&(number, id)) {
                waiting.waits = true;
            }
            return;
        }
        self.answer((number, id), Heard::Reply(reply));
    }

    pub fn answer(&self, key: Key, heard: Heard) {
        let waiting = self.state.lock().waiting.remove(&key);
        if let Some(waiting) = waiting {
            let _ = waiting.sender.send(heard); // A session that is gone does not mind.
        }
    }

    /// Its time is up.
    pub fn alarm(&self, key: Key) {
        let waiting = self.state.lock().waiting.remove(&key);
        if let Some(waiting) = waiting.filter(|waiting| waiting.waits) {
            let _ = waiting.sender.send(Heard::Waits);
        }
    }

    fn wait(&self, key: Key, node: NodeId, until: u64) -> oneshot::Receiver<Heard> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.closed {
            state.waiting.insert(key, Waiting { sender, node, waits: false });
            state.wishes.push(Wish::Alarm(until, key));
        }
        receiver
    }
}

/// A desk, shared by the world and the coordinators.
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

    fn describe(&self) -> String {
        "the group".into()
    }

    fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }

    fn is_full(&self) -> bool {
        self.0.state.lock().disk_full
    }

    fn is_crowded(&self) -> bool {
        false // No run of the simulator writes so much.
    }

    fn reads_alone(&self) {
        self.0.state.lock().read_alone += 1;
    }

    fn readable(&self) -> Readable {
        self.0.state.lock().readable
    }

    fn get(&self, key: &[u8], at: Timestamp) -> Result<Option<Version>, StoreError> {
        self.0.note(KeyRange::point(meridian_mvcc::Key::from(key.to_vec())), at);
        self.0.heed(self.0.space.get(key, at))
    }

    fn scan(&self, range: &KeyRange, at: Timestamp, reverse: bool, limit_rows: usize) -> Result<Chunk, StoreError> {
        self.0.note(range.clone(), at);
        self.0.heed(self.0.space.scan(range, at, reverse, limit_rows, CHUNK_BYTES))
    }

    fn leader(&self) -> NodeId {
        self.0.state.lock().leader
    }

    fn heard_of_leader(&self, asked: NodeId, leader: Option<NodeId>) {
        let next = || self.0.members.iter().find(|node| **node > asked).or(self.0.members.first()).copied();
        if let Some(leader) = leader.or_else(next) {
            self.0.set_leader(leader);
        }
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.0.state.lock().reached.contains(&node)
    }

    fn ask(&self, node: NodeId, request: Request, until: u64) -> impl Future<Output = Option<Heard>> + Send {
        let receiver = self.0.wait((request.transaction.number, request.id), node, until);
        self.tell(node, request);
        async move { receiver.await.ok() }
    }

    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send {
        let receiver = self.0.wait((u64::MAX, self.new_number()), self.0.me, until);
        async move { drop(receiver.await) }
    }

    fn tell(&self, node: NodeId, request: Request) {
        let mut state = self.0.state.lock();
        if !state.closed {
            state.wishes.push(Wish::Ask(node, request));
        }
    }

    fn holds(&self, node: NodeId, transaction: TransactionId, age: Age) {
        self.0.state.lock().holding.insert(transaction.number, (node, transaction, age));
    }

    fn holds_no_more(&self, transaction: TransactionId) {
        self.0.state.lock().holding.remove(&transaction.number);
    }
}
