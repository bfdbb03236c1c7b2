//! Clock-SI's analytical model (§IV): how often and how long a transaction is delayed, and how
//! often an update aborts, as the age Δ of snapshots grows.
//!
//! ```text
//!   §IV-B  a pending commit below the snapshot    window CW = S + RRD, the older Δ of it is missed
//!   §IV-C  a remote clock behind the snapshot     skew ~ N(μ, δ), beyond half a round trip and Δ
//!   §IV-D  a write of another since the snapshot  abort within L_u + Δ
//! ```
//!
//! The formulas are expectations of rare events. Where they exceed one, the model is beyond its
//! range, and the probability is given as one. Times are in seconds.

use std::f64::consts::{PI, SQRT_2};

/// The inputs of the model, in the paper's notation. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// The number of items, over which accesses are uniform: *DBSize*.
    pub items: f64,
    /// Update transactions in a second: *TPS_u*.
    pub updates_per_s: f64,
    /// The items that a read transaction reads: *R*.
    pub reads: f64,
    /// The items that an update transaction writes: *W*.
    pub writes: f64,
    /// How long a read transaction lasts: *L_r*.
    pub read_s: f64,
    /// How long an update transaction lasts: *L_u*.
    pub update_s: f64,
    /// How long it takes to make a commit durable: *S*.
    pub sync_s: f64,
    /// The round trip between two partitions: *RRD*.
    pub round_trip_s: f64,
    /// The mean skew between two clocks: *μ*.
    pub skew_mean_s: f64,
    /// The standard deviation of the skew: *δ*.
    pub skew_deviation_s: f64,
    /// The age of a snapshot: *Δ*.
    pub age_s: f64,
}

/// A delay: its probability, and its mean duration in seconds if it occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Delay {
    /// The probability.
    pub probability: f64,
    /// The mean duration of a delay, in seconds.
    pub duration_s: f64,
}

impl Delay {
    /// The mean delay of all transactions, in seconds.
    pub fn mean_s(self) -> f64 {
        self.probability * self.duration_s
    }
}

impl Model {
    /// The inputs of the example (§IV-E). The paper writes CW = 8 ms; its result follows with 8 ms
    /// as *S*. It does not give *L_r*, which the window exceeds, nor a skew.
    pub const EXAMPLE: Model = Model {
        items: 1e7,
        updates_per_s: 1e4,
        reads: 10.0,
        writes: 10.0,
        read_s: 4e-3,
        update_s: 32e-3,
        sync_s: 8e-3,
        round_trip_s: 0.2e-3,
        skew_mean_s: 0.0,
        skew_deviation_s: 0.0,
        age_s: 0.0,
    };

    /// The committing window of an update of several partitions: *CW*, in seconds (§IV-B).
    pub fn window_s(&self) -> f64 {
        self.sync_s + self.round_trip_s
    }

    /// Delays by pending commits (§IV-B). A transaction that is longer than the part of the window
    /// above its snapshot meets pending commits only with its first reads.
    pub fn by_commits(&self) -> Delay {
        // Below a nanosecond, the difference is the rounding of its terms.
        let above_s = Some(self.window_s() - self.age_s).filter(|above_s| *above_s >= 1e-9);
        let above_s = above_s.unwrap_or_default();
        let of_all = above_s * self.updates_per_s * self.writes * self.reads / self.items;
        let exposed = if above_s >= self.read_s { 1.0 } else { above_s / self.read_s };
        Delay { probability: (of_all * exposed).min(1.0), duration_s: 0.5 * above_s }
    }

    /// Delays by skew, of a transaction that reads at another partition (§IV-C).
    pub fn by_skew(&self) -> Delay {
        let arrives_s = 0.5 * self.round_trip_s + self.age_s;
        if self.skew_deviation_s == 0.0 {
            let late_s = (self.skew_mean_s - arrives_s).max(0.0);
            return Delay { probability: f64::from(late_s > 0.0), duration_s: late_s };
        }
        let at = (arrives_s - self.skew_mean_s) / self.skew_deviation_s;
        let probability = 0.5 * libm::erfc(at / SQRT_2);
        if probability < f64::MIN_POSITIVE {
            return Delay::default(); // More than 37 deviations away.
        }
        // The mean of a normal distribution above a bound.
        let density = (-0.5 * at * at).exp() / (2.0 * PI).sqrt();
        let mean_s = self.skew_mean_s + self.skew_deviation_s * density / probability;
        Delay { probability, duration_s: mean_s - arrives_s }
    }

