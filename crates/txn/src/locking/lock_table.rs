//! Who holds what, who waits for whom, and who must give way.
//!
//! ```text
//!   older asks, younger holds      the younger is marked (wounded), the older waits for it
//!   younger asks, older holds      the younger waits
//!   a wounded one would wait, waits already, or has asked for nothing for a second      it is aborted
//!   one that waits in another shard hears of its wound, and aborts itself
//! ```
//!
//! 1. Two transactions never hold conflicting locks on one key.
//! 2. Nobody overtakes an older waiter whose request conflicts with his: the queue is ordered by
//!    age.
//! 3. Whoever waits for a holder is younger than it, or has wounded it; a wounded holder never
//!    waits. So no cycle of waits lasts.
//! 4. A transaction that is tried again keeps its age: of two attempts of one age the later counts
//!    as the older, because nobody asks any more about the earlier.
//! 5. A transaction that is committing is not wounded: it waits for no lock any more and ends by
//!    itself. One that is prepared is not either, but whoever decides is told, because it may wait
//!    for a lock elsewhere (Trap A.5-10).

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

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The lock is held.
    Granted(Ticket),
    /// The transaction must be aborted; it waited, if a ticket is given. Its locks are held until
    /// it is released.
    Victim(TransactionId, Option<Ticket>, Conflict),
    /// It was marked, and does not wait here: if it waits elsewhere, it is to be aborted there.
    Marked(TransactionId, Conflict),
    /// A prepared transaction is in an older one's way: its coordinator may still abort it.
    Wound(TransactionId, Conflict),
}

/// How far a transaction has come in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// It may ask for more.
    Open,
    /// It coordinates, and waits for votes.
    Collecting,
    /// Its coordinator decides.
    Prepared,
    /// It ends by itself.
    Committing,
}

/// One line of "who waits for whom".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// Who waits.
    pub waiter: TransactionId,
    /// For what.
    pub range: KeyRange,
    /// How it wants it.
    pub lock: Lock,
    /// Who is in its way.
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
    /// When it gave a sign of life, and when it asked for something.
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
    /// Locks on more than one key; few.
    ranges: Vec<(KeyRange, TransactionId, Lock)>,
    /// Who waits, oldest first.
    queue: BTreeSet<Rank>,
}

/// The order in which transactions give way: the first never does (invariant 4). No two have the
/// same.
type Rank = (Age, Reverse<TransactionId>);

fn conflict(a: Lock, b: Lock) -> bool {
    a == Lock::Exclusive || b == Lock::Exclusive
}

impl LockTable {
    /// How long a wounded transaction may ask for nothing before it is aborted.
    pub const IDLE_NS: u64 = 1_000_000_000;

    /// How long a transaction may give no sign of life: its gateway sends one every second. When
    /// the gateway's node dies, what its transactions had locked stays locked for that long.
    pub const EXPIRY_NS: u64 = 4_000_000_000;

