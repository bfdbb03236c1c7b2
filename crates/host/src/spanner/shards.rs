//! The shards of a Spanner database, as the coordinators of this node reach them.

use super::member::MemberShard;
use super::sessions::Sessions;
use crate::local_node::LocalNode;
use crate::plumbing::CHUNK_BYTES;
use meridian_clock::Timestamp;
use meridian_machine::ShardId;
use meridian_mvcc::{Chunk, KeyRange, StoreError, Version};
use meridian_txn::locking::{
    self, Heard, HeldLocks, Readable, Request, Seat, ShardMap, Shards, Spent,
};
use parking_lot::Mutex;

/// Commits wait while versions that wait in memory for the store take more bytes than this.
const RECENT_BYTES: usize = 256 << 20;

/// The coordinators of a database on this node.
pub type Gateway = locking::Gateway<Sessions>;

impl Sessions {
    /// Reads at this node's member of a shard. Fails with [`StoreError::Elsewhere`] without one, or
    /// if it lacks what was agreed on before it was invited.
    fn read_here<T>(
        &self,
        shard: ShardId,
        read: impl FnOnce(&MemberShard) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let read =
            |member: &MemberShard| (!member.world().space().is_behind()).then(|| read(member));
        self.with_member(shard, read).flatten().unwrap_or(Err(StoreError::Elsewhere))
    }
}

impl Shards for Sessions {
    type Node = LocalNode;

    fn node(&self) -> &LocalNode {
        Sessions::node(self)
    }

    fn map(&self) -> &ShardMap {
        Sessions::map(self)
    }

    fn held_locks(&self) -> &Mutex<HeldLocks> {
        Sessions::held_locks(self)
    }

    fn describe(&self, shard: ShardId) -> String {
        format!("the group of database {}'s shard {}", self.database().0, shard.0)
    }

    fn is_crowded(&self) -> bool {
        let bytes = |shard| {
            self.with_member(shard, |member| member.world().space().recent_bytes()).unwrap_or(0)
        };
        match self.map().has_one_shard() {
            true => bytes(ShardId(0)) > RECENT_BYTES,
            false => self.map().shards().into_iter().map(bytes).sum::<usize>() > RECENT_BYTES,
        }
    }

    fn committed(&self, spent: &Spent) {
        self.node().plumbing().commit_wait.count(spent.commit_wait_ns);
    }

    fn reads_alone(&self, shard: ShardId) {
        self.with_member(shard, |member| member.world().reads_alone());
    }

    fn readable(&self, shard: ShardId) -> Readable {
        let look =
            |member: &MemberShard| member.world().slot().load_unless_busy(|| member.is_idle());
        self.with_member(shard, look).unwrap_or_default()
    }

    fn get(
        &self,
        shard: ShardId,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Version>, StoreError> {
        self.read_here(shard, |member| {
            let home = member.world();
            home.space().get(key, at).inspect_err(|error| home.heed(error))
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
            let home = member.world();
            let found = home.space().scan(range, at, reverse, limit_rows, CHUNK_BYTES);
            found.inspect_err(|error| home.heed(error))
        })
    }

    fn request(
        &self,
        seat: Seat,
        request: Request,
        until: u64,
    ) -> impl Future<Output = Option<Heard>> + Send {
        self.ask(seat, request, until)
    }

    fn send(&self, seat: Seat, request: Request) {
        self.tell(seat, request);
    }
}
