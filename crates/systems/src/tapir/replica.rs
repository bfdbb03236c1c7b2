//! A replica of a shard: operations of inconsistent replication, and snapshot reads beside them.
//!
//! A replica refuses writes below a snapshot that it has served. The ranges are in memory only. An
//! upper bound of the timestamps is an entry of the record, noted ahead so that not every read is a
//! write. So the leader of the next view learns it when it merges records, and it survives a
//! restart.
//!
//! Ended transactions are forgotten, so that neither the record nor memory grows without bound
//! (§6.2):
//!
//! ```text
//!   a replica, with enough to forget       notes Over { closed }, starts a view change
//!   that view                              begins with it: nothing below gets a yes vote any more
//!   the next view                          has all that ever commits below, and notes settled,
//!                                          up to the first that is still prepared
//!   if all replicas take part              its record omits what every store has durably
//! ```
//!
//! Each of these view changes closes one part and settles what the one before closed. The leader of
//! the shard's next view starts it; other replicas do so if that one does not. An idle shard keeps
//! its last few megabytes. The record keeps the name of a commit of several shards for ever,
//! because another shard may have to learn of it.

use super::copying::{Copied, Copying};
use super::turns::{QueuePosition, TurnRequest, Turns};
use super::waits::{Proposed, Waits};
use super::{LogRecord, Message, Page, Shard};
use crate::tapir::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{
    Address, Effect as Do, Health, Incarnation, Machine, NodeId, Outbox, Position, Reading, always,
    sometimes,
};
use meridian_mvcc::{KeyRange, Write, local};
use meridian_replication::inconsistent::{
    self, Application, Config, Message as Said, Op, OpId, ReplicaSet,
};
use meridian_txn::tapir::rules as tapir_rules;
use meridian_txn::tapir::{ConsensusOp, ConsensusResult, End, InconsistentOp, Past, Proposal};
use std::collections::VecDeque;

/// How far beyond a requested snapshot the served timestamp is noted, in nanoseconds. After a view
/// change nothing is written below it, so commits then wait at most this long.
const AHEAD_NS: u64 = 50_000_000;
/// How far in the future a snapshot may lie, in nanoseconds. Farther ahead, its reader's clock is
/// wrong, or the reader blocks writers.
const FAR_NS: u64 = 1_000_000_000;
/// How far ahead any timestamp may lie, in nanoseconds. Recovery uses timestamps some seconds
/// ahead. A proposal farther ahead would be kept until then.
const FARTHEST_NS: u64 = 60_000_000_000;
/// How long to wait for a page of a copy before another replica is asked, in nanoseconds.
const COPY_AGAIN_NS: u64 = 1_000_000_000;
/// The first number of a replica's own operations. Sessions of its node never reach it.
const OWN: u64 = 1 << 63;

type Operations = inconsistent::Replica<Shard>;

/// The timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A timer of its operations.
    Operations(inconsistent::Timer),
    /// Checks whether there is enough to forget.
    Over,
    /// A page of a copy is late.
    Copy,
    /// A delayed prepare is due.
    Earlier,
    /// A turn reaches its bound.
    Turn,
}

/// The policy for forgetting ended transactions.
#[derive(Clone, Copy, Debug)]
pub struct TruncationPolicy {
    /// The interval of checks while operations arrive, in nanoseconds.
    pub every_ns: u64,
    /// The age below which nothing is closed, in nanoseconds, because it may still be proposed.
    /// Later proposals need a new timestamp.
    pub behind_ns: u64,
    /// How many bytes make a view change worthwhile. An entry of a record counts for a kilobyte
    /// besides its keys and values.
    pub enough_bytes: usize,
}

impl Default for TruncationPolicy {
    fn default() -> Self {
        TruncationPolicy {
            every_ns: 5_000_000_000,
            behind_ns: 5_000_000_000,
            enough_bytes: 4 << 20,
        }
    }
}

