//! Tests of the message order of a session: simple and extended queries, errors, portals, status.

use crate::common;
use crate::common::{
    Raw, bind, codes, execute, message, parse, query, say, start, status, sync, tags,
};

async fn ok(raw: &mut Raw, text: &str) {
    let answer = say(raw, query(text)).await;
    assert!(!tags(&answer).contains('E'), "{text}: {answer:?}");
}

async fn session_with_numbers(server: &common::Running) -> Raw {
    let mut raw = server.session().await;
    ok(&mut raw, "CREATE TABLE n (id int PRIMARY KEY, name text)").await;
    ok(
        &mut raw,
        "INSERT INTO n VALUES (1, 'one'), (2, 'two'), (3, NULL), (4, 'four'), (5, 'five')",
    )
    .await;
    raw
}

#[tokio::test]
async fn a_simple_query_describes_sends_and_completes() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    let answer = say(&mut raw, query("SELECT id, name FROM n WHERE id <= 3 ORDER BY id")).await;
    assert_eq!(tags(&answer), "TDDDCZ");
    assert_eq!(answer[1].row(), [Some(b"1".to_vec()), Some(b"one".to_vec())]);
    assert_eq!(answer[3].row(), [Some(b"3".to_vec()), None]);
    assert_eq!(answer[4].body, b"SELECT 3\0");
    assert_eq!(tags(&say(&mut raw, query("")).await), "IZ");
    assert_eq!(tags(&say(&mut raw, query("SELECT 1; SELECT 2")).await), "TDCTDCZ");
    assert_eq!(tags(&say(&mut raw, query("SELECT id FROM n WHERE id = 99")).await), "TCZ");
}

#[tokio::test]
async fn an_error_ends_a_simple_query_and_rolls_its_statements_back() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    let answer =
        say(&mut raw, query("INSERT INTO n VALUES (6, 'six'); SELECT * FROM nowhere; SELECT 1"))
            .await;
    assert_eq!(tags(&answer), "CEZ");
    assert_eq!(codes(&answer), ["42P01"]);
    assert_eq!(answer[1].field(b'S').as_deref(), Some("ERROR"));
    assert_eq!(answer[1].field(b'V').as_deref(), Some("ERROR"));
    assert_eq!(status(&answer), b'I');
    assert_eq!(tags(&say(&mut raw, query("SELECT id FROM n WHERE id = 6")).await), "TCZ");
}

#[tokio::test]
async fn the_status_byte_is_exact() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    for (text, expected, code) in [
        ("BEGIN", b'T', None),
        ("SELECT 1", b'T', None),
        ("SELECT * FROM nowhere", b'E', Some("42P01")),
        ("SELECT 1", b'E', Some("25P02")),
        ("ROLLBACK", b'I', None),
        ("SELECT 1", b'I', None),
        ("BEGIN", b'T', None),
        ("SAVEPOINT a", b'T', None),
        ("SELECT * FROM nowhere", b'E', Some("42P01")),
        ("ROLLBACK TO a", b'T', None),
        ("COMMIT", b'I', None),
    ] {
        let answer = say(&mut raw, query(text)).await;
        assert_eq!(status(&answer), expected, "after {text}: {answer:?}");
        assert_eq!(codes(&answer), code.into_iter().collect::<Vec<_>>(), "after {text}");
    }
}

#[tokio::test]
async fn an_extended_query_parses_describes_binds_and_runs() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    let pipeline = [
        parse("s", "SELECT id, name FROM n WHERE id = $1"),
        message(b'D', b"Ss\0"),
        bind("", "s", &["2"]),
        message(b'D', b"P\0"),
        execute("", 0),
        bind("", "s", &["3"]),
        execute("", 0),
        message(b'C', b"Ss\0"),
        sync(),
    ];
    let answer = say(&mut raw, pipeline.concat()).await;
    assert_eq!(tags(&answer), "1tT2TDC2DC3Z");
    // One parameter, an int4.
    assert_eq!(answer[1].body, b"\0\x01\0\0\0\x17");
    assert_eq!(answer[5].row(), [Some(b"2".to_vec()), Some(b"two".to_vec())]);
    assert_eq!(answer[8].row(), [Some(b"3".to_vec()), None]);
    let gone = say(&mut raw, [bind("", "s", &["2"]), sync()].concat()).await;
    assert_eq!(codes(&gone), ["26000"]);
}

