//! Databases of the qwstore protocol, in one process: a single node, and over TCP three nodes with
//! a fourth that has no replica.

mod common;

use common::ports::free_ports;
use common::{get_in, insist, open, put_in};
use futures::executor::block_on;
use meridian_host::flusher::FlushOptions;
use meridian_host::node::{DatabaseError, Node, Options};
use meridian_machine::NodeId;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_placement::Member;
use meridian_systems::baselines::qwstore;
use meridian_txn::{
    Begin, Database, Failure, Lock, Mode, Outcome, ReadAt, SchemaVersion, Transaction,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn lab(node: &Node) -> Arc<dyn Database> {
    insist(|| {
        let found = block_on(node.find_database("lab")).map_err(|failure| failure.to_string())?;
        found.ok_or_else(|| "no database".to_owned())
    })
}

fn begin(database: &Arc<dyn Database>, mode: Mode) -> Result<Box<dyn Transaction>, Failure> {
    block_on(database.begin(Begin::new(mode)))
}

fn write(database: &Arc<dyn Database>, writes: &[(&str, Option<&str>)]) -> Outcome {
    let mut session = begin(database, Mode::ReadWrite).expect("it begins");
    for (key, value) in writes {
        session.put(Key::from(*key), value.map(Value::from)).expect("it is taken");
    }
    block_on(session.commit())
}

#[test]
fn alone_what_is_acknowledged_outlives_the_process_and_what_needs_transactions_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let flush = FlushOptions {
        every: Duration::from_millis(10),
        checkpoint_every: Duration::from_millis(50),
        after: Duration::ZERO,
        ..FlushOptions::default()
    };
    let open = || Node::open(Options { flush, ..Options::alone().at(folder.path()) }).unwrap();
    let mut node = open();
    block_on(node.create_database("lab", &qwstore::PROTOCOL, Vec::new())).unwrap();
    for incarnation in 0..4 {
        for number in 0..50 {
            let (key, value) = (format!("k{number}"), incarnation.to_string());
            let value = (number != incarnation).then_some(value.as_str());
            assert!(matches!(
                write(&lab(&node), &[(&key, value), ("last", Some(&key))]),
                Outcome::Committed { .. }
            ));
            // Some of it is durable in the store, some is in the log only.
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(node);
        node = open();
        for number in 0..50 {
            let value = (number != incarnation).then(|| incarnation.to_string());
            assert_eq!(
                get_in(&lab(&node), &format!("k{number}")),
                value,
                "life {incarnation}, k{number}"
            );
        }
        assert_eq!(get_in(&lab(&node), "last").as_deref(), Some("k49"));
    }
    let database = lab(&node);
    let read_only = |when| begin(&database, Mode::ReadOnly(when));
    let mut session = read_only(ReadAt::Now).unwrap();
    assert_eq!(session.put(Key::from("k"), None), Err(Failure::ReadOnly));
    let newest = block_on(session.scan(&KeyRange::prefix(b"k"), Lock::Shared, true, 2)).unwrap();
    let keys: Vec<&[u8]> = newest.rows.iter().map(|(key, _)| &key[..]).collect();
    assert_eq!(keys, [b"k9", b"k8"]);
    let at = meridian_clock::Timestamp {
        nanos: node.now().interval.earliest,
        ..meridian_clock::Timestamp::ZERO
    };
    assert!(matches!(read_only(ReadAt::Exact(at)), Err(Failure::Refused(_))));
    let mut session = begin(&database, Mode::ReadWrite).unwrap();
    let changed =
        session.change_schema(SchemaVersion { table: 1, version: 1 }, vec![KeyRange::all()]);
    assert!(matches!(changed, Err(Failure::Refused(_))), "{changed:?}");
    let split = block_on(node.split("lab", vec![Key::from("m")])).unwrap_err();
    assert!(matches!(split, DatabaseError::Failed(Failure::Refused(_))), "{split}");
    drop((session, database));
    block_on(node.drop_database("lab")).unwrap();
    block_on(node.create_database("lab", &qwstore::PROTOCOL, Vec::new())).unwrap();
    assert_eq!(get_in(&lab(&node), "last"), None);
}

#[test]
fn three_nodes_write_everywhere_read_anywhere_and_wait_for_an_absent_node() {
    let folder = tempfile::tempdir().unwrap();
    let member = |(at, port): (usize, u16)| Member {
        node: NodeId(at as u32 + 1),
        zone: format!("zone{at}"),
        address: format!("127.0.0.1:{port}"),
    };
    let members: Vec<Member> = free_ports(4).into_iter().enumerate().map(member).collect();
    let open = |node: u32| open(node, &members, folder.path());
    let (mut nodes, client): (Vec<Arc<Node>>, Arc<Node>) = ((1..=3).map(open).collect(), open(4));
    let on: Vec<NodeId> = (1..=3).map(NodeId).collect();
    insist(|| {
        block_on(client.create_database("lab", &qwstore::PROTOCOL, on.clone()))
            .map_err(|error| error.to_string())
    });
    let from_client = lab(&client);
    put_in(&from_client, "k0", "by the client");
    // An acknowledged write is at every replica.
    assert!(nodes.iter().all(|node| get_in(&lab(node), "k0").as_deref() == Some("by the client")));
    for (at, node) in nodes.iter().enumerate() {
        put_in(&lab(node), "k0", &format!("by {at}"));
        put_in(&lab(node), &format!("k{}", at + 1), "here");
        assert!(nodes.iter().all(|node| get_in(&lab(node), "k0") == Some(format!("by {at}"))));
        assert_eq!(get_in(&from_client, "k0"), Some(format!("by {at}")));
    }
    assert!(matches!(
        write(&from_client, &[("k1", None), ("k4", Some("here"))]),
        Outcome::Committed { .. }
    ));
    let mut session = begin(&from_client, Mode::ReadWrite).unwrap();
    session.put(Key::from("k3"), Some(Value::from("own"))).unwrap();
    let found = block_on(session.scan(&KeyRange::prefix(b"k"), Lock::Shared, false, 10)).unwrap();
    let rows: Vec<String> = found
        .rows
        .iter()
        .map(|(key, value)| format!("{key:?}={}", String::from_utf8_lossy(value)))
        .collect();
    assert_eq!(rows, ["k0=by 2", "k2=here", "k3=own", "k4=here"]);
    drop(session);

    // While one node is down the others serve reads, and a write waits until it is back.
    drop(nodes.pop());
    assert_eq!(get_in(&from_client, "k4").as_deref(), Some("here"));
    let began = Instant::now();
    std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| (write(&from_client, &[("k5", Some("waited"))]), began.elapsed()));
        std::thread::sleep(Duration::from_secs(1));
        nodes.push(open(3));
        let (outcome, took) = waits.join().unwrap();
        assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
        assert!(took > Duration::from_millis(900), "{took:?}");
    });
    for node in &nodes {
        assert_eq!(get_in(&lab(node), "k5").as_deref(), Some("waited"));
        assert_eq!(get_in(&lab(node), "k0").as_deref(), Some("by 2"));
    }

    // No write waits for ever. An unacknowledged one may be at some replicas, but not at one that
    // was down.
    drop(nodes.pop());
    assert_eq!(write(&from_client, &[("k6", Some("half"))]), Outcome::Unknown);
    nodes.push(open(3));
    assert_eq!(get_in(&lab(&nodes[0]), "k6").as_deref(), Some("half"));
    assert_eq!(get_in(&lab(&nodes[2]), "k6"), None);
    put_in(&from_client, "k6", "whole");
    assert!(nodes.iter().all(|node| get_in(&lab(node), "k6").as_deref() == Some("whole")));
}

#[test]
fn any_number_of_nodes_that_there_are_may_have_replicas() {
    let node = Node::open(Options::alone()).unwrap();
    let error =
        block_on(node.create_database("lab", &qwstore::PROTOCOL, vec![NodeId(2)])).unwrap_err();
    assert_eq!(error.to_string(), "there is no node 2, only 1 to 1");
    let (folder, members) = (tempfile::tempdir().unwrap(), common::members());
    let nodes: Vec<Arc<Node>> =
        (1..=2).map(|node| open(node, &members[..2], folder.path())).collect();
    insist(|| {
        block_on(nodes[0].create_database("lab", &qwstore::PROTOCOL, Vec::new()))
            .map_err(|error| error.to_string())
    });
    put_in(&lab(&nodes[1]), "k", "v");
    assert!(nodes.iter().all(|node| get_in(&lab(node), "k").as_deref() == Some("v")));
    assert_eq!(
        nodes[0]
            .status()
            .shards
            .iter()
            .find(|shard| shard.database == "lab")
            .map(|shard| shard.members.voters.len()),
        Some(2)
    );
}
