//! Runs a statement's future under its limits: a cancel request, a deadline, and the client's
//! presence.
//!
//! A statement that computes asks by itself ([`due`]), and is not polled again if it is to end.
//!
//! Most statements are ready at the first poll, at no extra cost. A statement that waits first
//! sends the responses of earlier statements, and then listens for interruptions.
//!
//! [`due`]: crate::cancel::Running::due

use crate::cancel::{Entry, Running};
use crate::connection::shutting_down;
use crate::link::{End, Link};
use crate::wire::Came;
use meridian_sql::SqlError;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

/// The cause of an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// A cancel request.
    Cancelled,
    /// `statement_timeout`.
    TimedOut,
}

/// The interruptions that a statement listens for.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    running: &'a Running,
    deadline: Option<Instant>,
}

impl<'a> Limits<'a> {
    pub(crate) fn of(entry: &'a Entry, deadline: Option<Instant>) -> Limits<'a> {
        Limits { running: &entry.running, deadline }
    }

    /// Waits for an interruption.
    pub(crate) async fn interrupted(self) -> Interruption {
        tokio::select! {
            () = self.running.cancelled.notified() => Interruption::Cancelled,
            () = self.expired() => Interruption::TimedOut,
        }
    }

    /// Returns what a request ends: the statement, or the connection.
    fn ended<T>(self) -> Result<Result<T, Interruption>, End> {
        match self.running.is_terminated() {
            true => Err(shutting_down()),
            false => Ok(Err(Interruption::Cancelled)),
        }
    }

    async fn expired(self) {
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

/// Polls a future once.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Polls a session's future; `None` if the statement is to end.
fn poll<F: Future>(
    future: Pin<&mut F>,
    entry: &Entry,
    context: &mut Context<'_>,
) -> Poll<Option<F::Output>> {
    match meridian_sql::watched(&entry.watch, || future.poll(context)) {
        Some(polled) => polled.map(Some),
        None => Poll::Ready(None),
    }
}

/// The length of a text from which parsing and planning it may keep a thread, in bytes.
const LONG_TEXT_BYTES: usize = 4 << 10;

/// True if parsing and planning a text may take long without a pause.
pub(crate) fn is_heavy(text: &str) -> bool {
    text.len() >= LONG_TEXT_BYTES
}

/// Calls `f`, which may keep the thread if it is heavy: then the thread's other tasks move to
/// another one.
pub(crate) fn apart<T>(heavy: bool, f: impl FnOnce() -> T) -> T {
    let has_threads =
        |handle: Handle| matches!(handle.runtime_flavor(), RuntimeFlavor::MultiThread);
    if heavy && Handle::try_current().is_ok_and(has_threads) {
        return tokio::task::block_in_place(f);
    }
    f()
}

/// Runs a statement, apart from other tasks if it is heavy. The outer error ends the connection:
/// the statement of a disconnected client is dropped. The future is made here: it is large, and to
/// pass it on would copy it.
pub(crate) async fn statement<T, F>(
    link: &mut Link,
    entry: &Entry,
    deadline: Option<Instant>,
    heavy: bool,
    make: impl FnOnce() -> F,
) -> Result<Came<T>, End>
where
    F: Future<Output = Result<T, SqlError>>,
{
    let limits = Limits::of(entry, deadline);
    // Listens from here on, so that a request between the polls is not lost.
    let cancelled = limits.running.cancelled.notified();
    let _listening = entry.running.listen(deadline);
    let mut future = pin!(make());
    let mut future =
        pin!(poll_fn(|context| apart(heavy, || poll(future.as_mut(), entry, context))));
    let came = |answer: Option<_>| match answer {
        Some(answer) => Ok(Ok(answer)),
        None => entry.running.due().unwrap_or(Err(End::Closed)).map(Err),
    };
    if entry.running.is_cancelled() || entry.running.is_terminated() {
        return limits.ended();
    }
    if let Some(answer) = once(future.as_mut()).await {
        return came(answer);
    }
    if link.due {
        link.flush().await?;
    }
    tokio::select! {
        biased;
        answer = future => came(answer),
        () = cancelled => limits.ended(),
        () = limits.expired() => Ok(Err(Interruption::TimedOut)),
        end = link.gone() => Err(end),
    }
}

/// Runs a future that must not be interrupted: it does not listen, and is never to end.
pub(crate) async fn uninterrupted<F: Future>(
    link: &mut Link,
    entry: &Entry,
    make: impl FnOnce() -> F,
) -> Result<F::Output, End> {
    let mut future = pin!(make());
    let mut future = pin!(async {
        let answer = poll_fn(|context| poll(future.as_mut(), entry, context)).await;
        answer.expect("invariant: it does not listen")
    });
    if let Some(answer) = once(future.as_mut()).await {
        return Ok(answer);
    }
    if link.due {
        link.flush().await?;
    }
    Ok(future.await)
}

/// Sends the responses of a running statement, within its limits: a client that does not read makes
/// it wait.
pub(crate) async fn flush(
    link: &mut Link,
    limits: Limits<'_>,
) -> Result<Result<(), Interruption>, End> {
    let cancelled = limits.running.cancelled.notified();
    if limits.running.is_terminated() {
        return limits.ended();
    }
    tokio::select! {
        biased;
        flushed = link.flush() => flushed.map(Ok),
        () = cancelled => limits.ended(),
        () = limits.expired() => Ok(Err(Interruption::TimedOut)),
    }
}
