//! How a session commits: alone in one shard, or in two phases (Spanner §4.2.1).
//!
//! ```text
//!   one shard     Commit ─▶ its leader                                            there and back
//!   several       Commit ─▶ the coordinator's leader     } at once; its answer is the outcome
//!                 Prepare ─▶ each other's leader         }
//! ```
//!
//! 1. Every shard that the attempt has locked something in takes part, also where it has only read.
//!    One where it wanted to and did not, because it did not wait for a lock, has nothing to say.
//! 2. Only the coordinator's answer counts. A participant that refuses, or cannot be reached, makes
//!    the session ask the coordinator to abort; it may have decided already.
//! 3. The coordinator is a shard that is written to, if possible one whose leader is this node: the
//!    votes of the others, and the answer, then travel the least.

use super::gateway::{PAUSE_NS, Part, Session, TRIES};
use super::{
    Ask, Blind, Footing, Heard, ONE_TRY_NS, PATIENCE_NS, Reply, Request, Seat, Shards, Spent,
};
use crate::{Conflict, Failure, Lock, Locking, Node, Outcome, SchemaChange, SchemaVersion};
use futures::future::{Either, join_all, select};
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId, sometimes, step};
use meridian_mvcc::{Key, KeyRange, Write};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, OnceLock};

/// A change of schemas lies so far ahead, two commit waits, and three trips to the farthest shard;
/// but no farther than this.
const AHEAD_NS: u64 = 20_000_000;
const FARTHEST_AHEAD_NS: u64 = 2_000_000_000;

/// Who has locked nothing may begin for so long.
const BLINDLY_NS: u64 = 5_000_000_000;

/// What is written to each shard that takes part.
type Shares = BTreeMap<ShardId, Vec<Write>>;

/// What schemas are changed in each shard.
type Changes = BTreeMap<ShardId, Vec<(SchemaVersion, KeyRange)>>;

/// The schemas that a transaction changes, and the keys of their tables.
type Changed = [(SchemaVersion, Vec<KeyRange>)];

/// How an attempt to commit ended.
enum Ended {
    With(Outcome, Spent),
    /// It was asked for blindly, and nothing comes of that: it may be asked again under locks.
    LocksFirst,
}

/// A shard's part in a commit.
struct Share {
    seat: Seat,
    footing: Option<Footing>,
    blind: Option<Blind>,
    writes: Vec<Write>,
    schema: Option<SchemaChange>,
}

impl<S: Shards> Session<S> {
    pub(super) async fn decide(mut self: Box<Self>) -> Outcome {
        self.locking = Locking::Wait;
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let shards = Arc::clone(&self.shards);
        let (outcome, spent) = self.ask_to_commit().await;
        if let Outcome::Committed { .. } = outcome {
            shards.committed(&spent);
        }
        if let Some(timings) = timings {
            timings.note(|times| {
                times.commit_ns = timings.elapsed_ns() - began_ns;
                (times.replication_ns, times.commit_wait_ns) =
                    (spent.replication_ns, spent.commit_wait_ns);
            });
        }
        outcome
    }

    async fn ask_to_commit(mut self: Box<Self>) -> (Outcome, Spent) {
        let (schemas, writes) = (self.writes.take_schemas(), self.writes.take());
        loop {
            match self.ask_once(&schemas, &writes).await {
                Ended::With(outcome, spent) => return (outcome, spent),
                Ended::LocksFirst => {
                    sometimes!("a commit that was asked for blindly locks first");
                    self.blindly = false;
                }
            }
        }
    }

