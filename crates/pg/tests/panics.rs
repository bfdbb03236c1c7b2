//! Tests that a panic inside a session is reported, counted, and confined to the session.

mod common;

use common::{local, query, start_over, tags};
use meridian_pg::Databases;
use meridian_sql::Engine;
use meridian_txn::{Begin, Database, Failure, Future, IsolationLevel, Transaction};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A database whose transactions cannot begin.
struct Broken;

impl Database for Broken {
    fn isolation(&self) -> IsolationLevel {
        IsolationLevel::Serializable
    }

    fn sleep(&self, time: Duration) -> Future<'_, ()> {
        let _ = time;
        Box::pin(std::future::ready(()))
    }

    fn begin(&self, _: Begin) -> Future<'_, Result<Box<dyn Transaction>, Failure>> {
        panic!("broken on purpose")
    }
}

struct TestDatabases;

impl Databases for TestDatabases {
    fn engine<'a>(
        &'a self,
        name: &'a str,
    ) -> futures::future::BoxFuture<'a, Result<Option<Arc<Engine>>, String>> {
        let found = match name {
            "broken" => Some(Arc::new(Engine::new(name, Arc::new(Broken)))),
            "worse" => panic!("worse on purpose"),
            name => Some(Arc::new(Engine::new(name, Arc::new(common::Memory::default())))),
        };
        Box::pin(std::future::ready(Ok(found)))
    }

    fn names(&self) -> Vec<String> {
        vec!["meridian".into()]
    }
}

#[tokio::test]
async fn a_panic_while_a_session_opens() {
    let server = start_over(local(), Arc::new(TestDatabases)).await;
    let mut raw = server.raw().await;
    raw.open(&[("user", "root"), ("database", "worse")]).await;
    let answer = raw.rest().await;
    assert_eq!(tags(&answer), "E");
    assert_eq!(answer[0].field(b'C').as_deref(), Some("XX000"));
    assert_eq!(server.counters.panics_total.load(Relaxed), 1);
    server.session().await;
}

#[tokio::test]
async fn a_panic_inside_a_statement() {
    let server = start_over(local(), Arc::new(TestDatabases)).await;
    let mut bystander = server.session().await;
    let mut raw = server.raw().await;
    raw.open(&[("user", "root"), ("database", "broken")]).await;
    raw.until(b'Z').await;
    raw.send(query("CREATE TABLE t (id int PRIMARY KEY)")).await;
    let answer = raw.rest().await;
    let last = answer.last().expect("an answer");
    assert_eq!(
        (last.field(b'S').as_deref(), last.field(b'C').as_deref()),
        (Some("FATAL"), Some("XX000"))
    );
    assert_eq!(server.counters.panics_total.load(Relaxed), 1);
    bystander.send(query("")).await;
    assert_eq!(tags(&bystander.until(b'Z').await), "IZ");
}
