//! Reads of a transaction: at its own node where it may, otherwise at the shards' leaders.

use super::{Coordinator, ONE_TRY_NS, PAUSE_NS, TIMEOUT_NS, TRIES, TxnClient, of_store};
use crate::buffer::rest_of;
use crate::locking::rules;
use crate::shards::{ReplicaId, Request, RequestBody, RequestOutcome, Response, Shards};
use crate::{
    Begin, Conflict, Database, Failure, Lock, Locking, Mode, Node, ReadAt, Rows, SchemaHistory,
    SchemaVersion, TxnCounters,
};
use futures::future::{join_all, try_join_all};
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{Health, NodeId, ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange, StoreError, Value, local};
use std::sync::{Arc, Mutex, PoisonError};

/// The result of reading in a shard.
enum Chunk {
    Rows(Rows),
    /// The shard does not have the keys; the first key that another shard has, if known.
    Moved(Option<(Key, ShardId)>),
}

/// A request that waits for its response. If it is dropped before, because the statement was
/// cancelled or timed out, the lock request is withdrawn: other transactions then need not wait for
/// this one's ROLLBACK.
struct Waiting<'a, S: Shards> {
    shards: &'a S,
    replica: ReplicaId,
    withdraw: Option<Request>,
}

impl<S: Shards> Waiting<'_, S> {
    fn end(mut self) {
        self.withdraw = None;
    }
}

impl<S: Shards> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        if let Some(request) = self.withdraw.take() {
            self.shards.send(self.replica, request);
        }
    }
}

impl<S: Shards> Coordinator<S> {
    /// Checks that a snapshot that is read here without a request has the schema versions that the
    /// transaction was planned for.
    pub(super) fn fits_here(&mut self, shard: ShardId, at: Timestamp) -> Result<(), Failure> {
        if self.fits == Some(shard) {
            return Ok(());
        }
        for SchemaVersion { table, version } in self.planned.iter() {
            let row = match self.shards.get(shard, &local::schema(shard.0, table), Timestamp::MAX) {
                Ok(row) => row.and_then(|row| row.value),
                // The rows are there too, and the shard that has them checks the schema.
                Err(StoreError::Elsewhere) => return Ok(()),
                Err(error) => return Err(of_store(error)),
            };
            let Some(row) = row else { continue };
            let history: SchemaHistory = minicbor::decode(&row).map_err(|error| {
                Failure::Storage(format!(
                    "the schema history of a table in shard {} cannot be decoded: {error}",
                    shard.0
                ))
            })?;
            if history.outdates(version, at) {
                let why = Conflict::SchemaChanged { table };
                self.count(|counters| counters.aborted(&why));
                return Err(Failure::Aborted(why));
            }
        }
        self.fits = Some(shard);
        Ok(())
    }

    /// True if a snapshot of a shard can be read here without a request.
    pub(super) fn look_here(&mut self, shard: ShardId, at: Timestamp) -> bool {
        if self.local == Some(shard) {
            return true;
        }
        let slot = self.shards.read_lease(shard);
        let leads = slot.holds(self.shards.node().now());
        let here = (leads && at <= slot.through) || at <= slot.closed;
        if here {
            self.local = Some(shard);
        }
        if here && leads {
            self.shards.count_local_read(shard);
        }
        if here && !leads {
            sometimes!("a snapshot is read where no member leads");
        }
        here
    }

    /// Reads a chunk, and measures the time if that is asked for.
    pub(in crate::locking) async fn read(
        &mut self,
        range: &KeyRange,
        lock: Lock,
        reverse: bool,
        limit: usize,
    ) -> Result<Rows, Failure> {
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let rows = self.read_part(range, lock, reverse, limit).await;
        if let Some(timings) = timings {
            timings.note(|times| {
                times.reads += 1;
                times.reading_ns += timings.elapsed_ns() - began_ns;
            });
        }
        self.snapshot_passes().await?;
        rows
    }

