//! A database that is split into several shards, on real nodes.

use futures::executor::block_on;
use meridian_host::identity::OpenError;
use meridian_host::node::{Node, Options};
use meridian_mvcc::{Key, KeyRange, Value};
use meridian_txn::{Begin, Database, Failure, Lock, Mode, Outcome, ReadAt};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn put(database: &Arc<dyn Database>, writes: &[(&str, &str)]) {
    let begin = Begin::new(Mode::ReadWrite);
    let mut transaction = block_on(database.begin(begin)).unwrap();
    for (key, value) in writes {
        transaction.put(Key::from(*key), Some(Value::from(*value))).unwrap();
    }
    assert!(matches!(block_on(transaction.commit()), Outcome::Committed { .. }));
}

fn all(database: &Arc<dyn Database>, mode: Mode) -> Vec<String> {
    let mut transaction = block_on(database.begin(Begin::new(mode))).unwrap();
    let (mut rows, mut rest) = (Vec::new(), Some(KeyRange::all()));
    while let Some(range) = rest {
        let found = block_on(transaction.scan(&range, Lock::Shared, false, 10)).unwrap();
        rows.extend(found.rows.iter().map(|(key, value)| {
            format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
        }));
        rest = found.rest;
    }
    rows
}

const NOW: Mode = Mode::ReadOnly(ReadAt::Now);

#[test]
fn a_database_is_split_and_written_across_the_split_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    for incarnation in 0..3 {
        let node = Node::open(Options::alone().at(folder.path())).unwrap();
        let database = node.database("meridian").unwrap();
        if incarnation == 0 {
            put(&database, &[("a", "1"), ("m", "1"), ("z", "1")]);
            block_on(node.split("meridian", vec![Key::from("m")])).unwrap();
            let again = ["t", "m", "t"].into_iter().map(Key::from).collect();
            block_on(node.split("meridian", again)).unwrap();
            put(&database, &[("a", "2"), ("m", "2"), ("z", "2")]);
        }
        assert_eq!(
            node.status().shards.iter().filter(|shard| shard.database == "meridian").count(),
            3,
            "life {incarnation}"
        );
        for mode in [NOW, Mode::ReadWrite] {
            assert_eq!(all(&database, mode), ["a=2", "m=2", "z=2"], "life {incarnation}, {mode:?}");
        }
        if incarnation == 1 { node.kill() } else { node.shutdown() }
    }
}

#[test]
fn what_was_not_to_be_locked_takes_no_part_in_the_commit() {
    let node = Node::open(Options::alone()).unwrap();
    let database = node.database("meridian").unwrap();
    put(&database, &[("a", "1"), ("z", "1")]);
    block_on(node.split("meridian", vec![Key::from("m")])).unwrap();
    let begin = || block_on(database.begin(Begin::new(Mode::ReadWrite))).unwrap();
    let (mut holder, mut reader, mut writer) = (begin(), begin(), begin());
    block_on(holder.get(&Key::from("z"), Lock::Exclusive)).unwrap();
    for impatient in [&mut reader, &mut writer] {
        impatient.set_lock_timeout(Some(Duration::from_millis(20)));
        assert_eq!(
            block_on(impatient.get(&Key::from("z"), Lock::Exclusive)).err(),
            Some(Failure::LockTimeout)
        );
    }
    assert!(matches!(block_on(reader.commit()), Outcome::Committed { .. }));
    writer.put(Key::from("a"), Some(Value::from("2"))).unwrap();
    assert!(matches!(block_on(writer.commit()), Outcome::Committed { .. }));
    drop(holder);
    put(&database, &[("z", "2")]); // No lock request is left there.
    assert_eq!(all(&database, NOW), ["a=2", "z=2"]);
}

/// The store then lacks the split-off shard until the log is replayed up to the split. The log
/// records of the shard's replica stay meanwhile.
#[test]
fn a_node_that_lost_its_store_has_everything_in_its_log() {
    let folder = tempfile::tempdir().unwrap();
    {
        let node = Node::open(Options::alone().at(folder.path())).unwrap();
        let database = node.database("meridian").unwrap();
        put(&database, &[("a", "1"), ("z", "1")]);
        block_on(node.split("meridian", vec![Key::from("m")])).unwrap();
        put(&database, &[("a", "2"), ("z", "2")]);
        node.shutdown();
    }
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    for incarnation in 0..2 {
        let until = Instant::now() + Duration::from_secs(120);
        let node = loop {
            match Node::open(Options::alone().at(folder.path())) {
                // The thread that settled the split of the incarnation before may hold the store
                // for a moment longer.
                Err(OpenError::InUse { .. }) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                opened => break opened.unwrap(),
            }
        };
        while node.status().shards.iter().filter(|shard| shard.database == "meridian").count() < 2 {
            assert!(Instant::now() < until, "life {incarnation}: {:?}", node.status());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            all(&node.database("meridian").unwrap(), NOW),
            ["a=2", "z=2"],
            "life {incarnation}"
        );
    }
}
