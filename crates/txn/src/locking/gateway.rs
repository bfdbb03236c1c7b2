//! Transactions over a shard, as a session sees them.
//!
//! The coordinator of a transaction is the session itself: it asks the leader, wherever that is, and merges its own writes into
//! what it hears. A leader on this node is stepped on the session's own thread: a lock that is free costs no wake. Reads of
//! a read-only transaction whose leader is here ask nobody (see [`Readable`]).
//!
//! It is `async` and knows no executor: all it wants of its node is a [`Site`], so that sockets and the simulator run the same coordinator.
//!
//! Invariants:
//! 1. Once a transaction was told that it is aborted, it asks for nothing any more: its locks are gone.
//! 2. A commit names the leadership that holds its locks; one that only writes locks its first key to learn it. So a commit may be
//!    asked again of whoever leads next: it is answered from what was agreed, or aborted for good, and never done twice.
//! 3. Unknown is only what no leader could tell for [`PATIENCE_NS`].
//! 4. A question is asked again every [`ONE_TRY_NS`]; a leader where it waits says so, and a lock is waited for as long as it takes.

use super::{Ask, Footing, Heard, Reply, Request, Site, Spent, TransactionId};
use crate::{
    Age, Begin, Buffer, Conflict, Database, Failure, Future, Lock, Mode, Outcome, ReadAt, Rows, Savepoint, Timings,
    Transaction,
};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::{NodeId, sometimes};
use meridian_mvcc::{Key, KeyRange, StoreError, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long a session looks for a leader that answers.
pub const PATIENCE_NS: u64 = 10_000_000_000;
/// After so long a question is asked again: it, or its answer, may be lost.
pub const ONE_TRY_NS: u64 = 1_000_000_000;
/// A node that is connected but did not answer so many times is taken for one that does not lead.
const TRIES: u32 = 3;
const PAUSE_NS: u64 = 20_000_000;

/// A database whose transactions lock, from this node.
pub struct Gateway<S> {
    site: Arc<S>,
}

impl<S: Site> Gateway<S> {
    /// The door to a shard.
    pub fn new(site: S) -> Self {
        Gateway { site: Arc::new(site) }
    }

    /// The node that it stands on.
    pub fn site(&self) -> &S {
        &self.site
    }
}

impl<S: Site> Database for Gateway<S> {
    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        let (node, incarnation) = self.site.here();
        let slot = self.site.readable();
        // Sampled after the slot was loaded: a lease that holds now held then.
        let now = self.site.now();
        let leads = now.interval.latest < slot.until;
        let read_at = match how.mode {
            Mode::ReadWrite => None,
            Mode::ReadOnly(ReadAt::Now) => leads.then_some(slot.through),
            Mode::ReadOnly(ReadAt::Exact(at) | ReadAt::AtLeast(at)) if at.nanos > now.interval.latest => {
                return Box::pin(std::future::ready(Err(Failure::InFuture { now: now.interval })));
            }
            Mode::ReadOnly(ReadAt::Exact(at)) => Some(at),
            Mode::ReadOnly(ReadAt::AtLeast(_)) if leads => Some(slot.through),
            // If nothing of that is at hand: the present, at the leader.
            Mode::ReadOnly(ReadAt::AtLeast(at)) => Some(slot.closed).filter(|closed| *closed >= at),
        };
        let number = self.site.new_number();
        let here = |at: Timestamp| (leads && at <= slot.through) || at <= slot.closed;
        let local = read_at.is_some_and(here);
        if local && leads {
            self.site.reads_alone();
        }
        if local && !leads {
            sometimes!("a snapshot is read where nobody leads");
        }
        let transaction = Session {
            site: Arc::clone(&self.site),
            mode: how.mode,
            transaction: TransactionId { node: node.0, incarnation: incarnation.0, number },
            age: how.age.unwrap_or(Age { began_ns: now.interval.latest, node: node.0, number }),
            began: now.interval,
            local,
            read_at,
            footing: None,
            questions: 0,
            leader: None,
            writes: Buffer::default(),
            aborted: None,
            lock_timeout: None,
            timings: None,
        };
        Box::pin(std::future::ready(Ok(Box::new(transaction) as Box<dyn Transaction>)))
    }
}

