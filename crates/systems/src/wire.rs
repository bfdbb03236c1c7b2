//! How a session speaks to replicas of which none leads: to each of them by itself.

use crate::Distances;
use meridian_machine::{Incarnation, NodeId, ShardId};
use meridian_replication::inconsistent::{Members, OpId};

/// How a session speaks to replicas.
pub trait Wire: Send + Sync {
    /// What is said.
    type Message: Send;
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
