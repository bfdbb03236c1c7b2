//! A oneshot channel: one side answers, the other waits.

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

enum State<T> {
    Open(Option<Waker>),
    Answered(T),
    Taken,
    /// The answerer was dropped without an answer.
    Abandoned,
}

/// The side that answers. If it is dropped without an answer, the other side resolves to `None`.
pub struct Sender<T>(Option<Arc<Mutex<State<T>>>>);

/// The side that waits. Resolves to `None` if no answer can come any more.
pub struct Answer<T>(Arc<Mutex<State<T>>>);

/// Returns both sides of a new channel.
pub fn oneshot<T>() -> (Sender<T>, Answer<T>) {
    let state = Arc::new(Mutex::new(State::Open(None)));
    (Sender(Some(Arc::clone(&state))), Answer(state))
}

fn close<T>(state: &Mutex<State<T>>, with: State<T>) {
    let before = std::mem::replace(&mut *state.lock(), with);
    if let State::Open(Some(waker)) = before {
        waker.wake();
    }
}

impl<T> Sender<T> {
    /// Answers, and wakes the waiting task, if there is one, once.
    pub fn answer(mut self, answer: T) {
        if let Some(state) = self.0.take() {
            close(&state, State::Answered(answer));
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            close(&state, State::Abandoned);
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Open(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            State::Answered(_) => match std::mem::replace(&mut *state, State::Taken) {
                State::Answered(answer) => Poll::Ready(Some(answer)),
                _ => Poll::Ready(None),
            },
            State::Taken | State::Abandoned => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_arrives_before_or_after_it_is_waited_for_or_never() {
        let (sender, answer) = oneshot();
        sender.answer(1);
        assert_eq!(futures::executor::block_on(answer), Some(1));
        let (sender, answer) = oneshot();
        let waiting = std::thread::spawn(move || futures::executor::block_on(answer));
        std::thread::sleep(std::time::Duration::from_millis(5));
        sender.answer(2);
        assert_eq!(waiting.join().unwrap(), Some(2));
        let (sender, answer) = oneshot::<u8>();
        drop(sender);
        assert_eq!(futures::executor::block_on(answer), None);
    }
}
