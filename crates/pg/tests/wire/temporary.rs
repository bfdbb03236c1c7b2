//! Tests temporary objects over the wire: several sessions, and their ends.

use crate::common::{PATIENCE, start_by, start_with_memory};
use futures::SinkExt;
use meridian_sql::QueryMemory;
use meridian_systems::Protocol;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Returns the rows of a statement, their values joined, or its SQLSTATE.
async fn rows(client: &Client, sql: &str) -> Vec<String> {
    match timeout(PATIENCE, client.simple_query(sql)).await.expect("ends") {
        Ok(messages) => messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => {
                    let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                    Some(values.collect::<Vec<_>>().join("|"))
                }
                _ => None,
            })
            .collect(),
        Err(error) => {
            vec![error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())]
        }
    }
}

const COUNT: &str = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_have_their_own_objects_under_every_protocol() {
    for protocol in Protocol::with_transactions() {
        let name = protocol.name;
        let server = start_by(protocol).await;
        let (one, other) = (server.client().await, server.client().await);
        let made = "CREATE TABLE t (x int); INSERT INTO t VALUES (0);
                    CREATE TEMP TABLE t (id serial PRIMARY KEY, x int UNIQUE);
                    INSERT INTO t (x) VALUES (1), (2)";
        assert_eq!(rows(&one, made).await, [""; 0], "{name}");
        assert_eq!(rows(&one, "SELECT id, x FROM t ORDER BY 1").await, ["1|1", "2|2"], "{name}");
        assert_eq!(rows(&other, "SELECT * FROM t").await, ["0"], "{name}");
        assert_eq!(rows(&other, COUNT).await, ["0"], "{name}");
        let both = "BEGIN; UPDATE t SET x = x + 5; UPDATE public.t SET x = 9;
                    CREATE TEMP TABLE u ON COMMIT DROP AS SELECT * FROM t;
                    SELECT a.x, b.x FROM u a, public.t b ORDER BY 1; COMMIT";
        assert_eq!(rows(&one, both).await, ["6|9", "7|9"], "{name}");
        assert_eq!(rows(&one, "SELECT * FROM u").await, ["42P01"], "{name}");
        assert_eq!(rows(&other, "SELECT * FROM t").await, ["9"], "{name}");
        let undone = "BEGIN; DELETE FROM t; DELETE FROM public.t; ROLLBACK";
        assert_eq!(rows(&one, undone).await, [""; 0], "{name}");
        let kept = "SELECT sum(x) FROM t UNION ALL SELECT sum(x) FROM public.t";
        assert_eq!(rows(&one, kept).await, ["13", "9"], "{name}");
        // The other session changes what this one's statements read.
        let view = "CREATE VIEW v AS SELECT t.x AS a, p.x AS b FROM t, public.t p";
        assert_eq!(rows(&one, view).await, [""; 0], "{name}");
        let changed = "ALTER TABLE t ADD COLUMN y int DEFAULT 4; UPDATE t SET x = 8";
        assert_eq!(rows(&other, changed).await, [""; 0], "{name}");
        assert_eq!(rows(&one, "SELECT b FROM v WHERE a = 6").await, ["8"], "{name}");
        assert_eq!(rows(&other, "DROP TABLE t").await, [""; 0], "{name}");
        assert_eq!(rows(&one, "SELECT b FROM v").await.len(), 1, "{name}");
        assert_eq!(rows(&one, "SELECT x FROM t ORDER BY x").await, ["6", "7"], "{name}");
        let read_only = "BEGIN READ ONLY; DELETE FROM t WHERE x = 6; COMMIT";
        assert_eq!(rows(&one, read_only).await, [""; 0], "{name}");
        assert_eq!(rows(&one, "SELECT x FROM t ORDER BY x").await, ["7"], "{name}");
        drop(one);
        assert_eq!(rows(&other, "CREATE TABLE t (x int)").await, [""; 0], "{name}");
        assert_eq!(rows(&other, COUNT).await, ["0"], "{name}");
    }
}

/// A session's rows are freed when it ends, also if its client goes in the middle of a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sessions_end_frees_its_rows() {
    let memory = Arc::new(QueryMemory::of(64 << 20));
    let server = start_with_memory(memory.clone()).await;
    for ends in ["", "BEGIN; UPDATE t SET x = 'y'", "BEGIN; SELECT 1 / 0"] {
        let client = server.client().await;
        let fill = "CREATE TEMP TABLE t AS
                    SELECT g, repeat('x', 1000) AS x FROM generate_series(1, 2000) g";
        assert_eq!(rows(&client, fill).await, [""; 0]);
        rows(&client, ends).await;
        assert!(memory.held_bytes() > 2_000_000, "{ends}");
        drop(client);
        let freed = async {
            while memory.held_bytes() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, freed).await.expect("the rows are freed");
    }
}

/// COPY reads and writes temporary tables, in text and in binary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_tables_are_copied() {
    let server = start_by(Protocol::with_transactions().next().expect("a protocol")).await;
    let client = server.client().await;
    let made = "CREATE TEMP TABLE t (id int PRIMARY KEY, x text DEFAULT 'd')";
    assert_eq!(rows(&client, made).await, [""; 0]);
    for (sql, data) in
        [("COPY t FROM STDIN", "1\ta\n2\tb\n"), ("COPY t (id) FROM STDIN (FORMAT csv)", "3\n4\n")]
    {
        let sink = client.copy_in(sql).await.expect("begins");
        let mut sink = pin!(sink);
        sink.send(bytes::Bytes::from(data)).await.expect("is sent");
        sink.finish().await.expect("is copied");
    }
    let said = rows(&client, "SELECT * FROM t ORDER BY id").await;
    assert_eq!(said, ["1|a", "2|b", "3|d", "4|d"]);
    let statement = client.prepare("SELECT x FROM t WHERE id = $1").await.expect("is prepared");
    let found = client.query_one(&statement, &[&2]).await.expect("one row");
    assert_eq!(found.get::<_, &str>(0), "b");
    assert_eq!(rows(&client, "DROP TABLE t; CREATE TEMP TABLE t (id int, x text)").await, [""; 0]);
    assert!(client.query(&statement, &[&2]).await.expect("runs").is_empty());
}
