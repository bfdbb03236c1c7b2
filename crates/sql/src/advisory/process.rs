//! The sessions of a process, as far as they hold advisory locks, and its lease.

use super::row::{self, Entry, Name, Owner};
use crate::engine::Engine;
use crate::error::{SqlError, restart};
use crate::kv;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Age, Begin, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long locks are held after the last sign of life of their process, in seconds.
pub(super) const LEASE_S: u64 = 10;
const LEASE_NS: u64 = LEASE_S * 1_000_000_000;
/// How long the lease of a process that has ended is kept: a day.
const KEPT_NS: u64 = 86_400_000_000_000;
/// How far the clocks of two nodes may be apart beyond their bounds.
const SKEW_NS: u64 = 2_000_000_000;
/// The time between two renewals.
const RENEWS: Duration = Duration::from_secs(3);
/// The number of attempts to change a lock.
const ATTEMPTS: usize = 50;

/// The time after the first of these, in which others end.
const PAUSE: Duration = Duration::from_millis(1);

/// A lock, and true if it is shared.
pub(super) type Hold = (Name, bool);

/// The sessions of a process, and the time up to which they hold their locks.
#[derive(Default)]
pub(crate) struct Process {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    name: Option<Age>,
    /// The end of the lease that was written last, in nanoseconds since 1970.
    until_ns: u64,
    /// When it was renewed, by a clock that only goes forward.
    renewed: Duration,
    has_swept: bool,
    sessions: BTreeSet<u64>,
    /// Those that hold locks.
    holders: BTreeSet<u64>,
    /// The locks that ended sessions have held.
    ended: Vec<(u64, Hold)>,
}

/// Returns the key of a process's lease.
fn lease_key(process: Age) -> Key {
    let mut bytes = kv::LEASES.to_vec();
    bytes.extend(process.began_ns.to_be_bytes());
    bytes.extend(process.node.to_be_bytes());
    bytes.extend(process.number.to_be_bytes());
    kv::to_key(bytes)
}

fn lease(value: &Value) -> Result<u64, SqlError> {
    let bytes = value.0.as_ref().try_into().map(u64::from_be_bytes);
    bytes.map_err(|_| SqlError::corrupted("the lease of advisory locks"))
}

impl Process {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session.
    pub(super) fn enter(&self, session: u64) {
        self.state().sessions.insert(session);
    }

    /// Ends a session, which has held some locks: they are released soon.
    pub(super) fn leave(&self, session: u64, held: impl IntoIterator<Item = Hold>) {
        let mut state = self.state();
        state.sessions.remove(&session);
        state.holders.remove(&session);
        state.ended.extend(held.into_iter().map(|hold| (session, hold)));
    }

    /// Notes whether a session holds locks.
    pub(super) fn note(&self, session: u64, holds: bool) {
        let mut state = self.state();
        match holds {
            true => state.holders.insert(session),
            false => state.holders.remove(&session),
        };
    }

    /// Returns the session's name; `None` before the process has taken a lock.
    pub(super) fn owner(&self, session: u64) -> Option<Owner> {
        self.state().name.map(|process| Owner { process, session })
    }

    /// Removes the entries of sessions that have ended: of this process, and of those whose lease
    /// is over.
    pub(super) async fn bury(
        &self,
        txn: &mut dyn Transaction,
        entries: &mut Vec<Entry>,
    ) -> Result<(), SqlError> {
        let now_ns = txn.began().earliest;
        let mut live: BTreeMap<Age, bool> = BTreeMap::new();
        let own = self.state().name;
        for process in entries.iter().map(|entry| entry.owner.process) {
            if live.contains_key(&process) || Some(process) == own {
                continue;
            }
            let key = lease_key(process);
            let found = txn.get(&key, Lock::Shared).await?;
            let until = found.as_ref().map(lease).transpose()?.unwrap_or(0);
            let is_live = now_ns <= until.saturating_add(SKEW_NS);
            if let (false, Some(value)) = (is_live, &found)
                && txn.mode() == Mode::ReadWrite
            {
                // It is not renewed any more.
                txn.keep(&key, value)?;
            }
            live.insert(process, is_live);
        }
        let state = self.state();
        entries.retain(|Entry { owner, .. }| match Some(owner.process) == own {
            true => state.sessions.contains(&owner.session),
            false => live.get(&owner.process) == Some(&true),
        });
        Ok(())
    }

