//! Tests sequences with sessions that take values at once.

use crate::common::{PATIENCE, start_by};
use meridian_systems::Protocol;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Returns the numbers in the first column of a statement's rows.
async fn numbers(client: &Client, sql: &str) -> Vec<i64> {
    let messages = timeout(PATIENCE, client.simple_query(sql)).await.expect("it ends");
    let number = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).and_then(|text| text.parse().ok()),
        _ => None,
    };
    messages.expect("it succeeds").iter().filter_map(number).collect()
}

/// Four sessions draw from two sequences, in statements by themselves and in transactions that are
/// rolled back: none gets a value that another one has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_value_is_handed_out_twice() {
    for protocol in Protocol::with_transactions() {
        let server = start_by(protocol).await;
        let first = server.client().await;
        first
            .batch_execute("CREATE SEQUENCE one CACHE 1; CREATE SEQUENCE many")
            .await
            .expect("is made");
        let mut sessions = Vec::new();
        for _ in 0..4 {
            let client = server.client().await;
            sessions.push(tokio::spawn(async move {
                let mut drawn = Vec::new();
                for round in 0..10 {
                    for sequence in ["one", "many"] {
                        let draw =
                            format!("SELECT nextval('{sequence}') FROM generate_series(1, 3)");
                        let sql = match round % 2 {
                            0 => draw,
                            _ => format!("BEGIN; {draw}; ROLLBACK"),
                        };
                        let values = numbers(&client, &sql).await;
                        drawn.extend(values.into_iter().map(|value| (sequence, value)));
                    }
                }
                drawn
            }));
        }
        let mut all = Vec::new();
        for session in sessions {
            all.extend(session.await.expect("it ends"));
        }
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!((all.len(), distinct.len()), (240, 240), "{}", protocol.name);
    }
}

/// A value waits for a change of the sequence, no longer than `lock_timeout`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_is_waited_for_no_longer_than_lock_timeout() {
    let server = start_by(Protocol::named("spanner").expect("there is one")).await;
    let (one, other) = (server.client().await, server.client().await);
    one.batch_execute("CREATE SEQUENCE s").await.expect("is made");
    one.batch_execute("BEGIN; ALTER SEQUENCE s INCREMENT 5").await.expect("holds");
    other.batch_execute("SET lock_timeout = '300ms'").await.expect("is set");
    let began = Instant::now();
    let answer = timeout(PATIENCE, other.simple_query("SELECT nextval('s')")).await;
    let error = answer.expect("it ends").expect_err("it waits");
    assert_eq!(error.code().map(|code| code.code()), Some("55P03"));
    assert!(began.elapsed() >= Duration::from_millis(250), "{:?}", began.elapsed());
    one.batch_execute("ROLLBACK").await.expect("ends");
    assert_eq!(numbers(&other, "SELECT nextval('s')").await, [1]);
}