/// An effect that a replica asks of its runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put the versions of a commit into memory. This may be repeated after a crash: versions at or
    /// below the store's horizon are already there, or were collected, and must not come back.
    Install {
        /// The commit timestamp.
        at: Timestamp,
        /// The versions.
        writes: Vec<Write>,
    },
    /// Put versions that were copied from another replica into memory, each with its timestamp.
    /// They may be a part of a commit.
    Adopt(Vec<(Timestamp, Write)>),
    /// Read and answer.
    Serve(Serve),
    /// A view has begun here, and everything it began with is to be installed by earlier effects.
    /// Once the store has all of that durably, call [`Replica::stored`].
    Began {
        /// The view.
        view: inconsistent::View,
        /// All transactions at or below this have ended: reads from now on name only higher
        /// versions.
        settled: Timestamp,
    },
    /// A copy is complete, and to be installed by earlier effects. Versions below the timestamp are
    /// missing. Once the store has all of it durably, call [`Replica::stored`].
    Copied(Timestamp),
    /// The log says that the copy is durable: the replica serves from now on.
    Serves,
}

/// The versions that a read returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadView {
    /// Those at a timestamp below which nothing is written any more, as a view of the shard's
    /// replicas knows it.
    Snapshot(Timestamp, inconsistent::View),
    /// Those at a timestamp at or below which all transactions have ended.
    Settled(Timestamp),
    /// The newest; everything at or below this timestamp is settled.
    Newest(Timestamp),
}

/// A read for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// The address to answer.
    pub to: Address,
    /// The request.
    pub id: OpId,
    /// The versions to return.
    pub view: ReadView,
    /// The range to read.
    pub range: KeyRange,
    /// Reads from the end of the range backwards.
    pub reverse: bool,
    /// The most rows to return.
    pub limit_rows: usize,
}

impl Serve {
    /// Returns the timestamp to read at.
    pub fn at(&self) -> Timestamp {
        match self.view {
            ReadView::Snapshot(at, _) | ReadView::Settled(at) => at,
            ReadView::Newest(_) => Timestamp::MAX,
        }
    }

    /// Makes the answer from the versions found.
    pub fn answer(&self, page: Page) -> Message {
        match self.view {
            ReadView::Snapshot(_, view) => {
                Message::Looked { id: self.id, page: Some(page), settled: false, view }
            }
            ReadView::Settled(_) => {
                // Settled versions are the same in all views.
                let view = inconsistent::View::default();
                Message::Looked { id: self.id, page: Some(page), settled: true, view }
            }
            ReadView::Newest(through) => Message::Found { id: self.id, page, through },
        }
    }
}

/// A replica of a shard.
pub struct Replica {
    operations: Operations,
    me: (NodeId, Incarnation),
    facts: u64,
    /// An upper bound of served snapshots, which the record contains or is about to.
    ceiling: Timestamp,
    truncation: TruncationPolicy,
    /// True if the timer for the check is armed.
    looks: bool,
    /// How many times there was enough to forget and no view change came.
    waited: usize,
    /// The copy of a new replica, until it is complete.
    copying: Option<Copying>,
    /// Reads to serve once the log is durable up to a position.
    waiting: VecDeque<(Position, Serve)>,
    durable: Position,
    /// How long prepares are delayed, in nanoseconds.
    wait_ns: u64,
    waits: Waits,
    turns: Turns,
}

fn own_id((node, incarnation): (NodeId, Incarnation), number: u64) -> OpId {
    OpId { node: node.0, incarnation: incarnation.0, number: OWN + number }
}

fn embed(effect: Do<Operations>) -> Option<Do<Replica>> {
    Some(match effect {
        Do::Send { to, message } => Do::Send { to, message: Message::Operation(message) },
        Do::SendBefore { deadline, to, message } => {
            Do::SendBefore { deadline, to, message: Message::Operation(message) }
        }
        Do::Arm { timer, at } => Do::Arm { timer: Timer::Operations(timer), at },
        Do::Disarm { timer } => Do::Disarm { timer: Timer::Operations(timer) },
        Do::Persist { position, record } => Do::Persist { position, record },
        Do::Do(effect) => Do::Do(effect),
    })
}

