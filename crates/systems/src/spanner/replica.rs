//! One member: the switchboard between its group and, when it leads, the lock table.

use super::Agreed;
use meridian_clock::{Issuer, Reading, Timestamp};
use meridian_machine::{Address, Machine, NodeId, Outbox, Position};
use meridian_mvcc::{KeyRange, Write};
use meridian_replication::group::{self, Config, Entry, Event, Group, Index, Record, Restored, Term};
use meridian_txn::locking::{Ask, LockTable, Reply, Request, Ticket, TransactionId, Verdict};
use meridian_txn::{Conflict, Lock};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

/// What replicas and coordinators say to one another.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Message {
    /// Between members.
    #[n(0)]
    Group(#[n(0)] group::Message),
    /// From a coordinator.
    #[n(1)]
    Ask(#[n(0)] Request),
    /// To a coordinator.
    #[n(2)]
    Answer(#[n(0)] Reply),
}

/// What a replica waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The group's.
    Group(group::Timer),
    /// A commit timestamp has surely passed, or a lease reaches further.
    CommitWait,
    /// A look at transactions that are idle for too long.
    Idle,
}

/// What readers of this node may do by themselves: read at `through`, and check afterwards that `now.latest < until`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Everything at or below is visible, and nothing more will appear there.
    pub through: Timestamp,
    /// The end of the lease, nanoseconds since the epoch; 0 when this member does not lead.
    pub until: u64,
}

/// What a replica asks of its world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Put agreed versions into Recent, before anything that follows in the outbox.
    Install {
        /// The commit timestamp.
        at: Timestamp,
        /// The versions; none of a floor.
        writes: Vec<Write>,
        /// The entry's place in the log.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// Read, and answer with [`Reply::Rows`].
    Serve {
        /// Who asked.
        reply_to: Address,
        /// The question.
        id: u64,
        /// The leadership that answers.
        term: u64,
        /// The snapshot.
        at: Timestamp,
        /// What to read.
        range: KeyRange,
        /// From its end backwards.
        reverse: bool,
        /// At most so many rows.
        limit_rows: u32,
        /// The answer is true only if it leaves while `now.latest` is below this.
        deadline: Option<u64>,
    },
    /// Publish for readers of this node.
    Readable(Readable),
    /// Publish for whoever wants to ask: the leader that this member has heard of.
    Leader(Option<NodeId>),
    /// Send what is stored, at or above an entry, to a member that is too far behind.
    SendSnapshot {
        /// The member.
        to: NodeId,
        /// The entry.
        index: Index,
        /// Its term.
        term: Term,
    },
    /// An agreed entry cannot be read: this node must stop rather than diverge.
    Stop {
        /// Why.
        why: String,
    },
}

/// An attempt that asked this leadership something.
struct Live {
    /// Why it cannot go on, if it cannot.
    doomed: Option<Conflict>,
    /// Its newest question: what is older and arrives later is not answered.
    newest: u64,
}

struct Pending {
    from: Address,
    request: Request,
    /// Of a commit: how many of its keys are locked.
    locked: usize,
}

/// How many outcomes are remembered for requests that are repeated.
const OUTCOMES: usize = 10_000;
/// Attempts that are remembered although they hold nothing here.
const IDLE_ATTEMPTS: usize = 10_000;

/// A member of a database's group.
pub struct Replica {
    group: Group,
    me: NodeId,
    /// The newest timestamp in the log as far as it is agreed, and in it at all as far as this leader put it there.
    issuer: Issuer,
    /// The newest commit or floor that is agreed.
    agreed: Timestamp,
    visible: Timestamp,
    published: Readable,
    leader: Option<NodeId>,
    /// Leads, and everything that was agreed before it led has surely passed.
    serving: bool,
    locks: LockTable,
    /// The timer for idle transactions is armed.
    watching: bool,
    live: BTreeMap<TransactionId, Live>,
    /// Requests that wait for a lock.
    pending: BTreeMap<Ticket, Pending>,
    next_ticket: Ticket,
    /// Commits that hold their locks and wait for the lease to reach further.
    ready: VecDeque<Pending>,
    /// Proposed.
    agreeing: BTreeMap<Index, Pending>,
    /// Agreed; in commit wait. Timestamps grow.
    passing: VecDeque<(Timestamp, TransactionId, Option<(Address, u64)>)>,
    /// Snapshots that wait until everything at or below them is visible.
    snapshots: Vec<(Timestamp, Address, Request)>,
    /// Promised as snapshots; not agreed yet.
    floor: Timestamp,
    outcomes: BTreeMap<TransactionId, Timestamp>,
    /// The remembered outcomes and their terms, oldest first.
    remembered: VecDeque<(TransactionId, Term)>,
    /// Outcomes of this term and of earlier ones may be forgotten: who asks for one hears `Unknown`, never `Aborted`.
    forgotten: Term,
}

