//! Tests each kind of statement, through simple queries.

mod advisory;
#[path = "../common/mod.rs"]
mod common;
mod constraints;
mod domains;
mod enums;
mod generated;
mod materialized_views;
mod modifying;
mod notices;
mod notifications;
mod reference;
mod sequences;
mod temporary;
mod zones;

use common::{prepared, run, session, session_of};
use futures::executor::block_on;
use meridian_sql::{Engine, QueryMemory, Response, Session, SqlError, Status};
use meridian_txn::IsolationLevel;
use std::sync::Arc;

fn with_people() -> (Session, common::Memory) {
    let (mut session, memory) = session();
    let s = &mut session;
    assert_eq!(
        run(
            s,
            "create table people (id int primary key, name text not null, age int default 30, email varchar(20) unique)"
        ),
        ["CREATE TABLE"]
    );
    let insert = "insert into people (id, name, age, email) values (1,'ann',40,'a@x'),(2,'bob',25,null),(3,'cid',25,'c@x')";
    assert_eq!(run(s, insert), ["INSERT 0 3"]);
    (session, memory)
}

#[test]
fn queries_filter_order_group_and_limit() {
    let (mut session, _) = with_people();
    let s = &mut session;
    assert_eq!(
        run(s, "select name from people where age = 25 order by name desc"),
        ["cid", "bob", "SELECT 2"]
    );
    assert_eq!(
        run(s, "select * from people where id in (3, 1, 3) order by id"),
        ["1|ann|40|a@x", "3|cid|25|c@x", "SELECT 2"]
    );
    assert_eq!(
        run(s, "select id from people order by id desc limit 1 offset 1"),
        ["2", "SELECT 1"]
    );
    assert_eq!(
        run(
            s,
            "select age, count(*), avg(id) a from people group by age having count(*) > 0 order by 1"
        ),
        ["25|2|2.5000000000000000", "40|1|1.00000000000000000000", "SELECT 2"]
    );
    assert_eq!(
        run(s, "select count(email), sum(age)+1 from people where id > 1 and id <= 3"),
        ["1|51", "SELECT 1"]
    );
    assert_eq!(run(s, "select distinct age from people order by age"), ["25", "40", "SELECT 2"]);
    assert_eq!(
        run(s, "select id from people where email is null or name like 'a%'"),
        ["1", "2", "SELECT 2"]
    );
    assert_eq!(
        run(s, "select id from people where (id, age) in ((1, 40), (2, 99))"),
        ["1", "SELECT 1"]
    );
    assert_eq!(
        run(s, "select 1 + 1, 'x' || 'y', 7 / 2, 7.0 / 2, null is null"),
        ["2|xy|3|3.5000000000000000|t", "SELECT 1"]
    );
    assert_eq!(run(s, "select id from people where id = 2 for update"), ["2", "SELECT 1"]);
}

#[test]
fn what_must_be_held_at_once_has_a_limit_and_the_first_rows_need_little() {
    let limit = Arc::new(QueryMemory::of(128 << 10));
    let engine = Engine::new("postgres", Arc::new(common::Memory::default()))
        .with_memory(Arc::clone(&limit));
    let s = &mut session_of(engine);
    run(
        s,
        "create table t (id int primary key, n int, v text); create table copy (id int primary key, n int, v text)",
    );
    for thousand in 0..2 {
        let row = |id: usize| format!("({id}, {}, '{}')", id * 7919 % 2_000, "x".repeat(40));
        let rows: Vec<String> = (thousand * 1_000..(thousand + 1) * 1_000).map(row).collect();
        assert_eq!(run(s, &format!("insert into t values {}", rows.join(","))), ["INSERT 0 1000"]);
    }
    for all in [
        "select * from t order by n",
        "select distinct n, v from t",
        "select n, count(*) from t group by n",
        "select count(distinct v || n) from t",
        "insert into copy select * from t",
    ] {
        let said = run(s, all);
        // DISTINCT returns rows until the memory is full.
        let error = said.last().expect("a response");
        assert!(error.contains("53200") && error.contains("out of memory"), "{all}: {error}");
        assert_eq!(limit.held_bytes(), 0, "{all}");
    }
    // The least of many rows, and streamed rows, fit.
    assert_eq!(run(s, "select n from t order by n limit 2 offset 3"), ["3", "4", "SELECT 2"]);
    assert_eq!(run(s, "select n from t order by n desc limit 1"), ["1999", "SELECT 1"]);
    assert_eq!(
        run(s, "select n % 5 m, count(*) from t group by m order by m limit 1"),
        ["0|400", "SELECT 1"]
    );
    assert_eq!(run(s, "select * from t").len(), 2_001);
    assert_eq!(run(s, "insert into copy select * from t where id < 250"), ["INSERT 0 250"]);
    assert_eq!(limit.held_bytes(), 0);
}

