//! The lock table of one shard: held locks, waiting requests, and wound-wait.
//!
//! ```text
//!   older requests, younger holds      the younger is wounded, the older waits for it
//!   younger requests, older holds      the younger waits
//!   a wounded transaction waits, or has requested nothing for a second      it is aborted
//!   a wounded transaction waits in another shard      its coordinator is notified, and aborts it
//! ```
//!
//! 1. Two transactions never hold conflicting locks on one key.
//! 2. No request overtakes a conflicting request of an older transaction: the queue is ordered by
//!    age.
//! 3. A transaction that waits for a holder is younger than the holder, or has wounded it, and a
//!    wounded holder never waits. So no cycle of waits lasts.
//! 4. A retried transaction keeps its age. Of two attempts of one age the later counts as the
//!    older, because its coordinator has given the earlier one up.
//! 5. A committing transaction is not wounded: it waits for no lock and ends by itself. A prepared
//!    transaction is not aborted here; its coordinator is notified of the wound, because the
//!    transaction may wait for a lock elsewhere (Trap A.5-10).

use super::TransactionId;
use crate::locking::rules;
use crate::{Age, Conflict, Lock};
use meridian_machine::always;
use meridian_machine::planted::broken;
use meridian_mvcc::{Key, KeyRange};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The caller's number for a request that may have to wait.
pub type Ticket = u64;

/// The outcome of a request for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The lock is held.
    Granted(Ticket),
    /// The transaction must be aborted. If a ticket is given, that request was waiting. Its locks
    /// are held until it is released.
    Victim(TransactionId, Option<Ticket>, Conflict),
    /// The transaction was wounded and does not wait in this shard. If it waits in another one, its
    /// coordinator must abort it.
    Marked(TransactionId, Conflict),
    /// A prepared transaction blocks an older one. Its coordinator may still abort it.
    Wound(TransactionId, Conflict),
}

/// The progress of a transaction in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// It may request more locks.
    Open,
    /// This shard coordinates its commit and waits for votes.
    Collecting,
    /// Its coordinator decides.
    Prepared,
    /// Its commit is decided; it ends by itself.
    Committing,
}

/// One waiting request and the transactions that block it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The transaction that waits.
    pub waiter: TransactionId,
    /// The range that it waits to lock.
    pub range: KeyRange,
    /// The mode of the requested lock.
    pub lock: Lock,
    /// The transactions that block it.
    pub blockers: Vec<TransactionId>,
}

#[derive(Clone, Debug)]
struct Request {
    ticket: Ticket,
    range: KeyRange,
    lock: Lock,
}

#[derive(Clone, Debug)]
struct Owner {
    age: Age,
    points: Vec<Key>,
    waiting: Option<Request>,
    wounded: Option<Conflict>,
    phase: Phase,
    /// When its coordinator last gave a sign of life, and when it last requested a lock.
    seen_at: u64,
    asked_at: u64,
}

impl Owner {
    fn new(age: Age, phase: Phase, seen_at: u64) -> Owner {
        Owner {
            age,
            points: Vec::new(),
            waiting: None,
            wounded: None,
            phase,
            seen_at,
            asked_at: seen_at,
        }
    }
}

/// The locks of one shard, at its leader.
#[derive(Clone, Debug, Default)]
pub struct LockTable {
    owners: BTreeMap<TransactionId, Owner>,
    points: BTreeMap<Key, Vec<(TransactionId, Lock)>>,
    /// Locks on more than one key. There are few.
    ranges: Vec<(KeyRange, TransactionId, Lock)>,
    /// The waiting transactions, oldest first.
    queue: BTreeSet<Rank>,
}

/// The priority of a transaction: a smaller rank wins (invariant 4). No two transactions have the
/// same rank.
type Rank = (Age, Reverse<TransactionId>);

fn conflict(a: Lock, b: Lock) -> bool {
    a == Lock::Exclusive || b == Lock::Exclusive
}

impl LockTable {
    /// The time that a wounded transaction may request nothing before it is aborted.
    pub const IDLE_NS: u64 = 1_000_000_000;

