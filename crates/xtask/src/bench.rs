//! `cargo xtask bench`: measures Meridian beside PostgreSQL, row by row, in the same minutes on the
//! same machine.
//!
//! Each row runs on one server after the other, so that background load affects both. A row prints
//! the CPU time of other processes, and is repeated if that was high (except `put`, in which three
//! servers take turns). Both servers sync every commit to the same disk. Nothing is cached between
//! rows except by the servers.

mod hybrid_time;
mod tpcc;
mod workload;

use crate::etcd::Etcd;
use crate::machine::{Used, busy_seconds, disk_bytes, folder_bytes, sync_latency};
use crate::pgbench::{self, KEYS, Outcome, Script, VALUE_BYTES};
use crate::server::{Postgres, Server, meridian, readable};
use clap::Args;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The CPU load of other processes, in cores, above which a row is repeated.
const NOISE_CORES: f64 = 0.2;
const MOST_TRIES: usize = 3;
/// The warm-up, in seconds: longer than a leadership takes to move to the clients' node.
const WARM_UP_SECONDS: u32 = 20;

/// The options of a benchmark.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The scale of pgbench: 100 000 accounts each.
    #[arg(long, default_value_t = 50)]
    scale: u32,
    /// The duration of each run, in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// The numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    clients: Vec<u32>,
    /// The rows: single (one node), replicated (three replicas), put (three replicas, also beside
    /// etcd), join (by keys), plan (small statements, planned each time), tpcc, idle, groups (idle
    /// ones), flat, hybrid_time (each mode beside spanner).
    #[arg(long, value_delimiter = ',', default_value = "single,replicated,idle")]
    rows: Vec<String>,
    /// The numbers of warehouses of `tpcc`.
    #[arg(long, value_delimiter = ',', default_value = "1,10")]
    warehouses: Vec<u32>,
    /// Minutes of `flat`: TPC-B at 8 clients, with memory, disk and latency by the minute.
    #[arg(long, default_value_t = 30)]
    minutes: u32,
    /// The number of groups that `groups` creates on each of three nodes.
    #[arg(long, default_value_t = 1_000)]
    groups: u32,
    /// The number of rounds of `hybrid_time`; each one runs all modes.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// The clock bound of the nodes of `hybrid_time`; a commit that waits for it takes twice that.
    #[arg(long, default_value = "2500us")]
    clock_bound: String,
    /// The command; built in release if this is not given.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// The folder of the servers' data; deleted at the end.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Also print to this file.
    #[arg(long)]
    out: Option<PathBuf>,
}

struct Report {
    /// The output file, to which each line is written at once.
    out: Option<std::fs::File>,
}

impl Report {
    fn line(&mut self, line: &str) {
        println!("{line}");
        if let Some(out) = &mut self.out {
            let _ = std::io::Write::write_all(out, format!("{line}\n").as_bytes()); // The line stands on the screen.
        }
    }
}

