//! Databases of the tapir protocol, in one process: a single node, and over TCP three nodes of
//! which some are killed.

mod common;

use common::{get_in, insist, members, open, put_in, some_members};
use futures::executor::block_on;
use meridian_host::flusher::FlushOptions;
use meridian_host::node::{DatabaseError, Node, Options};
use meridian_machine::NodeId;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_placement::Member;
use meridian_systems::Protocol;
use meridian_systems::tapir;
use meridian_txn::shards::MemberRoles;
use meridian_txn::{Begin, Conflict, Database, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TAPIR: &Protocol = &tapir::STRICTLY_SERIALIZABLE;

fn lab(node: &Node) -> Arc<dyn Database> {
    insist(|| {
        let found = block_on(node.find_database("lab")).map_err(|failure| failure.to_string())?;
        found.ok_or_else(|| "no database".to_owned())
    })
}

fn begin(database: &Arc<dyn Database>) -> Box<dyn Transaction> {
    block_on(database.begin(Begin::new(Mode::ReadWrite))).expect("it begins")
}

/// Reads one key and writes it again.
fn add(transaction: &mut dyn Transaction) {
    let key = Key::from("sum");
    let known = block_on(transaction.get(&key, Lock::Exclusive)).expect("it is read");
    let sum =
        known.map_or(0, |value| String::from_utf8_lossy(&value).parse::<u64>().expect("a number"));
    transaction.put(key, Some(Value::from((sum + 1).to_string().as_str()))).expect("it is written");
}

#[test]
fn alone_transactions_validate_and_what_is_committed_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Node::open(Options::alone().at(folder.path())).unwrap();
    let node = open();
    block_on(node.create_database("lab", TAPIR, Vec::new())).unwrap();
    let database = lab(&node);
    let (mut one, mut other) = (begin(&database), begin(&database));
    add(&mut *one);
    add(&mut *other);
    let Outcome::Committed { at } = block_on(one.commit()) else { panic!("there is no conflict") };
    assert_eq!(block_on(other.commit()), Outcome::Aborted { why: Conflict::Overwritten });
    let snapshot =
        |at| block_on(database.begin(Begin::new(Mode::ReadOnly(ReadAt::Exact(at))))).unwrap();
    let sum = |at| {
        block_on(snapshot(at).get(&Key::from("sum"), Lock::Shared))
            .unwrap()
            .map(|value| value.to_vec())
    };
    let just_before = meridian_clock::Timestamp { nanos: at.nanos - 1, ..at };
    assert_eq!((sum(just_before), sum(at)), (None, Some(b"1".to_vec())));
    let refused = block_on(node.split("lab", vec![Key::from("m")])).unwrap_err();
    assert!(matches!(refused, DatabaseError::Failed(Failure::Refused(_))), "{refused}");
    drop(database);
    drop(node);
    let node = open();
    assert_eq!(get_in(&lab(&node), "sum").as_deref(), Some("1"));
    block_on(node.drop_database("lab")).unwrap();
    block_on(node.create_database("lab", TAPIR, Vec::new())).unwrap();
    assert_eq!(get_in(&lab(&node), "sum"), None);
}

/// §6.6: the setting is in the database's row, also after a restart.
#[test]
fn what_is_to_be_prepared_waits_for_as_long_as_the_database_says() {
    const WAIT: Duration = Duration::from_millis(200);
    let folder = tempfile::tempdir().unwrap();
    let open = || Node::open(Options::alone().at(folder.path())).unwrap();
    let node = open();
    block_on(node.create_database("lab", TAPIR, Vec::new())).unwrap();
    let takes = |node: &Node, value: &str| {
        let (database, begun) = (lab(node), Instant::now());
        put_in(&database, "k", value);
        begun.elapsed()
    };
    let is = |node: &Node| node.setting("lab", "prepare_wait").flatten();
    let set = |node: &Node, database, value| block_on(node.set(database, "prepare_wait", value));
    assert_eq!(
        (is(&node).as_deref(), node.setting("meridian", "prepare_wait")),
        (Some("0"), Some(None))
    );
    assert!(matches!(set(&node, "nowhere", None), Err(DatabaseError::Missing(_))));
    assert!(matches!(set(&node, "meridian", Some("200ms")), Err(DatabaseError::Protocol(_))));
    assert!(matches!(set(&node, "lab", Some("soon")), Err(DatabaseError::Setting { .. })));
    assert!(matches!(
        block_on(node.set("lab", "colour", Some("red"))),
        Err(DatabaseError::NoSetting { .. })
    ));
    set(&node, "lab", Some("200ms")).unwrap();
    insist(
        || if is(&node).as_deref() == Some("200ms") { Ok(()) } else { Err("not yet".to_owned()) },
    );
    assert!(takes(&node, "late") >= WAIT);
    drop(node);
    let node = open();
    assert_eq!(is(&node).as_deref(), Some("200ms"));
    assert!(takes(&node, "late again") >= WAIT);
    set(&node, "lab", None).unwrap();
    insist(|| {
        if takes(&node, "at once") < WAIT { Ok(()) } else { Err("prepares still wait".to_owned()) }
    });
    assert_eq!(is(&node).as_deref(), Some("0"));
}

