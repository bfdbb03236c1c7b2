//! Turns that the sessions of a node share: one session requests the turn from a replica, and the
//! others wait at their node.
//!
//! ```text
//!   the first session    requests it from a replica ──▶ has its turn ──▶ hands it on
//!   the other sessions   wait ─────────────────────────────────────────▶ the next one has its turn
//!                        … MOST times; then it is returned, and the next session here requests it
//! ```
//!
//! A transaction that is handed its turn saves the round trip to the replica. It requests one
//! itself if it wants a range that the turn lacks. Correctness depends neither on turns nor on
//! this.
//!
//! Invariants:
//! 1. At most one session here requests a turn, or holds it, until its bound has passed; then a
//!    waiting session requests it by itself. Turns of different shards are different ones.
//! 2. A turn is handed on at most [`MOST`] times, so that sessions of other nodes get it too.
//! 3. Waiting sessions get the turn in the order in which they came; a session that is gone is
//!    skipped.

use super::{Shards, Turn};
use crate::Node;
use futures::channel::oneshot::{self, Sender};
use futures::future::{Either, select};
use meridian_machine::{ShardId, sometimes};
use meridian_mvcc::{Key, KeyRange};
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of times that a turn is handed on within a node.
pub const MOST: u32 = 4;

/// The sessions of a node that wait for one turn.
#[derive(Debug)]
struct Queue<W> {
    /// The number of the turn that one session holds; none while it requests one.
    turn: Option<u64>,
    /// The end of the holding session's bound, by the boot clock.
    until: u64,
    handed_on: u32,
    /// The waiting sessions, each with the time until which it waits.
    waiting: VecDeque<(W, u64)>,
}

/// The session that has a turn next.
#[derive(Debug, PartialEq, Eq)]
enum Next<W> {
    /// This session gets the turn, without a request.
    Has(W),
    /// This session requests the turn from a replica.
    Asks(W),
    /// No session waits here.
    Empty,
}

#[derive(Debug)]
struct Queues<W>(BTreeMap<(ShardId, Key), Queue<W>>);

impl<W> Queues<W> {
    /// True if a session is to request the turn from a replica: no other session here requests or
    /// holds it within its bound.
    fn asks(&mut self, now: u64, key: &(ShardId, Key), until: u64) -> bool {
        let Some(queue) = self.0.get_mut(key) else {
            let queue = Queue { turn: None, until, handed_on: 0, waiting: VecDeque::new() };
            self.0.insert(key.clone(), queue);
            return true;
        };
        let is_over = queue.until <= now;
        if is_over {
            (queue.turn, queue.until, queue.handed_on) = (None, until, 0);
        }
        is_over
    }

    /// Adds a session, which waits until a time, behind the one that requests or holds the turn.
    /// Returns the end of that one's bound.
    fn waits(&mut self, key: &(ShardId, Key), waiter: Option<(W, u64)>) -> u64 {
        let Some(queue) = self.0.get_mut(key) else { return 0 };
        queue.waiting.extend(waiter);
        queue.until
    }

    /// Records that a session requests the turn from a replica instead of the one it was handed.
    fn requests(&mut self, key: &(ShardId, Key), until: u64) {
        if let Some(queue) = self.0.get_mut(key) {
            (queue.turn, queue.until, queue.handed_on) = (None, until, 0);
        }
    }

    /// Records that a session holds its turn.
    fn has(&mut self, key: &(ShardId, Key), turn: u64, until: u64) {
        if let Some(queue) = self.0.get_mut(key) {
            (queue.turn, queue.until) = (Some(turn), until);
        }
    }

    /// Ends a session's turn, or its request without one. Returns the session that is next.
    fn ends(
        &mut self,
        key: &(ShardId, Key),
        turn: Option<u64>,
        waits: impl Fn(&W) -> bool,
    ) -> Next<W> {
        let Some(queue) = self.0.get_mut(key).filter(|queue| queue.turn == turn) else {
            return Next::Empty;
        };
        while let Some((next, until)) = queue.waiting.pop_front() {
            if !waits(&next) {
                continue;
            }
            if turn.is_some() && queue.handed_on < MOST {
                queue.handed_on += 1;
                return Next::Has(next);
            }
            (queue.turn, queue.until, queue.handed_on) = (None, until, 0);
            return Next::Asks(next);
        }
        self.0.remove(key);
        Next::Empty
    }
}

/// The turns that sessions of this node hold and wait for.
pub(super) struct Turns<S: Shards> {
    shards: Arc<S>,
    queues: Mutex<Queues<Sender<Held<S>>>>,
}

/// A turn, or the right to request it. Dropping it passes it to the next session.
pub(super) struct Held<S: Shards> {
    turns: Arc<Turns<S>>,
    key: (ShardId, Key),
    turn: Option<Turn>,
    /// True if other transactions came first.
    pub waited: bool,
}

impl<S: Shards> Held<S> {
    /// The key that names the turn.
    pub fn key(&self) -> &Key {
        &self.key.1
    }
}

impl<S: Shards> Drop for Held<S> {
    fn drop(&mut self) {
        self.turns.pass_on(&self.key, self.turn.take());
    }
}

impl<S: Shards> Turns<S> {
    pub fn new(shards: Arc<S>) -> Arc<Self> {
        Arc::new(Turns { shards, queues: Mutex::new(Queues(BTreeMap::new())) })
    }

