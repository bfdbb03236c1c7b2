//! Campaigns in tests: many seeds on all cores, and seeds until a planted defect is noticed.

#![allow(dead_code)] // Each test program uses a part of it.

use meridian_history::Status;
use meridian_history::cycles::{self, Model};
use meridian_sim::{Defect, Faults, Options, Report, SimulatedProtocol, Timebase, Workload, run};
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Returns a number from the environment: `SEEDS=1000 cargo test …` runs more seeds, from `FIRST`
/// on.
pub fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs and judges each seed, on all cores. A panic of `judged` fails the test.
pub fn run_all(seeds: Range<u64>, judged: impl Fn(u64) -> Report + Sync) -> Vec<Report> {
    let next = AtomicU64::new(seeds.start);
    let worker = || {
        std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed))
            .take_while(|seed| *seed < seeds.end)
            .map(&judged)
            .collect::<Vec<_>>()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a verdict")).collect()
    })
}

/// Returns how often each state was reached, over all runs.
pub fn reached(reports: &[Report]) -> BTreeMap<&'static str, u64> {
    let mut met = BTreeMap::new();
    for report in reports {
        report.reached.iter().for_each(|(what, times)| *met.entry(*what).or_default() += times);
    }
    met
}

/// Returns the number of transactions that wrote and committed.
pub fn committed(report: &Report) -> usize {
    let ok = report
        .history
        .iter()
        .filter(|transaction| transaction.status == Status::Ok && transaction.writes());
    ok.count()
}

/// Returns the names of the defects that no seed below `most` notices. `world` plants a defect in a
/// seed's world.
pub fn unnoticed(
    defects: &[Defect],
    most: u64,
    world: impl Fn(Defect, u64) -> Options + Sync,
) -> Vec<String> {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let look = || {
        while let Some(defect) = defects.get(next.fetch_add(1, Ordering::Relaxed)) {
            let noticed = |seed: &u64| {
                let spoilt = || run(world(*defect, *seed)).verdict.is_err();
                // An assertion is no judge: a panic does not count as detected.
                catch_unwind(AssertUnwindSafe(spoilt)).unwrap_or(false)
            };
            let first = (0..most).find(noticed);
            println!("{}: first noticed by seed {first:?}", defect.name());
            if first.is_none() {
                missed.lock().unwrap().push(defect.name().to_string());
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(look))));
    missed.into_inner().unwrap()
}

/// Checks that SQL sessions keep what keys keep, and commit at least so many transactions in a
/// world.
pub fn sql_sessions_are_right(world: impl Fn(u64) -> Options + Sync, least: u64) {
    let (first, seeds) = (from_environment("FIRST", 0), from_environment("SEEDS", 10));
    let judged = |seed: u64| {
        let workload = Workload::ALL[seed as usize % Workload::ALL.len()];
        let report = run(Options { workload, sql: true, transactions: 80, ..world(seed) });
        assert_eq!(report.verdict, Ok(()), "seed {seed}, {workload}");
        report
    };
    let reports = run_all(first..first + seeds, judged);
    let all: usize = reports.iter().map(committed).sum();
    println!("{all} committed");
    assert!(all as u64 > least * seeds, "{all}");
}

/// Checks that histories are right where clocks lie, on cluster time, and with time masters of
/// which a minority lies.
pub fn every_time_source_is_right(world: impl Fn(u64) -> Options + Sync) {
    let lies = Faults { lies: true, ..Faults::ALL };
    let judged = |seed| {
        let deceived = Options { faults: lies, ..world(seed) };
        let unknown = Options { timebase: Timebase::Cluster, ..world(seed) };
        let masters = Options { timebase: Timebase::Masters, ..deceived };
        let [report, ..] = [deceived, unknown, masters].map(|options| {
            let report = run(options);
            assert_eq!(report.verdict, Ok(()), "seed {seed}, {:?}", options.timebase);
            report
        });
        report
    };
    run_all(0..from_environment("SEEDS", 6), judged);
}

/// Checks that each broken rule of a protocol is noticed by one of so many seeds.
pub fn every_broken_rule_is_noticed_by(protocol: &'static SimulatedProtocol, most: u64) {
    let defects: Vec<Defect> = (protocol.rules)().into_iter().map(Defect::Rule).collect();
    let world = |defect: Defect, seed| Options { splits: Some(3), ..defect.world(protocol, seed) };
    let missed = unnoticed(&defects, most, world);
    assert!(missed.is_empty(), "not noticed by {most} seeds each: {missed:?}");
}

/// Checks that every history of some worlds is of snapshot isolation, and that the serializable
/// judge finds write skew in some, which snapshot isolation allows.
pub fn are_of_snapshot_isolation(world: impl Fn(u64) -> Options + Sync) {
    let (first, seeds) = (from_environment("FIRST", 0), from_environment("SEEDS", 40));
    let judged = |seed| {
        let options = world(seed);
        let report = run(options);
        if let Err(why) = &report.verdict {
            panic!("seed {seed}, {}: {why}", options.workload);
        }
        report
    };
    let reports = run_all(first..first + seeds, judged);
    let met = reached(&reports);
    let skewed = |report: &&Report| {
        matches!(
            cycles::judge(&report.history, Model::Serializable),
            Err(cycles::Violation::Cycle(_))
        )
    };
    let skewed = reports.iter().filter(skewed).count();
    let all: usize = reports.iter().map(committed).sum();
    println!("{all} committed, {skewed} histories with write skew\n{met:#?}");
    assert!(all as u64 > 100 * seeds, "{all}");
    assert!(skewed > 0, "no write skew: is it serializable?");
    let should_meet = world(first).protocol.should_meet;
    let missed: Vec<&&str> = should_meet.iter().filter(|what| !met.contains_key(**what)).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
}
