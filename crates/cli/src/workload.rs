//! `meridian workload`: transactions between rows, and a check that the server kept its promise.
//!
//! A throughput figure says nothing when the results are wrong. So each workload has an invariant
//! that every serializable execution keeps, and `check` tests it. **bank** moves money between
//! accounts, and the total never changes. **tpcb** is pgbench's transaction on pgbench's tables:
//! the deltas in the history equal the sum of the balances of accounts, tellers and branches.
//! **tpcc** is the benchmark TPC-C, with its consistency conditions ([`tpcc`]). All use standard
//! SQL and run against any compatible server.
//!
//! Transactions are counted by their outcome. *ok*: COMMIT was acknowledged, or the workload itself
//! rolled back, as TPC-C does with an order in a hundred. *retried*: the server aborted the
//! transaction for a conflict (40001, 40P01), and the client retried it. *failed*: it definitely
//! did not happen. *unknown*: the connection was lost, or the server responded with 40003, after
//! COMMIT was sent. A lost connection is opened again until the duration is over.
//!
//! **micro** and **retwis** are the TAPIR paper's, and **ycsb-t** the K2 paper's: below SQL, on
//! replicas that they start themselves, to compare protocols ([`keys`]).

mod bank;
pub mod connect;
pub mod cpu;
mod drive;
mod keys;
mod report;
mod tpcb;
mod tpcc;

use clap::Subcommand;
use std::process::ExitCode;
use tokio_postgres::Client;

/// The workloads that speak SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Transfers between accounts; their total never changes.
    Bank {
        /// True if balances are read without FOR UPDATE.
        plain_reads: bool,
    },
    /// pgbench's TPC-B on pgbench's tables.
    Tpcb,
    /// TPC-C on its nine tables.
    Tpcc,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Bank { .. } => "bank",
            Kind::Tpcb => "tpcb",
            Kind::Tpcc => "tpcc",
        }
    }
}

/// `meridian workload WHICH …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Transfers between accounts; their total never changes.
    #[command(subcommand)]
    Bank(Verb),
    /// pgbench's TPC-B on pgbench's tables.
    #[command(subcommand)]
    Tpcb(Verb),
    /// TPC-C: five transactions of a wholesale supplier, without thinking time.
    #[command(subcommand)]
    Tpcc(Verb),
    /// Two operations per transaction, half of them writes, on uniformly drawn keys: on replicas of
    /// its own, below SQL.
    Micro(keys::Options),
    /// A small Twitter: on replicas of its own, below SQL.
    Retwis(keys::Options),
    /// Three operations per transaction, half of them writes, on keys drawn by Zipf's law: on
    /// replicas of its own, below SQL.
    YcsbT {
        /// The exponent of Zipf's law, from 0 to 3: 0 draws keys uniformly; at 0.99 ten of 100 000
        /// keys are in about half of the transactions.
        #[arg(long, default_value_t = 0.8, value_parser = zipf)]
        zipf: f64,
        /// The share of writes among the operations, from 0 to 1.
        #[arg(long, default_value_t = 0.5, value_parser = share)]
        writes: f64,
        #[command(flatten)]
        options: keys::Options,
    },
    /// A replica that these start.
    #[command(hide = true)]
    Replica(keys::Replica),
}

/// `VERB URL`
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Create the tables and fill them; existing tables of these names are replaced.
    Init {
        /// The server, for example postgresql://root@127.0.0.1:5544/meridian
        url: String,
        /// Size: 1000 accounts (bank), 100 000 accounts (tpcb), or a warehouse with 600 000 rows
        /// (tpcc), each.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        scale: u32,
    },
    /// Run transactions and print throughput and latency.
    Run {
        /// The server.
        url: String,
        /// The number of concurrent connections.
        #[arg(long, short, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        clients: u32,
        /// The duration of the run, in seconds.
        #[arg(long, short, default_value_t = 10.0)]
        duration: f64,
        /// Read balances without FOR UPDATE (bank).
        #[arg(long)]
        plain_reads: bool,
    },
    /// Check that the sums hold.
    Check {
        /// The server.
        url: String,
    },
}

