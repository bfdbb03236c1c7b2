//! Three nodes in one process, over TCP.

mod common;

use common::{get, get_in, hasty, insist, members, open, open_on, open_with, put, put_in};

use futures::executor::block_on;
use meridian_clock::{ClockStatus, Health, Timestamp};
use meridian_host::clock::ClockBound;
use meridian_host::clock_sync::{NodeTime, Utc};
use meridian_host::node::{DatabaseError, Node, Options};
use meridian_host::shard::Timeouts;
use meridian_host::sources::Reference;
use meridian_machine::NodeId;
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_systems::{conventional_si, spanner};
use meridian_txn::{Begin, Database, Lock, Mode, Outcome, ReadAt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn three_nodes_commit_and_read_everywhere_and_one_that_was_away_catches_up() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let mut nodes: Vec<Option<Arc<Node>>> =
        (1..=3).map(|node| Some(open(node, &members, folder.path()))).collect();
    for (index, node) in nodes.iter().flatten().enumerate() {
        put(node, &format!("k{index}"), "first");
    }
    for node in nodes.iter().flatten() {
        for index in 0..3 {
            assert_eq!(get(node, &format!("k{index}")).as_deref(), Some("first"));
        }
    }
    // Each node reports its clock to the other nodes.
    insist(|| {
        let others = nodes[0].as_ref().unwrap().status().others;
        let good = |other: &NodeTime| {
            other
                .view
                .as_ref()
                .is_some_and(|(clock_status, _, _)| *clock_status == ClockStatus::Good)
        };
        if others.len() == 2 && others.iter().all(good) {
            Ok(())
        } else {
            Err(format!("{others:?}"))
        }
    });
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
    let database = node.database("meridian").unwrap();
    let begin = Begin::new(Mode::ReadOnly(ReadAt::Now));
    let mut transaction = block_on(database.begin(begin)).unwrap();
    let rows =
        block_on(transaction.scan(&KeyRange::prefix(b"without"), Lock::Shared, false, 10)).unwrap();
    assert_eq!(rows.rows.len(), 3);
}

#[test]
fn a_database_that_one_node_creates_is_everywhere_and_so_is_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let mut nodes: Vec<Option<Arc<Node>>> =
        (1..=3).map(|node| Some(open(node, &members, folder.path()))).collect();
    let first = nodes[0].clone().unwrap();
    block_on(first.create_database("lab", &spanner::PROTOCOL, Vec::new())).unwrap();
    let found = |node: &Node| block_on(node.find_database("lab")).unwrap();
    for node in nodes.iter().flatten() {
        assert!(found(node).is_some());
    }
    let exists = DatabaseError::Exists("lab".into());
    assert_eq!(
        block_on(nodes[1].as_ref().unwrap().create_database("lab", &spanner::PROTOCOL, Vec::new())),
        Err(exists)
    );
    put_in(&found(&first).unwrap(), "k", "in the lab");
    drop(first);
    nodes[0] = None;
    let lab = found(nodes[2].as_ref().unwrap()).unwrap();
    put_in(&lab, "k", "without the first");
    nodes[0] = Some(open(1, &members, folder.path()));
    let back = nodes[0].as_ref().unwrap();
    assert_eq!(get_in(&found(back).unwrap(), "k").as_deref(), Some("without the first"));
    insist(|| block_on(back.drop_database("lab")).map_err(|error| error.to_string()));
    for node in nodes.iter().flatten() {
        insist(|| match node.database("lab") {
            None => Ok(()),
            Some(_) => Err("still there".into()),
        });
        assert!(found(node).is_none());
    }
}

/// Writes, and returns the commit timestamp.
fn committed(database: &Arc<dyn Database>, key: &str, value: &str) -> Timestamp {
    insist(|| {
        let begin = Begin::new(Mode::ReadWrite);
        let mut transaction =
            block_on(database.begin(begin)).map_err(|failure| failure.to_string())?;
        transaction
            .put(Key::from(key), Some(Value::from(value)))
            .map_err(|failure| failure.to_string())?;
        match block_on(transaction.commit()) {
            Outcome::Committed { at } => Ok(at),
            other => Err(format!("{other:?}")),
        }
    })
}

