//! Measures the requests that an oracle answers over the network, on one core: `cargo run --release
//! -p meridian-host --example oracle [SECONDS]`.
//!
//! One process is the oracle's node, pinned to the first core. Another process holds four nodes on
//! the other cores, with one connection each to the oracle. Sixteen clients of each node send one
//! request after the other. The output is requests per second and the share of a core that the
//! oracle's process took (so that their quotient is the rate of a whole core), and the same with
//! batches (K2-TB) and with the authority.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use meridian_host::clock::ClockBound;
use meridian_host::node::{Node, Options};
use meridian_host::oracle::{Coordinator, Mode, OracleResponse, Service};
use meridian_machine::NodeId;
use meridian_placement::Member;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ORACLE: NodeId = NodeId(1);
const NODES: u32 = 5;
const CLIENTS: usize = 16;

fn members(addresses: &str) -> Vec<Member> {
    let member = |(node, address): (u32, &str)| Member {
        node: NodeId(node),
        zone: String::new(),
        address: address.into(),
    };
    (1..).zip(addresses.split(',')).map(member).collect()
}

fn open(node: u32, addresses: &str) -> Arc<Node> {
    let (members, clock) = (members(addresses), ClockBound::HalfWidth { half_width_ns: 50_000 });
    Node::open(Options { node: NodeId(node), members, clock, ..Options::alone() })
        .expect("the node opens")
}

fn pin(cores: impl Iterator<Item = usize>) {
    let mut set = CpuSet::new();
    cores.for_each(|core| set.set(core));
    if let Err(error) = sched_setaffinity(None::<Pid>, &set) {
        println!("cannot choose a core ({error}): the figures are of whatever the system chose");
    }
}

/// Returns the processor time that a process has taken, in seconds.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
    let rest = stat.rsplit_once(')').expect("a name in parentheses").1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

/// Runs sixteen clients of a node, each of which sends its next request when it gets a response.
fn ask(service: &Arc<Service>, stamps: bool, heard: &AtomicU64, stop: &AtomicBool) {
    let question = || if stamps { service.ask_stamps(ORACLE, 1) } else { service.ask_time(ORACLE) };
    futures::executor::block_on(async {
        let mut waiting: FuturesUnordered<_> = (0..CLIENTS).map(|_| question()).collect();
        service.flush(ORACLE);
        while !stop.load(Ordering::Relaxed) {
            // All clients with a response send their next request together, as sessions of one node
            // do.
            let mut ready = waiting.ready_chunks_or_one().await;
            for answer in ready.drain(..) {
                heard.fetch_add(
                    u64::from(matches!(
                        answer,
                        Some(OracleResponse::Time(_) | OracleResponse::Stamps(_))
                    )),
                    Ordering::Relaxed,
                );
                waiting.push(question());
            }
            service.flush(ORACLE);
        }
    });
}

/// Returns the items that are ready now, at least one.
trait ReadyChunks: StreamExt + Unpin {
    async fn ready_chunks_or_one(&mut self) -> Vec<Self::Item> {
        let mut ready = Vec::with_capacity(CLIENTS);
        ready.extend(self.next().await);
        while let Some(Some(more)) = futures::FutureExt::now_or_never(self.next()) {
            ready.push(more);
        }
        ready
    }
}
impl<S: StreamExt + Unpin> ReadyChunks for S {}

fn measure(
    name: &str,
    oracle: u32,
    seconds: u64,
    nodes: &[Arc<Node>],
    client: impl Fn(&Arc<Node>, &AtomicU64, &AtomicBool) + Sync,
) {
    let (heard, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for node in nodes {
            let (heard, stop, client) = (&heard, &stop, &client);
            scope.spawn(move || client(node, heard, stop));
        }
        std::thread::sleep(Duration::from_millis(500));
        let (first, cpu_before, began) =
            (heard.load(Ordering::Relaxed), cpu(oracle), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds));
        let (last, cpu_after, elapsed) =
            (heard.load(Ordering::Relaxed), cpu(oracle), began.elapsed().as_secs_f64());
        stop.store(true, Ordering::Relaxed);
        let (rate, core) = ((last - first) as f64 / elapsed, (cpu_after - cpu_before) / elapsed);
        let whole =
            if core > 0.02 { format!("{:>12.0}", rate / core) } else { format!("{:>12}", "–") };
        println!("{name:<52} {rate:>12.0} {:>8.0} % {whole}", core * 100.0);
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    if let [_, serve, addresses] = arguments.as_slice()
        && serve == "serve"
    {
        pin(std::iter::once(0));
        let _node = open(1, addresses);
        let _ = std::io::stdin().read(&mut [0]); // Until the parent process ends.
        return;
    }
    let seconds = arguments.get(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(3);
    let listeners: Vec<TcpListener> =
        (0..NODES).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let addresses: Vec<String> = listeners
        .iter()
        .map(|listener| listener.local_addr().expect("its address").to_string())
        .collect();
    drop(listeners);
    let addresses = addresses.join(",");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["serve", &addresses])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the oracle starts");
    pin(1.min(cores - 1)..cores);
    let nodes: Vec<Arc<Node>> = (2..=NODES).map(|node| open(node, &addresses)).collect();
    let end = Instant::now() + Duration::from_secs(30);
    for node in &nodes {
        // Until the members have met, and the oracle has reserved its ceiling.
        loop {
            let answer = node.oracle().ask_time(ORACLE);
            node.oracle().flush(ORACLE);
            if matches!(futures::executor::block_on(answer), Some(OracleResponse::Time(_))) {
                break;
            }
            assert!(Instant::now() < end, "the oracle does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    println!(
        "{:<52} {:>12} {:>10} {:>12}",
        "64 clients on 4 connections", "per second", "of a core", "a core"
    );
    let oracle = child.id();
    measure("the oracle's time, a question each", oracle, seconds, &nodes, |node, heard, stop| {
        ask(node.oracle(), false, heard, stop);
    });
    measure(
        "the authority's timestamp, a question each",
        oracle,
        seconds,
        &nodes,
        |node, heard, stop| {
            ask(node.oracle(), true, heard, stop);
        },
    );
    for (name, mode) in [
        ("K2-TB: timestamps out of batches", Mode::Batches),
        ("strawman: one transaction after the other", Mode::Strawman),
    ] {
        measure(name, oracle, seconds, &nodes, |node, heard, stop| {
            let coordinator = Coordinator::new(Arc::clone(node.oracle()), ORACLE, mode);
            while !stop.load(Ordering::Relaxed) {
                let drawn = futures::executor::block_on(coordinator.timestamp());
                heard.fetch_add(u64::from(drawn.is_ok()), Ordering::Relaxed);
            }
        });
    }
    drop(child.stdin.take());
    let _ = child.wait();
}