impl Replica {
    /// Makes a replica from its log records; without any, a new one. Returns `None` if this node is
    /// not one of the replicas, or their number is even. If `takes_over`, it copies the state of
    /// other replicas, unless its records say that it has a complete copy.
    pub fn new(
        config: Config,
        (incarnation, takes_over): (Incarnation, bool),
        shard: Shard,
        logged: Vec<LogRecord>,
        now: Reading,
        out: &mut Outbox<Self>,
    ) -> Option<Self> {
        let (me, durable) = ((config.me, incarnation), out.persisted());
        let facts = u64::from(config.members.epoch) << 32;
        let lacks = takes_over && LogRecord::goes_to(&logged).is_none();
        let own = local::schemas(config.shard.0);
        let began_at = Copying::began_at(&logged, config.members.epoch);
        let copying =
            lacks.then(|| Copying::of(vec![own, shard.participant().bounds().clone()], began_at));
        let shard = if lacks { shard.taking_over() } else { shard };
        let operations = out.lend(|out| Operations::new(config, shard, logged, now, out), embed)?;
        let view = operations.began();
        if view > inconsistent::View::default() {
            out.act(Effect::Began {
                view,
                settled: operations.application().participant().past().settled,
            });
        }
        let mut replica = Replica {
            operations,
            me,
            // If the node gets a replica again without a restart, this makes the numbers new.
            facts,
            ceiling: Timestamp::ZERO,
            truncation: TruncationPolicy::default(),
            looks: false,
            waited: 0,
            copying,
            waiting: VecDeque::new(),
            durable,
            wait_ns: 0,
            waits: Waits::default(),
            turns: Turns::default(),
        };
        replica.copy(now, out);
        Some(replica)
    }

    /// True while its copy is incomplete: it serves nothing, and reports nothing as durable.
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// Returns the records that replace all earlier ones after a restart. `None` while that is not
    /// possible.
    pub fn checkpoint(&self) -> Option<Vec<LogRecord>> {
        if self.is_copying() { None } else { self.operations.checkpoint() }
    }

    /// Changes the replicas.
    pub fn reconfigure(&mut self, now: Reading, members: ReplicaSet, out: &mut Outbox<Self>) {
        self.operate(now, out, |operations, out| operations.reconfigure(now, members, out));
    }

    /// Sets the policy for forgetting.
    pub fn truncation(self, truncation: TruncationPolicy) -> Self {
        Replica { truncation, ..self }
    }

    /// Delays prepares from now on, in nanoseconds, and executes them in the order of timestamps
    /// (§6.6). Zero disables the delay.
    pub fn wait(&mut self, wait_ns: u64) {
        self.wait_ns = wait_ns;
    }

    /// Sets the longest measured round trip to another replica, in nanoseconds. View changes wait
    /// at least that long.
    pub fn pace(&mut self, round_trip_ns: u64) {
        self.operations.pace(round_trip_ns);
    }

    /// The operations, with the current view.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Starts a view change: for replicas that missed something, or for operations that no session
    /// finishes.
    pub fn change_view(&mut self, now: Reading, out: &mut Outbox<Self>) {
        self.operate(now, out, |operations, out| operations.lead_view(now, out));
    }

    /// Notes that the store has everything durably that was to be installed when this view began,
    /// so that the record is not needed for it.
    pub fn stored(&mut self, view: inconsistent::View, position: u64, out: &mut Outbox<Self>) {
        if self.copying.as_ref().is_none_or(Copying::is_done) {
            out.lend(|out| self.operations.stored(view, position, out), embed);
        }
    }

    /// Closes timestamps that lie far enough behind, and starts a view change. That settles what
    /// was closed before, and forgets it if all replicas take part.
    pub fn close(&mut self, now: Reading, out: &mut Outbox<Self>) {
        let closed = self.closes(now);
        let knows_time = now.health == Health::Good;
        if closed > self.past().closed && knows_time && !self.operations.is_between_views() {
            self.note(now, InconsistentOp::Over(Past { closed, ..Past::default() }), out);
        }
        self.change_view(now, out);
    }

