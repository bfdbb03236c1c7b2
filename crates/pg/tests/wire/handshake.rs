//! Tests of the startup: admission of clients, and their error messages.

use crate::common::{local, start, tags};
use meridian_pg::{Options, Server};
use std::sync::Arc;

#[tokio::test]
async fn a_session_opens_with_settings_a_key_and_ready() {
    let server = start().await;
    let mut raw = server.raw().await;
    // TLS, then GSSAPI: both are declined, and the connection continues unencrypted.
    for request in [b"\0\0\0\x08\x04\xd2\x16\x2f", b"\0\0\0\x08\x04\xd2\x16\x30"] {
        raw.send(request).await;
        let mut answer = [0];
        tokio::io::AsyncReadExt::read_exact(&mut raw.stream, &mut answer).await.expect("an answer");
        assert_eq!(answer, *b"N");
    }
    raw.open(&[("user", "root"), ("database", "meridian")]).await;
    let messages = raw.until(b'Z').await;
    assert_eq!(messages[0].tag, b'R');
    assert_eq!(messages[0].body, [0; 4]);
    let settings: Vec<String> = messages
        .iter()
        .filter(|message| message.tag == b'S')
        .map(|message| {
            String::from_utf8_lossy(&message.body).trim_end_matches('\0').replace('\0', "=")
        })
        .collect();
    for expected in [
        "server_version=15.0 (Meridian ",
        "client_encoding=UTF8",
        "integer_datetimes=on",
        "TimeZone=",
    ] {
        assert!(
            settings.iter().any(|setting| setting.starts_with(expected)),
            "{expected} in {settings:?}"
        );
    }
    let key = &messages[messages.len() - 2];
    assert_eq!((key.tag, key.body.len()), (b'K', 8));
    assert_eq!(messages[messages.len() - 1].body, b"I");
}

#[tokio::test]
async fn a_newer_client_is_told_what_is_spoken_here() {
    let server = start().await;
    let mut raw = server.raw().await;
    let body = b"\0\x03\0\x02user\0root\0database\0meridian\0_pq_.colour\0blue\0\0";
    raw.send([&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()).await;
    let messages = raw.until(b'Z').await;
    assert_eq!(tags(&messages[..2]), "vR");
    assert_eq!(messages[0].body, b"\0\x03\0\0\0\0\0\x01_pq_.colour\0");
}

#[tokio::test]
async fn unknown_databases_and_users_are_refused_with_advice() {
    let server = start().await;
    for (user, database, code, hint) in [
        (
            "root",
            "meridan",
            "3D000",
            "Did you mean \"meridian\"? The databases are meridian, postgres.",
        ),
        ("postgres", "sales", "3D000", "The databases are meridian, postgres."),
        (
            "alice",
            "meridian",
            "28000",
            "There are the users root and postgres; other users come with authentication.",
        ),
    ] {
        let mut raw = server.raw().await;
        raw.open(&[("user", user), ("database", database)]).await;
        let messages = raw.rest().await;
        assert_eq!(tags(&messages), "E");
        assert_eq!(messages[0].field(b'S').as_deref(), Some("FATAL"));
        assert_eq!(messages[0].field(b'C').as_deref(), Some(code));
        assert_eq!(messages[0].field(b'H').as_deref(), Some(hint));
    }
    let mut nobody = server.raw().await;
    nobody.open(&[("database", "meridian")]).await;
    assert_eq!(nobody.rest().await[0].field(b'C').as_deref(), Some("28000"));
}

#[tokio::test]
async fn only_loopback_is_served() {
    struct None_;
    impl meridian_pg::Databases for None_ {
        fn engine<'a>(
            &'a self,
            _: &'a str,
        ) -> futures::future::BoxFuture<'a, Result<Option<Arc<meridian_sql::Engine>>, String>>
        {
            let found = None;
            Box::pin(std::future::ready(Ok(found)))
        }
        fn names(&self) -> Vec<String> {
            Vec::new()
        }
    }
    let everywhere = Options { listen: "0.0.0.0:0".parse().expect("an address"), ..local() };
    let refused =
        Server::bind(everywhere.clone(), Arc::new(None_)).await.err().expect("is refused");
    assert!(refused.to_string().contains("no authentication yet"), "{refused}");
    let told = Options { trust_the_network: true, ..everywhere };
    assert!(Server::bind(told, Arc::new(None_)).await.is_ok());

    let first = Server::bind(local(), Arc::new(None_)).await.expect("binds");
    let taken = Options { listen: first.local_addr().expect("an address"), ..local() };
    let refused = Server::bind(taken, Arc::new(None_)).await.err().expect("is taken");
    assert!(refused.to_string().contains("another program listens there"), "{refused}");
}
