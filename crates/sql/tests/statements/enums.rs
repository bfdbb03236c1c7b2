//! Enum types that change while other nodes have plans with the older ones.

use crate::common::{Memory, run, session, session_of};
use meridian_sql::{Engine, Session};
use std::sync::Arc;

/// Two sessions on nodes of their own, with a table of an enum type.
fn on_two_nodes() -> (Session, Session) {
    let (mut session, memory): (Session, Memory) = session();
    let other = session_of(Engine::new("postgres", Arc::new(memory)));
    let made = run(
        &mut session,
        "create type mood as enum ('sad', 'ok');
         create table t (k int primary key, m mood default 'ok', past mood[]);
         create index on t (m);
         insert into t values (1, 'sad', '{ok}'), (2, 'ok', null)",
    );
    assert_eq!(made, ["CREATE TYPE", "CREATE TABLE", "CREATE INDEX", "INSERT 0 2"]);
    (session, other)
}

#[test]
fn plans_learn_of_new_labels() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(o, "prepare above (mood) as select k, m, past from t where m >= $1 order by m, k");
    run(o, "prepare add (int, mood) as insert into t values ($1, $2, array[$2])");
    assert_eq!(run(o, "execute above ('ok')"), ["2|ok|NULL", "SELECT 1"]);
    let added = "alter type mood add value 'meh' before 'ok'; alter type mood add value 'glad'";
    assert_eq!(run(s, added), ["ALTER TYPE", "ALTER TYPE"]);
    run(s, "insert into t values (3, 'meh', '{glad,meh}'), (4, 'glad', null)");
    assert_eq!(
        run(o, "execute above ('meh')"),
        ["3|meh|{glad,meh}", "2|ok|NULL", "4|glad|NULL", "SELECT 3"]
    );
    assert_eq!(run(o, "execute add (5, 'glad')"), ["INSERT 0 1"]);
    assert_eq!(
        run(s, "select k, past from t where m = 'glad' order by k"),
        ["4|NULL", "5|{glad}", "SELECT 2"]
    );
    assert_eq!(run(s, "alter type mood rename value 'ok' to 'fine'"), ["ALTER TYPE"]);
    assert_eq!(run(s, "insert into t (k) values (6)"), ["INSERT 0 1"]);
    assert_eq!(
        run(o, "execute above ('fine')"),
        ["2|fine|NULL", "6|fine|NULL", "4|glad|NULL", "5|glad|{glad}", "SELECT 4"]
    );
    assert_eq!(
        run(o, "select past from t where k = 1; select 'ok'::mood"),
        ["{fine}", "SELECT 1", "22P02 invalid input value for enum mood: \"ok\""]
    );
}

#[test]
fn plans_without_a_table_learn_that_a_type_is_another() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(s, "create type hue as enum ('red', 'blue')");
    run(o, "prepare least as select 'blue'::hue < 'red', enum_range(null::hue)");
    assert_eq!(run(o, "execute least"), ["f|{red,blue}", "SELECT 1"]);
    assert_eq!(run(s, "drop type hue"), ["DROP TYPE"]);
    assert_eq!(run(o, "execute least"), ["42704 type \"hue\" does not exist"]);
    run(s, "create type hue as enum ('blue', 'red')");
    // Its array is another type.
    assert_eq!(run(o, "execute least"), ["0A000 cached plan must not change result type"]);
    run(o, "deallocate least; prepare least as select 'blue'::hue < 'red', enum_range(null::hue)");
    assert_eq!(run(o, "execute least"), ["t|{blue,red}", "SELECT 1"]);
    run(s, "alter type hue add value 'green' after 'blue'");
    assert_eq!(run(o, "execute least"), ["t|{blue,green,red}", "SELECT 1"]);
    // A view names it.
    run(s, "create view first_hue as select enum_first(null::hue) as h");
    assert_eq!(run(o, "select * from first_hue"), ["blue", "SELECT 1"]);
    run(s, "alter type hue add value 'black' before 'blue'");
    assert_eq!(run(o, "select * from first_hue"), ["black", "SELECT 1"]);
    let refused = run(s, "drop type hue");
    assert!(refused[0].starts_with("2BP01"), "{refused:?}");
    assert_eq!(
        run(s, "drop type hue cascade"),
        ["NOTICE drop cascades to view first_hue", "DROP TYPE"]
    );
    assert_eq!(run(o, "select * from first_hue").len(), 1);
}