    /// Returns the settled timestamp: all transactions at or below it have ended, and reads name
    /// only higher versions.
    pub fn settled(&self) -> Timestamp {
        self.past().settled
    }

    fn past(&self) -> Past {
        self.operations.application().participant().past()
    }

    fn operate(
        &mut self,
        now: Reading,
        out: &mut Outbox<Self>,
        step: impl FnOnce(&mut Operations, &mut Outbox<Operations>),
    ) {
        let before = self.operations.began();
        out.lend(|out| step(&mut self.operations, out), embed);
        let view = self.operations.began();
        if view > before {
            out.act(Effect::Began { view, settled: self.settled() });
            self.copy(now, out);
        }
    }

    /// Requests the next page of a copy when a view has begun, or no answer came.
    fn copy(&mut self, now: Reading, out: &mut Outbox<Self>) {
        let (settled, members) = (self.settled(), self.operations.members());
        let (began, whole) = (self.operations.began(), self.operations.whole_since());
        let Some(copying) = self.copying.as_mut().filter(|_| began.epoch == members.epoch) else {
            return;
        };
        copying.begin(settled, whole == began);
        if copying.is_done() {
            return;
        }
        if copying.is_of_nothing() {
            return out.act(Effect::Copied(Timestamp::ZERO));
        }
        self.facts += 1;
        let id = own_id(self.me, self.facts);
        let all = members.replicas.union(&members.former).copied();
        let others: Vec<NodeId> = all.filter(|node| *node != self.me.0).collect();
        if let Some((to, message)) = copying.ask(id, &others) {
            out.send(self.operations.address(to), message);
        }
        out.arm(Timer::Copy, now.boot_ns + COPY_AGAIN_NS);
    }

    fn on_copied(&mut self, now: Reading, id: OpId, page: Page, out: &mut Outbox<Self>) {
        let copied = self.copying.as_mut().and_then(|copying| copying.take(id, page));
        let Some(Copied { versions, all }) = copied else { return };
        out.act(Effect::Adopt(versions));
        match all {
            Some(at) => {
                out.disarm(Timer::Copy);
                out.act(Effect::Copied(at));
            }
            None => self.copy(now, out),
        }
    }

    /// Begins to serve once the copy is durable, and the log says so.
    fn serve_from_now_on(&mut self, out: &mut Outbox<Self>) {
        let is_stored = self.operations.has_stored() > inconsistent::View::default();
        if self.copying.take_if(|copying| copying.is_done() && is_stored).is_some() {
            sometimes!("a replica that takes over has everything");
            out.act(Effect::Serves);
        }
    }

    /// Adds an operation of its own to the record.
    fn note(&mut self, now: Reading, fact: InconsistentOp, out: &mut Outbox<Self>) {
        self.facts += 1;
        let id = own_id(self.me, self.facts);
        always!(
            self.operations.record().get(&id).is_none(),
            "a fact of its own has a number of its own"
        );
        let (myself, said) = (self.operations.address(self.me.0), Said::Tell { id, op: fact });
        self.operate(now, out, |operations, out| operations.on_message(now, myself, said, out));
    }

