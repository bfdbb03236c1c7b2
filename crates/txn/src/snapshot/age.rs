//! How much older than the present snapshots are (Clock-SI §III-C).
//!
//! A snapshot of the present waits for clocks that are behind and for commits under way. An older
//! one meets fewer of both. It lacks what was committed since, and more of the writes that follow
//! it are refused.
//!
//! ```text
//!   age = max(commit delay + round trip, skew − round trip / 2)        of SnapshotAge::Auto
//! ```

use meridian_clock::{Interval, duration};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The weight of a new commit delay is one part in this many.
const SMOOTH: u64 = 8;
/// The shortest round trip grows by one part in this many with each measurement that is longer, so
/// that an old one is forgotten.
const FORGET: u64 = 64;

/// The age of a transaction's snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotAge {
    /// This much. Zero for the present.
    Fixed(Duration),
    /// The age that the node's measurements suggest ([`AgeParts::age`]).
    Auto,
}

impl SnapshotAge {
    /// The present.
    pub const PRESENT: SnapshotAge = SnapshotAge::Fixed(Duration::ZERO);
    /// The most that [`SnapshotAge::Auto`] comes to: no clock is waited for longer.
    pub const LONGEST_AUTO: Duration = Duration::from_secs(1);

    /// Returns the most that it comes to.
    pub fn longest(self) -> Duration {
        match self {
            SnapshotAge::Fixed(age) => age,
            SnapshotAge::Auto => SnapshotAge::LONGEST_AUTO,
        }
    }

    /// Parses `auto`, or a duration in the units of PostgreSQL's settings; `None` if the text is
    /// neither.
    pub fn parse(text: &str) -> Option<SnapshotAge> {
        match text.trim().eq_ignore_ascii_case("auto") {
            true => Some(SnapshotAge::Auto),
            false => duration::parse(text).map(SnapshotAge::Fixed),
        }
    }
}

impl Default for SnapshotAge {
    fn default() -> Self {
        SnapshotAge::PRESENT
    }
}

impl fmt::Display for SnapshotAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotAge::Fixed(age) => f.write_str(&duration::show(*age)),
            SnapshotAge::Auto => f.write_str("auto"),
        }
    }
}

/// The measurements of which the age of a snapshot is made. Zero until something was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgeParts {
    /// The time until a quorum has a commit on disk, smoothed.
    pub commit_delay: Duration,
    /// The shortest recent round trip to the leader of a shard on another node.
    pub round_trip: Duration,
    /// The most by which this node's clock may be ahead of another one: the width of its interval.
    pub skew: Duration,
    /// The number of commits that the delay was measured of.
    pub commits: u64,
}

impl AgeParts {
    /// The age at which a snapshot seldom waits: [`SnapshotAge::LONGEST_AUTO`] at most.
    pub fn age(&self) -> Duration {
        let committing = self.commit_delay + self.round_trip;
        let behind = self.skew.saturating_sub(self.round_trip / 2);
        committing.max(behind).min(SnapshotAge::LONGEST_AUTO)
    }
}

/// The measurements of one node in one database.
#[derive(Debug, Default)]
pub(crate) struct AgeMeter {
    commits: AtomicU64,
    commit_delay_ns: AtomicU64,
    round_trip_ns: AtomicU64,
}

impl AgeMeter {
    /// Records the time that a commit's replication took, in nanoseconds.
    pub(crate) fn committed(&self, took_ns: u64) {
        let smoothed = |known: u64| match known {
            0 => took_ns,
            known => known - known / SMOOTH + took_ns / SMOOTH,
        };
        self.commits.fetch_add(1, Relaxed);
        let _ = self.commit_delay_ns.fetch_update(Relaxed, Relaxed, |known| Some(smoothed(known)));
    }

    /// Records the time from a request to another node until its response, in nanoseconds. The
    /// response may have waited there: the shortest counts.
    pub(crate) fn answered(&self, took_ns: u64) {
        let shortest = |known: u64| match known {
            0 => took_ns,
            known => took_ns.min(known + known / FORGET + 1),
        };
        let _ = self.round_trip_ns.fetch_update(Relaxed, Relaxed, |known| Some(shortest(known)));
    }

    /// Returns the measurements, with the uncertainty of the node's clock now.
    pub fn parts(&self, now: Interval) -> AgeParts {
        AgeParts {
            commit_delay: Duration::from_nanos(self.commit_delay_ns.load(Relaxed)),
            round_trip: Duration::from_nanos(self.round_trip_ns.load(Relaxed)),
            skew: Duration::from_nanos(now.latest.saturating_sub(now.earliest)),
            commits: self.commits.load(Relaxed),
        }
    }

    /// Returns how much older than the present a snapshot is to be now, in nanoseconds.
    pub(crate) fn age_ns(&self, asked: SnapshotAge, now: Interval) -> u64 {
        let age = match asked {
            SnapshotAge::Fixed(age) => age,
            SnapshotAge::Auto => self.parts(now).age(),
        };
        u64::try_from(age.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The example of §IV-E: S = 8 ms and RRD = 0.2 ms give 8.2 ms.
    #[test]
    fn the_age_covers_a_commit_or_the_skew() {
        let parts = AgeParts {
            commit_delay: ms(8),
            round_trip: Duration::from_micros(200),
            skew: ms(2),
            commits: 1,
        };
        assert_eq!(parts.age(), Duration::from_micros(8_200));
        let skewed = AgeParts { round_trip: ms(4), skew: ms(30), ..parts };
        assert_eq!(skewed.age(), ms(28));
        assert_eq!(AgeParts { skew: ms(60_000), ..parts }.age(), SnapshotAge::LONGEST_AUTO);
        assert_eq!(AgeParts::default().age(), Duration::ZERO);
    }

    #[test]
    fn measurements_follow_what_is_measured() {
        let (meter, now) = (AgeMeter::default(), Interval { earliest: 90, latest: 110 });
        assert_eq!(
            meter.parts(now),
            AgeParts { skew: Duration::from_nanos(20), ..AgeParts::default() }
        );
        for took_ns in [8_000, 16_000, 3_000_000, 500] {
            meter.answered(took_ns);
        }
        assert_eq!(meter.parts(now).round_trip, Duration::from_nanos(500), "the shortest");
        (0..1_000).for_each(|_| meter.answered(9_000));
        assert_eq!(meter.parts(now).round_trip, Duration::from_nanos(9_000), "a recent one");
        meter.committed(8_000);
        meter.committed(16_000);
        assert_eq!(meter.parts(now).commit_delay, Duration::from_nanos(9_000));
        (0..1_000).for_each(|_| meter.committed(80_000));
        let settled = meter.parts(now).commit_delay;
        assert!(settled > Duration::from_nanos(79_900), "{settled:?}");
        assert_eq!(meter.parts(now).commits, 1_002);
        assert_eq!(meter.age_ns(SnapshotAge::Fixed(ms(5)), now), 5_000_000);
        assert!(meter.age_ns(SnapshotAge::Auto, now) > 80_000);
    }

    #[test]
    fn an_age_is_a_duration_or_auto() {
        for (text, shown) in [("5ms", "5ms"), ("AUTO", "auto"), ("0", "0"), ("1500", "1500ms")] {
            assert_eq!(SnapshotAge::parse(text).map(|age| age.to_string()).as_deref(), Some(shown));
        }
        for text in ["-5ms", "", "soon", "1e3", "5 lightyears", "NaN"] {
            assert_eq!(SnapshotAge::parse(text), None, "{text}");
        }
    }
}
