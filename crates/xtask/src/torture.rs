//! `cargo xtask torture --protocol NAME`: kills, stops, cuts off and slows down nodes that are real
//! processes, shifts their clocks, and fills their disks, while clients use SQL over the wire; the
//! clients' history is judged.
//!
//! ```text
//! client ──(PostgreSQL's protocol)──▶ node ──▶ proxy ──▶ node        the faults are drawn from a
//! seed; their effects are not reproducible
//! ```
//!
//! Each node reads the system clock, moved by an offset of its own. Within the bound that the node
//! claims, all guarantees hold. Beyond it (`--lies`) those in real time do not.
//!
//! At the end all faults are repaired, and each client must make progress. A node that ends by
//! itself is a failure, too.

mod bank;
mod clients;
mod cluster;
mod faults;
mod order;
mod proxy;

use clap::Args;
use clients::Board;
use cluster::{Cluster, Timebase};
use meridian_history::cycles::{self, Model};
use meridian_history::{Status, Transaction, write};
use meridian_sim::SimulatedProtocol;
use meridian_sim::protocols;
use meridian_systems::Protocol;
use meridian_txn::{Consistency, SnapshotAge};
use order::Order;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// The protocol of the database.
    #[arg(long, default_value = protocols::DEFAULT.row.name, value_parser = crate::defects::protocol)]
    protocol: &'static SimulatedProtocol,
    /// The consistency modes that transactions choose from; all that the protocol has if not given.
    #[arg(long, value_delimiter = ',', value_parser = mode)]
    modes: Vec<Consistency>,
    /// The duration in minutes.
    #[arg(long, default_value_t = 30.0)]
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
    /// The error that each node's clock claims, in milliseconds. The clocks are shifted within it.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=500))]
    clock_error: u64,
    /// Clocks are also shifted beyond the error that they claim: any clock; with --time-masters
    /// that of one node.
    #[arg(long)]
    lies: bool,
    /// The nodes poll each other as time masters, so that one wrong clock is found out.
    #[arg(long, conflicts_with = "cluster_time")]
    time_masters: bool,
    /// The nodes trust no clock, and poll each other for the time. No clock is shifted then.
    #[arg(long, conflicts_with = "lies")]
    cluster_time: bool,
    /// Use TLS between the nodes. There are no network faults then.
    #[arg(long)]
    tls: bool,
    /// The program; built if not given.
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl Options {
    fn timebase(&self) -> Timebase {
        let error_ns = self.clock_error * 1_000_000;
        match (self.cluster_time, self.time_masters) {
            (true, _) => Timebase::Cluster,
            (false, true) => Timebase::Masters(error_ns),
            (false, false) => Timebase::Own(error_ns),
        }
    }

    /// True if clocks keep their bounds, or a majority finds out those that do not.
    fn clocks_hold(&self) -> bool {
        !self.lies || self.time_masters
    }

    fn modes(&self) -> Result<Vec<Consistency>, String> {
        let row = self.protocol.row;
        if row.isolation.is_none() {
            return Err(format!("{} has no transactions that could be judged", row.name));
        }
        match self.modes.iter().find(|mode| !row.consistency.contains(mode)) {
            Some(mode) => Err(format!("{} has no mode {mode}", row.name)),
            None if self.modes.is_empty() => Ok(row.consistency.to_vec()),
            None => Ok(self.modes.clone()),
        }
    }
}

/// Returns the model that a protocol's history must satisfy if its transactions used these modes.
fn model(protocol: &Protocol, modes: &[Consistency], clocks_hold: bool) -> Model {
    match modes {
        _ if protocol.certifies() => Model::SnapshotIsolation,
        [Consistency::CommitWait] if clocks_hold => Model::StrictSerializable,
        // Wrong clocks cost the order in real time, not that of tokens.
        [_, _, ..] | [Consistency::Hybrid] => Model::Causal,
        _ => Model::Serializable,
    }
}

fn mode(name: &str) -> Result<Consistency, String> {
    let known = || Consistency::ALL.map(Consistency::name).join(", ");
    Consistency::named(name)
        .ok_or_else(|| format!("no mode is called {name}; there are {}", known()))
}

/// The time after the last fault within which each client must commit again.
const LIVENESS: Duration = Duration::from_secs(60);

/// Runs the command.
pub fn run(options: &Options) -> Result<(), String> {
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => crate::server::build()?,
    };
    let folder = tempfile::Builder::new().prefix("meridian-torture-").tempdir();
    let folder = folder.map_err(|error| error.to_string())?.keep();
    let verdict = tortured(options, &binary, &folder);
    if verdict.is_ok() {
        for at in 0..options.nodes {
            let _ = std::fs::remove_dir_all(folder.join(format!("node{at}")));
        }
    }
    let history = folder.join("history.jsonl");
    if history.exists() {
        println!("history       {}", history.display());
    }
    verdict
        .map_err(|why| format!("{why}\nthe nodes' data and output are in {} too", folder.display()))
}

