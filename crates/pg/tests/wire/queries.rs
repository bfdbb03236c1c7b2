//! Tests queries of several relations over the wire: types, parameters, streaming, memory,
//! cancellation.

use crate::common;
use futures::{StreamExt, TryStreamExt, pin_mut};
use meridian_sql::QueryMemory;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

fn state(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("none", |code| code.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_passes_through_unharmed() {
    let server = common::start_with_memory(Arc::default()).await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE all_types (k int PRIMARY KEY, a bool, b smallint, c int, d bigint, e float8, f numeric, \
             g numeric(12,3), h text, i varchar(9), j char(4), l bytea, m uuid, n date, o timestamp, p timestamptz);
             INSERT INTO all_types VALUES (1, true, -32768, 2147483647, -9223372036854775808, '1.5e300', \
             123456789012345.6789, 1.500, 'ü', 'v', 'c', '\\x00ff', '6ba7b810-9dad-11d1-80b4-00c04fd430c8', \
             '1999-12-31', '2024-02-29 12:34:56.789', '0044-03-15 00:00:00+00'), (2, NULL, NULL, NULL, NULL, NULL, NULL, \
             NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .await
        .expect("rows");
    // A scan and a join: the same rows, the same types.
    let own = "SELECT * FROM all_types ORDER BY k";
    let other = "SELECT x.* FROM (SELECT * FROM all_types) x JOIN (SELECT 1 AS one) y ON y.one = 1 ORDER BY k";
    let shown = |rows: Vec<tokio_postgres::SimpleQueryMessage>| format!("{rows:?}");
    let (own_text, other_text) = (client.simple_query(own).await, client.simple_query(other).await);
    let own_text = shown(own_text.expect("rows"));
    assert_eq!(own_text, shown(other_text.expect("rows")));
    assert!(own_text.contains("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), "{own_text}");
    let (own, other) =
        (client.prepare(own).await.expect("own"), client.prepare(other).await.expect("other"));
    let types = |prepared: &tokio_postgres::Statement| {
        prepared
            .columns()
            .iter()
            .map(|column| (column.name().to_owned(), column.type_().clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(types(&own), types(&other));
    let row = client.query(&other, &[]).await.expect("rows").swap_remove(0);
    assert_eq!((row.get::<_, i16>("b"), row.get::<_, i64>("d")), (i16::MIN, i64::MIN));
    assert_eq!((row.get::<_, f64>("e"), row.get::<_, Vec<u8>>("l")), (1.5e300, vec![0, 255]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_take_the_types_of_what_they_meet() {
    let server = common::start_with_memory(Arc::default()).await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, name text, big bigint, at timestamptz, price numeric(10,2));
             INSERT INTO t VALUES (1, 'a', 10, '2024-01-01', 1.50), (2, 'b', 20, '2024-01-02', 2.50), (3, NULL, 30, NULL, NULL)",
        )
        .await
        .expect("rows");
    let sql = "SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.id < $1 + 1 AND a.name = $2 AND a.big IN ($3, 7) \
               AND a.at > $4 AND a.price BETWEEN $5 AND 9 LIMIT $6";
    let prepared = client.prepare(sql).await.expect("it is planned");
    let wanted = [Type::INT4, Type::TEXT, Type::INT8, Type::TIMESTAMPTZ, Type::NUMERIC, Type::INT8];
    assert_eq!(prepared.params(), wanted);
    let sql = "SELECT a.id, $3::text FROM t a JOIN t b USING (id) WHERE a.id > $1 AND b.name = $2";
    let rows = client.query(sql, &[&1i32, &"b", &"x"]).await.expect("rows");
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].get::<_, i32>(0), rows[0].get::<_, &str>(1)), (2, "x"));
    // A statement runs again with other values.
    let prepared = client
        .prepare("SELECT count(*) FROM t a, t b WHERE a.id = $1 AND b.id <> a.id")
        .await
        .expect("ok");
    for (id, count) in [(1, 2i64), (2, 2), (9, 0)] {
        assert_eq!(
            client.query_one(&prepared, &[&id]).await.expect("a row").get::<_, i64>(0),
            count
        );
    }
    // The catalog changed after the statement was prepared.
    client.batch_execute("ALTER TABLE t ADD COLUMN more int").await.expect("changed");
    assert_eq!(client.query_one(&prepared, &[&1]).await.expect("a row").get::<_, i64>(0), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_sees_its_own_writes_and_goes_on_after_a_query() {
    let server = common::start_with_memory(Arc::default()).await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await
        .expect("rows");
    client.batch_execute("BEGIN; INSERT INTO t VALUES (2)").await.expect("begun");
    let count = "SELECT count(*) FROM t a JOIN t b ON a.id = b.id";
    assert_eq!(client.query_one(count, &[]).await.expect("a row").get::<_, i64>(0), 2);
    client.batch_execute("SAVEPOINT s").await.expect("a savepoint");
    let failed =
        client.query("SELECT 1 / (a.id - a.id) FROM t a JOIN t b ON a.id = b.id", &[]).await;
    assert_eq!(state(&failed.expect_err("division by zero")), "22012");
    client.batch_execute("ROLLBACK TO s; INSERT INTO t VALUES (3)").await.expect("it goes on");
    assert_eq!(client.query_one(count, &[]).await.expect("a row").get::<_, i64>(0), 3);
    client.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(client.query_one(count, &[]).await.expect("a row").get::<_, i64>(0), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_for_the_memory_is_refused_and_the_session_stays() {
    let server = common::start_with_memory(Arc::new(QueryMemory::of(4 << 20))).await;
    let client = server.client().await;
    let sorted = "SELECT i, i::text || repeat('x', 50) FROM generate_series(1, 1000000) AS i ORDER BY 2 DESC";
    let failed = client.query(sorted, &[]).await.expect_err("more than it may hold");
    assert_eq!(state(&failed), "53200", "{failed:?}");
    // Streamed rows need no such memory.
    let rows = client
        .query_raw("SELECT i + 1 FROM generate_series(1, 300000) AS i", None::<i32>)
        .await
        .expect("it starts");
    pin_mut!(rows);
    let mut count = 0;
    while rows.try_next().await.expect("a row").is_some() {
        count += 1;
    }
    assert_eq!(count, 300_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_query_ends_and_its_transaction_rolls_back_to_a_savepoint() {
    let server = common::start_with_memory(Arc::default()).await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1); SAVEPOINT s",
        )
        .await
        .expect("begun");
    let token = client.cancel_token();
    let endless =
        "SELECT count(*) FROM generate_series(1, 100000000) AS a, generate_series(1, 1000) AS b";
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await.expect("sent");
    };
    let (result, ()) = futures::join!(client.simple_query(endless), cancel);
    assert_eq!(state(&result.expect_err("cancelled")), "57014");
    client
        .batch_execute("ROLLBACK TO s; INSERT INTO t VALUES (2); COMMIT")
        .await
        .expect("the transaction was not lost");
    let rows = client.query("SELECT id FROM t ORDER BY id", &[]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_in_the_middle_leaves_nothing_running() {
    let server = common::start_with_memory(Arc::new(QueryMemory::of(64 << 20))).await;
    for _ in 0..3 {
        let client = server.client().await;
        let sql =
            "SELECT a + b FROM generate_series(1, 1000000) AS a, generate_series(1, 1000) AS b";
        let rows = client.query_raw(sql, None::<i32>).await.expect("it starts");
        pin_mut!(rows);
        assert!(rows.next().await.is_some_and(|row| row.is_ok()));
    }
    // Nothing of them is left: a further query is answered.
    let client = server.client().await;
    let one = client.query_one("SELECT max(i) FROM generate_series(1, 10) AS i", &[]);
    let row = tokio::time::timeout(common::PATIENCE, one).await.expect("in time").expect("a row");
    assert_eq!(row.get::<_, i32>(0), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_on_keys_narrow_a_scan() {
    let server = common::start_with_memory(Arc::default()).await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a int, b int, c text, PRIMARY KEY (a, b)); CREATE INDEX t_c ON t (c)",
        )
        .await
        .expect("a table");
    for a in 0..20 {
        let rows: Vec<String> = (0..50).map(|b| format!("({a}, {b}, 'c{}')", b % 5)).collect();
        client
            .batch_execute(&format!("INSERT INTO t VALUES {}", rows.join(", ")))
            .await
            .expect("rows");
    }
    for (condition, count) in [
        ("x.a = 3", 50i64),
        ("x.a = 3 AND x.b >= 10 AND x.b < 20", 10),
        ("x.a IN (1, 2) AND x.b = 7", 2),
        ("5 > x.a", 250),
        ("x.c = 'c1' AND x.a = 1", 10),
        ("x.a = 99", 0),
        ("x.a = 3 OR x.b = 3", 69),
    ] {
        let sql = format!(
            "SELECT count(*) FROM t x JOIN t y ON x.a = y.a AND x.b = y.b WHERE {condition}"
        );
        assert_eq!(
            client.query_one(&sql, &[]).await.expect("a row").get::<_, i64>(0),
            count,
            "{condition}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_by_query_take_parameters() {
    let server = common::start_with_memory(Arc::default()).await;
    let client = server.client().await;
    client
        .batch_execute(
            "CREATE TABLE a (id int PRIMARY KEY, n bigint, t text); CREATE TABLE b (id int PRIMARY KEY, n bigint);
             INSERT INTO a VALUES (1, 10, 'x'), (2, 20, 'y'); INSERT INTO b VALUES (1, 100), (2, 200)",
        )
        .await
        .expect("rows");
    let update =
        "UPDATE a SET n = b.n + $1, t = $2 FROM b WHERE a.id = b.id AND b.id = $3 RETURNING a.n, t";
    let row = client.query_one(update, &[&5i64, &"z", &2i32]).await.expect("a row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (205, "z"));
    let insert =
        "INSERT INTO a SELECT b.id + $1, b.n, $2::text FROM b JOIN a ON a.id = b.id WHERE b.n > $3";
    assert_eq!(client.execute(insert, &[&10i32, &"new", &150i64]).await.expect("inserted"), 1);
    let delete = "DELETE FROM a WHERE id IN (SELECT id FROM b WHERE n >= $1) OR t = $2";
    assert_eq!(client.execute(delete, &[&200i64, &"new"]).await.expect("deleted"), 2);
    assert_eq!(client.query("SELECT id FROM a", &[]).await.expect("rows").len(), 1);
}

/// A cursor with a parameter, whose rows are fetched as prepared statements. Its rows have to fit
/// the memory of queries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_are_fetched_as_prepared_statements() {
    let server = common::start_with_memory(Arc::new(QueryMemory::of(1 << 20))).await;
    let client = server.client().await;
    client.batch_execute("BEGIN").await.expect("begins");
    let declare = "DECLARE c CURSOR FOR SELECT g FROM generate_series(1, $1::int) g";
    client.execute(declare, &[&5i32]).await.expect("is declared");
    for expected in [vec![1, 2], vec![3, 4], vec![5], vec![]] {
        let rows = client.query("FETCH 2 FROM c", &[]).await.expect("rows");
        let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(found, expected);
    }
    // A statement that fetches serves another cursor, too, and so does its description.
    client.batch_execute("DECLARE d CURSOR FOR VALUES ('a', 1.5)").await.expect("is declared");
    let rows = client.query("FETCH 1 FROM d", &[]).await.expect("rows");
    assert_eq!((rows[0].len(), rows[0].get::<_, &str>(0)), (2, "a"));
    let held = "DECLARE h CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 3000) g; COMMIT";
    client.batch_execute(held).await.expect("is kept");
    let rows = client.simple_query("FETCH 2500 FROM h").await.expect("rows");
    assert_eq!(rows.iter().filter(|it| matches!(it, SimpleQueryMessage::Row(_))).count(), 2500);
    let rows = client.query("FETCH ALL FROM h", &[]).await.expect("rows");
    assert_eq!(rows.len(), 500);
    let large = "BEGIN; DECLARE l CURSOR WITH HOLD FOR SELECT repeat('x', 1000) \
                 FROM generate_series(1, 3000) g";
    let error = client.batch_execute(large).await.expect_err("does not fit");
    assert_eq!(state(&error), "53200");
    client.batch_execute("ROLLBACK").await.expect("ends");
    let error = client.query("FETCH ALL FROM l", &[]).await.expect_err("is gone");
    assert_eq!(state(&error), "34000");
}
