//! What a machine is told about time.

use minicbor::{Decode, Encode};
use std::fmt;

/// True time lies somewhere in here, both ends included. Nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Interval {
    /// True time is not before this.
    #[n(0)]
    pub earliest: u64,
    /// True time is not after this.
    #[n(1)]
    pub latest: u64,
}

impl Interval {
    /// Nothing is known of the time.
    pub const ANY: Interval = Interval { earliest: 0, latest: u64::MAX >> 2 };

    /// An interval around a reading. `half_width_ns` is what the papers call epsilon.
    pub const fn around(nanos: u64, half_width_ns: u64) -> Self {
        Interval {
            earliest: nanos.saturating_sub(half_width_ns),
            latest: nanos.saturating_add(half_width_ns),
        }
    }

    /// Half the width: the uncertainty, in nanoseconds.
    pub const fn half_width_ns(&self) -> u64 {
        (self.latest - self.earliest) / 2
    }

    /// `TT.after(t)`: t has surely passed (Spanner, table 1).
    pub const fn after(&self, nanos: u64) -> bool {
        self.earliest > nanos
    }

    /// `TT.before(t)`: t has surely not arrived (Spanner, table 1).
    pub const fn before(&self, nanos: u64) -> bool {
        self.latest < nanos
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.earliest, self.latest)
    }
}

/// Whether an interval may be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// The interval holds true time, as far as anybody can tell.
    Good,
    /// No usable interval: a machine assigns no timestamp and grants no lease until this passes.
    Fenced,
}

/// The time as it was when an input had been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Nanoseconds since this machine booted, counting suspend. Measures timers and time-to-live;
    /// compares with nothing of another node.
    pub boot_ns: u64,
    /// Where true time lies.
    pub interval: Interval,
    /// Whether to believe it.
    pub health: Health,
}

impl Reading {
    /// A good reading, for tests and worlds that make their own time.
    pub const fn at(boot_ns: u64, interval: Interval) -> Self {
        Reading { boot_ns, interval, health: Health::Good }
    }
}