#[test]
fn changes_return_what_they_did() {
    let (mut session, _) = with_people();
    let s = &mut session;
    assert_eq!(
        run(s, "update people set age = age + 1 where id = 2 returning id, age"),
        ["2|26", "UPDATE 1"]
    );
    assert_eq!(run(s, "update people set id = id + 10 where age > 25"), ["UPDATE 2"]);
    assert_eq!(run(s, "select id from people order by id"), ["3", "11", "12", "SELECT 3"]);
    assert_eq!(
        run(s, "delete from people where name = 'ann' returning *"),
        ["11|ann|40|a@x", "DELETE 1"]
    );
    assert_eq!(
        run(s, "insert into people(id, name, email) values (20, 'dan', 'a@x') returning age"),
        ["30", "INSERT 0 1"]
    );
    assert_eq!(
        run(s, "insert into people(id, name) select id + 100, name from people where id = 3"),
        ["INSERT 0 1"]
    );
    assert_eq!(run(s, "select count(*) from people"), ["4", "SELECT 1"]);
}

#[test]
fn conflicts_are_refused_ignored_or_updated() {
    let (mut session, _) = with_people();
    let s = &mut session;
    let unique = "23505 duplicate key value violates unique constraint";
    assert_eq!(
        run(s, "insert into people(id, name) values (1, 'x')"),
        [format!("{unique} \"people_pkey\"")]
    );
    assert_eq!(
        run(s, "insert into people values (9, 'x', 1, 'c@x')"),
        [format!("{unique} \"people_email_key\"")]
    );
    assert_eq!(
        run(s, "insert into people(id, name) values (1, 'x'), (7, 'y') on conflict do nothing"),
        ["INSERT 0 1"]
    );
    let upsert = "insert into people(id, name, age) values (1, 'x', 5) on conflict (id) do update set age = people.age + excluded.age, name = excluded.name returning *";
    assert_eq!(run(s, upsert), ["1|x|45|a@x", "INSERT 0 1"]);
    assert_eq!(
        run(s, "insert into people(id) values (50)"),
        ["23502 null value in column \"name\" of relation \"people\" violates not-null constraint"]
    );
    assert_eq!(
        run(s, "update people set email = 'c@x' where id = 1"),
        [format!("{unique} \"people_email_key\"")]
    );
}

#[test]
fn errors_have_codes_places_and_hints() {
    let (mut session, _) = with_people();
    let s = &mut session;
    let failed = |s: &mut Session, sql: &str| match block_on(s.simple(sql)).pop() {
        Some(Response::Failed(error)) => error,
        other => panic!("{sql}: {other:?}"),
    };
    let error = failed(s, "select nam from people");
    assert_eq!(
        (error.sqlstate, error.position, error.hint.as_deref()),
        ("42703", Some(8), Some("Did you mean \"name\"?"))
    );
    let error = failed(s, "select *\nfrom peopel");
    assert_eq!(
        (error.sqlstate, error.position, error.hint.as_deref()),
        ("42P01", Some(15), Some("Did you mean \"people\"?"))
    );
    assert_eq!(failed(s, "selec 1").position, Some(1));
    assert_eq!(failed(s, "select 1 +").sqlstate, "42601");
    assert_eq!(failed(s, "select 2147483647 + 1").sqlstate, "22003");
    assert_eq!(failed(s, "select 1 / 0").sqlstate, "22012");
    assert_eq!(failed(s, "select 'x' + 1").sqlstate, "22P02");
    assert_eq!(failed(s, "select name + 1 from people").sqlstate, "42883");
    assert_eq!(
        failed(s, "insert into people(id, name, email) values (8, 'x', '012345678901234567890')")
            .sqlstate,
        "22001"
    );
    assert_eq!(failed(s, "select name from people group by age").sqlstate, "42803");
    assert_eq!(failed(s, "select rank() from people").sqlstate, "42809");
}

#[test]
fn transactions_commit_roll_back_and_fail() {
    let (mut session, _) = with_people();
    let s = &mut session;
    assert_eq!(run(s, "begin; delete from people; rollback"), ["BEGIN", "DELETE 3", "ROLLBACK"]);
    assert_eq!(run(s, "begin isolation level read committed"), ["BEGIN"]);
    assert_eq!(
        run(s, "savepoint a; delete from people where id = 1; select 1/0"),
        ["SAVEPOINT", "DELETE 1", "22012 division by zero"]
    );
    assert_eq!(s.status(), Status::Failed);
    assert!(run(s, "select 1")[0].starts_with("25P02"));
    assert_eq!(run(s, "rollback to a; select count(*) from people"), ["ROLLBACK", "3", "SELECT 1"]);
    assert_eq!(
        run(s, "update people set age = 1 where id = 1; release a; commit"),
        ["UPDATE 1", "RELEASE", "COMMIT"]
    );
    assert_eq!(run(s, "select age from people where id = 1"), ["1", "SELECT 1"]);
    // Several statements in one simple query are one transaction.
    assert_eq!(run(s, "delete from people; select 1/0"), ["DELETE 3", "22012 division by zero"]);
    assert_eq!(run(s, "select count(*) from people"), ["3", "SELECT 1"]);
    assert_eq!(
        run(s, "begin read only; delete from people")[1],
        "25006 cannot execute DELETE in a read-only transaction"
    );
    assert_eq!(run(s, "commit"), ["ROLLBACK"]);
    assert_eq!(run(s, "show transaction_isolation"), ["serializable", "SHOW"]);
    assert!(run(s, "commit").contains(&"NOTICE there is no transaction in progress".to_owned()));
}

