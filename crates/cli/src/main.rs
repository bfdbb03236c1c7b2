//! The `meridian` command.

mod clock;
mod demo;
mod figure;
mod lab;
mod listeners;
mod model;
mod shell;
mod start;
mod workload;

use clap::{Parser, Subcommand};
use meridian::node_server::{NodeServer, Storage};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  meridian                          a SQL shell on a database in memory
  meridian ./shop                   the same, kept in the folder ./shop
  meridian demo                     a server, sample data and a shell to look around
  meridian -e \"select 1\"            run a statement and exit
  meridian start --data ./node      a server: SQL on 127.0.0.1:5544, HTTP on 127.0.0.1:8844
  meridian sql postgresql://root@127.0.0.1:5544/meridian";

/// Meridian: a SQL database whose transactions are ordered by clocks.
#[derive(Debug, Parser)]
#[command(name = "meridian", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The folder of an embedded database; without it, the database is in memory and ends with the
    /// shell.
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    shell: shell::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Try a cluster: three nodes, ports, sample data and a shell.
    Demo(demo::Options),
    /// Run a node: SQL and HTTP ports, data in a folder.
    Start(start::Options),
    /// Open a shell on a server: Meridian, or any other that speaks PostgreSQL's protocol.
    Sql {
        /// The server.
        #[arg(default_value = "postgresql://root@127.0.0.1:5544/meridian", env = "MERIDIAN_URL")]
        url: String,
        #[command(flatten)]
        shell: shell::Options,
    },
    /// Show the state of a node's clock, and what limits it.
    #[command(subcommand)]
    Clock(clock::Command),
    /// Run transactions against any PostgreSQL-compatible server and check its sums.
    #[command(subcommand)]
    Workload(workload::Command),
    /// Run a protocol in the simulator, under faults, from a seed, and judge the clients' history.
    Sim(lab::Simulation),
    /// Measure a figure of a paper in the lab, or at small scale on real processes, and show it
    /// beside the paper's numbers.
    Figure(figure::Options),
    /// Show what a protocol's analytical model predicts.
    #[command(subcommand)]
    Model(model::Command),
    /// Judge a history of any database: exit status 0 if it is right, 1 if it is wrong, 2 if that
    /// cannot be decided.
    Check(lab::Check),
    /// Print the version.
    Version,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = tracing_subscriber::EnvFilter::try_from_env("MERIDIAN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // A line that cannot be written, because the disk of a redirected stderr is full, is lost. A
    // complaint about it would panic, and end the node.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .init();
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start threads: {error}")),
    };
    match arguments.command {
        None => embedded(&runtime, arguments.folder, &arguments.shell),
        Some(Command::Demo(options)) => demo::run(&runtime, &options),
        Some(Command::Start(options)) => runtime.block_on(start::run(options)),
        Some(Command::Sql { url, shell }) => {
            match shell::Remote::open(runtime.handle().clone(), &url) {
                Ok(remote) => shell::Shell::new(Box::new(remote)).run(&shell),
                Err(error) => fail(&error),
            }
        }
        Some(Command::Clock(command)) => clock::run(&runtime, &command),
        Some(Command::Workload(command)) => runtime.block_on(workload::run(command)),
        Some(Command::Sim(simulation)) => simulation.run(),
        Some(Command::Figure(options)) => figure::run(&runtime, &options),
        Some(Command::Model(command)) => runtime.block_on(model::run(&command)),
        Some(Command::Check(check)) => check.run(),
        Some(Command::Version) => {
            println!("meridian {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("meridian: {message}");
    ExitCode::FAILURE
}

/// Opens the shell on a database of this process.
fn embedded(runtime: &Runtime, folder: Option<PathBuf>, options: &shell::Options) -> ExitCode {
    let (place, describe) = match folder {
        Some(folder) => {
            let describe = format!("kept in {}", folder.display());
            (Storage::Folder(folder), describe)
        }
        None => (Storage::Memory, "in memory: it ends with this shell".to_owned()),
    };
    let node_server = match NodeServer::alone(place) {
        Ok(node_server) => Arc::new(node_server),
        Err(error) => return fail(&error),
    };
    let backend = shell::Embedded::new(runtime.handle().clone(), node_server.clone(), describe);
    let code = shell::Shell::new(Box::new(backend)).run(options);
    node_server.close();
    code
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_flag_has_one_meaning() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_folder_is_no_subcommand() {
        let arguments =
            Arguments::try_parse_from(["meridian", "./shop", "-e", "select 1"]).expect("valid");
        assert!(arguments.command.is_none());
        assert_eq!(arguments.folder.as_deref(), Some(std::path::Path::new("./shop")));
        assert!(
            Arguments::try_parse_from(["meridian", "start", "--data", "d"])
                .expect("valid")
                .command
                .is_some()
        );
    }
}
