//! An incarnation of a node in the TAPIR protocol: a replica of each shard, whose operations are in
//! the node's log and whose versions are in its store.

use super::desk::{Desk, Own as OfDesk};
use super::{Halves, Tapir};
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::{DATABASE, Records};
use crate::life::{self, SETTLE_BYTES, Unfit, full};
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId, Outbox, ShardId, sometimes};
use meridian_mvcc::{KeyRange, Store, StoreError};
use meridian_placement::DatabaseRow;
use meridian_replication::inconsistent::{Config, Kept as Record};
use meridian_store::Space;
use meridian_systems::envelope;
use meridian_systems::tapir::lifecycle::{self, Begins, Lifecycle, Turn};
use meridian_systems::tapir::{Forgetting, KIND, Kept, Progress, Replica, Shard, Shards, rows};
use meridian_txn::Database;
use meridian_txn::tapir::{Gateway, Guarantee};
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// The size of the parts of large records, each of which takes a round trip.
const PART_BYTES: usize = 1 << 20;

pub type Life = life::Life<Tapir>;
pub type Member = life::Member<Replica>;

/// TAPIR's own state of an incarnation.
pub struct Own {
    pub birth: Birth,
    lifecycles: BTreeMap<ShardId, Lifecycle>,
    progress: BTreeMap<ShardId, Progress>,
    /// The recovered log records of shards whose replicas have not begun.
    records: Records,
}

/// The configuration of an incarnation.
pub struct Birth {
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
    pub forgetting: Forgetting,
    /// The time for which prepares are delayed so that earlier timestamps can arrive, in
    /// nanoseconds.
    pub wait_ns: u64,
    pub defect: Option<Defect>,
    pub clock: Arc<NodeClock>,
}

impl Life {
    /// Begins an incarnation with the contents of the disks.
    pub fn begin(
        birth: Birth,
        admitted: bool,
        disks: &(MemoryDisk, MemoryDisk),
    ) -> Result<Life, Unfit> {
        let (here, members) =
            ((birth.me, birth.incarnation), rows::members(&birth.row, &birth.all));
        let own = OfDesk::new(birth.halves.clone());
        let desk = Arc::new(Desk::new(Arc::clone(&birth.clock), here, members, own, birth.seed));
        let gateway = Arc::new(Gateway::new(Arc::new(Shards(Arc::clone(&desk))), birth.guarantee))
            as Arc<dyn Database>;
        let row = birth.row.clone();
        let (lifecycles, progress, records) = (BTreeMap::new(), BTreeMap::new(), Records::new());
        let own = Own { birth, lifecycles, progress, records };
        let (mut life, records) = Life::dawn(here.1, (desk, gateway), own, admitted, disks)?;
        life.own.records = records;
        for (shard, bounds) in life.shards() {
            match life.begin_replica(&row, shard, bounds) {
                Ok(()) | Err(Unfit::Full) => {} // Retried when the row is received.
                Err(why) => return Err(why),
            }
        }
        Ok(life)
    }

    /// True if the row with which the incarnation began has been applied in all shards.
    pub fn has_heeded(&self) -> bool {
        self.shards()
            .iter()
            .all(|(shard, _)| self.own.lifecycles.get(shard).is_some_and(Lifecycle::has_heeded))
    }

    fn shards(&self) -> Vec<(ShardId, KeyRange)> {
        self.own.birth.halves.all().map(|(shard, bounds)| (shard, bounds.clone())).collect()
    }

    /// Applies a row of the database: starts, reconfigures or ends replicas. Returns true if any of
    /// this node's replicas began or ended.
    pub fn heed(&mut self, row: &DatabaseRow) -> Result<bool, Unfit> {
        let (me, all) = (self.own.birth.me, self.own.birth.all.clone());
        self.desk.reconfigure(rows::members(row, &all));
        let mut anew = false;
        for (shard, bounds) in self.shards() {
            let lifecycle = self.own.lifecycles.entry(shard).or_default();
            match lifecycle.turn(row, &all, me) {
                Turn::Nothing => {}
                Turn::Reconfigure(members) => {
                    lifecycle.reconfigured(members.clone());
                    let now = self.own.birth.clock.reading();
                    if let Some(member) = self.members.get_mut(&shard) {
                        member.replica.reconfigure(now, members, &mut member.out);
                    }
                }
                Turn::Anew => {
                    if let Some(member) = self.members.remove(&shard) {
                        member.space.close();
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

    /// Begins the replica of a shard, if the row gives this node one, from the store and the log.
    fn begin_replica(
        &mut self,
        row: &DatabaseRow,
        shard: ShardId,
        bounds: KeyRange,
    ) -> Result<(), Unfit> {
        let Birth {
            me,
            incarnation,
            ref all,
            guarantee,
            forgetting,
            wait_ns,
            defect,
            ref clock,
            ..
        } = self.own.birth;
        let mut kept: Vec<Kept> = Vec::new();
        for bytes in self.own.records.get(&shard).into_iter().flatten() {
            kept.extend(envelope::read::<Vec<Kept>>(KIND, bytes).map_err(Unfit::Wrong)?);
        }
        if defect == Some(Defect::EntriesForgotten) {
            let last = kept.iter().rposition(|kept| matches!(kept, Record::Proposed { .. }));
            last.map(|at| kept.remove(at));
        }
        let store = Arc::clone(&self.store) as Arc<dyn Store>;
        let mut space = Space::open_with(DATABASE, shard.0, bounds.clone(), store)?;
        let begins = lifecycle::begins(row, all, me, space.as_of()?, &mut kept);
        let (with, let_go) = match begins {
            Begins::Waits => (None, None),
            Begins::Without { let_go } => (None, let_go),
            Begins::With { stay, let_go } => (Some(stay), let_go),
        };
        if let Some(as_of) = let_go {
            space = space.let_go(as_of)?;
            self.journal.forget(shard);
        }
        if let Some(stay) = with {
            let extent = space.extent()?;
            let goes_to = Kept::goes_to(&kept).unwrap_or_default();
            if extent.position < goes_to {
                sometimes!("a store is refused that lacks what is forgotten elsewhere");
                return Err(space.lacks(goes_to).into());
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
            let born = (incarnation, stay > 0);
            let mut replica =
                Replica::new(config, born, application, kept, clock.reading(), &mut out)
                    .ok_or_else(|| Unfit::Wrong("an odd number of nodes has replicas".to_owned()))?
                    .forgetting(forgetting);
            replica.wait(wait_ns);
            let progress = Progress::new(extent.position, extent.horizon, replica.is_copying());
            self.own.progress.insert(shard, progress);
            self.members.insert(shard, Member::new(replica, out, Arc::new(space)));
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
    pub fn settle(
        &mut self,
        now_ns: u64,
        retention_ns: u64,
        checkpoint: bool,
    ) -> Result<(), StoreError> {
        let mut applied = BTreeMap::new();
        for (shard, member) in &self.members {
            let (space, closed) = (
                &member.space,
                self.own.progress.get(shard).map_or(Timestamp::ZERO, Progress::closed),
            );
            let settled = space.settle(SETTLE_BYTES).map(drop);
            let settled = settled
                .and_then(|()| space.collect(now_ns, retention_ns, closed, SETTLE_BYTES).map(drop));
            if full(settled)? {
                return Ok(());
            }
            applied.insert(*shard, space.extent()?.position);
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
                if full(member.space.keep_horizon())? {
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
