//! Actors stepped by threads of the operating system: the mailbox, timers, and a machine that waits
//! for both. `interleavings.rs` runs the same files under one thread schedule after the other.

use meridian_clock::Reading;
use meridian_host::actor::{Actor, Input, ReplicaRuntime};
use meridian_host::clock::{Clock, ClockBound};
use meridian_host::mailbox::Mailbox;
use meridian_host::panics::{MachineName, OnPanic, PanicGuard};
use meridian_host::timers::{Timers, Wake};
use meridian_machine::{
    Address, DatabaseId, Incarnation, Machine, NodeId, Outbox, Position, ShardId,
};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

#[test]
fn an_input_during_a_step_is_left_to_the_stepper() {
    let mailbox = Mailbox::default();
    let step = mailbox.post([1]).expect("idle");
    assert!(mailbox.post([2]).is_none());
    let mut batch = VecDeque::new();
    let step = mailbox.take(step, &mut batch).expect("two wait");
    assert_eq!(batch, [1, 2]);
    assert!(mailbox.post([3]).is_none());
    batch.clear();
    let step = mailbox.take(step, &mut batch).expect("one waits");
    assert_eq!(batch, [3]);
    batch.clear();
    assert!(mailbox.take(step, &mut batch).is_none());
    assert!(mailbox.post([4]).is_some());
}

#[test]
fn every_input_is_stepped_once_in_its_senders_order_by_one_thread_at_a_time() {
    let mailbox = Mailbox::default();
    let busy = AtomicBool::new(false);
    let newest: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for sender in 0..4usize {
            let (mailbox, busy, newest) = (&mailbox, &busy, &newest);
            scope.spawn(move || {
                for number in 1..=20_000u64 {
                    let Some(mut step) = mailbox.post([(sender, number)]) else { continue };
                    let mut batch = VecDeque::new();
                    while let Some(next) = mailbox.take(step, &mut batch) {
                        assert!(!busy.swap(true, Ordering::AcqRel));
                        for (sender, number) in batch.drain(..) {
                            assert_eq!(newest[sender].swap(number, Ordering::Relaxed), number - 1);
                        }
                        busy.store(false, Ordering::Release);
                        step = next;
                    }
                }
            });
        }
    });
    assert!(newest.iter().all(|newest| newest.load(Ordering::Relaxed) == 20_000));
}

/// A machine that responds with a number once the number is on disk and a timer has expired.
struct Echo {
    waiting: VecDeque<(Position, u64)>,
}
impl Machine for Echo {
    type Message = u64;
    type Timer = u64;
    type Record = u64;
    type Effect = u64;
    fn on_message(&mut self, _: Reading, _: Address, message: u64, out: &mut Outbox<Self>) {
        let position = out.persist(message);
        self.waiting.push_back((position, message));
    }
    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        while let Some((_, number)) =
            self.waiting.pop_front_if(|(position, _)| *position <= through)
        {
            out.arm(number, now.boot_ns + 1_000_000);
        }
    }
    fn on_timer(&mut self, _: Reading, timer: u64, out: &mut Outbox<Self>) {
        out.act(timer);
    }
}

struct TestRuntime {
    clock: Clock,
    guard: Arc<PanicGuard>,
    timers: Arc<Timers>,
    done: Mutex<mpsc::Sender<u64>>,
    this: Weak<Actor<Echo, TestRuntime>>,
}
impl ReplicaRuntime<Echo> for TestRuntime {
    fn now(&self) -> Reading {
        self.clock.now()
    }
    fn send(&self, _: Option<u64>, _: Address, _: u64) {}
    fn persist(&self, position: Position, _: u64) {
        // Posted from within the step: it is left in the mailbox, and there is no deadlock.
        if let Some(this) = self.this.upgrade() {
            this.post(Input::Durable(position));
        }
    }
    fn act(&self, effect: u64) {
        let _ = self.done.lock().send(effect);
    }
    fn flush(&self) {}
    fn wake_at(&self, at: u64, who: Weak<dyn Wake>) {
        self.timers.wake_at(at, who);
    }
    fn guard(&self) -> &PanicGuard {
        &self.guard
    }
    fn machine(&self) -> MachineName {
        MachineName {
            protocol: "echo",
            address: Address::replica(NodeId(1), DatabaseId(2), ShardId(3)),
        }
    }
    fn kind(_: &u64) -> &'static str {
        "number"
    }
}

#[test]
fn a_machine_is_stepped_by_the_delivering_thread_and_woken_by_its_timer() {
    let guard = PanicGuard::new(NodeId(1), Incarnation(1), None, OnPanic::Halt);
    let timers = Arc::new(Timers::start(&guard).unwrap());
    let (done, answers) = mpsc::channel();
    let runtime = |this: &Weak<_>| TestRuntime {
        clock: Clock::new(ClockBound::Alone),
        guard: Arc::clone(&guard),
        timers: Arc::clone(&timers),
        done: Mutex::new(done),
        this: this.clone(),
    };
    let echo = Actor::new(Echo { waiting: VecDeque::new() }, Outbox::new(), runtime);
    let from = Address::replica(NodeId(1), DatabaseId(0), ShardId(0));
    for number in 0..100 {
        echo.post(Input::Message(from, number));
    }
    let mut heard: Vec<u64> =
        (0..100).map(|_| answers.recv_timeout(Duration::from_secs(20)).unwrap()).collect();
    heard.sort_unstable();
    assert_eq!(heard, (0..100).collect::<Vec<_>>());
    echo.stop();
    echo.post(Input::Message(from, 7));
    assert!(answers.recv_timeout(Duration::from_millis(20)).is_err());
}
