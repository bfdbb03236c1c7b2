//! The advisory locks of a session, and what the functions do with them.

use super::deadlock;
use super::process::{Hold, Process, look};
use super::row::{self, Entry, Name, Owner};
use crate::datum::Datum;
use crate::engine::Engine;
use crate::error::{SqlError, state};
use crate::expr::Facts;
use meridian_clock::Timestamp;
use meridian_txn::{Lock, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The shortest and the longest time between two looks at a lock that is not free.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// The time after which a session that waits looks for a cycle.
const DEADLOCK_NS: u64 = 1_000_000_000;

/// The action of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Takes a lock, and waits for it.
    Lock,
    /// Takes a lock if it is free.
    Try,
    Unlock,
    UnlockAll,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) action: Action,
    pub(crate) is_shared: bool,
    /// True if the lock ends with the transaction.
    pub(crate) of_transaction: bool,
}

/// The locks of a session.
#[derive(Default)]
pub(crate) struct Holds {
    process: Arc<Process>,
    session: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<Hold, Held>,
    /// The locks of the open transaction, in order.
    of_transaction: Vec<Hold>,
    /// Entries to be removed: those of ended transactions and of interrupted calls.
    loose: BTreeSet<Hold>,
}

/// A lock that is held.
struct Held {
    /// The number of times that the session has taken it for itself.
    by_session: u64,
    /// The number of times that it stands in `of_transaction`.
    by_transaction: u64,
    /// A time from which on it was held.
    at: Timestamp,
}

