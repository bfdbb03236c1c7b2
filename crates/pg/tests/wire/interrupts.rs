//! Tests of statements and sessions that are stopped by a cancel request, a timeout, or the
//! server's shutdown.

use crate::common;
use crate::common::{PATIENCE, local, query, start, start_with, tags};
use meridian_pg::Options;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// Creates a table, and a client whose open transaction makes all other writers of the table wait.
async fn held(server: &common::Running) -> tokio_postgres::Client {
    let holder = server.client().await;
    holder
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
        .await
        .expect("is made");
    holder.batch_execute("BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").await.expect("holds");
    holder
}

#[tokio::test]
async fn a_cancel_request_stops_the_running_statement_only() {
    let server = start().await;
    let holder = held(&server).await;
    let waiter = server.client().await;
    let token = waiter.cancel_token();
    // The first request may arrive before the statement runs, and then stops nothing.
    let stop = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            token.cancel_query(NoTls).await.expect("is sent");
        }
    };
    let waiting = timeout(PATIENCE, waiter.batch_execute("UPDATE t SET n = 5 WHERE id = 1"));
    let error = tokio::select! {
        answer = waiting => answer.expect("in time"),
        () = stop => Ok(()),
    };
    let error = error.expect_err("is cancelled");
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{error}");
    holder.batch_execute("COMMIT").await.expect("commits");
    // A request that arrives between statements stops no later one.
    token.cancel_query(NoTls).await.expect("is sent");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let row = waiter.query_one("SELECT n FROM t WHERE id = 1", &[]).await.expect("runs");
    assert_eq!(row.get::<_, i32>(0), 1);
}

