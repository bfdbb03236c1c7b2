//! Real processes, killed without warning under load: no acknowledged write is lost, and sums are
//! conserved.

#[path = "common/ports.rs"]
mod ports;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ACCOUNTS: u64 = 8;
const EACH: i64 = 1000;
const WRITERS: usize = 2;

fn program() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let built = test.parent().and_then(Path::parent).expect("deps lies beside examples");
    built.join("examples").join("kv_node")
}

fn free_port() -> String {
    format!("127.0.0.1:{}", ports::free_ports(1)[0])
}

/// A small reproducible generator: the choice of killed nodes need not be well distributed.
struct Dice(u64);
impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct Cluster {
    folder: tempfile::TempDir,
    members: Vec<String>,
    clients: Vec<String>,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    fn start(size: usize) -> Self {
        let mut cluster = Cluster {
            folder: tempfile::tempdir().expect("a folder"),
            members: (0..size).map(|_| free_port()).collect(),
            clients: (0..size).map(|_| free_port()).collect(),
            nodes: (0..size).map(|_| None).collect(),
        };
        for index in 0..size {
            cluster.begin(index);
        }
        cluster
    }

    fn begin(&mut self, index: usize) {
        let mut command = Command::new(program());
        command.args(["--node", &(index + 1).to_string(), "--client", &self.clients[index]]);
        command.arg("--data").arg(self.folder.path().join(format!("node{}", index + 1)));
        for member in &self.members {
            command.args(["--member", member]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect(
            "the examples are built: cargo test -p meridian-host does, --test alone does not",
        );
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it speaks");
        assert_eq!(line, "ready\n");
        self.nodes[index] = Some(child);
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.nodes[index].take() {
            child.kill().expect("SIGKILL");
            child.wait().expect("it ends");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for index in 0..self.nodes.len() {
            self.kill(index);
        }
    }
}

/// Sends a request to one node. Returns `None` if it did not respond.
fn ask(address: &str, line: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    writeln!(stream, "{line}").ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    answer.ends_with('\n').then(|| answer.trim().to_string())
}

/// Sends a request to one node after the other until one succeeds.
fn insist(addresses: &[String], line: &str) -> String {
    let end = Instant::now() + Duration::from_secs(120);
    let mut last = None;
    while Instant::now() < end {
        for address in addresses {
            last = ask(address, line);
            if last.as_ref().is_some_and(|answer| answer == "ok" || answer.starts_with("value")) {
                return last.unwrap_or_default();
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{line}: no success, last {last:?}");
}

fn value(answer: &str) -> i64 {
    answer
        .strip_prefix("value ")
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{answer}"))
}

fn survives(size: usize, kills: usize, seed: u64) {
    let mut cluster = Cluster::start(size);
    let clients = cluster.clients.clone();
    for account in 0..ACCOUNTS {
        insist(&clients, &format!("put a{account} {EACH}"));
    }
    let (over, transfers) = (AtomicBool::new(false), AtomicU64::new(0));
    let tried: Vec<AtomicI64> = (0..WRITERS).map(|_| AtomicI64::new(0)).collect();
    let acknowledged: Vec<AtomicI64> = (0..WRITERS).map(|_| AtomicI64::new(0)).collect();
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (over, clients, transfers) = (&over, &clients, &transfers);
            scope.spawn(move || {
                let mut dice = Dice(seed + worker);
                while !over.load(Ordering::Relaxed) {
                    let (from, to) = (dice.below(ACCOUNTS), dice.below(ACCOUNTS));
                    let node = dice.below(clients.len() as u64) as usize;
                    let line = format!("transfer a{from} a{to} {}", dice.below(50));
                    if from != to && ask(&clients[node], &line).as_deref() == Some("ok") {
                        transfers.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for writer in 0..WRITERS {
            let (over, clients, tried, acknowledged) = (&over, &clients, &tried, &acknowledged);
            scope.spawn(move || {
                let mut dice = Dice(seed + 100 + writer as u64);
                while !over.load(Ordering::Relaxed) {
                    let next = tried[writer].fetch_add(1, Ordering::Relaxed) + 1;
                    let node = dice.below(clients.len() as u64) as usize;
                    if ask(&clients[node], &format!("put r{writer} {next}")).as_deref()
                        == Some("ok")
                    {
                        acknowledged[writer].store(next, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut dice = Dice(seed + 1000);
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(400 + dice.below(600)));
            let victim = dice.below(size as u64) as usize;
            cluster.kill(victim);
            std::thread::sleep(Duration::from_millis(dice.below(500)));
            cluster.begin(victim);
        }
        std::thread::sleep(Duration::from_millis(500));
        over.store(true, Ordering::Relaxed);
    });
    for client in &clients {
        let here = std::slice::from_ref(client);
        assert_eq!(
            value(&insist(here, "sum a")),
            ACCOUNTS as i64 * EACH,
            "the sum as {client} sees it"
        );
        for writer in 0..WRITERS {
            let found = value(&insist(here, &format!("get r{writer}")));
            let (low, high) = (
                acknowledged[writer].load(Ordering::Relaxed),
                tried[writer].load(Ordering::Relaxed),
            );
            assert!(
                (low..=high).contains(&found),
                "register {writer} is {found}, acknowledged {low}, tried {high}"
            );
            assert!(low > 0, "something was acknowledged");
        }
    }
    assert!(transfers.load(Ordering::Relaxed) > 0);
}

#[test]
fn one_node_survives_being_killed() {
    survives(1, 5, 1);
}

#[test]
fn three_nodes_survive_being_killed_one_at_a_time() {
    survives(3, 5, 2);
}
