//! Running a statement's future under its limits: a cancel request, a deadline, and the client's
//! presence.
//!
//! Most statements are ready at the first poll and pay for none of this. One that waits first sends
//! what earlier statements answered, and then listens for whoever may stop it.

use crate::cancel::Entry;
use crate::link::{End, Link};
use crate::wire::Came;
use meridian_sql::SqlError;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Who stopped a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// A cancel request.
    Cancelled,
    /// `statement_timeout`.
    TimedOut,
}

/// What may stop a statement.
#[derive(Clone, Copy)]
pub(crate) struct Limits<'a> {
    cancelled: &'a Notify,
    deadline: Option<Instant>,
}

impl<'a> Limits<'a> {
    pub(crate) fn of(entry: &'a Entry, deadline: Option<Instant>) -> Limits<'a> {
        Limits { cancelled: &entry.cancelled, deadline }
    }

    /// Ready when something stops it.
    pub(crate) async fn interrupted(self) -> Interruption {
        tokio::select! {
            () = self.cancelled.notified() => Interruption::Cancelled,
            () = self.expired() => Interruption::TimedOut,
        }
    }

    async fn expired(self) {
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

/// Polls once.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Runs a statement. The outer error ends the connection: the statement of a client that has gone
/// is not finished.
pub(crate) async fn statement<T>(
    link: &mut Link,
    entry: &Entry,
    deadline: Option<Instant>,
    future: impl Future<Output = Result<T, SqlError>>,
) -> Result<Came<T>, End> {
    let limits = Limits::of(entry, deadline);
    // Listens from here on: a request that comes between the polls is not lost.
    let cancelled = limits.cancelled.notified();
    let mut future = pin!(future);
    if let Some(answer) = once(future.as_mut()).await {
        return Ok(Ok(answer));
    }
    if link.due {
        link.flush().await?;
    }
    Ok(tokio::select! {
        biased;
        answer = future => Ok(answer),
        () = cancelled => Err(Interruption::Cancelled),
        () = limits.expired() => Err(Interruption::TimedOut),
        end = link.gone() => return Err(end),
    })
}

/// Runs what must not be stopped.
pub(crate) async fn uninterrupted<T>(
    link: &mut Link,
    future: impl Future<Output = T>,
) -> Result<T, End> {
    let mut future = pin!(future);
    if let Some(answer) = once(future.as_mut()).await {
        return Ok(answer);
    }
    if link.due {
        link.flush().await?;
    }
    Ok(future.await)
}

/// Sends answers of a running statement: a client that does not read makes it wait, within its
/// limits.
pub(crate) async fn flush(
    link: &mut Link,
    limits: Limits<'_>,
) -> Result<Result<(), Interruption>, End> {
    let cancelled = limits.cancelled.notified();
    tokio::select! {
        biased;
        flushed = link.flush() => flushed.map(Ok),
        () = cancelled => Ok(Err(Interruption::Cancelled)),
        () = limits.expired() => Ok(Err(Interruption::TimedOut)),
    }
}
