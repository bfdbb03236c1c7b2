//! A session of QWStore: reads at one replica, buffers writes until it commits, and then sends them
//! to all replicas.

use super::Message;
use crate::baselines::qwstore::rules;
use crate::{Next, Round, Wire};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use meridian_placement::FIRST_SHARD;
use meridian_txn::{
    Age, Begin, Buffer, Conflict, Database, Failure, Future, IsolationLevel, Lock, Mode, Node,
    Outcome, ReadAt, Rows, Savepoint, SchemaVersion, Stamps, Transaction, knows_time, sleep,
};
use std::sync::Arc;
use std::time::Duration;

/// How long a session tries to reach replicas, in nanoseconds.
const TIMEOUT_NS: u64 = 10_000_000_000;
/// After this time a request is repeated to replicas that have not answered, in nanoseconds.
const TRY_NS: u64 = 200_000_000;
/// How long a session pauses when there is no replica to ask, in nanoseconds.
const PAUSE_NS: u64 = 10_000_000;

/// Reads of sessions on their own node, without a message.
pub trait Local {
    /// Reads a chunk of a range at this node's own replica, backwards if the first part of `how` is
    /// true and with at most as many rows as the second says. `None` if it has no replica.
    fn find(&self, range: &KeyRange, how: (bool, usize)) -> Option<Result<Rows, Failure>>;
}

/// The replicas of a database, as the sessions on a node reach them.
pub trait Replicas: Wire<Message = Message> + Local {}
impl<W: Wire<Message = Message> + Local> Replicas for W {}

/// A node's access to a database without transactions.
pub struct TxnClient<S> {
    replicas: Arc<S>,
    stamps: Stamps,
}

impl<S: Replicas> TxnClient<S> {
    /// Makes the access to a database.
    pub fn new(replicas: Arc<S>) -> Self {
        TxnClient { replicas, stamps: Stamps::default() }
    }

    /// The replicas.
    pub fn replicas(&self) -> &Arc<S> {
        &self.replicas
    }
}

impl<S: Replicas> Database for TxnClient<S> {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::ReadUncommitted
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        Box::pin(sleep(self.replicas.node(), time))
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        Box::pin(async move {
            if let Mode::ReadOnly(ReadAt::Exact(_)) = how.mode {
                let why = "a database with the protocol qwstore has no snapshots: read its newest versions instead";
                return Err(Failure::Refused(why.into()));
            }
            if !knows_time(self.replicas.node()).await {
                return Err(Failure::Unavailable(
                    "this node does not know what time it is: are the others up?".into(),
                ));
            }
            let (began, (node, _)) =
                (self.replicas.node().now().interval, self.replicas.node().here());
            let fresh = || Age {
                began_ns: began.latest,
                node: node.0,
                number: self.replicas.node().new_number(),
            };
            Ok(Box::new(Coordinator {
                replicas: Arc::clone(&self.replicas),
                stamps: self.stamps.clone(),
                mode: how.mode,
                age: how.age.unwrap_or_else(fresh),
                began,
                writes: Buffer::default(),
            }) as Box<dyn Transaction>)
        })
    }
}

struct Coordinator<S: Replicas> {
    replicas: Arc<S>,
    stamps: Stamps,
    mode: Mode,
    age: Age,
    began: Interval,
    writes: Buffer,
}

impl<S: Replicas> Coordinator<S> {
    /// Reads a range at the nearest replica that answers.
    async fn read(&self, range: &KeyRange, how: (bool, usize)) -> Result<Rows, Failure> {
        let (replicas, until) = (&*self.replicas, self.replicas.node().boot_ns() + TIMEOUT_NS);
        let (reverse, limit_rows) = (how.0, u32::try_from(how.1).unwrap_or(u32::MAX));
        while !replicas.node().is_closed() && replicas.node().boot_ns() < until {
            if let Some(found) = replicas.find(range, how) {
                return found;
            }
            let me = replicas.node().here().0;
            let reached = |node: &NodeId| *node != me && replicas.node().reaches(*node);
            let Some(node) = replicas.nearest(FIRST_SHARD, false).into_iter().find(reached) else {
                replicas.node().sleep_until(until.min(replicas.node().boot_ns() + PAUSE_NS)).await;
                continue;
            };
            let (id, try_ends) = (replicas.new_id(), until.min(replicas.node().boot_ns() + TRY_NS));
            let question = Message::Read { id, range: range.clone(), reverse, limit_rows };
            let asked_ns = replicas.node().boot_ns();
            let answer = replicas.ask((FIRST_SHARD, node), id, question, try_ends).await;
            replicas.measured(node, answer.is_some().then(|| replicas.node().boot_ns() - asked_ns));
            if let Some(Message::Found { rows, rest, .. }) = answer {
                return Ok(Rows { rows, at: Vec::new(), rest });
            }
        }
        Err(Failure::Unavailable(match replicas.node().is_closed() {
            true => "this node is shutting down: begin again once it is back".to_owned(),
            false => "no replica answers: are their nodes up?".to_owned(),
        }))
    }

