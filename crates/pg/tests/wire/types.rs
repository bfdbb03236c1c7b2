//! Tests every type in both formats, as parameter and as result.

use crate::common::start;
use bytes::BytesMut;
use std::error::Error;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A value as its bytes on the wire.
#[derive(Debug, PartialEq, Eq)]
struct Binary(Vec<u8>);

impl<'a> FromSql<'a> for Binary {
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Binary(bytes.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Binary {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

const DAY_US: i64 = 86_400_000_000;

/// Returns each type with its object id, a text, and the bytes.
fn values() -> Vec<(&'static str, u32, &'static str, Vec<u8>)> {
    vec![
        ("bool", 16, "t", vec![1]),
        ("bool", 16, "f", vec![0]),
        ("int2", 21, "-32768", i16::MIN.to_be_bytes().to_vec()),
        ("int4", 23, "2147483647", i32::MAX.to_be_bytes().to_vec()),
        ("int8", 20, "-9223372036854775808", i64::MIN.to_be_bytes().to_vec()),
        ("oid", 26, "4294967295", u32::MAX.to_be_bytes().to_vec()),
        ("name", 19, "it's", b"it's".to_vec()),
        ("\"char\"", 18, "r", b"r".to_vec()),
        ("\"char\"", 18, "", vec![0]),
        ("float4", 700, "1.1", 1.1f32.to_be_bytes().to_vec()),
        ("float4", 700, "-Infinity", f32::NEG_INFINITY.to_be_bytes().to_vec()),
        ("bit(3)", 1560, "101", vec![0, 0, 0, 3, 0b1010_0000]),
        ("varbit", 1562, "", vec![0, 0, 0, 0]),
        ("varbit(20)", 1562, "000000001", vec![0, 0, 0, 9, 0, 0b1000_0000]),
        // Microseconds, and seconds to the west.
        (
            "timetz",
            1266,
            "00:00:01.5+02",
            [&1_500_000i64.to_be_bytes()[..], &(-7200i32).to_be_bytes()].concat(),
        ),
        ("float8", 701, "-1.5", (-1.5f64).to_be_bytes().to_vec()),
        ("float8", 701, "Infinity", f64::INFINITY.to_be_bytes().to_vec()),
        // Digits in base 10000: 1234, 5600 with weight 0, sign minus, two decimal places.
        ("numeric", 1700, "-1234.56", vec![0, 2, 0, 0, 0x40, 0, 0, 2, 0x04, 0xd2, 0x15, 0xe0]),
        ("numeric", 1700, "0", vec![0, 0, 0, 0, 0, 0, 0, 0]),
        ("numeric(10,2)", 1700, "10000.10", vec![0, 3, 0, 1, 0, 0, 0, 2, 0, 1, 0, 0, 0x03, 0xe8]),
        ("text", 25, "žluťoučký kůň 🐎", "žluťoučký kůň 🐎".as_bytes().to_vec()),
        ("varchar(20)", 1043, "it's", b"it's".to_vec()),
        ("char(5)", 1042, "ab   ", b"ab   ".to_vec()),
        ("bytea", 17, "\\x00ff10", vec![0, 0xff, 0x10]),
        (
            "uuid",
            2950,
            "00112233-4455-6677-8899-aabbccddeeff",
            vec![
                0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
                0xee, 0xff,
            ],
        ),
        ("date", 1082, "2000-02-29", 59i32.to_be_bytes().to_vec()),
        ("date", 1082, "1999-12-31", (-1i32).to_be_bytes().to_vec()),
        ("time", 1083, "00:00:01.5", 1_500_000i64.to_be_bytes().to_vec()),
        ("time", 1083, "24:00:00", DAY_US.to_be_bytes().to_vec()),
        ("timestamp", 1114, "2000-01-02 00:00:01.5", (DAY_US + 1_500_000).to_be_bytes().to_vec()),
        ("json", 114, "{\"a\":  [1.0]}", b"{\"a\":  [1.0]}".to_vec()),
        ("jsonb", 3802, "{\"a\": [1.0]}", b"\x01{\"a\": [1.0]}".to_vec()),
        ("timestamptz", 1184, "1999-12-31 23:59:59+00", (-1_000_000i64).to_be_bytes().to_vec()),
    ]
}

#[tokio::test]
async fn values_come_back_as_they_went_in_in_both_formats() {
    let server = start().await;
    let client = server.client().await;
    for (number, (ty, oid, text, bytes)) in values().into_iter().enumerate() {
        let table = format!("v{number}");
        client
            .batch_execute(&format!("CREATE TABLE {table} (id int PRIMARY KEY, v {ty})"))
            .await
            .expect("is made");
        let insert = client
            .prepare(&format!("INSERT INTO {table} VALUES ($1, $2)"))
            .await
            .expect("is prepared");
        let oids: Vec<u32> = insert.params().iter().map(Type::oid).collect();
        // Its length limit is checked when the value is stored.
        assert_eq!(oids, [23, oid], "{ty}");
        client
            .execute(&insert, &[&1i32, &Binary(bytes.clone())])
            .await
            .unwrap_or_else(|error| panic!("{ty} {text}: {error:?}"));
        client.execute(&insert, &[&2i32, &None::<Binary>]).await.expect("takes NULL");
        client
            .batch_execute(&format!(
                "INSERT INTO {table} VALUES (3, '{}')",
                text.replace('\'', "''")
            ))
            .await
            .unwrap_or_else(|error| panic!("{ty} {text}: {error:?}"));

        let select = format!("SELECT v FROM {table} ORDER BY id");
        let rows = client.query(&select, &[]).await.expect("is read");
        assert_eq!(rows[0].columns()[0].type_().oid(), oid, "{ty}");
        let got: Vec<Option<Binary>> = rows.iter().map(|row| row.get(0)).collect();
        let expected = || Some(Binary(bytes.clone()));
        assert_eq!(got, [expected(), None, expected()], "{ty} {text} in binary");

        let messages = client.simple_query(&select).await.expect("is read");
        let got: Vec<Option<String>> = messages
            .iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
                _ => None,
            })
            .collect();
        assert_eq!(
            got,
            [Some(text.to_owned()), None, Some(text.to_owned())],
            "{ty} {text} as text"
        );
    }
}

#[tokio::test]
async fn bytes_that_are_no_value_are_refused() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TABLE v (id int PRIMARY KEY, b bool, i int8, n numeric, d date, u uuid, s text, j json, k jsonb, t time)")
        .await
        .expect("is made");
    for (column, bytes) in [
        ("b", vec![]),
        ("i", vec![1, 2, 3]),
        ("i", vec![0; 9]),
        ("n", vec![0, 9, 0, 0, 0, 0, 0, 0]),
        ("n", vec![0xff; 8]),
        ("n", vec![0, 1, 0, 0, 0, 0, 0x40, 0, 0, 1]),
        ("d", vec![0; 3]),
        ("u", vec![0; 15]),
        ("s", vec![0xff, 0xfe]),
        ("t", vec![0; 4]),
        ("t", (DAY_US + 1).to_be_bytes().to_vec()),
        ("t", (-1i64).to_be_bytes().to_vec()),
        ("j", b"[".to_vec()),
        ("j", vec![b'"', 0xff, b'"']),
        ("k", vec![]),
        ("k", b"[]".to_vec()),
        ("k", b"\x01[".to_vec()),
        ("k", b"\x02[]".to_vec()),
    ] {
        let insert = client
            .prepare(&format!("INSERT INTO v (id, {column}) VALUES (1, $1)"))
            .await
            .expect("is prepared");
        let error =
            client.execute(&insert, &[&Binary(bytes.clone())]).await.expect_err("is refused");
        let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
        assert!(code.starts_with("22"), "{column} {bytes:?}: {code} {error:?}");
    }
    assert!(client.query("SELECT id FROM v", &[]).await.expect("runs").is_empty());
}

