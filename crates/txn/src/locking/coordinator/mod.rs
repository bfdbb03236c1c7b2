//! Transactions over the shards of a database, at their coordinator.
//!
//! The session's node is the coordinator of its transactions: it sends requests to the leaders, and
//! merges the transaction's own writes into the results. A leader on this node is stepped on the
//! session's own thread, so that a free lock costs no wake. A read-only transaction whose leader is
//! on this node reads without a request (see [`ReadLease`]).
//!
//! The coordinator is `async` and needs no executor: a [`Shards`] is its only interface to its
//! node, so that sockets and the simulator run the same coordinator.
//!
//! A database may have several shards. Each read goes to the shard that has the keys, as far as
//! this node knows, and is redirected if another shard has them by now.
//!
//! Invariants:
//! 1. Once a coordinator has received that its transaction is aborted, it sends no further
//!    requests: the locks are gone.
//! 2. A commit names the term of the leader that holds its locks. Where it has none, it names a
//!    term that this node knows ([`OneShot`]), or locks a key to learn the term. So
//!    a commit may be resent to the next leader: it is answered from the log, or aborted for good,
//!    and never executed twice.
//! 3. The outcome is `Unknown` only if no leader could tell it for
//!    [`TIMEOUT_NS`](crate::shards::TIMEOUT_NS).
//! 4. A read-only transaction that may read more than one shard reads at `now.latest`, or at the
//!    latest of the timestamps that all shards negotiate: the newest commit of one shard says
//!    nothing about another shard (§4.1.4, §4.2.2).
//! 5. A request is resent every [`ONE_TRY_NS`](crate::shards::ONE_TRY_NS). A leader where it waits
//!    says so, and a lock is waited for as long as it takes.

mod authority;
mod order;
mod reading;

pub use order::MOST_TOKEN_AHEAD_NS;
use order::{CausalOrder, check_token};

use super::{LockEpoch, ReadSnapshot, ReplicaId, Request, RequestBody, Shards, TransactionId};
use crate::locking::rules;
use crate::shards::asking::unanswered;
pub(super) use crate::shards::asking::{ONE_TRY_NS, PAUSE_NS, TIMEOUT_NS, TRIES};
use crate::snapshot::{self, AgeMeter};
use crate::two_phase::OneShot;
use crate::{
    Age, AgeParts, Begin, Buffer, Conflict, Consistency, Database, Failure, Future, IsolationLevel,
    Lock, Locking, Mode, Node, Outcome, PlannedVersions, ReadAt, Rows, Savepoint, SchemaVersion,
    Timings, Transaction, TxnCounters, knows_time,
};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Health, NodeId, ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, StoreError, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The number of keys of a snapshot that are requested in parallel.
const ASKED_TOGETHER: usize = 64;
/// The bytes of locked rows that a transaction keeps to read them again.
const MOST_LOCKED_BYTES: usize = 256 << 10;
/// The time after which it asks the leader all the same, in nanoseconds: a leader takes a
/// transaction that others wait for to be idle if it hears nothing from it.
const SILENT_NS: u64 = 100_000_000;
/// The maximum length of `application_name` in characters, as in PostgreSQL.
const LONGEST_NAME: usize = 63;

/// A client of a database whose transactions lock, on one node.
pub struct TxnClient<S> {
    shards: Arc<S>,
    modes: &'static [Consistency],
    /// True if snapshots are at timestamps of the database's authority.
    authority: bool,
    /// Set if transactions choose the age of their snapshots.
    age_meter: Option<Arc<AgeMeter>>,
}

impl<S: Shards> TxnClient<S> {
    /// Returns a client of a database whose transactions have these consistency modes, the default
    /// first.
    pub fn new(shards: Arc<S>, modes: &'static [Consistency]) -> Self {
        TxnClient { shards, modes, authority: false, age_meter: None }
    }

    /// Returns a client of a database whose leader of the first shard is the timestamp authority.
    pub fn with_authority(shards: Arc<S>, modes: &'static [Consistency]) -> Self {
        TxnClient { authority: true, ..TxnClient::new(shards, modes) }
    }

    /// Lets transactions choose the age of their snapshots.
    pub(crate) fn with_snapshot_ages(self) -> Self {
        TxnClient { age_meter: Some(Arc::default()), ..self }
    }

