//! The obligations that wait for the end of their transaction.

use super::obligation::{Obligation, Obligations};
use crate::catalog::Table;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The constraints that SET CONSTRAINTS has deferred, or made immediate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deferral {
    pub(crate) all: Option<bool>,
    /// By id.
    pub(crate) named: BTreeMap<u32, bool>,
}

impl Deferral {
    /// True if a constraint that is DEFERRABLE is deferred. `initially`: INITIALLY DEFERRED.
    pub(super) fn defers(&self, constraint: u32, initially: bool) -> bool {
        let set = self.named.get(&constraint).copied().or(self.all);
        set.unwrap_or(initially)
    }
}

/// The obligations that a transaction has deferred, now and at each of its savepoints.
#[derive(Default)]
pub(crate) struct Deferred {
    now: Obligations,
    /// The changes, the newest last: a place, and what was there.
    changes: Vec<(Vec<u8>, Option<Obligation>)>,
}

impl Deferred {
    pub(crate) fn len(&self) -> usize {
        self.now.len()
    }

    /// True if the check of one reads a table.
    pub(crate) fn concerns(&self, table: u32) -> bool {
        self.now.values().any(|it| it.concerns(table))
    }

    pub(crate) fn add(&mut self, obligations: Obligations) {
        for (id, obligation) in obligations {
            let before = self.now.insert(id.clone(), obligation);
            self.changes.push((id, before));
        }
    }

    /// Removes and returns the obligations whose constraints are no longer deferred.
    pub(crate) fn take_due(&mut self, deferral: &Deferral) -> Obligations {
        let all = std::mem::take(&mut self.now);
        let (later, due): (Obligations, Obligations) =
            all.into_iter().partition(|(_, it)| it.is_deferred(deferral));
        self.now = later;
        let removed = |(id, it): (&Vec<u8>, &Obligation)| (id.clone(), Some(it.clone()));
        self.changes.extend(due.iter().map(removed));
        due
    }

    /// Removes all, at the end of the transaction.
    pub(crate) fn take(&mut self) -> Obligations {
        self.changes.clear();
        std::mem::take(&mut self.now)
    }

    /// Replaces a table by its changed descriptor. Obligations of a constraint that is gone go.
    pub(crate) fn refresh(&mut self, table: &Arc<Table>) {
        let concerned = self.now.iter().filter(|(_, it)| it.concerns(table.id));
        let changed: Vec<_> = concerned.map(|(id, it)| (id.clone(), it.with(table))).collect();
        for (id, now) in changed {
            let before = match now {
                Some(now) => self.now.insert(id.clone(), now),
                None => self.now.remove(&id),
            };
            self.changes.push((id, before));
        }
    }

    /// Returns the number of changes until now.
    pub(crate) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Undoes the changes since a mark.
    pub(crate) fn roll_back(&mut self, mark: usize) {
        for (id, before) in self.changes.drain(mark..).rev() {
            match before {
                Some(before) => self.now.insert(id, before),
                None => self.now.remove(&id),
            };
        }
    }
}
