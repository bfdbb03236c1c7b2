//! Measures commits below SQL: `cargo run --release -p meridian-host --example commits -- NODES
//! SESSIONS SECONDS`.
//!
//! Each transaction reads one key of many and one of few under exclusive locks and writes both, on
//! real logs in a temporary folder.

use futures::executor::block_on;
use meridian_host::node::{Node, Options};
use meridian_machine::NodeId;
use meridian_mvcc::{Key, Value};
use meridian_placement::Member;
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MANY: u64 = 1_000_000;
const FEW: u64 = 50;

fn transact(database: &dyn Database, number: u64) -> Result<(), Failure> {
    let mut transaction = block_on(database.begin(Begin::new(Mode::ReadWrite)))?;
    for key in [format!("many{:07}", number % MANY), format!("few{:02}", number % FEW)] {
        let key = Key::from(key.as_str());
        block_on(transaction.get(&key, Lock::Exclusive))?;
        transaction.put(key, Some(Value::from(vec![7; 100])))?;
    }
    match block_on(transaction.commit()) {
        Outcome::Committed { .. } => Ok(()),
        Outcome::Aborted { why } => Err(Failure::Aborted(why)),
        Outcome::Unknown => Err(Failure::Unavailable("unknown".into())),
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>().expect("a number"));
    let (nodes, sessions) = (arguments.next().unwrap_or(1), arguments.next().unwrap_or(8));
    let seconds = arguments.next().unwrap_or(5);
    let folder = tempfile::tempdir().expect("a folder");
    let ports: Vec<TcpListener> =
        (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let member = |(at, port): (usize, &TcpListener)| Member {
        node: NodeId(u32::try_from(at).expect("few") + 1),
        zone: format!("zone{at}"),
        address: port.local_addr().expect("bound").to_string(),
    };
    let members: Vec<Member> = ports.iter().enumerate().map(member).collect();
    drop(ports);
    let open = |member: &Member| {
        let options = if nodes > 1 { Options::loopback() } else { Options::alone() };
        let members = if nodes > 1 { members.clone() } else { Vec::new() };
        let options =
            Options { node: member.node, members, ..options.at(folder.path().join(&member.zone)) };
        Node::open(options).expect("it opens")
    };
    let nodes: Vec<Arc<Node>> = members.iter().map(open).collect();
    let database = nodes[0].database("postgres").expect("it is there");
    while transact(&*database, 0).is_err() {}
    let (stop, failed) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let before: Vec<_> = nodes.iter().map(|node| node.status().log).collect();
    let mut latencies: Vec<Duration> = std::thread::scope(|scope| {
        let session = |number: u64| {
            let (stop, failed, database) = (&stop, &failed, &database);
            scope.spawn(move || {
                let (mut random, mut latencies) =
                    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let begun = Instant::now();
                    match transact(&**database, random >> 8) {
                        Ok(()) => latencies.push(begun.elapsed()),
                        Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                }
                latencies
            })
        };
        let threads: Vec<_> = (1..=sessions).map(session).collect();
        std::thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    let elapsed = began.elapsed();
    latencies.sort_unstable();
    let commits = latencies.len().max(1);
    let at = |part: f64| {
        latencies.get(((commits - 1) as f64 * part) as usize).copied().unwrap_or_default()
    };
    println!(
        "{} nodes, {sessions} sessions: {:.0} commits/s, p50 {:?}, p99 {:?}, {} aborted",
        nodes.len(),
        commits as f64 / elapsed.as_secs_f64(),
        at(0.5),
        at(0.99),
        failed.load(Ordering::Relaxed)
    );
    for (node, before) in nodes.iter().zip(before) {
        let log = node.status().log;
        println!(
            "  node {}: {:.2} fsyncs and {:.0} bytes in the log per commit",
            node.status().node.0,
            (log.syncs - before.syncs) as f64 / commits as f64,
            (log.bytes - before.bytes) as f64 / commits as f64
        );
    }
}