    /// The time without a sign of life after which a transaction expires; its coordinator sends one
    /// every second. If the coordinator's node fails, the transaction's locks stay held for this
    /// long.
    pub const EXPIRY_NS: u64 = 4_000_000_000;

    /// Returns an empty lock table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests a lock. `Granted` among the verdicts means that the lock is held. Without it and
    /// without a `Victim` of this transaction, the request waits. A transaction has at most one
    /// waiting request.
    pub fn acquire(
        &mut self,
        now_ns: u64,
        txn: TransactionId,
        age: Age,
        range: KeyRange,
        lock: Lock,
        ticket: Ticket,
    ) -> Vec<Verdict> {
        let owner = self.owners.entry(txn).or_insert_with(|| Owner::new(age, Phase::Open, now_ns));
        always!(owner.waiting.is_none(), "a transaction waits for one thing at a time");
        (owner.seen_at, owner.asked_at) = (now_ns, now_ns);
        let wounded = owner.wounded.clone();
        let request = Request { ticket, range, lock };
        if self.holds(txn, &request) || (broken(rules::SHARED_LOCKS_FREE) && lock == Lock::Shared) {
            return vec![Verdict::Granted(ticket)];
        }
        let rank = (age, Reverse(txn));
        let blockers = self.blockers(rank, &request);
        if blockers.is_empty() {
            self.hold(txn, &request);
            return vec![Verdict::Granted(ticket)];
        }
        if let Some(why) = wounded {
            return vec![Verdict::Victim(txn, None, why)];
        }
        let mut verdicts = Vec::new();
        for blocker in &blockers {
            let owner = self.owners.get_mut(blocker).expect("a blocker is an owner");
            let older = (owner.age, Reverse(*blocker)) < rank;
            if older || owner.phase == Phase::Committing || owner.wounded.is_some() {
                continue;
            }
            let why =
                Conflict::Wounded { by: age, key: request.range.start.clone(), application: None };
            owner.wounded = Some(why.clone());
            let waited = owner.waiting.as_ref().map(|request| request.ticket);
            match owner.phase {
                Phase::Prepared => verdicts.push(Verdict::Wound(*blocker, why)),
                Phase::Open if waited.is_none() && now_ns < owner.asked_at + Self::IDLE_NS => {
                    verdicts.push(Verdict::Marked(*blocker, why));
                }
                _ => verdicts.push(Verdict::Victim(*blocker, waited, why)),
            }
        }
        self.owners.get_mut(&txn).expect("the owner was just entered").waiting = Some(request);
        self.queue.insert(rank);
        verdicts
    }

    /// True if a transaction that requested this lock would have to wait.
    pub fn would_wait(&self, txn: TransactionId, age: Age, range: &KeyRange, lock: Lock) -> bool {
        let request = Request { ticket: 0, range: range.clone(), lock };
        !self.holds(txn, &request) && !self.blockers((age, Reverse(txn)), &request).is_empty()
    }

    /// Records a sign of life of a transaction.
    pub fn touch(&mut self, now_ns: u64, txn: TransactionId) {
        if let Some(owner) = self.owners.get_mut(&txn) {
            owner.seen_at = now_ns;
        }
    }

    /// Cancels the transaction's waiting request; it keeps the locks that it holds. Returns the
    /// requests that are granted by this.
    pub fn withdraw(&mut self, txn: TransactionId) -> Vec<Verdict> {
        let Some(owner) = self.owners.get_mut(&txn) else { return Vec::new() };
        if owner.waiting.take().is_some() {
            self.queue.remove(&(owner.age, Reverse(txn)));
        }
        self.wake()
    }

    /// Marks the transaction as committing: it requests no more locks and is not wounded.
    pub fn committing(&mut self, txn: TransactionId) {
        self.enter(txn, Phase::Committing);
    }

    /// Marks the transaction as waiting for votes. Returns the wound if it was wounded before: the
    /// caller must abort it.
    pub fn collecting(&mut self, txn: TransactionId) -> Option<Conflict> {
        self.enter(txn, Phase::Collecting);
        self.owners.get(&txn).and_then(|owner| owner.wounded.clone())
    }