fn three() -> (Vec<Member>, tempfile::TempDir) {
    (members(), tempfile::tempdir().unwrap())
}

#[test]
fn three_nodes_commit_and_read_everywhere_while_any_one_is_away() {
    let (members, folder) = three();
    let mut nodes: Vec<Option<Arc<Node>>> =
        (1..=3).map(|node| Some(open(node, &members, folder.path()))).collect();
    insist(|| {
        block_on(nodes[0].as_ref().unwrap().create_database("lab", TAPIR, Vec::new()))
            .map_err(|error| error.to_string())
    });
    for (index, node) in nodes.iter().flatten().enumerate() {
        put_in(&lab(node), &format!("k{index}"), "first");
    }
    for node in nodes.iter().flatten() {
        assert!(
            (0..3)
                .all(|index| get_in(&lab(node), &format!("k{index}")).as_deref() == Some("first"))
        );
    }
    for away in 0..3u32 {
        nodes[away as usize] = None;
        let value = format!("without {away}");
        for node in nodes.iter().flatten() {
            put_in(&lab(node), "k0", &value);
            put_in(&lab(node), &value, "here");
        }
        for node in nodes.iter().flatten() {
            assert_eq!(get_in(&lab(node), "k0"), Some(value.clone()));
        }
        let back = open(away + 1, &members, folder.path());
        assert_eq!(get_in(&lab(&back), "k0"), Some(value.clone()));
        put_in(&lab(&back), "back", &value);
        // A read for a write is validated, whatever the nearest replica has missed.
        nodes[away as usize] = Some(back);
    }
    let database = lab(nodes[0].as_ref().unwrap());
    let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
    let mut transaction = block_on(database.begin(begin)).unwrap();
    let rows =
        block_on(transaction.scan(&KeyRange::prefix(b"without"), Lock::Shared, false, 10)).unwrap();
    assert_eq!(rows.rows.len(), 3);
}

/// Sums that several clients add to through all nodes lose no acknowledged addition while one node
/// after the other is killed.
#[test]
fn nothing_acknowledged_is_lost_when_nodes_die_in_the_middle_of_commits() {
    let (members, folder) = three();
    let open = |node: u32| open(node, &members, folder.path());
    let nodes: Vec<parking_lot::Mutex<Arc<Node>>> =
        (1..=3).map(|node| parking_lot::Mutex::new(open(node))).collect();
    let first = nodes[0].lock().clone();
    insist(|| {
        block_on(first.create_database("lab", TAPIR, Vec::new())).map_err(|error| error.to_string())
    });
    drop(first);
    let (sure, perhaps) =
        (std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicU64::new(0));
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        use std::sync::atomic::Ordering::Relaxed;
        for client in 0..3 {
            let (nodes, sure, perhaps, over) = (&nodes, &sure, &perhaps, &over);
            scope.spawn(move || {
                let mut age = None;
                while !over.load(Relaxed) {
                    let node = nodes[client].lock().clone();
                    let Ok(Some(database)) = block_on(node.find_database("lab")) else { continue };
                    let Ok(mut transaction) =
                        block_on(database.begin(Begin::new(Mode::ReadWrite).aged(age)))
                    else {
                        continue;
                    };
                    age = Some(transaction.age());
                    let key = Key::from("sum");
                    let Ok(known) = block_on(transaction.get(&key, Lock::Exclusive)) else {
                        continue;
                    };
                    let sum = known
                        .map_or(0, |value| String::from_utf8_lossy(&value).parse::<u64>().unwrap());
                    transaction
                        .put(key, Some(Value::from((sum + 1).to_string().as_str())))
                        .unwrap();
                    match block_on(transaction.commit()) {
                        Outcome::Committed { .. } => {
                            (age, _) = (None, sure.fetch_add(1, Relaxed));
                        }
                        Outcome::Unknown => _ = perhaps.fetch_add(1, Relaxed),
                        Outcome::Aborted { .. } => {}
                    }
                }
            });
        }
        for round in 0..6 {
            std::thread::sleep(std::time::Duration::from_millis(400));
            let mut dies = nodes[round % 3].lock();
            dies.kill();
            // Its folder is free once no client holds it.
            insist(|| {
                if Arc::strong_count(&dies) == 1 {
                    Ok(())
                } else {
                    Err("a client still holds the node".to_owned())
                }
            });
            let nobody = Node::open(Options::alone()).unwrap();
            drop(std::mem::replace(&mut *dies, nobody));
            *dies = open(round as u32 % 3 + 1);
        }
        let before = sure.load(Relaxed);
        insist(|| {
            if sure.load(Relaxed) > before + 20 {
                Ok(())
            } else {
                Err("no client commits".to_owned())
            }
        });
        over.store(true, Relaxed);
    });
    let (sure, perhaps) = (sure.into_inner(), perhaps.into_inner());
    for node in &nodes {
        let sum: u64 = get_in(&lab(&node.lock()), "sum").expect("it was written").parse().unwrap();
        assert!(
            (sure..=sure + perhaps).contains(&sum),
            "{sum}, and {sure} to {} were added",
            sure + perhaps
        );
    }
}

