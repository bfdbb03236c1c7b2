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
    /// The longest wait of a sync for the disk; the shortest is a tenth of it. The core is idle
    /// meanwhile.
    pub disk_ns: u64,
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
            disk_ns: cost("disk_ns")?,
        })
    }
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
    /// In a scenario, the time at which each transaction committed, in nanoseconds since the start
    /// of the measurement.
    pub ended_ns: Vec<u64>,
    /// In a scenario, the number of transactions that did not commit.
    pub failed: u64,
    /// In a scenario with time masters, for each poll of a node that is no master: its time since
    /// the start of the measurement, and the clock's uncertainty after the last answer before it,
    /// both in nanoseconds.
    pub unsure_ns: Vec<(u64, u64)>,
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
