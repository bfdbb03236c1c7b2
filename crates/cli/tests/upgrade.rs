//! A data folder that the version before wrote, under this one.

mod common;

use common::Started;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Unpacks a folder that a build of version 6 left behind when it was killed.
fn folder_of_version_6(to: &Path) -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data-6.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(to).status();
    assert!(unpacked.expect("tar runs").success());
    to.join("data-6")
}

async fn connect(server: &Started, database: &str) -> Client {
    let url = server.url.replace("/meridian", &format!("/{database}"));
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// The rows of a query: columns separated by `|`, NULL as nothing.
async fn rows(client: &Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).await.expect(query);
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            let columns: Vec<&str> =
                (0..row.len()).map(|at| row.get(at).unwrap_or_default()).collect();
            Some(columns.join("|"))
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

async fn one(client: &Client, query: &str) -> String {
    rows(client, query).await.join("\n")
}

/// Checks all that version 6 wrote.
async fn check(server: &Started) {
    let client = connect(server, "meridian").await;
    let accounts =
        rows(&client, "select id, owner, balance from account where id < 1000 order by id").await;
    let expected = (1..=300).filter(|id| id % 10 != 0).map(|id| {
        let moved = if id == 1 {
            -50
        } else if id == 299 {
            50
        } else {
            0
        };
        format!("{id}|owner {id}|{}", id + moved)
    });
    assert_eq!(accounts, expected.collect::<Vec<_>>());
    assert_eq!(one(&client, "select count(*) from meridian.shards").await, "3");

    let items =
        rows(&client, "select id, name, price, colour from item where id < 1000 order by id").await;
    let colour = |id| if id <= 5 { "red" } else { "" };
    let expected = (1..=40).map(|id| format!("{id}|item {id}|7|{}", colour(id)));
    assert_eq!(items, expected.collect::<Vec<_>>());
    let by_index = "select id from item where name = 'item 33'";
    assert_eq!(one(&client, by_index).await, "33");
    assert!(one(&client, &format!("explain {by_index}")).await.contains("item_name"));
    assert_eq!(one(&client, "select id from item where name = 'item 41'").await, "");

    assert_eq!(
        rows(&client, "select * from typed order by id").await,
        ["1|1.5|\\x00ff|2026-11-25|2026-11-25 12:00:00+00|t", "2|||||"]
    );
    assert!(client.simple_query("select * from gone").await.is_err());
    assert_eq!(one(&client, "show version_retention_period").await, "1h");
    let databases = "select datname from pg_database where datname in ('lab', 'relaxed', 'short')";
    assert_eq!(rows(&client, databases).await.len(), 2);

    let lab = connect(server, "lab").await;
    let notes = rows(&lab, "select id, words from note where id < 1000 order by id").await;
    let words = |id| match id {
        2 => "changed".to_owned(),
        21 => "the last".to_owned(),
        id => format!("note {id}"),
    };
    let expected = (1..=21).filter(|id| *id != 3).map(|id| format!("{id}|{}", words(id)));
    assert_eq!(notes, expected.collect::<Vec<_>>());
    assert_eq!(one(&lab, "select id from note where words = 'changed'").await, "2");
    assert_eq!(one(&lab, "show prepare_wait").await, "5ms");
    let relaxed = connect(server, "relaxed").await;
    assert_eq!(one(&relaxed, "select id, words from note").await, "1|one");
}

const WRITTEN: [(&str, &str); 6] = [
    ("meridian", "insert into account values (1001, 'new', 1), (150000, 'new', 2)"),
    ("meridian", "update account set balance = balance + 1 where id >= 1000"),
    ("meridian", "alter table item add column size int default 3"),
    ("meridian", "insert into item (id, name) values (1001, 'new')"),
    ("meridian", "create table fresh (id int primary key); insert into fresh values (1)"),
    ("lab", "insert into note values (1001, 'new')"),
];

/// Checks all that this version wrote.
async fn check_written(server: &Started) {
    let client = connect(server, "meridian").await;
    let accounts = "select id, balance from account where id >= 1000 order by id";
    assert_eq!(rows(&client, accounts).await, ["1001|2", "150000|3"]);
    assert_eq!(one(&client, "select size from item where id = 1").await, "3");
    assert_eq!(one(&client, "select id from item where name = 'new'").await, "1001");
    assert_eq!(one(&client, "select id from fresh").await, "1");
    let lab = connect(server, "lab").await;
    assert_eq!(one(&lab, "select id from note where words = 'new'").await, "1001");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_the_version_before_is_read_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder_of_version_6(folder.path());
    let server = Started::on(&data);
    check(&server).await;
    for (database, statement) in WRITTEN {
        let client = connect(&server, database).await;
        client.batch_execute(statement).await.expect(statement);
    }
    check_written(&server).await;
    server.kill();

    let server = Started::on(&data);
    check(&server).await;
    check_written(&server).await;
    assert_eq!(server.terminate(), Some(0));

    let server = Started::on(&data);
    check(&server).await;
    check_written(&server).await;
}
