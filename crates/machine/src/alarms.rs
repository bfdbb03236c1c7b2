//! The timers of one machine: set, moved and cancelled by equal timer.
//!
//! The machine asks by [`Effect::Arm`](crate::Effect) and `Disarm`; its world keeps them here, and
//! wakes the machine at the moment that [`next_wake`](Alarms::next_wake) names. Servers and the
//! simulator keep them alike.
//!
//! 1. A timer that was cancelled, or moved, never fires at its former moment.
//! 2. A world is asked for a wake only if none is on its way that comes early enough. One that is
//!    no longer needed finds nothing due.

use std::collections::{BTreeMap, BTreeSet};

/// Timers and when they are due, by the boot clock.
#[derive(Debug)]
pub struct Alarms<T> {
    at: BTreeMap<T, u64>,
    due: BTreeSet<(u64, T)>,
    /// The moment for which the world was last asked to wake the machine, if that has not come.
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

    /// Takes a timer that is due: the earliest first.
    pub fn due(&mut self, now: u64) -> Option<T> {
        if self.due.first()?.0 > now {
            return None;
        }
        let (_, timer) = self.due.pop_first()?;
        self.at.remove(&timer);
        Some(timer)
    }

    /// A wake came. An old one, asked for before a timer moved, changes nothing.
    pub fn woken(&mut self, now: u64) {
        if self.asked.is_some_and(|asked| asked <= now) {
            self.asked = None;
        }
    }

    /// When a wake must be asked for, if one earlier than the last is needed.
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
