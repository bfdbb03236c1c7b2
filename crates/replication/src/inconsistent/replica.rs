//! A replica of inconsistent replication, and its answers.

use super::parts::Arriving;
use super::views::Gathered;
use super::{
    Application, Entry, Ledger, LogRecord, Message, Op, OpId, RecordOf, ReplicaSet, State, View,
};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{
    Address, DatabaseId, Machine, NodeId, Outbox, Position, Reading, ShardId, sometimes, step,
};
use std::collections::{BTreeMap, VecDeque};

/// The maximum distance by which a message's view may be ahead: views rise one by one.
const FARTHEST_AHEAD: u64 = 1 << 32;

/// The settings of a replica.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica's node.
    pub me: NodeId,
    /// The replicas of the epoch, this one included, as far as is known.
    pub members: ReplicaSet,
    /// The database.
    pub database: DatabaseId,
    /// The shard.
    pub shard: ShardId,
    /// The interval at which view change messages are repeated, in nanoseconds.
    pub repeat_ns: u64,
    /// The time after which a view that has not begun is given up for the next one, in nanoseconds.
    pub view_timeout_ns: u64,
    /// The time that a view's leader with enough records waits for the other ones, in nanoseconds.
    pub gather_ns: u64,
    /// The maximum size of one part of a record, in bytes. A part has at least one operation.
    pub part_bytes: usize,
}

/// The timers of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Repeats messages that may have been lost.
    Repeat,
    /// The view has not begun in time.
    View,
    /// The view's leader stops waiting for further records.
    Gather,
}

/// A replica of a shard, around an application.
#[derive(Clone)]
pub struct Replica<A: Application> {
    pub(super) config: Config,
    pub(super) application: A,
    pub(super) ledger: Ledger<A>,
    /// The view that it is in, or is to begin. It answers nothing in earlier ones.
    pub(super) view: View,
    /// The newest view that has begun here; equal to `view` except between two views.
    pub(super) began: View,
    /// The number of views in a row for which this replica left and that have not begun before it
    /// left for another one.
    pub(super) not_begun: u32,
    /// The newest view of which the host has durably stored everything that it began with.
    pub(super) stored: View,
    /// The value of `stored` that was written last, and the position of the host's store. It counts
    /// once it is on disk.
    noted: (View, u64),
    /// The newest view that began here with a whole record. Its branch of views may lack what an
    /// earlier view had, and `stored` of before refers to the former branch.
    pub(super) whole_since: View,
    /// As the leader of a view that is to begin: the complete records, and the parts that have
    /// arrived.
    pub(super) gathered: Gathered<A>,
    pub(super) arriving: BTreeMap<NodeId, Arriving<A>>,
    /// The parts of a record with which a view is to begin here.
    pub(super) beginning: Option<(View, Arriving<A>)>,
    /// As the leader of a view that has begun: the replicas that are not known to have it.
    pub(super) unsent: Vec<NodeId>,
    /// True if it has requested, from the other replicas, a view that has begun without it.
    pub(super) asks: bool,
    /// The last measured longest round trip to another replica, in nanoseconds.
    round_trip_ns: u64,
    /// The actions that follow once the records before are on disk.
    waiting: VecDeque<(Position, Then<A>)>,
    durable: Position,
}

pub(super) type MessageOf<A> = Message<
    <A as Application>::Inconsistent,
    <A as Application>::Consensus,
    <A as Application>::Result,
>;
pub(super) type LogRecordOf<A> = LogRecord<
    <A as Application>::Inconsistent,
    <A as Application>::Consensus,
    <A as Application>::Result,
>;

#[derive(Clone)]
pub(super) enum Then<A: Application> {
    /// Sends an answer, as long as its view lasts.
    Answer(Address, View, MessageOf<A>),
    /// This replica has left the views before.
    Left(View),
    /// The view has begun here.
    Began(View),
    /// The host has durably stored what the view began with.
    Stored(View),
}

