//! Counts the sequential message delays of HybridTime's transactions, by mode, with a token and
//! without one.

use super::super::one_by_one::ONE;
use super::super::order::Asked;
use super::{S, World};
use crate::protocols::HYBRID_TIME;
use crate::shard::Leaders;
use crate::sim_protocol::SimProtocol;
use crate::workload::{Scope, Step};
use meridian_clock::Timestamp;
use meridian_systems::locking::Locking;
use meridian_txn::Consistency::{CommitWait, Hybrid, None as NoOrder};
use meridian_txn::{Consistency, Lock, Mode, ReadAt};

/// The first node leads the first shard, and another one the second.
const LEADER: usize = 0;
const OTHER: usize = 1;
const NEITHER: usize = 2;

/// A kind of transaction: its mode, and whether it has a token of now.
type Kind = (&'static str, Consistency, bool);

impl World<Leaders<Locking>> {
    /// Returns the message delays of each kind of transaction of HybridTime.
    pub fn delays_of_modes() -> Vec<(&'static str, u64)> {
        let write = |names: &[&str]| {
            let step = |name: &&str| Step::Write((*name).to_owned(), Some(1));
            (Mode::ReadWrite, names.iter().map(step).collect())
        };
        let read = |names: &[&str]| {
            let step = |name: &&str| Step::Read((*name).to_owned(), Lock::Shared);
            (Mode::ReadOnly(ReadAt::Now), names.iter().map(step).collect())
        };
        let mut found = Vec::new();
        found.extend(Self::each(
            1,
            LEADER,
            &write(&["ra"]),
            &[
                ("one shard: write, at the leader, none", NoOrder, false),
                ("one shard: write, at the leader, hybrid", Hybrid, false),
                ("one shard: the same with a token", Hybrid, true),
                ("one shard: write, at the leader, commit_wait", CommitWait, false),
            ],
        ));
        found.extend(Self::each(
            1,
            OTHER,
            &write(&["ra"]),
            &[
                ("one shard: write, elsewhere, none", NoOrder, false),
                ("one shard: write, elsewhere, hybrid", Hybrid, false),
                ("one shard: the same elsewhere with a token", Hybrid, true),
                ("one shard: write, elsewhere, commit_wait", CommitWait, false),
            ],
        ));
        found.extend(Self::each(
            1,
            LEADER,
            &read(&["ra", "lb"]),
            &[
                ("one shard: read, at the leader, none", NoOrder, false),
                ("one shard: read, at the leader, hybrid", Hybrid, false),
                ("one shard: read, at the leader, hybrid, with a token", Hybrid, true),
                ("one shard: read, at the leader, commit_wait", CommitWait, false),
            ],
        ));
        found.extend(Self::each(
            1,
            OTHER,
            &read(&["ra"]),
            &[
                ("one shard: read, elsewhere, none", NoOrder, false),
                ("one shard: read, elsewhere, hybrid", Hybrid, false),
                ("one shard: read, elsewhere, hybrid, with a token", Hybrid, true),
                ("one shard: read, elsewhere, commit_wait", CommitWait, false),
            ],
        ));
        found.extend(Self::each(
            2,
            LEADER,
            &write(&["lb", "ra"]),
            &[
                ("two shards, one led here: write both, none", NoOrder, false),
                ("two shards, one led here: write both, hybrid", Hybrid, false),
                ("two shards, one led here: write both, hybrid, with a token", Hybrid, true),
                ("two shards, one led here: write both, commit_wait", CommitWait, false),
            ],
        ));
        found.extend(Self::each(
            2,
            NEITHER,
            &write(&["lb", "ra"]),
            &[
                ("two shards led elsewhere: write both, none", NoOrder, false),
                ("two shards led elsewhere: write both, hybrid", Hybrid, false),
                ("two shards led elsewhere: write both, hybrid, with a token", Hybrid, true),
                ("two shards led elsewhere: write both, commit_wait", CommitWait, false),
            ],
        ));
        found.extend(Self::each(
            2,
            LEADER,
            &read(&["lb", "ra"]),
            &[
                ("two shards, one led here: read both, none", NoOrder, false),
                ("two shards, one led here: read both, hybrid", Hybrid, false),
                ("two shards, one led here: read both, hybrid, with a token", Hybrid, true),
                ("two shards, one led here: read both, commit_wait", CommitWait, false),
            ],
        ));
        found.extend(Self::each(
            2,
            NEITHER,
            &read(&["lb", "ra"]),
            &[
                ("two shards led elsewhere: read both, none", NoOrder, false),
                ("two shards led elsewhere: read both, hybrid", Hybrid, false),
                ("two shards led elsewhere: read both, hybrid, with a token", Hybrid, true),
                ("two shards led elsewhere: read both, commit_wait", CommitWait, false),
            ],
        ));
        let (mode, steps) = read(&["lb", "ra"]);
        let asked = Asked { consistency: Hybrid, ..Asked::default() };
        let mut world = Self::with_shards(2);
        let negotiated = world.takes_in_order(NEITHER, mode, steps, Scope::Negotiated, asked);
        found.push(("two shards led elsewhere: read both, hybrid, negotiated", negotiated));
        found
    }

    /// Returns a world with one or two shards, and a commit in each.
    fn with_shards(shards: usize) -> Self {
        let mut world = Self::three(&HYBRID_TIME, None);
        let write = |name: &str| Step::Write(name.to_owned(), Some(0));
        world.takes(LEADER, Mode::ReadWrite, vec![write("lb"), write("ra")]);
        if shards == 2 {
            world.split_at("m");
        }
        world.until(S, |_| false);
        let leads = |world: &Self, node: usize| {
            let process = world.nodes[node].process.as_ref().expect("it runs");
            Leaders::<Locking>::led(process).len()
        };
        assert_eq!([leads(&world, LEADER), leads(&world, NEITHER)], [1, 0], "as the rows say");
        world
    }

    /// Runs a transaction in each way, in a world of their own: leadership moves to a node that
    /// asks most. Between two, earlier ceilings pass and logs come to rest.
    fn each(
        shards: usize,
        node: usize,
        (mode, steps): &(Mode, Vec<Step>),
        kinds: &[Kind],
    ) -> Vec<(&'static str, u64)> {
        let mut world = Self::with_shards(shards);
        let takes = |(name, consistency, with_token): &Kind| {
            world.until(S + 4 * ONE, |_| false);
            let now = Timestamp { nanos: world.now(), ..Timestamp::ZERO };
            let token = if *with_token { now } else { Timestamp::ZERO };
            let asked = Asked { consistency: *consistency, token, ..Asked::default() };
            let scope = if steps.len() == 1 { Scope::Said } else { Scope::Open };
            (*name, world.takes_in_order(node, *mode, steps.clone(), scope, asked))
        };
        kinds.iter().map(takes).collect()
    }
}
