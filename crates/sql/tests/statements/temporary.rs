//! Tests temporary objects in transactions that are replayed, rolled back or lost, and beside other
//! sessions.

use super::common::{prepared, run, session_of};
use super::with_people;
use futures::executor::block_on;
use meridian_sql::{Engine, QueryMemory, Response, Session, SqlError};
use std::sync::Arc;
use std::time::Duration;

/// No write of temporary objects reaches the database.
#[test]
fn nothing_reaches_the_database() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    let before = memory.versions();
    for sql in [
        "create temp table t (id serial primary key, x int unique, p text default 'p')",
        "insert into t (x) select id from people",
        "create index on t (p)",
        "create temp table u as select t.id, name from t join people p on p.id = t.x",
        "create view v as select * from t",
        "alter table t alter column x type bigint",
        "begin; update t set x = x + 10; delete from t where id = 1; commit",
        "analyze t",
        "truncate t restart identity",
        "comment on table t is 'mine'",
        "create temp table c (id int references t (id)) on commit delete rows",
        "drop table t cascade",
        "create temp sequence s; select nextval('s')",
        "discard temp",
    ] {
        let said = run(s, sql);
        assert!(said.iter().all(|line| !line.starts_with("42")), "{sql}: {said:?}");
    }
    assert_eq!(memory.versions(), before);
    assert_eq!(run(s, "select count(*) from people"), ["3", "SELECT 1"]);
}

/// A replay finds the temporary objects as its transaction found them, and makes those again that
/// it has made.
#[test]
fn a_replay_finds_and_makes_the_same_objects() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create temp table t (id serial primary key, x int); insert into t (x) values (10)");
    run(s, "begin; update people set age = 1 where id = 1");
    run(s, "update t set x = x + 1; insert into t (x) values (20)");
    run(s, "create temp table made (id serial, n text unique)");
    run(s, "insert into made (n) values ('a'), ('b'); alter table made add column y int default 3");
    run(s, "create unique index made_y on made (y, id); savepoint a; drop table t");
    run(s, "rollback to a; insert into made (n, y) select 'c', x from t where id = 1");
    memory.abort_commits(3);
    let sql = "select * from t order by id; select * from made order by id; commit";
    let said = run(s, sql);
    let rows = ["1|11", "2|20", "SELECT 2", "1|a|3", "2|b|3", "3|c|11", "SELECT 3", "COMMIT"];
    assert_eq!(said, rows);
    assert_eq!(run(s, "select * from t order by id"), ["1|11", "2|20", "SELECT 2"]);
    assert_eq!(run(s, "select y from made where n = 'c'"), ["11", "SELECT 1"]);
    assert_eq!(run(s, "select id from made where y = 3 order by id desc"), ["2", "1", "SELECT 2"]);
    assert_eq!(run(s, "insert into made (n) values ('d') returning id"), ["4", "INSERT 0 1"]);
    assert!(run(s, "insert into made (n) values ('a')")[0].starts_with("23505"));
}

/// A transaction whose outcome is unknown has changed no temporary object.
#[test]
fn an_unknown_commit_changes_nothing() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create temp table t (x int); insert into t values (1)");
    run(s, "begin; delete from t; create temp table u (x int); delete from people");
    memory.lose_outcome();
    assert!(run(s, "commit")[0].starts_with("40003"));
    assert_eq!(run(s, "select * from t"), ["1", "SELECT 1"]);
    assert!(run(s, "select * from u")[0].starts_with("42P01"));
}

/// A prepared statement reads the table that its names mean now.
#[test]
fn a_plan_reads_the_table_that_its_name_means() {
    let (mut session, _) = with_people();
    let s = &mut session;
    run(s, "create table t (x int); insert into t values (1)");
    block_on(s.parse("p", "select x from t", &[])).expect("is prepared");
    let ask = |sql: &str, s: &mut Session| {
        let said = run(s, sql);
        assert!(said.iter().all(|line| !line.starts_with("42")), "{sql}: {said:?}");
        s.bind("", "p", vec![]).expect("binds");
        let answer = block_on(s.execute("", 0)).expect("runs");
        let shown = super::common::show(&answer);
        block_on(s.sync()).expect("ends");
        shown[0].clone()
    };
    assert_eq!(ask("select 1", s), "1");
    assert_eq!(ask("create temp table t (x int); insert into t values (2)", s), "2");
    assert_eq!(ask("begin; drop table pg_temp.t", s), "1");
    assert_eq!(ask("rollback", s), "2");
    assert_eq!(ask("begin; alter table t add y int; savepoint a; drop table t", s), "1");
    assert_eq!(ask("rollback to a", s), "2");
    assert_eq!(ask("rollback; alter table t add y text default 'y'", s), "2");
    assert_eq!(ask("set search_path = public, pg_temp", s), "1");
    assert_eq!(ask("set search_path = pg_temp", s), "2");
    assert_eq!(ask("reset search_path; discard temp", s), "1");
}

