//! Clients of the wire protocol: transactions over lists, and their outcomes.

use super::bank;
use super::cluster::Addresses;
use super::order::{Asked, Order, Session, Token};
use meridian_history::{Op, Status, Transaction, Value};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage, SimpleQueryRow};

/// The time limit for a response.
const PATIENCE: Duration = Duration::from_secs(20);
/// The approximate number of appends to a list before another list takes its turn.
const LONG: i64 = 60;
/// The number of lists in use at a time.
const LISTS: i64 = 5;

/// The state that all clients share.
pub struct Board {
    /// The SQL addresses of the nodes.
    pub addresses: Addresses,
    /// The order that transactions ask for.
    pub order: Order,
    /// The start of the run, from which times are counted.
    pub began: Instant,
    /// The transactions so far.
    pub history: Mutex<Vec<Transaction>>,
    /// The number of transactions that each client has committed.
    pub committed: Vec<AtomicU64>,
    /// The newest element.
    pub next: AtomicI64,
    /// The number of sums that were read.
    pub sums: AtomicU64,
    /// The first sum that was wrong.
    pub wrong: Mutex<Option<String>>,
    /// True when clients begin no more transactions.
    pub closed: AtomicBool,
}

/// The database of the run.
pub const DATABASE: &str = "torture";
/// The probability that a transaction moves money, and that it adds up all accounts.
const TRANSFERS: f64 = 0.1;
const SUMS: f64 = 0.03;

/// The prefixes of the keys of lists.
const HALVES: [&str; 2] = ["l", "m"];
/// The statement that splits the table before the run.
pub const SPLIT: &str = "ALTER TABLE torture SPLIT AT VALUES ('m')";

enum Step {
    Read(String),
    Append(String, i64),
    Scan(String, String),
}

/// The outcome of a failed transaction: it did not happen, or that is unknown.
enum Wrong {
    Failed,
    Unknown,
}

fn plan(rng: &mut ChaCha8Rng, board: &Board) -> (Vec<Step>, bool) {
    let age = board.next.load(Relaxed) / (LONG * LISTS);
    // In two halves, which are two shards: most transactions of several steps commit in two phases.
    let key = |rng: &mut ChaCha8Rng| {
        let list = rng.random_range(0..LISTS);
        format!("{}{age:05}.{list}", HALVES[usize::from(list * 2 >= LISTS)])
    };
    let several = rng.random_range(1..5);
    let mut steps = Vec::new();
    for _ in 0..several {
        steps.push(match rng.random_range(0..10) {
            0..5 => Step::Append(key(rng), board.next.fetch_add(1, Relaxed) + 1),
            5..9 => Step::Read(key(rng)),
            _ => {
                let half = HALVES[rng.random_range(0..2)];
                Step::Scan(format!("{half}{age:05}"), format!("{half}{:05}", age + 1))
            }
        });
    }
    let alone = steps.len() == 1;
    (steps, alone)
}

fn list(row: &SimpleQueryRow, at: usize) -> Value {
    let text = row.get(at).unwrap_or_default();
    Value::List(text.split_whitespace().filter_map(|number| number.parse().ok()).collect())
}

/// Runs a statement, and returns its rows. The error is none if there was no response in time.
pub async fn ask(client: &Client, statement: &str) -> Result<Vec<SimpleQueryRow>, Option<Error>> {
    let answered = timeout(PATIENCE, client.simple_query(statement)).await.map_err(|_| None)?;
    let row = |message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None };
    Ok(answered.map_err(Some)?.into_iter().filter_map(row).collect())
}

/// True if a failure leaves the outcome open: there was no response, or the response says that it
/// is unknown.
fn unknown(error: &Option<Error>) -> bool {
    error.as_ref().and_then(Error::code).is_none_or(|code| code.code() == "40003")
}

async fn attempt(
    client: &Client,
    steps: &[Step],
    alone: bool,
    writes: bool,
) -> (Vec<Op>, Result<(), Wrong>) {
    let mut ops = Vec::new();
    let mut run = async || -> Result<(), (bool, Option<Error>)> {
        if !alone {
            let begin = if writes { "BEGIN" } else { "BEGIN READ ONLY" };
            ask(client, begin).await.map_err(|error| (false, error))?;
        }
        for step in steps {
            let before = |error| (alone && writes, error);
            match step {
                Step::Read(key) => {
                    let rows = ask(client, &format!("SELECT v FROM torture WHERE k = '{key}'"))
                        .await
                        .map_err(before)?;
                    ops.push(Op::Read(
                        key.clone(),
                        rows.first().map_or(Value::Nothing, |row| list(row, 0)),
                    ));
                }
                Step::Append(key, element) => {
                    ops.push(Op::Append(key.clone(), *element));
                    let append = format!(
                        "INSERT INTO torture VALUES ('{key}', ' {element}') ON CONFLICT (k) DO UPDATE SET v = torture.v || ' {element}' RETURNING v"
                    );
                    let rows = ask(client, &append).await.map_err(before)?;
                    ops.push(Op::Read(
                        key.clone(),
                        rows.first().map_or(Value::Nothing, |row| list(row, 0)),
                    ));
                }
                Step::Scan(low, high) => {
                    let mut query = String::new();
                    let _ = write!(
                        query,
                        "SELECT k, v FROM torture WHERE k >= '{low}' AND k < '{high}' ORDER BY k"
                    );
                    let rows = ask(client, &query).await.map_err(before)?;
                    let row = |row: &SimpleQueryRow| {
                        (row.get(0).unwrap_or_default().to_owned(), list(row, 1))
                    };
                    ops.push(Op::Scan(low.clone(), high.clone(), rows.iter().map(row).collect()));
                }
            }
        }
        if !alone {
            ask(client, "COMMIT").await.map_err(|error| (true, error))?;
        }
        Ok(())
    };
    let ended = run().await.map_err(|(deciding, error)| match deciding && unknown(&error) {
        true => Wrong::Unknown,
        false => Wrong::Failed,
    });
    (ops, ended)
}