fn embed(
    effect: meridian_machine::Effect<Group>,
    events: &mut VecDeque<Event>,
) -> Option<meridian_machine::Effect<Replica>> {
    use meridian_machine::Effect as E;
    Some(match effect {
        E::Send { to, message } => E::Send { to, message: Message::Group(message) },
        E::SendBefore { deadline, to, message } => E::SendBefore { deadline, to, message: Message::Group(message) },
        E::Arm { timer, at } => E::Arm { timer: Timer::Group(timer), at },
        E::Disarm { timer } => E::Disarm { timer: Timer::Group(timer) },
        E::Persist { position, record } => E::Persist { position, record },
        E::Do(event) => {
            events.push_back(event);
            return None;
        }
    })
}

/// What a member's records leave of its log: the entry before the first, and the entries.
fn surviving(records: &[Record]) -> ((Index, Term), BTreeMap<Index, Entry>) {
    let (mut base, mut kept) = (<(Index, Term)>::default(), BTreeMap::new());
    for record in records {
        match record {
            Record::Standing { .. } => {}
            Record::Base { index, term } => (base, kept) = ((*index, *term), BTreeMap::new()),
            Record::Append { entries } => {
                if let Some(first) = entries.first() {
                    drop(kept.split_off(&first.index));
                }
                kept.extend(entries.iter().map(|entry| (entry.index, entry.clone())));
            }
        }
    }
    (base, kept)
}

/// The newest timestamp in a member's records, agreed or not.
pub fn newest(records: &[Record]) -> Timestamp {
    let entries = records.iter().flat_map(|record| match record {
        Record::Append { entries } => entries.as_slice(),
        Record::Standing { .. } | Record::Base { .. } => &[],
    });
    let at = |entry: &Entry| match Agreed::decode(&entry.payload) {
        Ok(Some(Agreed::Commit { at, .. } | Agreed::Floor { at })) => at,
        Ok(None) | Err(_) => Timestamp::ZERO,
    };
    entries.map(at).max().unwrap_or_default()
}

impl Replica {
    /// A member, new or restored. `agreed` is the newest commit timestamp that the world has stored.
    pub fn new(
        config: Config,
        seed: u64,
        restored: Restored,
        agreed: Timestamp,
        now: Reading,
        out: &mut Outbox<Replica>,
    ) -> Replica {
        let me = config.me;
        let applied = (restored.applied, restored.applied_term);
        let (base, kept) = surviving(&restored.records);
        let mut events = VecDeque::new();
        let group = out.lend(|out| Group::new(config, seed, restored, now, out), |e| embed(e, &mut events));
        assert!(events.is_empty(), "a member is told nothing at its birth");
        let mut replica = Replica {
            group,
            me,
            issuer: Issuer::above(me.0, agreed),
            agreed,
            visible: Timestamp::ZERO,
            published: Readable::default(),
            leader: None,
            serving: false,
            locks: LockTable::new(),
            watching: false,
            live: BTreeMap::new(),
            pending: BTreeMap::new(),
            next_ticket: 0,
            ready: VecDeque::new(),
            agreeing: BTreeMap::new(),
            passing: VecDeque::new(),
            snapshots: Vec::new(),
            floor: Timestamp::ZERO,
            outcomes: BTreeMap::new(),
            remembered: VecDeque::new(),
            forgotten: Term(0),
        };
        replica.recall(applied, base, &kept);
        replica
    }

