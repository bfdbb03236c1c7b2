//! Messages between a coordinator and replicas without a leader: it contacts each of them directly.

use crate::Distances;
use futures::future::{BoxFuture, Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use meridian_machine::{NodeId, ShardId};
use meridian_replication::inconsistent::{OpId, ReplicaSet};
use meridian_txn::Node;
use parking_lot::Mutex;

/// The result of waiting in a round.
#[derive(Debug)]
pub enum Next<M> {
    /// A replica has answered.
    Answer {
        /// The replica's node.
        node: NodeId,
        /// The boot clock when the answer arrived, which may be before the session was woken.
        at_ns: u64,
        /// The answer.
        answer: M,
    },
    /// Every replica that received the request has answered, or cannot be reached.
    All,
    /// The boot clock has reached the deadline.
    Late,
}

/// A round of requests about one operation to several replicas, and their answers.
pub trait Round<M>: Send {
    /// Sends a message about the operation to replicas.
    fn ask(&mut self, nodes: &[NodeId], message: &M);
    /// Waits for the next answer until the boot clock reaches `until`. The session need not be
    /// woken before `enough` answers have arrived.
    fn next(&mut self, until: u64, enough: usize) -> impl Future<Output = Next<M>> + Send;
}

/// The links between the coordinators of one database on a node and the database's replicas, of
/// which none leads.
pub trait Wire: Send + Sync + 'static {
    /// The messages of the protocol.
    type Message: Clone + Send;
    /// The node.
    type Node: Node;
    /// The node on which the coordinators run.
    fn node(&self) -> &Self::Node;
    /// The replicas of a shard, with their epoch.
    fn members(&self, shard: ShardId) -> ReplicaSet;
    /// The measured distances of the replicas.
    fn distances(&self) -> &Mutex<Distances>;

    /// Sends a message about an operation to a replica, and waits for the response until the boot
    /// clock reaches `until`. Returns `None` without one, or if the node cannot be reached.
    fn ask(
        &self,
        to: (ShardId, NodeId),
        id: OpId,
        message: Self::Message,
        until: u64,
    ) -> impl Future<Output = Option<Self::Message>> + Send;
    /// Begins a round of requests about an operation. Each is given up when the boot clock reaches
    /// `until`. A node takes part in one round about an operation at a time.
    fn round(&self, shard: ShardId, id: OpId, until: u64) -> impl Round<Self::Message> {
        ByAsking { wire: self, shard, id, until, asked: FuturesUnordered::new() }
    }
    /// Sends a message to a replica whose response is not waited for.
    fn send(&self, to: (ShardId, NodeId), message: Self::Message);

    /// An operation id that is unique for ever.
    fn new_id(&self) -> OpId {
        let (node, incarnation) = self.node().here();
        OpId { node: node.0, incarnation: incarnation.0, number: self.node().new_number() }
    }
    /// The nodes of a shard's replicas.
    fn replicas(&self, shard: ShardId) -> Vec<NodeId> {
        Vec::from_iter(self.members(shard).replicas)
    }
    /// The replicas in the order in which a read asks them: [the closest first](Distances::order).
    /// A `fresh` read asks another one first than the read before it.
    fn nearest(&self, shard: ShardId, fresh: bool) -> Vec<NodeId> {
        let mut drawn = self.replicas(shard);
        let first = self.node().random_below(drawn.len());
        drawn.rotate_left(first);
        self.distances().lock().order(self.node().here().0, drawn, fresh)
    }
    /// Notes that a replica has answered after so many nanoseconds, or not in time.
    fn measured(&self, replica: NodeId, took_ns: Option<u64>) {
        self.distances().lock().measured(replica, took_ns);
    }
    /// The longest round trip to a replica of a shard that was measured, in nanoseconds; zero
    /// before any.
    fn round_trip_ns(&self, shard: ShardId) -> u64 {
        self.distances().lock().round_trip_ns(&self.replicas(shard))
    }
    /// How long a request to these replicas waits for answers before it is repeated, in
    /// nanoseconds, where it was repeated so many times before ([`Distances::timeout_ns`]).
    fn timeout_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        self.distances().lock().timeout_ns(replicas, repetition)
    }
}

/// A round that sends each request separately.
struct ByAsking<'w, W: Wire + ?Sized> {
    wire: &'w W,
    shard: ShardId,
    id: OpId,
    until: u64,
    asked: FuturesUnordered<BoxFuture<'w, (NodeId, Option<W::Message>)>>,
}

impl<W: Wire + ?Sized> Round<W::Message> for ByAsking<'_, W> {
    fn ask(&mut self, nodes: &[NodeId], message: &W::Message) {
        let (wire, shard, id, until) = (self.wire, self.shard, self.id, self.until);
        for node in nodes.iter().copied() {
            let message = message.clone();
            self.asked.push(Box::pin(async move {
                (node, wire.ask((shard, node), id, message, until).await)
            }));
        }
    }

    async fn next(&mut self, until: u64, _: usize) -> Next<W::Message> {
        loop {
            let late = std::pin::pin!(self.wire.node().sleep_until(until.min(self.until)));
            match select(self.asked.next(), late).await {
                Either::Left((Some((node, Some(answer))), _)) => {
                    return Next::Answer { node, at_ns: self.wire.node().boot_ns(), answer };
                }
                Either::Left((Some((_, None)), _)) => {}
                Either::Left((None, _)) => return Next::All,
                Either::Right(_) => return Next::Late,
            }
        }
    }
}
