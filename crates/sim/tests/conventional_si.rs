//! Tests of conventional snapshot isolation under every fault: judged as Clock-SI is, and every
//! snapshot must have what was acknowledged before. Tests of the judges, with planted defects and
//! with a stronger model.

mod campaigns;

use campaigns::{are_of_snapshot_isolation, committed, from_environment, unnoticed};
use meridian_sim::{
    Defect, Faults, Options, SimulatedProtocol, Timebase, Workload, campaign, protocols, run,
};

const CONVENTIONAL_SI: &SimulatedProtocol = &protocols::CONVENTIONAL_SI;

fn world(seed: u64) -> Options {
    Options { protocol: CONVENTIONAL_SI, transactions: 150, ..campaign(seed) }
}

#[test]
fn every_history_is_of_snapshot_isolation_and_some_are_not_serializable() {
    are_of_snapshot_isolation(world);
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

/// Snapshots are consistent, and have what was acknowledged before, whatever clocks say.
#[test]
fn any_skew_costs_time_only() {
    let lies = Faults { lies: true, ..Faults::ALL };
    for seed in 0..from_environment("SEEDS", 6) {
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
    let defects: Vec<Defect> = (CONVENTIONAL_SI.rules)().into_iter().map(Defect::Rule).collect();
    let missed = unnoticed(&defects, 150, |defect, seed| Options {
        splits: Some(3),
        ..defect.world(CONVENTIONAL_SI, seed)
    });
    assert!(missed.is_empty(), "not noticed by 150 seeds each: {missed:?}");
}
