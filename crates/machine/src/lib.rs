//! The machine contract: a protocol is a value that is stepped.
//!
//! Everything that makes decisions in Meridian (a replica of a group, a transaction's coordinator)
//! is a [`Machine`]: inputs arrive one at a time, effects leave in an [`Outbox`], and nothing else
//! happens. The same inputs always produce the same effects. So the same values run on real sockets
//! and files (`host`) and in a virtual world made from one seed (`sim`).
//!
//! ```text
//!   message, timer, durable ──▶ ┌─────────┐ ──▶ send, arm, persist, serve
//!   (each with a Reading)       │ machine │     (collected in an Outbox, performed by the runtime)
//!                               └─────────┘
//! ```
//!
//! Invariants that every machine keeps and every runtime relies on:
//!
//! 1. **Time is an argument.** A machine never reads a clock; [`Reading`] is sampled after the
//!    input was received.
//! 2. **Waiting is a timer**, never a sleep. Arming a timer that is armed already moves it.
//! 3. **Durability is a message to oneself.** [`Outbox::persist`] returns a [`Position`];
//!    `on_durable(through)` arrives in order and says that everything up to it is on disk.
//! 4. **Randomness is a generator passed to the constructor**; iteration order is part of
//!    determinism.
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

/// A protocol as a state machine: inputs in, effects out.
pub trait Machine: Sized {
    /// The messages between machines of this kind.
    type Message;
    /// The timers of this machine. Equal timers are the same timer.
    type Timer: Clone + Ord;
    /// The log records of this machine.
    type Record;
    /// The effects specific to this kind of machine (serve a read, install versions).
    type Effect;

    /// Handles a message. The runtime has verified that `from` is its sender.
    fn on_message(
        &mut self,
        now: Reading,
        from: Address,
        message: Self::Message,
        out: &mut Outbox<Self>,
    );

    /// Handles a timer of this machine that fired; it is no longer armed.
    fn on_timer(&mut self, now: Reading, timer: Self::Timer, out: &mut Outbox<Self>);

    /// Notes that everything persisted up to and including `through` is durable.
    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>);
}
