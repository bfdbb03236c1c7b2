//! Tests of leaderless replicas that move to other nodes while clients work, under every fault,
//! judged; and tests with planted defects of the move.

mod campaigns;

use campaigns::from_environment;
use meridian_machine::planted::Rule;
use meridian_sim::{Defect, Options, Report, Workload, campaign, protocols, run};
use meridian_systems::tapir::rules;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the options of a seed: every third promises serializability without real-time order.
fn world(seed: u64) -> Options {
    let protocol = if seed % 3 == 2 { &protocols::TAPIR_SERIALIZABLE } else { &protocols::TAPIR };
    let workload = Workload::ALL[seed as usize % Workload::ALL.len()];
    Options { protocol, workload, transactions: 150, moves: Some(4), ..campaign(seed) }
}

/// Runs worlds on two threads, and returns their reports in the order in which they end.
fn run_all(
    seeds: std::ops::Range<u64>,
    judge: impl Fn(u64) -> Option<Report> + Sync,
) -> Vec<Report> {
    let next = AtomicU64::new(seeds.start);
    let worker = || {
        let mine = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed))
            .take_while(|seed| *seed < seeds.end);
        mine.filter_map(&judge).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a verdict")).collect()
    })
}

#[test]
fn every_history_is_what_was_promised_while_replicas_move() {
    let (first, seeds) = (from_environment("FIRST", 0), from_environment("SEEDS", 24));
    let reports = run_all(first..first + seeds, |seed| {
        let options = world(seed);
        let report = catch_unwind(AssertUnwindSafe(|| run(options)));
        match report {
            Ok(report) => {
                let Report { virtual_ns, faults, changes, trace_hash, verdict, .. } = &report;
                let (seconds, what) = (virtual_ns / 1_000_000_000, options.workload);
                println!(
                    "seed {seed} {what}: {verdict:?} {seconds} s, {faults:?}, {changes:?}, {trace_hash:016x}"
                );
                Some(report)
            }
            Err(_) => {
                println!("WRONG seed {seed}: it panicked");
                None
            }
        }
    });
    let mut changed: BTreeMap<&str, u64> = BTreeMap::new();
    for report in &reports {
        report.changes.iter().for_each(|(what, times)| *changed.entry(what).or_default() += times);
    }
    let wrong: Vec<&Report> = reports.iter().filter(|report| report.verdict.is_err()).collect();
    println!("{changed:?}");
    for report in &wrong {
        println!("WRONG {:?}", report.verdict);
    }
    assert_eq!((reports.len() as u64 - wrong.len() as u64), seeds);
    for what in ["replicas moved", "replica taken over", "replica removed", "replica copied"] {
        assert!(changed.get(what).is_some_and(|times| *times > seeds / 2), "{what}: {changed:?}");
    }
}

/// Rules whose breach random worlds meet too seldom: a script tests them
/// (`systems/tapir/lifecycle.rs`).
const RARE: [Rule; 1] = [rules::LET_GO_FORGOTTEN];

#[test]
fn broken_rules_of_taking_over_are_noticed() {
    let most = from_environment("DEFECT_SEEDS", 120);
    let mut missed = Vec::new();
    for rule in rules::OF_TAKING_OVER.into_iter().filter(|rule| !RARE.contains(rule)) {
        let noticed = |seed: &u64| {
            let spoilt = || {
                run(Options { defect: Some(Defect::Rule(rule)), ..world(*seed) }).verdict.is_err()
            };
            catch_unwind(AssertUnwindSafe(spoilt)).unwrap_or(false)
        };
        let first = (0..most).find(noticed);
        println!("{rule:?}: first noticed by seed {first:?}");
        missed.extend(first.is_none().then_some(rule));
    }
    assert!(missed.is_empty(), "not noticed by {most} seeds each: {missed:?}");
}

/// Each of these worlds was wrong once. In seed 1 a node that had released a replica began with an
/// older row of the same epoch, as a former replica. In seeds 0, 60, 110 and 117 a copying replica
/// restarted, and requested what had been settled since, which no former replica has.
#[test]
fn worlds_that_were_wrong_are_right() {
    for seed in [0, 1, 12, 33, 60, 110, 117] {
        assert_eq!(run(world(seed)).verdict, Ok(()), "seed {seed}");
    }
}

/// Prints the trace of a world: `SEED=12 cargo test … told -- --ignored --nocapture`.
#[test]
#[ignore = "prints a trace"]
fn told() {
    let log = |line: &str| println!("{line}");
    let report = run(Options { log: Some(log), ..world(from_environment("SEED", 0)) });
    println!("{:?}", report.verdict);
}
