//! The TAPIR paper's workloads, and the K2 paper's YCSB-T, on replicas that are processes of this
//! program, with the clients in a process of their own.
//!
//! ```text
//!   this process: a node without a replica, closed-loop clients ──▶ loopback ──▶ processes, a replica each
//! ```
//!
//! This is the TAPIR paper's artifact at small scale: its clients are coordinators, and so are the
//! sessions of a node. Logs are kept in memory, unless `--durable` is given. The output lists
//! committed transactions, aborted attempts, latencies, and the CPU time of these processes and of
//! the rest of the machine.

mod mix;
mod replica;

pub use mix::Mix;
pub use replica::Replica;

use clap::Args;
use hdrhistogram::Histogram;
use meridian_clock::Timestamp;
use meridian_mvcc::Value;
use meridian_systems::Protocol;
use meridian_txn::{Begin, Consistency, Database, Mode, Outcome};
use mix::{Keys, Plan, Session, again};
use rand::SeedableRng;
use rand::rngs::StdRng;
use replica::Cluster;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The number of rows per transaction while keys are loaded.
const LOADED_AT_ONCE: usize = 500;
/// The time at the start that is not counted.
const WARM_UP: Duration = Duration::from_secs(2);

/// True for the baseline protocol of the comparison: the one without transactions.
fn is_compared_with(protocol: &Protocol) -> bool {
    !protocol.has_transactions()
}

fn protocol(name: &str) -> Result<&'static Protocol, String> {
    let known = || Protocol::ALL.map(|protocol| protocol.name).join(", ");
    Protocol::named(name)
        .ok_or_else(|| format!("no protocol is called {name}; there are {}", known()))
}

fn consistency(name: &str) -> Result<Consistency, String> {
    let known = || Consistency::ALL.map(Consistency::name).join(", ");
    Consistency::named(name)
        .ok_or_else(|| format!("no consistency mode is called {name}; there are {}", known()))
}

fn replicas(number: &str) -> Result<u32, String> {
    let replicas = number.parse().ok().filter(|replicas| [1, 3, 5, 7].contains(replicas));
    replicas.ok_or_else(|| "the number of replicas is 1, 3, 5 or 7".to_owned())
}

/// The options of `micro`, `retwis` and `ycsb-t`.
#[derive(Debug, Args)]
pub struct Options {
    /// The protocols, one after the other; qwstore runs first, if it is among them, as the baseline
    /// of the comparison.
    #[arg(long, value_parser = protocol, value_delimiter = ',', default_value = "qwstore,tapir,tapir-serializable,spanner")]
    protocol: Vec<&'static Protocol>,
    /// The number of concurrent clients.
    #[arg(long, short, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// The duration of each measurement, in seconds.
    #[arg(long, short, default_value_t = 10.0)]
    duration: f64,
    /// The number of keys.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    keys: u32,
    /// The number of replicas: 1, 3, 5 or 7.
    #[arg(long, default_value_t = 3, value_parser = replicas)]
    replicas: u32,
    /// The consistency mode of every transaction: none, hybrid or commit_wait. A database without
    /// it gives the next stronger one. By default, the default of each database.
    #[arg(long, value_parser = consistency)]
    consistency: Option<Consistency>,
    /// Keep the replicas' logs on disk, in a temporary folder, and sync them.
    #[arg(long)]
    durable: bool,
}

/// The measurements of one protocol.
struct Measured {
    committed: u64,
    /// The number of aborted attempts.
    aborted: u64,
    unknown: u64,
    seconds: f64,
    latency_us: Histogram<u64>,
    /// The CPU time of replicas and clients; `others_seconds` is that of all other processes.
    cpu_seconds: f64,
    others_seconds: f64,
}

/// Runs a workload under each protocol.
pub async fn run(mix: Mix, options: &Options) -> Result<(), String> {
    if !options.duration.is_finite() || options.duration <= 0.0 {
        return Err("--duration must be a positive number of seconds".to_owned());
    }
    let log = if options.durable { "logs on disk" } else { "logs in memory" };
    let mode = options.consistency.map_or("each database's default mode", Consistency::name);
    let name = mix.name();
    println!(
        "{name}: {} keys, {} clients in one process, replicas in one each ({}), {log}, {mode}, {} s",
        options.keys, options.clients, options.replicas, options.duration
    );
    println!(
        "{:<20} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>12} {:>8}",
        "protocol",
        "tx/s",
        "× qwstore",
        "aborted",
        "p50 ms",
        "p99 ms",
        "unknown",
        "CPU µs/tx",
        "others"
    );
    let mut protocols = options.protocol.clone();
    // The baseline comes first.
    protocols.sort_by_key(|protocol| !is_compared_with(protocol));
    let mut compared = None;
    for protocol in &protocols {
        let Measured {
            committed,
            aborted,
            unknown,
            seconds,
            latency_us,
            cpu_seconds,
            others_seconds,
        } = measure(mix, protocol, options).await?;
        let ms = |quantile| latency_us.value_at_quantile(quantile) as f64 / 1000.0;
        let each_second = committed as f64 / seconds;
        if is_compared_with(protocol) {
            compared = Some(each_second);
        }
        println!(
            "{:<20} {each_second:>9.0} {:>9} {:>8.1}% {:>8.2} {:>8.2} {unknown:>8} {:>12.0} {:>8.2}",
            protocol.name,
            ratio(each_second, compared),
            100.0 * aborted as f64 / (committed + aborted).max(1) as f64,
            ms(0.5),
            ms(0.99),
            cpu_seconds * 1e6 / committed.max(1) as f64,
            others_seconds / seconds,
        );
    }
    println!(
        "× qwstore: transactions/s, as a multiple of what a store without transactions did in this run"
    );
    println!("others: cores that the rest of the machine kept busy; aborted: attempts, of all");
    Ok(())
}

