//! A simulated node, as the coordinators on it see it, whichever protocol they speak.
//!
//! What coordinators ask of the world (send this, wake me then) is queued here, in order, and the
//! world takes it from the queue after each poll.

use crate::clock::NodeClock;
use crate::node_process::address;
use futures::channel::oneshot;
use meridian_clock::Reading;
use meridian_machine::{Address, Incarnation, NodeId, Role, ShardId};
use meridian_txn::Node;
use parking_lot::Mutex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The purpose of an alarm: a request, by two numbers of the protocol; or a sleep, by [`SLEEP`] and
/// the sleep's number.
pub type Key = (u64, u64);

/// The first number of a sleep's key.
pub const SLEEP: u64 = u64::MAX;

/// A request of coordinators to the world.
pub enum RouterEffect<M> {
    /// Send this to a shard's replica.
    Say {
        /// The coordinator.
        from: Address,
        /// The replica.
        to: Address,
        /// The message.
        message: Box<M>,
    },
    /// Wake what waits under this key when the boot clock shows this.
    Alarm(u64, Key),
}

struct State<M> {
    closed: bool,
    disk_full: bool,
    numbers: u64,
    rng: ChaCha8Rng,
    reached: BTreeSet<NodeId>,
    sleeping: BTreeMap<u64, oneshot::Sender<()>>,
    effects: Vec<RouterEffect<M>>,
}

/// A node for one incarnation.
pub struct SimNode<M> {
    clock: Arc<NodeClock>,
    me: NodeId,
    incarnation: Incarnation,
    state: Mutex<State<M>>,
}

impl<M> SimNode<M> {
    /// A node that reaches all nodes of `reached`.
    pub fn new(
        clock: Arc<NodeClock>,
        (me, incarnation): (NodeId, Incarnation),
        reached: BTreeSet<NodeId>,
        seed: u64,
    ) -> Self {
        let state = State {
            closed: false,
            disk_full: false,
            numbers: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            reached,
            sleeping: BTreeMap::new(),
            effects: Vec::new(),
        };
        SimNode { clock, me, incarnation, state: Mutex::new(state) }
    }

    /// Takes what coordinators have asked of the world since the last call.
    pub fn take_effects(&self) -> Vec<RouterEffect<M>> {
        std::mem::take(&mut self.state.lock().effects)
    }

    /// Sends a message to a shard's replica, as the coordinator of this number.
    pub fn post(&self, number: u64, (shard, node): (ShardId, NodeId), message: M) {
        let role = Role::Coordinator(number);
        let from = Address { incarnation: self.incarnation, role, ..address(self.me, shard) };
        let (to, message) = (address(node, shard), Box::new(message));
        let mut state = self.state.lock();
        if !state.closed {
            state.effects.push(RouterEffect::Say { from, to, message });
        }
    }

    /// Asks for an alarm. Returns false, and asks for none, once the node is closed.
    pub fn alarm_at(&self, until: u64, key: Key) -> bool {
        let mut state = self.state.lock();
        if !state.closed {
            state.effects.push(RouterEffect::Alarm(until, key));
        }
        !state.closed
    }

    /// Wakes a sleep whose time has come.
    pub fn wake(&self, number: u64) {
        self.state.lock().sleeping.remove(&number);
    }

    /// From now on these nodes are reached. Returns whether one of them was not.
    pub fn set_reached(&self, reached: BTreeSet<NodeId>) -> bool {
        let mut state = self.state.lock();
        let meets = !reached.is_subset(&state.reached);
        state.reached = reached;
        meets
    }

    /// Sets whether the disk has no room for writes.
    pub fn set_disk_full(&self, full: bool) {
        self.state.lock().disk_full = full;
    }

    /// Wakes all sleeps, and asks the world for nothing any more.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.sleeping.clear();
    }
}

impl<M: Send + 'static> Node for SimNode<M> {
    fn now(&self) -> Reading {
        self.clock.reading()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        (self.me, self.incarnation)
    }

    fn new_number(&self) -> u64 {
        let mut state = self.state.lock();
        state.numbers += 1;
        state.numbers
    }

    fn random(&self) -> f64 {
        self.state.lock().rng.random_range(0.0..1.0)
    }

    fn random_below(&self, bound: usize) -> usize {
        self.state.lock().rng.random_range(0..bound.max(1))
    }

    fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    fn is_full(&self) -> bool {
        self.state.lock().disk_full
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.state.lock().reached.contains(&node)
    }

    async fn sleep_until(&self, until: u64) {
        let (sender, receiver) = oneshot::channel();
        let number = self.new_number();
        if self.alarm_at(until, (SLEEP, number)) {
            self.state.lock().sleeping.insert(number, sender);
            let _ = receiver.await;
        }
    }
}
