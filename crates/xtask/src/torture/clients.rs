//! Clients of the wire protocol: transactions over lists, and their outcomes.

use super::cluster::Doors;
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
    pub doors: Doors,
    /// The start of the run, from which times are counted.
    pub began: Instant,
    /// The transactions so far.
    pub history: Mutex<Vec<Transaction>>,
    /// The number of transactions that each client has committed.
    pub committed: Vec<AtomicU64>,
    /// The newest element.
    pub next: AtomicI64,
    /// True when clients begin no more transactions.
    pub closed: AtomicBool,
}

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

async fn ask(client: &Client, statement: &str) -> Result<Vec<SimpleQueryRow>, Option<Error>> {
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

/// Connects to a node, if it runs and responds.
pub async fn connect(door: SocketAddr) -> Option<Client> {
    let settings = format!(
        "host={} port={} user=root dbname=meridian connect_timeout=2",
        door.ip(),
        door.port()
    );
    let (client, connection) =
        timeout(Duration::from_secs(3), tokio_postgres::connect(&settings, NoTls))
            .await
            .ok()?
            .ok()?;
    tokio::spawn(async move { drop(connection.await) });
    Some(client)
}

/// Runs one transaction after the other until the board is closed.
pub async fn work(board: Arc<Board>, number: usize, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1_000).wrapping_add(number as u64));
    let mut connected: Option<Client> = None;
    while !board.closed.load(Relaxed) {
        let Some(client) =
            connected.take().filter(|client| !client.is_closed() && !rng.random_bool(0.01))
        else {
            let doors: Vec<SocketAddr> = board
                .doors
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .iter()
                .flatten()
                .copied()
                .collect();
            if let Some(door) = doors.get(rng.random_range(0..doors.len().max(1))) {
                connected = connect(*door).await;
            }
            if connected.is_none() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            continue;
        };
        let (steps, alone) = plan(&mut rng, &board);
        let writes = steps.iter().any(|step| matches!(step, Step::Append(..)));
        let now = || u64::try_from(board.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let start = now();
        let (ops, ended) = attempt(&client, &steps, alone, writes).await;
        let status = match ended {
            Ok(()) => Status::Ok,
            Err(Wrong::Failed) => Status::Fail,
            // A transaction that only read has no effect that would reveal its outcome.
            Err(Wrong::Unknown) if !writes => Status::Fail,
            Err(Wrong::Unknown) => Status::Info,
        };
        if status == Status::Ok {
            board.committed[number].fetch_add(1, Relaxed);
            connected = Some(client);
        } else if ask(&client, "ROLLBACK").await.is_ok() {
            connected = Some(client);
        }
        if !ops.is_empty() {
            let done = Transaction {
                client: number as u64,
                start,
                end: now(),
                status,
                at: None,
                ops,
                follows: Vec::new(),
                external: false,
                snapshot: None,
            };
            board.history.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..10))).await;
    }
}
