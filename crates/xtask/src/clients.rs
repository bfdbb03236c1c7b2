//! `cargo xtask clients`: runs real client libraries and ORMs on Meridian and PostgreSQL, and
//! compares what passes.
//!
//! ```text
//!   tests/clients/NAME ──▶ target/clients/NAME ──▶ program ──▶ PostgreSQL ──▶ lines ─┐
//!    manifest, program      libraries, a copy         └──────▶ Meridian ────▶ lines ─┴─▶ matrix
//! ```
//!
//! A program runs named checks, and prints a line for each. What passes on PostgreSQL and not on
//! Meridian is a difference, which the matrix names.

mod catalog;
mod install;
mod lines;
mod page;
mod process;

use catalog::{CLIENTS, Client, Run};
use clap::Args;
use lines::Results;
use meridian_sim::SimulatedProtocol;
use meridian_sim::protocols::DEFAULT;
use page::{Outcome, Row};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::defects;
use crate::pgbench::sql;
use crate::server::{self, Postgres, Server};

/// The setting of PostgreSQL that two-phase commit needs.
const SETTINGS: [&str; 1] = ["max_prepared_transactions=10"];

/// The end of the command's help.
const NEEDS: &str = "\
It needs PostgreSQL's server programs, and beside them psql, pg_dump and pg_restore; and of each
client that runs: python3 with venv and pip, node with npm, a JDK with mvn, or go. The libraries
come from PyPI, npm, Maven Central and the Go module proxy, in the versions of the manifests in
tests/clients. They are kept in target/clients, so that later runs need no network.";

/// The options of the command.
#[derive(Debug, Args)]
#[command(after_help = NEEDS)]
pub struct Options {
    /// The program; built if not given.
    #[arg(long, visible_alias = "binary")]
    meridian: Option<PathBuf>,
    /// The clients that run; all if not given.
    #[arg(long, value_delimiter = ',', value_parser = catalog::named)]
    only: Vec<&'static Client>,
    /// The protocol of Meridian's databases.
    #[arg(long, default_value = DEFAULT.row.name, value_parser = defects::protocol)]
    protocol: &'static SimulatedProtocol,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), String> {
    let sources = Path::new("tests/clients");
    if !sources.is_dir() {
        return Err(format!("{} is not here: run it in the checkout", sources.display()));
    }
    let binary = match &options.meridian {
        Some(binary) => binary.clone(),
        None => server::build()?,
    };
    let folder = tempfile::Builder::new().prefix("meridian-clients-").tempdir();
    let folder = folder.map_err(|error| format!("cannot create a folder: {error}"))?;
    server::readable(folder.path())?;
    let programs = Postgres::find()?;
    let postgres = programs.start_with(folder.path(), 0, &SETTINGS)?;
    let path = programs.first_in_path()?;
    let mut rows = Vec::new();
    for client in chosen(&options.only) {
        eprintln!("{} …", client.name);
        let home = server::target().join("clients").join(client.name);
        match install::install(client, sources, &home) {
            Err(why) => {
                eprintln!("  not installed: {why}");
                rows.push(Row { client, run: &client.runs[0], outcome: Outcome::Absent(why) });
            }
            Ok(()) => {
                // A server for each client: none depends on what another left.
                let data = folder.path().join(client.name);
                let meridian = server::meridian(&binary, &data, 1, &[])?;
                let sides = Sides { meridian: &meridian, postgres: &postgres, path: &path };
                for run in client.runs {
                    let outcome = sides.compare(options.protocol, client, run, &home)?;
                    eprintln!("  {}", outcome.summary(run));
                    rows.push(Row { client, run, outcome });
                }
            }
        }
    }
    println!("{}", page::matrix(&rows));
    println!("{}", page::differences(&rows));
    Ok(())
}

fn chosen(only: &[&'static Client]) -> Vec<&'static Client> {
    let all = CLIENTS.iter();
    all.filter(|client| only.is_empty() || only.iter().any(|one| one.name == client.name)).collect()
}

/// The two servers.
struct Sides<'a> {
    meridian: &'a Server,
    postgres: &'a Server,
    /// The folders in which programs find others, PostgreSQL's first.
    path: &'a OsString,
}

impl Sides<'_> {
    /// Runs a program on both servers, in a database of its own on each.
    fn compare(
        &self,
        protocol: &SimulatedProtocol,
        client: &Client,
        run: &Run,
        home: &Path,
    ) -> Result<Outcome, String> {
        let database = format!("{}_{}", client.name, run.name).replace('-', "_");
        let create = format!("CREATE DATABASE \"{database}\"");
        let on_postgres = {
            sql(&self.postgres.target, &create)?;
            self.run(self.postgres, None, client, run, home, &database)?
        };
        // Programs that create databases learn of a protocol that is not the default.
        let name = protocol.row.name;
        let other = (name != DEFAULT.row.name).then_some(name);
        let create = format!("{create} PROTOCOL = \"{name}\"");
        let on_meridian = match sql(&self.meridian.target, &create) {
            Ok(_) => self.run(self.meridian, other, client, run, home, &database)?,
            Err(why) => Results::ended(&why),
        };
        Ok(Outcome::Ran { postgres: on_postgres, meridian: on_meridian })
    }

    fn run(
        &self,
        server: &Server,
        protocol: Option<&str>,
        client: &Client,
        run: &Run,
        home: &Path,
        database: &str,
    ) -> Result<Results, String> {
        let target = &server.target;
        let beside = &self.postgres.target;
        let mut command = process::command(home, client.program(run));
        command
            .args(run.arguments)
            .env("PATH", self.path)
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", target.port.to_string())
            .env("PGUSER", &target.user)
            .env("PGDATABASE", database)
            .env("PGSSLMODE", "disable")
            .env("POSTGRES_PORT", beside.port.to_string())
            .env("POSTGRES_USER", &beside.user);
        if let Some(protocol) = protocol {
            command.env("MERIDIAN_PROTOCOL", protocol);
        }
        let log = home.join(format!("{}{}.log", run.prefix(), server.name));
        let ended = process::run(&mut command, &log, run.limit())?;
        let text = std::fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut results = Results::read(&String::from_utf8_lossy(&text));
        results.end = ended.complaint();
        Ok(results)
    }
}
