//! A replica of QWStore: accepts writes, and acknowledges them once they are on disk.

use super::{LogRecord, Message, Put};
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{Address, Machine, Outbox, Position, Reading, Role, sometimes};
use meridian_mvcc::{KeyRange, Write, local};
use meridian_replication::inconsistent::OpId;
use meridian_replication::rules;
use std::collections::VecDeque;

/// How far in the future a version may lie, in nanoseconds. Farther ahead, its writer's clock is
/// wrong, and it could not be overwritten until then.
const FAR_NS: u64 = 1_000_000_000;
/// The age in nanoseconds beyond which timestamps are closed with the next checkpoint: their
/// writers have given up long before.
const BEHIND_NS: u64 = 30_000_000_000;

/// The timers of a replica: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {}

/// An effect that a replica asks of its runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Make these versions readable. This may be repeated after a crash, with the same place.
    Install(Put),
    /// Read the newest versions, and answer.
    Serve(Serve),
    /// Nothing at or below this timestamp is written any more: superseded versions there may be
    /// collected.
    Closed(Timestamp),
}

/// A read for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// The address to answer.
    pub to: Address,
    /// The request.
    pub id: OpId,
    /// The range to read.
    pub range: KeyRange,
    /// Reads from the end of the range backwards.
    pub reverse: bool,
    /// The most rows to return.
    pub limit_rows: usize,
}

/// A replica of a shard.
pub struct Replica {
    bounds: KeyRange,
    /// Writes that the store does not have durably, in the order of places.
    unsettled: VecDeque<Put>,
    place: u64,
    /// The closed timestamp: nothing at or below it is accepted.
    closed: Timestamp,
    /// The sessions to answer once the log is durable up to a position.
    waiting: VecDeque<(Position, Address, OpId)>,
}

impl Replica {
    /// Makes a replica of the shard with these keys from its log records; without any, a new one.
    /// Its store has everything up to the place `stored`, and may have collected superseded
    /// versions at or below `horizon`.
    pub fn new(
        bounds: KeyRange,
        logged: Vec<LogRecord>,
        (stored, horizon): (u64, Timestamp),
        out: &mut Outbox<Self>,
    ) -> Self {
        let lacks = |logged| {
            if let LogRecord::Put(put) = logged {
                Some(put).filter(|put| put.place > stored)
            } else {
                None
            }
        };
        let mut unsettled: Vec<Put> = logged.into_iter().filter_map(lacks).collect();
        // A checkpoint repeats records that stand before it.
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

    /// Drops writes that the store has durably up to a place, and closes old timestamps. Returns
    /// the records that replace all earlier ones after a restart.
    pub fn stored(&mut self, now: Reading, through: u64, out: &mut Outbox<Self>) -> Vec<LogRecord> {
        while self.unsettled.pop_front_if(|put| put.place <= through).is_some() {}
        self.closed =
            self.closed.max(Timestamp::end_of(now.interval.earliest.saturating_sub(BEHIND_NS)));
        out.act(Effect::Closed(self.closed));
        [LogRecord::Stored(through)]
            .into_iter()
            .chain(self.unsettled.iter().cloned().map(LogRecord::Put))
            .collect()
    }

    /// True if an accepted write is not on disk yet.
    pub fn is_writing(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// True if a key belongs to this shard, and is not local to a shard.
    fn has(&self, write: &Write) -> bool {
        self.bounds.contains(&write.key) && !local::is(&write.key)
    }

    /// False for writes that are dropped: the sender is not the writer, the writer's clock is
    /// wrong, or the write arrives after its session gave up.
    fn may_be_meant(
        &self,
        now: Reading,
        from: Address,
        id: OpId,
        at: Timestamp,
        writes: &[Write],
    ) -> bool {
        let incarnation = (from.node.0, from.incarnation.0);
        let is_session = matches!(from.role, Role::Coordinator(_));
        // A timestamp of another issuer might be used twice: then replicas would differ for ever.
        let by_itself = is_session
            && (id.node, id.incarnation) == incarnation
            && (at.issuer, at.logical) == incarnation;
        let near = at > self.closed && at.nanos <= now.interval.latest.saturating_add(FAR_NS);
        by_itself && near && writes.iter().all(|write| self.has(write))
    }
}

impl Machine for Replica {
    type Message = Message;
    type Timer = Timer;
    type Record = LogRecord;
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
                self.waiting.push_back((out.persist(LogRecord::Put(put.clone())), from, id));
                if broken(rules::REPLIES_BEFORE_DURABLE) {
                    out.send(from, Message::Stored { id });
                }
                out.act(Effect::Install(put.clone()));
                self.unsettled.push_back(put);
            }
            Message::Put { .. } => sometimes!("a write is dropped that no correct session sends"),
            Message::Read { id, range, reverse, limit_rows }
                if self.bounds.contains_range(&range) =>
            {
                let limit_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
                out.act(Effect::Serve(Serve { to: from, id, range, reverse, limit_rows }));
            }
            // Keys of another shard, or messages for sessions.
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
