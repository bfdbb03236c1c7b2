//! What things cost a node's one core, and what a run tells of it: throughput and latency at sizes
//! that no machine at hand has.
//!
//! The code is the server's; only its speed is made up. Each thing that a node does keeps its core
//! busy for so long, and whatever else is for that node waits. Sessions read and write keys: what
//! the wire and SQL cost is not in it.
//!
//! **One model.** What is predicted and every figure use the same costs: those of `costs.txt`,
//! which `cargo xtask costs` wrote beside what it measured.
//!
//! **Not in it.** How large a frame or a value is: all cost the same. What commits in a row share
//! but syncs of the log: a host hands several frames to one system call, here each is paid for.
//! More than one core in a node. Caches, reads from a disk, checkpoints.

/// What things cost, in nanoseconds of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// To encode a frame and hand it to the network.
    pub send_ns: u64,
    /// To receive a frame and take the step that it asks for.
    pub receive_ns: u64,
    /// A question or answer between a session and a replica of the same node, and what either does
    /// with it.
    pub local_ns: u64,
    /// To write a batch to the log and sync it, apart from waiting for the disk.
    pub sync_ns: u64,
    /// How long a sync waits for the disk at most; it waits for a tenth of that at least. No core
    /// is busy meanwhile.
    pub disk_ns: u64,
}

impl Costs {
    /// As measured.
    pub fn measured() -> Costs {
        Costs::read(include_str!("costs.txt")).expect("a cost for each thing")
    }

    /// Reads lines of a name and nanoseconds; others mean nothing.
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

/// What sessions saw between the first and the last second of a run, and what it took.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// For so long was measured, in nanoseconds.
    pub window_ns: u64,
    /// Transactions that wrote and were committed: how long each took, in nanoseconds, sorted.
    pub writes_ns: Vec<u64>,
    /// The same of those that only read.
    pub reads_ns: Vec<u64>,
    /// Frames that left a node.
    pub frames: u64,
    /// For how long each node's core was busy, in nanoseconds.
    pub busy_ns: Vec<u64>,
    /// In a scene: when each committed, after how many nanoseconds.
    pub ended_ns: Vec<u64>,
    /// In a scene: transactions that were not committed.
    pub failed: u64,
    /// In a scene with time masters: when a node that is none had heard them, and how unsure it was
    /// then of the time.
    pub unsure_ns: Vec<(u64, u64)>,
    /// In a scene: how many groups were led where they were to be when the measurement began.
    pub well_led: u32,
}

impl Profile {
    /// Committed transactions a second.
    pub fn per_second(&self) -> f64 {
        (self.writes_ns.len() + self.reads_ns.len()) as f64 / (self.window_ns as f64 / 1e9)
    }

    /// The busiest core: which, and in which part of the time it was busy.
    pub fn busiest(&self) -> (usize, f64) {
        let busiest = self.busy_ns.iter().enumerate().max_by_key(|(_, busy_ns)| **busy_ns);
        busiest.map_or((0, 0.0), |(node, busy_ns)| (node, *busy_ns as f64 / self.window_ns as f64))
    }
}

/// A quantile of sorted times, in milliseconds; none of none.
pub fn quantile_ms(sorted_ns: &[u64], part: f64) -> Option<f64> {
    let place = ((sorted_ns.len() as f64 - 1.0) * part).round().max(0.0) as usize;
    sorted_ns.get(place).map(|ns| *ns as f64 / 1e6)
}
