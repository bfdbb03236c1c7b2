//! Fields of errors that drivers read, and the portals that they move by name.

use crate::common::{Message, Raw, bind, codes, execute, parse, query, say, start, sync, tags};

/// Returns the fields of the error that a query ends with: schema, table, column and constraint.
async fn about(raw: &mut Raw, sql: &str) -> (String, [Option<String>; 4]) {
    let answer = say(raw, query(sql)).await;
    let error = answer.iter().find(|message| message.tag == b'E');
    let error = error.unwrap_or_else(|| panic!("{sql}: {answer:?}"));
    let code = error.field(b'C').expect("an SQLSTATE");
    (code, [b's', b't', b'c', b'n'].map(|kind| error.field(kind)))
}

/// Each error names what PostgreSQL 15 names, also one that the commit or COPY finds.
#[tokio::test]
async fn errors_name_the_table_the_column_and_the_constraint() {
    let server = start().await;
    let mut raw = server.session().await;
    let schema = "create schema s;
        create table s.p (id int primary key, u int unique);
        create table s.c (id int, p int references s.p deferrable initially deferred,
                          n int not null, k int constraint positive check (k > 0));
        create table t (a int primary key, b int);
        insert into s.p values (1, 1), (2, 2);
        insert into s.c values (1, 1, 1, 1);
        insert into t values (1, 7), (2, 7), (3, null)";
    assert_eq!(codes(&say(&mut raw, query(schema)).await), [""; 0]);
    for (sql, code, fields) in [
        ("insert into s.p values (1, 3)", "23505", ["s", "p", "", "p_pkey"]),
        ("insert into s.p values (3, 1)", "23505", ["s", "p", "", "p_u_key"]),
        (
            "insert into s.p values (3, 1) on conflict (id) do nothing",
            "23505",
            ["s", "p", "", "p_u_key"],
        ),
        ("update s.p set u = 2 where id = 1", "23505", ["s", "p", "", "p_u_key"]),
        ("insert into s.c values (1, 1, null, 1)", "23502", ["s", "c", "n", ""]),
        ("insert into s.c values (1, 1, 1, 0)", "23514", ["s", "c", "", "positive"]),
        ("insert into s.c values (1, 9, 1, 1)", "23503", ["s", "c", "", "c_p_fkey"]),
        ("begin; insert into s.c values (1, 9, 1, 1); commit", "23503", ["s", "c", "", "c_p_fkey"]),
        ("delete from s.p", "23503", ["s", "c", "", "c_p_fkey"]),
        ("alter table t alter b set not null", "23502", ["public", "t", "b", ""]),
        ("alter table t add c int not null", "23502", ["public", "t", "c", ""]),
        ("alter table t add constraint big check (a > 1)", "23514", ["public", "t", "", "big"]),
        (
            "alter table t add constraint away foreign key (a) references s.p",
            "23503",
            ["public", "t", "", "away"],
        ),
        ("create unique index once on t (b)", "23505", ["public", "t", "", "once"]),
        ("select 1 / 0", "22012", ["", "", "", ""]),
    ] {
        let (found, names) = about(&mut raw, sql).await;
        let fields = fields.map(|name| (!name.is_empty()).then(|| name.to_owned()));
        assert_eq!((found.as_str(), names), (code, fields), "{sql}");
    }
    assert_eq!(tags(&say(&mut raw, query("alter schema s rename to r")).await), "CZ");
    raw.send(query("copy r.p from stdin")).await;
    raw.until(b'G').await;
    raw.send(crate::common::message(b'd', b"1\t5\n")).await;
    raw.send(crate::common::message(b'c', b"")).await;
    let answer = raw.until(b'Z').await;
    let error = answer.iter().find(|message| message.tag == b'E').expect("it is there");
    let named = [b's', b't', b'n', b'D'].map(|kind| error.field(kind).unwrap_or_default());
    assert_eq!(named, ["r", "p", "p_pkey", "Key (id)=(1) already exists."]);
}

/// The detail of an error shows the beginning of a long value only.
#[tokio::test]
async fn a_failing_row_is_cut() {
    let server = start().await;
    let mut raw = server.session().await;
    say(&mut raw, query("create table t (a text, b int not null)")).await;
    let answer = say(&mut raw, query("insert into t values (repeat('xé', 30), null)")).await;
    let detail = answer[0].field(b'D').expect("a detail");
    assert_eq!(detail, format!("Failing row contains ({}x..., null).", "xé".repeat(21)));
}

/// Drivers prepare a statement again when they read the routine of this error.
#[tokio::test]
async fn a_plan_with_other_columns_names_its_routine() {
    let server = start().await;
    let mut raw = server.session().await;
    say(&mut raw, query("create table t (a int)")).await;
    say(&mut raw, [parse("p", "select * from t"), sync()].concat()).await;
    say(&mut raw, query("alter table t add b int")).await;
    let answer = say(&mut raw, [bind("", "p", &[]), execute("", 0), sync()].concat()).await;
    let error = answer.iter().find(|message| message.tag == b'E').expect("other columns");
    let named = [b'C', b'R'].map(|kind| error.field(kind).unwrap_or_default());
    assert_eq!(named, ["0A000", "RevalidateCachedQuery"]);
}

fn values(answer: &[Message]) -> Vec<String> {
    let rows = answer.iter().filter(|message| message.tag == b'D');
    rows.map(|row| String::from_utf8_lossy(row.row()[0].as_deref().unwrap_or(b"")).into()).collect()
}

/// MOVE, FETCH and CLOSE find the portal of a Bind by its name, and it keeps its formats.
#[tokio::test]
async fn statements_move_the_portal_of_a_bind() {
    let server = start().await;
    let mut raw = server.session().await;
    say(&mut raw, query("begin")).await;
    let select = "select g from generate_series(1, 7) g";
    let binary = b"C 1\0p\0\0\0\0\0\0\x01\0\x01";
    let bound = crate::common::message(b'B', binary);
    say(&mut raw, [parse("p", select), bound, execute("C 1", 2), sync()].concat()).await;
    let moved = say(&mut raw, query("move 2 in \"C 1\"")).await;
    assert_eq!((tags(&moved).as_str(), &moved[0].body[..]), ("CZ", &b"MOVE 2\0"[..]));
    let answer = say(&mut raw, [execute("C 1", 1), sync()].concat()).await;
    assert_eq!(tags(&answer), "DsZ");
    assert_eq!(answer[0].row(), [Some(vec![0, 0, 0, 5])], "still in binary");
    assert_eq!(values(&say(&mut raw, query("fetch relative 1 \"C 1\"")).await), ["6"]);
    let shown = say(&mut raw, query("select name, statement from pg_cursors")).await;
    assert_eq!(values(&shown), ["C 1"]);
    assert_eq!(values(&say(&mut raw, query("fetch all \"C 1\"")).await), ["7"]);
    assert_eq!(values(&say(&mut raw, query("fetch next \"C 1\"")).await), [""; 0]);
    let answer = say(&mut raw, [execute("C 1", 1), sync()].concat()).await;
    assert_eq!(answer[0].body, b"SELECT 0\0");
    assert_eq!(codes(&say(&mut raw, query("savepoint a; fetch prior \"C 1\"")).await), ["55000"]);
    say(&mut raw, query("rollback to a")).await;
    assert_eq!(tags(&say(&mut raw, query("close \"C 1\"")).await), "CZ");
    assert_eq!(codes(&say(&mut raw, query("fetch 1 \"C 1\"")).await), ["34000"]);
}