    /// Returns the node that the client runs on.
    pub fn shards(&self) -> &S {
        &self.shards
    }

    pub(crate) fn coordinator(
        &self,
        Begin { mode, age, consistency, token, .. }: Begin,
        began: Interval,
        read_at: Option<Timestamp>,
    ) -> Coordinator<S> {
        let order = CausalOrder::new(self.modes, consistency, token);
        let ((node, incarnation), number) =
            (self.shards.node().here(), self.shards.node().new_number());
        Coordinator {
            shards: Arc::clone(&self.shards),
            mode,
            transaction: TransactionId { node: node.0, incarnation: incarnation.0, number },
            age: age.unwrap_or(Age { began_ns: began.latest, node: node.0, number }),
            began,
            local: None,
            single_shard: None,
            single_shard_range: KeyRange::default(),
            negotiating: None,
            authority: None,
            answered: false,
            read_at,
            questions: AtomicU64::new(0),
            parts: BTreeMap::new(),
            writes: Buffer::default(),
            planned: PlannedVersions::default(),
            locked: BTreeMap::new(),
            locked_bytes: 0,
            asked_ns: 0,
            // A retried transaction waits where it has to, and so learns the leaders.
            tries_one_shot: age.is_none(),
            farthest_ns: 0,
            fits: None,
            aborted: None,
            lock_timeout: None,
            locking: Locking::Wait,
            unlocked: Mutex::default(),
            application: None,
            versions: false,
            timings: None,
            order,
            snapshot: None,
            private: None,
            age_meter: self.age_meter.clone(),
            older: false,
        }
    }
}

impl<S: Shards> TxnClient<S> {
    /// Begins a transaction, as soon as the node knows the time if that is required.
    pub(crate) async fn begin_here(&self, how: Begin) -> Result<Box<Coordinator<S>>, Failure> {
        match self.try_to_begin(how.clone()) {
            Some(begun) => begun,
            None => self.begin_when_known(how).await,
        }
    }

    /// Begins a transaction; `None` if that requires the time and the node does not know it.
    fn try_to_begin(&self, how: Begin) -> Option<Result<Box<Coordinator<S>>, Failure>> {
        if self.asks_authority(&how) {
            return Some(self.begin_at_authority(how));
        }
        // This is read before the slot: then a split that is not counted here is later than the
        // beginning of this transaction.
        let one = self.shards.map().has_one_shard();
        let slot = self.shards.read_lease(ShardId(0));
        // This is sampled after the slot was loaded: a lease that holds now held then.
        let now = self.shards.node().now();
        let leads = slot.holds(now);
        let known = now.health == Health::Good || broken(rules::FENCED_SERVES);
        let order = CausalOrder::new(self.modes, how.consistency, how.token);
        if known && let Err(far) = check_token(order.token(), now.interval) {
            return Some(Err(far));
        }
        let reads_now = how.mode == Mode::ReadOnly(ReadAt::Now);
        let age_meter = self.age_meter.as_ref().filter(|_| reads_now);
        let age_ns =
            age_meter.map_or(0, |age_meter| age_meter.age_ns(how.snapshot_age, now.interval));
        let nanos = now.interval.latest.saturating_sub(age_ns);
        let present = Timestamp { nanos, ..Timestamp::ZERO };
        let forgets = age_ns > 0 && broken(snapshot::rules::AGE_BEFORE_TOKEN);
        let token = if forgets { Timestamp::ZERO } else { order.token() };
        let present = known.then_some(present.max(token));
        let read_at = match how.mode {
            Mode::ReadWrite => None,
            Mode::ReadOnly(ReadAt::Exact(at) | ReadAt::AtLeast(at))
                if at.nanos > now.interval.latest.max(order.token().nanos) =>
            {
                return Some(Err(Failure::InFuture { now: now.interval }));
            }
            Mode::ReadOnly(ReadAt::Exact(at)) => Some(at),
            Mode::ReadOnly(ReadAt::Now) if !one && order.reads_shards_apart() => None,
            Mode::ReadOnly(ReadAt::Now) if !one || age_ns > 0 => Some(present?),
            Mode::ReadOnly(ReadAt::Now) => {
                Some(slot.through).filter(|at| leads && *at >= order.token())
            }
            Mode::ReadOnly(ReadAt::AtLeast(at))
                if one && leads && slot.through >= at.max(order.token()) =>
            {
                Some(slot.through)
            }
            // If no such snapshot is available on this node: the present, at the leader.
            Mode::ReadOnly(ReadAt::AtLeast(at)) => match crate::shards::closed(&*self.shards) {
                closed if closed >= at.max(order.token()) => Some(closed),
                _ => Some(present?.max(at)),
            },
        };
        let mut coordinator = self.coordinator(how, now.interval, read_at);
        coordinator.older = age_ns > 0;
        if coordinator.older {
            sometimes!("a transaction reads an older snapshot");
        }
        if one && let Some(at) = read_at {
            coordinator.look_here(ShardId(0), at);
        }
        Some(Ok(Box::new(coordinator)))
    }

