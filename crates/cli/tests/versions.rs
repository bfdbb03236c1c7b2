//! How long superseded versions are kept, as SQL says it.

mod common;

use common::Started;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

async fn kept(client: &Client) -> Option<String> {
    let rows = client.simple_query("SHOW version_retention_period").await.expect("is shown");
    rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_says_for_how_long_it_keeps_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (client, connection) = tokio_postgres::connect(&server.url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    assert_eq!(kept(&client).await.as_deref(), Some("10min"));
    for (said, expected) in [
        ("SET version_retention_period = '1h'", "1h"),
        ("SET version_retention_period TO '90 s'", "90s"),
        ("RESET version_retention_period", "10min"),
        ("SET version_retention_period = '7d'", "7d"),
        ("SET version_retention_period TO DEFAULT", "10min"),
    ] {
        client.batch_execute(&format!("ALTER DATABASE meridian {said}")).await.expect(said);
        assert_eq!(kept(&client).await.as_deref(), Some(expected), "{said}");
    }
    for (wrong, code, words) in [
        ("meridian SET version_retention_period = '5 parsecs'", "22023", "is no duration"),
        ("meridian SET version_retention_period = '1ms'", "22023", "out of range"),
        ("meridian SET version_retention_period = '99999999d'", "22023", "out of range"),
        ("meridian SET version_retention_period", "22023", "a duration is expected"),
        ("meridian SET version_retention_period = '1h' '2h'", "22023", "nothing behind it"),
        ("nowhere SET version_retention_period = '1h'", "3D000", "does not exist"),
    ] {
        let refused = client.batch_execute(&format!("ALTER DATABASE {wrong}")).await.expect_err(wrong);
        let told = refused.as_db_error().expect("by the server");
        assert_eq!(told.code().code(), code, "{wrong}: {told:?}");
        assert!(told.message().contains(words), "{wrong}: {told:?}");
    }
}
