//! An operation at its client: the replicas' answers, and whether they are enough.

use super::{State, Unordered, View};
use crate::rules;
use meridian_machine::planted::broken;
use meridian_machine::{NodeId, sometimes};
use std::collections::BTreeMap;

/// The answers to one operation. Its holder sends the operation to the replicas, retries if
/// necessary, and sends them the result.
#[derive(Clone, Debug)]
pub struct Invocation<R> {
    /// The epoch whose replicas are asked. Answers of another epoch do not count.
    epoch: u32,
    enough: Unordered,
    /// The newest answer of each replica.
    answers: BTreeMap<NodeId, (View, State<R>)>,
    /// The client's decision, and the view of the answers from which it was made.
    decided: Option<(View, R)>,
}

impl<R: Clone + Ord> Invocation<R> {
    /// Creates the state of an operation that is about to be proposed to the replicas of an epoch.
    pub fn new(epoch: u32, enough: Unordered) -> Self {
        Invocation { epoch, enough, answers: BTreeMap::new(), decided: None }
    }

    /// Records a replica's answer. Its answer in an earlier view does not count any more.
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

    /// Records that a replica has the decided result on disk.
    pub fn on_confirm(&mut self, from: NodeId, view: View) {
        self.on_reply(
            from,
            view,
            State::Finalized(self.decided.as_ref().map(|(_, result)| result.clone())),
        );
    }

    /// Returns the replicas that have not answered in the newest known view, which are to be asked
    /// again.
    pub fn lacks(&self, replicas: &[NodeId]) -> Vec<NodeId> {
        let newest = self.newest();
        let heard = |node: &NodeId| self.answers.get(node).is_some_and(|(view, _)| *view == newest);
        replicas.iter().copied().filter(|node| !heard(node)).collect()
    }

    /// Returns the number of replicas that have answered in the newest known view.
    pub fn heard(&self) -> usize {
        self.in_newest().count()
    }

    /// True if an inconsistent operation has succeeded.
    pub fn is_executed(&self) -> bool {
        self.heard() >= self.enough.quorum()
    }

    /// Returns a consensus operation's result if the fast quorum (all replicas) has given the same
    /// one. No other result can have been decided from some of the answers.
    pub fn fast(&self) -> Option<&R> {
        let (result, alike) = self.most_alike()?;
        (alike >= self.enough.fast()).then_some(result)
    }

    /// True if each replica has given the fast result by itself: then each has executed the
    /// operation as if it had decided alone.
    pub fn by_all(&self) -> bool {
        let alike = self.in_newest().filter(|state| !state.is_final()).filter_map(State::result);
        self.fast().is_some_and(|result| {
            alike.filter(|other| *other == result).count() == self.enough.replicas()
        })
    }

    /// True if the fast path is impossible in this view, whatever the remaining replicas answer.
    pub fn is_slow(&self) -> bool {
        let heard = self.heard();
        let alike = self.most_alike().map_or(0, |(_, alike)| alike);
        alike + (self.enough.replicas() - heard) < self.enough.fast()
    }

    /// Returns a consensus operation's result if a quorum has it on disk as the group's.
    pub fn settled(&self) -> Option<&R> {
        let known = || self.in_newest().filter(|state| state.is_final()).filter_map(State::result);
        let result = known().next()?;
        // A view has one result. A client's decision is the same at all replicas that have
        // confirmed it.
        (known().filter(|other| *other == result).count() >= self.enough.quorum()).then_some(result)
    }

    /// Returns the answers of one view if they are enough to decide from; if one replica knows the
    /// group's result, that result alone. One replica that knows it is not enough: its view may
    /// have begun there and nowhere else, and the next view without the operation.
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

    /// Returns the newest known view. It is sent with each request, so that a replica that was left
    /// behind requests the view from the others.
    pub fn view(&self) -> View {
        self.newest()
    }

    /// Records and returns the client's decision, or its [fast](Self::fast) result. The first
    /// decision in a view counts, so that no two replicas in one view ever receive different
    /// results.
    pub fn decide(&mut self, result: R) -> &R {
        let newest = self.newest();
        let (_, decided) = match self.decided.take_if(|(view, _)| *view == newest) {
            Some(decided) => self.decided.insert(decided),
            None => self.decided.insert((newest, result)),
        };
        decided
    }

    /// Returns the view of the answers from which the client decided.
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
    fn confirming_a_refused_operation_does_not_count_as_accepting_it() {
        let mut heard: Invocation<bool> = Invocation::new(0, Unordered::of(3).expect("odd"));
        for (node, yes) in [(1, true), (2, true), (3, false)] {
            heard.on_reply(NodeId(node), View::of(1), State::Tentative(Some(yes)));
        }
        heard.decide(true);
        [1, 3].into_iter().for_each(|node| heard.on_confirm(NodeId(node), View::of(1)));
        assert_eq!((heard.settled(), heard.by_all()), (Some(&true), false));
    }
}