/// A timestamp authority serves the sessions of all nodes and the leaders of both shards: also a
/// new one, after its node has gone.
#[test]
fn a_snapshot_of_an_authority_has_what_another_node_has_committed() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let mut nodes: Vec<Option<Arc<Node>>> =
        (1..=3).map(|node| Some(open(node, &members, folder.path()))).collect();
    let first = nodes[0].as_ref().unwrap();
    block_on(first.create_database("si", &conventional_si::PROTOCOL, Vec::new())).unwrap();
    insist(|| block_on(first.split("si", vec![Key::from("m")])).map_err(|why| why.to_string()));
    let database = |node: &Option<Arc<Node>>| {
        let node = node.as_ref().unwrap();
        block_on(node.find_database("si")).unwrap().expect("it is everywhere")
    };
    let write_and_read = |writer: &Arc<dyn Database>, reader: &Arc<dyn Database>, value: &str| {
        insist(|| {
            let begin = Begin::new(Mode::ReadWrite);
            let begun = block_on(writer.begin(begin)).map_err(|why| why.to_string());
            let mut transaction = begun?;
            for key in ["a", "z"] {
                let put = transaction.put(Key::from(key), Some(Value::from(value)));
                put.map_err(|why| why.to_string())?;
            }
            match block_on(transaction.commit()) {
                Outcome::Committed { .. } => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        for key in ["a", "z"] {
            assert_eq!(get_in(reader, key).as_deref(), Some(value), "by another node");
        }
    };
    for round in 0..12 {
        let (writer, reader) = (database(&nodes[round % 3]), database(&nodes[(round + 1) % 3]));
        write_and_read(&writer, &reader, &format!("round {round}"));
    }
    let leads = |node: &Option<Arc<Node>>| {
        let shards = node.as_ref().map_or(Vec::new(), |node| node.status().shards);
        shards.iter().any(|shard| shard.database == "si" && shard.shard.0 == 0 && shard.leads)
    };
    let authority = nodes.iter().position(leads).expect("a node leads the first shard");
    nodes[authority] = None;
    let (one, other) = ((authority + 1) % 3, (authority + 2) % 3);
    for (writer, reader) in [(one, other), (other, one)] {
        let (from, to) = (database(&nodes[writer]), database(&nodes[reader]));
        write_and_read(&from, &to, &format!("from {writer}"));
    }
}

/// More is written than the leader keeps of the log while a node is away: the node is sent a copy
/// and counts for majorities again.
#[test]
fn a_node_that_was_away_for_too_long_is_sent_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let open = |node| open(node, &members, folder.path());
    let mut nodes: Vec<Option<Arc<Node>>> = (1..=3).map(|node| Some(open(node))).collect();
    put(nodes[0].as_ref().unwrap(), "before", "here");
    nodes[2] = None;
    let big = "x".repeat(200_000);
    for number in 0..90 {
        put(nodes[number % 2].as_ref().unwrap(), &format!("big{number}"), &big);
    }
    put(nodes[0].as_ref().unwrap(), "before", "changed");
    // The log is truncated once the store has everything.
    for node in nodes.iter().flatten() {
        insist(|| match node.status().log.segments {
            0..=9 => Ok(()),
            many => Err(format!("{many} segments")),
        });
    }
    nodes[2] = Some(open(3));
    let applied = |node: &Node| {
        node.status().shards.iter().find(|s| s.database == "meridian").unwrap().applied
    };
    let (goal, back) = (applied(nodes[0].as_ref().unwrap()), nodes[2].clone().unwrap());
    insist(|| {
        if applied(&back) >= goal { Ok(()) } else { Err(format!("{} of {goal}", applied(&back))) }
    });
    insist(|| {
        if back.status().copies_received > 0 {
            Ok(())
        } else {
            Err("the node caught up from the log".into())
        }
    });
    // Without one of the nodes that had everything, the copy counts for the majority.
    nodes[0] = None;
    for node in nodes.iter().flatten() {
        assert_eq!(get(node, "before").as_deref(), Some("changed"));
        for number in 0..90 {
            assert_eq!(
                get(node, &format!("big{number}")).map(|value| value.len()),
                Some(big.len())
            );
        }
    }
    nodes[1] = None;
    nodes[0] = Some(open(1));
    assert_eq!(get(&back, "big89").map(|value| value.len()), Some(big.len()));
    drop(nodes);
    drop(back);
    // The copy is durable: the next incarnation recovers from it.
    let nodes: Vec<Arc<Node>> = (2..=3).map(open).collect();
    for node in &nodes {
        assert_eq!(get(node, "big0").map(|value| value.len()), Some(big.len()));
    }
}

/// A copy is made while more is written than the leader keeps of the log. It arrives, the replica
/// catches up from it, and it reaches back as far as its source: reads of the past still work.
#[test]
fn a_copy_under_a_steady_load_arrives_with_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let open = |node| open(node, &members, folder.path());
    let mut nodes: Vec<Option<Arc<Node>>> = (1..=3).map(|node| Some(open(node))).collect();
    let database = nodes[0].as_ref().unwrap().database("meridian").unwrap();
    put_in(&database, "k", "first");
    let then = committed(&database, "k", "then");
    nodes[2] = None;
    put_in(&database, "k", "now");
    let big = "x".repeat(100_000);
    // More than the leader keeps of the log, in versions of a few keys.
    (0..100).for_each(|number| put_in(&database, &format!("big{}", number % 5), &big));
    let shard = |node: &Node| {
        node.status().shards.into_iter().find(|shard| shard.database == "meridian").unwrap()
    };
    for node in nodes.iter().flatten() {
        insist(|| {
            if node.status().log.segments < 10 {
                Ok(())
            } else {
                Err("the log is not truncated".into())
            }
        });
    }
    let (ends, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writes = |writer: usize| {
        let (database, big, ends, written) =
            (database.clone(), big.clone(), ends.clone(), written.clone());
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                put_in(&database, &format!("load{writer}"), &big);
                written.fetch_add(big.len(), Ordering::Relaxed);
            }
        })
    };
    let writers: Vec<_> = (0..2).map(writes).collect();
    nodes[2] = Some(open(3));
    let back = nodes[2].clone().unwrap();
    insist(|| {
        if back.status().copies_received > 0 { Ok(()) } else { Err("no copy has arrived".into()) }
    });
    // The replica follows the log while the writers go on.
    let through = shard(nodes[0].as_ref().unwrap()).through;
    insist(|| {
        if shard(&back).closed >= through {
            Ok(())
        } else {
            Err(format!("closed at {}", shard(&back).closed))
        }
    });
    let copies = back.status().copies_received;
    let before = written.load(Ordering::Relaxed);
    insist(|| {
        if written.load(Ordering::Relaxed) > before + (6 << 20) {
            Ok(())
        } else {
            Err("no load".into())
        }
    });
    assert_eq!(
        back.status().copies_received,
        copies,
        "the log is enough for a replica that has caught up"
    );
    ends.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let at = |read_at| {
        let begin = Begin::new(Mode::ReadOnly(read_at));
        let mut transaction = block_on(back.database("meridian").unwrap().begin(begin)).unwrap();
        let found = block_on(transaction.get(&Key::from("k"), Lock::Shared)).unwrap();
        found.map(|value| String::from_utf8(value.0.to_vec()).unwrap())
    };
    // No other node can serve these reads.
    drop(database);
    (nodes[0], nodes[1]) = (None, None);
    assert_eq!(at(ReadAt::Exact(then)).as_deref(), Some("then"));
    assert_eq!(at(ReadAt::Exact(through)).as_deref(), Some("now"));
}

