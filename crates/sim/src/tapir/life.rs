//! A life of a node in the tapir recipe: a replica of each shard, whose operations are in the node's log and whose versions are in its store.

use super::desk::Desk;
use super::{Halves, Tapir};
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::DATABASE;
use crate::life::{self, Install, SETTLE_BYTES, Unfit, full};
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId, Outbox, ShardId, sometimes};
use meridian_mvcc::{Store, StoreError, Write};
use meridian_replication::inconsistent::{Config, Kept as Record, Members, View};
use meridian_store::Space;
use meridian_systems::envelope::{self, Kind};
use meridian_systems::tapir::{Forgetting, Kept, Replica, Shard};
use meridian_txn::Database;
use meridian_txn::tapir::{Gateway, Guarantee};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// Large records come in parts, each of which takes a round trip.
const PART_BYTES: usize = 1 << 20;

pub type Life = life::Life<Tapir>;
pub type Member = life::Member<Replica>;

/// How far a shard's versions have come in a life: commits have no place in an order, so each gets the next one that is installed.
#[derive(Default)]
struct Progress {
    installed: u64,
    /// What is not above was in the store when the life began, or was collected.
    horizon: Timestamp,
    /// Everything at or below has ended.
    settled: Timestamp,
    /// Views, and what of the installed each began with.
    began: VecDeque<(u64, View)>,
}

/// What lives have besides replicas.
#[derive(Default)]
pub struct Own {
    progress: BTreeMap<ShardId, Progress>,
}

/// What a life is told.
pub struct Birth<'a> {
    pub me: NodeId,
    pub incarnation: Incarnation,
    /// The nodes that have replicas.
    pub replicas: &'a [NodeId],
    pub seed: u64,
    pub guarantee: Guarantee,
    pub halves: Halves,
    pub forgetting: Forgetting,
    /// What is to be prepared waits so long for what has an earlier timestamp.
    pub wait_ns: u64,
    pub defect: Option<Defect>,
    pub admitted: bool,
    pub clock: &'a Arc<NodeClock>,
    pub disks: &'a (MemoryDisk, MemoryDisk),
}

impl Life {
    /// Reads what the disks have, and begins a life with it.
    pub fn begin(birth: &Birth<'_>) -> Result<Life, Unfit> {
        let Birth { me, incarnation, replicas, seed, guarantee, ref halves, clock, .. } = *birth;
        let desk = Desk::new(Arc::clone(clock), (me, incarnation), replicas.to_vec(), halves.clone(), seed);
        let desk = Arc::new(desk);
        let gateway = Arc::new(Gateway::new(Arc::clone(&desk), guarantee)) as Arc<dyn Database>;
        let (mut life, mut records) =
            Life::dawn(incarnation, (desk, gateway), Own::default(), birth.admitted, birth.disks)?;
        for (shard, bounds) in halves.all().filter(|_| replicas.contains(&me)) {
            let mut kept: Vec<Kept> = Vec::new();
            for bytes in records.remove(&shard).into_iter().flatten() {
                kept.extend(envelope::read::<Vec<Kept>>(Kind::Tapir, &bytes).map_err(Unfit::Wrong)?);
            }
            if birth.defect == Some(Defect::EntriesForgotten) {
                let last = kept.iter().rposition(|kept| matches!(kept, Record::Proposed { .. }));
                last.map(|at| kept.remove(at));
            }
            let store = Arc::clone(&life.store) as Arc<dyn Store>;
            let space = Arc::new(Space::open_with(DATABASE, shard.0, bounds.clone(), store)?);
            let extent = space.extent()?;
            let (installed, horizon, goes_to) =
                (extent.position, extent.horizon, Kept::goes_to(&kept).unwrap_or_default());
            if installed < goes_to {
                sometimes!("a store is refused that lacks what is forgotten elsewhere");
                return Err(space.lacks(goes_to).into());
            }
            life.own.progress.insert(shard, Progress { installed, horizon, ..Progress::default() });
            let config = Config {
                me,
                members: Members::first(replicas.iter().copied().collect()),
                database: DatabaseId(DATABASE),
                shard,
                repeat_ns: 70 * MS,
                view_timeout_ns: 280 * MS,
                gather_ns: 25 * MS,
                part_bytes: PART_BYTES,
            };
            let (mut out, application) = (Outbox::new(), Shard::new(guarantee, shard, bounds.clone()));
            let mut replica = Replica::new(config, (incarnation, false), application, kept, clock.reading(), &mut out)
                .ok_or_else(|| Unfit::Wrong("an odd number of nodes has replicas".to_owned()))?
                .forgetting(birth.forgetting);
            replica.wait(birth.wait_ns);
            life.members.insert(shard, Member::new(replica, out, space));
        }
        Ok(life)
    }

    /// Where a commit that is to be readable stands among the installed; nowhere, if the store had it at the life's birth.
    pub fn place(&mut self, shard: ShardId, at: Timestamp, writes: Vec<Write>) -> Option<Install> {
        let progress = self.own.progress.entry(shard).or_default();
        if at <= progress.horizon {
            return None;
        }
        progress.installed += 1;
        Some(Install { at, writes, position: progress.installed, term: 0 })
    }

    /// A view has begun with what is installed by now.
    pub fn began(&mut self, shard: ShardId, view: View, settled: Timestamp) {
        let progress = self.own.progress.entry(shard).or_default();
        progress.settled = settled;
        progress.began.push_back((progress.installed, view));
    }

    /// Moves versions from memory to the store, removes old ones, and lets the log go: what a replica knows stands for all that it has written before.
    pub fn settle(&mut self, now_ns: u64, retention_ns: u64, checkpoint: bool) -> Result<(), StoreError> {
        let mut applied = BTreeMap::new();
        for (shard, member) in &self.members {
            let (space, closed) =
                (&member.space, self.own.progress.get(shard).map_or(Timestamp::ZERO, |of| of.settled));
            let settled = space.settle(SETTLE_BYTES).map(drop);
            let settled = settled.and_then(|()| space.collect(now_ns, retention_ns, closed, SETTLE_BYTES).map(drop));
            if full(settled)? {
                return Ok(());
            }
            applied.insert(*shard, space.extent()?.position);
        }
        if !checkpoint || full(self.store.checkpoint())? {
            return Ok(());
        }
        for (shard, applied) in applied {
            let (Some(member), Some(progress)) = (self.members.get_mut(&shard), self.own.progress.get_mut(&shard))
            else {
                continue;
            };
            while let Some((_, view)) = progress.began.pop_front_if(|(position, _)| *position <= applied) {
                member.replica.stored(view, applied, &mut member.out);
            }
            if let Some(records) = member.replica.checkpoint() {
                self.journal.checkpoint(shard, envelope::write(Kind::Tapir, &records).into());
            }
        }
        Ok(())
    }
}
