//! States that a campaign of the simulator should reach now and then. A state that is never reached
//! is not tested.
//!
//! Code marks a state by `sometimes!("description")`. On threads that do not count, such as all
//! threads of a server, that costs one check of a flag. A description stands for one place.
//! [`reached`] returns only states that were reached, so a campaign has its own list of expected
//! ones.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    static REACHED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Starts counting on this thread, from zero.
pub fn count() {
    COUNTS.set(true);
    REACHED.with_borrow_mut(BTreeMap::clear);
}

/// Stops counting. Returns how often each state was reached on this thread since [`count`].
pub fn reached() -> BTreeMap<&'static str, u64> {
    COUNTS.set(false);
    REACHED.take()
}

#[doc(hidden)]
#[inline]
pub fn meet(what: &'static str) {
    if COUNTS.get() {
        REACHED.with_borrow_mut(|reached| *reached.entry(what).or_default() += 1);
    }
}

/// Notes that the code is in a state that tests should reach sometimes.
#[macro_export]
macro_rules! sometimes {
    ($what:literal) => {
        $crate::sometimes::meet($what)
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn places_are_counted_only_while_a_counter_is_installed() {
        sometimes!("not counted");
        super::count();
        (0..3).for_each(|_| sometimes!("counted"));
        assert_eq!(super::reached().into_iter().collect::<Vec<_>>(), [("counted", 3)]);
        sometimes!("not counted");
        super::count();
        assert!(super::reached().is_empty());
    }
}
