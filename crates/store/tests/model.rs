//! Recent, the store and collection together, compared with a simple model that keeps everything.

use meridian_clock::Timestamp;
use meridian_log::MemoryDisk;
use meridian_mvcc::{
    Batch, Collector, Cursor, Key, KeyRange, MemTable, Page, SpaceId, Store, StoreError,
    StoredVersion, Value, Version, Write, horizon, read, scan,
};
use meridian_store::{MemoryStore, RedbStore};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SPACE: SpaceId = SpaceId { database: 1, shard: 0, copy: 0 };

/// Tenths of a step, so that a late install can have a timestamp between earlier ones.
fn stamp(tenths: u64) -> Timestamp {
    Timestamp { nanos: tenths, logical: 0, issuer: 1 }
}

#[derive(Clone, Debug)]
enum Step {
    /// Some writes, with a timestamp this many tenths behind the newest.
    Install(u64, Vec<(u8, Option<u8>)>),
    Flush(usize),
    /// Collects below a horizon this many tenths behind the newest, in chunks of this many bytes.
    Collect(u64, usize),
    /// A restarted node: Recent is empty, and learns what the store has.
    Restart,
    Get(u8, u64),
    Scan(u8, u8, u64, bool, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let writes =
        || prop::collection::vec((0..12u8, prop::option::weighted(0.7, any::<u8>())), 1..4);
    prop_oneof![
        6 => writes().prop_map(|writes| Step::Install(0, writes)),
        2 => (1..35u64, writes()).prop_map(|(late, writes)| Step::Install(late, writes)),
        3 => (1..600usize).prop_map(Step::Flush),
        2 => (0..80u64, 1..300usize).prop_map(|(back, bytes)| Step::Collect(back, bytes)),
        1 => Just(Step::Restart),
        5 => (0..12u8, 0..600u64).prop_map(|(key, at)| Step::Get(key, at)),
        6 => (0..12u8, 0..13u8, 0..600u64, any::<bool>(), 1..5usize, 1..40usize)
            .prop_map(|(a, b, at, reverse, rows, bytes)| Step::Scan(a, b, at, reverse, rows, bytes)),
    ]
}

/// Returns keys of which some are prefixes of others: the order of versions must not mix with the
/// order of keys.
fn key(number: u8) -> Key {
    Key::from(vec![7; usize::from(number % 4) + 1].into_iter().chain([number]).collect::<Vec<u8>>())
}

fn flush(memtable: &MemTable, store: &dyn Store, limit: usize) {
    let flushing = memtable.flush_batch(limit);
    let versions = flushing.installs.iter().flat_map(|(at, writes)| {
        writes.iter().map(|write| StoredVersion {
            key: write.key.clone(),
            version: Version { at: *at, value: write.value.clone() },
        })
    });
    store.apply(Batch { space: SPACE, versions: versions.collect(), ..Batch::default() }).unwrap();
    memtable.flushed(&flushing);
}

fn collect(memtable: &MemTable, store: &dyn Store, at: Timestamp, limit_bytes: usize) {
    let mut collector = Collector::begin(memtable, SPACE, at);
    while let Some(batch) = collector.step(&*store.snapshot().unwrap(), limit_bytes).unwrap() {
        store.apply(batch).unwrap();
    }
}

type Twin = BTreeMap<Key, BTreeMap<Timestamp, Option<Value>>>;

/// Returns the version of a key that a read at a timestamp sees.
fn live(
    versions: &BTreeMap<Timestamp, Option<Value>>,
    at: Timestamp,
) -> Option<(Timestamp, Value)> {
    let (at, value) = versions.range(..=at).next_back()?;
    Some((*at, value.clone()?))
}

fn run(steps: &[Step], store: &dyn Store) {
    let mut memtable = MemTable::new();
    let mut twin = Twin::new();
    let mut now = 0u64;
    for step in steps {
        match step {
            Step::Install(late, writes) => {
                now += 10;
                // A late timestamp is unique by its last digit, and is not below collected
                // versions.
                let at = stamp((now - 10).saturating_sub(*late) / 10 * 10 + 1 + now / 10 % 9);
                let taken = twin.values().any(|versions| versions.contains_key(&at));
                let at =
                    if *late > 0 && at > memtable.horizon() && !taken { at } else { stamp(now) };
                let writes: BTreeMap<Key, Option<Value>> = writes
                    .iter()
                    .map(|(number, value)| {
                        (key(*number), value.map(|value| Value::from(vec![value; 3])))
                    })
                    .collect();
                let writes: Vec<Write> =
                    writes.into_iter().map(|(key, value)| Write { key, value }).collect();
                memtable.install(at, &writes, now);
                for write in writes {
                    twin.entry(write.key).or_default().insert(at, write.value);
                }
            }
            Step::Flush(limit) => flush(&memtable, store, *limit),
            Step::Collect(back, bytes) => {
                collect(&memtable, store, stamp(now.saturating_sub(*back)), *bytes)
            }
            Step::Restart => {
                while memtable.bytes() > 0 {
                    flush(&memtable, store, usize::MAX);
                }
                memtable = MemTable::before(stamp(now), horizon(store, SPACE).unwrap());
            }
            Step::Get(number, at) => {
                let (key, at) = (key(*number), stamp(*at));
                let found = read(&memtable, store, SPACE, &key, at);
                if at < memtable.horizon() {
                    assert_eq!(found, Err(StoreError::BelowHorizon { oldest: memtable.horizon() }));
                    continue;
                }
                let found = found.unwrap().and_then(|version| Some((version.at, version.value?)));
                assert_eq!(found, twin.get(&key).and_then(|versions| live(versions, at)));
                let point = scan(
                    &memtable,
                    store,
                    SPACE,
                    &KeyRange::point(key.clone()),
                    at,
                    false,
                    1,
                    1 << 16,
                )
                .unwrap();
                assert_eq!(point.rest, None);
                assert_eq!(point.rows.into_iter().next(), found.map(|(_, value)| (key, value)));
            }
            Step::Scan(a, b, at, reverse, rows, bytes) => {
                let range = KeyRange { start: key(*a), end: (*b < 12).then(|| key(*b)) };
                let at = stamp(*at);
                if at < memtable.horizon() {
                    assert!(
                        scan(&memtable, store, SPACE, &range, at, *reverse, *rows, *bytes).is_err()
                    );
                    continue;
                }
                let keys = twin.iter().filter(|(key, _)| range.contains(key));
                let mut expected: Vec<(Key, Value)> = keys
                    .filter_map(|(key, versions)| Some((key.clone(), live(versions, at)?.1)))
                    .collect();
                if *reverse {
                    expected.reverse();
                }
                let (mut found, mut rest) = (Vec::new(), Some(range.clone()));
                while let Some(left) = rest {
                    let chunk =
                        scan(&memtable, store, SPACE, &left, at, *reverse, *rows, *bytes).unwrap();
                    assert!(chunk.rows.len() <= *rows);
                    found.extend(chunk.rows);
                    rest = chunk.rest;
                }
                assert_eq!(found, expected);
            }
        }
    }
    while memtable.bytes() > 0 {
        flush(&memtable, store, usize::MAX);
    }
    let view = store.snapshot().unwrap();
    let all = view.versions(SPACE, &KeyRange::all(), usize::MAX).unwrap().versions;
    for limit_bytes in [1, 60, usize::MAX] {
        // Pages that end within a key, and pages that end between two keys.
        let (mut found, mut rest) = (Vec::new(), Some(Cursor::default()));
        while let Some(from) = rest {
            let (versions, next) = view.history(SPACE, &from, limit_bytes).unwrap();
            assert!(limit_bytes > 1 || versions.len() <= 1);
            found.extend(versions);
            rest = next;
        }
        assert_eq!(found, all);
    }
    collect(&memtable, store, stamp(now), 100);
    let left =
        store.snapshot().unwrap().versions(SPACE, &KeyRange::all(), usize::MAX).unwrap().versions;
    let live = twin.values().filter(|versions| live(versions, stamp(now)).is_some()).count();
    assert_eq!(left.len(), live, "what is left when all but the newest is collected");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merged_reads_agree_with_a_sorted_map(steps in prop::collection::vec(step(), 1..80)) {
        run(&steps, &MemoryStore::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_agrees_with_a_sorted_map(steps in prop::collection::vec(step(), 1..80)) {
        run(&steps, &RedbStore::open(&MemoryDisk::new(), 1 << 20).unwrap());
    }
}

/// Each row has more versions than a scan steps over one by one.
#[test]
fn hot_rows_are_scanned_in_both_directions_at_every_time() {
    let stores: [Box<dyn Store>; 2] = [
        Box::new(RedbStore::open(&MemoryDisk::new(), 1 << 20).unwrap()),
        Box::new(MemoryStore::new()),
    ];
    for store in stores {
        let version = |row: u64, at: u64| StoredVersion {
            key: Key::from(row.to_be_bytes().to_vec()),
            version: Version { at: stamp(at), value: Some(Value::from(vec![row as u8, at as u8])) },
        };
        let versions =
            (0..30).flat_map(|row| (0..50).map(move |at| version(row, at * 30 + row))).collect();
        store.apply(Batch { space: SPACE, versions, ..Batch::default() }).unwrap();
        let snapshot = store.snapshot().unwrap();
        for at in [0, 7, 29, 200, 800, 1500] {
            let newest =
                |row: u64| (at >= row).then(|| version(row, ((at - row) / 30).min(49) * 30 + row));
            let mut expected: Vec<StoredVersion> = (0..30).filter_map(newest).collect();
            for reverse in [false, true] {
                let page = snapshot
                    .scan(SPACE, &KeyRange::all(), stamp(at), reverse, 100, usize::MAX)
                    .unwrap();
                assert_eq!(
                    (page.versions, page.rest),
                    (expected.clone(), None),
                    "at {at}, reverse {reverse}"
                );
                expected.reverse();
            }
        }
    }
}

/// A point's range end differs from its key in length alone. Found by seed 42 of the simulator.
#[test]
fn a_point_behind_many_younger_versions_is_scanned_as_it_is_looked_up() {
    let stores: [Box<dyn Store>; 2] = [
        Box::new(RedbStore::open(&MemoryDisk::new(), 1 << 20).unwrap()),
        Box::new(MemoryStore::new()),
    ];
    for store in stores {
        let key = Key::from("l1");
        let version = |at: u64| StoredVersion {
            key: key.clone(),
            version: Version {
                at: stamp(1_700_000_000_000_000_000 + at),
                value: Some(Value::from(vec![at as u8])),
            },
        };
        store
            .apply(Batch {
                space: SPACE,
                versions: (0..60).map(version).collect(),
                ..Batch::default()
            })
            .unwrap();
        let snapshot = store.snapshot().unwrap();
        for at in 0..60 {
            for reverse in [false, true] {
                let page = snapshot.scan(
                    SPACE,
                    &KeyRange::point(key.clone()),
                    version(at).version.at,
                    reverse,
                    1,
                    1 << 16,
                );
                assert_eq!(
                    page.unwrap(),
                    Page { versions: vec![version(at)], rest: None },
                    "at {at}"
                );
            }
        }
    }
}

#[test]
fn a_scan_returns_no_more_bytes_than_asked_for() {
    let store = RedbStore::open(&MemoryDisk::new(), 1 << 20).unwrap();
    let memtable = MemTable::new();
    for row in 0..100u64 {
        let write = Write {
            key: row.to_be_bytes().to_vec().into(),
            value: Some(Value::from(vec![0; 10_000])),
        };
        memtable.install(stamp(row), &[write], row);
        if row == 50 {
            flush(&memtable, &store, usize::MAX);
        }
    }
    let chunk =
        scan(&memtable, &store, SPACE, &KeyRange::all(), Timestamp::MAX, false, usize::MAX, 30_000)
            .unwrap();
    assert_eq!(chunk.rows.len(), 3);
    assert!(chunk.rest.is_some());
}

#[test]
fn a_dropped_space_is_gone_and_its_neighbours_stay() {
    let store = RedbStore::open(&MemoryDisk::new(), 1 << 20).unwrap();
    let version = StoredVersion {
        key: Key::from("a"),
        version: Version { at: stamp(1), value: Some(Value::from("x")) },
    };
    let spaces = [(1, 0, 0), (1, 0, 1), (1, 1, 0)].map(|(database, shard, copy)| SpaceId {
        database,
        shard,
        copy,
    });
    for space in spaces {
        let versions = vec![version.clone()];
        store
            .apply(Batch {
                space,
                versions,
                removals: Vec::new(),
                facts: vec![(space, "applied", vec![1])],
            })
            .unwrap();
    }
    store.drop_spaces(spaces[1]..=spaces[1]).unwrap();
    let snapshot = store.snapshot().unwrap();
    let there = |space| snapshot.get(space, b"a", Timestamp::MAX).unwrap().is_some();
    assert_eq!(spaces.map(there), [true, false, true]);
    assert_eq!(
        spaces.map(|space| store.fact(space, "applied").unwrap().is_some()),
        [true, false, true]
    );
    store
        .drop_spaces(SpaceId { copy: 0, ..spaces[0] }..=SpaceId { copy: u8::MAX, ..spaces[0] })
        .unwrap();
    let snapshot = store.snapshot().unwrap();
    let there = |space| snapshot.get(space, b"a", Timestamp::MAX).unwrap().is_some();
    assert_eq!(spaces.map(there), [false, false, true], "every copy of one shard");
}