/// Creates the database and its tables, each in two shards if the protocol splits.
async fn create(board: &Board, options: &Options) -> Result<(), String> {
    let address = board.addresses.lock().unwrap_or_else(PoisonError::into_inner)[0];
    let address = address.ok_or("the first node has no address")?;
    let connect = async |database: &str| {
        let client = clients::connect(address, database).await;
        client.ok_or_else(|| format!("the first node does not respond in database {database}"))
    };
    let text = |error: Option<tokio_postgres::Error>| {
        error.map_or_else(|| "no response in time".to_owned(), |error| format!("{error:?}"))
    };
    let admin = connect("meridian").await?;
    let row = options.protocol.row;
    let database = format!("CREATE DATABASE {} PROTOCOL = \"{}\"", clients::DATABASE, row.name);
    clients::ask(&admin, &database).await.map_err(text)?;
    let client = connect(clients::DATABASE).await?;
    let table = "CREATE TABLE torture (k text PRIMARY KEY, v text NOT NULL)";
    clients::ask(&client, table).await.map_err(text)?;
    bank::create(&client).await.map_err(text)?;
    if row.has_leaders() {
        for split in [clients::SPLIT, bank::SPLIT] {
            clients::ask(&client, split).await.map_err(text)?;
        }
    }
    Ok(())
}

fn tortured(options: &Options, binary: &Path, folder: &Path) -> Result<(), String> {
    let modes = options.modes()?;
    let model = model(options.protocol.row, &modes, options.clocks_hold());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut cluster = Cluster::start(binary, folder, options)?;
    let board = Arc::new(Board {
        addresses: Arc::clone(&cluster.addresses),
        order: Order::new(options.protocol.row, modes, options.clocks_hold()),
        began: Instant::now(),
        history: Default::default(),
        committed: (0..options.clients).map(|_| Default::default()).collect(),
        next: Default::default(),
        sums: Default::default(),
        wrong: Default::default(),
        closed: Default::default(),
    });
    runtime.block_on(create(&board, options))?;
    if board.order.has_ages {
        std::thread::sleep(SnapshotAge::LONGEST_AUTO); // Older snapshots have the tables.
    }
    let workers: Vec<_> = (0..options.clients)
        .map(|number| runtime.spawn(clients::work(Arc::clone(&board), number, options.seed)))
        .collect();
    let applied = faults::apply(&mut cluster, options, &board);
    let repaired = applied.and_then(|applied| cluster.heal().map(|()| applied));
    let counts =
        || -> Vec<u64> { board.committed.iter().map(|count| count.load(Relaxed)).collect() };
    let (before, end) = (counts(), Instant::now() + LIVENESS);
    let got_on = || counts().iter().zip(&before).all(|(now, before)| *now >= before + 3);
    while repaired.is_ok() && !got_on() && Instant::now() < end {
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
    let path = folder.join("history.jsonl");
    let file = std::fs::File::create(&path).map_err(|error| error.to_string())?;
    write(&history, std::io::BufWriter::new(file)).map_err(|error| error.to_string())?;
    let applied = repaired?;
    if alive {
        runtime.block_on(add_up(&board))?;
    }
    tell(options, &history, &applied, &board);
    judge(&history, model)?;
    if let Some(wrong) = board.wrong.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(format!("money appeared or vanished: {wrong}"));
    }
    if options.clocks_hold() && board.order.refused.load(Relaxed) > 0 {
        return Err(
            "a token was refused as too far ahead, though all clocks kept their error".into()
        );
    }
    if !alive {
        return Err(format!(
            "a client did not commit within {} s after the last fault",
            LIVENESS.as_secs()
        ));
    }
    println!("verdict       {}, sums are right, all clients made progress", name(model));
    Ok(())
}

/// Checks the sum at each node after the run.
async fn add_up(board: &Board) -> Result<(), String> {
    let addresses = board.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (at, address) in addresses.into_iter().enumerate() {
        let silent = || format!("node {} does not respond after the run", at + 1);
        let address = address.ok_or_else(silent)?;
        let client = clients::connect(address, clients::DATABASE).await.ok_or_else(silent)?;
        let wrong = bank::check(&client).await.map_err(|why| format!("{}: {why:?}", silent()))?;
        if let Some(wrong) = wrong {
            return Err(format!("money appeared or vanished, by node {}: {wrong}", at + 1));
        }
        board.sums.fetch_add(1, Relaxed);
    }
    Ok(())
}

