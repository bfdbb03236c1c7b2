//! An incarnation of a node in the TAPIR protocol: a replica of each shard, whose operations are in
//! the node's log and whose versions are in its store.

use super::request_router::{Own as OfDesk, RequestRouter};
use super::{Halves, Tapir};
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::{DATABASE, Records};
use crate::node_process::{self, FLUSH_BYTES, NodeFailure, full};
use crate::sim_protocol::RequestRouter as _;
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId, Outbox, ShardId, sometimes};
use meridian_mvcc::{KeyRange, Store, StoreError, Write};
use meridian_placement::{DatabaseRow, FIRST_SHARD, SYSTEM};
use meridian_replication::inconsistent::{Config, LogRecord as Record};
use meridian_store::ShardStore;
use meridian_systems::envelope;
use meridian_systems::replica_rows as rows;
use meridian_systems::tapir::lifecycle::{self, Begins, Lifecycle, RowAction};
use meridian_systems::tapir::{
    KIND, LogRecord, Progress, Replica, Shard, Shards, TruncationPolicy,
};
use meridian_txn::Database;
use meridian_txn::tapir::{Guarantee, TxnClient};
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// The size of the parts of large records, each of which takes a round trip.
const PART_BYTES: usize = 1 << 20;

pub type NodeProcess = node_process::NodeProcess<Tapir>;
pub type Member = node_process::Member<Replica>;

/// TAPIR's own state of an incarnation.
pub struct Own {
    pub start: StartConfig,
    lifecycles: BTreeMap<ShardId, Lifecycle>,
    progress: BTreeMap<ShardId, Progress>,
    /// The recovered log records of shards whose replicas have not begun.
    records: Records,
}

/// The configuration of an incarnation.
pub struct StartConfig {
    pub me: NodeId,
    pub incarnation: Incarnation,
    /// All nodes.
    pub all: Vec<NodeId>,
    /// The number of catalog rows that the node has received; `row` is the last of them.
    pub seen: usize,
    pub row: DatabaseRow,
    pub seed: u64,
    pub guarantee: Guarantee,
    pub halves: Halves,
    pub truncation: TruncationPolicy,
    /// The time for which prepares are delayed so that earlier timestamps can arrive, in
    /// nanoseconds.
    pub wait_ns: u64,
    pub defect: Option<Defect>,
    pub clock: Arc<NodeClock>,
}

