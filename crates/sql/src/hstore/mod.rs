//! `hstore`: keys, each with a text or NULL.
//!
//! The keys are ordered by length, then by bytes, as PostgreSQL does, and each occurs once. All
//! texts are one, so that a value takes little more than its characters:
//!
//! ```text
//!   a=>1, b=>NULL, cc=>23      text  a 1 b c c 2 3
//!                              ends  (1, 2) (3, NULL) (5, 7)
//! ```

mod arrays;
mod binary;
mod json;
mod text;

pub(crate) use arrays::texts;
pub(crate) use json::Values;

use crate::error::{SqlError, state};
use crate::limits;
use std::cmp::Ordering;
use std::sync::Arc;

/// A value of `hstore`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hstore(Arc<Pairs>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Pairs {
    /// The keys and values behind each other.
    text: String,
    ends: Vec<Ends>,
}

/// The places in the text where a key and its value end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    key: u32,
    /// `None` for NULL.
    value: Option<u32>,
}

impl Ends {
    /// Returns where the pair ends.
    const fn last(self) -> u32 {
        match self.value {
            Some(end) => end,
            None => self.key,
        }
    }
}

/// Returns the error of NULL as a key.
pub(crate) fn null_key() -> SqlError {
    SqlError::new(state::NULL_NOT_ALLOWED, "null value not allowed for hstore key")
}

/// A key and its value.
pub(crate) type Pair<'a> = (&'a str, Option<&'a str>);

/// Orders keys.
fn order_of_keys(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

/// Keys in their order, each once.
pub(crate) struct Keys<'a>(Vec<&'a str>);

impl<'a> Keys<'a> {
    pub(crate) fn of(keys: impl IntoIterator<Item = &'a str>) -> Keys<'a> {
        let mut keys: Vec<&str> = keys.into_iter().collect();
        keys.sort_unstable_by(|a, b| order_of_keys(a, b));
        keys.dedup();
        Keys(keys)
    }

    fn has(&self, key: &str) -> bool {
        self.0.binary_search_by(|other| order_of_keys(other, key)).is_ok()
    }
}

impl Hstore {
    /// Creates a value. Of several pairs with the same key, the first counts. Fails with 54000 if
    /// it is too large.
    pub(crate) fn of(mut pairs: Vec<Pair<'_>>) -> Result<Hstore, SqlError> {
        pairs.sort_by(|(a, _), (b, _)| order_of_keys(a, b));
        pairs.dedup_by(|(later, _), (first, _)| later == first);
        Hstore::of_ordered(pairs.into_iter())
    }

    /// Creates a value of pairs in the order of their keys, which are different.
    fn of_ordered<'a>(pairs: impl Iterator<Item = Pair<'a>> + Clone) -> Result<Hstore, SqlError> {
        let bytes = |(key, value): Pair<'_>| key.len() + value.map_or(0, str::len);
        let (count, length) =
            pairs.clone().fold((0, 0), |(count, sum), pair| (count + 1, sum + bytes(pair)));
        limits::check_value(length + count * size_of::<Ends>())?;
        let mut all =
            Pairs { text: String::with_capacity(length), ends: Vec::with_capacity(count) };
        for (key, value) in pairs {
            all.text.push_str(key);
            let key = all.text.len() as u32;
            all.text.push_str(value.unwrap_or_default());
            all.ends.push(Ends { key, value: value.map(|_| all.text.len() as u32) });
        }
        Ok(Hstore(Arc::new(all)))
    }

    /// Returns the number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.0.ends.len()
    }

    /// Returns the bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.text.len() + self.len() * size_of::<Ends>() + size_of::<Pairs>()
    }

    /// Returns the pair at a place below [`len`](Self::len).
    pub(crate) fn pair(&self, at: usize) -> Pair<'_> {
        let part = |from: u32, to: u32| self.0.text.get(from as usize..to as usize);
        let ends = self.0.ends[at];
        let start = at.checked_sub(1).map_or(0, |before| self.0.ends[before].last());
        let value = ends.value.and_then(|end| part(ends.key, end));
        (part(start, ends.key).unwrap_or_default(), value)
    }

    /// Iterates over the pairs in the order of their keys.
    pub(crate) fn pairs(&self) -> impl ExactSizeIterator<Item = Pair<'_>> + Clone {
        (0..self.len()).map(|at| self.pair(at))
    }

    /// Returns the value of a key, which may be NULL; `None` for a key that it does not have.
    pub(crate) fn get(&self, key: &str) -> Option<Option<&str>> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (other, value) = self.pair(middle);
            match order_of_keys(other, key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(value),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// True if it has all pairs of another one.
    pub(crate) fn contains(&self, other: &Hstore) -> bool {
        other.pairs().all(|(key, value)| self.get(key) == Some(value))
    }

    /// Returns the pairs of both; of a key that both have, the value of `other`.
    pub(crate) fn with(&self, other: &Hstore) -> Result<Hstore, SqlError> {
        Hstore::of(other.pairs().chain(self.pairs()).collect())
    }

    /// Returns the pairs whose keys are none of these.
    pub(crate) fn without_keys(&self, keys: &Keys<'_>) -> Result<Hstore, SqlError> {
        Hstore::of_ordered(self.pairs().filter(|(key, _)| !keys.has(key)))
    }

    /// Returns the pairs that another one does not have.
    pub(crate) fn without(&self, other: &Hstore) -> Result<Hstore, SqlError> {
        Hstore::of_ordered(self.pairs().filter(|(key, value)| other.get(key) != Some(*value)))
    }

    /// Returns the pairs with these keys.
    pub(crate) fn slice(&self, keys: &Keys<'_>) -> Result<Hstore, SqlError> {
        let found = keys.0.iter().filter_map(|key| self.get(key).map(|value| (*key, value)));
        Hstore::of_ordered(found)
    }

    /// Orders two values as PostgreSQL's index operators do: by all texts, then by the number of
    /// pairs, then by the ends of keys and values.
    pub(crate) fn order<'a>(&'a self, other: &'a Hstore) -> Ordering {
        let (a, b) = (&*self.0, &*other.0);
        let is_empty = |pairs: &Pairs| pairs.ends.is_empty();
        let ends = |pairs: &'a Pairs| pairs.ends.iter().map(|ends| ends.order());
        is_empty(b)
            .cmp(&is_empty(a))
            .then_with(|| a.text.as_bytes().cmp(b.text.as_bytes()))
            .then_with(|| self.len().cmp(&other.len()))
            .then_with(|| ends(a).cmp(ends(b)))
    }

    /// Returns bytes that compare as the values do.
    pub(crate) fn key(&self) -> Vec<u8> {
        let Pairs { text, ends } = &*self.0;
        if ends.is_empty() {
            return vec![0];
        }
        let mut out = Vec::with_capacity(text.len() + 6 + 9 * ends.len());
        out.push(1);
        out.extend(text.as_bytes());
        // Texts have no zero character.
        out.push(0);
        out.extend((ends.len() as u32).to_be_bytes());
        for ends in ends {
            let (key, end, is_null) = ends.order();
            out.extend(key.to_be_bytes());
            out.extend(end.to_be_bytes());
            out.push(is_null.into());
        }
        out
    }
}

impl Ends {
    /// Returns what pairs are ordered by, if all texts are the same: the end of the key, the end
    /// of the value, and NULL behind an empty text.
    fn order(self) -> (u32, u32, bool) {
        (self.key, self.last(), self.value.is_none())
    }
}

#[cfg(test)]
mod tests;
