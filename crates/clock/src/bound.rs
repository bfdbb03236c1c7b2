//! What was known of the time at one moment, and what is known of it later: the sawtooth of Spanner
//! §3.

use meridian_machine::Interval;

/// By how much the rates of two clocks may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift {
    /// In parts of 2³², rounded up: a multiplication and a shift for each reading.
    part: u64,
}

impl Drift {
    /// Two hundred microseconds in a second (Spanner §3).
    pub const WORST: Drift = Drift::ppm(200);

    /// So many millionths.
    pub const fn ppm(millionths: u64) -> Drift {
        Drift::ppb(1_000 * millionths)
    }

    /// So many billionths.
    pub const fn ppb(billionths: u64) -> Drift {
        Drift { part: (billionths << 32).div_ceil(1_000_000_000) }
    }

    /// For how long two clocks are surely not farther apart than this.
    pub const fn keeps_within(self, slack_ns: u64) -> u64 {
        let lasts = ((slack_ns as u128) << 32) / (self.part as u128 + 1);
        if lasts > (u64::MAX >> 2) as u128 { u64::MAX >> 2 } else { lasts as u64 }
    }

    /// By how much two clocks have moved apart, at most, when one of them has counted so many
    /// nanoseconds.
    pub const fn of(self, elapsed_ns: u64) -> u64 {
        ((elapsed_ns as u128 * self.part as u128) >> 32) as u64 + (elapsed_ns != 0) as u64
    }
}

/// Where the time lay when the boot clock showed `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Nanoseconds of the boot clock.
    pub at: u64,
    /// Where the time lay then.
    pub interval: Interval,
}

impl Bound {
    /// Where it lies when the boot clock shows `boot_ns`: each end has moved as the boot clock did,
    /// give or take the drift.
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
        // Thirty seconds at 200 µs a second: the 6 ms of the paper, on top of the 1 ms.
        assert!(
            (7_000_000..7_000_010).contains(&later.half_width_ns()),
            "{}",
            later.half_width_ns()
        );
        assert_eq!(
            bound.on(0, Drift::WORST),
            bound.interval,
            "a moment before it says nothing new"
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
