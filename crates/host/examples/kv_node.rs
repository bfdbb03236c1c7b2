//! A node with a tiny line protocol on loopback, for tests that kill real processes.
//!
//! ```text
//!   get KEY | put KEY NUMBER | transfer FROM TO AMOUNT | sum PREFIX | status
//!   → value N | none | ok | aborted WHY | unknown | failed WHY
//! ```

use futures::executor::block_on;
use meridian_host::node::{Node, Options};
use meridian_host::panics::OnPanic;
use meridian_machine::NodeId;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_placement::Member;
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

fn main() {
    let mut node = 1;
    let (mut data, mut client, mut members) = (None, String::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match &*name {
            "--node" => node = value.parse().expect("a number"),
            "--data" => data = Some(value.into()),
            "--client" => client = value,
            "--member" => members.push(Member {
                node: NodeId(u32::try_from(members.len()).expect("few") + 1),
                zone: format!("zone{}", members.len() + 1),
                address: value,
            }),
            other => panic!("{other} is not known"),
        }
    }
    let mut options = Options { data, on_panic: OnPanic::Exit, ..Options::alone() };
    if members.len() > 1 {
        options = Options {
            node: NodeId(node),
            members,
            data: options.data,
            on_panic: OnPanic::Exit,
            ..Options::loopback()
        };
    }
    options.log_segment_bytes = 1 << 20;
    let node = match Node::open(options) {
        Ok(node) => node,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    };
    let database = node.database("postgres").expect("it exists from birth");
    let listener = TcpListener::bind(&client).expect("a free port");
    println!("ready");
    for stream in listener.incoming().flatten() {
        let (database, node) = (Arc::clone(&database), Arc::clone(&node));
        std::thread::spawn(move || serve(&stream, &*database, &node));
    }
}

fn serve(stream: &TcpStream, database: &dyn Database, node: &Node) {
    let _ = stream.set_nodelay(true);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["get", key] => block_on(get(database, key)),
            ["put", key, number] => block_on(put(database, key, number)),
            ["transfer", from, to, amount] => {
                block_on(transfer(database, from, to, amount.parse().unwrap_or(0)))
            }
            ["sum", prefix] => block_on(sum(database, prefix)),
            ["status"] => Ok(format!("{:?}", node.status())),
            _ => Ok("failed what?".into()),
        };
        let answer = answer.unwrap_or_else(|failure| match failure {
            Failure::Aborted(why) => format!("aborted {why}"),
            other => format!("failed {other}"),
        });
        let mut stream = stream;
        if writeln!(stream, "{answer}").is_err() {
            return;
        }
    }
}

async fn begin(database: &dyn Database, mode: Mode) -> Result<Box<dyn Transaction>, Failure> {
    database.begin(Begin::new(mode)).await
}

fn number(value: &Value) -> i64 {
    std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

async fn commit(transaction: Box<dyn Transaction>) -> Result<String, Failure> {
    match transaction.commit().await {
        Outcome::Committed { .. } => Ok("ok".into()),
        Outcome::Aborted { why } => Err(Failure::Aborted(why)),
        Outcome::Unknown => Ok("unknown".into()),
    }
}

async fn get(database: &dyn Database, key: &str) -> Result<String, Failure> {
    let mut transaction = begin(database, Mode::ReadOnly(ReadAt::Now)).await?;
    let found = transaction.get(&Key::from(key), Lock::Shared).await?;
    Ok(found.map_or("none".into(), |value| format!("value {}", number(&value))))
}

async fn put(database: &dyn Database, key: &str, value: &str) -> Result<String, Failure> {
    let mut transaction = begin(database, Mode::ReadWrite).await?;
    transaction.put(Key::from(key), Some(Value::from(value)))?;
    commit(transaction).await
}

async fn transfer(
    database: &dyn Database,
    from: &str,
    to: &str,
    amount: i64,
) -> Result<String, Failure> {
    let mut transaction = begin(database, Mode::ReadWrite).await?;
    for (key, change) in [(from, -amount), (to, amount)] {
        let key = Key::from(key);
        let before =
            transaction.get(&key, Lock::Exclusive).await?.map_or(0, |value| number(&value));
        transaction.put(key, Some(Value::from(&*(before + change).to_string())))?;
    }
    commit(transaction).await
}

async fn sum(database: &dyn Database, prefix: &str) -> Result<String, Failure> {
    let mut transaction = begin(database, Mode::ReadOnly(ReadAt::Now)).await?;
    let mut range = Some(KeyRange::prefix(prefix.as_bytes()));
    let mut total = 0;
    while let Some(chunk) = range {
        let rows = transaction.scan(&chunk, Lock::Shared, false, 100).await?;
        total += rows.rows.iter().map(|(_, value)| number(value)).sum::<i64>();
        range = rows.rest;
    }
    Ok(format!("value {total}"))
}
