//! Stack for deep plans.
//!
//! A plan is walked by recursion, when it is made and each time that it is polled, and may be as
//! deep as the statement has relations. That is bounded ([`MOST_RELATIONS`]), but not by the stack
//! of a thread.
//!
//! [`MOST_RELATIONS`]: crate::limits::MOST_RELATIONS

use std::pin::Pin;
use std::task::Poll;

/// The stack that one level of a plan may take, in bytes.
const LEVEL_BYTES: usize = 32 << 10;

/// Calls `f` with stack for so many levels: on the thread's own stack if that has as much left.
pub(crate) fn with_room<T>(levels: usize, f: impl FnOnce() -> T) -> T {
    let bytes = (levels + 4) * LEVEL_BYTES;
    stacker::maybe_grow(bytes, bytes, f)
}

/// Runs a future, with stack for so many levels at each poll.
pub(crate) async fn run<T>(
    levels: usize,
    mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> T {
    std::future::poll_fn(move |context| -> Poll<T> {
        with_room(levels, || future.as_mut().poll(context))
    })
    .await
}
