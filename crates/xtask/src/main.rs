//! `cargo xtask VERB`: the project's longer tasks.

mod bench;
mod clients;
mod corpus;
mod costs;
mod defects;
mod differential;
mod etcd;
mod machine;
mod pgbench;
mod regress;
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
    /// Measure the CPU costs of the simulator's cost model.
    Costs(costs::Options),
    /// Run simulator campaigns of every kind in turn, on new seeds, and append them to the ledger.
    Sim(soak::Options),
    /// Kill, stop and cut off real nodes while clients use them, and judge the clients' history.
    Torture(torture::Options),
    /// Run random statements on Meridian and PostgreSQL, and compare the answers.
    Differential(differential::Options),
    /// Run real client libraries and ORMs on Meridian and PostgreSQL, and compare what passes.
    Clients(clients::Options),
    /// Run the public files of sqllogictest on Meridian, beside PostgreSQL.
    Corpus(corpus::Options),
    /// Run PostgreSQL's regression files on Meridian and PostgreSQL, and compare the answers.
    Regress(regress::Options),
    /// Count the seeds until each planted defect is detected in the simulator. A release build is
    /// ten times as fast.
    Defects(defects::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Bench(options) => bench::run(&options),
        Verb::Costs(options) => costs::run(&options),
        Verb::Sim(options) => soak::run(&options),
        Verb::Torture(options) => torture::run(&options),
        Verb::Differential(options) => differential::run(&options),
        Verb::Clients(options) => clients::run(&options),
        Verb::Corpus(options) => corpus::run(&options),
        Verb::Regress(options) => regress::run(&options),
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
