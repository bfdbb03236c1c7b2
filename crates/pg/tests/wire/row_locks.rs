//! Tests `SELECT … FOR UPDATE` with NOWAIT and SKIP LOCKED, in two sessions.

use crate::common::{PATIENCE, first, query, start, start_by};
use meridian_systems::Protocol;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::Client;

async fn jobs(client: &Client) {
    client
        .batch_execute(
            "CREATE TABLE job (id int PRIMARY KEY, state text, rank int); CREATE INDEX job_state ON job (state);
             INSERT INTO job VALUES (1, 'new', 5), (2, 'new', 4), (3, 'done', 3), (4, 'new', 2), (5, 'new', 1)",
        )
        .await
        .expect("is made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nowait_fails_where_for_update_waits() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    jobs(&one).await;
    one.batch_execute("BEGIN; UPDATE job SET rank = 9 WHERE id = 1").await.expect("holds");
    assert_eq!(first(&other, "SELECT id FROM job WHERE id = 1 FOR UPDATE NOWAIT").await, ["55P03"]);
    assert_eq!(first(&other, "SELECT id FROM job WHERE id = 1 FOR SHARE NOWAIT").await, ["55P03"]);
    assert_eq!(first(&other, "SELECT id FROM job WHERE id = 2 FOR UPDATE NOWAIT").await, ["2"]);
    // In a block the acquired lock is kept, and a later statement without NOWAIT waits as usual.
    other.batch_execute("BEGIN").await.expect("begins");
    assert_eq!(first(&other, "SELECT id FROM job WHERE id = 2 FOR UPDATE NOWAIT").await, ["2"]);
    assert_eq!(first(&one, "SELECT id FROM job WHERE id = 2 FOR UPDATE NOWAIT").await, ["55P03"]);
    one.batch_execute("ROLLBACK").await.expect("ends");
    assert_eq!(first(&other, "SELECT id FROM job WHERE id = 1 FOR UPDATE NOWAIT").await, ["1"]);
    other.batch_execute("COMMIT").await.expect("commits");
    assert_eq!(first(&one, "SELECT id FROM job FOR UPDATE NOWAIT").await.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn skip_locked_hands_each_worker_another_row() {
    let server = start().await;
    let (one, other, third) = (server.client().await, server.client().await, server.client().await);
    jobs(&one).await;
    let next = "SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
    for client in [&one, &other, &third] {
        client.batch_execute("BEGIN").await.expect("begins");
    }
    assert_eq!(first(&one, next).await, ["1"]);
    assert_eq!(first(&other, next).await, ["2"]);
    assert_eq!(first(&third, next).await, ["4"]);
    // A transaction's own locks are not skipped, and only the returned rows are locked.
    assert_eq!(first(&one, next).await, ["1"]);
    assert_eq!(first(&one, "SELECT id FROM job WHERE id = 3 FOR UPDATE NOWAIT").await, ["3"]);
    // The same in another order, through an index, and with rows that the transaction itself wrote.
    one.batch_execute("INSERT INTO job VALUES (6, 'new', 0)").await.expect("runs");
    let by_rank = "SELECT id FROM job WHERE state = 'new' ORDER BY rank FOR UPDATE SKIP LOCKED";
    assert_eq!(first(&one, by_rank).await, ["6", "5", "1"]);
    other.batch_execute("DELETE FROM job WHERE id = 2; COMMIT").await.expect("commits");
    third.batch_execute("ROLLBACK").await.expect("ends");
    one.batch_execute("UPDATE job SET state = 'done' WHERE id = 1; COMMIT").await.expect("commits");
    assert_eq!(
        first(&other, "SELECT id FROM job WHERE state = 'new' ORDER BY id FOR UPDATE SKIP LOCKED")
            .await,
        ["4", "5", "6"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workers_empty_a_queue_once() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE q (id int PRIMARY KEY)").await.expect("is made");
    let values: Vec<String> = (0..40).map(|id| format!("({id})")).collect();
    client
        .batch_execute(&format!("INSERT INTO q VALUES {}", values.join(", ")))
        .await
        .expect("rows");
    let mut workers = Vec::new();
    for _ in 0..4 {
        let worker = server.client().await;
        workers.push(tokio::spawn(async move {
            let mut done = Vec::new();
            loop {
                worker.batch_execute("BEGIN").await.expect("begins");
                let found =
                    first(&worker, "SELECT id FROM q ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED")
                        .await;
                let Some(id) = found.first() else {
                    worker.batch_execute("ROLLBACK").await.expect("ends");
                    return done;
                };
                worker
                    .batch_execute(&format!("DELETE FROM q WHERE id = {id}; COMMIT"))
                    .await
                    .expect("commits");
                done.push(id.parse::<i32>().expect("a number, not an error"));
            }
        }));
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.expect("ends"));
    }
    all.sort_unstable();
    // A worker may have ended while other workers had locked all remaining rows, which those
    // workers then processed.
    assert_eq!(all, (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_locks_nothing_waits_and_nothing_is_skipped() {
    let tapir = Protocol::named("tapir");
    let server = start_by(tapir.expect("there is one")).await;
    let client = server.client().await;
    jobs(&client).await;
    assert_eq!(first(&client, "SELECT id FROM job WHERE id = 1 FOR UPDATE NOWAIT").await, ["1"]);
    assert_eq!(first(&client, "SELECT id FROM job FOR UPDATE SKIP LOCKED").await, ["0A000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statement_of_a_client_that_has_gone_ends() {
    let server = start().await;
    let holder = server.client().await;
    jobs(&holder).await;
    holder.batch_execute("BEGIN; UPDATE job SET rank = 9 WHERE id = 1").await.expect("holds");
    let mut gone = server.session().await;
    let open = server.counters.connections_open.load(Relaxed);
    gone.send(query("UPDATE job SET rank = 8 WHERE id = 1")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(gone);
    let left = async {
        while server.counters.connections_open.load(Relaxed) >= open {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, left).await.expect("the server notices while the lock is still held");
    holder.batch_execute("COMMIT").await.expect("commits");
    assert_eq!(first(&holder, "SELECT rank FROM job WHERE id = 1").await, ["9"]);
}

/// NOWAIT holds for all rows of a long result. What a statement writes besides is locked as always:
/// neither NOWAIT nor SKIP LOCKED goes beyond the query's own rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nowait_and_skip_locked_hold_for_the_rows_of_their_query_alone() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    jobs(&one).await;
    one.batch_execute(
        "CREATE TABLE long (id int PRIMARY KEY); INSERT INTO long SELECT generate_series(1, 3000);
         CREATE TABLE archive (id int PRIMARY KEY)",
    )
    .await
    .expect("is made");
    one.batch_execute("BEGIN; DELETE FROM long WHERE id = 2500; INSERT INTO archive VALUES (4)")
        .await
        .expect("holds");
    let all = first(&other, "SELECT id FROM long FOR UPDATE NOWAIT").await;
    assert_eq!(all, ["55P03"], "{} rows", all.len());
    other.batch_execute("SET lock_timeout = '300ms'").await.expect("is set");
    for clause in ["NOWAIT", "SKIP LOCKED"] {
        let began = std::time::Instant::now();
        let insert =
            format!("INSERT INTO archive SELECT id FROM job WHERE id = 4 FOR UPDATE {clause}");
        assert_eq!(first(&other, &insert).await, ["55P03"], "{clause}");
        assert!(began.elapsed() >= Duration::from_millis(250), "{clause}: it waited for the key");
    }
    one.batch_execute("ROLLBACK").await.expect("ends");
    one.batch_execute("BEGIN; SELECT id FROM job WHERE id = 1 FOR UPDATE").await.expect("holds");
    let next = "INSERT INTO archive SELECT id + 0 FROM job WHERE id <= 2 ORDER BY id LIMIT 1
                FOR UPDATE SKIP LOCKED RETURNING id";
    assert_eq!(first(&other, next).await, ["2"]);
    one.batch_execute("ROLLBACK").await.expect("ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_at_the_catalog_lets_others_change_it() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    jobs(&one).await;
    one.batch_execute("BEGIN").await.expect("begins");
    for sql in [
        "SELECT count(*) FROM pg_class WHERE relname = 'job'",
        "SELECT count(*) FROM information_schema.tables WHERE table_name = 'job'",
        "SELECT count(*) FROM pg_class WHERE oid = 'job'::regclass",
    ] {
        assert_eq!(first(&one, sql).await, ["1"], "{sql}");
    }
    for sql in [
        "CREATE TABLE other (id int PRIMARY KEY)",
        "ALTER TABLE job ADD COLUMN more int",
        "ANALYZE job",
        "CREATE INDEX job_rank ON job (rank)",
    ] {
        assert_eq!(first(&other, sql).await, Vec::<String>::new(), "{sql}");
    }
    let seen = "SELECT count(*) FROM pg_class WHERE relname IN ('other', 'job_rank')";
    assert_eq!(first(&one, seen).await, ["2"]);
    one.batch_execute("COMMIT").await.expect("commits");
}

/// Over a join, only rows that are returned are locked, and only those of the tables that OF names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_joins_are_locked_skipped_and_looked_at_again() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    jobs(&one).await;
    one.batch_execute(
        "CREATE TABLE worker (state text PRIMARY KEY, name text);
         INSERT INTO worker VALUES ('new', 'ada'), ('done', 'bob')",
    )
    .await
    .expect("is made");
    let next = "SELECT job.id FROM job JOIN worker ON worker.state = job.state
                WHERE name = 'ada' ORDER BY rank LIMIT 1 FOR UPDATE OF job SKIP LOCKED";
    for client in [&one, &other] {
        client.batch_execute("BEGIN").await.expect("begins");
    }
    assert_eq!(first(&one, next).await, ["5"]);
    assert_eq!(first(&other, next).await, ["4"]);
    let nowait = "SELECT job.id FROM job, worker WHERE worker.state = job.state AND job.id = 5
                  FOR NO KEY UPDATE OF job NOWAIT";
    assert_eq!(first(&other, nowait).await, ["55P03"]);
    one.batch_execute("UPDATE job SET state = 'done' WHERE id = 5; COMMIT").await.expect("commits");
    other.batch_execute("ROLLBACK").await.expect("ends");
    // A queue in one statement, as many applications have it.
    let take = "UPDATE job SET state = 'done' WHERE id = (SELECT id FROM job WHERE state = 'new'
                ORDER BY rank LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id";
    for client in [&one, &other] {
        client.batch_execute("BEGIN").await.expect("begins");
    }
    assert_eq!(first(&one, take).await, ["4"]);
    assert_eq!(first(&other, take).await, ["2"]);
    one.batch_execute("COMMIT").await.expect("commits");
    other.batch_execute("COMMIT").await.expect("commits");
    assert_eq!(first(&one, take).await, ["1"]);
    assert!(first(&other, take).await.is_empty());
}
