//! Tests of QWStore under every fault, judged by its promises; and tests of the judge, with planted
//! defects.

use meridian_history::Status;
use meridian_sim::{Defect, Faults, Options, Workload, campaign, protocols, run};

fn world(seed: u64) -> Options {
    let all = Workload::of(protocols::QWSTORE.row);
    let workload = all[seed as usize % all.len()];
    Options { protocol: &protocols::QWSTORE, transactions: 150, workload, ..campaign(seed) }
}

/// Returns the number of seeds; `SEEDS=1000 cargo test …` runs more.
fn seeds(otherwise: u64) -> u64 {
    std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn an_acknowledged_write_is_never_unseen() {
    let (mut committed, mut unknown) = (0, 0);
    for seed in 0..seeds(40) {
        let report = run(world(seed));
        assert_eq!(report.verdict, Ok(()), "{}", world(seed).workload);
        let count = |status| {
            report.history.iter().filter(|all| all.status == status && all.writes()).count()
        };
        (committed, unknown) = (committed + count(Status::Ok), unknown + count(Status::Info));
    }
    println!("{committed} committed, {unknown} unknown");
    assert!(committed as u64 > 80 * seeds(40), "{committed}");
    assert!(unknown > 0, "no outcome is unknown, so the judge's hardest case is not tested");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let (once, again) = (run(world(1)), run(world(1)));
    assert_eq!((once.trace_hash, &once.history), (again.trace_hash, &again.history));
}

#[test]
fn without_faults_every_write_is_acknowledged() {
    let report = run(Options { faults: Faults::NONE, ..world(6) });
    assert_eq!(report.verdict, Ok(()));
    let unknown = report.history.iter().filter(|all| all.status == Status::Info).count() as u64;
    assert!(unknown <= report.changes.get("session gone").copied().unwrap_or(0), "{unknown}");
}

#[test]
fn planted_defects_are_noticed() {
    for defect in Defect::of(&protocols::QWSTORE) {
        let spoilt =
            |seed: &u64| run(Options { defect: Some(defect), ..world(*seed) }).verdict.is_err();
        let first = (0..60).find(spoilt);
        println!("{}: first noticed by seed {first:?}", defect.name());
        assert!(first.is_some(), "{} is not noticed by 60 seeds", defect.name());
    }
}