#[test]
fn changes_of_the_catalog_do_not_trust_reads_that_do_not_validate() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    // The name, the version, the entry of a row: each is there, and not found at first.
    for hidden in 1..=6 {
        memory.hide_reads(hidden);
        assert_eq!(
            run(s, &format!("create index by_age_{hidden} on people (age)")),
            ["CREATE INDEX"]
        );
        memory.hide_reads(hidden);
        assert_eq!(run(s, &format!("drop index by_age_{hidden}")), ["DROP INDEX"]);
        memory.hide_reads(hidden);
        assert_eq!(run(s, "analyze people"), ["ANALYZE"]);
        memory.hide_reads(0);
        assert_eq!(run(s, "select count(*) from people where age > 0"), ["3", "SELECT 1"]);
    }
    let statistics = "select reltuples from pg_class where relname = 'people'";
    assert_eq!(run(s, statistics), ["3", "SELECT 1"]);
}

#[test]
fn the_client_sees_the_run_of_a_statement_that_was_committed() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    s.ends_next(true);
    let insert =
        "insert into people (id, name, age) values (9, 'x', (random() * 1e9)::int) returning age";
    for by in [run, |s: &mut Session, sql: &str| prepared(s, sql, &[])] {
        memory.abort_commits(2);
        let said = by(s, insert);
        assert_eq!(said[1], "INSERT 0 1");
        let stored = "delete from people where id = 9 returning age";
        assert_eq!(run(s, stored), [said[0].as_str(), "DELETE 1"]);
        // A row of the same key was committed meanwhile: that is the error, and no conflict.
        memory.hide_reads(1);
        let said = by(s, "insert into people (id, name) values (1, 'y')");
        assert!(said[0].starts_with("23505"), "{said:?}");
    }
    // The client has seen the first of two statements, also if the second is not in the journal.
    for second in ["select 1", "show timezone", "set application_name = 'x'"] {
        memory.abort_commits(1);
        let said = run(s, &format!("{insert}; {second}"));
        assert!(said.iter().any(|line| line.starts_with("40001")), "{said:?}");
        assert_eq!(run(s, "select count(*) from people where id = 9"), ["0", "SELECT 1"]);
    }
    // So has a client that does not wait for Sync.
    memory.abort_commits(1);
    let said = block_on(async {
        s.parse("", insert, &[]).await?;
        s.bind("", "", Vec::new())?;
        s.execute("", 0).await?;
        s.sync().await
    });
    assert_eq!(said.map_err(|error| error.sqlstate), Err("40001"));
}

#[test]
fn aborted_transactions_are_replayed() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    memory.abort_commits(2);
    assert_eq!(run(s, "update people set age = age + 1 where id = 1"), ["UPDATE 1"]);
    assert_eq!(run(s, "select age from people where id = 1"), ["41", "SELECT 1"]);
    assert_eq!(
        run(s, "begin; update people set age = age + 1 where id = 1 returning age"),
        ["BEGIN", "42", "UPDATE 1"]
    );
    memory.abort_reads(1);
    assert_eq!(
        run(s, "savepoint x; select age from people where id = 1"),
        ["SAVEPOINT", "42", "SELECT 1"]
    );
    memory.abort_commits(1);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, "select age from people where id = 1"), ["42", "SELECT 1"]);
    memory.lose_outcome();
    assert!(run(s, "delete from people")[0].starts_with("40003"));
}

/// A replay warns its client of nothing again.
#[test]
fn a_replay_repeats_no_warning() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    let warning = "NOTICE you don't own a lock of type ExclusiveLock";
    let said = run(s, "begin; select pg_advisory_unlock(1); create table if not exists people ()");
    assert!(said.contains(&warning.to_owned()), "{said:?}");
    memory.abort_reads(1);
    assert_eq!(run(s, "select age from people where id = 1"), ["40", "SELECT 1"]);
    memory.abort_commits(1);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, "select 1"), ["1", "SELECT 1"]);
}