    /// Learns again what applied entries that are still in the log have said. The group does not tell them a second time.
    fn recall(&mut self, applied: (Index, Term), base: (Index, Term), kept: &BTreeMap<Index, Entry>) {
        let mut next = Index(base.0.0 + 1);
        self.forgotten = base.1;
        for entry in kept.range(next..).map(|(_, entry)| entry) {
            if entry.index != next || next > applied.0 {
                break;
            }
            next.0 += 1;
            match Agreed::decode(&entry.payload) {
                Ok(Some(Agreed::Commit { at, transaction, .. })) => {
                    self.agreed = self.agreed.max(at);
                    self.remember(transaction, at, entry.term);
                }
                Ok(Some(Agreed::Floor { at })) => self.agreed = self.agreed.max(at),
                Ok(None) | Err(_) => {} // What cannot be read stopped the node when it was agreed on.
            }
        }
        if next <= applied.0 {
            self.forgotten = applied.1; // The store is ahead of what is left of the log.
        }
    }

    fn remember(&mut self, transaction: TransactionId, at: Timestamp, term: Term) {
        self.outcomes.insert(transaction, at);
        self.remembered.push_back((transaction, term));
        if self.remembered.len() > OUTCOMES
            && let Some((oldest, term)) = self.remembered.pop_front()
        {
            self.outcomes.remove(&oldest);
            self.forgotten = self.forgotten.max(term);
        }
    }

    /// The group, to look at.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The lock table, to look at.
    pub fn locks(&self) -> &LockTable {
        &self.locks
    }

    /// Whether it leads and serves.
    pub fn is_serving(&self) -> bool {
        self.serving
    }

    /// Gives up leadership as soon as every timestamp that was used has surely passed, and what is under way is decided. What is asked from
    /// now on is sent to another.
    pub fn abdicate(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        self.with_group(now, out, |group, out| group.abdicate(now, out));
        self.finish(now, out);
    }

    /// Lets the group do something of its own (compact, abdicate, install a snapshot), then goes on.
    pub fn with_group<R>(
        &mut self,
        now: Reading,
        out: &mut Outbox<Replica>,
        step: impl FnOnce(&mut Group, &mut Outbox<Group>) -> R,
    ) -> R {
        let mut events = VecDeque::new();
        let group = &mut self.group;
        let result = out.lend(|out| step(group, out), |effect| embed(effect, &mut events));
        for event in events {
            self.on_event(now, event, out);
        }
        result
    }

    /// A snapshot through an entry was stored; the newest commit in it.
    pub fn snapshot_installed(
        &mut self,
        now: Reading,
        index: Index,
        term: Term,
        agreed: Timestamp,
        out: &mut Outbox<Replica>,
    ) {
        self.agreed = self.agreed.max(agreed);
        self.forgotten = self.forgotten.max(term);
        self.with_group(now, out, |group, out| group.install_snapshot(now, index, term, out));
        self.finish(now, out);
    }

    // ------------------------------------------------------------------------------------------------------ requests

