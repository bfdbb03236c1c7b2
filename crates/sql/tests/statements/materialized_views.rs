//! Materialized views that are refreshed beside readers.

use crate::common::{Memory, run, session, session_of};
use meridian_sql::{Engine, Session};
use std::sync::Arc;

/// Two sessions on nodes of their own, with a materialized view.
fn on_two_nodes() -> (Session, Session) {
    let (mut session, memory): (Session, Memory) = session();
    let other = session_of(Engine::new("postgres", Arc::new(memory)));
    let made = run(
        &mut session,
        "create table t (k int primary key, x int);
         insert into t values (1, 10), (2, 20);
         create materialized view sums as select sum(x) as s from t",
    );
    assert_eq!(made, ["CREATE TABLE", "INSERT 0 2", "SELECT 1"]);
    (session, other)
}

#[test]
fn readers_see_the_rows_from_before_a_refresh_or_those_after_it() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(o, "prepare read as select s from sums");
    assert_eq!(run(o, "execute read"), ["30", "SELECT 1"]);
    run(s, "insert into t values (3, 30)");
    assert_eq!(run(o, "execute read"), ["30", "SELECT 1"]);
    run(s, "begin; refresh materialized view sums");
    assert_eq!(run(s, "select s from sums"), ["60", "SELECT 1"]);
    assert_eq!(run(o, "execute read"), ["30", "SELECT 1"]);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(o, "execute read"), ["60", "SELECT 1"]);
    run(s, "begin; refresh materialized view sums with no data; rollback");
    assert_eq!(run(o, "execute read"), ["60", "SELECT 1"]);
    run(s, "refresh materialized view sums with no data");
    assert_eq!(run(o, "execute read"), ["55000 materialized view \"sums\" has not been populated"]);
}

#[test]
fn a_refresh_that_fails_changes_nothing() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(s, "create materialized view inverse as select k, 100 / x as i from t");
    run(s, "create unique index on inverse (k)");
    run(o, "insert into t values (3, 0)");
    assert_eq!(run(o, "refresh materialized view inverse"), ["22012 division by zero"]);
    assert_eq!(run(o, "select * from inverse order by k"), ["1|10", "2|5", "SELECT 2"]);
    run(o, "update t set x = 50 where k = 3");
    assert_eq!(
        run(o, "refresh materialized view concurrently inverse"),
        ["REFRESH MATERIALIZED VIEW"]
    );
    assert_eq!(run(s, "select i from inverse where k = 3"), ["2", "SELECT 1"]);
}

/// A replay fills the view that it has created itself, under the id that it has then.
#[test]
fn a_replay_creates_and_fills_a_view_again() {
    let (mut session, memory): (Session, Memory) = session();
    let s = &mut session;
    run(s, "create schema \"A b\"; create table t (x int); insert into t values (1), (2)");
    run(s, "begin; create table u (k int)");
    run(s, "create materialized view \"A b\".\"M\" as select x * 2 as y from t");
    run(s, "create materialized view m as select sum(y) as s from \"A b\".\"M\"");
    run(s, "insert into t values (3); refresh materialized view \"A b\".\"M\"");
    memory.abort_commits(2);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, "select * from \"A b\".\"M\" order by y"), ["2", "4", "6", "SELECT 3"]);
    assert_eq!(run(s, "select * from m"), ["6", "SELECT 1"]);
    let refused = run(s, "insert into m values (1)");
    assert_eq!(refused, ["42809 cannot change materialized view \"m\""]);
}
