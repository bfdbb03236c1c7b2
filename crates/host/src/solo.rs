//! A leader without a group: strict two-phase locking on a node that is alone.
//!
//! What a database of one node needs of the spanner recipe and no more: lock, read, buffer, persist, install, answer. There is no
//! agreement (the node's own log is the group) and no lease (nobody else could lead). It is a [`Machine`] like any replica, so
//! the host treats it like one; a cluster of several nodes needs the recipe's own replica instead.
//!
//! ```text
//!   acquire ──▶ granted | waits (wound-wait by age)
//!   commit  ──▶ exclusive locks on all writes ──▶ timestamp ──▶ persist ──▶ durable ──▶ install ──▶ unlock ──▶ commit wait ──▶ answer
//! ```
//!
//! Invariants:
//! 1. Commit timestamps grow in the order of the log, are at least the clock's latest (Spanner §4.1.2), and stay above every
//!    timestamp at which a read was served, also after a restart (a persisted floor).
//! 2. A write is installed before its locks are released: a lock released before its write can be read is a lost update.
//! 3. An outcome is answered only after its record is durable and its timestamp has surely passed (commit wait, §4.1.2).
//! 4. `through` is the newest installed commit; everything at or below it is installed, and nothing will appear there any more.
//! 5. Only an older transaction makes a younger one give way, so no cycle of waits lasts (wound-wait, §4.2.1): the victim aborts
//!    where it waits, or would wait, or when it has been idle for a second.

use crate::rendezvous::Answerer;
use meridian_clock::{Issuer, Reading, Timestamp};
use meridian_machine::{Address, Machine, Outbox, Position};
use meridian_mvcc::{Key, KeyRange, Write};
use meridian_txn::{Age, Conflict, Failure, Lock, Outcome};
use minicbor::{Decode, Encode};
use std::collections::{BTreeMap, VecDeque};

const IDLE_NS: u64 = 1_000_000_000;
/// How far ahead of a served snapshot the floor is kept: a restart within this time makes the first commits wait as long.
const FLOOR_AHEAD_NS: u64 = 250_000_000;

/// One commit, as the log keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Commit {
    /// Grows by one with each commit.
    #[n(0)]
    pub number: u64,
    /// The commit timestamp.
    #[n(1)]
    pub at: Timestamp,
    /// What it wrote.
    #[n(2)]
    pub writes: Vec<Write>,
}

/// What the log keeps.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Record {
    /// A transaction committed.
    #[n(0)]
    Commit(#[n(0)] Commit),
    /// No timestamp up to these nanoseconds is issued by a later life.
    #[n(1)]
    Floor(#[n(0)] u64),
    /// Everything up to a number is in the store; these commits may not be.
    #[n(2)]
    Checkpoint {
        /// See `Floor`.
        #[n(0)]
        floor: u64,
        /// The commits that the store may not hold.
        #[n(1)]
        tail: Vec<Commit>,
        /// The newest commit's number.
        #[n(2)]
        number: u64,
        /// The newest installed commit's timestamp.
        #[n(3)]
        installed: Timestamp,
    },
}

/// What the machine asks of its world.
pub enum Act {
    /// Make a commit readable; then `through` is its timestamp.
    Install(Commit),
    /// Give the caller his answer.
    Grant(Answerer<Result<(), Failure>>, Result<(), Failure>),
    /// Tell the session its outcome.
    Finish(Answerer<Outcome>, Outcome),
}

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A commit timestamp has passed.
    CommitWait,
    /// A wounded transaction has been idle for too long.
    Idle(u64),
}

#[derive(Clone, Debug)]
struct Held {
    range: KeyRange,
    lock: Lock,
    owner: u64,
}

enum Wanted {
    Lock(KeyRange, Lock, Answerer<Result<(), Failure>>),
    Commit(Vec<Write>, Answerer<Outcome>),
}

impl Wanted {
    /// Whether it clashes with a lock on a range.
    fn wants(&self, range: &KeyRange, lock: Lock) -> bool {
        match self {
            Wanted::Lock(wanted, mode, _) => {
                (lock == Lock::Exclusive || *mode == Lock::Exclusive) && wanted.overlaps(range)
            }
            Wanted::Commit(writes, _) => writes.iter().any(|write| range.contains(&write.key)),
        }
    }
}

