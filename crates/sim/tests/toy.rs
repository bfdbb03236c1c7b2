//! The toy under the judges of every other protocol, through the lab's ordinary entry point.

#[path = "toy/protocol.rs"]
mod protocol;

use meridian_history::Status;
use meridian_sim::{Defect, Faults, Options, campaign, run};
use protocol::{SIMULATED, SURVIVED};

fn world(seed: u64) -> Options {
    Options { protocol: &SIMULATED, transactions: 150, faults: SURVIVED, ..campaign(seed) }
}

#[test]
fn it_is_strictly_serializable_under_the_faults_that_it_survives() {
    for seed in 0..40 {
        let report = run(world(seed));
        println!("{seed} {} {:?} {:?} {:?} {:?} {:?}", world(seed).workload, report.verdict, report.faulty, report.quiet, report.failures, report.faults);
    }
}