impl Holds {
    pub(crate) fn new(engine: &Engine, session: u64) -> Holds {
        engine.advisory.enter(session);
        Holds { process: engine.advisory.clone(), session, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of locks of the open transaction.
    pub(crate) fn mark(&self) -> usize {
        self.state().of_transaction.len()
    }

    /// Gives up the locks that the open transaction has taken since a mark: at its end, or at a
    /// rollback to a savepoint. They are released by [`Holds::settle`].
    pub(crate) fn roll_back(&self, mark: usize) {
        let mut state = self.state();
        let at = mark.min(state.of_transaction.len());
        for hold in state.of_transaction.split_off(at) {
            state.give_up(hold, |held| &mut held.by_transaction);
        }
    }

    /// True if there is something to [settle](Holds::settle).
    pub(crate) fn owes(&self) -> bool {
        !self.state().loose.is_empty()
    }

    /// Releases what was given up.
    pub(crate) async fn settle(&self, engine: &Engine) -> Result<(), SqlError> {
        loop {
            let Some(hold) = self.state().loose.first().copied() else { break };
            self.process.release(engine, self.session, hold).await?;
            self.state().loose.remove(&hold);
        }
        self.process.note(self.session, !self.state().held.is_empty());
        Ok(())
    }

    /// Releases all locks, when the session ends.
    pub(crate) async fn end(&self, engine: &Engine) -> Result<(), SqlError> {
        self.state().give_up_all();
        self.settle(engine).await
    }

    /// Gives up all locks of the session, but for those of the open transaction.
    pub(crate) fn give_up_session(&self) {
        let mut state = self.state();
        let State { held, loose, .. } = &mut *state;
        held.retain(|hold, held| {
            held.by_session = 0;
            if held.by_transaction == 0 {
                loose.insert(*hold);
            }
            held.by_transaction > 0
        });
    }

    /// Checks, in a transaction that is about to commit, that the session still holds its locks.
    /// A transaction whose snapshot is older than a lock cannot tell.
    pub(crate) async fn check(&self, txn: &mut dyn Transaction) -> Result<(), SqlError> {
        let snapshot = txn.read_at();
        let held: Vec<Hold> = {
            let state = self.state();
            let seen = |held: &Held| snapshot.is_none_or(|at| held.at <= at);
            state.held.iter().filter(|(_, held)| seen(held)).map(|(hold, _)| *hold).collect()
        };
        let Some(owner) = self.process.owner(self.session) else { return Ok(()) };
        for hold in held {
            let (name, is_shared) = hold;
            let Some(value) = txn.get(&name.key(), Lock::Shared).await? else {
                return Err(lost(hold));
            };
            txn.keep(&name.key(), &value)?;
            let entries = row::read(txn, name, Lock::Shared).await?;
            let is_own = |entry: &Entry| {
                entry.owner == owner && entry.is_shared == is_shared && !entry.waits
            };
            if !entries.iter().any(is_own) {
                return Err(lost(hold));
            }
        }
        Ok(())
    }

    /// Makes a call of a function.
    pub(crate) async fn call(
        &self,
        call: Call,
        args: &[Datum],
        facts: &Facts,
    ) -> Result<Datum, SqlError> {
        let name = (call.action != Action::UnlockAll).then(|| Name::of(args)).transpose()?;
        let nothing = || SqlError::unsupported("advisory locks here");
        let engine = facts.engine.as_ref().ok_or_else(nothing)?;
        self.settle(engine).await?;
        let Call { action, is_shared, of_transaction } = call;
        let Some(name) = name else {
            self.give_up_session();
            self.settle(engine).await?;
            return Ok(Datum::text(""));
        };
        let hold = (name, is_shared);
        match action {
            Action::Lock | Action::Try => {
                let waits = action == Action::Lock;
                let is_taken = self.take(hold, waits, engine, facts).await?;
                if is_taken {
                    self.state().count(hold, of_transaction);
                }
                Ok(if waits { Datum::text("") } else { Datum::Bool(is_taken) })
            }
            Action::Unlock | Action::UnlockAll => {
                let is_held = self.state().give_up_once(hold);
                if !is_held {
                    let mode = if is_shared { "ShareLock" } else { "ExclusiveLock" };
                    let message = format!("you don't own a lock of type {mode}");
                    facts.warn(SqlError::new("01000", message));
                }
                self.settle(engine).await?;
                Ok(Datum::Bool(is_held))
            }
        }
    }

    /// Takes a lock, which the caller counts. Returns false if it is not free, and is not waited
    /// for.
    async fn take(
        &self,
        hold: Hold,
        waits: bool,
        engine: &Engine,
        facts: &Facts,
    ) -> Result<bool, SqlError> {
        let (name, is_shared) = hold;
        if self.state().held.contains_key(&hold) {
            return Ok(true);
        }
        // The entry is removed if this call is interrupted.
        self.state().loose.insert(hold);
        if let Some(at) = self.enter(hold, engine, facts, false).await? {
            self.has_taken(hold, at);
            return Ok(true);
        }
        if !waits {
            self.settle(engine).await?;
            return Ok(false);
        }
        let timeout = facts.settings.timeout("lock_timeout");
        let (mut pause, mut began) = (PAUSES.0, None);
        loop {
            let (now_ns, is_free) = self.is_free(hold, engine).await?;
            if is_free && let Some(at) = self.enter(hold, engine, facts, false).await? {
                self.has_taken(hold, at);
                return Ok(true);
            }
            let began_ns = *began.get_or_insert(now_ns);
            let waited = now_ns.saturating_sub(began_ns);
            if timeout.is_some_and(|most| u128::from(waited) >= most.as_nanos()) {
                self.settle(engine).await?;
                let message = "canceling statement due to lock timeout";
                return Err(SqlError::new(state::LOCK_NOT_AVAILABLE, message));
            }
            if waited >= DEADLOCK_NS && !self.state().held.is_empty() {
                self.enter(hold, engine, facts, true).await?;
                let owner = self.process.owner(self.session);
                let locks = self.process.all_now(engine).await?;
                if owner.is_some_and(|owner| deadlock::is_victim(owner, &locks)) {
                    self.settle(engine).await?;
                    let message = "deadlock detected";
                    let detail = format!(
                        "This session waits for advisory lock {} of a session that waits for it.",
                        shown(name, is_shared)
                    );
                    return Err(SqlError::new("40P01", message).detail(detail));
                }
            }
            engine.database().sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Notes a lock that was taken; the caller counts it.
    fn has_taken(&self, hold: Hold, at: Timestamp) {
        let mut state = self.state();
        state.loose.remove(&hold);
        state.held.insert(hold, Held { by_session: 0, by_transaction: 0, at });
        drop(state);
        self.process.note(self.session, true);
    }

    /// Returns the time, and true if no other session holds a lock, as far as is known.
    async fn is_free(
        &self,
        (name, is_shared): Hold,
        engine: &Engine,
    ) -> Result<(u64, bool), SqlError> {
        let mut txn = look(engine).await?;
        let mut rows = [(name, row::read(txn.as_mut(), name, Lock::Shared).await?)];
        self.process.bury(txn.as_mut(), &mut rows).await?;
        let [(_, entries)] = rows;
        let owner = self.process.owner(self.session);
        let is_blocked = |entry: &Entry| match owner {
            Some(owner) => entry.blocks(owner, is_shared),
            None => !(entry.waits || entry.is_shared && is_shared),
        };
        Ok((txn.began().earliest, !entries.iter().any(is_blocked)))
    }

    /// Adds the session's entry to a lock, as a waiter or as a holder. Returns a time from which on
    /// it is there, if it holds the lock.
    async fn enter(
        &self,
        (name, is_shared): Hold,
        engine: &Engine,
        facts: &Facts,
        waits: bool,
    ) -> Result<Option<Timestamp>, SqlError> {
        let add = |owner: Owner, entries: &mut Vec<Entry>| {
            let entry = Entry { owner, pid: facts.pid, is_shared, waits };
            if !waits && entries.iter().any(|other| other.blocks(owner, is_shared)) {
                return false;
            }
            if !entries.contains(&entry) {
                entries.retain(|other| other.owner != owner || other.is_shared != is_shared);
                entries.push(entry);
            }
            !waits
        };
        let (is_taken, at) = self.process.change(engine, self.session, name, add).await?;
        Ok(is_taken.then_some(at))
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        let mut state = self.state();
        state.give_up_all();
        let loose = std::mem::take(&mut state.loose);
        drop(state);
        self.process.leave(self.session, loose);
    }
}

impl State {
    /// Counts a lock that was taken.
    fn count(&mut self, hold: Hold, of_transaction: bool) {
        let Some(held) = self.held.get_mut(&hold) else { return };
        if of_transaction {
            held.by_transaction += 1;
            self.of_transaction.push(hold);
        } else {
            held.by_session += 1;
        }
    }

    /// Gives up a lock once. Returns false if it was not held by the session itself.
    fn give_up_once(&mut self, hold: Hold) -> bool {
        let is_held = self.held.get(&hold).is_some_and(|held| held.by_session > 0);
        if is_held {
            self.give_up(hold, |held| &mut held.by_session);
        }
        is_held
    }

    fn give_up(&mut self, hold: Hold, count: impl Fn(&mut Held) -> &mut u64) {
        let Some(held) = self.held.get_mut(&hold) else { return };
        let count = count(held);
        *count = count.saturating_sub(1);
        if (held.by_session, held.by_transaction) == (0, 0) {
            self.held.remove(&hold);
            self.loose.insert(hold);
        }
    }

    fn give_up_all(&mut self) {
        self.of_transaction.clear();
        let held = std::mem::take(&mut self.held);
        self.loose.extend(held.into_keys());
    }
}

fn shown(name: Name, is_shared: bool) -> String {
    let shared = if is_shared { " (shared)" } else { "" };
    match name {
        Name::One(key) => format!("{key}{shared}"),
        Name::Two(first, second) => format!("({first}, {second}){shared}"),
    }
}

fn lost((name, is_shared): Hold) -> SqlError {
    let message = format!("the session has lost advisory lock {}", shown(name, is_shared));
    SqlError::new(state::LOCK_NOT_AVAILABLE, message)
        .detail("Its node was out of touch with the database for too long.")
        .hint("Release the lock, and take it again.")
}
