//! An operation as its client sees it: who has answered what, and whether that is enough.

use super::{State, Unordered, View};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, sometimes};
use std::collections::BTreeMap;

/// What was heard of one operation. Whoever holds it asks the replicas, again if need be, and tells
/// them what comes of it.
#[derive(Clone, Debug)]
pub struct Invocation<R> {
    /// Who is asked; another epoch has other replicas, and what they say does not count here.
    epoch: u32,
    enough: Unordered,
    /// The newest word of each replica.
    answers: BTreeMap<NodeId, (View, State<R>)>,
    /// And from answers of which view.
    decided: Option<(View, R)>,
}

impl<R: Clone + Ord> Invocation<R> {
    /// An operation that is about to be proposed to the replicas of an epoch, of which so many are
    /// enough.
    pub fn new(epoch: u32, enough: Unordered) -> Self {
        Invocation { epoch, enough, answers: BTreeMap::new(), decided: None }
    }

    /// A replica has answered. What it said in an earlier view does not count any more.
    pub fn on_reply(&mut self, from: NodeId, view: View, state: State<R>) {
        if view.epoch != self.epoch && !broken(rules::EPOCH_UNCHECKED) {
            sometimes!("a replica answers in another epoch than it was asked in");
            return;
        }
        let newer = |(known, before): &(View, State<R>)| {
            view > *known || view == *known && !before.is_final()
        };
        if self.answers.get(&from).is_none_or(newer) {
            self.answers.insert(from, (view, state));
        }
    }

    /// A replica has the result on disk that was decided on.
    pub fn on_confirm(&mut self, from: NodeId, view: View) {
        self.on_reply(
            from,
            view,
            State::Finalized(self.decided.as_ref().map(|(_, result)| result.clone())),
        );
    }

    /// Who has not answered in the newest view that was heard of: to be asked again.
    pub fn lacks(&self, replicas: &[NodeId]) -> Vec<NodeId> {
        let newest = self.newest();
        let heard = |node: &NodeId| self.answers.get(node).is_some_and(|(view, _)| *view == newest);
        replicas.iter().copied().filter(|node| !heard(node)).collect()
    }

    /// How many replicas have answered in the newest view that was heard of.
    pub fn heard(&self) -> usize {
        self.in_newest().count()
    }

    /// Whether an inconsistent operation has succeeded.
    pub fn is_executed(&self) -> bool {
        self.heard() >= self.enough.quorum()
    }

    /// A consensus operation's result, if enough have given the same one for it to survive whatever
    /// happens: all. So nothing else can have been decided from some of them.
    pub fn fast(&self) -> Option<&R> {
        let (result, alike) = self.most_alike()?;
        (alike >= self.enough.fast()).then_some(result)
    }

    /// Whether each replica has answered so by itself: then each of them has done what it was asked
    /// for, as if it alone had decided.
    pub fn by_all(&self) -> bool {
        let alike = self.in_newest().filter(|state| !state.is_final()).filter_map(State::result);
        self.fast().is_some_and(|result| {
            alike.filter(|other| *other == result).count() == self.enough.replicas()
        })
    }

    /// Whether it cannot become so any more in this view, whoever still answers.
    pub fn is_slow(&self) -> bool {
        let heard = self.heard();
        let alike = self.most_alike().map_or(0, |(_, alike)| alike);
        alike + (self.enough.replicas() - heard) < self.enough.fast()
    }

    /// A consensus operation's result, if enough have it on disk as the group's.
    pub fn settled(&self) -> Option<&R> {
        let known = || self.in_newest().filter(|state| state.is_final()).filter_map(State::result);
        let result = known().next()?;
        // A view has one result; that of a client who decides is the same at all who have confirmed
        // it.
        (known().filter(|other| *other == result).count() >= self.enough.quorum()).then_some(result)
    }

    /// What replicas have answered in one view, if they are enough to decide from; where one of
    /// them knows the result, that alone. One who knows it is not enough: its view may have begun
    /// there and nowhere else, and the next one without the operation.
    pub fn answers(&self) -> Option<Vec<&R>> {
        let known = self.in_newest().find(|state| state.is_final()).and_then(State::result);
        let answers: Vec<&R> = self.in_newest().filter_map(State::result).collect();
        match known {
            Some(known) if broken(rules::DECIDES_FROM_ONE) => Some(vec![known]),
            _ if answers.len() < self.enough.quorum() => None,
            Some(known) => Some(vec![known]),
            None => Some(answers),
        }
    }

    /// The newest view that was heard of: said with every question, so that who was left behind
    /// asks the others.
    pub fn view(&self) -> View {
        self.newest()
    }

    /// What its client has decided, or tells because it was [fast](Self::fast): the first time in a
    /// view counts, so that no two replicas of one are ever told different results.
    pub fn decide(&mut self, result: R) -> &R {
        let newest = self.newest();
        let (_, decided) = match self.decided.take_if(|(view, _)| *view == newest) {
            Some(decided) => self.decided.insert(decided),
            None => self.decided.insert((newest, result)),
        };
        decided
    }

    /// From answers of which view was decided.
    pub fn decided(&self) -> Option<View> {
        self.decided.as_ref().map(|(view, _)| *view)
    }

    fn newest(&self) -> View {
        self.answers.values().map(|(view, _)| *view).max().unwrap_or_default()
    }

    fn in_newest(&self) -> impl Iterator<Item = &State<R>> {
        let newest = self.newest();
        self.answers.values().filter(move |(view, _)| *view == newest).map(|(_, state)| state)
    }

    fn most_alike(&self) -> Option<(&R, usize)> {
        let mut alike: BTreeMap<&R, usize> = BTreeMap::new();
        self.in_newest()
            .filter_map(State::result)
            .for_each(|result| *alike.entry(result).or_default() += 1);
        alike.into_iter().max_by_key(|(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_confirms_what_it_has_refused_is_not_one_of_all_who_have_said_yes() {
        let mut heard: Invocation<bool> = Invocation::new(0, Unordered::of(3).expect("odd"));
        for (node, yes) in [(1, true), (2, true), (3, false)] {
            heard.on_reply(NodeId(node), View::of(1), State::Tentative(Some(yes)));
        }
        heard.decide(true);
        [1, 3].into_iter().for_each(|node| heard.on_confirm(NodeId(node), View::of(1)));
        assert_eq!((heard.settled(), heard.by_all()), (Some(&true), false));
    }
}
