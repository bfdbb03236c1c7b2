//! Tests HybridTime on real processes: what each consistency mode waits for, and causal tokens
//! between clients.

mod common;

use common::session::{client, refused, text};
use common::{Started, free_addresses};
use futures::SinkExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_postgres::{Client, CopyInSink, NoTls, SimpleQueryMessage};

/// The error of the clock, and the wait that follows from it.
const ERROR: &str = "40ms";
const WAIT: Duration = Duration::from_millis(80);

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
    assert!(lines.contains("Commit Wait: ") && !lines.contains("Commit Wait: 0.0"), "{lines}");
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
    assert_eq!(text(&second, "SELECT current_setting('meridian.consistency')").await, "none");
    assert_eq!(text(&second, "SELECT current_setting('meridian.causal_token')").await, token);
    second
        .batch_execute("SET meridian.consistency = hybrid; DISCARD ALL")
        .await
        .expect("discarded");
    assert_eq!(text(&second, "SHOW meridian.causal_token").await, "");
    assert_eq!(text(&second, "SHOW meridian.consistency").await, "none", "as it began");
    let refused = connect("-c meridian.causal_token=yesterday".into()).await.err();
    let told = refused.as_ref().and_then(|why| why.as_db_error()).expect("refused by the server");
    assert_eq!(told.code().code(), "22023", "{told:?}");
}

/// `ALTER DATABASE … SET meridian.consistency`: the default of sessions that begin later.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_has_a_default_mode() {
    let folder = tempfile::tempdir().expect("a folder");
    let addresses = free_addresses(3);
    let join = addresses.join(",");
    let open =
        |at: usize| Started::member(&folder.path().join(at.to_string()), &addresses[at], &join);
    let mut nodes: Vec<Started> = (0..3).map(open).collect();
    let before = database(&nodes[0]).await;
    let admin = client(&nodes[0], "meridian").await;
    admin
        .batch_execute("ALTER DATABASE ht SET meridian.consistency = 'commit_wait'")
        .await
        .expect("it has it");
    assert_eq!(text(&before, "SHOW meridian.consistency").await, "hybrid", "as it began");
    let mode = "SHOW meridian.consistency";
    let after = client(&nodes[0], "ht").await;
    assert_eq!(text(&after, mode).await, "commit_wait");
    after.batch_execute("BEGIN; SET LOCAL meridian.consistency = none; COMMIT").await.expect("set");
    after.batch_execute("SET meridian.consistency = none").await.expect("it has it");
    let source = "SELECT source || ' ' || setting || ' ' || reset_val FROM pg_settings \
                  WHERE name = 'meridian.consistency'";
    assert_eq!(text(&after, source).await, "session none commit_wait");
    after.batch_execute("RESET meridian.consistency").await.expect("reset");
    assert_eq!(text(&after, mode).await, "commit_wait", "the database's");
    assert_eq!(text(&after, source).await, "database commit_wait commit_wait");
    let oid = text(&after, "SELECT oid FROM pg_database WHERE datname = 'ht'").await;
    let given = format!("SELECT setconfig FROM pg_db_role_setting WHERE setdatabase = {oid}");
    assert_eq!(text(&after, &given).await, "{meridian.consistency=commit_wait}");
    let other = client(&nodes[0], "meridian").await;
    assert_eq!(text(&other, mode).await, "commit_wait", "spanner has one mode");
    let set = "ALTER DATABASE meridian SET meridian.consistency = commit_wait";
    other.batch_execute(set).await.expect("which may be said");
    // Every other node learns it, as soon as it has the row.
    let shows = async |node: &Started, expected: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        while text(&client(node, "ht").await, mode).await != expected {
            assert!(Instant::now() < end, "the node does not learn it");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    shows(&nodes[1], "commit_wait").await;
    shows(&nodes[2], "commit_wait").await;
    nodes.remove(2).kill();
    nodes.push(open(2));
    shows(&nodes[2], "commit_wait").await;
    admin.batch_execute("ALTER DATABASE ht SET meridian.consistency TO none").await.expect("set");
    assert_eq!(text(&client(&nodes[0], "ht").await, mode).await, "none");
    admin.batch_execute("ALTER DATABASE ht RESET meridian.consistency").await.expect("reset");
    assert_eq!(text(&client(&nodes[0], "ht").await, mode).await, "hybrid");
    for (wrong, code, words) in [
        ("ht SET meridian.consistency = 'eventual'", "22023", "is no consistency mode"),
        ("ht SET meridian.consistency = ''", "22023", "is no consistency mode"),
        ("meridian SET meridian.consistency = 'hybrid'", "42809", "no consistency mode 'hybrid'"),
        ("nowhere SET meridian.consistency = 'hybrid'", "3D000", "\"nowhere\" does not exist"),
        ("nowhere RESET meridian.consistency", "3D000", "\"nowhere\" does not exist"),
        ("ht SET meridian.causal_token = 'x'", "42704", "\"meridian.causal_token\""),
        ("ht SET lock_timeout = '1s'", "0A000", "lock_timeout"),
    ] {
        let (found, why) = refused(&admin, &format!("ALTER DATABASE {wrong}")).await;
        assert!(found == code && why.contains(words), "{wrong}: {found} {why}");
    }
    let inside = "BEGIN; ALTER DATABASE ht SET meridian.consistency = 'none'";
    assert_eq!(refused(&admin, inside).await.0, "25001");
}