/// Returns the throughput as a multiple of the baseline's; a dash if that did not run, or committed
/// nothing.
fn ratio(each_second: f64, other: Option<f64>) -> String {
    other
        .filter(|other| *other > 0.0)
        .map_or_else(|| "–".to_owned(), |other| format!("{:.2}", each_second / other))
}

async fn measure(mix: Mix, protocol: &Protocol, options: &Options) -> Result<Measured, String> {
    let cluster = Cluster::start(options.replicas, options.durable).await?;
    let database = cluster.database(protocol).await?;
    let keys = Arc::new(Keys::of(mix, options.keys as usize));
    load(&*database, &keys).await?;
    let consistency = mode_of(&*database, options.consistency);
    let (over, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
    let clients: Vec<_> = (0..options.clients)
        .map(|client| {
            let (database, keys) = (Arc::clone(&database), Arc::clone(&keys));
            let (over, counts) = (Arc::clone(&over), Arc::clone(&counts));
            tokio::spawn(async move {
                let session = Session { consistency, token: Timestamp::ZERO };
                work(mix, &*database, &keys, u64::from(client), session, &over, &counts).await
            })
        })
        .collect();
    tokio::time::sleep(WARM_UP).await;
    counts.reset();
    let (began, before) = (Instant::now(), cluster.cpu());
    tokio::time::sleep(Duration::from_secs_f64(options.duration)).await;
    let (committed, aborted, unknown) = counts.read();
    let (seconds, after) = (began.elapsed().as_secs_f64(), cluster.cpu());
    over.store(true, Relaxed);
    let mut latency_us = histogram();
    for client in clients {
        let one = client.await.map_err(|error| format!("a client: {error}"))??;
        let _ = latency_us.add(one); // Both have the same bounds.
    }
    let cpu_seconds = after.own - before.own;
    let others_seconds = (after.machine - before.machine - cpu_seconds).max(0.0);
    Ok(Measured { committed, aborted, unknown, seconds, latency_us, cpu_seconds, others_seconds })
}

/// Returns the consistency mode of transactions: what was asked for, as the database has it, or its
/// default.
fn mode_of(database: &dyn Database, asked: Option<Consistency>) -> Consistency {
    let modes = database.consistency();
    let given = match asked {
        Some(asked) => asked.given(modes),
        None => modes.first().copied(),
    };
    given.unwrap_or(Consistency::CommitWait)
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("invariant: these bounds are valid")
}

async fn load(database: &dyn Database, keys: &Keys) -> Result<(), String> {
    let mut all = keys.all().peekable();
    while all.peek().is_some() {
        let some: Vec<_> = all.by_ref().take(LOADED_AT_ONCE).collect();
        loop {
            let begun = database.begin(Begin::new(Mode::ReadWrite)).await;
            let mut transaction = begun.map_err(|failure| format!("loading keys: {failure}"))?;
            for key in &some {
                let put = transaction.put(key.clone(), Some(Value::from(&key[..])));
                put.map_err(|failure| format!("loading keys: {failure}"))?;
            }
            match transaction.commit().await {
                Outcome::Committed { .. } => break,
                Outcome::Aborted { .. } => {}
                Outcome::Unknown => return Err("loading keys: too few replicas respond".to_owned()),
            }
        }
    }
    Ok(())
}

#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    aborted: AtomicU64,
    unknown: AtomicU64,
}

impl Counts {
    fn reset(&self) {
        [&self.committed, &self.aborted, &self.unknown]
            .iter()
            .for_each(|count| count.store(0, Relaxed));
    }

    fn read(&self) -> (u64, u64, u64) {
        (self.committed.load(Relaxed), self.aborted.load(Relaxed), self.unknown.load(Relaxed))
    }
}

/// Runs one client until the end: each transaction is retried until it commits, or its outcome is
/// unknown.
async fn work(
    mix: Mix,
    database: &dyn Database,
    keys: &Keys,
    seed: u64,
    mut session: Session,
    over: &AtomicBool,
    counts: &Counts,
) -> Result<Histogram<u64>, String> {
    let (mut random, mut latency_us) = (StdRng::seed_from_u64(seed), histogram());
    while !over.load(Relaxed) {
        let (plan, began, mut age) = (Plan::draw(mix, keys, &mut random), Instant::now(), None);
        loop {
            let outcome = plan.attempt(database, &mut session, &mut age).await;
            let outcome = outcome.map_err(|failure| failure.to_string())?;
            if again(&outcome) {
                counts.aborted.fetch_add(1, Relaxed);
                if over.load(Relaxed) {
                    break;
                }
                continue;
            }
            if let Outcome::Committed { .. } = outcome {
                counts.committed.fetch_add(1, Relaxed);
                latency_us.saturating_record(
                    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
                );
            } else {
                counts.unknown.fetch_add(1, Relaxed);
            }
            break;
        }
    }
    Ok(latency_us)
}
