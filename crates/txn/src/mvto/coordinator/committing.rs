//! Commit: in one shard, or with intents in several, which the recorder decides.
//!
//! A commit that must not write at its timestamp moves to another one.

use super::Coordinator;
use crate::mvto::messages::Operation;
use crate::mvto::recorder::Place;
use crate::mvto::rules;
use crate::shards::asking::{ONE_TRY_NS, TIMEOUT_NS, ask_leader};
use crate::shards::{ReplicaId, RequestBody, RequestOutcome, Response, Shards};
use crate::{Conflict, Failure, Node, Outcome, SchemaVersion, passes};
use futures::future::{Either, select, try_join_all};
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, ShardId, sometimes, step};
use meridian_mvcc::{Key, KeyRange, Write};
use std::collections::BTreeMap;
use std::pin::pin;

/// The age of a timestamp, in nanoseconds, at which a transaction that commits moves to a new one:
/// shards accept no write at much older ones.
const OLD_NS: u64 = 2_500_000_000;
/// The number of times that a commit moves to a new timestamp because later transactions have read
/// what it writes.
const MOST_MOVES: u32 = 6;
/// How far ahead of the present a transaction draws its timestamp when it moves for the second
/// time, in nanoseconds; each time it is four times as far. Later transactions then find its
/// reservations.
const MOVED_AHEAD_NS: u64 = 1_000_000;
/// How far ahead a schema change draws its timestamp, in nanoseconds: at first, and at most. It
/// reaches the shards before transactions with later timestamps do.
const AHEAD_NS: u64 = 20_000_000;
const MOST_AHEAD_NS: u64 = 1_000_000_000;

/// The part of a commit in one shard.
#[derive(Clone, Default)]
struct Share {
    writes: Vec<Write>,
    schemas: Vec<(SchemaVersion, KeyRange)>,
}

type Shares = BTreeMap<ShardId, Share>;

impl<S: Shards> Coordinator<S> {
    /// Returns the writes and schema changes of each shard, as far as this node knows the shards.
    fn shares(&self, schemas: &[(SchemaVersion, Vec<KeyRange>)], writes: &[Write]) -> Shares {
        let (map, mut shares) = (self.shards.map(), Shares::new());
        for write in writes {
            shares.entry(map.route(&write.key).0).or_default().writes.push(write.clone());
        }
        for (schema, range) in
            schemas.iter().flat_map(|(schema, ranges)| ranges.iter().map(move |it| (schema, it)))
        {
            for (shard, part) in map.parts(range) {
                shares.entry(shard).or_default().schemas.push((*schema, part));
            }
        }
        shares
    }

    pub(super) async fn decide(mut self: Box<Self>) -> Outcome {
        let timings = self.timings.clone();
        let began_ns = timings.as_ref().map_or(0, |timings| timings.elapsed_ns());
        let mut waited_ns = 0;
        let outcome = self.commit_writes(&mut waited_ns).await;
        self.count(|counters| match &outcome {
            Outcome::Committed { .. } => counters.committed(waited_ns),
            Outcome::Unknown => counters.outcome_unknown(),
            Outcome::Aborted { why } if self.aborted.is_none() => counters.aborted(why),
            Outcome::Aborted { .. } => {}
        });
        if let Some(timings) = timings {
            timings.note(|times| {
                times.commit_ns = timings.elapsed_ns() - began_ns;
                times.commit_wait_ns = waited_ns;
                times.replication_ns = times.commit_ns.saturating_sub(waited_ns);
            });
        }
        outcome
    }

