//! Tests Clock-SI on a real process: its isolation level, the anomalies that it allows and refuses,
//! and schema changes beside writers. The examples of docs/clock-si.md run here.

mod common;

use common::Started;
use common::session::{client, refused, run, text};
use futures::SinkExt;
use std::collections::BTreeMap;
use tokio_postgres::{Client, SimpleQueryMessage};

async fn copy(client: &Client, table: &str, rows: &'static str) {
    let sink = client.copy_in(&format!("COPY {table} FROM STDIN")).await.expect("begins");
    let mut sink = Box::pin(sink);
    sink.send(rows.as_bytes()).await.expect("takes rows");
    sink.close().await.expect("ends");
}

/// Makes a database, and returns two sessions.
async fn database(server: &Started) -> (Client, Client) {
    let admin = client(server, "meridian").await;
    admin.batch_execute("CREATE DATABASE shop PROTOCOL = clock_si").await.expect("is made");
    (client(server, "shop").await, client(server, "shop").await)
}

/// Runs the statements of the page, in order; those of two sessions by their letters.
#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_page_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    let sessions = BTreeMap::from([("A", &a), ("B", &b)]);
    let page = include_str!("../../../docs/clock-si.md");
    let mut ran = 0;
    for block in page.split("```").skip(1).step_by(2) {
        match block.split_once('\n') {
            Some(("sql", statements)) => run(&a, statements).await,
            Some(("sh", lines)) => {
                // The database is there already.
                for line in lines.lines().filter(|line| line.starts_with("meridian model")) {
                    let line = line.replace("127.0.0.1:5544", &server.sql);
                    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
                    let output = tokio::task::block_in_place(|| common::run(&words));
                    assert!(output.status.success(), "{line}: {}", common::stderr(&output));
                    ran += 1;
                }
            }
            Some(("session", lines)) => {
                for line in lines.lines() {
                    let (name, statement) = line.split_once("> ").expect("a session's name");
                    match statement.split_once(" -- ") {
                        Some((statement, code)) => {
                            let (found, why) = refused(sessions[name], statement).await;
                            assert_eq!(found, code, "{statement}: {why}");
                        }
                        None => run(sessions[name], statement).await,
                    }
                    ran += 1;
                }
                let on_call = text(&a, "SELECT count(*) FROM doctors WHERE on_call").await;
                // Without FOR UPDATE both doctors have left.
                let expected = if lines.contains("FOR UPDATE") { "1" } else { "0" };
                assert_eq!(on_call, expected, "{lines}");
            }
            _ => {}
        }
    }
    assert!(ran > 12, "{ran}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_is_repeatable_read_and_lost_updates_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    assert_eq!(text(&a, "SHOW transaction_isolation").await, "repeatable read");
    let (code, why) = refused(&a, "BEGIN ISOLATION LEVEL SERIALIZABLE").await;
    assert!(code == "0A000" && why.contains("SERIALIZABLE"), "{code} {why}");
    run(&a, "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, n int)").await;
    run(&a, "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0)").await;
    // A snapshot does not change, and the first committer wins.
    run(&a, "BEGIN").await;
    assert_eq!(text(&a, "SELECT n FROM t WHERE id = 1").await, "0");
    run(&b, "UPDATE t SET n = 5 WHERE id = 1").await;
    assert_eq!(text(&a, "SELECT n FROM t WHERE id = 1").await, "0");
    run(&a, "UPDATE t SET n = n + 1 WHERE id = 1").await;
    assert_eq!(text(&a, "SELECT n FROM t WHERE id = 1").await, "1", "its own write");
    // It is repeated, and would show 5 instead of 0.
    let (code, why) = refused(&a, "COMMIT").await;
    assert_eq!(code, "40001", "{why}");
    assert_eq!(text(&a, "SELECT n FROM t WHERE id = 1").await, "5");
    // Two rows with one value of a unique column: both see none, and one is refused.
    run(&a, "BEGIN; INSERT INTO t VALUES (3, 9, 0)").await;
    run(&b, "BEGIN; INSERT INTO t VALUES (4, 9, 0)").await;
    run(&b, "COMMIT").await;
    let (code, why) = refused(&a, "COMMIT").await;
    assert_eq!(code, "40001", "{why}");
    let (code, why) = refused(&a, "INSERT INTO t VALUES (5, 9, 0)").await;
    assert_eq!(code, "23505", "{why}");
    let (code, why) = refused(&a, "SELECT n FROM t FOR UPDATE SKIP LOCKED").await;
    assert_eq!(code, "0A000", "{why}");
}

