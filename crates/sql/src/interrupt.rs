//! Interruption of what computes: parsing, planning, and functions of large values.
//!
//! These have no point at which their future waits, and some statements take long: hundreds of
//! joins over computed columns, subqueries inside each other, a pattern over megabytes. So the
//! parser's dialect, the walks over plans and expressions, and loops of functions ask now and then
//! whether the statement is to end. If it is, the stack unwinds to where the step of planning or
//! the poll of its execution began, and the statement's future never completes: the caller, which
//! ordered the end, drops it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Returns true if the running statement is to end: a cancel request, a timeout. The caller that
/// returns true drops the statement's future when that is pending.
pub type IsDue = Arc<dyn Fn() -> bool + Send + Sync>;

/// The steps between two questions. A step takes some nanoseconds, or some microseconds where it
/// copies a part of a plan.
const STEPS: u32 = 500;

thread_local! {
    static ASKED: RefCell<Option<IsDue>> = const { RefCell::new(None) };
    static LEFT: Cell<u32> = const { Cell::new(STEPS) };
}

/// Unwinds the stack of a step that ends.
struct Interrupted;

/// What was asked before, and is again behind a step.
struct Before(Option<IsDue>);

impl Drop for Before {
    fn drop(&mut self) {
        ASKED.set(self.0.take());
    }
}

/// Calls `f`, which counts its steps. Stays pending if the statement is to end meanwhile.
pub(crate) async fn run<T>(is_due: Option<&IsDue>, f: impl FnOnce() -> T) -> T {
    let value = match is_due {
        Some(is_due) => interruptible(is_due, f),
        None => Some(f()),
    };
    match value {
        Some(value) => value,
        None => std::future::pending().await,
    }
}

/// Calls `f`, which counts its steps. Returns `None` if the statement is to end meanwhile.
fn interruptible<T>(is_due: &IsDue, f: impl FnOnce() -> T) -> Option<T> {
    let before = Before(ASKED.replace(Some(is_due.clone())));
    // What `f` changes is dropped: on the way, or with the statement's future and transaction.
    let result = catch_unwind(AssertUnwindSafe(f));
    drop(before);
    match result {
        Ok(value) => Some(value),
        Err(cause) if <dyn Any>::is::<Interrupted>(&*cause) => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Runs a future whose polls count their steps. Stays pending if the statement is to end in one.
pub(crate) async fn watch<F: Future>(is_due: Option<IsDue>, make: impl FnOnce() -> F) -> F::Output {
    let Some(is_due) = is_due else { return make().await };
    let (mut future, mut ended) = (pin!(make()), false);
    std::future::poll_fn(|context| {
        if ended {
            return Poll::Pending;
        }
        let polled = interruptible(&is_due, || future.as_mut().poll(context));
        ended = polled.is_none();
        polled.unwrap_or(Poll::Pending)
    })
    .await
}

/// Counts a step of a loop.
pub(crate) fn step() {
    match LEFT.get() {
        0 => ask(),
        left => LEFT.set(left - 1),
    }
}

#[cold]
fn ask() {
    LEFT.set(STEPS);
    // A value that is dropped on the way up asks nothing.
    let ends = !std::thread::panicking()
        && ASKED.with_borrow(|asked| asked.as_ref().is_some_and(|is_due| is_due()));
    if ends {
        // No hook reports it: it is no panic.
        resume_unwind(Box::new(Interrupted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn planning_ends_where_it_stands_and_drops_what_it_holds() {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let is_due: IsDue = Arc::new(move || counted.fetch_add(1, Relaxed) == 2);
        let held = Arc::new(());
        let in_use = held.clone();
        // Also on a stack of its own.
        let ended = interruptible(&is_due, || {
            stack::with_room(5_000, || {
                loop {
                    step();
                    assert_eq!(Arc::strong_count(&in_use), 2);
                }
            })
        });
        assert_eq!(ended, None::<()>);
        drop(in_use);
        assert_eq!((Arc::strong_count(&held), asked.load(Relaxed)), (1, 3));
        // Nothing is asked behind it.
        (0..5 * STEPS).for_each(|_| step());
        assert_eq!(asked.load(Relaxed), 3);
    }

    #[test]
    fn a_panic_passes_through() {
        let is_due: IsDue = Arc::new(|| false);
        let panics = || interruptible(&is_due, || -> () { resume_unwind(Box::new("a panic")) });
        let cause = catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
        assert_eq!(cause.downcast_ref::<&str>(), Some(&"a panic"));
        assert!(ASKED.with_borrow(Option::is_none));
    }
}
