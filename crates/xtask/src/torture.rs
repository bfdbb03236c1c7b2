//! `cargo xtask torture --minutes N`: kills, stops, cuts off and slows down nodes that are real
//! processes, and fills their disks, while clients use SQL over the wire; the clients' history is
//! judged.
//!
//! ```text
//!   client ──(PostgreSQL's protocol)──▶ node ──▶ proxy ──▶ node        the faults are drawn from a seed; their effects are not reproducible
//! ```
//!
//! At the end all faults are repaired, and each client must make progress. A node that ends by
//! itself is a failure, too.

mod clients;
mod cluster;
mod proxy;

use clap::Args;
use clients::Board;
use cluster::Cluster;
use meridian_history::cycles::{self, Model};
use meridian_history::{Status, Transaction, write};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The duration in minutes.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// The seed of the faults.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The number of nodes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=9))]
    nodes: u8,
    /// The number of clients.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// The nodes trust no clock, and poll each other for the time.
    #[arg(long)]
    cluster_time: bool,
    /// Use TLS between the nodes. There are no network faults then.
    #[arg(long)]
    tls: bool,
    /// The program; built if not given.
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// The time after the last fault within which each client must commit again.
const LIVENESS: Duration = Duration::from_secs(60);

/// Applies one fault after the other for a while, and returns the number of each.
fn torment(
    cluster: &mut Cluster,
    options: &Options,
    board: &Board,
) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let mut struck: BTreeMap<&'static str, u64> = BTreeMap::new();
    let end = board.began + Duration::from_secs_f64(60.0 * options.minutes);
    let wait = |ms: u64| {
        std::thread::sleep(
            Duration::from_millis(ms).min(end.saturating_duration_since(Instant::now())),
        )
    };
    while Instant::now() < end {
        let node = rng.random_range(0..cluster.len());
        let other = (node + rng.random_range(1..cluster.len())) % cluster.len();
        let for_ms = rng.random_range(50..4_000);
        let what = match rng.random_range(0..9) {
            0 | 1 => {
                cluster.end(node, false);
                wait(for_ms / 2);
                cluster.begin(node)?;
                "kill -9"
            }
            2 => {
                cluster.end(node, true);
                wait(for_ms / 2);
                cluster.begin(node)?;
                "end in order"
            }
            3 => {
                (0..cluster.len()).for_each(|node| cluster.end(node, false));
                wait(for_ms / 4);
                (0..cluster.len()).try_for_each(|node| cluster.begin(node))?;
                "kill -9 of all"
            }
            4 => {
                cluster.pause(node, true);
                wait(for_ms);
                cluster.pause(node, false);
                "stopped"
            }
            5 => {
                let links: Vec<(usize, usize)> = (0..cluster.len())
                    .filter(|b| *b != node)
                    .flat_map(|b| [(node, b), (b, node)])
                    .collect();
                links.iter().for_each(|(a, b)| cluster.link(*a, *b).cut(true));
                wait(for_ms);
                links.iter().for_each(|(a, b)| cluster.link(*a, *b).cut(false));
                "cut off"
            }
            6 => {
                cluster.link(node, other).cut(true);
                wait(for_ms);
                cluster.link(node, other).cut(false);
                "cut one way"
            }
            7 => {
                cluster.link(node, other).delay(for_ms / 20);
                wait(for_ms);
                cluster.link(node, other).delay(0);
                cluster.link(node, other).shut();
                "slow link, then broken"
            }
            _ => {
                cluster.fill(node, true);
                wait(for_ms);
                cluster.fill(node, false);
                "full disk"
            }
        };
        *struck.entry(what).or_default() += 1;
        if let Some((at, status)) = cluster.died() {
            return Err(format!(
                "node {} ended by itself ({status}), after: {what}; see node{at}.log",
                at + 1
            ));
        }
        let committed: u64 = board.committed.iter().map(|count| count.load(Relaxed)).sum();
        let left = end.saturating_duration_since(Instant::now()).as_secs();
        eprintln!("{left:>6} s left, {committed:>8} committed, node {}: {what}", node + 1);
        wait(rng.random_range(0..1_500));
    }
    Ok(struck)
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), String> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => crate::server::build(&["--no-default-features"])?,
    };
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let verdict = tortured(options, &binary, &folder);
    if verdict.is_err() {
        let kept = folder.keep();
        eprintln!(
            "kept: {} (history.jsonl, and for each node its data and its output)",
            kept.display()
        );
    }
    verdict
}

