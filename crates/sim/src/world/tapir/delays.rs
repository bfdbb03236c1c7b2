//! Counts the sequential message delays of TAPIR's transactions.

use super::World;
use crate::tapir::{STRICTLY_SERIALIZABLE, Tapir};
use crate::workload::Step;
use meridian_txn::{Lock, Mode, ReadAt};

const NOW: Mode = Mode::ReadOnly(ReadAt::Now);

impl World<Tapir> {
    /// Returns the message delays of each kind of transaction.
    pub fn delays() -> Vec<(&'static str, u64)> {
        let mut found = Self::delays_beside_a_replica();
        found.extend(Self::delays_elsewhere());
        found
    }

    fn delays_beside_a_replica() -> Vec<(&'static str, u64)> {
        let mut world = Self::three(&STRICTLY_SERIALIZABLE, None);
        let write = |name: &str| Step::Write(name.to_owned(), Some(1));
        let read = |name: &str| Step::Read(name.to_owned(), Lock::Shared);
        let (here, change) = (1, Mode::ReadWrite);
        let mut found = vec![
            ("one shard: write", world.takes(here, change, vec![write("ra")])),
            (
                "one shard: read and write",
                world.takes(here, change, vec![Step::Append("lb".to_owned(), 1)]),
            ),
            ("two shards: write both", world.takes(here, change, vec![write("la"), write("ra")])),
            (
                "two shards: read one, write one",
                world.takes(here, change, vec![read("lb"), write("ra")]),
            ),
            ("read-only, one key", world.takes(here, NOW, vec![read("ra")])),
            (
                "read-only, a key of each shard",
                world.takes(here, NOW, vec![read("lb"), read("ra")]),
            ),
        ];
        world.gone.insert(2);
        world.crash(2, 0);
        found.push(("a replica is away: write", world.takes(here, change, vec![write("ra")])));
        found.push(("a replica is away: read-only", world.takes(here, NOW, vec![read("ra")])));
        found
    }

    /// Counts delays of a session whose node has no replica.
    fn delays_elsewhere() -> Vec<(&'static str, u64)> {
        let mut world = Self::three_and(1, &STRICTLY_SERIALIZABLE, None);
        let write = |name: &str| Step::Write(name.to_owned(), Some(1));
        let follow = || vec![Step::Append("la".to_owned(), 1), Step::Append("lb".to_owned(), 1)];
        let (here, change) = (3, Mode::ReadWrite);
        let mut found = vec![
            ("no replica here: write", world.takes(here, change, vec![write("ra")])),
            ("no replica here: read two, write both", world.takes(here, change, follow())),
        ];
        world.gone.insert(2);
        world.crash(2, 0);
        found.push(("nor is one of them up: the same", world.takes(here, change, follow())));
        found
    }
}
