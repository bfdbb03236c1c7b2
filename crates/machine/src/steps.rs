//! Steps of a protocol at which the lab ends a node.
//!
//! A place says `step!("coordinator: has all votes")`. Without the feature `planted`, which nothing
//! that ships has, nothing is left of it. With it a thread may [`watch`] for one step, and asks
//! [`taken`] after each call of a machine whether that was it: then the node ends there, before or
//! after its effects.

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static WATCHED: Cell<Option<&'static str>> = const { Cell::new(None) };
        static TAKEN: Cell<bool> = const { Cell::new(false) };
    }

    /// From now on this thread watches for this step, or for none.
    pub fn watch(step: Option<&'static str>) {
        WATCHED.set(step);
        TAKEN.set(false);
    }

    /// Whether the step was taken since this was last asked.
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
    /// Does nothing: nobody can watch here.
    pub const fn watch(_: Option<&'static str>) {}

    /// Never.
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

/// A step of a protocol, said as "role: what it does".
#[macro_export]
macro_rules! step {
    ($what:literal) => {
        $crate::steps::take($what)
    };
}