/// The measurements of one server in a row.
struct Measured {
    outcome: Outcome,
    cpu_us: f64,
    written_bytes: f64,
    syncs: Option<f64>,
    others_cores: f64,
}

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<(), String> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => crate::server::build()?,
    };
    let parent = options.folder.clone().unwrap_or_else(std::env::temp_dir);
    let folder = tempfile::Builder::new().prefix("meridian-bench-").tempdir_in(&parent);
    let folder = folder.map_err(|error| format!("{}: {error}", parent.display()))?;
    readable(folder.path())?;
    let create = |out: &PathBuf| {
        std::fs::File::create(out).map_err(|error| format!("{}: {error}", out.display()))
    };
    let mut report = Report { out: options.out.as_ref().map(create).transpose()? };
    let latency = sync_latency(folder.path()).map_err(|error| error.to_string())?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    report.line(&format!(
        "{cores} cores, Linux {}, a small write synced in {latency:?}",
        kernel.trim()
    ));
    report.line(&format!("{}; pgbench -M prepared, scale {}", version(&binary), options.scale));
    for rows in &options.rows {
        match rows.as_str() {
            "single" => {
                let postgres = peer(&mut report)?;
                let servers =
                    [meridian(&binary, folder.path(), 1, &[])?, postgres.start(folder.path(), 0)?];
                compare(
                    &mut report,
                    options,
                    &servers,
                    &[Script::SelectOnly, Script::TpcB],
                    folder.path(),
                )?;
            }
            "replicated" => {
                let postgres = peer(&mut report)?;
                report.line("three replicas: meridian's clock bound is 100 µs (one machine); PostgreSQL waits for ANY 1 of 2 standbys");
                let three = folder.path().join("three");
                std::fs::create_dir_all(&three).map_err(|error| error.to_string())?;
                readable(&three)?;
                let servers = [meridian(&binary, &three, 3, &[])?, postgres.start(&three, 2)?];
                compare(&mut report, options, &servers, &[Script::TpcB], folder.path())?;
            }
            "join" => {
                shop(&mut report, options, &binary, folder.path(), &[Script::Join, Script::Newest])?
            }
            "plan" => {
                shop(&mut report, options, &binary, folder.path(), &[Script::Plan, Script::Exists])?
            }
            "tpcc" => tpcc::run(&mut report, options, &binary, folder.path())?,
            "put" => put(&mut report, options, &binary, folder.path())?,
            "idle" => idle(&mut report, meridian(&binary, &folder.path().join("idle"), 1, &[])?),
            "groups" => groups(
                &mut report,
                options.groups,
                meridian(&binary, &folder.path().join("groups"), 3, &[])?,
            )?,
            "flat" => flat(&mut report, options, &binary, folder.path())?,
            "hybrid_time" => hybrid_time::run(&mut report, options, &binary, folder.path())?,
            other => {
                return Err(format!(
                    "--rows {other}: there are single, replicated, put, join, plan, tpcc, idle, groups, flat and hybrid_time"
                ));
            }
        }
    }
    Ok(())
}

