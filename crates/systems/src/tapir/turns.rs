//! Turns of transactions over contested ranges: the requests at one replica, in memory only.
//!
//! ```text
//!   TakeTurn ──▶ overlaps no earlier one: HasTurn ──▶ reads, proposes, ends ── Leave ──▶ next
//!            ──▶ else: Queued … HasTurn                     └─ silent ── bound ──▶ next
//! ```
//!
//! A request names the contested ranges that its node knows. Requests are in one list, in the order
//! of their arrival. One has its turn when it overlaps no earlier one that is still there, so that
//! nodes meet whatever they remember, and requests over other ranges do not wait.
//!
//! Correctness does not depend on turns: no transaction commits that replicas have not validated.
//! So a list may be lost, be kept by two replicas, or be skipped.
//!
//! Invariants:
//! 1. Sessions that have their turns have no range in common. A turn ends at the latest when its
//!    bound has passed: a session that failed costs the next one that long. Sessions of the
//!    holder's node continue with its turn for [`TURN_HANDED_ON`] more such bounds.
//! 2. Turns over ranges that overlap are given in the order in which they were requested, except to
//!    sessions that have not repeated the request for [`SILENT_NS`].
//! 3. At most [`MOST`] requests are kept, each with at most [`TURN_RANGES`] ranges, whose keys have
//!    at most [`TURN_BYTES`] together. A request beyond that gets its turn at once, as if there
//!    were no other one.

use meridian_machine::Address;
use meridian_mvcc::KeyRange;
use meridian_replication::inconsistent::OpId;
use meridian_txn::tapir::{TURN_BYTES, TURN_HANDED_ON, TURN_RANGES};
use std::collections::{BTreeMap, BTreeSet};

/// The number of requests that are kept, holders included.
const MOST: usize = 512;
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
    /// True if its ranges are few and short enough to be kept.
    fn fits(&self) -> bool {
        let bytes =
            |range: &KeyRange| range.start.len() + range.end.as_ref().map_or(0, |end| end.len());
        self.ranges.len() <= TURN_RANGES
            && self.ranges.iter().map(bytes).sum::<usize>() <= TURN_BYTES
    }
}

/// Returns ranges with the same keys, in order, of which none overlaps another one.
fn disjoint(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let overlaps = next.overlaps(range);
        if overlaps && next.reaches(range) {
            range.end = next.end.take();
        }
        overlaps
    });
    ranges
}

/// True if two lists of disjoint ranges in order have a key in common.
fn overlap(ours: &[KeyRange], theirs: &[KeyRange]) -> bool {
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    while let (Some(one), Some(two)) = (ours.peek(), theirs.peek()) {
        if one.overlaps(two) {
            return true;
        }
        // The range that ends first overlaps none of the later ones.
        if one.reaches(two) { &mut theirs } else { &mut ours }.next();
    }
    false
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueuePosition {
    /// It has its turn.
    Turn,
    /// Other requests come first.
    Queued,
}

/// A request that is kept. Its ranges are disjoint and in order.
#[derive(Clone, Debug)]
struct Kept {
    asked: TurnRequest,
    /// The number of earlier requests that it overlaps. It has its turn if there is none.
    before: usize,
    /// The time of its newest message.
    heard: u64,
    /// If it has its turn, the end of it.
    until: u64,
    /// How many times other sessions of its node continued with its turn.
    handed_on: u32,
}

/// The requests at a replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// The requests, in the order of their arrival.
    kept: BTreeMap<u64, Kept>,
    /// The number of requests that have arrived.
    arrived: u64,
    /// The place of each request in that order.
    place_of: BTreeMap<OpId, u64>,
    /// The times at which turns end unless released, by the boot clock, with the places of their
    /// requests.
    due: BTreeSet<(u64, u64)>,
}

