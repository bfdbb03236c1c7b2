//! Tests of clients that do not speak the protocol: each loses its own connection, with the reason,
//! and affects no other.

use crate::common;
use crate::common::{Raw, message, query, start, start_with};
use std::sync::atomic::Ordering::Relaxed;

/// Sends the bytes, ends its side, and returns the last error's severity, code and message.
async fn last_words(mut raw: Raw, bytes: &[u8]) -> (String, String, String) {
    raw.send(bytes).await;
    // Incomplete frames are detected only when no more bytes can come.
    let _ = tokio::io::AsyncWriteExt::shutdown(&mut raw.stream).await;
    let messages = raw.rest().await;
    let error = messages
        .iter()
        .rfind(|message| message.tag == b'E')
        .unwrap_or_else(|| panic!("no error: {messages:?}"));
    let field = |kind| error.field(kind).expect("a field");
    (field(b'S'), field(b'C'), field(b'M'))
}

#[tokio::test]
async fn garbage_before_the_handshake() {
    let server = start().await;
    let too_long = [&10_001u32.to_be_bytes()[..], &[0; 64]].concat();
    let table: [(&str, &[u8], &str); 13] = [
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "invalid length of startup packet"),
        (
            "TLS hello without a request",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            "invalid length of startup packet",
        ),
        ("length zero", b"\0\0\0\0\0\x03\0\0", "invalid length of startup packet"),
        ("length below the header", b"\0\0\0\x07\0\x03\0", "invalid length of startup packet"),
        ("length over the cap", &too_long, "invalid length of startup packet: 10001"),
        ("negative length", b"\xff\xff\xff\xff\0\x03\0\0", "invalid length of startup packet"),
        ("half a length", b"\0\0", "closed in the middle"),
        ("half a packet", b"\0\0\0\x20\0\x03\0\0user\0ro", "closed in the middle"),
        ("protocol 2", b"\0\0\0\x09\0\x02\0\0\0", "unsupported frontend protocol 2.0"),
        ("protocol 4", b"\0\0\0\x09\0\x04\0\0\0", "unsupported frontend protocol 4.0"),
        ("a name without an end", b"\0\0\0\x0c\0\x03\0\0user", "has no end"),
        (
            "a name that is not UTF-8",
            b"\0\0\0\x0f\0\x03\0\0\xff\xfeer\0x\0",
            "invalid byte sequence",
        ),
        ("more after the end", b"\0\0\0\x0f\0\x03\0\0\0xxxxxx", "too many"),
    ];
    for (what, bytes, why) in table {
        let (severity, code, text) = last_words(server.raw().await, bytes).await;
        assert_eq!((severity.as_str(), code.as_str()), ("FATAL", "08P01"), "{what}: {text}");
        assert!(text.contains(why), "{what}: {text}");
    }
    assert_eq!(server.counters.protocol_errors.load(Relaxed), 13);
    server.session().await;
}

