//! HybridTime, Figure 4, on processes: writes in each consistency mode on three nodes whose clocks
//! claim the paper's mean error.

use super::cluster::{Cluster, within};
use super::sessions::{Failures, Load, Outcome, Rows, Sessions, Work, nanos};
use super::{Bench, world};
use crate::workload::connect;
use crate::workload::cpu::Cpu;
use meridian_figures::Figure;
use meridian_figures::hybridtime::{MIX, MODES, Run, THREADS};
use meridian_figures::hybridtime_figure4::figure;
use meridian_sim::profile::Commit;
use meridian_txn::Consistency;
use std::time::{Duration, Instant};

const NODES: usize = 3;
/// The mean of the error that NTP reported in one data centre (§5.2), in microseconds.
const ERROR_US: u64 = 14_730;
/// «Roughly the same size as a row» (§5.2).
const BYTES: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

pub async fn measure(bench: Bench) -> Result<Figure, String> {
    let (runs, threads, window) =
        bench.pick((3, THREADS, Duration::from_secs(10)), (1, 2, Duration::from_secs(1)));
    bench.say(&format!("{NODES} nodes start"));
    let bound = format!("{ERROR_US}us");
    let flags = |_: usize, _: &[String]| vec!["--clock-bound".to_owned(), bound.clone()];
    let cluster = Cluster::start(NODES, flags).await?;
    cluster.sql(0, "CREATE DATABASE ycsb PROTOCOL = hybrid_time").await?;
    let urls: Vec<String> = cluster.urls(0..NODES)?.iter().map(|url| of_ycsb(url)).collect();
    within(PATIENCE, "the table on all nodes", create(&urls)).await?;
    let (mut all, mut failures, mut others) = (Vec::new(), Failures::default(), Vec::new());
    let processes = || cluster.processes().chain([std::process::id()]);
    for number in 0..runs {
        bench.say(&format!("run {} of {runs}", number + 1));
        let mut clients = Vec::new();
        for (place, mode) in MODES.into_iter().enumerate() {
            let groups = (number * MODES.len() + place) as i64;
            let (inserts, updates) = MIX;
            let rows = Rows {
                setting: format!("SET meridian.consistency = '{mode}'"),
                inserts,
                updates,
                bytes: BYTES,
                first: groups * THREADS as i64 * Rows::EACH,
            };
            clients.push(Sessions::open(&urls, threads, &Work::Rows(rows)).await?);
        }
        let (began, cpu, waited) = (Instant::now(), Cpu::of(processes()), waited(&cluster).await?);
        let load = Load { every: None, lasts: window };
        let outcomes = futures::future::join_all(clients.into_iter().map(|one| one.drive(load)));
        let outcomes = outcomes.await;
        let (after, seconds) = (Cpu::of(processes()), began.elapsed().as_secs_f64());
        others.push((after.machine - cpu.machine - (after.own - cpu.own)).max(0.0) / seconds);
        let waited_ns = ((self::waited(&cluster).await? - waited) * 1e9) as u64;
        outcomes.iter().for_each(|outcome| failures.add(&outcome.failures));
        all.push(run(&outcomes, waited_ns, window)?);
    }
    let busiest = others.iter().copied().fold(0.0, f64::max);
    let notes = vec![
        world(&format!("{NODES} nodes")),
        format!(
            "{threads} sessions in each mode, over all nodes, on one group of three replicas; rows of 1 KB; the system clock's bound is set to the paper's mean, {:.2} ms, and does not change; \
             {runs} × {} s. An insert looks for an earlier row, an update reads the old one. The waiting is what the nodes count in meridian_commit_wait_seconds.",
            ERROR_US as f64 / 1e3,
            window.as_secs_f64()
        ),
        format!(
            "Everything else on the machine used up to {busiest:.2} cores during a run. That slows none and hybrid, whose latency is work, and hardly commit_wait, whose latency is waiting: on a busy \
             machine the ratio is too small."
        ),
        failures.told(),
    ];
    Ok(figure(&all, notes))
}

/// Returns the URL of the measured database on the node of this URL.
fn of_ycsb(url: &str) -> String {
    url.rsplit_once('/').map_or_else(|| url.to_owned(), |(node, _)| format!("{node}/ycsb"))
}

/// Creates the table, and waits until all nodes have it.
async fn create(urls: &[String]) -> Result<(), String> {
    let explain = |error: tokio_postgres::Error| connect::explain(&error);
    let table = "CREATE TABLE IF NOT EXISTS rows (id bigint PRIMARY KEY, v text NOT NULL)";
    for url in urls {
        let ask = async || {
            let client = connect::open(url).await?;
            client.batch_execute(table).await.map_err(explain)?;
            client.batch_execute("SELECT v FROM rows WHERE id = 0").await.map_err(explain)
        };
        // A node learns of the new database, and of its leader, within a second.
        while ask().await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Returns the seconds for which all commits on all nodes have waited for clocks so far.
async fn waited(cluster: &Cluster) -> Result<f64, String> {
    let mut all = 0.0;
    for at in 0..NODES {
        all += cluster.metric(at, "meridian_commit_wait_seconds_sum").await?;
    }
    Ok(all)
}

/// Returns the measurements of a run. Writes in mode commit_wait alone wait. The parts of their
/// latencies are not measured one by one.
fn run(outcomes: &[Outcome], waited_ns: u64, window: Duration) -> Result<Run, String> {
    let mut writes = Vec::new();
    for (consistency, outcome) in MODES.into_iter().zip(outcomes) {
        outcome.took_ns()?;
        writes.extend(outcome.answers.iter().map(|(at, took)| Commit {
            consistency,
            writes: true,
            ended_ns: nanos(*at),
            took_ns: nanos(*took),
            timestamp_ns: 0,
            commit_ns: 0,
            waited_ns: 0,
        }));
    }
    let waited_ns = MODES.map(|mode| if mode == Consistency::CommitWait { waited_ns } else { 0 });
    let errors_ns = vec![(0, ERROR_US * 1_000)];
    let failed = outcomes.iter().map(|outcome| outcome.failures.count()).sum();
    Ok(Run { writes, waited_ns, errors_ns, window_ns: nanos(window), failed })
}