    /// False for messages that no correct peer sends, which are dropped.
    fn may_be_meant(
        &self,
        now: Reading,
        said: &Said<InconsistentOp, ConsensusOp, ConsensusResult>,
    ) -> bool {
        let near = |at: Timestamp| at.nanos <= now.interval.latest.saturating_add(FARTHEST_NS);
        match said {
            // Settled outcomes are known, and perhaps forgotten.
            Said::Tell {
                op: InconsistentOp::Ended(End::Commit(Proposal { at, .. }) | End::Abort { at, .. }),
                ..
            } if *at <= self.settled() => false,
            // Any node may tell how a transaction ended. Only a replica itself adds the other
            // facts, and no node proposes facts.
            Said::Tell { op: InconsistentOp::Ended(End::Commit(proposal)), .. } => {
                near(proposal.at)
            }
            Said::Tell { op: InconsistentOp::Ended(End::Abort { at, .. }), .. } => near(*at),
            Said::Tell { op: InconsistentOp::Served(_) | InconsistentOp::Over(_), .. }
            | Said::Propose { op: Op::Inconsistent(_), .. } => false,
            Said::Propose { op: Op::Consensus(ConsensusOp::Prepare(proposal)), .. } => {
                near(proposal.at) && !proposal.is_name()
            }
            Said::Propose { op: Op::Consensus(ConsensusOp::Resolve { through, .. }), .. } => {
                near(*through)
            }
            Said::Finalize { id, result, .. } => {
                let known = self.operations.record().get(id).map(|entry| &entry.op);
                match (known, result) {
                    (Some(Op::Consensus(ConsensusOp::Prepare(_))), Some(answer)) => {
                        matches!(answer, ConsensusResult::Vote(_))
                    }
                    (Some(Op::Consensus(ConsensusOp::Resolve { .. })), Some(answer)) => {
                        matches!(answer, ConsensusResult::Stands(_))
                    }
                    (Some(_), _) => false,
                    (None, _) => true, // The replica requests the operation.
                }
            }
            _ => true,
        }
    }

    /// Replaces the name of a commit by the proposal that is prepared under it. Returns `None` if
    /// there is none; the message is then ignored.
    fn in_full(
        &self,
        said: Said<InconsistentOp, ConsensusOp, ConsensusResult>,
    ) -> Option<Said<InconsistentOp, ConsensusOp, ConsensusResult>> {
        match said {
            Said::Tell { id, op: InconsistentOp::Ended(End::Commit(name)) } if name.is_name() => {
                let prepared = self.operations.application().participant().prepared_as(&name);
                if prepared.is_none() {
                    sometimes!("a commit is told by a name that is not known");
                }
                prepared.map(|proposal| Said::Tell {
                    id,
                    op: InconsistentOp::Ended(End::Commit(proposal.clone())),
                })
            }
            said => Some(said),
        }
    }

    /// True if a node has a replica, or had one in the last epoch.
    fn is_known(&self, node: NodeId) -> bool {
        self.operations.members().has(node)
    }

    /// Returns the timestamp that could be closed now. It lies far enough behind by this replica's
    /// clock, and not above the newest commit, whose timestamp a quorum has accepted by other
    /// clocks. A replica whose clock is ahead would otherwise close the future, and every replica
    /// refuses closed timestamps for good.
    fn closes(&self, now: Reading) -> Timestamp {
        let behind =
            Timestamp::end_of(now.interval.earliest.saturating_sub(self.truncation.behind_ns));
        match broken(tapir_rules::CLOCKS_UNCAPPED) {
            true => behind,
            false => behind.min(self.operations.application().participant().committed()),
        }
    }

    /// Arms the timer for the next check, while operations arrive.
    fn watch(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if !self.looks {
            self.looks = true;
            out.arm(Timer::Over, now.boot_ns + self.truncation.every_ns);
        }
    }

    /// Delays a prepare, or returns the message if it is not delayed. A repeated prepare that was
    /// answered is answered again at once.
    fn hold(
        &mut self,
        now: Reading,
        proposed: Proposed,
        out: &mut Outbox<Self>,
    ) -> Option<Proposed> {
        let (
            _,
            Said::Propose {
                id, op: Op::Consensus(ConsensusOp::Prepare(Proposal { at, .. })), ..
            },
        ) = &proposed
        else {
            return Some(proposed);
        };
        if self.wait_ns == 0 || self.operations.record().get(id).is_some() {
            return Some(proposed);
        }
        let (before, until) = (self.waits.next(), now.boot_ns.saturating_add(self.wait_ns));
        let given_back = self.waits.hold((*at, *id), until, proposed);
        self.wake(before, out);
        given_back
    }

    /// Arms the timer for the first delayed prepare, unless it stands there: it stood at `before`.
    fn wake(&self, before: Option<u64>, out: &mut Outbox<Self>) {
        if let Some(next) = self.waits.next().filter(|next| Some(*next) != before) {
            out.arm(Timer::Earlier, next);
        }
    }

