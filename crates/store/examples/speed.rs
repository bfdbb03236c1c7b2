//! Measures the store on this machine: `cargo run --release -p meridian-store --example speed
//! [FOLDER]`.

use meridian_clock::Timestamp;
use meridian_log::{Disk, MemoryDisk, OsDisk};
use meridian_mvcc::{
    Batch, Collector, Key, KeyRange, MemTable, SpaceId, Store, StoredVersion, Value, Version,
    Write, read, scan,
};
use meridian_store::RedbStore;
use std::time::Instant;

const SPACE: SpaceId = SpaceId { database: 1, shard: 0, copy: 0 };
const ROWS: u64 = 1_000_000;

fn at(nanos: u64) -> Timestamp {
    Timestamp { nanos, logical: 0, issuer: 1 }
}

/// Spreads numbers over the rows.
fn somewhere(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % ROWS
}

fn version(row: u64, nanos: u64) -> StoredVersion {
    let value = Some(Value::from(vec![7; 100]));
    StoredVersion {
        key: Key::from(row.to_be_bytes().to_vec()),
        version: Version { at: at(nanos), value },
    }
}

fn measure<R>(what: &str, count: u64, step: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let result = step();
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{what:<48} {:>9.0}/s  {:>8.2} µs each",
        count as f64 / seconds,
        seconds * 1e6 / count as f64
    );
    result
}

fn apply(store: &RedbStore, versions: Vec<StoredVersion>) {
    store.apply(Batch { space: SPACE, versions, ..Batch::default() }).expect("there is room");
}

fn main() {
    let disk: Box<dyn Disk> = match std::env::args().nth(1) {
        Some(folder) => Box::new(OsDisk::open(folder.as_ref()).expect("the folder can be used")),
        None => Box::new(MemoryDisk::new()),
    };
    let store = RedbStore::open(&*disk, 256 << 20).expect("an empty folder");
    let memtable = MemTable::new();
    measure("load in key order, 10 000 in a batch", ROWS, || {
        for first in (0..ROWS).step_by(10_000) {
            apply(&store, (first..first + 10_000).map(|row| version(row, 1)).collect());
        }
    });
    measure("checkpoint", 1, || store.checkpoint().expect("there is room"));
    measure("point read, settled", 300_000, || {
        for number in 0..300_000 {
            let key = somewhere(number).to_be_bytes();
            assert!(read(&memtable, &store, SPACE, &key, at(9)).expect("the disk works").is_some());
        }
    });
    measure("scan, rows in chunks of 1000", ROWS, || {
        let mut rest = Some(KeyRange::all());
        while let Some(range) = rest {
            rest = scan(&memtable, &store, SPACE, &range, at(9), false, 1000, 1 << 20)
                .expect("the disk works")
                .rest;
        }
    });
    measure("install of 4 writes, one of them hot", 100_000, || {
        for number in 0..100_000u64 {
            let rows = [somewhere(number), somewhere(number + ROWS), number % 10, 5];
            let write = |row: u64| Write {
                key: row.to_be_bytes().to_vec().into(),
                value: Some(Value::from(vec![7; 100])),
            };
            memtable.install(at(10 + number), &rows.map(write), number);
        }
    });
    measure("point read, recent or settled", 300_000, || {
        for number in 0..300_000 {
            let key = somewhere(number).to_be_bytes();
            assert!(
                read(&memtable, &store, SPACE, &key, Timestamp::MAX)
                    .expect("the disk works")
                    .is_some()
            );
        }
    });
    measure("settle, versions", 400_000, || {
        loop {
            let flushing = memtable.flush_batch(4 << 20);
            if flushing.installs.is_empty() {
                break;
            }
            let versions = flushing.installs.iter().flat_map(|(at, writes)| {
                let version = |write: &Write| Version { at: *at, value: write.value.clone() };
                writes.iter().map(move |write| StoredVersion {
                    key: write.key.clone(),
                    version: version(write),
                })
            });
            apply(&store, versions.collect());
            memtable.flushed(&flushing);
        }
    });
    measure("checkpoint", 1, || store.checkpoint().expect("there is room"));
    measure("collect, versions looked at", ROWS + 400_000, || {
        let mut collector = Collector::begin(&memtable, SPACE, Timestamp::MAX);
        while let Some(batch) =
            collector.step(&*store.snapshot().expect("it opens"), 1 << 20).expect("the disk works")
        {
            store.apply(batch).expect("there is room");
        }
    });
    measure("checkpoint", 1, || store.checkpoint().expect("there is room"));
    let bytes = disk.open("store.redb").and_then(|file| file.len()).expect("the file is there");
    println!("{} MB for {ROWS} rows of 108 bytes", bytes >> 20);
}
