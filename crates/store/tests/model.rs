//! Recent and the store together, against a naive twin; the engine over a disk that crashes.

use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_mvcc::{Batch, Key, KeyRange, Recent, SpaceId, Store, StoredVersion, Value, Version, Write, read, scan};
use meridian_store::{MemoryStore, RedbStore};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SPACE: SpaceId = SpaceId { database: 1, shard: 0 };

fn stamp(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 0, issuer: 1 }
}

#[derive(Clone, Debug)]
enum Step {
    Install(Vec<(u8, Option<u8>)>),
    Settle(usize),
    Get(u8, u64),
    Scan(u8, u8, u64, bool, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => prop::collection::vec((0..12u8, prop::option::weighted(0.8, any::<u8>())), 1..4).prop_map(Step::Install),
        1 => (1..400usize).prop_map(Step::Settle),
        2 => (0..12u8, 0..60u64).prop_map(|(key, at)| Step::Get(key, at)),
        3 => (0..12u8, 0..13u8, 0..60u64, any::<bool>(), 1..5usize, 1..40usize)
            .prop_map(|(a, b, at, reverse, rows, bytes)| Step::Scan(a, b, at, reverse, rows, bytes)),
    ]
}

/// Keys of which some are prefixes of others: the order of versions must not mix with the order of keys.
fn key(number: u8) -> Key {
    Key::from(vec![7; usize::from(number % 4) + 1].into_iter().chain([number]).collect::<Vec<u8>>())
}

fn settle(recent: &Recent, store: &dyn Store, limit: usize) {
    let settling = recent.settling(limit);
    let versions = settling.installs.iter().flat_map(|(at, writes)| {
        writes.iter().map(|write| StoredVersion {
            key: write.key.clone(),
            version: Version { at: *at, value: write.value.clone() },
        })
    });
    store.apply(Batch { space: SPACE, versions: versions.collect(), ..Batch::default() }).unwrap();
    recent.settled(&settling);
}

fn run(steps: &[Step], store: &dyn Store) {
    let recent = Recent::new();
    let mut twin: BTreeMap<Key, BTreeMap<Timestamp, Option<Value>>> = BTreeMap::new();
    let mut now = 0;
    for step in steps {
        match step {
            Step::Install(writes) => {
                now += 1;
                let writes: BTreeMap<Key, Option<Value>> = writes
                    .iter()
                    .map(|(number, value)| (key(*number), value.map(|value| Value::from(vec![value; 3]))))
                    .collect();
                let writes: Vec<Write> = writes.into_iter().map(|(key, value)| Write { key, value }).collect();
                recent.install(stamp(now), &writes, now);
                for write in writes {
                    twin.entry(write.key).or_default().insert(stamp(now), write.value);
                }
            }
            Step::Settle(limit) => settle(&recent, store, *limit),
            Step::Get(number, at) => {
                let key = key(*number);
                let expected = twin.get(&key).and_then(|versions| versions.range(..=stamp(*at)).next_back());
                let expected = expected.map(|(at, value)| Version { at: *at, value: value.clone() });
                assert_eq!(read(&recent, store, SPACE, &key, stamp(*at)).unwrap(), expected);
            }
            Step::Scan(a, b, at, reverse, rows, bytes) => {
                let range = KeyRange { start: key(*a), end: (*b < 12).then(|| key(*b)) };
                let live = |(key, versions): (&Key, &BTreeMap<Timestamp, Option<Value>>)| {
                    let value = versions.range(..=stamp(*at)).next_back()?.1.clone()?;
                    range.contains(key).then(|| (key.clone(), value))
                };
                let mut expected: Vec<(Key, Value)> = twin.iter().filter_map(live).collect();
                if *reverse {
                    expected.reverse();
                }
                let (mut found, mut rest) = (Vec::new(), Some(range.clone()));
                while let Some(left) = rest {
                    let chunk = scan(&recent, store, SPACE, &left, stamp(*at), *reverse, *rows, *bytes).unwrap();
                    assert!(chunk.rows.len() <= *rows);
                    found.extend(chunk.rows);
                    rest = chunk.rest;
                }
                assert_eq!(found, expected);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merged_reads_agree_with_a_sorted_map(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps, &MemoryStore::new());
    }

    #[test]
    fn the_engine_agrees_with_a_sorted_map(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps, &RedbStore::open(&MemoryDisk::new(), 1 << 20).unwrap());
    }
}

fn one(key: &str, nanos: u64) -> Batch {
    let version = Version { at: stamp(nanos), value: Some(Value::from("x")) };
    let versions = vec![StoredVersion { key: Key::from(key), version }];
    Batch { space: SPACE, versions, facts: vec![("applied", nanos.to_be_bytes().to_vec())], ..Batch::default() }
}

#[test]
fn a_crash_leaves_the_last_checkpoint() {
    for seed in 0..24u64 {
        let disk = MemoryDisk::new();
        let store = RedbStore::open(&disk, 1 << 20).unwrap();
        let mut checkpoint = 0;
        for nanos in 1..40 {
            store.apply(one(&format!("k{nanos}"), nanos)).unwrap();
            if (nanos + seed).is_multiple_of(7) {
                store.checkpoint().unwrap();
                checkpoint = nanos;
            }
        }
        // The crash comes first: closing the store in order would be a checkpoint.
        let mut sector = seed;
        disk.crash(|| {
            sector = sector.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            sector >> 63 == 0
        });
        let after = disk_copy(&disk);
        drop(store);
        let store = RedbStore::open(&after, 1 << 20).unwrap();
        let applied = store
            .fact(SPACE, "applied")
            .unwrap()
            .map_or(0, |fact| u64::from_be_bytes(fact.try_into().expect("eight bytes")));
        assert_eq!(applied, checkpoint, "seed {seed}");
        let page = store.snapshot().unwrap().versions(SPACE, &KeyRange::all(), usize::MAX).unwrap();
        assert_eq!(page.versions.len() as u64, applied, "seed {seed}");
    }
}

/// The disk as it is now: what a store that is still open does later does not reach it.
fn disk_copy(disk: &MemoryDisk) -> MemoryDisk {
    use meridian_log::Disk;
    let copy = MemoryDisk::new();
    for name in disk.list().unwrap() {
        let file = disk.open(&name).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        copy.open(&name).unwrap().write_at(0, &bytes).unwrap();
    }
    copy
}

#[test]
fn a_dropped_space_is_gone_and_its_neighbour_stays() {
    let store = RedbStore::open(&MemoryDisk::new(), 1 << 20).unwrap();
    let other = SpaceId { database: 2, shard: 0 };
    store.apply(one("a", 1)).unwrap();
    store.apply(Batch { space: other, ..one("a", 2) }).unwrap();
    store.drop_space(SPACE).unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.get(SPACE, b"a", Timestamp::MAX).unwrap(), None);
    assert_eq!(snapshot.get(other, b"a", Timestamp::MAX).unwrap().map(|version| version.at), Some(stamp(2)));
    assert_eq!(store.fact(SPACE, "applied").unwrap(), None);
}
