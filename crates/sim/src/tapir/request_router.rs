//! The request router of TAPIR nodes: the routes of keys, and background tasks that recover
//! transactions and move replicas.

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
    /// The epoch that this node waits for to take over; `taken_over` is the newest epoch whose
    /// replicas have taken over, as far as this node knows.
    seen_epoch: Option<u32>,
    taken_over: u32,
    /// The transactions that this node is recovering.
    recovering: BTreeSet<TransactionId>,
}

/// The state that sessions of a node share.
pub struct Own {
    halves: Halves,
    state: Mutex<State>,
}

impl Own {
    /// Creates the state with the routes of keys.
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

pub type RequestRouter = leaderless::RequestRouter<Tapir>;

impl RequestRouter {
    /// Returns a task that recovers a transaction until the boot clock reaches `until`, in
    /// nanoseconds; `None` if this node is recovering it already.
    pub fn recovers(
        self: &Arc<Self>,
        who: TransactionId,
        participants: Vec<ShardId>,
        until: u64,
    ) -> Option<BoxFuture<'static, ()>> {
        if !self.own.state.lock().recovering.insert(who) {
            return None;
        }
        let router = Arc::clone(self);
        Some(Box::pin(async move {
            if recover(&Shards(Arc::clone(&router)), who, &participants, until).await.is_none() {
                sometimes!("the outcome of a transaction is unknown in time");
            }
            router.own.state.lock().recovering.remove(&who);
        }))
    }

    /// Returns a task that waits until the replicas of an epoch have taken over, or the boot clock
    /// reaches `until`, in nanoseconds; `None` if this node waits for it already.
    pub fn change_task(self: &Arc<Self>, epoch: u32, until: u64) -> Option<BoxFuture<'static, ()>> {
        let mut state = self.own.state.lock();
        if state.seen_epoch.replace(epoch) == Some(epoch) {
            return None;
        }
        let router = Arc::clone(self);
        Some(Box::pin(async move {
            let shards: Vec<(ShardId, Name)> = router
                .own
                .halves
                .all()
                .map(|(shard, bounds)| (shard, bounds.start.clone()))
                .collect();
            let done = have_taken_over(&*router, &shards, epoch, until).await;
            let mut state = router.own.state.lock();
            state.seen_epoch = None;
            match done {
                Ok(()) => state.taken_over = state.taken_over.max(epoch),
                Err(_) => sometimes!("replicas do not take over in time"),
            }
        }))
    }

    /// True if this node waits for some epoch to take over.
    pub fn is_changing(&self) -> bool {
        self.own.state.lock().seen_epoch.is_some()
    }

    /// Returns the newest epoch whose replicas have taken over, as far as this node knows.
    pub fn has_seen_taken_over(&self) -> u32 {
        self.own.state.lock().taken_over
    }
}

impl Local for RequestRouter {
    fn route(&self, key: &Name) -> (ShardId, KeyRange) {
        self.own.halves.of(key)
    }

    fn route_below(&self, end: Option<&Name>) -> (ShardId, KeyRange) {
        self.own.halves.below(end)
    }
}