/// Leadership is handed over: no node waits for the leases of a node that shuts down.
#[test]
fn a_node_that_ends_hands_over_what_it_leads() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let timeouts = Timeouts { lease: Duration::from_secs(60), ..hasty() };
    let open = |node| Some(open_with(timeouts, node, &members, folder.path()));
    let mut nodes: Vec<Option<Arc<Node>>> = (1..=3).map(open).collect();
    put(nodes[0].as_ref().unwrap(), "k", "first");
    // Nodes 2 and 3 may have committed the write: node 1 learns its leader soon.
    let leader = insist(|| {
        let status = nodes[0].as_ref().unwrap().status();
        let shard = status.shards.into_iter().find(|shard| shard.database == "meridian");
        shard.and_then(|shard| shard.leader).ok_or_else(|| "no leader is known".into())
    });
    let leader = leader.0 as usize - 1;
    nodes[leader] = None;
    let began = Instant::now();
    for node in nodes.iter().flatten() {
        put(node, "k", "second");
    }
    assert!(
        began.elapsed() < Duration::from_secs(45),
        "{:?}: the lease was waited for",
        began.elapsed()
    );
}

/// The nodes synchronise with each other, without a bound on their system clocks. The bound that
/// they find is narrower than a configured one would be.
#[test]
fn nodes_that_know_no_bound_find_out_what_time_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let open = |node| open_on(ClockBound::Cluster, hasty(), node, &members, folder.path());
    let mut nodes: Vec<Option<Arc<Node>>> = (1..=3).map(|node| Some(open(node))).collect();
    assert_eq!(
        nodes[0].as_ref().unwrap().status().clock.health,
        Health::Fenced,
        "no node has responded yet"
    );
    put(nodes[0].as_ref().unwrap(), "k", "1");
    assert_eq!(get(nodes[2].as_ref().unwrap(), "k").as_deref(), Some("1"));
    for node in nodes.iter().flatten() {
        insist(|| {
            let clock = node.status().clock;
            let known = clock.health == Health::Good && clock.interval.half_width_ns() < 50_000_000;
            if known { Ok(()) } else { Err(format!("{clock:?}")) }
        });
    }
    insist(|| {
        let status = nodes[0].as_ref().unwrap().status();
        let near = |other: &NodeTime| {
            let knows = other
                .view
                .as_ref()
                .is_some_and(|(clock_status, _, _)| *clock_status == ClockStatus::Good);
            knows && other.ahead_ns.is_some_and(|ahead| ahead.abs() < 20_000_000)
        };
        let all = status.others.len() == 2 && status.others.iter().all(near);
        if all { Ok(()) } else { Err(format!("{:?}", status.others)) }
    });
    // A majority is enough, and a node that returns synchronises again.
    nodes[1] = None;
    put(nodes[0].as_ref().unwrap(), "k", "2");
    nodes[1] = Some(open(2));
    assert_eq!(get(nodes[1].as_ref().unwrap(), "k").as_deref(), Some("2"));
    // An isolated node does not know the time any more and reports that; it need not end.
    (nodes[1], nodes[2]) = (None, None);
    insist(|| match nodes[0].as_ref().unwrap().status().clock.health {
        Health::Fenced => Ok(()),
        Health::Good => Err("an isolated node reports a good clock".into()),
    });
    // All nodes restart, with times above those of before.
    let before = nodes[0].as_ref().unwrap().status().clock.interval.earliest;
    nodes.clear();
    let nodes: Vec<Arc<Node>> = (1..=3).map(open).collect();
    assert_eq!(get(&nodes[2], "k").as_deref(), Some("2"));
    assert!(nodes[1].status().clock.interval.latest > before);
}

