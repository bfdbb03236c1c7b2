//! How a session speaks to replicas of which none leads: to each of them by itself.

use crate::Distances;
use futures::future::{BoxFuture, Either, select};
use futures::stream::{FuturesUnordered, StreamExt};
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_replication::inconsistent::{Members, OpId};

/// What a session that waits for a round hears.
#[derive(Debug)]
pub enum Next<M> {
    /// A replica has answered.
    Answer(NodeId, M),
    /// Each replica that was asked has answered, or cannot be reached.
    All,
    /// The boot clock has reached the time until which was waited.
    Late,
}

/// Questions about one operation to several replicas, and their answers.
pub trait Round<M>: Send {
    /// Says something about the operation to replicas.
    fn ask(&mut self, nodes: &[NodeId], message: &M);
    /// Waits for the next answer until the boot clock reaches `until`. Before so many have come as
    /// are `enough`, the session need not be woken.
    fn next(&mut self, until: u64, enough: usize) -> impl Future<Output = Next<M>> + Send;
}

/// How a session speaks to replicas.
pub trait Wire: Send + Sync {
    /// What is said.
    type Message: Clone + Send;
    /// The boot clock.
    fn boot_ns(&self) -> u64;
    /// The node ends: nobody answers any more, and nothing is waited for.
    fn is_closed(&self) -> bool {
        false
    }
    /// The node and its life.
    fn here(&self) -> (NodeId, Incarnation);
    /// A number that nobody else of this life has.
    fn new_number(&self) -> u64;
    /// An operation that nobody else has.
    fn new_id(&self) -> OpId {
        let (node, incarnation) = self.here();
        OpId { node: node.0, incarnation: incarnation.0, number: self.new_number() }
    }
    /// A shard's replicas.
    fn replicas(&self, shard: ShardId) -> Vec<NodeId>;
    /// The same, with the epoch whose they are.
    fn members(&self, shard: ShardId) -> Members {
        Members::first(self.replicas(shard).into_iter().collect())
    }
    /// Says something about an operation to a replica, and waits for what it says of that until the
    /// boot clock reaches `until`; `None` if nothing came, or the node cannot be reached.
    fn ask(
        &self,
        to: (ShardId, NodeId),
        id: OpId,
        message: Self::Message,
        until: u64,
    ) -> impl Future<Output = Option<Self::Message>> + Send;
    /// Begins a round of questions about an operation. Each is given up when the boot clock reaches
    /// `until`. A node is asked in one round about an operation at a time.
    fn round(&self, shard: ShardId, id: OpId, until: u64) -> impl Round<Self::Message> {
        ByAsking { wire: self, shard, id, until, asked: FuturesUnordered::new() }
    }
    /// Says something to a replica; whatever it answers is not waited for.
    fn tell(&self, to: (ShardId, NodeId), message: Self::Message);
    /// Waits until the boot clock reaches `until`.
    fn pause(&self, until: u64) -> impl Future<Output = ()> + Send;
    /// A replica has answered after so long, or not in time: who looks for the
    /// [closest](crate::Distances) wants to know.
    fn measured(&self, _replica: NodeId, _took_ns: Option<u64>) {}
    /// How long a request to these replicas waits for answers before it is repeated, in
    /// nanoseconds, where it was repeated so many times before ([`Distances::patience_ns`]).
    fn patience_ns(&self, replicas: &[NodeId], repetition: u32) -> u64 {
        Distances::default().patience_ns(replicas, repetition)
    }
}

/// A round whose questions are asked one by one.
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
