//! A replica of a shard: operations, as inconsistent replication has them, and snapshots beside
//! them.
//!
//! What a snapshot is served below is refused from then on. Which ranges that were is in memory; up
//! to which timestamp at all is a fact in the record, said ahead so that not every read is a write.
//! So it comes to whoever merges a view, and outlives a restart.
//!
//! What is over is forgotten, so that neither the record nor memory grows without end (§6.2):
//!
//! ```text
//!   some replica, with enough behind it    Over { closed } into its own record, and a view change
//!   that view                              begins with it: nothing is said yes to there any more
//!   the next                               has whatever ever commits there, and says so: settled, up to who is prepared still
//!   … if all replicas are there            what every store has for good of that is not in the record any more
//! ```
//!
//! Each of these view changes does both: it closes a part, and settles what the one before has
//! closed. Who leads the shard's next view looks after that; the others do if it does not. A shard
//! that nobody asks is silent, and keeps its last few megabytes. Of a commit of several shards the
//! name stays, for ever so far: another shard may have to learn of it.

use super::copying::{Copied, Copying};
use super::turns::{Asked, Place, Turns};
use super::waits::{Proposed, Waits};
use super::{Kept, Message, Page, Shard};
use crate::tapir::rules;
use meridian_clock::Timestamp;
use meridian_machine::planted::broken;
use meridian_machine::{
    Address, Effect as Do, Health, Incarnation, Machine, NodeId, Outbox, Position, Reading, always,
    sometimes,
};
use meridian_mvcc::{KeyRange, Write, local};
use meridian_replication::inconsistent::{
    self, Application, Config, Members, Message as Said, Op, OpId,
};
use meridian_txn::tapir::rules as tapir_rules;
use meridian_txn::tapir::{Answer, End, Fact, Past, Proposal, Question};
use std::collections::VecDeque;

/// Snapshots are said to be served so far ahead of what was asked for. After a view change nobody
/// writes below that: who commits then waits as long at most.
const AHEAD_NS: u64 = 50_000_000;
/// A snapshot further in the future than this is not served: its reader's clock is wrong, or it
/// wants to keep others from writing.
const FAR_NS: u64 = 1_000_000_000;
/// Who recovers a transaction speaks of timestamps some seconds ahead; nobody of any further ahead
/// than this, which would be kept until then.
const FARTHEST_NS: u64 = 60_000_000_000;
/// Whoever has not sent a page of a copy after so long is not waited for.
const COPY_AGAIN_NS: u64 = 1_000_000_000;
/// Numbers of a replica's own facts begin here: sessions of its node do not come so far.
const OWN: u64 = 1 << 63;

type Operations = inconsistent::Replica<Shard>;

/// What a replica waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// What its operations wait for.
    Operations(inconsistent::Timer),
    /// To look whether enough is over.
    Over,
    /// For a page of a copy.
    Copy,
    /// For what has an earlier timestamp than what is to be prepared.
    Earlier,
    /// For a turn whose session does not leave.
    Turn,
}

/// When what is over is to be forgotten.
#[derive(Clone, Copy, Debug)]
pub struct Forgetting {
    /// So often is looked whether enough is over, while operations come.
    pub every_ns: u64,
    /// What is younger than this is not closed: it may still be proposed. Who proposes later
    /// proposes anew.
    pub behind_ns: u64,
    /// So much makes a view change worth it; an entry of a record counts for a kilobyte besides its
    /// keys and values.
    pub enough_bytes: usize,
}

impl Default for Forgetting {
    fn default() -> Self {
        Forgetting { every_ns: 5_000_000_000, behind_ns: 5_000_000_000, enough_bytes: 4 << 20 }
    }
}

/// What a replica asks of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put the versions of a commit into Recent. It may be asked for again after a crash; what is
    /// at or below the store's horizon then is there, or was collected, and does not come back.
    Install {
        /// The commit timestamp.
        at: Timestamp,
        /// The versions.
        writes: Vec<Write>,
    },
    /// Put versions that were copied from another replica into Recent, each with its timestamp: of
    /// a commit's they may be some.
    Adopt(Vec<(Timestamp, Write)>),
    /// Read this, and answer.
    Serve(Serve),
    /// A view has begun here, and what it began with was asked for to be installed before this.
    /// Once the store has all of that for good: [`Replica::stored`].
    Began {
        /// Which.
        view: inconsistent::View,
        /// Everything at or below has ended: whoever reads here from now on names only versions
        /// above.
        settled: Timestamp,
    },
    /// Everything is here that was copied from others, and asked for to be installed before this.
    /// What stood below the timestamp is not. Once the store has all of that for good:
    /// [`Replica::stored`].
    Copied(Timestamp),
    /// That is on disk: from now on it serves.
    Serves,
}