    async fn ask_once(&mut self, schemas: &Changed, writes: &[Write]) -> Ended {
        let untold = |outcome| Ended::With(outcome, Spent::default());
        // Before it is said until when something may begin.
        while self.shards.is_crowded() && !self.shards.node().is_closed() {
            self.shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
        }
        let (shares, mut changes) = match self.shares(schemas, writes).await {
            Ok(found) => found,
            Err(Failure::Aborted(why)) => return untold(Outcome::Aborted { why }),
            Err(_) => return untold(Outcome::Aborted { why: Conflict::LeaderChanged }),
        };
        if shares.is_empty() {
            return untold(Outcome::Committed { at: self.shards.readable(ShardId(0)).through });
        }
        for (shard, part) in
            self.parts.iter().filter(|(_, part)| part.footing.is_none() && part.blind.is_none())
        {
            // Whatever it waited for there it did not get, as far as it has heard.
            if let Some(node) = part.leader {
                self.shards.send(Seat { shard: *shard, node }, self.request(None, Ask::Abort));
            }
        }
        // From here on the leaders end it: dropping this future recalls nothing.
        self.shards.held_locks().lock().remove(self.transaction);
        let parts = std::mem::take(&mut self.parts);
        let coordinator = self.coordinator(&shares);
        let when = changes
            .values()
            .next()
            .map(|change| SchemaChange { tables: Vec::new(), ..change.clone() });
        let mut share = |(shard, writes): (ShardId, Vec<Write>)| {
            let Part { leader, footing, blind } = parts.get(&shard).copied().unwrap_or_default();
            let seat =
                Seat { shard, node: leader.unwrap_or_else(|| self.shards.map().leader(shard)) };
            // Everybody knows when, also where nothing changes: a vote of who has only read would
            // not hold until then.
            let schema = changes.remove(&shard).or(when.clone());
            Share { seat, footing, blind, writes, schema }
        };
        let mut shares: BTreeMap<ShardId, Share> =
            shares.into_iter().map(|entry| (entry.0, share(entry))).collect();
        let own = shares.remove(&coordinator).expect("it is one of them");
        if shares.is_empty() {
            step!("session: asks one group to commit");
            return self.commit_at(own, Vec::new()).await;
        }
        sometimes!("a transaction commits in two phases");
        step!("session: asks several groups to commit");
        let (seat, participants) = (own.seat, shares.keys().copied().collect());
        let others: Vec<(Seat, Option<Footing>)> =
            shares.values().map(|share| (share.seat, share.footing)).collect();
        let coordinator = (seat, own.footing, own.blind);
        let refusal = OnceLock::new();
        let ended = {
            let prepare = |share| self.prepare_at(share, coordinator, &refusal);
            let prepare = pin!(join_all(shares.into_values().map(prepare)));
            let commit = pin!(self.commit_at(own, participants));
            let Either::Left((ended, _)) = select(commit, prepare).await else {
                unreachable!("they are asked for ever")
            };
            ended
        };
        let ended = match ended {
            // Others may be prepared by now.
            Ended::LocksFirst => untold(Outcome::Aborted { why: Conflict::LeaderChanged }),
            // The coordinator was asked to abort because a participant refused, and does not know
            // why.
            Ended::With(Outcome::Aborted { why: Conflict::RolledBack }, spent) => {
                let why = refusal.into_inner().unwrap_or(Conflict::RolledBack);
                Ended::With(Outcome::Aborted { why }, spent)
            }
            ended => ended,
        };
        if !matches!(ended, Ended::With(Outcome::Committed { .. }, _)) {
            // Who still waits for a lock need not; whoever has prepared hears it from the
            // coordinator.
            others.into_iter().for_each(|(seat, footing)| {
                self.shards.send(seat, self.request(footing, Ask::Abort))
            });
        }
        ended
    }

