//! Tests of K2 under every fault, judged as strictly serializable; and tests of the judges, with
//! planted defects.

mod campaigns;

use campaigns::{
    committed, every_broken_rule_is_noticed_by, every_time_source_is_right, from_environment,
    reached, run_all, sql_sessions_are_right,
};
use meridian_sim::{
    Options, SimulatedProtocol, Workload, age_after_a_wait, campaign, protocols, run,
};

const K2: &SimulatedProtocol = &protocols::K2;

fn world(seed: u64) -> Options {
    Options { protocol: K2, transactions: 150, ..campaign(seed) }
}

#[test]
fn every_history_is_strictly_serializable() {
    let (first, seeds) = (from_environment("FIRST", 0), from_environment("SEEDS", 60));
    let judged = |seed: u64| {
        let workload = Workload::ALL[seed as usize % Workload::ALL.len()];
        let report = run(Options { workload, ..world(seed) });
        assert_eq!(report.verdict, Ok(()), "seed {seed}, {workload}");
        report
    };
    let reports = run_all(first..first + seeds, judged);
    let all: usize = reports.iter().map(committed).sum();
    assert!(all as u64 > 40 * seeds, "{all}");
    let met = reached(&reports);
    let missing: Vec<_> = K2.should_meet.iter().filter(|state| !met.contains_key(*state)).collect();
    assert!(missing.is_empty() || seeds < 60, "not reached: {missing:?}");
}

#[test]
fn sql_sessions_keep_what_keys_keep() {
    sql_sessions_are_right(world, 50);
}

/// A late copy of an intent, of a transaction that had committed, once stayed for ever where the
/// record was (a counter, with few remembered outcomes).
#[test]
fn a_late_copy_of_an_intent_goes_away() {
    let strikes = Some((1, 14));
    let few = Options { transactions: 146, strikes, ..Options::new(1135) };
    let counter = Options { protocol: K2, workload: Workload::Counter, ..few };
    assert_eq!(run(counter).verdict, Ok(()));
}

/// A transaction once wrote into storage that a schema change had replaced: the shard had received
/// the change's outcome, and did not know its version yet.
#[test]
fn a_change_of_the_schema_holds_as_soon_as_its_outcome_is_received() {
    let sql = Options { protocol: K2, workload: Workload::Set, sql: true, ..campaign(2004) };
    assert_eq!(run(Options { transactions: 300, ..sql }).verdict, Ok(()));
}

/// Clients that all read and write one key once refused each other for ever: each later reader
/// forbids the earlier ones their writes.
#[test]
fn clients_of_one_key_get_on() {
    for (seed, workload) in [(2006, Workload::LongFork), (2005, Workload::Counter)] {
        let sql = Options { protocol: K2, workload, sql: true, ..campaign(seed) };
        assert_eq!(run(Options { transactions: 200, ..sql }).verdict, Ok(()), "seed {seed}");
    }
}

/// A transaction that had waited for three seconds once took its own intents for gone, although its
/// recorder had a sign of life each second, and moved.
#[test]
fn a_wait_is_no_idleness() {
    assert!(age_after_a_wait() > 3_000_000_000);
}

/// Serializability does not depend on clocks (I7).
#[test]
fn wrong_clocks_cost_real_time_order_only() {
    every_time_source_is_right(world);
}

#[test]
fn every_broken_rule_is_noticed() {
    every_broken_rule_is_noticed_by(K2, 100);
}
