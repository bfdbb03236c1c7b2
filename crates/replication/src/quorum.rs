//! Quorum arithmetic: the one file that knows how many are enough.

use crate::rules;
use meridian_machine::NodeId;
use meridian_machine::planted::broken;
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
        if broken(rules::MAJORITY_OFF_BY_ONE) {
            (self.voters / 2).max(1)
        } else {
            self.voters / 2 + 1
        }
    }

    /// The largest value that a majority has reached, given each voter's.
    pub fn reached<T: Ord + Copy>(self, values: &mut [T]) -> T {
        assert_eq!(values.len(), self.voters, "every voter has a value");
        values.sort_unstable();
        values[self.voters - self.size()]
    }
}

/// A majority of the voters, and, while these take over from others, a majority of those as well
/// (joint consensus: Ongaro 2014, §4.3).
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
        let outgoing =
            Some(self.outgoing).filter(|set| !set.is_empty() && !broken(rules::OUTGOING_NOT_ASKED));
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

/// How many of 2f + 1 replicas are enough that nobody leads: f + 1 to have something, all of them
/// to have it decided at once.
///
/// The paper decides at once from ⌈3f/2⌉ + 1 answers alike (TAPIR §3.2.1; Trap A.2). That rests on
/// every replica that gave another answer's operation its word keeping it until a merge. Here an
/// operation may end, by a fact that reaches some and by another attempt, and frees at once whoever
/// hears of it: of ⌈3f/2⌉ + 1 records alike a merge that misses those cannot tell a fast answer
/// from one that never was. With three replicas it is the same; with five the fast path takes five
/// instead of four.
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

    /// So many answers alike survive whatever happens: all of them. Whatever is merged, every
    /// record then has that one.
    pub fn fast(self) -> usize {
        if broken(rules::FAST_QUORUM_TOO_SMALL) {
            (3 * self.faults()).div_ceil(2) + 1
        } else {
            self.replicas
        }
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
        let sizes = |replicas| Unordered::of(replicas).map(|of| (of.quorum(), of.fast()));
        assert_eq!([1, 3, 5, 7].map(sizes), [(1, 1), (2, 3), (3, 5), (4, 7)].map(Some));
        assert_eq!([0, 2, 4].map(sizes), [None; 3]);
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
