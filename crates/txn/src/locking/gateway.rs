//! Transactions over a shard, as a session sees them.
//!
//! The coordinator of a transaction is the session itself: it asks the leader, wherever that is,
//! and merges its own writes into what it hears. A leader on this node is stepped on the session's
//! own thread: a lock that is free costs no wake. Reads of a read-only transaction whose leader is
//! here ask nobody (see [`Readable`]).
//!
//! It is `async` and knows no executor: all it wants of its node is a [`Site`], so that sockets and
//! the simulator run the same coordinator.
//!
//! A database may have several shards: each read goes to the one that has the keys, as far as this
//! node knows, and is told if that is another by now.
//!
//! Invariants:
//! 1. Once a transaction was told that it is aborted, it asks for nothing any more: its locks are
//!    gone.
//! 2. A commit names the leadership that holds its locks; where it has none, one of which this node
//!    has heard ([`Blind`](super::Blind)), or it locks a key to learn it. So a commit may be asked
//!    again of whoever leads next: it is answered from what was agreed, or aborted for good, and
//!    never done twice.
//! 3. Unknown is only what no leader could tell for [`PATIENCE_NS`].
//! 4. A read-only transaction that may see more than one shard reads at `now.latest`, or at the
//!    latest of what all of them say when they negotiate: the newest commit of one shard says
//!    nothing of another's (§4.1.4, §4.2.2).
//! 5. A question is asked again every [`ONE_TRY_NS`]; a leader where it waits says so, and a lock
//!    is waited for as long as it takes.

use super::{Ask, Blind, Footing, Heard, Members, Reply, Request, Seat, Site, TransactionId};
use crate::buffer::rest_of;
use crate::locking::rules;
use crate::{
    Age, Begin, Buffer, Conflict, Database, Failure, Future, IsolationLevel, Lock, Locking, Mode,
    Outcome, ReadAt, Rows, Savepoint, SchemaHistory, SchemaVersion, Timings, Transaction,
};
use futures::future::{join_all, try_join_all};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::planted::broken;
use meridian_machine::{Health, NodeId, ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, local};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a session looks for a leader that answers.
pub const PATIENCE_NS: u64 = 10_000_000_000;
/// After so long a question is asked again: it, or its answer, may be lost.
pub const ONE_TRY_NS: u64 = 1_000_000_000;
/// A node that is connected but did not answer so many times is taken for one that does not lead.
pub(super) const TRIES: u32 = 3;
pub(super) const PAUSE_NS: u64 = 20_000_000;
/// So many keys of a snapshot are asked for at once.
const ASKED_TOGETHER: usize = 64;
/// So many characters of a session's name are told to others, as in PostgreSQL.
const LONGEST_NAME: usize = 63;

/// A database whose transactions lock, from this node.
pub struct Gateway<S> {
    site: Arc<S>,
}

impl<S: Site> Gateway<S> {
    /// The door to a database.
    pub fn new(site: S) -> Self {
        Gateway { site: Arc::new(site) }
    }

    /// The node that it stands on.
    pub fn site(&self) -> &S {
        &self.site
    }

    fn session(
        &self,
        mode: Mode,
        age: Option<Age>,
        began: Interval,
        read_at: Option<Timestamp>,
    ) -> Session<S> {
        let ((node, incarnation), number) = (self.site.here(), self.site.new_number());
        Session {
            site: Arc::clone(&self.site),
            mode,
            transaction: TransactionId { node: node.0, incarnation: incarnation.0, number },
            age: age.unwrap_or(Age { began_ns: began.latest, node: node.0, number }),
            began,
            local: None,
            alone: None,
            scope: KeyRange::default(),
            negotiating: None,
            answered: false,
            read_at,
            questions: AtomicU64::new(0),
            parts: BTreeMap::new(),
            writes: Buffer::default(),
            planned: BTreeMap::new(),
            // A transaction that begins anew waits where it has to, and learns who leads.
            blindly: age.is_none(),
            fits: None,
            aborted: None,
            lock_timeout: None,
            locking: Locking::Wait,
            unlocked: Mutex::default(),
            application: None,
            versions: false,
            timings: None,
        }
    }

    /// Makes the keys from one on another shard's. Asked again after it was done, it is done.
    /// `shard` is a number that nobody else was given.
    pub fn split(&self, at: Key, shard: ShardId) -> Future<'static, Result<(), Failure>> {
        let now = self.site.now();
        let session = self.session(Mode::ReadWrite, None, now.interval, None);
        Box::pin(async move { session.split(at, shard).await })
    }

    /// Gives each shard's group other members, one after the other; comes back when all of them
    /// have these. Asked again after it was done, it is done.
    pub fn change_members(&self, members: Members) -> Future<'static, Result<(), Failure>> {
        let now = self.site.now();
        let session = self.session(Mode::ReadOnly(ReadAt::Now), None, now.interval, None);
        Box::pin(async move { session.change_members(members).await })
    }
}