impl<A: Application> Replica<A> {
    /// Creates a replica from its records on disk, of which a new one has none. Returns `None` if
    /// this node is no replica of the epoch, if the number of replicas is even, or if it has been
    /// in a later epoch.
    pub fn new(
        config: Config,
        application: A,
        logged: Vec<LogRecordOf<A>>,
        now: Reading,
        out: &mut Outbox<Self>,
    ) -> Option<Self> {
        if config.members.enough().is_none() || !config.members.has(config.me) {
            return None;
        }
        let mut replica = Replica {
            application,
            ledger: Ledger::default(),
            view: View::default(),
            began: View::default(),
            not_begun: 0,
            stored: View::default(),
            noted: (View::default(), 0),
            whole_since: View::default(),
            gathered: Gathered::<A>::new(),
            arriving: BTreeMap::new(),
            beginning: None,
            unsent: Vec::new(),
            asks: false,
            round_trip_ns: 0,
            waiting: VecDeque::new(),
            durable: out.persisted(),
            config,
        };
        logged.into_iter().for_each(|logged| replica.replay(logged));
        if replica.view.epoch > replica.config.members.epoch {
            return None; // It does not know the other replicas of that epoch.
        }
        let mut effects = Vec::new();
        replica.application.sync(now, &replica.finalized(), &mut effects);
        replica.answer_again(now, &mut effects);
        effects.into_iter().for_each(|effect| out.act(effect));
        let first = View { epoch: replica.config.members.epoch, number: 0 };
        if replica.view < first {
            replica.leave_for(now, first, out);
        } else if replica.is_between_views() {
            replica.wait_for_view(now, out);
            replica.then(Then::Left(replica.view), out);
        } else if replica.leader_of(replica.began) == replica.config.me
            && replica.began > View::default()
        {
            replica.unsent = replica.others();
            out.arm(Timer::Repeat, now.boot_ns);
        }
        Some(replica)
    }

    fn replay(&mut self, logged: LogRecordOf<A>) {
        match logged {
            LogRecord::Proposed { id, op, result } => {
                self.ledger.add(id, op, State::Tentative(result))
            }
            LogRecord::Finalized { id, result } => self.ledger.finalize(id, result),
            LogRecord::Told { id, op } => {
                self.ledger.add(id, Op::Inconsistent(op), State::Finalized(None))
            }
            LogRecord::Left { view } => self.view = view,
            LogRecord::Stored { view, position } => {
                (self.stored, self.noted) = (view, (view, position))
            }
            LogRecord::Began { view, upon, mut changes, decided } => {
                (self.view, self.began) = (self.view.max(view), view);
                for (id, result) in decided {
                    let op = self.ledger.since().get(&id).map(|entry| entry.op.clone());
                    let entry = op.map(|op| Entry {
                        op,
                        state: State::Finalized(result),
                        merged: Some(view),
                    });
                    changes.insert(id, entry);
                }
                self.ledger.begin(upon, changes);
                if upon.is_none() {
                    self.begins_whole(view);
                }
            }
        }
    }

    /// Begins a view with a whole record. `stored` begins anew.
    pub(super) fn begins_whole(&mut self, view: View) {
        self.whole_since = view;
        (self.stored, self.noted.0) = (View::default(), View::default());
    }

    /// Restores this replica's undecided answers: they stand, whatever it would answer now.
    fn answer_again(&mut self, now: Reading, effects: &mut Vec<A::Effect>) {
        let open = |(id, entry): (&OpId, &Entry<_, A::Consensus, A::Result>)| match (
            &entry.op,
            &entry.state,
        ) {
            (Op::Consensus(op), State::Tentative(Some(result))) => {
                Some((*id, op.clone(), result.clone()))
            }
            _ => None,
        };
        let open: Vec<(OpId, A::Consensus, A::Result)> =
            self.ledger.since().iter().filter_map(open).collect();
        self.application.recall(now, &open, effects);
    }

