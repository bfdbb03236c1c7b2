//! Recovery of the log after crashes, flipped bits and full disks.

use bytes::Bytes;
use meridian_log::rules;
use meridian_log::{Disk, Log, LogError, MachineKey, MemoryDisk, Options};
use meridian_machine::planted::plant;
use std::sync::Arc;

const OPTIONS: Options = Options { segment_bytes: 4096, existed: false };

fn key(shard: u32) -> MachineKey {
    MachineKey { database: 1, shard }
}

fn payload(number: u32, length: usize) -> Bytes {
    Bytes::from(number.to_le_bytes().repeat(length.div_ceil(4)))
}

fn open(disk: &MemoryDisk) -> Result<(Log, Vec<Bytes>), LogError> {
    open_with(disk, OPTIONS)
}

fn open_with(disk: &MemoryDisk, options: Options) -> Result<(Log, Vec<Bytes>), LogError> {
    let (log, recovered) = Log::open(Arc::new(disk.clone()), options)?;
    Ok((log, recovered.records.into_iter().map(|(_, _, payload)| payload).collect()))
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
fn what_was_synced_survives_every_crash_and_nothing_is_invented() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let disk = MemoryDisk::new();
        let (mut appended, mut synced) = (Vec::new(), 0);
        for life in 0..4 {
            let (mut log, found) =
                open(&disk).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
            assert!(
                found.len() >= synced,
                "seed {seed}, life {life}: {} of {synced} survived",
                found.len()
            );
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
fn the_power_may_fail_between_any_two_writes_and_syncs() {
    for seed in 0..200 {
        let mut dice = Dice(seed);
        let disk = MemoryDisk::new();
        let (mut appended, mut synced) = (Vec::new(), 0);
        for life in 0..6 {
            let context = format!("seed {seed}, life {life}");
            disk.fail_power_after(dice.roll(60));
            match open(&disk) {
                Ok((mut log, found)) => {
                    assert!(
                        found.len() >= synced,
                        "{context}: {} of {synced} survived",
                        found.len()
                    );
                    assert_eq!(found[..], appended[..found.len()], "{context}");
                    appended.truncate(found.len());
                    // The machines relied on what they were given once.
                    synced = found.len();
                    let mut step = || -> Result<(), LogError> {
                        for _ in 0..=dice.roll(4) {
                            let record = payload(appended.len() as u32, dice.roll(900) as usize);
                            log.append(key(0), record.clone());
                            appended.push(record);
                        }
                        log.write()?;
                        if dice.roll(3) > 0 {
                            log.sync()?;
                            synced = appended.len();
                        }
                        log.prepare().map(|_| ())
                    };
                    while step().is_ok() {}
                }
                Err(LogError::Disk { .. }) => {}
                Err(error) => panic!("{context}: {error}"),
            }
            disk.crash(|| dice.roll(2) == 0);
        }
    }
}

/// Segments of several pages: a rewritten page is written whole.
const PAGES: Options = Options { segment_bytes: 32 << 10, existed: false };

/// Linux marks the pages of a failed sync clean: the next process reads them, and no sync writes
/// them.
fn a_sync_fails_and_later_the_power(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut dice = Dice(seed);
        let disk = MemoryDisk::new();
        let (mut appended, mut synced) = (Vec::new(), 0);
        for life in 0..8 {
            let context = format!("seed {seed}, life {life}");
            if dice.roll(4) == 0 {
                disk.fail_next_sync(); // Recovery may fail, too.
            }
            match open_with(&disk, PAGES) {
                Ok((mut log, found)) => {
                    assert!(
                        found.len() >= synced,
                        "{context}: {} of {synced} survived",
                        found.len()
                    );
                    assert_eq!(found[..], appended[..found.len()], "{context}");
                    appended.truncate(found.len());
                    // The machines act on the records that recovery returns.
                    synced = found.len();
                    let batches = dice.roll(12);
                    let mut step = |batch| -> Result<(), LogError> {
                        if batch == batches {
                            disk.fail_next_sync();
                        }
                        for _ in 0..=dice.roll(4) {
                            let record = payload(appended.len() as u32, dice.roll(3000) as usize);
                            log.append(key(0), record.clone());
                            appended.push(record);
                        }
                        log.write()?;
                        log.sync()?;
                        synced = appended.len();
                        Ok(())
                    };
                    assert!((0..=batches).any(|batch| step(batch).is_err()), "{context}");
                }
                Err(LogError::Disk { .. }) => {}
                Err(error) => panic!("{context}: {error}"),
            }
            disk.take_failed_sync();
            if dice.roll(2) == 0 {
                disk.crash(|| dice.roll(2) == 0);
            } else {
                disk.end_process();
            }
        }
    }
}

#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_rewritten_before_it_is_relied_on() {
    a_sync_fails_and_later_the_power(0..100);
}

