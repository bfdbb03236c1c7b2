//! The notifications of a session: what its transaction asks for, and what has arrived.

use super::inbox::{Inbox, Notification};
use super::listeners::Listeners;
use super::{Action, queue};
use crate::commit::unknown;
use crate::engine::Engine;
use crate::error::{SqlError, restart};
use crate::session::Session;
use crate::work::Step;
use meridian_clock::Timestamp;
use meridian_txn::{Begin, Failure, Mode, Outcome, ReadAt, Transaction};
use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of attempts to send what a read-only transaction has notified.
const ATTEMPTS: usize = 50;

/// The notifications of a session.
#[derive(Default)]
pub(crate) struct Notifications {
    listeners: Arc<Listeners>,
    session: u64,
    inbox: Arc<Inbox>,
    pending: Mutex<Pending>,
    /// True if its newest transaction has notified, and that has not been read yet.
    has_sent: AtomicBool,
    /// True if the session's client receives notifications.
    is_received: AtomicBool,
    /// True if the session listens on a channel.
    listens: AtomicBool,
}

/// The actions of the open transaction, for when it commits.
#[derive(Default)]
struct Pending {
    actions: Vec<Action>,
    /// The notifications among them: each is sent once.
    sent: HashSet<Action>,
}

impl Notifications {
    pub(crate) fn new(engine: &Engine, session: u64) -> Notifications {
        let mut notifications = Notifications::default();
        (notifications.listeners, notifications.session) = (engine.listeners.clone(), session);
        notifications
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the session's client receives notifications.
    pub(crate) fn is_received(&self) -> bool {
        self.is_received.load(Ordering::Relaxed)
    }

    /// Adds what the open transaction is to do.
    pub(crate) fn add(&self, action: Action) {
        let mut pending = self.pending();
        if matches!(action, Action::Notify { .. }) && !pending.sent.insert(action.clone()) {
            return;
        }
        pending.actions.push(action);
    }

    /// Returns the number of actions of the open transaction.
    pub(crate) fn mark(&self) -> usize {
        self.pending().actions.len()
    }

    /// Undoes what was added since a mark.
    pub(crate) fn roll_back(&self, mark: usize) {
        let mut pending = self.pending();
        let at = mark.min(pending.actions.len());
        for action in pending.actions.split_off(at) {
            pending.sent.remove(&action);
        }
    }

    /// Takes what the open transaction is to do.
    pub(crate) fn take_pending(&self) -> Vec<Action> {
        std::mem::take(&mut *self.pending()).actions
    }

    /// Ends the open transaction, which has not committed if anything is left to do.
    pub(crate) fn end_transaction(&self) {
        let left = self.take_pending();
        if left.iter().any(|action| matches!(action, Action::Listen(_)))
            && self.inbox.expects_nothing()
        {
            self.listeners.leave(self.session);
        }
    }

    /// Prepares for listening, before a transaction commits that begins it.
    pub(crate) async fn prepare(&self, engine: &Engine, token: Timestamp) -> Result<(), SqlError> {
        let listened = |action: &Action| match action {
            Action::Listen(channel) => Some(channel.clone()),
            _ => None,
        };
        let channels: Vec<String> = self.pending().actions.iter().filter_map(listened).collect();
        if channels.is_empty() {
            return Ok(());
        }
        self.listeners.enter(engine, token, self.session, &self.inbox, channels).await
    }

    /// Returns the notifications of the open transaction.
    fn sent(&self) -> Vec<Action> {
        let pending = self.pending();
        let is_sent = |action: &&Action| matches!(action, Action::Notify { .. });
        pending.actions.iter().filter(is_sent).cloned().collect()
    }

    /// Writes the notifications of the open transaction into it.
    pub(crate) async fn write(
        &self,
        txn: &mut dyn Transaction,
        engine: &Engine,
        pid: i32,
    ) -> Result<(), SqlError> {
        let sent = self.sent();
        if sent.is_empty() {
            return Ok(());
        }
        let clock = engine.database().begin(Begin::new(Mode::ReadOnly(ReadAt::Now))).await?;
        Ok(queue::write(txn, &sent, pid, clock.began().latest)?)
    }

    /// Sends the notifications of a read-only transaction, in one of their own. Returns its
    /// timestamp.
    pub(crate) async fn send_apart(
        &self,
        engine: &Engine,
        pid: i32,
    ) -> Result<Option<Timestamp>, SqlError> {
        let sent = self.sent();
        if sent.is_empty() {
            return Ok(None);
        }
        for _ in 0..ATTEMPTS {
            let mut txn = engine.database().begin(Begin::new(Mode::ReadWrite)).await?;
            let now_ns = txn.began().latest;
            queue::write(txn.as_mut(), &sent, pid, now_ns)?;
            match txn.before_commit().await {
                Ok(()) => {}
                Err(Failure::Aborted(_)) => continue,
                Err(other) => return Err(other.into()),
            }
            match txn.commit().await {
                Outcome::Committed { at } => return Ok(Some(at)),
                Outcome::Aborted { .. } => {}
                Outcome::Unknown => return Err(unknown()),
            }
        }
        Err(restart("the transaction lost too many conflicts"))
    }

    /// Does what the transaction that has committed was to do then.
    pub(crate) fn committed(&self) {
        let done = self.take_pending();
        if done.is_empty() {
            return;
        }
        let is_silent = self.inbox.apply(&done);
        self.listens.store(!is_silent, Ordering::Relaxed);
        if is_silent {
            self.listeners.leave(self.session);
        }
        if done.iter().any(|action| matches!(action, Action::Notify { .. })) {
            self.listeners.sent();
            self.has_sent.store(!is_silent, Ordering::Relaxed);
        }
    }

    /// Ends listening at once.
    pub(crate) fn unlisten(&self) {
        self.inbox.apply(&[Action::Unlisten(None)]);
        self.listens.store(false, Ordering::Relaxed);
        self.listeners.leave(self.session);
    }

    /// Returns the channels on which the session listens.
    pub(crate) fn channels(&self) -> Vec<String> {
        self.inbox.channels()
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.listeners.leave(self.session);
    }
}

impl Session {
    /// Adds to what the open transaction does when it commits.
    pub(crate) fn announce(&mut self, action: Action) {
        self.facts.notifications.add(action.clone());
        if let Some(work) = self.work.as_mut().filter(|work| !work.reads_only()) {
            work.journal.push(Step::Announced(action));
        }
    }