    fn go_on_in_order(&mut self, now: Reading, out: &mut Outbox<Self>) {
        for (from, said) in self.waits.take(now.boot_ns) {
            self.operate(now, out, |operations, out| operations.on_message(now, from, said, out));
        }
        self.wake(None, out);
    }

    /// Tells sessions that they have their turns.
    fn give(&self, turns: impl IntoIterator<Item = TurnRequest>, out: &mut Outbox<Self>) {
        turns.into_iter().for_each(|TurnRequest { from, question: id, .. }| {
            out.send(from, Message::HasTurn { id })
        });
    }

    /// Arms the timer for the first turn that ends, if it was not armed for that before.
    fn watch_turns(&self, before: Option<u64>, out: &mut Outbox<Self>) {
        match self.turns.next() {
            Some(next) if Some(next) != before => out.arm(Timer::Turn, next),
            None if before.is_some() => out.disarm(Timer::Turn),
            _ => {}
        }
    }

    fn on_turn(&mut self, now: Reading, from: Address, message: Message, out: &mut Outbox<Self>) {
        let (before, now) = (self.turns.next(), now.boot_ns);
        match message {
            Message::TakeTurn { id, request, key, holds_ns, waits, mut ranges } => {
                if ranges.is_empty() {
                    ranges.push(KeyRange::point(key));
                }
                let asked = TurnRequest { from, request, question: id, holds_ns, ranges };
                match self.turns.ask(now, asked) {
                    QueuePosition::Turn => out.send(from, Message::HasTurn { id }),
                    QueuePosition::Queued if !waits => out.send(from, Message::Queued { id }),
                    QueuePosition::Queued => {}
                }
            }
            Message::KeepTurn { request, holds_ns, .. } => self.turns.keep(now, request, holds_ns),
            Message::Leave { request, .. } => {
                let next = self.turns.leave(now, request);
                self.give(next, out);
            }
            _ => {}
        }
        self.watch_turns(before, out);
    }

    fn end_turns(&mut self, now: Reading, out: &mut Outbox<Self>) {
        let next = self.turns.expire(now.boot_ns);
        self.give(next, out);
        self.watch_turns(None, out);
    }

    fn look_back(&mut self, now: Reading, out: &mut Outbox<Self>) {
        self.looks = false;
        let (past, closes) = (self.past(), self.closes(now));
        let over = self.operations.record().iter().filter_map(|(_, entry)| match &entry.op {
            Op::Consensus(ConsensusOp::Prepare(Proposal { at, .. }))
            | Op::Inconsistent(InconsistentOp::Ended(
                End::Commit(Proposal { at, .. }) | End::Abort { at, .. },
            ))
            | Op::Consensus(ConsensusOp::Resolve { through: at, .. }) => {
                Some((*at, Shard::bytes(entry)))
            }
            Op::Inconsistent(InconsistentOp::Served(_) | InconsistentOp::Over(_)) => None,
        });
        // Entries that are closed and kept because a replica is away are carried by every view
        // change. So the check waits for as many new ones.
        let (mut logged, mut fresh) = (0, 0);
        for (at, bytes) in over.filter(|(at, _)| *at <= closes) {
            *if at <= past.closed { &mut logged } else { &mut fresh } += bytes;
        }
        if fresh < self.truncation.enough_bytes.max(logged) {
            self.waited = 0;
            return; // The next operation arms the timer again.
        }
        self.watch(now, out);
        if self.waited >= self.operations.turns_until_it_leads() {
            sometimes!("a replica sees to it that what is over is forgotten");
            self.waited = 0;
            return self.close(now, out);
        }
        self.waited += 1;
    }

