//! What a figure of a paper measures: who stands where, and what sessions do all the time.
//!
//! ```text
//!   node   0 … zones·servers − 1    servers: node n stands in zone n mod zones; they have the groups' members
//!          the rest                 gateways: sessions stand there, and no members
//! ```
//!
//! The groups are there from the beginning, as after splits and moves; each is led where it is
//! said. Before anything is counted every group is written to, and every session knows who leads.
//! Where nobody leads there are two, with a replica on each server.

use crate::{Faults, Options, Regions, Timebase, profile::Costs};

const S: u64 = 1_000_000_000;

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Zones.
    pub zones: usize,
    /// Servers in each zone.
    pub servers: usize,
    /// Nodes without members, for sessions. Without any, sessions stand at the servers.
    pub gateways: usize,
    /// The zone in whose gateway all sessions stand, where there is one in each; without it, at all
    /// gateways alike.
    pub seated_in: Option<usize>,
    /// Groups.
    pub groups: u32,
    /// Members of each, one in a zone.
    pub replicas: usize,
    /// Whether all are led in the first zone, or as many in each.
    pub led_in_first: bool,
    /// What sessions do.
    pub work: Work,
    /// How often each session begins a transaction, also if the last one took longer than that;
    /// without it, as soon as the last has ended.
    pub every_ns: Option<u64>,
    /// The length of leases.
    pub lease_ns: u64,
    /// How exact clocks claim to be, where nodes do not ask for the time; and time masters'
    /// references, where they do.
    pub half_width_ns: u64,
    /// The first so many nodes are time masters, where nodes ask for the time.
    pub masters: usize,
    /// For so long it is measured.
    pub window_ns: u64,
    /// Whether each message takes just as long as the regions tell, or up to a tenth longer.
    pub steady: bool,
    /// What happens while it is measured.
    pub incident: Option<Incident>,
}

/// What sessions do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Write one key in each of so many groups.
    Write(u32),
    /// Read one key, as of now.
    Read,
    /// Read one key, as of a moment that is past.
    Snapshot,
    /// Read two keys, one after the other, and write both, as Retwis' FollowUser (TAPIR §7.4): in
    /// one group, or each in another.
    Follow(u32),
    /// The same, where keys are drawn by Zipf's law, in whichever groups they are.
    FollowByZipf,
}

/// How often keys are wanted, and of how many (TAPIR §7.4).
pub(crate) const ZIPF: (u32, f64) = (1_000_000, 0.6);

/// What happens, at so many nanoseconds after the first that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// All servers of a zone lose power for good; if they are told, they end in order: whatever
    /// they lead they hand over first.
    Kill {
        /// The zone.
        zone: usize,
        /// Whether they hand over.
        told: bool,
        /// When.
        at_ns: u64,
    },
    /// Until then one message in so many takes up to two seconds longer; later, two time masters of
    /// the first zone are away for a while.
    Masters {
        /// One in so many.
        late: u32,
        /// Until then messages are late.
        late_until_ns: u64,
        /// When the two go.
        away_at_ns: u64,
        /// For how long.
        away_for_ns: u64,
    },
}

impl Scene {
    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.zones * self.servers + self.gateways
    }

    /// The servers with a group's members; the first is to lead.
    pub(crate) fn members(&self, group: u32) -> Vec<usize> {
        let group = group as usize;
        let (first, server) =
            if self.led_in_first { (0, group) } else { (group % self.zones, group / self.zones) };
        (0..self.replicas)
            .map(|more| server % self.servers * self.zones + (first + more) % self.zones)
            .collect()
    }

    /// Where a session stands.
    pub(crate) fn seat(&self, session: usize) -> usize {
        let servers = self.zones * self.servers;
        match self.seated_in {
            _ if self.gateways == 0 => session % servers,
            Some(zone) => servers + zone,
            None => servers + session % self.gateways,
        }
    }

    /// A world in which it is measured.
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
            scene: Some(self),
            ..Options::new(seed)
        }
    }
}
