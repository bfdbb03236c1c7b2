//! The timers of one machine, set, moved and cancelled by equal timer.
//!
//! The machine requests them by [`Effect::Arm`](crate::Effect) and `Disarm`. Its runtime keeps them
//! here and wakes the machine at the time that [`next_wake`](Alarms::next_wake) returns. Servers
//! and the simulator use the same code.
//!
//! 1. A timer that was cancelled or moved never fires at its former time.
//! 2. A runtime is asked for a wake only if none is scheduled early enough. A wake that is no
//!    longer needed finds no timer due.

use std::collections::{BTreeMap, BTreeSet};

/// Timers and the times at which they are due, by the boot clock.
#[derive(Debug)]
pub struct Alarms<T> {
    at: BTreeMap<T, u64>,
    due: BTreeSet<(u64, T)>,
    /// The pending wake that was requested of the runtime.
    asked: Option<u64>,
}

impl<T> Default for Alarms<T> {
    fn default() -> Self {
        Alarms { at: BTreeMap::new(), due: BTreeSet::new(), asked: None }
    }
}

impl<T: Clone + Ord> Alarms<T> {
    /// Sets a timer, or moves it.
    pub fn set(&mut self, timer: T, at: u64) {
        if let Some(before) = self.at.insert(timer.clone(), at) {
            self.due.remove(&(before, timer.clone()));
        }
        self.due.insert((at, timer));
    }

    /// Cancels a timer.
    pub fn cancel(&mut self, timer: &T) {
        if let Some(at) = self.at.remove(timer) {
            self.due.remove(&(at, timer.clone()));
        }
    }

    /// Removes and returns the earliest timer that is due.
    pub fn due(&mut self, now: u64) -> Option<T> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, timer) = self.due.pop_first()?;
        self.at.remove(&timer);
        Some(timer)
    }

    /// Notes a wake. An old one, requested before a timer moved, changes nothing.
    pub fn woken(&mut self, now: u64) {
        if self.asked.is_some_and(|asked| asked <= now) {
            self.asked = None;
        }
    }

    /// Returns the time of the next wake, if it must be requested: no earlier one is pending.
    pub fn next_wake(&mut self) -> Option<u64> {
        let next = self.due.first()?.0;
        if self.asked.is_some_and(|asked| asked <= next) {
            return None;
        }
        self.asked = Some(next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_timer_moves_and_a_cancelled_one_never_comes() {
        let mut alarms = Alarms::default();
        alarms.set("election", 10);
        alarms.set("heartbeat", 5);
        assert_eq!(alarms.next_wake(), Some(5));
        assert_eq!(alarms.next_wake(), None);
        alarms.set("election", 20);
        alarms.cancel(&"heartbeat");
        assert_eq!(alarms.due(19), None);
        alarms.woken(4);
        assert_eq!(alarms.next_wake(), None);
        alarms.woken(5);
        assert_eq!(alarms.next_wake(), Some(20));
        assert_eq!(alarms.due(20), Some("election"));
        assert_eq!(alarms.due(u64::MAX), None);
    }

    #[test]
    fn timers_are_due_in_the_order_of_their_moments() {
        let mut alarms = Alarms::default();
        for (at, timer) in [(3, "c"), (1, "a"), (2, "b")] {
            alarms.set(timer, at);
        }
        assert_eq!([alarms.due(2), alarms.due(2), alarms.due(2)], [Some("a"), Some("b"), None]);
    }
}
