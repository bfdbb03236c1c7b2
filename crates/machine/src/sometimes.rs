//! States that a campaign of the simulator should reach now and then: one that never does has
//! tested nothing there.
//!
//! A place says `sometimes!("what is so here")`. Where nobody counts, on every thread of a server,
//! that is a look at one flag. A name stands for one place; [`reached`] tells only of names that
//! were met, so the list of those that should be is the campaign's own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    static COUNTS: Cell<bool> = const { Cell::new(false) };
    static REACHED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Begins to count on this thread, from zero.
pub fn count() {
    COUNTS.set(true);
    REACHED.with_borrow_mut(BTreeMap::clear);
}

/// How often each place was met on this thread since [`count`]; ends the counting.
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

/// Notes that a state was reached which tests should reach sometimes.
#[macro_export]
macro_rules! sometimes {
    ($what:literal) => {
        $crate::sometimes::meet($what)
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn places_are_counted_only_where_somebody_counts() {
        sometimes!("not counted");
        super::count();
        (0..3).for_each(|_| sometimes!("counted"));
        assert_eq!(super::reached().into_iter().collect::<Vec<_>>(), [("counted", 3)]);
        sometimes!("not counted");
        super::count();
        assert!(super::reached().is_empty());
    }
}
