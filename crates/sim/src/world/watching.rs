//! Invariants that every protocol promises, checked on every node at every step (I1 to I8 of the
//! architecture).
//!
//! | | checked | when |
//! |---|---|---|
//! | I1, I4 | no version appears at or below a snapshot of its key that any node has read | a commit is installed for the first time |
//! | I2 | a timestamp belongs to one commit; an issuer's timestamps grow | a commit is installed |
//! | I3, I8 | a timestamp reported to a client has passed, in true time and by every clock | a transaction ends |
//! | I5 | an entry that is acted on is on the disks of a majority, as they would be after a power failure now | a sample of the commits of leaders |
//! | I6 | one timestamp across engines: not applicable, there is one engine | |
//! | I7 | lying clocks cost real-time order, and nothing else | by the judges: `--faults lies` |
//!
//! No invariant is checked while a defect is planted: the judges have to detect it.

use super::World;
use crate::Timebase;
use crate::sim_protocol::{RequestRouter, SimProtocol};
use crate::spanner::Spanner;
use crate::spanner::node_process::log_of;
use meridian_clock::{Health, Timestamp};
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{KeyRange, Write, local};
use meridian_replication::group::{Index, Term};
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The fraction of commits that are looked up on disks.
const SOME: f64 = 0.02;

/// The observations of one shard.
#[derive(Debug, Default)]
struct Seen {
    /// Snapshots read at or above the newest commit. Older ones can be violated only by commits
    /// decided elsewhere.
    reads: Vec<(KeyRange, Timestamp)>,
    newest: Timestamp,
    installed: BTreeMap<Timestamp, Vec<Write>>,
}

/// The observations of all shards.
#[derive(Debug, Default)]
pub struct Watch {
    shards: BTreeMap<ShardId, Seen>,
    issued: BTreeMap<u32, Timestamp>,
}

/// The time for which older reads are kept to check commits decided elsewhere: longer than a
/// transaction usually stays prepared.
const READS_KEPT_NS: u64 = 5_000_000_000;

impl<R: SimProtocol> World<R> {
    /// True if invariants are checked in this run.
    pub(super) fn watches(&self) -> bool {
        self.options.defect.is_none() && self.options.profile.is_none()
    }

    /// Records a snapshot read.
    pub(super) fn watch_read(&mut self, shard: ShardId, range: KeyRange, at: Timestamp) {
        if self.watches() && at != Timestamp::MAX {
            self.watch.shards.entry(shard).or_default().reads.push((range, at));
        }
    }

    /// Records the reads that a node's sessions made from local data.
    pub(super) fn watch_sessions(&mut self, node: usize) {
        let Some(process) = &self.nodes[node].process else { return };
        for (shard, range, at) in process.router.reads() {
            self.watch_read(shard, range, at);
        }
    }

    /// Records that a commit is installed on some node. Returns true if this is the first time.
    pub(super) fn watch_version(
        &mut self,
        (shard, at): (ShardId, Timestamp),
        writes: &[Write],
    ) -> bool {
        let watches = self.watches();
        let seen = self.watch.shards.entry(shard).or_default();
        match seen.installed.get(&at) {
            _ if !watches => {}
            Some(known) if known == writes => return false,
            Some(known) => {
                let why = format!("I2: {at} is the timestamp of {known:?} and of {writes:?}");
                self.fail(why);
                return false;
            }
            None => {}
        }
        if !seen.installed.contains_key(&at) && !writes.is_empty() {
            self.installed.entry(at).or_default().extend(writes.iter().cloned());
        }
        seen.installed.insert(at, writes.to_vec());
        watches
    }

    /// Checks a commit timestamp reported to a client.
    pub(super) fn watch_acknowledged(&mut self, at: Timestamp) {
        if !self.watches() || !self.options.is_strict() {
            return;
        }
        if self.options.timebase != Timebase::Cluster && at.nanos >= self.now() {
            return self.fail(format!("I3: a client receives {at} at {}", self.now()));
        }
        // No clock may still show an earlier time.
        for (member, node) in self.members.iter().zip(&self.nodes) {
            let reading = node.clock.reading();
            if reading.health == Health::Good
                && node.process.is_some()
                && reading.interval.latest < at.nanos
            {
                let late = at.nanos - reading.interval.latest;
                return self.fail(format!(
                    "I3: a client receives {at}, but the clock of {member} is {late} ns behind it"
                ));
            }
        }
    }
}

/// The checks of groups, whose commits come in the order of their timestamps.
impl World<Spanner> {
    /// Checks a commit, or a row local to a shard, that a node installs.
    pub(super) fn watch_install(
        &mut self,
        node: usize,
        (shard, at): (ShardId, Timestamp),
        writes: &[Write],
        (index, term): (Index, Term),
        decided_elsewhere: bool,
    ) {
        let writes: Vec<Write> =
            writes.iter().filter(|write| !local::is(&write.key)).cloned().collect();
        if !self.watch_version((shard, at), &writes) {
            return;
        }
        let seen = self.watch.shards.entry(shard).or_default();
        if decided_elsewhere {
            if writes.is_empty() {
                return; // An abort only removes a local row.
            }
        } else {
            if at <= seen.newest {
                let why = format!("I4: {at} is agreed on after {}", seen.newest);
                return self.fail(why);
            }
            if !writes.is_empty() {
                let last = self.watch.issued.insert(at.issuer, at).unwrap_or_default();
                if last >= at {
                    return self.fail(format!("I2: an issuer goes back from {last} to {at}"));
                }
            }
        }
        let seen = self.watch.shards.entry(shard).or_default();
        seen.newest = seen.newest.max(at);
        let overtaken = |(range, read): &&(KeyRange, Timestamp)| {
            *read >= at && writes.iter().any(|write| range.contains(write.key.as_ref()))
        };
        if let Some((range, read)) = seen.reads.iter().find(overtaken) {
            let why = format!("I1: {range:?} was read at {read}, and is written at {at} later");
            return self.fail(why);
        }
        let kept = seen.newest.nanos.saturating_sub(READS_KEPT_NS);
        seen.reads.retain(|(_, read)| read.nanos >= kept);
        if self.rng.random_bool(SOME) {
            let have = (0..self.nodes.len())
                .filter(|node| self.would_still_have(*node, shard, index, term));
            let have: BTreeSet<NodeId> = have.map(|node| self.members[node]).collect();
            let me = self.members[node];
            let Some(member) = self.member(node, shard) else { return };
            let group = member.replica.group();
            if group.leader() == Some(me) && !group.are_enough(&have) {
                self.fail(format!(
                    "I5: entry {} is acted on, but only {have:?} would have it after a power failure",
                    index.0
                ));
            }
        }
    }

    /// True if a node would have an entry on its disk after a power failure. A corrupted node is
    /// assumed to.
    fn would_still_have(&self, node: usize, shard: ShardId, index: Index, term: Term) -> bool {
        if self.corrupted.contains_key(&node) {
            return true;
        }
        let (base, kept) = log_of(&self.nodes[node].disks.0.remains(), shard);
        index <= base || kept.get(&index).is_some_and(|entry| entry.term == term)
    }
}
