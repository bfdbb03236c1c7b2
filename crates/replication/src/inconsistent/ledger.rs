//! A replica's record in two parts: what its view began with, which is the same at every replica in
//! that view, and what came since.
//!
//! So two replicas of a view exchange only what came since, and a replica of the view before
//! receives only the changes.

use super::{Application, ChangesOf, Entry, Op, OpId, RecordOf, State, View};
use std::collections::{BTreeMap, BTreeSet};

type EntryOf<A> = Entry<
    <A as Application>::Inconsistent,
    <A as Application>::Consensus,
    <A as Application>::Result,
>;

/// A replica's record.
#[derive(Clone)]
pub struct Ledger<A: Application> {
    /// The record with which the newest view began; all entries are final.
    began: RecordOf<A>,
    /// The operations that came since. No operation is in both.
    since: RecordOf<A>,
    /// The view before, and the operations that differ between its record and `began`, if known.
    news: Option<(View, BTreeSet<OpId>)>,
}

impl<A: Application> Default for Ledger<A> {
    fn default() -> Self {
        Ledger { began: BTreeMap::new(), since: BTreeMap::new(), news: None }
    }
}

impl<A: Application> Ledger<A> {
    /// Returns the entry of an operation.
    pub fn get(&self, id: &OpId) -> Option<&EntryOf<A>> {
        self.since.get(id).or_else(|| self.began.get(id))
    }

    /// Returns all entries: first those of the view's beginning, then those since.
    pub fn iter(&self) -> impl Iterator<Item = (&OpId, &EntryOf<A>)> {
        self.began.iter().chain(&self.since)
    }

    /// Returns the record with which the newest view began.
    pub fn began(&self) -> &RecordOf<A> {
        &self.began
    }

    /// Returns the operations that came since.
    pub fn since(&self) -> &RecordOf<A> {
        &self.since
    }

    /// Returns the view before, and the operations that have changed since; `None` if only the
    /// whole record is known.
    pub fn news(&self) -> Option<&(View, BTreeSet<OpId>)> {
        self.news.as_ref()
    }

    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.began.len() + self.since.len()
    }

    /// True if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an operation that is not in the record.
    pub(super) fn add(
        &mut self,
        id: OpId,
        op: Op<A::Inconsistent, A::Consensus>,
        state: State<A::Result>,
    ) {
        self.since.insert(id, Entry { op, state, merged: None });
    }

    /// Sets the result of an operation that came since the view began. Entries of its beginning are
    /// final already.
    pub(super) fn finalize(&mut self, id: OpId, result: Option<A::Result>) {
        if let Some(entry) = self.since.get_mut(&id) {
            entry.state = State::Finalized(result);
        }
    }

    /// Begins a view with these changes to the record of the view `upon`, in which this replica
    /// was; without `upon`, with these entries only. Returns the operations that had come since.
    pub(super) fn begin(&mut self, upon: Option<View>, changes: ChangesOf<A>) -> RecordOf<A> {
        if upon.is_none() {
            self.began.clear();
        }
        self.news = upon.map(|upon| (upon, BTreeSet::new()));
        self.change(changes);
        std::mem::take(&mut self.since)
    }

    /// Applies further changes to the record with which the view begins.
    pub(super) fn change(&mut self, changes: ChangesOf<A>) {
        if let Some((_, news)) = &mut self.news {
            news.extend(changes.keys());
        }
        for (id, entry) in changes {
            match entry {
                Some(entry) => drop(self.began.insert(id, entry)),
                None => drop(self.began.remove(&id)),
            }
        }
    }

    /// Returns the record with which the newest view began, to be persisted. For an operation in
    /// `before`, which is on disk already, only its result is persisted again.
    pub(super) fn to_keep(
        &self,
        before: &RecordOf<A>,
    ) -> (Option<View>, ChangesOf<A>, Vec<(OpId, Option<A::Result>)>) {
        let (mut changes, mut decided) = (ChangesOf::<A>::new(), Vec::new());
        let mut keep = |id: &OpId, entry: Option<&EntryOf<A>>| match entry {
            Some(Entry { op, state, .. })
                if before.get(id).is_some_and(|known| known.op == *op) =>
            {
                decided.push((*id, state.result().cloned()));
            }
            _ => drop(changes.insert(*id, entry.cloned())),
        };
        match &self.news {
            Some((_, news)) => news.iter().for_each(|id| keep(id, self.began.get(id))),
            None => self.began.iter().for_each(|(id, entry)| keep(id, Some(entry))),
        }
        (self.news.as_ref().map(|(upon, _)| *upon), changes, decided)
    }
}