/// Sessions have objects of one name beside each other, and see their own.
#[test]
fn sessions_see_their_own() {
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let before = memory.versions();
    for (s, x) in [(&mut session, 1), (&mut other, 2)] {
        run(s, "create temp table t (id serial, x int)");
        run(s, &format!("insert into t (x) values ({x})"));
        run(s, "create view people_and_t as select p.id, t.x from people p, t where p.id = 1");
    }
    assert_eq!(run(&mut session, "select * from t"), ["1|1", "SELECT 1"]);
    assert_eq!(run(&mut other, "select * from t"), ["1|2", "SELECT 1"]);
    assert_eq!(run(&mut other, "select * from people_and_t"), ["1|2", "SELECT 1"]);
    let count = "select count(*) from pg_class where relpersistence = 't' and relkind = 'r'";
    let mut third = Session::new(session.engine().clone(), "third");
    assert_eq!(run(&mut third, count), ["0", "SELECT 1"]);
    assert!(run(&mut third, "select * from t")[0].starts_with("42P01"));
    drop(other);
    assert_eq!(run(&mut session, count), ["1", "SELECT 1"]);
    assert_eq!(memory.versions(), before);
}

/// A temporary table has the labels that another session has added to its type, and does not keep
/// it from dropping the type.
#[test]
fn a_temporary_table_learns_of_new_labels() {
    let (mut session, _) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    run(s, "create type mood as enum ('sad', 'glad'); create temp table t (m mood primary key)");
    run(s, "create view v as select m from t; insert into t values ('glad')");
    block_on(s.parse("p", "insert into t values ($1)", &[])).expect("is prepared");
    run(&mut other, "alter type mood add value 'mad' before 'sad'");
    assert_eq!(run(s, "insert into t values ('mad')"), ["INSERT 0 1"]);
    assert_eq!(run(s, "select * from v order by m"), ["mad", "glad", "SELECT 2"]);
    run(&mut other, "alter type mood rename value 'mad' to 'angry'");
    assert_eq!(run(s, "select * from t where m = 'angry'"), ["angry", "SELECT 1"]);
    assert_eq!(run(&mut other, "drop type mood"), ["DROP TYPE"]);
}

/// Statements on temporary objects leave the plans and the catalog of others as they are, and a
/// transaction that creates some still uses the node's cache.
#[test]
fn a_temporary_change_is_no_change_of_the_catalog() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "select * from people");
    let commits = memory.commits();
    let before = memory.requests();
    run(s, "begin; create temp table t (x int primary key) on commit drop");
    assert_eq!(memory.requests(), before);
    prepared(s, "select count(*) from people where id = $1", &["1"]);
    run(s, "commit");
    assert_eq!(memory.commits(), commits + 1, "the transaction itself, which writes nothing");
}

/// A read-only transaction changes rows of temporary tables, as in PostgreSQL.
#[test]
fn a_read_only_transaction_changes_temporary_rows() {
    let (mut session, _) = with_people();
    let s = &mut session;
    run(s, "create temp table t (id serial, x int)");
    run(s, "begin read only; insert into t (x) select id from people; savepoint a");
    run(s, "delete from t where x = 1; rollback to a; update t set x = 9 where x = 3");
    assert_eq!(run(s, "select x from t order by x"), ["1", "2", "9", "SELECT 3"]);
    assert!(run(s, "create temp table u (x int)")[0].starts_with("25006"));
    run(s, "rollback");
    assert_eq!(run(s, "select count(*) from t"), ["0", "SELECT 1"]);
    let sql = "begin read only; insert into t (x) values (5) returning id; commit";
    assert_eq!(run(s, sql), ["BEGIN", "4", "INSERT 0 1", "COMMIT"]);
    assert_eq!(run(s, "select x from t"), ["5", "SELECT 1"]);
    assert!(run(s, "begin read only; insert into people values (9, 'x')")[1].starts_with("25006"));
}

