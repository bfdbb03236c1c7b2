//! Tests sequences in transactions that are replayed, rolled back, or changed beside others.

use super::common::run;
use super::with_people;
use futures::executor::block_on;
use meridian_sql::{Engine, Response, Session};
use std::sync::Arc;

/// A replay draws the values of sequences that the client has seen, and takes none twice.
#[test]
fn a_replay_draws_the_same_values() {
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    run(s, "create table t (id serial primary key, x int)");
    run(s, "create sequence down increment -5 cache 1");
    let sql = "begin; insert into t (x) values (1), (2) returning id; \
               select nextval('down') from generate_series(1, 3)";
    let said = ["BEGIN", "1", "2", "INSERT 0 2", "-1", "-6", "-11", "SELECT 3"];
    assert_eq!(run(s, sql), said);
    let taken = ["33", "INSERT 0 1"];
    assert_eq!(run(&mut other, "insert into t (x) values (9) returning id"), taken);
    memory.abort_commits(2);
    assert_eq!(
        run(s, "select currval('down'), lastval(); commit"),
        ["-11|-11", "SELECT 1", "COMMIT"]
    );
    assert_eq!(run(s, "select id from t order by 1"), ["1", "2", "33", "SELECT 3"]);
    // The next ones follow those that were drawn.
    memory.abort_commits(1);
    assert_eq!(run(s, "insert into t (x) values (3) returning id"), ["3", "INSERT 0 1"]);
    assert_eq!(run(s, "select nextval('down')"), ["-16", "SELECT 1"]);
    // A block whose commit has an unknown outcome is not used.
    let mut third = Session::new(s.engine().clone(), "third");
    memory.lose_outcome();
    assert_eq!(run(&mut third, "select nextval('t_id_seq')"), ["65", "SELECT 1"]);
}

/// A sequence that a transaction has changed is its own until it ends; values that a session took
/// before are not handed out after its own change.
#[test]
fn a_transaction_draws_from_a_sequence_that_it_has_changed() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create sequence s");
    assert_eq!(run(s, "select nextval('s')"), ["1", "SELECT 1"]);
    let sql = "begin; alter sequence s restart with 500; select nextval('s'), nextval('s')";
    assert_eq!(run(s, sql), ["BEGIN", "ALTER SEQUENCE", "500|501", "SELECT 1"]);
    memory.abort_commits(1);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, "select nextval('s')"), ["502", "SELECT 1"]);
    run(s, "begin; alter sequence s restart with 7");
    assert_eq!(run(s, "select nextval('s'); rollback"), ["7", "SELECT 1", "ROLLBACK"]);
    assert_eq!(run(s, "select nextval('s')"), ["534", "SELECT 1"]);
    // A name that stands for another sequence.
    block_on(s.parse("n", "select nextval('s')", &[])).unwrap();
    run(s, "drop sequence s; create sequence s start 70");
    s.bind("", "n", vec![]).unwrap();
    let said = block_on(s.execute("", 0)).unwrap();
    assert!(
        matches!(said, Response::Rows { rows, .. } if rows == [vec![meridian_sql::Datum::Int8(70)]])
    );
}

/// A replay neither sets the value of a sequence again, which is done, nor sees another one.
#[test]
fn a_replay_sets_no_value_again() {
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    run(s, "create sequence s cache 1");
    run(s, "select nextval('s')");
    let sql = "begin; select currval('s'); select setval('s', 100), lastval(); select nextval('s')";
    let said = ["BEGIN", "1", "SELECT 1", "100|100", "SELECT 1", "101", "SELECT 1"];
    assert_eq!(run(s, sql), said);
    assert_eq!(run(&mut other, "select nextval('s')"), ["102", "SELECT 1"]);
    memory.abort_commits(1);
    let said = ["UPDATE 1", "COMMIT"];
    assert_eq!(run(s, "update people set age = 1 where id = 1; commit"), said);
    assert_eq!(run(s, "select currval('s'), nextval('s')"), ["101|103", "SELECT 1"]);
    // A statement that is attempted again has set its value, too.
    memory.abort_commits(1);
    let sql = "insert into people values (setval('s', 200), 'x', 1) returning nextval('s')";
    assert_eq!(run(s, sql), ["201", "INSERT 0 1"]);
    assert_eq!(run(s, "select nextval('s')"), ["202", "SELECT 1"]);
}

/// Savepoints give no values back.
#[test]
fn a_savepoint_gives_no_value_back() {
    let (mut session, _) = with_people();
    let s = &mut session;
    let sql = "begin; create sequence s cache 1; savepoint a; select nextval('s'); rollback to a; \
               select nextval('s'); select setval('s', 50); rollback to a; commit";
    let said = ["BEGIN", "CREATE SEQUENCE", "SAVEPOINT", "1", "SELECT 1", "ROLLBACK", "2"];
    assert_eq!(run(s, sql)[..7], said);
    assert_eq!(run(s, "select nextval('s')"), ["51", "SELECT 1"]);
    let sql =
        "begin; savepoint a; alter sequence s increment 5; rollback to a; select nextval('s')";
    let said = run(s, sql);
    assert!(said[4].starts_with("0A000"), "{said:?}");
    assert_eq!(run(s, "rollback; select nextval('s')"), ["ROLLBACK", "52", "SELECT 1"]);
}

