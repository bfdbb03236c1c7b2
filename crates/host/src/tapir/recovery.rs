//! Recovery in the background: transactions whose coordinators failed are finished, and a replica
//! that may have missed messages requests a view change.

use super::RequestRouter;
use crate::actor::Input;
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

/// Time between two checks.
const EVERY_NS: u64 = 250_000_000;
/// Time after which a prepared transaction is recovered by the lowest-numbered reachable node. Each
/// next node waits as much longer.
const OVERDUE_NS: u64 = 2_000_000_000;
/// Lower bound of that time in round trips: both ways of the slow path, the outcome, and as much
/// again.
const OVERDUE_ROUND_TRIPS: u64 = 6;
/// Time that a recovery may take. The next check starts it again.
const TIMEOUT_NS: u64 = 10_000_000_000;
/// Transactions that are recovered at once.
const AT_ONCE: usize = 64;

/// State between two checks.
#[derive(Default)]
pub(super) struct Recovery {
    looked_at: AtomicU64,
    recovering: AtomicBool,
    /// Nodes that were reachable at the last check.
    reached: Mutex<BTreeSet<NodeId>>,
}

impl RequestRouter {
    /// Checks for lost messages and abandoned transactions, every [`EVERY_NS`].
    pub(super) fn maintain(self: Arc<Self>, now: u64, connected: &[NodeId]) {
        if now < self.protocol().recovery.looked_at.load(Ordering::Relaxed) + EVERY_NS {
            return;
        }
        self.protocol().recovery.looked_at.store(now, Ordering::Relaxed);
        let (me, _) = self.node().here();
        // A former replica receives no outcomes any more; the present replicas resolve the
        // transactions that are prepared there.
        let is_one = self.members().replicas.contains(&me);
        let Some(replica) = self.replica().filter(|_| is_one) else { return };
        let reached: BTreeSet<NodeId> = self
            .replicas()
            .iter()
            .copied()
            .filter(|node| *node != me && connected.contains(node))
            .collect();
        let before =
            std::mem::replace(&mut *self.protocol().recovery.reached.lock(), reached.clone());
        if reached.difference(&before).next().is_some() {
            // Messages sent while the other node was unreachable are lost; a view change transfers
            // their effects.
            replica.post(Input::Call(Box::new(|replica: &mut Replica, now, out| {
                replica.change_view(now, out)
            })));
        }
        let rank = reached.iter().filter(|node| **node < me).count() as u64;
        let round_trip_ns = self.round_trip_ns(FIRST_SHARD);
        let after_ns = OVERDUE_NS.max(OVERDUE_ROUND_TRIPS * round_trip_ns) * (1 + rank);
        let router = Arc::clone(&self);
        replica.post(Input::Call(Box::new(move |replica: &mut Replica, now, _| {
            replica.pace(round_trip_ns);
            let overdue = replica.operations().application().participant().overdue(now, after_ns);
            if !overdue.is_empty() {
                router.recover(overdue);
            }
        })));
    }

    /// Recovers transactions on a thread of its own: recovery needs a view change and responses of
    /// other nodes.
    fn recover(self: Arc<Self>, mut overdue: Vec<(TransactionId, Vec<ShardId>)>) {
        if self.protocol().recovery.recovering.swap(true, Ordering::AcqRel) {
            return; // A recovery is running.
        }
        overdue.truncate(AT_ONCE);
        let guard = Arc::clone(&self.node().resources().guard);
        let shards = Shards(Arc::clone(&self));
        let recover_all = move || {
            let until = crate::clock::boot_ns() + TIMEOUT_NS;
            let each = overdue
                .iter()
                .map(|(who, participants)| recover(&shards, *who, participants, until));
            let outcomes = futures::executor::block_on(futures::future::join_all(each));
            let found = outcomes.iter().flatten().count();
            tracing::info!(
                found,
                of = outcomes.len(),
                "recovered transactions whose coordinators failed"
            );
            shards.0.protocol().recovery.recovering.store(false, Ordering::Release);
        };
        if let Err(error) = guard.spawn("recover", recover_all) {
            tracing::warn!(%error, "cannot start a thread to recover transactions; trying again");
            self.protocol().recovery.recovering.store(false, Ordering::Release);
        }
    }
}
