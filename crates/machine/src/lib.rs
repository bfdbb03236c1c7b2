//! The contract: a protocol is a value you step.
//!
//! Everything that decides anything in Meridian (a replica of a group, a transaction's coordinator)
//! is a [`Machine`]: inputs arrive one at a time, effects leave in an [`Outbox`], and nothing else
//! happens. Same inputs, same effects, always. The same values therefore run on real sockets and
//! files (`host`) and in a virtual world built from one seed (`sim`).
//!
//! ```text
//!   message, timer, durable ──▶ ┌─────────┐ ──▶ send, arm, persist, serve
//!   (each with a Reading)       │ machine │     (collected in an Outbox, done by the world)
//!                               └─────────┘
//! ```
//!
//! Invariants that every machine keeps and every world relies on:
//!
//! 1. **Time is an argument.** A machine never reads a clock; [`Reading`] is sampled after the
//!    input was received.
//! 2. **Waiting is a timer**, never a sleep. Arming a timer that is armed already moves it.
//! 3. **Durability is a message to oneself.** [`Outbox::persist`] returns a [`Position`];
//!    `on_durable(through)` comes in order and says that everything up to it is on disk.
//! 4. **Randomness is a generator given at birth**; iteration order is part of determinism.
//! 5. Effects are performed in the order in which they stand in the outbox.

mod address;
mod alarms;
mod outbox;
pub mod planted;
mod reading;
pub mod sometimes;
pub mod steps;

pub use address::{Address, DatabaseId, Incarnation, NodeId, Role, ShardId};
pub use alarms::Alarms;
pub use outbox::{Effect, Outbox, Position};
pub use reading::{Health, Interval, Reading};

/// A protocol: inputs in, effects out.
pub trait Machine: Sized {
    /// What machines of this kind say to one another.
    type Message;
    /// What this machine may wait for. Equal timers are the same timer.
    type Timer: Clone + Ord;
    /// What this machine keeps on disk.
    type Record;
    /// What the world is asked to do that only this kind of machine knows (serve a read, install
    /// versions).
    type Effect;

    /// A message arrived. `from` was checked by the world: it is who it says it is.
    fn on_message(
        &mut self,
        now: Reading,
        from: Address,
        message: Self::Message,
        out: &mut Outbox<Self>,
    );

    /// A timer that this machine armed has fired; it is no longer armed.
    fn on_timer(&mut self, now: Reading, timer: Self::Timer, out: &mut Outbox<Self>);

    /// Everything persisted up to and including `through` survives a crash from now on.
    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>);
}
