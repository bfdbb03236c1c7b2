//! Tests of conventional snapshot isolation under every fault: judged as Clock-SI is, and every
//! snapshot must have what was acknowledged before. Tests of the judges, with planted defects and
//! with a stronger model.

mod campaigns;

use campaigns::{
    are_of_snapshot_isolation, every_broken_rule_is_noticed_by, every_time_source_is_right,
    sql_sessions_are_right,
};
use meridian_sim::{Options, SimulatedProtocol, campaign, protocols};

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
    sql_sessions_are_right(world, 50);
}

/// Snapshots are consistent, and have what was acknowledged before, whatever clocks say.
#[test]
fn any_skew_costs_time_only() {
    every_time_source_is_right(world);
}

#[test]
fn every_broken_rule_is_noticed() {
    every_broken_rule_is_noticed_by(CONVENTIONAL_SI, 150);
}
