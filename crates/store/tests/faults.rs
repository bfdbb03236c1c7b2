//! The engine over a disk that crashes, flips bits, fills up and fails.

use meridian_clock::Timestamp;
use meridian_log::{Disk, Faults, MemoryDisk};
use meridian_machine::planted::plant;
use meridian_mvcc::{
    Batch, Key, KeyRange, SpaceId, Store, StoreError, StoredVersion, Value, Version,
};
use meridian_store::RedbStore;
use meridian_store::rules;
use std::panic::{AssertUnwindSafe, catch_unwind};

const SPACE: SpaceId = SpaceId { database: 1, shard: 0, copy: 0 };
const CACHE: usize = 1 << 20;
/// The engine writes half of it during a transaction.
const SMALL_CACHE: usize = 64 << 10;

fn stamp(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 0, issuer: 1 }
}

/// Returns the versions of one step: some new keys, and some new versions of old keys.
fn versions(step: u64) -> Vec<StoredVersion> {
    let version = |key: String| StoredVersion {
        key: Key::from(&*key),
        version: Version {
            at: stamp(step),
            value: Some(Value::from(step.to_be_bytes().repeat(20))),
        },
    };
    (0..10)
        .map(|number| version(format!("hot{number}")))
        .chain([version(format!("k{step}"))])
        .collect()
}

fn batch(step: u64) -> Batch {
    let facts = vec![(SPACE, "applied", step.to_be_bytes().to_vec())];
    Batch { space: SPACE, versions: versions(step), removals: Vec::new(), facts }
}

/// Returns the step up to which a store is complete, and checks that it holds exactly those steps.
fn complete(store: &RedbStore) -> Result<u64, StoreError> {
    let fact = store.fact(SPACE, "applied")?;
    let applied = fact.map_or(0, |fact| u64::from_be_bytes(fact.try_into().expect("eight bytes")));
    let mut expected: Vec<StoredVersion> = (1..=applied).flat_map(versions).collect();
    expected.sort_by(|a, b| a.key.cmp(&b.key).then(b.version.at.cmp(&a.version.at)));
    let page = store.snapshot()?.versions(SPACE, &KeyRange::all(), usize::MAX)?;
    assert!(page.versions == expected, "the store says that it is complete up to {applied}");
    Ok(applied)
}

/// A small generator of its own, so that a seed always means the same run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn the_power_may_fail_at_any_time_and_leaves_a_checkpoint() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let disk = MemoryDisk::new();
        let mut durable = 0;
        for life in 0..6 {
            let context = format!("seed {seed}, life {life}");
            disk.fail_power_after(dice.roll(120));
            let mut asked = durable;
            match RedbStore::open(&disk, SMALL_CACHE) {
                Ok(store) => {
                    let found =
                        complete(&store).unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert!(found >= durable, "{context}: {found}, and {durable} was durable");
                    (durable, asked) = (found, found);
                    for step in found + 1.. {
                        if store.apply(batch(step)).is_err() {
                            break;
                        }
                        if dice.roll(4) == 0 {
                            asked = step;
                            if store.checkpoint().is_err() {
                                break;
                            }
                            durable = step;
                        }
                    }
                }
                Err(StoreError::Disk { .. }) => {}
                Err(error) => panic!("{context}: {error}"),
            }
            disk.crash(|| dice.roll(2) == 0);
            let store =
                RedbStore::open(&disk, CACHE).unwrap_or_else(|error| panic!("{context}: {error}"));
            let found = complete(&store).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(
                found == durable || found == asked,
                "{context}: {found}, neither {durable} nor {asked}"
            );
            durable = found;
        }
    }
}

/// The content of a store must be durable when the store is opened, because the log is truncated
/// accordingly. After a failed sync, however, the page cache shows unwritten bytes until the power
/// fails.
///
/// The engine commits in two phases: its header names a state only after a sync that covers the
/// whole state. And it rewrites and syncs the header first whenever it opens a file.
#[test]
fn what_is_found_after_a_failed_sync_is_durable() {
    let (mut failed, mut found_more) = (0, 0);
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let disk = MemoryDisk::new();
        let (mut durable, mut asked) = (0, 0);
        for life in 0..8 {
            let context = format!("seed {seed}, life {life}");
            disk.fail_sync_after(dice.roll(30));
            match RedbStore::open(&disk, SMALL_CACHE) {
                Ok(store) => {
                    let found =
                        complete(&store).unwrap_or_else(|error| panic!("{context}: {error}"));
                    assert!(
                        found == durable || found == asked,
                        "{context}: {found}, neither {durable} nor {asked}"
                    );
                    found_more += u32::from(found > durable);
                    (durable, asked) = (found, found);
                    let mut run = || {
                        for step in found + 1..found + dice.roll(60) {
                            store.apply(batch(step))?;
                            asked = step; // A clean close makes it durable, too.
                            if dice.roll(3) == 0 {
                                store.checkpoint()?;
                                durable = step;
                            }
                        }
                        Ok::<(), StoreError>(())
                    };
                    let ran = run();
                    if ran.is_err() || dice.roll(3) > 0 {
                        disk.end_process();
                    }
                }
                Err(StoreError::Disk { .. }) => disk.end_process(),
                Err(error) => panic!("{context}: {error}"),
            }
            failed += u32::from(disk.take_failed_sync());
            if dice.roll(3) == 0 {
                disk.crash(|| dice.roll(2) == 0);
            }
        }
    }
    assert!(
        failed > 100 && found_more > 10,
        "{failed} syncs failed, after which {found_more} times more was found"
    );
}

