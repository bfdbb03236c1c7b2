//! Sessions of tests, over the wire.

use super::Started;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Connects to a database.
pub async fn client(server: &Started, database: &str) -> Client {
    let url = format!("postgresql://root@{}/{database}", server.sql);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// Returns the first columns of all rows.
pub async fn texts(client: &Client, query: &str) -> Vec<String> {
    let found = client.simple_query(query).await.unwrap_or_else(|why| panic!("{query}: {why:?}"));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    found.iter().filter_map(row).collect()
}

/// Returns the first column of the first row.
pub async fn text(client: &Client, query: &str) -> String {
    let found = texts(client, query).await;
    found.into_iter().next().unwrap_or_else(|| panic!("{query}: no row"))
}

/// Runs statements, all of which must succeed.
pub async fn run(client: &Client, statements: &str) {
    client.batch_execute(statements).await.unwrap_or_else(|why| panic!("{statements}: {why:?}"));
}

/// Returns the SQLSTATE and the message of a statement that must fail.
pub async fn refused(client: &Client, statement: &str) -> (String, String) {
    let why = client.batch_execute(statement).await.expect_err(statement);
    let told = why.as_db_error().expect("by the server");
    (told.code().code().to_owned(), told.message().to_owned())
}
