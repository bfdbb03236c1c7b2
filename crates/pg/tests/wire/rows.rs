//! Tests rows as values in the binary format of the wire.

use crate::common::start;
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use std::error::Error;
use tokio_postgres::types::{FromSql, Type};

/// A value in the binary format, whatever its type.
#[derive(Clone, Debug, PartialEq)]
struct Binary(Vec<u8>);

impl<'a> FromSql<'a> for Binary {
    fn from_sql(_: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Binary(bytes.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Returns a row: the number of its fields, and of each the object id of its type, its length, and
/// its value.
fn row(fields: &[(u32, Option<&[u8]>)]) -> Vec<u8> {
    let mut bytes = (fields.len() as u32).to_be_bytes().to_vec();
    for (oid, value) in fields {
        bytes.extend(oid.to_be_bytes());
        match value {
            Some(value) => {
                bytes.extend((value.len() as u32).to_be_bytes());
                bytes.extend_from_slice(value);
            }
            None => bytes.extend((-1i32).to_be_bytes()),
        }
    }
    bytes
}

#[tokio::test]
async fn anonymous_rows_are_sent_with_the_types_of_their_fields() {
    let server = start().await;
    let client = server.client().await;
    let sql = "SELECT row(1, 'x', NULL, 2::bigint), row()";
    let rows = client.query(sql, &[]).await.expect("is read");
    assert_eq!(rows[0].columns()[0].type_().oid(), 2249);
    let two = 2i64.to_be_bytes();
    let expected =
        row(&[(23, Some(&[0, 0, 0, 1])), (25, Some(b"x")), (25, None), (20, Some(&two))]);
    assert_eq!(rows[0].get::<_, Binary>(0), Binary(expected));
    assert_eq!(rows[0].get::<_, Binary>(1), Binary(row(&[])));
}

/// Returns the data of COPY in the binary format, with one record of one value.
fn copied(value: &[u8]) -> Vec<u8> {
    let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    data.extend(1i16.to_be_bytes());
    data.extend((value.len() as u32).to_be_bytes());
    data.extend(value);
    data.extend((-1i16).to_be_bytes());
    data
}

#[tokio::test]
async fn rows_of_composite_types_are_copied_in_binary() {
    let server = start().await;
    let client = server.client().await;
    client
        .batch_execute("CREATE TYPE pair AS (n int, t text); CREATE TABLE v (p pair)")
        .await
        .expect("are made");
    let copy = async |data: Vec<u8>| {
        let sink = client.copy_in("COPY v FROM STDIN (FORMAT binary)").await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from(data)).await?;
        sink.finish().await
    };
    let value = row(&[(23, Some(&[0, 0, 0, 7])), (25, None)]);
    assert_eq!(copy(copied(&value)).await.expect("is stored"), 1);
    let data = client.copy_out("COPY v TO STDOUT (FORMAT binary)").await.expect("begins");
    let data: Vec<Bytes> = data.try_collect().await.expect("is read");
    assert_eq!(data.concat(), copied(&value));
    for (wrong, code) in [
        (row(&[(23, None)]), "42804"),
        (row(&[(25, Some(b"x")), (25, None)]), "42804"),
        (row(&[(23, Some(&[1])), (25, None)]), "22P03"),
        (vec![0, 0], "22P03"),
        ([row(&[(23, None), (25, None)]), vec![0]].concat(), "22P03"),
    ] {
        let error = copy(copied(&wrong)).await.expect_err("is refused");
        assert_eq!(error.code().map(|code| code.code()), Some(code), "{wrong:?} {error:?}");
    }
}