    /// Marks the transaction as prepared: its locks are held until its coordinator has decided.
    /// Returns the wound if it was wounded before: the caller must notify the coordinator.
    pub fn prepared(&mut self, txn: TransactionId) -> Option<Conflict> {
        self.enter(txn, Phase::Prepared);
        self.owners.get(&txn).and_then(|owner| owner.wounded.clone())
    }

    fn enter(&mut self, txn: TransactionId, phase: Phase) {
        if let Some(owner) = self.owners.get_mut(&txn) {
            owner.phase = phase;
        }
    }

    /// Returns the locks that a transaction holds.
    pub fn held(&self, txn: TransactionId) -> Vec<(KeyRange, Lock)> {
        let points = self.owners.get(&txn).into_iter().flat_map(|owner| &owner.points);
        let lock = |key: &Key| {
            self.points[key].iter().find(|(holder, _)| *holder == txn).map(|(_, lock)| *lock)
        };
        let points = points.filter_map(|key| Some((KeyRange::point(key.clone()), lock(key)?)));
        let ranges = self.ranges.iter().filter(|(_, holder, _)| *holder == txn);
        points.chain(ranges.map(|(range, _, lock)| (range.clone(), *lock))).collect()
    }

    /// Restores a prepared transaction's locks from its log record. They conflict with no other
    /// prepared transaction's locks: all were held at the same time before.
    pub fn restore(
        &mut self,
        now_ns: u64,
        txn: TransactionId,
        age: Age,
        locks: impl Iterator<Item = (KeyRange, Lock)>,
    ) {
        self.owners.insert(txn, Owner::new(age, Phase::Prepared, now_ns));
        for (range, lock) in locks {
            self.hold(txn, &Request { ticket: 0, range, lock });
        }
    }

    /// Returns the wounded prepared transactions, whose coordinators are notified again.
    pub fn wounded_prepared(&self) -> Vec<(TransactionId, Conflict)> {
        let wounded = |(txn, owner): (&TransactionId, &Owner)| {
            owner.wounded.clone().filter(|_| owner.phase == Phase::Prepared).map(|why| (*txn, why))
        };
        self.owners.iter().filter_map(wounded).collect()
    }

    /// Releases everything that a transaction holds or waits for. Returns the requests that are
    /// granted by this.
    pub fn release(&mut self, txn: TransactionId) -> Vec<Verdict> {
        let Some(owner) = self.owners.remove(&txn) else { return Vec::new() };
        if owner.waiting.is_some() {
            self.queue.remove(&(owner.age, Reverse(txn)));
        }
        for key in owner.points {
            if let Some(holders) = self.points.get_mut(&key) {
                holders.retain(|(holder, _)| *holder != txn);
                if holders.is_empty() {
                    self.points.remove(&key);
                }
            }
        }
        self.ranges.retain(|(_, holder, _)| *holder != txn);
        self.wake()
    }

    /// Returns the wounded transactions that requested nothing for a second, and every transaction
    /// that gave no sign of life for [`EXPIRY_NS`](Self::EXPIRY_NS).
    pub fn idle_victims(&self, now_ns: u64) -> Vec<Verdict> {
        let idle = |(txn, owner): (&TransactionId, &Owner)| {
            let silent_for = now_ns.saturating_sub(owner.seen_at);
            let why = match &owner.wounded {
                _ if owner.phase >= Phase::Prepared => return None,
                Some(why) if now_ns.saturating_sub(owner.asked_at) >= Self::IDLE_NS => why.clone(),
                _ if silent_for >= Self::EXPIRY_NS => Conflict::Expired,
                _ => return None,
            };
            Some(Verdict::Victim(*txn, owner.waiting.as_ref().map(|request| request.ticket), why))
        };
        self.owners.iter().filter_map(idle).collect()
    }

    /// True if no transaction holds or requests a lock.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Returns the transactions whose commit has not begun: the leader can still abort them.
    pub fn open(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.owners.iter().filter(|(_, owner)| owner.phase == Phase::Open).map(|(txn, _)| *txn)
    }

    /// Returns every transaction that holds or requests a lock.
    pub fn owners(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.owners.keys().copied()
    }