    fn on_ask(&mut self, now: Reading, from: Address, request: Request, out: &mut Outbox<Replica>) {
        let id = request.id;
        if !self.serving || !self.group.is_leader() {
            let leader = self.group.leader().filter(|leader| *leader != self.me).map(|node| node.0);
            return out.send(from, Message::Answer(Reply::NotLeader { id, leader }));
        }
        let transaction = request.transaction;
        match &request.ask {
            Ask::Abort => {
                self.live.remove(&transaction);
                self.forget(now, transaction, out);
            }
            Ask::Snapshot { at, .. } => {
                let at = match at {
                    None => self.visible,
                    Some(at) => *at,
                };
                if at.nanos > now.interval.latest && at > self.visible {
                    // To promise the future would push every commit's timestamp, and its wait, out to there.
                    return out.send(from, Message::Answer(Reply::Unknown { id }));
                }
                if at > self.floor.max(self.issuer.last()).max(self.agreed) {
                    self.floor = at;
                    self.issuer.observe(at);
                    self.group.use_timestamp(at.nanos);
                    self.propose(&Agreed::Floor { at });
                }
                self.snapshots.push((at, from, request));
            }
            Ask::KeepAlive => self.locks.touch(now.boot_ns, transaction),
            Ask::Read { .. } | Ask::Commit { .. } if self.repeats(now, from, &request, out) => {
                self.locks.touch(now.boot_ns, transaction);
            }
            Ask::Read { range, lock, .. } => {
                let (range, lock) = (range.clone(), *lock);
                if self.admit(from, &request, out) {
                    self.acquire(now, Pending { from, request, locked: 0 }, range, lock, out);
                }
            }
            Ask::Commit { .. } => {
                if let Some(at) = self.outcomes.get(&transaction).copied() {
                    // A repeated request: answered like the first, once that has passed (Trap A.5-11).
                    match self.passing.iter_mut().find(|(_, passing, _)| *passing == transaction) {
                        Some((_, _, asked)) => *asked = Some((from, id)),
                        None => out.send(from, Message::Answer(Reply::Committed { id, at })),
                    }
                    return;
                }
                // One that names no leadership cannot be told from its own echo: gateways name one always.
                let strange = !self.live.contains_key(&transaction);
                if strange && request.term.is_some_and(|term| term <= self.forgotten.0) {
                    return out.send(from, Message::Answer(Reply::Unknown { id }));
                }
                if self.admit(from, &request, out) {
                    self.lock_writes(now, Pending { from, request, locked: 0 }, out);
                }
            }
        }
    }

    /// Whether the same question is under way already: then its answer goes to the repeated one. What the attempt asked before
    /// and still waits for is withdrawn.
    fn repeats(&mut self, now: Reading, from: Address, request: &Request, out: &mut Outbox<Replica>) -> bool {
        if self.live.get(&request.transaction).is_some_and(|live| request.id < live.newest) {
            return true;
        }
        let same = |pending: &Pending| pending.request.transaction == request.transaction;
        let under_way = self.agreeing.values_mut().chain(&mut self.ready).chain(self.pending.values_mut());
        for pending in under_way.filter(|pending| same(pending)) {
            if pending.request.ask == request.ask {
                (pending.from, pending.request.id) = (from, request.id);
                out.send(from, Message::Answer(Reply::Waiting { id: request.id }));
                return true;
            }
        }
        let before = self.pending.len();
        self.pending.retain(|_, pending| !same(pending));
        if self.pending.len() < before {
            let verdicts = self.locks.withdraw(request.transaction);
            self.judge(now, verdicts, out);
        }
        false
    }

    /// Whether the attempt may go on here; if not, it is told why.
    fn admit(&mut self, from: Address, request: &Request, out: &mut Outbox<Replica>) -> bool {
        let newest = request.id;
        let why = match (request.term, self.live.get_mut(&request.transaction)) {
            (Some(term), _) if term != self.group.term().0 => Some(Conflict::LeaderChanged),
            (Some(_), None) => Some(Conflict::Expired),
            (None, None) => {
                self.live.insert(request.transaction, Live { doomed: None, newest });
                None
            }
            (_, Some(live)) => {
                live.newest = newest;
                live.doomed.clone()
            }
        };
        if let Some(why) = why {
            out.send(from, Message::Answer(Reply::Aborted { id: request.id, why }));
            return false;
        }
        true
    }

    /// Locks a commit's keys one after the other; a loop, because there may be millions.
    fn lock_writes(&mut self, now: Reading, mut pending: Pending, out: &mut Outbox<Replica>) {
        let (who, age) = (pending.request.transaction, pending.request.age);
        let Ask::Commit { writes } = &pending.request.ask else { unreachable!("only commits lock writes") };
        while let Some(write) = writes.get(pending.locked) {
            let range = KeyRange::point(write.key.clone());
            self.next_ticket += 1;
            let ticket = self.next_ticket;
            let verdicts = self.locks.acquire(now.boot_ns, who, age, range, Lock::Exclusive, ticket);
            if verdicts != [Verdict::Granted(ticket)] {
                return self.wait(now, ticket, pending, verdicts, out);
            }
            pending.locked += 1;
        }
        let leads = self.group.lease().is_some_and(|lease| now.interval.latest < lease.granted_until);
        if pending.locked == 0 && leads {
            // It only read. Its locks were held under one lease from its first read to now, so that all it saw is
            // what stood at `visible`: nothing has to be agreed on.
            let (id, at) = (pending.request.id, self.visible);
            out.send(pending.from, Message::Answer(Reply::Committed { id, at }));
            self.live.remove(&who);
            return self.forget(now, who, out);
        }
        self.locks.committing(who);
        self.ready.push_back(pending);
    }

