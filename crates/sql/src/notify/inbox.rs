//! The notifications that have arrived for a session.

use super::Action;
use futures::task::AtomicWaker;
use meridian_clock::Timestamp;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// The size of the notifications that may wait for a session, in bytes.
pub(super) const MOST_BYTES: usize = 16 << 20;
/// The bytes of a notification besides its texts, about.
const OVERHEAD_BYTES: usize = 64;

/// A notification, as NotificationResponse has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The process number of the session that has notified.
    pub pid: i32,
    /// The channel.
    pub channel: String,
    /// The payload, or an empty text.
    pub payload: String,
}

impl Notification {
    fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len() + OVERHEAD_BYTES
    }
}

/// The channels of a session, and what has arrived for it.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct State {
    /// The channels on which it listens, in the order in which it began to.
    channels: Vec<String>,
    /// Those on which it will listen once its transaction has committed.
    expected: Vec<String>,
    /// It receives what commits after this timestamp.
    since: Timestamp,
    arrived: VecDeque<Arc<Notification>>,
    bytes: usize,
    is_lost: bool,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects notifications on channels, from a timestamp on if it has expected none before.
    pub(super) fn expect(&self, channels: Vec<String>, since: Option<Timestamp>) {
        let mut state = self.state();
        state.expected = channels;
        state.since = since.unwrap_or(state.since);
    }

    /// Ends the expectations of a transaction that has not committed. Returns true if it listens
    /// on no channel.
    pub(super) fn expects_nothing(&self) -> bool {
        let mut state = self.state();
        state.expected.clear();
        state.channels.is_empty()
    }

    /// Changes the channels as a transaction that has committed has asked for. Returns true if it
    /// listens on no channel.
    pub(super) fn apply(&self, actions: &[Action]) -> bool {
        let mut state = self.state();
        for action in actions {
            match action {
                Action::Notify { .. } => {}
                Action::Listen(channel) if state.channels.contains(channel) => {}
                Action::Listen(channel) => state.channels.push(channel.clone()),
                Action::Unlisten(Some(channel)) => state.channels.retain(|it| it != channel),
                Action::Unlisten(None) => state.channels.clear(),
            }
        }
        state.expected.clear();
        if state.channels.is_empty() {
            (state.arrived, state.bytes, state.is_lost) = (VecDeque::new(), 0, false);
        }
        state.channels.is_empty()
    }

    /// Returns the channels on which it listens.
    pub(super) fn channels(&self) -> Vec<String> {
        self.state().channels.clone()
    }

    /// Adds a notification that has committed at a timestamp, if it is for the session.
    pub(super) fn receive(&self, at: Timestamp, notification: &Arc<Notification>) {
        let mut state = self.state();
        let channel = &notification.channel;
        let is_awaited = state.channels.contains(channel) || state.expected.contains(channel);
        if at <= state.since || !is_awaited || state.is_lost {
            return;
        }
        state.bytes += notification.bytes();
        state.arrived.push_back(notification.clone());
        if state.bytes > MOST_BYTES {
            (state.arrived, state.is_lost) = (VecDeque::new(), true);
        }
        drop(state);
        self.waker.wake();
    }

    /// Notes that notifications were lost.
    pub(super) fn lose(&self) {
        self.state().is_lost = true;
        self.waker.wake();
    }

    /// True if notifications were lost.
    pub(super) fn is_lost(&self) -> bool {
        self.state().is_lost
    }

    /// Takes what has arrived on the channels on which the session listens now.
    pub(super) fn take(&self) -> Vec<Arc<Notification>> {
        let mut state = self.state();
        state.bytes = 0;
        let mut arrived = std::mem::take(&mut state.arrived);
        arrived.retain(|notification| state.channels.contains(&notification.channel));
        arrived.into()
    }

    /// The share of its bound that is used, from 0 to 1.
    pub(super) fn usage(&self) -> f64 {
        self.state().bytes.min(MOST_BYTES) as f64 / MOST_BYTES as f64
    }

    /// Waits until something has arrived, or was lost. One task at a time may wait.
    pub(super) fn poll_arrival(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waker.register(context.waker());
        let state = self.state();
        match state.arrived.is_empty() && !state.is_lost {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(channel: &str, payload: &str) -> Arc<Notification> {
        Arc::new(Notification { pid: 1, channel: channel.into(), payload: payload.into() })
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, ..Timestamp::ZERO }
    }

    fn payloads(inbox: &Inbox) -> Vec<String> {
        inbox.take().iter().map(|notification| notification.payload.clone()).collect()
    }

    #[test]
    fn a_session_gets_what_commits_after_it_began_on_the_channels_that_it_has_by_then() {
        let inbox = Inbox::default();
        inbox.expect(vec!["a".into(), "b".into()], Some(at(5)));
        for (channel, nanos) in [("a", 5), ("a", 6), ("b", 7), ("c", 8), ("a", 9)] {
            inbox.receive(at(nanos), &notification(channel, &nanos.to_string()));
        }
        let listen = ["a", "b"].map(|channel| Action::Listen(channel.into()));
        assert!(!inbox.apply(&listen));
        assert!(!inbox.apply(&[Action::Unlisten(Some("b".into()))]));
        assert_eq!(payloads(&inbox), ["6", "9"]);
        assert!(inbox.apply(&[Action::Listen("c".into()), Action::Unlisten(None)]));
        inbox.receive(at(10), &notification("a", "10"));
        assert!(payloads(&inbox).is_empty());
    }

    #[test]
    fn a_session_that_takes_nothing_loses_all() {
        let inbox = Inbox::default();
        inbox.expect(Vec::new(), Some(Timestamp::ZERO));
        inbox.apply(&[Action::Listen("a".into())]);
        let large = notification("a", &"x".repeat(7999));
        let fits = MOST_BYTES / large.bytes();
        (0..fits).for_each(|_| inbox.receive(at(1), &large));
        assert!(!inbox.is_lost() && inbox.usage() > 0.99);
        inbox.receive(at(1), &large);
        assert!(inbox.is_lost() && inbox.take().is_empty());
    }
}