fn of_store(error: StoreError) -> Failure {
    match error {
        StoreError::BelowHorizon { oldest } => Failure::BelowHorizon { oldest },
        other => Failure::Storage(other.to_string()),
    }
}

struct Session<S: Site> {
    site: Arc<S>,
    mode: Mode,
    transaction: TransactionId,
    age: Age,
    began: Interval,
    read_at: Option<Timestamp>,
    /// Everything at or below the snapshot is installed here, and nothing more will appear.
    local: bool,
    /// What this attempt's locks stand on.
    footing: Option<Footing>,
    questions: u64,
    /// Who holds this attempt's locks.
    leader: Option<NodeId>,
    writes: Buffer,
    aborted: Option<Conflict>,
    lock_timeout: Option<Duration>,
    /// Somebody wants to know where the time goes.
    timings: Option<Arc<Timings>>,
}

impl<S: Site> Session<S> {
    fn request(&mut self, ask: Ask) -> Request {
        self.questions += 1;
        Request { transaction: self.transaction, age: self.age, id: self.questions, footing: self.footing, ask }
    }

    fn boot_ns(&self) -> u64 {
        self.site.now().boot_ns
    }

    fn unavailable(&self) -> Failure {
        if self.site.is_closed() {
            return Failure::Unavailable("this node is shutting down: begin again once it is back".into());
        }
        let group = self.site.describe();
        Failure::Unavailable(format!("no leader of {group} answers: are a majority of its nodes up?"))
    }

    /// Reads a chunk, and notes how long that took if anybody wants to know.
    async fn read(&mut self, range: &KeyRange, lock: Lock, reverse: bool, limit: usize) -> Result<Rows, Failure> {
        let Some(timings) = self.timings.clone() else { return self.read_chunk(range, lock, reverse, limit).await };
        let began_ns = timings.elapsed_ns();
        let rows = self.read_chunk(range, lock, reverse, limit).await;
        timings.note(|times| {
            times.reads += 1;
            times.reading_ns += timings.elapsed_ns() - began_ns;
        });
        rows
    }