/// A session's token covers all that the session has seen, whichever way it has seen it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_learns_from_all_that_it_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = three(folder.path(), &[]);
    let writer = database(&nodes[0]).await;
    let reader = client(&nodes[1], "ht").await;
    let seen = async |client: &Client| parts(&text(client, "SHOW meridian.causal_token").await);
    let write = async |id: i32| {
        let insert = format!("INSERT INTO t VALUES ({id}, 0)");
        writer.batch_execute(&insert).await.expect("written");
        text(&writer, "SHOW meridian.causal_token").await
    };
    // An error tells of a row, also in a transaction that has no effect.
    let written = write(1).await;
    assert_eq!(refused(&reader, "INSERT INTO t VALUES (1, 1)").await.0, "23505");
    assert!(seen(&reader).await >= parts(&written));
    let written = write(2).await;
    assert_eq!(refused(&reader, "BEGIN; INSERT INTO t VALUES (2, 1)").await.0, "23505");
    reader.batch_execute("ROLLBACK").await.expect("ends");
    assert!(seen(&reader).await >= parts(&written));
    let written = write(3).await;
    let sink: CopyInSink<&'static [u8]> =
        reader.copy_in("COPY t FROM STDIN").await.expect("begins");
    let mut sink = std::pin::pin!(sink);
    let sent = sink.send(&b"3\t1\n"[..]).await;
    let failed = sent.and(sink.finish().await.map(drop)).expect_err("a row like it is there");
    assert_eq!(failed.code().map(|code| code.code()), Some("23505"), "{failed:?}");
    assert!(seen(&reader).await >= parts(&written));
    // A mode that comes after nothing adds to the token for later ones.
    reader.batch_execute("SET meridian.consistency = 'none'").await.expect("it has it");
    let written = write(4).await;
    assert_eq!(text(&reader, "SELECT count(*) FROM t WHERE id = 4").await, "1");
    assert!(seen(&reader).await >= parts(&written));
    reader.batch_execute("RESET meridian.consistency").await.expect("reset");
    // Prepared statements, and several in one pipeline.
    let count = reader.prepare("SELECT count(*) FROM t WHERE id = $1").await.expect("prepared");
    let written = write(5).await;
    let (one, _) =
        futures::future::try_join(reader.query_one(&count, &[&5]), reader.query_one(&count, &[&9]))
            .await
            .expect("read");
    assert_eq!(one.get::<_, i64>(0), 1);
    assert!(seen(&reader).await >= parts(&written));
    // The past adds nothing.
    let before = seen(&reader).await;
    text(&reader, "SELECT count(*) FROM t AS OF SYSTEM TIME '-1ms'").await;
    let after = seen(&reader).await;
    assert!(after >= before, "it does not shrink: {before:?} {after:?}");
    // A token and the statement that comes after it, in one message.
    let written = write(6).await;
    let both =
        format!("SET meridian.causal_token = '{written}'; SELECT count(*) FROM t WHERE id = 6");
    assert_eq!(text(&client(&nodes[2], "ht").await, &both).await, "1");
    reader.batch_execute("RESET meridian.causal_token").await.expect("reset");
    assert_eq!(text(&reader, "SHOW meridian.causal_token").await, "");
    assert_eq!(refused(&reader, "BEGIN; RESET meridian.causal_token").await.0, "25001");
    reader.batch_execute("ROLLBACK").await.expect("ends");
    let local = format!("SET LOCAL meridian.causal_token = '{written}'");
    assert_eq!(refused(&reader, &local).await.0, "0A000");
    // A token of another time has the right form and the right database.
    let far = token_of("ht", u64::MAX - 1);
    let (code, why) = refused(&reader, &format!("SET meridian.causal_token = '{far}'")).await;
    assert!(code == "22023" && why.contains("ahead of the latest possible time"), "{code} {why}");
    let early = token_of("ht", 1_000_000_000);
    let set = format!("SET meridian.causal_token = '{early}'");
    reader.batch_execute(&set).await.expect("the past is no error");
    assert_eq!(text(&reader, "SELECT count(*) FROM t").await, "6");
}

