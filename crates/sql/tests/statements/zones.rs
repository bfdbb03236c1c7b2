//! Time zones beyond what PostgreSQL decides: texts that the catalog holds, and replays.

use crate::common::{Memory, run, session, session_of};
use meridian_sql::{Engine, Response, Session};
use std::sync::Arc;

/// Two sessions on one database, the second in Tokyo.
fn in_two_zones() -> (Session, Session) {
    let (session, memory): (Session, Memory) = session();
    let mut other = session_of(Engine::new("postgres", Arc::new(memory)));
    assert_eq!(run(&mut other, "set time zone 'asia/tokyo'"), ["SET"]);
    (session, other)
}

#[test]
fn stored_texts_are_one_time_in_all_zones() {
    let (mut session, mut other) = in_two_zones();
    let (s, o) = (&mut session, &mut other);
    let made = run(
        s,
        "create table t (k int primary key, at timestamptz default '2020-07-01 12:00');
         create view v as select k, at > '2020-07-01 11:00' as later from t;
         create index i on t (k) where at > '2020-07-01'",
    );
    assert_eq!(made, ["CREATE TABLE", "CREATE VIEW", "CREATE INDEX"]);
    assert_eq!(run(o, "insert into t values (1)"), ["INSERT 0 1"]);
    assert_eq!(run(s, "select at::text from t"), ["2020-07-01 12:00:00+00", "SELECT 1"]);
    assert_eq!(run(o, "select at::text from t"), ["2020-07-01 21:00:00+09", "SELECT 1"]);
    assert_eq!(run(o, "select * from v"), ["1|t", "SELECT 1"]);
    let found = "select k from t where at > '2020-07-01 09:00' and k = 1";
    assert_eq!(run(o, found), ["1", "SELECT 1"]);
}

#[test]
fn stored_literals_name_their_zone_outside_of_utc() {
    let (_, mut other) = in_two_zones();
    let o = &mut other;
    assert_eq!(run(o, "create table t (k int primary key, at timestamptz)"), ["CREATE TABLE"]);
    for refused in [
        "create table u (at timestamptz default '2020-07-01 12:00')",
        "alter table t add column b timestamptz default '2020-07-01 12:00'",
        "alter table t alter column at set default '2020-07-01 12:00'",
        "alter table t add check (at > '2020-07-01 12:00')",
        "create index on t (k) where at > '2020-07-01 12:00'",
        "create view v as select * from t where at > '2020-07-01 12:00'",
    ] {
        let [error] = &run(o, refused)[..] else { panic!("{refused}") };
        assert!(error.starts_with("0A000 a stored literal of type timestamp"), "{error}");
    }
    for accepted in [
        "alter table t alter column at set default '2020-07-01 12:00+09'",
        "alter table t add check (at > '2020-07-01 12:00 UTC' or at = 'infinity')",
        "create index on t (k) where at > 'epoch'",
        "create view v as select * from t where at > '2020-07-01 12:00 Asia/Tokyo'",
    ] {
        let done = run(o, accepted);
        assert!(done[0].starts_with("ALTER") || done[0].starts_with("CREATE"), "{done:?}");
    }
}

#[test]
fn a_check_is_in_the_zone_of_the_session_that_writes() {
    let (mut session, mut other) = in_two_zones();
    let (s, o) = (&mut session, &mut other);
    let made = run(s, "create table t (at timestamptz check (at::date < '2020-07-02'))");
    assert_eq!(made, ["CREATE TABLE"]);
    let late = "insert into t values ('2020-07-01 20:00+00')";
    assert_eq!(run(s, late), ["INSERT 0 1"]);
    assert!(run(o, late)[0].starts_with("23514"));
}

#[test]
fn a_prepared_statement_reads_its_literals_once_and_its_parameters_each_time() {
    let (mut session, _) = in_two_zones();
    let s = &mut session;
    run(
        s,
        "prepare p(text) as select (timestamptz '2020-07-01 12:00')::text, $1::timestamptz::text",
    );
    run(s, "set time zone 'asia/tokyo'");
    assert_eq!(
        run(s, "execute p ('2020-07-01 12:00')"),
        ["2020-07-01 21:00:00+09|2020-07-01 12:00:00+09", "SELECT 1"]
    );
}

/// Errors and plans show times in the session's zone.
#[test]
fn errors_and_plans_have_the_zone_of_the_session() {
    let (mut session, mut other) = in_two_zones();
    let (s, o) = (&mut session, &mut other);
    run(s, "create table t (at timestamptz primary key, x int)");
    run(s, "create table c (at timestamptz references t)");
    run(s, "insert into t values ('2020-07-01 12:00', 1)");
    let mut detail = |sql: &str| {
        let responses = futures::executor::block_on(o.simple(sql));
        responses.into_iter().find_map(|response| match response {
            Response::Failed(error) => error.detail,
            _ => None,
        })
    };
    let there = "Key (at)=(2020-07-01 21:00:00+09) already exists.";
    let missing = "Key (at)=(2020-07-01 23:00:00+09) is not present in table \"t\".";
    for (sql, why) in [
        ("insert into t values ('2020-07-01 21:00', 2)", there),
        ("update t set at = '2020-07-01 21:00'; insert into t values ('2020-07-01 21:00')", there),
        ("insert into c values ('2020-07-01 23:00')", missing),
        (
            "begin; insert into t values ('2020-07-01 22:00', 3);
             update t set at = '2020-07-01 21:00' where x = 3",
            there,
        ),
    ] {
        assert_eq!(detail(sql).as_deref(), Some(why), "{sql}");
    }
    run(o, "rollback");
    let plan = run(o, "explain select x from t where at + '1 h' > '2020-07-01 21:00'").join("\n");
    assert!(plan.contains("'2020-07-01 21:00:00+09'::timestamp with time zone"), "{plan}");
}