    async fn commit_writes(&mut self, waited_ns: &mut u64) -> Outcome {
        let aborted = |failure| match failure {
            Failure::Aborted(why) => Outcome::Aborted { why },
            // Nothing was written anywhere.
            _ => Outcome::Aborted { why: Conflict::LeaderChanged },
        };
        while self.shards.is_crowded() && !self.shards.node().is_closed() {
            self.pause().await;
        }
        if let Err(failure) = self.check().await {
            return aborted(failure);
        }
        let (schemas, writes) = (self.writes.take_schemas(), self.writes.take());
        let (mut ahead_ns, mut moves) = (if schemas.is_empty() { 0 } else { AHEAD_NS }, 0);
        loop {
            let now = self.shards.node().now().interval.latest;
            let old = now.saturating_sub(self.at.nanos) > OLD_NS;
            if (old || ahead_ns > 0 || moves > 0)
                && let Err(failure) = self.move_to(now + ahead_ns, &writes).await
            {
                return aborted(failure);
            }
            let outcome = self.try_to_commit(self.shares(&schemas, &writes), waited_ns).await;
            let met = matches!(outcome, Outcome::Aborted { why: Conflict::ReadLater { .. } });
            if !met || moves == MOST_MOVES {
                return outcome;
            }
            // A later transaction has read what this one writes. If what this one has read is still
            // there, it is as good as one that begins now: with another timestamp and another
            // number (Trap A.1-B10).
            sometimes!("a transaction moves because a later one has read what it writes");
            moves += 1;
            // Ahead of transactions that read there meanwhile.
            let least_ns = if moves > 1 { MOVED_AHEAD_NS } else { 0 };
            ahead_ns = (4 * ahead_ns).clamp(least_ns, MOST_AHEAD_NS);
            self.release();
            self.transaction.number = self.shards.node().new_number();
        }
    }

    async fn try_to_commit(&self, mut shares: Shares, waited_ns: &mut u64) -> Outcome {
        if shares.len() == 1 {
            let (shard, share) = shares.pop_first().expect("there is one");
            step!("session: asks one shard to commit");
            return self.commit_alone(shard, share, waited_ns).await;
        }
        sometimes!("a transaction writes in several shards");
        let map = self.shards.map();
        let here = self.shards.node().here().0;
        let led_here = shares.keys().find(|shard| map.leader(**shard) == here);
        let Some(shard) = led_here.or_else(|| shares.keys().next()).copied() else {
            return Outcome::Committed { at: self.at };
        };
        let recorder = ReplicaId { shard, node: map.leader(shard) };
        step!("session: writes intents");
        let others = shares.keys().copied().filter(|other| *other != shard).collect::<Vec<_>>();
        let intended = Intended { coordinator: self, recorder: shard, others, asked: false };
        let write = |(shard, share)| self.write(shard, share, recorder);
        let written = match broken(rules::INTENTS_NOT_AWAITED) {
            false => self.alive(shard, try_join_all(shares.into_iter().map(write))).await,
            true => {
                let mut first = shares.into_iter().map(write);
                let first = first.by_ref().next().expect("there are several");
                first.await.map(|place| vec![place])
            }
        };
        let places = match written {
            Ok(places) => places.into_iter().filter(|place| place.shard != shard).collect(),
            Err(why) => return Outcome::Aborted { why },
        };
        let passed = self.alive(shard, self.timestamp_passes()).await;
        let Some(waited) = passed else { return Outcome::Aborted { why: Conflict::Expired } };
        *waited_ns += waited;
        // From here on the recorder decides.
        intended.end();
        step!("session: asks the recorder to commit");
        self.commit_at(shard, places).await
    }