    fn acquire(&mut self, now: Reading, pending: Pending, range: KeyRange, lock: Lock, out: &mut Outbox<Replica>) {
        self.next_ticket += 1;
        let (ticket, who, age) = (self.next_ticket, pending.request.transaction, pending.request.age);
        let verdicts = self.locks.acquire(now.boot_ns, who, age, range, lock, ticket);
        self.wait(now, ticket, pending, verdicts, out);
    }

    /// Notes who asked for a lock, and does what the table says.
    fn wait(
        &mut self,
        now: Reading,
        ticket: Ticket,
        pending: Pending,
        verdicts: Vec<Verdict>,
        out: &mut Outbox<Replica>,
    ) {
        let who = pending.request.transaction;
        self.pending.insert(ticket, pending);
        let own = |verdict: &Verdict| matches!(verdict, Verdict::Victim(victim, None, _) if *victim == who);
        if let Some(Verdict::Victim(_, _, why)) = verdicts.iter().find(|verdict| own(verdict)) {
            let verdict = Verdict::Victim(who, Some(ticket), why.clone());
            return self.judge(now, vec![verdict], out);
        }
        self.judge(now, verdicts, out);
    }

    fn judge(&mut self, now: Reading, verdicts: Vec<Verdict>, out: &mut Outbox<Replica>) {
        for verdict in verdicts {
            match verdict {
                Verdict::Granted(ticket) => {
                    let mut pending = self.pending.remove(&ticket).expect("who is granted something asked for it");
                    match &pending.request.ask {
                        Ask::Read { .. } => self.serve(pending.from, &pending.request, Timestamp::MAX, None, out),
                        _ => {
                            pending.locked += 1;
                            self.lock_writes(now, pending, out);
                        }
                    }
                }
                Verdict::Victim(victim, ticket, why) => {
                    if let Some(live) = self.live.get_mut(&victim) {
                        live.doomed = Some(why.clone());
                    }
                    if let Some(pending) = ticket.and_then(|ticket| self.pending.remove(&ticket)) {
                        let id = pending.request.id;
                        out.send(pending.from, Message::Answer(Reply::Aborted { id, why }));
                    }
                    self.forget(now, victim, out);
                }
            }
        }
    }

    /// Gives up an attempt's locks, unless it is committing: then its outcome decides.
    fn forget(&mut self, now: Reading, transaction: TransactionId, out: &mut Outbox<Replica>) {
        let committing = self.agreeing.values().chain(&self.ready).any(|p| p.request.transaction == transaction)
            || self.passing.iter().any(|(_, passing, _)| *passing == transaction);
        if !committing {
            self.pending.retain(|_, pending| pending.request.transaction != transaction);
            let verdicts = self.locks.release(transaction);
            self.judge(now, verdicts, out);
        }
    }

    fn serve(&self, to: Address, request: &Request, at: Timestamp, deadline: Option<u64>, out: &mut Outbox<Replica>) {
        let (Ask::Read { range, reverse, limit_rows, .. } | Ask::Snapshot { range, reverse, limit_rows, .. }) =
            &request.ask
        else {
            unreachable!("only reads are served")
        };
        out.act(Effect::Serve {
            reply_to: to,
            id: request.id,
            term: self.group.term().0,
            at,
            range: range.clone(),
            reverse: *reverse,
            limit_rows: *limit_rows,
            deadline,
        });
    }

    // ------------------------------------------------------------------------------------------------------ commits

