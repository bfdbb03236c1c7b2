//! The checks of groups, whose commits come in the order of their timestamps.

use crate::shard::Leaders;
use crate::shard::node_process::log_of;
use crate::world::World;
use meridian_clock::Timestamp;
use meridian_machine::{NodeId, ShardId};
use meridian_mvcc::{KeyRange, Write, local};
use meridian_replication::group::{Index, Term};
use meridian_systems::shard::Participant;
use rand::Rng;
use std::collections::BTreeSet;

/// The fraction of commits that are looked up on disks.
const SOME: f64 = 0.02;

/// The time for which older reads are kept to check commits decided elsewhere: longer than a
/// transaction usually stays prepared, or has intents while it is idle.
const READS_KEPT_NS: u64 = 10_000_000_000;

impl<P: Participant> World<Leaders<P>> {
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
            // An authority's timestamps are those of commits in all shards.
            if !writes.is_empty() && !self.options.protocol.row.has_authority() {
                let last = self.watch.issued.insert(at.issuer, at).unwrap_or_default();
                if last >= at {
                    return self.fail(format!("I2: an issuer goes back from {last} to {at}"));
                }
            }
        }
        let seen = self.watch.shards.entry(shard).or_default();
        seen.newest = seen.newest.max(at);
        // Where a transaction reads at its own timestamp, it may write there.
        let own = self.options.protocol.row.orders_by_start();
        let overtaken = |(range, read): &&(KeyRange, Timestamp)| {
            (*read > at || (*read == at && !own))
                && writes.iter().any(|write| range.contains(write.key.as_ref()))
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
        let (base, kept) = log_of(P::KIND, &self.nodes[node].disks.0.remains(), shard);
        index <= base || kept.get(&index).is_some_and(|entry| entry.term == term)
    }
}
