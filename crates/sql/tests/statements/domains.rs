//! Domains that change while other nodes have plans with the older ones.

use crate::common::{Memory, run, session, session_of};
use meridian_sql::{Engine, Session};
use std::sync::Arc;

/// Two sessions on nodes of their own, with a table of a domain, and of one over it.
fn on_two_nodes() -> (Session, Session) {
    let (mut session, memory): (Session, Memory) = session();
    let other = session_of(Engine::new("postgres", Arc::new(memory)));
    let made = run(
        &mut session,
        "create domain amount as int check (value >= 0);
         create domain small as amount check (value < 1000);
         create table t (k int primary key, a amount, s small);
         insert into t values (1, 10, 20)",
    );
    assert_eq!(made, ["CREATE DOMAIN", "CREATE DOMAIN", "CREATE TABLE", "INSERT 0 1"]);
    (session, other)
}

fn violates(domain: &str, check: &str) -> String {
    format!("23514 value for domain {domain} violates check constraint \"{check}\"")
}

#[test]
fn writers_learn_of_new_constraints() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(o, "prepare add as insert into t values ($1, $2, $3)");
    run(o, "prepare set_all as update t set a = $1");
    assert_eq!(run(o, "execute add (2, 7, 7); execute set_all (8)"), ["INSERT 0 1", "UPDATE 2"]);
    assert_eq!(
        run(s, "alter domain amount add constraint even check (value % 2 = 0)"),
        ["23514 column \"s\" of table \"t\" contains values that violate the new constraint"]
    );
    run(s, "delete from t where k = 2");
    let added = run(s, "alter domain amount add constraint even check (value % 2 = 0)");
    assert_eq!(added, ["ALTER DOMAIN"]);
    assert_eq!(run(o, "execute add (3, 7, 8)"), [violates("amount", "even")]);
    assert_eq!(run(o, "execute add (3, 8, 7)"), [violates("small", "even")]);
    assert_eq!(run(o, "execute set_all (9)"), [violates("amount", "even")]);
    assert_eq!(run(o, "execute add (3, 8, 8)"), ["INSERT 0 1"]);
    assert_eq!(run(s, "alter domain amount set not null"), ["ALTER DOMAIN"]);
    assert_eq!(
        run(o, "execute add (4, null, 8)"),
        ["23502 domain amount does not allow null values"]
    );
    run(s, "alter domain amount drop constraint even; alter domain amount drop not null");
    assert_eq!(run(o, "execute add (4, null, 9)"), ["INSERT 0 1"]);
}

#[test]
fn a_writer_that_began_before_a_change_is_refused_or_checked() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    assert_eq!(run(o, "begin; insert into t values (2, 99, 1)"), ["BEGIN", "INSERT 0 1"]);
    let added = run(s, "alter domain amount add constraint low check (value < 50)");
    // Whichever commits first, no row violates the constraint.
    let committed = run(o, "commit");
    let rows = run(s, "select count(*) from t where a >= 50");
    match added[0].as_str() {
        "ALTER DOMAIN" => {
            assert_ne!(committed, ["COMMIT"]);
            assert_eq!(rows, ["0", "SELECT 1"]);
        }
        _ => assert!(added[0].starts_with("23514") || added[0].starts_with("40001"), "{added:?}"),
    }
}

#[test]
fn plans_without_a_table_learn_of_changes() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(o, "prepare cast_to as select $1::int::small");
    assert_eq!(run(o, "execute cast_to (400)"), ["400", "SELECT 1"]);
    run(s, "alter domain amount add constraint low check (value < 50)");
    assert_eq!(run(o, "execute cast_to (400)"), [violates("small", "low")]);
    run(
        s,
        "alter domain amount drop constraint low; alter domain small drop constraint small_check",
    );
    assert_eq!(run(o, "execute cast_to (4000)"), ["4000", "SELECT 1"]);
    run(s, "create view v as select 30::small as x");
    assert_eq!(run(o, "select * from v"), ["30", "SELECT 1"]);
    let added = run(s, "alter domain small add constraint tiny check (value < 25)");
    assert_eq!(added, ["ALTER DOMAIN"]);
    assert_eq!(run(o, "select * from v"), [violates("small", "tiny")]);
    let refused = run(s, "drop domain small");
    assert!(refused[0].starts_with("2BP01"), "{refused:?}");
}

#[test]
fn a_transaction_sees_its_own_changes_of_a_domain_alone() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(s, "begin; alter domain amount add constraint low check (value < 50)");
    assert_eq!(run(s, "select 60::amount"), [violates("amount", "low")]);
    run(s, "rollback");
    assert_eq!(run(o, "select 60::amount"), ["60", "SELECT 1"]);
    run(s, "begin; create domain own as text default 'x' not null; create table u (k int, o own)");
    assert_eq!(run(s, "insert into u values (1) returning o"), ["x", "INSERT 0 1"]);
    assert_eq!(run(o, "select 'y'::own"), ["42704 type \"own\" does not exist"]);
    assert_eq!(run(s, "commit"), ["COMMIT"]);
    assert_eq!(
        run(o, "insert into u values (2, null)"),
        ["23502 domain own does not allow null values"]
    );
}

#[test]
fn changes_of_tables_keep_what_uses_a_domain() {
    let (mut session, _) = on_two_nodes();
    let s = &mut session;
    run(s, "drop domain small cascade");
    for (change, is_used) in [
        ("alter table t rename to u", true),
        ("truncate u", true),
        ("create index on u (a desc)", true),
        ("alter table u alter column a type int", false),
        ("alter table u alter column a type amount", true),
        ("alter table u drop column a", false),
        ("alter table u add column b amount default 3", true),
        ("drop table u", false),
        ("create table v as select 3::amount as x", true),
        ("create table w (like v); drop table v", true),
        ("drop table w", false),
    ] {
        let done = run(s, change);
        assert!(!done[0].as_bytes()[0].is_ascii_digit(), "{change}: {done:?}");
        let refused = run(s, "begin; drop domain amount");
        run(s, "rollback");
        assert_eq!(refused[1].starts_with("2BP01"), is_used, "{change}: {refused:?}");
    }
    assert_eq!(run(s, "drop domain amount"), ["DROP DOMAIN"]);
}
