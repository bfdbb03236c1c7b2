//! The cost model of a node's one core, and the measurements of a run: throughput and latency at
//! sizes that no available machine has.
//!
//! The code is the server's; only its speed is modelled. Each action keeps the core of its node
//! busy for its cost, and everything else for that node waits. Sessions read and write keys, so the
//! costs of the wire protocol and of SQL are not included.
//!
//! **One model.** The prediction and every figure use the same costs: those of `costs.txt`, which
//! `cargo xtask costs` wrote beside its measurements.
//!
//! **Not modelled.** The sizes of frames and values: all cost the same. Batching other than of log
//! syncs: a server hands several frames to one system call, and here each is charged. More than one
//! core per node. Caches, disk reads, and checkpoints.

use meridian_txn::Consistency;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::f64::consts::TAU;

/// The cost of each action, in nanoseconds of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Encoding a frame and handing it to the network.
    pub send_ns: u64,
    /// Receiving a frame and taking the step that it causes.
    pub receive_ns: u64,
    /// A request or response between a session and a replica of the same node, with its handling.
    pub local_ns: u64,
    /// Writing a batch to the log and syncing it, without the wait for the disk.
    pub sync_ns: u64,
    /// The wait of a sync for the disk; the core is idle meanwhile.
    pub disk: DiskWait,
}

/// The distribution of a sync's wait for the disk, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskWait {
    /// Even, between a tenth of this and all of it.
    UpTo(u64),
    /// Lognormal above the shortest wait: most waits are short, and some are very long.
    LogNormal {
        /// The shortest wait.
        least_ns: u64,
        /// The longest wait.
        most_ns: u64,
        /// The mean, before the longest waits are cut.
        mean_ns: u64,
        /// The standard deviation, before the longest waits are cut.
        deviation_ns: u64,
    },
}

/// Draws from the standard normal distribution.
pub fn normal(rng: &mut ChaCha8Rng) -> f64 {
    // Two evenly drawn numbers make a normally distributed one (Box and Muller).
    let (one, other): (f64, f64) = (rng.random_range(0.0..1.0), rng.random_range(0.0..1.0));
    (-2.0 * (1.0 - one).ln()).sqrt() * (TAU * other).cos()
}

impl DiskWait {
    /// No wait: the log is written, and not synced.
    pub const NONE: DiskWait = DiskWait::UpTo(0);

    /// Draws a wait.
    pub(crate) fn draw(self, rng: &mut ChaCha8Rng) -> u64 {
        match self {
            DiskWait::UpTo(most_ns) => rng.random_range(most_ns / 10..=most_ns),
            DiskWait::LogNormal { least_ns, most_ns, mean_ns, deviation_ns } => {
                let mean = mean_ns.saturating_sub(least_ns) as f64;
                let variance = (deviation_ns as f64 / mean).powi(2).ln_1p();
                let above_ns = mean * (variance.sqrt() * normal(rng) - variance / 2.0).exp();
                least_ns.saturating_add(above_ns as u64).min(most_ns)
            }
        }
    }
}

impl Costs {
    /// Returns the measured costs.
    pub fn measured() -> Costs {
        Costs::read(include_str!("costs.txt")).expect("a cost for each thing")
    }

    /// Parses lines of a name and a number of nanoseconds; ignores other lines.
    pub fn read(text: &str) -> Option<Costs> {
        let cost = |name: &str| {
            let mut values = text
                .lines()
                .filter_map(|line| line.split_once(' ').filter(|(first, _)| *first == name));
            values.next()?.1.trim().parse().ok()
        };
        Some(Costs {
            send_ns: cost("send_ns")?,
            receive_ns: cost("receive_ns")?,
            local_ns: cost("local_ns")?,
            sync_ns: cost("sync_ns")?,
            disk: DiskWait::UpTo(cost("disk_ns")?),
        })
    }
}

/// A committed transaction of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The consistency mode that its session asked for.
    pub consistency: Consistency,
    /// True unless it was a read-only transaction.
    pub writes: bool,
    /// The time of its end, in nanoseconds since the start of the measurement.
    pub ended_ns: u64,
    /// Its duration, in nanoseconds.
    pub took_ns: u64,
    /// The part of its duration in which it waited for an oracle's timestamp, in nanoseconds.
    pub timestamp_ns: u64,
    /// The part after COMMIT, in nanoseconds.
    pub commit_ns: u64,
    /// The part of its duration in which it waited until a timestamp had surely passed, in
    /// nanoseconds.
    pub waited_ns: u64,
}

/// The measurements of a run.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The duration of the measurement, in nanoseconds.
    pub window_ns: u64,
    /// The durations of committed transactions that wrote, in nanoseconds, sorted.
    pub writes_ns: Vec<u64>,
    /// The durations of committed transactions that only read, in nanoseconds, sorted.
    pub reads_ns: Vec<u64>,
    /// The number of frames sent between nodes.
    pub frames: u64,
    /// The time for which each node's core was busy, in nanoseconds.
    pub busy_ns: Vec<u64>,
    /// In a scenario, the committed transactions, in the order of their ends.
    pub commits: Vec<Commit>,
    /// In a scenario, the number of transactions that did not commit.
    pub failed: u64,
    /// In a scenario with time masters, for each poll of a node that is no master: its time since
    /// the start of the measurement, and the clock's uncertainty after the last answer before it,
    /// both in nanoseconds.
    pub unsure_ns: Vec<(u64, u64)>,
    /// In a scenario whose clocks' error bound changes, the times from which a bound holds, and the
    /// bounds, both in nanoseconds.
    pub bounds_ns: Vec<(u64, u64)>,
    /// In a scenario, the number of groups that were led on their intended node at the start.
    pub well_led: u32,
}

impl Profile {
    /// Returns the committed transactions per second.
    pub fn per_second(&self) -> f64 {
        (self.writes_ns.len() + self.reads_ns.len()) as f64 / (self.window_ns as f64 / 1e9)
    }

    /// Returns the busiest node, and the fraction of time for which its core was busy.
    pub fn busiest(&self) -> (usize, f64) {
        let busiest = self.busy_ns.iter().enumerate().max_by_key(|(_, busy_ns)| **busy_ns);
        busiest.map_or((0, 0.0), |(node, busy_ns)| (node, *busy_ns as f64 / self.window_ns as f64))
    }
}

/// Returns a quantile of sorted times, in milliseconds; `None` if there are none.
pub fn quantile_ms(sorted_ns: &[u64], part: f64) -> Option<f64> {
    let place = ((sorted_ns.len() as f64 - 1.0) * part).round().max(0.0) as usize;
    sorted_ns.get(place).map(|ns| *ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn a_lognormal_wait_has_the_given_mean_deviation_and_bounds() {
        const MS: f64 = 1e6;
        // The latencies of fsync that HybridTime's paper prints (§5.2).
        let disk = DiskWait::LogNormal {
            least_ns: 1_000_000,
            most_ns: 39_000_000,
            mean_ns: 1_930_000,
            deviation_ns: 2_080_000,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let drawn: Vec<f64> = (0..200_000).map(|_| disk.draw(&mut rng) as f64 / MS).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean - 1.93).abs() < 0.03, "mean {mean}");
        assert!((variance.sqrt() - 2.08).abs() < 0.25, "deviation {}", variance.sqrt());
        assert!(drawn.iter().all(|ms| (1.0..=39.0).contains(ms)));
        assert!(drawn.contains(&39.0), "the longest waits are cut");
        assert_eq!(DiskWait::NONE.draw(&mut rng), 0);
    }
}