    /// Begins a transaction as soon as the node knows the time.
    async fn begin_when_known(&self, how: Begin) -> Result<Box<Coordinator<S>>, Failure> {
        sometimes!("a transaction waits until its node knows the time");
        let shards = &*self.shards;
        while knows_time(shards.node()).await {
            if let Some(begun) = self.try_to_begin(how.clone()) {
                return begun;
            }
        }
        Err(Failure::Unavailable(
            "this node does not know what time it is: check that the other nodes are up".into(),
        ))
    }
}

impl<S: Shards> Database for TxnClient<S> {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn consistency(&self) -> &'static [Consistency] {
        self.modes
    }

    fn snapshot_age(&self) -> Option<AgeParts> {
        Some(self.age_meter.as_ref()?.parts(self.shards.node().now().interval))
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        Box::pin(crate::node::sleep(self.shards.node(), time))
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        let boxed = |begun: Box<Coordinator<S>>| begun as Box<dyn Transaction>;
        match self.try_to_begin(how.clone()) {
            Some(begun) => Box::pin(std::future::ready(begun.map(boxed))),
            None => Box::pin(async move { self.begin_when_known(how).await.map(boxed) }),
        }
    }
}

fn of_store(error: StoreError) -> Failure {
    match error {
        StoreError::BelowHorizon { oldest } => Failure::BelowHorizon { oldest },
        other => Failure::Storage(other.to_string()),
    }
}

/// An attempt's state in one shard.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    /// The node that holds its locks.
    pub(super) leader: Option<NodeId>,
    /// Their lock epoch.
    pub(super) lock_epoch: Option<LockEpoch>,
    /// Set if the attempt has no locks and commits in one shot.
    pub(super) one_shot: Option<OneShot>,
}

pub(crate) struct Coordinator<S: Shards> {
    pub(super) shards: Arc<S>,
    mode: Mode,
    pub(super) transaction: TransactionId,
    pub(super) age: Age,
    began: Interval,
    read_at: Option<Timestamp>,
    /// The shard of which everything at or below the snapshot is installed here, and nothing more
    /// will appear.
    local: Option<ShardId>,
    /// The shard of a single-shard read: its newest commit is as good as the present.
    single_shard: Option<ShardId>,
    /// The declared range of a single-shard read.
    single_shard_range: KeyRange,
    /// The declared range of reads in several shards, which negotiate the timestamp.
    negotiating: Option<KeyRange>,
    /// If the database's authority chooses its snapshot: what that must not be below.
    authority: Option<Timestamp>,
    /// True if it has read something.
    answered: bool,
    questions: AtomicU64,
    /// The shards where it has locks, or is about to request some.
    pub(super) parts: BTreeMap<ShardId, Part>,
    pub(crate) writes: Buffer,
    /// The tables and schema versions that its statements were planned for.
    planned: PlannedVersions,
    /// The values of rows that it has locked, which no other transaction changes: a statement that
    /// reads them again asks no leader. Should the lock be lost, the transaction does not commit.
    locked: BTreeMap<Key, (Lock, Option<Value>)>,
    /// The bytes of these keys and values.
    locked_bytes: usize,
    /// When it last asked a leader for a locked row, by the boot clock.
    asked_ns: u64,
    /// True if it may commit in one shot where it has no locks.
    pub(super) tries_one_shot: bool,
    /// The longest time between the request for a lock and the answer, in a change of schemas, in
    /// nanoseconds: a round trip to the farthest shard, and waits for the locks.
    pub(super) farthest_ns: u64,
    /// The shard of which this node knows that the snapshot has the planned schema versions.
    fits: Option<ShardId>,
    pub(super) aborted: Option<Conflict>,
    /// The session's `application_name`.
    application: Option<String>,
    pub(super) lock_timeout: Option<Duration>,
    pub(super) locking: Locking,
    /// The snapshot that is read where no lock is to be taken.
    unlocked: Mutex<Option<Box<dyn Transaction>>>,
    /// True if the commit timestamps of rows are to be returned.
    versions: bool,
    /// Set if the time that the transaction takes is to be measured.
    pub(crate) timings: Option<Arc<Timings>>,
    /// Its causal token, and what its answers wait for.
    pub(crate) order: CausalOrder,
    /// The snapshot against which its writes are certified. None if locks protect what it has read.
    pub(crate) snapshot: Option<ReadSnapshot>,
    /// The range in which no other transaction meets its writes.
    pub(crate) private: Option<KeyRange>,
    /// Measures what the age of snapshots is made of, where transactions choose it.
    pub(super) age_meter: Option<Arc<AgeMeter>>,
    /// True if its snapshot is older than the present because it asked for that.
    older: bool,
}

