//! Interruption of what computes: parsing, planning, and functions of large values.
//!
//! These have no point at which their future waits, and some statements take long: hundreds of
//! joins over computed columns, subqueries inside each other, a pattern over megabytes. So the
//! parser's dialect, the walks over plans and expressions, and loops of functions ask now and then
//! whether the statement is to end. If it is, the stack unwinds to where the poll of its future
//! began ([`watched`]), and the caller, which ordered the end, drops the future.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Calls what may compute for long, while the thread's other tasks run elsewhere.
pub type Apart = fn(&mut dyn FnMut());

/// The caller of statements.
pub struct Watch {
    /// Returns true if the running statement is to end: a cancel request, a timeout.
    pub is_due: Box<dyn Fn() -> bool + Send + Sync>,
    /// Calls functions of large values.
    pub apart: Apart,
}

/// The steps between two questions. A step takes some nanoseconds, or some microseconds where it
/// copies a part of a plan.
const STEPS: u32 = 500;

thread_local! {
    static WATCH: RefCell<Option<Arc<Watch>>> = const { RefCell::new(None) };
    static LEFT: Cell<u32> = const { Cell::new(STEPS) };
}

/// Unwinds the stack of a statement that ends.
struct Interrupted;

/// The watch of before, which is back behind a poll.
struct Before(Option<Arc<Watch>>);

impl Drop for Before {
    fn drop(&mut self) {
        WATCH.set(self.0.take());
    }
}

/// Calls `f`, a poll of a session's future. Returns `None` if the statement is to end meanwhile:
/// the future must be dropped then, and not be polled again.
pub fn watched<T>(watch: &Arc<Watch>, f: impl FnOnce() -> T) -> Option<T> {
    let before = Before(WATCH.replace(Some(watch.clone())));
    // What `f` changes is dropped: on the way, or with the statement's future and transaction.
    let result = catch_unwind(AssertUnwindSafe(f));
    drop(before);
    match result {
        Ok(value) => Some(value),
        Err(cause) if <dyn Any>::is::<Interrupted>(&*cause) => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Calls `f`, which may compute for long.
pub(crate) fn apart<T>(f: impl FnOnce() -> T) -> T {
    let Some(apart) = WATCH.with_borrow(|watch| Some(watch.as_ref()?.apart)) else { return f() };
    let (mut f, mut value) = (Some(f), None);
    apart(&mut || value = f.take().map(|f| f()));
    value.expect("invariant: it was called")
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
        && WATCH.with_borrow(|watch| watch.as_ref().is_some_and(|watch| (watch.is_due)()));
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

    fn watch(is_due: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Watch> {
        Arc::new(Watch { is_due: Box::new(is_due), apart: |f| f() })
    }

    #[test]
    fn a_statement_ends_where_it_stands_and_drops_what_it_holds() {
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let watch = watch(move || counted.fetch_add(1, Relaxed) == 2);
        let held = Arc::new(());
        let in_use = held.clone();
        // Also on a stack of its own, and apart.
        let ended = watched(&watch, || {
            stack::with_room(5_000, || {
                apart(|| {
                    loop {
                        step();
                        assert_eq!(Arc::strong_count(&in_use), 2);
                    }
                })
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
        let panics = || watched(&watch(|| false), || -> () { resume_unwind(Box::new("a panic")) });
        let cause = catch_unwind(AssertUnwindSafe(panics)).expect_err("it panics");
        assert_eq!(cause.downcast_ref::<&str>(), Some(&"a panic"));
        assert!(WATCH.with_borrow(Option::is_none));
    }
}