/// Another session's change ends the values that a session has taken before.
#[test]
fn a_change_ends_the_values_that_were_taken() {
    let (mut session, _) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    run(s, "create table t (id serial primary key, x int)");
    assert_eq!(run(s, "insert into t (x) values (1) returning id"), ["1", "INSERT 0 1"]);
    let sql = "truncate t restart identity; insert into t (x) values (1), (2) returning id";
    assert_eq!(run(&mut other, sql), ["TRUNCATE TABLE", "1", "2", "INSERT 0 2"]);
    assert_eq!(run(s, "insert into t (x) values (1) returning id"), ["3", "INSERT 0 1"]);
}

/// On another node, too, inserts take no value from before a change; a `nextval` that was prepared
/// before it may.
#[test]
fn a_change_on_another_node_ends_values_for_inserts() {
    let (mut session, memory) = with_people();
    let engine = Arc::new(Engine::new("meridian", Arc::new(memory.clone())));
    let mut elsewhere = Session::new(engine, "elsewhere");
    let (s, other) = (&mut session, &mut elsewhere);
    run(s, "create table t (id serial, x int)");
    assert_eq!(run(other, "insert into t (x) values (1) returning id"), ["1", "INSERT 0 1"]);
    block_on(other.parse("n", "select nextval('t_id_seq')", &[])).unwrap();
    run(s, "alter sequence t_id_seq restart with 500");
    assert_eq!(run(s, "insert into t (x) values (2) returning id"), ["500", "INSERT 0 1"]);
    other.bind("", "n", vec![]).unwrap();
    let said = block_on(other.execute("", 0)).unwrap();
    let two = vec![meridian_sql::Datum::Int8(2)];
    assert!(matches!(said, Response::Rows { rows, .. } if rows == [two]));
    block_on(other.sync()).unwrap();
    assert_eq!(run(other, "insert into t (x) values (3) returning id"), ["532", "INSERT 0 1"]);
}

/// A sequence that a statement names many times is looked up once.
#[test]
fn a_sequence_is_looked_up_once_for_a_statement() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create sequence s cache 1000; create table t (a bigint)");
    run(s, "insert into t values (nextval('s'))");
    let mut insert = |rows: usize| {
        let before = memory.requests();
        let rows = vec!["(nextval('s'))"; rows].join(", ");
        run(s, &format!("insert into t values {rows}"));
        memory.requests() - before
    };
    assert_eq!(insert(50), insert(5));
}

/// A sequence is no table that rows may be copied into.
#[test]
fn a_sequence_takes_no_rows() {
    let (mut session, _) = with_people();
    let s = &mut session;
    run(s, "create sequence s");
    for sql in ["copy s from stdin", "insert into s values (1, 0, true)", "delete from s"] {
        assert!(run(s, sql)[0].starts_with("42809"), "{sql}");
    }
}

/// A replay draws nothing that was drawn before another session restarted the sequence.
#[test]
fn a_replay_draws_no_value_from_before_a_restart() {
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    run(s, "create sequence s start 1000 cache 1");
    run(s, "select nextval('s'), nextval('s')");
    let sql = "begin; insert into people values (nextval('s'), 'x', 1)";
    assert_eq!(run(s, sql), ["BEGIN", "INSERT 0 1"]);
    run(&mut other, "alter sequence s restart with 5000");
    memory.abort_commits(1);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, "select id from people where name = 'x'"), ["5000", "SELECT 1"]);
    // A client that has seen the value is told.
    let sql = "begin; insert into people values (nextval('s'), 'y', 1) returning id";
    assert_eq!(run(s, sql), ["BEGIN", "5001", "INSERT 0 1"]);
    run(&mut other, "alter sequence s restart with 9000");
    memory.abort_commits(1);
    assert!(run(s, "commit")[0].starts_with("40001"));
}

/// Volatile functions beside the calls are computed once.
#[test]
fn the_arguments_of_a_call_are_computed_once() {
    let (mut session, _) = with_people();
    let s = &mut session;
    run(s, "create sequence s cache 1");
    let sql = "select setval('s', (random() * 1000)::bigint + 1) between 1 and 1001";
    assert_eq!(run(s, sql), ["t", "SELECT 1"]);
    let sql = "select count(*) from generate_series(1, 50) where random() <= 1 + nextval('s')";
    assert_eq!(run(s, sql), ["50", "SELECT 1"]);
}

/// Rows of COPY take values of their own.
#[test]
fn copied_rows_draw_their_defaults() {
    let (mut session, _) = with_people();
    let s = &mut session;
    run(
        s,
        "create table t (id int generated always as identity, k uuid default gen_random_uuid(), x int)",
    );
    s.start("copy t (x) from stdin");
    assert!(matches!(block_on(s.next()), Some(Response::CopyIn { .. })));
    block_on(s.copy_data(b"5\n6\n7\n")).unwrap();
    block_on(s.copy_done()).unwrap();
    assert_eq!(run(s, "select id, x from t order by 1"), ["1|5", "2|6", "3|7", "SELECT 3"]);
    assert_eq!(run(s, "select count(distinct k) from t"), ["3", "SELECT 1"]);
}