    fn propose(&mut self, agreed: &Agreed) -> Option<Index> {
        self.group.propose(agreed.encode()).ok().map(|(_, index)| index)
    }

    /// Draws timestamps for commits that hold their locks: timestamp and place in the log in one step (Trap A.5-4).
    fn draw(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        while let Some(pending) = self.ready.pop_front() {
            let end = self.group.lease().map_or(0, |lease| lease.granted_until);
            self.issuer.raise_ceiling(end.saturating_sub(1));
            // The log is the persisted ceiling: whatever is issued stands in it, and a new leader starts above it.
            let Ok(at) = self.issuer.issue(now.interval.latest) else {
                self.ready.push_front(pending);
                out.arm(Timer::CommitWait, now.boot_ns + 10_000_000);
                return;
            };
            self.group.use_timestamp(at.nanos);
            let Ask::Commit { writes } = &pending.request.ask else { unreachable!("only commits are ready") };
            let transaction = pending.request.transaction;
            match self.propose(&Agreed::Commit { at, transaction, writes: writes.clone() }) {
                Some(index) => drop(self.agreeing.insert(index, pending)),
                None => self.ready.push_front(pending),
            }
            if !self.serving {
                return;
            }
        }
    }

    fn on_event(&mut self, now: Reading, event: Event, out: &mut Outbox<Replica>) {
        match event {
            Event::Committed { entries } => entries.into_iter().for_each(|entry| self.on_agreed(entry, out)),
            Event::BecameLeader { .. } => {
                self.issuer = Issuer::above(self.me.0, self.agreed);
                self.group.use_timestamp(self.agreed.nanos);
            }
            Event::LostLeadership { .. } => self.step_down(out),
            Event::SendSnapshot { to, index, term } => out.act(Effect::SendSnapshot { to, index, term }),
        }
        let _ = now;
    }

    fn on_agreed(&mut self, entry: Entry, out: &mut Outbox<Replica>) {
        match Agreed::decode(&entry.payload) {
            Ok(None) => {}
            Ok(Some(Agreed::Floor { at })) => {
                // An install of nothing: the promise moves to the store with the position, and outlives the log.
                self.agreed = self.agreed.max(at);
                out.act(Effect::Install { at, writes: Vec::new(), index: entry.index, term: entry.term });
            }
            Ok(Some(Agreed::Commit { at, transaction, writes })) => {
                assert!(at > self.agreed, "I4: timestamps grow in the order of the log");
                self.agreed = at;
                out.act(Effect::Install { at, writes, index: entry.index, term: entry.term });
                self.remember(transaction, at, entry.term);
                let asked = self.agreeing.remove(&entry.index).map(|pending| (pending.from, pending.request.id));
                self.passing.push_back((at, transaction, asked));
            }
            Err(damaged) => out.act(Effect::Stop { why: format!("entry {}: {}", entry.index, damaged.0) }),
        }
    }

    fn step_down(&mut self, out: &mut Outbox<Replica>) {
        self.serving = false;
        let mut tell = |pending: Pending, reply: fn(u64) -> Reply| {
            out.send(pending.from, Message::Answer(reply(pending.request.id)));
        };
        let aborted = |id| Reply::Aborted { id, why: Conflict::LeaderChanged };
        std::mem::take(&mut self.pending).into_values().for_each(|pending| tell(pending, aborted));
        std::mem::take(&mut self.ready).into_iter().for_each(|pending| tell(pending, aborted));
        std::mem::take(&mut self.agreeing).into_values().for_each(|pending| tell(pending, |id| Reply::Unknown { id }));
        for (_, from, request) in std::mem::take(&mut self.snapshots) {
            let reply = Reply::NotLeader { id: request.id, leader: self.group.leader().map(|node| node.0) };
            out.send(from, Message::Answer(reply));
        }
        self.locks = LockTable::new();
        self.live.clear();
        self.floor = Timestamp::ZERO;
    }