fn tortured(
    options: &Options,
    binary: &std::path::Path,
    folder: &tempfile::TempDir,
) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut cluster = Cluster::start(binary, folder.path(), options)?;
    let board = Arc::new(Board {
        doors: Arc::clone(&cluster.doors),
        began: Instant::now(),
        history: Default::default(),
        committed: (0..options.clients).map(|_| Default::default()).collect(),
        next: Default::default(),
        closed: Default::default(),
    });
    runtime.block_on(async {
        let door =
            board.doors.lock().unwrap_or_else(PoisonError::into_inner)[0].ok_or("no address")?;
        let client = clients::connect(door).await.ok_or("the first node does not respond")?;
        let made = client
            .batch_execute("CREATE TABLE torture (k text PRIMARY KEY, v text NOT NULL)")
            .await;
        made.map_err(|error| error.to_string())?;
        client.batch_execute(clients::SPLIT).await.map_err(|error| error.to_string())
    })?;
    let workers: Vec<_> = (0..options.clients)
        .map(|number| runtime.spawn(clients::work(Arc::clone(&board), number, options.seed)))
        .collect();
    let struck = torment(&mut cluster, options, &board);
    let healed = struck.and_then(|struck| cluster.heal().map(|()| struck));
    let counts =
        || -> Vec<u64> { board.committed.iter().map(|count| count.load(Relaxed)).collect() };
    let (before, end) = (counts(), Instant::now() + LIVENESS);
    let got_on = || counts().iter().zip(&before).all(|(now, before)| *now >= before + 3);
    while healed.is_ok() && !got_on() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(50));
    }
    let alive = got_on();
    board.closed.store(true, Relaxed);
    runtime.block_on(async {
        for worker in workers {
            let _ = worker.await;
        }
    });
    let history =
        std::mem::take(&mut *board.history.lock().unwrap_or_else(PoisonError::into_inner));
    let path = folder.path().join("history.jsonl");
    let file = std::fs::File::create(&path).map_err(|error| error.to_string())?;
    write(&history, std::io::BufWriter::new(file)).map_err(|error| error.to_string())?;
    let struck = healed?;
    tell(&history, &struck, board.began.elapsed());
    let starved =
        history.iter().filter(|transaction| transaction.status == Status::Ok).count() < 100;
    let began = Instant::now();
    cycles::judge(&history, Model::StrictSerializable)
        .map_err(|why| format!("not strictly serializable: {why}"))?;
    if !alive {
        return Err(format!(
            "a client did not commit within {} s after the last fault",
            LIVENESS.as_secs()
        ));
    }
    if starved {
        return Err("hardly anything was committed: nothing was tested".into());
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "verdict       strictly serializable, all clients made progress (judged in {seconds:.1} s)"
    );
    Ok(())
}

fn tell(history: &[Transaction], struck: &BTreeMap<&'static str, u64>, took: Duration) {
    let count = |status| history.iter().filter(|transaction| transaction.status == status).count();
    let [ok, failed, unknown] = [Status::Ok, Status::Fail, Status::Info].map(count);
    println!(
        "transactions  {ok} ok, {failed} failed, {unknown} unknown, in {:.0} s",
        took.as_secs_f64()
    );
    for (what, times) in struck {
        println!("              {times:>6} × {what}");
    }
}
