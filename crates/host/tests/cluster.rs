//! Three nodes in one process, over TCP.

use futures::executor::block_on;
use meridian_host::node::{Node, Options};
use meridian_machine::NodeId;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_placement::Member;
use meridian_txn::{Begin, Failure, Lock, Mode, Outcome, ReadAt};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn members() -> Vec<Member> {
    let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let member = |(index, listener): (usize, &TcpListener)| Member {
        node: NodeId(u32::try_from(index).unwrap() + 1),
        zone: format!("zone{index}"),
        address: listener.local_addr().unwrap().to_string(),
    };
    listeners.iter().enumerate().map(member).collect()
}

fn open(node: u32, members: &[Member], folder: &Path) -> Arc<Node> {
    let options = Options { node: NodeId(node), members: members.to_vec(), ..Options::loopback() };
    let options = Options { log_segment_bytes: 1 << 20, ..options.at(folder.join(node.to_string())) };
    Node::open(options).unwrap()
}

fn insist<T>(what: impl Fn() -> Result<T, String>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match what() {
            Ok(done) => return done,
            Err(why) => assert!(Instant::now() < end, "{why}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn put(node: &Node, key: &str, value: &str) {
    let database = node.database("postgres").unwrap();
    insist(|| {
        let begin = Begin { mode: Mode::ReadWrite, age: None };
        let mut transaction = block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
        // The read fixes the leadership; without it a commit that is not answered could only be unknown.
        let seen = block_on(transaction.get(&Key::from(key), Lock::Exclusive));
        seen.map_err(|failure: Failure| failure.to_string())?;
        transaction.put(Key::from(key), Some(Value::from(value))).map_err(|failure| failure.to_string())?;
        match block_on(transaction.commit()) {
            Outcome::Committed { .. } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

fn get(node: &Node, key: &str) -> Option<String> {
    let database = node.database("postgres").unwrap();
    insist(|| {
        let begin = Begin { mode: Mode::ReadOnly(ReadAt::Now), age: None };
        let mut transaction = block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
        let found = block_on(transaction.get(&Key::from(key), Lock::Shared)).map_err(|failure| failure.to_string())?;
        Ok(found.map(|value| String::from_utf8(value.to_vec()).unwrap()))
    })
}

#[test]
fn three_nodes_commit_and_read_everywhere_and_one_that_was_away_catches_up() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let mut nodes: Vec<Option<Arc<Node>>> = (1..=3).map(|node| Some(open(node, &members, folder.path()))).collect();
    for (index, node) in nodes.iter().flatten().enumerate() {
        put(node, &format!("k{index}"), "first");
    }
    for node in nodes.iter().flatten() {
        for index in 0..3 {
            assert_eq!(get(node, &format!("k{index}")).as_deref(), Some("first"));
        }
    }
    for away in 0..3u32 {
        nodes[away as usize] = None;
        let value = format!("without {away}");
        for node in nodes.iter().flatten() {
            put(node, "k0", &value);
            put(node, &value, "here");
        }
        for node in nodes.iter().flatten() {
            assert_eq!(get(node, "k0"), Some(value.clone()));
        }
        let back = open(away + 1, &members, folder.path());
        assert_eq!(get(&back, "k0"), Some(value.clone()));
        put(&back, "back", &value);
        nodes[away as usize] = Some(back);
        for node in nodes.iter().flatten() {
            assert_eq!(get(node, "back"), Some(value.clone()));
        }
    }
    let node = nodes[0].as_ref().unwrap();
    let database = node.database("postgres").unwrap();
    let begin = Begin { mode: Mode::ReadOnly(ReadAt::Now), age: None };
    let mut transaction = block_on(database.begin(begin)).unwrap();
    let rows = block_on(transaction.scan(&KeyRange::prefix(b"without"), Lock::Shared, false, 10)).unwrap();
    assert_eq!(rows.rows.len(), 3);
}
