//! What a crash, a flipped bit and a full disk leave of the log.

use bytes::Bytes;
use meridian_log::{Disk, Log, LogError, MachineKey, MemoryDisk, Options};
use std::sync::Arc;

const OPTIONS: Options = Options { segment_bytes: 4096 };

fn key(shard: u32) -> MachineKey {
    MachineKey { database: 1, shard }
}

fn payload(number: u32, length: usize) -> Bytes {
    Bytes::from(number.to_le_bytes().repeat(length.div_ceil(4)))
}

fn open(disk: &MemoryDisk) -> Result<(Log, Vec<Bytes>), LogError> {
    let (log, recovered) = Log::open(Arc::new(disk.clone()), OPTIONS)?;
    Ok((log, recovered.records.into_iter().map(|(_, _, payload)| payload).collect()))
}

/// A small generator, so that a seed means the same for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

#[test]
fn what_was_synced_survives_every_crash_and_nothing_is_invented() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let disk = MemoryDisk::new();
        let (mut appended, mut synced) = (Vec::new(), 0);
        for life in 0..4 {
            let (mut log, found) = open(&disk).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
            assert!(found.len() >= synced, "seed {seed}, life {life}: {} of {synced} survived", found.len());
            assert_eq!(found[..], appended[..found.len()], "seed {seed}, life {life}");
            appended.truncate(found.len());
            synced = found.len();
            for _ in 0..dice.roll(20) {
                for _ in 0..=dice.roll(4) {
                    let record = payload(appended.len() as u32, dice.roll(700) as usize);
                    log.append(key(dice.roll(3) as u32), record.clone());
                    appended.push(record);
                }
                log.write().unwrap();
                if dice.roll(3) > 0 {
                    log.sync().unwrap();
                    synced = appended.len();
                }
            }
            disk.crash(|| dice.roll(2) == 0);
        }
    }
}

#[test]
fn a_flipped_bit_is_refused_or_cuts_the_last_batch_only() {
    let build = || {
        let disk = MemoryDisk::new();
        let (mut log, _) = open(&disk).unwrap();
        for number in 0..40 {
            log.append(key(0), payload(number, 200));
            log.write().unwrap();
            log.sync().unwrap();
        }
        disk
    };
    let all: Vec<Bytes> = (0..40).map(|number| payload(number, 200)).collect();
    let names = build().list().unwrap();
    let mut refused = 0;
    for name in &names {
        for offset in (0..4096).step_by(3) {
            let disk = build();
            disk.rot(name, offset, 1 << (offset % 8));
            match open(&disk) {
                Ok((_, found)) => {
                    assert!(found.len() + 1 >= all.len(), "{name} byte {offset}: more than the last batch is gone");
                    assert_eq!(found[..], all[..found.len()], "{name} byte {offset}");
                }
                Err(LogError::Damaged { file, .. }) => {
                    assert_eq!(&file, name);
                    refused += 1;
                }
                Err(LogError::NewerFormat { .. }) => panic!("a checksum covers the format"),
                Err(error) => panic!("{name} byte {offset}: {error}"),
            }
        }
    }
    assert!(refused > 1000, "only {refused} flips were noticed");
}

#[test]
fn segments_that_nobody_needs_are_used_again() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    let mut last = log.next_lsn();
    for number in 0..500 {
        last = log.append(key(number % 2), payload(number, 300));
        log.write().unwrap();
        log.sync().unwrap();
        if number % 10 == 9 {
            log.release(key(0), last).unwrap();
            log.release(key(1), last).unwrap();
        }
        assert!(log.segments() <= 4);
    }
    drop(log);
    let (mut log, found) = open(&disk).unwrap();
    assert_eq!(found.last(), Some(&payload(499, 300)), "what a file held before is never read again");
    assert!(found.len() < 40);
    log.release(key(0), last).unwrap();
    assert!(!log.holding_back().contains(&key(0)) || log.segments() > 1);
}

#[test]
fn a_full_disk_refuses_and_recovers_by_itself() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    disk.set_full(true);
    let mut appended = 0;
    let error = loop {
        log.append(key(0), payload(appended, 500));
        appended += 1;
        if let Err(error) = log.write() {
            break error;
        }
        log.sync().unwrap();
    };
    assert!(matches!(error, LogError::Full { .. }), "{error}");
    disk.set_full(false);
    log.write().unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().1.len(), appended as usize);
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    for number in 0..3 {
        log.append(key(0), payload(number, 20_000));
    }
    log.write().unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().1, (0..3).map(|number| payload(number, 20_000)).collect::<Vec<_>>());
}