#[test]
fn without_rewriting_it_acknowledged_records_are_lost() {
    let planted = std::thread::spawn(|| {
        plant(Some(rules::TAIL_NOT_REWRITTEN), true);
        a_sync_fails_and_later_the_power(0..100);
    });
    assert!(planted.join().is_err(), "the broken rule goes unnoticed");
}

#[test]
fn a_tail_is_rewritten_on_a_full_disk_too() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open_with(&disk, PAGES).unwrap();
    log.append(key(0), payload(1, 9_000));
    log.write().unwrap();
    disk.fail_next_sync();
    assert!(log.sync().is_err());
    disk.end_process();
    disk.set_full(true);
    assert_eq!(open_with(&disk, PAGES).unwrap().1, [payload(1, 9_000)]);
    disk.crash(|| false);
    disk.set_full(false);
    assert_eq!(open_with(&disk, PAGES).unwrap().1, [payload(1, 9_000)]);
    assert!(!disk.list().unwrap().iter().any(|name| name.contains("copy")), "{:?}", disk.list());
}

#[test]
fn a_seal_that_a_failed_sync_left_in_the_page_cache_is_written_again() {
    let found = || {
        let (disk, _) = small_log(false);
        let (log, _) = open(&disk).unwrap();
        disk.fail_sync_after(1); // The first sync is for the records, the second for the seal.
        assert!(log.close().is_err());
        disk.end_process();
        drop(open(&disk).unwrap());
        disk.crash(|| false);
        open(&disk).map(|(_, found)| found.len()).map_err(|error| error.to_string())
    };
    assert_eq!(found(), Ok(40));
    let planted = std::thread::spawn(move || {
        plant(Some(rules::TAIL_NOT_REWRITTEN), true);
        found()
    });
    assert!(planted.join().unwrap().unwrap_err().contains("does not check"));
}

/// Returns a log of a few segments, with one record in each synced batch.
fn small_log(in_order: bool) -> (MemoryDisk, Vec<Bytes>) {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    let all: Vec<Bytes> = (0..40).map(|number| payload(number, 200)).collect();
    for record in &all {
        log.append(key(0), record.clone());
        log.write().unwrap();
        log.sync().unwrap();
    }
    if in_order {
        log.close().unwrap();
    }
    (disk, all)
}

fn flip_every_byte(in_order: bool, may_be_cut: usize) {
    let names = small_log(in_order).0.list().unwrap();
    let mut refused = 0;
    for name in &names {
        for offset in 0..4096 {
            let (disk, all) = small_log(in_order);
            disk.rot(name, offset, 1 << (offset % 8));
            match open(&disk) {
                Ok((_, found)) => {
                    assert!(
                        found.len() + may_be_cut >= all.len(),
                        "{name} byte {offset}: acknowledged records are gone"
                    );
                    assert_eq!(found[..], all[..found.len()], "{name} byte {offset}");
                }
                Err(LogError::Damaged { file, .. }) => {
                    assert_eq!(&file, name);
                    refused += 1;
                }
                Err(error) => panic!("{name} byte {offset}: {error}"),
            }
        }
    }
    assert!(refused > 8000, "only {refused} flips were noticed");
}

#[test]
fn a_flipped_bit_after_a_crash_is_refused_or_cuts_the_last_batch_only() {
    flip_every_byte(false, 1);
}

#[test]
fn a_flipped_bit_after_an_orderly_end_is_refused_in_the_last_batch_too() {
    flip_every_byte(true, 0);
}

#[test]
fn a_newer_format_is_refused_with_what_to_do() {
    let (disk, _) = small_log(true);
    let file = disk.open("log-00000001").unwrap();
    let mut preamble = [0; 24];
    file.read_at(0, &mut preamble).unwrap();
    preamble[8] = 9;
    let sum = crc32fast::hash(&preamble[..20]);
    preamble[20..24].copy_from_slice(&sum.to_le_bytes());
    file.write_at(0, &preamble).unwrap();
    let error = open(&disk).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("log-00000001 has log format 9") && error.contains("use the newer version"),
        "{error}"
    );
}

