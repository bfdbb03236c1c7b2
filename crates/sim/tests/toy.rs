//! The toy under the judges of every other protocol, through the lab's ordinary entry point.
//!
//! The protocol is `toy/protocol.rs`; its rows are here. It survives the faults of the network and
//! of clocks. It does not survive those of processes and disks, because it keeps its values in the
//! memory of one node.

#[path = "toy/protocol.rs"]
mod protocol;

use meridian_history::Status;
use meridian_machine::{Address, DatabaseId, Effect as Do, Interval, Machine, NodeId, Outbox};
use meridian_machine::{Reading, Role};
use meridian_mvcc::Write;
use meridian_placement::FIRST_SHARD;
use meridian_replication::inconsistent::OpId;
use meridian_sim::{Defect, Faults, Options, Report, SimulatedProtocol, World, campaign, run};
use meridian_systems::Protocol;
use meridian_systems::envelope::Kind;
use meridian_txn::{Consistency, IsolationLevel};
use protocol::{COMMITS_ONCE, Effect, Message, READS_THE_NEWEST, Replica, Request, Toy};
use protocol::{VALIDATES, What};

/// The row in `systems`.
static TOY: Protocol = Protocol {
    name: "toy",
    kind: Kind(200),
    isolation: Some(IsolationLevel::Serializable),
    consistency: &[Consistency::CommitWait],
    policy: None,
    own_settings: &[],
};

/// The row in `sim`.
static SIMULATED: SimulatedProtocol = SimulatedProtocol {
    row: &TOY,
    run: |options| World::<Toy>::new(options).run(),
    stage: |options, scenario, costs| World::<Toy>::new(options).stage(scenario, costs),
    should_meet: &[],
    seams: &[Defect::ClockLies],
    rules: || vec![READS_THE_NEWEST, VALIDATES, COMMITS_ONCE, meridian_clock::rules::COMMIT_WAIT],
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
fn a_commit_is_answered_once_its_timestamp_has_passed() {
    let (mut replica, mut out) = (Replica::new(), Outbox::new());
    let here = Address::replica(NodeId(1), DatabaseId(1), FIRST_SHARD);
    let session = Address { role: Role::Coordinator(0), ..here };
    let reading = |boot_ns| Reading::at(boot_ns, Interval::around(boot_ns, 5));
    let (id, write) = (OpId { node: 1, incarnation: 1, number: 1 }, "k".into());
    let writes = vec![Write { key: write, value: None }];
    let what = What::Commit(Vec::new(), writes, Vec::new());
    let request = Request { id, snapshot: None, plans: Vec::new(), what };

    // It is installed at 105, the latest that the time may be.
    replica.on_message(reading(100), session, Message::Ask(request), &mut out);
    let effects: Vec<_> = out.drain().collect();
    let [Do::Do(Effect::Install { at, .. }), Do::Arm { at: 111, .. }] = effects[..] else {
        panic!("it installs, and arms a timer: {} effects", effects.len());
    };
    assert_eq!(at.nanos, 105);

    // The time is not known to be above 105 before 111.
    replica.on_timer(reading(110), (), &mut out);
    assert!(matches!(out.drain().collect::<Vec<_>>()[..], [Do::Arm { at: 111, .. }]));
    replica.on_timer(reading(111), (), &mut out);
    let effects: Vec<_> = out.drain().collect();
    let [Do::Send { to, message: Message::Answer(of, Ok(done)) }] = &effects[..] else {
        panic!("it answers: {} effects", effects.len());
    };
    assert_eq!((*to, *of, done.at), (session, id, at));
}

#[test]
fn it_is_strictly_serializable_under_the_faults_that_it_survives() {
    let (mut sum, mut struck) = (0, 0);
    for seed in 0..40 {
        let report = run(world(seed));
        assert_eq!(report.verdict, Ok(()), "{}", world(seed).workload);
        (sum, struck) = (sum + committed(&report), struck + report.faults.values().sum::<u64>());
    }
    assert!(sum > 8_000 && struck > 400, "{sum} committed, {struck} faults");
}

#[test]
fn it_is_strictly_serializable_under_sql() {
    let mut sum = 0;
    for seed in 0..20 {
        let report = run(Options { sql: true, ..world(seed) });
        assert_eq!(report.verdict, Ok(()), "{}", world(seed).workload);
        sum += committed(&report);
    }
    assert!(sum > 2_000, "{sum} committed");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let (once, again) = (run(world(1)), run(world(1)));
    assert_eq!((once.trace_hash, &once.history), (again.trace_hash, &again.history));
}

#[test]
fn planted_defects_are_noticed() {
    for defect in Defect::of(&SIMULATED) {
        let is_wrong =
            |seed: &u64| run(Options { defect: Some(defect), ..world(*seed) }).verdict.is_err();
        let first = (0..40).find(is_wrong);
        assert!(first.is_some(), "{} is not noticed by 40 seeds", defect.name());
    }
}

#[test]
fn the_loss_of_its_memory_is_noticed() {
    let wrong = |faults: Faults| {
        let worlds = (0..20).map(|seed| Options { faults, ..world(seed) });
        worlds.filter(|options| run(*options).verdict.is_err()).count()
    };
    let (process, disk) = (
        wrong(Faults { process: true, ..Faults::NONE }),
        wrong(Faults { disk: true, ..Faults::NONE }),
    );
    // Of the faults of disks only a failed sync with a power failure after it ends the node.
    assert!(process > 5 && disk > 0, "{process} and {disk} of 20 worlds are wrong");
}