    async fn write(mut self) -> Outcome {
        let replicas = &*self.replicas;
        if !knows_time(replicas.node()).await {
            return Outcome::Aborted { why: Conflict::Late }; // Nothing was sent yet.
        }
        let at = self.stamps.draw(replicas.node().here(), replicas.node().now().interval.latest);
        match write_everywhere(replicas, FIRST_SHARD, at, &self.writes.take()).await {
            true => Outcome::Committed { at },
            false => Outcome::Unknown,
        }
    }
}

/// Sends writes to all replicas until each of them has stored them. False if some have not answered
/// in time.
async fn write_everywhere<S: Replicas>(
    replicas: &S,
    shard: ShardId,
    at: Timestamp,
    writes: &[Write],
) -> bool {
    let (id, until) = (replicas.new_id(), replicas.node().boot_ns() + TIMEOUT_NS);
    let mut lacking = replicas.replicas(shard);
    while !replicas.node().is_closed() && replicas.node().boot_ns() < until {
        let try_ends = until.min(replicas.node().boot_ns() + TRY_NS);
        let mut round = replicas.round(shard, id, try_ends);
        round.ask(&lacking, &Message::Put { id, at, writes: writes.to_vec() });
        while let Next::Answer { node, answer, .. } = round.next(try_ends, lacking.len()).await {
            if let Message::Stored { .. } = answer {
                lacking.retain(|lacking| *lacking != node);
            }
        }
        drop(round);
        let some = 2 * lacking.len() < replicas.replicas(shard).len();
        if lacking.is_empty() || (some && broken(rules::ACKNOWLEDGED_BY_SOME)) {
            return true;
        }
        replicas.node().sleep_until(until.min(replicas.node().boot_ns() + PAUSE_NS)).await;
    }
    false
}

impl<S: Replicas> Transaction for Coordinator<S> {
    fn mode(&self) -> Mode {
        self.mode
    }

    fn age(&self) -> Age {
        self.age
    }

    fn began(&self) -> Interval {
        self.began
    }

    fn read_at(&self) -> Option<Timestamp> {
        None // Its reads have no common timestamp.
    }

    fn get<'a>(&'a mut self, key: &'a Key, _: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            let found = self.read(&KeyRange::point(key.clone()), (false, 1)).await?;
            Ok(found.rows.into_iter().next().map(|(_, value)| value))
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        _: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(async move {
            let limit_rows = limit_rows.max(1);
            let found = self.read(range, (reverse, limit_rows)).await?;
            Ok(self.writes.over(range, found, reverse, limit_rows))
        })
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if let Mode::ReadOnly(_) = self.mode {
            return Err(Failure::ReadOnly);
        }
        if self.replicas.node().is_full() {
            return Err(Failure::DiskFull);
        }
        self.writes.put(key, value)
    }

    fn planned_for(&mut self, _: SchemaVersion) {} // There are none: they cannot be changed.

    fn change_schema(&mut self, _: SchemaVersion, _: Vec<KeyRange>) -> Result<(), Failure> {
        let why = "a database with the protocol qwstore has no tables: create a database with another protocol";
        Err(Failure::Refused(why.into()))
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint);
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        if self.writes.is_empty() {
            let at = Timestamp { nanos: self.began.earliest, ..Timestamp::ZERO };
            return Box::pin(std::future::ready(Outcome::Committed { at }));
        }
        Box::pin((*self).write())
    }
}
