//! Notices, which statements send although they succeed.

use crate::common::{run, session};

#[test]
fn skipped_statements_say_so() {
    let (mut session, _) = session();
    let s = &mut session;
    run(s, "create type mood as enum ('ok'); create table t (a int primary key, m mood)");
    for (sql, notice) in [
        ("create table if not exists t (b int)", "relation \"t\" already exists, skipping"),
        ("create sequence if not exists t", "relation \"t\" already exists, skipping"),
        (
            "create index if not exists t_pkey on t (m)",
            "relation \"t_pkey\" already exists, skipping",
        ),
        ("drop table if exists u", "table \"u\" does not exist, skipping"),
        ("drop view if exists u", "view \"u\" does not exist, skipping"),
        ("drop index if exists u", "index \"u\" does not exist, skipping"),
        ("drop sequence if exists u", "sequence \"u\" does not exist, skipping"),
        ("drop type if exists u", "type \"u\" does not exist, skipping"),
        ("alter table if exists u add b int", "relation \"u\" does not exist, skipping"),
        (
            "alter table t add column if not exists a int",
            "column \"a\" of relation \"t\" already exists, skipping",
        ),
        (
            "alter table t drop column if exists b",
            "column \"b\" of relation \"t\" does not exist, skipping",
        ),
        (
            "alter table t drop constraint if exists b",
            "constraint \"b\" of relation \"t\" does not exist, skipping",
        ),
        (
            "alter type mood add value if not exists 'ok'",
            "enum label \"ok\" already exists, skipping",
        ),
    ] {
        assert_eq!(run(s, sql)[0], format!("NOTICE {notice}"), "{sql}");
    }
    assert_eq!(run(s, "set client_min_messages = warning; drop table if exists u").len(), 2);
}

#[test]
fn cascade_names_what_it_drops() {
    let (mut session, _) = session();
    let s = &mut session;
    run(s, "create table p (a int primary key); create table c (a int references p)");
    run(s, "create view v as select a from p; create view w as select a from v");
    assert_eq!(run(s, "drop view v cascade"), ["NOTICE drop cascades to view w", "DROP VIEW"]);
    run(s, "create view v as select a from p");
    assert_eq!(
        run(s, "truncate p cascade"),
        ["NOTICE truncate cascades to table \"c\"", "TRUNCATE TABLE"]
    );
    assert_eq!(
        run(s, "drop table p cascade"),
        ["NOTICE drop cascades to 2 other objects", "DROP TABLE"]
    );
}
