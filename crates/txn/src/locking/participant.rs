//! The leader's side: which transactions run here, what each is doing, and what becomes of it.
//!
//! ```text
//!   Read ──▶ lock the range ──▶ Step::Read                     Abort, wound, silence ──▶ Step::Aborted, locks released
//!   Commit ──▶ lock each write, in key order ──▶ Step::Commit ──▶ … agreed, installed, waited ──▶ finish: locks released
//! ```
//!
//! 1. A commit is passed on only when all its writes are locked exclusively and the attempt is of this leadership (Trap A.5-7).
//! 2. Nothing aborts an attempt that was passed on: its owner calls `finish`, after the writes can be read.
//! 3. An attempt that gives no sign of life for [`Participant::EXPIRY_NS`] is aborted.

use super::{LockTable, Ticket, TransactionId, Verdict, Waits};
use crate::{Age, Conflict, Lock};
use meridian_machine::Address;
use meridian_mvcc::{KeyRange, Write};
use std::collections::BTreeMap;

/// What the owner does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The lock is held: read and answer.
    Read {
        /// Who asked.
        to: Address,
        /// The question.
        id: u64,
        /// What to read.
        range: KeyRange,
        /// From its end backwards.
        reverse: bool,
        /// At most so many rows.
        limit_rows: u32,
    },
    /// Everything is locked: draw a timestamp and agree on the writes.
    Commit {
        /// The attempt.
        transaction: TransactionId,
        /// Who asked.
        to: Address,
        /// The question.
        id: u64,
        /// What it writes.
        writes: Vec<Write>,
    },
    /// The attempt is aborted; its locks are free.
    Aborted {
        /// The attempt.
        transaction: TransactionId,
        /// Who is to know, and the question that he waits for, if he waits.
        reply: Option<(Address, u64)>,
        /// Why.
        why: Conflict,
    },
}

#[derive(Clone, Debug)]
enum Doing {
    Nothing,
    Reading { id: u64, range: KeyRange, reverse: bool, limit_rows: u32 },
    Locking { id: u64, writes: Vec<Write>, locked: usize },
    Committing,
}

#[derive(Clone, Debug)]
struct Attempt {
    age: Age,
    client: Address,
    doing: Doing,
    seen_at: u64,
}

/// The running transactions of one leadership.
#[derive(Clone, Debug, Default)]
pub struct Participant {
    locks: LockTable,
    attempts: BTreeMap<TransactionId, Attempt>,
    waiting: BTreeMap<Ticket, TransactionId>,
    tickets: Ticket,
}

impl Participant {
    /// How long an attempt may be silent.
    pub const EXPIRY_NS: u64 = 10_000_000_000;

    /// Nothing runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an attempt runs here.
    pub fn knows(&self, who: TransactionId) -> bool {
        self.attempts.contains_key(&who)
    }

    /// Whether nothing runs here.
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Who waits for whom.
    pub fn waits(&self) -> Vec<Waits> {
        self.locks.waits()
    }

    /// Locks a range and then asks for it to be read. Begins the attempt if it is new.
    #[allow(clippy::too_many_arguments)]
    pub fn read(
        &mut self,
        now_ns: u64,
        who: TransactionId,
        age: Age,
        client: Address,
        id: u64,
        range: KeyRange,
        lock: Lock,
        reverse: bool,
        limit_rows: u32,
    ) -> Vec<Step> {
        let fresh = Attempt { age, client, doing: Doing::Nothing, seen_at: now_ns };
        let attempt = self.attempts.entry(who).or_insert(fresh);
        (attempt.client, attempt.seen_at) = (client, now_ns);
        if !matches!(attempt.doing, Doing::Nothing) {
            return Vec::new(); // The same question again; its answer is on the way.
        }
        attempt.doing = Doing::Reading { id, range: range.clone(), reverse, limit_rows };
        self.acquire(now_ns, who, range, lock)
    }

    /// Locks the writes and then asks for them to be agreed on. The attempt must be known.
    pub fn commit(
        &mut self,
        now_ns: u64,
        who: TransactionId,
        client: Address,
        id: u64,
        mut writes: Vec<Write>,
    ) -> Vec<Step> {
        let Some(attempt) = self.attempts.get_mut(&who) else { return Vec::new() };
        (attempt.client, attempt.seen_at) = (client, now_ns);
        if !matches!(attempt.doing, Doing::Nothing) {
            return Vec::new();
        }
        writes.sort_by(|a, b| a.key.cmp(&b.key));
        attempt.doing = Doing::Locking { id, writes, locked: 0 };
        self.lock_writes(now_ns, who)
    }

