//! The `meridian` command.

mod shell;
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
    /// A shell on a server: Meridian, or any other that speaks PostgreSQL's wire.
    Sql {
        /// For example postgresql://root@127.0.0.1:5544/meridian
        #[arg(default_value = "postgresql://root@127.0.0.1:5544/meridian", env = "MERIDIAN_URL")]
        url: String,
        #[command(flatten)]
        shell: shell::Options,
    },
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
        Some(Command::Sql { url, shell }) => match shell::Remote::open(runtime.handle().clone(), &url) {
            Ok(remote) => shell::Shell::new(Box::new(remote)).run(&shell),
            Err(error) => {
                eprintln!("meridian: {error}");
                ExitCode::FAILURE
            }
        },
        Some(Command::Workload(command)) => runtime.block_on(workload::run(command)),
        None => ExitCode::SUCCESS,
    }
}