/// What a session wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What stands at a timestamp, below which nothing is written any more, as a view of the
    /// shard's replicas knows it.
    Snapshot(Timestamp, inconsistent::View),
    /// The same where everything has ended.
    Settled(Timestamp),
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
            View::Snapshot(at, _) | View::Settled(at) => at,
            View::Newest(_) => Timestamp::MAX,
        }
    }

    /// What the session is answered, for what was found.
    pub fn answer(&self, page: Page) -> Message {
        match self.view {
            View::Snapshot(_, view) => {
                Message::Looked { id: self.id, page: Some(page), settled: false, view }
            }
            View::Settled(_) => {
                // What is settled is the same in all of them.
                let view = inconsistent::View::default();
                Message::Looked { id: self.id, page: Some(page), settled: true, view }
            }
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
    forgetting: Forgetting,
    /// Its timer for that runs.
    looks: bool,
    /// So often enough was over, and nobody did anything.
    waited: usize,
    /// It takes over, and has not everything yet.
    copying: Option<Copying>,
    /// Served when that is on disk.
    waiting: VecDeque<(Position, Serve)>,
    durable: Position,
    /// So long what is to be prepared waits for what has an earlier timestamp.
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
    /// A replica with what was kept of it; nothing, at its birth. `None` where this node is not one
    /// of them, or their number is even. Whoever `takes_over` copies what others have, if it has
    /// not said in an earlier life that it has that for good.
    pub fn new(
        config: Config,
        (life, takes_over): (Incarnation, bool),
        shard: Shard,
        kept: Vec<Kept>,
        now: Reading,
        out: &mut Outbox<Self>,
    ) -> Option<Self> {
        let (me, durable) = ((config.me, life), out.persisted());
        let facts = u64::from(config.members.epoch) << 32;
        let lacks = takes_over && Kept::goes_to(&kept).is_none();
        let own = local::schemas(config.shard.0);
        let began_at = Copying::began_at(&kept, config.members.epoch);
        let copying =
            lacks.then(|| Copying::of(vec![own, shard.participant().bounds().clone()], began_at));
        let shard = if lacks { shard.taking_over() } else { shard };
        let operations = out.lend(|out| Operations::new(config, shard, kept, now, out), embed)?;
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
            // A node that has a replica again in the same life has said facts before.
            facts,
            ceiling: Timestamp::ZERO,
            forgetting: Forgetting::default(),
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

    /// Whether it takes over, and has not everything yet: it serves nothing, and has nothing for
    /// good.
    pub fn is_copying(&self) -> bool {
        self.copying.is_some()
    }

    /// Everything that stands for the next life, in place of all that was kept before. None while
    /// there is no such thing.
    pub fn checkpoint(&self) -> Option<Vec<Kept>> {
        if self.is_copying() { None } else { self.operations.checkpoint() }
    }

    /// Others take over, or this one does.
    pub fn reconfigure(&mut self, now: Reading, members: Members, out: &mut Outbox<Self>) {
        self.operate(now, out, |operations, out| operations.reconfigure(now, members, out));
    }

    /// The same, with another idea of when to forget.
    pub fn forgetting(self, forgetting: Forgetting) -> Self {
        Replica { forgetting, ..self }
    }

    /// What is to be prepared waits so long from now on, and is then looked at in the order of
    /// timestamps (§6.6); nothing waits, without a word.
    pub fn wait(&mut self, wait_ns: u64) {
        self.wait_ns = wait_ns;
    }

    /// The longest round trip to another replica was measured, in nanoseconds: views wait for at
    /// least as long.
    pub fn pace(&mut self, round_trip_ns: u64) {
        self.operations.pace(round_trip_ns);
    }

    /// What it has of operations, and in which view.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Asks for a view change: for who has missed something, or for operations that nobody
    /// finishes.
    pub fn change_view(&mut self, now: Reading, out: &mut Outbox<Self>) {
        self.operate(now, out, |operations, out| operations.lead_view(now, out));
    }

    /// Everything that was to be installed when this view began is in its store for good: it is
    /// there after whatever happens, without the record.
    pub fn stored(&mut self, view: inconsistent::View, position: u64, out: &mut Outbox<Self>) {
        if self.copying.as_ref().is_none_or(Copying::is_done) {
            out.lend(|out| self.operations.stored(view, position, out), embed);
        }
    }

    /// Closes what lies far enough behind, and asks for a view change: with that, what was closed
    /// before is settled, and forgotten if all replicas are there.
    pub fn close(&mut self, now: Reading, out: &mut Outbox<Self>) {
        let closed = self.closes(now);
        let knows_time = now.health == Health::Good;
        if closed > self.past().closed && knows_time && !self.operations.is_between_views() {
            self.note(now, Fact::Over(Past { closed, ..Past::default() }), out);
        }
        self.change_view(now, out);
    }

    /// Everything at or below has ended here: who reads names only versions above.
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

    /// A view has begun, or nobody has answered: asks for what is to be copied.
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

    /// What was copied is in the store for good, and it is on disk that it is.
    fn serve_from_now_on(&mut self, out: &mut Outbox<Self>) {
        let is_stored = self.operations.has_stored() > inconsistent::View::default();
        if self.copying.take_if(|copying| copying.is_done() && is_stored).is_some() {
            sometimes!("a replica that takes over has everything");
            out.act(Effect::Serves);
        }
    }

    /// Takes a fact of its own into the record.
    fn note(&mut self, now: Reading, fact: Fact, out: &mut Outbox<Self>) {
        self.facts += 1;
        let id = own_id(self.me, self.facts);
        always!(
            self.operations.record().get(&id).is_none(),
            "a fact of its own has a number of its own"
        );
        let (myself, said) = (self.operations.address(self.me.0), Said::Tell { id, op: fact });
        self.operate(now, out, |operations, out| operations.on_message(now, myself, said, out));
    }

    /// What else is said is dropped at the door.
    fn may_be_meant(&self, now: Reading, said: &Said<Fact, Question, Answer>) -> bool {
        let near = |at: Timestamp| at.nanos <= now.interval.latest.saturating_add(FARTHEST_NS);
        match said {
            // What is settled is known, and perhaps forgotten.
            Said::Tell {
                op: Fact::Ended(End::Commit(Proposal { at, .. }) | End::Abort { at, .. }),
                ..
            } if *at <= self.settled() => false,
            // How transactions end anybody tells; the rest a replica says to itself, and nobody
            // proposes facts.
            Said::Tell { op: Fact::Ended(End::Commit(proposal)), .. } => near(proposal.at),
            Said::Tell { op: Fact::Ended(End::Abort { at, .. }), .. } => near(*at),
            Said::Tell { op: Fact::Served(_) | Fact::Over(_), .. }
            | Said::Propose { op: Op::Inconsistent(_), .. } => false,
            Said::Propose { op: Op::Consensus(Question::Prepare(proposal)), .. } => {
                near(proposal.at) && !proposal.is_name()
            }
            Said::Propose { op: Op::Consensus(Question::Resolve { through, .. }), .. } => {
                near(*through)
            }
            Said::Finalize { id, result, .. } => {
                let known = self.operations.record().get(id).map(|entry| &entry.op);
                match (known, result) {
                    (Some(Op::Consensus(Question::Prepare(_))), Some(answer)) => {
                        matches!(answer, Answer::Vote(_))
                    }
                    (Some(Op::Consensus(Question::Resolve { .. })), Some(answer)) => {
                        matches!(answer, Answer::Stands(_))
                    }
                    (Some(_), _) => false,
                    (None, _) => true, // It is missing.
                }
            }
            _ => true,
        }
    }

    /// A commit that is told by its name is what is prepared under that. If nothing is, it is as if
    /// it had not been heard of.
    fn in_full(&self, said: Said<Fact, Question, Answer>) -> Option<Said<Fact, Question, Answer>> {
        match said {
            Said::Tell { id, op: Fact::Ended(End::Commit(name)) } if name.is_name() => {
                let prepared = self.operations.application().participant().prepared_as(&name);
                if prepared.is_none() {
                    sometimes!("a commit is told by a name that is not known");
                }
                prepared.map(|proposal| Said::Tell {
                    id,
                    op: Fact::Ended(End::Commit(proposal.clone())),
                })
            }
            said => Some(said),
        }
    }

    /// Whether a node has a replica, or had.
    fn is_known(&self, node: NodeId) -> bool {
        self.operations.members().has(node)
    }

    /// What could be closed by now: what lies far enough behind by this replica's clock, and not
    /// above the newest commit, whose timestamp a quorum has accepted by other clocks. A replica
    /// whose clock is ahead would close the future, and what is closed is refused by all, for good.
    fn closes(&self, now: Reading) -> Timestamp {
        let behind =
            Timestamp::end_of(now.interval.earliest.saturating_sub(self.forgetting.behind_ns));
        match broken(tapir_rules::CLOCKS_UNCAPPED) {
            true => behind,
            false => behind.min(self.operations.application().participant().committed()),
        }
    }

    /// As long as operations come, it is looked from time to time whether enough is over.
    fn watch(&mut self, now: Reading, out: &mut Outbox<Self>) {
        if !self.looks {
            self.looks = true;
            out.arm(Timer::Over, now.boot_ns + self.forgetting.every_ns);
        }
    }

    /// What is to be prepared is held, if it is to wait; the rest is given back. What was answered
    /// is answered again, and does not wait.
    fn hold(
        &mut self,
        now: Reading,
        proposed: Proposed,
        out: &mut Outbox<Self>,
    ) -> Option<Proposed> {
        let (
            _,
            Said::Propose { id, op: Op::Consensus(Question::Prepare(Proposal { at, .. })), .. },
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

    /// Its timer stood at `before`.
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

    /// Sessions have their turns from now on.
    fn give(&self, turns: impl IntoIterator<Item = Asked>, out: &mut Outbox<Self>) {
        turns
            .into_iter()
            .for_each(|Asked { from, question: id, .. }| out.send(from, Message::HasTurn { id }));
    }

    /// Arms the timer for the first turn that ends, if another one ended first before.
    fn watch_turns(&self, before: Option<u64>, out: &mut Outbox<Self>) {
        match self.turns.next() {
            Some(next) if Some(next) != before => out.arm(Timer::Turn, next),
            None if before.is_some() => out.disarm(Timer::Turn),
            _ => {}
        }
    }

    fn on_turn(&mut self, now: Reading, from: Address, message: Message, out: &mut Outbox<Self>) {
        let before = self.turns.next();
        match message {
            Message::TakeTurn { id, request, key, holds_ns, waits } => {
                match self.turns.ask(
                    now.boot_ns,
                    key,
                    Asked { from, request, question: id, holds_ns },
                ) {
                    Place::Turn => out.send(from, Message::HasTurn { id }),
                    Place::Queued if !waits => out.send(from, Message::Queued { id }),
                    Place::Queued => {}
                }
            }
            Message::KeepTurn { request, key, holds_ns } => {
                self.turns.keep(now.boot_ns, &key, request, holds_ns)
            }
            Message::Leave { request, key } => {
                let next = self.turns.leave(now.boot_ns, &key, request);
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
            Op::Consensus(Question::Prepare(Proposal { at, .. }))
            | Op::Inconsistent(Fact::Ended(
                End::Commit(Proposal { at, .. }) | End::Abort { at, .. },
            ))
            | Op::Consensus(Question::Resolve { through: at, .. }) => {
                Some((*at, Shard::bytes(entry)))
            }
            Op::Inconsistent(Fact::Served(_) | Fact::Over(_)) => None,
        });
        // What was over before and is kept, because somebody is away, every view change has to
        // carry: as much again is waited for.
        let (mut kept, mut fresh) = (0, 0);
        for (at, bytes) in over.filter(|(at, _)| *at <= closes) {
            *if at <= past.closed { &mut kept } else { &mut fresh } += bytes;
        }
        if fresh < self.forgetting.enough_bytes.max(kept) {
            self.waited = 0;
            return; // The next operation will have it looked at again.
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
            self.note(now, Fact::Served(self.ceiling), out);
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
            Message::Operation(said) if !self.may_be_meant(now, &said) => {
                sometimes!("nobody can have meant that")
            }
            Message::Operation(said) => {
                let Some(said) = self.in_full(said) else { return };
                self.watch(now, out);
                let Some((from, said)) = self.hold(now, (from, said), out) else { return };
                self.operate(now, out, |operations, out| {
                    operations.on_message(now, from, said, out)
                });
            }
            // It was settled in a view that cannot be bypassed: so it is whatever happens, and
            // whoever is away.
            Message::Look { id, at, range, reverse, limit_rows, .. }
                if at <= self.settled() || broken(rules::SERVES_UNSETTLED) =>
            {
                let (view, limit_rows) =
                    (View::Settled(at), usize::try_from(limit_rows).unwrap_or(usize::MAX));
                self.on_read(Serve { to: from, id, view, range, reverse, limit_rows }, out);
            }
            // What is between two views does not know what the next one begins with.
            Message::Look { .. } if self.operations.is_between_views() || self.is_copying() => {}
            Message::Look { epoch, .. } if epoch != self.operations.began().epoch => {}
            Message::Copy { id, at, range, limit_rows }
                if at <= self.settled() && self.is_known(from.node) =>
            {
                let (view, limit_rows) =
                    (View::Settled(at), usize::try_from(limit_rows).unwrap_or(usize::MAX));
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
                let view = View::Snapshot(at, self.operations.began());
                let limit_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
                self.on_look(
                    now,
                    at,
                    Serve { to: from, id, view, range, reverse, limit_rows },
                    out,
                );
            }
            Message::Read { id, range, reverse, limit_rows } => {
                let view = View::Newest(self.settled());
                let limit_rows = usize::try_from(limit_rows).unwrap_or(usize::MAX);
                self.on_read(Serve { to: from, id, view, range, reverse, limit_rows }, out);
            }
            message @ (Message::TakeTurn { .. }
            | Message::KeepTurn { .. }
            | Message::Leave { .. }) => {
                self.on_turn(now, from, message, out);
            }
            Message::Queued { .. } | Message::HasTurn { .. } => {}
            // Those are for sessions, and such a copy nobody has asked for who may.
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