    /// Lets the session listen: its owner sends what [`Session::take_notifications`] returns to the
    /// client. LISTEN is refused before (0A000).
    pub fn receive_notifications(&self) {
        self.facts.notifications.is_received.store(true, Ordering::Relaxed);
    }

    /// True if it listens on a channel.
    pub fn listens(&self) -> bool {
        self.facts.notifications.listens.load(Ordering::Relaxed)
    }

    /// True if its newest transaction has notified, and it listens: it is to
    /// [read](Session::read_notifications) that before its client learns that the transaction has
    /// ended.
    pub fn has_notified(&self) -> bool {
        self.facts.notifications.has_sent.load(Ordering::Relaxed)
    }

    /// Reads the notifications of all sessions up to its newest transaction. What fails is left
    /// for the [delivery](crate::Delivery).
    pub async fn read_notifications(&mut self) {
        let notifications = &self.facts.notifications;
        if notifications.has_sent.swap(false, Ordering::Relaxed) {
            let _ = notifications.listeners.read(&self.engine, self.facts.token).await;
        }
    }

    /// Takes the notifications that have arrived. To be called while it is in no transaction.
    pub fn take_notifications(&self) -> Vec<Arc<Notification>> {
        self.facts.notifications.inbox.take()
    }

    /// Waits until notifications have arrived, or were [lost](Session::has_lost_notifications).
    pub fn notified(&self) -> impl Future<Output = ()> + Send + use<> {
        let inbox = self.facts.notifications.inbox.clone();
        poll_fn(move |context| inbox.poll_arrival(context))
    }

    /// True if notifications were lost, since too many wait, or their rows are gone: the session
    /// is to be ended, so that its client learns of it.
    pub fn has_lost_notifications(&self) -> bool {
        self.facts.notifications.inbox.is_lost()
    }
}