/// A read-only transaction whose commit fails has changed no temporary row.
#[test]
fn a_read_only_transaction_that_does_not_commit_changes_nothing() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create temp table t (x int)");
    let sql = "begin read only; insert into t values (1)";
    run(s, sql);
    memory.lose_outcome();
    assert!(run(s, "commit")[0].starts_with("40003"));
    run(s, sql);
    memory.abort_commits(1);
    assert!(run(s, "commit")[0].starts_with("40001"));
    assert_eq!(run(s, "select * from t"), ["SELECT 0"]);
    // Its notifications are sent by a transaction of their own, which loses too many conflicts.
    run(s, sql);
    run(s, "notify a");
    memory.abort_commits(50);
    assert!(run(s, "commit")[0].starts_with("40001"));
    assert_eq!(run(s, "select * from t"), ["SELECT 0"]);
}

/// A transaction that reads the past of the database sees temporary rows as they are now.
#[test]
fn a_transaction_that_reads_the_past_sees_temporary_rows_as_they_are() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    memory.pass(Duration::from_secs(60));
    run(s, "create temp table t (id int); update people set name = 'new' where id = 1");
    run(s, "set meridian.read_only_staleness = 'EXACT_STALENESS 30s'");
    let sql = "select name from people join t using (id)";
    run(s, "begin read only; insert into t values (1)");
    assert_eq!(run(s, sql), ["ann", "SELECT 1"]);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, sql), ["ann", "SELECT 1"]);
    assert_eq!(run(s, "reset meridian.read_only_staleness"), ["RESET"]);
    assert_eq!(run(s, sql), ["new", "SELECT 1"]);
}

/// Statements on temporary tables alone ask the database nothing: neither for names nor for locks.
#[test]
fn statements_on_temporary_tables_ask_the_database_nothing() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(
        s,
        "create temp table t (id int primary key, x int); create temp view v as select * from t",
    );
    for sql in [
        "insert into t values (1, 1), (2, 2)",
        "select * from t where id = 1",
        "select * from pg_temp.t order by x",
        "select count(*) from v join t using (id)",
        "update t set x = x + 1 where id = 2",
        "begin; select * from t where id = 1 for update; update t set x = 5; commit",
        "begin; select * from t for update nowait; delete from t where id = 1; rollback",
        "delete from t",
    ] {
        let before = memory.requests();
        let said = run(s, sql);
        assert_eq!(memory.requests(), before, "{sql}: {said:?}");
    }
    assert_eq!(run(s, "select * from people where id = 1"), ["1|ann|40|a@x", "SELECT 1"]);
}

/// Temporary rows count as memory of queries, and are given back.
#[test]
fn rows_take_memory_and_give_it_back() {
    let memory = Arc::new(QueryMemory::of(4 << 20));
    let database = Arc::new(super::common::Memory::default());
    let engine = Arc::new(Engine::new("postgres", database).with_memory(memory.clone()));
    let mut session = Session::new(engine.clone(), "root");
    let s = &mut session;
    run(s, "create temp table t (id int primary key, x text)");
    let fill = "insert into t select g, repeat('x', 1000) from generate_series(1, 1000) g";
    assert_eq!(run(s, fill), ["INSERT 0 1000"]);
    assert!(memory.held_bytes() > 1 << 20);
    let more = "insert into t select g + 1000, repeat('x', 1000) from generate_series(1, 2000) g";
    let of_rows = block_on(s.simple(more));
    let of_query =
        block_on(s.simple("select repeat('x', 1000000) from generate_series(1, 9) order by 1"));
    let [Response::Failed(of_rows)] = &of_rows[..] else { panic!("{of_rows:?}") };
    let [Response::Failed(of_query)] = &of_query[..] else { panic!("{of_query:?}") };
    assert_eq!(of_rows.sqlstate, "53200");
    let texts =
        |error: &SqlError| (error.message.clone(), error.detail.clone(), error.hint.clone());
    assert_eq!(texts(of_rows), texts(of_query), "of one limit");
    assert_eq!(run(s, "select count(*), min(length(x)) from t"), ["1000|1000", "SELECT 1"]);
    run(s, "truncate t");
    assert!(memory.held_bytes() < 300 << 10, "{}", memory.held_bytes());
    assert_eq!(run(s, fill), ["INSERT 0 1000"]);
    drop(session);
    assert_eq!(memory.held_bytes(), 0);
}

