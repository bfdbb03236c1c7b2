//! The actor that runs a state machine on a node: its mailbox, its timers, and the world that
//! carries out its effects.
//!
//! ```text
//!   message, wake, durable, call ──▶ mailbox ──▶ step ──▶ outbox ──▶ World: send, persist, act
//!                                       ▲                    │
//!                                       └── timers ◀── arm ──┘
//! ```
//!
//! Invariants:
//! 1. The effects of a step are performed in order, before the next step, by the thread that made
//!    the step.
//! 2. The clock reading of a batch is sampled after its last input was taken.
//! 3. No lock that another thread waits for is held while effects are performed: a step may post to
//!    its own machine.
//! 4. A stopped machine takes no step any more; its inputs are dropped.
//! 5. A machine that panics in a step, or in an effect of a step, ends its node
//!    ([`crate::panics`]), on whichever thread it was stepped.

use crate::journal::Durable;
use crate::mailbox::{Mailbox, Step};
use crate::panics::{LastInputs, MachineName, PanicGuard};
use crate::sync::{AtomicBool, Mutex, Ordering, yield_now};
use crate::timers::Wake;
use meridian_clock::Reading;
use meridian_machine::{Address, Alarms, Effect, Machine, Outbox, Position};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Weak};

/// An input of a machine.
pub enum Input<M: Machine> {
    /// A message; the sender's address was verified.
    Message(Address, M::Message),
    /// The machine's records up to this position are on disk.
    Durable(Position),
    /// A timer may be due.
    Wake,
    /// A call of this node's code to the machine itself.
    Call(Call<M>),
}

/// A call outside the machine contract: the node uses what only this kind of machine offers.
pub type Call<M> = Box<dyn FnOnce(&mut M, Reading, &mut Outbox<M>) + Send>;

/// Performs a machine's effects. Called by the thread that steps it.
pub trait ReplicaRuntime<M: Machine>: Send + Sync {
    /// Returns a clock reading.
    fn now(&self) -> Reading;
    /// Sends a message, before the deadline if there is one.
    fn send(&self, deadline: Option<u64>, to: Address, message: M::Message);
    /// Persists a record. [`Input::Durable`] reports when it is durable.
    fn persist(&self, position: Position, record: M::Record);
    /// Performs an effect that only this kind of machine has.
    fn act(&self, effect: M::Effect);
    /// Flushes queued output at the end of a batch of steps.
    fn flush(&self);
    /// Wakes the machine when the boot clock reaches `at`, in nanoseconds.
    fn wake_at(&self, at: u64, who: Weak<dyn Wake>);
    /// Returns the guard that ends the node when a step panics.
    fn guard(&self) -> &PanicGuard;
    /// Returns the machine's name for reports.
    fn machine(&self) -> MachineName;
    /// Returns the kind of a message for reports.
    fn kind(message: &M::Message) -> &'static str;
}

/// A machine with its mailbox, timers and world.
pub struct Actor<M: Machine, W> {
    mailbox: Mailbox<Input<M>>,
    core: Mutex<Core<M>>,
    stopped: AtomicBool,
    runtime: W,
    this: Weak<Self>,
}

struct Core<M: Machine> {
    machine: M,
    outbox: Outbox<M>,
    alarms: Alarms<M::Timer>,
    batch: VecDeque<Input<M>>,
    inputs: LastInputs,
}

