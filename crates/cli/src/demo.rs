//! `meridian demo`: a cluster to try in one command.
//!
//! Three nodes in three zones, in one process: real logs and stores on disk, real connections
//! between them, and a SQL and an HTTP port for each. The shell connects to one of them over the
//! wire, and to another when that one is killed.

mod cluster;

use crate::shell::{self, Remote, Shell};
use crate::start::Stop;
use clap::Args;
use cluster::Cluster;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The demo's flags.
#[derive(Clone, Debug, Args)]
#[group(id = "demo")]
pub struct Options {
    /// Keep the data in this folder and reuse them next time; otherwise they are deleted at the
    /// end.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// The address for SQL clients; the second and third node take the next two ports.
    #[arg(long, default_value = "127.0.0.1:5544")]
    sql: SocketAddr,
    /// The address of /health and /metrics; the second and third node take the next two ports.
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

/// The distance of the banner's time travel, plus a margin.
const LOOK_BACK: Duration = Duration::from_millis(1_100);

/// The statements that the banner offers; each runs as it stands here.
pub const QUERIES: &[(&str, &str)] = &[
    (
        "a transaction",
        "BEGIN; UPDATE accounts SET balance = balance - 100 WHERE id = 1; \
         UPDATE accounts SET balance = balance + 100 WHERE id = 2; COMMIT;",
    ),
    (
        "time travel",
        "UPDATE accounts SET balance = 0; SELECT owner, balance FROM accounts AS OF SYSTEM TIME '-1s';",
    ),
    ("what a statement costs", "EXPLAIN SELECT * FROM accounts WHERE id = 3;"),
    ("a killed node", "\\demo kill 1"),
];

/// Runs the demo until its shell ends.
pub fn run(runtime: &Runtime, options: &Options) -> ExitCode {
    let temporary = match &options.keep {
        Some(_) => None,
        None => match tempfile::Builder::new().prefix("meridian-demo-").tempdir() {
            Ok(temporary) => Some(temporary),
            Err(error) => {
                return fail(&format!(
                    "cannot make a temporary folder: {error}; name one with --keep DIR"
                ));
            }
        },
    };
    let folder = match (&options.keep, &temporary) {
        (Some(folder), _) => folder.as_path(),
        (None, Some(temporary)) => temporary.path(),
        (None, None) => return ExitCode::FAILURE,
    };
    let waits =
        options.shell.no_shell && options.shell.execute.is_empty() && options.shell.file.is_empty();
    // An interactive shell handles Ctrl-C itself.
    let stop =
        runtime.block_on(async { if waits { Stop::listen() } else { Stop::of_terminate() } });
    let stop = match stop {
        Ok(stop) => stop,
        Err(error) => return fail(&error),
    };
    let cluster = match Cluster::open(runtime.handle().clone(), folder, options.sql, options.http) {
        Ok(cluster) => Arc::new(cluster),
        Err(error) => return fail(&error),
    };
    if let Err(error) = runtime.block_on(fill(&cluster)) {
        return fail(&format!("cannot make the sample data: {error}"));
    }
    let filled = Instant::now();
    // The sample must be older than the banner's time travel.
    std::thread::sleep(LOOK_BACK.saturating_sub(filled.elapsed()));
    banner(&cluster, folder, temporary.is_some());
    let code = if waits {
        println!("Ctrl-C or SIGTERM ends it.");
        println!("{}: closing …", runtime.block_on(stop.wait()));
        ExitCode::SUCCESS
    } else {
        let (of_signal, handle) = (cluster.clone(), runtime.handle().clone());
        let folder = temporary.as_ref().map(|temporary| temporary.path().to_owned());
        let told = Arc::new(AtomicBool::new(false));
        let tell = told.clone();
        let ending = std::thread::spawn(move || {
            handle.block_on(stop.wait());
            tell.store(true, Ordering::SeqCst);
            of_signal.close();
            // At worst a temporary folder remains.
            let _ = folder.map(std::fs::remove_dir_all);
            std::process::exit(0);
        });
        let code = match Remote::open(runtime.handle().clone(), &cluster.url()) {
            Ok(remote) => {
                let of_shell = cluster.clone();
                let extension = Box::new(move |argument: &str| command(&of_shell, argument));
                Shell::new(Box::new(remote)).with_extension(extension).run(&options.shell)
            }
            Err(_) if told.load(Ordering::SeqCst) => ExitCode::SUCCESS,
            Err(error) => fail(&error),
        };
        if told.load(Ordering::SeqCst) {
            // After a signal, the signal's thread ends the process when everything is closed.
            let _ = ending.join();
        }
        code
    };
    cluster.close();
    code
}

fn fail(message: &str) -> ExitCode {
    eprintln!("meridian: {message}");
    ExitCode::FAILURE
}

/// Creates the sample data, unless the folder has them already.
async fn fill(cluster: &Cluster) -> Result<(), String> {
    use meridian_sql::{Response, Session};
    let mut session = Session::new(cluster.first()?, "root");
    for statement in SAMPLE {
        for response in session.simple(statement).await {
            match response {
                // A kept folder has the table and its rows already.
                Response::Failed(error) if error.sqlstate == "42P07" => return Ok(()),
                Response::Failed(error) => return Err(error.message),
                _ => {}
            }
        }
    }
    Ok(())
}

fn banner(cluster: &Cluster, folder: &Path, temporary: bool) {
    let kept = if temporary { "deleted at the end; --keep DIR keeps them" } else { "kept" };
    println!("Meridian {} demo", env!("CARGO_PKG_VERSION"));
    println!(
        "  runs     three nodes in three zones, every commit on the disks of two of them at least"
    );
    println!("  data     {} ({kept})", folder.display());
    for line in cluster.lines() {
        println!("  {line}");
    }
    println!("  {}", cluster.clock());
    println!();
    println!("Paste one:");
    for (what, query) in QUERIES {
        println!("  -- {what}");
        println!("  {query}");
    }
    println!();
    println!("\\demo shows the nodes, \\? lists commands, \\q leaves.");
}

/// `\demo …`
fn command(cluster: &Cluster, argument: &str) -> Result<String, String> {
    let (verb, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let node = || match rest.trim().trim_start_matches('n').parse::<usize>() {
        Ok(number @ 1..=3) => Ok(number - 1),
        _ => Err(format!("\\demo {verb}: which node, 1, 2 or 3?")),
    };
    match verb {
        "" | "status" => Ok(cluster.status()),
        "kill" => cluster.kill(node()?),
        "restart" => cluster.restart(node()?),
        other => Err(format!(
            "\\demo {other}: there are \\demo status, \\demo kill N and \\demo restart N"
        )),
    }
}
