//! The highest timestamp at which each key was read.

use super::slots::Slots;
use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange};
use std::collections::BTreeMap;

/// A timestamp for every key.
#[derive(Clone, Debug, Default)]
pub(super) struct Highest {
    /// The timestamps of keys that were raised one by one.
    points: Slots<Timestamp>,
    /// The timestamps of ranges: each holds from its key up to the next one.
    ranges: BTreeMap<Key, Timestamp>,
}

impl Highest {
    /// Returns the timestamp of a key.
    pub fn of(&self, key: &Key) -> Timestamp {
        self.of_ranges(key).max(self.points.get(key).copied().unwrap_or_default())
    }

    fn of_ranges(&self, key: &Key) -> Timestamp {
        self.ranges.range::<Key, _>(..=key).next_back().map_or(Timestamp::ZERO, |(_, at)| *at)
    }

    /// Raises the timestamp of every key of a range to at least `to`.
    pub fn raise(&mut self, range: &KeyRange, to: Timestamp) {
        if range.is_empty() {
            return;
        }
        if let Some(key) = range.as_point() {
            let at = self.points.slot(key);
            *at = to.max(*at);
            return;
        }
        let before = self.of_ranges(&range.start);
        self.ranges.entry(range.start.clone()).or_insert(before);
        if let Some(end) = &range.end {
            let behind = self.of_ranges(end);
            self.ranges.entry(end.clone()).or_insert(behind);
        }
        let within = match &range.end {
            Some(end) => self.ranges.range_mut::<Key, _>(&range.start..end),
            None => self.ranges.range_mut::<Key, _>(&range.start..),
        };
        within.for_each(|(_, at)| *at = to.max(*at));
    }

    /// Sets timestamps at or below `through` to zero.
    pub fn forget(&mut self, through: Timestamp) {
        self.points.retain(|at| *at > through);
        let mut before = Timestamp::ZERO;
        self.ranges.retain(|_, at| {
            if *at <= through {
                *at = Timestamp::ZERO;
            }
            let changes = *at != before;
            before = *at;
            changes
        });
    }

    /// True if no key has a timestamp above zero.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp { nanos, logical: 0, issuer: 1 }
    }

    fn key(number: u8) -> Key {
        Key::from(&[number][..])
    }

    proptest! {
        #[test]
        fn every_key_has_the_highest_of_the_ranges_that_it_lay_in(
            raised in proptest::collection::vec((0u8..20, 0u8..20, 0u64..50), 0..40), forgotten in 0u64..50
        ) {
            let (mut highest, mut model) = (Highest::default(), [0u64; 22]);
            for (start, end, nanos) in raised {
                let (range, last) = match end {
                    19 => (KeyRange { start: key(start), end: None }, model.len()),
                    end if end == start => (KeyRange::point(key(start)), usize::from(end) + 1),
                    end => (KeyRange { start: key(start), end: Some(key(end)) }, usize::from(end)),
                };
                highest.raise(&range, at(nanos));
                (usize::from(start)..last).for_each(|number| model[number] = model[number].max(nanos));
            }
            let known = |nanos: u64| if nanos == 0 { Timestamp::ZERO } else { at(nanos) };
            for (number, nanos) in model.iter().enumerate() {
                prop_assert_eq!(highest.of(&key(number as u8)).nanos, *nanos);
            }
            highest.forget(at(forgotten));
            for (number, nanos) in model.iter().enumerate() {
                let left = if *nanos <= forgotten { 0 } else { *nanos };
                prop_assert_eq!(highest.of(&key(number as u8)), known(left));
            }
            if model.iter().all(|nanos| *nanos <= forgotten) {
                prop_assert!(highest.is_empty());
            }
        }
    }
}
