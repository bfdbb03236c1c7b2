//! Requests of a node's sessions to replicas, and the responses that have arrived.
//!
//! ```text
//!   session ── round ──▶ asked: n1 n2 n3 ◀── responses ── replicas
//!      ▲                     │
//!      └── woken by a response, or by the round's one timer
//! ```
//!
//! Invariants:
//! 1. A waiting session is woken when enough responses have arrived, when its time has come, when a
//!    node that it asked becomes unreachable, and when the node closes.
//! 2. A round that ends leaves neither a request nor a timer.

use meridian_machine::{Alarms, NodeId};
use meridian_systems::Next;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The rounds of requests of one database.
pub struct Questions<M> {
    state: Mutex<State<M>>,
}

struct State<M> {
    /// The rounds, by the numbers of their operations. Most operations have one round.
    rounds: HashMap<u64, Vec<Round<M>>>,
    /// The rounds' timers, by the numbers of operations and rounds.
    alarms: Alarms<(u64, u64)>,
    /// The number of the newest round.
    newest: u64,
    closed: bool,
}

struct Round<M> {
    number: u64,
    slot: Arc<Mutex<Slot<M>>>,
}

/// The requests and responses of one round.
struct Slot<M> {
    /// Nodes without a response so far.
    asked: Vec<NodeId>,
    /// Each with the boot clock at its arrival.
    answers: VecDeque<(NodeId, u64, M)>,
    /// The session's waker while it waits, and the number of responses that it waits for.
    waker: Option<Waker>,
    enough: usize,
    closed: bool,
}

impl<M> Default for Questions<M> {
    fn default() -> Self {
        let (rounds, alarms) = (HashMap::new(), Alarms::default());
        let state = State { rounds, alarms, newest: 0, closed: false };
        Questions { state: Mutex::new(state) }
    }
}

impl<M> Questions<M> {
    /// Starts a round about an operation. At any time, a node is asked in at most one round about
    /// it.
    pub fn open(&self, operation: u64) -> Open<'_, M> {
        let mut state = self.state.lock();
        let slot = Slot {
            asked: Vec::new(),
            answers: VecDeque::new(),
            waker: None,
            enough: 0,
            closed: state.closed,
        };
        let slot = Arc::new(Mutex::new(slot));
        state.newest += 1;
        let number = state.newest;
        let round = Round { number, slot: Arc::clone(&slot) };
        state.rounds.entry(operation).or_insert_with(|| Vec::with_capacity(1)).push(round);
        Open { questions: self, key: (operation, number), slot, alarm: None }
    }

    /// Delivers a replica's response. A response that no round waits for is dropped.
    pub fn answer(&self, operation: u64, from: NodeId, answer: M) {
        let waker = {
            let state = self.state.lock();
            let mut slots =
                state.rounds.get(&operation).into_iter().flatten().map(|round| round.slot.lock());
            let asked = |slot: &Slot<M>| slot.asked.iter().position(|asked| *asked == from);
            let found = slots.find_map(|slot| Some((asked(&slot)?, slot)));
            let Some((place, mut slot)) = found else { return };
            slot.asked.swap_remove(place);
            slot.answers.push_back((from, crate::clock::boot_ns(), answer));
            let wakes = slot.answers.len() >= slot.enough || slot.asked.is_empty();
            if wakes { slot.waker.take() } else { None }
        };
        // Not under the lock: a woken session may send requests.
        waker.into_iter().for_each(Waker::wake);
    }

    /// Gives up the requests to the nodes for which `gone` returns true.
    pub fn give_up(&self, gone: impl Fn(NodeId) -> bool) {
        let state = self.state.lock();
        let leave = |slot: &Arc<Mutex<Slot<M>>>| {
            let mut slot = slot.lock();
            let before = slot.asked.len();
            slot.asked.retain(|node| !gone(*node));
            if slot.asked.len() < before { slot.waker.take() } else { None }
        };
        let slots = state.rounds.values().flatten().map(|round| &round.slot);
        let woken: Vec<Waker> = slots.filter_map(leave).collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes the sessions whose time has come by the boot clock. Returns the time of the next call
    /// that the caller must schedule, unless one that was scheduled before comes early enough.
    pub fn wake_late(&self, now_ns: u64) -> Option<u64> {
        let (mut woken, mut state) = (Vec::new(), self.state.lock());
        state.alarms.woken(now_ns);
        while let Some((operation, number)) = state.alarms.due(now_ns) {
            let mut rounds = state.rounds.get(&operation).into_iter().flatten();
            let late = rounds.find(|round| round.number == number);
            woken.extend(late.and_then(|round| round.slot.lock().waker.take()));
        }
        let next = state.alarms.next_wake();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        next
    }

    /// Ends all rounds. Rounds that start later end at once.
    pub fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let end = |slot: &Arc<Mutex<Slot<M>>>| {
            let mut slot = slot.lock();
            slot.closed = true;
            slot.asked.clear();
            slot.waker.take()
        };
        let slots = state.rounds.values().flatten().map(|round| &round.slot);
        let woken: Vec<Waker> = slots.filter_map(end).collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

/// A round, as the session holds it.
pub struct Open<'q, M> {
    questions: &'q Questions<M>,
    key: (u64, u64),
    slot: Arc<Mutex<Slot<M>>>,
    /// The last time for which the round's timer was set.
    alarm: Option<u64>,
}