impl Turns {
    /// Handles a request, new or repeated.
    pub fn ask(&mut self, now: u64, mut asked: TurnRequest) -> QueuePosition {
        let place = self.place_of.get(&asked.request);
        if let Some(kept) = place.and_then(|place| self.kept.get_mut(place)) {
            // The ranges stay: later requests were compared with them.
            (kept.asked.from, kept.asked.question, kept.heard) = (asked.from, asked.question, now);
            return if kept.before == 0 { QueuePosition::Turn } else { QueuePosition::Queued };
        }
        if self.kept.len() >= MOST || !asked.fits() {
            return QueuePosition::Turn;
        }
        asked.ranges = disjoint(asked.ranges);
        let overlaps = |earlier: &&Kept| overlap(&earlier.asked.ranges, &asked.ranges);
        let before = self.kept.values().filter(overlaps).count();
        let place = self.arrived;
        self.arrived += 1;
        self.place_of.insert(asked.request, place);
        let kept = self.kept.entry(place).insert_entry(Kept {
            asked,
            before,
            heard: now,
            until: 0,
            handed_on: 0,
        });
        if before > 0 {
            return QueuePosition::Queued;
        }
        give(now, (place, kept.into_mut()), &mut self.due);
        QueuePosition::Turn
    }

    /// Extends a turn for another session of the holder's node.
    pub fn keep(&mut self, now: u64, request: OpId, holds_ns: u64) {
        let Some(place) = self.place_of.get(&request).copied() else { return };
        let holds = |kept: &&mut Kept| kept.before == 0 && kept.handed_on < TURN_HANDED_ON;
        let Some(kept) = self.kept.get_mut(&place).filter(holds) else { return };
        self.due.remove(&(kept.until, place));
        kept.asked.holds_ns = holds_ns;
        kept.handed_on += 1;
        give(now, (place, kept), &mut self.due);
    }

    /// Removes a request that no longer needs its turn, or its place. Returns the requests that get
    /// their turns.
    pub fn leave(&mut self, now: u64, request: OpId) -> Vec<TurnRequest> {
        let place = self.place_of.get(&request).copied();
        place.map(|place| self.remove(now, place)).unwrap_or_default()
    }

    /// Ends the turns whose bound has passed. Returns the requests that get theirs.
    pub fn expire(&mut self, now: u64) -> Vec<TurnRequest> {
        let mut next = Vec::new();
        while let Some((_, place)) = self.due.first().copied().filter(|(until, _)| *until <= now) {
            next.extend(self.remove(now, place));
        }
        next
    }

    /// Returns when the next turn ends unless released, by the boot clock.
    pub fn next(&self) -> Option<u64> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Removes a request, and the silent ones that would be next. Returns those that get their
    /// turns.
    fn remove(&mut self, now: u64, place: u64) -> Vec<TurnRequest> {
        let (mut over, mut next) = (vec![place], Vec::new());
        while let Some(place) = over.pop() {
            let Some(gone) = self.kept.remove(&place) else { continue };
            self.place_of.remove(&gone.asked.request);
            self.due.remove(&(gone.until, place));
            let behind = self.kept.range_mut(place..);
            let waits = |kept: &Kept| overlap(&kept.asked.ranges, &gone.asked.ranges);
            for (place, kept) in behind.filter(|(_, kept)| waits(kept)) {
                kept.before -= 1;
                if kept.before > 0 {
                    continue;
                }
                if kept.heard.saturating_add(SILENT_NS) < now {
                    over.push(*place);
                    continue;
                }
                give(now, (*place, kept), &mut self.due);
                next.push(kept.asked.clone());
            }
        }
        next
    }
}

