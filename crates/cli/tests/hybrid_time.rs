//! Tests HybridTime on real processes: what each consistency mode waits for, and causal tokens
//! between clients.

mod common;

use common::{Started, free_addresses};
use std::path::Path;
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

/// Starts three nodes whose clocks have an error.
fn three(folder: &Path, flags: &[&str]) -> Vec<Started> {
    let addresses = free_addresses(3);
    let join = addresses.join(",");
    let member = |at: usize| {
        let fixed = ["--zone", "here", "--listen", &addresses[at], "--join", &join];
        Started::with(&folder.join(at.to_string()), &[&fixed[..], flags].concat())
    };
    (0..3).map(member).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_chooses_what_its_commits_wait_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = three(folder.path(), &["--clock-bound", ERROR]);
    let one = database(&nodes[0]).await;
    assert_eq!(text(&one, "SHOW meridian.consistency").await, "hybrid");
    assert_eq!(text(&one, "SHOW transaction_isolation").await, "serializable");
    let costs = one.simple_query("SHOW meridian.consistency_cost").await.expect("it is shown");
    let costs: Vec<(&str, f64)> = costs
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((row.get(0)?, row.get(1)?.parse().expect("milliseconds")))
            }
            _ => None,
        })
        .collect();
    let [("none", none), ("hybrid", hybrid), ("commit_wait", wait)] = costs[..] else {
        panic!("{costs:?}")
    };
    assert!(none == 0.0 && hybrid == 0.0, "{costs:?}");
    assert!(Duration::from_secs_f64(wait / 1e3) >= WAIT, "twice the error: {costs:?}");

    let quickest = async |statement: &str, runs: usize| {
        let mut quickest = Duration::MAX;
        for _ in 0..runs {
            let began = Instant::now();
            one.batch_execute(statement).await.unwrap_or_else(|why| panic!("{statement}: {why:?}"));
            quickest = quickest.min(began.elapsed());
        }
        quickest
    };
    one.batch_execute("INSERT INTO t VALUES (1, 0)").await.expect("written");
    let took = quickest("UPDATE t SET n = n + 1", 20).await;
    assert!(took < WAIT, "no commit waits for the clock: {took:?}");
    let took = quickest("CREATE TABLE u (id int PRIMARY KEY); DROP TABLE u", 1).await;
    assert!(took >= WAIT, "a schema change waits: {took:?}");
    // For one transaction of the session.
    let block = "BEGIN; SET LOCAL meridian.consistency = 'commit_wait'; UPDATE t SET n = 1; COMMIT";
    let took = quickest(block, 3).await;
    assert!(took >= WAIT, "{took:?}");
    assert_eq!(text(&one, "SHOW meridian.consistency").await, "hybrid");
    // A read in that mode waits for what another mode has just written: from the beginning of the
    // write on, that takes as long as a commit that waits.
    let began = Instant::now();
    one.batch_execute("UPDATE t SET n = 2").await.expect("written");
    one.batch_execute("SET meridian.consistency = 'commit_wait'").await.expect("it has it");
    assert_eq!(text(&one, "SELECT n FROM t WHERE id = 1").await, "2");
    let took = began.elapsed();
    assert!(took >= WAIT, "{took:?}");
    let lines = one.simple_query("EXPLAIN ANALYZE UPDATE t SET n = 3").await.expect("explained");
    let lines = format!("{lines:?}");
    assert!(lines.contains("then commit wait") && !lines.contains("commit wait 0.0"), "{lines}");
    one.batch_execute("SET meridian.consistency = 'none'; UPDATE t SET n = 4").await.unwrap();

    let (code, why) = refused(&one, "SET meridian.consistency = 'eventual'").await;
    assert_eq!(code, "22023", "{why}");
    // A protocol with one mode gives it to those that ask for less.
    let spanner = client(&nodes[0], "meridian").await;
    spanner.batch_execute("SET meridian.consistency = 'hybrid'").await.expect("it gets more");
    assert_eq!(text(&spanner, "SHOW meridian.consistency").await, "commit_wait");
}

/// Mode and token as parameters at connection start, as drivers and pools send them.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_starts_with_a_mode_and_a_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let first = database(&server).await;
    first.batch_execute("INSERT INTO t VALUES (1, 1)").await.expect("written");
    let token = text(&first, "SELECT meridian.causal_token()").await;
    let connect = async |options: String| {
        let url = format!("postgresql://root@{}/ht", server.sql);
        let mut config: tokio_postgres::Config = url.parse().expect("a URL");
        let (client, connection) = config.options(options).connect(NoTls).await?;
        tokio::spawn(connection);
        Ok::<Client, tokio_postgres::Error>(client)
    };
    let options = format!("-c meridian.consistency=none -c meridian.causal_token={token}");
    let second = connect(options).await.expect("connects");
    assert_eq!(text(&second, "SHOW meridian.consistency").await, "none");
    assert_eq!(text(&second, "SHOW meridian.causal_token").await, token);
    second.batch_execute("DISCARD ALL").await.expect("discarded");
    assert_eq!(text(&second, "SHOW meridian.causal_token").await, "");
    assert_eq!(text(&second, "SHOW meridian.consistency").await, "hybrid");
    let whole = "ALTER DATABASE ht SET meridian.consistency = 'none'";
    let (code, why) = refused(&second, whole).await;
    assert_eq!(code, "0A000", "{why}");
    let refused = connect("-c meridian.causal_token=yesterday".into()).await.err();
    let told = refused.as_ref().and_then(|why| why.as_db_error()).expect("refused by the server");
    assert_eq!(told.code().code(), "22023", "{told:?}");
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
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = three(folder.path(), &[]);
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