    /// Reads a chunk at the leader, under a lock or at a snapshot.
    async fn read_chunk(&mut self, range: &KeyRange, lock: Lock, reverse: bool, limit: usize) -> Result<Rows, Failure> {
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        let limit = limit.max(1);
        let limit_rows = u32::try_from(limit).unwrap_or(u32::MAX);
        let site = Arc::clone(&self.site);
        if self.local {
            let at = self.read_at.unwrap_or(Timestamp::ZERO);
            match site.scan(range, at, reverse, limit) {
                Ok(chunk) => return Ok(Rows { rows: chunk.rows, rest: chunk.rest }),
                Err(error) => self.elsewhere(error)?,
            }
        }
        let (mut until, mut tries) = (self.boot_ns() + PATIENCE_NS, 0);
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // A snapshot takes no lock: it waits for a leader at most.
        let lock_timeout = self.lock_timeout.filter(|_| self.mode == Mode::ReadWrite);
        let give_up = lock_timeout.map_or(u64::MAX, |most| self.boot_ns().saturating_add(nanoseconds(most)));
        loop {
            let now = self.boot_ns();
            if now >= give_up {
                // Who waits behind this one need not wait for its ROLLBACK.
                if let Some(node) = self.leader {
                    let request = self.request(Ask::Withdraw);
                    site.tell(node, request);
                }
                return Err(Failure::LockTimeout);
            }
            if now >= until || site.is_closed() {
                return Err(self.unavailable());
            }
            let ask = match self.mode {
                Mode::ReadWrite => Ask::Read { range: range.clone(), lock, reverse, limit_rows },
                Mode::ReadOnly(_) => Ask::Snapshot { at: self.read_at, range: range.clone(), reverse, limit_rows },
            };
            let request = self.request(ask);
            let node = self.leader.unwrap_or_else(|| site.leader());
            let locks = self.mode == Mode::ReadWrite;
            if locks && self.leader.replace(node) != Some(node) {
                site.holds(node, self.transaction, self.age);
            }
            let withdraw = locks.then(|| Request { id: request.id + 1, ask: Ask::Withdraw, ..request });
            let waiting = Waiting { site: &*site, node, withdraw };
            let heard = site.ask(node, request, (now + ONE_TRY_NS).min(give_up)).await;
            waiting.end();
            match heard {
                None if self.boot_ns() >= give_up => {}
                Some(Heard::Waits) => (until, tries) = (self.boot_ns() + PATIENCE_NS, 0),
                Some(Heard::Reply(Reply::Rows { footing, at, rows, rest, .. })) => {
                    self.note(footing, at);
                    return Ok(Rows { rows, rest });
                }
                Some(Heard::Read { footing, at, deadline }) => {
                    let chunk = site.scan(range, at, reverse, limit).map_err(of_store)?;
                    let latest = site.now().interval.latest;
                    if deadline.is_none_or(|deadline| latest < deadline) {
                        self.note(footing, at);
                        return Ok(Rows { rows: chunk.rows, rest: chunk.rest });
                    }
                    sometimes!("the lease ends while a session reads under it");
                }
                Some(Heard::Reply(Reply::Aborted { why, .. })) => {
                    self.aborted = Some(why.clone());
                    return Err(Failure::Aborted(why));
                }
                Some(Heard::Reply(Reply::BelowHorizon { oldest, .. })) => return Err(Failure::BelowHorizon { oldest }),
                Some(Heard::Reply(Reply::Broken { what, .. })) => return Err(Failure::Storage(what)),
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                    self.lost_leader(node, leader)?;
                    site.pause(self.boot_ns() + PAUSE_NS).await;
                }
                None if tries < TRIES && site.reaches(node) => tries += 1,
                Some(Heard::Reply(_)) | None => {
                    tries = 0;
                    self.lost_leader(node, None)?;
                    site.pause(self.boot_ns() + PAUSE_NS).await;
                }
            }
        }
    }

    /// What this node does not keep any more, another one may: one that was sent a copy has no history. The rest of the snapshot is read at the leader.
    fn elsewhere(&mut self, error: StoreError) -> Result<(), Failure> {
        let slot = self.site.readable();
        let leads = self.site.now().interval.latest < slot.until;
        match error {
            StoreError::BelowHorizon { .. } if !leads => {
                self.local = false;
                Ok(())
            }
            error => Err(of_store(error)),
        }
    }

    fn note(&mut self, footing: Footing, at: Timestamp) {
        match self.mode {
            Mode::ReadWrite => self.footing = Some(footing),
            Mode::ReadOnly(_) => self.read_at = Some(at),
        }
    }

    /// The node that was asked does not lead. Locks that it held for us are void.
    fn lost_leader(&mut self, asked: NodeId, leader: Option<u32>) -> Result<(), Failure> {
        self.site.heard_of_leader(asked, leader.map(NodeId));
        self.site.holds_no_more(self.transaction);
        self.leader = None;
        if self.footing.is_some() {
            self.aborted = Some(Conflict::LeaderChanged);
            return Err(Failure::Aborted(Conflict::LeaderChanged));
        }
        Ok(())
    }

    async fn decide(self: Box<Self>) -> Outcome {
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let site = Arc::clone(&self.site);
        let (outcome, spent) = self.ask_to_commit().await;
        if let Outcome::Committed { .. } = outcome {
            site.committed(&spent);
        }
        if let Some(timings) = timings {
            timings.note(|times| {
                times.commit_ns = timings.elapsed_ns() - began_ns;
                (times.replication_ns, times.commit_wait_ns) = (spent.replication_ns, spent.commit_wait_ns);
            });
        }
        outcome
    }

    async fn ask_to_commit(mut self: Box<Self>) -> (Outcome, Spent) {
        let untold = |outcome| (outcome, Spent::default());
        let writes = self.writes.take();
        let site = Arc::clone(&self.site);
        if let (None, Some(first)) = (self.footing, writes.first()) {
            let key = KeyRange::point(first.key.clone());
            match self.read(&key, Lock::Exclusive, false, 1).await {
                Ok(_) => {}
                Err(Failure::Aborted(why)) => return untold(Outcome::Aborted { why }),
                Err(_) => return untold(Outcome::Aborted { why: Conflict::LeaderChanged }),
            }
        }
        while site.is_crowded() && !site.is_closed() {
            site.pause(self.boot_ns() + PAUSE_NS).await;
        }
        let (mut until, mut tries) = (self.boot_ns() + PATIENCE_NS, 0);
        let mut maybe_heard = false;
        loop {
            // From here on the leader ends it: dropping this future recalls nothing.
            let node = self.leader.take().unwrap_or_else(|| site.leader());
            site.holds_no_more(self.transaction);
            let request = self.request(Ask::Commit { writes: writes.clone() });
            let leader = match site.ask(node, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(Heard::Reply(Reply::Committed { at, spent, .. })) => return (Outcome::Committed { at }, spent),
                Some(Heard::Reply(Reply::Aborted { why, .. })) => return untold(Outcome::Aborted { why }),
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => leader, // It did nothing.
                Some(Heard::Waits) => {
                    (maybe_heard, until, tries) = (true, self.boot_ns() + PATIENCE_NS, 0);
                    Some(node.0)
                }
                Some(_) => {
                    maybe_heard = true;
                    Some(node.0)
                }
                None => {
                    (maybe_heard, tries) = (true, tries + 1);
                    Some(node.0).filter(|_| tries % TRIES != 0 && site.reaches(node))
                }
            };
            if self.boot_ns() >= until || site.is_closed() {
                let why = Conflict::LeaderChanged;
                sometimes!("nobody can say in time what became of a commit");
                return untold(if maybe_heard { Outcome::Unknown } else { Outcome::Aborted { why } });
            }
            site.heard_of_leader(node, leader.map(NodeId));
            site.pause(self.boot_ns() + PAUSE_NS).await;
        }
    }
}

