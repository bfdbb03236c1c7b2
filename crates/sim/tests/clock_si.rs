//! Tests of Clock-SI under every fault, judged by snapshot isolation; and tests of the judges, with
//! planted defects and with a stronger model.

mod campaigns;

use campaigns::{are_of_snapshot_isolation, committed, from_environment, run_all, unnoticed};
use meridian_sim::{
    Defect, Faults, Options, SimulatedProtocol, Timebase, Workload, campaign, protocols, run,
};

const CLOCK_SI: &SimulatedProtocol = &protocols::CLOCK_SI;

fn world(seed: u64) -> Options {
    Options { protocol: CLOCK_SI, transactions: 150, ..campaign(seed) }
}

#[test]
fn every_history_is_of_snapshot_isolation_and_some_are_not_serializable() {
    are_of_snapshot_isolation(world);
}

#[test]
fn sql_sessions_keep_what_keys_keep() {
    let (first, seeds) = (from_environment("FIRST", 0), from_environment("SEEDS", 10));
    let judged = |seed: u64| {
        let workload = Workload::ALL[seed as usize % Workload::ALL.len()];
        let report = run(Options { workload, sql: true, transactions: 80, ..world(seed) });
        assert_eq!(report.verdict, Ok(()), "seed {seed}, {workload}");
        report
    };
    let reports = run_all(first..first + seeds, judged);
    let all: usize = reports.iter().map(committed).sum();
    assert!(all as u64 > 50 * seeds, "{all}");
}

/// A DELETE that finds no row writes nothing: the judge once took it for a write, which another
/// transaction's INSERT of that row then contradicted.
#[test]
fn a_delete_that_finds_nothing_is_a_read() {
    let options = Options { transactions: 100, ..Options::new(38_300_040) };
    let sql = Options { protocol: CLOCK_SI, workload: Workload::Mixed, sql: true, ..options };
    assert_eq!(run(sql).verdict, Ok(()));
}

/// The replay of a session's transaction once waited for a writer, and the writer for the locks
/// of the attempt that was replayed (CREATE INDEX in a block, after a conflict).
#[test]
fn a_replay_does_not_wait_for_its_former_attempt() {
    let options =
        Options { transactions: 205, strikes: Some((0, 103)), ..Options::new(38_311_034) };
    let sql = Options { protocol: CLOCK_SI, workload: Workload::Mixed, sql: true, ..options };
    assert_eq!(run(sql).verdict, Ok(()));
}

/// Snapshots are consistent whatever clocks say (§III-D).
#[test]
fn any_skew_costs_time_only() {
    let lies = Faults { lies: true, ..Faults::ALL };
    for seed in 0..6 {
        let deceived = Options { faults: lies, ..world(seed) };
        let unknown = Options { timebase: Timebase::Cluster, ..world(seed) };
        for options in [deceived, unknown] {
            let report = run(options);
            assert_eq!(report.verdict, Ok(()), "seed {seed}, {:?}", options.timebase);
        }
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    let defects: Vec<Defect> = (CLOCK_SI.rules)().into_iter().map(Defect::Rule).collect();
    let missed = unnoticed(&defects, 60, |defect, seed| Options {
        splits: Some(3),
        ..defect.world(CLOCK_SI, seed)
    });
    assert!(missed.is_empty(), "not noticed by 60 seeds each: {missed:?}");
}
