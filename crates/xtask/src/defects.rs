//! `cargo xtask defects`: counts the seeds until each planted defect is detected, and names the
//! judge.

use clap::Args;
use meridian_sim::{Defect, SimulatedProtocol, protocols, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The number of seeds after which to give up.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// The protocol of the runs.
    #[arg(long, default_value = protocols::DEFAULT.row.name, value_parser = protocol)]
    protocol: &'static SimulatedProtocol,
    /// Only the defects whose names begin with one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// The result of one seed.
enum Noticed {
    Not,
    ByJudge(String),
    ByAssertion,
}

/// Finds a simulated protocol by its name.
pub fn protocol(name: &str) -> Result<&'static SimulatedProtocol, String> {
    let known = || protocols::ALL.map(|simulated| simulated.row.name).join(", ");
    protocols::named(name)
        .ok_or_else(|| format!("no protocol is called {name}; there are {}", known()))
}

fn look(defect: Defect, seed: u64, protocol: &'static SimulatedProtocol) -> Noticed {
    match catch_unwind(AssertUnwindSafe(|| run(defect.world(protocol, seed)).verdict)) {
        Ok(Ok(())) => Noticed::Not,
        Ok(Err(why)) => Noticed::ByJudge(why),
        Err(_) => Noticed::ByAssertion,
    }
}

/// Prints a line for each defect; fails if one was not detected.
pub fn run_all(options: &Options) -> Result<(), String> {
    std::panic::set_hook(Box::new(|_| {})); // The table has the messages of assertions.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{:<22} {:>10} {:>9} {:>7}  first verdict",
        "planted defect", "seeds", "asserted", "time"
    );
    let mut missed = Vec::new();
    for defect in Defect::of(options.protocol) {
        let name = defect.name();
        let wanted = |only: &String| name.to_lowercase().starts_with(&only.to_lowercase());
        if !options.only.is_empty() && !options.only.iter().any(wanted) {
            continue;
        }
        let (began, next, asserted) =
            (Instant::now(), AtomicU64::new(options.from), AtomicU64::new(0));
        // A defect counts as caught if a judge of the clients' histories or of the copies detects
        // it; assertions of the code itself are counted separately.
        let found: Mutex<Option<(u64, String)>> = Mutex::new(None);
        let locked = || found.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while locked().is_none() {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= options.from + options.seeds {
                            return;
                        }
                        match look(defect, seed, options.protocol) {
                            Noticed::Not => {}
                            Noticed::ByAssertion => drop(asserted.fetch_add(1, Ordering::Relaxed)),
                            Noticed::ByJudge(why) => {
                                let mut found = locked();
                                if found.as_ref().is_none_or(|(before, _)| seed < *before) {
                                    *found = Some((seed, why));
                                }
                            }
                        }
                    }
                });
            }
        });
        let (seeds, verdict) = match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((seed, why)) => ((seed - options.from + 1).to_string(), why),
            None => {
                missed.push(name.clone());
                (
                    "NONE".to_owned(),
                    format!("not noticed by any judge within {} seeds", options.seeds),
                )
            }
        };
        let verdict: String = verdict.lines().next().unwrap_or_default().chars().take(90).collect();
        let (asserted, seconds) = (asserted.into_inner(), began.elapsed().as_secs_f64());
        println!("{name:<22} {seeds:>10} {asserted:>9} {seconds:>6.1}s  {verdict}");
    }
    match missed.is_empty() {
        true => Ok(()),
        false => Err(format!("no judge detected {}: a test is missing", missed.join(", "))),
    }
}
