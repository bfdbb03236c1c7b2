//! Three nodes in one process, over TCP, with requests to them.

#![allow(dead_code, reason = "each test uses a part")]

pub mod ports;

use futures::executor::block_on;
use meridian_host::clock::ClockBound;
use meridian_host::flusher::FlushOptions;
use meridian_host::node::{Node, Options};
use meridian_host::shard::Timeouts;
use meridian_machine::NodeId;
use meridian_mvcc::{Key, Value};
use meridian_placement::Member;
use meridian_systems::tapir::TruncationPolicy;
use meridian_txn::{Begin, Database, Lock, Mode, Outcome, ReadAt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Returns the three members of a new cluster, on free ports.
pub fn members() -> Vec<Member> {
    some_members(3)
}

/// Returns `many` members of a new cluster, on free ports.
pub fn some_members(many: usize) -> Vec<Member> {
    let member = |(index, port): (usize, u16)| Member {
        node: NodeId(u32::try_from(index).unwrap() + 1),
        zone: format!("zone{index}"),
        address: format!("127.0.0.1:{port}"),
    };
    ports::free_ports(many).into_iter().enumerate().map(member).collect()
}

/// Short timeouts, so that tests notice a killed node soon.
pub fn hasty() -> Timeouts {
    let ms = Duration::from_millis;
    Timeouts { heartbeat: ms(50), election_timeout: ms(250), lease: ms(600), ..Timeouts::default() }
}

pub fn open(node: u32, members: &[Member], folder: &Path) -> Arc<Node> {
    open_with(hasty(), node, members, folder)
}

pub fn open_with(timeouts: Timeouts, node: u32, members: &[Member], folder: &Path) -> Arc<Node> {
    open_on(ClockBound::LOOPBACK, timeouts, node, members, folder)
}

pub fn open_on(
    clock: ClockBound,
    timeouts: Timeouts,
    node: u32,
    members: &[Member],
    folder: &Path,
) -> Arc<Node> {
    let options =
        Options { node: NodeId(node), members: members.to_vec(), clock, ..Options::alone() };
    let flush = FlushOptions {
        every: Duration::from_millis(50),
        checkpoint_every: Duration::from_millis(200),
        after: Duration::ZERO,
        ..FlushOptions::default()
    };
    // Records are truncated as early as possible.
    let truncation =
        TruncationPolicy { every_ns: 100_000_000, behind_ns: 100_000_000, enough_bytes: 10_000 };
    let options = options.at(folder.join(node.to_string()));
    let options = Options { log_segment_bytes: 1 << 20, flush, timeouts, truncation, ..options };
    Node::open(options).unwrap()
}

pub fn insist<T>(what: impl Fn() -> Result<T, String>) -> T {
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        match what() {
            Ok(done) => return done,
            Err(why) => assert!(Instant::now() < end, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn database(node: &Node) -> Arc<dyn Database> {
    insist(|| node.database("meridian").ok_or_else(|| "no database".to_owned()))
}

pub fn put(node: &Node, key: &str, value: &str) {
    put_in(&database(node), key, value);
}

pub fn put_in(database: &Arc<dyn Database>, key: &str, value: &str) {
    insist(|| {
        let begin = Begin::new(Mode::ReadWrite);
        let mut transaction =
            block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
        transaction
            .put(Key::from(key), Some(Value::from(value)))
            .map_err(|failure| failure.to_string())?;
        match block_on(transaction.commit()) {
            Outcome::Committed { .. } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

pub fn get(node: &Node, key: &str) -> Option<String> {
    get_in(&database(node), key)
}

pub fn get_in(database: &Arc<dyn Database>, key: &str) -> Option<String> {
    insist(|| {
        let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
        let mut transaction =
            block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
        let found = block_on(transaction.get(&Key::from(key), Lock::Shared))
            .map_err(|failure| failure.to_string())?;
        Ok(found.map(|value| String::from_utf8(value.to_vec()).unwrap()))
    })
}
