//! A replica: takes what it is told to write, and says so once that is on disk.

use super::{Kept, Message, Put};
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{Address, Machine, Outbox, Position, Reading, Role, sometimes};
use meridian_mvcc::{KeyRange, Write, local};
use meridian_replication::inconsistent::OpId;
use meridian_replication::rules;
use std::collections::VecDeque;

/// A version further in the future than this is not taken: its writer's clock is wrong, and nobody
/// could write over it until then.
const FAR_NS: u64 = 1_000_000_000;
/// What is older than this is closed with the next checkpoint: whoever wrote it has given up long
/// ago.
const BEHIND_NS: u64 = 30_000_000_000;

/// It waits for nothing but its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {}

/// What a replica asks of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make these versions readable. After a crash it may be asked for again, with the same place.
    Install(Put),
    /// Read this, as of now, and answer.
    Serve(Serve),
    /// Nothing at or below is written any more: what is superseded there may be collected.
    Closed(Timestamp),
}

/// What is to be read for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// Whom to answer.
    pub to: Address,
    /// Its question.
    pub id: OpId,
    /// What.
    pub range: KeyRange,
    /// From the end.
    pub reverse: bool,
    /// So many rows at most.
    pub limit_rows: usize,
}

/// A replica.
pub struct Replica {
    bounds: KeyRange,
    /// What the store does not have for good, in the order of places.
    unsettled: VecDeque<Put>,
    place: u64,
    /// Nothing at or below is taken any more.
    closed: Timestamp,
    /// Who is answered when that is on disk.
    waiting: VecDeque<(Position, Address, OpId)>,
}

impl Replica {
    /// A replica of the shard with these keys, and what was kept of it; nothing, at its birth. Its
    /// store has everything up to the place `stored`, and may have collected what was superseded at
    /// or below `horizon`.
    pub fn new(
        bounds: KeyRange,
        kept: Vec<Kept>,
        (stored, horizon): (u64, Timestamp),
        out: &mut Outbox<Self>,
    ) -> Self {
        let lacks = |kept| {
            if let Kept::Put(put) = kept {
                Some(put).filter(|put| put.place > stored)
            } else {
                None
            }
        };
        let mut unsettled: Vec<Put> = kept.into_iter().filter_map(lacks).collect();
        // A checkpoint repeats what stands before it.
        unsettled.sort_by_key(|put| put.place);
        unsettled.dedup_by_key(|put| put.place);
        unsettled.iter().for_each(|put| out.act(Effect::Install(put.clone())));
        let place = unsettled.last().map_or(stored, |put| put.place);
        Replica {
            bounds,
            unsettled: unsettled.into(),
            place,
            closed: horizon,
            waiting: VecDeque::new(),
        }
    }

    /// The store has everything up to a place for good: that is kept no more, and what lies far
    /// behind is closed. Everything that stands for the next life, in place of all that was kept
    /// before.
    pub fn stored(&mut self, now: Reading, through: u64, out: &mut Outbox<Self>) -> Vec<Kept> {
        while self.unsettled.pop_front_if(|put| put.place <= through).is_some() {}
        self.closed =
            self.closed.max(Timestamp::end_of(now.interval.earliest.saturating_sub(BEHIND_NS)));
        out.act(Effect::Closed(self.closed));
        [Kept::Stored(through)]
            .into_iter()
            .chain(self.unsettled.iter().cloned().map(Kept::Put))
            .collect()
    }

    /// Whether something that it was told is not on disk yet.
    pub fn is_writing(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a key is this shard's, and is none of those that shards keep for themselves.
    fn has(&self, write: &Write) -> bool {
        self.bounds.contains(&write.key) && !local::is(&write.key)
    }

    /// What else is told is dropped: its writer is not who it says, or its clock is wrong, or it
    /// comes so late that nobody waits for it.
    fn may_be_meant(
        &self,
        now: Reading,
        from: Address,
        id: OpId,
        at: Timestamp,
        writes: &[Write],
    ) -> bool {
        let life = (from.node.0, from.incarnation.0);
        let is_session = matches!(from.role, Role::Coordinator(_));
        // A timestamp in another's name might be given twice: then replicas would differ for ever.
        let by_itself =
            is_session && (id.node, id.incarnation) == life && (at.issuer, at.logical) == life;
        let near = at > self.closed && at.nanos <= now.interval.latest.saturating_add(FAR_NS);
        by_itself && near && writes.iter().all(|write| self.has(write))
    }
}

impl Machine for Replica {
    type Message = Message;
    type Timer = Timer;
    type Record = Kept;
    type Effect = Effect;

    fn on_message(
        &mut self,
        now: Reading,
        from: Address,
        message: Message,
        out: &mut Outbox<Self>,
    ) {
        match message {
            Message::Put { id, at, writes } if self.may_be_meant(now, from, id, at, &writes) => {
                self.place += 1;
                let put = Put { place: self.place, at, writes };
                self.waiting.push_back((out.persist(Kept::Put(put.clone())), from, id));
                if broken(rules::REPLIES_BEFORE_DURABLE) {
                    out.send(from, Message::Stored { id });
                }
                out.act(Effect::Install(put.clone()));
                self.unsettled.push_back(put);
            }
            Message::Put { .. } => sometimes!("nobody can have meant to write that"),
            Message::Read { id, range, reverse, limit_rows }
                if self.bounds.contains_range(&range) =>
            {
                let limit_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
                out.act(Effect::Serve(Serve { to: from, id, range, reverse, limit_rows }));
            }
            // Another shard's, or for sessions.
            Message::Read { .. } | Message::Stored { .. } | Message::Found { .. } => {}
        }
    }

    fn on_timer(&mut self, _: Reading, timer: Timer, _: &mut Outbox<Self>) {
        match timer {}
    }

    fn on_durable(&mut self, _: Reading, through: Position, out: &mut Outbox<Self>) {
        while let Some((_, to, id)) =
            self.waiting.pop_front_if(|(position, _, _)| *position <= through)
        {
            out.send(to, Message::Stored { id });
        }
    }
}