    /// What is written where, and which schemas are changed where. Every shard that takes part has
    /// locked something then, so that its leadership is known; or this node has heard of one.
    async fn shares(
        &mut self,
        schemas: &Changed,
        writes: &[Write],
    ) -> Result<(Shares, BTreeMap<ShardId, SchemaChange>), Failure> {
        if !schemas.is_empty() && !self.shards.map().has_one_shard() {
            // One change at a time: two of them would wait for each other's votes. Its holders are
            // committing, so that this takes no time to speak of.
            self.lock_timeout = None;
            self.read(&KeyRange::point(Key::default()), Lock::Exclusive, false, 1).await?;
        }
        let (mut asked_all, mut farthest_ns) = (false, 0);
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
            let afoot =
                |shard: &ShardId| self.parts.get(shard).is_some_and(|part| part.footing.is_some());
            let first = |(shard, writes): (&ShardId, &Vec<Write>)| match writes.first() {
                Some(write) => Some((*shard, write.key.clone(), Lock::Exclusive)),
                None => changes
                    .get(shard)
                    .map(|tables| (*shard, tables[0].1.start.clone(), Lock::Shared)),
            };
            let blind: BTreeMap<ShardId, Part> = match schemas.is_empty() {
                true => shares
                    .keys()
                    .filter_map(|shard| Some((*shard, self.blind_part(*shard)?)))
                    .collect(),
                false => BTreeMap::new(),
            };
            let unknown = |shard: &ShardId| !afoot(shard) && !blind.contains_key(shard);
            let to_lock: Vec<(ShardId, Key, Lock)> =
                shares.iter().filter(|(shard, _)| unknown(shard)).filter_map(first).collect();
            let began_ns = self.boot_ns();
            match to_lock.first().cloned() {
                None => {
                    shares.retain(|shard, _| !unknown(shard));
                    self.parts.extend(blind);
                    let from = self.ahead(changes.len(), farthest_ns);
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
            farthest_ns = farthest_ns.max(self.boot_ns() - began_ns);
        }
    }

    /// How a shard is asked to commit in which nothing was asked before, without a lock: if another
    /// node leads it, in a leadership that is known here. Where it is led here a lock costs no
    /// trip.
    fn blind_part(&self, shard: ShardId) -> Option<Part> {
        if !self.blindly || self.lock_timeout.is_some() || self.parts.contains_key(&shard) {
            return None;
        }
        let seat = Seat { shard, node: self.shards.map().leader(shard) };
        if seat.node == self.shards.node().here().0 || !self.shards.node().reaches(seat.node) {
            return None;
        }
        let (term, now) = (
            self.shards.map().term(seat, self.boot_ns())?,
            self.shards.node().now().interval.latest,
        );
        Some(Part {
            leader: Some(seat.node),
            footing: None,
            blind: Some(Blind { term, by: now + BLINDLY_NS }),
        })
    }

    /// The shards in which schemas change, as far as is known here, and the tables' keys that each
    /// has.
    fn changes(&self, schemas: &Changed) -> Changes {
        let mut changes = Changes::new();
        for (schema, range) in schemas
            .iter()
            .flat_map(|(schema, ranges)| ranges.iter().map(move |range| (schema, range)))
        {
            let mut rest = Some(range.clone()).filter(|range| !range.is_empty());
            while let Some(range) = rest {
                let (shard, bounds) = self.shards.map().route(&range.start);
                changes.entry(shard).or_default().push((*schema, range.common(&bounds)));
                let beyond = bounds.end.clone().filter(|_| !bounds.reaches(&range));
                rest = beyond.map(|start| KeyRange { start, end: range.end.clone() });
            }
        }
        changes
    }

    /// When a change of schemas is to happen in so many shards, the farthest of which answers after
    /// so long: when all of them have registered it, and know what became of it, or soon after; and
    /// when those have ended who have voted before. Where there is one shard: at once.
    fn ahead(&self, shards: usize, farthest_ns: u64) -> Timestamp {
        let now = self.shards.node().now().interval;
        // Those who have voted end after a commit wait, too.
        let wait_ns = 2 * (now.latest - now.earliest);
        let others = shards > 1 || !self.shards.map().has_one_shard();
        let ahead_ns =
            if others { (3 * farthest_ns + wait_ns + AHEAD_NS).min(FARTHEST_AHEAD_NS) } else { 0 };
        Timestamp { nanos: now.latest + ahead_ns, ..Timestamp::ZERO }
    }

    /// Locks a key in each of several shards, which costs no more trips than one. Where nobody
    /// answers with it in time, or another leads, the usual way is gone.
    async fn lock_at_once(&mut self, keys: Vec<(ShardId, Key, Lock)>) -> Result<(), Failure> {
        let shards = Arc::clone(&self.shards);
        let mut questions = Vec::new();
        for (shard, key, lock) in keys {
            let seat = Seat { shard, node: shards.map().leader(shard) };
            self.parts.entry(shard).or_default().leader = Some(seat.node);
            shards.held_locks().lock().insert(seat, self.transaction, self.age);
            let range = KeyRange::point(key);
            questions
                .push((seat, self.request(None, self.lock_question(range, lock, false, 1, true))));
        }
        let until = self.lock_patience_ends().min(self.boot_ns() + ONE_TRY_NS);
        let ask = |(seat, request): (Seat, Request)| {
            let shards = &*shards;
            async move {
                let heard = if shards.node().reaches(seat.node) {
                    shards.request(seat, request, until).await
                } else {
                    None
                };
                (seat, heard)
            }
        };
        for (seat, heard) in join_all(questions.into_iter().map(ask)).await {
            match heard {
                Some(
                    Heard::Reply(Reply::Rows { footing, at, .. }) | Heard::Read { footing, at, .. },
                ) => {
                    self.note(seat.shard, footing, at);
                }
                Some(Heard::Reply(Reply::Aborted { why, .. }) | Heard::Wounded(why)) => {
                    return Err(self.end(why));
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => {
                    self.lost_leader(seat, leader)?
                }
                Some(Heard::Reply(Reply::Moved { to, .. })) => self.learn(to),
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
        let (shard, _) = shares.iter().min_by_key(rank).expect("somebody takes part");
        *shard
    }

    /// Asks a shard's leader to commit, as the only one or as the coordinator of others.
    async fn commit_at(&self, share: Share, participants: Vec<ShardId>) -> Ended {
        let untold = |outcome| Ended::With(outcome, Spent::default());
        let Share { mut seat, footing, blind, writes, schema } = share;
        let shards = &*self.shards;
        let (mut until, mut tries, mut maybe_heard) = (self.boot_ns() + PATIENCE_NS, 0, false);
        loop {
            let (participants, schema) = (participants.clone(), schema.clone());
            let ask = Ask::Commit { writes: writes.clone(), participants, schema };
            let request = Request { blind, ..self.request(footing, ask) };
            let leader = match shards.request(seat, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(Heard::Reply(Reply::Committed { at, spent, .. })) => {
                    return Ended::With(Outcome::Committed { at }, spent);
                }
                // It did not begin, and does not; or it lost what it had.
                Some(Heard::Reply(Reply::Aborted { why: Conflict::LeaderChanged, .. }))
                    if blind.is_some() =>
                {
                    self.doubt(seat, blind);
                    return Ended::LocksFirst;
                }
                Some(Heard::Reply(Reply::TooLate { .. })) => {
                    self.doubt(seat, blind);
                    return if maybe_heard { untold(Outcome::Unknown) } else { Ended::LocksFirst };
                }
                Some(Heard::Reply(Reply::Aborted { why, .. })) => {
                    return untold(Outcome::Aborted { why });
                }
                Some(Heard::Reply(Reply::Moved { to, .. })) => {
                    self.learn(to);
                    if blind.is_some() {
                        return Ended::LocksFirst;
                    }
                    return untold(Outcome::Aborted { why: Conflict::Moved });
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => leader, // It did nothing.
                Some(Heard::Waits) => {
                    (maybe_heard, until, tries) = (true, self.boot_ns() + PATIENCE_NS, 0);
                    Some(seat.node.0)
                }
                Some(_) => {
                    maybe_heard = true;
                    Some(seat.node.0)
                }
                None => {
                    (maybe_heard, tries) = (true, tries + 1);
                    Some(seat.node.0)
                        .filter(|_| tries % TRIES != 0 && shards.node().reaches(seat.node))
                }
            };
            if self.boot_ns() >= until || shards.node().is_closed() {
                let why = Conflict::LeaderChanged;
                sometimes!("nobody can say in time what became of a commit");
                return untold(if maybe_heard {
                    Outcome::Unknown
                } else {
                    Outcome::Aborted { why }
                });
            }
            shards.map().redirect(seat, leader.map(NodeId));
            seat.node = shards.map().leader(seat.shard);
            shards.node().sleep_until(self.boot_ns() + PAUSE_NS).await;
        }
    }

    /// Who named a leadership was refused.
    fn doubt(&self, seat: Seat, blind: Option<Blind>) {
        if let Some(Blind { term, .. }) = blind {
            self.shards.map().doubt_term(seat, term, self.boot_ns());
        }
    }

    /// Asks a participant to prepare, and asks again until the outcome is known: its vote may be
    /// lost. If it will not be, the coordinator is asked to abort. The first refusal of a
    /// participant is noted.
    async fn prepare_at(
        &self,
        share: Share,
        coordinator: (Seat, Option<Footing>, Option<Blind>),
        refusal: &OnceLock<Conflict>,
    ) {
        let Share { mut seat, footing, blind, writes, schema } = share;
        let (shards, (seat_of_coordinator, its_footing, its_blind)) = (&*self.shards, coordinator);
        let term = its_footing.map(|footing| footing.term).or(its_blind.map(|blind| blind.term));
        let decides = term.expect("invariant: whoever commits names a leadership");
        let (mut until, mut tries, mut refused) = (self.boot_ns() + PATIENCE_NS, 0, false);
        loop {
            let (writes, schema) = (writes.clone(), schema.clone());
            let ask = Ask::Prepare {
                writes,
                coordinator: seat_of_coordinator,
                schema,
                blind: its_blind,
                decides,
            };
            let request = Request { blind, ..self.request(footing, ask) };
            let mut again_ns = PAUSE_NS;
            let leader = match shards.request(seat, request, self.boot_ns() + ONE_TRY_NS).await {
                Some(Heard::Reply(Reply::Prepared { .. })) => {
                    (until, again_ns) = (self.boot_ns() + PATIENCE_NS, ONE_TRY_NS);
                    Some(seat.node.0)
                }
                Some(Heard::Reply(Reply::Moved { to, .. })) => {
                    self.learn(to);
                    let _ = refusal.set(Conflict::Moved);
                    (refused, again_ns) = (true, ONE_TRY_NS);
                    Some(seat.node.0)
                }
                Some(Heard::Reply(Reply::Aborted { why, .. })) => {
                    if why == Conflict::LeaderChanged {
                        self.doubt(seat, blind);
                    }
                    let _ = refusal.set(why); // Others may have refused before.
                    (refused, again_ns) = (true, ONE_TRY_NS);
                    Some(seat.node.0)
                }
                Some(Heard::Reply(Reply::NotLeader { leader, .. })) => leader,
                Some(Heard::Waits) => {
                    (until, tries) = (self.boot_ns() + PATIENCE_NS, 0);
                    Some(seat.node.0)
                }
                Some(_) => Some(seat.node.0),
                None => {
                    tries += 1;
                    Some(seat.node.0)
                        .filter(|_| tries % TRIES != 0 && shards.node().reaches(seat.node))
                }
            };
            if refused || self.boot_ns() >= until {
                sometimes!("a session asks a coordinator to abort");
                shards.send(seat_of_coordinator, self.request(its_footing, Ask::Abort));
                again_ns = ONE_TRY_NS;
            }
            shards.map().redirect(seat, leader.map(NodeId));
            seat.node = shards.map().leader(seat.shard);
            shards.node().sleep_until(self.boot_ns() + again_ns).await;
        }
    }
}
