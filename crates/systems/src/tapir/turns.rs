//! Turns of transactions over contested keys: the queues of one replica, in memory only.
//!
//! ```text
//!   TakeTurn ──▶ no holder: HasTurn ──▶ reads, proposes, ends ── Leave ──▶ next: HasTurn
//!            ──▶ held: Queued … HasTurn                └─ silent ── bound ──▶ next
//! ```
//!
//! Validation alone decides what commits: a turn only keeps transactions that would refuse one
//! another from being proposed at once. So a queue may be lost, be kept by two replicas, or be
//! skipped.
//!
//! Invariants:
//! 1. A turn has one holder, and ends at the latest when its bound has passed: a session that
//!    failed costs the next one that long. Sessions of the holder's node continue with its turn for
//!    [`TURN_HANDED_ON`] more such bounds.
//! 2. Turns are given in the order in which they were requested, except to sessions that have not
//!    repeated the request for [`SILENT_NS`].
//! 3. At most [`MOST`] requests are kept, with keys of at most [`KEY_BYTES`]. A request beyond that
//!    gets its turn at once, as if there were no queue.

use meridian_machine::Address;
use meridian_mvcc::Key;
use meridian_replication::inconsistent::OpId;
use meridian_txn::tapir::TURN_HANDED_ON;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of requests that are kept, holders included.
const MOST: usize = 4096;
/// The longest key that has a queue, in bytes.
const KEY_BYTES: usize = 1 << 10;
/// The longest time for which a turn is held, in nanoseconds.
const LONGEST_NS: u64 = 5_000_000_000;
/// A waiting session that has not repeated its request for this time is skipped, in nanoseconds.
const SILENT_NS: u64 = 4_000_000_000;

/// A request for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnRequest {
    /// The session's address.
    pub from: Address,
    /// The request for the turn.
    pub request: OpId,
    /// The newest message about the request, which is answered when the session has its turn.
    pub question: OpId,
    /// How long the session may hold the turn, in nanoseconds.
    pub holds_ns: u64,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePosition {
    /// It has its turn.
    Turn,
    /// Other requests come first.
    Queued,
}

/// A queue: the request that holds the turn, until when, how many times other sessions of its node
/// continued with it, and the waiting requests with the times of their latest messages.
#[derive(Debug)]
struct Queue {
    holder: OpId,
    until: u64,
    kept: u32,
    waiting: VecDeque<(TurnRequest, u64)>,
}

/// The queues of a replica.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queues: BTreeMap<Key, Queue>,
    /// The times at which turns end unless released, by the boot clock.
    due: BTreeSet<(u64, Key)>,
    /// The number of requests that are kept.
    kept: usize,
}

impl Turns {
    /// Handles a request, new or repeated.
    pub fn ask(&mut self, now: u64, key: Key, asked: TurnRequest) -> QueuePosition {
        if let Some(queue) = self.queues.get_mut(&key) {
            if queue.holder == asked.request {
                return QueuePosition::Turn;
            }
            if let Some((known, heard)) =
                queue.waiting.iter_mut().find(|(known, _)| known.request == asked.request)
            {
                (*known, *heard) = (asked, now);
                return QueuePosition::Queued;
            }
        }
        if self.kept >= MOST || key.as_ref().len() > KEY_BYTES {
            return QueuePosition::Turn;
        }
        self.kept += 1;
        if let Some(queue) = self.queues.get_mut(&key) {
            queue.waiting.push_back((asked, now));
            return QueuePosition::Queued;
        }
        let until = now.saturating_add(asked.holds_ns.min(LONGEST_NS));
        self.due.insert((until, key.clone()));
        self.queues
            .insert(key, Queue { holder: asked.request, until, kept: 0, waiting: VecDeque::new() });
        QueuePosition::Turn
    }

    /// Extends a turn for another session of the holder's node.
    pub fn keep(&mut self, now: u64, key: &Key, request: OpId, holds_ns: u64) {
        let holds = |queue: &&mut Queue| queue.holder == request && queue.kept < TURN_HANDED_ON;
        let Some(queue) = self.queues.get_mut(key).filter(holds) else { return };
        self.due.remove(&(queue.until, key.clone()));
        (queue.until, queue.kept) = (now.saturating_add(holds_ns.min(LONGEST_NS)), queue.kept + 1);
        self.due.insert((queue.until, key.clone()));
    }

