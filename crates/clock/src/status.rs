//! The clock status: how well a node knows the time.

use std::fmt;

/// An interval with a larger half width counts as wide: commits wait for about twice that, in
/// nanoseconds.
pub(crate) const WIDE_NS: u64 = 10_000_000;
/// With a larger half width the time counts as unknown, in nanoseconds.
pub(crate) const WIDEST_NS: u64 = 10_000_000_000;

/// The time that a clock is not trusted after it contradicted the others, in nanoseconds.
pub const EVICTED_FOR_NS: u64 = 10_000_000_000;

/// The status of a node's clock. A node moves through these by itself. In the first and the last
/// status it does not serve requests that need the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockStatus {
    /// Too few clocks have answered yet.
    Starting,
    /// The interval contains the time.
    Good,
    /// The interval contains the time and is wide (more than 10 ms either way): commits wait long.
    Wide,
    /// No clock source has answered lately: the interval widens with the drift.
    FreeRunning,
    /// A clock source contradicts the agreement of the others, and is not trusted.
    Disrupted,
    /// The time is not known: no clock source has answered for too long, or the sources contradict
    /// each other or this machine's own clock.
    Fenced,
}

impl ClockStatus {
    /// True if an interval may be used.
    pub fn is_usable(self) -> bool {
        !matches!(self, ClockStatus::Starting | ClockStatus::Fenced)
    }

    const ALL: [ClockStatus; 6] = [
        ClockStatus::Starting,
        ClockStatus::Good,
        ClockStatus::Wide,
        ClockStatus::FreeRunning,
        ClockStatus::Disrupted,
        ClockStatus::Fenced,
    ];

    /// Returns the number of the status in messages.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the status with a number.
    pub fn of_number(number: u8) -> Option<ClockStatus> {
        ClockStatus::ALL.get(usize::from(number)).copied()
    }

    /// Returns the name of the status for users.
    pub fn name(self) -> &'static str {
        match self {
            ClockStatus::Starting => "starting",
            ClockStatus::Good => "good",
            ClockStatus::Wide => "wide",
            ClockStatus::FreeRunning => "free-running",
            ClockStatus::Disrupted => "disrupted",
            ClockStatus::Fenced => "fenced",
        }
    }
}

impl fmt::Display for ClockStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
