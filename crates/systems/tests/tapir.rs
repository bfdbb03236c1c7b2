//! TAPIR end to end, in small random worlds: sessions on nodes whose clocks differ, shards whose
//! replicas crash between a write and its sync, messages that are lost, repeated and late, view
//! changes, and nodes that fail in the middle of a commit.
//!
//! The judge checks that every committed transaction has read the state at its timestamp, in all
//! shards or in none; that sessions were told true outcomes; that real time holds where the
//! protocol promises it; that abandoned transactions are recovered; and that no transaction is
//! prepared in the end.

mod world;

use meridian_clock::rules::COMMIT_WAIT;
use meridian_machine::planted::plant;
use meridian_systems::tapir::rules;
use world::{Outcomes, World};

fn verdict(seed: u64) -> Result<Outcomes, String> {
    World::new(seed, None).judge()
}

#[test]
fn a_committed_transaction_read_what_stood_at_its_timestamp() {
    let mut all = Outcomes::default();
    for seed in 0..200 {
        all.add(&verdict(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}")));
    }
    println!("{all:?}");
    assert!(all.committed > 8_000 && all.aborted > 500 && all.unknown > 10, "{all:?}");
    assert!(all.recovered > 100 && all.of_many > 2_000, "{all:?}");
}

#[test]
#[ignore = "some minutes"]
fn many_worlds() {
    for nodes in [3, 5] {
        let mut all = Outcomes::default();
        for seed in 0..3_000 {
            all.add(
                &World::new(seed, Some(nodes))
                    .judge()
                    .unwrap_or_else(|why| panic!("seed {seed}, {nodes}: {why}")),
            );
        }
        println!("{nodes} nodes: {all:?}");
    }
}

#[test]
fn every_planted_defect_is_noticed() {
    for rule in rules::OF_PROPOSALS.into_iter().chain([COMMIT_WAIT]) {
        let look = move || {
            plant(Some(rule), true);
            (0..1_000).find(|seed| verdict(*seed).is_err())
        };
        let first = std::thread::spawn(look).join().expect("it does not panic");
        println!("{rule:?}: first noticed by seed {first:?}");
        assert!(first.is_some(), "{rule:?}");
    }
}
