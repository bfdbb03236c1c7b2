//! A replica's part in copies of whole shards from leaders to followers.
//!
//! A received copy replaces the shard's versions within a step of the replica, so that nothing is
//! committed and installed meanwhile, and only if the replica still lacks it.

use super::member::MemberShard;
use crate::actor::Input;
use crate::transfer::{Copied, Taken};
use meridian_machine::NodeId;
use meridian_mvcc::StoreError;
use meridian_replication::group::{Index, Term};
use meridian_store::ShardStore;
use meridian_store::courier::Received;
use meridian_systems::locking::Replica;
use std::sync::Arc;

impl Copied for MemberShard {
    fn shard_store(&self) -> Arc<ShardStore> {
        self.runtime().shared_space()
    }

    fn on_store_error(&self, error: &StoreError) {
        self.runtime().on_store_error(error);
    }

    fn begun(&self, to: NodeId, position: u64) {
        self.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
            replica.with_group(now, out, |group, _| group.snapshot_begun(to, Index(position)));
        })));
    }

    fn ended(&self, to: NodeId, position: u64) {
        self.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
            replica.with_group(now, out, |group, out| {
                group.snapshot_delivered(now, to, Index(position), out)
            });
        })));
    }

    fn take_over(self: Arc<Self>, taken: Taken) {
        take_over(&self, taken);
    }
}

fn take_over(member: &Arc<MemberShard>, taken: Taken) {
    let of_step = Arc::downgrade(member);
    member.post(Input::Call(Box::new(move |replica: &mut Replica, now, out| {
        let Some(member) = of_step.upgrade() else { return };
        let Received { copy, extent, .. } = *taken.received();
        if replica.group().commit_index() >= Index(extent.position) || !replica.group().has_joined() {
            return; // The log was faster, or the replica's membership is not durable yet.
        }
        let refused = |error: StoreError| tracing::error!(%error, "a copy cannot be used; it will be offered again");
        match member.runtime().rows_of(copy).map(|rows| replica.learn_splits(now, &rows, out)) {
            // The new shards' memberships are installed after this step.
            Ok(true) => return take_over(&member, taken),
            Ok(false) => {}
            Err(error) => return refused(error),
        }
        match member.runtime().use_copy(copy, extent) {
            Ok(kept) => {
                replica.snapshot_installed(now, Index(extent.position), Term(extent.term), kept, out);
                member.runtime().create_children();
                tracing::info!(position = extent.position, "a replica continues from a copy");
            }
            Err(error) => refused(error),
        }
    })));
}
