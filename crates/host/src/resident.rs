//! A machine that lives on a node: its mailbox, its timers, and the world that does what it asks.
//!
//! ```text
//!   message, wake, durable, call ──▶ mailbox ──▶ step ──▶ outbox ──▶ World: send, persist, act
//!                                       ▲                    │
//!                                       └── timers ◀── arm ──┘
//! ```
//!
//! Invariants:
//! 1. The effects of a step are performed in order, before the next step, by the thread that made
//!    it.
//! 2. The reading of a batch is sampled after its last input was taken.
//! 3. No lock that anybody else waits for is held while effects are performed: a machine may be
//!    sent to from within its own step.
//! 4. A stopped machine takes no step any more; what comes for it is dropped.
//! 5. A machine that panics in a step, or in what its step asks for, ends its node
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

/// What a machine can hear.
pub enum Input<M: Machine> {
    /// A message; `from` was checked.
    Message(Address, M::Message),
    /// Its records up to here are on disk.
    Durable(Position),
    /// Perhaps a timer is due.
    Wake,
    /// Somebody of this node wants a word with the machine itself.
    Call(Call<M>),
}

/// A step that is not part of the contract: the host asks a machine something only this kind of
/// machine knows.
pub type Call<M> = Box<dyn FnOnce(&mut M, Reading, &mut Outbox<M>) + Send>;

/// Does what a machine asks for. Called by the thread that steps it.
pub trait World<M: Machine>: Send + Sync {
    /// The time now.
    fn now(&self) -> Reading;
    /// Sends a message, before the deadline if there is one.
    fn send(&self, deadline: Option<u64>, to: Address, message: M::Message);
    /// Keeps a record; [`Input::Durable`] tells when it is safe.
    fn persist(&self, position: Position, record: M::Record);
    /// Does what only this kind of machine asks for.
    fn act(&self, effect: M::Effect);
    /// A batch of steps is done: what was gathered may leave.
    fn flush(&self);
    /// Wakes the machine when the boot clock reaches `at`.
    fn wake_at(&self, at: u64, who: Weak<dyn Wake>);
    /// Ends the node when a step panics.
    fn guard(&self) -> &PanicGuard;
    /// The machine, as a report names it.
    fn machine(&self) -> MachineName;
    /// What kind of message this is, for a report.
    fn kind(message: &M::Message) -> &'static str;
}

/// A machine at home.
pub struct Resident<M: Machine, W> {
    mailbox: Mailbox<Input<M>>,
    core: Mutex<Core<M>>,
    stopped: AtomicBool,
    world: W,
    this: Weak<Self>,
}

struct Core<M: Machine> {
    machine: M,
    outbox: Outbox<M>,
    alarms: Alarms<M::Timer>,
    batch: VecDeque<Input<M>>,
    inputs: LastInputs,
}

impl<M, W> Resident<M, W>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Record: Send,
    M::Effect: Send,
    W: World<M> + 'static,
{
    /// Gives a machine its home. The outbox may hold effects of its birth; they are done at its
    /// first step.
    pub fn new(machine: M, outbox: Outbox<M>, world: impl FnOnce(&Weak<Self>) -> W) -> Arc<Self> {
        Arc::new_cyclic(|this| Resident {
            mailbox: Mailbox::default(),
            core: Mutex::new(Core {
                machine,
                outbox,
                alarms: Alarms::default(),
                batch: VecDeque::new(),
                inputs: LastInputs::default(),
            }),
            stopped: AtomicBool::new(false),
            world: world(this),
            this: this.clone(),
        })
    }

    /// Delivers an input; steps the machine unless another thread does already.
    pub fn post(&self, input: Input<M>) {
        self.post_all([input]);
    }

    /// Delivers inputs in their order, for one batch of steps: what these ask for leaves at its end.
    pub fn post_all(&self, inputs: impl IntoIterator<Item = Input<M>>) {
        if self.stopped.load(Ordering::Acquire) || self.world.guard().is_halted() {
            return;
        }
        if let Some(step) = self.mailbox.post(inputs) {
            self.run(step);
        }
    }

    /// The world it lives in.
    pub fn world(&self) -> &W {
        &self.world
    }

    /// True if no step is under way (see [`Mailbox::is_idle`]).
    pub fn is_idle(&self) -> bool {
        self.mailbox.is_idle()
    }

    /// How many inputs wait.
    pub fn waiting(&self) -> usize {
        self.mailbox.len()
    }

    /// Takes no step any more. A step that is going on ends first.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    fn run(&self, step: Step) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.step(step))) {
            self.stop();
            self.world.guard().machine_panicked(
                self.world.machine(),
                &*panic,
                &self.core.lock().inputs,
            );
            // The node halts; the caller is not to go on as if the step had been made.
            resume_unwind(panic);
        }
    }

    fn step(&self, mut step: Step) {
        loop {
            let mut core = self.core.lock();
            let Core { machine, outbox, alarms, batch, inputs } = &mut *core;
            let Some(next) = self.mailbox.take(step, batch) else { return };
            step = next;
            let mut now = self.world.now();
            self.perform(outbox, alarms); // what its birth asked for
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
                        now = self.world.now();
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
                self.world.wake_at(at, this);
            }
            drop(core);
            self.world.flush();
            if step.over() {
                step = self.hand_over(step);
            }
        }
    }

    /// One's share is done. For now the stepper only lets others run before he goes on.
    fn hand_over(&self, step: Step) -> Step {
        yield_now();
        step.fresh()
    }

    fn perform(&self, outbox: &mut Outbox<M>, alarms: &mut Alarms<M::Timer>) {
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to, message } => self.world.send(None, to, message),
                Effect::SendBefore { deadline, to, message } => {
                    self.world.send(Some(deadline), to, message)
                }
                Effect::Arm { timer, at } => alarms.set(timer, at),
                Effect::Disarm { timer } => alarms.cancel(&timer),
                Effect::Persist { position, record } => self.world.persist(position, record),
                Effect::Do(effect) => self.world.act(effect),
            }
        }
    }
}

impl<M, W> Wake for Resident<M, W>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Record: Send,
    M::Effect: Send,
    W: World<M> + 'static,
{
    fn wake(self: Arc<Self>) {
        self.post(Input::Wake);
    }
}

impl<M, W> Durable for Resident<M, W>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Timer: Send,
    M::Record: Send,
    M::Effect: Send,
    W: World<M> + 'static,
{
    fn durable(&self, through: Position) {
        self.post(Input::Durable(through));
    }
}