    fn queues(&self) -> MutexGuard<'_, Queues<Sender<Held<S>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn boot_ns(&self) -> u64 {
        self.shards.node().now().boot_ns
    }

    /// Waits for the turn of contested ranges, to be held for up to `holds_ns` nanoseconds; the
    /// first of them is the one that is wanted. `None` if there is no turn when the boot clock
    /// reaches `until`.
    pub async fn take(
        self: &Arc<Self>,
        key: (ShardId, Key),
        ranges: Vec<KeyRange>,
        holds_ns: u64,
        until: u64,
    ) -> Option<Held<S>> {
        let mut held = self.wait(&key, until).await?;
        let has = |turn: &Turn| {
            let wanted = ranges.first();
            wanted.is_none_or(|wanted| turn.ranges.iter().any(|one| one.contains_range(wanted)))
        };
        let turn = match held.turn.take() {
            Some(turn) if has(&turn) => {
                sometimes!("a turn is handed on within a node");
                self.shards.keep_turn(&turn, holds_ns);
                turn
            }
            other => {
                if let Some(other) = other {
                    sometimes!("a turn that is handed on lacks what is wanted");
                    self.shards.leave(&other);
                    self.queues().requests(&key, until);
                }
                self.shards.take_turn(key, ranges, holds_ns, until).await?
            }
        };
        self.queues().has(&held.key, turn.number, self.boot_ns() + holds_ns);
        held.waited |= turn.waited;
        held.turn = Some(turn);
        Some(held)
    }

    /// Waits until the session is handed the turn, or is to request it.
    async fn wait(self: &Arc<Self>, key: &(ShardId, Key), until: u64) -> Option<Held<S>> {
        let asks = |waited| Held { turns: Arc::clone(self), key: key.clone(), turn: None, waited };
        let (mut given, mut bound) = {
            let mut queues = self.queues();
            if queues.asks(self.boot_ns(), key, until) {
                return Some(asks(false));
            }
            let (sender, given) = oneshot::channel();
            (given, queues.waits(key, Some((sender, until))))
        };
        loop {
            match select(&mut given, pin!(self.shards.node().sleep_until(bound.min(until)))).await {
                Either::Left((held, _)) => return held.ok(),
                Either::Right(_) if self.boot_ns() >= until || self.shards.node().is_closed() => {
                    return None;
                }
                Either::Right(_) => {}
            }
            let mut queues = self.queues();
            if queues.asks(self.boot_ns(), key, until) {
                return Some(asks(true));
            }
            bound = queues.waits(key, None);
        }
    }

    fn pass_on(self: &Arc<Self>, key: &(ShardId, Key), turn: Option<Turn>) {
        let number = turn.as_ref().map(|turn| turn.number);
        let next = self.queues().ends(key, number, |waiter| !waiter.is_canceled());
        let held = |turn| Held { turns: Arc::clone(self), key: key.clone(), turn, waited: true };
        // A waiter that goes away at this moment drops the turn, and so passes it on.
        match next {
            Next::Has(waiter) => drop(waiter.send(held(turn))),
            Next::Asks(waiter) => {
                turn.iter().for_each(|turn| self.shards.leave(turn));
                drop(waiter.send(held(None)));
            }
            Next::Empty => turn.iter().for_each(|turn| self.shards.leave(turn)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> (ShardId, Key) {
        (ShardId(0), Key::from("a"))
    }

    #[test]
    fn a_turn_is_handed_on_a_few_times_and_then_requested_again() {
        let mut queues = Queues(BTreeMap::new());
        assert!(queues.asks(0, &key(), 100));
        (1..=7).for_each(|waiter| assert_eq!(queues.waits(&key(), Some((waiter, 200))), 100));
        queues.has(&key(), 9, 50);
        assert!(!queues.asks(49, &key(), 150));
        let ends =
            |queues: &mut Queues<i32>, turn| queues.ends(&key(), turn, |waiter| *waiter != 2);
        for next in [1, 3, 4, 5] {
            assert_eq!(
                ends(&mut queues, Some(9)),
                Next::Has(next),
                "a session that is gone is skipped"
            );
        }
        assert_eq!(ends(&mut queues, Some(9)), Next::Asks(6));
        assert!(!queues.asks(100, &key(), 300), "it waits for the turn until 200");
        assert_eq!(
            ends(&mut queues, Some(9)),
            Next::Empty,
            "the session does not hold the turn any more"
        );
        assert_eq!(
            ends(&mut queues, None),
            Next::Asks(7),
            "the session that requested the turn got none"
        );
        queues.has(&key(), 12, 90);
        assert_eq!(ends(&mut queues, Some(12)), Next::Empty);
        assert!(queues.0.is_empty());
    }

    #[test]
    fn where_a_bound_has_passed_another_session_asks() {
        let mut queues = Queues(BTreeMap::new());
        assert!(queues.asks(0, &key(), 100));
        queues.has(&key(), 9, 50);
        assert_eq!(queues.waits(&key(), Some((1, 150))), 50);
        assert!(queues.asks(50, &key(), 150));
        assert!(!queues.asks(50, &key(), 150), "no third session requests the turn");
        let elsewhere = (ShardId(1), Key::from("a"));
        assert!(queues.asks(50, &elsewhere, 150), "a turn of that name in another shard");
        assert_eq!(
            queues.ends(&key(), Some(9), |_| true),
            Next::Empty,
            "it is too late to hand the turn on"
        );
        assert_eq!(queues.ends(&key(), None, |_| true), Next::Asks(1));
    }
}