/// A statement is replayed with the settings that its first run had.
#[test]
fn a_replay_has_the_settings_of_the_first_run() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create schema a; create schema b");
    run(s, "begin; set local search_path = a");
    let made = run(s, "create table t (at timestamptz default '2020-01-01 12:00')");
    assert_eq!(made, ["CREATE TABLE"]);
    assert_eq!(run(s, "insert into t default values"), ["INSERT 0 1"]);
    run(s, "select set_config('search_path', 'b', true)");
    assert_eq!(run(s, "create table u as select current_setting('search_path') x"), ["SELECT 1"]);
    // In this zone the default of the first table would be refused.
    run(s, "set local timezone = 'America/New_York'");
    memory.abort_commits(1);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, "select at from a.t"), ["2020-01-01 12:00:00+00", "SELECT 1"]);
    assert_eq!(run(s, "select x from b.u"), ["b", "SELECT 1"]);
    assert_eq!(run(s, "show search_path"), ["\"$user\", public", "SHOW"]);
}

#[test]
fn a_replay_that_would_show_other_results_is_refused() {
    let (mut session, memory) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    assert_eq!(
        run(s, "begin; select age from people where id = 1 for update"),
        ["BEGIN", "40", "SELECT 1"]
    );
    assert_eq!(run(&mut other, "update people set age = 99 where id = 1"), ["UPDATE 1"]);
    memory.abort_commits(1);
    assert!(run(s, "update people set name = 'x' where id = 1; commit")[1].starts_with("40001"));
    assert_eq!(s.status(), Status::Idle);
    assert_eq!(run(s, "select name, age from people where id = 1"), ["ann|99", "SELECT 1"]);
}

/// Whether a query has rows is remembered for equal outer values, though it is not run to its end.
#[test]
fn existence_is_remembered() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    run(s, "create table t (a int, b int)");
    run(s, "insert into t select g, g % 2 from generate_series(1, 100) g");
    let sql = "select count(*) from t, lateral (select t.b > 0) q(x) where exists \
               (select 1 from t c natural right join t d where true in (q.x, q.x))";
    run(s, sql);
    let before = memory.requests();
    assert_eq!(run(s, sql), ["50", "SELECT 1"]);
    // Three or four scans, whatever the number of left rows.
    assert!(memory.requests() - before < 150, "{}", memory.requests() - before);
}

/// A client that knows the columns of a statement gets no others under their names.
#[test]
fn a_prepared_statement_keeps_its_columns() {
    let (mut session, _) = session();
    let s = &mut session;
    run(s, "create table t (id int primary key, a int); insert into t values (1, 2)");
    block_on(s.parse("s", "select * from t", &[])).unwrap();
    let columns = s.describe_statement("s").unwrap().columns.unwrap();
    assert_eq!(columns.iter().map(|column| &*column.name).collect::<Vec<_>>(), ["id", "a"]);
    run(s, "alter table t drop a; alter table t add z int default 99");
    s.bind("", "s", Vec::new()).unwrap();
    let error = block_on(s.execute("", 0)).unwrap_err();
    assert_eq!(
        (error.sqlstate, &*error.message),
        ("0A000", "cached plan must not change result type")
    );
}

/// A table that is created anew twice in one transaction is another each time, even with the same
/// version number.
#[test]
fn a_plan_for_a_rolled_back_table_is_replanned() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    memory.abort_commits(1);
    assert_eq!(
        run(s, "begin; truncate people; insert into people values (7, 'eve', 1); commit").len(),
        4
    );
    assert_eq!(
        run(s, "select id, name from people"),
        ["7|eve", "SELECT 1"],
        "the replay has other rows"
    );
    assert_eq!(run(s, "begin; savepoint a; truncate people").len(), 3);
    block_on(s.parse("ins", "insert into people values (8, 'bob', 2)", &[])).unwrap();
    for _ in 0..2 {
        s.bind("", "ins", vec![]).unwrap();
        block_on(s.execute("", 0)).unwrap();
        assert_eq!(run(s, "rollback to a; truncate people").len(), 2);
    }
    s.bind("", "ins", vec![]).unwrap();
    block_on(s.execute("", 0)).unwrap();
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(run(s, "select id, name from people"), ["8|bob", "SELECT 1"]);
    // Nor is the plan valid for a table that another session created meanwhile.
    assert_eq!(run(s, "begin; truncate people").len(), 2);
    block_on(s.parse("late", "insert into people values (9, 'joe', 3)", &[])).unwrap();
    assert_eq!(run(s, "rollback; truncate people").len(), 2);
    s.bind("", "late", vec![]).unwrap();
    block_on(s.execute("", 0)).unwrap();
    block_on(s.sync()).unwrap();
    assert_eq!(run(s, "select id, name from people"), ["9|joe", "SELECT 1"]);
}