impl<S: Shards> Coordinator<S> {
    pub(super) fn request(&self, lock_epoch: Option<LockEpoch>, body: RequestBody) -> Request {
        let id = self.questions.fetch_add(1, Ordering::Relaxed) + 1;
        let planned = self.planned.iter().collect();
        Request {
            transaction: self.transaction,
            age: self.age,
            id,
            lock_epoch,
            body,
            planned,
            one_shot: None,
            token: self.order.carried(),
            snapshot: self.snapshot.clone(),
            private: self.private.clone(),
        }
    }

    pub(super) fn boot_ns(&self) -> u64 {
        self.shards.node().now().boot_ns
    }

    fn unavailable(&self, shard: ShardId) -> Failure {
        unanswered(&*self.shards, shard)
    }

    /// Ends the attempt as aborted: it sends no further requests (invariant 1).
    pub(crate) fn end(&mut self, why: Conflict) -> Failure {
        self.count(|counters| counters.aborted(&why));
        self.aborted = Some(why.clone());
        Failure::Aborted(why)
    }

    pub(super) fn count(&self, count: impl FnOnce(&TxnCounters)) {
        if let Some(counters) = self.shards.counters() {
            count(counters);
        }
    }

    /// Returns the time until which a lock is waited for, by the boot clock. A snapshot takes no
    /// lock: it waits for a leader only.
    pub(super) fn lock_timeout_at(&self) -> u64 {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let lock_timeout = self.lock_timeout.filter(|_| self.mode == Mode::ReadWrite);
        lock_timeout.map_or(u64::MAX, |most| self.boot_ns().saturating_add(nanoseconds(most)))
    }

    pub(super) fn note(&mut self, shard: ShardId, lock_epoch: LockEpoch, at: Timestamp) {
        self.order.learn(at);
        match self.mode {
            Mode::ReadWrite => {
                let part = self.parts.entry(shard).or_default();
                part.lock_epoch = Some(lock_epoch);
                if let Some(node) = part.leader {
                    self.shards.map().learn_term(ReplicaId { shard, node }, lock_epoch.term);
                }
            }
            // The next read finds what is newest then.
            Mode::ReadOnly(_) if self.order.reads_shards_apart() => {}
            Mode::ReadOnly(_) => self.read_at = Some(at),
        }
    }

    /// Returns the value of a row that the transaction has written, or locked as strongly before.
    fn known(&self, key: &Key, lock: Lock) -> Option<Option<Value>> {
        let silent = self.boot_ns().saturating_sub(self.asked_ns) > SILENT_NS;
        if self.aborted.is_some() || silent {
            return None;
        }
        if let Some(own) = self.writes.get(key) {
            return Some(own.clone());
        }
        let (held, value) = self.locked.get(key).filter(|_| self.locking != Locking::None)?;
        let known = (*held >= lock).then(|| value.clone());
        if known.is_some() {
            sometimes!("a locked row is read again without a request");
        }
        known
    }

