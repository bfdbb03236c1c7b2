//! The sessions of a process, as far as they hold advisory locks, and its lease.

use super::row::{self, Entry, Name, Owner};
use crate::engine::Engine;
use crate::error::{SqlError, restart};
use crate::kv;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Age, Begin, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The length of a lease.
const LEASE_NS: u64 = 10_000_000_000;
/// The time after its end in which a lease still counts: the clocks of two nodes may be apart
/// beyond their bounds.
const SKEW_NS: u64 = 2_000_000_000;
/// The age from which the lease of a process that has ended is removed: a day.
const KEPT_NS: u64 = 86_400_000_000_000;
/// The time between two renewals.
const RENEWS: Duration = Duration::from_secs(3);
/// The time between two sweeps.
const SWEEPS: Duration = Duration::from_secs(3600);
/// The most locks of ended sessions that are released at once, so that the next renewal is in time.
const RELEASES: usize = 100;
/// The number of attempts to change a lock.
const ATTEMPTS: usize = 50;
/// The pause after the first attempt, in which others end; it grows with each.
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
    /// When the last sweep began, by that clock.
    swept: Option<Duration>,
    sessions: BTreeSet<u64>,
    /// Those that hold locks.
    holders: BTreeSet<u64>,
    /// The locks that ended sessions have held; the last ones were tried last.
    ended: VecDeque<(u64, Hold)>,
}

impl State {
    /// Returns the process if its lease is to be renewed.
    fn renews(&self, now: Duration) -> Option<Age> {
        let is_due = !self.holders.is_empty() && now.saturating_sub(self.renewed) >= RENEWS;
        self.name.filter(|_| is_due)
    }
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