    fn on_read(&self, serve: Serve, out: &mut Outbox<Self>) {
        let has_all = !self.is_copying() || broken(rules::SERVES_UNCOPIED);
        if has_all && self.operations.application().participant().has(&serve.range) {
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
            let view = self.operations.began();
            return out.send(
                serve.to,
                Message::Looked { id: serve.id, page: None, settled: false, view },
            );
        }
        if at > self.ceiling {
            self.ceiling = Timestamp::end_of(at.nanos.saturating_add(AHEAD_NS));
            self.note(now, InconsistentOp::Served(self.ceiling), out);
        }
        self.waiting.push_back((out.persisted(), serve));
        self.go_on(out);
    }

    fn go_on(&mut self, out: &mut Outbox<Self>) {
        while let Some((_, serve)) =
            self.waiting.pop_front_if(|(position, _)| *position <= self.durable)
        {
            out.act(Effect::Serve(serve));
        }
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
            Message::Operation(said) if !self.may_be_meant(now, &said) => {
                sometimes!("a message is dropped that no correct peer sends")
            }
            Message::Operation(said) => {
                let Some(said) = self.in_full(said) else { return };
                self.watch(now, out);
                let Some((from, said)) = self.hold(now, (from, said), out) else { return };
                self.operate(now, out, |operations, out| {
                    operations.on_message(now, from, said, out)
                });
            }
            // It was settled in a view that cannot be bypassed, so it stays settled whatever fails.
            Message::Look { id, at, range, reverse, limit_rows, .. }
                if at <= self.settled() || broken(rules::SERVES_UNSETTLED) =>
            {
                let (view, limit_rows) =
                    (ReadView::Settled(at), usize::try_from(limit_rows).unwrap_or(usize::MAX));
                self.on_read(Serve { to: from, id, view, range, reverse, limit_rows }, out);
            }
            // Between two views a replica does not know what the next one begins with.
            Message::Look { .. } if self.operations.is_between_views() || self.is_copying() => {}
            Message::Look { epoch, .. } if epoch != self.operations.began().epoch => {}
            Message::Copy { id, at, range, limit_rows }
                if at <= self.settled() && self.is_known(from.node) =>
            {
                let (view, limit_rows) =
                    (ReadView::Settled(at), usize::try_from(limit_rows).unwrap_or(usize::MAX));
                self.on_read(Serve { to: from, id, view, range, reverse: false, limit_rows }, out);
            }
            Message::Looked { id, page: Some(page), settled: true, .. }
                if self.is_known(from.node) =>
            {
                self.on_copied(now, id, page, out);
            }
            Message::TooOld { id, oldest } if self.is_known(from.node) => {
                self.copying.iter_mut().for_each(|copying| copying.too_old(id, oldest));
            }
            Message::Look { id, at, range, reverse, limit_rows, .. } => {
                let view = ReadView::Snapshot(at, self.operations.began());
                let limit_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
                self.on_look(
                    now,
                    at,
                    Serve { to: from, id, view, range, reverse, limit_rows },
                    out,
                );
            }
            Message::Read { id, range, reverse, limit_rows } => {
                let view = ReadView::Newest(self.settled());
                let limit_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
                self.on_read(Serve { to: from, id, view, range, reverse, limit_rows }, out);
            }
            message @ (Message::TakeTurn { .. }
            | Message::KeepTurn { .. }
            | Message::Leave { .. }) => {
                self.on_turn(now, from, message, out);
            }
            Message::Queued { .. } | Message::HasTurn { .. } => {}
            // These messages are for sessions, or are answers to a copy that was not requested of
            // this node.
            Message::Copy { .. }
            | Message::Looked { .. }
            | Message::Found { .. }
            | Message::TooOld { .. } => {}
        }
    }

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Operations(timer) => {
                self.operate(now, out, |operations, out| operations.on_timer(now, timer, out))
            }
            Timer::Over => self.look_back(now, out),
            Timer::Copy => self.copy(now, out),
            Timer::Earlier => self.go_on_in_order(now, out),
            Timer::Turn => self.end_turns(now, out),
        }
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        self.durable = self.durable.max(through);
        self.operate(now, out, |operations, out| operations.on_durable(now, through, out));
        self.serve_from_now_on(out);
        self.go_on(out);
    }
}
