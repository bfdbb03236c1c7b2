//! Messages between a coordinator and replicas without a leader: it contacts each of them directly.

use crate::Distances;
use futures::future::{BoxFuture, Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_replication::inconsistent::{Members, OpId};

/// The result of waiting in a round.
#[derive(Debug)]
pub enum Next<M> {
    /// A replica has answered.
    Answer(NodeId, M),
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

/// A session's connection to replicas.
pub trait Wire: Send + Sync {
    /// The messages of the protocol.
    type Message: Clone + Send;
    /// Returns the boot clock, in nanoseconds.
    fn boot_ns(&self) -> u64;
    /// True if the node is stopping: no answer will arrive.
    fn is_closed(&self) -> bool {
        false
    }
    /// Returns the node and its incarnation.
    fn here(&self) -> (NodeId, Incarnation);
    /// Returns a number that is unique in this incarnation.
    fn new_number(&self) -> u64;
    /// Returns a unique operation id.
    fn new_id(&self) -> OpId {
        let (node, incarnation) = self.here();
        OpId { node: node.0, incarnation: incarnation.0, number: self.new_number() }
    }
    /// A shard's replicas.
    fn replicas(&self, shard: ShardId) -> Vec<NodeId>;
    /// Returns a shard's replicas, with their epoch.
    fn members(&self, shard: ShardId) -> Members {
        Members::first(self.replicas(shard).into_iter().collect())
    }
    /// Sends a message about an operation to a replica, and waits for the answer until the boot
    /// clock reaches `until`. Returns `None` if none arrived, or the node cannot be reached.
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
    /// Sends a message to a replica, and does not wait for an answer.
    fn tell(&self, to: (ShardId, NodeId), message: Self::Message);
    /// Waits until the boot clock reaches `until`.
    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send;
    /// Records how long a replica took to answer, in nanoseconds, or `None` if it did not answer in
    /// time ([`Distances`]).
    fn measured(&self, _replica: NodeId, _took_ns: Option<u64>) {}
    /// Returns how long a request to these replicas waits for answers before it is repeated, in
    /// nanoseconds, after so many repetitions ([`Distances::patience_ns`]).
    fn patience_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        Distances::default().patience_ns(replicas, repetition)
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
            let late = std::pin::pin!(self.wire.pause(until.min(self.until)));
            match select(self.asked.next(), late).await {
                Either::Left((Some((node, Some(answer))), _)) => return Next::Answer(node, answer),
                Either::Left((Some((_, None)), _)) => {}
                Either::Left((None, _)) => return Next::All,
                Either::Right(_) => return Next::Late,
            }
        }
    }
}