fn name(model: Model) -> &'static str {
    match model {
        Model::StrictSerializable => "strictly serializable",
        Model::Causal => "serializable, in the order of causal tokens and of external consistency",
        Model::SnapshotIsolation => {
            "snapshot isolation, in the order of causal tokens and of external consistency"
        }
        _ => "serializable",
    }
}

fn judge(history: &[Transaction], model: Model) -> Result<(), String> {
    let committed = history.iter().filter(|transaction| transaction.status == Status::Ok).count();
    if committed < 100 {
        return Err("hardly anything was committed: nothing was tested".into());
    }
    let began = Instant::now();
    cycles::judge(history, model).map_err(|why| format!("not {}: {why}", name(model)))?;
    println!("judged        by cycles, in {:.1} s", began.elapsed().as_secs_f64());
    if model != Model::StrictSerializable {
        // Shows whether the run could tell the models apart.
        let also = cycles::judge(history, Model::StrictSerializable).is_ok();
        let also = if also { "also strictly serializable" } else { "not strictly serializable" };
        println!("              this history is {also}, which is not promised");
    }
    Ok(())
}

fn tell(
    options: &Options,
    history: &[Transaction],
    applied: &BTreeMap<&'static str, u64>,
    board: &Board,
) {
    let count = |status| history.iter().filter(|transaction| transaction.status == status).count();
    let [ok, failed, unknown] = [Status::Ok, Status::Fail, Status::Info].map(count);
    let modes: Vec<&str> = board.order.modes.iter().map(|mode| mode.name()).collect();
    println!("protocol      {}, modes {}", options.protocol.row.name, modes.join(", "));
    println!(
        "transactions  {ok} ok, {failed} failed, {unknown} unknown, in {:.0} s",
        board.began.elapsed().as_secs_f64()
    );
    let handed = |transaction: &&Transaction| {
        transaction.follows.iter().any(|(client, _)| *client != transaction.client)
    };
    let (handed, external) = (
        history.iter().filter(handed).count(),
        history.iter().filter(|transaction| transaction.external).count(),
    );
    if board.order.is_chosen {
        let refused = board.order.refused.load(Relaxed);
        println!(
            "              {handed} with another client's token, {external} external; {refused} tokens refused"
        );
    }
    println!("sums          {} were read", board.sums.load(Relaxed));
    for (what, times) in applied {
        println!("              {times:>6} × {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Consistency::{CommitWait, Hybrid};
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn of(line: &str) -> Result<(Vec<Consistency>, Model), String> {
        let words = std::iter::once("torture").chain(line.split_whitespace());
        let options = Line::try_parse_from(words).map_err(|error| error.to_string())?.options;
        let modes = options.modes()?;
        let model = model(options.protocol.row, &modes, options.clocks_hold());
        Ok((modes, model))
    }

    #[test]
    fn a_history_is_held_to_what_its_protocol_and_clocks_promise() {
        let strict = Ok((vec![CommitWait], Model::StrictSerializable));
        assert_eq!(of("--protocol spanner"), strict);
        assert_eq!(of("--protocol tapir --time-masters --lies"), strict);
        assert_eq!(of("--protocol hybrid_time --modes commit_wait"), strict);
        let every = vec![Hybrid, CommitWait, Consistency::None];
        assert_eq!(of("--protocol hybrid_time"), Ok((every.clone(), Model::Causal)));
        assert_eq!(of("--protocol hybrid_time --lies"), Ok((every, Model::Causal)));
        assert_eq!(of("--protocol hybrid_time --modes hybrid"), Ok((vec![Hybrid], Model::Causal)));
        assert_eq!(
            of("--protocol spanner --lies").map(|(_, model)| model),
            Ok(Model::Serializable)
        );
        let none = (vec![Consistency::None], Model::Serializable);
        assert_eq!(of("--protocol tapir-serializable"), Ok(none));
        let snapshots = Ok((vec![Hybrid, CommitWait], Model::SnapshotIsolation));
        assert_eq!(of("--protocol clock_si"), snapshots);
        assert_eq!(of("--protocol clock_si --lies"), snapshots);
        let one = Ok((vec![Hybrid], Model::SnapshotIsolation));
        assert_eq!(of("--protocol conventional_si"), one);
        for (wrong, reason) in [
            ("--protocol qwstore", "no transactions"),
            ("--protocol spanner --modes hybrid", "no mode hybrid"),
            ("--protocol chubby", "no protocol is called chubby"),
            ("--cluster-time --lies", "cannot be used with"),
        ] {
            let error = of(wrong).expect_err(wrong);
            assert!(error.contains(reason), "{error}");
        }
    }
}