impl<S: Site> Gateway<S> {
    /// Begins; `None` if it has to be known what time it is, and is not.
    fn try_to_begin(&self, how: Begin) -> Option<Result<Box<dyn Transaction>, Failure>> {
        // Before the slot is loaded: then a split that is not counted here is later than this
        // transaction's beginning.
        let one = self.site.has_one_shard();
        let slot = self.site.readable(ShardId(0));
        // Sampled after the slot was loaded: a lease that holds now held then.
        let now = self.site.now();
        let leads = slot.holds(now);
        let known = now.health == Health::Good || broken(rules::FENCED_SERVES);
        let present = known.then_some(Timestamp { nanos: now.interval.latest, ..Timestamp::ZERO });
        let read_at = match how.mode {
            Mode::ReadWrite => None,
            Mode::ReadOnly(ReadAt::Exact(at) | ReadAt::AtLeast(at))
                if at.nanos > now.interval.latest =>
            {
                return Some(Err(Failure::InFuture { now: now.interval }));
            }
            Mode::ReadOnly(ReadAt::Exact(at)) => Some(at),
            Mode::ReadOnly(ReadAt::Now) if !one => Some(present?),
            Mode::ReadOnly(ReadAt::Now) => leads.then_some(slot.through),
            Mode::ReadOnly(ReadAt::AtLeast(at)) if one && leads && slot.through >= at => {
                Some(slot.through)
            }
            // If nothing of that is at hand: the present, at the leader.
            Mode::ReadOnly(ReadAt::AtLeast(at)) => match self.site.closed() {
                closed if closed >= at => Some(closed),
                _ => Some(present?.max(at)),
            },
        };
        let mut session = self.session(how.mode, how.age, now.interval, read_at);
        if one && let Some(at) = read_at {
            session.look_here(ShardId(0), at);
        }
        Some(Ok(Box::new(session) as Box<dyn Transaction>))
    }

    /// Begins as soon as it is known what time it is.
    async fn begin_when_known(&self, how: Begin) -> Result<Box<dyn Transaction>, Failure> {
        sometimes!("a transaction waits until its node knows the time");
        let site = &*self.site;
        let known = || {
            crate::stamps::is_known(|| site.now(), || site.is_closed(), |until| site.pause(until))
        };
        while known().await {
            if let Some(begun) = self.try_to_begin(how.clone()) {
                return begun;
            }
        }
        Err(Failure::Unavailable(
            "this node does not know what time it is: are the others up?".into(),
        ))
    }
}

impl<S: Site> Database for Gateway<S> {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn begin(&self, how: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        match self.try_to_begin(how.clone()) {
            Some(begun) => Box::pin(std::future::ready(begun)),
            None => Box::pin(self.begin_when_known(how)),
        }
    }
}

fn of_store(error: StoreError) -> Failure {
    match error {
        StoreError::BelowHorizon { oldest } => Failure::BelowHorizon { oldest },
        other => Failure::Storage(other.to_string()),
    }
}

/// What an attempt has in one shard.
#[derive(Clone, Copy, Default)]
pub(super) struct Part {
    /// Who holds its locks.
    pub(super) leader: Option<NodeId>,
    /// What they stand on.
    pub(super) footing: Option<Footing>,
    /// There are none, and it is asked to commit all the same.
    pub(super) blind: Option<Blind>,
}

pub(super) struct Session<S: Site> {
    pub(super) site: Arc<S>,
    mode: Mode,
    pub(super) transaction: TransactionId,
    pub(super) age: Age,
    began: Interval,
    read_at: Option<Timestamp>,
    /// A shard of which everything at or below the snapshot is installed here, and nothing more
    /// will appear.
    local: Option<ShardId>,
    /// All that it reads is a range that lies in this shard, whose newest commit is as good as the
    /// present.
    alone: Option<ShardId>,
    /// That range.
    scope: KeyRange,
    /// All that it reads is this range, which lies in several shards: they are asked at which
    /// timestamp it is to be read.
    negotiating: Option<KeyRange>,
    /// It has read something.
    answered: bool,
    questions: AtomicU64,
    /// The shards where it has locked something, or is about to.
    pub(super) parts: BTreeMap<ShardId, Part>,
    pub(super) writes: Buffer,
    /// What it was planned for: tables and versions of their schemas.
    planned: BTreeMap<u32, u64>,
    /// It may ask to commit where it has locked nothing.
    pub(super) blindly: bool,
    /// A shard of which this node knows that the snapshot is what it was planned for.
    fits: Option<ShardId>,
    aborted: Option<Conflict>,
    /// What it calls itself.
    application: Option<String>,
    pub(super) lock_timeout: Option<Duration>,
    pub(super) locking: Locking,
    /// The snapshot that is read where no lock is to be taken.
    unlocked: Mutex<Option<Box<dyn Transaction>>>,
    /// Somebody wants to know when rows were committed.
    versions: bool,
    /// Somebody wants to know where the time goes.
    pub(super) timings: Option<Arc<Timings>>,
}

