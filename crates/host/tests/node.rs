//! One node: transactions, isolation, reopening, databases.

use futures::FutureExt;
use futures::executor::block_on;
use meridian_host::flusher::FlushOptions;
use meridian_host::node::{DatabaseError, Node, Options};
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_systems::spanner;
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome, ReadAt, Transaction};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const NOW: Mode = Mode::ReadOnly(ReadAt::Now);

fn begin(database: &Arc<dyn Database>, mode: Mode) -> Box<dyn Transaction> {
    block_on(database.begin(Begin::new(mode))).expect("it begins")
}

fn put(database: &Arc<dyn Database>, key: &str, value: &str) -> meridian_clock::Timestamp {
    let mut transaction = begin(database, Mode::ReadWrite);
    transaction.put(Key::from(key), Some(Value::from(value))).unwrap();
    match block_on(transaction.commit()) {
        Outcome::Committed { at } => at,
        other => panic!("{other:?}"),
    }
}

fn get_at(database: &Arc<dyn Database>, key: &str, mode: Mode) -> Option<String> {
    let found = block_on(begin(database, mode).get(&Key::from(key), Lock::Shared)).unwrap();
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn get(database: &Arc<dyn Database>, key: &str) -> Option<String> {
    get_at(database, key, NOW)
}

fn small(folder: &Path) -> Options {
    let flush = FlushOptions {
        every: Duration::from_millis(5),
        checkpoint_every: Duration::from_millis(20),
        checkpoint_bytes: 64 << 10,
        batch_bytes: 16 << 10,
        after: Duration::ZERO,
        ..FlushOptions::default()
    };
    Options { log_segment_bytes: 256 << 10, flush, ..Options::alone().at(folder) }
}

#[test]
fn a_node_in_memory_reads_what_it_wrote_and_travels_in_time() {
    let node = Node::open(Options::alone()).unwrap();
    let database = node.database("postgres").unwrap();
    assert_eq!(get(&database, "k"), None);
    let first = put(&database, "k", "one");
    let second = put(&database, "k", "two");
    assert!(second > first);
    assert_eq!(get(&database, "k").as_deref(), Some("two"));
    assert_eq!(
        get_at(&database, "k", Mode::ReadOnly(ReadAt::Exact(first))).as_deref(),
        Some("one")
    );
    let later = meridian_clock::Timestamp {
        nanos: node.status().clock.interval.latest + 3_600_000_000_000,
        ..second
    };
    let refused = block_on(database.begin(Begin::new(Mode::ReadOnly(ReadAt::Exact(later)))));
    assert!(matches!(refused.err(), Some(Failure::InFuture { .. })));
    assert_eq!(get(&node.database("meridian").unwrap(), "k"), None);
}

#[test]
fn a_snapshot_of_now_stays_as_it_is_and_nothing_is_committed_below_it() {
    let node = Node::open(Options::alone()).unwrap();
    let database = node.database("postgres").unwrap();
    put(&database, "k", "before");
    let now = meridian_clock::Timestamp::end_of(node.status().clock.interval.latest);
    let exact = Mode::ReadOnly(ReadAt::Exact(now));
    assert_eq!(get_at(&database, "k", exact).as_deref(), Some("before"));
    assert!(put(&database, "k", "after") > now);
    assert_eq!(get_at(&database, "k", exact).as_deref(), Some("before"));
}

#[test]
fn own_writes_are_seen_in_reads_and_scans_and_taken_back_to_a_savepoint() {
    let node = Node::open(Options::alone()).unwrap();
    let database = node.database("postgres").unwrap();
    for key in ["a", "c", "e", "g"] {
        put(&database, key, "old");
    }
    let mut transaction = begin(&database, Mode::ReadWrite);
    transaction.put(Key::from("b"), Some(Value::from("new"))).unwrap();
    transaction.put(Key::from("c"), None).unwrap();
    let savepoint = transaction.savepoint();
    transaction.put(Key::from("a"), Some(Value::from("gone"))).unwrap();
    transaction.put(Key::from("f"), Some(Value::from("gone"))).unwrap();
    transaction.rollback_to(savepoint);
    for reverse in [false, true] {
        for limit in 1..6 {
            let (mut seen, mut range) = (Vec::new(), Some(KeyRange::all()));
            while let Some(part) = range {
                let chunk =
                    block_on(transaction.scan(&part, Lock::Shared, reverse, limit)).unwrap();
                assert!(chunk.rows.len() <= limit);
                seen.extend(
                    chunk.rows.into_iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()),
                );
                range = chunk.rest;
            }
            if reverse {
                seen.reverse();
            }
            assert_eq!(seen, ["a", "b", "e", "g"], "limit {limit}, reverse {reverse}");
        }
    }
    assert_eq!(block_on(transaction.get(&Key::from("c"), Lock::Shared)).unwrap(), None);
    drop(transaction);
    assert_eq!(get(&database, "b"), None);
    assert!(begin(&database, NOW).put(Key::from("b"), None) == Err(Failure::ReadOnly));
}

