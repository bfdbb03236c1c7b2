//! The measured scenario of a figure: the placement of nodes, groups and sessions, and the
//! sessions' transactions.
//!
//! ```text
//!   node   0 … zones·servers − 1    servers: node n is in zone n mod zones; they have the groups' members
//!          the rest                 gateways: they have sessions, and no members
//! ```
//!
//! The groups exist from the beginning, as after splits and moves, and each is led on its intended
//! node. Before the measurement every group is written to, and every session knows the leaders. A
//! leaderless protocol has two shards, with a replica on each server.

use crate::{Faults, Options, Regions, Timebase, profile::Costs};
use meridian_clock::oracle::Terms;
use meridian_txn::{Consistency, SnapshotAge};

const S: u64 = 1_000_000_000;

/// The options of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The number of zones.
    pub zones: usize,
    /// The number of servers in each zone.
    pub servers: usize,
    /// The number of nodes without members, for sessions. With none, sessions are on the servers.
    pub gateways: usize,
    /// The zone whose gateway has all sessions, where each zone has a gateway, or whose first
    /// server has them, where there are no gateways; if `None`, sessions are spread over all.
    pub clients_in: Option<usize>,
    /// The number of groups.
    pub groups: u32,
    /// The number of members of each group, one per zone.
    pub replicas: usize,
    /// True if the leaders are all in the first zone; otherwise they are spread over the zones.
    pub led_in_first: bool,
    /// The transactions of the sessions.
    pub work: Work,
    /// The interval at which each session begins a transaction, even if the previous one took
    /// longer; if `None`, the next begins as soon as the previous has ended.
    pub every_ns: Option<u64>,
    /// The duration of leases, in nanoseconds.
    pub lease_ns: u64,
    /// The error bound that clocks claim; with time masters, the bound of their references.
    pub clocks: ErrorBound,
    /// The consistency modes of the sessions, in turn.
    pub modes: &'static [Consistency],
    /// The age of snapshots, for protocols that have older ones.
    pub age: SnapshotAge,
    /// If set, the first group has no keys, and its server is a machine that sends and receives at
    /// this cost, in nanoseconds for a request and its response: a timestamp authority, or an
    /// oracle.
    pub authority_ns: Option<u64>,
    /// The oracle from which transactions draw their timestamps, for protocols that draw them when
    /// they begin. If `None`, they are those of the sessions' nodes.
    pub oracle: Option<TimeOracle>,
    /// True if transactions keep their writes until they commit, where they can send them before.
    pub buffered: bool,
    /// The number of time masters, the first nodes; zero if nodes do not poll for the time.
    pub masters: usize,
    /// The duration of the measurement, in nanoseconds.
    pub window_ns: u64,
    /// True if each message takes exactly the delay of the regions; otherwise up to a tenth longer.
    pub steady: bool,
    /// The incident during the measurement, if any.
    pub incident: Option<Incident>,
}

/// The error bound that all clocks claim. The largest part of NTP's bound is the time server's, so
/// that machines with one server have nearly the same bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorBound {
    /// The least bound, in nanoseconds.
    pub least_ns: u64,
    /// The greatest bound, in nanoseconds; it holds before the measurement.
    pub most_ns: u64,
    /// The interval at which the bound is drawn again, in nanoseconds.
    pub every_ns: u64,
}

impl ErrorBound {
    /// Returns a bound that does not change.
    pub const fn of(half_width_ns: u64) -> ErrorBound {
        ErrorBound { least_ns: half_width_ns, most_ns: half_width_ns, every_ns: u64::MAX }
    }

    /// True if the bound changes.
    pub(crate) fn varies(&self) -> bool {
        self.least_ns < self.most_ns
    }
}

/// The transactions of a scenario's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writes one key in each of this many groups.
    Write(u32),
    /// Reads one key, as of now.
    Read,
    /// Reads one key, as of a moment in the past.
    Snapshot,
    /// Reads two keys, one after the other, and writes both, as Retwis' FollowUser (TAPIR §7.4): in
    /// one group, or each in another.
    Follow(u32),
    /// Inserts a row, updates one, or reads one (YCSB, as in HybridTime §5.1). A write names its
    /// key, and reads nothing before.
    Rows {
        /// The percentage of inserts.
        inserts: u32,
        /// The percentage of updates; the rest are reads.
        updates: u32,
    },
    /// As [`Follow`](Self::Follow), with keys drawn by Zipf's law, in whichever groups they are.
    FollowByZipf,
    /// Reads [`RUN`] adjacent keys in each of this many groups, one group after the other, the
    /// nearest first (Clock-SI §V-B).
    ReadRuns(u32),
    /// Reads [`RUN`] adjacent keys of one group and writes them (Clock-SI §V-B).
    UpdateRun,
    /// Nine of ten transactions read the newest tweets of a user, and one posts a tweet to the
    /// feeds of the user's followers (Clock-SI §V-C, [`FEED`]).
    Feed,
    /// Every other session updates ten keys of its own; the others read ten keys, which with this
    /// percentage are those of an updating session (Clock-SI §V-D).
    HotSpots(u32),
    /// Reads [`ITEMS`] keys of the first group and writes as many others, all drawn evenly from
    /// this many (Clock-SI §V-E).
    Items(u32),
    /// Three operations, half of them writes that read nothing, on keys drawn by Zipf's law (K2
    /// §7.1).
    YcsbT(Skew),
    /// Begins, and ends: what a timestamp at the start costs.
    Begin,
}