#[test]
fn catalogs_change_inside_transactions() {
    let (mut session, _) = with_people();
    let mut other = Session::new(session.engine().clone(), "other");
    let s = &mut session;
    assert_eq!(
        run(s, "begin; create table t (a int); insert into t values (1),(2); rollback").len(),
        4
    );
    assert!(run(s, "select * from t")[0].starts_with("42P01"));
    block_on(other.parse("q", "select * from people where age = 25", &[])).unwrap();
    assert_eq!(run(s, "create index by_age on people (age desc)"), ["CREATE INDEX"]);
    assert_eq!(
        run(s, "explain (costs off) select id from people where age = 25")[0],
        "Index Only Scan using by_age on people"
    );
    other.bind("", "q", vec![]).unwrap();
    assert_eq!(common::show(&block_on(other.execute("", 0)).unwrap()).len(), 3);
    block_on(other.sync()).unwrap();
    assert_eq!(
        run(
            s,
            "update people set age = 26 where id = 2; select id from people where age >= 26 order by age"
        ),
        ["UPDATE 1", "2", "1", "SELECT 2"]
    );
    assert_eq!(
        run(
            s,
            "alter table people add column city text default 'ulm'; select city from people where id = 1"
        )[1],
        "ulm"
    );
    assert_eq!(run(s, "drop index by_age; truncate people; select count(*) from people")[2], "0");
    assert_eq!(run(s, "vacuum; drop table people; drop table if exists people").len(), 4);
    assert!(run(s, "drop table people")[0].starts_with("42P01"));
    assert_eq!(run(s, "create table u (a int); insert into u values (1),(1)")[1], "INSERT 0 2");
    assert!(run(s, "alter table u add primary key (a)")[0].starts_with("23505"));
}

#[test]
fn settings_follow_their_transaction() {
    let (mut session, _) = with_people();
    let s = &mut session;
    let set = |value: &str| format!("set lock_timeout = '{value}'");
    let local = |value: &str| format!("set local lock_timeout = '{value}'");
    for (statements, expected) in [
        (format!("begin; {}; commit", set("1s")), "1s"),
        (format!("begin; {}; rollback", set("2s")), "1s"),
        (format!("begin; {}; commit", local("3s")), "1s"),
        (format!("begin; {}; {}; commit", set("4s"), local("5s")), "4s"),
        (format!("begin; {}; savepoint a; {}; rollback to a; commit", set("6s"), set("7s")), "6s"),
        (format!("begin; savepoint a; {}; release a; commit", set("7s")), "7s"),
        (format!("begin; {}; select 1 / 0", set("8s")), "8s"),
    ] {
        run(s, &statements);
        if statements.contains("1 / 0") {
            assert_eq!(s.status(), Status::Failed);
            run(s, "rollback");
            assert_eq!(run(s, "show lock_timeout")[0], "7s", "undone with its transaction");
            continue;
        }
        assert_eq!(run(s, "show lock_timeout")[0], expected, "{statements}");
    }
    // The statements of one query are one transaction, and so are those between two Syncs.
    run(s, &format!("{}; select 1 / 0", set("9s")));
    assert_eq!(run(s, "show lock_timeout")[0], "7s");
    for (last, expected) in [("select 1", "10s"), ("select 1 / 0", "10s")] {
        let value = if last == "select 1" { "10s" } else { "11s" };
        block_on(s.parse("set", &set(value), &[])).unwrap();
        block_on(s.parse("last", last, &[])).unwrap();
        s.bind("", "set", vec![]).unwrap();
        block_on(s.execute("", 0)).unwrap();
        s.bind("", "last", vec![]).unwrap();
        let ran = block_on(s.execute("", 0));
        assert_eq!(ran.is_ok(), value == "10s");
        block_on(s.sync()).unwrap();
        s.close_statement("set");
        s.close_statement("last");
        assert_eq!(run(s, "show lock_timeout")[0], expected);
    }
    let outside = run(s, &local("12s"));
    let warns = |said: &String| said.contains("only be used in transaction blocks");
    assert!(outside.iter().any(warns), "{outside:?}");
    assert_eq!(run(s, "show lock_timeout")[0], "10s");
    assert_eq!(run(s, "reset all; show lock_timeout")[1], "0");
    s.set("lock_timeout", "13s").expect("as the session begins");
    run(s, &set("14s"));
    assert_eq!(run(s, "show lock_timeout")[0], "14s");
    assert_eq!(run(s, "reset lock_timeout; show lock_timeout")[1], "13s", "as it began");
}

