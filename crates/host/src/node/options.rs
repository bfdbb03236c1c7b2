//! Options and status of a node.

use crate::clock::ClockBound;
use crate::clock_sync::{NodeTime, Utc};
use crate::database::ShardStatus;
use crate::flusher::FlushOptions;
use crate::journal::JournalCounters;
use crate::panics::OnPanic;
use crate::protocols::{self, HostedProtocol};
use crate::shard::Timeouts;
use crate::trust::Trust;
use meridian_clock::{ClockStatus, Drift, Reading};
use meridian_machine::NodeId;
use meridian_placement::Member;
use meridian_systems::tapir::TruncationPolicy;
use meridian_txn::TxnStats;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data folder; `None` keeps everything in memory.
    pub data: Option<PathBuf>,
    /// This node.
    pub node: NodeId,
    /// All members of the cluster, with this node among them; empty for a single-node cluster.
    pub members: Vec<Member>,
    /// The address to listen on for other nodes, if it is not this member's own address.
    pub listen: Option<String>,
    /// An open socket for the connections of other nodes, instead of one at that address: a port
    /// that was found free stays free for this node.
    pub listener: Option<Arc<TcpListener>>,
    /// The source of the node's time.
    pub clock: ClockBound,
    /// The bound on clock drift.
    pub drift: Drift,
    /// The sources of UTC, if the clock is on UTC.
    pub utc: Utc,
    /// The way in which nodes authenticate each other.
    pub trust: Trust,
    /// The size of a log segment.
    pub log_segment_bytes: u64,
    /// Memory for the store engine's page cache.
    pub cache_bytes: usize,
    /// The times at which versions move to the store.
    pub flush: FlushOptions,
    /// The protocols that databases may have.
    pub protocols: Vec<HostedProtocol>,
    /// Timeouts of replica groups.
    pub timeouts: Timeouts,
    /// The policy by which replicas without a leader truncate their records.
    pub truncation: TruncationPolicy,
    /// The scope that ends when the node's own code panics.
    pub on_panic: OnPanic,
}

impl Options {
    /// Returns the options of a single-node cluster in memory.
    pub fn alone() -> Self {
        Options {
            data: None,
            node: NodeId(1),
            members: Vec::new(),
            listen: None,
            listener: None,
            clock: ClockBound::Alone,
            drift: Drift::WORST,
            utc: Utc::default(),
            trust: Trust::Loopback,
            log_segment_bytes: 32 << 20,
            cache_bytes: 64 << 20,
            flush: FlushOptions::default(),
            protocols: protocols::ALL.into(),
            timeouts: Timeouts::default(),
            truncation: TruncationPolicy::default(),
            on_panic: OnPanic::default(),
        }
    }

    /// Returns the options of one of several nodes on one machine, which share its clock.
    pub fn loopback() -> Self {
        Options { clock: ClockBound::LOOPBACK, ..Options::alone() }
    }

    /// Returns these options with a data folder.
    pub fn at(self, data: impl Into<PathBuf>) -> Self {
        Options { data: Some(data.into()), ..self }
    }
}

/// The counters of a node's transactions in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseTransactions {
    /// The database.
    pub database: String,
    /// Its protocol.
    pub protocol: &'static str,
    /// The counters.
    pub stats: TxnStats,
}

/// The status of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: u32,
    /// The cluster.
    pub cluster: u128,
    /// A reading of its clock.
    pub clock: Reading,
    /// The state of its clock.
    pub clock_status: ClockStatus,
    /// The clocks of the other nodes, as far as this node knows.
    pub others: Vec<NodeTime>,
    /// Its shards.
    pub shards: Vec<ShardStatus>,
    /// The counters of its sessions' transactions, by database.
    pub transactions: Vec<DatabaseTransactions>,
    /// Counters of the log.
    pub log: JournalCounters,
    /// True while the disk has no room for writes.
    pub disk_full: bool,
    /// Peers that the node has yet to meet before it takes part: a new cluster starts when all
    /// members have met once.
    pub to_meet: Vec<NodeId>,
    /// Copies of whole shards that this node received because the log did not reach back far
    /// enough.
    pub copies_received: u64,
}
