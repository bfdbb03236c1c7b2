//! An incarnation of a node in the QWStore protocol: a replica of the one shard, which has every
//! write in its log and every version in its store.

use super::QwStore;
use super::desk::{Desk, Own as OfDesk};
use crate::Defect;
use crate::clock::NodeClock;
use crate::journal::DATABASE;
use crate::life::{self, SETTLE_BYTES, Unfit, full};
use meridian_clock::{Reading, Timestamp};
use meridian_log::MemoryDisk;
use meridian_machine::{Incarnation, NodeId, Outbox};
use meridian_mvcc::{KeyRange, Store};
use meridian_placement::FIRST_SHARD;
use meridian_replication::inconsistent::Members;
use meridian_store::Space;
use meridian_systems::baselines::qwstore::{Gateway, KIND, Kept, Replica};
use meridian_systems::envelope;
use meridian_txn::Database;
use std::sync::Arc;

pub type Life = life::Life<QwStore>;
pub type Member = life::Member<Replica>;

/// QWStore's own state of an incarnation: no write at or below `closed` is accepted any more.
#[derive(Default)]
pub struct Own {
    pub closed: Timestamp,
}

/// The configuration of an incarnation.
pub struct Birth<'a> {
    pub me: (NodeId, Incarnation),
    /// The nodes that have replicas.
    pub replicas: &'a [NodeId],
    pub seed: u64,
    pub defect: Option<Defect>,
    pub admitted: bool,
    pub clock: &'a Arc<NodeClock>,
    pub disks: &'a (MemoryDisk, MemoryDisk),
}

impl Life {
    /// Begins an incarnation with the contents of the disks.
    pub fn begin(birth: &Birth<'_>) -> Result<Life, Unfit> {
        let Birth { me, replicas, seed, .. } = *birth;
        let members = Members::first(replicas.iter().copied().collect());
        let desk =
            Arc::new(Desk::new(Arc::clone(birth.clock), me, members, OfDesk::default(), seed));
        let gateway = Arc::new(Gateway::new(Arc::clone(&desk))) as Arc<dyn Database>;
        let (mut life, mut records) =
            Life::dawn(me.1, (desk, gateway), Own::default(), birth.admitted, birth.disks)?;
        if !replicas.contains(&me.0) {
            return Ok(life);
        }
        let mut kept: Vec<Kept> = Vec::new();
        for bytes in records.remove(&FIRST_SHARD).into_iter().flatten() {
            kept.extend(envelope::read::<Vec<Kept>>(KIND, &bytes).map_err(Unfit::Wrong)?);
        }
        if birth.defect == Some(Defect::EntriesForgotten) {
            let last = kept.iter().rposition(|kept| matches!(kept, Kept::Put(_)));
            last.map(|at| kept.remove(at));
        }
        let store = Arc::clone(&life.store) as Arc<dyn Store>;
        let space = Arc::new(Space::open_with(DATABASE, FIRST_SHARD.0, KeyRange::all(), store)?);
        let (extent, goes_to) = (space.extent()?, Kept::goes_to(&kept));
        if extent.position < goes_to {
            return Err(space.lacks(goes_to).into());
        }
        life.own.closed = extent.horizon;
        life.desk.own.set_space(Arc::clone(&space));
        let mut out = Outbox::new();
        let replica =
            Replica::new(KeyRange::all(), kept, (extent.position, extent.horizon), &mut out);
        life.members.insert(FIRST_SHARD, Member::new(replica, out, space));
        Ok(life)
    }

    /// Flushes versions to the store, removes old ones, and truncates the log: the replica's
    /// checkpoint replaces all its earlier records.
    pub fn settle(
        &mut self,
        now: Reading,
        retention_ns: u64,
        checkpoint: bool,
    ) -> Result<(), meridian_mvcc::StoreError> {
        let Some(member) = self.members.get_mut(&FIRST_SHARD) else { return Ok(()) };
        let space = &member.space;
        let settled = space.settle(SETTLE_BYTES).map(drop);
        let settled = settled.and_then(|()| {
            space
                .collect(now.interval.earliest, retention_ns, self.own.closed, SETTLE_BYTES)
                .map(drop)
        });
        if full(settled)? {
            return Ok(());
        }
        let applied = space.extent()?.position;
        if checkpoint && !full(self.store.checkpoint())? {
            let records = member.replica.stored(now, applied, &mut member.out);
            self.journal.checkpoint(FIRST_SHARD, envelope::write(KIND, &records).into());
        }
        Ok(())
    }
}
