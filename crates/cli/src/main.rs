//! The `meridian` command.

mod workload;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Meridian: a SQL database whose transactions are ordered by clocks.
#[derive(Debug, Parser)]
#[command(name = "meridian", version)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run transactions against any PostgreSQL-compatible server and check its sums.
    Workload(workload::Command),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("meridian: cannot start threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    match arguments.command {
        Some(Command::Workload(command)) => runtime.block_on(workload::run(command)),
        None => ExitCode::SUCCESS,
    }
}
