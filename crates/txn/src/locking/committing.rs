//! Commit at the coordinator: in one shard, or in two phases (Spanner §4.2.1).
//!
//! ```text
//!   one shard   Commit ─▶ its leader                           one round trip
//!   several     Commit ─▶ the coordinating shard's leader      } in parallel; the response
//!               Prepare ─▶ each other shard's leader           } to Commit is the outcome
//! ```
//!
//! 1. Every shard in which the attempt has locks takes part, also where it has only read. A shard
//!    in which it has no lock, because it did not wait for one, does not.
//! 2. Only the coordinating shard's response counts. If a participant refuses, or cannot be
//!    reached, the coordinator asks the coordinating shard to abort; that shard may have decided
//!    already.
//! 3. The coordinating shard is one that is written to, if possible one whose leader is on this
//!    node: then the votes and the response travel the least.

use super::coordinator::{Coordinator, ONE_TRY_NS, PAUSE_NS, Part, TIMEOUT_NS, TRIES};
use super::{LockEpoch, ReplicaId, Request, RequestBody, RequestOutcome, Response, Shards, Spent};
use crate::two_phase::OneShot;
use crate::{Conflict, Failure, Lock, Locking, Node, Outcome, SchemaChange, SchemaVersion};
use futures::future::{Either, join_all, select};
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId, sometimes, step};
use meridian_mvcc::{Key, KeyRange, Value, Write};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

/// The time by which a schema change lies ahead, in addition to two commit waits and three round
/// trips to the farthest shard, in nanoseconds; and the maximum in all.
const AHEAD_NS: u64 = 20_000_000;
const FARTHEST_AHEAD_NS: u64 = 2_000_000_000;

/// The time for which a shard may admit a one-shot commit, in nanoseconds.
const BLINDLY_NS: u64 = 5_000_000_000;

/// The writes in each participating shard.
type Shares = BTreeMap<ShardId, Vec<Write>>;

/// The schemas that change in each shard.
type Changes = BTreeMap<ShardId, Vec<(SchemaVersion, KeyRange)>>;

/// The schemas that a transaction changes, and the keys of their tables.
type Changed = [(SchemaVersion, Vec<KeyRange>)];

/// The result of one attempt to commit.
enum Ended {
    With(Outcome, Spent),
    /// The one-shot commit had no effect: the commit may be retried under locks.
    LocksFirst,
}

/// A shard's part in a commit.
struct Share {
    replica: ReplicaId,
    lock_epoch: Option<LockEpoch>,
    one_shot: Option<OneShot>,
    writes: Vec<Write>,
    schema: Option<SchemaChange>,
}

impl<S: Shards> Coordinator<S> {
    pub(super) async fn decide(mut self: Box<Self>) -> Outcome {
        self.locking = Locking::Wait;
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let (mut outcome, mut spent) = self.ask_to_commit().await;
        if let Outcome::Aborted { why } = &outcome
            && self.aborted.is_none()
        {
            self.count(|counters| counters.aborted(why));
        }
        if let Outcome::Committed { at } = outcome {
            if let Some(age_meter) = self.age_meter.as_ref().filter(|_| spent.replication_ns > 0) {
                age_meter.committed(spent.replication_ns);
            }
            match self.commit_passes(at).await {
                Some(waited_ns) => spent.commit_wait_ns += waited_ns,
                // No outcome is reported before the timestamp has passed.
                None => outcome = Outcome::Unknown,
            }
        }
        self.count(|counters| match outcome {
            Outcome::Committed { .. } => counters.committed(spent.commit_wait_ns),
            Outcome::Unknown => counters.outcome_unknown(),
            Outcome::Aborted { .. } => {}
        });
        if let Some(timings) = timings {
            timings.note(|times| {
                times.commit_ns = timings.elapsed_ns() - began_ns;
                (times.replication_ns, times.commit_wait_ns) =
                    (spent.replication_ns, spent.commit_wait_ns);
            });
        }
        outcome
    }

    async fn ask_to_commit(&mut self) -> (Outcome, Spent) {
        let (schemas, writes) = (self.writes.take_schemas(), self.writes.take());
        loop {
            match self.ask_once(&schemas, &writes).await {
                Ended::With(outcome, spent) => return (outcome, spent),
                Ended::LocksFirst => {
                    sometimes!("a commit that was asked for blindly locks first");
                    self.tries_one_shot = false;
                }
            }
        }
    }

