//! An incarnation of a node in the QWStore protocol: a replica of the one shard, which has every
//! write in its log and every version in its store.

use super::QwStore;
use super::request_router::{Own as OfDesk, RequestRouter};
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::DATABASE;
use crate::node_process::{self, FLUSH_BYTES, NodeFailure, full};
use meridian_clock::{Reading, Timestamp};
use meridian_log::MemoryDisk;
use meridian_machine::{Incarnation, NodeId, Outbox};
use meridian_mvcc::{KeyRange, Store};
use meridian_placement::FIRST_SHARD;
use meridian_replication::inconsistent::ReplicaSet;
use meridian_store::ShardStore;
use meridian_systems::baselines::qwstore::{KIND, LogRecord, Replica, TxnClient};
use meridian_systems::envelope;
use meridian_txn::Database;
use std::sync::Arc;

pub type NodeProcess = node_process::NodeProcess<QwStore>;
pub type Member = node_process::Member<Replica>;

/// QWStore's own state of an incarnation: no write at or below `closed` is accepted any more.
#[derive(Default)]
pub struct Own {
    pub closed: Timestamp,
}

/// The configuration of an incarnation.
pub struct StartConfig<'a> {
    pub me: (NodeId, Incarnation),
    /// The nodes that have replicas.
    pub replicas: &'a [NodeId],
    pub seed: u64,
    pub defect: Option<Defect>,
    pub admitted: bool,
    pub clock: &'a Arc<NodeClock>,
    pub disks: &'a (MemoryDisk, MemoryDisk),
}

impl NodeProcess {
    /// Begins an incarnation with the contents of the disks.
    pub fn begin(start: &StartConfig<'_>) -> Result<NodeProcess, NodeFailure> {
        let StartConfig { me, replicas, seed, .. } = *start;
        let members = ReplicaSet::first(replicas.iter().copied().collect());
        let router = Arc::new(RequestRouter::new(
            Arc::clone(start.clock),
            me,
            members,
            OfDesk::default(),
            seed,
        ));
        let txn_client = Arc::new(TxnClient::new(Arc::clone(&router))) as Arc<dyn Database>;
        let (mut process, mut records) = NodeProcess::empty(
            me.1,
            (router, txn_client),
            Own::default(),
            start.admitted,
            start.disks,
        )?;
        if !replicas.contains(&me.0) {
            return Ok(process);
        }
        let mut logged: Vec<LogRecord> = Vec::new();
        for bytes in records.remove(&FIRST_SHARD).into_iter().flatten() {
            logged.extend(
                envelope::read::<Vec<LogRecord>>(KIND, &bytes).map_err(NodeFailure::Wrong)?,
            );
        }
        if start.defect == Some(Defect::EntriesForgotten) {
            let last = logged.iter().rposition(|logged| matches!(logged, LogRecord::Put(_)));
            last.map(|at| logged.remove(at));
        }
        let store = Arc::clone(&process.store) as Arc<dyn Store>;
        let shard_store =
            Arc::new(ShardStore::open_with(DATABASE, FIRST_SHARD.0, KeyRange::all(), store)?);
        let (extent, goes_to) = (shard_store.extent()?, LogRecord::goes_to(&logged));
        if extent.position < goes_to {
            return Err(shard_store.lacks(goes_to).into());
        }
        process.own.closed = extent.horizon;
        process.router.own.set_shard_store(Arc::clone(&shard_store));
        let mut out = Outbox::new();
        let replica =
            Replica::new(KeyRange::all(), logged, (extent.position, extent.horizon), &mut out);
        process.members.insert(FIRST_SHARD, Member::new(replica, out, shard_store));
        Ok(process)
    }

    /// Flushes versions to the store, removes old ones, and truncates the log: the replica's
    /// checkpoint replaces all its earlier records.
    pub fn flush(
        &mut self,
        now: Reading,
        retention_ns: u64,
        checkpoint: bool,
    ) -> Result<(), meridian_mvcc::StoreError> {
        let Some(member) = self.members.get_mut(&FIRST_SHARD) else { return Ok(()) };
        let shard_store = &member.shard_store;
        let flushed = shard_store.flush(FLUSH_BYTES).map(drop);
        let flushed = flushed.and_then(|()| {
            shard_store
                .collect(now.interval.earliest, retention_ns, self.own.closed, FLUSH_BYTES)
                .map(drop)
        });
        if full(flushed)? {
            return Ok(());
        }
        let applied = shard_store.extent()?.position;
        if checkpoint && !full(self.store.checkpoint())? {
            let records = member.replica.stored(now, applied, &mut member.out);
            self.journal.checkpoint(FIRST_SHARD, envelope::write(KIND, &records).into());
        }
        Ok(())
    }
}