/// A permanent object that would refer to a temporary one is refused.
#[test]
fn nothing_permanent_refers_to_something_temporary() {
    let (mut session, _) = with_people();
    let s = &mut session;
    run(s, "create temp sequence s; create temp table t (id int primary key)");
    for (sql, code) in [
        ("create table p (id int default nextval('s'))", "0A000"),
        ("alter table people alter column age set default nextval('s')", "0A000"),
        ("alter table people add column z int default nextval('s')", "0A000"),
        ("alter table people add foreign key (age) references t", "42P16"),
        ("alter sequence s owned by people.id", "55000"),
        ("alter table t set schema public", "0A000"),
        ("create type pg_temp.e as enum ('a')", "0A000"),
        ("drop schema pg_temp cascade", "3F000"),
        ("drop schema pg_temp_77", "3F000"),
        ("drop schema if exists pg_temp, pg_temp_77", "NOTICE"),
        ("select * from t as of system time '-1s'", "0A000"),
        ("alter table t split at values (5)", "0A000"),
    ] {
        let said = run(s, sql);
        assert!(said[0].starts_with(code), "{sql}: {said:?}");
    }
    let all = "select relname from pg_class where relpersistence = 'p' and oid > 16383";
    assert_eq!(run(s, all), ["people", "people_pkey", "people_email_key", "SELECT 3"]);
}

/// A change of a type by another session, which does not see the temporary tables that have it,
/// does not change their rows.
#[test]
fn another_session_changes_a_type_that_a_table_has() {
    let (mut session, memory) = with_people();
    let mut other = session_of(Engine::new("postgres", Arc::new(memory)));
    let s = &mut session;
    run(s, "create type pair as (a int, b text)");
    run(s, "create temp table t (p pair, q pair default '(5,z)')");
    run(s, "create temp table k (p pair primary key); create temp table free (n int)");
    run(s, "insert into t values ('(1,x)'); insert into k values ('(1,x)')");
    run(s, "alter table t add column r pair default '(7,y)'");
    assert_eq!(run(&mut other, "alter type pair add attribute c int"), ["ALTER TYPE"]);
    assert_eq!(run(s, "select * from t"), ["(1,x,)|(5,z,)|(7,y,)", "SELECT 1"]);
    assert_eq!(run(s, "select * from k"), ["(1,x,)", "SELECT 1"]);
    assert_eq!(run(&mut other, "alter type pair drop attribute b"), ["ALTER TYPE"]);
    assert_eq!(run(s, "select p, (r).c from t"), ["(1,)|NULL", "SELECT 1"]);
    // Its key has the field.
    assert!(run(s, "select * from k")[0].starts_with("0A000"));
    assert_eq!(run(&mut other, "alter type pair alter attribute a type text"), ["ALTER TYPE"]);
    let refused = run(s, "select * from t");
    let message = "reading \"t\", whose type pair another session has changed, is not supported";
    assert_eq!(refused, [format!("0A000 {message}")]);
    assert_eq!(run(s, "insert into free values (1); select n from free").len(), 3);
    run(s, "discard temp");
    // The rows of a table that no statement can read go at a commit nevertheless.
    run(s, "create temp table e (p pair) on commit delete rows");
    assert_eq!(run(&mut other, "alter type pair alter attribute a type int"), ["ALTER TYPE"]);
    assert_eq!(run(s, "insert into people values (9, 'i')"), ["INSERT 0 1"]);
    assert!(run(s, "select * from e")[0].starts_with("0A000"));
    run(s, "discard temp");
    assert_eq!(run(s, "create temp table t (p pair)"), ["CREATE TABLE"]);
}