    /// Returns the records that replace all former ones; later records follow them. `None` while a
    /// view change is being written.
    pub fn checkpoint(&self) -> Option<Vec<LogRecordOf<A>>> {
        if self.is_changing() {
            return None;
        }
        let whole = self.ledger.began().iter().map(|(id, entry)| (*id, Some(entry.clone())));
        let (changes, decided) = (whole.collect(), Vec::new());
        let mut all = vec![LogRecord::Began { view: self.began, upon: None, changes, decided }];
        for (id, Entry { op, state, .. }) in self.ledger.since() {
            let (id, op) = (*id, op.clone());
            match (op, state) {
                (Op::Inconsistent(op), State::Finalized(_)) => all.push(LogRecord::Told { id, op }),
                (op, State::Tentative(result)) => {
                    all.push(LogRecord::Proposed { id, op, result: result.clone() })
                }
                (op, State::Finalized(result)) => {
                    let result = result.clone();
                    all.push(LogRecord::Proposed { id, op, result: result.clone() });
                    all.push(LogRecord::Finalized { id, result });
                }
            }
        }
        all.extend(self.is_between_views().then_some(LogRecord::Left { view: self.view }));
        let (view, position) = self.noted;
        all.extend(
            (position > 0 || view > View::default())
                .then_some(LogRecord::Stored { view, position }),
        );
        Some(all)
    }

    /// Records that the host has durably stored everything that a view began with, so that it
    /// survives a restart without the record. Only such entries are forgotten.
    pub fn stored(&mut self, view: View, position: u64, out: &mut Outbox<Self>) {
        let view = view.min(self.began);
        if view > self.noted.0 && view >= self.whole_since {
            self.noted = (view, position);
            self.keep(LogRecord::Stored { view, position }, out);
            self.then(Then::Stored(view), out);
        }
    }

    /// Returns the newest view of which that is recorded on disk.
    pub fn has_stored(&self) -> View {
        self.stored
    }

    /// Sets the measured longest round trip to another replica, in nanoseconds. Every timeout of
    /// the replica is at least as long as answers take.
    pub fn pace(&mut self, round_trip_ns: u64) {
        self.round_trip_ns = round_trip_ns;
    }

    /// Returns the interval at which view change messages are repeated, in nanoseconds.
    pub(super) fn repeat_ns(&self) -> u64 {
        self.config.repeat_ns.max(2 * self.round_trip_ns)
    }

    /// Returns the time after which the first of several views that do not begin is given up, in
    /// nanoseconds: a view change takes two round trips, and its leader waits one more.
    pub(super) fn view_timeout_ns(&self) -> u64 {
        self.config.view_timeout_ns.max(6 * self.round_trip_ns)
    }

    /// Returns the time that a view's leader with enough records waits for the other ones, in
    /// nanoseconds.
    pub(super) fn gather_ns(&self) -> u64 {
        self.config.gather_ns.max(self.round_trip_ns)
    }

    /// Returns the newest view that began here with a whole record. It need not descend from those
    /// before.
    pub fn whole_since(&self) -> View {
        self.whole_since
    }

    /// Returns the application.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Returns the application, for calls that are no operations.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }

    /// Returns the replica's record.
    pub fn record(&self) -> &Ledger<A> {
        &self.ledger
    }

    /// Returns the view that it is in, or is to begin.
    pub fn view(&self) -> View {
        self.view
    }

    /// Returns the newest view that has begun here.
    pub fn began(&self) -> View {
        self.began
    }

    /// True if it answers nothing because a view is to begin.
    pub fn is_between_views(&self) -> bool {
        self.view > self.began
    }

    /// Returns a replica's address.
    pub fn address(&self, node: NodeId) -> Address {
        Address::replica(node, self.config.database, self.config.shard)
    }

    /// Adopts the members of a later epoch, which take over. A replica of either epoch leaves for
    /// the epoch's first view, unless it has left for a later one before a restart.
    pub fn reconfigure(&mut self, now: Reading, members: ReplicaSet, out: &mut Outbox<Self>) {
        let is_later = members.epoch > self.config.members.epoch && members.enough().is_some();
        if is_later && members.has(self.config.me) {
            step!("replica: leaves for another epoch");
            self.config.members = members;
            let first = View { epoch: self.config.members.epoch, number: 0 };
            if self.view < first {
                self.leave_for(now, first, out);
            }
        }
    }

    /// Returns the replicas of the newest known epoch.
    pub fn members(&self) -> &ReplicaSet {
        &self.config.members
    }