/// A session sees its own commits, whatever the age of its snapshots, and those of others when they
/// are older.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_snapshot_lacks_what_others_have_just_committed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    run(&a, "CREATE TABLE t (id int PRIMARY KEY, n int)").await;
    run(&a, "INSERT INTO t VALUES (1, 0), (2, 0)").await;
    run(&b, "UPDATE t SET n = n + 1 WHERE id = 1").await; // It has seen the table.
    let sum = "SELECT sum(n) FROM t";
    run(&b, "SET meridian.snapshot_age = '9min'").await;
    run(&a, "UPDATE t SET n = 10 WHERE id = 2").await;
    assert_eq!((text(&a, sum).await, text(&b, sum).await), ("11".into(), "1".into()));
    // A transaction chooses for itself, before its first query.
    run(&b, "BEGIN; SET LOCAL meridian.snapshot_age = '0'").await;
    assert_eq!(text(&b, sum).await, "11");
    let (code, why) = refused(&b, "SET LOCAL meridian.snapshot_age = '1ms'").await;
    assert!(code == "25001" && why.contains("before any query"), "{code} {why}");
    run(&b, "ROLLBACK").await;
    // Nor does a block that only reads change its snapshot, nor is what a block has copied lost.
    run(&b, "BEGIN READ ONLY; SELECT sum(n) FROM t").await;
    let (code, why) = refused(&b, "SET LOCAL meridian.snapshot_age = '0'").await;
    assert!(code == "25001" && why.contains("before any query"), "{code} {why}");
    run(&b, "ROLLBACK; BEGIN").await;
    copy(&b, "t", "3\t0\n").await;
    for set in ["SET LOCAL meridian.snapshot_age = '0'", "SET TRANSACTION READ ONLY"] {
        run(&b, "SAVEPOINT s").await;
        let (code, why) = refused(&b, set).await;
        assert!(code == "25001" && why.contains("before any query"), "{code} {why}");
        run(&b, "ROLLBACK TO s").await;
    }
    run(&b, "COMMIT").await;
    assert_eq!(text(&a, "SELECT count(*) FROM t").await, "3");
    // A write of a row that has changed meanwhile is refused once. The repetition comes after the
    // change, and so does what the session reads from then on.
    run(&a, "UPDATE t SET n = 20 WHERE id = 2").await;
    run(&b, "UPDATE t SET n = n + 1 WHERE id = 2").await;
    assert_eq!(text(&b, sum).await, "22");
    for (value, message) in [("-5ms", "invalid value"), ("soon", "invalid value"), ("1h", "older")]
    {
        let (code, why) = refused(&b, &format!("SET meridian.snapshot_age = '{value}'")).await;
        assert!(code == "22023" && why.contains(message), "{value}: {code} {why}");
    }
    run(&b, "RESET meridian.snapshot_age").await;
    assert_eq!(text(&b, "SHOW meridian.snapshot_age").await, "0");
    // What `auto` stands for: this node has committed, and has not asked another one.
    let auto = b.simple_query("SHOW meridian.snapshot_age_auto").await.expect("it is shown");
    let row = auto.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let part = |name| -> f64 {
        row.expect("a row").get(name).expect("a part").parse().expect("milliseconds")
    };
    let (delay, round_trip, skew) =
        (part("commit_delay_ms"), part("round_trip_ms"), part("skew_ms"));
    assert!(delay > 0.0 && round_trip == 0.0, "{delay} {round_trip} {skew}");
    assert!((part("age_ms") - delay.max(skew).min(1_000.0)).abs() < 0.002, "{delay} {skew}");
    // The model takes what was measured.
    let model = |database: &str| {
        let url = format!("postgresql://root@{}/{database}", server.sql);
        let words = ["model", "clock-si", "--interval", "1ms", "--url", &url];
        tokio::task::block_in_place(|| common::run(&words))
    };
    let told = common::stdout(&model("shop"));
    assert!(
        told.starts_with("S ") && told.contains("RRD 0 ms") && told.contains(", suggested |"),
        "{told}"
    );
    let other = model("meridian");
    assert!(!other.status.success() && common::stderr(&other).contains("0A000"), "{other:?}");
    // The database's age is that of sessions that begin afterwards; other protocols have none.
    run(&a, "ALTER DATABASE shop SET meridian.snapshot_age = 'auto'").await;
    let later = client(&server, "shop").await;
    assert_eq!(text(&later, "SHOW meridian.snapshot_age").await, "auto");
    let spanner = client(&server, "meridian").await;
    let (code, why) = refused(&spanner, "SET meridian.snapshot_age = 'auto'").await;
    assert_eq!(code, "0A000", "{why}");
    let (_, why) =
        refused(&spanner, "ALTER DATABASE meridian SET meridian.snapshot_age = '5ms'").await;
    assert!(why.contains("snapshot_age"), "{why}");
    let (code, why) = refused(&spanner, "SHOW meridian.snapshot_age_auto").await;
    assert_eq!(code, "0A000", "{why}");
    let (code, why) =
        refused(&spanner, "ALTER DATABASE shop SET meridian.snapshot_age = '1d'").await;
    assert!(code == "22023" && why.contains("older"), "{code} {why}");
}

