//! Tests the error of a transaction that lost a conflict and cannot be replayed.

mod common;

use common::Started;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

async fn client(server: &Started) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url, NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_transaction_names_the_key_and_the_winner() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let older = client(&server).await;
    older.batch_execute("SET application_name = 'the payroll'").await.expect("is set");
    older
        .batch_execute(
            "CREATE TABLE wage (id int PRIMARY KEY, n int); INSERT INTO wage VALUES (1, 0), (2, 0)",
        )
        .await
        .expect("is made");
    let younger = client(&server).await;
    older.batch_execute("BEGIN; UPDATE wage SET n = 1 WHERE id = 2").await.expect("begins");
    younger.batch_execute("BEGIN").await.expect("begins");
    // The client has seen the row, so a replay is not possible: it might return another value.
    younger.query("SELECT n FROM wage WHERE id = 1 FOR UPDATE", &[]).await.expect("is shown");
    older.batch_execute("UPDATE wage SET n = 7 WHERE id = 1").await.expect("the older one wins");
    older.batch_execute("COMMIT").await.expect("commits");
    let error = younger
        .batch_execute("UPDATE wage SET n = n + 1 WHERE id = 1")
        .await
        .expect_err("it has lost");
    let told = error.as_db_error().expect("by the server");
    assert_eq!(told.code(), &SqlState::T_R_SERIALIZATION_FAILURE);
    let detail = told.detail().expect("a detail");
    for words in [
        "Nothing of the transaction happened",
        "(id)=(1) of table \"wage\"",
        "\"the payroll\"",
        "ms before this one",
    ] {
        assert!(detail.contains(words), "{words}: {detail}");
    }
    assert_eq!(told.hint(), Some("The transaction might succeed if retried."));
}
