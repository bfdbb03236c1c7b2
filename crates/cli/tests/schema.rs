//! Tests schema changes of a table on three real processes, while clients write to it.

mod common;

use common::{Started, free_addresses};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

async fn client(server: &Started) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

async fn one(client: &Client, query: &str) -> i64 {
    client.query_one(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error:?}")).get(0)
}

/// Inserts rows and changes them, each change a transaction of two statements, until it is stopped.
/// Returns the number of rows, and the longest wait.
async fn write(
    mut client: Client,
    next: Arc<AtomicI32>,
    ended: Arc<AtomicBool>,
) -> (i64, Duration) {
    let insert =
        client.prepare("INSERT INTO stock (id, n) VALUES ($1, 0)").await.expect("prepared");
    let (mut rows, mut longest) = (0, Duration::ZERO);
    while !ended.load(Ordering::Relaxed) {
        let (began, id) = (Instant::now(), next.fetch_add(1, Ordering::Relaxed));
        client
            .execute(&insert, &[&id])
            .await
            .unwrap_or_else(|error| panic!("an insert failed: {error:?}"));
        longest = longest.max(began.elapsed());
        rows += 1;
        let began = Instant::now();
        let change = async {
            let transaction = client.transaction().await?;
            let n: i32 =
                transaction.query_one("SELECT n FROM stock WHERE id = $1", &[&id]).await?.get(0);
            transaction
                .execute("UPDATE stock SET n = $2 WHERE id = $1", &[&id, &(n + id + 1)])
                .await?;
            transaction.commit().await
        };
        change.await.unwrap_or_else(|error| panic!("a transaction failed: {error:?}"));
        longest = longest.max(began.elapsed());
    }
    (rows, longest)
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_change_under_writes_without_failures() {
    let (folder, addresses) = (tempfile::tempdir().expect("a folder"), free_addresses(3));
    let join = addresses.join(",");
    let member =
        |at: usize| Started::member(&folder.path().join(at.to_string()), &addresses[at], &join);
    let nodes: Vec<Started> = (0..3).map(member).collect();
    let admins = [client(&nodes[0]).await, client(&nodes[1]).await, client(&nodes[2]).await];
    admins[0]
        .batch_execute("CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL)")
        .await
        .expect("is made");
    admins[1]
        .batch_execute("ALTER TABLE stock SPLIT AT VALUES (40), (200)")
        .await
        .expect("is split");
    let (next, ended) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
    let mut writers = Vec::new();
    for node in nodes.iter().chain(&nodes) {
        writers.push(tokio::spawn(write(client(node).await, next.clone(), ended.clone())));
    }
    for (at, change) in [
        "CREATE INDEX stock_by_n ON stock (n)",
        "ALTER TABLE stock ADD COLUMN note text",
        "ALTER TABLE stock ADD COLUMN state int DEFAULT 7",
        "CREATE UNIQUE INDEX stock_by_both ON stock (n, id)",
        "DROP INDEX stock_by_n",
        "ALTER TABLE stock ALTER COLUMN n SET DEFAULT 3",
        "CREATE INDEX stock_by_n ON stock (n)",
    ]
    .into_iter()
    .enumerate()
    {
        let began = Instant::now();
        admins[at % 3]
            .batch_execute(change)
            .await
            .unwrap_or_else(|error| panic!("{change}: {error:?}"));
        println!("{:>5} ms  {change}", began.elapsed().as_millis());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ended.store(true, Ordering::Relaxed);
    let mut rows = 0;
    for writer in writers {
        let (written, longest) = writer.await.expect("no writer failed");
        println!("{written} rows, the longest wait {} ms", longest.as_millis());
        rows += written;
    }
    assert!(rows > 100, "{rows}");
    for admin in &admins {
        assert_eq!(one(admin, "SELECT count(*) FROM stock").await, rows);
        // Through the index, which has an entry for each row, and no other. Rows to be locked are
        // found by a key, whatever the statistics say.
        let locked = admin.query("SELECT id FROM stock WHERE n >= 0 FOR SHARE", &[]).await;
        assert_eq!(locked.expect("rows").len(), usize::try_from(rows).expect("a number"));
        assert_eq!(
            one(admin, "SELECT count(*) FROM stock WHERE n = id + 1 AND state = 7").await,
            rows
        );
        let plan = admin
            .simple_query("EXPLAIN SELECT id FROM stock WHERE n = 5")
            .await
            .expect("explained");
        assert!(format!("{plan:?}").contains("using stock_by_"), "{plan:?}");
    }
}

/// A unique index over two equal rows is withdrawn, and leaves nothing behind. An index whose build
/// was stopped is not read, and can be dropped.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_cannot_be_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let client = client(&server).await;
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, i / 2 FROM generate_series(1, 900) i",
        )
        .await
        .expect("is made");
    let refused =
        client.batch_execute("CREATE UNIQUE INDEX t_by_n ON t (n)").await.expect_err("rows agree");
    let told = refused.as_db_error().expect("by the server");
    assert_eq!(
        (told.code().code(), told.message()),
        ("23505", "could not create unique index \"t_by_n\"")
    );
    assert!(told.detail().is_some_and(|detail| detail.contains("is duplicated")), "{told:?}");
    assert_eq!(one(&client, "SELECT count(*) FROM pg_class WHERE relname = 't_by_n'").await, 0);
    client
        .batch_execute("INSERT INTO t VALUES (1000, 1); CREATE INDEX t_by_n ON t (n)")
        .await
        .expect("the name is free");
    assert_eq!(one(&client, "SELECT count(*) FROM t WHERE n = 1").await, 3);
    assert_eq!(one(&client, "SELECT count(*) FROM pg_index WHERE NOT indisvalid").await, 0);
}

