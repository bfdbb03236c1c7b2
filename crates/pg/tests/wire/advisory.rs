//! Tests advisory locks, functions that sleep, and the end of other sessions, in several sessions.

use crate::common::{PATIENCE, first, start, start_by};
use meridian_systems::Protocol;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use tokio_postgres::Client;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_exclude_each_other_under_every_protocol() {
    for protocol in Protocol::with_transactions() {
        let name = protocol.name;
        let server = start_by(protocol).await;
        let (one, other) = (server.client().await, server.client().await);
        assert_eq!(first(&one, "SELECT pg_advisory_lock(1)").await, [""], "{name}");
        assert_eq!(first(&other, "SELECT pg_try_advisory_lock(1)").await, ["f"], "{name}");
        assert_eq!(first(&other, "SELECT pg_try_advisory_lock_shared(1)").await, ["f"], "{name}");
        assert_eq!(first(&other, "SELECT pg_try_advisory_lock(0, 1)").await, ["t"], "{name}");
        assert_eq!(first(&other, "SELECT pg_advisory_unlock(1)").await, ["f"], "{name}");
        // It outlives transactions, and those that are rolled back.
        one.batch_execute("BEGIN; SELECT pg_advisory_unlock(1), pg_advisory_lock(1); ROLLBACK")
            .await
            .expect("runs");
        other.batch_execute("SET lock_timeout = '100ms'").await.expect("is set");
        assert_eq!(first(&other, "SELECT pg_advisory_lock(1)").await, ["55P03"], "{name}");
        assert_eq!(first(&one, "SELECT pg_advisory_unlock(1)").await, ["t"], "{name}");
        assert_eq!(first(&other, "SELECT pg_try_advisory_lock_shared(1)").await, ["t"], "{name}");
        assert_eq!(first(&one, "SELECT pg_try_advisory_lock_shared(1)").await, ["t"], "{name}");
        assert_eq!(first(&one, "SELECT pg_try_advisory_lock(1)").await, ["f"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_waited_for_until_its_transaction_or_session_ends() {
    let server = start().await;
    for ends in ["COMMIT", "ROLLBACK", "SELECT 1 / 0; ROLLBACK", ""] {
        let (holder, waiter) = (server.client().await, server.client().await);
        let lock = if ends.is_empty() { "pg_advisory_lock" } else { "pg_advisory_xact_lock" };
        let took = first(&holder, &format!("BEGIN; SELECT {lock}(7)")).await;
        assert_eq!(took, [""]);
        let began = Instant::now();
        let waits = first(&waiter, "SELECT pg_advisory_xact_lock(7)");
        let release = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            match ends {
                // The client goes.
                "" => drop(holder),
                ends => drop(holder.simple_query(ends).await),
            }
        };
        let (waited, ()) = tokio::join!(waits, release);
        assert_eq!(waited, [""], "{ends}");
        assert!(began.elapsed() >= Duration::from_millis(200), "{ends}: it was excluded");
        // A transaction by itself is over.
        let free = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        assert_eq!(first(&waiter, free).await, ["0"], "{ends}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_sessions_that_wait_for_each_other_fails() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    assert_eq!(first(&one, "SELECT pg_advisory_lock(1)").await, [""]);
    assert_eq!(first(&other, "SELECT pg_advisory_lock(2)").await, [""]);
    let ask = async |client: &Client, sql: &str| {
        let answer = first(client, sql).await;
        if answer == ["40P01"] {
            client.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("runs");
        }
        answer
    };
    let (a, b) = tokio::join!(
        ask(&one, "SELECT pg_advisory_lock(2)"),
        ask(&other, "SELECT pg_advisory_lock(1)")
    );
    let mut both = [a, b];
    both.sort();
    assert_eq!(both, [vec![""], vec!["40P01"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waits_or_sleeps_is_ended_by_another_session() {
    let server = start().await;
    let (one, other) = (server.client().await, server.client().await);
    let pid = first(&other, "SELECT pg_backend_pid()").await.remove(0);
    assert_eq!(first(&one, "SELECT pg_advisory_lock(1)").await, [""]);
    for waits in ["SELECT pg_sleep(60)", "SELECT pg_advisory_lock(1)"] {
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            first(&one, &format!("SELECT pg_cancel_backend({pid})")).await
        };
        let (ended, sent) = tokio::join!(first(&other, waits), cancel);
        assert_eq!((ended, sent), (vec!["57014".into()], vec!["t".into()]), "{waits}");
    }
    // What was interrupted holds nothing.
    assert_eq!(first(&one, "SELECT pg_advisory_unlock(1)").await, ["t"]);
    assert_eq!(first(&one, "SELECT pg_try_advisory_lock(1)").await, ["t"]);
    let terminate = format!("SELECT pg_terminate_backend({pid})");
    let end = async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        first(&one, &terminate).await
    };
    let (ended, sent) = tokio::join!(first(&other, "SELECT pg_sleep(60)"), end);
    assert_eq!((ended, sent), (vec!["57P01".into()], vec!["t".into()]));
    // One that rests ends, too.
    let resting = server.client().await;
    let pid = first(&resting, "SELECT pg_backend_pid()").await.remove(0);
    let terminate = format!("SELECT pg_terminate_backend({pid})");
    assert_eq!(first(&one, &terminate).await, ["t"]);
    let gone = async {
        while !resting.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("its connection is closed");
    assert_eq!(first(&one, &terminate).await, ["f"]);
}