impl<M> Open<'_, M> {
    /// Adds nodes that are asked from now on. Has no effect once the node closes.
    pub fn expect(&self, nodes: &[NodeId]) {
        let mut slot = self.slot.lock();
        if !slot.closed {
            slot.asked.extend(nodes);
        }
    }

    /// Waits for the next response until the boot clock reaches `until`. The session is not woken
    /// before there are `enough`. Passes to `wake_at` a time at which [`Questions::wake_late`] must
    /// be called.
    pub async fn next(&mut self, until: u64, enough: usize, wake_at: impl Fn(u64)) -> Next<M> {
        poll_fn(|context| self.poll(context, (until, enough.max(1)), &wake_at)).await
    }

    /// Waits until the boot clock reaches `until`, or the node closes.
    pub async fn pause(&mut self, until: u64, wake_at: impl Fn(u64)) {
        poll_fn(|context| self.poll(context, (until, 0), &wake_at)).await;
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        (until, enough): (u64, usize),
        wake_at: &impl Fn(u64),
    ) -> Poll<Next<M>> {
        {
            let mut slot = self.slot.lock();
            if let Some((node, at_ns, answer)) = slot.answers.pop_front() {
                return Poll::Ready(Next::Answer { node, at_ns, answer });
            }
            if slot.closed || enough > 0 && slot.asked.is_empty() {
                return Poll::Ready(Next::All);
            }
            if crate::clock::boot_ns() >= until {
                return Poll::Ready(Next::Late);
            }
            (slot.waker, slot.enough) = (Some(context.waker().clone()), enough);
        }
        if self.alarm != Some(until) {
            self.alarm = Some(until);
            let next = {
                let mut state = self.questions.state.lock();
                state.alarms.set(self.key, until);
                state.alarms.next_wake()
            };
            next.into_iter().for_each(wake_at);
        }
        Poll::Pending
    }
}