/// Parameters at connection start by their own names, as pgx sends them.
#[tokio::test(flavor = "multi_thread")]
async fn a_startup_packet_names_mode_and_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let first = database(&server).await;
    let token = text(&first, "SELECT meridian.causal_token()").await;
    let parameters = [
        ("user", "root"),
        ("database", "ht"),
        ("meridian.consistency", "none"),
        ("meridian.causal_token", &token),
    ];
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    for (name, value) in parameters {
        body.extend(format!("{name}\0{value}\0").bytes());
    }
    body.push(0);
    let length = |body: &[u8]| u32::try_from(body.len() + 4).expect("short").to_be_bytes();
    let query = b"SELECT current_setting('meridian.consistency'), meridian.causal_token()\0";
    let sent =
        [&length(&body)[..], &body, b"Q", &length(query), query, b"X", &length(b"")].concat();
    let mut socket = std::net::TcpStream::connect(&server.sql).expect("connects");
    std::io::Write::write_all(&mut socket, &sent).expect("it reads");
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut socket, &mut answer).expect("it answers");
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("none") && answer.contains(&token), "{answer:?}");
}

/// Returns the numbers of a token's timestamp, which are in the order of timestamps.
fn parts(token: &str) -> Vec<u64> {
    let part = |part| u64::from_str_radix(part, 16).expect("a token");
    token.split('.').take(3).map(part).collect()
}

/// Returns a token as a client could make it.
fn token_of(database: &str, nanos: u64) -> String {
    let bytes = database.bytes().chain(nanos.to_be_bytes()).chain([0; 8]);
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    let crc = bytes.fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)));
    format!("{nanos:x}.0.0.{:08x}", !crc)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_is_set_follows_its_transaction() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let client = database(&server).await;
    for (statements, expected) in [
        ("BEGIN; SET LOCAL meridian.consistency = 'commit_wait'; COMMIT", "hybrid"),
        ("BEGIN; SET meridian.consistency = 'commit_wait'; ROLLBACK", "hybrid"),
        ("BEGIN; SET meridian.consistency = 'commit_wait'; COMMIT", "commit_wait"),
        (
            "BEGIN; SET meridian.consistency = none; SET LOCAL meridian.consistency = hybrid; COMMIT",
            "none",
        ),
        (
            "BEGIN; SET meridian.consistency = hybrid; SAVEPOINT s; \
             SET meridian.consistency = commit_wait; ROLLBACK TO s; COMMIT",
            "hybrid",
        ),
    ] {
        client.batch_execute(statements).await.unwrap_or_else(|why| panic!("{statements}: {why}"));
        assert_eq!(text(&client, "SHOW meridian.consistency").await, expected, "{statements}");
    }
    // Statement by statement.
    for mode in ["none", "commit_wait", "hybrid"] {
        let set = format!("SET meridian.consistency = '{mode}'");
        client.batch_execute(&set).await.expect("it has it");
        let insert = format!("INSERT INTO t VALUES ({}, 0)", mode.len());
        client.batch_execute(&insert).await.expect("written");
        assert_eq!(text(&client, "SHOW meridian.consistency").await, mode);
    }
    assert_eq!(text(&client, "SELECT count(*) FROM t").await, "3");
    // A transaction that fails takes its SET along.
    let failing = "BEGIN; SET meridian.consistency = 'none'; INSERT INTO t VALUES (4, 0)";
    assert_eq!(refused(&client, failing).await.0, "23505");
    client.batch_execute("COMMIT").await.expect("which rolls back");
    assert_eq!(text(&client, "SHOW meridian.consistency").await, "hybrid");
}

