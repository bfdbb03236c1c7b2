//! A replica's part in copies of whole shards from leaders to followers.
//!
//! A received copy replaces the shard's versions within a step of the replica, so that nothing is
//! committed and installed meanwhile, and only if the replica still lacks it.

use super::member::{MemberRuntime, MemberShard};
use crate::actor::{Input, ReplicaRuntime};
use crate::transfer::{Copied, Taken};
use meridian_machine::NodeId;
use meridian_mvcc::StoreError;
use meridian_replication::group::{Index, Term};
use meridian_store::ShardStore;
use meridian_store::courier::Received;
use meridian_systems::shard::{
    CopyDecision, CopyError, Damaged, Effect, Participant, ReceivedCopy, Recovered, Rows, Shard,
};
use std::sync::Arc;

impl<P: Participant> Copied for MemberShard<P> {
    fn shard_store(&self) -> Arc<ShardStore> {
        self.runtime().shared_space()
    }

    fn on_store_error(&self, error: &StoreError) {
        self.runtime().on_store_error(error);
    }

    fn begun(&self, to: NodeId, position: u64) {
        self.post(Input::Call(Box::new(move |replica: &mut Shard<P>, now, out| {
            replica.with_group(now, out, |group, _| group.snapshot_begun(to, Index(position)));
        })));
    }

    fn ended(&self, to: NodeId, position: u64) {
        self.post(Input::Call(Box::new(move |replica: &mut Shard<P>, now, out| {
            replica.with_group(now, out, |group, out| {
                group.snapshot_delivered(now, to, Index(position), out)
            });
        })));
    }

    fn take_over(self: Arc<Self>, taken: Taken) {
        take_over(&self, taken);
    }
}

fn take_over<P: Participant>(member: &Arc<MemberShard<P>>, taken: Taken) {
    let of_step = Arc::downgrade(member);
    member.post(Input::Call(Box::new(move |replica: &mut Shard<P>, now, out| {
        let Some(member) = of_step.upgrade() else { return };
        let (runtime, received) = (member.runtime(), *taken.received());
        match replica.take_over(now, &mut CopyOnNode { runtime, received }, out) {
            Ok(CopyDecision::Unwanted) => {}
            // After the effects of this step.
            Ok(CopyDecision::SplitsFirst) => take_over(&member, taken),
            Ok(CopyDecision::Taken) => {
                runtime.create_children();
                let position = received.extent.position;
                tracing::info!(position, "a replica continues from a copy");
            }
            Err(CopyError::NotReplaced(error)) if may_have_replaced(&error) => {
                runtime.act(Effect::Stop { why: error.to_string() });
            }
            Err(CopyError::Unreadable(error) | CopyError::NotReplaced(error)) => {
                tracing::error!(%error, "a copy cannot be used; it will be offered again");
            }
        }
    })));
}

/// True if it is unknown which versions the store has after an error. The next start reads them.
fn may_have_replaced(error: &StoreError) -> bool {
    matches!(error, StoreError::Damaged { .. } | StoreError::Disk { .. })
}

/// A received copy, with the replica that may continue from it.
struct CopyOnNode<'m, P: Participant> {
    runtime: &'m MemberRuntime<P>,
    received: Received,
}

impl<P: Participant> ReceivedCopy for CopyOnNode<'_, P> {
    type Rows = P::Rows;
    type Error = StoreError;

    fn through(&self) -> (Index, Term) {
        (Index(self.received.extent.position), Term(self.received.extent.term))
    }

    fn rows(&self) -> Result<Rows<P::Rows>, StoreError> {
        let rows = self.runtime.shard_store().protocol_rows_of(self.received.copy)?;
        let damaged = |Damaged(what)| StoreError::Damaged { file: "a copy".to_owned(), what };
        Rows::read(self.runtime.shard(), &rows).map_err(damaged)
    }

    fn replace(&mut self) -> Result<(), StoreError> {
        self.runtime.shard_store().use_copy(self.received.copy, self.received.extent)
    }

    fn recovered(&self) -> Result<Recovered<P::Rows>, StoreError> {
        self.runtime.recovered()
    }

    fn publish(&mut self, recovered: &Recovered<P::Rows>) {
        self.runtime.publish(recovered);
    }

    fn report_children(&mut self) -> Result<(), StoreError> {
        self.runtime.shard_store().list_children()
    }
}