impl<M> Drop for Open<'_, M> {
    fn drop(&mut self) {
        let (operation, number) = self.key;
        let mut state = self.questions.state.lock();
        if let Entry::Occupied(mut rounds) = state.rounds.entry(operation) {
            rounds.get_mut().retain(|round| round.number != number);
            if rounds.get().is_empty() {
                rounds.remove();
            }
        }
        if self.alarm.is_some() {
            state.alarms.cancel(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::boot_ns;
    use futures::FutureExt;

    const FAR: u64 = u64::MAX;

    fn waits<M>(round: &mut Open<'_, M>, until: u64) -> Option<Next<M>> {
        round.next(until, 1, |_| {}).now_or_never()
    }

    #[test]
    fn answers_come_in_order_each_once_and_only_from_nodes_that_were_asked() {
        let questions = Questions::default();
        let (mut round, other) = (questions.open(7), questions.open(7));
        round.expect(&[NodeId(1), NodeId(2)]);
        other.expect(&[NodeId(4)]);
        assert!(waits(&mut round, FAR).is_none());
        questions.answer(7, NodeId(3), "not asked");
        questions.answer(8, NodeId(1), "another operation");
        questions.answer(7, NodeId(2), "second");
        questions.answer(7, NodeId(2), "again");
        let before = boot_ns();
        let Some(Next::Answer { node: NodeId(2), at_ns, answer: "second" }) =
            waits(&mut round, FAR)
        else {
            panic!("the answer of the second node comes");
        };
        assert!(at_ns <= before, "an answer carries the time of its arrival");
        assert!(waits(&mut round, FAR).is_none());
        assert!(matches!(waits(&mut round, boot_ns()), Some(Next::Late)));
        questions.give_up(|node| node == NodeId(1));
        assert!(matches!(waits(&mut round, FAR), Some(Next::All)));
        drop((round, other));
        assert!(questions.state.lock().rounds.is_empty());
    }

    #[test]
    fn a_session_is_woken_when_its_time_has_come_and_leaves_no_timer() {
        let questions: Questions<()> = Questions::default();
        let mut round = questions.open(1);
        round.expect(&[NodeId(1)]);
        let until = boot_ns() + 5_000_000;
        let asked = Mutex::new(Vec::new());
        assert!(round.next(until, 1, |at| asked.lock().push(at)).now_or_never().is_none());
        assert_eq!(*asked.lock(), [until]);
        assert!(round.next(until, 1, |at| asked.lock().push(at)).now_or_never().is_none());
        assert_eq!(asked.lock().len(), 1, "the timer is set already");
        assert_eq!(questions.wake_late(until - 1), None);
        while boot_ns() < until {
            std::thread::yield_now();
        }
        questions.wake_late(boot_ns());
        assert!(matches!(waits(&mut round, until), Some(Next::Late)));
        assert!(waits(&mut round, FAR).is_none(), "the session waits again");
        drop(round);
        assert_eq!(questions.wake_late(FAR), None);
    }

    #[test]
    fn a_session_that_wants_two_of_three_is_woken_by_the_second_or_by_the_last_that_can_answer() {
        let wakes = |events: fn(&Questions<u32>)| {
            let questions = Questions::default();
            let mut round = questions.open(1);
            round.expect(&[NodeId(1), NodeId(2), NodeId(3)]);
            let (waker, count) = counting_waker();
            let mut next = Box::pin(round.next(FAR, 2, |_| {}));
            assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            events(&questions);
            count.load(std::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!(wakes(|questions| questions.answer(1, NodeId(1), 1)), 0);
        let second = |questions: &Questions<u32>| {
            questions.answer(1, NodeId(1), 1);
            questions.answer(1, NodeId(3), 3);
        };
        assert_eq!(wakes(second), 1);
        let others_are_gone = |questions: &Questions<u32>| {
            questions.answer(1, NodeId(1), 1);
            questions.give_up(|node| node != NodeId(1));
        };
        assert_eq!(wakes(others_are_gone), 1);
    }

    /// A waker that counts.
    fn counting_waker() -> (Waker, Arc<std::sync::atomic::AtomicUsize>) {
        struct Count(Arc<std::sync::atomic::AtomicUsize>);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let count = Arc::default();
        (Waker::from(Arc::new(Count(Arc::clone(&count)))), count)
    }

    #[test]
    fn closing_ends_what_waits_and_what_comes() {
        let questions: Questions<()> = Questions::default();
        let (mut round, mut pause) = (questions.open(1), questions.open(2));
        round.expect(&[NodeId(1)]);
        assert!(waits(&mut round, FAR).is_none());
        assert!(pause.pause(FAR, |_| {}).now_or_never().is_none());
        questions.close();
        assert!(matches!(waits(&mut round, FAR), Some(Next::All)));
        assert!(pause.pause(FAR, |_| {}).now_or_never().is_some());
        let mut late = questions.open(3);
        late.expect(&[NodeId(1)]);
        assert!(matches!(waits(&mut late, FAR), Some(Next::All)));
    }
}
