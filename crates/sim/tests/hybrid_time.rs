//! Tests of HybridTime under every fault: worlds of one consistency mode and of several, judged by
//! causal tokens and by the real time of those that waited; and tests of the judges, with planted
//! defects.

use meridian_history::Status;
use meridian_machine::planted::Rule;
use meridian_sim::{
    Defect, Faults, Options, Report, SimulatedProtocol, Timebase, Workload, campaign, protocols,
    run,
};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const HYBRID_TIME: &SimulatedProtocol = &protocols::HYBRID_TIME;

/// Returns a number from the environment: `SEEDS=1000 cargo test …` runs more seeds, from `FIRST`
/// on.
fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn world(seed: u64) -> Options {
    Options { protocol: HYBRID_TIME, transactions: 150, ..campaign(seed) }
}

fn committed(report: &Report) -> usize {
    let ok = report
        .history
        .iter()
        .filter(|transaction| transaction.status == Status::Ok && transaction.writes());
    ok.count()
}

#[test]
fn every_history_keeps_its_tokens_and_its_waits() {
    let (first, seeds) = (from_environment("FIRST", 0), from_environment("SEEDS", 40));
    let next = AtomicU64::new(first);
    let worker = || {
        std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed))
            .take_while(|seed| *seed < first + seeds)
    };
    let judged = |seed| {
        let options = world(seed);
        let report = run(options);
        if let Err(why) = &report.verdict {
            panic!("{}: {why}", options.workload);
        }
        report
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| worker().map(judged).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a verdict")).collect()
    });
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for report in &reports {
        report.reached.iter().for_each(|(what, times)| *met.entry(what).or_default() += times);
    }
    let of = |is: fn(&meridian_history::Transaction) -> bool| {
        reports.iter().flat_map(|report| &report.history).filter(|it| is(it)).count()
    };
    let (waited, given) = (of(|it| it.external), of(|it| it.follows.len() > 1));
    let committed: usize = reports.iter().map(committed).sum();
    println!("{committed} committed, {waited} waited, {given} with two tokens\n{met:#?}");
    assert!(committed as u64 > 100 * seeds, "{committed}");
    assert!(waited as u64 > 20 * seeds && given as u64 > 5 * seeds, "{waited} and {given}");
    let missed: Vec<&&str> =
        HYBRID_TIME.should_meet.iter().filter(|what| !met.contains_key(**what)).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
}

#[test]
fn sql_sessions_keep_what_keys_keep() {
    let mut all = 0;
    for seed in 0..10 {
        let workload = Workload::ALL[seed as usize % Workload::ALL.len()];
        let report = run(Options { workload, sql: true, transactions: 80, ..world(seed) });
        assert_eq!(report.verdict, Ok(()), "seed {seed}, {workload}");
        all += committed(&report);
    }
    assert!(all > 500, "{all}");
}

/// Tokens order transactions whatever clocks say.
#[test]
fn tokens_hold_with_every_time_source() {
    let lies = Faults { lies: true, ..Faults::ALL };
    for seed in 0..6 {
        let deceived = Options { faults: lies, ..world(seed) };
        let unknown = Options { timebase: Timebase::Cluster, ..world(seed) };
        let masters = Options { timebase: Timebase::Masters, faults: lies, ..world(seed) };
        for options in [deceived, unknown, masters] {
            let report = run(options);
            assert_eq!(report.verdict, Ok(()), "seed {seed}, {:?}", options.timebase);
        }
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    let rules: Vec<Rule> = (HYBRID_TIME.rules)();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let look = || {
        while let Some(rule) = rules.get(next.fetch_add(1, Ordering::Relaxed)) {
            let defect = Defect::Rule(*rule);
            // Tokens order transactions of different shards, whose leaders' clocks differ.
            let faults = Faults { clock: true, network: true, ..Faults::NONE };
            let noticed = |seed: &u64| {
                let world = defect.world(HYBRID_TIME, *seed);
                let options = Options { faults, splits: Some(3), ..world };
                let spoilt = || run(options).verdict.is_err();
                catch_unwind(AssertUnwindSafe(spoilt)).unwrap_or(false)
            };
            let first = (0..300).find(noticed);
            println!("{}: first noticed by seed {first:?}", defect.name());
            if first.is_none() {
                missed.lock().unwrap().push(defect.name());
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(look))));
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not noticed by 300 seeds each: {missed:?}");
}