    /// Nobody holds anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a lock. `Granted` among the verdicts says that it is held; without it and without a
    /// `Victim` of this transaction, it waits. A transaction asks for one thing at a time.
    pub fn acquire(
        &mut self,
        now_ns: u64,
        who: TransactionId,
        age: Age,
        range: KeyRange,
        lock: Lock,
        ticket: Ticket,
    ) -> Vec<Verdict> {
        let owner = self.owners.entry(who).or_insert_with(|| Owner::new(age, Phase::Open, now_ns));
        always!(owner.waiting.is_none(), "a transaction waits for one thing at a time");
        (owner.seen_at, owner.asked_at) = (now_ns, now_ns);
        let wounded = owner.wounded.clone();
        let request = Request { ticket, range, lock };
        if self.holds(who, &request) || (broken(rules::SHARED_LOCKS_FREE) && lock == Lock::Shared) {
            return vec![Verdict::Granted(ticket)];
        }
        let rank = (age, Reverse(who));
        let blockers = self.blockers(rank, &request);
        if blockers.is_empty() {
            self.hold(who, &request);
            return vec![Verdict::Granted(ticket)];
        }
        if let Some(why) = wounded {
            return vec![Verdict::Victim(who, None, why)];
        }
        let mut verdicts = Vec::new();
        for blocker in &blockers {
            let owner = self.owners.get_mut(blocker).expect("a blocker owns something");
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
        self.owners.get_mut(&who).expect("just seen").waiting = Some(request);
        self.queue.insert(rank);
        verdicts
    }

    /// Whether a transaction that asked for this lock would have to wait.
    pub fn would_wait(&self, who: TransactionId, age: Age, range: &KeyRange, lock: Lock) -> bool {
        let request = Request { ticket: 0, range: range.clone(), lock };
        !self.holds(who, &request) && !self.blockers((age, Reverse(who)), &request).is_empty()
    }

    /// A sign of life.
    pub fn touch(&mut self, now_ns: u64, who: TransactionId) {
        if let Some(owner) = self.owners.get_mut(&who) {
            owner.seen_at = now_ns;
        }
    }

    /// It does not want any more what it waits for; what it holds it keeps. Says who goes on.
    pub fn withdraw(&mut self, who: TransactionId) -> Vec<Verdict> {
        let Some(owner) = self.owners.get_mut(&who) else { return Vec::new() };
        if owner.waiting.take().is_some() {
            self.queue.remove(&(owner.age, Reverse(who)));
        }
        self.wake()
    }

    /// From now on it waits for nothing any more and is not wounded.
    pub fn committing(&mut self, who: TransactionId) {
        self.enter(who, Phase::Committing);
    }

    /// It waits for votes; wounded before, it is to be aborted for this.
    pub fn collecting(&mut self, who: TransactionId) -> Option<Conflict> {
        self.enter(who, Phase::Collecting);
        self.owners.get(&who).and_then(|owner| owner.wounded.clone())
    }

    /// It holds what it holds until its coordinator has decided. Wounded before, the coordinator is
    /// to be told of this.
    pub fn prepared(&mut self, who: TransactionId) -> Option<Conflict> {
        self.enter(who, Phase::Prepared);
        self.owners.get(&who).and_then(|owner| owner.wounded.clone())
    }

    fn enter(&mut self, who: TransactionId, phase: Phase) {
        if let Some(owner) = self.owners.get_mut(&who) {
            owner.phase = phase;
        }
    }

    /// What a transaction holds.
    pub fn held(&self, who: TransactionId) -> Vec<(KeyRange, Lock)> {
        let points = self.owners.get(&who).into_iter().flat_map(|owner| &owner.points);
        let lock = |key: &Key| {
            self.points[key].iter().find(|(holder, _)| *holder == who).map(|(_, lock)| *lock)
        };
        let points = points.filter_map(|key| Some((KeyRange::point(key.clone()), lock(key)?)));
        let ranges = self.ranges.iter().filter(|(_, holder, _)| *holder == who);
        points.chain(ranges.map(|(range, _, lock)| (range.clone(), *lock))).collect()
    }

    /// A prepared transaction's locks, as its record in the log has them. They conflict with
    /// nobody's: they were held together before.
    pub fn restore(
        &mut self,
        now_ns: u64,
        who: TransactionId,
        age: Age,
        locks: impl Iterator<Item = (KeyRange, Lock)>,
    ) {
        self.owners.insert(who, Owner::new(age, Phase::Prepared, now_ns));
        for (range, lock) in locks {
            self.hold(who, &Request { ticket: 0, range, lock });
        }
    }

    /// Prepared transactions that are in older ones' way: their coordinators are told again.
    pub fn wounded_prepared(&self) -> Vec<(TransactionId, Conflict)> {
        let wounded = |(who, owner): (&TransactionId, &Owner)| {
            owner.wounded.clone().filter(|_| owner.phase == Phase::Prepared).map(|why| (*who, why))
        };
        self.owners.iter().filter_map(wounded).collect()
    }

    /// Gives up everything that a transaction holds or waits for; says who goes on.
    pub fn release(&mut self, who: TransactionId) -> Vec<Verdict> {
        let Some(owner) = self.owners.remove(&who) else { return Vec::new() };
        if owner.waiting.is_some() {
            self.queue.remove(&(owner.age, Reverse(who)));
        }
        for key in owner.points {
            if let Some(holders) = self.points.get_mut(&key) {
                holders.retain(|(holder, _)| *holder != who);
                if holders.is_empty() {
                    self.points.remove(&key);
                }
            }
        }
        self.ranges.retain(|(_, holder, _)| *holder != who);
        self.wake()
    }

    /// Wounded transactions that asked for nothing for a second, and any that gave none for
    /// [`EXPIRY_NS`](Self::EXPIRY_NS).
    pub fn idle_victims(&self, now_ns: u64) -> Vec<Verdict> {
        let idle = |(who, owner): (&TransactionId, &Owner)| {
            let silent_for = now_ns.saturating_sub(owner.seen_at);
            let why = match &owner.wounded {
                _ if owner.phase >= Phase::Prepared => return None,
                Some(why) if now_ns.saturating_sub(owner.asked_at) >= Self::IDLE_NS => why.clone(),
                _ if silent_for >= Self::EXPIRY_NS => Conflict::Expired,
                _ => return None,
            };
            Some(Verdict::Victim(*who, owner.waiting.as_ref().map(|request| request.ticket), why))
        };
        self.owners.iter().filter_map(idle).collect()
    }

    /// Nobody holds or wants anything.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Those that are not on their way to an outcome: they can still be aborted here.
    pub fn open(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.owners.iter().filter(|(_, owner)| owner.phase == Phase::Open).map(|(who, _)| *who)
    }

    /// Everybody who holds or wants something.
    pub fn owners(&self) -> impl Iterator<Item = TransactionId> + '_ {
        self.owners.keys().copied()
    }