    /// Changes the entries of a lock in a transaction of its own; `how` is done again after a
    /// conflict, and if the outcome is unknown. Returns what it returned, and the time of the
    /// commit, if it has changed anything.
    pub(super) async fn change<T>(
        &self,
        engine: &Engine,
        session: u64,
        name: Name,
        how: impl Fn(Owner, &mut Vec<Entry>) -> T,
    ) -> Result<(T, Option<Outcome>), SqlError> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                engine.database().sleep(PAUSE * attempt as u32).await;
            }
            let mut txn = engine.database().begin(Begin::new(Mode::ReadWrite)).await?;
            let process = *self.state().name.get_or_insert(txn.age());
            let owner = Owner { process, session };
            let changed = async {
                let before = row::read(txn.as_mut(), name, Lock::Exclusive).await?;
                let mut entries = before.clone();
                self.bury(txn.as_mut(), &mut entries).await?;
                let made = how(owner, &mut entries);
                if entries == before {
                    return Ok::<_, SqlError>((made, None));
                }
                row::write(txn.as_mut(), name, &entries)?;
                let until = txn.began().latest.saturating_add(LEASE_NS);
                let is_due = self.state().until_ns.saturating_add(LEASE_NS / 2) < until;
                if is_due && entries.iter().any(|entry| entry.owner == owner) {
                    put_lease(txn.as_mut(), process, until)?;
                    return Ok((made, Some(Some(until))));
                }
                Ok((made, Some(None)))
            };
            let (made, until) = match changed.await {
                Ok((made, Some(until))) => (made, until),
                // What it read must have been true.
                Ok((made, None)) => match txn.validate().await {
                    Ok(()) => return Ok((made, None)),
                    Err(Failure::Aborted(_)) => continue,
                    Err(other) => return Err(other.into()),
                },
                Err(error) if error.is_restart() => continue,
                Err(error) => return Err(error),
            };
            match commit(txn).await? {
                done @ Outcome::Committed { .. } => {
                    if let Some(until) = until {
                        let mut state = self.state();
                        state.until_ns = state.until_ns.max(until);
                    }
                    return Ok((made, Some(done)));
                }
                Outcome::Unknown | Outcome::Aborted { .. } => {}
            }
        }
        Err(restart("too many sessions take an advisory lock"))
    }

    /// Removes a session's entry from a lock.
    pub(super) async fn release(
        &self,
        engine: &Engine,
        session: u64,
        (name, is_shared): Hold,
    ) -> Result<(), SqlError> {
        let remove = |owner: Owner, entries: &mut Vec<Entry>| {
            entries.retain(|entry| entry.owner != owner || entry.is_shared != is_shared);
        };
        self.change(engine, session, name, remove).await.map(|_| ())
    }

    /// True if there is something to [keep](Process::keep), by a clock that only goes forward.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let state = self.state();
        let renews = !state.holders.is_empty() && now.saturating_sub(state.renewed) >= RENEWS;
        renews || !state.ended.is_empty()
    }

    /// Releases the locks of ended sessions, and renews the lease for those that hold some.
    pub(crate) async fn keep(&self, engine: &Engine, now: Duration) -> Result<(), SqlError> {
        loop {
            let Some((session, hold)) = self.state().ended.last().copied() else { break };
            self.release(engine, session, hold).await?;
            self.state().ended.retain(|ended| *ended != (session, hold));
        }
        let process = {
            let state = self.state();
            let is_due = !state.holders.is_empty() && now.saturating_sub(state.renewed) >= RENEWS;
            state.name.filter(|_| is_due)
        };
        let Some(process) = process else { return Ok(()) };
        let mut txn = engine.database().begin(Begin::new(Mode::ReadWrite)).await?;
        let until = txn.began().latest.saturating_add(LEASE_NS);
        put_lease(txn.as_mut(), process, until)?;
        if let Outcome::Committed { .. } = commit(txn).await? {
            let is_first = {
                let mut state = self.state();
                state.until_ns = state.until_ns.max(until);
                state.renewed = now;
                !std::mem::replace(&mut state.has_swept, true)
            };
            if is_first {
                return sweep(engine).await;
            }
        }
        Ok(())
    }
}

/// Removes the leases of processes that have ended long ago: nothing of theirs is held any more.
async fn sweep(engine: &Engine) -> Result<(), SqlError> {
    let mut txn = engine.database().begin(Begin::new(Mode::ReadWrite)).await?;
    let oldest = txn.began().earliest.saturating_sub(KEPT_NS);
    let mut rest = Some(kv::prefix_range(&kv::LEASES));
    while let Some(range) = rest {
        let chunk = txn.scan(&range, Lock::Shared, false, 1000).await?;
        for (key, value) in chunk.rows {
            if lease(&value)? < oldest {
                txn.put(key, None)?;
            }
        }
        rest = chunk.rest;
    }
    // What loses a conflict is done by another process.
    commit(txn).await.map(|_| ())
}

fn put_lease(txn: &mut dyn Transaction, process: Age, until_ns: u64) -> Result<(), SqlError> {
    let value = kv::to_value(until_ns.to_be_bytes().to_vec());
    Ok(txn.put(lease_key(process), Some(value))?)
}

async fn commit(mut txn: Box<dyn Transaction>) -> Result<Outcome, SqlError> {
    match txn.before_commit().await {
        Ok(()) => Ok(txn.commit().await),
        Err(Failure::Aborted(why)) => Ok(Outcome::Aborted { why }),
        Err(other) => Err(other.into()),
    }
}

/// Begins a read of the present, which takes no lock.
pub(super) async fn look(engine: &Engine) -> Result<Box<dyn Transaction>, SqlError> {
    Ok(engine.database().begin(Begin::new(Mode::ReadOnly(ReadAt::Now))).await?)
}
