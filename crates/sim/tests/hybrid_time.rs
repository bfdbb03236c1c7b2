//! Tests of HybridTime under every fault: worlds of one consistency mode and of several, judged by
//! causal tokens and by the real time of those that waited; and tests of the judges, with planted
//! defects.

mod campaigns;

use campaigns::{
    committed, every_time_source_is_right, from_environment, reached, run_all,
    sql_sessions_are_right, unnoticed,
};
use meridian_sim::{
    ANOMALIES, Defect, Faults, Options, Regions, SimulatedProtocol, Workload, campaign, protocols,
    run,
};
use meridian_systems::shard::rules;
use std::collections::BTreeSet;

const HYBRID_TIME: &SimulatedProtocol = &protocols::HYBRID_TIME;

fn world(seed: u64) -> Options {
    // `MOVES=6` moves members in every world; otherwise some draw that.
    let moves = u32::try_from(from_environment("MOVES", u64::MAX)).ok();
    Options { protocol: HYBRID_TIME, transactions: 150, moves, ..campaign(seed) }
}

#[test]
fn every_history_keeps_its_tokens_and_its_waits() {
    let (first, seeds) = (from_environment("FIRST", 0), from_environment("SEEDS", 40));
    let judged = |seed| {
        let options = world(seed);
        let report = run(options);
        if let Err(why) = &report.verdict {
            panic!("{}: {why}", options.workload);
        }
        report
    };
    let reports = run_all(first..first + seeds, judged);
    let met = reached(&reports);
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

/// Clocks that differ by more than a transaction between close nodes takes show every anomaly that
/// a mode allows.
#[test]
fn every_anomaly_that_a_mode_allows_is_met() {
    let judged = |seed| {
        let faults = Faults { clock: true, ..Faults::NONE };
        let (workload, regions, transactions) = (Workload::Mixed, Regions::Lan, 600);
        let options = Options { protocol: HYBRID_TIME, faults, workload, ..Options::new(seed) };
        let report = run(Options { regions, transactions, ..options });
        assert_eq!(report.verdict, Ok(()), "seed {seed}");
        report
    };
    let mut met = BTreeSet::new();
    for first in (0..200).step_by(20) {
        let reports = run_all(first..first + 20, judged);
        met.extend(reports.iter().flat_map(|report| report.anomalies.keys().copied()));
        if ANOMALIES.iter().all(|kind| met.contains(kind)) {
            return;
        }
    }
    panic!("200 seeds met only {met:?}");
}

#[test]
fn sql_sessions_keep_what_keys_keep() {
    sql_sessions_are_right(world, 50);
}

/// In mode `none`, an index and the row that it names are read at two moments. That the row is gone
/// was once reported as damage.
#[test]
fn an_index_of_another_moment_is_no_damage() {
    let options = Options::new(38_000_030);
    let sql = Options { protocol: HYBRID_TIME, workload: Workload::Mixed, sql: true, ..options };
    assert_eq!(run(sql).verdict, Ok(()));
}

/// Two nodes that had no replica of a split-off shard took each other for its leader, and sent each
/// request there and back for as long as it lasted.
#[test]
fn nodes_without_a_replica_name_no_leader() {
    let options = Options { transactions: 43, strikes: Some((0, 957)), ..Options::new(38_000_801) };
    let sql = Options { protocol: HYBRID_TIME, workload: Workload::Mixed, sql: true, ..options };
    assert_eq!(run(sql).verdict, Ok(()));
}

/// In mode `none`, the rows that an index names were asked for one after the other: a scan of 300
/// rows took 300 round trips.
#[test]
fn rows_that_an_index_names_are_asked_for_together() {
    let options = Options { transactions: 300, strikes: Some((2, 71)), ..Options::new(38_001_184) };
    let sql = Options { protocol: HYBRID_TIME, workload: Workload::Mixed, sql: true, ..options };
    assert_eq!(run(sql).verdict, Ok(()));
}

/// Tokens order transactions whatever clocks say.
#[test]
fn tokens_hold_with_every_time_source() {
    every_time_source_is_right(world);
}

#[test]
fn every_broken_rule_is_noticed() {
    let defects: Vec<Defect> = (HYBRID_TIME.rules)().into_iter().map(Defect::Rule).collect();
    // Tokens order transactions of different shards, whose leaders' clocks differ.
    let faults = Faults { clock: true, network: true, ..Faults::NONE };
    // What a leader has promised matters to the next one.
    let of_leaders = [rules::CEILING_NOT_AGREED, rules::ISSUER_BELOW_LOG].map(Defect::Rule);
    let missed = unnoticed(&defects, 300, |defect, seed| {
        let world = Options { splits: Some(3), ..defect.world(HYBRID_TIME, seed) };
        match of_leaders.contains(&defect) {
            true => world,
            false => Options { faults, ..world },
        }
    });
    assert!(missed.is_empty(), "not noticed by 300 seeds each: {missed:?}");
}