#[tokio::test]
async fn a_wrong_secret_cancels_nothing() {
    let server = start().await;
    let mut raw = server.raw().await;
    raw.open(&[("user", "root"), ("database", "meridian")]).await;
    let opened = raw.until(b'Z').await;
    let mut key = opened.iter().find(|message| message.tag == b'K').expect("a key").body.clone();
    key[7] ^= 1;
    let mut request = server.raw().await;
    request.send([b"\0\0\0\x10\x04\xd2\x16\x2e", &key[..]].concat()).await;
    assert!(request.rest().await.is_empty(), "a cancel request gets no answer");
    assert_eq!(server.counters.cancels_total.load(Relaxed), 0);
    key[7] ^= 1;
    let mut request = server.raw().await;
    request.send([b"\0\0\0\x10\x04\xd2\x16\x2e", &key[..]].concat()).await;
    assert!(request.rest().await.is_empty());
    assert_eq!(server.counters.cancels_total.load(Relaxed), 1);
    raw.send(query("")).await;
    assert_eq!(tags(&raw.until(b'Z').await), "IZ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_request_is_not_lost_while_rows_are_sent() {
    let server = start().await;
    let mut raw = server.raw().await;
    raw.open(&[("user", "root"), ("database", "meridian")]).await;
    let opened = raw.until(b'Z').await;
    let key = &opened.iter().find(|message| message.tag == b'K').expect("a key").body;
    let rows = "select g from generate_series(1, 3000000) g";
    for (sql, row) in [(rows.to_owned(), b'D'), (format!("copy ({rows}) to stdout"), b'd')] {
        for at in [1, 700, 1500, 2500] {
            raw.send(query(&sql)).await;
            let mut came = 0;
            // The rest is in the connection's buffers, or is not sent.
            while came < at {
                came += u32::from(raw.next().await.expect("a message").tag == row);
            }
            let mut request = server.raw().await;
            request.send([b"\0\0\0\x10\x04\xd2\x16\x2e", &key[..]].concat()).await;
            assert!(request.rest().await.is_empty(), "a cancel request gets no answer");
            let ended = raw.until(b'Z').await;
            let error = &ended[ended.len() - 2];
            assert_eq!((error.tag, error.field(b'C')), (b'E', Some("57014".into())), "{sql}");
        }
    }
}

#[tokio::test]
async fn a_statement_timeout_fails_the_statement_and_its_block() {
    let server = start().await;
    let holder = held(&server).await;
    let waiter = server.client().await;
    waiter.batch_execute("SET statement_timeout = '50ms'").await.expect("is set");
    let error =
        waiter.batch_execute("UPDATE t SET n = 5 WHERE id = 1").await.expect_err("times out");
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    assert!(error.to_string().contains("db error"), "{error}");
    waiter.batch_execute("BEGIN").await.expect("begins");
    let error =
        waiter.execute("UPDATE t SET n = 5 WHERE id = 1", &[]).await.expect_err("times out");
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
    let error = waiter.batch_execute("SELECT 1").await.expect_err("the block has failed");
    assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    waiter.batch_execute("ROLLBACK").await.expect("rolls back");
    holder.batch_execute("COMMIT").await.expect("commits");
    waiter
        .batch_execute("UPDATE t SET n = 5 WHERE id = 1")
        .await
        .expect("no transaction holds the row any more");
    assert!(server.counters.timeouts_total.load(Relaxed) >= 2);
}

/// `set_config` changes a setting as SET does: the server enforces its value, and reports it.
#[tokio::test]
async fn set_config_is_enforced_and_reported() {
    let server = start().await;
    let holder = held(&server).await;
    let mut session = server.session().await;
    session.send(query("SELECT set_config('application_name', 'other', false)")).await;
    let answers = session.until(b'Z').await;
    let reported = |it: &common::Message| it.tag == b'S' && it.body == b"application_name\0other\0";
    assert!(answers.iter().any(reported), "{answers:?}");
    session.send(query("SELECT set_config('statement_timeout', '50ms', false)")).await;
    session.until(b'Z').await;
    session.send(query("UPDATE t SET n = 5 WHERE id = 1")).await;
    let answers = timeout(PATIENCE, session.until(b'Z')).await.expect("it times out");
    let is_canceled =
        |it: &common::Message| it.tag == b'E' && it.body.windows(5).any(|w| w == b"57014");
    assert!(answers.iter().any(is_canceled), "{answers:?}");
    holder.batch_execute("COMMIT").await.expect("commits");
}

#[tokio::test]
async fn an_idle_block_is_ended_and_lets_go() {
    let server = start().await;
    let mut raw = server.session().await;
    raw.send(query(
        "CREATE TABLE t (id int PRIMARY KEY); SET idle_in_transaction_session_timeout = 50",
    ))
    .await;
    assert!(!tags(&raw.until(b'Z').await).contains('E'));
    // An idle session without a transaction block has no timeout.
    tokio::time::sleep(Duration::from_millis(120)).await;
    raw.send(query("BEGIN; INSERT INTO t VALUES (1)")).await;
    assert_eq!(raw.until(b'Z').await.last().expect("ready").body, b"T");
    let last = raw.rest().await;
    assert_eq!(tags(&last), "E");
    assert_eq!(last[0].field(b'C').as_deref(), Some("25P03"));
    assert_eq!(last[0].field(b'S').as_deref(), Some("FATAL"));
    let client = server.client().await;
    assert!(client.query("SELECT id FROM t", &[]).await.expect("runs").is_empty());
}

#[tokio::test]
async fn a_vanished_client_lets_go() {
    let server = start().await;
    let holder = held(&server).await;
    drop(holder);
    let client = server.client().await;
    let update = client.execute("UPDATE t SET n = 7 WHERE id = 1", &[]);
    assert_eq!(timeout(PATIENCE, update).await.expect("in time").expect("runs"), 1);
}

#[tokio::test]
async fn shutdown_tells_idle_sessions_and_lets_statements_finish() {
    let mut server = start().await;
    let mut idle = server.session().await;
    let mut half_open = server.raw().await;
    half_open.send(b"\0\0").await;
    let holder = held(&server).await;
    let waiter = server.client().await;
    let release = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.begin_stop();
        // The holder idles in its block: its session ends, and the waiter's statement can finish.
        assert_eq!(idle.rest().await[0].field(b'C').as_deref(), Some("57P01"));
        assert_eq!(half_open.rest().await[0].field(b'C').as_deref(), Some("57P01"));
    };
    let (updated, ()) =
        tokio::join!(waiter.execute("UPDATE t SET n = 9 WHERE id = 1", &[]), release);
    assert_eq!(updated.expect("finishes"), 1);
    assert!(holder.batch_execute("COMMIT").await.is_err(), "the session was ended");
    let address = server.address;
    server.stopped().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is still open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_statements_that_compute_beyond_the_grace_period() {
    let grace = Duration::from_millis(100);
    let mut server = start_with(Options { shutdown_grace: grace, ..local() }).await;
    let client = server.client().await;
    let long = "SELECT repeat('a', 60000000) ILIKE '%' || repeat('a_', 20000) || 'b%'";
    let running = tokio::spawn(async move { client.simple_query(long).await });
    tokio::time::sleep(grace).await;
    server.begin_stop();
    let began = Instant::now();
    server.stopped().await;
    let took = began.elapsed();
    assert!(took < grace + Duration::from_secs(2), "it took {took:?}");
    running.await.expect("it ends").expect_err("the server is gone");
}
