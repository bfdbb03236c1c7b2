//! The ladder: how well a node knows the time.

use std::fmt;

/// From here on it is worth a word: commits wait for about twice that.
pub(crate) const WIDE_NS: u64 = 10_000_000;
/// Wider than that the time is not known.
pub(crate) const WIDEST_NS: u64 = 10_000_000_000;

/// So long is out who contradicted the others.
pub const EVICTED_FOR_NS: u64 = 10_000_000_000;

/// A node goes down this ladder and up again by itself; only on the first and on the last rung it
/// does not serve what needs the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Too few have been heard yet.
    Starting,
    /// The interval holds the time.
    Good,
    /// It does, and is wide (more than 10 ms either way): commits wait long.
    Wide,
    /// Nobody has told anything lately: it widens with the drift.
    FreeRunning,
    /// Somebody contradicts what the others prove, and is not believed.
    Disrupted,
    /// The time is not known: nobody has told it for too long, or those who do contradict each
    /// other or this machine's own clock.
    Fenced,
}

impl Standing {
    /// Whether an interval may be used.
    pub fn is_usable(self) -> bool {
        !matches!(self, Standing::Starting | Standing::Fenced)
    }

    const ALL: [Standing; 6] = [
        Standing::Starting,
        Standing::Good,
        Standing::Wide,
        Standing::FreeRunning,
        Standing::Disrupted,
        Standing::Fenced,
    ];

    /// For a message.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The inverse.
    pub fn of_number(number: u8) -> Option<Standing> {
        Standing::ALL.get(usize::from(number)).copied()
    }

    /// As people see it.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Starting => "starting",
            Standing::Good => "good",
            Standing::Wide => "wide",
            Standing::FreeRunning => "free-running",
            Standing::Disrupted => "disrupted",
            Standing::Fenced => "fenced",
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