    /// The probability that an update aborts (§IV-D): an upper bound, because an older snapshot
    /// makes a transaction longer only logically.
    pub fn aborts(&self) -> f64 {
        let lasts_s = self.update_s + self.age_s;
        (self.writes * self.writes * self.updates_per_s * lasts_s / self.items).min(1.0)
    }

    /// The age with which almost no transaction is delayed, for a largest skew (§IV-C).
    pub fn suggested_age_s(&self, largest_skew_s: f64) -> f64 {
        self.window_s().max(largest_skew_s - 0.5 * self.round_trip_s)
    }

    /// Returns the model with snapshots of another age.
    pub fn aged(&self, age_s: f64) -> Model {
        Model { age_s, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} is not {expected}");
    }

    /// §IV-E prints 0.08 %, 4.1 ms and 3.2 µs. The first and the last are rounded down.
    #[test]
    fn the_papers_example() {
        let example = Model::EXAMPLE;
        let delay = example.by_commits();
        close(delay.probability, 0.000_82);
        close(delay.duration_s, 4.1e-3);
        close(delay.mean_s(), 3.362e-6);
        close(example.aborts(), 0.0032);
        let older = example.aged(example.suggested_age_s(0.0));
        close(older.age_s, 8.2e-3);
        assert_eq!(older.by_commits(), Delay::default());
        close(older.aborts(), 0.004_02);
    }

    /// Both regimes agree where they meet, and the longer transaction is delayed less often.
    #[test]
    fn long_transactions_meet_pending_commits_with_their_first_reads() {
        let at = |read_s| Model { read_s, ..Model::EXAMPLE }.by_commits();
        close(at(8.2e-3).probability, at(1e-3).probability);
        close(at(82e-3).probability, 0.000_082);
        close(at(82e-3).duration_s, 4.1e-3);
    }

    #[test]
    fn skew_delays_what_arrives_before_the_clock_is_there() {
        let with = |mean: f64, deviation: f64, age_s: f64| {
            let skew = Model { skew_mean_s: mean, skew_deviation_s: deviation, ..Model::EXAMPLE };
            skew.aged(age_s).by_skew()
        };
        assert_eq!(with(0.0, 0.0, 0.0), Delay::default(), "clocks that agree delay nothing");
        assert_eq!(with(1e-3, 0.0, 0.0), Delay { probability: 1.0, duration_s: 0.9e-3 });
        // Half of the mass of a normal distribution, and the mean of its half: δ √(2/π).
        let half = with(0.1e-3, 1e-3, 0.0);
        close(half.probability, 0.5);
        close(half.duration_s, 1e-3 * (2.0 / PI).sqrt());
        // One deviation: 1 - Φ(1).
        assert!((with(0.0, 1e-3, 0.9e-3).probability - 0.158_655_253_931).abs() < 1e-11);
        let (fresh, old, ancient) =
            (with(0.0, 1e-3, 0.0), with(0.0, 1e-3, 2e-3), with(0.0, 1e-3, 1.0));
        assert!(fresh.probability > old.probability && fresh.duration_s > old.duration_s);
        assert_eq!(ancient, Delay::default());
    }

    #[test]
    fn probabilities_end_at_one() {
        let crowded = Model { items: 10.0, ..Model::EXAMPLE };
        assert_eq!((crowded.by_commits().probability, crowded.aborts()), (1.0, 1.0));
    }

    /// The integrals of §IV-C, by the trapezoidal rule.
    #[test]
    fn the_closed_form_is_the_papers_integral() {
        let model =
            Model { skew_mean_s: 0.2, skew_deviation_s: 0.5, round_trip_s: 0.6, ..Model::EXAMPLE };
        let weight = |x: f64| (-(x - 0.2) * (x - 0.2) / (2.0 * 0.25)).exp();
        let (from, step, steps) = (0.3, 1e-5, 1_000_000);
        let (mut above, mut below) = (0.0, 0.0);
        for n in 0..=steps {
            let x = from + step * f64::from(n);
            let part = if n == 0 || n == steps { 0.5 } else { 1.0 };
            above += part * x * weight(x);
            below += part * weight(x);
        }
        assert!((model.by_skew().duration_s - (above / below - from)).abs() < 1e-9);
    }
}