    /// Runs something, and sends the recorder a sign of life every second.
    async fn alive<T>(&self, recorder: ShardId, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            let tick = pin!(self.shards.node().sleep_until(self.boot_ns() + ONE_TRY_NS));
            match select(work, tick).await {
                Either::Left((done, _)) => return done,
                Either::Right(((), again)) => {
                    self.send(recorder, self.request_of(RequestBody::KeepAlive));
                    work = again;
                }
            }
        }
    }

    /// Waits until the timestamp has surely passed. Returns the time that it waited, or `None` if
    /// the node closes before.
    async fn timestamp_passes(&self) -> Option<u64> {
        let began_ns = self.boot_ns();
        if broken(rules::COMMIT_WAIT) {
            return Some(0);
        }
        passes(self.shards.node(), self.at).await.then(|| self.boot_ns() - began_ns)
    }

    /// Writes intents in a shard.
    async fn write(
        &self,
        shard: ShardId,
        share: Share,
        recorder: ReplicaId,
    ) -> Result<Place, Conflict> {
        let ask = || {
            let Share { writes, schemas } = share.clone();
            self.request(Operation::Write { writes, schemas, recorder })
        };
        let until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let heard = ask_leader(&*self.shards, shard, ask).await;
            match heard.map(|(_, heard)| heard) {
                Some(RequestOutcome::Response(Response::Written { term, .. })) => {
                    return Ok(Place { shard, term });
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => return Err(why),
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    self.learn(to);
                    return Err(Conflict::Moved);
                }
                None | Some(RequestOutcome::Response(Response::Refused { .. })) => {
                    return Err(Conflict::LeaderChanged);
                }
                Some(_) if self.boot_ns() >= until => return Err(Conflict::LeaderChanged),
                Some(_) => self.pause().await,
            }
        }
    }

    fn learn(&self, to: Option<(Key, ShardId)>) {
        if let Some((from, other)) = to {
            self.shards.map().learn_route(&from, from.clone(), other);
        }
    }

    /// Asks the recorder to decide, until it answers.
    async fn commit_at(&self, shard: ShardId, places: Vec<Place>) -> Outcome {
        let ask = || self.request(Operation::Commit { places: places.clone() });
        let until = self.boot_ns() + TIMEOUT_NS;
        loop {
            let heard = ask_leader(&*self.shards, shard, ask).await;
            match heard.map(|(_, heard)| heard) {
                Some(RequestOutcome::Response(Response::Committed { at, .. })) => {
                    return Outcome::Committed { at };
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => {
                    return Outcome::Aborted { why };
                }
                None => return Outcome::Unknown,
                Some(_) if self.boot_ns() >= until => return Outcome::Unknown,
                Some(_) => self.pause().await,
            }
        }
    }

    /// Commits in one shard. Only the first request is executed; every other one asks what became
    /// of it.
    async fn commit_alone(&self, shard: ShardId, share: Share, waited_ns: &mut u64) -> Outcome {
        let shards = &*self.shards;
        let (mut until, mut again) = (self.boot_ns() + TIMEOUT_NS, false);
        loop {
            let now = self.boot_ns();
            if now >= until || shards.node().is_closed() {
                return match again {
                    true => Outcome::Unknown,
                    false => Outcome::Aborted { why: Conflict::LeaderChanged },
                };
            }
            let replica = ReplicaId { shard, node: shards.map().leader(shard) };
            let Share { writes, schemas } = share.clone();
            let request = self.request(Operation::CommitAlone { writes, schemas, again });
            let heard = match shards.node().reaches(replica.node) {
                true => {
                    // From here on a copy of it may be received at any time.
                    again = true;
                    shards.request(replica, request, now + ONE_TRY_NS).await
                }
                false => None,
            };
            match heard {
                Some(RequestOutcome::Response(Response::Committed { at, spent, .. })) => {
                    *waited_ns += spent.commit_wait_ns;
                    return Outcome::Committed { at };
                }
                Some(RequestOutcome::Response(Response::Aborted { why, .. })) => {
                    return Outcome::Aborted { why };
                }
                Some(RequestOutcome::Response(Response::Moved { to, .. })) => {
                    self.learn(to);
                    return Outcome::Aborted { why: Conflict::Moved };
                }
                Some(RequestOutcome::Waits) => {
                    until = self.boot_ns() + TIMEOUT_NS;
                    continue;
                }
                Some(RequestOutcome::Response(Response::NotLeader { leader, .. })) => {
                    shards.map().redirect(replica, leader.map(NodeId));
                }
                Some(_) => {}
                None => shards.map().redirect(replica, None),
            }
            self.pause().await;
        }
    }
}

/// Intents whose transaction is not to be committed unless that is asked for. If it is dropped
/// before, the recorder aborts at once: later readers do not wait until the transaction expires.
struct Intended<'a, S: Shards> {
    coordinator: &'a Coordinator<S>,
    recorder: ShardId,
    others: Vec<ShardId>,
    /// True once the recorder is asked to commit.
    asked: bool,
}

impl<S: Shards> Intended<'_, S> {
    fn end(mut self) {
        self.asked = true;
    }
}

impl<S: Shards> Drop for Intended<'_, S> {
    fn drop(&mut self) {
        if self.asked {
            return;
        }
        let Intended { coordinator, recorder, others, .. } = self;
        let places = others.iter().map(|shard| Place { shard: *shard, term: 0 }).collect();
        coordinator.send(*recorder, coordinator.request(Operation::Abort { places }));
    }
}