/// A row whose value an older row has, before the index contains either: when the older row is
/// deleted, the other's entry stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_unique_index_that_is_being_built_keeps_the_entry_of_each_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (mut holder, other) = (client(&server).await, client(&server).await);
    other
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, i + 10000 FROM generate_series(2, 1000) i; \
             UPDATE t SET n = 7 WHERE id = 900",
        )
        .await
        .expect("is made");
    let held = holder.transaction().await.expect("begins");
    held.execute("DELETE FROM t WHERE id = 900", &[]).await.expect("its row is locked");
    let builder = client(&server).await;
    let builds =
        tokio::spawn(
            async move { builder.batch_execute("CREATE UNIQUE INDEX t_by_n ON t (n)").await },
        );
    let unfinished = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
    while one(&other, unfinished).await == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The backfill is past the first rows, and waits for the locked one.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(one(&other, unfinished).await, 1);
    other.batch_execute("INSERT INTO t VALUES (1, 7)").await.expect("others go on");
    held.commit().await.expect("the older row goes");
    if let Err(refused) = builds.await.expect("no panic") {
        // For a moment both rows existed, and the backfill may have seen them: the holder's
        // transaction was planned before the index was declared.
        assert_eq!(refused.code().map(|code| code.code()), Some("23505"), "{refused:?}");
        other
            .batch_execute("CREATE UNIQUE INDEX t_by_n ON t (n)")
            .await
            .expect("the index is built");
    }
    assert_eq!(one(&other, unfinished).await, 0);
    assert_eq!(one(&other, "SELECT count(*) FROM t WHERE n = 7").await, 1, "by the index");
    let twice =
        other.batch_execute("INSERT INTO t VALUES (2000, 7)").await.expect_err("it is unique");
    assert_eq!(twice.code().map(|code| code.code()), Some("23505"));
}

/// A follower's local read checks that the statement was planned for the current schema, whichever
/// group has the rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_notices_that_a_table_lies_elsewhere() {
    let (folder, addresses) = (tempfile::tempdir().expect("a folder"), free_addresses(3));
    let join = addresses.join(",");
    let member =
        |at: usize| Started::member(&folder.path().join(at.to_string()), &addresses[at], &join);
    let nodes: Vec<Started> = (0..3).map(member).collect();
    let writer = client(&nodes[0]).await;
    writer
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (20, 0)",
        )
        .await
        .expect("is made");
    writer.batch_execute("ALTER TABLE t SPLIT AT VALUES (10)").await.expect("is split");
    let mut readers = Vec::new();
    for node in &nodes {
        let reader = client(node).await;
        let read = reader
            .prepare("SELECT n FROM t WHERE id = 20 AS OF SYSTEM TIME with_max_staleness('10s')")
            .await;
        let read = read.expect("prepared");
        reader.query_one(&read, &[]).await.expect("read");
        readers.push((reader, read));
    }
    // The rows are rewritten at another place.
    writer.batch_execute("ALTER TABLE t ADD COLUMN state int DEFAULT 7").await.expect("is changed");
    writer.batch_execute("UPDATE t SET n = 5 WHERE id = 20").await.expect("is changed");
    let until = Instant::now() + Duration::from_secs(120);
    for (reader, read) in &readers {
        while reader.query_one(read, &[]).await.expect("read").get::<_, i32>(0) != 5 {
            assert!(Instant::now() < until, "what was read is older than ten seconds");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A change of a schema that waits for a lock in one of several shards, and is interrupted, has not
/// happened: that is no unknown outcome.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_interrupted_while_it_waits_has_not_happened() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (holder, changer) = (client(&server).await, client(&server).await);
    let table = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (20, 0)";
    holder.batch_execute(table).await.expect("is made");
    holder.batch_execute("ALTER TABLE t SPLIT AT VALUES (10)").await.expect("is split");
    changer.batch_execute("SET statement_timeout = '300ms'").await.expect("is set");
    holder.batch_execute("BEGIN; UPDATE t SET n = 1").await.expect("is locked");
    for change in ["ALTER TABLE t ADD COLUMN m int", "ALTER TABLE t RENAME TO u", "DROP TABLE t"] {
        let error = changer.batch_execute(change).await.expect_err(change);
        let code = error.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("57014"), "{change}: {error:?}");
    }
    changer
        .batch_execute("SET statement_timeout = 0; SET lock_timeout = '300ms'")
        .await
        .expect("set");
    let error = changer.batch_execute("DROP TABLE t").await.expect_err("it waits");
    assert_eq!(error.code().map(|code| code.code()), Some("55P03"), "{error:?}");
    holder.batch_execute("COMMIT").await.expect("nothing has changed");
    let columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0";
    assert_eq!(one(&changer, columns).await, 2);
    changer.batch_execute("ALTER TABLE t ADD COLUMN m int").await.expect("nothing is in its way");
}