/// Connects to a database through a node, if it runs and responds.
pub async fn connect(address: SocketAddr, database: &str) -> Option<Client> {
    let settings = format!(
        "host={} port={} user=root dbname={database} connect_timeout=2",
        address.ip(),
        address.port()
    );
    let (client, connection) =
        timeout(Duration::from_secs(3), tokio_postgres::connect(&settings, NoTls))
            .await
            .ok()?
            .ok()?;
    tokio::spawn(async move { drop(connection.await) });
    Some(client)
}

/// A client: one transaction after the other, on a connection to any node.
struct Worker {
    board: Arc<Board>,
    number: usize,
    rng: ChaCha8Rng,
    /// The last token that it knows, which it carries to its next connection.
    token: Option<Token>,
}

/// Runs one transaction after the other until the board is closed.
pub async fn work(board: Arc<Board>, number: usize, seed: u64) {
    let rng = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64));
    let mut worker = Worker { board, number, rng, token: None };
    let mut connected: Option<(Client, Session)> = None;
    while !worker.board.closed.load(Relaxed) {
        let keeps =
            |client: &Client, rng: &mut ChaCha8Rng| !client.is_closed() && !rng.random_bool(0.01);
        let Some((client, mut session)) =
            connected.take().filter(|(client, _)| keeps(client, &mut worker.rng))
        else {
            connected = worker.connect().await;
            if connected.is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            continue;
        };
        if worker.step(&client, &mut session).await || ask(&client, "ROLLBACK").await.is_ok() {
            connected = Some((client, session));
        }
        let pause = worker.rng.random_range(0..10);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

impl Worker {
    async fn connect(&mut self) -> Option<(Client, Session)> {
        let addresses: Vec<SocketAddr> = {
            let addresses = self.board.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            addresses.iter().flatten().copied().collect()
        };
        let at = self.rng.random_range(0..addresses.len().max(1));
        let client = connect(*addresses.get(at)?, DATABASE).await?;
        let mut session = Session::default();
        if let Some(token) = &self.token {
            session.take(&client, &self.board.order, token).await.ok()?;
        }
        Some((client, session))
    }

    /// Runs a transaction. Returns true if it committed.
    async fn step(&mut self, client: &Client, session: &mut Session) -> bool {
        let board = Arc::clone(&self.board);
        match self.rng.random_range(0.0..1.0) {
            draw if draw < SUMS => return self.add_up(client, session).await,
            draw if draw < SUMS + TRANSFERS => {
                let asked = session.ask_for_order(client, &board.order, false, &mut self.rng).await;
                return asked.is_ok() && bank::transfer(client, &mut self.rng).await.is_ok();
            }
            _ => {}
        }
        let (steps, alone) = plan(&mut self.rng, &board);
        let writes = steps.iter().any(|step| matches!(step, Step::Append(..)));
        let asked = session.ask_for_order(client, &board.order, !writes, &mut self.rng).await;
        let Ok(asked) = asked else { return false };
        let now = || u64::try_from(board.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let start = now();
        let (ops, ended) = attempt(client, &steps, alone, writes).await;
        let end = now();
        let status = match ended {
            Ok(()) => Status::Ok,
            Err(Wrong::Failed) => Status::Fail,
            // A transaction that only read has no effect that would reveal its outcome.
            Err(Wrong::Unknown) if !writes => Status::Fail,
            Err(Wrong::Unknown) => Status::Info,
        };
        let name = (self.number as u64, start);
        if !ops.is_empty() {
            let Asked { follows, external, snapshot_age_ns, .. } = asked.clone();
            let observed = Transaction::new(self.number as u64, (start, end), status, ops);
            let done = Transaction { follows, external, snapshot_age_ns, ..observed };
            board.history.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        }
        if status != Status::Ok {
            return false;
        }
        board.committed[self.number].fetch_add(1, Relaxed);
        match session.add(client, &board.order, &asked, (name, writes), &mut self.rng).await {
            Ok(token) => self.token = token.or(self.token.take()),
            Err(_) => return false,
        }
        true
    }

    /// Adds up all accounts in one snapshot.
    async fn add_up(&mut self, client: &Client, session: &mut Session) -> bool {
        let order = &self.board.order;
        if session.ask_for_order(client, order, true, &mut self.rng).await.is_err() {
            return false;
        }
        let Ok(wrong) = bank::check(client).await else { return false };
        self.board.sums.fetch_add(1, Relaxed);
        if let Some(wrong) = wrong {
            let mut first = self.board.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(wrong);
        }
        true
    }
}