#[tokio::test]
async fn an_error_skips_to_sync_and_not_further() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    let pipeline = [
        parse("", "INSERT INTO n VALUES (7, 'seven')"),
        bind("", "", &[]),
        execute("", 0),
        parse("", "SELECT * FROM nowhere"),
        bind("", "", &[]),
        execute("", 0),
        message(b'H', b""),
        query("SELECT 1"),
        sync(),
        parse("", "SELECT count(*) FROM n"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ];
    let first = say(&mut raw, pipeline.concat()).await;
    assert_eq!(tags(&first), "12CEZ");
    assert_eq!(status(&first), b'I');
    let second = raw.until(b'Z').await;
    assert_eq!(tags(&second), "12DCZ");
    assert_eq!(
        second[2].row(),
        [Some(b"5".to_vec())],
        "what ran before the error in one pipeline is rolled back with it"
    );
}

#[tokio::test]
async fn a_bad_bind_is_an_error_of_the_statement_not_of_the_connection() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    ok(&mut raw, "BEGIN").await;
    let wrong = [
        parse("s", "SELECT name FROM n WHERE id = $1"),
        bind("", "s", &["x"]),
        execute("", 0),
        sync(),
    ];
    let answer = say(&mut raw, wrong.concat()).await;
    assert_eq!((tags(&answer).as_str(), codes(&answer)), ("1EZ", vec!["22P02".to_owned()]));
    assert_eq!(status(&answer), b'E', "an error fails the block, whichever layer reports it");
    ok(&mut raw, "ROLLBACK").await;
    for (values, code) in [(&[][..], "08P01"), (&["1", "2"], "08P01"), (&["99999999999"], "22003")]
    {
        let answer = say(&mut raw, [bind("", "s", values), sync()].concat()).await;
        assert_eq!(codes(&answer), [code], "{values:?}");
        assert_eq!(status(&answer), b'I');
    }
}

#[tokio::test]
async fn a_portal_is_read_in_pieces() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    ok(&mut raw, "BEGIN").await;
    let begin =
        [parse("", "SELECT id FROM n ORDER BY id"), bind("p", "", &[]), execute("p", 2), sync()];
    assert_eq!(tags(&say(&mut raw, begin.concat()).await), "12DDsZ");
    // Another statement in between does not disturb it.
    assert_eq!(tags(&say(&mut raw, query("SELECT 1")).await), "TDCZ");
    let more = say(&mut raw, [execute("p", 2), sync()].concat()).await;
    assert_eq!(tags(&more), "DDsZ");
    assert_eq!(more[1].row(), [Some(b"4".to_vec())]);
    let last = say(&mut raw, [execute("p", 2), sync()].concat()).await;
    assert_eq!(tags(&last), "DCZ");
    ok(&mut raw, "COMMIT").await;
    assert_eq!(codes(&say(&mut raw, [execute("p", 2), sync()].concat()).await), ["34000"]);
}

#[tokio::test]
async fn flush_sends_without_ending_the_pipeline() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    raw.send(
        [parse("", "SELECT 1"), bind("", "", &[]), execute("", 0), message(b'H', b"")].concat(),
    )
    .await;
    assert_eq!(tags(&raw.until(b'C').await), "12DC");
    assert_eq!(tags(&say(&mut raw, sync()).await), "Z");
}

