//! What transactions over replicas of which none leads want of their node besides what every
//! session wants: a view of where keys are, and errands of the node's own.

use super::{Halves, Tapir};
use crate::leaderless::{self, Leaderless};
use futures::future::BoxFuture;
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Key as Name, KeyRange};
use meridian_replication::inconsistent::OpId;
use meridian_systems::tapir::{Local, Message, Shards, have_taken_over};
use meridian_txn::TransactionId;
use meridian_txn::tapir::recover;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Default)]
struct State {
    /// The epoch whose replicas are being waited for here, and the newest one whose replicas have
    /// taken over, as far as this node has found out.
    sees_to: Option<u32>,
    taken_over: u32,
    /// The transactions whose outcomes are being found out here.
    recovering: BTreeSet<TransactionId>,
}

/// What sessions of a node share.
pub struct Own {
    halves: Halves,
    state: Mutex<State>,
}

impl Own {
    /// Where the keys are.
    pub fn new(halves: Halves) -> Own {
        Own { halves, state: Mutex::default() }
    }
}

impl Leaderless for Tapir {
    type Message = Message;
    type Own = Own;

    fn answers(message: &Message) -> Option<OpId> {
        message.answers()
    }
}

pub type Desk = leaderless::Desk<Tapir>;

impl Desk {
    /// Finds out what became of a transaction until the boot clock reaches `until`; nothing, if
    /// that is being done here.
    pub fn recovers(
        self: &Arc<Self>,
        who: TransactionId,
        participants: Vec<ShardId>,
        until: u64,
    ) -> Option<BoxFuture<'static, ()>> {
        if !self.own.state.lock().recovering.insert(who) {
            return None;
        }
        let desk = Arc::clone(self);
        Some(Box::pin(async move {
            if recover(&Shards(Arc::clone(&desk)), who, &participants, until).await.is_none() {
                sometimes!("nobody can say in time what became of a transaction");
            }
            desk.own.state.lock().recovering.remove(&who);
        }))
    }

    /// Waits until the replicas of an epoch have taken over, or the boot clock reaches `until`;
    /// nothing, if that is being done here.
    pub fn sees_to(self: &Arc<Self>, epoch: u32, until: u64) -> Option<BoxFuture<'static, ()>> {
        let mut state = self.own.state.lock();
        if state.sees_to.replace(epoch) == Some(epoch) {
            return None;
        }
        let desk = Arc::clone(self);
        Some(Box::pin(async move {
            let shards: Vec<(ShardId, Name)> = desk
                .own
                .halves
                .all()
                .map(|(shard, bounds)| (shard, bounds.start.clone()))
                .collect();
            let done = have_taken_over(&*desk, &shards, epoch, until).await;
            let mut state = desk.own.state.lock();
            state.sees_to = None;
            match done {
                Ok(()) => state.taken_over = state.taken_over.max(epoch),
                Err(_) => sometimes!("replicas do not take over in time"),
            }
        }))
    }

    /// Whether that is being done here, of some epoch.
    pub fn is_seeing_to(&self) -> bool {
        self.own.state.lock().sees_to.is_some()
    }

    /// The newest epoch whose replicas have taken over, as far as this node has found out.
    pub fn has_seen_taken_over(&self) -> u32 {
        self.own.state.lock().taken_over
    }
}

impl Local for Desk {
    fn route(&self, key: &Name) -> (ShardId, KeyRange) {
        self.own.halves.of(key)
    }

    fn route_below(&self, end: Option<&Name>) -> (ShardId, KeyRange) {
        self.own.halves.below(end)
    }
}
