//! `meridian demo`: something to look at in one command.
//!
//! One node with a real log and store on disk, the SQL and HTTP ports, sample data, and a shell in the same process. Not yet: the
//! three nodes in three zones, and killing one of them; they come with clusters of several nodes, and the banner says so.

use crate::doors::Doors;
use crate::shell::{self, Embedded, Shell};
use clap::Args;
use meridian::house::{House, Place};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The demo's flags.
#[derive(Clone, Debug, Args)]
#[group(id = "demo")]
pub struct Options {
    /// Keep the data in this folder and go on with them next time; otherwise they are deleted at the end.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Where SQL clients connect.
    #[arg(long, default_value = "127.0.0.1:5544")]
    sql: SocketAddr,
    /// Where /health and /metrics are.
    #[arg(long, default_value = "127.0.0.1:8844")]
    http: SocketAddr,
    #[command(flatten)]
    shell: shell::Options,
}

const SAMPLE: &[&str] = &[
    "CREATE TABLE accounts (id bigint PRIMARY KEY, owner text NOT NULL, city text NOT NULL, balance bigint NOT NULL)",
    "INSERT INTO accounts VALUES (1, 'Ada', 'London', 1200), (2, 'Blaise', 'Paris', 800), (3, 'Carl', 'Göttingen', 500), \
     (4, 'Emmy', 'Erlangen', 2500), (5, 'Srinivasa', 'Madras', 1729), (6, 'Sofia', 'Stockholm', 950)",
];

/// Runs the demo until its shell ends.
pub fn run(runtime: &Runtime, options: &Options) -> ExitCode {
    let temporary = match &options.keep {
        Some(_) => None,
        None => match tempfile::Builder::new().prefix("meridian-demo-").tempdir() {
            Ok(temporary) => Some(temporary),
            Err(error) => return fail(&format!("cannot make a temporary folder: {error}; name one with --keep DIR")),
        },
    };
    let folder = match (&options.keep, &temporary) {
        (Some(folder), _) => folder.as_path(),
        (None, Some(temporary)) => temporary.path(),
        (None, None) => return ExitCode::FAILURE,
    };
    let house = match House::alone(Place::Folder(folder.to_owned())) {
        Ok(house) => Arc::new(house),
        Err(error) => return fail(&error),
    };
    let doors = match runtime.block_on(Doors::open(house.clone(), options.sql, options.http)) {
        Ok(doors) => doors,
        Err(error) => return fail(&error),
    };
    if let Err(error) = runtime.block_on(fill(&house)) {
        return fail(&format!("cannot make the sample data: {error}"));
    }
    banner(&house, &doors, folder, temporary.is_some());
    let backend = Embedded::new(runtime.handle().clone(), house.clone(), "in this demo's node");
    let extension = extension(house.clone());
    let code = Shell::new(Box::new(backend)).with_extension(extension).run(&options.shell);
    runtime.block_on(doors.close());
    house.close();
    code
}

fn fail(message: &str) -> ExitCode {
    eprintln!("meridian: {message}");
    ExitCode::FAILURE
}

/// The sample data, unless a demo before this one left them.
async fn fill(house: &House) -> Result<(), String> {
    use meridian_sql::{Response, Session};
    let mut session = Session::new(house.first(), "root");
    for statement in SAMPLE {
        for response in session.simple(statement).await {
            match response {
                // A kept folder has the table already, and with it the rows.
                Response::Failed(error) if error.sqlstate == "42P07" => return Ok(()),
                Response::Failed(error) => return Err(error.message),
                _ => {}
            }
        }
    }
    Ok(())
}

fn banner(house: &House, doors: &Doors, folder: &Path, temporary: bool) {
    let kept = if temporary { "deleted at the end; --keep DIR keeps them" } else { "kept" };
    println!("Meridian {} demo", env!("CARGO_PKG_VERSION"));
    println!("  runs     one node: log and store in {} ({kept})", folder.display());
    println!("           (three nodes in three zones come with a later version)");
    println!(
        "  sql      postgresql://root@{}/meridian     psql -h {} -p {} -U root meridian",
        doors.sql,
        doors.sql.ip(),
        doors.sql.port()
    );
    println!("  http     http://{}/health  http://{}/metrics", doors.http, doors.http);
    println!("  {}", house.clock());
    println!();
    println!("Paste one:");
    println!("  UPDATE accounts SET balance = 0; SELECT owner, balance FROM accounts AS OF SYSTEM TIME '-2s';");
    println!(
        "  BEGIN; UPDATE accounts SET balance = balance - 100 WHERE id = 1; UPDATE accounts SET balance = balance + 100 WHERE id = 2; COMMIT;"
    );
    println!("  EXPLAIN SELECT * FROM accounts WHERE id = 3;");
    println!("  \\demo status");
    println!();
    println!("\\? lists commands, \\q leaves.");
}

/// `\demo …`
fn extension(house: Arc<House>) -> shell::Extension {
    Box::new(move |argument| match argument {
        "" | "status" => Ok(status(&house)),
        other if other.starts_with("kill") || other.starts_with("restart") => {
            Err("this demo runs one node, so there is none to kill; clusters come with a later version".into())
        }
        other => Err(format!("\\demo {other}: there is only \\demo status")),
    })
}

fn status(house: &House) -> String {
    let status = house.status();
    let mut out = format!(
        "node n{}, life {}\n{}\nlog: {} records, {} bytes, {} fsyncs, {} segments\n",
        status.node.0,
        status.incarnation,
        house.clock(),
        status.log.records,
        status.log.bytes,
        status.log.syncs,
        status.log.segments
    );
    for shard in &status.shards {
        out += &format!(
            "database {}: commits through {}, {} bytes not yet in the store\n",
            shard.database, shard.through, shard.recent_bytes
        );
    }
    out
}
