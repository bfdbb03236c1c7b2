//! The mailbox, the actor and the slot, under one thread schedule after the other.
//!
//! These are the source files of the node, compiled with locks that may switch threads at every
//! use. Links are channels here: a frame leaves a real link when it is posted, or later.

use actor::{Actor, Input, ReplicaRuntime};
use meridian_clock::{Interval, Timestamp};
use meridian_machine::{
    Address, DatabaseId, Incarnation, Machine, NodeId, Outbox, Position, Reading, Role, ShardId,
};
use meridian_txn::shards::ReadLease;
use panics::{MachineName, PanicGuard};
use shuttle::sync::atomic::{AtomicU64, AtomicUsize};
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::thread;
use std::sync::{Arc, Weak};
use sync::Ordering;
use timers::Wake;

mod journal {
    pub use meridian_host::journal::Durable;
}
#[allow(dead_code)]
#[path = "../src/mailbox.rs"]
mod mailbox;
mod panics {
    pub use meridian_host::panics::{LastInputs, MachineName, OnPanic, PanicGuard};
}
#[allow(dead_code)]
#[path = "../src/actor.rs"]
mod actor;
#[allow(dead_code)]
#[path = "../src/shard/slot.rs"]
mod slot;
mod timers {
    pub use meridian_host::timers::Wake;
}

/// Locks that are never poisoned, like those of the node.
mod sync {
    pub use shuttle::sync::atomic::{AtomicBool, Ordering, fence};
    use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    pub use shuttle::thread::yield_now;

    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a test that panics ends")
        }
    }

    #[derive(Debug, Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("a test that panics ends")
        }

        pub fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("a test that panics ends")
        }
    }
}

/// Number of thread schedules.
const ORDERS: usize = 3_000;
const HERE: NodeId = NodeId(1);
const SUCCESSOR: NodeId = NodeId(2);

/// A leader of a shard, reduced to its part in the slot.
struct Leader {
    shows: ReadLease,
    /// The timestamp of the commit in progress, until it is durable.
    draws: Option<u64>,
    /// If true, hands over leadership before it withdraws the slot.
    withdraws_late: bool,
    heard: Vec<u64>,
}

/// Effects of the machine.
enum Asks {
    Show(ReadLease),
    Drawn(u64),
    Heard(Vec<u64>),
}

impl Machine for Leader {
    /// The number that a client gave its message.
    type Message = u64;
    type Timer = ();
    type Record = ();
    type Effect = Asks;

    /// Starts a commit.
    fn on_message(&mut self, now: Reading, _: Address, number: u64, out: &mut Outbox<Self>) {
        self.heard.push(number);
        out.act(Asks::Heard(self.heard.clone()));
        if self.shows.leads && self.draws.is_none() {
            out.act(Asks::Drawn(now.interval.latest));
            (self.draws, self.shows.quiet) = (Some(now.interval.latest), false);
            out.act(Asks::Show(self.shows));
        }
    }

    /// Hands over leadership.
    fn on_timer(&mut self, _: Reading, (): (), out: &mut Outbox<Self>) {
        let mark = out.mark();
        out.send(Address::replica(SUCCESSOR, DatabaseId(1), ShardId(0)), 0);
        self.shows = ReadLease { until: 0, leads: false, quiet: false, ..self.shows };
        match self.withdraws_late {
            true => out.act(Asks::Show(self.shows)),
            false => out.act_at(mark, Asks::Show(self.shows)),
        }
    }

    /// Makes the commit visible.
    fn on_durable(&mut self, _: Reading, _: Position, out: &mut Outbox<Self>) {
        if let Some(nanos) = self.draws.take() {
            (self.shows.through, self.shows.quiet) = (Timestamp::end_of(nanos), self.shows.leads);
            out.act(Asks::Show(self.shows));
        }
    }
}

struct Node {
    clock: Arc<AtomicU64>,
    slot: slot::Slot,
    link: sync::Mutex<Sender<u64>>,
    drawn: sync::Mutex<Vec<u64>>,
    heard: sync::Mutex<Vec<u64>>,
    guard: Arc<PanicGuard>,
}

