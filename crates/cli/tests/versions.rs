//! Tests of a database's settings (the retention of superseded versions, the delay of prepares),
//! and of the commit timestamps of rows in SQL.

mod common;

use common::Started;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Starts a server on a folder of its own, and a client of it.
async fn served() -> (Client, Started, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (client, connection) = tokio_postgres::connect(&server.url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    (client, server, folder)
}

const KEPT: &str = "SHOW version_retention_period";

#[tokio::test(flavor = "multi_thread")]
async fn a_database_says_for_how_long_it_keeps_versions() {
    let (client, _server, _folder) = served().await;
    assert_eq!(one(&client, KEPT).await.as_deref(), Some("10min"));
    for (said, expected) in [
        ("SET version_retention_period = '1h'", "1h"),
        ("SET version_retention_period TO '90 s'", "90s"),
        ("RESET version_retention_period", "10min"),
        ("SET version_retention_period = '7d'", "7d"),
        ("SET version_retention_period TO DEFAULT", "10min"),
    ] {
        client.batch_execute(&format!("ALTER DATABASE meridian {said}")).await.expect(said);
        assert_eq!(one(&client, KEPT).await.as_deref(), Some(expected), "{said}");
    }
    for (wrong, code, words) in [
        ("meridian SET version_retention_period = '5 parsecs'", "22023", "is no duration"),
        ("meridian SET version_retention_period = '1ms'", "22023", "out of range"),
        ("meridian SET version_retention_period = '99999999d'", "22023", "out of range"),
        ("meridian SET version_retention_period", "42601", "one setting and its value"),
        ("meridian SET version_retention_period = '1h' '2h'", "42601", "one setting and its value"),
        ("meridian SET colour = 'red'", "42704", "has no setting \"colour\""),
        ("meridian RESET meridian.colour", "42704", "has no setting \"meridian.colour\""),
        ("meridian SET statement_timeout = '1s'", "0A000", "statement_timeout"),
        ("nowhere SET version_retention_period = '1h'", "3D000", "does not exist"),
    ] {
        let refused =
            client.batch_execute(&format!("ALTER DATABASE {wrong}")).await.expect_err(wrong);
        let told = refused.as_db_error().expect("by the server");
        assert_eq!(told.code().code(), code, "{wrong}: {told:?}");
        assert!(told.message().contains(words), "{wrong}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_leaders_says_how_long_what_is_to_be_prepared_waits() {
    let (client, server, _folder) = served().await;
    client.batch_execute("CREATE DATABASE lab PROTOCOL = tapir").await.expect("created");
    let in_lab = server.url.replace("/meridian", "/lab");
    let (lab, connection) = tokio_postgres::connect(&in_lab, NoTls).await.expect("connects");
    tokio::spawn(connection);
    for (said, expected) in [
        ("RESET prepare_wait", "0"),
        ("SET prepare_wait = '5ms'", "5ms"),
        ("SET prepare_wait TO '1s'", "1s"),
        ("SET prepare_wait TO '250us'", "250us"),
        ("SET prepare_wait TO DEFAULT", "0"),
        ("SET prepare_wait = '0'", "0"),
        ("SET prepare_wait = '2 ms'", "2ms"),
        ("SET prepare_wait = 3", "3ms"),
    ] {
        client.batch_execute(&format!("ALTER DATABASE lab {said}")).await.expect(said);
        assert_eq!(one(&lab, "SHOW prepare_wait").await.as_deref(), Some(expected), "{said}");
    }
    lab.batch_execute("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        .await
        .expect("it waits");
    assert_eq!(one(&lab, "SELECT count(*) FROM t").await.as_deref(), Some("2"));
    assert_eq!(one(&client, "SHOW prepare_wait").await, None, "spanner has no such setting");
    for (wrong, code, words, hint) in [
        (
            "meridian SET prepare_wait = '5ms'",
            "42809",
            "\"meridian\" is spanner",
            "PROTOCOL = tapir",
        ),
        ("meridian RESET prepare_wait", "42809", "\"meridian\" is spanner", "PROTOCOL = tapir"),
        ("lab SET prepare_wait = '1001ms'", "22023", "out of range", "0 to 1s"),
        ("lab SET prepare_wait = 'soon'", "22023", "is no duration", "'5ms'"),
        ("lab SET prepare_wait = soon", "22023", "is no duration", "'5ms'"),
        ("lab SET colour = 'red'", "42704", "no setting", "prepare_wait, version_retention_period"),
    ] {
        let refused =
            client.batch_execute(&format!("ALTER DATABASE {wrong}")).await.expect_err(wrong);
        let told = refused.as_db_error().expect("by the server");
        assert_eq!(told.code().code(), code, "{wrong}: {told:?}");
        assert!(told.message().contains(words), "{wrong}: {told:?}");
        assert!(told.hint().is_some_and(|told| told.contains(hint)), "{wrong}: {told:?}");
    }
}

async fn rows(client: &Client, query: &str) -> Vec<Vec<Option<String>>> {
    let rows =
        client.simple_query(query).await.unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
        }
        _ => None,
    };
    rows.iter().filter_map(row).collect()
}

async fn one(client: &Client, query: &str) -> Option<String> {
    let rows = rows(client, query).await;
    assert_eq!((rows.len(), rows[0].len()), (1, 1), "{query}: {rows:?}");
    rows[0][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_tell_when_they_were_committed() {
    let (client, _server, _folder) = served().await;
    let run = async |statement: &str| client.batch_execute(statement).await.expect(statement);
    run("CREATE TABLE note (id int PRIMARY KEY, tag text, words text); CREATE INDEX ON note (tag)")
        .await;
    let mut committed = Vec::new();
    for id in 1..=4 {
        run(&format!("INSERT INTO note VALUES ({id}, 't{id}', 'first')")).await;
        committed.push(one(&client, "SHOW meridian.commit_timestamp").await);
    }
    run("ALTER TABLE note SPLIT AT VALUES (3)").await;
    run("UPDATE note SET words = 'second' WHERE id = 2").await;
    committed[1] = one(&client, "SHOW meridian.commit_timestamp").await;
    let of = |id: usize| vec![Some(id.to_string()), committed[id - 1].clone()];
    let newest_last =
        "SELECT id, meridian_commit_timestamp FROM note ORDER BY meridian_commit_timestamp";
    assert_eq!(rows(&client, newest_last).await, [of(1), of(3), of(4), of(2)]);
    for place in
        ["WHERE id = 3", "WHERE tag = 't3'", "WHERE id IN (3)", "AS n WHERE n.id > 2 LIMIT 1"]
    {
        let query = format!("SELECT id, meridian_commit_timestamp FROM note {place}");
        assert_eq!(rows(&client, &query).await, [of(3)], "{query}");
    }
    let since = committed[3].as_deref().expect("it was committed");
    let later = format!("SELECT count(*) FROM note WHERE meridian_commit_timestamp > '{since}'");
    assert_eq!(one(&client, &later).await.as_deref(), Some("1"));
    assert_eq!(
        rows(&client, "SELECT * FROM note WHERE id = 1").await[0].len(),
        3,
        "the commit timestamp is no column of the table"
    );
    run("BEGIN; UPDATE note SET words = 'third' WHERE id = 1").await;
    let own =
        rows(&client, "SELECT id, meridian_commit_timestamp FROM note WHERE id IN (1, 3)").await;
    assert_eq!(own, [vec![Some("1".into()), None], of(3)], "an uncommitted row has no timestamp");
    run("ROLLBACK").await;
    let refused = client.batch_execute("UPDATE note SET meridian_commit_timestamp = now()").await;
    assert_eq!(
        refused.expect_err("the column cannot be set").code().map(|code| code.code()),
        Some("42703")
    );
}
