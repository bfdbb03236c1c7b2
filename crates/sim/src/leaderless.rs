//! A node as its sessions see it, where sessions speak to replicas of which none leads: what they
//! ask is left on a desk, and answers find the question that waits for them.

use crate::carried;
use crate::clock::NodeClock;
use crate::node::{Key, SimNode};
use futures::channel::oneshot;
use meridian_clock::Timestamp;
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_replication::inconsistent::{Members, OpId};
use meridian_systems::{Distances, Wire};
use meridian_txn::Node;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A protocol without leaders.
pub trait Leaderless: 'static {
    /// What is said.
    type Message: Clone + Send + 'static;
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
    /// The nodes that have replicas, as far as this node knows.
    members: Members,
    /// A node can be reached that could not be.
    met: bool,
    /// Questions, by their numbers and the nodes that were asked; each until the boot clock shows
    /// this.
    waiting: BTreeMap<(u64, NodeId), (u64, oneshot::Sender<M>)>,
}

/// One life of one node.
pub struct Desk<L: Leaderless> {
    node: SimNode<L::Message>,
    pub own: L::Own,
    distances: Mutex<Distances>,
    state: Mutex<State<L::Message>>,
}

impl<L: Leaderless> Desk<L> {
    /// The desk of a node for one life, and the nodes that have replicas.
    pub fn new(
        clock: Arc<NodeClock>,
        here: (NodeId, Incarnation),
        members: Members,
        own: L::Own,
        seed: u64,
    ) -> Self {
        let node = SimNode::new(clock, here, members.replicas.clone(), seed);
        let state = State { members, met: true, waiting: BTreeMap::new() };
        Desk { node, own, distances: Mutex::default(), state: Mutex::new(state) }
    }

    /// Other replicas take over.
    pub fn reconfigure(&self, members: Members) {
        self.state.lock().members = members;
    }

    /// Whether a node can be reached again, or for the first time, since this was last asked.
    pub fn has_met(&self) -> bool {
        std::mem::take(&mut self.state.lock().met)
    }

    fn wait(&self, (number, node): (u64, NodeId), until: u64) -> oneshot::Receiver<L::Message> {
        let (sender, receiver) = oneshot::channel();
        if self.node.alarm_at(until, (number, node.0.into())) {
            self.state.lock().waiting.insert((number, node), (until, sender));
        }
        receiver
    }
}

impl<L: Leaderless> carried::Desk for Desk<L> {
    type Message = L::Message;

    fn node(&self) -> &SimNode<L::Message> {
        &self.node
    }

    fn hear(&self, from: NodeId, _: u64, message: L::Message) -> Option<L::Message> {
        let Some(id) = L::answers(&message) else { return Some(message) };
        let waiting = self.state.lock().waiting.remove(&(id.number, from));
        if let Some((_, waiting)) = waiting {
            let _ = waiting.send(message); // A session that is gone does not mind.
        }
        None
    }

    fn alarm(&self, (number, node): Key) {
        let key = (number, NodeId(u32::try_from(node).expect("a node's number")));
        let (now, mut state) = (self.node.boot_ns(), self.state.lock());
        // The same question may have been asked again since, for longer.
        if state.waiting.get(&key).is_some_and(|(until, _)| *until <= now) {
            state.waiting.remove(&key);
        }
    }

    fn set_reached(&self, reached: BTreeSet<NodeId>) {
        let mut state = self.state.lock();
        state.waiting.retain(|(_, node), _| reached.contains(node));
        state.met |= self.node.set_reached(reached);
    }

    fn lose(&self, node: NodeId) {
        self.state.lock().waiting.retain(|(_, other), _| *other != node);
    }

    fn damage(&self) -> Option<StoreError> {
        L::damage(&self.own)
    }

    fn reads(&self) -> Vec<(ShardId, KeyRange, Timestamp)> {
        Vec::new() // Of no timestamp.
    }

    fn close(&self) {
        self.node.close();
        self.state.lock().waiting.clear();
    }
}

impl<L: Leaderless> Wire for Desk<L> {
    type Message = L::Message;
    type Node = SimNode<L::Message>;

    fn node(&self) -> &SimNode<L::Message> {
        &self.node
    }

    fn members(&self, _: ShardId) -> Members {
        self.state.lock().members.clone()
    }

    fn distances(&self) -> &Mutex<Distances> {
        &self.distances
    }

    /// What no node would answer is said, too: it may get there.
    async fn ask(
        &self,
        to: (ShardId, NodeId),
        id: OpId,
        message: L::Message,
        until: u64,
    ) -> Option<L::Message> {
        let answer = self.node.reaches(to.1).then(|| self.wait((id.number, to.1), until));
        self.tell(to, message);
        answer?.await.ok()
    }

    fn tell(&self, to: (ShardId, NodeId), message: L::Message) {
        self.node.say(0, to, message); // Sessions are told apart by what they have asked.
    }
}