#[tokio::test]
async fn ids_of_objects_are_numbers_in_binary() {
    let server = start().await;
    let client = server.client().await;
    for (value, oid, id) in [
        ("'pg_class'::regclass", 2205, 1259u32),
        ("'int4'::regtype", 2206, 23),
        ("'array_in'::regproc", 24, 750),
        ("'now'::regproc", 24, 1299),
        ("'pg_catalog'::regnamespace", 4089, 11),
        ("'\"C\"'::regcollation", 4191, 950),
        ("7::regprocedure", 2202, 7),
        ("7::regoper", 2203, 7),
        ("7::regoperator", 2204, 7),
        ("7::oid", 26, 7),
    ] {
        let row = client.query_one(&format!("SELECT {value}"), &[]).await.expect(value);
        assert_eq!(row.columns()[0].type_().oid(), oid, "{value}");
        assert_eq!(row.get::<_, Binary>(0), Binary(id.to_be_bytes().to_vec()), "{value}");
    }
}

#[tokio::test]
async fn a_client_reads_the_labels_of_an_enum_type_from_the_catalog() {
    let server = start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TYPE mood AS ENUM ('sad', 'ok')").await.expect("is made");
    let select = client.prepare("SELECT $1::mood, ARRAY[$1::mood]").await.expect("is prepared");
    let labels = Kind::Enum(vec!["sad".to_owned(), "ok".to_owned()]);
    assert_eq!(select.params()[0].kind(), &labels);
    let Kind::Array(element) = select.columns()[1].type_().kind() else { panic!("no array") };
    assert_eq!((element.name(), element.kind()), ("mood", &labels));
}

