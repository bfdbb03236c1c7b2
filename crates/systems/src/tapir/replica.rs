//! A replica of a shard: operations, as inconsistent replication has them, and snapshots beside them.
//!
//! What a snapshot is served below is refused from then on. Which ranges that were is in memory; up to which timestamp at all is a fact in the record, said ahead so that not every read is
//! a write. So it comes to whoever merges a view, and outlives a restart.

use super::{Kept, Message, Page, Shard};
use meridian_clock::Timestamp;
use meridian_machine::{Address, Effect as Do, Incarnation, Machine, NodeId, Outbox, Position, Reading, sometimes};
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::inconsistent::{self, Config, Message as Said, OpId, Timer};
use meridian_txn::tapir::Fact;
use std::collections::VecDeque;

/// Snapshots are said to be served so far ahead of what was asked for. After a view change nobody writes below that: who commits then waits as long at most.
const AHEAD_NS: u64 = 50_000_000;
/// A snapshot further in the future than this is not served: its reader's clock is wrong, or it wants to keep others from writing.
const FAR_NS: u64 = 1_000_000_000;
/// Numbers of a replica's own facts begin here: sessions of its node do not come so far.
const OWN: u64 = 1 << 63;

type Operations = inconsistent::Replica<Shard>;

/// What a replica asks of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put the versions of a commit into Recent. It may be asked for again after a crash.
    Install {
        /// The commit timestamp.
        at: Timestamp,
        /// The versions.
        writes: Vec<Write>,
    },
    /// Read this, and answer.
    Serve(Serve),
}

/// What a session wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What stands at a timestamp, below which nothing is written any more.
    Snapshot(Timestamp),
    /// Whatever is newest, where everything at or below this is settled.
    Newest(Timestamp),
}

/// What is to be read for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// Whom to answer.
    pub to: Address,
    /// Its question.
    pub id: OpId,
    /// As of when.
    pub view: View,
    /// What of it.
    pub range: KeyRange,
    /// From the end.
    pub reverse: bool,
    /// So many rows at most.
    pub limit_rows: usize,
}

impl Serve {
    /// The timestamp at which is to be read.
    pub fn at(&self) -> Timestamp {
        match self.view {
            View::Snapshot(at) => at,
            View::Newest(_) => Timestamp::MAX,
        }
    }

    /// What the session is answered, for what was found.
    pub fn answer(&self, page: Page) -> Message {
        match self.view {
            View::Snapshot(_) => Message::Looked { id: self.id, page: Some(page) },
            View::Newest(through) => Message::Found { id: self.id, page, through },
        }
    }
}

/// A replica.
pub struct Replica {
    operations: Operations,
    me: (NodeId, Incarnation),
    facts: u64,
    /// It has said, and is about to have on disk, that snapshots up to here may have been served.
    ceiling: Timestamp,
    /// Served when that is on disk.
    waiting: VecDeque<(Position, Serve)>,
    durable: Position,
}

fn embed(effect: Do<Operations>) -> Option<Do<Replica>> {
    Some(match effect {
        Do::Send { to, message } => Do::Send { to, message: Message::Operation(message) },
        Do::SendBefore { deadline, to, message } => {
            Do::SendBefore { deadline, to, message: Message::Operation(message) }
        }
        Do::Arm { timer, at } => Do::Arm { timer, at },
        Do::Disarm { timer } => Do::Disarm { timer },
        Do::Persist { position, record } => Do::Persist { position, record },
        Do::Do(effect) => Do::Do(effect),
    })
}

impl Replica {
    /// A replica with what was kept of it; nothing, at its birth. `None` where this node is not one of them, or their number is even.
    pub fn new(
        config: Config,
        life: Incarnation,
        shard: Shard,
        kept: Vec<Kept>,
        now: Reading,
        out: &mut Outbox<Self>,
    ) -> Option<Self> {
        let (me, durable) = ((config.me, life), out.persisted());
        let operations = out.lend(|out| Operations::new(config, shard, kept, now, out), embed)?;
        Some(Replica { operations, me, facts: 0, ceiling: Timestamp::ZERO, waiting: VecDeque::new(), durable })
    }

    /// What it has of operations, and in which view.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Asks for a view change: for who has missed something, or for operations that nobody finishes.
    pub fn change_view(&mut self, now: Reading, out: &mut Outbox<Self>) {
        out.lend(|out| self.operations.change_view(now, out), embed);
    }

    /// Everything at or below has ended here: who reads names only versions above.
    pub fn settled(&self) -> Timestamp {
        self.operations.application().participant().settled()
    }

    fn on_read(&self, serve: Serve, out: &mut Outbox<Self>) {
        if self.operations.application().participant().has(&serve.range) {
            out.act(Effect::Serve(serve));
        }
    }

    fn on_look(&mut self, now: Reading, at: Timestamp, serve: Serve, out: &mut Outbox<Self>) {
        let participant = self.operations.application_mut().participant_mut();
        if !participant.has(&serve.range) || at.nanos > now.interval.latest.saturating_add(FAR_NS) {
            sometimes!("a snapshot is asked for that is not to be served");
            return;
        }
        if !participant.serves(&serve.range, at) {
            return out.send(serve.to, Message::Looked { id: serve.id, page: None });
        }
        if at > self.ceiling {
            self.ceiling = Timestamp::end_of(at.nanos.saturating_add(AHEAD_NS));
            self.facts += 1;
            let (node, incarnation) = (self.me.0.0, self.me.1.0);
            let id = OpId { node, incarnation, number: OWN + self.facts };
            let (myself, said) = (serve.to, Said::Tell { id, op: Fact::Served(self.ceiling) });
            out.lend(|out| self.operations.on_message(now, myself, said, out), embed);
        }
        self.waiting.push_back((out.persisted(), serve));
        self.go_on(out);
    }

    fn go_on(&mut self, out: &mut Outbox<Self>) {
        while let Some((_, serve)) = self.waiting.pop_front_if(|(position, _)| *position <= self.durable) {
            out.act(Effect::Serve(serve));
        }
    }
}

impl Machine for Replica {
    type Message = Message;
    type Timer = Timer;
    type Record = Kept;
    type Effect = Effect;

    fn on_message(&mut self, now: Reading, from: Address, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Operation(said) => out.lend(|out| self.operations.on_message(now, from, said, out), embed),
            // What is between two views does not know what the next one begins with.
            Message::Look { .. } if self.operations.is_between_views() => {}
            Message::Look { id, at, range, reverse, limit_rows } => {
                let (view, limit_rows) = (View::Snapshot(at), usize::try_from(limit_rows).unwrap_or(usize::MAX));
                self.on_look(now, at, Serve { to: from, id, view, range, reverse, limit_rows }, out);
            }
            Message::Read { id, range, reverse, limit_rows } => {
                let view = View::Newest(self.settled());
                let limit_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
                self.on_read(Serve { to: from, id, view, range, reverse, limit_rows }, out);
            }
            Message::Looked { .. } | Message::Found { .. } | Message::TooOld { .. } => {} // For sessions.
        }
    }

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        out.lend(|out| self.operations.on_timer(now, timer, out), embed);
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        self.durable = self.durable.max(through);
        out.lend(|out| self.operations.on_durable(now, through, out), embed);
        self.go_on(out);
    }
}
