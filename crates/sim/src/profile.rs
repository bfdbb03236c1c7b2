//! What things cost a node's one core, and what a run tells of it: throughput and latency at sizes that no machine at hand has.
//!
//! The code is the server's; only its speed is made up. Each thing that a node does keeps its core busy for so long, and whatever else is for that node
//! waits. Sessions read and write keys: what the wire and SQL cost is not in it.
//!
//! The costs were measured with `cargo run --release -p meridian-host --example commits -- NODES 1 5` on 2026-11-21 (user and system time for each commit:
//! 38 µs alone, 140 µs with three nodes; two questions and a commit each): what three nodes cost more, spread over four frames and two syncs.

/// What things cost, in nanoseconds of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// To encode a frame and hand it to the network.
    pub send_ns: u64,
    /// To receive a frame and take the step that it asks for.
    pub receive_ns: u64,
    /// A question or answer between a session and a replica of the same node, and what either does with it.
    pub local_ns: u64,
    /// To write a batch to the log and sync it, apart from waiting for the disk.
    pub sync_ns: u64,
}

impl Costs {
    /// As measured.
    pub const MEASURED: Costs = Costs { send_ns: 8_000, receive_ns: 12_000, local_ns: 4_000, sync_ns: 12_000 };
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