struct Attempt {
    age: Age,
    points: Vec<Key>,
    wounded: Option<Conflict>,
    waits: Option<Wanted>,
    committing: bool,
    last_seen: u64,
}

/// The machine.
pub struct Solo {
    issuer: Issuer,
    floor: u64,
    number: u64,
    points: BTreeMap<Key, Vec<(u64, Lock)>>,
    ranges: Vec<Held>,
    attempts: BTreeMap<u64, Attempt>,
    /// Who waits, oldest first.
    waiting: BTreeMap<Age, u64>,
    /// Persisted, not yet durable.
    pending: VecDeque<(Position, u64, Commit, Answerer<Outcome>)>,
    /// Durable and installed, not yet surely past.
    passing: VecDeque<(Timestamp, Answerer<Outcome>)>,
    /// Snapshots that wait for what is pending at or below them.
    snapshots: Vec<(Position, Timestamp, Answerer<Result<(), Failure>>)>,
    /// Commits that the store's last checkpoint may not hold.
    tail: VecDeque<Commit>,
    installed: Timestamp,
}

impl Solo {
    /// A machine as its records left it. The commits that the store does not hold (beyond `applied`) are returned, to be installed.
    pub fn born(node: u32, applied: u64, records: impl IntoIterator<Item = Record>) -> (Self, Vec<Commit>) {
        let (mut floor, mut number, mut through, mut installed) = (0, applied, Timestamp::ZERO, Timestamp::ZERO);
        // By number: a checkpoint's tail may begin before the records that happen to be left of older segments.
        let mut tail = BTreeMap::new();
        let mut take = |commit: Commit, number: &mut u64, floor: &mut u64| {
            (*number, *floor) = (commit.number.max(*number), commit.at.nanos.max(*floor));
            installed = installed.max(commit.at);
            if commit.number > applied {
                tail.insert(commit.number, commit);
            }
        };
        for record in records {
            match record {
                Record::Commit(commit) => take(commit, &mut number, &mut floor),
                Record::Floor(nanos) => floor = floor.max(nanos),
                Record::Checkpoint { floor: nanos, tail, number: newest, installed } => {
                    floor = floor.max(nanos);
                    number = number.max(newest);
                    through = through.max(installed);
                    for commit in tail {
                        take(commit, &mut number, &mut floor);
                    }
                }
            }
        }
        let tail: VecDeque<Commit> = tail.into_values().collect();
        let installs = tail.iter().cloned().collect();
        let mut issuer = Issuer::above(node, Timestamp::end_of(floor));
        issuer.raise_ceiling(u64::MAX); // its floor is kept by the commits themselves and by `Floor`: see `snapshot`
        let solo = Solo {
            issuer,
            floor,
            number,
            points: BTreeMap::new(),
            ranges: Vec::new(),
            attempts: BTreeMap::new(),
            waiting: BTreeMap::new(),
            pending: VecDeque::new(),
            passing: VecDeque::new(),
            snapshots: Vec::new(),
            tail,
            installed: installed.max(through),
        };
        (solo, installs)
    }

    /// Everything at or below this is installed.
    pub fn through(&self) -> Timestamp {
        self.installed
    }

    /// The store holds everything up to `applied` for good: what a checkpoint says, to be logged before anything later.
    pub fn checkpoint(&mut self, applied: u64) -> Record {
        while self.tail.front().is_some_and(|commit| commit.number <= applied) {
            self.tail.pop_front();
        }
        let floor = self.floor.max(self.issuer.last().nanos);
        Record::Checkpoint {
            floor,
            tail: self.tail.iter().cloned().collect(),
            number: self.number,
            installed: self.installed,
        }
    }

    /// Wants a lock for a transaction.
    #[allow(clippy::too_many_arguments)]
    pub fn acquire(
        &mut self,
        now: Reading,
        txn: u64,
        age: Age,
        range: KeyRange,
        lock: Lock,
        answer: Answerer<Result<(), Failure>>,
        out: &mut Outbox<Self>,
    ) {
        self.want(now, txn, age, Wanted::Lock(range, lock, answer), out);
    }