/// A reader of an older snapshot finds tables as they were. A writer is repeated at the present.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_snapshot_finds_tables_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    run(&a, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)").await;
    run(&b, "UPDATE t SET n = 2; SET meridian.snapshot_age = '9min'").await;
    run(&a, "CREATE TABLE u (id int PRIMARY KEY)").await;
    run(&a, "ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 7").await;
    let (code, why) = refused(&b, "SELECT * FROM u").await;
    assert_eq!(code, "42P01", "{why}");
    let (code, why) = refused(&b, "SELECT d FROM t").await;
    assert_eq!(code, "42703", "{why}");
    assert_eq!(text(&b, "SELECT n FROM t").await, "2");
    run(&b, "INSERT INTO u VALUES (1)").await;
    assert_eq!(text(&b, "SELECT count(*) FROM u").await, "1");
    run(&a, "ALTER TABLE t ADD COLUMN e int NOT NULL DEFAULT 8").await;
    run(&b, "BEGIN; UPDATE t SET n = n + e; COMMIT").await;
    assert_eq!(text(&b, "SELECT n + d FROM t").await, "17");
}

/// No row is missed by a schema change that reads a table, and none is written for an old schema.
#[tokio::test(flavor = "multi_thread")]
async fn schema_changes_miss_no_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    run(&a, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)").await;
    // The snapshot of the change lies before a write that has committed. A repetition would show
    // another count.
    run(&a, "BEGIN; SELECT count(*) FROM t; CREATE INDEX i ON t (n)").await;
    run(&b, "INSERT INTO t VALUES (2, 2)").await;
    let (code, why) = refused(&a, "COMMIT").await;
    assert_eq!(code, "40001", "{why}");
    // A transaction that began before the change is repeated after it.
    run(&b, "BEGIN; INSERT INTO t VALUES (3, 3)").await;
    run(&a, "CREATE INDEX i ON t (n)").await;
    run(&b, "COMMIT").await;
    run(&b, "INSERT INTO t VALUES (4, 4)").await;
    run(&a, "BEGIN; CREATE INDEX j ON t (n, id); COMMIT").await;
    // What a schema change writes is seen within its own block, which began before.
    run(&a, "BEGIN; SELECT 1; CREATE INDEX k ON t (n, id)").await;
    assert_eq!(text(&a, "SELECT count(*) FROM t WHERE n > 1").await, "3");
    run(&a, "CREATE TABLE c (id int PRIMARY KEY, n int)").await;
    copy(&a, "c", "7\t7\n8\t8\n").await;
    run(&a, "UPDATE c SET n = 9 WHERE id = 8; ALTER TABLE c ADD COLUMN d int NOT NULL DEFAULT 1")
        .await;
    assert_eq!(text(&a, "SELECT sum(n + d) FROM c").await, "18");
    run(&a, "COMMIT").await;
    assert_eq!(text(&b, "SELECT sum(n + d) FROM c").await, "18");
    for n in 1..=4 {
        let found = text(&a, &format!("SELECT id FROM t WHERE n = {n}")).await;
        assert_eq!(found, n.to_string());
    }
    assert_eq!(text(&a, "SELECT count(*) FROM t WHERE n > 0").await, "4");
}