    /// Who waits for whom.
    pub fn waits(&self) -> Vec<Waits> {
        let line = |rank: &Rank| {
            let waiter = &rank.1.0;
            let request = self.owners[waiter].waiting.as_ref().expect("who queues waits");
            let blockers = self.blockers(*rank, request);
            Waits { waiter: *waiter, range: request.range.clone(), lock: request.lock, blockers }
        };
        self.queue.iter().map(line).collect()
    }

    /// Whether a transaction holds at least this already: it need not queue behind those who wait
    /// for it to end.
    fn holds(&self, who: TransactionId, request: &Request) -> bool {
        let point = request.range.as_point().and_then(|key| self.points.get(key));
        point.is_some_and(|holders| {
            holders.iter().any(|(holder, held)| *holder == who && *held >= request.lock)
        }) || self.ranges.iter().any(|(range, holder, held)| {
            let to_end = range.end.is_none()
                || request
                    .range
                    .end
                    .as_ref()
                    .is_some_and(|end| range.end.as_ref().is_some_and(|own| end <= own));
            *holder == who && *held >= request.lock && range.start <= request.range.start && to_end
        })
    }

    fn hold(&mut self, who: TransactionId, request: &Request) {
        match request.range.as_point() {
            Some(key) => {
                let holders = self.points.entry(key.clone()).or_default();
                match holders.iter_mut().find(|(holder, _)| *holder == who) {
                    Some((_, held)) => *held = request.lock.max(*held),
                    None => {
                        holders.push((who, request.lock));
                        self.owners.get_mut(&who).expect("it asks").points.push(key.clone());
                    }
                }
            }
            None if broken(rules::RANGE_LOCKS_FREE) => {}
            None => self.ranges.push((request.range.clone(), who, request.lock)),
        }
    }

    /// Who is in the way: holders of conflicting locks, and older waiters who want something that
    /// conflicts.
    fn blockers(&self, rank: Rank, request: &Request) -> Vec<TransactionId> {
        let (mut blockers, who) = (Vec::new(), rank.1.0);
        let mut add = |holder: TransactionId| {
            if holder != who && !blockers.contains(&holder) {
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
            let wanted = self.owners[waiter].waiting.as_ref().expect("who queues waits");
            if conflict(wanted.lock, request.lock) && wanted.range.overlaps(&request.range) {
                add(*waiter);
            }
        }
        blockers
    }

    /// Grants what can be granted now, oldest first.
    fn wake(&mut self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let queue: Vec<Rank> = self.queue.iter().copied().collect();
        for rank in queue {
            let who = rank.1.0;
            let request = self.owners[&who].waiting.clone().expect("who queues waits");
            if self.blockers(rank, &request).is_empty() {
                self.queue.remove(&rank);
                self.owners.get_mut(&who).expect("who queues asks").waiting = None;
                self.hold(who, &request);
                verdicts.push(Verdict::Granted(request.ticket));
            }
        }
        verdicts
    }
}