#[test]
fn increments_from_many_threads_are_all_counted() {
    let node = Node::open(Options::alone()).unwrap();
    let database = node.database("postgres").unwrap();
    let counted: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let database = &database;
                scope.spawn(move || (0..250).filter(|_| increment(database)).count() as u64)
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(counted > 0);
    assert_eq!(get(&database, "n"), Some(counted.to_string()));
}

/// Reads under a shared lock and writes. Two of these deadlock on the upgrade, and wound-wait lets
/// the older one win.
fn increment(database: &Arc<dyn Database>) -> bool {
    let mut transaction = begin(database, Mode::ReadWrite);
    let key = Key::from("n");
    let Ok(before) = block_on(transaction.get(&key, Lock::Shared)) else { return false };
    let before: u64 =
        before.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap());
    transaction.put(key, Some(Value::from(&*(before + 1).to_string()))).unwrap();
    matches!(block_on(transaction.commit()), Outcome::Committed { .. })
}

#[test]
fn a_wounded_idle_transaction_loses_its_locks_and_is_notified() {
    let node = Node::open(Options::alone()).unwrap();
    let database = node.database("postgres").unwrap();
    let mut older = begin(&database, Mode::ReadWrite);
    let mut younger = begin(&database, Mode::ReadWrite);
    let key = Key::from("k");
    block_on(younger.get(&key, Lock::Exclusive)).unwrap();
    block_on(older.get(&key, Lock::Exclusive)).unwrap(); // Waits a second at most.
    assert!(matches!(block_on(younger.get(&key, Lock::Shared)), Err(Failure::Aborted(_))));
    assert!(matches!(block_on(younger.commit()), Outcome::Aborted { .. }));
    assert!(matches!(block_on(older.commit()), Outcome::Committed { .. }));
}

/// A statement that is cancelled or times out leaves its transaction open until ROLLBACK.
#[test]
fn a_dropped_wait_blocks_no_other() {
    let node = Node::open(Options::alone()).unwrap();
    let database = node.database("postgres").unwrap();
    let key = Key::from("k");
    let [mut holder, mut stopped, mut last] = [0; 3].map(|_| begin(&database, Mode::ReadWrite));
    block_on(holder.get(&key, Lock::Shared)).expect("the lock is free");
    assert!(
        stopped.get(&key, Lock::Exclusive).now_or_never().is_none(),
        "the request waits, and is dropped"
    );
    last.set_lock_timeout(Some(Duration::from_secs(5)));
    block_on(last.get(&key, Lock::Shared)).expect("no request waits before this one");
    // The same for a request that times out.
    stopped.set_lock_timeout(Some(Duration::from_millis(20)));
    assert_eq!(block_on(stopped.get(&key, Lock::Exclusive)).err(), Some(Failure::LockTimeout));
    let mut another = begin(&database, Mode::ReadWrite);
    another.set_lock_timeout(Some(Duration::from_secs(5)));
    block_on(another.get(&key, Lock::Shared)).expect("no request waits before this one");
}

#[test]
fn a_folder_is_gone_on_from_and_the_log_does_not_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let mut newest = meridian_clock::Timestamp::ZERO;
    for incarnation in 1..=3u32 {
        let node = Node::open(small(folder.path())).unwrap();
        assert_eq!(node.status().incarnation, incarnation);
        let database = node.database("postgres").unwrap();
        for number in 0..300 {
            let key = format!("k{number}");
            let before =
                (incarnation > 1).then(|| format!("{}{}", incarnation - 1, "x".repeat(1000)));
            assert_eq!(get(&database, &key), before, "{key} in life {incarnation}");
            let at = put(&database, &key, &format!("{incarnation}{}", "x".repeat(1000)));
            assert!(at > newest);
            newest = at;
        }
        let end = std::time::Instant::now() + Duration::from_secs(120);
        while node.status().log.segments > 3 {
            assert!(std::time::Instant::now() < end, "{:?}", node.status());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(
            matches!(Node::open(small(folder.path())), Err(error) if error.to_string().contains("in use"))
        );
    }
}