impl<S: Site> Session<S> {
    pub(super) fn request(&self, footing: Option<Footing>, ask: Ask) -> Request {
        let id = self.questions.fetch_add(1, Ordering::Relaxed) + 1;
        let planned = self.planned().collect();
        Request {
            transaction: self.transaction,
            age: self.age,
            id,
            footing,
            ask,
            planned,
            blind: None,
        }
    }

    fn planned(&self) -> impl Iterator<Item = SchemaVersion> {
        self.planned
            .iter()
            .map(|(table, version)| SchemaVersion { table: *table, version: *version })
    }

    /// Whether a snapshot that is read here, without asking anybody, is what the transaction was
    /// planned for.
    fn fits_here(&mut self, shard: ShardId, at: Timestamp) -> Result<(), Failure> {
        if self.fits == Some(shard) {
            return Ok(());
        }
        for SchemaVersion { table, version } in self.planned() {
            let row = match self.site.get(shard, &local::schema(shard.0, table), Timestamp::MAX) {
                Ok(row) => row.and_then(|row| row.value),
                // So are the rows, and whoever has them says so.
                Err(StoreError::Elsewhere) => return Ok(()),
                Err(error) => return Err(of_store(error)),
            };
            let Some(row) = row else { continue };
            let history: SchemaHistory = minicbor::decode(&row).map_err(|error| {
                Failure::Storage(format!(
                    "what shard {} keeps of a table's schema: {error}",
                    shard.0
                ))
            })?;
            if history.outdates(version, at) {
                return Err(Failure::Aborted(Conflict::SchemaChanged { table }));
            }
        }
        self.fits = Some(shard);
        Ok(())
    }

    pub(super) fn boot_ns(&self) -> u64 {
        self.site.now().boot_ns
    }

    fn unavailable(&self, shard: ShardId) -> Failure {
        if self.site.is_closed() {
            return Failure::Unavailable(
                "this node is shutting down: begin again once it is back".into(),
            );
        }
        let group = self.site.describe(shard);
        Failure::Unavailable(format!(
            "no leader of {group} answers: are a majority of its nodes up?"
        ))
    }

    /// Whether a snapshot of a shard can be read here, without asking anybody.
    fn look_here(&mut self, shard: ShardId, at: Timestamp) -> bool {
        if self.local == Some(shard) {
            return true;
        }
        let slot = self.site.readable(shard);
        let leads = slot.holds(self.site.now());
        let here = (leads && at <= slot.through) || at <= slot.closed;
        if here {
            self.local = Some(shard);
        }
        if here && leads {
            self.site.reads_alone(shard);
        }
        if here && !leads {
            sometimes!("a snapshot is read where nobody leads");
        }
        here
    }

    /// Reads a chunk, and notes how long that took if anybody wants to know.
    pub(super) async fn read(
        &mut self,
        range: &KeyRange,
        lock: Lock,
        reverse: bool,
        limit: usize,
    ) -> Result<Rows, Failure> {
        let Some(timings) = self.timings.clone() else {
            return self.read_part(range, lock, reverse, limit).await;
        };
        let began_ns = timings.elapsed_ns();
        let rows = self.read_part(range, lock, reverse, limit).await;
        timings.note(|times| {
            times.reads += 1;
            times.reading_ns += timings.elapsed_ns() - began_ns;
        });
        rows
    }

