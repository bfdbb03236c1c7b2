//! What nobody asks for and somebody has to do: transactions whose coordinators are gone are
//! recovered, and a replica that may have missed something asks for a view.

use super::Desk;
use crate::resident::Input;
use meridian_machine::{NodeId, ShardId};
use meridian_placement::FIRST_SHARD;
use meridian_systems::Wire;
use meridian_systems::tapir::{Replica, Shards};
use meridian_txn::tapir::recover;
use meridian_txn::{Node, TransactionId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Between two looks.
const EVERY_NS: u64 = 250_000_000;
/// Who is prepared for so long is recovered by the first node that is up; by each next one after as
/// much more.
const OVERDUE_NS: u64 = 2_000_000_000;
/// And for at least so many round trips: both ways of the slow path, how it ended, and as much
/// again.
const OVERDUE_ROUND_TRIPS: u64 = 6;
/// So long is tried; then again, with the next look.
const PATIENCE_NS: u64 = 10_000_000_000;
/// So many at once.
const AT_ONCE: usize = 64;

/// What is remembered between two looks.
#[derive(Default)]
pub(super) struct Tending {
    looked_at: AtomicU64,
    recovering: AtomicBool,
    /// Who could be reached then.
    reached: Mutex<BTreeSet<NodeId>>,
}

impl Desk {
    /// Looks, every now and then.
    pub(super) fn tend(self: Arc<Self>, now: u64, connected: &[NodeId]) {
        if now < self.protocol().tending.looked_at.load(Ordering::Relaxed) + EVERY_NS {
            return;
        }
        self.protocol().tending.looked_at.store(now, Ordering::Relaxed);
        let (me, _) = self.node().here();
        // A former replica hears of no end any more: what is prepared there the others find out
        // about.
        let is_one = self.members().replicas.contains(&me);
        let Some(replica) = self.replica().filter(|_| is_one) else { return };
        let reached: BTreeSet<NodeId> = self
            .replicas()
            .iter()
            .copied()
            .filter(|node| *node != me && connected.contains(node))
            .collect();
        let before =
            std::mem::replace(&mut *self.protocol().tending.reached.lock(), reached.clone());
        if reached.difference(&before).next().is_some() {
            // What was said meanwhile, here or there, is lost: the next view begins with it.
            replica.post(Input::Call(Box::new(|replica: &mut Replica, now, out| {
                replica.change_view(now, out)
            })));
        }
        let rank = reached.iter().filter(|node| **node < me).count() as u64;
        let round_trip_ns = self.round_trip_ns(FIRST_SHARD);
        let after_ns = OVERDUE_NS.max(OVERDUE_ROUND_TRIPS * round_trip_ns) * (1 + rank);
        let desk = Arc::clone(&self);
        replica.post(Input::Call(Box::new(move |replica: &mut Replica, now, _| {
            replica.pace(round_trip_ns);
            let overdue = replica.operations().application().participant().overdue(now, after_ns);
            if !overdue.is_empty() {
                desk.recover(overdue);
            }
        })));
    }

    /// Finds out what became of some, on a thread of its own: it takes a view change, and asks
    /// others.
    fn recover(self: Arc<Self>, mut overdue: Vec<(TransactionId, Vec<ShardId>)>) {
        if self.protocol().tending.recovering.swap(true, Ordering::AcqRel) {
            return; // They are under way.
        }
        overdue.truncate(AT_ONCE);
        let guard = Arc::clone(&self.node().plumbing().guard);
        let shards = Shards(Arc::clone(&self));
        let recover_all = move || {
            let until = crate::clock::boot_ns() + PATIENCE_NS;
            let each = overdue
                .iter()
                .map(|(who, participants)| recover(&shards, *who, participants, until));
            let outcomes = futures::executor::block_on(futures::future::join_all(each));
            let found = outcomes.iter().flatten().count();
            tracing::info!(
                found,
                of = outcomes.len(),
                "recovered transactions whose coordinators are gone"
            );
            shards.0.protocol().tending.recovering.store(false, Ordering::Release);
        };
        if let Err(error) = guard.spawn("recover", recover_all) {
            tracing::warn!(%error, "transactions whose coordinators are gone wait");
            self.protocol().tending.recovering.store(false, Ordering::Release);
        }
    }
}
