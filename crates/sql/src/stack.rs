//! Stack for deep statements and plans.
//!
//! A statement is walked by recursion when it is bound, planned, evaluated and dropped, and a plan
//! each time that it is polled. Their depth is measured and bounded ([`DEEPEST_EXPRESSION`],
//! [`MOST_RELATIONS`]), but not by the stack of a thread: what is deep runs on a stack of its own.
//! Its pages take memory only where they are used.
//!
//! [`DEEPEST_EXPRESSION`]: crate::limits::DEEPEST_EXPRESSION
//! [`MOST_RELATIONS`]: crate::limits::MOST_RELATIONS

use std::pin::Pin;
use std::task::Poll;

/// The stack that one level of a statement or plan may take, in bytes.
const LEVEL_BYTES: usize = 32 << 10;
/// The stack that a level of a recursion over a value leaves to what it calls, in bytes.
const RED_ZONE_BYTES: usize = 128 << 10;
/// The stack that such a recursion takes at a time, in bytes.
const GROWTH_BYTES: usize = 2 << 20;
/// The depth of statements for which the stack of any thread suffices.
const SHALLOW: usize = 40;

/// Calls `f` with so many bytes of stack: on the thread's own stack if that has as much left.
pub(crate) fn with_bytes<T>(bytes: usize, f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(bytes, bytes, f)
}

/// Calls `f`, one level of a recursion over a value: its frames are small, and the stack grows by
/// a large part at a time.
pub(crate) fn level<T>(f: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE_BYTES, GROWTH_BYTES, f)
}

/// Calls `f` with stack for so many levels.
pub(crate) fn with_room<T>(levels: usize, f: impl FnOnce() -> T) -> T {
    with_bytes((levels + 4) * LEVEL_BYTES, f)
}

/// Calls `f` with stack for a statement of so many levels. A shallow one costs nothing.
pub(crate) fn with_room_if_deep<T>(levels: usize, f: impl FnOnce() -> T) -> T {
    if levels <= SHALLOW { f() } else { with_room(levels, f) }
}

/// A future with stack for so many levels at each poll, and when it is dropped.
struct Deep<'a, T> {
    levels: usize,
    future: Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>,
}

impl<T> Drop for Deep<'_, T> {
    fn drop(&mut self) {
        let future = self.future.take();
        with_room(self.levels, || drop(future));
    }
}

/// Runs a future, with stack for so many levels.
pub(crate) async fn run<T>(
    levels: usize,
    future: Pin<Box<dyn Future<Output = T> + Send + '_>>,
) -> T {
    let mut deep = Deep { levels, future: Some(future) };
    std::future::poll_fn(move |context| -> Poll<T> {
        let Some(future) = &mut deep.future else { return Poll::Pending };
        with_room(levels, || future.as_mut().poll(context))
    })
    .await
}

/// Runs the future of a statement of so many levels. A shallow one runs as it is.
///
/// The future is made here: it is large, and to pass it on would copy it.
pub(crate) async fn run_if_deep<F>(levels: usize, make: impl FnOnce() -> F) -> F::Output
where
    F: Future + Send,
{
    if levels <= SHALLOW { make().await } else { run(levels, Box::pin(make())).await }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth_of(levels: usize) -> usize {
        let frame = std::hint::black_box([0u8; 1024]);
        if levels == 0 { usize::from(frame[0]) } else { 1 + depth_of(levels - 1) }
    }

    #[test]
    fn recursion_far_beyond_the_thread_s_stack_returns() {
        let deep = || with_room(5_000, || depth_of(50_000));
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(deep);
        assert_eq!(thread.expect("a thread").join().expect("no overflow"), 50_000);
    }
}
