//! A map from single keys to values, looked up by hash. An order of the keys is kept once a range
//! is queried.
//!
//! Most transactions read and write single keys. While none reads a range, no order is kept.

use meridian_mvcc::{Key, KeyRange};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::OnceLock;

/// A map from keys to values.
#[derive(Clone)]
pub(super) struct Slots<T> {
    of: HashMap<Key, T>,
    /// The keys in order, from the first range query on.
    order: OnceLock<BTreeSet<Key>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { of: HashMap::new(), order: OnceLock::new() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Slots<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.of.iter().collect::<BTreeMap<_, _>>().fmt(f)
    }
}

impl<T> Slots<T> {
    /// Returns the value of a key.
    pub fn get(&self, key: &Key) -> Option<&T> {
        self.of.get(key)
    }

    /// Returns the values of the keys in a range, in key order.
    pub fn within(&self, range: &KeyRange) -> impl Iterator<Item = (&Key, &T)> {
        let point = range.as_point();
        let of_point = point.and_then(|key| self.of.get_key_value(key));
        let keys = match point {
            Some(_) => None,
            None if range.is_empty() => None,
            None => {
                let order = self.order.get_or_init(|| self.of.keys().cloned().collect());
                let end = range.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
                Some(order.range::<Key, _>((Bound::Included(&range.start), end)))
            }
        };
        let in_order = keys.into_iter().flatten().map(|key| (key, &self.of[key]));
        of_point.into_iter().chain(in_order)
    }

    /// Returns the value of a key for modification, inserting the default if there is none.
    pub fn slot(&mut self, key: &Key) -> &mut T
    where
        T: Default,
    {
        match self.of.entry(key.clone()) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(free) => {
                if let Some(order) = self.order.get_mut() {
                    order.insert(key.clone());
                }
                free.insert(T::default())
            }
        }
    }

    /// Modifies the value of a key, if there is one, and removes it if `stays` returns false.
    pub fn change(&mut self, key: &Key, stays: impl FnOnce(&mut T) -> bool) {
        if self.of.get_mut(key).is_some_and(|fact| !stays(fact)) {
            self.of.remove(key);
            if let Some(order) = self.order.get_mut() {
                order.remove(key);
            }
        }
    }

    /// Removes values for which `stays` returns false.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.of.retain(|_, fact| stays(fact));
        match self.order.get_mut() {
            Some(_) if self.of.is_empty() => drop(self.order.take()),
            Some(order) => order.retain(|key| self.of.contains_key(key)),
            None => {}
        }
    }

    /// True if there are no values.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: u8) -> Key {
        Key::from(&[number][..])
    }

    /// Returns a range of `many` keys: 1 is a point, 0 is empty, and 9 has no end.
    fn range((start, many): (u8, u8)) -> KeyRange {
        match many {
            1 => KeyRange::point(key(start)),
            9 => KeyRange { start: key(start), end: None },
            many => KeyRange { start: key(start), end: Some(key(start + many)) },
        }
    }

    proptest! {
        #[test]
        fn they_are_found_as_in_an_ordered_map(
            done in proptest::collection::vec((0u8..5, 0u8..30, 0u8..10), 0..80)
        ) {
            let (mut slots, mut model) = (Slots::<u8>::default(), BTreeMap::<Key, u8>::new());
            for (what, of, number) in done {
                match what {
                    0 => {
                        *slots.slot(&key(of)) = number;
                        model.insert(key(of), number);
                    }
                    1 => {
                        slots.change(&key(of), |fact| *fact != number);
                        if model.get(&key(of)) == Some(&number) {
                            model.remove(&key(of));
                        }
                    }
                    2 => {
                        slots.retain(|fact| *fact > number);
                        model.retain(|_, fact| *fact > number);
                    }
                    _ => {
                        let range = range((of, number));
                        let of_model = model.iter().filter(|(key, _)| range.contains(key));
                        prop_assert!(slots.within(&range).eq(of_model));
                    }
                }
                prop_assert_eq!(slots.get(&key(of)), model.get(&key(of)));
                prop_assert_eq!(format!("{slots:?}"), format!("{model:?}"));
            }
        }
    }
}