#[test]
fn the_past_can_be_read() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    let before = memory.now();
    assert_eq!(run(s, "delete from people where id < 3"), ["DELETE 2"]);
    // In microseconds, rounded up: this test database's clock has not advanced far.
    let committed = run(s, "show meridian.commit_timestamp")[0].clone();
    assert!(committed.ends_with("+00") && committed.contains(":"), "{committed}");
    assert_eq!(
        run(s, &format!("select count(*) from people as of system time '{before}'")),
        ["3", "SELECT 1"]
    );
    assert_eq!(run(s, "select count(*) from people"), ["1", "SELECT 1"]);
    assert!(run(s, "select 1 as of system time 'soon'")[0].starts_with("22007"));
    // Not older than this timestamp, or than this duration.
    let least =
        format!("select count(*) from people as of system time with_min_timestamp('{before}')");
    assert_eq!(run(s, &least), ["3", "SELECT 1"]);
    assert_eq!(
        run(s, "select count(*) from people as of system time with_max_staleness('0s')"),
        ["1", "SELECT 1"]
    );
    assert!(
        run(s, "select 1 as of system time with_max_staleness('a while')")[0].starts_with("22007")
    );
    assert!(run(s, "select 1 as of system time with_luck('1s')")[0].starts_with("42601"));
    // The setting applies to all reads of a session, and never to its writes.
    run(s, &format!("set meridian.read_only_staleness = 'READ_TIMESTAMP {before}'"));
    assert_eq!(run(s, "select count(*) from people"), ["3", "SELECT 1"]);
    assert_eq!(run(s, "begin read only; select count(*) from people; commit")[1], "3");
    assert_eq!(run(s, "insert into people (id, name) values (9, 'Zoe')"), ["INSERT 0 1"]);
    assert_eq!(
        run(s, "select count(*) from people as of system time with_max_staleness('0s')")[0],
        "2"
    );
    assert_eq!(
        run(s, "set meridian.read_only_staleness = 'strong'; select count(*) from people")[1],
        "2"
    );
    assert!(
        run(s, "set meridian.read_only_staleness = 'MAX_STALENESS soon'")[0].starts_with("22023")
    );
}

#[test]
fn portals_hand_out_rows_in_parts() {
    let (mut session, _) = with_people();
    let s = &mut session;
    block_on(s.parse("", "select id from people order by id", &[])).unwrap();
    s.bind("p", "", vec![]).unwrap();
    let first = block_on(s.execute("p", 2)).unwrap();
    assert!(matches!(&first, Response::Rows { rows, done: None, .. } if rows.len() == 2));
    let rest = block_on(s.execute("p", 2)).unwrap();
    assert!(matches!(&rest, Response::Rows { rows, done: Some(_), .. } if rows.len() == 1));
    block_on(s.sync()).unwrap();
    assert_eq!(block_on(s.execute("p", 2)).unwrap_err().sqlstate, "34000");
    assert_eq!(prepared(s, "select $1::int + 1", &["4"]), ["5", "SELECT 1"]);
    assert_eq!(
        prepared(s, "select name from people where id = $1 and name like $2", &["1", "a%"]),
        ["ann", "SELECT 1"]
    );
}

#[test]
fn copy_reads_escapes_and_refuses_what_is_wrong() {
    let (mut session, _) = with_people();
    let s = &mut session;
    assert_eq!(run(s, "copy people (id, name, email) from stdin"), ["COPY IN 3"]);
    block_on(s.copy_data(b"10\ta\\tb\\\\\t\\N\n11\tq\tz@z\n\\.\n")).unwrap();
    assert_eq!(block_on(s.copy_done()).unwrap(), Response::Complete("COPY 2".into()));
    assert_eq!(block_on(s.next()), None);
    assert_eq!(
        run(s, "select name, age, email from people where id = 10"),
        ["a\tb\\|30|NULL", "SELECT 1"]
    );
    for bad in ["x\ty\tz\n", "1\t2\n", "12\ta\tb\tc\n", "1\ta\tb\n"] {
        assert_eq!(run(s, "copy people (id, name, email) from stdin"), ["COPY IN 3"]);
        assert!(block_on(s.copy_data(bad.as_bytes())).is_err(), "{bad}");
        assert_eq!(s.status(), Status::Idle);
    }
    assert_eq!(run(s, "select count(*) from people"), ["5", "SELECT 1"]);
}

#[test]
fn types_print_as_postgresql_prints_them() {
    let (mut session, _) = session();
    let s = &mut session;
    run(
        s,
        "create table k (b bool, f float8, n numeric(10,2), c char(4), v bytea, u uuid, d date, t timestamp, z timestamptz, i2 smallint, i8 bigint)",
    );
    run(
        s,
        "insert into k values (true, 1e20, 1.005, 'ab', '\\x00ff', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '2024-02-29', '2024-02-29 12:00:00.5', '2024-02-29 12:00:00+02', -3, 9000000000)",
    );
    assert_eq!(
        run(s, "select * from k")[0],
        "t|1e+20|1.01|ab  |\\x00ff|a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|2024-02-29|2024-02-29 12:00:00.5|2024-02-29 10:00:00+00|-3|9000000000"
    );
    assert_eq!(
        run(s, "select c = 'ab', d + 1, round(2.5), abs(-3), upper('x'), coalesce(null, 4) from k")
            [0],
        "t|2024-03-01|3|3|X|4"
    );
    assert_eq!(run(s, "select version()")[0].split(' ').next(), Some("PostgreSQL"));
    assert_eq!(
        run(s, "select current_database(), current_schema(), current_user")[0],
        "postgres|public|root"
    );
}