impl Node {
    /// Returns a time that no other reading has.
    fn moment(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl ReplicaRuntime<Leader> for Node {
    fn now(&self) -> Reading {
        let at = self.moment();
        Reading::at(at, Interval { earliest: at, latest: at })
    }

    fn send(&self, _: Option<u64>, _: Address, message: u64) {
        let _ = self.link.lock().send(message);
    }

    fn persist(&self, _: Position, (): ()) {}

    fn act(&self, effect: Asks) {
        match effect {
            Asks::Show(read_lease) => self.slot.set(read_lease),
            Asks::Drawn(at) => self.drawn.lock().push(at),
            Asks::Heard(numbers) => *self.heard.lock() = numbers,
        }
    }

    fn flush(&self) {}

    fn wake_at(&self, _: u64, _: Weak<dyn Wake>) {}

    fn guard(&self) -> &PanicGuard {
        &self.guard
    }

    fn machine(&self) -> MachineName {
        MachineName { protocol: "test", address: Address::replica(HERE, DatabaseId(1), ShardId(0)) }
    }

    fn kind(_: &u64) -> &'static str {
        "message"
    }
}

type TestRuntime = Arc<Actor<Leader, Node>>;

/// Returns the actor of a leader, and the channel to its successor.
fn runtime(withdraws_late: bool) -> (TestRuntime, Receiver<u64>) {
    let (link, receives) = channel();
    let shows = ReadLease { until: u64::MAX, leads: true, quiet: true, ..ReadLease::default() };
    let mut outbox = Outbox::default();
    outbox.act(Asks::Show(shows));
    let leader = Leader { shows, draws: None, withdraws_late, heard: Vec::new() };
    let guard = PanicGuard::new(HERE, Incarnation(1), None, panics::OnPanic::Halt);
    let runtime = Actor::new(leader, outbox, |_| Node {
        clock: Arc::new(AtomicU64::new(0)),
        slot: slot::Slot::default(),
        link: sync::Mutex::new(link),
        drawn: sync::Mutex::default(),
        heard: sync::Mutex::default(),
        guard,
    });
    runtime.post(Input::Durable(Position(0)));
    (runtime, receives)
}

fn client() -> Address {
    Address { role: Role::Coordinator(1), ..Address::replica(HERE, DatabaseId(1), ShardId(0)) }
}

/// Runs a test under random schedules. Returns false if one of them fails.
fn holds(test: impl Fn() + Send + Sync + 'static) -> bool {
    let run = || shuttle::check_random(test, ORDERS);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_ok()
}

/// A session that starts after the successor acknowledged a commit finds no slot that leads.
fn leadership_goes_after_the_slot(withdraws_late: bool) {
    let (runtime, receives) = runtime(withdraws_late);
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let (here, told) = (Arc::clone(&runtime), Arc::clone(&acknowledged));
    let stepping = thread::spawn(move || {
        here.post(Input::Call(Box::new(|leader, now, out| leader.on_timer(now, (), out))))
    });
    let successor = thread::spawn(move || {
        receives.recv().expect("leadership is handed over");
        told.store(1, Ordering::SeqCst);
    });
    // A client's message, which may be the input that steps the machine.
    let here = Arc::clone(&runtime);
    let asks = thread::spawn(move || here.post(Input::Message(client(), 1)));
    for _ in 0..3 {
        let told = acknowledged.load(Ordering::SeqCst);
        let slot = runtime.runtime().slot.load_unless_busy(|| runtime.is_idle());
        assert!(told == 0 || !slot.leads, "a session reads under a leadership that has ended");
    }
    [stepping, successor, asks].into_iter().for_each(|thread| thread.join().expect("it ends"));
}

#[test]
fn a_slot_is_withdrawn_before_leadership_leaves() {
    assert!(holds(|| leadership_goes_after_the_slot(false)));
}

#[test]
fn that_it_is_withdrawn_afterwards_is_noticed() {
    assert!(!holds(|| leadership_goes_after_the_slot(true)));
}

/// A quiet slot has every timestamp that was assigned before the session looked.
fn quiet_is_the_present(looks: fn(&TestRuntime) -> ReadLease) {
    let (runtime, _receives) = runtime(false);
    let here = Arc::clone(&runtime);
    let commits = thread::spawn(move || {
        for number in 1..=2 {
            here.post(Input::Message(client(), number));
            here.post(Input::Durable(Position(number)));
        }
    });
    let mut seen = Vec::new();
    for _ in 0..3 {
        let began = runtime.runtime().moment();
        let slot = looks(&runtime);
        if slot.quiet {
            seen.push((began, slot.through));
        }
    }
    commits.join().expect("it ends");
    for at in runtime.runtime().drawn.lock().iter() {
        for (began, through) in &seen {
            assert!(
                at > began || Timestamp::end_of(*at) <= *through,
                "{at} was drawn before {began}, and is not shown"
            );
        }
    }
}

#[test]
fn a_quiet_slot_misses_no_timestamp_that_was_drawn_before() {
    assert!(holds(|| quiet_is_the_present(|runtime| runtime
        .runtime()
        .slot
        .load_unless_busy(|| runtime.is_idle()))));
}

#[test]
fn that_a_slot_is_loaded_before_it_is_asked_whether_a_step_is_under_way_is_noticed() {
    let looks = |runtime: &TestRuntime| {
        let slot = runtime.runtime().slot.load_unless_busy(|| true);
        ReadLease { quiet: slot.quiet && runtime.is_idle(), ..slot }
    };
    assert!(!holds(move || quiet_is_the_present(looks)));
}

/// Each input is taken once, in its sender's order, whichever threads step the machine.
fn inputs_are_taken_once_and_in_order() {
    let (runtime, _receives) = runtime(false);
    let sends = |sender: u64| {
        let runtime = Arc::clone(&runtime);
        thread::spawn(move || {
            (1..=3).for_each(|number| runtime.post(Input::Message(client(), 10 * sender + number)))
        })
    };
    let threads: Vec<_> = (0..3).map(sends).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let heard = runtime.runtime().heard.lock().clone();
    assert_eq!(heard.len(), 9, "{heard:?}");
    for sender in 0..3 {
        let of_sender: Vec<u64> =
            heard.iter().filter(|number| **number / 10 == sender).copied().collect();
        assert_eq!(of_sender, [1, 2, 3].map(|number| 10 * sender + number));
    }
}

#[test]
fn no_input_is_lost_or_taken_twice() {
    assert!(holds(inputs_are_taken_once_and_in_order));
}
