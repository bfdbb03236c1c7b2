//! `cargo xtask VERB`: habits that are too long to type.

mod bench;
mod costs;
mod defects;
mod etcd;
mod machine;
mod pgbench;
mod server;
mod soak;
mod torture;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measure beside PostgreSQL, in the same run, on this machine.
    Bench(bench::Options),
    /// Measure what things cost a core: the lab's cost model.
    Costs(costs::Options),
    /// Run campaigns of the simulator of every kind in turn, on new seeds, and write them down.
    Sim(soak::Options),
    /// Kill, stop and cut off real nodes while clients speak with them, and judge what the clients
    /// saw.
    Torture(torture::Options),
    /// Look how many seeds of the simulator each planted defect takes to be noticed. In release it
    /// is ten times as fast.
    Defects(defects::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Bench(options) => bench::run(&options),
        Verb::Costs(options) => costs::run(&options),
        Verb::Sim(options) => soak::run(&options),
        Verb::Torture(options) => torture::run(&options),
        Verb::Defects(options) => defects::run_all(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
