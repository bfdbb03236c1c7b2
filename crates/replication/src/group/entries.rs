//! The part of the log that is in memory.

use super::{Entry, Index, Term};
use std::collections::VecDeque;

/// Entries after a base, without gaps.
///
/// Invariant: `entries[i].index == base.0 + 1 + i`, and terms never fall.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    base: (Index, Term),
    entries: VecDeque<Entry>,
    bytes: usize,
}

fn size(entry: &Entry) -> usize {
    entry.payload.0.len() + 64
}

impl Entries {
    pub fn base(&self) -> (Index, Term) {
        self.base
    }

    pub fn last(&self) -> (Index, Term) {
        self.entries.back().map_or(self.base, |entry| (entry.index, entry.term))
    }

    /// Returns the term at an index, if it is known.
    pub fn term(&self, index: Index) -> Option<Term> {
        if index == self.base.0 {
            Some(self.base.1)
        } else {
            self.get(index).map(|entry| entry.term)
        }
    }

    pub fn get(&self, index: Index) -> Option<&Entry> {
        let place = index.0.checked_sub(self.base.0.0 + 1)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    pub fn push(&mut self, entry: Entry) {
        debug_assert_eq!(entry.index.0, self.last().0.0 + 1, "the log has no gaps");
        self.bytes += size(&entry);
        self.entries.push_back(entry);
    }

    /// Removes everything from an index on.
    pub fn truncate(&mut self, from: Index) {
        while self.entries.back().is_some_and(|entry| entry.index >= from) {
            let entry = self.entries.pop_back().expect("just seen");
            self.bytes -= size(&entry);
        }
    }

    /// Begins anew after an entry that a snapshot covers.
    pub fn reset(&mut self, index: Index, term: Term) {
        *self = Entries { base: (index, term), ..Entries::default() };
    }

    /// Removes entries at or below `through`, but keeps about `keep_bytes` for slow followers.
    pub fn compact(&mut self, through: Index, keep_bytes: usize) {
        while self.bytes > keep_bytes
            && self.entries.front().is_some_and(|entry| entry.index <= through)
        {
            let entry = self.entries.pop_front().expect("just seen");
            self.bytes -= size(&entry);
            self.base = (entry.index, entry.term);
        }
    }

    /// Returns the size of the entries after an index, in bytes.
    pub fn bytes_after(&self, index: Index) -> usize {
        let skipped = usize::try_from(index.0.saturating_sub(self.base.0.0)).unwrap_or(usize::MAX);
        self.entries.iter().skip(skipped).map(size).sum()
    }

    /// Returns entries from an index on, up to about `limit_bytes` but at least one.
    pub fn from(&self, index: Index, limit_bytes: usize) -> Vec<Entry> {
        let start =
            usize::try_from(index.0.saturating_sub(self.base.0.0 + 1)).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let mut taken = Vec::new();
        for entry in self.entries.iter().skip(start) {
            if bytes + size(entry) > limit_bytes && !taken.is_empty() {
                break;
            }
            bytes += size(entry);
            taken.push(entry.clone());
        }
        taken
    }

    /// Returns the first index of the term of the entry at `index`.
    pub fn start_of_term(&self, index: Index) -> Index {
        let Some(term) = self.term(index) else { return index };
        let mut first = index;
        while first > self.base.0 && self.term(Index(first.0 - 1)) == Some(term) {
            first.0 -= 1;
        }
        first
    }
}
