//! The interface of a world to a protocol of another crate. The protocols of this crate use its
//! fields.

use super::World;
use crate::journal::Records;
use crate::leaderless::{Leaderless, RequestRouter};
use crate::node_process::{Member, NodeFailure, NodeProcess};
use crate::sim_protocol::{MessageOf, SimProtocol};
use meridian_clock::Timestamp;
use meridian_machine::{Address, NodeId, ShardId};
use meridian_mvcc::Write;
use meridian_replication::inconsistent::ReplicaSet;
use meridian_txn::Database;
use std::collections::BTreeSet;
use std::sync::Arc;

impl<R: SimProtocol> World<R> {
    /// Creates the request router of a node's next incarnation, for sessions that ask `replicas`.
    pub fn new_desk<L: Leaderless>(
        &self,
        node: usize,
        replicas: BTreeSet<NodeId>,
        own: L::Own,
        seed: u64,
    ) -> Arc<RequestRouter<L>> {
        let there = &self.nodes[node];
        let here = (self.members[node], there.incarnation);
        let clock = Arc::clone(&there.clock);
        Arc::new(RequestRouter::new(clock, here, ReplicaSet::first(replicas), own, seed))
    }

    /// Opens a node's log and store for its next incarnation, which has no replicas yet, and
    /// returns the recovered log records. Fails if the disks are damaged or full, or refuse an
    /// operation.
    pub fn new_life(
        &self,
        node: usize,
        (router, txn_client): (Arc<R::RequestRouter>, Arc<dyn Database>),
        own: R::Own,
    ) -> Result<(NodeProcess<R>, Records), NodeFailure> {
        let there = &self.nodes[node];
        let admitted = there.peer_identities.admitted();
        NodeProcess::empty(there.incarnation, (router, txn_client), own, admitted, &there.disks)
    }

    /// Returns a shard's replica at a node, if the node runs and has one.
    pub fn replica_at(&self, node: usize, shard: ShardId) -> Option<&Member<R::Replica>> {
        self.nodes[node].process.as_ref()?.members.get(&shard)
    }

    /// Returns the replicas of all nodes that run.
    pub fn all_replicas(&self) -> impl Iterator<Item = &Member<R::Replica>> {
        let lives = self.nodes.iter().filter_map(|node| node.process.as_ref());
        lives.flat_map(|process| process.members.values())
    }

    /// Sends a message from a node's replica of a shard.
    pub fn answer(&mut self, node: usize, shard: ShardId, to: Address, message: MessageOf<R>) {
        self.send(node, shard, 0, None, to, message);
    }

    /// Installs the versions of a commit at a node's replica, and records them for the judges.
    /// `place` counts the commits that the replica has installed.
    pub fn install_commit(
        &mut self,
        node: usize,
        (shard, place): (ShardId, u64),
        at: Timestamp,
        writes: &[Write],
    ) {
        self.watch_version((shard, at), writes);
        if let Some(member) = self.replica_at(node, shard) {
            member.shard_store.install(at, writes, place, 0);
        }
    }
}
