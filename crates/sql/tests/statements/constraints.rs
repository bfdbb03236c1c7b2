//! Tests when foreign keys are checked, and how many requests that takes.

use super::common::{run, session};
use futures::executor::block_on;
use meridian_sql::{Response, Status};

/// References of many rows are looked up together, and each value once.
#[test]
fn references_are_looked_up_together() {
    let (mut session, memory) = session();
    let s = &mut session;
    run(s, "create table p (id int primary key)");
    run(s, "create table c (id int primary key, p_id int references p)");
    run(s, "insert into p select g from generate_series(1, 100) g");
    let insert = |from: i32, to: i32| {
        format!("insert into c select g, g % 100 + 1 from generate_series({from}, {to}) g")
    };
    run(s, &insert(1, 10));
    let before = memory.requests();
    assert_eq!(run(s, &insert(1001, 1010)), ["INSERT 0 10"]);
    let few = memory.requests() - before;
    assert_eq!(run(s, &insert(2001, 2100)), ["INSERT 0 100"]);
    let many = memory.requests() - before - few;
    assert_eq!(many - few, 90, "the rows themselves");
}

/// Deferred references are checked by the commit, also by that of a replay; those of COPY at its
/// end.
#[test]
fn deferred_references_are_checked_by_the_commit() {
    let (mut session, memory) = session();
    let s = &mut session;
    run(s, "create table p (id int primary key)");
    run(s, "create table c (id int, p_id int references p deferrable initially deferred)");
    assert_eq!(run(s, "begin; insert into c values (1, 7)"), ["BEGIN", "INSERT 0 1"]);
    memory.abort_commits(1);
    assert_eq!(run(s, "insert into p values (7); commit"), ["INSERT 0 1", "COMMIT"]);
    run(s, "begin; insert into c values (2, 8)");
    memory.abort_commits(1);
    assert!(run(s, "commit")[0].starts_with("23503"));
    assert_eq!(s.status(), Status::Idle);
    assert_eq!(run(s, "select count(*) from c"), ["1", "SELECT 1"]);
    // No plan has read the table that the rows refer to.
    run(s, "create table q (id int primary key); create table d (id int, q_id int references q)");
    s.start("copy d from stdin");
    assert!(matches!(block_on(s.next()), Some(Response::CopyIn { .. })));
    block_on(s.copy_data(b"3\t\\N\n")).unwrap();
    assert_eq!(
        block_on(s.copy_done()).map_err(|error| error.sqlstate),
        Ok(Response::Complete("COPY 1".into()))
    );
    s.start("copy c from stdin");
    assert!(matches!(block_on(s.next()), Some(Response::CopyIn { .. })));
    block_on(s.copy_data(b"3\t9\n")).unwrap();
    assert_eq!(block_on(s.copy_done()).map_err(|error| error.sqlstate), Err("23503"));
    assert_eq!(run(s, "select count(*) from c"), ["1", "SELECT 1"]);
}