    /// Commits a transaction's writes.
    pub fn commit(
        &mut self,
        now: Reading,
        txn: u64,
        age: Age,
        writes: Vec<Write>,
        answer: Answerer<Outcome>,
        out: &mut Outbox<Self>,
    ) {
        self.want(now, txn, age, Wanted::Commit(writes, answer), out);
    }

    /// The session went away, or asked for it.
    pub fn abort(&mut self, now: Reading, txn: u64, out: &mut Outbox<Self>) {
        if self.attempts.get(&txn).is_some_and(|attempt| !attempt.committing) {
            self.end(txn, Some(Conflict::RolledBack), out);
            self.attempts.remove(&txn);
            self.serve_waiting(now, out);
        }
    }

    /// Answers once a snapshot at this timestamp can be read and stays as it is.
    pub fn snapshot(
        &mut self,
        now: Reading,
        at: Timestamp,
        answer: Answerer<Result<(), Failure>>,
        out: &mut Outbox<Self>,
    ) {
        if at <= self.installed {
            return out.act(Act::Grant(answer, Ok(())));
        }
        if at.nanos > now.interval.latest {
            return out.act(Act::Grant(answer, Err(Failure::InFuture { now: now.interval })));
        }
        self.issuer.observe(at);
        if at.nanos > self.floor {
            self.floor = at.nanos.saturating_add(FLOOR_AHEAD_NS);
            let position = out.persist(Record::Floor(self.floor));
            self.snapshots.push((position, at, answer));
        } else {
            match self.pending.back() {
                None => out.act(Act::Grant(answer, Ok(()))),
                Some((position, ..)) => self.snapshots.push((*position, at, answer)),
            }
        }
    }

    /// The node ends: whoever still waits hears that nobody will answer (a commit's outcome is then unknown to its session).
    pub fn close(&mut self) {
        self.pending.clear();
        self.passing.clear();
        self.snapshots.clear();
        self.attempts.clear();
        self.waiting.clear();
        self.points.clear();
        self.ranges.clear();
    }

    fn want(&mut self, now: Reading, txn: u64, age: Age, wanted: Wanted, out: &mut Outbox<Self>) {
        let fresh = || Attempt {
            age,
            points: Vec::new(),
            wounded: None,
            waits: None,
            committing: false,
            last_seen: now.boot_ns,
        };
        let attempt = self.attempts.entry(txn).or_insert_with(fresh);
        attempt.last_seen = now.boot_ns;
        if attempt.committing {
            return refuse(wanted, Conflict::RolledBack, out);
        }
        // A wait that its session gave up (a cancelled statement) is replaced; whoever answers it finds nobody.
        attempt.waits = Some(wanted);
        self.waiting.remove(&age);
        self.try_grant(now, txn, out);
    }