fn version(binary: &std::path::Path) -> String {
    let output = std::process::Command::new(binary).arg("--version").output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

/// Finds the PostgreSQL to compare with.
fn peer(report: &mut Report) -> Result<Postgres, String> {
    let postgres = Postgres::find()?;
    report.line(&format!("beside {}, fsync on in both", postgres.version()));
    Ok(postgres)
}

fn compare(
    report: &mut Report,
    options: &Options,
    servers: &[Server; 2],
    scripts: &[Script],
    folder: &std::path::Path,
) -> Result<(), String> {
    fill(report, servers, |server| pgbench::init(&server.target, options.scale))?;
    run_scripts(report, options, servers, scripts, folder)
}

/// Measures joins over customers, orders and lines on one node.
fn shop(
    report: &mut Report,
    options: &Options,
    binary: &std::path::Path,
    folder: &std::path::Path,
    scripts: &[Script],
) -> Result<(), String> {
    let home = tempfile::Builder::new().prefix("shop-").tempdir_in(folder);
    let home = home.map_err(|error| error.to_string())?;
    readable(home.path())?;
    let postgres = peer(report)?;
    let servers = [meridian(binary, home.path(), 1, &[])?, postgres.start(home.path(), 0)?];
    fill(report, &servers, |server| {
        pgbench::shop().iter().try_for_each(|statement| pgbench::sql(&server.target, statement))
    })?;
    run_scripts(report, options, &servers, scripts, folder)
}

/// Fills the tables of servers.
fn fill(
    report: &mut Report,
    servers: &[Server],
    fill: impl Fn(&Server) -> Result<(), String>,
) -> Result<(), String> {
    for server in servers {
        let began = Instant::now();
        eprintln!("{}: filling tables …", server.name);
        fill(server)?;
        report.line(&format!("{}: filled in {:.1} s", server.name, began.elapsed().as_secs_f64()));
    }
    Ok(())
}

fn run_scripts(
    report: &mut Report,
    options: &Options,
    servers: &[Server; 2],
    scripts: &[Script],
    folder: &std::path::Path,
) -> Result<(), String> {
    report.line("");
    report.line("| what | clients | server | tps | ratio | p50 ms | p99 ms | failed | CPU µs/txn | disk bytes/txn | fsyncs/txn | others' cores |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for script in scripts {
        for server in servers {
            // Caches fill, and leadership moves to the clients' node.
            eprintln!("{}: {} to warm up …", server.name, script.name());
            pgbench::run(&server.target, *script, 8, WARM_UP_SECONDS, folder)?;
        }
        for clients in &options.clients {
            let mut tries = 0;
            let measured = loop {
                tries += 1;
                let one =
                    |server: &Server| measure(server, *script, *clients, options.seconds, folder);
                let pair = [one(&servers[0])?, one(&servers[1])?];
                let noisy = pair.iter().any(|measured| measured.others_cores > NOISE_CORES);
                if !noisy || tries == MOST_TRIES {
                    break pair;
                }
                eprintln!("other processes used CPU time: repeating the row …");
            };
            let peer = measured[1].outcome.tps;
            for (server, measured) in servers.iter().zip(&measured) {
                report.line(&row(
                    *script,
                    *clients,
                    &server.name,
                    measured,
                    measured.outcome.tps / peer.max(1e-9),
                ));
            }
        }
    }
    report.line("");
    Ok(())
}

/// Measures a put with each commit on two of three disks: Meridian, PostgreSQL with standbys, and
/// etcd. The ratio is Meridian's to the server in the row.
fn put(
    report: &mut Report,
    options: &Options,
    binary: &std::path::Path,
    folder: &std::path::Path,
) -> Result<(), String> {
    let home = folder.join("put");
    std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    readable(&home)?;
    let version = Etcd::version()?;
    let postgres = peer(report)?;
    report.line(&format!(
        "and beside {version}, by gRPC; values of {VALUE_BYTES} bytes at {KEYS} keys, three replicas of each"
    ));
    let servers = [meridian(binary, &home, 3, &[])?, postgres.start(&home, 2)?];
    for server in &servers {
        pgbench::sql(&server.target, "CREATE TABLE kv (k int PRIMARY KEY, v text)")?;
        pgbench::run(&server.target, Script::Put, 8, WARM_UP_SECONDS, folder)?;
    }
    let etcd = Etcd::start(&home)?;
    etcd.put(8, WARM_UP_SECONDS, KEYS, VALUE_BYTES)?;
    report.line("");
    report.line("| what | clients | server | tps | ratio | p50 ms | p99 ms | failed | CPU µs/txn | disk bytes/txn | fsyncs/txn | others' cores |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for clients in &options.clients {
        let mut rows = Vec::new();
        for server in &servers {
            rows.push((
                server.name.clone(),
                measure(server, Script::Put, *clients, options.seconds, folder)?,
            ));
        }
        eprintln!("etcd ×3: put with {clients} clients …");
        let run = || etcd.put(*clients, options.seconds, KEYS, VALUE_BYTES);
        rows.push(("etcd ×3".to_owned(), watch(|| etcd.used(), libc::RUSAGE_SELF, run)?));
        let ours = rows[0].1.outcome.tps;
        for (name, measured) in &rows {
            report.line(&row(
                Script::Put,
                *clients,
                name,
                measured,
                ours / measured.outcome.tps.max(1e-9),
            ));
        }
    }
    report.line("");
    Ok(())
}

fn row(script: Script, clients: u32, name: &str, measured: &Measured, ratio: f64) -> String {
    let Measured { outcome, cpu_us, written_bytes, syncs, others_cores } = measured;
    let mut row = format!("| {} | {clients} | {name} | {:.0} | ", script.name(), outcome.tps);
    let _ = write!(row, "{ratio:.2} | {:.2} | {:.2} | ", outcome.p50_ms, outcome.p99_ms);
    let syncs = syncs.map_or_else(|| "–".to_owned(), |syncs| format!("{syncs:.2}"));
    let _ = write!(
        row,
        "{} | {cpu_us:.0} | {written_bytes:.0} | {syncs} | {others_cores:.2} |",
        outcome.failed
    );
    row
}

fn measure(
    server: &Server,
    script: Script,
    clients: u32,
    seconds: u32,
    folder: &std::path::Path,
) -> Result<Measured, String> {
    const SYNCS: &str = "meridian_log_fsyncs_total";
    eprintln!("{}: {} with {clients} clients …", server.name, script.name());
    let before = server.counter(SYNCS);
    let run = || pgbench::run(&server.target, script, clients, seconds, folder);
    let mut measured = watch(|| server.used(), libc::RUSAGE_CHILDREN, run)?;
    let transactions = measured.outcome.transactions.max(1) as f64;
    measured.syncs = before
        .zip(server.counter(SYNCS))
        .map(|(before, after)| (after - before) as f64 / transactions);
    Ok(measured)
}

/// Returns the CPU time of the servers during a run, and that of other processes. The clients are
/// this process, or its children that have been waited for.
fn watch(
    used: impl Fn() -> Used,
    clients: i32,
    run: impl FnOnce() -> Result<Outcome, String>,
) -> Result<Measured, String> {
    let own = || {
        // SAFETY: the structure is the kernel's to fill.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::getrusage(clients, &mut usage) };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    let (before, client, busy) = (used(), own(), busy_seconds());
    let (written, began) = (disk_bytes(), Instant::now());
    let outcome = run()?;
    let elapsed = began.elapsed().as_secs_f64();
    let (cpu, transactions) =
        (used().cpu_seconds - before.cpu_seconds, outcome.transactions.max(1) as f64);
    let others = (busy_seconds() - busy - cpu - (own() - client)).max(0.0);
    Ok(Measured {
        outcome,
        cpu_us: cpu * 1e6 / transactions,
        written_bytes: disk_bytes().saturating_sub(written) as f64 / transactions,
        syncs: None,
        others_cores: others / elapsed,
    })
}

fn idle(report: &mut Report, server: Server) {
    const WATCHED: Duration = Duration::from_secs(10);
    std::thread::sleep(Duration::from_secs(2));
    let before = server.used();
    std::thread::sleep(WATCHED);
    let after = server.used();
    report.line(&format!(
        "idle: {:.2} % of a core, {:.0} MB of memory",
        (after.cpu_seconds - before.cpu_seconds) / WATCHED.as_secs_f64() * 100.0,
        after.resident_bytes as f64 / 1e6
    ));
}

/// Measures the cost of nodes with many idle groups.
fn groups(report: &mut Report, groups: u32, server: Server) -> Result<(), String> {
    const AT_ONCE: u32 = 500;
    const SILENT_AFTER: Duration = Duration::from_secs(45);
    const WATCHED: Duration = Duration::from_secs(20);
    pgbench::sql(&server.target, "CREATE TABLE many (id int PRIMARY KEY)")?;
    let began = Instant::now();
    // From the end, so that all groups are split off from the same one.
    for first in (1..groups).step_by(AT_ONCE as usize).collect::<Vec<_>>().into_iter().rev() {
        let values: Vec<String> =
            (first..groups.min(first + AT_ONCE)).map(|id| format!("({id})")).collect();
        pgbench::sql(
            &server.target,
            &format!("ALTER TABLE many SPLIT AT VALUES {}", values.join(", ")),
        )?;
        eprint!("\r{} of {groups} groups  ", groups - first);
    }
    eprintln!();
    let split = began.elapsed().as_secs_f64() * 1e3 / f64::from(groups);
    std::thread::sleep(SILENT_AFTER);
    let (before, all) = (server.used(), 3.0 * WATCHED.as_secs_f64());
    std::thread::sleep(WATCHED);
    let after = server.used();
    report.line(&format!(
        "{groups} idle groups on each of three nodes: {:.2} % of a core and {:.0} MB of memory each; {split:.0} ms for each split",
        (after.cpu_seconds - before.cpu_seconds) / all * 100.0,
        after.resident_bytes as f64 / 3e6
    ));
    Ok(())
}

fn flat(
    report: &mut Report,
    options: &Options,
    binary: &std::path::Path,
    folder: &std::path::Path,
) -> Result<(), String> {
    let data = folder.join("flat");
    let server = meridian(binary, &data, 1, &[])?;
    pgbench::init(&server.target, options.scale)?;
    report.line("");
    report.line("| minute | tps | p50 ms | p99 ms | failed | memory MB | disk MB |");
    report.line("|---|---|---|---|---|---|---|");
    for minute in 1..=options.minutes {
        let outcome = pgbench::run(&server.target, Script::TpcB, 8, 60, folder)?;
        report.line(&format!(
            "| {minute} | {:.0} | {:.2} | {:.2} | {} | {:.0} | {:.0} |",
            outcome.tps,
            outcome.p50_ms,
            outcome.p99_ms,
            outcome.failed,
            server.used().resident_bytes as f64 / 1e6,
            folder_bytes(&data) as f64 / 1e6
        ));
    }
    Ok(())
}
