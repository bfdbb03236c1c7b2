//! Tests of Clock-SI under every fault, judged by snapshot isolation; and tests of the judges, with
//! planted defects and with a stronger model.

mod campaigns;

use campaigns::{
    are_of_snapshot_isolation, every_broken_rule_is_noticed_by, every_time_source_is_right,
    sql_sessions_are_right,
};
use meridian_sim::{Options, SimulatedProtocol, Workload, campaign, protocols, run};

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
    sql_sessions_are_right(world, 50);
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

/// A change of the schema (CREATE INDEX in a block) once waited again and again for writers
/// that had voted in one shard, and that waited in another one for the locks of its next attempt.
#[test]
fn a_change_of_the_schema_and_the_writers_that_it_waits_for_both_end() {
    let options = Options { transactions: 73, strikes: Some((0, 24)), ..Options::new(38_320_687) };
    let workload = Workload::Monotonic;
    let sql = Options { protocol: CLOCK_SI, workload, sql: true, ..options };
    assert_eq!(run(sql).verdict, Ok(()));
}

/// Snapshots are consistent whatever clocks say (§III-D).
#[test]
fn any_skew_costs_time_only() {
    every_time_source_is_right(world);
}

#[test]
fn every_broken_rule_is_noticed() {
    every_broken_rule_is_noticed_by(CLOCK_SI, 60);
}