    /// Grants what a transaction waits for, or wounds who stands in its way.
    fn try_grant(&mut self, now: Reading, txn: u64, out: &mut Outbox<Self>) {
        let Some(attempt) = self.attempts.get(&txn) else { return };
        let (age, wounded) = (attempt.age, attempt.wounded.clone());
        let Some(wanted) = &attempt.waits else { return };
        let needs: Vec<(KeyRange, Lock)> = match wanted {
            Wanted::Lock(range, lock, _) => vec![(range.clone(), *lock)],
            Wanted::Commit(writes, _) => {
                writes.iter().map(|write| (KeyRange::point(write.key.clone()), Lock::Exclusive)).collect()
            }
        };
        // A victim whose locks were taken away can do nothing any more.
        if matches!(wounded, Some(Conflict::Expired)) {
            return self.give_up(now, txn, Conflict::Expired, out);
        }
        // Queues are ordered by age: nobody overtakes an older transaction that waits for the same.
        let behind = self.waiting.range(..age).any(|(_, older)| {
            let Some(Attempt { waits: Some(waits), .. }) = self.attempts.get(older) else { return false };
            needs.iter().any(|(range, lock)| waits.wants(range, *lock))
        });
        if behind {
            if let Some(why) = wounded {
                return self.give_up(now, txn, why, out);
            }
            self.waiting.insert(age, txn);
            return;
        }
        let mut blockers = Vec::new();
        for (range, lock) in &needs {
            self.blockers(txn, range, *lock, &mut blockers);
            if blockers.is_empty() {
                self.hold(txn, range.clone(), *lock);
            } else {
                break;
            }
        }
        if blockers.is_empty() {
            self.waiting.remove(&age);
            let Some(attempt) = self.attempts.get_mut(&txn) else { return };
            match attempt.waits.take() {
                Some(Wanted::Lock(_, _, answer)) => out.act(Act::Grant(answer, Ok(()))),
                Some(Wanted::Commit(writes, answer)) => {
                    attempt.committing = true;
                    self.decide(now, txn, writes, answer, out);
                }
                None => {}
            }
            return;
        }
        if let Some(why) = wounded {
            return self.give_up(now, txn, why, out);
        }
        self.waiting.insert(age, txn);
        let mut victims = Vec::new();
        for (blocker, key) in blockers {
            let Some(other) = self.attempts.get_mut(&blocker) else { continue };
            if other.age > age && !other.committing && other.wounded.is_none() {
                let why = Conflict::Wounded { by: age, key };
                other.wounded = Some(why.clone());
                if other.waits.is_some() {
                    victims.push((blocker, why));
                } else {
                    out.arm(Timer::Idle(blocker), other.last_seen + IDLE_NS);
                }
            }
        }
        for (victim, why) in victims {
            self.give_up(now, victim, why, out);
        }
    }

    fn blockers(&self, txn: u64, range: &KeyRange, lock: Lock, found: &mut Vec<(u64, Key)>) {
        let clashes = |owner: u64, held: Lock| owner != txn && (lock == Lock::Exclusive || held == Lock::Exclusive);
        let mut look = |key: &Key, holders: &Vec<(u64, Lock)>| {
            found.extend(holders.iter().filter(|(o, l)| clashes(*o, *l)).map(|(owner, _)| (*owner, key.clone())));
        };
        if let Some(key) = range.as_point() {
            if let Some(holders) = self.points.get(key) {
                look(key, holders);
            }
        } else if !range.is_empty() {
            let from = (
                std::ops::Bound::Included(&range.start),
                match &range.end {
                    Some(end) => std::ops::Bound::Excluded(end),
                    None => std::ops::Bound::Unbounded,
                },
            );
            for (key, holders) in self.points.range::<Key, _>(from) {
                look(key, holders);
            }
        }
        for held in &self.ranges {
            if clashes(held.owner, held.lock) && held.range.overlaps(range) {
                found.push((held.owner, held.range.start.clone()));
            }
        }
    }

    fn hold(&mut self, txn: u64, range: KeyRange, lock: Lock) {
        let Some(attempt) = self.attempts.get_mut(&txn) else { return };
        if let Some(key) = range.as_point() {
            let holders = self.points.entry(key.clone()).or_default();
            match holders.iter_mut().find(|(owner, _)| *owner == txn) {
                Some((_, held)) => *held = lock.max(*held),
                None => {
                    holders.push((txn, lock));
                    attempt.points.push(key.clone());
                }
            }
        } else if !range.is_empty()
            && !self.ranges.iter().any(|held| held.owner == txn && held.range == range && held.lock >= lock)
        {
            self.ranges.push(Held { range, lock, owner: txn });
        }
    }

    fn decide(
        &mut self,
        now: Reading,
        txn: u64,
        writes: Vec<Write>,
        answer: Answerer<Outcome>,
        out: &mut Outbox<Self>,
    ) {
        if writes.is_empty() {
            let at = self.installed;
            out.act(Act::Finish(answer, Outcome::Committed { at }));
            self.end(txn, None, out);
            self.attempts.remove(&txn);
            return self.serve_waiting(now, out);
        }
        let at = self.issuer.issue(now.interval.latest).expect("invariant: the ceiling is the end of time");
        self.number += 1;
        let commit = Commit { number: self.number, at, writes };
        let position = out.persist(Record::Commit(commit.clone()));
        self.tail.push_back(commit.clone());
        self.pending.push_back((position, txn, commit, answer));
    }