/// Somebody who waits for an answer. Dropped meanwhile, because a statement was cancelled or took too long, it wants nothing any more: others
/// need not wait for its ROLLBACK.
struct Waiting<'a, S: Site> {
    site: &'a S,
    node: NodeId,
    withdraw: Option<Request>,
}

impl<S: Site> Waiting<'_, S> {
    fn end(mut self) {
        self.withdraw = None;
    }
}

impl<S: Site> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        if let Some(request) = self.withdraw.take() {
            self.site.tell(self.node, request);
        }
    }
}

impl<S: Site> Transaction for Session<S> {
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
        self.read_at
    }

    fn get<'a>(&'a mut self, key: &'a Key, lock: Lock) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            if self.local {
                let at = self.read_at.unwrap_or(Timestamp::ZERO);
                match self.site.get(key, at) {
                    Ok(found) => return Ok(found.and_then(|version| version.value)),
                    Err(error) => self.elsewhere(error)?,
                }
            }
            let found = self.read(&KeyRange::point(key.clone()), lock, false, 1).await?;
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            Ok(found.rows.into_iter().next().map(|(_, value)| value))
        })
    }

    fn scan<'a>(
        &'a mut self,
        range: &'a KeyRange,
        lock: Lock,
        reverse: bool,
        limit_rows: usize,
    ) -> Future<'a, Result<Rows, Failure>> {
        Box::pin(async move {
            let found = self.read(range, lock, reverse, limit_rows).await?;
            Ok(self.writes.over(range, found.rows, found.rest, reverse, limit_rows.max(1)))
        })
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if self.mode != Mode::ReadWrite {
            return Err(Failure::ReadOnly);
        }
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        if self.site.is_full() {
            return Err(Failure::DiskFull);
        }
        self.writes.put(key, value)
    }

    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    fn measure(&mut self) -> Option<Arc<Timings>> {
        let site = Arc::clone(&self.site);
        let fresh = || Arc::new(Timings::new(move || site.now().boot_ns));
        Some(Arc::clone(self.timings.get_or_insert_with(fresh)))
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        self.writes.rollback_to(savepoint);
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        if let Some(why) = self.aborted.clone() {
            return Box::pin(std::future::ready(Outcome::Aborted { why }));
        }
        if self.mode != Mode::ReadWrite || (self.writes.is_empty() && self.leader.is_none()) {
            let at = self.read_at.unwrap_or_else(|| self.site.readable().through);
            return Box::pin(std::future::ready(Outcome::Committed { at }));
        }
        Box::pin(self.decide())
    }
}

impl<S: Site> Drop for Session<S> {
    fn drop(&mut self) {
        if let Some(node) = self.leader {
            self.site.holds_no_more(self.transaction);
            let request = self.request(Ask::Abort);
            self.site.tell(node, request);
        }
    }
}