/// Gives a request its turn.
fn give(now: u64, (place, kept): (u64, &mut Kept), due: &mut BTreeSet<(u64, u64)>) {
    kept.until = now.saturating_add(kept.asked.holds_ns.min(LONGEST_NS));
    due.insert((kept.until, place));
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_machine::{DatabaseId, NodeId, ShardId};
    use meridian_mvcc::Key;
    use proptest::prelude::*;

    const HOLDS_NS: u64 = 1_000;

    fn over(ranges: Vec<KeyRange>, number: u64) -> TurnRequest {
        let id = OpId { node: 9, incarnation: 1, number };
        let from = Address::replica(NodeId(9), DatabaseId(1), ShardId(0));
        TurnRequest { from, request: id, question: id, holds_ns: HOLDS_NS, ranges }
    }

    fn asked(key: &str, number: u64) -> TurnRequest {
        over(vec![KeyRange::point(Key::from(key))], number)
    }

    fn range(start: &str, end: &str) -> KeyRange {
        KeyRange { start: start.into(), end: Some(end.into()) }
    }

    fn request(number: u64) -> OpId {
        asked("", number).request
    }

    /// Returns the numbers of requests.
    fn numbers(given: &[TurnRequest]) -> Vec<u64> {
        given.iter().map(|given| given.request.number).collect()
    }

    fn is_empty(turns: &Turns) -> bool {
        turns.kept.is_empty() && turns.due.is_empty() && turns.place_of.is_empty()
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
        assert_eq!(turns.leave(5, request(1)), [asked("a", 2)]);
        assert_eq!(turns.leave(5, request(1)), [], "it is over already");
        assert_eq!(turns.leave(6, request(3)), [], "it waits no longer");
        assert_eq!(turns.leave(7, request(2)), []);
        assert_eq!(turns.leave(7, request(4)), []);
        assert!(is_empty(&turns));
    }

    /// Nodes remember different keys of what is contested between them. A request that connects two
    /// others waits for both, and neither of them for the other one.
    #[test]
    fn a_request_waits_for_every_earlier_one_that_it_overlaps() {
        let mut turns = Turns::default();
        let first = over(vec![range("a", "b"), range("m", "n")], 1);
        assert_eq!(turns.ask(0, first), QueuePosition::Turn);
        assert_eq!(turns.ask(1, asked("c", 2)), QueuePosition::Turn, "nothing in common");
        let both = over(vec![range("m7", "o"), range("c", "d")], 3);
        assert_eq!(turns.ask(2, both), QueuePosition::Queued);
        assert_eq!(
            turns.ask(3, asked("nn", 4)),
            QueuePosition::Queued,
            "as the third, which waits"
        );
        assert_eq!(turns.ask(3, asked("a7", 5)), QueuePosition::Queued);
        assert_eq!(numbers(&turns.leave(4, request(1))), [5], "the third overlaps the second too");
        assert_eq!(turns.ask(5, asked("c", 6)), QueuePosition::Queued);
        assert_eq!(numbers(&turns.leave(6, request(2))), [3]);
        assert_eq!(numbers(&turns.leave(7, request(3))), [4, 6], "both at once");
        for number in 4..=6 {
            assert_eq!(turns.leave(8, request(number)), []);
        }
        assert!(is_empty(&turns));
    }

    #[test]
    fn a_request_that_waits_no_longer_frees_those_behind_it() {
        let mut turns = Turns::default();
        turns.ask(0, asked("a", 1));
        turns.ask(0, over(vec![range("a", "c")], 2));
        assert_eq!(turns.ask(0, asked("b", 3)), QueuePosition::Queued);
        assert_eq!(numbers(&turns.leave(1, request(2))), [3]);
    }

    /// A node learns of more contested ranges while its session waits.
    #[test]
    fn a_repeated_request_keeps_its_ranges() {
        let mut turns = Turns::default();
        turns.ask(0, asked("a", 1));
        turns.ask(0, asked("a", 2));
        turns.ask(0, asked("b", 3));
        let question = OpId { number: 7, ..request(2) };
        let more = over(vec![range("a", "c"); TURN_RANGES + 1], 2);
        assert_eq!(turns.ask(1, TurnRequest { question, ..more }), QueuePosition::Queued);
        assert_eq!(turns.leave(2, request(1)), [TurnRequest { question, ..asked("a", 2) }]);
        assert_eq!(turns.leave(3, request(2)), []);
        assert_eq!(turns.leave(3, request(3)), []);
        assert!(is_empty(&turns));
    }

    #[test]
    fn ranges_of_a_request_are_disjoint() {
        let open = |start: &str| KeyRange { start: start.into(), end: None };
        let all = vec![
            range("f", "g"),
            range("a", "c"),
            range("b", "b7"),
            range("c", "d"),
            range("e", "e"),
        ];
        assert_eq!(disjoint(all), [range("a", "c"), range("c", "d"), range("f", "g")]);
        assert_eq!(disjoint(vec![open("b"), range("a", "c"), open("k")]), [open("a")]);
        assert!(overlap(&[range("a", "b"), range("x", "y")], &[range("c", "d"), open("e")]));
        assert!(!overlap(&[range("a", "b"), range("e", "f")], &[range("b", "e"), open("f")]));
        assert!(!overlap(&[], &[open("")]));
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
        assert_eq!(turns.leave(late, request(2)), [asked("a", 4)], "the third is silent");
        assert_eq!(turns.expire(late + HOLDS_NS), []);
        assert!(is_empty(&turns));
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
        let point = |key: &str| KeyRange::point(Key::from(key));
        let long = "k".repeat(TURN_BYTES / 2);
        for beyond in [vec![point(&long)], vec![point("a"); TURN_RANGES + 1]] {
            assert_eq!(turns.ask(0, over(beyond, 0)), QueuePosition::Turn);
        }
        assert!(is_empty(&turns));
        let far = TurnRequest { holds_ns: u64::MAX, ..asked("a", 1) };
        assert_eq!(turns.ask(0, far), QueuePosition::Turn);
        assert_eq!(turns.next(), Some(LONGEST_NS), "however long a session wants it");
        (2..=MOST as u64)
            .for_each(|number| assert_eq!(turns.ask(0, asked("a", number)), QueuePosition::Queued));
        assert_eq!(turns.ask(0, asked("a", 0)), QueuePosition::Turn, "as if there were no other");
        assert_eq!((turns.place_of.len(), turns.kept.len()), (MOST, MOST));
    }

    proptest! {
        /// Turns that are held have no key in common, and a request waits only for earlier ones. So
        /// each is answered within one bound for each request before it, whatever other sessions
        /// do; and no request is kept at the end.
        #[test]
        fn each_waiting_session_is_answered_within_a_bound_for_each_before(
            steps in prop::collection::vec((0..3_u8, 0..12_u64, 0..6_usize, 0..HOLDS_NS), 1..80),
        ) {
            let (mut turns, mut now) = (Turns::default(), 0);
            let mut waits = BTreeMap::<u64, (u64, usize)>::new();
            let kinds = [
                vec![range("a", "b")], vec![range("b", "c")], vec![range("c", "d")],
                vec![range("a", "a7"), range("c", "c7")], vec![range("b7", "c7")], vec![range("a7", "c")],
            ];
            let answered = |waits: &mut BTreeMap<u64, (u64, usize)>, given: &[TurnRequest], now: u64| {
                for given in given {
                    let (since, before) = waits.remove(&given.request.number).expect("it waits");
                    assert!(now <= since + HOLDS_NS * (before as u64), "{given:?} at {now} since {since}");
                }
            };
            for (what, number, kind, after) in steps {
                // A timer is never late.
                while let Some(due) = turns.next().filter(|due| *due <= now + after) {
                    let given = turns.expire(due);
                    answered(&mut waits, &given, due);
                }
                now += after;
                let number = number * 6 + kind as u64; // Each session asks for the same ranges.
                match what {
                    0 | 1 => {
                        let before = turns.kept.len();
                        if turns.ask(now, over(kinds[kind].clone(), number)) == QueuePosition::Queued {
                            waits.entry(number).or_insert((now, before));
                        }
                    }
                    _ => {
                        let given = turns.leave(now, request(number));
                        waits.remove(&number);
                        answered(&mut waits, &given, now);
                    }
                }
                prop_assert_eq!(turns.place_of.len(), turns.kept.len());
                for (place, kept) in &turns.kept {
                    let earlier = turns.kept.range(..place).map(|(_, earlier)| earlier);
                    let overlaps = |earlier: &&Kept| overlap(&earlier.asked.ranges, &kept.asked.ranges);
                    prop_assert_eq!(earlier.filter(overlaps).count(), kept.before);
                    prop_assert_eq!(turns.due.contains(&(kept.until, *place)), kept.before == 0);
                }
            }
            while let Some(due) = turns.next() {
                let given = turns.expire(due);
                answered(&mut waits, &given, due);
            }
            prop_assert!(waits.is_empty() && is_empty(&turns), "{:?}", waits);
        }
    }
}