    /// Removes the entries of sessions that have ended from rows of locks: of this process, and of
    /// those whose lease is over.
    pub(super) async fn bury(
        &self,
        txn: &mut dyn Transaction,
        rows: &mut [(Name, Vec<Entry>)],
    ) -> Result<(), SqlError> {
        let now_ns = txn.began().earliest;
        let mut live: BTreeMap<Age, bool> = BTreeMap::new();
        let own = self.state().name;
        for process in rows.iter().flat_map(|(_, entries)| entries).map(|it| it.owner.process) {
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
        let is_live = |Entry { owner, .. }: &Entry| match Some(owner.process) == own {
            true => state.sessions.contains(&owner.session),
            false => live.get(&owner.process) == Some(&true),
        };
        rows.iter_mut().for_each(|(_, entries)| entries.retain(is_live));
        Ok(())
    }

    /// Returns all locks as they are now, without the entries of sessions that have ended, and
    /// without a lock that others would wait for.
    pub(super) async fn all_now(
        &self,
        engine: &Engine,
    ) -> Result<Vec<(Name, Vec<Entry>)>, SqlError> {
        let mut txn = look(engine).await?;
        let mut rows = row::all(txn.as_mut()).await?;
        self.bury(txn.as_mut(), &mut rows).await?;
        rows.retain(|(_, entries)| !entries.is_empty());
        Ok(rows)
    }

    /// Changes the entries of a lock in a transaction of its own; `how` is done again after a
    /// conflict, and if the outcome is unknown. Returns what it returned, and a time from which on
    /// the entries are there.
    pub(super) async fn change<T>(
        &self,
        engine: &Engine,
        session: u64,
        name: Name,
        how: impl Fn(Owner, &mut Vec<Entry>) -> T,
    ) -> Result<(T, Timestamp), SqlError> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                engine.database().sleep(PAUSE * attempt as u32).await;
            }
            let mut txn = engine.database().begin(Begin::new(Mode::ReadWrite)).await?;
            let process = *self.state().name.get_or_insert(txn.age());
            let owner = Owner { process, session };
            let changed = async {
                let before = row::read(txn.as_mut(), name, Lock::Exclusive).await?;
                let mut rows = [(name, before.clone())];
                self.bury(txn.as_mut(), &mut rows).await?;
                let [(_, mut entries)] = rows;
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
                    Ok(()) => return Ok((made, Timestamp::end_of(txn.began().latest))),
                    Err(Failure::Aborted(_)) => continue,
                    Err(other) => return Err(other.into()),
                },
                Err(error) if error.is_restart() => continue,
                Err(error) => return Err(error),
            };
            match commit(txn).await? {
                Outcome::Committed { at } => {
                    if let Some(until) = until {
                        let mut state = self.state();
                        state.until_ns = state.until_ns.max(until);
                    }
                    return Ok((made, at));
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
        state.renews(now).is_some() || !state.ended.is_empty()
    }

    /// Renews the lease for the sessions that hold locks, now and then sweeps, and releases locks
    /// of ended sessions: many of them do not keep the sweep from its turn.
    pub(crate) async fn keep(&self, engine: &Engine, now: Duration) -> Result<(), SqlError> {
        let due = self.state().renews(now);
        let renewed = match due {
            Some(process) => self.renew(engine, process, now).await,
            None => Ok(()),
        };
        let swept = match &renewed {
            Ok(()) if due.is_some() && self.begins_sweep(now) => self.sweep(engine).await,
            _ => Ok(()),
        };
        let released = self.release_ended(engine).await;
        renewed.and(swept).and(released)
    }

    async fn renew(&self, engine: &Engine, process: Age, now: Duration) -> Result<(), SqlError> {
        let mut txn = engine.database().begin(Begin::new(Mode::ReadWrite)).await?;
        let until = txn.began().latest.saturating_add(LEASE_NS);
        put_lease(txn.as_mut(), process, until)?;
        if let Outcome::Committed { .. } = commit(txn).await? {
            let mut state = self.state();
            state.until_ns = state.until_ns.max(until);
            state.renewed = now;
        }
        Ok(())
    }

    /// Returns the lock of an ended session that waits longest, which becomes the last one.
    fn next_ended(&self) -> Option<(u64, Hold)> {
        let mut state = self.state();
        let next = state.ended.pop_front()?;
        state.ended.push_back(next);
        Some(next)
    }

    /// Releases some locks of ended sessions. Returns the first error; what failed is tried again
    /// after the others.
    async fn release_ended(&self, engine: &Engine) -> Result<(), SqlError> {
        let mut result = Ok(());
        let count = self.state().ended.len().min(RELEASES);
        for _ in 0..count {
            let Some((session, hold)) = self.next_ended() else { break };
            match self.release(engine, session, hold).await {
                Ok(()) => self.state().ended.retain(|ended| *ended != (session, hold)),
                failed => result = result.and(failed),
            }
        }
        result
    }

    /// True if it is time for a sweep, which begins.
    fn begins_sweep(&self, now: Duration) -> bool {
        let mut state = self.state();
        let is_due = state.swept.is_none_or(|last| now.saturating_sub(last) >= SWEEPS);
        if is_due {
            state.swept = Some(now);
        }
        is_due
    }

    /// Removes the entries of sessions that have ended, with the rows that have no others, and the
    /// leases of processes that have ended long ago.
    async fn sweep(&self, engine: &Engine) -> Result<(), SqlError> {
        let (before, after) = {
            let mut txn = look(engine).await?;
            let before = row::all(txn.as_mut()).await?;
            let mut after = before.clone();
            self.bury(txn.as_mut(), &mut after).await?;
            (before, after)
        };
        for ((name, before), (_, after)) in before.iter().zip(&after) {
            if before != after {
                // A change of nothing buries.
                self.change(engine, 0, *name, |_, _| ()).await?;
            }
        }
        sweep_leases(engine).await
    }
}

/// Removes the leases of processes that have ended long ago: nothing of theirs is held any more.
async fn sweep_leases(engine: &Engine) -> Result<(), SqlError> {
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
