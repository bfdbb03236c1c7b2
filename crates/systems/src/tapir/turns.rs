//! Turns of transactions over contested keys: the queues of one replica, in memory only.
//!
//! ```text
//!   TakeTurn ──▶ no holder: HasTurn ──▶ reads, proposes, ends ── Leave ──▶ next: HasTurn
//!            ──▶ held: Queued … HasTurn                └─ silent ── bound ──▶ next
//! ```
//!
//! A request names the contested ranges that its node knows. Requests over ranges that overlap are
//! in one queue, whatever their nodes remember. As long as a session has its turn, the replica
//! votes to abort what other nodes write into the session's ranges: a node that was never refused
//! takes no turns, and is told that way.
//!
//! Validation alone decides what may commit: a turn only keeps transactions that would refuse one
//! another from committing at once. So a queue may be lost, be kept by two replicas, or be skipped.
//!
//! Invariants:
//! 1. A turn has one holder, and ends at the latest when its bound has passed: a session that
//!    failed costs the next one that long. Sessions of the holder's node continue with its turn for
//!    [`TURN_HANDED_ON`] more such bounds.
//! 2. Turns are given in the order in which they were requested, except to sessions that have not
//!    repeated the request for [`SILENT_NS`].
//! 3. At most [`MOST`] requests are kept, each with at most [`MOST_RANGES`] ranges, whose keys have
//!    at most [`KEY_BYTES`]. A request beyond that gets its turn at once, as if there were no queue.

use meridian_machine::{Address, NodeId};
use meridian_mvcc::{Key, KeyRange};
use meridian_replication::inconsistent::OpId;
use meridian_txn::tapir::{Proposal, TURN_HANDED_ON};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of requests that are kept, holders included.
const MOST: usize = 1024;
/// The number of ranges of a request.
const MOST_RANGES: usize = 64;
/// The longest key of a range that has a queue, in bytes.
const KEY_BYTES: usize = 1 << 10;
/// The longest time for which a turn is held, in nanoseconds.
const LONGEST_NS: u64 = 5_000_000_000;
/// A waiting session that has not repeated its request for this time is skipped, in nanoseconds.
const SILENT_NS: u64 = 4_000_000_000;

/// A request for a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TurnRequest {
    /// The session's address.
    pub from: Address,
    /// The request for the turn.
    pub request: OpId,
    /// The newest message about the request, which is answered when the session has its turn.
    pub question: OpId,
    /// How long the session may hold the turn, in nanoseconds.
    pub holds_ns: u64,
    /// The contested ranges.
    pub ranges: Vec<KeyRange>,
}

impl TurnRequest {
    /// True if its ranges are short enough to be kept.
    fn fits(&self) -> bool {
        let is_short = |key: &Key| key.as_ref().len() <= KEY_BYTES;
        let fits =
            |range: &KeyRange| is_short(&range.start) && range.end.as_ref().is_none_or(is_short);
        self.ranges.len() <= MOST_RANGES && self.ranges.iter().all(fits)
    }

    fn overlaps(&self, other: &TurnRequest) -> bool {
        let with =
            |range: &KeyRange| other.ranges.iter().any(|theirs| !range.common(theirs).is_empty());
        self.ranges.iter().any(with)
    }

    /// True if a proposal writes into its ranges.
    fn is_hit_by(&self, proposal: &Proposal) -> bool {
        self.ranges.iter().any(|range| proposal.writes_in(range))
    }
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
#[derive(Clone, Debug)]
struct Queue {
    holder: TurnRequest,
    until: u64,
    kept: u32,
    waiting: VecDeque<(TurnRequest, u64)>,
}

/// The queues of a replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// The queues, by the order in which they began.
    queues: BTreeMap<u64, Queue>,
    /// The number of queues that have begun.
    begun: u64,
    /// The queue of each request.
    queue_of: BTreeMap<OpId, u64>,
    /// The times at which turns end unless released, by the boot clock, with their queues.
    due: BTreeSet<(u64, u64)>,
}

