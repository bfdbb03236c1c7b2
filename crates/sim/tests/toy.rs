//! The toy under the judges of every other protocol, through the lab's ordinary entry point.
//!
//! The protocol is `toy/protocol.rs`; its rows are here. It survives the faults of the network and
//! of clocks. It does not survive those of processes and disks, because it keeps its values in the
//! memory of one node.

#[path = "toy/protocol.rs"]
mod protocol;

use meridian_history::Status;
use meridian_sim::{Defect, Faults, Options, Report, SimulatedProtocol, World, campaign, run};
use meridian_systems::Protocol;
use meridian_systems::envelope::Kind;
use meridian_txn::IsolationLevel;
use protocol::{COMMITS_ONCE, READS_THE_SNAPSHOT, Toy, VALIDATES};

/// The row in `systems`.
static TOY: Protocol = Protocol {
    name: "toy",
    kind: Kind(200),
    isolation: Some(IsolationLevel::Serializable),
    real_time_order: true,
    has_leaders: false,
    own_settings: &[],
};

/// The row in `sim`.
static SIMULATED: SimulatedProtocol = SimulatedProtocol {
    row: &TOY,
    run: |options| World::<Toy>::new(options).run(),
    stage: |options, scene, costs| World::<Toy>::new(options).stage(scene, costs),
    should_meet: &[],
    seams: &[Defect::ClockLies],
    rules: || vec![READS_THE_SNAPSHOT, VALIDATES, COMMITS_ONCE, meridian_clock::rules::COMMIT_WAIT],
    faults: |_| SURVIVED,
    needs_sql: |_| false,
    delays: Vec::new,
};

/// The faults that it survives.
const SURVIVED: Faults = Faults { network: true, clock: true, ..Faults::NONE };

fn world(seed: u64) -> Options {
    Options { protocol: &SIMULATED, transactions: 150, faults: SURVIVED, ..campaign(seed) }
}

fn committed(report: &Report) -> usize {
    report.history.iter().filter(|all| all.status == Status::Ok).count()
}

#[test]
fn it_is_strictly_serializable_under_the_faults_that_it_survives() {
    let (mut sum, mut struck) = (0, 0);
    for seed in 0..40 {
        let report = run(world(seed));
        println!(
            "{seed} {} {} {:?} {:?} {:?}",
            world(seed).workload,
            committed(&report),
            report.verdict,
            report.failures,
            report.faults
        );
        (sum, struck) = (sum + committed(&report), struck + report.faults.values().sum::<u64>());
    }
    println!("{sum} {struck}");
}

#[test]
fn it_keeps_its_order_under_sql() {
    for seed in 0..40 {
        let report = run(Options { sql: true, ..world(seed) });
        println!(
            "{seed} {} {} {:?} {:?}",
            world(seed).workload,
            committed(&report),
            report.verdict,
            report.failures
        );
    }
}

#[test]
fn it_keeps_its_order_where_clocks_lie() {
    for seed in 0..20 {
        let report = run(Options { faults: Faults { lies: true, ..SURVIVED }, ..world(seed) });
        println!("{seed} {} {:?}", committed(&report), report.verdict);
    }
}

#[test]
fn planted_defects_are_noticed() {
    for defect in Defect::of(&SIMULATED) {
        let wrong = |seed: &u64| run(Options { defect: Some(defect), ..world(*seed) }).verdict;
        let first = (0..60).find(|seed| wrong(seed).is_err());
        println!("{}: {:?} {:?}", defect.name(), first, first.map(|seed| wrong(&seed)));
    }
}

#[test]
fn a_crash_of_its_node_is_noticed() {
    for faults in [Faults { process: true, ..Faults::NONE }, Faults { disk: true, ..Faults::NONE }]
    {
        for seed in 0..20 {
            let report = run(Options { faults, ..world(seed) });
            println!("{seed} {} {:?} {:?}", committed(&report), report.verdict, report.faults);
        }
    }
}