    async fn ask_once(&mut self, schemas: &Changed, writes: &[Write]) -> Ended {
        let untold = |outcome| Ended::With(outcome, Spent::default());
        // This wait comes before the deadline of a one-shot commit is set.
        while self.shards.is_crowded() && !self.shards.node().is_closed() {
            self.shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
        }
        if self.registers_schemas(schemas) {
            // A commit has an outcome, and no error.
            self.lock_timeout = None;
        }
        let (shares, mut changes) = match self.shares(schemas, writes).await {
            Ok(found) => found,
            Err(Failure::Aborted(why)) => return untold(Outcome::Aborted { why }),
            Err(_) => return untold(Outcome::Aborted { why: Conflict::LeaderChanged }),
        };
        if shares.is_empty() {
            return untold(Outcome::Committed { at: self.shards.read_lease(ShardId(0)).through });
        }
        for (shard, part) in self
            .parts
            .iter()
            .filter(|(_, part)| part.lock_epoch.is_none() && part.one_shot.is_none())
        {
            // A lock that it waited for there was not acquired, as far as is known.
            if let Some(node) = part.leader {
                self.shards.send(
                    ReplicaId { shard: *shard, node },
                    self.request(None, RequestBody::Abort),
                );
            }
        }
        // From here on the leaders end the transaction: dropping this future cancels nothing.
        self.shards.held_locks().lock().remove(self.transaction);
        let parts = std::mem::take(&mut self.parts);
        let coordinator = self.coordinator(&shares);
        let when = changes
            .values()
            .next()
            .map(|change| SchemaChange { tables: Vec::new(), ..change.clone() });
        let mut share = |(shard, writes): (ShardId, Vec<Write>)| {
            let Part { leader, lock_epoch, one_shot } =
                parts.get(&shard).copied().unwrap_or_default();
            let replica = ReplicaId {
                shard,
                node: leader.unwrap_or_else(|| self.shards.map().leader(shard)),
            };
            // Every shard receives the timestamp of a schema change, also where nothing changes:
            // the vote of a shard that was only read would not hold until then.
            let schema = changes.remove(&shard).or(when.clone());
            Share { replica, lock_epoch, one_shot, writes, schema }
        };
        let mut shares: BTreeMap<ShardId, Share> =
            shares.into_iter().map(|entry| (entry.0, share(entry))).collect();
        let own = shares.remove(&coordinator).expect("the coordinating shard takes part");
        if shares.is_empty() {
            step!("session: asks one group to commit");
            return self.commit_at(own, Vec::new()).await;
        }
        sometimes!("a transaction commits in two phases");
        step!("session: asks several groups to commit");
        let (replica, participants) = (own.replica, shares.keys().copied().collect());
        let others: Vec<(ReplicaId, Option<LockEpoch>)> =
            shares.values().map(|share| (share.replica, share.lock_epoch)).collect();
        let coordinator = (replica, own.lock_epoch, own.one_shot);
        let refusal = OnceLock::new();
        let ended = {
            let prepare = |share| self.prepare_at(share, coordinator, &refusal);
            let prepare = pin!(join_all(shares.into_values().map(prepare)));
            let commit = pin!(self.commit_at(own, participants));
            let Either::Left((ended, _)) = select(commit, prepare).await else {
                unreachable!("Prepare is retried until the future is dropped")
            };
            ended
        };
        let ended = match ended {
            // Other shards may be prepared by now.
            Ended::LocksFirst => untold(Outcome::Aborted { why: Conflict::LeaderChanged }),
            // The coordinating shard was asked to abort because a participant refused, and does not
            // know the participant's reason.
            Ended::With(Outcome::Aborted { why: Conflict::RolledBack }, spent) => {
                let why = refusal.into_inner().unwrap_or(Conflict::RolledBack);
                Ended::With(Outcome::Aborted { why }, spent)
            }
            ended => ended,
        };
        if !matches!(ended, Ended::With(Outcome::Committed { .. }, _)) {
            // Requests that wait for a lock are cancelled. A prepared participant receives the
            // outcome from the coordinating shard.
            others.into_iter().for_each(|(replica, lock_epoch)| {
                self.shards.send(replica, self.request(lock_epoch, RequestBody::Abort))
            });
        }
        ended
    }

    /// True if schemas change in several shards, in each of which the commit needs a lock.
    fn registers_schemas(&self, schemas: &Changed) -> bool {
        !schemas.is_empty() && !self.shards.map().has_one_shard()
    }

    /// Takes the locks that a change of schemas needs in its shards, before the commit is asked
    /// for: if the session is interrupted while it waits for them, nothing has happened.
    pub(super) async fn lock_schemas(&mut self) -> Result<(), Failure> {
        if self.aborted.is_none() && self.registers_schemas(self.writes.schemas()) {
            self.locking = Locking::Wait;
            let schemas = self.writes.schemas().to_vec();
            let write = |(key, value): (&Key, &Option<Value>)| Write {
                key: key.clone(),
                value: value.clone(),
            };
            let writes: Vec<Write> = self.writes.iter().map(write).collect();
            self.shares(&schemas, &writes).await?;
        }
        Ok(())
    }

