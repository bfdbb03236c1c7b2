//! COPY over the wire, in all formats, with PostgreSQL's answers.

use crate::common;
use crate::common::{
    Raw, bind, codes, execute, message, parse, query, say, start, status, sync, tags,
};

const TABLE: &str = r#"
    create table c (id int primary key, t text, n numeric(6,2), at timestamp, tags text[],
                    ok bool, bits bytea);
    insert into c values
        (1, E'tab\there, \\ "quote"\nline', 1.50, '2024-02-29 01:02:03.5', '{a,"b c",NULL}', true,
         '\x00ff'),
        (2, '', null, null, '{}', false, ''),
        (3, null, -7, '2000-01-02', null, null, null),
        (4, '\N', 0, '2000-01-01', '{"x,y"}', true, '\x41'),
        (5, '\.', 0, '2000-01-01', null, true, null)"#;

/// The rows of that table as PostgreSQL 15 writes them.
const AS_TEXT: &str = "\
1\ttab\\there, \\\\ \"quote\"\\nline\t1.50\t2024-02-29 01:02:03.5\t{a,\"b c\",NULL}\tt\t\\\\x00ff
2\t\t\\N\t\\N\t{}\tf\t\\\\x
3\t\\N\t-7.00\t2000-01-02 00:00:00\t\\N\t\\N\t\\N
4\t\\\\N\t0.00\t2000-01-01 00:00:00\t{\"x,y\"}\tt\t\\\\x41
5\t\\\\.\t0.00\t2000-01-01 00:00:00\t\\N\tt\t\\N
";
const AS_CSV: &str = "\
id,t,n,at,tags,ok,bits
1,\"tab\there, \\ \"\"quote\"\"
line\",1.50,2024-02-29 01:02:03.5,\"{a,\"\"b c\"\",NULL}\",t,\\x00ff
2,\"\",,,{},f,\\x
3,,-7.00,2000-01-02 00:00:00,,,
4,\\N,0.00,2000-01-01 00:00:00,\"{\"\"x,y\"\"}\",t,\\x41
5,\\.,0.00,2000-01-01 00:00:00,,t,
";

/// Runs COPY … TO STDOUT. Returns the first byte of CopyOutResponse, the data, and the tag.
async fn copied(raw: &mut Raw, sql: &str) -> (u8, Vec<u8>, Vec<u8>) {
    let answer = say(raw, query(sql)).await;
    let said = tags(&answer);
    let data = answer.iter().filter(|message| message.tag == b'd').flat_map(|it| it.body.clone());
    let records = said.matches('d').count();
    assert_eq!(said, format!("H{}cCZ", "d".repeat(records)), "{sql}");
    (answer[0].body[0], data.collect(), answer[answer.len() - 2].body.clone())
}

async fn session() -> (common::Running, Raw) {
    let server = start().await;
    let mut raw = server.session().await;
    assert_eq!(tags(&say(&mut raw, query(TABLE)).await), "CCZ");
    (server, raw)
}

#[tokio::test]
async fn rows_are_copied_out_as_postgresql_does() {
    let (_server, mut raw) = session().await;
    for (sql, expected) in [
        ("copy c to stdout", AS_TEXT),
        ("COPY public.c TO STDOUT CSV HEADER", AS_CSV),
        ("copy c to stdout with (format csv, header)", AS_CSV),
        (
            "copy c (t, id) to stdout with (header, delimiter '|', null '-')",
            "t|id\ntab\\there, \\\\ \"quote\"\\nline|1\n|2\n-|3\n\\\\N|4\n\\\\.|5\n",
        ),
        (
            "copy (select id, t, n from c order by id desc limit 2) to stdout \
             (format csv, force_quote *, null 'nil')",
            "\"5\",\"\\.\",\"0.00\"\n\"4\",\"\\N\",\"0.00\"\n",
        ),
        ("copy (select t from c where id > 3 order by id) to stdout csv", "\\N\n\"\\.\"\n"),
        ("copy (values (1, 'x')) to stdout delimiter ';'", "1;x\n"),
        ("copy (select 1 where false) to stdout csv header", "?column?\n"),
        ("copy (update c set n = n + 1 where id = 4 returning n) to stdout", "1.00\n"),
    ] {
        let (format, data, _) = copied(&mut raw, sql).await;
        assert_eq!((format, String::from_utf8(data).expect("text").as_str()), (0, expected));
    }
    let (_, _, tag) = copied(&mut raw, "copy c to stdout").await;
    assert_eq!(tag, b"COPY 5\0");
    let sql = "copy (select id, t from c where id = 3) to stdout binary";
    let (format, data, tag) = copied(&mut raw, sql).await;
    let expected =
        b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x04\0\0\0\x03\xff\xff\xff\xff\xff\xff";
    assert_eq!((format, data.as_slice(), tag.as_slice()), (1, &expected[..], &b"COPY 1\0"[..]));
}

#[tokio::test]
async fn what_is_copied_out_is_copied_in() {
    let (_server, mut raw) = session().await;
    for (to, from) in [
        ("copy c to stdout", "copy d from stdin"),
        ("copy c to stdout csv header", "copy d from stdin csv header"),
        ("copy c to stdout binary", "copy d from stdin (format binary)"),
        (
            "copy c to stdout (format csv, quote '''', escape '\\')",
            "copy d from stdin (format csv, quote '''', escape '\\')",
        ),
    ] {
        let create = "drop table if exists d; create table d (id int primary key, t text, n numeric(6,2), \
                      at timestamp, tags text[], ok bool, bits bytea)";
        let made = tags(&say(&mut raw, query(create)).await);
        // A notice says first that there is no table.
        assert_eq!(made.trim_start_matches('N'), "CCZ");
        let (format, data, _) = copied(&mut raw, to).await;
        raw.send(query(from)).await;
        let begun = raw.until(b'G').await;
        assert_eq!((begun[0].body[0], begun[0].body[2]), (format, 7), "{from}");
        let half = data.len() / 2;
        raw.send([message(b'd', &data[..half]), message(b'd', &data[half..])].concat()).await;
        let answer = say(&mut raw, message(b'c', b"")).await;
        assert_eq!(answer[0].body, b"COPY 5\0", "{from}");
        let (_, back, _) = copied(&mut raw, "copy d to stdout").await;
        assert_eq!(String::from_utf8(back).expect("text"), AS_TEXT, "{from}");
    }
}

#[tokio::test]
async fn the_extended_protocol_copies_out_everything_at_once() {
    let (_server, mut raw) = session().await;
    let fill = "insert into c (id) select generate_series(10, 2509)";
    assert_eq!(tags(&say(&mut raw, query(fill)).await), "CZ");
    let all = [
        parse("", "copy c (id) to stdout"),
        message(b'D', b"S\0"),
        bind("", "", &[]),
        execute("", 7),
        sync(),
    ];
    let answer = say(&mut raw, all.concat()).await;
    assert_eq!(tags(&answer), format!("1tn2H{}cCZ", "d".repeat(2505)));
    assert_eq!(answer[answer.len() - 2].body, b"COPY 2505\0");
}

#[tokio::test]
async fn a_copy_that_cannot_be_says_why() {
    let (_server, mut raw) = session().await;
    for (sql, code) in [
        ("copy c (t, nosuch) to stdout", "42703"),
        ("copy nosuch to stdout", "42P01"),
        ("copy c where id > 1 to stdout", "42601"),
        ("copy c (id, upper(t)) to stdout", "42601"),
        ("copy c, c to stdout", "42601"),
        ("copy c () to stdout", "42601"),
        ("copy c to 'rows.tsv'", "0A000"),
        ("copy c to program 'cat'", "0A000"),
        ("copy c from 'rows.tsv'", "0A000"),
        ("copy (select 1) to stdout (format csv, force_quote (b))", "42703"),
        ("copy c to stdout (force_quote (t))", "0A000"),
        ("copy c from stdin (format csv, force_null (nosuch))", "42703"),
        ("copy c (id) from stdin (format csv, force_null (t))", "42P10"),
        ("copy c to stdout (format xml)", "22023"),
        ("copy (select 1 / (id - 3) from c) to stdout", "22012"),
        ("copy c to stdout (delimiter 'ab')", "42601"),
    ] {
        let answer = say(&mut raw, query(sql)).await;
        assert_eq!(codes(&answer), [code], "{sql}");
        assert_eq!(status(&answer), b'I', "{sql}");
    }
    for (sql, data, code, detail) in [
        ("copy c from stdin csv", "9,\"open", "22P04", "COPY c, line 1"),
        ("copy c (id) from stdin csv", "8\n9,1\n", "22P04", "COPY c, line 2"),
        ("copy c (id) from stdin binary", "9\n", "22P04", "COPY c, line 0"),
        (
            "copy c (id, t) from stdin csv header",
            "id,t\n8,\"a\nb\"\nx,1\n",
            "22P02",
            "COPY c, line 4, column id",
        ),
        ("copy c (id, t) from stdin", "8\t\\0\n", "22021", "COPY c, line 1, column t"),
    ] {
        raw.send([query(sql), message(b'd', data.as_bytes()), message(b'c', b"")].concat()).await;
        let answer = raw.until(b'Z').await;
        assert_eq!(codes(&answer), [code], "{sql}");
        let error = answer.iter().find(|message| message.tag == b'E').expect("an error");
        let text = String::from_utf8_lossy(&error.body).into_owned();
        assert!(text.contains(&format!("D{detail}\0")), "{sql}: {text:?}");
    }
    let left = say(&mut raw, query("select count(*) from c")).await;
    assert_eq!(left[1].row()[0].as_deref(), Some(&b"5"[..]));
}

/// In binary, the header comes with the first row, or with the end, as clients expect.
#[tokio::test]
async fn the_header_of_binary_comes_with_the_first_row() {
    let server = start().await;
    let mut raw = server.session().await;
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let (one, two) = (b"\0\x01\0\0\0\x04\0\0\0\x01", b"\0\x01\0\0\0\x04\0\0\0\x02");
    let end = b"\xff\xff";
    for (sql, expected) in [
        (
            "copy (values (1), (2)) to stdout binary",
            vec![[&header[..], one].concat(), two.to_vec(), end.to_vec()],
        ),
        ("copy (select 1 where false) to stdout binary", vec![[&header[..], end].concat()]),
    ] {
        let answer = say(&mut raw, query(sql)).await;
        let data = answer.iter().filter(|message| message.tag == b'd');
        assert_eq!(data.map(|it| it.body.clone()).collect::<Vec<_>>(), expected, "{sql}");
    }
}
