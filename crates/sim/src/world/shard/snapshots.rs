//! Counts the sequential message delays of transactions of snapshot isolation: with snapshots of
//! the nodes' clocks (Clock-SI), and with those of an authority.

use super::super::one_by_one::ONE;
use super::super::order::Asked;
use super::{S, World};
use crate::SimulatedProtocol;
use crate::shard::Leaders;
use crate::sim_protocol::SimProtocol;
use crate::workload::{Scope, Step};
use meridian_machine::ShardId;
use meridian_systems::locking::Locking;
use meridian_txn::{Consistency, Lock, Mode, ReadAt};

/// The node that leads the first shard, and so has the authority.
const LEADER: usize = 0;

/// The place of a session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// The node that leads the first shard.
    Authority,
    /// A node that leads no shard.
    Neither,
}

/// A kind of transaction: the number of shards, the place of its session, the keys that it reads,
/// and those that it writes.
type Kind = (&'static str, usize, At, &'static [&'static str], &'static [&'static str]);

const KINDS: [Kind; 12] = [
    ("one shard: read, at its leader", 1, At::Authority, &["ra"], &[]),
    ("one shard: read, elsewhere", 1, At::Neither, &["ra"], &[]),
    ("one shard: write, at its leader", 1, At::Authority, &[], &["ra"]),
    ("one shard: write, elsewhere", 1, At::Neither, &[], &["ra"]),
    ("one shard: read and write, at its leader", 1, At::Authority, &["ra"], &["ra"]),
    ("one shard: read and write, elsewhere", 1, At::Neither, &["ra"], &["ra"]),
    ("the second shard: read, elsewhere", 2, At::Neither, &["ra"], &[]),
    ("the second shard: read and write, elsewhere", 2, At::Neither, &["ra"], &["ra"]),
    ("two shards: read, at the first leader", 2, At::Authority, &["lb", "ra"], &[]),
    ("two shards: read, elsewhere", 2, At::Neither, &["lb", "ra"], &[]),
    (
        "two shards: read, write, at the first leader",
        2,
        At::Authority,
        &["lb", "ra"],
        &["lb", "ra"],
    ),
    ("two shards: read, write, elsewhere", 2, At::Neither, &["lb", "ra"], &["lb", "ra"]),
];

impl World<Leaders<Locking>> {
    /// Returns the message delays of each kind of transaction. Each runs in a world of its own,
    /// soon after another one of its kind: leaders and ceilings are as in a busy database.
    pub fn delays_of_snapshots(protocol: &'static SimulatedProtocol) -> Vec<(&'static str, u64)> {
        let delays = |(name, shards, at, reads, writes): &Kind| {
            let read = |name: &&str| Step::Read((*name).to_owned(), Lock::Shared);
            let write = |name: &&str| Step::Write((*name).to_owned(), Some(1));
            let steps: Vec<Step> = reads.iter().map(read).chain(writes.iter().map(write)).collect();
            let mode =
                if writes.is_empty() { Mode::ReadOnly(ReadAt::Now) } else { Mode::ReadWrite };
            let asked = Asked { consistency: Consistency::Hybrid, ..Asked::default() };
            let (mut world, neither) = Self::led_by_two(protocol, *shards);
            let node = if *at == At::Authority { LEADER } else { neither };
            world.takes_in_order(node, mode, steps.clone(), Scope::Open, asked.clone());
            // What it has written comes to rest.
            world.until(if writes.is_empty() { 0 } else { 4 * ONE }, |_| false);
            (*name, world.takes_in_order(node, mode, steps, Scope::Open, asked))
        };
        KINDS.iter().map(delays).collect()
    }

    /// Returns a world with one or two shards, which different nodes lead, and a node that leads
    /// none.
    fn led_by_two(protocol: &'static SimulatedProtocol, shards: usize) -> (Self, usize) {
        let mut world = Self::three(protocol, None);
        let write = |name: &str| Step::Write(name.to_owned(), Some(0));
        world.takes(LEADER, Mode::ReadWrite, vec![write("lb"), write("ra")]);
        let led = |world: &Self, node: usize| {
            let process = world.nodes[node].process.as_ref().expect("it runs");
            Leaders::<Locking>::led(process).len()
        };
        if shards == 2 {
            world.split_at("m");
            if led(&world, LEADER) == 2 {
                let second = ShardId(1);
                world.step(LEADER, second, |replica, now, out| {
                    replica.transfer_leadership(now, out)
                });
            }
        }
        world.until(3 * S, |_| false);
        assert_eq!(led(&world, LEADER), 1, "it leads the first shard alone");
        let neither = (1..3).rfind(|node| led(&world, *node) == 0).expect("of three nodes");
        (world, neither)
    }
}