impl NodeProcess {
    /// Begins an incarnation with the contents of the disks.
    pub fn begin(
        start: StartConfig,
        admitted: bool,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> Result<NodeProcess, NodeFailure> {
        let (here, members) =
            ((start.me, start.incarnation), rows::members(&start.row, &start.all));
        let own = OfDesk::new(start.halves.clone());
        let router =
            Arc::new(RequestRouter::new(Arc::clone(&start.clock), here, members, own, start.seed));
        let txn_client =
            Arc::new(TxnClient::new(Arc::new(Shards(Arc::clone(&router))), start.guarantee))
                as Arc<dyn Database>;
        let row = start.row.clone();
        let (lifecycles, progress, records) = (BTreeMap::new(), BTreeMap::new(), Records::new());
        let own = Own { start, lifecycles, progress, records };
        let (mut process, records) =
            NodeProcess::empty(here.1, (router, txn_client), own, admitted, disks)?;
        process.own.records = records;
        if row.dropped || process.has_row_of_drop()? {
            let dropped = DatabaseRow { dropped: true, ..row };
            return match process.end(&dropped) {
                Ok(()) | Err(NodeFailure::Full) => Ok(process), // Retried when the row is received.
                Err(why) => Err(why),
            };
        }
        for (shard, bounds) in process.shards() {
            match process.begin_replica(&row, shard, bounds) {
                Ok(()) | Err(NodeFailure::Full) => {} // Retried when the row is received.
                Err(why) => return Err(why),
            }
        }
        Ok(process)
    }

    /// True if the row with which the incarnation began has been applied in all shards.
    pub fn has_applied(&self) -> bool {
        self.shards()
            .iter()
            .all(|(shard, _)| self.own.lifecycles.get(shard).is_some_and(Lifecycle::has_applied))
    }

    fn shards(&self) -> Vec<(ShardId, KeyRange)> {
        self.own.start.halves.all().map(|(shard, bounds)| (shard, bounds.clone())).collect()
    }

    /// Applies a row of the database: starts, reconfigures or ends replicas. Returns true if any of
    /// this node's replicas began or ended.
    pub fn apply(&mut self, row: &DatabaseRow) -> Result<bool, NodeFailure> {
        let (me, all) = (self.own.start.me, self.own.start.all.clone());
        if row.dropped {
            return self.end(row).map(|()| true);
        }
        self.router.reconfigure(rows::members(row, &all));
        let mut anew = false;
        for (shard, bounds) in self.shards() {
            let lifecycle = self.own.lifecycles.entry(shard).or_default();
            match lifecycle.action_for(row, &all, me) {
                RowAction::Nothing => {}
                RowAction::Reconfigure(members) => {
                    lifecycle.reconfigured(members.clone());
                    let now = self.own.start.clock.reading();
                    if let Some(member) = self.members.get_mut(&shard) {
                        member.replica.reconfigure(now, members, &mut member.out);
                    }
                }
                RowAction::Restart => {
                    if let Some(member) = self.members.remove(&shard) {
                        member.shard_store.close();
                        lifecycle.stopped();
                        self.journal.stop(shard);
                    }
                    self.begin_replica(row, shard, bounds)?;
                    anew = true;
                }
            }
        }
        Ok(anew)
    }

    /// Ends all replicas and sessions, and removes what the disks have of them: the database was
    /// dropped, says the row.
    fn end(&mut self, row: &DatabaseRow) -> Result<(), NodeFailure> {
        self.router.close();
        let catalog = self.catalog()?;
        if catalog.extent()?.position == 0 {
            let says = Write { key: row.key().into(), value: Some(row.value().into()) };
            catalog.install(Timestamp { nanos: 1, ..Timestamp::ZERO }, &[says], 1, 0);
        }
        catalog.settle()?;
        for (shard, bounds) in self.shards() {
            if let Some(member) = self.members.remove(&shard) {
                member.shard_store.close();
                self.journal.stop(shard);
            }
            self.own.records.remove(&shard);
            self.journal.forget(shard);
            self.shard_store(shard, bounds)?.forget()?;
        }
        Ok(())
    }

    /// True if the store has the row that says that the database was dropped. The node may begin
    /// with an older row otherwise.
    fn has_row_of_drop(&self) -> Result<bool, StoreError> {
        Ok(self.catalog()?.extent()?.position > 0)
    }

    /// Returns the catalog's part of the store, for the row of a dropped database alone.
    fn catalog(&self) -> Result<ShardStore, StoreError> {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        ShardStore::open(SYSTEM.0, FIRST_SHARD.0, store)
    }

    /// Returns the number of rows that the store has, whether they belong to a replica or not.
    pub fn rows_left(&self) -> Result<usize, StoreError> {
        let mut rows = 0;
        for (shard, bounds) in self.shards() {
            let shard_store = self.shard_store(shard, bounds.clone())?;
            let all = shard_store.scan(&bounds, Timestamp::MAX, false, usize::MAX, usize::MAX)?;
            rows += all.rows.len();
        }
        Ok(rows)
    }

    fn shard_store(&self, shard: ShardId, bounds: KeyRange) -> Result<ShardStore, StoreError> {
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        ShardStore::open_with(DATABASE, shard.0, bounds, store)
    }

    /// Begins the replica of a shard, if the row gives this node one, from the store and the log.
    fn begin_replica(
        &mut self,
        row: &DatabaseRow,
        shard: ShardId,
        bounds: KeyRange,
    ) -> Result<(), NodeFailure> {
        let StartConfig {
            me,
            incarnation,
            ref all,
            guarantee,
            truncation,
            wait_ns,
            defect,
            ref clock,
            ..
        } = self.own.start;
        let mut logged: Vec<LogRecord> = Vec::new();
        for bytes in self.own.records.get(&shard).into_iter().flatten() {
            logged
                .extend(envelope::read::<Vec<LogRecord>>(KIND, bytes).map_err(NodeFailure::Wrong)?);
        }
        if defect == Some(Defect::EntriesForgotten) {
            let last = logged.iter().rposition(|logged| matches!(logged, Record::Proposed { .. }));
            last.map(|at| logged.remove(at));
        }
        let mut shard_store = self.shard_store(shard, bounds.clone())?;
        let begins = lifecycle::begins(row, all, me, shard_store.as_of()?, &mut logged);
        let (with, discard) = match begins {
            Begins::Waits => (None, None),
            Begins::Without { discard } => (None, discard),
            Begins::With { since_epoch, discard } => (Some(since_epoch), discard),
        };
        if let Some(as_of) = discard {
            shard_store = shard_store.discard(as_of)?;
            self.journal.forget(shard);
        }
        if let Some(since_epoch) = with {
            let extent = shard_store.extent()?;
            let goes_to = LogRecord::goes_to(&logged).unwrap_or_default();
            if extent.position < goes_to {
                sometimes!("a store is refused that lacks what is forgotten elsewhere");
                return Err(shard_store.lacks(goes_to).into());
            }
            let config = Config {
                me,
                members: rows::members(row, all),
                database: DatabaseId(DATABASE),
                shard,
                repeat_ns: 70 * MS,
                view_timeout_ns: 280 * MS,
                gather_ns: 25 * MS,
                part_bytes: PART_BYTES,
            };
            let (mut out, application) = (Outbox::new(), Shard::new(guarantee, shard, bounds));
            let created = (incarnation, since_epoch > 0);
            let mut replica =
                Replica::new(config, created, application, logged, clock.reading(), &mut out)
                    .ok_or_else(|| {
                        NodeFailure::Wrong("an odd number of nodes has replicas".to_owned())
                    })?
                    .truncation(truncation);
            replica.wait(wait_ns);
            let progress = Progress::new(extent.position, extent.horizon, replica.is_copying());
            self.own.progress.insert(shard, progress);
            self.members.insert(shard, Member::new(replica, out, Arc::new(shard_store)));
        }
        if begins != Begins::Waits {
            self.own.records.remove(&shard);
        }
        let members = rows::members(row, all);
        self.own.lifecycles.entry(shard).or_default().begun(members, begins);
        Ok(())
    }

    /// Returns the progress of a shard's versions.
    pub fn progress(&mut self, shard: ShardId) -> Option<&mut Progress> {
        self.own.progress.get_mut(&shard)
    }

    /// Flushes versions to the store, removes old ones, and truncates the log: the replica's
    /// checkpoint replaces all its earlier records.
    pub fn flush(
        &mut self,
        now_ns: u64,
        retention_ns: u64,
        checkpoint: bool,
    ) -> Result<(), StoreError> {
        let mut applied = BTreeMap::new();
        for (shard, member) in &self.members {
            let (shard_store, closed) = (
                &member.shard_store,
                self.own.progress.get(shard).map_or(Timestamp::ZERO, Progress::closed),
            );
            let flushed = shard_store.flush(FLUSH_BYTES).map(drop);
            let flushed = flushed.and_then(|()| {
                shard_store.collect(now_ns, retention_ns, closed, FLUSH_BYTES).map(drop)
            });
            if full(flushed)? {
                return Ok(());
            }
            applied.insert(*shard, shard_store.extent()?.position);
        }
        if !checkpoint || full(self.store.checkpoint())? {
            return Ok(());
        }
        for (shard, applied) in applied {
            let (Some(member), Some(progress)) =
                (self.members.get_mut(&shard), self.own.progress.get_mut(&shard))
            else {
                continue;
            };
            if progress.has_copy_in(applied) {
                if full(member.shard_store.keep_horizon())? {
                    continue;
                }
                progress.horizon_kept();
            }
            if let Some(view) = progress.stored(applied) {
                member.replica.stored(view, applied, &mut member.out);
            }
            if let Some(records) = member.replica.checkpoint() {
                self.journal.checkpoint(shard, envelope::write(KIND, &records).into());
            }
        }
        Ok(())
    }
}