    /// The end of every step: what may be shown is shown, what may be drawn is drawn, what was gathered leaves.
    fn finish(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        // What is answered leaves after the slot shows it: who reads next on this node must find it (real time).
        let mut answers = Vec::new();
        while let Some((at, transaction, _)) = self.passing.front().cloned() {
            if !now.interval.after(at.nanos) {
                break;
            }
            let (_, _, asked) = self.passing.pop_front().expect("just seen");
            self.visible = self.visible.max(at);
            if let Some((from, id)) = asked {
                assert!(now.interval.after(at.nanos), "I3: commit wait");
                answers.push((from, Reply::Committed { id, at }));
            }
            self.live.remove(&transaction);
            let verdicts = self.locks.release(transaction);
            self.judge(now, verdicts, out);
        }
        if self.group.is_leader() && !self.serving && self.passing.is_empty() && now.interval.after(self.agreed.nanos) {
            self.serving = true;
            self.visible = self.agreed;
        }
        if self.group.is_leader() && !self.serving {
            let left = self.agreed.nanos.saturating_sub(now.interval.earliest) + 1;
            out.arm(Timer::CommitWait, now.boot_ns + left);
        }
        if self.serving && self.group.is_leader() {
            self.draw(now, out); // not while it gives up: each new timestamp would put that off
        }
        self.with_group(now, out, |group, out| group.flush(now, out));
        self.show_snapshots(now, out);
        if let Some((at, _, _)) = self.passing.front() {
            let left = at.nanos.saturating_sub(now.interval.earliest) + 1;
            out.arm(Timer::CommitWait, now.boot_ns + left);
        }
        if !self.watching && !self.locks.is_empty() {
            self.watching = true;
            out.arm(Timer::Idle, now.boot_ns + LockTable::IDLE_NS / 2);
        }
        let lease = self.group.lease().filter(|_| self.serving).map_or(0, |lease| lease.granted_until);
        let readable = Readable { through: self.visible, until: lease };
        if readable != self.published {
            self.published = readable;
            out.act(Effect::Readable(readable));
        }
        if self.leader != self.group.leader() {
            self.leader = self.group.leader();
            out.act(Effect::Leader(self.leader));
        }
        answers.into_iter().for_each(|(to, reply)| out.send(to, Message::Answer(reply)));
    }

    fn show_snapshots(&mut self, now: Reading, out: &mut Outbox<Replica>) {
        let until = self.group.lease().map_or(0, |lease| lease.granted_until);
        if !self.serving || self.snapshots.is_empty() || now.interval.latest >= until {
            return;
        }
        // The oldest commit that is not visible yet, proposed or in commit wait, holds back everything from it on.
        let drawn = self.agreeing.is_empty() && self.passing.is_empty();
        let safe = |at: Timestamp| at <= self.visible || (drawn && at <= self.agreed);
        let (now_safe, wait) = std::mem::take(&mut self.snapshots).into_iter().partition(|(at, _, _)| safe(*at));
        self.snapshots = wait;
        let now_safe: Vec<(Timestamp, Address, Request)> = now_safe;
        for (at, from, request) in now_safe {
            self.group.use_timestamp(at.nanos);
            self.serve(from, &request, at, Some(until), out);
        }
    }
}

impl Machine for Replica {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Effect = Effect;

    fn on_message(&mut self, now: Reading, from: Address, message: Message, out: &mut Outbox<Self>) {
        match message {
            Message::Group(message) => {
                self.with_group(now, out, |group, out| group.on_message(now, from, message, out));
            }
            Message::Ask(request) => self.on_ask(now, from, request, out),
            Message::Answer(_) => return, // Meant for a coordinator.
        }
        self.finish(now, out);
    }

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::Group(timer) => self.with_group(now, out, |group, out| group.on_timer(now, timer, out)),
            Timer::CommitWait => {}
            Timer::Idle => {
                let victims = self.locks.idle_victims(now.boot_ns);
                self.judge(now, victims, out);
                if self.live.len() > IDLE_ATTEMPTS {
                    // Victims whose sessions never came back. Should one come yet, it hears `Expired`.
                    self.live.retain(|_, live| live.doomed.is_none());
                }
                self.watching = false;
            }
        }
        self.finish(now, out);
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        self.with_group(now, out, |group, out| group.on_durable(now, through, out));
        self.finish(now, out);
    }
}
