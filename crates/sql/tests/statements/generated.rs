//! Generated columns and COPY, and plans of other nodes from before a change of them.

use crate::common::{Memory, run, session, session_of};
use futures::executor::block_on;
use meridian_sql::{Engine, Response, Session, SqlError};
use std::sync::Arc;

fn copy(s: &mut Session, statement: &str, rows: &str) -> Result<Response, SqlError> {
    s.start(statement);
    assert!(matches!(block_on(s.next()), Some(Response::CopyIn { .. })));
    block_on(s.copy_data(rows.as_bytes()))?;
    block_on(s.copy_done())
}

#[test]
fn copy_leaves_generated_columns_out() {
    let (mut session, _): (Session, Memory) = session();
    let s = &mut session;
    run(
        s,
        "create table t (a int, b int generated always as (a * 2) stored unique check (b < 100),
                         c text default 'c');
         create table g (b int generated always as (7) stored)",
    );
    assert_eq!(
        copy(s, "copy t from stdin", "1\tx\n2\ty\n"),
        Ok(Response::Complete("COPY 2".into()))
    );
    assert_eq!(copy(s, "copy t (a) from stdin", "3\n"), Ok(Response::Complete("COPY 1".into())));
    assert_eq!(copy(s, "copy t (a) from stdin", "3\n").unwrap_err().sqlstate, "23505");
    assert_eq!(copy(s, "copy t (a) from stdin", "50\n").unwrap_err().sqlstate, "23514");
    assert_eq!(copy(s, "copy g from stdin", "\n\n"), Ok(Response::Complete("COPY 2".into())));
    let refused = "42P10 column \"b\" is a generated column";
    assert_eq!(run(s, "copy t (a, b) from stdin"), [refused]);
    assert_eq!(run(s, "copy t (b) to stdout"), [refused]);
    assert_eq!(run(s, "select * from t order by a"), ["1|2|x", "2|4|y", "3|6|c", "SELECT 3"]);
    assert_eq!(run(s, "table g"), ["7", "7", "SELECT 2"]);
}

#[test]
fn rows_of_older_plans_have_their_values() {
    let (mut session, memory): (Session, Memory) = session();
    let mut other = session_of(Engine::new("postgres", Arc::new(memory)));
    let (s, o) = (&mut session, &mut other);
    run(s, "create table t (k int primary key, a int)");
    run(o, "prepare add (int, int) as insert into t (k, a) values ($1, $2)");
    run(o, "prepare change (int, int) as update t set a = $2 where k = $1 returning *");
    assert_eq!(run(o, "execute add (1, 10)"), ["INSERT 0 1"]);
    run(s, "alter table t add b int generated always as (a * 2) stored");
    assert_eq!(run(o, "execute add (2, 20)"), ["INSERT 0 1"]);
    assert_eq!(run(s, "select * from t order by k"), ["1|10|20", "2|20|40", "SELECT 2"]);
    run(s, "alter table t rename a to \"order\"; alter table t rename \"order\" to n");
    run(s, "alter table t alter b drop expression; alter table t rename n to a");
    assert_eq!(run(o, "execute add (3, 30)"), ["INSERT 0 1"]);
    run(s, "update t set a = 11 where k = 1");
    assert_eq!(
        run(s, "select * from t order by k"),
        ["1|11|20", "2|20|40", "3|30|NULL", "SELECT 3"]
    );
}
