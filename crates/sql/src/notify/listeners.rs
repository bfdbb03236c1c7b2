//! The sessions of a process that listen, and the process's way through the rows.

use super::inbox::Inbox;
use super::queue;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::kv;
use futures::lock::Mutex as AsyncMutex;
use futures::task::AtomicWaker;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, Value};
use meridian_txn::{Begin, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
/// The longest time from the making of a row's key to its commit for which each read finds the
/// row, in nanoseconds.
const WINDOW_NS: u64 = 60 * SECOND_NS;
/// The time between two reads of all rows, in nanoseconds.
const WHOLE_NS: u64 = 30 * SECOND_NS;
/// The largest step from one snapshot to the next, in nanoseconds: rows are kept for longer.
const STEP_NS: u64 = 30 * SECOND_NS;
/// The time for which a row is kept behind its commit, in nanoseconds.
const KEPT_NS: u64 = 60 * SECOND_NS;
/// The time between two looks for rows to erase.
const ERASES: Duration = Duration::from_secs(30);
/// The most rows that are erased by one transaction.
const ERASED_ROWS: usize = 1000;

/// The sessions of a process that listen.
#[derive(Default)]
pub(crate) struct Listeners {
    state: Mutex<State>,
    /// The newest snapshot that was read; held while the next one is. `None` before the first.
    read: AsyncMutex<Option<Position>>,
    /// True if a transaction of this process has notified since the newest read began.
    has_news: AtomicBool,
    waker: AtomicWaker,
}

#[derive(Default)]
struct State {
    inboxes: BTreeMap<u64, Arc<Inbox>>,
    /// True if a task reads for them.
    is_served: bool,
    /// The number of transactions of this process that have notified.
    sent: u64,
    /// Of these, the number of the first whose rows are erased.
    erased_of: u64,
    /// When it looked last for rows to erase.
    erased: Duration,
}

#[derive(Clone, Copy)]
struct Position {
    /// The newest snapshot.
    at: Timestamp,
    /// The newest snapshot of which all rows were read.
    whole: Timestamp,
}

impl Listeners {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares a session for listening on more channels: it receives what commits from now on.
    pub(super) async fn enter(
        &self,
        engine: &Engine,
        token: Timestamp,
        session: u64,
        inbox: &Arc<Inbox>,
        channels: Vec<String>,
    ) -> Result<(), SqlError> {
        let mut read = self.read.lock().await;
        if self.state().inboxes.is_empty() {
            *read = None;
        }
        let at = self.read_all(engine, token, &mut read).await?;
        let is_new = self.state().inboxes.insert(session, inbox.clone()).is_none();
        inbox.expect(channels, is_new.then_some(at));
        Ok(())
    }

    /// Ends a session's listening.
    pub(super) fn leave(&self, session: u64) {
        self.state().inboxes.remove(&session);
    }

    /// Notes that a transaction of this process has notified.
    pub(super) fn sent(&self) {
        self.state().sent += 1;
        self.has_news.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Waits until a transaction of this process has notified.
    pub(super) fn poll_news(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waker.register(context.waker());
        match self.has_news.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// True if there are sessions that listen, and no task reads for them: the caller's does then.
    pub(super) fn begin_to_serve(&self) -> bool {
        let mut state = self.state();
        !state.inboxes.is_empty() && !std::mem::replace(&mut state.is_served, true)
    }

    /// True if the task that reads has to go on; it is to end otherwise.
    pub(super) fn goes_on(&self) -> bool {
        let mut state = self.state();
        state.is_served = !state.inboxes.is_empty();
        state.is_served
    }

    /// Notes that the task that reads has ended.
    pub(super) fn is_left(&self) {
        self.state().is_served = false;
    }

    /// The largest share of its bound that a session's inbox uses.
    pub(crate) fn usage(&self) -> f64 {
        self.state().inboxes.values().map(|inbox| inbox.usage()).fold(0.0, f64::max)
    }

    /// Reads what was committed up to now, above a token, and distributes it.
    pub(super) async fn read(&self, engine: &Engine, token: Timestamp) -> Result<(), SqlError> {
        let mut read = self.read.lock().await;
        self.read_all(engine, token, &mut read).await.map(drop)
    }

    /// Reads one snapshot after another up to the present, and returns its timestamp. Those that it
    /// has read count if it is dropped before it ends.
    async fn read_all(
        &self,
        engine: &Engine,
        token: Timestamp,
        read: &mut Option<Position>,
    ) -> Result<Timestamp, SqlError> {
        loop {
            self.has_news.store(false, Ordering::Release);
            let Some(before) = *read else {
                let at = first(engine, token).await?;
                *read = Some(Position { at, whole: at });
                return Ok(at);
            };
            match self.read_next(engine, token, before).await? {
                Some((position, is_present)) => {
                    *read = Some(position);
                    if is_present {
                        return Ok(position.at);
                    }
                }
                // Rows are gone that were not read: it goes on at the present.
                None => {
                    let inboxes: Vec<_> = self.state().inboxes.values().cloned().collect();
                    inboxes.iter().for_each(|inbox| inbox.lose());
                    *read = None;
                }
            }
        }
    }

    /// Reads and distributes the next snapshot. Returns its position, and true if it is the
    /// present; `None` if it is older than what is kept. If it is dropped before it ends, nothing
    /// has happened.
    async fn read_next(
        &self,
        engine: &Engine,
        token: Timestamp,
        before: Position,
    ) -> Result<Option<(Position, bool)>, SqlError> {
        let begin = |at| Begin { token, ..Begin::new(Mode::ReadOnly(at)) };
        let mut txn = engine.database().begin(begin(ReadAt::Now)).await?;
        let next_ns = before.at.nanos.saturating_add(STEP_NS);
        let is_present = txn.began().earliest <= next_ns;
        let found = async {
            if !is_present {
                let at = ReadAt::Exact(Timestamp::end_of(next_ns));
                txn = engine.database().begin(begin(at)).await?;
            }
            let behind_ns = txn.began().earliest.saturating_sub(before.whole.nanos);
            let is_whole = behind_ns >= WHOLE_NS;
            let (from_ns, above) = match is_whole {
                true => (0, before.whole),
                false => (before.at.nanos.saturating_sub(WINDOW_NS), before.at),
            };
            let mut rows = Vec::new();
            queue::visit(txn.as_mut(), from_ns, |key, at, value| {
                if at > above {
                    rows.push((at, key, value));
                }
            })
            .await?;
            Ok::<_, Failure>((is_whole, rows))
        };
        let (is_whole, rows) = match found.await {
            Ok(found) => found,
            Err(Failure::BelowHorizon { .. }) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        let at = snapshot_of(txn.as_ref())?;
        if at <= before.at {
            return Ok(Some((before, true)));
        }
        self.distribute(rows, before, is_whole)?;
        let whole = if is_whole { at } else { before.whole };
        Ok(Some((Position { at, whole }, is_present)))
    }

    /// Gives the sessions what is new in rows.
    fn distribute(
        &self,
        mut rows: Vec<(Timestamp, Key, Value)>,
        before: Position,
        is_whole: bool,
    ) -> Result<(), SqlError> {
        rows.sort();
        let mut due = Vec::with_capacity(rows.len());
        for (at, key, value) in rows {
            // A late one may be below the keys that are read each time: only a read of all rows
            // counts.
            let is_late = at.nanos.saturating_sub(queue::made_ns(&key)?) > WINDOW_NS;
            if if is_late { is_whole } else { at > before.at } {
                due.push((at, Arc::new(queue::decode(&value)?)));
            }
        }
        let inboxes: Vec<_> = self.state().inboxes.values().cloned().collect();
        for (at, notification) in &due {
            inboxes.iter().for_each(|inbox| inbox.receive(*at, notification));
        }
        Ok(())
    }

    /// True if it is time to [erase](Listeners::erase), by a clock that only goes forward.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let state = self.state();
        let concerns = state.sent > state.erased_of || !state.inboxes.is_empty();
        concerns && now.saturating_sub(state.erased) >= ERASES
    }

    /// Erases the rows that are old.
    pub(crate) async fn erase(&self, engine: &Engine, now: Duration) -> Result<(), SqlError> {
        let sent = {
            let mut state = self.state();
            state.erased = now;
            state.sent
        };
        let mut txn = engine.database().begin(Begin::new(Mode::ReadOnly(ReadAt::Now))).await?;
        let now_ns = txn.began().earliest;
        let (mut old, mut has_more) = (Vec::new(), false);
        queue::visit(txn.as_mut(), 0, |key, at, _| {
            match now_ns.saturating_sub(at.nanos) > KEPT_NS {
                true => old.push(key),
                false => has_more = true,
            }
        })
        .await?;
        for keys in old.chunks(ERASED_ROWS) {
            let mut txn = engine.database().begin(Begin::new(Mode::ReadWrite)).await?;
            for key in keys {
                txn.put(key.clone(), None)?;
            }
            // What loses a conflict is erased next time, or by another process.
            has_more |= !matches!(txn.commit().await, Outcome::Committed { .. });
        }
        if !has_more {
            self.state().erased_of = sent;
        }
        Ok(())
    }
}

/// Reads the first snapshot, which is the present, and returns its timestamp.
async fn first(engine: &Engine, token: Timestamp) -> Result<Timestamp, SqlError> {
    let begin = |at| Begin { token, ..Begin::new(Mode::ReadOnly(at)) };
    let mut txn = engine.database().begin(begin(ReadAt::Now)).await?;
    // A read chooses the timestamp.
    let key = kv::to_key(kv::NOTIFICATIONS.to_vec());
    txn.get(&key, Lock::Shared).await?;
    let (mut at, now_ns) = (snapshot_of(txn.as_ref())?, txn.began().earliest);
    if at.nanos.saturating_add(STEP_NS) < now_ns {
        // In a database that rests, the present is the time of its newest commit.
        at = Timestamp::end_of(now_ns);
        txn = engine.database().begin(begin(ReadAt::Exact(at))).await?;
        txn.get(&key, Lock::Shared).await?;
    }
    Ok(at)
}

fn snapshot_of(txn: &dyn Transaction) -> Result<Timestamp, SqlError> {
    txn.read_at().ok_or_else(|| SqlError::corrupted("a snapshot without a timestamp"))
}
