//! Tests HybridTime on real processes: what each consistency mode waits for, and causal tokens
//! between clients.

mod common;

use common::{Started, free_addresses};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// The error of the clock, and the wait that follows from it.
const ERROR: &str = "40ms";
const WAIT: Duration = Duration::from_millis(80);

async fn client(server: &Started, database: &str) -> Client {
    let url = format!("postgresql://root@{}/{database}", server.sql);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// Returns the first column of the only row.
async fn text(client: &Client, query: &str) -> String {
    let found = client.simple_query(query).await.unwrap_or_else(|why| panic!("{query}: {why:?}"));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    found.iter().find_map(row).unwrap_or_else(|| panic!("{query}: no row"))
}

async fn refused(client: &Client, statement: &str) -> (String, String) {
    let why = client.batch_execute(statement).await.expect_err(statement);
    let told = why.as_db_error().expect("by the server");
    (told.code().code().to_owned(), told.message().to_owned())
}

async fn database(server: &Started) -> Client {
    let admin = client(server, "meridian").await;
    admin.batch_execute("CREATE DATABASE ht PROTOCOL = hybrid_time").await.expect("is made");
    let client = client(server, "ht").await;
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, n int)").await.expect("is made");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_chooses_what_its_commits_wait_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::with(folder.path(), &["--clock-bound", ERROR]);
    let one = database(&server).await;
    assert_eq!(text(&one, "SHOW meridian.consistency").await, "hybrid");
    assert_eq!(text(&one, "SHOW transaction_isolation").await, "serializable");
    let shown = one.simple_query("SHOW meridian.consistency_cost").await.expect("it is shown");
    let shown = format!("{shown:?}");
    assert!(shown.contains("commit_wait") && shown.contains("hybrid"), "{shown}");

    let timed = async |statement: String| {
        let began = Instant::now();
        one.batch_execute(&statement).await.unwrap_or_else(|why| panic!("{statement}: {why:?}"));
        began.elapsed()
    };
    let mut quickest = WAIT;
    for id in 0..5 {
        quickest = quickest.min(timed(format!("INSERT INTO t VALUES ({id}, 0)")).await);
    }
    assert!(quickest <= WAIT, "no commit waits for the clock: {quickest:?}");
    // For one transaction of the session, which is the last one before others are told.
    let block = "BEGIN; SET LOCAL meridian.consistency = 'commit_wait'; UPDATE t SET n = 1; COMMIT";
    let waited = timed(block.into()).await;
    assert!(waited > Duration::ZERO, "{waited:?}");
    assert_eq!(text(&one, "SHOW meridian.consistency").await, "hybrid");
    // A read in that mode waits for what another mode has just written.
    one.batch_execute("UPDATE t SET n = 2; SET meridian.consistency = 'commit_wait'")
        .await
        .unwrap();
    let waited = timed("SELECT n FROM t WHERE id = 1".into()).await;
    assert!(waited > Duration::ZERO);
    let plan = text(&one, "EXPLAIN ANALYZE UPDATE t SET n = 3 WHERE id = 1").await;
    assert!(!plan.is_empty());
    one.batch_execute("SET meridian.consistency = 'none'; UPDATE t SET n = 4").await.unwrap();

    let (code, why) = refused(&one, "SET meridian.consistency = 'eventual'").await;
    assert_eq!(code, "22023", "{why}");
    // A protocol with one mode gives it to those that ask for less.
    let spanner = client(&server, "meridian").await;
    spanner.batch_execute("SET meridian.consistency = 'hybrid'").await.expect("it gets more");
    assert_eq!(text(&spanner, "SHOW meridian.consistency").await, "commit_wait");
}

/// Runs the statements of docs/hybrid-time.md, in order, in one session.
#[tokio::test(flavor = "multi_thread")]
async fn the_statements_of_the_page_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    database(&server).await;
    let client = client(&server, "ht").await;
    let page = include_str!("../../../docs/hybrid-time.md");
    let mut ran = 0;
    for block in page.split("```sql\n").skip(1) {
        let block = block.split("```").next().expect("it ends");
        client.batch_execute(block).await.unwrap_or_else(|why| panic!("{block}: {why:?}"));
        ran += block.lines().count();
    }
    assert!(ran > 10, "{ran}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_carries_an_order_from_client_to_client() {
    let (folder, addresses) = (tempfile::tempdir().expect("a folder"), free_addresses(3));
    let join = addresses.join(",");
    let member =
        |at: usize| Started::member(&folder.path().join(at.to_string()), &addresses[at], &join);
    let nodes: Vec<Started> = (0..3).map(member).collect();
    let first = database(&nodes[0]).await;
    first.batch_execute("ALTER TABLE t SPLIT AT VALUES (100)").await.expect("is split");
    let second = client(&nodes[1], "ht").await;
    assert_eq!(text(&second, "SELECT meridian.causal_token()").await, "");
    for id in 0..20 {
        // Two rows of two shards, each by a client that was given the token of the other's write.
        first.batch_execute(&format!("INSERT INTO t VALUES ({id}, 0)")).await.expect("written");
        let token = text(&first, "SELECT meridian.causal_token()").await;
        second
            .batch_execute(&format!("SET meridian.causal_token = '{token}'"))
            .await
            .expect("ours");
        second
            .batch_execute(&format!("INSERT INTO t VALUES ({}, {id})", id + 100))
            .await
            .expect("written");
        let later = text(&second, "SHOW meridian.causal_token").await;
        assert!(later > token, "{later} is after {token}");
        // Whichever node reads both shards finds the first where it finds the second.
        let found = text(
            &second,
            "SELECT count(*) FROM t a JOIN t b ON b.id = a.id + 100 WHERE b.id >= 100",
        );
        assert_eq!(found.await, (id + 1).to_string());
    }
    let token = text(&first, "SELECT meridian.causal_token()").await;
    let garbled = token.replacen(|digit: char| digit.is_ascii_digit(), "f", 1);
    for wrong in [garbled.as_str(), "yesterday", "0.0.0.0", "'; DROP TABLE t"] {
        let statement = format!("SET meridian.causal_token = '{}'", wrong.replace('\'', "''"));
        let (code, why) = refused(&first, &statement).await;
        assert!(code == "22023" && why.contains("causal token"), "{code} {why}");
    }
    second.batch_execute("BEGIN").await.expect("begins");
    first.batch_execute("INSERT INTO t VALUES (50, 0)").await.expect("written");
    let newer = text(&first, "SELECT meridian.causal_token()").await;
    let (code, why) = refused(&second, &format!("SET meridian.causal_token = '{newer}'")).await;
    assert_eq!(code, "25001", "{why}");
    second.batch_execute("ROLLBACK").await.expect("ends");
    let other = client(&nodes[2], "meridian").await;
    let (code, why) = refused(&other, &format!("SET meridian.causal_token = '{token}'")).await;
    assert!(code == "22023" && why.contains("\"meridian\""), "{code} {why}");
    assert_eq!(text(&first, "SELECT count(*) FROM t").await, "41");
}