/// Two time masters, and a node that polls them.
#[test]
fn time_masters_tell_the_others_what_time_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let masters = vec![NodeId(1), NodeId(2)];
    let open = |node: u32| {
        let sources = if node < 3 { vec![Reference::Within(1_000_000)] } else { Vec::new() };
        let utc = Utc { sources, masters: masters.clone(), oscillator: None };
        let (node, clock) = (NodeId(node), ClockBound::Utc);
        let options = Options {
            node,
            members: members.clone(),
            clock,
            utc,
            timeouts: hasty(),
            ..Options::alone()
        };
        Node::open(options.at(folder.path().join(node.0.to_string()))).unwrap()
    };
    let mut nodes: Vec<Option<Arc<Node>>> = (1..=3).map(|node| Some(open(node))).collect();
    put(nodes[2].as_ref().unwrap(), "k", "1");
    let clock_status = |node: &Node, wanted: ClockStatus| {
        insist(|| {
            let (clock_status, source) = node.clock_status();
            if clock_status == wanted { Ok(()) } else { Err(format!("{clock_status} by {source}")) }
        });
    };
    for node in nodes.iter().flatten() {
        clock_status(node, ClockStatus::Good);
        assert!(node.now().interval.half_width_ns() < 10_000_000, "{}", node.now().interval);
    }
    assert_eq!(
        nodes[0].as_ref().unwrap().clock_status().1,
        "system clock within --clock-bound and time masters"
    );
    nodes[0] = None;
    put(nodes[2].as_ref().unwrap(), "k", "2");
    // Without any master the clock runs freely, and its bound widens with every second.
    nodes[1] = None;
    let last = nodes[2].as_ref().unwrap();
    clock_status(last, ClockStatus::FreeRunning);
    assert_eq!(last.now().health, Health::Good);
}

/// An isolated replica serves snapshots at or below its closed timestamp: reads of the past need no
/// majority.
#[test]
fn a_past_snapshot_is_served_by_any_replica_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let members = members();
    let mut nodes: Vec<Option<Arc<Node>>> =
        (1..=3).map(|node| Some(open(node, &members, folder.path()))).collect();
    put(nodes[0].as_ref().unwrap(), "k", "1");
    let database = nodes[0].as_ref().unwrap().database("meridian").unwrap();
    let at = committed(&database, "k", "2");
    drop(database);
    put(nodes[0].as_ref().unwrap(), "k", "3");
    let last = Arc::clone(nodes[2].as_ref().unwrap());
    insist(|| {
        let status = last.status();
        let shard = status
            .shards
            .iter()
            .find(|shard| shard.database == "meridian")
            .ok_or("no such shard")?;
        if shard.closed >= at { Ok(()) } else { Err(format!("closed at {}", shard.closed)) }
    });
    (nodes[0], nodes[1]) = (None, None);
    let read = |read_at: ReadAt| {
        let begin = Begin::new(Mode::ReadOnly(read_at));
        let mut transaction = block_on(last.database("meridian").unwrap().begin(begin)).unwrap();
        let found = block_on(transaction.get(&Key::from("k"), Lock::Shared)).unwrap();
        found.map(|value| String::from_utf8(value.0.to_vec()).unwrap())
    };
    assert_eq!(read(ReadAt::Exact(at)).as_deref(), Some("2"));
    assert!(["2", "3"].contains(&read(ReadAt::AtLeast(at)).unwrap().as_str()));
}
