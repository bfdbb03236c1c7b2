//! Tests two-phase commit by SQL, which is disabled as in PostgreSQL by default.

use crate::common::{query, start};

#[tokio::test]
async fn two_phase_commit_is_disabled() {
    let server = start().await;
    let mut session = server.session().await;
    let prepare = "PREPARE TRANSACTION 'x'";
    for (sql, code, status) in [
        (prepare.to_owned(), Some("25P01"), b'I'),
        (format!("BEGIN; {prepare}"), Some("55000"), b'I'),
        (format!("BEGIN; PREPARE TRANSACTION '{}'", "x".repeat(200)), Some("22023"), b'I'),
        ("BEGIN; COMMIT PREPARED 'x'".into(), Some("25001"), b'E'),
        (prepare.into(), None, b'I'),
        ("COMMIT PREPARED 'x'".into(), Some("42704"), b'I'),
        ("ROLLBACK PREPARED 'x'".into(), Some("42704"), b'I'),
        ("SELECT * FROM pg_prepared_xacts".into(), None, b'I'),
    ] {
        session.send(query(&sql)).await;
        let messages = session.until(b'Z').await;
        let found = messages.iter().find(|message| matches!(message.tag, b'E' | b'N'));
        assert_eq!(found.and_then(|it| it.field(b'C')).as_deref(), code, "{sql}");
        assert_eq!(messages.last().map(|last| last.body[0]), Some(status), "{sql}");
    }
}