#[test]
fn deep_nesting_runs_up_to_its_limit() {
    let (mut session, _) = session();
    let deep = |levels: usize| format!("select {}1{}", "(".repeat(levels), ")".repeat(levels));
    assert!(run(&mut session, &deep(6_000))[0].starts_with("54001"));
    assert!(run(&mut session, &deep(1_000))[0].ends_with('1'));
    let long = |terms: usize| format!("select 1{}", " + 1".repeat(terms));
    assert!(run(&mut session, &long(20_000))[0].starts_with("54001"));
    assert!(run(&mut session, &long(1_000))[0].ends_with("1001"));
}

#[test]
fn what_fills_new_storage_is_seen_with_the_commit_or_never() {
    let (mut session, memory) = session();
    let s = &mut session;
    let mut other = Session::new(s.engine().clone(), "root");
    let copy = |s: &mut Session, rows: &str| -> Result<Response, SqlError> {
        assert_eq!(run(s, "copy t from stdin"), ["COPY IN 2"]);
        block_on(s.copy_data(rows.as_bytes()))?;
        block_on(s.copy_done())
    };
    let all = "select a, b from t order by a";
    run(s, "create table t (a int primary key, b text unique); insert into t values (1, 'old')");
    let before = memory.commits();
    run(s, "begin; truncate t");
    copy(s, "1\tx\n2\ty\n").unwrap();
    assert!(memory.commits() > before, "the rows are not written before the commit");
    assert_eq!(run(&mut other, all), ["1|old", "SELECT 1"]);
    assert_eq!(run(s, all), ["1|x", "2|y", "SELECT 2"]);
    run(s, "rollback");
    assert_eq!(run(s, all), ["1|old", "SELECT 1"]);
    // A savepoint can roll later rows back, so that they wait for the commit.
    run(s, "begin; truncate t; savepoint p");
    copy(s, "3\tz\n").unwrap();
    assert_eq!(
        run(s, "rollback to p; select count(*) from t; rollback"),
        ["ROLLBACK", "0", "SELECT 1", "ROLLBACK"]
    );
    for (rows, constraint) in [("2\tx\n1\ty\n2\tz\n", "t_pkey"), ("1\tx\n2\tx\n", "t_b_key")] {
        run(s, "begin; truncate t");
        let error = copy(s, rows).unwrap_err();
        assert!(
            error.sqlstate == "23505" && error.message.contains(constraint),
            "{}",
            error.message
        );
        run(s, "rollback");
    }
    run(s, "begin; truncate t");
    copy(s, "1\tx\n2\ty\n").unwrap();
    run(s, "commit; alter table t add column c int default 7; create index on t (c)");
    assert_eq!(
        run(&mut other, "select * from t where c = 7 order by a"),
        ["1|x|7", "2|y|7", "SELECT 2"]
    );
    assert_eq!(run(s, "vacuum"), ["VACUUM"]);
    assert_eq!(run(s, all), ["1|x", "2|y", "SELECT 2"]);
}

#[test]
fn an_interrupted_commit_reports_an_unknown_outcome() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    memory.hold_commit();
    s.start("insert into people (id, name) values (50, 'x')");
    assert!(futures::FutureExt::now_or_never(s.next()).is_none());
    assert_eq!(s.interrupt().sqlstate, "40003");
    assert_eq!(run(s, "select 1"), ["1", "SELECT 1"]);
    assert_eq!(s.interrupt().sqlstate, "57014");
}

/// A session that requests a weaker level than the database's gets the database's; a stronger one
/// is rejected.
#[test]
fn transactions_have_the_isolation_level_of_their_database() {
    for (given, refused) in [
        (IsolationLevel::Serializable, &[][..]),
        (IsolationLevel::RepeatableRead, &["serializable"]),
        (IsolationLevel::ReadCommitted, &["serializable", "repeatable read"]),
    ] {
        let engine = Engine::new("postgres", Arc::new(common::Memory::default().gives(given)));
        let mut session = Session::new(Arc::new(engine), "root");
        let s = &mut session;
        let shown = |s: &mut Session| run(s, "show transaction isolation level")[0].clone();
        assert_eq!(shown(s), given.name());
        assert_eq!(run(s, "show default_transaction_isolation")[0], given.name());
        let listed =
            "select name, setting from pg_settings where name like '%transaction_isolation'";
        let row = |name: &str| format!("{name}|{}", given.name());
        let rows = ["default_transaction_isolation", "transaction_isolation"].map(row);
        assert_eq!(run(s, &format!("{listed} order by name"))[..2], rows);
        let effective = |s: &mut Session| run(s, "show meridian.effective_isolation")[0].clone();
        for asked in IsolationLevel::ALL {
            let is_refused = refused.contains(&asked.name());
            for ask in ["begin isolation level", "start transaction isolation level"] {
                let answer = run(s, &format!("{ask} {asked}"));
                assert_eq!(
                    answer[0].starts_with("0A000"),
                    is_refused,
                    "{given}, {asked}: {answer:?}"
                );
                let expected = if is_refused { given } else { asked };
                assert_eq!((shown(s), effective(s)), (expected.to_string(), given.to_string()));
                run(s, "rollback");
            }
            for ask in [
                "set transaction isolation level",
                "set session characteristics as transaction isolation level",
            ] {
                let answer = run(s, &format!("begin; {ask} {asked}; rollback"));
                assert_eq!(
                    answer[1].starts_with("0A000"),
                    is_refused,
                    "{given}, {asked}: {answer:?}"
                );
                run(s, "rollback");
            }
            let answer = run(s, &format!("set default_transaction_isolation = '{asked}'"));
            assert_eq!(answer[0].starts_with("0A000"), is_refused, "{given}, {asked}: {answer:?}");
            run(s, "reset default_transaction_isolation");
        }
        assert_eq!(shown(s), given.name());
        assert!(run(s, "begin isolation level snapshot")[0].starts_with("42601"));
    }
}