impl<M, W> Actor<M, W>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Record: Send,
    M::Effect: Send,
    W: ReplicaRuntime<M> + 'static,
{
    /// Returns the actor of a machine. The outbox may hold effects of the machine's creation; they
    /// are performed at the first step.
    pub fn new(machine: M, outbox: Outbox<M>, runtime: impl FnOnce(&Weak<Self>) -> W) -> Arc<Self> {
        Arc::new_cyclic(|this| Actor {
            mailbox: Mailbox::default(),
            core: Mutex::new(Core {
                machine,
                outbox,
                alarms: Alarms::default(),
                batch: VecDeque::new(),
                inputs: LastInputs::default(),
            }),
            stopped: AtomicBool::new(false),
            runtime: runtime(this),
            this: this.clone(),
        })
    }

    /// Posts an input. Steps the machine unless another thread is doing so.
    pub fn post(&self, input: Input<M>) {
        self.post_all([input]);
    }

    /// Posts inputs as one batch of steps, whose output leaves at its end.
    pub fn post_all(&self, inputs: impl IntoIterator<Item = Input<M>>) {
        if self.stopped.load(Ordering::Acquire) || self.runtime.guard().is_halted() {
            return;
        }
        if let Some(step) = self.mailbox.post(inputs) {
            self.run(step);
        }
    }

    /// Returns the world.
    pub fn runtime(&self) -> &W {
        &self.runtime
    }

    /// True if no step is under way (see [`Mailbox::is_idle`]).
    pub fn is_idle(&self) -> bool {
        self.mailbox.is_idle()
    }

    /// Returns the number of queued inputs.
    pub fn waiting(&self) -> usize {
        self.mailbox.len()
    }

    /// Takes no further step. A running step ends first.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    fn run(&self, step: Step) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.step(step))) {
            self.stop();
            self.runtime.guard().machine_panicked(
                self.runtime.machine(),
                &*panic,
                &self.core.lock().inputs,
            );
            // The node halts; the caller must not go on as if the step had been made.
            resume_unwind(panic);
        }
    }

    fn step(&self, mut step: Step) {
        loop {
            let mut core = self.core.lock();
            let Core { machine, outbox, alarms, batch, inputs } = &mut *core;
            let Some(next) = self.mailbox.take(step, batch) else { return };
            step = next;
            let mut now = self.runtime.now();
            self.perform(outbox, alarms); // Effects of the machine's creation.
            for input in batch.drain(..) {
                if self.stopped.load(Ordering::Acquire) {
                    continue;
                }
                match input {
                    Input::Message(from, message) => {
                        inputs.note(now.boot_ns, W::kind(&message), Some(from));
                        machine.on_message(now, from, message, outbox);
                    }
                    Input::Durable(through) => {
                        inputs.note(now.boot_ns, "records are durable", None);
                        machine.on_durable(now, through, outbox);
                    }
                    Input::Call(call) => {
                        inputs.note(now.boot_ns, "call", None);
                        call(machine, now, outbox);
                    }
                    Input::Wake => {
                        now = self.runtime.now();
                        alarms.woken(now.boot_ns);
                        while let Some(timer) = alarms.due(now.boot_ns) {
                            inputs.note(now.boot_ns, "timer", None);
                            machine.on_timer(now, timer, outbox);
                            self.perform(outbox, alarms);
                        }
                    }
                }
                self.perform(outbox, alarms);
            }
            if let Some(at) = alarms.next_wake() {
                let this: Weak<dyn Wake> = self.this.clone();
                self.runtime.wake_at(at, this);
            }
            drop(core);
            self.runtime.flush();
            if step.over() {
                step = self.hand_over(step);
            }
        }
    }

    /// Called when the thread has stepped its share. For now it yields before it continues, and no
    /// helper thread takes over.
    fn hand_over(&self, step: Step) -> Step {
        yield_now();
        step.fresh()
    }

    fn perform(&self, outbox: &mut Outbox<M>, alarms: &mut Alarms<M::Timer>) {
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => self.runtime.send(None, to, message),
                Effect::SendBefore { deadline, to, message } => {
                    self.runtime.send(Some(deadline), to, message)
                }
                Effect::Arm { timer, at } => alarms.set(timer, at),
                Effect::Disarm { timer } => alarms.cancel(&timer),
                Effect::Persist { position, record } => self.runtime.persist(position, record),
                Effect::Do(effect) => self.runtime.act(effect),
            }
        }
    }
}

impl<M, W> Wake for Actor<M, W>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Record: Send,
    M::Effect: Send,
    W: ReplicaRuntime<M> + 'static,
{
    fn wake(self: Arc<Self>) {
        self.post(Input::Wake);
    }
}

impl<M, W> Durable for Actor<M, W>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Record: Send,
    M::Effect: Send,
    W: ReplicaRuntime<M> + 'static,
{
    fn durable(&self, through: Position) {
        self.post(Input::Durable(through));
    }
}