fn within(text: &str, name: &str, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("{name} is a number from 0 to {most}"))
}

fn zipf(text: &str) -> Result<f64, String> {
    within(text, "the exponent", 3.0)
}

fn share(text: &str) -> Result<f64, String> {
    within(text, "the share", 1.0)
}

/// Runs the command.
pub async fn run(command: Command) -> ExitCode {
    let done = match command {
        Command::Bank(verb) => run_verb(Kind::Bank { plain_reads: false }, verb).await,
        Command::Tpcb(verb) => run_verb(Kind::Tpcb, verb).await,
        Command::Tpcc(verb) => run_verb(Kind::Tpcc, verb).await,
        Command::Micro(options) => keys::run(keys::Mix::Micro, &options).await,
        Command::Retwis(options) => keys::run(keys::Mix::Retwis, &options).await,
        Command::YcsbT { zipf, writes, options } => {
            keys::run(keys::Mix::YcsbT { zipf, writes }, &options).await
        }
        Command::Replica(replica) => replica.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("meridian: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn run_verb(kind: Kind, verb: Verb) -> Result<(), String> {
    match verb {
        Verb::Init { url, scale } => init(kind, &url, scale).await,
        Verb::Run { plain_reads: true, .. } if !matches!(kind, Kind::Bank { .. }) => {
            Err("--plain-reads is for the workload bank".to_owned())
        }
        Verb::Run { url, clients, duration, plain_reads }
            if duration.is_finite() && duration > 0.0 =>
        {
            let kind = if plain_reads { Kind::Bank { plain_reads } } else { kind };
            drive::run(kind, &url, clients, duration).await
        }
        Verb::Run { .. } => Err("--duration must be a positive number of seconds".to_owned()),
        Verb::Check { url } => check(kind, &url).await,
    }
}

async fn init(kind: Kind, url: &str, scale: u32) -> Result<(), String> {
    let client = connect::open(url).await?;
    let explained =
        |done: Result<(), tokio_postgres::Error>| done.map_err(|error| connect::explain(&error));
    match kind {
        Kind::Bank { .. } => explained(bank::init(&client, scale).await),
        Kind::Tpcb => explained(tpcb::init(&client, scale).await),
        Kind::Tpcc => tpcc::init(&client, scale).await,
    }
    .map_err(|error| format!("workload {} init: {error}", kind.name()))
}

async fn check(kind: Kind, url: &str) -> Result<(), String> {
    let client = connect::open(url).await?;
    match kind {
        Kind::Bank { .. } => bank::check(&client).await,
        Kind::Tpcb => tpcb::check(&client).await,
        Kind::Tpcc => tpcc::check(&client).await,
    }
}

/// Runs a query that returns one row, and reads its columns as whole numbers; NULL, the sum of
/// nothing, is 0.
async fn numbers(client: &Client, sql: &str) -> Result<Vec<i128>, String> {
    let answers = client.simple_query(sql).await.map_err(|error| connect::explain(&error))?;
    let row = answers.iter().find_map(|answer| match answer {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.ok_or_else(|| format!("no row came back from: {sql}"))?;
    (0..row.len())
        .map(|column| match row.get(column) {
            None => Ok(0),
            Some(text) => {
                text.parse().map_err(|_| format!("not a whole number: {text:?}, from: {sql}"))
            }
        })
        .collect()
}

/// Inserts `count` rows in statements of a thousand rows, with progress.
async fn fill(
    client: &Client,
    table: &str,
    count: u64,
    row: impl Fn(u64) -> String,
) -> Result<(), tokio_postgres::Error> {
    const ROWS_PER_STATEMENT: u64 = 1000;
    let progress = report::Filling::new(table, count);
    let mut next = 0;
    while next < count {
        let end = count.min(next + ROWS_PER_STATEMENT);
        let rows: Vec<String> = (next..end).map(&row).collect();
        client.batch_execute(&format!("INSERT INTO {table} VALUES {}", rows.join(","))).await?;
        next = end;
        progress.at(next);
    }
    progress.done();
    Ok(())
}