/// The store holds what the log no longer has. Without the store, the node must not start as if
/// those writes had never happened.
#[test]
fn a_store_that_was_emptied_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    {
        let node = Node::open(small(folder.path())).unwrap();
        let database = node.database("postgres").unwrap();
        let oldest = || {
            let names = std::fs::read_dir(folder.path().join("log")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name.starts_with("log-")).min().unwrap()
        };
        // Until the first segment is released.
        let (first, end) = (oldest(), std::time::Instant::now() + Duration::from_secs(120));
        for number in 0.. {
            if oldest() != first {
                break;
            }
            put(&database, &format!("k{number}"), &"x".repeat(1000));
            assert!(std::time::Instant::now() < end, "{:?}", node.status());
        }
    }
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    let refused = Node::open(small(folder.path())).err().expect("refused").to_string();
    assert!(refused.contains("ends at entry 0") && refused.contains("same backup"), "{refused}");
}

#[test]
fn a_log_that_was_emptied_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    put(&Node::open(small(folder.path())).unwrap().database("postgres").unwrap(), "k", "v");
    std::fs::remove_dir_all(folder.path().join("log")).unwrap();
    let refused = Node::open(small(folder.path())).err().expect("refused").to_string();
    assert!(refused.contains("the whole log is missing"), "{refused}");
}

#[test]
fn databases_are_created_kept_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    {
        let node = Node::open(small(folder.path())).unwrap();
        block_on(node.create_database("lab", &spanner::PROTOCOL, Vec::new())).unwrap();
        block_on(node.create_database("shed", &spanner::PROTOCOL, Vec::new())).unwrap();
        assert_eq!(
            block_on(node.create_database("lab", &spanner::PROTOCOL, Vec::new())),
            Err(DatabaseError::Exists("lab".into()))
        );
        assert!(matches!(
            block_on(node.drop_database("postgres")),
            Err(DatabaseError::Permanent(_))
        ));
        put(&node.database("lab").unwrap(), "k", "kept");
        put(&node.database("shed").unwrap(), "k", "lost");
        block_on(node.drop_database("shed")).unwrap();
        assert_eq!(
            block_on(node.drop_database("shed")),
            Err(DatabaseError::Missing("shed".into()))
        );
    }
    let node = Node::open(small(folder.path())).unwrap();
    assert_eq!(node.databases(), ["system", "postgres", "meridian", "lab"]);
    assert_eq!(get(&node.database("lab").unwrap(), "k").as_deref(), Some("kept"));
    block_on(node.create_database("shed", &spanner::PROTOCOL, Vec::new())).unwrap();
    assert_eq!(get(&node.database("shed").unwrap(), "k"), None);
}

#[test]
fn a_database_keeps_versions_for_as_long_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::open(small(folder.path())).unwrap();
    block_on(node.create_database("lab", &spanner::PROTOCOL, Vec::new())).unwrap();
    let (here, there) = (node.database("meridian").unwrap(), node.database("lab").unwrap());
    let old = [&here, &there].map(|database| {
        let at = put(database, "k", "one");
        put(database, "k", "two");
        at
    });
    let retention = |database| node.setting(database, "version_retention_period").flatten();
    let retain = |database, value| block_on(node.set(database, "version_retention_period", value));
    assert_eq!(retention("meridian").as_deref(), Some("10min"));
    assert!(matches!(retain("nowhere", None), Err(DatabaseError::Missing(_))));
    retain("meridian", Some("1s")).unwrap();
    assert_eq!(retention("meridian").as_deref(), Some("1s"));
    let read = |database: &Arc<dyn Database>, at| {
        let mut transaction = begin(database, Mode::ReadOnly(ReadAt::Exact(at)));
        block_on(transaction.get(&Key::from("k"), Lock::Shared))
    };
    let end = std::time::Instant::now() + Duration::from_secs(120);
    let refused = loop {
        put(&here, "another", "settles something");
        match read(&here, old[0]) {
            Err(failure) => break failure,
            Ok(found) => {
                assert_eq!(found, Some(Value::from("one")), "an error, never another answer")
            }
        }
        assert!(std::time::Instant::now() < end, "the old version is never removed");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(matches!(refused, Failure::BelowHorizon { .. }), "{refused:?}");
    assert_eq!(
        read(&there, old[1]),
        Ok(Some(Value::from("one"))),
        "the other database keeps its old version"
    );
    assert_eq!(get(&here, "k").as_deref(), Some("two"));
    drop((here, there));
    drop(node);
    let again = Node::open(small(folder.path())).unwrap();
    let retention = |database| again.setting(database, "version_retention_period").flatten();
    assert_eq!(
        (retention("meridian").as_deref(), retention("lab").as_deref()),
        (Some("1s"), Some("10min"))
    );
    block_on(again.set("meridian", "version_retention_period", None)).unwrap();
    assert_eq!(retention("meridian").as_deref(), Some("10min"));
}
