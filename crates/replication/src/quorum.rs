//! Quorum sizes; no other file computes them.

use crate::rules;
use meridian_machine::NodeId;
use meridian_machine::planted::broken;
use std::collections::BTreeSet;

/// The majority of a set of voters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Majority {
    voters: usize,
}

impl Majority {
    /// Returns the majority of this many voters, at least one.
    pub fn of(voters: usize) -> Self {
        assert!(voters > 0, "a majority needs at least one voter");
        Majority { voters }
    }

    /// Returns the number of votes that are enough.
    pub fn size(self) -> usize {
        if broken(rules::MAJORITY_OFF_BY_ONE) {
            (self.voters / 2).max(1)
        } else {
            self.voters / 2 + 1
        }
    }

    /// Returns the largest value that a majority has reached, given each voter's value.
    pub fn reached<T: Ord + Copy>(self, values: &mut [T]) -> T {
        assert_eq!(values.len(), self.voters, "every voter has a value");
        values.sort_unstable();
        values[self.voters - self.size()]
    }
}

/// A quorum of the voters: a majority of them and, in joint consensus, a majority of the outgoing
/// voters too (Ongaro 2014, §4.3).
#[derive(Clone, Copy, Debug)]
pub struct Quorum<'a> {
    voters: &'a BTreeSet<NodeId>,
    outgoing: &'a BTreeSet<NodeId>,
}

impl<'a> Quorum<'a> {
    /// Returns the quorum of `voters`; `outgoing` is empty outside of joint consensus.
    pub fn of(voters: &'a BTreeSet<NodeId>, outgoing: &'a BTreeSet<NodeId>) -> Self {
        Quorum { voters, outgoing }
    }

    fn sets(self) -> impl Iterator<Item = &'a BTreeSet<NodeId>> {
        let outgoing =
            Some(self.outgoing).filter(|set| !set.is_empty() && !broken(rules::OUTGOING_NOT_ASKED));
        [self.voters].into_iter().chain(outgoing)
    }

    /// True if these votes are enough.
    pub fn has(self, votes: &BTreeSet<NodeId>) -> bool {
        self.sets().all(|set| votes.intersection(set).count() >= Majority::of(set.len()).size())
    }

    /// Returns the largest value that a quorum has reached, given each voter's value.
    pub fn reached<T: Ord + Copy>(self, value: impl Fn(NodeId) -> T) -> T {
        let of_set = |set: &BTreeSet<NodeId>| {
            let mut values: Vec<T> = set.iter().map(|node| value(*node)).collect();
            Majority::of(set.len()).reached(&mut values)
        };
        self.sets().map(of_set).min().expect("a group has a voter")
    }
}

/// The quorums of 2f + 1 replicas without a leader: f + 1 to keep an operation, all of them to
/// decide it at once.
///
/// The paper decides at once from ⌈3f/2⌉ + 1 equal results (TAPIR §3.2.1; Trap A.2). That relies on
/// each replica that has answered keeping its answer until a merge. Here an operation may end
/// early, by an inconsistent operation that reaches some replicas and by another attempt, and a
/// replica that receives that gives up its answer at once. A merge that misses such replicas cannot
/// tell ⌈3f/2⌉ + 1 equal results from a fast result that never was. With three replicas both sizes
/// are the same; with five the fast path takes five instead of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unordered {
    replicas: usize,
}

impl Unordered {
    /// Returns the quorums of this many replicas; `None` for an even number.
    pub fn of(replicas: usize) -> Option<Self> {
        (replicas % 2 == 1).then_some(Unordered { replicas })
    }

    /// Returns the number of replicas.
    pub fn replicas(self) -> usize {
        self.replicas
    }

    /// Returns the number of replicas that may fail: f.
    pub fn faults(self) -> usize {
        self.replicas / 2
    }

    /// Returns the number of replicas that have every successful operation: f + 1.
    pub fn quorum(self) -> usize {
        self.faults() + 1
    }

    /// Returns the number of equal results that survive every merge: all replicas, so that every
    /// record in a merge has the result.
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
