//! A bound on the time at one moment, and its growth later: the sawtooth of Spanner §3.

use meridian_machine::Interval;

/// The maximum difference between the rates of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The rate in parts of 2³², rounded up, so that a reading takes one multiplication and a
    /// shift.
    part: u64,
}

impl Drift {
    /// Two hundred microseconds in a second (Spanner §3).
    pub const WORST: Drift = Drift::ppm(200);

    /// Returns a drift in millionths.
    pub const fn ppm(millionths: u64) -> Drift {
        Drift::ppb(1_000 * millionths)
    }

    /// Returns a drift in billionths.
    pub const fn ppb(billionths: u64) -> Drift {
        Drift { part: (billionths << 32).div_ceil(1_000_000_000) }
    }

    /// Returns how long two clocks surely stay within `slack_ns` of each other, in nanoseconds.
    pub const fn keeps_within(self, slack_ns: u64) -> u64 {
        let lasts = ((slack_ns as u128) << 32) / (self.part as u128 + 1);
        if lasts > (u64::MAX >> 2) as u128 { u64::MAX >> 2 } else { lasts as u64 }
    }

    /// Returns the distance by which two clocks have moved apart at most when one of them has
    /// counted `elapsed_ns`.
    pub const fn of(self, elapsed_ns: u64) -> u64 {
        ((elapsed_ns as u128 * self.part as u128) >> 32) as u64 + (elapsed_ns != 0) as u64
    }
}

/// An interval that contained the time when the boot clock showed `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The boot clock, nanoseconds.
    pub at: u64,
    /// The interval that contained the time then.
    pub interval: Interval,
}

impl Bound {
    /// Returns the interval that contains the time when the boot clock shows `boot_ns`: each end
    /// has moved as the boot clock did, plus or minus the drift.
    pub const fn on(&self, boot_ns: u64, drift: Drift) -> Interval {
        let elapsed = boot_ns.saturating_sub(self.at);
        let slack = drift.of(elapsed);
        Interval {
            earliest: self.interval.earliest.saturating_add(elapsed.saturating_sub(slack)),
            latest: self.interval.latest.saturating_add(elapsed).saturating_add(slack),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertainty_grows_by_the_drift_and_shrinks_with_the_next_bound() {
        let bound = Bound { at: 1_000, interval: Interval::around(50_000_000_000, 1_000_000) };
        assert_eq!(bound.on(1_000, Drift::WORST), bound.interval);
        let later = bound.on(1_000 + 30_000_000_000, Drift::WORST);
        // Thirty seconds at 200 µs a second add the 6 ms of the paper to the 1 ms.
        assert!(
            (7_000_000..7_000_010).contains(&later.half_width_ns()),
            "{}",
            later.half_width_ns()
        );
        assert_eq!(
            bound.on(0, Drift::WORST),
            bound.interval,
            "a bound is not extrapolated backwards"
        );
    }

    #[test]
    fn the_drift_is_never_rounded_away() {
        for elapsed in [1, 2, 999, 5_000, 1_000_000, 86_400_000_000_000, u64::MAX / 2] {
            let exact = (u128::from(elapsed) * 200).div_ceil(1_000_000);
            let ours = u128::from(Drift::WORST.of(elapsed));
            assert!(
                ours >= exact && ours <= exact + exact / 1_000 + 2,
                "{elapsed}: {ours}, {exact}"
            );
            let lasts = Drift::WORST.keeps_within(elapsed);
            assert!(
                Drift::WORST.of(lasts) <= elapsed + 1 && lasts >= elapsed.min(u64::MAX >> 3),
                "{elapsed}: {lasts}"
            );
        }
    }
}