    /// Returns the writes and the schema changes of each participating shard. The attempt then has
    /// a lock epoch in every one, or this node knows the shard's leader and term for a one-shot
    /// commit.
    async fn shares(
        &mut self,
        schemas: &Changed,
        writes: &[Write],
    ) -> Result<(Shares, BTreeMap<ShardId, SchemaChange>), Failure> {
        if self.registers_schemas(schemas) {
            // One schema change at a time: two of them would wait for each other's votes. This lock
            // is the first that a commit takes, and is held to its end.
            self.read(&KeyRange::point(Key::default()), Lock::Exclusive, false, 1).await?;
        }
        let mut asked_all = false;
        loop {
            let mut shares: Shares = self.parts.keys().map(|shard| (*shard, Vec::new())).collect();
            for write in writes {
                shares
                    .entry(self.shards.map().route(&write.key).0)
                    .or_default()
                    .push(write.clone());
            }
            let changes = self.changes(schemas);
            for shard in changes.keys() {
                shares.entry(*shard).or_default();
            }
            let afoot = |shard: &ShardId| {
                self.parts.get(shard).is_some_and(|part| part.lock_epoch.is_some())
            };
            let first = |(shard, writes): (&ShardId, &Vec<Write>)| match writes.first() {
                Some(write) => Some((*shard, write.key.clone(), Lock::Exclusive)),
                None => changes
                    .get(shard)
                    .map(|tables| (*shard, tables[0].1.start.clone(), Lock::Shared)),
            };
            let one_shot: BTreeMap<ShardId, Part> = match schemas.is_empty() {
                true => shares
                    .keys()
                    .filter_map(|shard| Some((*shard, self.one_shot_part(*shard)?)))
                    .collect(),
                false => BTreeMap::new(),
            };
            let unknown = |shard: &ShardId| !afoot(shard) && !one_shot.contains_key(shard);
            let to_lock: Vec<(ShardId, Key, Lock)> =
                shares.iter().filter(|(shard, _)| unknown(shard)).filter_map(first).collect();
            let began_ns = self.boot_ns();
            match to_lock.first().cloned() {
                None => {
                    shares.retain(|shard, _| !unknown(shard));
                    self.parts.extend(one_shot);
                    let from = self.ahead(changes.len(), self.farthest_ns);
                    let change = |(shard, tables)| (shard, SchemaChange { from, tables });
                    return Ok((shares, changes.into_iter().map(change).collect()));
                }
                Some(_) if to_lock.len() > 1 && !std::mem::replace(&mut asked_all, true) => {
                    self.lock_at_once(to_lock).await?;
                }
                Some((_, key, lock)) => {
                    let _ = self.read(&KeyRange::point(key), lock, false, 1).await?;
                }
            }
            self.farthest_ns = self.farthest_ns.max(self.boot_ns() - began_ns);
        }
    }

    /// Returns the one-shot commit of a shard that has received no request so far: if another node
    /// leads it, in a term that is known here. If this node leads it a lock costs no round trip.
    fn one_shot_part(&self, shard: ShardId) -> Option<Part> {
        if !self.tries_one_shot || self.lock_timeout.is_some() || self.parts.contains_key(&shard) {
            return None;
        }
        let replica = ReplicaId { shard, node: self.shards.map().leader(shard) };
        if replica.node == self.shards.node().here().0 || !self.shards.node().reaches(replica.node)
        {
            return None;
        }
        let (term, now) = (
            self.shards.map().term(replica, self.boot_ns())?,
            self.shards.node().now().interval.latest,
        );
        Some(Part {
            leader: Some(replica.node),
            lock_epoch: None,
            one_shot: Some(OneShot { term, by: now + BLINDLY_NS }),
        })
    }

    /// Returns the shards in which schemas change, as far as is known here, and the tables' keys in
    /// each.
    fn changes(&self, schemas: &Changed) -> Changes {
        let mut changes = Changes::new();
        for (schema, range) in schemas
            .iter()
            .flat_map(|(schema, ranges)| ranges.iter().map(move |range| (schema, range)))
        {
            for (shard, part) in self.shards.map().parts(range) {
                changes.entry(shard).or_default().push((*schema, part));
            }
        }
        changes
    }