/// Every form of AS OF SYSTEM TIME, at all members of the shard's group.
#[tokio::test(flavor = "multi_thread")]
async fn the_past_is_read_at_every_member() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = three(folder.path(), &[]);
    let writer = database(&nodes[0]).await;
    let mut ends = Vec::new();
    for n in 1..=2 {
        let write = format!("DELETE FROM t; INSERT INTO t VALUES (1, {n})");
        writer.batch_execute(&write).await.expect("written");
        let at = text(&writer, "SHOW meridian.commit_timestamp").await;
        // The first moment of this machine's clock at which the write is in the past.
        let nanos = loop {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let nanos = since_1970.as_nanos().to_string();
            let there = format!("SELECT coalesce(sum(n), 0) FROM t AS OF SYSTEM TIME '{nanos}'");
            if text(&writer, &there).await == n.to_string() {
                break nanos;
            }
        };
        ends.push((at, nanos));
    }
    let token = text(&writer, "SHOW meridian.causal_token").await;
    for node in &nodes {
        let reader = client(node, "ht").await;
        let value = async |clause: &str| {
            text(&reader, &format!("SELECT sum(n) FROM t AS OF SYSTEM TIME {clause}")).await
        };
        for (n, (at, nanos)) in ["1", "2"].into_iter().zip(&ends) {
            assert_eq!(value(&format!("'{at}'")).await, n);
            assert_eq!(value(&format!("'{nanos}'")).await, n);
            let staleness = format!("SET meridian.read_only_staleness = 'READ_TIMESTAMP {at}'");
            reader.batch_execute(&staleness).await.expect("a time");
            assert_eq!(text(&reader, "SELECT n FROM t").await, n);
            assert_eq!(
                text(&reader, "BEGIN READ ONLY; SELECT n FROM t; COMMIT").await,
                n,
                "a transaction block"
            );
            reader.batch_execute("RESET meridian.read_only_staleness").await.expect("reset");
        }
        let (at, _) = &ends[1];
        assert_eq!(value(&format!("with_min_timestamp('{at}')")).await, "2");
        assert_eq!(value("with_max_staleness('0s')").await, "2");
        let staleness = format!("SET meridian.read_only_staleness = 'MIN_READ_TIMESTAMP {at}'");
        reader.batch_execute(&staleness).await.expect("a time");
        assert_eq!(text(&reader, "SELECT n FROM t").await, "2");
        reader.batch_execute("RESET meridian.read_only_staleness").await.expect("reset");
        // Some time ago, until that time comes after both writes.
        let end = Instant::now() + Duration::from_secs(60);
        while value("'-1ms'").await != "2" {
            assert!(Instant::now() < end, "the past catches up");
        }
        // However stale a read may be, it comes after the session's token.
        let told = client(node, "ht").await;
        let set = format!("SET meridian.causal_token = '{token}'");
        told.batch_execute(&set).await.expect("ours");
        let stale = "SELECT n FROM t AS OF SYSTEM TIME with_max_staleness('1h')";
        assert_eq!(text(&told, stale).await, "2");
        let (code, why) = refused(&reader, "SELECT n FROM t AS OF SYSTEM TIME '2100-01-01'").await;
        assert!(code == "22023" && why.contains("future"), "{code} {why}");
    }
}