impl Turns {
    /// Handles a request, new or repeated.
    pub fn ask(&mut self, now: u64, asked: TurnRequest) -> QueuePosition {
        if let Some(queue) = self.queue_of(asked.request).and_then(|of| self.queues.get_mut(&of)) {
            let known = queue.waiting.iter_mut().find(|(of, _)| of.request == asked.request);
            return match known {
                Some(known) => {
                    *known = (asked, now);
                    QueuePosition::Queued
                }
                None => QueuePosition::Turn,
            };
        }
        if self.queue_of.len() >= MOST || !asked.fits() {
            return QueuePosition::Turn;
        }
        let joins = |queue: &Queue| {
            let mut all = queue.waiting.iter().map(|(asked, _)| asked).chain([&queue.holder]);
            all.any(|other| other.overlaps(&asked))
        };
        if let Some((of, queue)) = self.queues.iter_mut().find(|(_, queue)| joins(queue)) {
            self.queue_of.insert(asked.request, *of);
            queue.waiting.push_back((asked, now));
            return QueuePosition::Queued;
        }
        let (of, until) = (self.begun, now.saturating_add(asked.holds_ns.min(LONGEST_NS)));
        self.begun += 1;
        self.queue_of.insert(asked.request, of);
        self.due.insert((until, of));
        self.queues.insert(of, Queue { holder: asked, until, kept: 0, waiting: VecDeque::new() });
        QueuePosition::Turn
    }

    /// True if a proposal of a node writes into the ranges of a session of another node that has
    /// its turn.
    pub fn refuses(&self, node: NodeId, proposal: &Proposal) -> bool {
        let mut holders = self.queues.values().map(|queue| &queue.holder);
        holders.any(|holder| holder.request.node != node.0 && holder.is_hit_by(proposal))
    }

    /// Extends a turn for another session of the holder's node.
    pub fn keep(&mut self, now: u64, request: OpId, holds_ns: u64) {
        let Some(of) = self.queue_of(request) else { return };
        let holds =
            |queue: &&mut Queue| queue.holder.request == request && queue.kept < TURN_HANDED_ON;
        let Some(queue) = self.queues.get_mut(&of).filter(holds) else { return };
        self.due.remove(&(queue.until, of));
        (queue.until, queue.kept) = (now.saturating_add(holds_ns.min(LONGEST_NS)), queue.kept + 1);
        self.due.insert((queue.until, of));
    }

    /// Removes a request that no longer needs its turn, or its place. Returns the request that gets
    /// the turn, if any.
    pub fn leave(&mut self, now: u64, request: OpId) -> Option<&TurnRequest> {
        let of = self.queue_of(request)?;
        let queue = self.queues.get_mut(&of)?;
        if queue.holder.request == request {
            return self.pass_on(now, of);
        }
        queue.waiting.retain(|(asked, _)| asked.request != request);
        self.queue_of.remove(&request);
        None
    }

    /// Ends the turns whose bound has passed. Returns the requests that get theirs.
    pub fn expire(&mut self, now: u64) -> Vec<TurnRequest> {
        let mut next = Vec::new();
        while let Some((_, of)) = self.due.first().copied().filter(|(until, _)| *until <= now) {
            next.extend(self.pass_on(now, of).cloned());
        }
        next
    }

    /// Returns when the next turn ends unless released, by the boot clock.
    pub fn next(&self) -> Option<u64> {
        self.due.first().map(|(until, _)| *until)
    }

    fn queue_of(&self, request: OpId) -> Option<u64> {
        self.queue_of.get(&request).copied()
    }

