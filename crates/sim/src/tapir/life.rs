//! A life of a node in the tapir recipe: a replica of each shard, whose operations are in the node's log and whose versions are in its store.

use super::desk::Desk;
use super::{Halves, Tapir};
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::DATABASE;
use crate::life::{self, Install, SETTLE_BYTES, Unfit, full};
use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_machine::{DatabaseId, Incarnation, NodeId, Outbox, ShardId};
use meridian_mvcc::{Store, StoreError, Write};
use meridian_replication::inconsistent::{Config, Kept as Record, View};
use meridian_store::Space;
use meridian_systems::envelope::{self, Kind};
use meridian_systems::tapir::{Forgetting, Kept, Replica, Shard};
use meridian_txn::Database;
use meridian_txn::tapir::{Gateway, Guarantee};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const MS: u64 = 1_000_000;

pub type Life = life::Life<Tapir>;
pub type Member = life::Member<Replica>;

/// Often, of little, and soon: so that it happens within a run.
const FORGETTING: Forgetting = Forgetting { every_ns: 300 * MS, behind_ns: 600 * MS, enough_bytes: 4 << 10 };

/// What lives have besides replicas, of each shard.
#[derive(Default)]
pub struct Own {
    /// How much was installed. Commits have no place in an order, so each gets the next one.
    installed: BTreeMap<ShardId, u64>,
    /// Views that have begun, and how much was installed then, as long as the store has not all of that for good.
    began: BTreeMap<ShardId, VecDeque<(u64, View)>>,
}

/// What a life is told.
pub struct Birth<'a> {
    pub me: NodeId,
    pub incarnation: Incarnation,
    pub nodes: &'a [NodeId],
    pub seed: u64,
    pub guarantee: Guarantee,
    pub halves: Halves,
    /// One message takes so long at most, if nothing is wrong.
    pub farthest_ns: u64,
    pub defect: Option<Defect>,
    pub admitted: bool,
    pub clock: &'a Arc<NodeClock>,
    pub disks: &'a (MemoryDisk, MemoryDisk),
}

impl Life {
    /// Reads what the disks have, and begins a life with it.
    pub fn begin(birth: &Birth<'_>) -> Result<Life, Unfit> {
        let Birth { me, incarnation, nodes, seed, guarantee, ref halves, clock, .. } = *birth;
        let desk = Desk::new(Arc::clone(clock), (me, incarnation), nodes.to_vec(), halves.clone(), seed);
        let desk = Arc::new(desk);
        let gateway = Arc::new(Gateway::new(Arc::clone(&desk), guarantee)) as Arc<dyn Database>;
        let (mut life, mut records) =
            Life::dawn(incarnation, (desk, gateway), Own::default(), birth.admitted, birth.disks)?;
        for (shard, bounds) in halves.all() {
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
            life.own.installed.insert(shard, space.extent()?.position);
            let config = Config {
                me,
                replicas: nodes.iter().copied().collect(),
                database: DatabaseId(DATABASE),
                shard,
                repeat_ns: 30 * MS + 2 * birth.farthest_ns,
                view_timeout_ns: 200 * MS + 4 * birth.farthest_ns,
                gather_ns: 5 * MS + birth.farthest_ns,
            };
            let (mut out, application) = (Outbox::new(), Shard::new(guarantee, shard, bounds.clone()));
            let replica = Replica::new(config, incarnation, application, kept, clock.reading(), &mut out)
                .ok_or_else(|| Unfit::Wrong("an odd number of nodes has replicas".to_owned()))?;
            let replica = replica.forgetting(FORGETTING);
            life.members.insert(shard, Member::new(replica, out, space));
        }
        Ok(life)
    }

    /// A commit is to be readable, and where it stands among the installed.
    pub fn place(&mut self, shard: ShardId, at: Timestamp, writes: Vec<Write>) -> Install {
        let position = self.own.installed.entry(shard).or_default();
        *position += 1;
        Install { at, writes, position: *position, term: 0 }
    }

    /// A view has begun in a shard.
    pub fn note_view(&mut self, shard: ShardId, view: View) {
        let installed = self.own.installed.get(&shard).copied().unwrap_or_default();
        self.own.began.entry(shard).or_default().push_back((installed, view));
    }

    /// Moves versions from memory to the store, and lets the log go: what a replica knows stands for all that it has written before.
    pub fn settle(&mut self, checkpoint: bool) -> Result<(), StoreError> {
        for member in self.members.values() {
            if full(member.space.settle(SETTLE_BYTES).map(drop))? {
                return Ok(());
            }
        }
        if !checkpoint || full(self.store.checkpoint())? {
            return Ok(());
        }
        for (shard, member) in &mut self.members {
            let position = member.space.extent()?.position;
            let began = self.own.began.entry(*shard).or_default();
            while let Some((_, view)) = began.pop_front_if(|(installed, _)| *installed <= position) {
                member.replica.stored(view);
            }
            if let Some(records) = member.replica.operations().checkpoint() {
                self.journal.checkpoint(*shard, envelope::write(Kind::Tapir, &records).into());
            }
        }
        Ok(())
    }
}
