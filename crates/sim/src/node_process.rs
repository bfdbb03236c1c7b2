//! One incarnation of a node: a replica of each shard, on a real log and a real store, both on
//! disks that may fail, and sessions.

use crate::journal::{DATABASE, Journal, Records};
use crate::sim_protocol::SimProtocol;
use futures::future::BoxFuture;
use meridian_clock::Timestamp;
use meridian_log::{LogError, MemoryDisk};
use meridian_machine::{
    Address, Alarms, DatabaseId, Incarnation, Machine, NodeId, Outbox, ShardId,
};
use meridian_mvcc::{KeyRange, Store, StoreError, Write};
use meridian_sql::Engine;
use meridian_store::{RedbStore, ShardStore};
use meridian_txn::Database;
use std::collections::BTreeMap;
use std::sync::Arc;

const CACHE_BYTES: usize = 1 << 20;
/// The bytes that are flushed to the store at once.
pub const FLUSH_BYTES: usize = 8 << 10;

/// Returns the address of a shard's replica on a node.
pub fn address(node: NodeId, shard: ShardId) -> Address {
    Address::replica(node, DatabaseId(DATABASE), shard)
}

/// The reason why a node cannot continue.
#[derive(Debug)]
pub enum NodeFailure {
    /// Its disks do not hold what was written to them.
    Damaged(String),
    /// Its disks are full.
    Full,
    /// Its disks failed an operation.
    Refused(String),
    /// The code is wrong.
    Wrong(String),
}

impl From<LogError> for NodeFailure {
    fn from(error: LogError) -> NodeFailure {
        match error {
            LogError::Damaged { .. } => NodeFailure::Damaged(error.to_string()),
            LogError::Full { .. } => NodeFailure::Full,
            LogError::Disk { .. } => NodeFailure::Refused(error.to_string()),
            LogError::NewerFormat { .. } => NodeFailure::Wrong(error.to_string()),
        }
    }
}

impl From<StoreError> for NodeFailure {
    fn from(error: StoreError) -> NodeFailure {
        match error {
            StoreError::Damaged { .. } => NodeFailure::Damaged(error.to_string()),
            StoreError::Full { .. } => NodeFailure::Full,
            StoreError::Disk { .. } => NodeFailure::Refused(error.to_string()),
            _ => NodeFailure::Wrong(error.to_string()),
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
    pub shard_store: Arc<ShardStore>,
    /// Committed versions that a planted defect hides from readers.
    pub(crate) late: Vec<Install>,
}

impl<M: Machine> Member<M> {
    pub(crate) fn new(replica: M, out: Outbox<M>, shard_store: Arc<ShardStore>) -> Self {
        Member { replica, out, alarms: Alarms::default(), shard_store, late: Vec::new() }
    }

    /// Installs the versions that a planted defect has hidden.
    pub(crate) fn install_late(&mut self) {
        for Install { at, writes, position, term } in std::mem::take(&mut self.late) {
            self.shard_store.install(at, &writes, position, term);
        }
    }
}

/// A node from one start to its next end: its replicas, its sessions, its log and its store.
pub struct NodeProcess<R: SimProtocol> {
    pub(crate) incarnation: Incarnation,
    pub(crate) members: BTreeMap<ShardId, Member<R::Replica>>,
    pub(crate) router: Arc<R::RequestRouter>,
    pub(crate) txn_client: Arc<dyn Database>,
    /// The SQL engine, for clients that speak SQL.
    pub(crate) engine: Arc<Engine>,
    pub(crate) journal: Journal,
    pub(crate) store: Arc<RedbStore>,
    /// The background tasks of the node.
    pub(crate) background_tasks: BTreeMap<u64, BoxFuture<'static, ()>>,
    /// The protocol's own state.
    pub own: R::Own,
}

impl<R: SimProtocol> NodeProcess<R> {
    /// Creates an incarnation without replicas, and returns the recovered log records.
    pub(crate) fn empty(
        incarnation: Incarnation,
        (router, txn_client): (Arc<R::RequestRouter>, Arc<dyn Database>),
        own: R::Own,
        admitted: bool,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> Result<(NodeProcess<R>, Records), NodeFailure> {
        let store = Arc::new(RedbStore::open(&disks.1, CACHE_BYTES)?);
        let (journal, records) = Journal::open(&disks.0, admitted)?;
        let engine = Arc::new(Engine::new("lab", Arc::clone(&txn_client)));
        let (members, background_tasks) = (BTreeMap::new(), BTreeMap::new());
        let process = NodeProcess {
            incarnation,
            members,
            router,
            txn_client,
            engine,
            journal,
            store,
            background_tasks,
            own,
        };
        Ok((process, records))
    }

    /// Begins a shard's replica over the versions that the node's store has of the shard.
    pub fn begin_member(
        &mut self,
        shard: ShardId,
        bounds: KeyRange,
        replica: R::Replica,
    ) -> Result<(), NodeFailure> {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let shard_store = Arc::new(ShardStore::open_with(DATABASE, shard.0, bounds, store)?);
        self.members.insert(shard, Member::new(replica, Outbox::new(), shard_store));
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
