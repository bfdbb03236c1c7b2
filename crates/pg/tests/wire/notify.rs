//! Tests LISTEN and NOTIFY in several sessions.

use crate::common::{Raw, Running, query, start, start_by};
use meridian_systems::Protocol;
use std::time::{Duration, Instant};

/// A notification: the sender's process, the channel and the payload.
type Heard = (i32, String, String);

/// Reads the next message, which must be a notification.
async fn heard(session: &mut Raw) -> Heard {
    let message = session.next().await.expect("the connection is open");
    assert_eq!(message.tag, b'A', "{message:?}");
    notification(&message.body)
}

fn notification(body: &[u8]) -> Heard {
    let (pid, texts) = body.split_first_chunk().expect("a process number");
    let mut texts = texts.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text));
    let mut next = || texts.next().expect("a text").into_owned();
    (i32::from_be_bytes(*pid), next(), next())
}

/// Runs a query. Returns its tags, notifications and SQLSTATEs, in order.
async fn run(session: &mut Raw, sql: &str) -> Vec<String> {
    session.send(query(sql)).await;
    let messages = session.until(b'Z').await;
    let shown = messages.iter().filter_map(|message| match message.tag {
        b'C' => Some(String::from_utf8_lossy(&message.body[..message.body.len() - 1]).into()),
        b'E' | b'N' => message.field(b'C'),
        b'A' => {
            let (_, channel, payload) = notification(&message.body);
            Some(format!("{channel}:{payload}"))
        }
        b'D' => Some(String::from_utf8_lossy(&message.body[6..]).into_owned()),
        _ => None,
    });
    shown.collect()
}

async fn pid(session: &mut Raw) -> i32 {
    run(session, "SELECT pg_backend_pid()").await[0].parse().expect("a number")
}