    /// Returns the timestamp of a schema change in this many shards, all of which answer within
    /// `farthest_ns`: late enough that all of them have registered the change and know its
    /// outcome, or will soon, and that transactions that have voted before have ended. With one
    /// shard: now.
    fn ahead(&self, shards: usize, farthest_ns: u64) -> Timestamp {
        let now = self.shards.node().now().interval;
        // Transactions that have voted end after a commit wait too.
        let wait_ns = 2 * (now.latest - now.earliest);
        let others = shards > 1 || !self.shards.map().has_one_shard();
        let ahead_ns =
            if others { (3 * farthest_ns + wait_ns + AHEAD_NS).min(FARTHEST_AHEAD_NS) } else { 0 };
        Timestamp { nanos: now.latest + ahead_ns, ..Timestamp::ZERO }
    }

    /// Locks a key in each of several shards in one round trip. A shard that did not answer in
    /// time, or has another leader, is left to the usual path.
    async fn lock_at_once(&mut self, keys: Vec<(ShardId, Key, Lock)>) -> Result<(), Failure> {
        let shards = Arc::clone(&self.shards);
        let mut questions = Vec::new();
        for (shard, key, lock) in keys {
            let replica = ReplicaId { shard, node: shards.map().leader(shard) };
            self.parts.entry(shard).or_default().leader = Some(replica.node);
            shards.held_locks().lock().insert(replica, self.transaction, self.age);
            let range = KeyRange::point(key);
            questions.push((
                replica,
                self.request(None, self.lock_question(range, lock, false, 1, true)),
            ));
        }
        let until = self.lock_timeout_at().min(self.boot_ns() + ONE_TRY_NS);
        let body = |(replica, request): (ReplicaId, Request)| {
            let shards = &*shards;
            async move {
                let heard = if shards.node().reaches(replica.node) {
                    shards.request(replica, request, until).await
                } else {
                    None
                };
                (replica, heard)
            }
        };
        for (replica, heard) in join_all(questions.into_iter().map(body)).await {
            match heard {
                Some(
                    RequestOutcome::Response(Response::Rows { lock_epoch, at, .. })
                    | RequestOutcome::Read { lock_epoch, at, .. },
                ) => {
                    self.note(replica.shard, lock_epoch, at);
                }
                Some(
                    RequestOutcome::Response(Response::Aborted { why, .. })
                    | RequestOutcome::Wounded(why),
                ) => {
                    return Err(self.end(why));
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                    self.lost_leader(replica, leader)?
                }
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => self.learn(to),
                _ => {}
            }
        }
        Ok(())
    }

    fn learn(&self, to: Option<(Key, ShardId)>) {
        if let Some((from, shard)) = to {
            self.shards.map().learn_route(&from, from.clone(), shard);
        }
    }

    fn coordinator(&self, shares: &Shares) -> ShardId {
        let (here, _) = self.shards.node().here();
        let rank = |(shard, writes): &(&ShardId, &Vec<Write>)| {
            (writes.is_empty(), self.shards.map().leader(**shard) != here)
        };
        let (shard, _) =
            shares.iter().min_by_key(rank).expect("a commit has a participating shard");
        *shard
    }