#[tokio::test]
async fn garbage_inside_a_session() {
    let server = start().await;
    let mut bystander = server.session().await;
    let table: [(&str, Vec<u8>, &str); 24] = [
        ("no such message", b"!\0\0\0\x04".to_vec(), "invalid frontend message type 33"),
        ("zeros", vec![0; 64], "invalid frontend message type 0"),
        ("length zero", b"Q\0\0\0\0".to_vec(), "invalid message length 0"),
        ("length 3", b"Q\0\0\0\x03".to_vec(), "invalid message length 3"),
        ("2 GB", b"Q\x7f\xff\xff\xff".to_vec(), "exceeds the limit"),
        ("4 GB", b"d\xff\xff\xff\xff".to_vec(), "exceeds the limit"),
        (
            "one byte over the limit",
            [b"Q", &((64u32 << 20) + 1).to_be_bytes()[..]].concat(),
            "exceeds the limit",
        ),
        ("half a header", b"Q\0\0".to_vec(), "closed in the middle"),
        ("half a body", b"Q\0\0\x01\0SELECT".to_vec(), "closed in the middle"),
        ("a query without an end", message(b'Q', b"SELECT 1"), "has no end"),
        ("an empty query message", message(b'Q', b""), "has no end"),
        ("more after the query", message(b'Q', b"SELECT 1\0SELECT 2\0"), "too many"),
        ("an empty parse", message(b'P', b""), "has no end"),
        ("more types than bytes", message(b'P', b"\0SELECT 1\0\xff\xff"), "cut off"),
        ("a bind without counts", message(b'B', b"\0\0"), "cut off"),
        ("more formats than bytes", message(b'B', b"\0\0\xff\xff"), "cut off"),
        ("format 7", message(b'B', b"\0\0\0\x01\0\x07\0\0\0\0"), "unsupported format code: 7"),
        ("more parameters than bytes", message(b'B', b"\0\0\0\0\x7f\xff\0\0"), "cut off"),
        (
            "a parameter longer than its frame",
            message(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0"),
            "cut off",
        ),
        (
            "a parameter of length -2",
            message(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"),
            "invalid parameter length -2",
        ),
        (
            "two formats for three values",
            message(b'B', b"\0\0\0\x02\0\0\0\0\0\x01\xff\xff\xff\xff\0\0"),
            "2 parameter formats",
        ),
        ("describe nothing", message(b'D', b"Xs\0"), "subtype 88"),
        ("execute without a limit", message(b'E', b"\0\0\0"), "cut off"),
        ("a function call", message(b'F', &[0; 16]), "function call"),
    ];
    let count = table.len() as u64;
    for (what, bytes, why) in table {
        let (severity, code, text) = last_words(server.session().await, &bytes).await;
        assert_eq!((severity.as_str(), code.as_str()), ("FATAL", "08P01"), "{what}: {text}");
        assert!(text.contains(why), "{what}: {text}");
        bystander.send(query("")).await;
        assert_eq!(common::tags(&bystander.until(b'Z').await), "IZ", "after {what}");
    }
    assert_eq!(server.counters.protocol_errors.load(Relaxed), count);
    assert_eq!(server.counters.panics_total.load(Relaxed), 0);
}

#[tokio::test]
async fn a_flood_of_half_open_connections_leaves_room() {
    let options = meridian_pg::Options { connections_limit: 4, ..common::local() };
    let server = start_with(options).await;
    let mut half_open = Vec::new();
    for _ in 0..200 {
        let mut raw = server.raw().await;
        // Beyond the limit of handshakes the server disconnects, perhaps before the first byte.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut raw.stream, b"\0\0\0\x20").await;
        half_open.push(raw);
    }
    drop(half_open);
    // The permits are released as soon as the server has read the ends.
    for _ in 0..100 {
        if server.counters.connections_open.load(Relaxed) == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    server.session().await;
}

#[tokio::test]
async fn sessions_beyond_the_limit_are_refused_with_the_reason() {
    let options = meridian_pg::Options { connections_limit: 2, ..common::local() };
    let server = start_with(options).await;
    let (_one, _two) = (server.session().await, server.session().await);
    let mut three = server.raw().await;
    three.open(&[("user", "root"), ("database", "meridian")]).await;
    let refused = three.rest().await;
    assert_eq!(
        refused.last().and_then(|error| error.field(b'C')).as_deref(),
        Some("53300"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn text_that_is_not_utf8_fails_its_statement_only() {
    let server = start().await;
    let mut raw = server.session().await;
    raw.send(message(b'Q', b"SELECT '\xff'\0")).await;
    let answer = raw.until(b'Z').await;
    assert_eq!(common::tags(&answer), "EZ");
    assert_eq!(answer[0].field(b'C').as_deref(), Some("22021"));
    raw.send(
        [message(b'P', b"\0SELECT '\xff'\0\0\0"), message(b'E', b"\0\0\0\0\0"), common::sync()]
            .concat(),
    )
    .await;
    assert_eq!(common::tags(&raw.until(b'Z').await), "EZ");
    raw.send(query("")).await;
    assert_eq!(common::tags(&raw.until(b'Z').await), "IZ");
}