    /// Returns the other replicas that take part in the view change: those of the epoch and, until
    /// it has begun here, the former ones.
    pub(super) fn others(&self) -> Vec<NodeId> {
        let ReplicaSet { epoch, replicas, former } = &self.config.members;
        let former =
            former.iter().filter(|node| self.began.epoch < *epoch && !replicas.contains(node));
        replicas.iter().chain(former).copied().filter(|node| *node != self.config.me).collect()
    }

    /// Returns the operations whose group result is known.
    pub(super) fn finalized(&self) -> RecordOf<A> {
        let known = self.ledger.iter().filter(|(_, entry)| entry.state.is_final());
        known.map(|(id, entry)| (*id, entry.clone())).collect()
    }

    pub(super) fn keep(&mut self, logged: LogRecordOf<A>, out: &mut Outbox<Self>) {
        out.persist(logged);
    }

    /// Performs an action as soon as everything that was written so far is on disk.
    pub(super) fn then(&mut self, then: Then<A>, out: &mut Outbox<Self>) {
        self.waiting.push_back((out.persisted(), then));
        self.go_on(out);
    }

    /// True while the change to this view is being written: until then no message names the view.
    pub(super) fn is_changing(&self) -> bool {
        self.waiting.iter().any(|(_, then)| matches!(then, Then::Left(_) | Then::Began(_)))
    }

    fn answer(&mut self, to: Address, message: MessageOf<A>, out: &mut Outbox<Self>) {
        if broken(rules::REPLIES_BEFORE_DURABLE) {
            return out.send(to, message);
        }
        self.then(Then::Answer(to, self.view, message), out);
    }

    fn on_propose(
        &mut self,
        now: Reading,
        from: Address,
        id: OpId,
        op: Op<A::Inconsistent, A::Consensus>,
        out: &mut Outbox<Self>,
    ) {
        let state = match self.ledger.get(&id) {
            Some(known) => {
                sometimes!("something is proposed again");
                known.state.clone()
            }
            None => {
                let mut effects = Vec::new();
                let result = match &op {
                    Op::Inconsistent(_) => None,
                    Op::Consensus(op) => Some(self.application.answer(now, id, op, &mut effects)),
                };
                effects.into_iter().for_each(|effect| out.act(effect));
                step!("replica: writes down what is proposed");
                let state = State::Tentative(result.clone());
                self.ledger.add(id, op.clone(), state.clone());
                self.keep(LogRecord::Proposed { id, op, result }, out);
                state
            }
        };
        self.answer(from, Message::Reply { id, view: self.view, state }, out);
    }

    fn on_finalize(
        &mut self,
        now: Reading,
        from: Address,
        id: OpId,
        result: Option<A::Result>,
        decided: View,
        out: &mut Outbox<Self>,
    ) {
        let view = self.view;
        let Some(entry) = self.ledger.get(&id) else {
            sometimes!("a result is told of what was never proposed here");
            return out.send(from, Message::Missing { id, view });
        };
        if matches!(entry.op, Op::Consensus(_)) != result.is_some() {
            return; // Such an operation has no such result.
        }
        match &entry.state {
            // The present view began without an operation that a quorum had answered in that view:
            // it was decided since, and is forgotten.
            State::Tentative(_)
                if result.is_some() && decided < view && !broken(rules::OLD_DECISIONS_COUNT) =>
            {
                sometimes!("a result is told that was decided in an earlier view");
                let state = entry.state.clone();
                self.answer(from, Message::Reply { id, view, state }, out);
            }
            State::Tentative(_) => {
                let mut effects = Vec::new();
                if let Op::Inconsistent(op) = &entry.op {
                    self.application.execute(now, id, op, &mut effects);
                }
                self.ledger.finalize(id, result.clone());
                effects.into_iter().for_each(|effect| out.act(effect));
                step!("replica: writes down a result");
                self.keep(LogRecord::Finalized { id, result }, out);
                self.answer(from, Message::Confirm { id, view }, out);
            }
            State::Finalized(known) if *known == result => {
                self.answer(from, Message::Confirm { id, view }, out)
            }
            State::Finalized(_) => {
                sometimes!("a view began with another result than a client decided on");
                let state = entry.state.clone();
                self.answer(from, Message::Reply { id, view, state }, out);
            }
        }
    }