#[test]
fn a_transaction_sees_its_own_changes_of_a_type_alone() {
    let (mut session, mut other) = on_two_nodes();
    let (s, o) = (&mut session, &mut other);
    run(s, "begin; alter type mood add value 'new' after 'sad'; insert into t values (7, 'new')");
    assert_eq!(run(s, "select k from t where m > 'sad' order by m"), ["7", "2", "SELECT 2"]);
    assert_eq!(run(o, "select 'new'::mood"), ["22P02 invalid input value for enum mood: \"new\""]);
    run(s, "rollback");
    // Another label takes its place.
    assert_eq!(run(o, "alter type mood add value 'other' after 'sad'"), ["ALTER TYPE"]);
    run(o, "insert into t values (8, 'other')");
    assert_eq!(run(s, "select k, m from t order by m"), ["1|sad", "8|other", "2|ok", "SELECT 3"]);
}

#[test]
fn changes_of_tables_keep_what_uses_a_type() {
    let (mut session, _) = on_two_nodes();
    let s = &mut session;
    for (change, is_used) in [
        ("alter table t drop column past", true),
        ("alter table t rename to u", true),
        ("truncate u", true),
        ("create index on u (m desc)", true),
        ("alter table u alter column m drop default, alter column m type text", false),
        ("alter table u alter column m type mood using m::mood", true),
        ("alter table u add column n mood", true),
        ("alter table u drop column m", true),
        ("drop table u", false),
    ] {
        let done = run(s, change);
        assert_eq!(done.len(), 1, "{change}: {done:?}");
        assert!(!done[0].contains(' ') || !done[0].as_bytes()[0].is_ascii_digit(), "{done:?}");
        let refused = run(s, "begin; drop type mood");
        run(s, "rollback");
        assert_eq!(refused[1].starts_with("2BP01"), is_used, "{change}: {refused:?}");
    }
    assert_eq!(run(s, "drop type mood"), ["DROP TYPE"]);
}

#[test]
fn a_label_that_a_text_names_is_not_renamed() {
    let (mut session, _) = on_two_nodes();
    let s = &mut session;
    run(s, "create table log (m mood, note text default 'ok', past mood[] default '{sad}')");
    run(s, "create view sad as select k from t where m = 'sad'");
    run(s, "create view of_view as select * from sad");
    let refused = |done: Vec<String>| done[0].starts_with("0A000 renaming the label");
    assert!(refused(run(s, "alter type mood rename value 'sad' to 'blue'")));
    run(s, "drop view sad cascade");
    // The default is a list of labels.
    assert!(refused(run(s, "alter type mood rename value 'sad' to 'blue'")));
    run(s, "alter table log alter past drop default, add check (m <> 'sad')");
    assert!(refused(run(s, "alter type mood rename value 'sad' to 'blue'")));
    // A text is no label.
    assert_eq!(run(s, "alter type mood rename value 'ok' to 'fine'"), ["ALTER TYPE"]);
    assert_eq!(run(s, "insert into log default values returning *")[0], "NULL|ok|NULL");
    assert_eq!(run(s, "insert into t (k) values (9) returning m")[0], "fine");
}

#[test]
fn execute_runs_no_execute() {
    let (mut session, _) = session();
    let s = &mut session;
    futures::executor::block_on(s.parse("again", "execute again", &[])).unwrap();
    assert!(run(s, "execute again")[0].starts_with("0A000"));
    futures::executor::block_on(s.parse("begins", "begin", &[])).unwrap();
    assert!(run(s, "execute begins")[0].starts_with("0A000"));
}

#[test]
fn a_replay_fills_no_table_of_another_transaction() {
    let (mut session, memory) = session();
    let mut other = session_of(Engine::new("postgres", Arc::new(memory.clone())));
    let (s, o) = (&mut session, &mut other);
    assert_eq!(run(s, "begin; create table if not exists c as select 1 as k").len(), 2);
    assert_eq!(run(o, "create table c (k int, v int); insert into c values (7, 7)").len(), 2);
    memory.abort_commits(1);
    let refused = run(s, "commit");
    assert!(refused[0].starts_with("40001"), "{refused:?}");
    assert_eq!(run(s, "select * from c"), ["7|7", "SELECT 1"]);
    assert_eq!(
        run(s, "create table if not exists c as select 2"),
        ["NOTICE relation \"c\" already exists, skipping", "CREATE TABLE AS"]
    );
}
