//! The shards of a database with leaders, as the coordinators of this node reach them.

use super::member::MemberShard;
use super::request_router::RequestRouter;
use crate::local_node::LocalNode;
use crate::node_resources::CHUNK_BYTES;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Chunk, KeyRange, StoreError, Version};
use meridian_systems::shard::Participant;
use meridian_txn::TxnCounters;
use meridian_txn::shards::{
    HeldLocks, Oracles, ReadLease, ReplicaId, Request, RequestOutcome, ShardMap, Shards,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// Commits wait while versions that wait in memory for the store take more bytes than this.
const RECENT_BYTES: usize = 256 << 20;

impl<P: Participant> RequestRouter<P> {
    /// Reads at this node's member of a shard. Fails with [`StoreError::Elsewhere`] without one, or
    /// if it lacks what was agreed on before it was invited.
    fn read_here<T>(
        &self,
        shard: ShardId,
        read: impl FnOnce(&MemberShard<P>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let read = |member: &MemberShard<P>| {
            (!member.runtime().shard_store().is_behind()).then(|| read(member))
        };
        self.with_member(shard, read).flatten().unwrap_or(Err(StoreError::Elsewhere))
    }
}

impl<P: Participant> Shards for RequestRouter<P> {
    type Node = LocalNode;

    fn node(&self) -> &LocalNode {
        RequestRouter::node(self)
    }

    fn map(&self) -> &ShardMap {
        RequestRouter::map(self)
    }

    fn held_locks(&self) -> &Mutex<HeldLocks> {
        RequestRouter::held_locks(self)
    }

    fn describe(&self, shard: ShardId) -> String {
        format!("the group of database {}'s shard {}", self.database().0, shard.0)
    }

    fn is_crowded(&self) -> bool {
        let bytes = |shard| {
            self.with_member(shard, |member| member.runtime().shard_store().memtable_bytes())
                .unwrap_or(0)
        };
        match self.map().has_one_shard() {
            true => bytes(ShardId(0)) > RECENT_BYTES,
            false => self.map().shards().into_iter().map(bytes).sum::<usize>() > RECENT_BYTES,
        }
    }

    fn counters(&self) -> Option<&TxnCounters> {
        Some(RequestRouter::counters(self))
    }

    fn oracles(&self) -> Option<Arc<Oracles>> {
        RequestRouter::oracles(self)
    }

    fn count_local_read(&self, shard: ShardId) {
        self.with_member(shard, |member| member.runtime().count_local_read());
    }

    fn read_lease(&self, shard: ShardId) -> ReadLease {
        let look =
            |member: &MemberShard<P>| member.runtime().slot().load_unless_busy(|| member.is_idle());
        self.with_member(shard, look).unwrap_or_default()
    }

    fn get(
        &self,
        shard: ShardId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        self.read_here(shard, |member| {
            let runtime = member.runtime();
            runtime.shard_store().get(key, at).inspect_err(|error| runtime.on_store_error(error))
        })
    }

    fn scan(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        reverse: bool,
        limit_rows: usize,
    ) -> Result<Chunk, StoreError> {
        self.read_here(shard, |member| {
            let runtime = member.runtime();
            let found = runtime.shard_store().scan(range, at, reverse, limit_rows, CHUNK_BYTES);
            found.inspect_err(|error| runtime.on_store_error(error))
        })
    }

    fn request(
        &self,
        replica: ReplicaId,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<RequestOutcome>> + Send {
        self.ask(replica, request, until)
    }

    fn send(&self, replica: ReplicaId, request: Request) {
        self.send(replica, request);
    }
}
