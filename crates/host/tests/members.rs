//! Groups on a part of the nodes, over TCP: members come, go, and come back.

use futures::executor::block_on;
use meridian_host::clock::ClockBound;
use meridian_host::member::Patience;
use meridian_host::node::{DatabaseError, Node, Options};
use meridian_host::settle::SettleOptions;
use meridian_machine::NodeId;
use meridian_mvcc::{Key, Value};
use meridian_placement::Member;
use meridian_txn::locking::Members;
use meridian_txn::{Begin, Failure, Lock, Mode, Outcome, ReadAt};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn cluster() -> Vec<Member> {
    let listeners: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let member = |(index, listener): (usize, &TcpListener)| Member {
        node: NodeId(u32::try_from(index).unwrap() + 1),
        zone: format!("zone{index}"),
        address: listener.local_addr().unwrap().to_string(),
    };
    listeners.iter().enumerate().map(member).collect()
}

fn open(node: u32, cluster: &[Member], folder: &Path) -> Arc<Node> {
    let ms = Duration::from_millis;
    let patience = Patience { heartbeat: ms(50), election_timeout: ms(250), lease: ms(600) };
    let settle =
        SettleOptions { every: ms(50), checkpoint_every: ms(200), after: Duration::ZERO, ..SettleOptions::default() };
    let options = Options { node: NodeId(node), members: cluster.to_vec(), ..Options::alone() };
    let options = Options { clock: ClockBound::LOOPBACK, patience, settle, log_segment_bytes: 1 << 20, ..options };
    Node::open(options.at(folder.join(node.to_string()))).unwrap()
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
    insist(|| {
        let database = node.database("meridian").ok_or("no database")?;
        let begin = Begin { mode: Mode::ReadWrite, age: None };
        let mut transaction = block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
        transaction.put(Key::from(key), Some(Value::from(value))).map_err(|failure| failure.to_string())?;
        match block_on(transaction.commit()) {
            Outcome::Committed { .. } => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

fn get(node: &Node, key: &str) -> Option<String> {
    insist(|| {
        let database = node.database("meridian").ok_or("no database")?;
        let begin = Begin { mode: Mode::ReadOnly(ReadAt::Now), age: None };
        let mut transaction = block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
        let found = block_on(transaction.get(&Key::from(key), Lock::Shared)).map_err(|failure| failure.to_string())?;
        Ok(found.map(|value| String::from_utf8(value.to_vec()).unwrap()))
    })
}

fn members(voters: &[u32], learners: &[u32], witnesses: &[u32]) -> Members {
    let nodes = |numbers: &[u32]| numbers.iter().copied().map(NodeId).collect();
    Members { voters: nodes(voters), learners: nodes(learners), witnesses: nodes(witnesses) }
}

fn change(node: &Node, wanted: &Members) {
    insist(|| block_on(node.change_members("meridian", wanted.clone())).map_err(|error| error.to_string()));
}

/// How many shards of the database a node has a member of.
fn shards(node: &Node) -> usize {
    node.status().shards.iter().filter(|shard| shard.database == "meridian").count()
}

fn insist_on_shards(node: &Node, wanted: usize) {
    insist(|| if shards(node) == wanted { Ok(()) } else { Err(format!("{} of {wanted} shards", shards(node))) });
}

#[test]
fn members_come_and_go_and_come_back_and_nothing_is_lost() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), cluster());
    let mut nodes: Vec<Arc<Node>> = (1..=3).map(|node| open(node, &cluster, folder.path())).collect();
    for key in ["a", "m", "z"] {
        put(&nodes[0], key, "1");
    }
    insist(|| block_on(nodes[0].split("meridian", Key::from("m"))).map_err(|error| error.to_string()));
    change(&nodes[1], &members(&[1, 2], &[3], &[]));
    // Whoever leads now may be the one that is to go.
    change(&nodes[2], &members(&[2, 3], &[], &[]));
    insist_on_shards(&nodes[0], 0);
    put(&nodes[0], "z", "2"); // It has nothing of it, and asks those that have.
    assert_eq!(get(&nodes[0], "a").as_deref(), Some("1"));
    // It forgets nothing of that when it restarts, and does not come back as the one that it was.
    drop(nodes.remove(0));
    nodes.insert(0, open(1, &cluster, folder.path()));
    assert_eq!(get(&nodes[0], "z").as_deref(), Some("2"));
    assert_eq!(shards(&nodes[0]), 0);
    // It comes back, and what is split off meanwhile comes too.
    change(&nodes[2], &members(&[1, 2, 3], &[], &[]));
    insist(|| block_on(nodes[1].split("meridian", Key::from("t"))).map_err(|error| error.to_string()));
    insist_on_shards(&nodes[0], 3);
    put(&nodes[0], "m", "3");
    // What it was sent is its own: it and another are a majority.
    nodes[2].kill();
    drop(nodes.remove(2));
    put(&nodes[1], "a", "4");
    for (key, value) in [("a", "4"), ("m", "3"), ("z", "2")] {
        assert_eq!(get(&nodes[0], key).as_deref(), Some(value));
    }
}

#[test]
fn a_witness_is_enough_for_a_majority_and_stores_nothing() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), cluster());
    let mut nodes: Vec<Arc<Node>> = (1..=3).map(|node| open(node, &cluster, folder.path())).collect();
    put(&nodes[0], "k", "1");
    change(&nodes[0], &members(&[1, 2], &[], &[]));
    insist_on_shards(&nodes[2], 0);
    change(&nodes[0], &members(&[1, 2, 3], &[], &[3]));
    put(&nodes[2], "k", "2");
    nodes[0].kill();
    drop(nodes.remove(0));
    put(&nodes[0], "k", "3");
    assert_eq!(get(&nodes[1], "k").as_deref(), Some("3"), "read at the witness's node, from whoever leads");
    let of_witness = |node: &Node| {
        let status = node.status();
        let shard = status.shards.iter().find(|shard| shard.database == "meridian").unwrap();
        (shard.leads, shard.closed)
    };
    assert_eq!(of_witness(&nodes[1]), (false, meridian_clock::Timestamp::ZERO));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), cluster());
    let nodes: Vec<Arc<Node>> = (1..=3).map(|node| open(node, &cluster, folder.path())).collect();
    put(&nodes[0], "k", "1");
    let refused = |database: &str, wanted: Members| match block_on(nodes[1].change_members(database, wanted)) {
        Err(DatabaseError::Failed(Failure::Refused(why))) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("meridian", members(&[1, 2, 9], &[], &[])), "there is no node 9");
    assert_eq!(refused("meridian", members(&[1, 2], &[2], &[])), "node 2 cannot be a voter and a learner");
    assert_eq!(refused("meridian", members(&[1, 2], &[], &[2])), "fewer than half of the voters may be witnesses");
    assert!(refused("meridian", members(&[1, 2, 3], &[], &[3])).starts_with("node 3 would change between witness"));
    assert!(refused("system", members(&[1, 2], &[], &[])).starts_with("every node has a member of"));
    let missing = block_on(nodes[0].change_members("nowhere", members(&[1], &[], &[])));
    assert_eq!(missing, Err(DatabaseError::Missing("nowhere".into())));
}
