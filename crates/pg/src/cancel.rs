//! Cancel requests, which stop the running statement of a connection by its process number and
//! secret.
//!
//! A request arrives on a connection of its own and gets no response, so a guess reveals nothing.
//! The secret is compared without an early exit. A request that arrives between statements stops
//! nothing. A running statement listens while it computes; a request that arrives while a part of
//! its result is written is kept for the next part.

use crate::connection::shutting_down;
use crate::link::End;
use crate::presence::Presence;
use crate::run::{self, Interruption};
use meridian_sql::Watch;
use meridian_sql::system::Backend;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The open sessions by process number.
pub(crate) struct Registry {
    next: AtomicI32,
    sessions: Mutex<HashMap<i32, (i32, Arc<Running>)>>,
}

/// The time between two looks whether a client is present.
const LOOKS: Duration = Duration::from_millis(100);

/// The running statement of a session, for what ends it.
#[derive(Default)]
pub(crate) struct Running {
    /// Tells a statement that waits of cancel requests.
    pub(crate) cancelled: Notify,
    progress: Mutex<Progress>,
    client: Option<Presence>,
}

/// The progress of a session's statement.
#[derive(Default)]
struct Progress {
    /// The limits of a statement that computes; `None` while no statement listens.
    limits: Option<Limits>,
    /// True from the start of a statement until its last response is written.
    is_running: bool,
    /// True if the connection is to end (`pg_terminate_backend`).
    is_terminated: bool,
    /// True if a request has come while a part of the result was written.
    is_kept: bool,
}

struct Limits {
    is_cancelled: bool,
    deadline: Option<Instant>,
    /// The time of the next look whether the client is present.
    look: Option<Instant>,
}

/// The time in which a statement listens.
pub(crate) struct Listening<'a>(&'a Running);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let mut progress = self.0.progress.lock();
        // The part may have ended before it learned of a request: that is for the next part.
        let is_cancelled = progress.limits.take().is_some_and(|limits| limits.is_cancelled);
        progress.is_kept |= is_cancelled && progress.is_running;
    }
}

impl Running {
    /// Listens for a part of a statement. Of earlier requests, only one that is kept concerns it.
    pub(crate) fn listen(&self, deadline: Option<Instant>) -> Listening<'_> {
        let mut progress = self.progress.lock();
        let is_cancelled = std::mem::take(&mut progress.is_kept);
        progress.limits = Some(Limits { is_cancelled, deadline, look: None });
        Listening(self)
    }

    /// Begins a statement, or ends it: its last response is written. Requests before do not concern
    /// what follows.
    pub(crate) fn runs(&self, is_running: bool) {
        let mut progress = self.progress.lock();
        (progress.is_running, progress.is_kept) = (is_running, false);
    }

    /// True if the statement that listens is to end because of a request.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.progress.lock().limits.as_ref().is_some_and(|limits| limits.is_cancelled)
    }

    /// True if the connection is to end.
    pub(crate) fn is_terminated(&self) -> bool {
        self.progress.lock().is_terminated
    }

    /// Returns what ends the statement that listens, if it is to end; as an error, the end of its
    /// connection.
    pub(crate) fn due(&self) -> Option<Result<Interruption, End>> {
        let mut progress = self.progress.lock();
        let is_terminated = progress.is_terminated;
        let limits = progress.limits.as_mut()?;
        if is_terminated {
            return Some(Err(shutting_down()));
        }
        if limits.is_cancelled {
            return Some(Ok(Interruption::Cancelled));
        }
        let now = Instant::now();
        if limits.deadline.is_some_and(|at| now >= at) {
            return Some(Ok(Interruption::TimedOut));
        }
        let client = self.client.as_ref()?;
        if now < *limits.look.get_or_insert(now + LOOKS) {
            return None;
        }
        limits.look = Some(now + LOOKS);
        client.is_over().then_some(Err(End::Closed))
    }

    fn cancel(&self) {
        let mut progress = self.progress.lock();
        match &mut progress.limits {
            Some(limits) => limits.is_cancelled = true,
            None => progress.is_kept = progress.is_running,
        }
        drop(progress);
        self.cancelled.notify_waiters();
    }
}

impl Backend for Running {
    fn cancel(&self) {
        Running::cancel(self);
    }

    fn terminate(&self) {
        self.progress.lock().is_terminated = true;
        Running::cancel(self);
    }
}

/// The registration of a session, which ends when it is dropped.
pub(crate) struct Entry {
    registry: Arc<Registry>,
    pub(crate) process: i32,
    pub(crate) secret: i32,
    pub(crate) running: Arc<Running>,
    /// The session's statements ask it while they compute.
    pub(crate) watch: Arc<Watch>,
}