    /// Aborts a transaction that waits, or that has been idle.
    fn give_up(&mut self, now: Reading, txn: u64, why: Conflict, out: &mut Outbox<Self>) {
        let waits = self.attempts.get(&txn).is_some_and(|attempt| attempt.waits.is_some());
        self.end(txn, Some(why), out);
        if waits {
            self.attempts.remove(&txn);
        } else if let Some(attempt) = self.attempts.get_mut(&txn) {
            attempt.wounded = Some(Conflict::Expired);
        }
        self.serve_waiting(now, out);
    }

    /// Releases a transaction's locks and refuses what it waits for.
    fn end(&mut self, txn: u64, refused: Option<Conflict>, out: &mut Outbox<Self>) {
        let Some(attempt) = self.attempts.get_mut(&txn) else { return };
        self.waiting.remove(&attempt.age);
        if attempt.wounded.is_some() {
            out.disarm(Timer::Idle(txn));
        }
        if let (Some(wanted), Some(why)) = (attempt.waits.take(), refused) {
            refuse(wanted, why, out);
        }
        for key in std::mem::take(&mut attempt.points) {
            if let Some(holders) = self.points.get_mut(&key) {
                holders.retain(|(owner, _)| *owner != txn);
                if holders.is_empty() {
                    self.points.remove(&key);
                }
            }
        }
        self.ranges.retain(|held| held.owner != txn);
    }

    fn serve_waiting(&mut self, now: Reading, out: &mut Outbox<Self>) {
        let waiting: Vec<u64> = self.waiting.values().copied().collect();
        for txn in waiting {
            self.try_grant(now, txn, out);
        }
    }

    fn let_pass(&mut self, now: Reading, out: &mut Outbox<Self>) {
        while let Some((at, answer)) = self.passing.pop_front() {
            if !now.interval.after(at.nanos) {
                out.arm(Timer::CommitWait, now.boot_ns + (at.nanos - now.interval.earliest) + 1);
                self.passing.push_front((at, answer));
                return;
            }
            out.act(Act::Finish(answer, Outcome::Committed { at }));
        }
    }
}

fn refuse(wanted: Wanted, why: Conflict, out: &mut Outbox<Solo>) {
    match wanted {
        Wanted::Lock(_, _, answer) => out.act(Act::Grant(answer, Err(Failure::Aborted(why)))),
        Wanted::Commit(_, answer) => out.act(Act::Finish(answer, Outcome::Aborted { why })),
    }
}

impl Machine for Solo {
    type Message = ();
    type Timer = Timer;
    type Record = Record;
    type Effect = Act;

    fn on_message(&mut self, _: Reading, _: Address, (): (), _: &mut Outbox<Self>) {}

    fn on_timer(&mut self, now: Reading, timer: Timer, out: &mut Outbox<Self>) {
        match timer {
            Timer::CommitWait => self.let_pass(now, out),
            Timer::Idle(txn) => {
                let Some(attempt) = self.attempts.get(&txn) else { return };
                let until = attempt.last_seen + IDLE_NS;
                if attempt.committing || attempt.wounded.is_none() {
                    return;
                }
                if until > now.boot_ns {
                    return out.arm(timer, until);
                }
                let why = attempt.wounded.clone().unwrap_or(Conflict::Expired);
                self.give_up(now, txn, why, out);
            }
        }
    }

    fn on_durable(&mut self, now: Reading, through: Position, out: &mut Outbox<Self>) {
        while let Some((_, txn, commit, answer)) = self.pending.pop_front_if(|(position, ..)| *position <= through) {
            self.installed = commit.at;
            self.passing.push_back((commit.at, answer));
            out.act(Act::Install(commit));
            self.end(txn, None, out);
            self.attempts.remove(&txn);
        }
        for (position, at, answer) in std::mem::take(&mut self.snapshots) {
            if position > through {
                self.snapshots.push((position, at, answer));
            } else {
                out.act(Act::Grant(answer, Ok(())));
            }
        }
        self.let_pass(now, out);
        self.serve_waiting(now, out);
    }
}