    /// Gives an attempt up, unless it is being committed.
    pub fn abort(&mut self, now_ns: u64, who: TransactionId, why: Conflict) -> Vec<Step> {
        if self.attempts.get(&who).is_none_or(|attempt| matches!(attempt.doing, Doing::Committing)) {
            return Vec::new();
        }
        let Some(attempt) = self.attempts.remove(&who) else { return Vec::new() };
        self.waiting.retain(|_, waiter| *waiter != who);
        let reply = match attempt.doing {
            Doing::Reading { id, .. } | Doing::Locking { id, .. } => Some((attempt.client, id)),
            Doing::Nothing | Doing::Committing => None,
        };
        let mut steps = vec![Step::Aborted { transaction: who, reply, why }];
        let verdicts = self.locks.release(who);
        steps.extend(self.judge(now_ns, verdicts));
        steps
    }

    /// The writes of a commit can be read and its timestamp has passed: its locks are free.
    pub fn finish(&mut self, now_ns: u64, who: TransactionId) -> Vec<Step> {
        self.attempts.remove(&who);
        let verdicts = self.locks.release(who);
        self.judge(now_ns, verdicts)
    }

    /// The session lives.
    pub fn keep_alive(&mut self, now_ns: u64, who: TransactionId) {
        if let Some(attempt) = self.attempts.get_mut(&who) {
            attempt.seen_at = now_ns;
        }
    }

    /// Aborts those who were silent for too long: a second if somebody older waits for them, [`Participant::EXPIRY_NS`] otherwise.
    pub fn expire(&mut self, now_ns: u64) -> Vec<Step> {
        let verdicts = self.locks.idle_victims(now_ns);
        let mut steps = self.judge(now_ns, verdicts);
        let silent = |attempt: &Attempt| now_ns >= attempt.seen_at + Self::EXPIRY_NS;
        let expired: Vec<_> =
            self.attempts.iter().filter(|(_, attempt)| silent(attempt)).map(|(who, _)| *who).collect();
        for who in expired {
            steps.extend(self.abort(now_ns, who, Conflict::Expired));
        }
        steps
    }

    /// Leadership is lost: everything that is not being agreed on is aborted, and no lock is left.
    pub fn abandon(&mut self) -> Vec<Step> {
        let attempts = std::mem::take(self).attempts;
        let line = |(who, attempt): (TransactionId, Attempt)| {
            let reply = match attempt.doing {
                Doing::Committing => return None,
                Doing::Reading { id, .. } | Doing::Locking { id, .. } => Some((attempt.client, id)),
                Doing::Nothing => None,
            };
            Some(Step::Aborted { transaction: who, reply, why: Conflict::LeaderChanged })
        };
        attempts.into_iter().filter_map(line).collect()
    }

    fn acquire(&mut self, now_ns: u64, who: TransactionId, range: KeyRange, lock: Lock) -> Vec<Step> {
        self.tickets += 1;
        self.waiting.insert(self.tickets, who);
        let age = self.attempts[&who].age;
        let verdicts = self.locks.acquire(now_ns, who, age, range, lock, self.tickets);
        self.judge(now_ns, verdicts)
    }

    fn lock_writes(&mut self, now_ns: u64, who: TransactionId) -> Vec<Step> {
        loop {
            let attempt = self.attempts.get_mut(&who).expect("invariant: who locks runs");
            let (client, age) = (attempt.client, attempt.age);
            let Doing::Locking { id, writes, locked } = &mut attempt.doing else { return Vec::new() };
            let Some(write) = writes.get(*locked) else {
                let (id, writes) = (*id, std::mem::take(writes));
                attempt.doing = Doing::Committing;
                self.locks.committing(who);
                return vec![Step::Commit { transaction: who, to: client, id, writes }];
            };
            let range = KeyRange::point(write.key.clone());
            self.tickets += 1;
            let verdicts = self.locks.acquire(now_ns, who, age, range, Lock::Exclusive, self.tickets);
            if verdicts != [Verdict::Granted(self.tickets)] {
                self.waiting.insert(self.tickets, who);
                return self.judge(now_ns, verdicts);
            }
            *locked += 1;
        }
    }

    /// Carries verdicts out, and those that they lead to, one after the other.
    fn judge(&mut self, now_ns: u64, verdicts: Vec<Verdict>) -> Vec<Step> {
        let mut steps = Vec::new();
        for verdict in verdicts {
            match verdict {
                Verdict::Granted(ticket) => {
                    let Some(who) = self.waiting.remove(&ticket) else { continue };
                    let attempt = self.attempts.get_mut(&who).expect("invariant: who waits runs");
                    match &mut attempt.doing {
                        Doing::Reading { id, range, reverse, limit_rows } => {
                            let (id, reverse, limit_rows) = (*id, *reverse, *limit_rows);
                            let range = std::mem::take(range);
                            attempt.doing = Doing::Nothing;
                            steps.push(Step::Read { to: attempt.client, id, range, reverse, limit_rows });
                        }
                        Doing::Locking { locked, .. } => {
                            *locked += 1;
                            steps.extend(self.lock_writes(now_ns, who));
                        }
                        Doing::Nothing | Doing::Committing => {}
                    }
                }
                Verdict::Victim(who, _, why) => steps.extend(self.abort(now_ns, who, why)),
            }
        }
        steps
    }
}
