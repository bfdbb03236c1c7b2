//! The request router of TAPIR nodes: the routes of keys, and background tasks that recover
//! transactions and move replicas.

use super::{Halves, Tapir};
use crate::leaderless::{self, Leaderless};
use futures::future::BoxFuture;
use meridian_clock::{Reading, Timestamp};
use meridian_machine::{Incarnation, NodeId, ShardId, sometimes};
use meridian_mvcc::{Key as Name, KeyRange};
use meridian_replication::inconsistent::OpId;
use meridian_systems::Wire;
use meridian_systems::tapir::{
    Message, have_taken_over, invoke, keep_turn, leave, look, read, take_turn, tell,
};
use meridian_txn::tapir::{Common, End, Found, Looked, Question, Site, Turn, recover};
use meridian_txn::{Failure, TransactionId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The pause between two rounds over the replicas when none responds.
const PAUSE_NS: u64 = 10_000_000;

#[derive(Default)]
struct State {
    /// The epoch that this node waits for to take over; `taken_over` is the newest epoch whose
    /// replicas have taken over, as far as this node knows.
    sees_to: Option<u32>,
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

pub type Desk = leaderless::Desk<Tapir>;

impl Desk {
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
        let desk = Arc::clone(self);
        Some(Box::pin(async move {
            if recover(&*desk, who, &participants, until).await.is_none() {
                sometimes!("nobody can say in time what became of a transaction");
            }
            desk.own.state.lock().recovering.remove(&who);
        }))
    }

    /// Returns a task that waits until the replicas of an epoch have taken over, or the boot clock
    /// reaches `until`, in nanoseconds; `None` if this node waits already.
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

    /// True if this node waits for some epoch to take over.
    pub fn is_seeing_to(&self) -> bool {
        self.own.state.lock().sees_to.is_some()
    }

    /// Returns the newest epoch whose replicas have taken over, as far as this node knows.
    pub fn has_seen_taken_over(&self) -> u32 {
        self.own.state.lock().taken_over
    }
}

impl Site for Desk {
    fn now(&self) -> Reading {
        self.reading()
    }

    fn here(&self) -> (NodeId, Incarnation) {
        Wire::here(self)
    }

    fn new_number(&self) -> u64 {
        Wire::new_number(self)
    }

    fn round_trip_ns(&self) -> u64 {
        Desk::round_trip_ns(self)
    }

    fn draw(&self) -> f64 {
        Desk::draw(self)
    }

    fn is_closed(&self) -> bool {
        Wire::is_closed(self)
    }

    fn is_full(&self) -> bool {
        self.is_disk_full()
    }

    fn route(&self, key: &Name) -> (ShardId, KeyRange) {
        self.own.halves.of(key)
    }

    fn route_below(&self, end: Option<&Name>) -> (ShardId, KeyRange) {
        self.own.halves.below(end)
    }

    async fn read(
        &self,
        shard: ShardId,
        range: &KeyRange,
        how: (bool, usize),
        fresh: bool,
        until: u64,
    ) -> Option<Result<Found, Failure>> {
        let mut repetition = 0;
        while self.boot_ns() < until {
            for node in self.nearest(fresh) {
                let patience_ends =
                    until.min(self.boot_ns() + Wire::patience_ns(self, &[node], repetition));
                if let Some(found) = read(self, (shard, node), range, how, patience_ends).await {
                    return Some(Ok(found));
                }
                sometimes!("the nearest replica does not answer");
            }
            repetition += 1;
            Wire::pause(self, until.min(self.boot_ns() + PAUSE_NS)).await;
        }
        None
    }

    async fn look(
        &self,
        shard: ShardId,
        range: &KeyRange,
        at: Timestamp,
        how: (bool, usize),
        until: u64,
    ) -> Option<Result<Looked, Failure>> {
        look(self, shard, range, at, how, until).await
    }

    async fn ask(&self, shard: ShardId, question: Question, until: u64) -> Option<Common> {
        invoke(self, shard, &question, until).await
    }

    fn tell(&self, shard: ShardId, end: End) {
        tell(self, shard, &end);
    }

    async fn take_turn(&self, key: (ShardId, Name), holds_ns: u64, until: u64) -> Option<Turn> {
        take_turn(self, key, holds_ns, until).await
    }

    fn keep_turn(&self, turn: &Turn, holds_ns: u64) {
        keep_turn(self, turn, holds_ns);
    }

    fn leave(&self, turn: &Turn) {
        leave(self, turn);
    }

    async fn pause(&self, until: u64) {
        Wire::pause(self, until).await;
    }
}