    /// Removes a request that no longer needs its turn, or its place. Returns the request that gets
    /// the turn, if any.
    pub fn leave(&mut self, now: u64, key: &Key, request: OpId) -> Option<TurnRequest> {
        let queue = self.queues.get_mut(key)?;
        if queue.holder == request {
            return self.pass_on(now, key);
        }
        let before = queue.waiting.len();
        queue.waiting.retain(|(asked, _)| asked.request != request);
        self.kept -= before - queue.waiting.len();
        None
    }

    /// Ends the turns whose bound has passed. Returns the requests that get theirs.
    pub fn expire(&mut self, now: u64) -> Vec<TurnRequest> {
        let mut next = Vec::new();
        while let Some((_, key)) = self.due.first().filter(|(until, _)| *until <= now).cloned() {
            next.extend(self.pass_on(now, &key));
        }
        next
    }

    /// Returns when the next turn ends unless released, by the boot clock.
    pub fn next(&self) -> Option<u64> {
        self.due.first().map(|(until, _)| *until)
    }

    fn pass_on(&mut self, now: u64, key: &Key) -> Option<TurnRequest> {
        let queue = self.queues.get_mut(key)?;
        self.due.remove(&(queue.until, key.clone()));
        self.kept -= 1;
        while let Some((asked, heard)) = queue.waiting.pop_front() {
            if heard.saturating_add(SILENT_NS) < now {
                self.kept -= 1;
                continue;
            }
            (queue.holder, queue.kept) = (asked.request, 0);
            queue.until = now.saturating_add(asked.holds_ns.min(LONGEST_NS));
            self.due.insert((queue.until, key.clone()));
            return Some(asked);
        }
        self.queues.remove(key);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::{DatabaseId, NodeId, ShardId};
    use proptest::prelude::*;

    const HOLDS_NS: u64 = 1_000;

    fn asked(number: u64) -> TurnRequest {
        let id = OpId { node: 9, incarnation: 1, number };
        let from = Address::replica(NodeId(9), DatabaseId(1), ShardId(0));
        TurnRequest { from, request: id, question: id, holds_ns: HOLDS_NS }
    }

    fn key(name: &str) -> Key {
        Key::from(name)
    }

    #[test]
    fn turns_are_given_in_the_order_in_which_they_were_asked_for() {
        let mut turns = Turns::default();
        assert_eq!(turns.ask(0, key("a"), asked(1)), QueuePosition::Turn);
        assert_eq!(turns.ask(1, key("a"), asked(2)), QueuePosition::Queued);
        assert_eq!(turns.ask(2, key("a"), asked(3)), QueuePosition::Queued);
        assert_eq!(turns.ask(3, key("b"), asked(4)), QueuePosition::Turn, "another key");
        assert_eq!(turns.ask(4, key("a"), asked(1)), QueuePosition::Turn, "its answer was lost");
        assert_eq!(
            turns.ask(4, key("a"), asked(2)),
            QueuePosition::Queued,
            "once, however often it asks"
        );
        assert_eq!(turns.leave(5, &key("a"), asked(1).request), Some(asked(2)));
        assert_eq!(turns.leave(5, &key("a"), asked(1).request), None, "it is over already");
        assert_eq!(turns.leave(6, &key("a"), asked(3).request), None, "it waits no longer");
        assert_eq!(turns.leave(7, &key("a"), asked(2).request), None);
        assert_eq!(turns.leave(7, &key("b"), asked(4).request), None);
        assert_eq!((turns.queues.len(), turns.due.len(), turns.kept), (0, 0, 0));
    }

    #[test]
    fn a_holder_that_died_costs_one_bound_and_a_waiting_session_that_died_nothing() {
        let mut turns = Turns::default();
        for number in 1..=3 {
            turns.ask(0, key("a"), asked(number));
        }
        assert_eq!((turns.next(), turns.expire(HOLDS_NS - 1)), (Some(HOLDS_NS), Vec::new()));
        assert_eq!(turns.expire(HOLDS_NS), [asked(2)]);
        let late = HOLDS_NS + SILENT_NS;
        turns.ask(late, key("a"), asked(4));
        assert_eq!(
            turns.leave(late, &key("a"), asked(2).request),
            Some(asked(4)),
            "the third is silent"
        );
        assert_eq!(turns.expire(late + HOLDS_NS), []);
        assert_eq!((turns.next(), turns.kept), (None, 0));
    }

    #[test]
    fn sessions_of_one_node_go_on_with_a_turn_some_times() {
        let mut turns = Turns::default();
        assert_eq!(turns.ask(0, key("a"), asked(1)), QueuePosition::Turn);
        assert_eq!(turns.ask(0, key("a"), asked(2)), QueuePosition::Queued);
        turns.keep(500, &key("a"), asked(2).request, HOLDS_NS);
        assert_eq!(turns.next(), Some(HOLDS_NS), "the second does not hold it");
        for kept in 1..=u64::from(TURN_HANDED_ON) {
            turns.keep(kept * 100, &key("a"), asked(1).request, HOLDS_NS);
            assert_eq!(turns.next(), Some(kept * 100 + HOLDS_NS));
        }
        let last = turns.next().unwrap();
        turns.keep(last - 1, &key("a"), asked(1).request, HOLDS_NS);
        assert_eq!(turns.expire(last), [asked(2)]);
        turns.keep(last, &key("a"), asked(1).request, HOLDS_NS);
        turns.keep(last + 1, &key("a"), asked(2).request, u64::MAX);
        assert_eq!(turns.next(), Some(last + 1 + LONGEST_NS));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut turns = Turns::default();
        assert_eq!(turns.ask(0, vec![0; KEY_BYTES + 1].into(), asked(0)), QueuePosition::Turn);
        assert_eq!(turns.kept, 0);
        let far = TurnRequest { holds_ns: u64::MAX, ..asked(1) };
        assert_eq!(turns.ask(0, key("a"), far), QueuePosition::Turn);
        assert_eq!(turns.next(), Some(LONGEST_NS), "however long a session wants it");
        (2..=MOST as u64).for_each(|number| {
            assert_eq!(turns.ask(0, key("a"), asked(number)), QueuePosition::Queued)
        });
        assert_eq!(
            turns.ask(0, key("a"), asked(0)),
            QueuePosition::Turn,
            "as if there were no queue"
        );
        assert_eq!((turns.kept, turns.queues.len()), (MOST, 1));
    }

    proptest! {
        /// Every repeated request is answered within one bound for each request before it, whatever
        /// other sessions do; and no request is kept at the end.
        #[test]
        fn each_waiting_session_is_answered_within_a_bound_for_each_before(
            steps in prop::collection::vec((0..3_u8, 0..12_u64, 0..3_usize, 0..HOLDS_NS), 1..80),
        ) {
            let (mut turns, mut now) = (Turns::default(), 0);
            let mut waits = BTreeMap::<(usize, u64), (u64, usize)>::new();
            let names = ["a", "b", "c"].map(key);
            let answered = |waits: &mut BTreeMap<(usize, u64), (u64, usize)>, given: &[TurnRequest], now: u64| {
                for given in given {
                    let place = waits.keys().copied().find(|(_, number)| *number == given.request.number);
                    let (since, before) = place.and_then(|place| waits.remove(&place)).expect("it waits");
                    assert!(now <= since + HOLDS_NS * (before as u64 + 1), "{given:?} at {now} since {since}");
                }
            };
            for (what, number, of, after) in steps {
                // A timer is never late.
                while let Some(due) = turns.next().filter(|due| *due <= now + after) {
                    let given = turns.expire(due);
                    answered(&mut waits, &given, due);
                }
                now += after;
                let number = number * 3 + of as u64; // Each session asks for one key.
                match what {
                    0 | 1 => {
                        let before = turns.queues.get(&names[of]).map_or(0, |queue| queue.waiting.len());
                        if turns.ask(now, names[of].clone(), asked(number)) == QueuePosition::Queued {
                            waits.entry((of, number)).or_insert((now, before));
                        }
                    }
                    _ => {
                        let given = turns.leave(now, &names[of], asked(number).request);
                        waits.remove(&(of, number));
                        answered(&mut waits, &Vec::from_iter(given), now);
                    }
                }
                prop_assert_eq!(turns.due.len(), turns.queues.len());
                let kept: usize = turns.queues.values().map(|queue| 1 + queue.waiting.len()).sum();
                prop_assert_eq!(turns.kept, kept);
            }
            while let Some(due) = turns.next() {
                let given = turns.expire(due);
                answered(&mut waits, &given, due);
            }
            prop_assert!(waits.is_empty() && turns.kept == 0, "{:?}", waits);
        }
    }
}
