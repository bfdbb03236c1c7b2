//! Tests K2's oracles on real processes: databases that name them, nodes that know the time badly,
//! and an oracle that dies.

mod common;

use common::session::{client, refused, run, texts};
use common::{Started, free_addresses};
use std::path::Path;
use std::time::Duration;
use tokio_postgres::Client;

/// The errors of the nodes' clocks.
const ERRORS: [&str; 3] = ["1ms", "1ms", "300ms"];

fn three(folder: &Path) -> Vec<Started> {
    let addresses = free_addresses(3);
    let join = addresses.join(",");
    let member = |at: usize| {
        let fixed = ["--zone", "here", "--listen", &addresses[at], "--join", &join];
        let clock = ["--clock-bound", ERRORS[at]];
        Started::with(&folder.join(at.to_string()), &[&fixed[..], &clock].concat())
    };
    (0..3).map(member).collect()
}

/// Returns a metric of the database.
fn metric(node: &Started, name: &str) -> f64 {
    let (metrics, start) =
        (node.get("/metrics"), format!("meridian_{name}{{database=\"lab\",protocol=\"k2\"}} "));
    let value = metrics.lines().find_map(|line| line.strip_prefix(&start));
    value.unwrap_or_else(|| panic!("no {start} in {metrics}")).parse().expect("a number")
}

/// Runs transactions at a node, one after the other, and returns the number of timestamps from
/// oracles that they took, and the time that a commit waited on average.
async fn measure(node: &Started, session: &Client, transactions: usize) -> (f64, Duration) {
    let look = || {
        let names = [
            "timestamp_wait_seconds_count",
            "commit_wait_seconds_sum",
            "commit_wait_seconds_count",
        ];
        names.map(|name| metric(node, name))
    };
    let before = look();
    for _ in 0..transactions {
        run(session, "UPDATE t SET n = n + 1 WHERE id = 1").await;
    }
    let after = look();
    let [drawn, waited, commits] = std::array::from_fn(|at| after[at] - before[at]);
    assert!(commits >= transactions as f64, "{commits}");
    (drawn, Duration::from_secs_f64(waited / commits))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_knows_the_time_badly_draws_from_oracles_that_know_it_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut nodes = three(folder.path());
    let admin = client(&nodes[0], "meridian").await;
    run(&admin, "CREATE DATABASE lab PROTOCOL = k2").await;
    let session = client(&nodes[2], "lab").await;
    run(&session, "CREATE TABLE t (id int PRIMARY KEY, n int)").await;
    run(&session, "INSERT INTO t VALUES (1, 0)").await;
    assert_eq!(texts(&session, "SHOW meridian.timestamp_oracles").await, ["none"]);
    assert_eq!(texts(&session, "SHOW meridian.timestamp_batch").await, ["1ms"]);
    // A transaction of the third node is ahead of the leader's clock by the error of its own.
    let (drawn, waited) = measure(&nodes[2], &session, 2).await;
    assert!(drawn == 0.0 && waited > Duration::from_millis(290), "{drawn} {waited:?}");

    // Its own clock is not good enough to be an oracle's.
    run(&admin, "ALTER DATABASE lab SET meridian.timestamp_oracles = 'auto'").await;
    let (drawn, waited) = measure(&nodes[2], &session, 10).await;
    assert!(drawn >= 10.0 && waited < Duration::from_millis(150), "{drawn} {waited:?}");

    // One timestamp for each request. EXPLAIN ANALYZE tells what it took.
    run(&admin, "ALTER DATABASE lab SET meridian.timestamp_oracles = '1, 2'").await;
    run(&admin, "ALTER DATABASE lab SET meridian.timestamp_batch = 'none'").await;
    let (drawn, waited) = measure(&nodes[2], &session, 10).await;
    assert!(drawn >= 10.0 && waited < Duration::from_millis(150), "{drawn} {waited:?}");
    let lines = texts(&session, "EXPLAIN ANALYZE SELECT * FROM t WHERE id = 1").await;
    assert!(lines.iter().any(|line| line.starts_with("Timestamp Time: ")), "{lines:?}");

    // The first oracle takes over from the second one, which the third node has asked until now.
    run(&admin, "ALTER DATABASE lab SET meridian.timestamp_batch = '100us'").await;
    nodes.remove(1).kill();
    let (drawn, _) = measure(&nodes[1], &session, 10).await;
    assert!(drawn >= 10.0, "{drawn}");
    let n = texts(&session, "SELECT n FROM t").await;
    assert_eq!(n, ["32"], "each update counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_oracle_or_no_length_of_a_batch_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let admin = client(&server, "meridian").await;
    run(&admin, "CREATE DATABASE lab PROTOCOL = k2").await;
    for (set, code, expected) in [
        ("meridian.timestamp_oracles = '9'", "22023", "node 9 is no member of this cluster"),
        ("meridian.timestamp_oracles = 'ours'", "22023", "is neither 'none' nor 'auto' nor nodes"),
        ("meridian.timestamp_oracles = ''", "22023", "is neither 'none' nor 'auto' nor nodes"),
        ("meridian.timestamp_oracles = '1, 1'", "22023", "names a node twice"),
        ("meridian.timestamp_batch = '0'", "22023", "is out of range"),
        ("meridian.timestamp_batch = '1h'", "22023", "is out of range"),
        ("meridian.oracle_error = '0ms'", "22023", "is out of range"),
    ] {
        let (found, why) = refused(&admin, &format!("ALTER DATABASE lab SET {set}")).await;
        assert!(found == code && why.contains(expected), "{set}: {found} {why}");
    }
    let other = "ALTER DATABASE meridian SET meridian.timestamp_oracles = '1'";
    let (code, why) = refused(&admin, other).await;
    assert!(code == "42809" && why.contains("protocol k2"), "{code} {why}");
    // Of a database, and not of a session.
    let lab = client(&server, "lab").await;
    refused(&lab, "SET meridian.timestamp_oracles = '1'").await;
    run(&admin, "ALTER DATABASE lab SET meridian.timestamp_oracles = '1'").await;
    run(&admin, "ALTER DATABASE lab RESET meridian.timestamp_oracles").await;
    assert_eq!(texts(&lab, "SHOW meridian.timestamp_oracles").await, ["none"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_page_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let admin = client(&server, "meridian").await;
    let page = include_str!("../../../docs/k2.md");
    let blocks = page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().expect("one"));
    let statements: Vec<&str> =
        blocks.flat_map(str::lines).filter(|line| !line.is_empty()).collect();
    assert!(statements.len() >= 4, "{statements:?}");
    for statement in statements {
        run(&admin, statement).await;
    }
    let lab = client(&server, "lab").await;
    assert_eq!(texts(&lab, "SHOW meridian.timestamp_oracles").await, ["1"]);
    assert_eq!(texts(&lab, "SHOW meridian.oracle_error").await, ["500us"]);
}