impl Registry {
    /// Creates a registry. `first` should differ between nodes, so that process numbers are unique
    /// in the cluster as far as possible.
    pub(crate) fn new(first: i32) -> Arc<Registry> {
        Arc::new(Registry { next: AtomicI32::new(first.max(1)), sessions: Mutex::default() })
    }

    pub(crate) fn enter(self: &Arc<Self>, secret: i32, client: Option<Presence>) -> Entry {
        let running = Arc::new(Running { client, ..Running::default() });
        let mut sessions = self.sessions.lock();
        let process = loop {
            let process = self.next.fetch_add(1, Relaxed) & i32::MAX;
            if process != 0 && !sessions.contains_key(&process) {
                break process;
            }
        };
        sessions.insert(process, (secret, running.clone()));
        let asked = running.clone();
        let is_due = Box::new(move || asked.due().is_some());
        let watch = Arc::new(Watch { is_due, apart: |f| run::apart(true, f) });
        Entry { registry: self.clone(), process, secret, running, watch }
    }

    /// Stops the running statements of all sessions.
    pub(crate) fn cancel_all(&self) {
        self.sessions.lock().values().for_each(|(_, running)| running.cancel());
    }

    /// Stops the running statement of a session. Returns false if there is no such session, or the
    /// secret is wrong.
    pub(crate) fn cancel(&self, process: i32, secret: i32) -> bool {
        let sessions = self.sessions.lock();
        // The secret is compared even for an unknown number, so that both cases take the same time.
        let (expected, session) = match sessions.get(&process) {
            Some((secret, session)) => (*secret, Some(session)),
            None => (!secret, None),
        };
        let difference = expected
            .to_ne_bytes()
            .iter()
            .zip(secret.to_ne_bytes())
            .fold(0, |all, (a, b)| all | (a ^ b));
        match session {
            Some(session) if std::hint::black_box(difference) == 0 => {
                session.cancel();
                true
            }
            _ => false,
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.sessions.lock().remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_secret_of_a_living_session_cancels() {
        let registry = Registry::new(1);
        let entry = registry.enter(77, None);
        assert!(registry.cancel(entry.process, 77));
        for bit in 0..32 {
            assert!(!registry.cancel(entry.process, 77 ^ (1 << bit)));
        }
        assert!(!registry.cancel(entry.process + 1, 77));
        let process = entry.process;
        drop(entry);
        assert!(!registry.cancel(process, 77));
    }

    #[test]
    fn a_request_concerns_the_statement_that_listens_and_no_other() {
        let registry = Registry::new(1);
        let entry = registry.enter(77, None);
        let cancel = || assert!(registry.cancel(entry.process, 77));
        cancel();
        assert!(entry.running.due().is_none(), "no statement listens");
        let first = entry.running.listen(None);
        assert!(entry.running.due().is_none(), "the request came before");
        cancel();
        assert!(matches!(entry.running.due(), Some(Ok(Interruption::Cancelled))));
        drop(first);
        assert!(entry.running.due().is_none(), "no statement listens");
        let _late = entry.running.listen(Some(Instant::now()));
        let due = entry.running.due();
        assert!(matches!(due, Some(Ok(Interruption::TimedOut))), "its time is over");
    }

    #[test]
    fn a_request_between_two_parts_of_a_result_is_kept() {
        let registry = Registry::new(1);
        let entry = registry.enter(77, None);
        let cancel = || assert!(registry.cancel(entry.process, 77));
        entry.running.runs(true);
        drop(entry.running.listen(None));
        cancel();
        let second = entry.running.listen(None);
        assert!(entry.running.is_cancelled());
        drop(second);
        let third = entry.running.listen(None);
        assert!(entry.running.is_cancelled(), "the part before has ended without it");
        drop(third);
        cancel();
        entry.running.runs(false);
        let _next = entry.running.listen(None);
        assert!(!entry.running.is_cancelled(), "the statement was over");
    }

    #[test]
    fn numbers_wrap_without_zero_and_without_meeting() {
        let registry = Registry::new(i32::MAX - 1);
        let entries: Vec<Entry> = (0..4).map(|n| registry.enter(n, None)).collect();
        let mut numbers: Vec<i32> = entries.iter().map(|entry| entry.process).collect();
        assert!(numbers.iter().all(|&process| process > 0));
        numbers.dedup();
        assert_eq!(numbers.len(), 4);
    }
}