/// Rows of a table that the same transaction has filled are kept as they are.
#[tokio::test(flavor = "multi_thread")]
async fn kept_rows_stay_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    run(&a, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1), (2, 2)")
        .await;
    run(&a, "BEGIN; SELECT 1; CREATE TABLE c (id int PRIMARY KEY, n int)").await;
    copy(&a, "c", "7\t7\n8\t8\n").await;
    run(&a, "SELECT * FROM c FOR UPDATE; SELECT * FROM c WHERE id IN (7, 8) FOR SHARE").await;
    run(&a, "ALTER TABLE t ADD COLUMN d int NOT NULL DEFAULT 3; SELECT * FROM t FOR UPDATE").await;
    run(&a, "COMMIT").await;
    assert_eq!(text(&b, "SELECT sum(n) FROM c").await, "15");
    assert_eq!(text(&b, "SELECT sum(n + d) FROM t").await, "9");
    // Its own write of a row, before or after it is kept, is what commits.
    run(&a, "BEGIN; UPDATE t SET n = 10 WHERE id = 1; SELECT n FROM t FOR UPDATE").await;
    run(&a, "DELETE FROM t WHERE id = 2; COMMIT").await;
    assert_eq!(text(&b, "SELECT sum(n) FROM t").await, "10");
    // A row that is kept is named where it is refused.
    run(&a, "BEGIN; SELECT n FROM t FOR SHARE").await;
    run(&b, "UPDATE t SET n = 11 WHERE id = 1").await;
    let why = a.batch_execute("COMMIT").await.expect_err("is refused");
    let detail = why.as_db_error().and_then(|told| told.detail()).unwrap_or_default();
    assert!(detail.contains("(id)=(1) of table \"t\""), "{detail}");
    let (code, _) = refused(&a, "SET TRANSACTION SNAPSHOT '00000003-0000001B-1'").await;
    assert_eq!(code, "0A000");
    run(&a, "SELECT relname FROM pg_class FOR SHARE").await;
}

/// A transaction whose snapshot lies before a change of a table uses the table no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_has_changed_since_the_snapshot_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    run(&a, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)").await;
    // What a client has seen decides whether the server can repeat an ordinary statement.
    for (statement, column, reason) in [
        ("COPY t FROM STDIN", "a", "table \"t\" has changed"),
        ("UPDATE t SET n = n + 1", "b", "would have shown other results"),
    ] {
        run(&a, "BEGIN").await;
        assert_eq!(text(&a, "SELECT count(*) FROM t WHERE n > 0").await, "1");
        run(&b, &format!("ALTER TABLE t ADD COLUMN {column} int")).await;
        run(&b, "UPDATE t SET n = -n").await;
        let (code, why) = refused(&a, statement).await;
        assert!(code == "40001" && why.contains(reason), "{statement}: {code} {why}");
        run(&a, "ROLLBACK").await;
        run(&b, "UPDATE t SET n = -n").await;
    }
    run(&a, "BEGIN; SELECT 1").await;
    run(&b, "ALTER TABLE t ADD COLUMN more int").await;
    // The client cannot tell a later snapshot from this one.
    run(&a, "UPDATE t SET n = 5; COMMIT").await;
    assert_eq!(text(&b, "SELECT n FROM t").await, "5");
}

/// More rows than a leader remembers are filled into a table of the same transaction.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_copy_commits_with_its_table() {
    const ROWS: usize = 150_000;
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let (a, b) = database(&server).await;
    run(&b, "CREATE TABLE small (id int PRIMARY KEY, n int); INSERT INTO small VALUES (1, 1)")
        .await;
    run(&b, "BEGIN; UPDATE small SET n = 2").await;
    run(&a, "BEGIN; CREATE TABLE large (id int PRIMARY KEY)").await;
    let rows: String = (0..ROWS).map(|id| format!("{id}\n")).collect();
    copy(&a, "large", rows.leak()).await;
    run(&a, "COMMIT").await;
    assert_eq!(text(&a, "SELECT count(*) FROM large").await, ROWS.to_string());
    // A transaction from before is not refused for the sake of these rows.
    run(&b, "COMMIT").await;
    run(&b, "BEGIN; SELECT n FROM small").await;
    run(&a, "DROP TABLE large; VACUUM").await;
    run(&b, "UPDATE small SET n = 3; COMMIT").await;
    assert_eq!(text(&b, "SELECT n FROM small").await, "3");
}

/// A transfer writes each row that it reads: without FOR UPDATE, too, the total is kept.
#[tokio::test(flavor = "multi_thread")]
async fn transfers_keep_the_total_with_locks_and_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let _sessions = database(&server).await;
    let url = format!("postgresql://root@{}/shop", server.sql);
    let workload = |words: &[&str]| {
        let output = tokio::task::block_in_place(|| common::run(&[&["workload"], words].concat()));
        assert!(output.status.success(), "{words:?}: {}", common::stderr(&output));
        common::stdout(&output)
    };
    workload(&["bank", "init", &url]);
    for reads in [&[][..], &["--plain-reads"]] {
        let run = ["bank", "run", &url, "--clients", "4", "--duration", "1.5"];
        workload(&[&run[..], reads].concat());
        assert!(workload(&["bank", "check", &url]).contains("check ok"));
    }
    let words = ["workload", "tpcb", "run", &url, "--plain-reads"];
    let other = tokio::task::block_in_place(|| common::run(&words));
    assert!(!other.status.success() && common::stderr(&other).contains("bank"), "{other:?}");
}