impl Work {
    /// Returns the law by which keys are drawn: their number, and its exponent.
    pub(crate) fn zipf(self) -> Option<(u32, f64)> {
        match self {
            Work::FollowByZipf => Some(ZIPF),
            Work::YcsbT(Skew { hundredths }) => Some((ZIPF.0, f64::from(hundredths) / 100.0)),
            _ => None,
        }
    }
}

/// The exponent of Zipf's law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// A hundred times the exponent.
    pub hundredths: u32,
}

/// The oracle of a scenario: the first group's server (K2 §2.2).
#[derive(Clone, Copy, Debug)]
pub struct TimeOracle {
    /// The terms of the oracle and of coordinators.
    pub terms: Terms,
    /// True if an answer serves all transactions of a node for a while (K2-TB); false if each asks
    /// by itself (the strawman).
    pub batches: bool,
}

/// The number of keys of a run (Clock-SI §V-B).
pub const RUN: u32 = 8;
/// The number of keys that a transaction reads, and that it writes (Clock-SI §V-D, §V-E).
pub const ITEMS: u32 = 10;
/// The social network of Clock-SI §V-C: its users, the followers of each, the groups that have
/// these, and the tweets that are read at once.
pub const FEED: Network = Network { users: 800_000, followers: 20, groups: 3, tweets: 20 };

/// A social network.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// The number of users.
    pub users: u32,
    /// The followers of each.
    pub followers: u32,
    /// The groups that have the followers of a user.
    pub groups: u32,
    /// The tweets of a feed, all of which are read at once.
    pub tweets: u32,
}

/// The number of keys and the exponent of Zipf's law (TAPIR §7.4).
pub(crate) const ZIPF: (u32, f64) = (1_000_000, 0.6);

/// An incident during the measurement; times are in nanoseconds since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// All servers of a zone lose power for good, or shut down in order.
    Kill {
        /// The zone.
        zone: usize,
        /// True if the servers shut down in order, and transfer their leaderships first.
        told: bool,
        /// The time of the incident.
        at_ns: u64,
    },
    /// Delays a fraction of the messages by up to two seconds until a time; later, crashes two time
    /// masters of the first zone for a while.
    Masters {
        /// One message in this many is delayed.
        late: u32,
        /// The time until which messages are delayed.
        late_until_ns: u64,
        /// The time at which the two masters crash.
        away_at_ns: u64,
        /// The time for which they are down.
        away_for_ns: u64,
    },
}

impl Scenario {
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.zones * self.servers + self.gateways
    }

    /// Returns the first group that has keys.
    pub(crate) fn first_group(&self) -> u32 {
        u32::from(self.authority_ns.is_some())
    }

    /// Returns the servers with a group's members; the first is the intended leader.
    pub(crate) fn members(&self, group: u32) -> Vec<usize> {
        let group = group as usize;
        let (first, server) =
            if self.led_in_first { (0, group) } else { (group % self.zones, group / self.zones) };
        (0..self.replicas)
            .map(|more| server % self.servers * self.zones + (first + more) % self.zones)
            .collect()
    }

    /// Returns the consistency mode of a session.
    pub(crate) fn mode(&self, session: usize) -> Consistency {
        let turn = session % self.modes.len().max(1);
        self.modes.get(turn).copied().unwrap_or(Consistency::CommitWait)
    }

    /// Returns the node of a session.
    pub(crate) fn seat(&self, session: usize) -> usize {
        let servers = self.zones * self.servers;
        match self.clients_in {
            Some(zone) if self.gateways == 0 => zone,
            None if self.gateways == 0 => session % servers,
            Some(zone) => servers + zone,
            None => servers + session % self.gateways,
        }
    }

    /// Returns the options of a world that measures the scenario.
    pub fn options(self, seed: u64, sessions: usize, regions: Regions, costs: Costs) -> Options {
        Options {
            nodes: self.nodes(),
            gateways: self.gateways,
            clients: sessions,
            faults: Faults::NONE,
            timebase: if self.masters > 0 { Timebase::Masters } else { Timebase::Bound },
            regions,
            profile: Some((costs, self.window_ns / S)),
            splits: Some(0),
            moves: Some(0),
            scenario: Some(self),
            ..Options::new(seed)
        }
    }
}
