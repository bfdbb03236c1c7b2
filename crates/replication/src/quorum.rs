//! Quorum arithmetic: the one file that knows how many are enough.

use meridian_machine::planted::{Rule, broken};

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

#[cfg(test)]
mod tests {
    use super::Majority;

    #[test]
    fn a_majority_has_reached_what_more_than_half_have() {
        assert_eq!(Majority::of(1).reached(&mut [7]), 7);
        assert_eq!(Majority::of(2).reached(&mut [7, 3]), 3);
        assert_eq!(Majority::of(3).reached(&mut [9, 1, 4]), 4);
        assert_eq!(Majority::of(4).reached(&mut [9, 1, 4, 2]), 2);
        assert_eq!(Majority::of(5).reached(&mut [5, 4, 3, 2, 1]), 3);
    }
}