    /// Reads a chunk of what one shard has of a range; what others have of it is left.
    async fn read_part(
        &mut self,
        range: &KeyRange,
        lock: Lock,
        reverse: bool,
        limit: usize,
    ) -> Result<Rows, Failure> {
        if let Some(why) = &self.aborted {
            return Err(Failure::Aborted(why.clone()));
        }
        if self.locking == Locking::None && self.mode == Mode::ReadWrite {
            return self.read_unlocked(range, reverse, limit).await;
        }
        if let Some(scope) = self.negotiating.take() {
            self.read_at = Some(self.negotiate(scope).await);
        }
        let mut until = self.boot_ns() + PATIENCE_NS;
        loop {
            let (shard, bounds) = if reverse {
                self.site.route_below(range.end.as_ref())
            } else {
                self.site.route(&range.start)
            };
            if self.alone.is_some_and(|alone| alone != shard || !bounds.contains_range(range)) {
                self.reads_elsewhere();
            }
            let part = range.common(&bounds);
            match self.read_chunk(shard, &part, (lock, reverse, limit), &mut until).await? {
                Chunk::Moved(to) => {
                    self.reads_elsewhere();
                    if let Some((from, other)) = to {
                        self.site.learn_route(&part.start, from, other);
                    }
                    sometimes!("a shard is asked for keys that it has no more");
                    self.site.pause(self.boot_ns() + PAUSE_NS).await;
                }
                Chunk::Rows(mut found) => {
                    self.answered = true;
                    found.rest = rest_of(range, &bounds, found.rest, reverse);
                    return Ok(found);
                }
            }
        }
    }

    /// Reads a chunk of what is committed, without a lock.
    async fn read_unlocked(
        &mut self,
        range: &KeyRange,
        reverse: bool,
        limit: usize,
    ) -> Result<Rows, Failure> {
        let known = self.unlocked.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let mut snapshot = match known {
            Some(snapshot) => snapshot,
            None => {
                let gateway = Gateway { site: Arc::clone(&self.site) };
                gateway.begin(Begin { mode: Mode::ReadOnly(ReadAt::Now), age: None }).await?
            }
        };
        if self.versions {
            snapshot.show_versions();
        }
        self.planned().for_each(|schema| snapshot.planned_for(schema));
        let rows = snapshot.scan(range, Lock::Shared, reverse, limit).await;
        self.unlocked = Mutex::new(Some(snapshot));
        rows
    }