#[tokio::test]
async fn the_catalog_has_postgresql_s_types() {
    let server = start().await;
    let client = server.client().await;
    for (columns, oids) in [
        ("oid, relname, relkind, reltuples FROM pg_class", &[26, 19, 18, 700][..]),
        ("relfrozenxid, relacl, relpartbound FROM pg_class", &[28, 1034, 194]),
        ("typname, typlen, typinput, typelem FROM pg_type", &[19, 21, 24, 26]),
        ("indkey, indclass, indpred FROM pg_index", &[22, 30, 194]),
        ("attrelid, attnum, attmissingval FROM pg_attribute", &[26, 21, 2277]),
        ("conkey, conpfeqop FROM pg_constraint", &[1005, 1028]),
        ("parameter_types FROM pg_prepared_statements", &[2211]),
        ("client_addr, backend_xid FROM pg_stat_activity", &[869, 28]),
        ("table_name, is_nullable FROM information_schema.columns", &[19, 1043]),
    ] {
        let statement = client.prepare(&format!("SELECT {columns}")).await.expect(columns);
        let types = statement.columns().iter().map(|column| column.type_().oid());
        assert_eq!(types.collect::<Vec<_>>(), oids, "{columns}");
    }
}

/// A parameter that stands for the result of a call.
#[derive(Debug)]
struct OutOfCall;

impl ToSql for OutOfCall {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        Ok(IsNull::Yes)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::VOID
    }

    to_sql_checked!();
}

#[tokio::test]
async fn parameters_of_type_void_are_no_arguments() {
    let server = start().await;
    let client = server.client().await;
    let call = "SELECT * FROM upper($1, $2) AS result";
    let call = client.prepare_typed(call, &[Type::VOID, Type::VARCHAR]).await.expect("prepares");
    assert_eq!(call.params(), [Type::VOID, Type::VARCHAR]);
    let row = client.query_one(&call, &[&OutOfCall, &"a"]).await.expect("runs");
    assert_eq!(row.get::<_, String>(0), "A");
}