    /// Sends Commit to a shard's leader, as the only participant or as the coordinating shard.
    async fn commit_at(&self, share: Share, participants: Vec<ShardId>) -> Ended {
        let untold = |outcome| Ended::With(outcome, Spent::default());
        let Share { mut replica, lock_epoch, one_shot, writes, schema } = share;
        let shards = &*self.shards;
        let (mut until, mut tries, mut maybe_heard) = (self.boot_ns() + TIMEOUT_NS, 0, false);
        loop {
            let (participants, schema) = (participants.clone(), schema.clone());
            let body = RequestBody::Commit { writes: writes.clone(), participants, schema };
            let request = Request { one_shot, ..self.request(lock_epoch, body) };
            let leader = match shards.request(replica, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(RequestOutcome::Response(Response::Committed { at, spent, .. })) => {
                    return Ended::With(Outcome::Committed { at }, spent);
                }
                // The commit was not admitted, and will not be; or its locks were lost.
                Some(RequestOutcome::Response(Response::Aborted {
                    why: Conflict::LeaderChanged,
                    ..
                })) if one_shot.is_some() => {
                    self.suspect(replica, one_shot);
                    return Ended::LocksFirst;
                }
                Some(RequestOutcome::Response(Response::TooLate { .. })) => {
                    self.suspect(replica, one_shot);
                    return if maybe_heard { untold(Outcome::Unknown) } else { Ended::LocksFirst };
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => {
                    return untold(Outcome::Aborted { why });
                }
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    self.learn(to);
                    if one_shot.is_some() {
                        return Ended::LocksFirst;
                    }
                    return untold(Outcome::Aborted { why: Conflict::Moved });
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => leader, // It had no effect.
                Some(RequestOutcome::Response(Response::Refused { .. })) if !maybe_heard => {
                    return untold(Outcome::Aborted { why: Conflict::Late });
                }
                Some(RequestOutcome::Waits) => {
                    (maybe_heard, until, tries) = (true, self.boot_ns() + TIMEOUT_NS, 0);
                    Some(replica.node.0)
                }
                Some(_) => {
                    maybe_heard = true;
                    Some(replica.node.0)
                }
                None => {
                    (maybe_heard, tries) = (true, tries + 1);
                    Some(replica.node.0)
                        .filter(|_| tries % TRIES != 0 && shards.node().reaches(replica.node))
                }
            };
            if self.boot_ns() >= until || shards.node().is_closed() {
                let why = Conflict::LeaderChanged;
                sometimes!("the outcome of a commit is unknown in time");
                return untold(if maybe_heard {
                    Outcome::Unknown
                } else {
                    Outcome::Aborted { why }
                });
            }
            shards.map().redirect(replica, leader.map(NodeId));
            replica.node = shards.map().leader(replica.shard);
            shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
        }
    }

    /// Records that a one-shot commit that named a term was refused.
    fn suspect(&self, replica: ReplicaId, one_shot: Option<OneShot>) {
        if let Some(OneShot { term, .. }) = one_shot {
            self.shards.map().doubt_term(replica, term, self.boot_ns());
        }
    }

    /// Sends Prepare to a participant and retries until the outcome is known, because the
    /// participant's vote may be lost. If the participant refuses, this asks the coordinating shard
    /// to abort. The first refusal of a participant is kept in `refusal`.
    async fn prepare_at(
        &self,
        share: Share,
        coordinator: (ReplicaId, Option<LockEpoch>, Option<OneShot>),
        refusal: &OnceLock<Conflict>,
    ) {
        let Share { mut replica, lock_epoch, one_shot, writes, schema } = share;
        let (shards, (coordinator_replica, its_lock_epoch, its_one_shot)) =
            (&*self.shards, coordinator);
        let term = its_lock_epoch
            .map(|lock_epoch| lock_epoch.term)
            .or(its_one_shot.map(|one_shot| one_shot.term));
        let decides = term.expect("invariant: a commit names a leader's term");
        let (mut until, mut tries, mut refused) = (self.boot_ns() + TIMEOUT_NS, 0, false);
        loop {
            let (writes, schema) = (writes.clone(), schema.clone());
            let body = RequestBody::Prepare {
                writes,
                coordinator: coordinator_replica,
                schema,
                one_shot: its_one_shot,
                decides,
            };
            let request = Request { one_shot, ..self.request(lock_epoch, body) };
            let mut again_ns = PAUSE_NS;
            let leader = match shards.request(replica, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(RequestOutcome::Response(Response::Prepared { .. })) => {
                    (until, again_ns) = (self.boot_ns() + TIMEOUT_NS, ONE_TRY_NS);
                    Some(replica.node.0)
                }
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    self.learn(to);
                    let _ = refusal.set(Conflict::Moved);
                    (refused, again_ns) = (true, ONE_TRY_NS);
                    Some(replica.node.0)
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => {
                    if why == Conflict::LeaderChanged {
                        self.suspect(replica, one_shot);
                    }
                    let _ = refusal.set(why); // Another participant may have refused before.
                    (refused, again_ns) = (true, ONE_TRY_NS);
                    Some(replica.node.0)
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => leader,
                Some(RequestOutcome::Response(Response::Refused { .. })) => {
                    let _ = refusal.set(Conflict::Late);
                    (refused, again_ns) = (true, ONE_TRY_NS);
                    Some(replica.node.0)
                }
                Some(RequestOutcome::Waits) => {
                    (until, tries) = (self.boot_ns() + TIMEOUT_NS, 0);
                    Some(replica.node.0)
                }
                Some(_) => Some(replica.node.0),
                None => {
                    tries += 1;
                    Some(replica.node.0)
                        .filter(|_| tries % TRIES != 0 && shards.node().reaches(replica.node))
                }
            };
            if refused || self.boot_ns() >= until {
                sometimes!("a session asks a coordinator to abort");
                shards.send(coordinator_replica, self.request(its_lock_epoch, RequestBody::Abort));
                again_ns = ONE_TRY_NS;
            }
            shards.map().redirect(replica, leader.map(NodeId));
            replica.node = shards.map().leader(replica.shard);
            shards.node().sleep_until(self.boot_ns() + again_ns).await;
        }
    }
}
