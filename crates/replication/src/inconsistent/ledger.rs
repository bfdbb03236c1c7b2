//! What a replica has of operations: what its view began with, which is the same at everybody in
//! that view, and what came since.
//!
//! So two replicas of a view tell each other what came since, and whoever was in the view before is
//! told what is other in this one.

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
    /// What the newest view began with; all of it is final.
    began: RecordOf<A>,
    /// What came since. Nothing is in both.
    since: RecordOf<A>,
    /// In what the newest view is other than this one, if that is known.
    news: Option<(View, BTreeSet<OpId>)>,
}

impl<A: Application> Default for Ledger<A> {
    fn default() -> Self {
        Ledger { began: BTreeMap::new(), since: BTreeMap::new(), news: None }
    }
}

impl<A: Application> Ledger<A> {
    /// What is known of an operation.
    pub fn get(&self, id: &OpId) -> Option<&EntryOf<A>> {
        self.since.get(id).or_else(|| self.began.get(id))
    }

    /// All of it: what the view began with, and then what came since.
    pub fn iter(&self) -> impl Iterator<Item = (&OpId, &EntryOf<A>)> {
        self.began.iter().chain(&self.since)
    }

    /// What the newest view began with.
    pub fn began(&self) -> &RecordOf<A> {
        &self.began
    }

    /// What came since.
    pub fn since(&self) -> &RecordOf<A> {
        &self.since
    }

    /// The view before, and what is other than there; none where only the whole record is known.
    pub fn news(&self) -> Option<&(View, BTreeSet<OpId>)> {
        self.news.as_ref()
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.began.len() + self.since.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An operation came that is not here.
    pub(super) fn add(
        &mut self,
        id: OpId,
        op: Op<A::Inconsistent, A::Consensus>,
        state: State<A::Result>,
    ) {
        self.since.insert(id, Entry { op, state, merged: None });
    }

    /// An operation that came since the view began has this result. What it began with is final
    /// already.
    pub(super) fn finalize(&mut self, id: OpId, result: Option<A::Result>) {
        if let Some(entry) = self.since.get_mut(&id) {
            entry.state = State::Finalized(result);
        }
    }

    /// A view begins with these changes to what the view `upon` began with, in which this replica
    /// was; without it, to nothing. What had come since is returned.
    pub(super) fn begin(&mut self, upon: Option<View>, changes: ChangesOf<A>) -> RecordOf<A> {
        if upon.is_none() {
            self.began.clear();
        }
        self.news = upon.map(|upon| (upon, BTreeSet::new()));
        self.change(changes);
        std::mem::take(&mut self.since)
    }

    /// It begins with these changes besides.
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

    /// What the newest view began with, to be kept: what is here already from before it is not kept
    /// again, only what was decided of it.
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
