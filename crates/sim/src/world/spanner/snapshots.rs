//! Counts the sequential message delays of transactions of snapshot isolation: with snapshots of the
//! nodes' clocks (Clock-SI), and with those of an authority.

use super::super::one_by_one::ONE;
use super::super::order::Asked;
use super::World;
use crate::SimulatedProtocol;
use crate::spanner::Spanner;
use crate::workload::{Scope, Step};
use meridian_txn::{Consistency, Lock, Mode, ReadAt};

/// The first node leads the first shard, and so has the authority; another one leads the second.
const LEADER: usize = 0;
const NEITHER: usize = 2;

/// A kind of transaction: the number of shards, the node of its session, the keys that it reads, and
/// those that it writes.
type Kind = (&'static str, usize, usize, &'static [&'static str], &'static [&'static str]);

const KINDS: [Kind; 12] = [
    ("one shard: read, at its leader", 1, LEADER, &["ra"], &[]),
    ("one shard: read, elsewhere", 1, NEITHER, &["ra"], &[]),
    ("one shard: write, at its leader", 1, LEADER, &[], &["ra"]),
    ("one shard: write, elsewhere", 1, NEITHER, &[], &["ra"]),
    ("one shard: read and write, at its leader", 1, LEADER, &["ra"], &["ra"]),
    ("one shard: read and write, elsewhere", 1, NEITHER, &["ra"], &["ra"]),
    ("the second of two shards: read", 2, NEITHER, &["ra"], &[]),
    ("the second of two shards: read and write", 2, NEITHER, &["ra"], &["ra"]),
    ("two shards: read both, at the leader of one", 2, LEADER, &["lb", "ra"], &[]),
    ("two shards: read both, elsewhere", 2, NEITHER, &["lb", "ra"], &[]),
    (
        "two shards: read and write both, at the leader of one",
        2,
        LEADER,
        &["lb", "ra"],
        &["lb", "ra"],
    ),
    ("two shards: read and write both, elsewhere", 2, NEITHER, &["lb", "ra"], &["lb", "ra"]),
];

impl World<Spanner> {
    /// Returns the message delays of each kind of transaction. Each runs in a world of its own, and
    /// just before it another one of its kind: leaders and ceilings are as in a busy database.
    pub fn delays_of_snapshots(protocol: &'static SimulatedProtocol) -> Vec<(&'static str, u64)> {
        let delays = |(name, shards, node, reads, writes): &Kind| {
            let read = |name: &&str| Step::Read((*name).to_owned(), Lock::Shared);
            let write = |name: &&str| Step::Write((*name).to_owned(), Some(1));
            let steps: Vec<Step> = reads.iter().map(read).chain(writes.iter().map(write)).collect();
            let mode =
                if writes.is_empty() { Mode::ReadOnly(ReadAt::Now) } else { Mode::ReadWrite };
            let asked = Asked { consistency: Consistency::Hybrid, ..Asked::default() };
            let mut world = Self::with_shards(protocol, *shards);
            world.takes_in_order(*node, mode, steps.clone(), Scope::Open, asked.clone());
            world.until(4 * ONE, |_| false); // What it has written comes to rest.
            (*name, world.takes_in_order(*node, mode, steps, Scope::Open, asked))
        };
        KINDS.iter().map(delays).collect()
    }
}