/// `/metrics` and EXPLAIN ANALYZE, for each protocol.
#[tokio::test(flavor = "multi_thread")]
async fn waits_and_aborts_are_counted_by_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = three(folder.path(), &["--clock-bound", ERROR]);
    let hybrid = database(&nodes[0]).await;
    let spanner = client(&nodes[0], "meridian").await;
    spanner.batch_execute("CREATE DATABASE lab PROTOCOL = tapir").await.expect("is made");
    let tapir = client(&nodes[0], "lab").await;
    let metric = |name: &str, database: &str, protocol: &str, more: &str| {
        let metrics = nodes[0].get("/metrics");
        let labels = format!("{{database=\"{database}\",protocol=\"{protocol}\"{more}}} ");
        let start = format!("meridian_{name}{labels}");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&start));
        let value = value.unwrap_or_else(|| panic!("no {start} in {metrics}"));
        value.parse::<f64>().expect("a number")
    };
    let waited =
        |database: &str, protocol: &str| metric("commit_wait_seconds_sum", database, protocol, "");
    let before = waited("ht", "hybrid_time");
    hybrid.batch_execute("INSERT INTO t VALUES (1, 0)").await.expect("written");
    assert!(waited("ht", "hybrid_time") - before < WAIT.as_secs_f64(), "no commit waits");
    let before = waited("ht", "hybrid_time");
    hybrid.batch_execute("SET meridian.consistency = 'commit_wait'").await.expect("it has it");
    hybrid.batch_execute("UPDATE t SET n = 1").await.expect("written");
    assert!(waited("ht", "hybrid_time") > before);
    assert!(metric("commit_wait_seconds_count", "ht", "hybrid_time", "") > 1.0);
    assert_eq!(metric("read_wait_seconds_count", "meridian", "spanner", ""), 0.0);
    // A read in that mode waits for what another mode has just written, if it comes soon enough.
    let before = metric("read_wait_seconds_count", "ht", "hybrid_time", "");
    let explains = async || {
        let write = "SET meridian.consistency = 'hybrid'; UPDATE t SET n = 2";
        hybrid.batch_execute(write).await.expect("written");
        hybrid.batch_execute("SET meridian.consistency = 'commit_wait'").await.expect("it has it");
        let lines = hybrid.simple_query("EXPLAIN ANALYZE SELECT * FROM t WHERE id = 1").await;
        format!("{:?}", lines.expect("explained")).contains("Read Wait: ")
    };
    let end = Instant::now() + Duration::from_secs(60);
    while !explains().await {
        assert!(Instant::now() < end, "no read waits");
    }
    assert!(metric("read_wait_seconds_count", "ht", "hybrid_time", "") > before);
    assert!(metric("read_wait_seconds_sum", "ht", "hybrid_time", "") > 0.0);

    for (client, database, protocol, cause) in [
        (&hybrid, "ht", "hybrid_time", "wounded"),
        (&spanner, "meridian", "spanner", "wounded"),
        (&tapir, "lab", "tapir", "overwritten"),
    ] {
        let table =
            "CREATE TABLE c (id int PRIMARY KEY, n int); INSERT INTO c VALUES (1, 0), (2, 0)";
        client.batch_execute(table).await.expect("is made");
        let lines = client.simple_query("EXPLAIN ANALYZE UPDATE c SET n = 1 WHERE id = 2").await;
        let lines = format!("{:?}", lines.expect("explained"));
        for part in
            ["Execution Time: ", "Reads: ", "Commit Time: ", "Replication Time: ", "Commit Wait: "]
        {
            assert!(lines.contains(part), "{protocol}: {part}: {lines}");
        }
        let before =
            metric("transaction_aborts_total", database, protocol, &format!(",cause=\"{cause}\""));
        let younger = self::client(&nodes[0], database).await;
        client.batch_execute("BEGIN; SELECT n FROM c WHERE id = 2").await.expect("begins");
        younger
            .batch_execute("BEGIN; SELECT n FROM c WHERE id = 1 FOR UPDATE")
            .await
            .expect("begins");
        client
            .batch_execute("UPDATE c SET n = 7 WHERE id = 1; COMMIT")
            .await
            .expect("the older wins");
        let lost = younger.batch_execute("UPDATE c SET n = n + 1 WHERE id = 1; COMMIT").await;
        assert!(lost.is_err(), "{protocol}");
        let more = format!(",cause=\"{cause}\"");
        assert!(
            metric("transaction_aborts_total", database, protocol, &more) > before,
            "{protocol}"
        );
        assert_eq!(metric("unknown_outcomes_total", database, protocol, ""), 0.0);
        // The younger one holds the lock, and the other client waits for it no longer than it may.
        if cause == "wounded" {
            younger
                .batch_execute("ROLLBACK; BEGIN; UPDATE c SET n = 9 WHERE id = 1")
                .await
                .expect("locks");
            let late =
                refused(client, "SET lock_timeout = '50ms'; BEGIN; UPDATE c SET n = 1").await;
            assert_eq!(late.0, "55P03", "{}", late.1);
            let more = ",cause=\"lock_timeout\"";
            assert!(metric("transaction_aborts_total", database, protocol, more) >= 1.0);
        }
    }
}

/// Runs the statements of docs/hybrid-time.md, in order, in one session.
#[tokio::test(flavor = "multi_thread")]
async fn the_statements_of_the_page_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Started::on(folder.path());
    let admin = client(&server, "meridian").await;
    admin.batch_execute("CREATE DATABASE shop PROTOCOL = hybrid_time").await.expect("is made");
    let client = client(&server, "shop").await;
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