    fn pass_on(&mut self, now: u64, of: u64) -> Option<&TurnRequest> {
        let mut queue = self.queues.remove(&of)?;
        self.due.remove(&(queue.until, of));
        self.queue_of.remove(&queue.holder.request);
        while let Some((asked, heard)) = queue.waiting.pop_front() {
            if heard.saturating_add(SILENT_NS) < now {
                self.queue_of.remove(&asked.request);
                continue;
            }
            queue.until = now.saturating_add(asked.holds_ns.min(LONGEST_NS));
            (queue.holder, queue.kept) = (asked, 0);
            self.due.insert((queue.until, of));
            return Some(&self.queues.entry(of).or_insert(queue).holder);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_clock::Timestamp;
    use meridian_machine::{DatabaseId, ShardId};
    use meridian_mvcc::Write;
    use meridian_txn::TransactionId;
    use meridian_txn::tapir::Footprint;
    use proptest::prelude::*;
    use std::sync::Arc;

    const HOLDS_NS: u64 = 1_000;

    fn asked(name: &str, number: u64) -> TurnRequest {
        let id = OpId { node: 9, incarnation: 1, number };
        let from = Address::replica(NodeId(9), DatabaseId(1), ShardId(0));
        let ranges = vec![KeyRange::point(Key::from(name))];
        TurnRequest { from, request: id, question: id, holds_ns: HOLDS_NS, ranges }
    }

    fn request(number: u64) -> OpId {
        asked("", number).request
    }

    #[test]
    fn turns_are_given_in_the_order_in_which_they_were_asked_for() {
        let mut turns = Turns::default();
        assert_eq!(turns.ask(0, asked("a", 1)), QueuePosition::Turn);
        assert_eq!(turns.ask(1, asked("a", 2)), QueuePosition::Queued);
        assert_eq!(turns.ask(2, asked("a", 3)), QueuePosition::Queued);
        assert_eq!(turns.ask(3, asked("b", 4)), QueuePosition::Turn, "another key");
        assert_eq!(turns.ask(4, asked("a", 1)), QueuePosition::Turn, "its answer was lost");
        assert_eq!(
            turns.ask(4, asked("a", 2)),
            QueuePosition::Queued,
            "once, however often it asks"
        );
        assert_eq!(turns.leave(5, request(1)), Some(&asked("a", 2)));
        assert_eq!(turns.leave(5, request(1)), None, "it is over already");
        assert_eq!(turns.leave(6, request(3)), None, "it waits no longer");
        assert_eq!(turns.leave(7, request(2)), None);
        assert_eq!(turns.leave(7, request(4)), None);
        assert_eq!((turns.queues.len(), turns.due.len(), turns.queue_of.len()), (0, 0, 0));
    }

    /// Nodes remember different keys of what is contested between them.
    #[test]
    fn requests_over_ranges_that_overlap_are_in_one_queue() {
        let mut turns = Turns::default();
        let of = |start: &str, end: &str| KeyRange { start: start.into(), end: Some(end.into()) };
        let over = |ranges: Vec<KeyRange>, number| TurnRequest { ranges, ..asked("", number) };
        assert_eq!(turns.ask(0, over(vec![of("a", "b"), of("m", "n")], 1)), QueuePosition::Turn);
        assert_eq!(turns.ask(1, asked("c", 2)), QueuePosition::Turn, "nothing in common");
        assert_eq!(turns.ask(2, over(vec![of("c", "d"), of("m7", "o")], 3)), QueuePosition::Queued);
        assert_eq!(
            turns.ask(3, asked("nn", 4)),
            QueuePosition::Queued,
            "as the third, which waits"
        );
        assert_eq!(turns.leave(4, request(2)), None);
        assert_eq!(turns.leave(5, request(1)).map(|next| next.request), Some(request(3)));
        assert_eq!(turns.leave(6, request(3)), Some(&asked("nn", 4)));
    }

    #[test]
    fn what_other_nodes_write_into_the_ranges_of_a_session_with_a_turn_is_refused() {
        let mut turns = Turns::default();
        turns.ask(0, asked("a", 1));
        turns.ask(0, TurnRequest { ranges: vec![KeyRange::prefix(b"b")], ..asked("a", 2) });
        turns.ask(0, TurnRequest { ranges: vec![KeyRange::prefix(b"a")], ..asked("a", 3) });
        let writes = |keys: &[&str]| {
            let write = |key: &&str| Write { key: Key::from(*key), value: None };
            let writes = keys.iter().map(write).collect();
            let participants = vec![ShardId(0)];
            let footprint = Footprint { reads: Vec::new(), writes, participants };
            let transaction = TransactionId { node: 8, incarnation: 1, number: 1 };
            let at = Timestamp::ZERO;
            Proposal { transaction, attempt: 0, at, footprint: Arc::new(footprint) }
        };
        let refuses =
            |turns: &Turns, node, keys: &[&str]| turns.refuses(NodeId(node), &writes(keys));
        assert!(refuses(&turns, 8, &["a", "z"]));
        assert!(refuses(&turns, 8, &["b7"]), "the turn of another queue");
        assert!(!refuses(&turns, 9, &["a", "b7"]), "a session of the same node");
        assert!(!refuses(&turns, 8, &["a7"]), "a session that waits has no turn yet");
        assert!(!refuses(&turns, 8, &[]), "it only reads");
        turns.leave(1, request(1));
        assert!(refuses(&turns, 8, &["a7"]));
        turns.leave(2, request(3));
        assert!(!refuses(&turns, 8, &["a", "a7"]), "no session has the turn");
    }

    #[test]
    fn a_holder_that_died_costs_one_bound_and_a_waiting_session_that_died_nothing() {
        let mut turns = Turns::default();
        for number in 1..=3 {
            turns.ask(0, asked("a", number));
        }
        assert_eq!((turns.next(), turns.expire(HOLDS_NS - 1)), (Some(HOLDS_NS), Vec::new()));
        assert_eq!(turns.expire(HOLDS_NS), [asked("a", 2)]);
        let late = HOLDS_NS + SILENT_NS;
        turns.ask(late, asked("a", 4));
        assert_eq!(turns.leave(late, request(2)), Some(&asked("a", 4)), "the third is silent");
        assert_eq!(turns.expire(late + HOLDS_NS), []);
        assert_eq!((turns.next(), turns.queue_of.len()), (None, 0));
    }

    #[test]
    fn sessions_of_one_node_go_on_with_a_turn_some_times() {
        let mut turns = Turns::default();
        assert_eq!(turns.ask(0, asked("a", 1)), QueuePosition::Turn);
        assert_eq!(turns.ask(0, asked("a", 2)), QueuePosition::Queued);
        turns.keep(500, request(2), HOLDS_NS);
        assert_eq!(turns.next(), Some(HOLDS_NS), "the second does not hold it");
        for kept in 1..=u64::from(TURN_HANDED_ON) {
            turns.keep(kept * 100, request(1), HOLDS_NS);
            assert_eq!(turns.next(), Some(kept * 100 + HOLDS_NS));
        }
        let last = turns.next().unwrap();
        turns.keep(last - 1, request(1), HOLDS_NS);
        assert_eq!(turns.expire(last), [asked("a", 2)]);
        turns.keep(last, request(1), HOLDS_NS);
        turns.keep(last + 1, request(2), u64::MAX);
        assert_eq!(turns.next(), Some(last + 1 + LONGEST_NS));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut turns = Turns::default();
        let long = "k".repeat(KEY_BYTES + 1);
        let many = TurnRequest {
            ranges: vec![KeyRange::point(Key::from("a")); MOST_RANGES + 1],
            ..asked("a", 0)
        };
        for beyond in [asked(&long, 0), many] {
            assert_eq!(turns.ask(0, beyond), QueuePosition::Turn);
        }
        assert_eq!(turns.queue_of.len(), 0);
        let far = TurnRequest { holds_ns: u64::MAX, ..asked("a", 1) };
        assert_eq!(turns.ask(0, far), QueuePosition::Turn);
        assert_eq!(turns.next(), Some(LONGEST_NS), "however long a session wants it");
        (2..=MOST as u64)
            .for_each(|number| assert_eq!(turns.ask(0, asked("a", number)), QueuePosition::Queued));
        assert_eq!(turns.ask(0, asked("a", 0)), QueuePosition::Turn, "as if there were no queue");
        assert_eq!((turns.queue_of.len(), turns.queues.len()), (MOST, 1));
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
            let names = ["a", "b", "c"];
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
                        let asked = asked(names[of], number);
                        let of_key = |queue: &&Queue| queue.holder.overlaps(&asked);
                        let before = turns.queues.values().find(of_key).map_or(0, |queue| queue.waiting.len());
                        if turns.ask(now, asked) == QueuePosition::Queued {
                            waits.entry((of, number)).or_insert((now, before));
                        }
                    }
                    _ => {
                        let given = turns.leave(now, request(number)).cloned();
                        waits.remove(&(of, number));
                        answered(&mut waits, &Vec::from_iter(given), now);
                    }
                }
                prop_assert_eq!(turns.due.len(), turns.queues.len());
                let kept: usize = turns.queues.values().map(|queue| 1 + queue.waiting.len()).sum();
                prop_assert_eq!(turns.queue_of.len(), kept);
            }
            while let Some(due) = turns.next() {
                let given = turns.expire(due);
                answered(&mut waits, &given, due);
            }
            prop_assert!(waits.is_empty() && turns.queue_of.is_empty(), "{:?}", waits);
        }
    }
}
