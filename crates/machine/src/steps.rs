//! Protocol steps at which the lab stops a node.
//!
//! Code marks a step by `step!("coordinator: has all votes")`. Without the feature `planted`, which
//! no release has, the mark is compiled away. With it, a thread may [`watch`] for one step, and
//! check with [`taken`] after each call of a machine whether it was taken. The node is then
//! stopped, before or after its effects.

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static WATCHED: Cell<Option<&'static str>> = const { Cell::new(None) };
        static TAKEN: Cell<bool> = const { Cell::new(false) };
    }

    /// Watches for this step on this thread from now on, or for none.
    pub fn watch(step: Option<&'static str>) {
        WATCHED.set(step);
        TAKEN.set(false);
    }

    /// True if the step was taken since the last call.
    pub fn taken() -> bool {
        TAKEN.replace(false)
    }

    #[doc(hidden)]
    pub fn take(step: &'static str) {
        if WATCHED.get() == Some(step) {
            TAKEN.set(true);
        }
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    /// Does nothing: no step can be watched here.
    pub const fn watch(_: Option<&'static str>) {}

    /// Returns false.
    pub const fn taken() -> bool {
        false
    }

    #[doc(hidden)]
    #[inline(always)]
    pub const fn take(_: &'static str) {}
}

#[doc(hidden)]
pub use switch::take;
pub use switch::{taken, watch};

/// Marks a protocol step, described as "role: action".
#[macro_export]
macro_rules! step {
    ($what:literal) => {
        $crate::steps::take($what)
    };
}