    fn on_tell(&mut self, now: Reading, id: OpId, op: A::Inconsistent, out: &mut Outbox<Self>) {
        let known = self.ledger.get(&id);
        if known.is_some_and(|entry| entry.state.is_final() || matches!(entry.op, Op::Consensus(_)))
        {
            return;
        }
        let mut effects = Vec::new();
        self.application.execute(now, id, &op, &mut effects);
        effects.into_iter().for_each(|effect| out.act(effect));
        step!("replica: writes down what it is told");
        self.ledger.add(id, Op::Inconsistent(op.clone()), State::Finalized(None));
        self.keep(LogRecord::Told { id, op }, out);
    }

    fn go_on(&mut self, out: &mut Outbox<Self>) {
        while let Some((_, then)) =
            self.waiting.pop_front_if(|(position, _)| *position <= self.durable)
        {
            match then {
                Then::Answer(to, view, message) => {
                    if view == self.view && !self.is_between_views() {
                        out.send(to, message);
                    }
                }
                Then::Left(view) => self.on_left(view, out),
                Then::Began(view) => self.on_began(view, out),
                Then::Stored(view) if view < self.whole_since => {}
                Then::Stored(view) => self.stored = self.stored.max(view),
            }
        }
    }
}

impl<A: Application> Machine for Replica<A> {
    type Message = MessageOf<A>;
    type Timer = Timer;
    type Record = LogRecordOf<A>;
    type Effect = A::Effect;

    fn on_message(
        &mut self,
        now: Reading,
        from: Address,
        message: MessageOf<A>,
        out: &mut Outbox<Self>,
    ) {
        match message {
            Message::Propose { .. } | Message::Finalize { .. } | Message::Renew { .. }
                if self.is_between_views() =>
            {
                sometimes!("a replica between two views is silent");
            }
            Message::Propose { id, op, newest } => {
                self.ask_for_view(now, newest, out);
                self.on_propose(now, from, id, op, out);
            }
            Message::Finalize { id, result, newest, decided } => {
                self.ask_for_view(now, newest, out);
                self.on_finalize(now, from, id, result, decided, out);
            }
            // A fact is accepted between two views too: the replica carries it into the next one.
            Message::Tell { id, op } => self.on_tell(now, id, op, out),
            Message::Renew { view } => {
                if view >= self.began && !self.is_changing() {
                    self.lead_view(now, out);
                }
            }
            _ if !self.config.members.has(from.node) || from.node == self.config.me => {}
            Message::LeaveView { view }
            | Message::Change { view, .. }
            | Message::StartView { view, .. }
                if view.epoch > self.config.members.epoch =>
            {
                sometimes!("a peer knows of a later epoch than a replica");
            }
            Message::LeaveView { view }
            | Message::Change { view, .. }
            | Message::StartView { view, .. }
                if view.number > self.view.number.saturating_add(FARTHEST_AHEAD) => {}
            Message::LeaveView { view } => self.on_leave_view(now, from, view, out),
            Message::Change { view, last, part, stored } => {
                self.on_change(now, from, view, (last, stored, part), out)
            }
            Message::StartView { view, part } => self.on_start_view(now, from, view, part, out),
            Message::More { view, upon, from: next } => {
                self.on_more(now, from, view, (upon, next), out)
            }
            Message::Started { view } => {
                if view == self.began {
                    self.unsent.retain(|node| *node != from.node);
                }
            }
            // These are for clients.
            Message::Reply { .. } | Message::Confirm { .. } | Message::Missing { .. } => {}
        }
    }

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Repeat => self.repeat(now, out),
            Timer::View if self.is_between_views() => {
                sometimes!("a view does not begin in time");
                self.leave_for(now, self.view.next(), out);
            }
            Timer::View => {}
            Timer::Gather => self.merge(now, out),
        }
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        self.durable = self.durable.max(through);
        let said = self.gathered.contains_key(&self.config.me);
        self.go_on(out);
        if !said && self.gathered.contains_key(&self.config.me) {
            self.gather(now, out);
        }
    }
}
