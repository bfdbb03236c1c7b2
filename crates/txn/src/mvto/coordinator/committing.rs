//! Commit: in one shard, or with intents in several, which the recorder decides.
//!
//! A commit that must not write at its timestamp moves to another one.

use super::Coordinator;
use super::writing::{Share, learn_route};
use crate::mvto::messages::Operation;
use crate::mvto::recorder::Place;
use crate::mvto::rules;
use crate::shards::asking::{ONE_TRY_NS, TIMEOUT_NS, ask_leader};
use crate::shards::{ReplicaId, RequestOutcome, Response, Shards};
use crate::{Conflict, Failure, Node, Outcome, passes};
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, ShardId, sometimes, step};

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

impl<S: Shards> Coordinator<S> {
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
            self.show_life();
            self.pause().await;
        }
        if let Err(failure) = self.check().await {
            return aborted(failure);
        }
        let changes_schema = !self.writes.schemas().is_empty();
        if changes_schema {
            self.ahead_ns = AHEAD_NS;
        }
        let mut must_move = changes_schema || self.is_old();
        loop {
            let least_ns = self.shards.node().now().interval.latest + self.ahead_ns;
            if must_move && let Err(failure) = self.move_to(least_ns).await {
                return aborted(failure);
            }
            match self.try_to_commit(waited_ns).await {
                Outcome::Aborted { why } if self.moves_after(&why) => must_move = true,
                outcome => return outcome,
            }
        }
    }

    /// True if shards may not accept what it has yet to write any more.
    fn is_old(&self) -> bool {
        let now = self.shards.node().now().interval.latest;
        !self.unsent.is_empty() && now.saturating_sub(self.at.nanos) > OLD_NS
    }

    /// True if an attempt that was aborted for this reason, and surely has not committed, moves: if
    /// what it has read is still there, it is as good as one that begins now, with another
    /// timestamp and another number (Trap A.1-B10).
    pub(super) fn moves_after(&mut self, why: &Conflict) -> bool {
        let read_later = matches!(why, Conflict::ReadLater { .. });
        if self.moves == MOST_MOVES || !(read_later || *why == Conflict::Expired) {
            return false;
        }
        self.moves += 1;
        if !read_later {
            sometimes!("a transaction moves because its intents are gone");
            return true;
        }
        sometimes!("a transaction moves because a later one has read what it writes");
        // Ahead of transactions that read there meanwhile.
        let least_ns = if self.moves > 1 { MOVED_AHEAD_NS } else { 0 };
        self.ahead_ns = (4 * self.ahead_ns).clamp(least_ns, MOST_AHEAD_NS);
        true
    }

    async fn try_to_commit(&mut self, waited_ns: &mut u64) -> Outcome {
        let mut changes = self.changes(true);
        if self.intended.is_empty() && changes.len() == 1 {
            let (shard, share) = changes.pop_first().expect("there is one");
            step!("session: asks one shard to commit");
            return self.commit_alone(shard, share, waited_ns).await;
        }
        if changes.is_empty() && self.intended.is_empty() {
            return Outcome::Committed { at: self.at };
        }
        let (recorder, mut places) = match self.all_written(changes).await {
            Ok(written) => written,
            Err(why) => return Outcome::Aborted { why },
        };
        let here = places.iter().position(|place| place.shard == recorder);
        let parts = here.map_or(0, |here| places.swap_remove(here).parts);
        let passed = self.alive(self.timestamp_passes()).await;
        let Some(waited) = passed else { return Outcome::Aborted { why: Conflict::Expired } };
        *waited_ns += waited;
        self.note_asked();
        step!("session: asks the recorder to commit");
        self.commit_at(recorder, places, parts).await
    }

    /// Waits until the timestamp has surely passed. Returns the time that it waited, or `None` if
    /// the node closes before.
    async fn timestamp_passes(&self) -> Option<u64> {
        let began_ns = self.boot_ns();
        if broken(rules::COMMIT_WAIT) {
            return Some(0);
        }
        let node = self.shards.node();
        let passed = match self.passed_ns {
            None => passes(node, self.at).await,
            Some(passed_ns) => {
                node.sleep_until(passed_ns).await;
                !node.is_closed()
            }
        };
        passed.then(|| self.boot_ns() - began_ns)
    }

    /// Asks the recorder to decide, until it answers.
    async fn commit_at(&self, shard: ShardId, places: Vec<Place>, parts: u32) -> Outcome {
        let ask = || self.request(Operation::Commit { places: places.clone(), parts });
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
            let Share { writes, schemas, .. } = share.clone();
            let passes_in_ns = self.passed_ns.map(|passed_ns| passed_ns.saturating_sub(now));
            let operation = Operation::CommitAlone { writes, schemas, again, passes_in_ns };
            let request = self.request(operation);
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
                    learn_route(shards, to);
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
