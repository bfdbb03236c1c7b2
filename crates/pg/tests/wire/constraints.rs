//! Tests that constraints hold under concurrent transactions, under every protocol.

use crate::common::{PATIENCE, start_by};
use meridian_systems::Protocol;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Runs statements. Returns the SQLSTATE if one fails, which may only be that of a violated
/// constraint, or of a conflict; the transaction has ended then.
async fn attempt(client: &Client, sql: &str) -> Result<(), &'static str> {
    let done = timeout(PATIENCE, client.batch_execute(sql)).await;
    let Err(error) = done.unwrap_or_else(|_| panic!("{sql} does not end")) else { return Ok(()) };
    let code = error.code().map(|code| code.code().to_owned());
    let expected = ["23503", "23505", "40001", "40P01"];
    let found = expected.into_iter().find(|expected| code.as_deref() == Some(*expected));
    let found = found.unwrap_or_else(|| panic!("{sql}: {error:?}"));
    client.batch_execute("ROLLBACK").await.expect("it ends");
    Err(found)
}

async fn number(client: &Client, sql: &str) -> i64 {
    let messages = client.simple_query(sql).await.expect("it succeeds");
    let number = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).and_then(|text| text.parse().ok()),
        _ => None,
    });
    number.expect("a number")
}

/// Sessions insert, move and delete parents and children, some with checks at the commit. No child
/// is left without a parent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_child_is_left_without_a_parent() {
    for protocol in Protocol::with_transactions() {
        let server = start_by(protocol).await;
        let first = server.client().await;
        let schema = "CREATE TABLE p (id int PRIMARY KEY);
            CREATE TABLE now (id int PRIMARY KEY, p int REFERENCES p);
            CREATE TABLE later (id int PRIMARY KEY,
                                p int REFERENCES p DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE with_it (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE);
            CREATE INDEX ON now (p);
            INSERT INTO p SELECT generate_series(1, 3)";
        first.batch_execute(schema).await.expect("is made");
        let mut sessions = Vec::new();
        for session in 0..4 {
            let client = server.client().await;
            sessions.push(tokio::spawn(async move {
                let (mut done, mut refused) = (0, 0);
                for round in 0..30 {
                    let (id, p) = (session * 100 + round, (session + round * 7 / 3) % 3 + 1);
                    let steps = match (session + round) % 4 {
                        0 => vec![
                            format!("DELETE FROM now WHERE p = {p}"),
                            format!("DELETE FROM later WHERE p = {p}"),
                            format!("DELETE FROM p WHERE id = {p}"),
                        ],
                        1 => vec![
                            format!("INSERT INTO p VALUES ({p}) ON CONFLICT DO NOTHING"),
                            format!("INSERT INTO later VALUES ({id}, {p})"),
                        ],
                        2 => vec![format!("INSERT INTO now VALUES ({id}, {p})")],
                        _ => vec![
                            format!("INSERT INTO with_it VALUES ({id}, {p})"),
                            format!("UPDATE now SET p = {p} WHERE id < {id}"),
                        ],
                    };
                    // Each step is a message, so that transactions overlap.
                    let mut failed = attempt(&client, "BEGIN").await.is_err();
                    for step in steps {
                        failed = failed || attempt(&client, &step).await.is_err();
                    }
                    match failed || attempt(&client, "COMMIT").await.is_err() {
                        true => refused += 1,
                        false => done += 1,
                    }
                }
                (done, refused)
            }));
        }
        let mut done = 0;
        for session in sessions {
            done += session.await.expect("it ends").0;
        }
        assert!(done >= 20, "{}: {done} transactions committed", protocol.name);
        for table in ["now", "later", "with_it"] {
            let orphans = format!(
                "SELECT count(*) FROM {table} WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM p)"
            );
            assert_eq!(number(&first, &orphans).await, 0, "{} of {}", table, protocol.name);
        }
    }
}