    /// Remembers the value of a row that is locked from now on.
    fn remember(&mut self, key: &Key, lock: Lock, value: &Option<Value>) {
        if self.mode != Mode::ReadWrite || self.locking == Locking::None {
            return;
        }
        self.asked_ns = self.boot_ns();
        let size = |value: &Option<Value>| value.as_ref().map_or(0, |value| value.len());
        let bytes = key.len() + size(value);
        if self.locked_bytes + bytes <= MOST_LOCKED_BYTES {
            self.locked_bytes += bytes;
            if let Some((_, former)) = self.locked.insert(key.clone(), (lock, value.clone())) {
                self.locked_bytes -= key.len() + size(&former);
            }
        }
    }

    /// Handles a response of a node that does not lead. Locks that it held for this attempt are
    /// void.
    pub(super) fn lost_leader(
        &mut self,
        asked: ReplicaId,
        leader: Option<u32>,
    ) -> Result<(), Failure> {
        self.shards.map().redirect(asked, leader.map(NodeId));
        let Some(part) = self.parts.get_mut(&asked.shard) else { return Ok(()) };
        part.leader = None;
        if part.lock_epoch.is_some() {
            return Err(self.end(Conflict::LeaderChanged));
        }
        Ok(())
    }
}

impl<S: Shards> Transaction for Coordinator<S> {
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

    fn reads_apart(&self) -> bool {
        let reads = self.mode != Mode::ReadWrite && self.read_at.is_none();
        reads && self.order.reads_shards_apart()
    }

    fn token(&self) -> Timestamp {
        let mut order = self.order;
        if let Some(at) = self.read_at.filter(|_| self.answered) {
            order.learn(at);
        }
        order.seen()
    }

