//! Up to when keys were read.

use meridian_clock::Timestamp;
use meridian_mvcc::{Key, KeyRange};
use std::collections::BTreeMap;

/// A timestamp for every key: it changes at these, and holds up to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Highest(BTreeMap<Key, Timestamp>);

impl Highest {
    /// What holds for a key.
    pub fn of(&self, key: &Key) -> Timestamp {
        self.0.range::<Key, _>(..=key).next_back().map_or(Timestamp::ZERO, |(_, at)| *at)
    }

    /// From now on every key of a range has at least this one.
    pub fn raise(&mut self, range: &KeyRange, to: Timestamp) {
        if range.is_empty() {
            return;
        }
        let before = self.of(&range.start);
        self.0.entry(range.start.clone()).or_insert(before);
        if let Some(end) = &range.end {
            let behind = self.of(end);
            self.0.entry(end.clone()).or_insert(behind);
        }
        let within = match &range.end {
            Some(end) => self.0.range_mut::<Key, _>(&range.start..end),
            None => self.0.range_mut::<Key, _>(&range.start..),
        };
        within.for_each(|(_, at)| *at = to.max(*at));
    }

    /// What is at or below is as good as nothing.
    pub fn forget(&mut self, through: Timestamp) {
        let mut before = Timestamp::ZERO;
        self.0.retain(|_, at| {
            if *at <= through {
                *at = Timestamp::ZERO;
            }
            let changes = *at != before;
            before = *at;
            changes
        });
    }

    /// How often it changes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
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
                let range = KeyRange { start: key(start), end: (end < 19).then(|| key(end)) };
                highest.raise(&range, at(nanos));
                let last = if end < 19 { usize::from(end) } else { model.len() };
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
                prop_assert_eq!(highest.len(), 0);
            }
        }
    }
}