    /// The timestamp at which a range is to be read that lies in several shards (§4.2.2): the
    /// latest of what their leaders say of it. Where one does not say it is the present, which
    /// needs no negotiation.
    async fn negotiate(&mut self, scope: KeyRange) -> Timestamp {
        let site = Arc::clone(&self.site);
        let (mut questions, mut left) = (Vec::new(), Some(scope));
        while let Some(range) = left {
            let (shard, bounds) = site.route(&range.start);
            let seat = Seat { shard, node: site.leader(shard) };
            questions
                .push((seat, self.request(None, Ask::LastTs { range: range.common(&bounds) })));
            left = if bounds.reaches(&range) {
                None
            } else {
                bounds.end.map(|start| KeyRange { start, end: range.end.clone() })
            };
        }
        let until = self.boot_ns() + ONE_TRY_NS;
        let ask = |(seat, request): (Seat, Request)| {
            let site = &*site;
            async move {
                let heard = if site.reaches(seat.node) {
                    site.ask(seat, request, until).await
                } else {
                    None
                };
                match heard {
                    Some(Heard::Reply(Reply::LastTs { at, .. })) => return Ok(at),
                    Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                        site.heard_of_leader(seat, leader.map(NodeId));
                    }
                    Some(Heard::Reply(Reply::Moved { to: Some((from, other)), .. })) => {
                        site.learn_route(&from, from.clone(), other);
                    }
                    _ => {}
                }
                Err(())
            }
        };
        let said = match try_join_all(questions.into_iter().map(ask)).await {
            Ok(said) if broken(rules::NEGOTIATED_LEAST) => said.into_iter().min(),
            Ok(said) => {
                sometimes!("shards negotiate at which timestamp they are read");
                said.into_iter().max()
            }
            Err(()) => {
                sometimes!("a shard does not negotiate, and the present is read");
                None
            }
        };
        said.unwrap_or_else(|| self.present())
    }

    /// At or above everything that was acknowledged before this transaction began; if this node
    /// knows the time, before now.
    fn present(&self) -> Timestamp {
        let now = self.site.now();
        let latest =
            if now.health == Health::Good { now.interval.latest } else { self.began.latest };
        Timestamp { nanos: latest, ..Timestamp::ZERO }
    }

    /// Asks for keys of a snapshot whose timestamp is chosen, all at once. `None` for a key that
    /// has no answer yet: it is in this node's store, or its shard moved, or its leader did not
    /// answer.
    async fn read_ahead(&mut self, keys: &[Key]) -> Vec<Option<Option<Value>>> {
        let Some(at) = self.read_at.filter(|_| self.mode != Mode::ReadWrite && keys.len() > 1)
        else {
            return vec![None; keys.len()];
        };
        let site = Arc::clone(&self.site);
        let (now, began_ns) =
            (self.boot_ns(), self.timings.as_ref().map(|timings| timings.elapsed_ns()));
        let mut questions = Vec::with_capacity(keys.len());
        for key in keys {
            let shard = site.route(key).0;
            let seat = Seat { shard, node: site.leader(shard) };
            let here = self.look_here(shard, at) || self.alone.is_some_and(|alone| alone != shard);
            questions.push((!here && site.reaches(seat.node)).then(|| {
                let (range, scope) =
                    (KeyRange::point(key.clone()), self.alone.map(|_| self.scope.clone()));
                let (at, versions) = (Some(at), false);
                let ask =
                    Ask::Snapshot { at, range, reverse: false, limit_rows: 1, versions, scope };
                (seat, self.request(None, ask))
            }));
        }
        let ask = |question: Option<(Seat, Request)>| {
            let site = &*site;
            async move {
                let (seat, request) = question?;
                let Ask::Snapshot { range, .. } = request.ask.clone() else { return None };
                match site.ask(seat, request, now + ONE_TRY_NS).await? {
                    Heard::Reply(Reply::Rows { rows, .. }) => {
                        Some(rows.into_iter().next().map(|(_, value)| value))
                    }
                    Heard::Read { at, deadline, .. } => {
                        let chunk = site.scan(seat.shard, &range, at, false, 1).ok()?;
                        let leads =
                            deadline.is_none_or(|deadline| site.now().interval.latest < deadline);
                        leads.then(|| chunk.rows.into_iter().next().map(|(_, value)| value))
                    }
                    _ => None,
                }
            }
        };
        let found = join_all(questions.into_iter().map(ask)).await;
        let answered = found.iter().flatten().count();
        if answered > 0 {
            sometimes!("keys of a snapshot are asked for together");
            self.answered = true;
        }
        if let (Some(timings), Some(began_ns)) = (&self.timings, began_ns) {
            timings.note(|times| {
                times.reads += u64::try_from(answered).unwrap_or(u64::MAX);
                times.reading_ns += timings.elapsed_ns() - began_ns;
            });
        }
        found
    }

    /// Reads a chunk at the leader, under a lock or at a snapshot.
    async fn read_chunk(
        &mut self,
        shard: ShardId,
        range: &KeyRange,
        (lock, reverse, limit): (Lock, bool, usize),
        until: &mut u64,
    ) -> Result<Chunk, Failure> {
        let limit = limit.max(1);
        let limit_rows = u32::try_from(limit).unwrap_or(u32::MAX);
        let site = Arc::clone(&self.site);
        if let Some(at) = self.read_at.filter(|at| self.look_here(shard, *at)) {
            self.fits_here(shard, at)?;
            match site.scan(shard, range, at, reverse, limit) {
                Ok(chunk) => return Ok(Chunk::Rows(self.found(chunk))),
                Err(error) => self.elsewhere(shard, error)?,
            }
        }
        let mut tries = 0;
        let give_up = self.lock_patience_ends();
        loop {
            let now = self.boot_ns();
            let part = self.parts.get(&shard).copied().unwrap_or_default();
            if now >= give_up {
                // Who waits behind this one need not wait for its ROLLBACK.
                if let Some(node) = part.leader {
                    let request = self.request(part.footing, Ask::Withdraw);
                    site.tell(Seat { shard, node }, request);
                }
                return Err(Failure::LockTimeout);
            }
            if now >= *until || site.is_closed() {
                return Err(self.unavailable(shard));
            }
            let versions = self.versions;
            let ask = match self.mode {
                Mode::ReadWrite => self.lock_question(
                    range.clone(),
                    lock,
                    reverse,
                    limit_rows,
                    part.footing.is_none(),
                ),
                Mode::ReadOnly(_) => {
                    let (at, scope) = (self.read_at, self.alone.map(|_| self.scope.clone()));
                    Ask::Snapshot { at, range: range.clone(), reverse, limit_rows, versions, scope }
                }
            };
            let request = self.request(part.footing, ask);
            let node = part.leader.unwrap_or_else(|| site.leader(shard));
            let (seat, locks) = (Seat { shard, node }, self.mode == Mode::ReadWrite);
            if locks && part.leader != Some(node) {
                self.parts.entry(shard).or_default().leader = Some(node);
                site.holds(seat, self.transaction, self.age);
            }
            // Its number comes after this question's, and before the next one's.
            let withdraw = locks.then(|| self.request(part.footing, Ask::Withdraw));
            let waiting = Waiting { site: &*site, seat, withdraw };
            // Whom nobody hears is not waited for, unless he holds our locks.
            let patient = part.footing.is_some() || site.reaches(node);
            let heard = if patient {
                site.ask(seat, request, (now + ONE_TRY_NS).min(give_up)).await
            } else {
                None
            };
            waiting.end();
            match heard {
                None if self.boot_ns() >= give_up => {}
                Some(Heard::Waits) => (*until, tries) = (self.boot_ns() + PATIENCE_NS, 0),
                Some(Heard::Reply(Reply::Rows {
                    footing, at, rows, committed_at, rest, ..
                })) => {
                    self.note(shard, footing, at);
                    let at = committed_at.into_iter().map(Some).collect();
                    return Ok(Chunk::Rows(Rows { rows, at, rest }));
                }
                Some(Heard::Read { footing, at, deadline }) => {
                    match site.scan(shard, range, at, reverse, limit) {
                        Ok(chunk) => {
                            let latest = site.now().interval.latest;
                            if deadline.is_none_or(|deadline| latest < deadline) {
                                self.note(shard, footing, at);
                                return Ok(Chunk::Rows(self.found(chunk)));
                            }
                            sometimes!("the lease ends while a session reads under it");
                        }
                        Err(StoreError::Elsewhere) => return self.moved(shard, None),
                        Err(error) => return Err(of_store(error)),
                    }
                }
                Some(Heard::Reply(Reply::Moved { to, .. })) => return self.moved(shard, to),
                Some(Heard::Reply(Reply::Locked { footing, .. })) => {
                    self.note(shard, footing, Timestamp::ZERO);
                    return Err(Failure::Locked);
                }
                Some(Heard::Reply(Reply::Aborted { why, .. }) | Heard::Wounded(why)) => {
                    return Err(self.end(why));
                }
                Some(Heard::Reply(Reply::BelowHorizon { oldest, .. })) => {
                    return Err(Failure::BelowHorizon { oldest });
                }
                Some(Heard::Reply(Reply::Broken { what, .. })) => {
                    return Err(Failure::Storage(what));
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                    self.lost_leader(seat, leader)?;
                    site.pause(self.boot_ns() + PAUSE_NS).await;
                }
                None if tries < TRIES && site.reaches(node) => tries += 1,
                Some(Heard::Reply(_)) | None => {
                    tries = 0;
                    self.lost_leader(seat, None)?;
                    site.pause(self.boot_ns() + PAUSE_NS).await;
                }
            }
        }
    }

    /// Asks for a lock, and for what stands there; with the first question to a shard it says what
    /// the session calls itself.
    pub(super) fn lock_question(
        &self,
        range: KeyRange,
        lock: Lock,
        reverse: bool,
        limit_rows: u32,
        first: bool,
    ) -> Ask {
        let application = self.application.clone().filter(|_| first);
        let nowait = self.locking == Locking::NoWait;
        Ask::Read { range, lock, reverse, limit_rows, application, versions: self.versions, nowait }
    }

    /// The attempt is aborted: it asks for nothing any more (invariant 1).
    pub(super) fn end(&mut self, why: Conflict) -> Failure {
        self.aborted = Some(why.clone());
        Failure::Aborted(why)
    }

    /// Until when a lock is waited for, by the boot clock. A snapshot takes none: it waits for a
    /// leader at most.
    pub(super) fn lock_patience_ends(&self) -> u64 {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let lock_timeout = self.lock_timeout.filter(|_| self.mode == Mode::ReadWrite);
        lock_timeout.map_or(u64::MAX, |most| self.boot_ns().saturating_add(nanoseconds(most)))
    }

    /// What was read here.
    fn found(&self, chunk: meridian_mvcc::Chunk) -> Rows {
        let at = if self.versions { chunk.at.into_iter().map(Some).collect() } else { Vec::new() };
        Rows { rows: chunk.rows, at, rest: chunk.rest }
    }

    /// What this node does not keep any more, another one may: one that was sent a copy has no
    /// history. The rest of the snapshot is read at the leader.
    fn elsewhere(&mut self, shard: ShardId, error: StoreError) -> Result<(), Failure> {
        let slot = self.site.readable(shard);
        let leads = slot.holds(self.site.now());
        match error {
            StoreError::Elsewhere => {}
            StoreError::BelowHorizon { .. } if !leads => {}
            error => return Err(of_store(error)),
        }
        self.local = None;
        Ok(())
    }

    /// These keys are another shard's: a part that has no locks yet is forgotten, one that has was
    /// aborted by the split.
    fn moved(&mut self, shard: ShardId, to: Option<(Key, ShardId)>) -> Result<Chunk, Failure> {
        self.local = None;
        if self.parts.get(&shard).is_some_and(|part| part.footing.is_none()) {
            self.parts.remove(&shard);
        }
        Ok(Chunk::Moved(to))
    }

    /// What was thought to be one shard's is not: its newest commit says nothing of the others.
    fn reads_elsewhere(&mut self) {
        if self.alone.take().is_none() {
            return;
        }
        sometimes!("what was to be read in one shard lies in several");
        // Once that shard has answered, it had the whole range: others have it since, and what they
        // commit is later than this transaction's beginning.
        if !self.answered {
            (self.fits, self.local) = (None, None);
            self.read_at = Some(self.present());
        }
    }

    pub(super) fn note(&mut self, shard: ShardId, footing: Footing, at: Timestamp) {
        match self.mode {
            Mode::ReadWrite => {
                let part = self.parts.entry(shard).or_default();
                part.footing = Some(footing);
                if let Some(node) = part.leader {
                    self.site.heard_of_leadership(Seat { shard, node }, footing.term);
                }
            }
            Mode::ReadOnly(_) => self.read_at = Some(at),
        }
    }

    /// The node that was asked does not lead. Locks that it held for us are void.
    pub(super) fn lost_leader(&mut self, asked: Seat, leader: Option<u32>) -> Result<(), Failure> {
        self.site.heard_of_leader(asked, leader.map(NodeId));
        let Some(part) = self.parts.get_mut(&asked.shard) else { return Ok(()) };
        part.leader = None;
        if part.footing.is_some() {
            self.aborted = Some(Conflict::LeaderChanged);
            return Err(Failure::Aborted(Conflict::LeaderChanged));
        }
        Ok(())
    }

    /// Visits the shards by their keys.
    async fn change_members(mut self, members: Members) -> Result<(), Failure> {
        let site = Arc::clone(&self.site);
        let mut next = Some(Key::default());
        while let Some(key) = next {
            // Whoever answers for the key has it: what is known of it is true then.
            self.get(&key, Lock::Shared).await?;
            let (shard, bounds) = site.route(&key);
            self.change_members_of(shard, &members).await?;
            next = bounds.end;
        }
        Ok(())
    }

    async fn change_members_of(&self, shard: ShardId, members: &Members) -> Result<(), Failure> {
        let site = &*self.site;
        let mut until = self.boot_ns() + PATIENCE_NS;
        loop {
            let seat = Seat { shard, node: site.leader(shard) };
            let request = self.request(None, Ask::Members(members.clone()));
            match site.ask(seat, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(Heard::Reply(Reply::Committed { .. })) => return Ok(()),
                Some(Heard::Reply(Reply::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                    site.heard_of_leader(seat, leader.map(NodeId))
                }
                // Newcomers take as long as it takes to send them everything.
                Some(Heard::Waits) => until = self.boot_ns() + PATIENCE_NS,
                Some(_) => {}
                None => site.heard_of_leader(seat, None),
            }
            if self.boot_ns() >= until || site.is_closed() {
                return Err(self.unavailable(shard));
            }
            site.pause(self.boot_ns() + PAUSE_NS).await;
        }
    }

    /// Splits the shard that has a key.
    async fn split(self, at: Key, shard: ShardId) -> Result<(), Failure> {
        let site = Arc::clone(&self.site);
        let until = self.boot_ns() + PATIENCE_NS;
        loop {
            let (old, bounds) = site.route(&at);
            if old == shard || bounds.start == at {
                return Ok(());
            }
            let seat = Seat { shard: old, node: site.leader(old) };
            let request = self.request(None, Ask::Split { at: at.clone(), shard });
            match site.ask(seat, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(Heard::Reply(Reply::Committed { .. })) => {
                    site.learn_route(&at, at.clone(), shard);
                    return Ok(());
                }
                Some(Heard::Reply(Reply::Moved { to: Some((from, other)), .. })) => {
                    site.learn_route(&at, from, other);
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                    site.heard_of_leader(seat, leader.map(NodeId))
                }
                Some(Heard::Reply(Reply::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(_) => {}
                None => site.heard_of_leader(seat, None),
            }
            if self.boot_ns() >= until || site.is_closed() {
                return Err(self.unavailable(old));
            }
            site.pause(self.boot_ns() + PAUSE_NS).await;
        }
    }
}

/// What came of reading in a shard.
enum Chunk {
    Rows(Rows),
    /// It does not have the keys; from which key on another has them, as far as was said.
    Moved(Option<(Key, ShardId)>),
}

/// Somebody who waits for an answer. Dropped meanwhile, because a statement was cancelled or took
/// too long, it wants nothing any more: others need not wait for its ROLLBACK.
struct Waiting<'a, S: Site> {
    site: &'a S,
    seat: Seat,
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
            self.site.tell(self.seat, request);
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

    fn get<'a>(
        &'a mut self,
        key: &'a Key,
        lock: Lock,
    ) -> Future<'a, Result<Option<Value>, Failure>> {
        Box::pin(async move {
            if let (Some(at), Some(shard)) = (self.read_at, self.local)
                && (self.site.has_one_shard() || self.site.route(key).0 == shard)
            {
                self.fits_here(shard, at)?;
                match self.site.get(shard, key, at) {
                    Ok(found) => {
                        self.answered = true;
                        return Ok(found.and_then(|version| version.value));
                    }
                    Err(error) => self.elsewhere(shard, error)?,
                }
            }
            let found = self.read(&KeyRange::point(key.clone()), lock, false, 1).await?;
            if let Some(own) = self.writes.get(key) {
                return Ok(own.clone());
            }
            Ok(found.rows.into_iter().next().map(|(_, value)| value))
        })
    }

    fn get_many<'a>(
        &'a mut self,
        keys: &'a [Key],
        lock: Lock,
    ) -> Future<'a, Result<Vec<Option<Value>>, Failure>> {
        Box::pin(async move {
            let mut found = Vec::with_capacity(keys.len());
            while found.len() < keys.len() {
                // The first read of a snapshot chooses its timestamp.
                let most = if self.read_at.is_none() { 1 } else { ASKED_TOGETHER };
                let keys = &keys[found.len()..keys.len().min(found.len() + most)];
                for (key, known) in keys.iter().zip(self.read_ahead(keys).await) {
                    found.push(match known {
                        Some(value) => value,
                        None => self.get(key, lock).await?,
                    });
                }
            }
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
            let found = self.read(range, lock, reverse, limit_rows).await?;
            Ok(self.writes.over(range, found, reverse, limit_rows.max(1)))
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

    fn reads_only_in(&mut self, scope: &KeyRange, negotiates: bool) -> bool {
        let unread = !self.answered && self.questions.load(Ordering::Relaxed) == 0;
        if self.mode != Mode::ReadOnly(ReadAt::Now) || !unread || self.site.has_one_shard() {
            return false;
        }
        let (shard, bounds) = self.site.route(&scope.start);
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
        let slot = self.site.readable(shard);
        // Sampled after the slot was loaded: a lease that holds now held then.
        let leads = slot.holds(self.site.now());
        let present = leads && (slot.quiet || broken(rules::LAST_TS_IN_FLIGHT));
        (self.alone, self.scope) = (Some(shard), scope.clone());
        (self.read_at, self.local, self.fits) = (present.then_some(slot.through), None, None);
        true
    }

    fn planned_for(&mut self, SchemaVersion { table, version }: SchemaVersion) {
        let known = self.planned.entry(table).or_insert(version);
        *known = version.min(*known);
        self.fits = None;
    }

    fn change_schema(&mut self, to: SchemaVersion, ranges: Vec<KeyRange>) -> Result<(), Failure> {
        if self.mode != Mode::ReadWrite {
            return Err(Failure::ReadOnly);
        }
        self.writes.change_schema(to, ranges);
        Ok(())
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

    fn set_application(&mut self, name: &str) {
        if name != self.application.as_deref().unwrap_or_default() {
            self.application = Some(name.chars().take(LONGEST_NAME).collect());
        }
    }

    fn show_versions(&mut self) {
        self.versions = true;
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
        if self.mode != Mode::ReadWrite || (self.writes.is_empty() && self.parts.is_empty()) {
            let at = self.read_at.unwrap_or_else(|| self.site.readable(ShardId(0)).through);
            return Box::pin(std::future::ready(Outcome::Committed { at }));
        }
        Box::pin(self.decide())
    }
}

impl<S: Site> Drop for Session<S> {
    fn drop(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        self.site.holds_no_more(self.transaction);
        for (shard, part) in &self.parts {
            if let Some(node) = part.leader {
                let request = self.request(part.footing, Ask::Abort);
                self.site.tell(Seat { shard: *shard, node }, request);
            }
        }
    }
}