/// A transaction takes a key away, and does to its children what the action says. Another one
/// inserts a child, and commits before it if nothing makes it wait: one of them fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_and_a_new_child_exclude_each_other() {
    const ACTIONS: [(&str, &str); 4] = [
        ("ON DELETE CASCADE", "DELETE FROM p WHERE id = 5"),
        ("ON DELETE SET NULL", "DELETE FROM p WHERE id = 5"),
        ("ON DELETE RESTRICT", "DELETE FROM p WHERE id = 5"),
        ("ON UPDATE CASCADE", "UPDATE p SET id = 6 WHERE id = 5"),
    ];
    for protocol in Protocol::with_transactions() {
        let server = start_by(protocol).await;
        let (one, other) = (server.client().await, server.client().await);
        for (action, change) in ACTIONS {
            let schema = format!(
                "CREATE TABLE p (id int PRIMARY KEY);
                 CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p {action});
                 INSERT INTO p VALUES (5)"
            );
            one.batch_execute(&schema).await.expect("is made");
            // Both have their snapshots before either writes.
            for (client, id) in [(&one, 100), (&other, 101)] {
                client.batch_execute("BEGIN").await.expect("begins");
                number(client, &format!("SELECT count(*) FROM c WHERE id = {id}")).await;
            }
            let changed = attempt(&one, change).await;
            let ((), inserted) = tokio::join!(
                async {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    if changed.is_ok() {
                        let _ = attempt(&one, "COMMIT").await;
                    }
                },
                async {
                    attempt(&other, "INSERT INTO c VALUES (1, 5)").await?;
                    attempt(&other, "COMMIT").await
                }
            );
            let orphans =
                "SELECT count(*) FROM c WHERE p IS NOT NULL AND p NOT IN (SELECT id FROM p)";
            let name = protocol.name;
            assert_eq!(number(&one, orphans).await, 0, "{action} of {name}: {inserted:?}");
            one.batch_execute("DROP TABLE c, p").await.expect("is dropped");
        }
    }
}

/// A foreign key that is added while rows are inserted holds for these, or is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_is_added_while_rows_are_inserted() {
    for protocol in Protocol::with_transactions() {
        let server = start_by(protocol).await;
        let (one, other) = (server.client().await, server.client().await);
        one.batch_execute("CREATE TABLE p (id int PRIMARY KEY)").await.expect("is made");
        for round in 0..6 {
            let table = format!("c{round}");
            let create = format!("CREATE TABLE {table} (p int)");
            one.batch_execute(&create).await.expect("is made");
            let add = format!("ALTER TABLE {table} ADD FOREIGN KEY (p) REFERENCES p");
            let insert = format!("INSERT INTO {table} VALUES (7)");
            let (added, inserted) = tokio::join!(attempt(&one, &add), attempt(&other, &insert));
            let rows = number(&one, &format!("SELECT count(*) FROM {table}")).await;
            assert_eq!(rows, i64::from(inserted.is_ok()), "{}", protocol.name);
            let both = added.is_ok() && inserted.is_ok();
            assert!(!both, "{}: a row without a parent, and a foreign key", protocol.name);
        }
    }
}

/// Sessions enter the same values, and move rows to values of others, in keys that are checked at
/// the end of the statement and at the commit. No two rows are equal afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_rows_are_equal_in_a_key_that_is_checked_later() {
    for protocol in Protocol::with_transactions() {
        let server = start_by(protocol).await;
        let first = server.client().await;
        let schema = "CREATE TABLE t (id int PRIMARY KEY, a int UNIQUE DEFERRABLE,
                                      b int UNIQUE DEFERRABLE INITIALLY DEFERRED)";
        first.batch_execute(schema).await.expect("is made");
        let mut sessions = Vec::new();
        for session in 0..4 {
            let client = server.client().await;
            sessions.push(tokio::spawn(async move {
                let mut refused = Vec::new();
                for round in 0..20 {
                    let (id, value) = (session * 100 + round, round * 2 + session % 2);
                    let steps = [
                        "BEGIN".to_owned(),
                        format!("INSERT INTO t VALUES ({id}, {value}, {value})"),
                        format!("UPDATE t SET b = {value} - 1 WHERE id = {id} - 1"),
                        "COMMIT".to_owned(),
                    ];
                    for step in steps {
                        if let Err(why) = attempt(&client, &step).await {
                            refused.push(why);
                            break;
                        }
                    }
                }
                refused
            }));
        }
        let mut refused = Vec::new();
        for session in sessions {
            refused.extend(session.await.expect("it ends"));
        }
        let name = protocol.name;
        assert!(refused.contains(&"23505"), "{name}: {refused:?}");
        assert!(number(&first, "SELECT count(*) FROM t").await >= 20, "{name}: {refused:?}");
        for key in ["a", "b"] {
            let equal = format!("SELECT count(*) - count(DISTINCT {key}) FROM t");
            assert_eq!(number(&first, &equal).await, 0, "{key} of {name}");
        }
    }
}
