//! TAPIR under every fault, judged: strictly serializable, and as the paper has it; and its planted defects.

use meridian_history::Status;
use meridian_sim::{Defect, Options, Report, campaign, run};
use meridian_systems::Recipe;
use meridian_txn::tapir::Guarantee;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many seeds: `SEEDS=1000 cargo test …` looks further.
fn seeds() -> u64 {
    std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// Every third world promises an order, and not that of real time.
fn world(seed: u64) -> Options {
    let guarantee = if seed % 3 == 2 { Guarantee::Serializable } else { Guarantee::StrictlySerializable };
    let protocol = Recipe::Tapir(guarantee);
    Options { protocol, transactions: 150, ..campaign(seed) }
}

fn told(report: &Report) -> String {
    let count = |status| report.history.iter().filter(|transaction| transaction.status == status).count();
    let [ok, failed, unknown] = [Status::Ok, Status::Fail, Status::Info].map(count);
    let Report { seed, virtual_ns, events, faults, changes, trace_hash, .. } = report;
    let seconds = virtual_ns / 1_000_000_000;
    format!(
        "seed {seed}: {ok} ok, {failed} failed, {unknown} unknown, {seconds} s, {events} events, {faults:?}, {changes:?}, trace {trace_hash:016x}"
    )
}

#[test]
fn every_history_is_what_was_promised() {
    let next = AtomicU64::new(0);
    let first = std::env::var("FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let worker = || {
        std::iter::repeat_with(|| first + next.fetch_add(1, Ordering::Relaxed))
            .take_while(|seed| *seed < first + seeds())
    };
    let judged = |seed| {
        let options = world(seed);
        let report = run(options);
        println!("{} {} {}", options.protocol.name(), options.workload, told(&report));
        if let Err(why) = &report.verdict {
            println!("WRONG {} {} nodes {}: {why}", options.protocol.name(), options.workload, options.nodes);
        }
        report
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let reports: Vec<Report> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| worker().map(judged).collect::<Vec<_>>())).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a verdict")).collect()
    });
    let (mut met, mut counts): (BTreeMap<&str, u64>, BTreeMap<&str, u64>) = Default::default();
    for report in &reports {
        report.reached.iter().for_each(|(what, times)| *met.entry(what).or_default() += times);
        report.changes.iter().for_each(|(what, times)| *counts.entry(what).or_default() += times);
        for transaction in &report.history {
            let status = match transaction.status {
                Status::Ok if transaction.writes() => "ok",
                Status::Ok => "ok, read",
                Status::Fail => "failed",
                Status::Info => "unknown",
            };
            *counts.entry(status).or_default() += 1;
        }
    }
    let starved = reports.iter().filter(|report| report.is_starved()).count();
    for report in reports.iter().filter(|report| report.is_starved()) {
        println!("starved: {:?} {:?} {} {:?}", report.faulty, report.quiet, told(report), report.failures);
    }
    println!("{counts:?}, {starved} starved, {met:#?}");
    let wrong: Vec<&String> = reports.iter().filter_map(|report| report.verdict.as_ref().err()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// `cargo xtask defects --tapir` tells how many seeds each takes.
#[test]
fn planted_defects_are_noticed() {
    let most = std::env::var("DEFECT_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let only = std::env::var("ONLY").unwrap_or_default();
    let defects: Vec<Defect> = Defect::of_tapir().filter(|defect| defect.name().starts_with(&only)).collect();
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let look = || {
        while let Some(defect) = defects.get(next.fetch_add(1, Ordering::Relaxed)) {
            let why = Mutex::new(String::new());
            let noticed = |seed: &u64| {
                let began = std::time::Instant::now();
                let spoilt = || match run(defect.world_of_tapir(*seed)).verdict {
                    Ok(()) => false,
                    Err(text) => {
                        *why.lock().unwrap() = text;
                        true
                    }
                };
                let x = catch_unwind(AssertUnwindSafe(spoilt)).unwrap_or(false);
                println!("{} {seed} {x} {:?}", defect.name(), began.elapsed());
                x // What only an assertion sees, no judge sees.
            };
            let first = (0..most).find(noticed);
            println!(
                "{}: first noticed by seed {first:?} {}",
                defect.name(),
                why.lock().unwrap().chars().take(160).collect::<String>()
            );
            if first.is_none() {
                missed.lock().unwrap().push(defect.name());
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(look))));
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not noticed by {most} seeds each: {missed:?}");
}