/// As many relations as a statement may read, planned and run on a stack of 2 MiB, as a server's
/// threads have.
#[test]
fn many_relations_fit_a_small_stack() {
    let run_all = || {
        let (mut session, _) = session();
        let s = &mut session;
        run(s, "create table one(a int primary key); insert into one values (1)");
        let joins: String = (1..999).map(|n| format!(" join one o{n} on o{n}.a = o0.a")).collect();
        let truths = vec!["1 = (select 1)"; 900].join(" and ");
        let items = vec!["(select 2)"; 900].join(", ");
        for (sql, expected) in [
            (format!("select count(*) from one o0{joins}"), "1"),
            (format!("select 1 where {truths}"), "1"),
            (format!("select 2 from one where concat({items}) is not null"), "2"),
        ] {
            assert_eq!(run(s, &sql), [expected, "SELECT 1"], "{}", &sql[..40]);
        }
        let refused = run(s, &format!("select concat({})", vec!["(select 2)"; 1001].join(", ")));
        assert_eq!(refused, ["54001 the statement reads more than 1000 relations"]);
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run_all);
    thread.expect("a thread").join().expect("no panic");
}

/// A join by primary key looks up the rows of all left rows at once.
#[test]
fn lookups_of_a_join_go_together() {
    let (mut session, memory) = session();
    let s = &mut session;
    run(
        s,
        "create table a (id int primary key, other int); create table b (id int primary key, name text)",
    );
    run(s, "insert into a values (1, 10), (2, 20), (3, null), (4, 10), (5, 77)");
    run(s, "insert into b values (10, 'ten'), (20, 'twenty'), (30, 'thirty')");
    let join = |ids: &str| {
        format!(
            "select a.id, b.name from a left join b on b.id = a.other where a.id in ({ids}) order by a.id"
        )
    };
    let mut requests = |ids: &str, expected: &[&str]| {
        let before = memory.requests();
        assert_eq!(run(s, &join(ids)), expected);
        memory.requests() - before
    };
    let all = ["1|ten", "2|twenty", "3|NULL", "4|ten", "5|NULL", "SELECT 5"];
    requests("1", &["1|ten", "SELECT 1"]);
    let of_one = requests("1", &["1|ten", "SELECT 1"]);
    assert_eq!(requests("1, 2, 3, 4, 5", &all), of_one, "as many as for one row");
}

#[test]
fn explain_gives_a_tree_as_json() {
    let (mut session, _) = with_people();
    let s = &mut session;
    let query = "select p.name from people p left join people q on q.id = p.age and q.age > 2 where p.id in (1, 2)";
    let said = run(s, &format!("explain (analyze, format json) {query}"));
    let all: serde_json::Value = serde_json::from_str(&said[0]).expect("JSON");
    let plan = &all[0]["Plan"];
    assert_eq!(plan["Node Type"], "Nested Loop");
    assert_eq!(plan["Join Type"], "Left");
    assert_eq!(plan["Actual Rows"], 2);
    let [outer, inner] = &plan["Plans"].as_array().expect("two inputs")[..] else {
        panic!("{plan}")
    };
    assert_eq!(outer["Parent Relationship"], "Outer");
    assert_eq!(outer["Index Cond"], "(p.id IN (1, 2))");
    assert_eq!((&outer["Actual Rows"], &outer["Actual Loops"]), (&2.into(), &1.into()));
    assert_eq!(inner["Parent Relationship"], "Inner");
    assert_eq!((&inner["Alias"], &inner["Index Cond"]), (&"q".into(), &"(q.id = p.age)".into()));
    assert_eq!((&inner["Filter"], &inner["Actual Loops"]), (&"(q.age > 2)".into(), &2.into()));
    for number in ["Startup Cost", "Total Cost", "Plan Rows", "Plan Width", "Actual Total Time"] {
        assert!(plan[number].is_number(), "{number}: {plan}");
    }
}