#[test]
fn what_was_applied_and_not_synced_is_there_after_an_orderly_end() {
    let disk = MemoryDisk::new();
    let store = RedbStore::open(&disk, CACHE).unwrap();
    for step in 1..=5 {
        store.apply(batch(step)).unwrap();
    }
    drop(store);
    assert_eq!(complete(&RedbStore::open(&disk, CACHE).unwrap()), Ok(5));
}

/// Returns the disk of a store that was closed cleanly, or that crashed after a checkpoint.
fn built(in_order: bool) -> (MemoryDisk, u64) {
    let disk = MemoryDisk::new();
    let store = RedbStore::open(&disk, CACHE).unwrap();
    for step in 1..=60 {
        store.apply(batch(step)).unwrap();
    }
    store.checkpoint().unwrap();
    if !in_order {
        disk.crash(|| false);
    }
    drop(store);
    let length = disk.open("store.redb").unwrap().len().unwrap();
    (disk, length)
}

#[test]
fn a_flipped_bit_is_refused_or_touches_nothing() {
    for in_order in [true, false] {
        let (disk, length) = built(in_order);
        let mut original = vec![0; length as usize];
        disk.open("store.redb").unwrap().read_at(0, &mut original).unwrap();
        let mut refused = 0;
        // Each byte of the header's sector, and one byte of each other sector that is not empty.
        let others = original
            .chunks(512)
            .enumerate()
            .skip(1)
            .filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
        let places = (0..512).chain(others.map(|(at, _)| at * 512 + (at * 77 + 13) % 512));
        for place in places {
            let disk = MemoryDisk::new();
            disk.open("store.redb").unwrap().write_at(0, &original).unwrap();
            disk.rot("store.redb", place as u64, 1 << (place % 8));
            match RedbStore::open(&disk, CACHE).and_then(|store| complete(&store)) {
                Ok(found) => assert_eq!(found, 60, "byte {place}"),
                Err(StoreError::Damaged { file, what }) => {
                    assert_eq!(file, "store.redb");
                    assert!(what.contains("Nothing was repaired"), "{what}");
                    refused += 1;
                }
                Err(error) => panic!("byte {place}: {error}"),
            }
        }
        assert!(refused >= 512, "only {refused} flips were noticed");
    }
}

#[test]
fn without_checksums_a_flipped_bit_is_read_as_it_stands() {
    let wrong = || {
        let (disk, length) = built(true);
        let mut original = vec![0; length as usize];
        disk.open("store.redb").unwrap().read_at(0, &mut original).unwrap();
        let sought = 60_u64.to_be_bytes().repeat(20); // The newest version of a key.
        let place = original
            .windows(sought.len())
            .position(|bytes| bytes == sought)
            .expect("it is in the file");
        disk.rot("store.redb", place as u64 + 7, 1);
        catch_unwind(AssertUnwindSafe(|| {
            RedbStore::open(&disk, CACHE).and_then(|store| complete(&store))
        }))
        .is_err()
    };
    assert!(!wrong(), "it is refused");
    let planted = std::thread::spawn(move || {
        plant(Some(rules::STORE_CHECKSUM), true);
        wrong()
    });
    assert!(planted.join().unwrap(), "it is noticed");
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    for (content, words) in [
        (b"#!/bin/sh\n".repeat(2000), "do not match their checksum"),
        (vec![0xff; 100], "do not match their checksum"),
        (vec![1; 8192], "do not match their checksum"),
    ] {
        let disk = MemoryDisk::new();
        disk.open("store.redb").unwrap().write_at(0, &content).unwrap();
        let error = RedbStore::open(&disk, CACHE).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with("store.redb") && error.contains(words), "{error}");
    }
}

#[test]
fn a_full_disk_refuses_batches_and_reads_go_on() {
    let disk = MemoryDisk::new();
    let store = RedbStore::open(&disk, CACHE).unwrap();
    store.apply(batch(1)).unwrap();
    disk.set_full(true);
    assert_eq!(store.apply(batch(2)), Err(StoreError::Full { file: "store.redb".to_owned() }));
    assert_eq!(store.checkpoint(), Err(StoreError::Full { file: "store.redb".to_owned() }));
    assert_eq!(complete(&store), Ok(1));
    disk.set_full(false);
    store.apply(batch(2)).unwrap();
    store.checkpoint().unwrap();
    disk.crash(|| false);
    drop(store);
    assert_eq!(complete(&RedbStore::open(&disk, CACHE).unwrap()), Ok(2));
}

#[test]
fn a_disk_that_fails_is_named_and_a_restart_finds_the_checkpoint() {
    let disk = MemoryDisk::new();
    let store = RedbStore::open(&disk, CACHE).unwrap();
    store.apply(batch(1)).unwrap();
    store.checkpoint().unwrap();
    disk.set_faults(Faults { syncs: true, ..Faults::default() });
    store.apply(batch(2)).unwrap();
    assert!(matches!(store.checkpoint(), Err(StoreError::Disk { .. })));
    disk.set_faults(Faults::default());
    let error = store.apply(batch(3)).unwrap_err().to_string();
    assert!(error.contains("restart this node"), "{error}");
    disk.crash(|| true);
    drop(store);
    let found = complete(&RedbStore::open(&disk, CACHE).unwrap()).unwrap();
    assert!(found == 1 || found == 2, "{found}");
}
