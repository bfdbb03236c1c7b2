//! The messages of a result: its description, its rows in the requested formats, and its errors and
//! notices.

use crate::backend::{Field, Report};
use crate::link::Link;
use meridian_sql::{Column, Datum, SqlError, Zone};

/// The formats in which a portal's columns are sent.
#[derive(Clone, Debug)]
pub(crate) enum Formats {
    Text,
    Binary,
    Each(Vec<i16>),
}

impl Formats {
    pub(crate) fn of(codes: Vec<i16>) -> Formats {
        match codes[..] {
            [] | [0] => Formats::Text,
            [1] => Formats::Binary,
            _ => Formats::Each(codes),
        }
    }

    pub(crate) fn column(&self, index: usize) -> i16 {
        match self {
            Formats::Text => 0,
            Formats::Binary => 1,
            Formats::Each(codes) => codes.get(index).copied().unwrap_or(0),
        }
    }
}

/// Returns an error as the fields of its message.
pub(crate) fn as_report<'a>(severity: &'a str, error: &'a SqlError) -> Report<'a> {
    Report {
        severity,
        code: error.sqlstate,
        message: &error.message,
        detail: error.detail.as_deref(),
        hint: error.hint.as_deref(),
        position: error.position,
        fields: error.fields.as_deref(),
    }
}

/// Sends a notice or warning, by its SQLSTATE.
pub(crate) fn notice(link: &mut Link, error: &SqlError) {
    let severity = if meridian_sql::is_warning(error) { "WARNING" } else { "NOTICE" };
    link.answers.notice(&as_report(severity, error));
}

/// Sends RowDescription, or NoData.
pub(crate) fn describe_columns(link: &mut Link, columns: Option<&[Column]>, formats: &Formats) {
    match columns {
        None => link.answers.no_data(),
        Some(columns) => {
            link.answers.row_description(columns.iter().enumerate().map(|(index, column)| Field {
                name: &column.name,
                table: column.table,
                number: column.number,
                oid: column.ty.oid(),
                size: column.ty.length(),
                modifier: column.ty.modifier(),
                format: formats.column(index),
            }))
        }
    }
}

/// Sends DataRow. `text` is scratch space.
pub(crate) fn send_row(
    link: &mut Link,
    text: &mut String,
    columns: &[Column],
    row: &[Datum],
    formats: &Formats,
    zone: &Zone,
) {
    link.answers.message(b'D', |body| {
        body.extend_from_slice(&(row.len() as u16).to_be_bytes());
        for (index, (datum, column)) in row.iter().zip(columns).enumerate() {
            let start = body.len();
            body.extend_from_slice(&(-1i32).to_be_bytes());
            let present = if formats.column(index) == 1 {
                datum.write_binary(column.ty, body)
            } else {
                text.clear();
                let present = datum.write_text(column.ty, zone, text);
                body.extend_from_slice(text.as_bytes());
                present
            };
            if present {
                let length = u32::try_from(body.len() - start - 4)
                    .expect("invariant: a value is shorter than 4 GB");
                body[start..start + 4].copy_from_slice(&length.to_be_bytes());
            }
        }
    });
}
