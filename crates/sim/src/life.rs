//! One incarnation of a node: a replica of each shard, on a real log and a real store, both on
//! disks that may fail, and sessions.

use crate::carried::Carried;
use crate::journal::{DATABASE, Journal, Records};
use futures::future::BoxFuture;
use meridian_clock::Timestamp;
use meridian_log::{LogError, MemoryDisk};
use meridian_machine::{
    Address, Alarms, DatabaseId, Incarnation, Machine, NodeId, Outbox, ShardId,
};
use meridian_mvcc::{KeyRange, Store, StoreError, Write};
use meridian_sql::Engine;
use meridian_store::{RedbStore, Space};
use meridian_txn::Database;
use std::collections::BTreeMap;
use std::sync::Arc;

const CACHE_BYTES: usize = 1 << 20;
/// The bytes that are flushed to the store at once.
pub const SETTLE_BYTES: usize = 8 << 10;

/// Returns the address of a shard's replica on a node.
pub fn address(node: NodeId, shard: ShardId) -> Address {
    Address::replica(node, DatabaseId(DATABASE), shard)
}

/// The reason why a node cannot continue.
#[derive(Debug)]
pub enum Unfit {
    /// Its disks do not hold what was written to them.
    Damaged(String),
    /// Its disks are full.
    Full,
    /// Its disks failed an operation.
    Refused(String),
    /// The code is wrong.
    Wrong(String),
}

impl From<LogError> for Unfit {
    fn from(error: LogError) -> Unfit {
        match error {
            LogError::Damaged { .. } => Unfit::Damaged(error.to_string()),
            LogError::Full { .. } => Unfit::Full,
            LogError::Disk { .. } => Unfit::Refused(error.to_string()),
            LogError::NewerFormat { .. } => Unfit::Wrong(error.to_string()),
        }
    }
}

impl From<StoreError> for Unfit {
    fn from(error: StoreError) -> Unfit {
        match error {
            StoreError::Damaged { .. } => Unfit::Damaged(error.to_string()),
            StoreError::Full { .. } => Unfit::Full,
            StoreError::Disk { .. } => Unfit::Refused(error.to_string()),
            _ => Unfit::Wrong(error.to_string()),
        }
    }
}

/// The versions of one commit, with their log position.
pub struct Install {
    pub at: Timestamp,
    pub writes: Vec<Write>,
    pub position: u64,
    pub term: u64,
}

/// A shard's replica in one incarnation of a node.
pub struct Member<M: Machine> {
    /// The replica.
    pub replica: M,
    pub(crate) out: Outbox<M>,
    pub(crate) alarms: Alarms<M::Timer>,
    /// Its versions.
    pub space: Arc<Space>,
    /// Committed versions that a planted defect hides from readers.
    pub(crate) late: Vec<Install>,
}

impl<M: Machine> Member<M> {
    pub(crate) fn new(replica: M, out: Outbox<M>, space: Arc<Space>) -> Self {
        Member { replica, out, alarms: Alarms::default(), space, late: Vec::new() }
    }

    /// Installs the versions that a planted defect has hidden.
    pub(crate) fn install_late(&mut self) {
        for Install { at, writes, position, term } in std::mem::take(&mut self.late) {
            self.space.install(at, &writes, position, term);
        }
    }
}

/// A node from one start to its next end: its replicas, its sessions, its log and its store.
pub struct Life<R: Carried> {
    pub(crate) incarnation: Incarnation,
    pub(crate) members: BTreeMap<ShardId, Member<R::Replica>>,
    pub(crate) desk: Arc<R::Desk>,
    pub(crate) gateway: Arc<dyn Database>,
    /// The SQL engine, for clients that speak SQL.
    pub(crate) engine: Arc<Engine>,
    pub(crate) journal: Journal,
    pub(crate) store: Arc<RedbStore>,
    /// The background tasks of the node.
    pub(crate) errands: BTreeMap<u64, BoxFuture<'static, ()>>,
    /// The protocol's own state.
    pub own: R::Own,
}

impl<R: Carried> Life<R> {
    /// Creates an incarnation without replicas, and returns the recovered log records.
    pub(crate) fn dawn(
        incarnation: Incarnation,
        (desk, gateway): (Arc<R::Desk>, Arc<dyn Database>),
        own: R::Own,
        admitted: bool,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> Result<(Life<R>, Records), Unfit> {
        let store = Arc::new(RedbStore::open(&disks.1, CACHE_BYTES)?);
        let (journal, records) = Journal::open(&disks.0, admitted)?;
        let engine = Arc::new(Engine::new("lab", Arc::clone(&gateway)));
        let (members, errands) = (BTreeMap::new(), BTreeMap::new());
        let life =
            Life { incarnation, members, desk, gateway, engine, journal, store, errands, own };
        Ok((life, records))
    }

    /// Begins a shard's replica over the versions that the node's store has of the shard.
    pub fn begin_member(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        replica: R::Replica,
    ) -> Result<(), Unfit> {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let space = Arc::new(Space::open_with(DATABASE, shard.0, bounds, store)?);
        self.members.insert(shard, Member::new(replica, Outbox::new(), space));
        Ok(())
    }
}

/// Returns true if the disk was full, so that the operation is to be retried.
pub fn full(result: Result<(), StoreError>) -> Result<bool, StoreError> {
    match result {
        Ok(()) => Ok(false),
        Err(StoreError::Full { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}
