//! Tests statements whose WITH changes data, and MERGE, in transactions that are replayed or rolled
//! back, and in little memory.

use super::common::{self, prepared, run, session_of};
use super::with_people;
use meridian_sql::{Engine, QueryMemory, Session};
use std::sync::Arc;

fn with_log(s: &mut Session) {
    run(s, "create table log (id serial primary key, person int, age int)");
}

/// Each part of a statement happens once, however often its transaction is attempted.
#[test]
fn a_replay_changes_nothing_twice() {
    let (mut session, memory) = with_people();
    let s = &mut session;
    with_log(s);
    let sql = "with old as (update people set age = age + 1 where id = 1 returning id, age), \
               noted as (insert into log (person, age) select id, age from old returning id) \
               update people set age = age * 2 where id in (1, 2) returning id, age";
    memory.abort_commits(2);
    assert_eq!(run(s, sql), ["1|80", "2|50", "UPDATE 2"]);
    assert_eq!(run(s, "select person, age from log"), ["SELECT 0"]);
    memory.abort_reads(1);
    let sql = "begin; with gone as (delete from people where id = 3 returning id, age) \
               insert into log (person, age) select id, age from gone returning id, person, age";
    assert_eq!(run(s, sql), ["BEGIN", "1|3|25", "INSERT 0 1"]);
    memory.abort_commits(1);
    let merge = "merge into log using (values (1, 5), (2, 6)) as new (id, age) on log.id = new.id \
                 when matched then update set age = log.age + new.age \
                 when not matched then insert (person, age) values (new.id, new.age); commit";
    assert_eq!(run(s, merge), ["MERGE 2", "COMMIT"]);
    let left = ["1|3|30", "2|2|6", "SELECT 2"];
    assert_eq!(run(s, "select id, person, age from log order by id"), left);
    assert_eq!(run(s, "select count(*) from people"), ["2", "SELECT 1"]);
}

/// A savepoint takes back all parts of a statement, and a statement that fails leaves none.
#[test]
fn all_parts_go_together() {
    let (mut session, _) = with_people();
    let s = &mut session;
    with_log(s);
    let both =
        "with noted as (insert into log (person) values (1)) delete from people where id = 1";
    let said = ["BEGIN", "SAVEPOINT", "DELETE 1", "ROLLBACK", "COMMIT"];
    assert_eq!(run(s, &format!("begin; savepoint s; {both}; rollback to s; commit")), said);
    assert_eq!(
        run(s, "select (select count(*) from people), count(*) from log"),
        ["3|0", "SELECT 1"]
    );
    let fails = "with noted as (insert into log (person) values (1) returning person) \
                 insert into people (id, name) select person, 'x' from noted";
    assert!(run(s, fails)[0].starts_with("23505"));
    assert_eq!(run(s, "select count(*) from log"), ["0", "SELECT 1"]);
}

/// The parameters of all parts are numbered together.
#[test]
fn parts_share_their_parameters() {
    let (mut session, _) = with_people();
    let s = &mut session;
    with_log(s);
    let sql = "with named as (update people set name = $1 where id = $2 returning id), \
               noted as (insert into log (person, age) select id, $3 from named returning age) \
               select (select id from named) + $2, (select age from noted)";
    assert_eq!(prepared(s, sql, &["zoe", "2", "77"]), ["4|77", "SELECT 1"]);
    assert_eq!(run(s, "select name from people where id = 2"), ["zoe", "SELECT 1"]);
}

/// The writes that wait for the end of a statement take memory, and give it back.
#[test]
fn what_waits_to_be_written_has_a_limit() {
    let limit = Arc::new(QueryMemory::of(192 << 10));
    let engine = Engine::new("postgres", Arc::new(common::Memory::default()))
        .with_memory(Arc::clone(&limit));
    let s = &mut session_of(engine);
    run(s, "create table t (id int primary key, v text)");
    let insert = |most: usize| {
        let row = |id: usize| format!("({id}, '{}')", "x".repeat(40));
        let rows: Vec<String> = (0..most).map(row).collect();
        format!("with a as (insert into t values {}) select 1", rows.join(","))
    };
    let said = run(s, &insert(3000));
    assert!(said[0].contains("53200") && said[0].contains("out of memory"), "{}", said[0]);
    assert_eq!(limit.held_bytes(), 0);
    assert_eq!(run(s, "select count(*) from t"), ["0", "SELECT 1"]);
    assert_eq!(run(s, &insert(100)), ["1", "SELECT 1"]);
    assert_eq!(limit.held_bytes(), 0);
    assert_eq!(run(s, "select count(*) from t"), ["100", "SELECT 1"]);
}
