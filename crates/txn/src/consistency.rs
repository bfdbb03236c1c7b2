//! The order that a transaction needs with transactions that it does not conflict with (HybridTime
//! §4).

use std::fmt;

/// A consistency mode. Each one is stronger than those before it. In every mode transactions are
/// serializable; a mode says how the serial order relates to what clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consistency {
    /// The serial order is that of conflicts, and nothing else: a transaction may come before one
    /// that its own client has seen. Reads of several shards need not be of one moment.
    None,
    /// A transaction comes after all that its client has seen, and after all whose causal tokens
    /// the client was given. Others are ordered if they are further apart than twice the largest
    /// error of a clock. No transaction waits for a clock.
    Hybrid,
    /// External consistency: as `Hybrid`, and every transaction that begins after this one has
    /// ended comes after it, whatever its mode. The answer waits until all that the transaction and
    /// its session have written and read has surely passed.
    CommitWait,
}

impl Consistency {
    /// All modes, the weakest first.
    pub const ALL: [Consistency; 3] =
        [Consistency::None, Consistency::Hybrid, Consistency::CommitWait];

    /// Returns its name as a setting's value.
    pub const fn name(self) -> &'static str {
        match self {
            Consistency::None => "none",
            Consistency::Hybrid => "hybrid",
            Consistency::CommitWait => "commit_wait",
        }
    }

    /// Returns the mode with this name, in any case.
    pub fn named(name: &str) -> Option<Consistency> {
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name.trim()))
    }

    /// Returns the weakest of the modes of a database that is at least as strong as this one.
    /// Returns `None` if all of them are weaker.
    pub fn given(self, modes: &[Consistency]) -> Option<Consistency> {
        modes.iter().copied().filter(|mode| *mode >= self).min()
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weaker_mode_is_given_the_weakest_that_suffices() {
        use Consistency::{CommitWait, Hybrid};
        assert_eq!(Hybrid.given(&[CommitWait]), Some(CommitWait));
        assert_eq!(Hybrid.given(&[Hybrid, CommitWait, Consistency::None]), Some(Hybrid));
        assert_eq!(CommitWait.given(&[Consistency::None]), None);
        for mode in Consistency::ALL {
            assert_eq!(Consistency::named(&mode.name().to_uppercase()), Some(mode));
        }
        assert_eq!(Consistency::named("external"), None);
    }
}
