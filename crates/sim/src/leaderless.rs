//! The simulated request router of a node of a leaderless protocol: it sends the requests of
//! sessions to replicas, and hands each response to the request that waits for it.

use crate::clock::NodeClock;
use crate::node::{Key, SimNode};
use crate::sim_protocol;
use futures::channel::oneshot;
use meridian_clock::Timestamp;
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_mvcc::{KeyRange, StoreError};
use meridian_replication::inconsistent::{OpId, ReplicaSet};
use meridian_systems::{Distances, Wire};
use meridian_txn::Node;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A protocol without leaders.
pub trait Leaderless: 'static {
    /// The protocol's messages.
    type Message: Clone + Send + 'static;
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
    /// The nodes that have replicas, as far as this node knows.
    members: ReplicaSet,
    /// True if a node became reachable since `has_met` was last called.
    met: bool,
    /// The waiting requests, by their numbers and the replicas' nodes, each with the boot time at
    /// which it expires.
    waiting: BTreeMap<(u64, NodeId), (u64, oneshot::Sender<M>)>,
}

/// The request router of one incarnation of a node.
pub struct RequestRouter<L: Leaderless> {
    node: SimNode<L::Message>,
    pub(crate) own: L::Own,
    distances: Mutex<Distances>,
    state: Mutex<State<L::Message>>,
}

impl<L: Leaderless> RequestRouter<L> {
    /// Creates the router of an incarnation.
    pub(crate) fn new(
        clock: Arc<NodeClock>,
        here: (NodeId, Incarnation),
        members: ReplicaSet,
        own: L::Own,
        seed: u64,
    ) -> Self {
        let node = SimNode::new(clock, here, members.replicas.clone(), seed);
        let state = State { members, met: true, waiting: BTreeMap::new() };
        RequestRouter { node, own, distances: Mutex::default(), state: Mutex::new(state) }
    }

    /// Sets the replicas after a reconfiguration.
    pub fn reconfigure(&self, members: ReplicaSet) {
        self.state.lock().members = members;
    }

    /// True if a node has become reachable since the last call.
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

impl<L: Leaderless> sim_protocol::RequestRouter for RequestRouter<L> {
    type Message = L::Message;

    fn node(&self) -> &SimNode<L::Message> {
        &self.node
    }

    fn receive(&self, from: NodeId, _: u64, message: L::Message) -> Option<L::Message> {
        let Some(id) = L::answers(&message) else { return Some(message) };
        let waiting = self.state.lock().waiting.remove(&(id.number, from));
        if let Some((_, waiting)) = waiting {
            let _ = waiting.send(message); // Fails if the session has closed.
        }
        None
    }

    fn alarm(&self, (number, node): Key) {
        let key = (number, NodeId(u32::try_from(node).expect("a node's number")));
        let (now, mut state) = (self.node.boot_ns(), self.state.lock());
        // The request may have been repeated since, with a later expiry.
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
        Vec::new() // Reads have no timestamp here.
    }

    fn close(&self) {
        self.node.close();
        self.state.lock().waiting.clear();
    }
}

impl<L: Leaderless> Wire for RequestRouter<L> {
    type Message = L::Message;
    type Node = SimNode<L::Message>;

    fn node(&self) -> &SimNode<L::Message> {
        &self.node
    }

    fn members(&self, _: ShardId) -> ReplicaSet {
        self.state.lock().members.clone()
    }

    fn distances(&self) -> &Mutex<Distances> {
        &self.distances
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
        let answer = self.node.reaches(to.1).then(|| self.wait((id.number, to.1), until));
        self.send(to, message);
        answer?.await.ok()
    }

    fn send(&self, to: (ShardId, NodeId), message: L::Message) {
        self.node.post(0, to, message); // Sessions are told apart by what they have asked.
    }
}