async fn pair(server: &Running) -> (Raw, Raw) {
    (server.session().await, server.session().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_session_is_told_in_the_order_of_commits_under_every_protocol() {
    for protocol in Protocol::with_transactions() {
        let name = protocol.name;
        let server = start_by(protocol).await;
        let (mut listener, mut one) = pair(&server).await;
        let mut other = server.session().await;
        assert_eq!(run(&mut one, "NOTIFY a, 'before'").await, ["NOTIFY"], "{name}");
        assert_eq!(run(&mut listener, "LISTEN a; LISTEN b").await, ["LISTEN", "LISTEN"], "{name}");
        let sender = pid(&mut one).await;
        // The first to notify commits last.
        assert_eq!(run(&mut one, "BEGIN; NOTIFY a, '3'").await, ["BEGIN", "NOTIFY"], "{name}");
        for n in [1, 2] {
            let sent = run(&mut other, &format!("SELECT pg_notify('b', '{n}')")).await;
            assert_eq!(sent, ["", "SELECT 1"], "{name}");
        }
        assert_eq!(run(&mut other, "NOTIFY c, 'not heard'").await, ["NOTIFY"], "{name}");
        let twice = "NOTIFY a, '4'; NOTIFY a, '3'; SELECT pg_notify('a', '4'); COMMIT";
        run(&mut one, twice).await;
        let began = Instant::now();
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(heard(&mut listener).await);
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{name}: {:?}", began.elapsed());
        let payloads: Vec<&str> = all.iter().map(|(_, _, payload)| payload.as_str()).collect();
        assert_eq!(payloads, ["1", "2", "3", "4"], "{name}");
        assert_eq!((all[2].0, all[2].1.as_str()), (sender, "a"), "{name}");
        // A session's own comes before it is ready.
        let own = run(&mut listener, "INSERT INTO t VALUES (1)").await;
        assert_eq!(own, ["42P01"], "{name}");
        assert_eq!(run(&mut listener, "NOTIFY b").await, ["NOTIFY", "b:"], "{name}");
        assert_eq!(run(&mut listener, "UNLISTEN *").await, ["UNLISTEN"], "{name}");
        assert_eq!(run(&mut listener, "NOTIFY b").await, ["NOTIFY"], "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_rolled_back_is_neither_sent_nor_listened_to() {
    let server = start().await;
    let (mut listener, mut sender) = pair(&server).await;
    run(&mut listener, "BEGIN; LISTEN x; ROLLBACK; LISTEN a; BEGIN; LISTEN b; SELECT 1 / 0").await;
    run(&mut listener, "COMMIT").await;
    let channels = "SELECT * FROM pg_listening_channels()";
    assert_eq!(run(&mut listener, channels).await, ["a", "SELECT 1"]);
    for rolled_back in [
        "BEGIN; NOTIFY a, '1'; ROLLBACK",
        "NOTIFY a, '2'; SELECT 1 / 0",
        "SELECT pg_notify('a', '3'), 1 / 0",
        "BEGIN; SELECT pg_notify('a', '4'); SELECT 1 / 0",
        "COMMIT",
        "SELECT pg_notify('a', '5'); CREATE TABLE t (a int); INSERT INTO t VALUES ('x')",
    ] {
        run(&mut sender, rolled_back).await;
    }
    let saved = "BEGIN; NOTIFY a, '6'; SAVEPOINT s; NOTIFY a, '6'; NOTIFY a, '7'; \
                 ROLLBACK TO s; NOTIFY a, '8'; SAVEPOINT s; SELECT pg_notify('a', '9'); \
                 RELEASE s; COMMIT";
    run(&mut sender, saved).await;
    for payload in ["6", "8", "9"] {
        assert_eq!(heard(&mut listener).await.2, payload);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_in_a_transaction_is_told_when_it_has_ended() {
    let server = start().await;
    let (mut listener, mut sender) = pair(&server).await;
    assert_eq!(run(&mut listener, "LISTEN a; BEGIN").await, ["LISTEN", "BEGIN"]);
    assert_eq!(run(&mut sender, "NOTIFY a, '1'").await, ["NOTIFY"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(run(&mut listener, "SELECT 1").await, ["1", "SELECT 1"]);
    assert_eq!(run(&mut listener, "COMMIT").await, ["COMMIT", "a:1"]);
    // LISTEN and UNLISTEN take effect when they commit.
    let within = run(&mut listener, "BEGIN; UNLISTEN a; LISTEN b; NOTIFY a; NOTIFY b").await;
    assert_eq!(within, ["BEGIN", "UNLISTEN", "LISTEN", "NOTIFY", "NOTIFY"]);
    let channels = "SELECT * FROM pg_listening_channels()";
    assert_eq!(run(&mut listener, channels).await, ["a", "SELECT 1"]);
    assert_eq!(run(&mut listener, "COMMIT").await, ["COMMIT", "b:"]);
    assert_eq!(run(&mut listener, channels).await, ["b", "SELECT 1"]);
    // What a read-only transaction notifies is sent, too.
    let read_only = "BEGIN READ ONLY; NOTIFY b, 'x'; SELECT pg_notify('b', 'y'); COMMIT";
    let told = run(&mut listener, read_only).await;
    assert_eq!(told[told.len() - 3..], ["COMMIT", "b:x", "b:y"]);
    assert_eq!(run(&mut listener, "DISCARD ALL").await, ["DISCARD ALL"]);
    assert_eq!(run(&mut listener, channels).await, ["SELECT 0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_transaction_notifies_once() {
    for protocol in Protocol::with_transactions() {
        let name = protocol.name;
        let server = start_by(protocol).await;
        let (mut one, mut other) = pair(&server).await;
        run(&mut one, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
            .await;
        run(&mut one, "LISTEN a").await;
        // Both write one row: the server repeats the one that loses.
        let update = "UPDATE t SET n = n + 1 WHERE id = 1";
        run(&mut other, "BEGIN; NOTIFY a, '1'; SELECT pg_notify('a', '2')").await;
        run(&mut other, update).await;
        let commit = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            run(&mut other, "COMMIT").await
        };
        let (told, committed) = tokio::join!(run(&mut one, update), commit);
        let mut all: Vec<String> = told.into_iter().filter(|it| it.starts_with("a:")).collect();
        if committed == ["COMMIT"] {
            while all.len() < 2 {
                all.push(format!("a:{}", heard(&mut one).await.2));
            }
            assert_eq!(all, ["a:1", "a:2"], "{name}");
        }
        assert_eq!(run(&mut one, "NOTIFY a, '3'").await, ["NOTIFY", "a:3"], "{name}: no other");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sessions_notify_at_once_and_all_listeners_see_one_order() {
    const SENDERS: usize = 4;
    const EACH: usize = 25;
    for protocol in Protocol::with_transactions() {
        let name = protocol.name;
        let server = start_by(protocol).await;
        let (mut first, mut second) = pair(&server).await;
        run(&mut first, "LISTEN a").await;
        run(&mut second, "LISTEN a").await;
        let mut senders = tokio::task::JoinSet::new();
        for sender in 0..SENDERS {
            let mut session = server.session().await;
            senders.spawn(async move {
                for n in 0..EACH {
                    let sent = run(&mut session, &format!("NOTIFY a, '{sender} {n}'")).await;
                    assert_eq!(sent, ["NOTIFY"]);
                }
            });
        }
        senders.join_all().await;
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for _ in 0..SENDERS * EACH {
            one.push(heard(&mut first).await.2);
            other.push(heard(&mut second).await.2);
        }
        assert_eq!(one, other, "{name}");
        for sender in 0..SENDERS {
            let of = format!("{sender} ");
            let own: Vec<&String> = one.iter().filter(|it| it.starts_with(&of)).collect();
            let expected: Vec<String> = (0..EACH).map(|n| format!("{sender} {n}")).collect();
            assert!(own.into_iter().eq(&expected), "{name}: {one:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_payloads_have_the_lengths_of_postgresql() {
    let server = start().await;
    let mut session = server.session().await;
    run(&mut session, "LISTEN a").await;
    for (sql, answer) in [
        ("SELECT pg_notify('', 'x')", "22023"),
        ("SELECT pg_notify(NULL, 'x')", "22023"),
        ("SELECT pg_notify(repeat('x', 64), 'x')", "22023"),
        ("SELECT pg_notify('a', repeat('x', 8000))", "22023"),
        ("NOTIFY a, b", "42601"),
        ("NOTIFY a, 5", "42601"),
        ("NOTIFY a.b", "42601"),
        ("LISTEN *", "42601"),
    ] {
        assert_eq!(run(&mut session, sql).await, [answer], "{sql}");
    }
    assert_eq!(run(&mut session, "NOTIFY a, E'\\tx'").await, ["NOTIFY", "a:\tx"]);
    assert_eq!(run(&mut session, "NOTIFY A, $$y$$").await, ["NOTIFY", "a:y"]);
    let none = run(&mut session, "SELECT pg_notify('a', NULL)").await;
    assert_eq!(none, ["", "SELECT 1", "a:"]);
    let long = format!("LISTEN {}", "y".repeat(70));
    assert_eq!(run(&mut session, &long).await, ["42622", "LISTEN"]);
    let told = run(&mut session, "SELECT pg_notify(repeat('y', 63), 'z')").await;
    assert_eq!(told[2], format!("{}:z", "y".repeat(63)));
    let usage = run(&mut session, "SELECT pg_notification_queue_usage()").await;
    assert_eq!(usage, ["0", "SELECT 1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_has_lost_notifications_is_told_before_it_is_ready() {
    let server = start().await;
    let (mut listener, mut sender) = pair(&server).await;
    assert_eq!(run(&mut listener, "LISTEN a; BEGIN").await, ["LISTEN", "BEGIN"]);
    // More than may wait for it.
    for _ in 0..3 {
        let sql =
            "SELECT count(pg_notify('a', lpad(g::text, 7999))) FROM generate_series(1, 800) g";
        assert_eq!(run(&mut sender, sql).await, ["800", "SELECT 1"]);
    }
    let began = Instant::now();
    while run(&mut sender, "SELECT pg_notification_queue_usage()").await[0] != "1" {
        assert!(began.elapsed() < Duration::from_secs(30));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    listener.send(query("SELECT 1; COMMIT")).await;
    let told = listener.rest().await;
    let tags: Vec<char> = told.iter().map(|message| message.tag as char).collect();
    assert_eq!(tags, ['T', 'D', 'C', 'C', 'E']);
    assert_eq!(told[4].field(b'C').as_deref(), Some("54000"));
}
