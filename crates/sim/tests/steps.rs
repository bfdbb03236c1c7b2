//! Tests that nodes may crash at each step of the protocol, in each role, before and after the
//! step's messages: promises are kept, and clients make progress.

use meridian_sim::{Faults, Options, STEPS, run};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least number of crashes at each step.
const ENDED: u64 = 6;
/// The largest number of worlds per step.
const WORLDS: u64 = 24;

/// Returns the world of a seed: every other one loses messages, too; all have several groups whose
/// members change.
fn world(step: &'static str, seed: u64) -> Options {
    let faults = Faults { network: seed % 2 == 1, ..Faults::NONE };
    let (splits, moves, kill_at) = (Some(3), Some(3), Some(step));
    let sql = step.contains("schema"); // Only SQL has schemas.
    Options {
        faults,
        splits,
        moves,
        kill_at,
        sql,
        transactions: 250,
        ..Options::new(5_000_000 + seed)
    }
}

#[test]
fn a_node_may_end_at_any_step_in_any_role() {
    let next = AtomicUsize::new(0);
    let look = || {
        while let Some(step) = STEPS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (mut ended, mut worlds) = (0, 0);
            while ended < ENDED && worlds < WORLDS {
                let options = world(step, worlds);
                let report = run(options);
                assert_eq!(report.verdict, Ok(()), "{step}: seed {}", options.seed);
                ended += report.faults.get("ended at a step").copied().unwrap_or(0);
                worlds += 1;
            }
            println!("{step}: {ended} nodes ended in {worlds} worlds");
            assert!(ended >= ENDED, "{step}: only {ended} nodes ended there in {worlds} worlds");
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(look))));
}
