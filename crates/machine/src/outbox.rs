//! What a machine asks the world to do.

use crate::{Address, Machine};

/// How far a machine's own records have come: the first is 1, and each `persist` adds one. Never
/// reused in one life of a machine, so that a write that was overwritten is told apart from the one
/// that replaced it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// One thing to do.
pub enum Effect<M: Machine> {
    /// Deliver to another machine, or lose it.
    Send {
        /// Who it is for.
        to: Address,
        /// What is said.
        message: M::Message,
    },
    /// Deliver only if `TT.now().latest` is still below the deadline when the message leaves: what
    /// is true only under a lease.
    SendBefore {
        /// The end of the lease, nanoseconds since the epoch.
        deadline: u64,
        /// Who it is for.
        to: Address,
        /// What is said.
        message: M::Message,
    },
    /// Call `on_timer` when `boot_ns` has reached `at`. Replaces an equal timer.
    Arm {
        /// The timer.
        timer: M::Timer,
        /// When, as `boot_ns`.
        at: u64,
    },
    /// Forget a timer.
    Disarm {
        /// The timer.
        timer: M::Timer,
    },
    /// Append to the node's log; `on_durable` tells when it is safe.
    Persist {
        /// The position that `on_durable` will name.
        position: Position,
        /// What to keep.
        record: M::Record,
    },
    /// Something that only this kind of machine asks for.
    Do(M::Effect),
}

/// The effects of one step, in order. A world keeps one outbox per machine and drains it after each
/// step.
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
    /// An empty outbox for a machine that is newly born.
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

    /// Arms a timer at a moment of `boot_ns`, moving it if it is armed already.
    pub fn arm(&mut self, timer: M::Timer, at: u64) {
        self.effects.push(Effect::Arm { timer, at });
    }

    /// Forgets a timer.
    pub fn disarm(&mut self, timer: M::Timer) {
        self.effects.push(Effect::Disarm { timer });
    }

    /// Persists a record and says at which position.
    pub fn persist(&mut self, record: M::Record) -> Position {
        self.persisted.0 += 1;
        self.effects.push(Effect::Persist { position: self.persisted, record });
        self.persisted
    }

    /// Asks for something that only this kind of machine knows.
    pub fn act(&mut self, effect: M::Effect) {
        self.effects.push(Effect::Do(effect));
    }

    /// The place after everything that was asked for so far (see [`Outbox::act_at`]).
    pub fn mark(&self) -> usize {
        self.effects.len()
    }

    /// Asks for something before what was asked for since a mark.
    pub fn act_at(&mut self, mark: usize, effect: M::Effect) {
        self.effects.insert(mark, Effect::Do(effect));
    }

    /// The position of the newest persisted record.
    pub fn persisted(&self) -> Position {
        self.persisted
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Takes the effects, in order.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect<M>> {
        self.effects.drain(..)
    }

    /// Lets a machine that is part of another speak through the whole's outbox: `embed` wraps each
    /// of its effects, or keeps it for the whole itself. Positions are the whole's, so that one
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
