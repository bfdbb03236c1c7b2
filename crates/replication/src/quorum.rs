//! Quorum arithmetic: the one file that knows how many are enough.

use meridian_machine::NodeId;
use meridian_machine::planted::{Rule, broken};
use std::collections::BTreeSet;

/// More than half of a fixed set of voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majority {
    voters: usize,
}

impl Majority {
    /// Of this many voters, of which there is at least one.
    pub fn of(voters: usize) -> Self {
        assert!(voters > 0, "a group has a voter");
        Majority { voters }
    }

    /// How many are enough.
    pub fn size(self) -> usize {
        if broken(Rule::MajorityOffByOne) { (self.voters / 2).max(1) } else { self.voters / 2 + 1 }
    }

    /// The largest value that a majority has reached, given each voter's.
    pub fn reached<T: Ord + Copy>(self, values: &mut [T]) -> T {
        assert_eq!(values.len(), self.voters, "every voter has a value");
        values.sort_unstable();
        values[self.voters - self.size()]
    }
}

/// A majority of the voters, and, while these take over from others, a majority of those as well (joint consensus: Ongaro 2014, §4.3).
#[derive(Clone, Copy, Debug)]
pub struct Quorum<'a> {
    voters: &'a BTreeSet<NodeId>,
    outgoing: &'a BTreeSet<NodeId>,
}

impl<'a> Quorum<'a> {
    /// Of these voters, who take over from others if there are any.
    pub fn of(voters: &'a BTreeSet<NodeId>, outgoing: &'a BTreeSet<NodeId>) -> Self {
        Quorum { voters, outgoing }
    }

    fn sets(self) -> impl Iterator<Item = &'a BTreeSet<NodeId>> {
        let outgoing = Some(self.outgoing).filter(|set| !set.is_empty() && !broken(Rule::OutgoingNotAsked));
        [self.voters].into_iter().chain(outgoing)
    }

    /// Whether these are enough.
    pub fn has(self, votes: &BTreeSet<NodeId>) -> bool {
        self.sets().all(|set| votes.intersection(set).count() >= Majority::of(set.len()).size())
    }

    /// The largest value that enough have reached, given each voter's.
    pub fn reached<T: Ord + Copy>(self, value: impl Fn(NodeId) -> T) -> T {
        let of_set = |set: &BTreeSet<NodeId>| {
            let mut values: Vec<T> = set.iter().map(|node| value(*node)).collect();
            Majority::of(set.len()).reached(&mut values)
        };
        self.sets().map(of_set).min().expect("a group has a voter")
    }
}

/// How many of 2f + 1 replicas are enough that nobody leads: f + 1 to have something, more to have it decided at once (TAPIR §3.2.1; Trap A.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unordered {
    replicas: usize,
}

impl Unordered {
    /// Of this many replicas; there are none of an even number.
    pub fn of(replicas: usize) -> Option<Self> {
        (replicas % 2 == 1).then_some(Unordered { replicas })
    }

    /// All of them.
    pub fn replicas(self) -> usize {
        self.replicas
    }

    /// How many may be away: f.
    pub fn faults(self) -> usize {
        self.replicas / 2
    }

    /// So many have every operation that succeeded, whichever they are: f + 1.
    pub fn quorum(self) -> usize {
        self.faults() + 1
    }

    /// So many answers alike survive whatever happens: ⌈3f/2⌉ + 1.
    pub fn fast(self) -> usize {
        if broken(Rule::FastQuorumTooSmall) { self.quorum() } else { (3 * self.faults()).div_ceil(2) + 1 }
    }

    /// So many have to have said that they take nothing below a timestamp any more, for nothing to be decided there that none of them has said yes to: n − ⌈f/2⌉. A
    /// merge takes for fast what ⌈f/2⌉ + 1 of f + 1 records have; so at least one of any so many is among those. With three replicas that is f + 1, with five it is not.
    pub fn reading(self) -> usize {
        if broken(Rule::ReadQuorumTooSmall) { self.quorum() } else { self.replicas - self.faults().div_ceil(2) }
    }

    /// So many of `records` have the answer that was fast, if there was one: q − ⌊f/2⌋, as all but ⌊f/2⌋ replicas gave it at the least.
    pub fn in_merge(self, records: usize) -> usize {
        records - self.faults() / 2 + usize::from(broken(Rule::MergeTooStrict))
    }
}

#[cfg(test)]
mod tests {
    use super::{Majority, Quorum, Unordered};
    use meridian_machine::NodeId;
    use std::collections::BTreeSet;

    #[test]
    fn a_majority_has_reached_what_more_than_half_have() {
        assert_eq!(Majority::of(1).reached(&mut [7]), 7);
        assert_eq!(Majority::of(2).reached(&mut [7, 3]), 3);
        assert_eq!(Majority::of(3).reached(&mut [9, 1, 4]), 4);
        assert_eq!(Majority::of(4).reached(&mut [9, 1, 4, 2]), 2);
        assert_eq!(Majority::of(5).reached(&mut [5, 4, 3, 2, 1]), 3);
    }

    #[test]
    fn without_an_order_more_are_needed() {
        let sizes = |replicas| Unordered::of(replicas).map(|of| (of.quorum(), of.fast(), of.in_merge(of.quorum())));
        let expected = [(1, 1, 1), (2, 3, 2), (3, 4, 2), (4, 6, 3), (5, 7, 3)];
        assert_eq!([1, 3, 5, 7, 9].map(sizes), expected.map(Some));
        assert_eq!([0, 2, 4].map(sizes), [None; 3]);
        for of in [1, 3, 5, 7, 9, 11].map(|replicas| Unordered::of(replicas).unwrap()) {
            for records in of.quorum()..=of.replicas() {
                let fewest = records + of.fast() - of.replicas(); // who gave the fast answer and is among them
                assert!(fewest >= of.in_merge(records), "none is overlooked");
                assert!(2 * of.in_merge(records) > records, "there are no two");
                assert!(of.in_merge(records) + of.reading() > of.replicas(), "and a reader has met one who gave it");
            }
        }
    }

    #[test]
    fn while_voters_change_both_sets_have_a_say() {
        let set = |nodes: &[u32]| nodes.iter().copied().map(NodeId).collect::<BTreeSet<NodeId>>();
        let (old, new, none) = (set(&[1, 2, 3]), set(&[3, 4, 5]), set(&[]));
        let joint = Quorum::of(&new, &old);
        assert!(!joint.has(&set(&[3, 4, 5])) && !joint.has(&set(&[1, 2, 3])));
        assert!(joint.has(&set(&[2, 3, 4])) && joint.has(&set(&[1, 2, 4, 5])));
        assert!(Quorum::of(&new, &none).has(&set(&[4, 5])));
        assert_eq!(joint.reached(|node| 10 * node.0), 20);
        assert_eq!(Quorum::of(&new, &none).reached(|node| 10 * node.0), 40);
    }
}