    /// Reads a chunk of one shard's part of a range. The result's `rest` covers the other shards'
    /// parts.
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
        if let Some(range) = self.negotiating.take() {
            self.read_at = Some(self.negotiate(range).await);
        }
        let mut until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let (shard, bounds) = if reverse {
                self.shards.map().route_below(range.end.as_ref())
            } else {
                self.shards.map().route(&range.start)
            };
            if self
                .single_shard
                .is_some_and(|single_shard| single_shard != shard || !bounds.contains_range(range))
            {
                self.reads_elsewhere();
            }
            let part = range.common(&bounds);
            match self.read_chunk(shard, &part, (lock, reverse, limit), &mut until).await? {
                Chunk::Moved(to) => {
                    self.reads_elsewhere();
                    if let Some((from, other)) = to {
                        self.shards.map().learn_route(&part.start, from, other);
                    }
                    sometimes!("a shard is asked for keys that it has no more");
                    self.shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
                }
                Chunk::Rows(mut found) => {
                    self.answered = true;
                    found.rest = rest_of(range, &bounds, found.rest, reverse);
                    return Ok(found);
                }
            }
        }
    }

    /// Reads a chunk of committed rows without a lock.
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
                let modes = self.order.modes();
                let txn_client = TxnClient::new(Arc::clone(&self.shards), modes);
                let (consistency, token) = (self.order.consistency(), self.order.token());
                let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
                txn_client.begin(Begin { consistency, token, ..begin }).await?
            }
        };
        if self.versions {
            snapshot.show_versions();
        }
        self.planned.iter().for_each(|schema| snapshot.planned_for(schema));
        let rows = snapshot.scan(range, Lock::Shared, reverse, limit).await;
        self.order.learn(snapshot.token());
        self.unlocked = Mutex::new(Some(snapshot));
        rows
    }

    /// Negotiates the timestamp at which a range in several shards is read (§4.2.2): the latest of
    /// the timestamps that their leaders return. If a shard does not answer it is the present,
    /// which needs no negotiation.
    async fn negotiate(&mut self, whole: KeyRange) -> Timestamp {
        let shards = Arc::clone(&self.shards);
        let question = |(shard, range)| {
            let replica = ReplicaId { shard, node: shards.map().leader(shard) };
            (replica, self.request(None, RequestBody::LastTs { range }))
        };
        let questions: Vec<_> = shards.map().parts(&whole).into_iter().map(question).collect();
        let until = self.boot_ns() + ONE_TRY_NS;
        let body = |(replica, request): (ReplicaId, Request)| {
            let shards = &*shards;
            async move {
                let heard = if shards.node().reaches(replica.node) {
                    shards.request(replica, request, until).await
                } else {
                    None
                };
                match heard {
                    Some(RequestOutcome::Response(Response::LastTs { at, .. })) => return Ok(at),
                    Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                        shards.map().redirect(replica, leader.map(NodeId));
                    }
                    Some(RequestOutcome::Response(Response::Moved {
                        to: Some((from, other)),
                        ..
                    })) => {
                        shards.map().learn_route(&from, from.clone(), other);
                    }
                    _ => {}
                }
                Err(())
            }
        };
        let said = match try_join_all(questions.into_iter().map(body)).await {
            Ok(said) if broken(rules::NEGOTIATED_LEAST) => said.into_iter().min(),
            Ok(said) => {
                sometimes!("shards negotiate at which timestamp they are read");
                said.into_iter().max().map(|at| at.max(self.order.token()))
            }
            Err(()) => {
                sometimes!("a shard does not negotiate, and the present is read");
                None
            }
        };
        said.unwrap_or_else(|| self.present())
    }

    /// Returns a timestamp at or above everything that the transaction comes after: its token, and
    /// what was acknowledged before it began; if this node knows the time, before now.
    pub(super) fn present(&self) -> Timestamp {
        let now = self.shards.node().now();
        let latest =
            if now.health == Health::Good { now.interval.latest } else { self.began.latest };
        self.order.token().max(Timestamp { nanos: latest, ..Timestamp::ZERO })
    }

    /// Requests keys that are read without locks, all in parallel: of a snapshot with a known
    /// timestamp, or each as of whatever is newest in its shard. Returns `None` for a key without
    /// an answer: it is in this node's store, or its shard moved, or its leader did not answer.
    pub(super) async fn read_ahead(&mut self, keys: &[Key]) -> Vec<Option<Option<Value>>> {
        let reads = self.mode != Mode::ReadWrite && keys.len() > 1;
        if !reads || (self.read_at.is_none() && !self.order.reads_shards_apart()) {
            return vec![None; keys.len()];
        }
        let shards = Arc::clone(&self.shards);
        let (now, began_ns) =
            (self.boot_ns(), self.timings.as_ref().map(|timings| timings.elapsed_ns()));
        let mut questions = Vec::with_capacity(keys.len());
        for key in keys {
            let shard = shards.map().route(key).0;
            let replica = ReplicaId { shard, node: shards.map().leader(shard) };
            let here = self.read_at.is_some_and(|at| self.look_here(shard, at))
                || self.single_shard.is_some_and(|single_shard| single_shard != shard);
            questions.push((!here && shards.node().reaches(replica.node)).then(|| {
                let body = self.snapshot_question(KeyRange::point(key.clone()), false, 1, false);
                (replica, self.request(None, body))
            }));
        }
        let body = |question: Option<(ReplicaId, Request)>| {
            let shards = &*shards;
            async move {
                let (replica, request) = question?;
                let RequestBody::Snapshot { range, .. } = request.body.clone() else { return None };
                match shards.request(replica, request, now + ONE_TRY_NS).await? {
                    RequestOutcome::Response(Response::Rows { rows, at, waited_ns, .. }) => {
                        Some((rows.into_iter().next().map(|(_, value)| value), at, waited_ns))
                    }
                    RequestOutcome::Read { at, deadline, waited_ns, .. } => {
                        let chunk = shards.scan(replica.shard, &range, at, false, 1).ok()?;
                        let leads = deadline
                            .is_none_or(|deadline| shards.node().now().interval.latest < deadline);
                        let value = chunk.rows.into_iter().next().map(|(_, value)| value);
                        leads.then_some((value, at, waited_ns))
                    }
                    _ => None,
                }
            }
        };
        let found = join_all(questions.into_iter().map(body)).await;
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
        // They waited at the same time.
        let waited_ns = found.iter().flatten().filter_map(|(.., waited_ns)| *waited_ns).max();
        self.note_read_wait(waited_ns.unwrap_or(0));
        let mut learn = |(value, at, _)| {
            self.order.learn(at);
            value
        };
        found.into_iter().map(|answer| answer.map(&mut learn)).collect()
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
        let shards = Arc::clone(&self.shards);
        if let Some(at) = self.read_at.filter(|at| self.look_here(shard, *at)) {
            self.fits_here(shard, at)?;
            match shards.scan(shard, range, at, reverse, limit) {
                Ok(chunk) => return Ok(Chunk::Rows(self.found(chunk))),
                Err(error) => self.elsewhere(shard, error)?,
            }
        }
        let mut tries = 0;
        let give_up = self.lock_timeout_at();
        loop {
            let now = self.boot_ns();
            let part = self.parts.get(&shard).copied().unwrap_or_default();
            if now >= give_up {
                // Transactions that wait behind this one need not wait for its ROLLBACK.
                if let Some(node) = part.leader {
                    let request = self.request(part.lock_epoch, RequestBody::Withdraw);
                    shards.send(ReplicaId { shard, node }, request);
                }
                self.count(TxnCounters::lock_timed_out);
                return Err(Failure::LockTimeout);
            }
            if now >= *until || shards.node().is_closed() {
                return Err(self.unavailable(shard));
            }
            let body = match self.mode {
                Mode::ReadWrite => self.lock_question(
                    range.clone(),
                    lock,
                    reverse,
                    limit_rows,
                    part.lock_epoch.is_none(),
                ),
                Mode::ReadOnly(_) => {
                    self.snapshot_question(range.clone(), reverse, limit_rows, self.versions)
                }
            };
            let request = self.request(part.lock_epoch, body);
            let node = part.leader.unwrap_or_else(|| shards.map().leader(shard));
            let (replica, locks) = (ReplicaId { shard, node }, self.mode == Mode::ReadWrite);
            if locks && part.leader != Some(node) {
                self.parts.entry(shard).or_default().leader = Some(node);
                shards.held_locks().lock().insert(replica, self.transaction, self.age);
            }
            // Its id comes after that of this request, and before the next one's.
            let withdraw = locks.then(|| self.request(part.lock_epoch, RequestBody::Withdraw));
            let waiting = Waiting { shards: &*shards, replica, withdraw };
            let is_remote = node != shards.node().here().0;
            // Skips unreachable nodes, unless they hold locks of this transaction.
            let patient = part.lock_epoch.is_some() || shards.node().reaches(node);
            let heard = if patient {
                shards.request(replica, request, (now + ONE_TRY_NS).min(give_up)).await
            } else {
                None
            };
            waiting.end();
            match heard {
                None if self.boot_ns() >= give_up => {}
                Some(RequestOutcome::Waits) => (*until, tries) = (self.boot_ns() + TIMEOUT_NS, 0),
                Some(RequestOutcome::Response(Response::Rows {
                    lock_epoch,
                    at,
                    rows,
                    committed_at,
                    rest,
                    waited_ns,
                    ..
                })) => {
                    self.note_read_wait(waited_ns.unwrap_or(0));
                    if let Some(age_meter) = self.age_meter.as_ref().filter(|_| is_remote) {
                        age_meter.answered(self.boot_ns() - now);
                    }
                    self.note(shard, lock_epoch, at);
                    let at = committed_at.into_iter().map(Some).collect();
                    return Ok(Chunk::Rows(Rows { rows, at, rest }));
                }
                Some(RequestOutcome::Read { lock_epoch, at, deadline, waited_ns }) => {
                    self.note_read_wait(waited_ns.unwrap_or(0));
                    match shards.scan(shard, range, at, reverse, limit) {
                        Ok(chunk) => {
                            let latest = shards.node().now().interval.latest;
                            if deadline.is_none_or(|deadline| latest < deadline) {
                                self.note(shard, lock_epoch, at);
                                return Ok(Chunk::Rows(self.found(chunk)));
                            }
                            sometimes!("the lease ends while a session reads under it");
                        }
                        Err(StoreError::Elsewhere) => return self.moved(shard, None),
                        Err(error) => return Err(of_store(error)),
                    }
                }
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    return self.moved(shard, to);
                }
                Some(RequestOutcome::Response(Response::Locked { lock_epoch, .. })) => {
                    self.note(shard, lock_epoch, Timestamp::ZERO);
                    return Err(Failure::Locked);
                }
                Some(
                    RequestOutcome::Response(Response::Aborted { why, .. })
                    | RequestOutcome::Wounded(why),
                ) => {
                    return Err(self.end(why));
                }
                Some(RequestOutcome::Response(Response::BelowHorizon { oldest, .. })) => {
                    return Err(Failure::BelowHorizon { oldest });
                }
                Some(RequestOutcome::Response(Response::Refused { why, .. })) => {
                    return Err(Failure::Refused(why));
                }
                Some(RequestOutcome::Response(Response::Broken { what, .. })) => {
                    return Err(Failure::Storage(what));
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                    self.lost_leader(replica, leader)?;
                    shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
                }
                None if tries < TRIES && shards.node().reaches(node) => tries += 1,
                Some(RequestOutcome::Response(_)) | None => {
                    tries = 0;
                    self.lost_leader(replica, None)?;
                    shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
                }
            }
        }
    }

    /// Returns the request that locks and reads a range. The first request to a shard carries the
    /// `application_name`.
    pub(in crate::locking) fn lock_question(
        &self,
        range: KeyRange,
        lock: Lock,
        reverse: bool,
        limit_rows: u32,
        first: bool,
    ) -> RequestBody {
        let application = self.application.clone().filter(|_| first);
        let nowait = self.locking == Locking::NoWait;
        RequestBody::Read {
            range,
            lock,
            reverse,
            limit_rows,
            application,
            versions: self.versions,
            nowait,
        }
    }

    /// Returns the request that reads a range without locks: at the snapshot's timestamp, or as of
    /// what is newest in its shard.
    fn snapshot_question(
        &self,
        range: KeyRange,
        reverse: bool,
        limit_rows: u32,
        versions: bool,
    ) -> RequestBody {
        let alone = self.single_shard.map(|_| self.single_shard_range.clone());
        let apart = self.order.reads_shards_apart().then(|| range.clone());
        let (at, single_shard_range) = (self.read_at, alone.or(apart));
        RequestBody::Snapshot { at, range, reverse, limit_rows, versions, single_shard_range }
    }

    /// Returns a chunk that was read here as rows.
    fn found(&self, chunk: meridian_mvcc::Chunk) -> Rows {
        let at = if self.versions { chunk.at.into_iter().map(Some).collect() } else { Vec::new() };
        Rows { rows: chunk.rows, at, rest: chunk.rest }
    }

    /// Handles a read that failed here because this node lacks the versions: another node may have
    /// them (a node that received a snapshot has no history). The rest of the snapshot is read at
    /// the leader.
    pub(super) fn elsewhere(&mut self, shard: ShardId, error: StoreError) -> Result<(), Failure> {
        let slot = self.shards.read_lease(shard);
        let leads = slot.holds(self.shards.node().now());
        match error {
            StoreError::Elsewhere => {}
            StoreError::BelowHorizon { .. } if !leads => {}
            error => return Err(of_store(error)),
        }
        self.local = None;
        Ok(())
    }

    /// Handles keys that another shard has: forgets the state in this shard if it has no locks. If
    /// it has, the split aborted the attempt.
    fn moved(&mut self, shard: ShardId, to: Option<(Key, ShardId)>) -> Result<Chunk, Failure> {
        self.local = None;
        if self.parts.get(&shard).is_some_and(|part| part.lock_epoch.is_none()) {
            self.parts.remove(&shard);
        }
        Ok(Chunk::Moved(to))
    }

    /// Ends a single-shard read, because its range lies in several shards: the newest commit of one
    /// says nothing about the others.
    fn reads_elsewhere(&mut self) {
        if self.single_shard.take().is_none() {
            return;
        }
        sometimes!("what was to be read in one shard lies in several");
        // If that shard has answered, it had the whole range then. The other shards have had their
        // parts only since, so that their commits are later than the beginning of this transaction.
        if !self.answered {
            (self.fits, self.local) = (None, None);
            self.read_at = Some(self.present());
        }
    }
}