#[tokio::test]
async fn messages_may_arrive_byte_by_byte() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    for byte in [parse("", "SELECT 1"), bind("", "", &[]), execute("", 0), sync()].concat() {
        raw.send([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(tags(&raw.until(b'Z').await), "12DCZ");
}

#[tokio::test]
async fn a_large_result_streams_past_a_slow_client() {
    let server = start().await;
    let mut raw = server.session().await;
    ok(&mut raw, "CREATE TABLE big (id int PRIMARY KEY, filler text)").await;
    let filler = "x".repeat(1000);
    for chunk in 0..10 {
        let rows: Vec<String> =
            (0..300).map(|row| format!("({}, '{filler}')", chunk * 300 + row)).collect();
        ok(&mut raw, &format!("INSERT INTO big VALUES {}", rows.join(", "))).await;
    }
    raw.send(query("SELECT * FROM big")).await;
    // Three megabytes of rows wait for a client that does not read yet.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let answer = raw.until(b'Z').await;
    assert_eq!(answer.iter().filter(|message| message.tag == b'D').count(), 3000);
    let pieces = say(
        &mut raw,
        [parse("", "SELECT * FROM big"), bind("", "", &[]), execute("", 0), sync()].concat(),
    )
    .await;
    assert_eq!(pieces.iter().filter(|message| message.tag == b'D').count(), 3000);
    assert_eq!(pieces[pieces.len() - 2].body, b"SELECT 3000\0");
}

#[tokio::test]
async fn copy_takes_rows_however_they_are_cut() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    raw.send(query("COPY n FROM STDIN")).await;
    assert_eq!(tags(&raw.until(b'G').await), "G");
    for piece in ["10\tt", "en\n11\t\\N\n1", "2\ttwe\\tlve\n"] {
        raw.send(message(b'd', piece.as_bytes())).await;
    }
    let answer = say(&mut raw, message(b'c', b"")).await;
    assert_eq!(tags(&answer), "CZ");
    assert_eq!(answer[0].body, b"COPY 3\0");
    let rows = say(&mut raw, query("SELECT name FROM n WHERE id >= 10 ORDER BY id")).await;
    let names: Vec<Option<Vec<u8>>> = rows[1..4].iter().map(|row| row.row()[0].clone()).collect();
    assert_eq!(names, [Some(b"ten".to_vec()), None, Some(b"twe\tlve".to_vec())]);
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing_and_the_connection_goes_on() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    raw.send(
        [query("COPY n FROM STDIN"), message(b'd', b"20\ttwenty\n"), message(b'f', b"enough\0")]
            .concat(),
    )
    .await;
    let answer = raw.until(b'Z').await;
    assert_eq!((tags(&answer).as_str(), codes(&answer)), ("GEZ", vec!["57014".to_owned()]));
    assert_eq!(status(&answer), b'I');

    // Invalid rows; the data after the error are dropped.
    let bad = [
        query("COPY n FROM STDIN"),
        message(b'd', b"21\tx\nno number\ty\n"),
        message(b'd', b"22\tz\n"),
        message(b'c', b""),
    ];
    raw.send(bad.concat()).await;
    let answer = raw.until(b'Z').await;
    assert_eq!((tags(&answer).as_str(), codes(&answer)), ("GEZ", vec!["22P02".to_owned()]));
    assert_eq!(tags(&say(&mut raw, query("SELECT id FROM n WHERE id >= 20")).await), "TCZ");

    let extended = [
        parse("", "COPY n FROM STDIN"),
        bind("", "", &[]),
        execute("", 0),
        message(b'd', b"30\tx\n"),
        message(b'c', b""),
        sync(),
    ];
    let answer = say(&mut raw, extended.concat()).await;
    assert_eq!(tags(&answer), "12GCZ");
}

#[tokio::test]
async fn a_name_of_a_portal_is_taken_until_its_transaction_ends() {
    let server = start().await;
    let mut raw = session_with_numbers(&server).await;
    let answer = say(&mut raw, [parse("s", "SELECT id FROM n ORDER BY id"), sync()].concat()).await;
    assert_eq!(tags(&answer), "1Z");
    let begun = || [bind("p", "s", &[]), execute("p", 1)].concat();
    let again = || [bind("p", "s", &[]), sync()].concat();
    let go_on = || [execute("p", 1), sync()].concat();
    // The block fails by a second Bind, and ends by COMMIT.
    ok(&mut raw, "BEGIN").await;
    assert_eq!(tags(&say(&mut raw, [begun(), sync()].concat()).await), "2DsZ");
    let answer = say(&mut raw, again()).await;
    assert_eq!((codes(&answer), status(&answer)), (vec!["42P03".to_owned()], b'E'));
    assert_eq!(answer[0].field(b'M').as_deref(), Some("cursor \"p\" already exists"));
    assert_eq!(tags(&say(&mut raw, query("COMMIT")).await), "CZ");
    assert_eq!(codes(&say(&mut raw, go_on()).await), ["34000"]);
    // It ends by ROLLBACK, by COMMIT, and by Sync if it is implicit.
    for end in ["ROLLBACK", "COMMIT"] {
        ok(&mut raw, "BEGIN").await;
        assert_eq!(tags(&say(&mut raw, [begun(), sync()].concat()).await), "2DsZ");
        ok(&mut raw, end).await;
        assert_eq!(codes(&say(&mut raw, go_on()).await), ["34000"], "{end}");
    }
    assert_eq!(codes(&say(&mut raw, [begun(), again()].concat()).await), ["42P03"]);
    for _ in 0..2 {
        assert_eq!(tags(&say(&mut raw, [begun(), sync()].concat()).await), "2DsZ");
    }
    // Cursors and portals share their names; the unnamed portal is replaced.
    ok(&mut raw, "BEGIN").await;
    let twice = [bind("", "s", &[]), bind("", "s", &[]), execute("", 0), sync()].concat();
    assert_eq!(tags(&say(&mut raw, twice).await), "22DDDDDCZ");
    ok(&mut raw, "DECLARE p CURSOR FOR SELECT 1").await;
    assert_eq!(codes(&say(&mut raw, again()).await), ["42P03"]);
}
