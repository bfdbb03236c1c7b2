//! Effects that a machine asks its runtime to perform.

use crate::{Address, Machine};

/// The position of a record in a machine's sequence: the first is 1, and each `persist` adds one. A
/// position is never reused while the machine runs, so that a record that was overwritten differs
/// from its replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// An effect for the runtime to perform.
pub enum Effect<M: Machine> {
    /// Deliver a message to another machine, or lose it.
    Send {
        /// The receiver.
        to: Address,
        /// The message.
        message: M::Message,
    },
    /// Deliver a message only if `TT.now().latest` is still below the deadline when it leaves,
    /// because its content is true only under a lease.
    SendBefore {
        /// The end of the lease, nanoseconds since the epoch.
        deadline: u64,
        /// The receiver.
        to: Address,
        /// The message.
        message: M::Message,
    },
    /// Call `on_timer` when `boot_ns` has reached `at`. Replaces an equal timer.
    Arm {
        /// The timer.
        timer: M::Timer,
        /// The time, as `boot_ns`.
        at: u64,
    },
    /// Cancel a timer.
    Disarm {
        /// The timer.
        timer: M::Timer,
    },
    /// Append to the node's log; `on_durable` reports when the record is durable.
    Persist {
        /// The position that `on_durable` will name.
        position: Position,
        /// The record.
        record: M::Record,
    },
    /// An effect specific to this kind of machine.
    Do(M::Effect),
}

/// The effects of one step, in order. A runtime keeps one outbox per machine and drains it after
/// each step.
pub struct Outbox<M: Machine> {
    effects: Vec<Effect<M>>,
    persisted: Position,
}

impl<M: Machine> Default for Outbox<M> {
    fn default() -> Self {
        Outbox { effects: Vec::new(), persisted: Position(0) }
    }
}

impl<M: Machine> Outbox<M> {
    /// Makes an empty outbox for a new machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a message.
    pub fn send(&mut self, to: Address, message: M::Message) {
        self.effects.push(Effect::Send { to, message });
    }

    /// Sends a message that is true only while `TT.now().latest < deadline`.
    pub fn send_before(&mut self, deadline: u64, to: Address, message: M::Message) {
        self.effects.push(Effect::SendBefore { deadline, to, message });
    }

    /// Arms a timer at a time of `boot_ns`; moves it if it is armed already.
    pub fn arm(&mut self, timer: M::Timer, at: u64) {
        self.effects.push(Effect::Arm { timer, at });
    }

    /// Cancels a timer.
    pub fn disarm(&mut self, timer: M::Timer) {
        self.effects.push(Effect::Disarm { timer });
    }

    /// Persists a record, and returns its position.
    pub fn persist(&mut self, record: M::Record) -> Position {
        self.persisted.0 += 1;
        self.effects.push(Effect::Persist { position: self.persisted, record });
        self.persisted
    }

    /// Adds an effect specific to this kind of machine.
    pub fn act(&mut self, effect: M::Effect) {
        self.effects.push(Effect::Do(effect));
    }

    /// Returns the end of the effects so far (see [`Outbox::act_at`]).
    pub fn mark(&self) -> usize {
        self.effects.len()
    }

    /// Inserts an effect before those that were added since a mark.
    pub fn act_at(&mut self, mark: usize, effect: M::Effect) {
        self.effects.insert(mark, Effect::Do(effect));
    }

    /// The position of the newest persisted record.
    pub fn persisted(&self) -> Position {
        self.persisted
    }

    /// True if there is no effect.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Removes the effects, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect<M>> {
        self.effects.drain(..)
    }

    /// Runs a machine that is part of another with the whole's outbox. `embed` wraps each of its
    /// effects, or keeps it for the whole itself. Positions are the whole's, so that one
    /// `on_durable` serves every part.
    pub fn lend<P: Machine, R>(
        &mut self,
        step: impl FnOnce(&mut Outbox<P>) -> R,
        embed: impl FnMut(Effect<P>) -> Option<Effect<M>>,
    ) -> R {
        let mut part = Outbox { effects: Vec::new(), persisted: self.persisted };
        let result = step(&mut part);
        self.persisted = part.persisted;
        self.effects.extend(part.effects.into_iter().filter_map(embed));
        result
    }
}
