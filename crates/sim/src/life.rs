//! One life of a node: a replica for each shard, on a real log and a real store, both on disks that
//! fail, and sessions.

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
/// What is moved to the store at once.
pub const SETTLE_BYTES: usize = 8 << 10;

/// A shard's replica at a node.
pub fn address(node: NodeId, shard: ShardId) -> Address {
    Address::replica(node, DatabaseId(DATABASE), shard)
}

/// Why a node cannot go on.
#[derive(Debug)]
pub enum Unfit {
    /// What its disks hold is not what was written to them.
    Damaged(String),
    /// There is no room for what it needs.
    Full,
    /// Its disks do not do what they are asked for.
    Refused(String),
    /// Its code is wrong.
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

/// Versions of one commit, and its place among what is installed.
pub struct Install {
    pub at: Timestamp,
    pub writes: Vec<Write>,
    pub position: u64,
    pub term: u64,
}

/// A shard's replica in one life of a node.
pub struct Member<M: Machine> {
    /// The replica.
    pub replica: M,
    pub(crate) out: Outbox<M>,
    pub(crate) alarms: Alarms<M::Timer>,
    /// Its versions.
    pub space: Arc<Space>,
    /// Agreed, and kept from readers by a planted defect.
    pub(crate) late: Vec<Install>,
}

impl<M: Machine> Member<M> {
    pub(crate) fn new(replica: M, out: Outbox<M>, space: Arc<Space>) -> Self {
        Member { replica, out, alarms: Alarms::default(), space, late: Vec::new() }
    }

    /// Makes what was kept from readers readable.
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
    /// For clients that speak SQL.
    pub(crate) engine: Arc<Engine>,
    pub(crate) journal: Journal,
    pub(crate) store: Arc<RedbStore>,
    /// What the node does by sessions of its own.
    pub(crate) errands: BTreeMap<u64, BoxFuture<'static, ()>>,
    /// What only this protocol's lives have.
    pub own: R::Own,
}

impl<R: Carried> Life<R> {
    /// A life in which nobody lives yet, and what the log has of those who did.
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

/// Whether there was no room: then it is tried again.
pub fn full(result: Result<(), StoreError>) -> Result<bool, StoreError> {
    match result {
        Ok(()) => Ok(false),
        Err(StoreError::Full { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}