#[test]
fn a_missing_segment_is_refused() {
    for missing in ["log-00000001", "log-00000002"] {
        let (disk, _) = small_log(true);
        disk.remove(missing).unwrap();
        let error = open(&disk).map(|_| ()).unwrap_err();
        assert!(matches!(error, LogError::Damaged { ref file, .. } if file == missing), "{error}");
    }
}

/// Format 1 did not record which segments are needed.
#[test]
fn a_missing_log_is_noticed_if_one_is_expected() {
    let options = Options { existed: true, ..OPTIONS };
    let Err(error) = Log::open(Arc::new(MemoryDisk::new()), options) else { panic!("it opened") };
    assert!(error.to_string().contains("the whole log is missing"), "{error}");
    let disk = Arc::new(MemoryDisk::new());
    drop(Log::open(disk.clone(), OPTIONS).unwrap());
    disk.crash(|| false);
    assert!(Log::open(disk, options).is_ok(), "a log must be durable once it was opened");
    let planted = std::thread::spawn(move || {
        plant(Some(rules::EMPTIED_LOG_UNNOTICED), true);
        Log::open(Arc::new(MemoryDisk::new()), options).is_ok()
    });
    assert!(planted.join().unwrap(), "the broken rule must be the one that misses it");
}

#[test]
fn a_log_of_the_first_format_is_read() {
    let (disk, all) = small_log(true);
    for name in disk.list().unwrap().into_iter().filter(|name| name.starts_with("log-")) {
        let file = disk.open(&name).unwrap();
        let mut preamble = [0; 32];
        file.read_at(0, &mut preamble).unwrap();
        preamble[8] = 1;
        let sum = crc32fast::hash(&preamble[..20]);
        preamble[20..24].copy_from_slice(&sum.to_le_bytes());
        preamble[24..].fill(0);
        file.write_at(0, &preamble).unwrap();
    }
    assert_eq!(open(&disk).unwrap().1, all);
}

#[test]
fn spare_files_do_not_pile_up() {
    let disk = MemoryDisk::new();
    for life in 0..5 {
        let (mut log, _) = open(&disk).unwrap();
        for number in 0..60 {
            let lsn = log.append(key(0), payload(number, 900));
            log.write().unwrap();
            log.sync().unwrap();
            while log.prepare().unwrap() {}
            log.release(key(0), lsn).unwrap();
        }
        // A partly written spare file, for example of an older version.
        disk.open("spare-00000000").unwrap().write_at(0, &[1]).unwrap();
        drop(log);
        let spares = disk.list().unwrap().iter().filter(|name| name.starts_with("spare")).count();
        assert!(spares <= 3, "life {life}: {:?}", disk.list());
    }
}

#[test]
fn what_was_prepared_is_room_on_a_full_disk() {
    let disk = MemoryDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    let write = |log: &mut Log| {
        log.append(key(0), payload(7, 900));
        log.write().and_then(|()| log.sync())
    };
    for _ in 0..3 {
        write(&mut log).unwrap();
    }
    while log.prepare().unwrap() {}
    disk.set_full(true);
    for _ in 0..4 {
        write(&mut log).unwrap();
    }
    assert!(
        !log.prepare().unwrap() && log.is_short(),
        "half of the last segment is left, and nothing behind it"
    );
    disk.set_full(false);
    while log.prepare().unwrap() {}
    assert!(!log.is_short());
}

#[test]
fn a_log_opens_on_a_full_disk() {
    let (disk, all) = small_log(false);
    disk.set_full(true);
    let (mut log, found) = open(&disk).unwrap();
    assert_eq!(found, all);
    log.append(key(0), payload(99, 10));
    assert!(matches!(log.write(), Err(LogError::Full { .. })));
    disk.set_full(false);
    log.write().unwrap();
    log.sync().unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().1.len(), all.len() + 1);
}

#[test]
fn unneeded_segments_are_reused() {
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
    assert_eq!(
        found.last(),
        Some(&payload(499, 300)),
        "what a file held before is never read again"
    );
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
    assert_eq!(
        open(&disk).unwrap().1,
        (0..3).map(|number| payload(number, 20_000)).collect::<Vec<_>>()
    );
}