fn to(nodes: &[u32]) -> MemberRoles {
    MemberRoles { voters: nodes.iter().copied().map(NodeId).collect(), ..MemberRoles::default() }
}

/// Node 3 is gone for good, and node 4 takes over. Node 4 then has everything, including truncated
/// records: so nodes 1 and 2 may leave one after the other.
#[test]
fn another_node_takes_over_from_one_that_is_gone() {
    let (members, folder) = (some_members(5), tempfile::tempdir().unwrap());
    let mut nodes: Vec<Option<Arc<Node>>> =
        (1..=5).map(|node| Some(open(node, &members, folder.path()))).collect();
    let on =
        |nodes: &[Option<Arc<Node>>], at: usize| Arc::clone(nodes[at].as_ref().expect("it is up"));
    let three = || vec![NodeId(1), NodeId(2), NodeId(3)];
    let first = on(&nodes, 0);
    insist(|| {
        block_on(first.create_database("lab", TAPIR, three())).map_err(|error| error.to_string())
    });
    for number in 0..200 {
        put_in(&lab(&first), &format!("k{number:03}"), "from the beginning");
    }
    // A single replica serves settled snapshots, as of a moment ago, and settled records are
    // truncated soon.
    let written = block_on(begin(&lab(&first)).commit());
    let Outcome::Committed { at: written } = written else { panic!("{written:?}") };
    let settled = || {
        put_in(&lab(&first), "another", "so that it goes on");
        let mode = Mode::ReadOnly(ReadAt::AtLeast(written));
        let transaction =
            block_on(lab(&first).begin(Begin::new(mode))).map_err(|why| why.to_string())?;
        let at = transaction.read_at().expect("a snapshot has a timestamp");
        if at.nanos + 50_000_000 < transaction.began().latest {
            Ok(at)
        } else {
            Err("the settled timestamp lags".to_owned())
        }
    };
    let before = insist(settled);
    insist(|| {
        settled().and_then(|at| {
            if at > before {
                Ok(())
            } else {
                Err("the settled timestamp does not advance".to_owned())
            }
        })
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    insist(settled);
    for number in 0..20 {
        put_in(&lab(&first), &format!("k{number:03}"), "later");
    }
    nodes[2] = None;
    for wrong in
        [to(&[1, 2]), to(&[1, 2, 9]), MemberRoles { learners: vec![NodeId(4)], ..to(&[1, 2, 5]) }]
    {
        let refused = block_on(first.change_members("lab", wrong));
        assert!(matches!(refused, Err(DatabaseError::Replicas(_))), "{refused:?}");
    }
    block_on(first.change_members("lab", to(&[1, 2, 4]))).unwrap();
    block_on(first.change_members("lab", to(&[1, 2, 4]))).unwrap();
    put_in(&lab(&first), "k000", "last");
    drop(first);
    // Checks a snapshot through one node, and reads by a majority.
    let judge = |nodes: &[Option<Arc<Node>>], at: usize| {
        let database = lab(&on(nodes, at));
        let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
        let mut transaction = block_on(database.begin(begin)).unwrap();
        let rows =
            block_on(transaction.scan(&KeyRange::prefix(b"k"), Lock::Shared, false, 1000)).unwrap();
        assert_eq!(rows.rows.len(), 200, "at node {}", at + 1);
        for (index, value) in [(0, "last"), (1, "later"), (100, "from the beginning")] {
            assert_eq!(rows.rows[index].1, Value::from(value), "at node {}", at + 1);
            assert_eq!(
                get_in(&database, &format!("k{index:03}")).as_deref(),
                Some(value),
                "at node {}",
                at + 1
            );
        }
    };
    [0, 1, 3, 4].into_iter().for_each(|at| judge(&nodes, at));
    // Node 5 takes over from node 2, and then node 1 goes down.
    block_on(on(&nodes, 3).change_members("lab", to(&[1, 4, 5]))).unwrap();
    put_in(&lab(&on(&nodes, 4)), "k000", "last");
    nodes[0] = None;
    [3, 4].into_iter().for_each(|at| judge(&nodes, at));
    put_in(&lab(&on(&nodes, 3)), "k000", "last");
    // The two remaining replicas keep everything across restarts.
    for at in [3, 4] {
        nodes[at] = None;
        nodes[at] = Some(open(at as u32 + 1, &members, folder.path()));
    }
    [3, 4].into_iter().for_each(|at| judge(&nodes, at));
}

/// Hardly anything is settled here, so that after a restart rows arrive from the log of `system`,
/// one epoch after the other. Other replicas mask most violations of this rule: it is covered by
/// `a_node_from_a_later_epoch_waits_for_its_row` of the replicas alone.
#[test]
fn a_replica_that_begins_again_waits_for_the_row_of_its_epoch() {
    let (members, folder) = (some_members(4), tempfile::tempdir().unwrap());
    let open = |node: u32| {
        let hour = std::time::Duration::from_secs(3600);
        let flush = FlushOptions { after: hour, checkpoint_every: hour, ..FlushOptions::default() };
        let options =
            Options { node: NodeId(node), members: members.clone(), flush, ..Options::loopback() };
        Node::open(options.at(folder.path().join(node.to_string()))).unwrap()
    };
    let mut nodes: Vec<Arc<Node>> = (1..=4).map(open).collect();
    let three = || vec![NodeId(1), NodeId(2), NodeId(3)];
    insist(|| {
        block_on(nodes[0].create_database("lab", TAPIR, three())).map_err(|error| error.to_string())
    });
    put_in(&lab(&nodes[0]), "k", "first");
    block_on(nodes[0].change_members("lab", to(&[1, 2, 4]))).unwrap();
    nodes[2].kill();
    for value in 0..3 {
        put_in(&lab(&nodes[0]), "k", &value.to_string());
        for at in [0, 1, 3] {
            nodes[at].kill();
            insist(|| {
                if Arc::strong_count(&nodes[at]) == 1 {
                    Ok(())
                } else {
                    Err("a client still holds the node".to_owned())
                }
            });
            drop(std::mem::replace(&mut nodes[at], Node::open(Options::alone()).unwrap()));
            nodes[at] = open(at as u32 + 1);
            assert_eq!(
                get_in(&lab(&nodes[at]), "k"),
                Some(value.to_string()),
                "at node {}",
                at + 1
            );
        }
    }
}

#[test]
fn an_even_number_of_replicas_is_refused_with_the_way_out() {
    let (members, folder) = three();
    let two = &members[..2];
    let nodes: Vec<Arc<Node>> = (1..=2).map(|node| open(node, two, folder.path())).collect();
    let error = insist(|| match block_on(nodes[0].create_database("lab", TAPIR, Vec::new())) {
        Err(DatabaseError::Failed(failure)) => Err(failure.to_string()),
        Err(error) => Ok(error),
        Ok(()) => panic!("two replicas have no majority that survives"),
    });
    assert!(matches!(error, DatabaseError::Replicas(_)), "{error:?}");
    assert!(error.to_string().contains("MEMBERS (1, 2, 3)"), "{error}");
    let on = |members: &[u32]| {
        let members = members.iter().copied().map(NodeId).collect();
        block_on(nodes[0].create_database("lab", TAPIR, members)).map_err(|error| error.to_string())
    };
    assert_eq!(on(&[3]), Err("there is no node 3, only 1 to 2".to_owned()));
    // A node without a replica uses those of other nodes.
    insist(|| on(&[1]));
    for node in nodes.iter().rev() {
        put_in(&lab(node), "k", &node.number().to_string());
        assert_eq!(get_in(&lab(&nodes[0]), "k"), Some(node.number().to_string()));
    }
}
