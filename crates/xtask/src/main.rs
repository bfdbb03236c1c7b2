//! `cargo xtask VERB`: habits that are too long to type.

mod bench;
mod machine;
mod pgbench;
mod server;

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
}

fn main() -> ExitCode {
    let Verb::Bench(options) = Arguments::parse().verb;
    match bench::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