    /// Returns every waiting request with its blockers, oldest first.
    pub fn waits(&self) -> Vec<Waits> {
        let line = |rank: &Rank| {
            let waiter = &rank.1.0;
            let request = self.owners[waiter]
                .waiting
                .as_ref()
                .expect("a queued transaction has a waiting request");
            let blockers = self.blockers(*rank, request);
            Waits { waiter: *waiter, range: request.range.clone(), lock: request.lock, blockers }
        };
        self.queue.iter().map(line).collect()
    }

    /// True if a transaction holds at least this lock already. It need not queue behind requests
    /// that wait for it to end.
    fn holds(&self, txn: TransactionId, request: &Request) -> bool {
        let point = request.range.as_point().and_then(|key| self.points.get(key));
        point.is_some_and(|holders| {
            holders.iter().any(|(holder, held)| *holder == txn && *held >= request.lock)
        }) || self.ranges.iter().any(|(range, holder, held)| {
            let to_end = range.end.is_none()
                || request
                    .range
                    .end
                    .as_ref()
                    .is_some_and(|end| range.end.as_ref().is_some_and(|own| end <= own));
            *holder == txn && *held >= request.lock && range.start <= request.range.start && to_end
        })
    }

    fn hold(&mut self, txn: TransactionId, request: &Request) {
        match request.range.as_point() {
            Some(key) => {
                let holders = self.points.entry(key.clone()).or_default();
                match holders.iter_mut().find(|(holder, _)| *holder == txn) {
                    Some((_, held)) => *held = request.lock.max(*held),
                    None => {
                        holders.push((txn, request.lock));
                        self.owners
                            .get_mut(&txn)
                            .expect("a requesting transaction is an owner")
                            .points
                            .push(key.clone());
                    }
                }
            }
            None if broken(rules::RANGE_LOCKS_FREE) => {}
            None => self.ranges.push((request.range.clone(), txn, request.lock)),
        }
    }

    /// Returns the transactions that block a request: holders of conflicting locks, and older
    /// transactions that wait for a conflicting lock.
    fn blockers(&self, rank: Rank, request: &Request) -> Vec<TransactionId> {
        let (mut blockers, txn) = (Vec::new(), rank.1.0);
        let mut add = |holder: TransactionId| {
            if holder != txn && !blockers.contains(&holder) {
                blockers.push(holder);
            }
        };
        let mut point = |holders: &Vec<(TransactionId, Lock)>| {
            holders
                .iter()
                .filter(|(_, held)| conflict(*held, request.lock))
                .for_each(|(holder, _)| add(*holder));
        };
        match request.range.as_point() {
            Some(key) => self.points.get(key).into_iter().for_each(&mut point),
            None if request.range.is_empty() => {}
            None => match &request.range.end {
                Some(end) => {
                    self.points
                        .range::<Key, _>(&request.range.start..end)
                        .for_each(|(_, holders)| point(holders));
                }
                None => self
                    .points
                    .range::<Key, _>(&request.range.start..)
                    .for_each(|(_, holders)| point(holders)),
            },
        }
        for (range, holder, held) in &self.ranges {
            if conflict(*held, request.lock) && range.overlaps(&request.range) {
                add(*holder);
            }
        }
        for (_, Reverse(waiter)) in self.queue.range(..rank) {
            let wanted = self.owners[waiter]
                .waiting
                .as_ref()
                .expect("a queued transaction has a waiting request");
            if conflict(wanted.lock, request.lock) && wanted.range.overlaps(&request.range) {
                add(*waiter);
            }
        }
        blockers
    }

    /// Grants every waiting request that is no longer blocked, oldest first.
    fn wake(&mut self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let queue: Vec<Rank> = self.queue.iter().copied().collect();
        for rank in queue {
            let txn = rank.1.0;
            let request = self.owners[&txn]
                .waiting
                .clone()
                .expect("a queued transaction has a waiting request");
            if self.blockers(rank, &request).is_empty() {
                self.queue.remove(&rank);
                self.owners.get_mut(&txn).expect("a queued transaction is an owner").waiting = None;
                self.hold(txn, &request);
                verdicts.push(Verdict::Granted(request.ticket));
            }
        }
        verdicts
    }
}
