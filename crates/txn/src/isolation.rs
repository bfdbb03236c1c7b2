//! Isolation levels, as SQL names them.

use std::fmt;

/// An isolation level of the SQL standard. Each one is stronger than those before it. The
/// standard's default is the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum IsolationLevel {
    /// Transactions may see a part of another one, or uncommitted writes. A store without
    /// transactions provides this.
    ReadUncommitted,
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// All statements see one snapshot, and of two transactions that write the same row one is
    /// aborted: snapshot isolation, which PostgreSQL provides under this name too.
    RepeatableRead,
    /// Transactions are equivalent to some serial order of them.
    #[default]
    Serializable,
}

impl IsolationLevel {
    /// All levels, the weakest first.
    pub const ALL: [IsolationLevel; 4] = [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Serializable,
    ];

    /// Returns its name in SQL, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }

    /// Returns the level with this name, in any case.
    pub fn named(name: &str) -> Option<IsolationLevel> {
        Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name.trim()))
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
