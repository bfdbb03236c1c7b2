//! Readings of the clock, as a machine receives them.

use minicbor::{Decode, Encode};
use std::fmt;

/// An interval that contains true time, both ends included, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Interval {
    /// True time is at or after this.
    #[n(0)]
    pub earliest: u64,
    /// True time is at or before this.
    #[n(1)]
    pub latest: u64,
}

impl Interval {
    /// The interval when the time is unknown.
    pub const ANY: Interval = Interval { earliest: 0, latest: u64::MAX >> 2 };

    /// Makes an interval around a time. The papers call `half_width_ns` epsilon.
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

/// The trustworthiness of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// The interval contains true time, as far as the node can tell.
    Good,
    /// There is no usable interval: a machine assigns no timestamp and grants no lease.
    Fenced,
}

/// The time at which an input was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Nanoseconds since this machine booted, including suspend. Measures timers and time-to-live;
    /// not comparable across nodes.
    pub boot_ns: u64,
    /// The interval that contains true time.
    pub interval: Interval,
    /// The trustworthiness of the interval.
    pub health: Health,
}

impl Reading {
    /// Makes a good reading, for tests and simulated time.
    pub const fn at(boot_ns: u64, interval: Interval) -> Self {
        Reading { boot_ns, interval, health: Health::Good }
    }
}