    fn get<'a>(
        &'a mut self,
        key: &'a Key,
        lock: Lock,
    ) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            self.choose_snapshot().await?;
            if let (Some(at), Some(shard)) = (self.read_at, self.local)
                && (self.shards.map().has_one_shard() || self.shards.map().route(key).0 == shard)
            {
                self.fits_here(shard, at)?;
                self.snapshot_passes().await?;
                match self.shards.get(shard, key, at) {
                    Ok(found) => {
                        self.answered = true;
                        return Ok(found.and_then(|version| version.value));
                    }
                    Err(error) => self.elsewhere(shard, error)?,
                }
            }
            if let Some(known) = self.known(key, lock) {
                return Ok(known);
            }
            let found = self.read(&KeyRange::point(key.clone()), lock, false, 1).await?;
            let value = found.rows.into_iter().next().map(|(_, value)| value);
            self.remember(key, lock, &value);
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            Ok(value)
        })
    }

    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        lock: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        Box::pin(async move {
            self.choose_snapshot().await?;
            let mut found = Vec::with_capacity(keys.len());
            while found.len() < keys.len() {
                // The first read of a snapshot chooses its timestamp.
                let chooses = self.read_at.is_none() && !self.reads_apart();
                let most = if chooses { 1 } else { ASKED_TOGETHER };
                let keys = &keys[found.len()..keys.len().min(found.len() + most)];
                for (key, known) in keys.iter().zip(self.read_ahead(keys).await) {
                    found.push(match known {
                        Some(value) => value,
                        None => self.get(key, lock).await?,
                    });
                }
            }
            self.snapshot_passes().await?;
            Ok(found)
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
            self.choose_snapshot().await?;
            let found = self.read(range, lock, reverse, limit_rows).await?;
            Ok(self.writes.over(range, found, reverse, limit_rows.max(1)))
        })
    }

    fn adopt(&mut self, _: Timestamp) {
        // The commit may have changed rows that this transaction has locked.
        self.locked.clear();
        self.locked_bytes = 0;
    }

    fn put(&mut self, key: Key, value: Option<Value>) -> Result<(), Failure> {
        if self.mode != Mode::ReadWrite {
            return Err(Failure::ReadOnly);
        }
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        if self.shards.node().is_full() {
            return Err(Failure::DiskFull);
        }
        self.writes.put(key, value)
    }

    fn reads_only_in(&mut self, scope: &KeyRange, negotiates: bool) -> bool {
        let unread = !self.answered && !self.older && self.questions.load(Ordering::Relaxed) == 0;
        if self.authority.is_some()
            || self.mode != Mode::ReadOnly(ReadAt::Now)
            || !unread
            || self.shards.map().has_one_shard()
        {
            return false;
        }
        let (shard, bounds) = self.shards.map().route(&scope.start);
        if scope.is_empty() {
            return false;
        }
        if !bounds.contains_range(scope) {
            if negotiates {
                (self.negotiating, self.read_at, self.local, self.fits) =
                    (Some(scope.clone()), None, None, None);
            }
            return negotiates;
        }
        sometimes!("a snapshot of one shard of several is its newest commit");
        let slot = self.shards.read_lease(shard);
        // This is sampled after the slot was loaded: a lease that holds now held then.
        let leads = slot.holds(self.shards.node().now());
        let present = leads
            && slot.through >= self.order.token()
            && (slot.quiet || broken(rules::LAST_TS_IN_FLIGHT));
        (self.single_shard, self.single_shard_range) = (Some(shard), scope.clone());
        (self.read_at, self.local, self.fits) = (present.then_some(slot.through), None, None);
        true
    }

    fn planned_for(&mut self, schema: SchemaVersion) {
        self.planned.plan(schema);
        self.fits = None;
    }

    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure> {
        if self.mode != Mode::ReadWrite {
            return Err(Failure::ReadOnly);
        }
        self.writes.change_schema(to, ranges);
        Ok(())
    }

    fn before_commit(&mut self) -> Future<'_, Result<(), Failure>> {
        Box::pin(self.lock_schemas())
    }

    fn set_lock_timeout(&mut self, timeout: Option<Duration>) {
        self.lock_timeout = timeout;
    }

    fn set_locking(&mut self, how: Locking) -> bool {
        self.locking = how;
        if how == Locking::Wait {
            self.unlocked = Mutex::default();
        }
        true
    }

    fn locking(&self) -> Locking {
        self.locking
    }

    fn set_consistency(&mut self, mode: Consistency) {
        let apart = self.order.reads_shards_apart();
        self.order.set(mode);
        let reads = self.mode == Mode::ReadOnly(ReadAt::Now) && self.single_shard.is_none();
        if apart && !self.order.reads_shards_apart() && reads && self.read_at.is_none() {
            self.read_at = Some(self.present());
        }
    }

    fn set_application(&mut self, name: &str) {
        if name != self.application.as_deref().unwrap_or_default() {
            self.application = Some(name.chars().take(LONGEST_NAME).collect());
        }
    }

    fn show_versions(&mut self) {
        self.versions = true;
    }

    fn measure(&mut self) -> Option<Arc<Timings>> {
        let shards = Arc::clone(&self.shards);
        let fresh = || Arc::new(Timings::new(move || shards.node().now().boot_ns));
        Some(Arc::clone(self.timings.get_or_insert_with(fresh)))
    }

    fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint()
    }

    fn rollback_to(&mut self, savepoint: Savepoint) {
        drop(self.writes.rollback_to(savepoint));
    }

    fn commit(self: Box<Self>) -> Future<'static, Outcome> {
        if let Some(why) = self.aborted.clone() {
            return Box::pin(std::future::ready(Outcome::Aborted { why }));
        }
        if self.mode != Mode::ReadWrite || (self.writes.is_empty() && self.parts.is_empty()) {
            let at = self.read_at.unwrap_or_else(|| self.shards.read_lease(ShardId(0)).through);
            if !self.order.waits() || broken(rules::READ_WAIT) {
                return Box::pin(std::future::ready(Outcome::Committed { at }));
            }
            return Box::pin(async move {
                let Some(waited_ns) = self.commit_passes(at).await else { return Outcome::Unknown };
                self.note_read_wait(waited_ns);
                Outcome::Committed { at }
            });
        }
        Box::pin(self.decide())
    }
}

impl<S: Shards> Drop for Coordinator<S> {
    fn drop(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        self.shards.held_locks().lock().remove(self.transaction);
        for (shard, part) in &self.parts {
            if let Some(node) = part.leader {
                let request = self.request(part.lock_epoch, RequestBody::Abort);
                self.shards.send(ReplicaId { shard: *shard, node }, request);
            }
        }
    }
}
